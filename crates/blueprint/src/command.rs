//! Everything that can be asked of the blueprint, and the one function that does it.
//!
//! [`Blueprint::apply`] is pure, deterministic and total: the meta group runs it on its log, on every voter, and each must come to
//! the same result. An accepted change raises the epoch by exactly one; what is true already is accepted and raises nothing, so
//! that anything may be proposed again; a refusal changes nothing. To that end every command below first checks and then acts:
//! no `?` stands after the first change.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::auto::require_somebody;
use crate::blueprint::{Birth, Blueprint, Bucket, Durability, Keyspace, Kind, Node, NodeState, Rule};
use crate::intent::default_minimum;
use crate::soundness::{MAX_COUNTER, is_address, is_entry, is_name, is_zone};
use crate::{
    Breach, BucketId, Change, Conduct, Epoch, Government, Honest, Incarnation, Intent, KeyspaceId, Member, NodeId,
    OperationId, OperationState, Position, Refusal, Remedy, Slot, SlotMap, SlotSet, Step, Succession, Term, Unlawful,
};

/// More than a cluster in good health ever has in flight: only a loop that reserves and never splits gets here.
pub(crate) const MAX_RESERVED: usize = 65_536;
pub(crate) const MAX_ADDRESSES: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A new node, present from now on; or one that is known, under another name, zone or address.
    AddNode {
        id: NodeId,
        name: String,
        zone: String,
        addresses: Vec<String>,
    },
    /// The node is heard of no longer. What becomes of its buckets is decided bucket by bucket, by `Succeed`.
    Depart {
        node: NodeId,
    },
    Return {
        node: NodeId,
    },
    /// For good. A departed node's copies of removed keyspaces count as erased: they are beyond reach, and should the node be
    /// added again, their ids are retired.
    RemoveNode {
        node: NodeId,
    },
    /// One bucket per row of the placement; the first node of a row is its primary. `min_in_sync` is the smaller of 2 and
    /// `replicas` unless it is given.
    CreateKeyspace {
        name: String,
        kind: Kind,
        replicas: u8,
        min_in_sync: Option<u8>,
        durability: Durability,
        placement: Vec<Vec<NodeId>>,
    },
    RemoveKeyspace {
        keyspace: KeyspaceId,
    },
    /// This holder of a removed bucket has erased it.
    Erased {
        bucket: BucketId,
        holder: Member,
    },
    /// The next government of a bucket. At most one successor of each term is accepted (R7).
    Succeed {
        bucket: BucketId,
        replaces: Term,
        change: Change,
    },
    /// An id for the child of a later split.
    ReserveBucket {
        parent: BucketId,
    },
    /// A split, told after it committed in the parent's log, by whoever leads that in `term`.
    Register {
        parent: BucketId,
        child: BucketId,
        slots: SlotSet,
        at: Position,
        term: Term,
    },
    /// Two buckets are on their way to be one: from here on they have the same members and the same primary.
    Bind {
        absorbed: BucketId,
        into: BucketId,
        replaces: (Term, Term),
    },
    /// They are one, told after the Absorb committed in the log of the one that is left, by whoever leads that in `term`.
    Merge {
        absorbed: BucketId,
        into: BucketId,
        at: Position,
        term: Term,
    },
    /// The parts of nodes that departed pass to others, bucket by bucket. A bucket that has moved on is skipped, so this may be
    /// asked by several at once, and again.
    Relieve {
        parts: Vec<Succession>,
    },
    /// A topology change. Its id is the next one, and the children of its splits have the next bucket ids: whoever plans says
    /// what it has read, and is refused if something came between.
    StartOperation {
        id: OperationId,
        by: String,
        steps: Vec<Step>,
    },
    /// That step, counted from 0, is true or can never be: whether it is so is found out here.
    AdvanceOperation {
        id: OperationId,
        from_step: u32,
    },
    PauseOperation {
        id: OperationId,
    },
    ResumeOperation {
        id: OperationId,
    },
    CancelOperation {
        id: OperationId,
        why: String,
    },
    /// The same as `StartOperation`, and nothing is done before it is applied.
    PlanOperation {
        id: OperationId,
        by: String,
        steps: Vec<Step>,
    },
    ApplyOperation {
        id: OperationId,
    },
    /// What is in mind with a node. What a step says only while its operation is at that step: it may be taken back any moment.
    Mark {
        node: NodeId,
        intent: Intent,
        of: Option<(OperationId, u32)>,
    },
    /// How many members each bucket of the keyspace should have.
    SetReplicas {
        keyspace: KeyspaceId,
        replicas: u8,
    },
    /// From now on its copies take at most so many bytes per second, all of them together; `None`: as many as they can.
    ThrottleOperation {
        id: OperationId,
        rate: Option<u64>,
    },
    /// The node's process was started anew, and has found what it holds. Its lives are counted where its data is.
    Begin {
        node: NodeId,
        life: u64,
    },
    /// Every member of the bucket is lost, and somebody accepts that data is, too. See `repair.rs`.
    Repair {
        bucket: BucketId,
        replaces: Term,
        by: String,
        remedy: Remedy,
    },
    /// Whether the cluster rebalances by itself from now on.
    SetAutoRebalance {
        on: bool,
        by: String,
    },
    /// The same as `StartOperation`, by nobody in particular: what comes of `SetAutoRebalance`. Only as long as everything is as it
    /// was in that epoch, and nothing else goes on.
    Rebalance {
        id: OperationId,
        based_on: Epoch,
        steps: Vec<Step>,
    },
}

/// What came of an accepted command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The epoch in which what was asked for is true: the new one, or the present one when it was true already.
    pub epoch: Epoch,
    /// The id that `ReserveBucket` issued.
    pub bucket: Option<BucketId>,
    /// The id that `CreateKeyspace` issued.
    pub keyspace: Option<KeyspaceId>,
}

pub(crate) enum Outcome {
    Nothing,
    Changed,
    Reserved(BucketId),
    Created(KeyspaceId),
}

impl Blueprint {
    /// What does not depend on what coordinators report; for the rest see [`crate::MetaState::apply`].
    pub fn apply(&mut self, command: &Command) -> Result<Applied, Refusal> {
        self.apply_as::<Honest>(command)
    }

    pub(crate) fn apply_as<C: Conduct>(&mut self, command: &Command) -> Result<Applied, Refusal> {
        let before = self.epoch;
        let outcome = match command {
            Command::AddNode { id, name, zone, addresses } => self.add_node(*id, name, zone, addresses),
            Command::Depart { node } => self.depart(*node),
            Command::Return { node } => self.welcome_back(*node),
            Command::RemoveNode { node } => self.remove_node(*node),
            Command::CreateKeyspace { name, kind, replicas, min_in_sync, durability, placement } => {
                let min_in_sync = min_in_sync.unwrap_or(default_minimum(*replicas));
                let id = self.next_keyspace;
                let (name, kind, replicas, durability) = (name.clone(), *kind, *replicas, *durability);
                self.create_keyspace(Keyspace { id, name, kind, replicas, min_in_sync, durability }, placement)
            }
            Command::RemoveKeyspace { keyspace } => self.remove_keyspace(*keyspace),
            Command::Erased { bucket, holder } => self.erased(*bucket, *holder),
            Command::Succeed { bucket, replaces, change } => self.succeed::<C>(*bucket, *replaces, change),
            Command::ReserveBucket { parent } => self.reserve_bucket(*parent),
            Command::Register { parent, child, slots, at, term } => {
                self.register::<C>(*parent, *child, slots, *at, *term)
            }
            Command::Bind { absorbed, into, replaces } => self.bind::<C>(*absorbed, *into, *replaces),
            Command::Merge { absorbed, into, at, term } => self.merge(*absorbed, *into, *at, *term),
            Command::Relieve { parts } => self.relieve::<C>(parts),
            Command::StartOperation { id, by, steps } => {
                require_somebody(by).and_then(|()| self.start_operation(*id, by, steps, OperationState::Running))
            }
            Command::PlanOperation { id, by, steps } => {
                require_somebody(by).and_then(|()| self.start_operation(*id, by, steps, OperationState::Planned))
            }
            Command::Rebalance { id, based_on, steps } => self.rebalance(*id, *based_on, steps),
            Command::SetAutoRebalance { on, by } => self.set_auto_rebalance(*on, by),
            Command::ApplyOperation { id } => self.apply_operation(*id),
            Command::AdvanceOperation { id, from_step } => self.advance_operation(*id, *from_step),
            Command::PauseOperation { id } => self.pause_operation(*id),
            Command::ResumeOperation { id } => self.resume_operation(*id),
            Command::CancelOperation { id, why } => self.cancel_operation(*id, why),
            Command::Mark { node, intent, of } => self.mark_node(*node, *intent, *of),
            Command::SetReplicas { keyspace, replicas } => self.set_replicas(*keyspace, *replicas),
            Command::ThrottleOperation { id, rate } => self.throttle_operation(*id, *rate),
            Command::Begin { node, life } => self.begin_life(*node, *life),
            Command::Repair { bucket, replaces, by, remedy } => self.repair(*bucket, *replaces, by, remedy),
        }?;
        assert_eq!(self.epoch, before, "the epoch is raised here and nowhere else");
        let mut applied = Applied { epoch: before.next(), bucket: None, keyspace: None };
        match outcome {
            Outcome::Nothing => applied.epoch = before,
            Outcome::Changed => {}
            Outcome::Reserved(id) => applied.bucket = Some(id),
            Outcome::Created(id) => applied.keyspace = Some(id),
        }
        self.epoch = applied.epoch;
        Ok(applied)
    }

    fn add_node(&mut self, id: NodeId, name: &str, zone: &str, addresses: &[String]) -> Result<Outcome, Refusal> {
        for (text, good) in [(name, is_name(name)), (zone, is_zone(zone))] {
            if !good {
                return Err(Refusal::BadName(text.into()));
            }
        }
        if addresses.len() > MAX_ADDRESSES || !addresses.iter().all(|a| is_address(a)) {
            return Err(Refusal::BadAddresses { count: addresses.len() });
        }
        // A node that departed stays so until it returns, whatever it is called by then.
        let state = self.nodes.get(&id).map_or(NodeState::Present, |n| n.state);
        if state == NodeState::Present {
            self.require_free_name(id, name)?;
        }
        let (intent, life) = (self.intent(id), self.nodes.get(&id).map_or(0, |n| n.life));
        let addresses = addresses.to_vec();
        let node = Node { id, name: name.into(), zone: zone.into(), addresses, state, intent, life };
        if self.nodes.get(&id) == Some(&node) {
            return Ok(Outcome::Nothing);
        }
        self.nodes.insert(id, node);
        Ok(Outcome::Changed)
    }

    fn depart(&mut self, id: NodeId) -> Result<Outcome, Refusal> {
        let node = self.nodes.get_mut(&id).ok_or(Refusal::UnknownNode(id))?;
        if node.state == NodeState::Departed {
            return Ok(Outcome::Nothing);
        }
        node.state = NodeState::Departed;
        Ok(Outcome::Changed)
    }

    fn welcome_back(&mut self, id: NodeId) -> Result<Outcome, Refusal> {
        let node = self.nodes.get(&id).ok_or(Refusal::UnknownNode(id))?;
        if node.state == NodeState::Present {
            return Ok(Outcome::Nothing);
        }
        self.require_free_name(id, &node.name)?;
        self.nodes.get_mut(&id).expect("found above").state = NodeState::Present;
        Ok(Outcome::Changed)
    }

    /// What is said late, by a process that has ended since, changes nothing.
    fn begin_life(&mut self, id: NodeId, life: u64) -> Result<Outcome, Refusal> {
        if life > MAX_COUNTER {
            return Err(Refusal::BadLife(life));
        }
        let node = self.nodes.get_mut(&id).ok_or(Refusal::UnknownNode(id))?;
        if node.life >= life {
            return Ok(Outcome::Nothing);
        }
        node.life = life;
        Ok(Outcome::Changed)
    }

    fn remove_node(&mut self, id: NodeId) -> Result<Outcome, Refusal> {
        let node = self.nodes.get(&id).ok_or(Refusal::UnknownNode(id))?;
        let mut naming = self.buckets.values().filter(|b| b.government().is_some_and(|g| g.named(id).is_some()));
        if let Some(first) = naming.next() {
            return Err(Refusal::NodeStillNamed { node: id, bucket: first.id, buckets: 1 + naming.count() });
        }
        let held: Vec<BucketId> = self.buckets.values().filter(|b| b.is_held_by(id)).map(|b| b.id).collect();
        if let (NodeState::Present, Some(&bucket)) = (node.state, held.first()) {
            return Err(Refusal::NodeStillHolds { node: id, bucket });
        }
        self.nodes.remove(&id);
        for bucket in held {
            self.strike(bucket, |holder| holder.node == id);
        }
        Ok(Outcome::Changed)
    }

    fn create_keyspace(&mut self, keyspace: Keyspace, placement: &[Vec<NodeId>]) -> Result<Outcome, Refusal> {
        self.require_keyspace(&keyspace)?;
        self.require_placement(&keyspace, placement)?;

        let incarnation = Incarnation(self.epoch.next().0);
        let mut routes = Vec::with_capacity(placement.len());
        for (row, nodes) in placement.iter().enumerate() {
            let mut members = nodes.iter().map(|&node| Member { node, incarnation });
            let primary = members.next().expect("a row has at least `min_in_sync` nodes");
            let government = Government::first(primary, members.collect(), keyspace.min_in_sync);
            let id = self.issue_bucket();
            let (first, last) = share(row, placement.len());
            let slots = SlotSet::range(first, last);
            let rule = Rule::Governed(government);
            self.buckets.insert(id, Bucket { id, keyspace: keyspace.id, slots, birth: Birth::First, rule, bond: None });
            routes.push((first, last, id));
        }
        let id = keyspace.id;
        self.routes.insert(id, SlotMap::from_runs(routes).expect("the shares are disjoint"));
        self.keyspaces.insert(id, keyspace);
        self.next_keyspace = KeyspaceId(id.0 + 1);
        Ok(Outcome::Created(id))
    }

    fn remove_keyspace(&mut self, id: KeyspaceId) -> Result<Outcome, Refusal> {
        if !self.keyspaces.contains_key(&id) {
            return Err(Refusal::UnknownKeyspace(id));
        }
        if self.routes.remove(&id).is_none() {
            return Ok(Outcome::Nothing);
        }
        for bucket in self.buckets.values_mut().filter(|b| b.keyspace == id) {
            if let Rule::Governed(government) = &bucket.rule {
                let mut holders: Vec<Member> = government.everyone().collect();
                holders.sort_unstable();
                holders.dedup();
                bucket.rule = Rule::Removed { term: government.term.next(), holders };
                bucket.bond = None;
            }
        }
        // A child that was never registered goes with its parent.
        let goes = |child: &BucketId| self.buckets.get(&self.root_of(*child)).is_none_or(|b| b.keyspace == id);
        let gone: Vec<BucketId> = self.reserved.keys().copied().filter(goes).collect();
        self.reserved.retain(|child, _| !gone.contains(child));
        Ok(Outcome::Changed)
    }

    fn erased(&mut self, id: BucketId, holder: Member) -> Result<Outcome, Refusal> {
        if self.is_retired(id) {
            return Ok(Outcome::Nothing);
        }
        let bucket = self.buckets.get(&id).ok_or(Refusal::UnknownBucket(id))?;
        match &bucket.rule {
            Rule::Governed(government) => Err(Refusal::BucketGoverned { bucket: id, term: government.term }),
            Rule::Removed { holders, .. } if !holders.contains(&holder) => Ok(Outcome::Nothing),
            Rule::Removed { .. } => {
                self.strike(id, |h| h == holder);
                Ok(Outcome::Changed)
            }
        }
    }

    fn succeed<C: Conduct>(&mut self, id: BucketId, replaces: Term, change: &Change) -> Result<Outcome, Refusal> {
        let current = self.require_government(id)?;
        if replaces != current.term {
            return Err(Unlawful::StaleTerm { proposed: replaces, current: current.term }.into());
        }
        match *change {
            Change::Enlist { node } => self.require_present(node)?,
            Change::Seat { candidate, .. } => {
                if let Some(outcome) = self.seat_both::<C>(id, candidate, change)? {
                    return Ok(outcome);
                }
            }
            Change::SetMinInSync { min } => {
                let replicas = self.keyspaces[&self.buckets[&id].keyspace].replicas;
                if min > replicas {
                    return Err(Refusal::BadMinimum { min, replicas });
                }
            }
            Change::Drop { .. }
            | Change::Dismiss { .. }
            | Change::HandOver { .. }
            | Change::Usurp { .. }
            | Change::Renew { .. }
            | Change::Disown { .. } => {}
        }
        let made = self.follows(id, change)?;
        assert_eq!(made[0].1.term, replaces.next(), "each term has one successor");
        self.install(made);
        Ok(Outcome::Changed)
    }

    fn reserve_bucket(&mut self, parent: BucketId) -> Result<Outcome, Refusal> {
        self.require_government(parent)?;
        if self.reserved.len() >= MAX_RESERVED {
            return Err(Refusal::TooManyReserved(self.reserved.len()));
        }
        let id = self.reserve_child_of(parent);
        Ok(Outcome::Reserved(id))
    }

    /// The split has happened: ownership moved when it committed. So this refuses only what cannot be true.
    fn register<C: Conduct>(
        &mut self,
        parent: BucketId,
        child: BucketId,
        slots: &SlotSet,
        at: Position,
        told_in: Term,
    ) -> Result<Outcome, Refusal> {
        let birth = Birth::Split { parent, at };
        match self.buckets.get(&child) {
            Some(known) if known.birth == birth => return Ok(Outcome::Nothing),
            Some(_) => return Err(Refusal::BornElsewhere(child)),
            None if self.reserved.get(&child) == Some(&parent) => {}
            None if C::breaks(Breach::RegisterAfterMerge) && self.was_issued(child) => {}
            None if self.is_retired(child) => return Err(Refusal::BucketRetired(child)),
            None => return Err(Refusal::NotReserved(child)),
        }
        let government = self.require_government(parent)?.clone();
        government.require_heard(told_in)?;
        if at.term > government.term || !is_entry(at) {
            return Err(Refusal::NoSuchSplit { parent, at, term: government.term });
        }
        let giver = self.buckets.get_mut(&parent).expect("it has a government");
        if slots.is_empty() || *slots == giver.slots || !slots.is_subset(&giver.slots) {
            return Err(Refusal::NotOfParent { parent, slots: slots.clone() });
        }

        giver.slots = giver.slots.difference(slots);
        let keyspace = giver.keyspace;
        let rule = Rule::Governed(government);
        self.buckets.insert(child, Bucket { id: child, keyspace, slots: slots.clone(), birth, rule, bond: None });
        self.reserved.remove(&child);
        self.routes.get_mut(&keyspace).expect("governed keyspaces have routes").set(slots, child);
        Ok(Outcome::Changed)
    }

    pub(crate) fn issue_bucket(&mut self) -> BucketId {
        let id = self.next_bucket;
        self.next_bucket = id.next();
        id
    }

    pub(crate) fn reserve_child_of(&mut self, parent: BucketId) -> BucketId {
        self.next_bucket = self.next_bucket.next_child_of(parent);
        let id = self.issue_bucket();
        self.reserved.insert(id, parent);
        id
    }

    /// Takes holders off a removed bucket; the last one takes the bucket along, and the last bucket its keyspace.
    fn strike(&mut self, id: BucketId, gone: impl Fn(Member) -> bool) {
        let bucket = self.buckets.get_mut(&id).expect("only known buckets are struck from");
        let keyspace = bucket.keyspace;
        let Rule::Removed { holders, .. } = &mut bucket.rule else { unreachable!("only removed buckets have holders") };
        holders.retain(|h| !gone(*h));
        if holders.is_empty() {
            self.buckets.remove(&id);
            if self.buckets_of(keyspace).next().is_none() {
                self.keyspaces.remove(&keyspace);
            }
        }
    }

    fn require_free_name(&self, id: NodeId, name: &str) -> Result<(), Refusal> {
        match self.node_named(name) {
            Some(other) if other.id != id => Err(Refusal::NodeNameTaken { name: name.into(), by: other.id }),
            _ => Ok(()),
        }
    }

    pub(crate) fn require_present(&self, id: NodeId) -> Result<(), Refusal> {
        match self.nodes.get(&id).map(|n| n.state) {
            Some(NodeState::Present) => Ok(()),
            Some(NodeState::Departed) => Err(Refusal::NodeDeparted(id)),
            None => Err(Refusal::UnknownNode(id)),
        }
    }

    pub(crate) fn require_government(&self, id: BucketId) -> Result<&Government, Refusal> {
        match self.buckets.get(&id) {
            Some(bucket) => bucket.government().ok_or(Refusal::BucketRemoved(id)),
            None if self.is_retired(id) => Err(Refusal::BucketRetired(id)),
            None => Err(Refusal::UnknownBucket(id)),
        }
    }

    fn require_keyspace(&self, keyspace: &Keyspace) -> Result<(), Refusal> {
        let Keyspace { name, replicas, min_in_sync: min, .. } = keyspace;
        if !is_name(name) {
            return Err(Refusal::BadName(name.clone()));
        }
        if let Some(other) = self.keyspace_named(name) {
            return Err(Refusal::KeyspaceNameTaken { name: name.clone(), by: other.id });
        }
        if *replicas == 0 {
            return Err(Refusal::BadReplicas(*replicas));
        }
        if *min == 0 || min > replicas {
            return Err(Refusal::BadMinimum { min: *min, replicas: *replicas });
        }
        Ok(())
    }

    pub(crate) fn require_placement(&self, keyspace: &Keyspace, placement: &[Vec<NodeId>]) -> Result<(), Refusal> {
        let (min, replicas) = (keyspace.min_in_sync, keyspace.replicas);
        if placement.is_empty() || placement.len() > usize::from(Slot::COUNT) {
            return Err(Refusal::BadBucketCount { rows: placement.len() });
        }
        for (row, nodes) in placement.iter().enumerate() {
            if nodes.len() < usize::from(min) || nodes.len() > usize::from(replicas) {
                return Err(Refusal::BadPlacement { row, nodes: nodes.len(), min, replicas });
            }
            for (i, &node) in nodes.iter().enumerate() {
                self.require_present(node)?;
                if nodes[..i].contains(&node) {
                    return Err(Refusal::PlacedTwice { row, node });
                }
            }
        }
        Ok(())
    }
}

impl Bucket {
    fn is_held_by(&self, node: NodeId) -> bool {
        matches!(&self.rule, Rule::Removed { holders, .. } if holders.iter().any(|h| h.node == node))
    }
}

/// The slots of row `row` of `rows`: as even as whole slots allow.
fn share(row: usize, rows: usize) -> (Slot, Slot) {
    let edge = |i: usize| u16::try_from(i * usize::from(Slot::COUNT) / rows).expect("at most Slot::COUNT");
    (Slot(edge(row)), Slot(edge(row + 1) - 1))
}
