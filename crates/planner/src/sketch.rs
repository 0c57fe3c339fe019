//! The cluster in numbers: who holds and leads what now, and who shall.
//!
//! A wish is planned by changing `copies` and `leader` of buckets; the steps follow from the difference to what is. Nodes and
//! buckets are known by their place here, which is in the order of their ids.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use blueprint::{Blueprint, Bucket, BucketId, KeyspaceId, Kind, NodeId, NodeState, OperationId, SlotSet, Step};

use crate::Facts;
use crate::zones::Zones;

pub(crate) type NodeAt = usize;
pub(crate) type BucketAt = usize;

/// What a bucket of average size weighs. Fine enough that rounding never adds up to a bucket.
pub(crate) const UNIT: i64 = 1 << 20;
/// An empty bucket weighs a little, too: it has a log, leases and beacons like any other.
const LIGHTEST: i64 = UNIT / 1024;

#[derive(Debug)]
pub(crate) struct Sketch {
    pub(crate) nodes: Vec<Site>,
    pub(crate) buckets: Vec<Piece>,
    /// Those that come before everything else, in this order.
    pub(crate) splits: Vec<Cut>,
    /// Those that come after everything else: the first becomes part of the second.
    pub(crate) merges: Vec<(BucketAt, BucketAt)>,
    /// Their names; what a site has is the place in here.
    pub(crate) zones: Vec<String>,
    /// The first id that is not issued yet.
    free: BucketId,
    /// See [`Facts::least`].
    least: u64,
}

/// A node.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) id: NodeId,
    pub(crate) zone: usize,
    pub(crate) state: SiteState,
    /// Room on its disk, if known.
    pub(crate) free: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SiteState {
    Open,
    /// Keeps its copies, gets none, leads nothing.
    Draining,
    /// Present, but what it has is to go elsewhere.
    Leaving,
    /// What it has counts as lost: coordinators are about to say so.
    Departed,
}

/// A bucket.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) id: BucketId,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: Kind,
    pub(crate) slots: SlotSet,
    /// What a copy takes, if known.
    pub(crate) bytes: Option<u64>,
    /// How many copies there should be.
    pub(crate) wanted: usize,
    pub(crate) min_in_sync: u8,
    /// The minimum as it shall be.
    pub(crate) minimum: u8,
    /// Members now, the primary first.
    pub(crate) members: Vec<NodeAt>,
    pub(crate) candidates: Vec<NodeAt>,
    /// Members and candidates as they shall be.
    pub(crate) copies: Vec<NodeAt>,
    pub(crate) leader: NodeAt,
    pub(crate) fixed: Option<Fixed>,
}

/// Why nothing about a bucket can be changed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fixed {
    /// It is drawn as the operation will leave it.
    Busy(OperationId),
    PrimaryDeparted(NodeId),
    /// It and that one are about to be one, whoever asked for it.
    Merging(BucketId),
}

#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) parent: BucketAt,
    pub(crate) child: BucketAt,
    /// Those that the child begins with: it may be split, too.
    pub(crate) slots: SlotSet,
    pub(crate) why: String,
}

impl Sketch {
    pub(crate) fn of(blueprint: &Blueprint, facts: &Facts) -> Self {
        let names: BTreeMap<&str, usize> = blueprint.nodes.values().map(|n| (n.zone.as_str(), 0)).collect();
        let zones: Vec<String> = names.into_keys().map(String::from).collect();
        let site = |node: &blueprint::Node| Site {
            id: node.id,
            zone: zones.binary_search(&node.zone).expect("the zone of every node is there"),
            state: match node.state {
                NodeState::Departed => SiteState::Departed,
                NodeState::Present if blueprint.drains(node.id) || facts.leaving.contains(&node.id) => {
                    SiteState::Draining
                }
                NodeState::Present => SiteState::Open,
            },
            free: facts.free.get(&node.id).copied(),
        };
        let nodes = blueprint.nodes.values().map(site).collect();
        let mut sketch = Self {
            nodes,
            buckets: Vec::new(),
            splits: Vec::new(),
            merges: Vec::new(),
            zones,
            free: blueprint.next_bucket,
            least: facts.least,
        };
        let busy = busy(blueprint);
        for bucket in blueprint.buckets.values() {
            sketch.draw(blueprint, facts, bucket, busy.get(&bucket.id).copied());
        }
        sketch
    }

    fn draw(&mut self, blueprint: &Blueprint, facts: &Facts, bucket: &Bucket, busy: Option<OperationId>) {
        let Some(government) = bucket.government() else { return };
        let keyspace = &blueprint.keyspaces[&bucket.keyspace];
        let at = |node| self.node(node).expect("whoever is named is known");
        let members: Vec<NodeAt> = government.members().map(|m| at(m.node)).collect();
        let candidates: Vec<NodeAt> = government.candidates.iter().map(|m| at(m.node)).collect();
        let (leader, mut copies) = (members[0], members.clone());
        copies.extend(candidates.iter().copied());
        let departed = self.nodes[leader].state == SiteState::Departed;
        let fixed = match busy {
            Some(by) => Some(Fixed::Busy(by)),
            None if bucket.bond.is_some() => bucket.bond.and_then(|bond| bond.partner()).map(Fixed::Merging),
            None => departed.then_some(Fixed::PrimaryDeparted(government.primary.node)),
        };
        let mut piece = Piece {
            id: bucket.id,
            keyspace: keyspace.id,
            kind: keyspace.kind,
            slots: bucket.slots.clone(),
            bytes: facts.bytes.get(&bucket.id).copied(),
            wanted: usize::from(keyspace.replicas),
            min_in_sync: government.min_in_sync,
            minimum: government.min_in_sync,
            members,
            candidates,
            copies,
            leader,
            fixed,
        };
        if let Some(by) = busy {
            let operation = &blueprint.operations[&by];
            for step in &operation.steps[operation.at as usize..] {
                self.foresee(&mut piece, step);
            }
        }
        self.buckets.push(piece);
    }

    /// What a step of an operation under way will make of its bucket.
    fn foresee(&self, piece: &mut Piece, step: &Step) {
        let Some(node) = step.node().and_then(|node| self.node(node)) else { return };
        if step.bucket() != Some(piece.id) {
            return;
        }
        match step {
            Step::Enlist { .. } if !piece.copies.contains(&node) => piece.copies.push(node),
            Step::Dismiss { .. } => piece.copies.retain(|n| *n != node),
            Step::HandOver { .. } => piece.leader = node,
            Step::Enlist { .. }
            | Step::Merge { .. }
            | Step::AwaitSeated { .. }
            | Step::Split { .. }
            | Step::SetMinimum { .. }
            | Step::Mark { .. }
            | Step::SetReplicas { .. }
            | Step::RemoveKeyspace { .. }
            | Step::AwaitRestart { .. }
            | Step::Repair { .. }
            | Step::AwaitErased { .. } => {}
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<NodeAt> {
        self.nodes.binary_search_by_key(&id, |site| site.id).ok()
    }

    pub(crate) fn bucket(&self, id: BucketId) -> Option<BucketAt> {
        self.buckets.binary_search_by_key(&id, |piece| piece.id).ok()
    }

    pub(crate) fn is_open(&self, node: NodeAt) -> bool {
        self.nodes[node].state == SiteState::Open
    }

    pub(crate) fn open_nodes(&self) -> impl Iterator<Item = NodeAt> + '_ {
        (0..self.nodes.len()).filter(|node| self.is_open(*node))
    }

    /// Whether a copy there is one to count on, when all is done.
    pub(crate) fn stays(&self, node: NodeAt) -> bool {
        match self.nodes[node].state {
            SiteState::Open | SiteState::Draining => true,
            SiteState::Leaving | SiteState::Departed => false,
        }
    }

    /// Those copies that can be counted on.
    pub(crate) fn lasting_copies(&self, bucket: BucketAt) -> impl Iterator<Item = NodeAt> + '_ {
        self.buckets[bucket].copies.iter().copied().filter(|node| self.stays(*node))
    }

    pub(crate) fn copies_in_zone(&self, bucket: BucketAt, zone: usize) -> usize {
        self.lasting_copies(bucket).filter(|node| self.nodes[*node].zone == zone).count()
    }

    pub(crate) fn zone_rule(&self) -> Zones {
        let mut sizes = vec![0; self.zones.len()];
        for (_, site) in self.nodes.iter().enumerate().filter(|(at, _)| self.stays(*at)) {
            sizes[site.zone] += 1;
        }
        Zones::of(&sizes)
    }

    /// How much each bucket counts: by bytes, as far as they are known.
    pub(crate) fn weights(&self) -> Vec<i64> {
        let size = |piece: &Piece| piece.bytes.map(|bytes| bytes.max(self.least));
        let known: Vec<u64> = self.buckets.iter().filter_map(size).collect();
        let total: u128 = known.iter().map(|bytes| u128::from(*bytes)).sum();
        let weight = |piece: &Piece| match size(piece) {
            Some(bytes) if total > 0 => {
                let weight = u128::from(bytes) * known.len() as u128 * UNIT as u128 / total;
                i64::try_from(weight).expect("a bucket weighs no more than all of them").max(LIGHTEST)
            }
            _ => UNIT,
        };
        self.buckets.iter().map(weight).collect()
    }

    pub(crate) fn has_room(&self, bucket: BucketAt, node: NodeAt) -> bool {
        self.nodes[node].free.is_none_or(|free| free >= self.cost(bucket, node))
    }

    /// What has a copy there already costs nothing more.
    fn cost(&self, bucket: BucketAt, node: NodeAt) -> u64 {
        let piece = &self.buckets[bucket];
        if piece.held(node) { 0 } else { piece.bytes.unwrap_or(0) }
    }

    pub(crate) fn give(&mut self, bucket: BucketAt, node: NodeAt) {
        assert!(!self.buckets[bucket].copies.contains(&node), "two copies on one node are one");
        let cost = self.cost(bucket, node);
        if let Some(free) = &mut self.nodes[node].free {
            *free = free.saturating_sub(cost);
        }
        self.buckets[bucket].copies.push(node);
    }

    /// A copy that was there before still takes its place: it is erased only when all is done.
    pub(crate) fn take(&mut self, bucket: BucketAt, node: NodeAt) {
        assert!(self.buckets[bucket].copies.contains(&node), "only a copy that is there can be taken");
        let cost = self.cost(bucket, node);
        if let Some(free) = &mut self.nodes[node].free {
            *free += cost;
        }
        self.buckets[bucket].copies.retain(|n| *n != node);
    }

    /// A new bucket gets these slots, and members where its parent has them.
    pub(crate) fn split(&mut self, parent: BucketAt, slots: &SlotSet, why: String) -> BucketAt {
        let giver = &mut self.buckets[parent];
        let all = giver.slots.len();
        let left = giver.slots.difference(slots);
        assert!(!slots.is_empty() && !left.is_empty() && slots.is_subset(&giver.slots), "both get some");
        assert_eq!(giver.copies.len(), giver.members.len() + giver.candidates.len(), "splits come before moves");

        let mut child = giver.clone();
        child.id = self.free.next_child_of(giver.id);
        child.slots = slots.clone();
        if let Some(bytes) = giver.bytes {
            let share = u128::from(bytes) * u128::from(slots.len()) / u128::from(all);
            let share = u64::try_from(share).expect("a part is no larger than the whole");
            (child.bytes, giver.bytes) = (Some(share), Some(bytes - share));
        }
        giver.slots = left;
        self.free = child.id.next();
        let at = self.buckets.len();
        self.buckets.push(child);
        self.splits.push(Cut { parent, child: at, slots: slots.clone(), why });
        at
    }
}

impl Piece {
    /// Whether the node has a part in it now.
    pub(crate) fn held(&self, node: NodeAt) -> bool {
        self.members.contains(&node) || self.candidates.contains(&node)
    }

    /// Who leads it now; nobody, if it does not exist yet.
    pub(crate) fn led_by(&self) -> Option<NodeAt> {
        self.members.first().copied()
    }
}

fn busy(blueprint: &Blueprint) -> BTreeMap<BucketId, OperationId> {
    let under_way = blueprint.operations.values().filter(|operation| operation.is_under_way());
    under_way.flat_map(|operation| operation.buckets().into_iter().map(|bucket| (bucket, operation.id))).collect()
}
