//! What must hold for a blueprint, whoever made it.
//!
//! The same list is used twice: on what comes from outside (a file, a peer, a snapshot) a [`Flaw`] is an answer; on what
//! [`Blueprint::apply`] made it is a bug, and `check_invariants` says so loudly.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::blueprint::{Birth, Blueprint, Bucket, Keyspace, Node, Rule};
use crate::command::{MAX_ADDRESSES, MAX_RESERVED};
use crate::operation::{MAX_FINISHED, MAX_PLANNED, MAX_STEPS, MAX_UNFINISHED};
use crate::{
    Bond, BucketId, Government, KeyspaceId, Member, NodeId, Operation, OperationId, OperationState, Position, SlotMap,
    SlotSet, Step,
};

const MAX_NAME: usize = 128;
const MAX_ADDRESS: usize = 256;
pub(crate) const MAX_WORDS: usize = 256;
/// Who asked for an operation, and for what: every other slot, number by number, takes 48 kB, and a request over HTTP no more than 64.
pub(crate) const MAX_WISH: usize = 60 << 10;
/// Nothing counts this far: a number beyond is damage, and believing it would let the next step overflow.
pub(crate) const MAX_COUNTER: u64 = 1 << 62;
const MAX_KEYSPACES: u32 = 1 << 30;

/// What is wrong with a blueprint that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("the blueprint is unsound: {0}")]
    Whole(&'static str),
    #[error("the blueprint is unsound: of node {0}, {1}")]
    Node(NodeId, &'static str),
    #[error("the blueprint is unsound: of keyspace {0}, {1}")]
    Keyspace(KeyspaceId, &'static str),
    #[error("the blueprint is unsound: of bucket {0}, {1}")]
    Bucket(BucketId, &'static str),
    #[error("the blueprint is unsound: of operation {0}, {1}")]
    Operation(OperationId, &'static str),
}

pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && is_zone(text)
}

pub(crate) fn is_zone(text: &str) -> bool {
    text.len() <= MAX_NAME && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

pub(crate) fn is_address(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_ADDRESS
}

/// What people say to people, in one line.
pub(crate) fn is_words(text: &str) -> bool {
    text.len() <= MAX_WORDS && is_wish(text)
}

/// The same, and with room for all that somebody may want to have moved.
pub(crate) fn is_wish(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_WISH && !text.chars().any(char::is_control)
}

/// Whether a log can have an entry there.
pub(crate) fn is_entry(at: Position) -> bool {
    at.term.0 > 0 && (1..=MAX_COUNTER).contains(&at.index.0)
}

impl Blueprint {
    /// Panics unless everything holds that must hold.
    pub fn check_invariants(&self) {
        if let Err(flaw) = self.validate() {
            panic!("{flaw}");
        }
        for government in self.buckets.values().filter_map(Bucket::government) {
            government.check_invariants();
        }
    }

    pub fn validate(&self) -> Result<(), Flaw> {
        self.validate_counters()?;
        let mut names = BTreeMap::new();
        for (id, node) in &self.nodes {
            validate_node(*id, node).map_err(|why| Flaw::Node(*id, why))?;
            if self.is_present(*id) && names.insert(&node.name, id).is_some() {
                return Err(Flaw::Node(*id, "the name belongs to another node that is present"));
            }
        }
        let mut names = BTreeMap::new();
        for (id, keyspace) in &self.keyspaces {
            self.validate_keyspace(*id, keyspace).map_err(|why| Flaw::Keyspace(*id, why))?;
            if !self.is_removed(*id) && names.insert(&keyspace.name, id).is_some() {
                return Err(Flaw::Keyspace(*id, "the name belongs to another keyspace"));
            }
        }
        for (id, bucket) in &self.buckets {
            self.validate_bucket(*id, bucket).map_err(|why| Flaw::Bucket(*id, why))?;
        }
        self.validate_operations()?;
        if self.routes != self.find_routes()? {
            return Err(Flaw::Whole("the routes are not those of the buckets"));
        }
        Ok(())
    }

    /// Which bucket has which slot. As every keyspace is either governed whole or removed whole, its routes say which.
    pub(crate) fn find_routes(&self) -> Result<BTreeMap<KeyspaceId, SlotMap<BucketId>>, Flaw> {
        let mut runs: BTreeMap<KeyspaceId, Vec<_>> = BTreeMap::new();
        for bucket in self.buckets.values().filter(|b| b.government().is_some()) {
            let ranges = bucket.slots.ranges().map(|(first, last)| (first, last, bucket.id));
            runs.entry(bucket.keyspace).or_default().extend(ranges);
        }
        let all = SlotSet::all();
        let mut routes = BTreeMap::new();
        for (keyspace, runs) in runs {
            let map = SlotMap::from_runs(runs).ok_or(Flaw::Keyspace(keyspace, "two buckets have the same slot"))?;
            if map.keys() != all {
                return Err(Flaw::Keyspace(keyspace, "there are slots that no bucket has"));
            }
            routes.insert(keyspace, map);
        }
        Ok(routes)
    }

    fn validate_counters(&self) -> Result<(), Flaw> {
        let reserved_were_issued = self.reserved.keys().all(|id| self.was_issued(*id));
        let numbers = [self.epoch.0, self.next_bucket.0, self.next_operation.0];
        let problem = if numbers.iter().any(|n| *n > MAX_COUNTER) {
            "the epoch, the next bucket id or the next operation is beyond anything that can have happened"
        } else if self.next_bucket.0 == 0 || self.next_keyspace.0 == 0 || self.next_keyspace.0 > MAX_KEYSPACES {
            "the next bucket or keyspace id is not one that can be issued"
        } else if !reserved_were_issued || self.reserved.keys().any(|id| self.buckets.contains_key(id)) {
            "a bucket id is reserved that was never issued, or is in use"
        } else if self.reserved.iter().any(|(child, parent)| child <= parent || child.family() != parent.family())
            || self.reserved.keys().any(|child| self.government(self.root_of(*child)).is_none())
        {
            "a bucket id is reserved for the split of a bucket that is not there"
        } else if self.reserved.len() > MAX_RESERVED {
            "more bucket ids are reserved than can be"
        } else if self.auto_rebalance.as_ref().is_some_and(|a| !is_words(&a.by) || a.from > self.next_operation) {
            "it rebalances by itself, and nobody asked for that, or after an operation that never was"
        } else {
            return Ok(());
        };
        Err(Flaw::Whole(problem))
    }

    fn validate_operations(&self) -> Result<(), Flaw> {
        let mut busy = BTreeSet::new();
        for (id, operation) in &self.operations {
            let flaw = |why| Flaw::Operation(*id, why);
            holds(operation.id == *id, "it is filed under another id").map_err(flaw)?;
            self.validate_operation(operation).map_err(flaw)?;
            if operation.is_under_way() {
                let alone = operation.buckets().into_iter().all(|bucket| busy.insert(bucket));
                holds(alone, "another operation works on the same bucket").map_err(flaw)?;
            }
        }
        let over = self.operations.values().filter(|o| o.is_over()).count();
        let under_way = self.operations.values().filter(|o| o.is_under_way()).count();
        let planned = self.operations.len() - over - under_way;
        if over > MAX_FINISHED || under_way > MAX_UNFINISHED || planned > MAX_PLANNED {
            return Err(Flaw::Whole("there are more operations than can be"));
        }
        Ok(())
    }

    fn validate_operation(&self, operation: &Operation) -> Result<(), &'static str> {
        holds(operation.id.0 > 0 && operation.id < self.next_operation, "the id was never issued")?;
        holds(is_wish(&operation.started_by), "it does not say who started it")?;
        holds(operation.throttle != Some(0), "it is throttled to nothing")?;
        holds((1..=MAX_STEPS).contains(&operation.steps.len()), "it has no steps, or too many")?;
        let (at, end) = (operation.at as usize, operation.steps.len());
        match &operation.state {
            OperationState::Done => holds(at == end, "it is done, but not at its end")?,
            OperationState::Cancelled { why } => {
                holds(at < end && is_words(why), "it was cancelled at its end, or for no reason")?;
            }
            OperationState::Running | OperationState::Paused | OperationState::Failed { .. } => {
                holds(at < end, "it is at its end, but not done")?;
            }
            OperationState::Planned => return holds(at == 0, "it is only planned, and has begun"),
        }
        if operation.at == 0 && matches!(operation.state, OperationState::Cancelled { .. }) {
            return Ok(()); // perhaps only planned: what it would have split off has another parent by now, or none
        }
        for step in &operation.steps {
            holds(step.bucket().is_none_or(|b| self.was_issued(b)), "a bucket in it was never issued")?;
            let repairs = matches!(step, Step::Repair { .. });
            holds(!repairs || operation.state == OperationState::Done, "a repair is not done, but waited for")?;
            let Step::Split { bucket, child, slots } = step else { continue };
            holds(self.was_issued(*child) && child != bucket, "the child of a split was never issued")?;
            holds(!slots.is_empty(), "a split has no slots")?;
            let first = |b: &Bucket| b.birth == Birth::First;
            holds(!self.buckets.get(child).is_some_and(first), "the child of a split was born without one")?;
        }
        Ok(())
    }

    fn validate_keyspace(&self, id: KeyspaceId, keyspace: &Keyspace) -> Result<(), &'static str> {
        holds(keyspace.id == id, "it is filed under another id")?;
        holds(id.0 > 0 && id < self.next_keyspace, "the id was never issued")?;
        holds(is_name(&keyspace.name), "the name is not one")?;
        holds(
            (1..=keyspace.replicas).contains(&keyspace.min_in_sync),
            "the minimum is not between 1 and the replicas",
        )?;
        holds(self.buckets_of(id).next().is_some(), "there is no bucket left")
    }

    fn validate_bucket(&self, id: BucketId, bucket: &Bucket) -> Result<(), &'static str> {
        holds(bucket.id == id, "it is filed under another id")?;
        holds(self.was_issued(id), "the id was never issued")?;
        holds(!bucket.slots.is_empty(), "it has no slots")?;
        let keyspace = self.keyspaces.get(&bucket.keyspace).ok_or("the keyspace does not exist")?;
        // Each change of a government is a change of the blueprint, so a term cannot be ahead of the epoch.
        holds((1..=self.epoch.0).contains(&bucket.term().0), "the term is not between 1 and the epoch")?;
        if let Birth::Split { parent, at } = bucket.birth {
            holds(self.was_issued(parent) && parent != id, "the parent never existed")?;
            holds(is_entry(at) && at.term <= bucket.term(), "it was born at a position that cannot be")?;
        }
        self.validate_bond(bucket)?;
        match &bucket.rule {
            Rule::Governed(government) => {
                holds(!self.is_removed(bucket.keyspace), "it is governed, but others of its keyspace are removed")?;
                holds(government.min_in_sync <= keyspace.replicas, "the minimum is above the replicas")?;
                validate_government(government)?;
                government.everyone().try_for_each(|m| self.validate_member(m))
            }
            Rule::Removed { holders, .. } => {
                let merged = matches!(bucket.bond, Some(Bond::Merged { .. }));
                holds(
                    merged || self.is_removed(bucket.keyspace),
                    "it is removed, but others of its keyspace are governed",
                )?;
                holds(!holders.is_empty(), "it is removed, and nobody holds it")?;
                holds(holders.is_sorted_by(|a, b| a < b), "the holders are not in order")?;
                holders.iter().try_for_each(|m| self.validate_member(*m))
            }
        }
    }

    fn validate_bond(&self, bucket: &Bucket) -> Result<(), &'static str> {
        let Some(bond) = bucket.bond else { return Ok(()) };
        if let Bond::Merged { into, at } = bond {
            holds(self.was_issued(into) && into != bucket.id, "it was absorbed by a bucket that never was")?;
            holds(is_entry(at), "it was absorbed at a position that cannot be")?;
            return holds(bucket.government().is_none(), "it was absorbed, and is governed");
        }
        let partner = bond.partner().expect("all but the merged have one");
        let other = self.buckets.get(&partner).ok_or("it is bound to a bucket that is not there")?;
        let mutual = match (bond, other.bond) {
            (Bond::Absorbs { .. }, Some(Bond::Fades { into, .. })) => into == bucket.id,
            (Bond::Fades { .. }, Some(Bond::Absorbs { other, .. })) => other == bucket.id,
            _ => false,
        };
        holds(mutual && bucket.keyspace == other.keyspace, "it is bound to a bucket that is not bound to it")?;
        holds(bucket.id.family() == other.id.family(), "it is bound to a bucket of another family")?;
        let governed = bucket.government().is_some() && other.government().is_some();
        holds(governed, "it is bound, and one of the two is not governed")
    }

    fn validate_member(&self, member: Member) -> Result<(), &'static str> {
        holds(self.nodes.contains_key(&member.node), "a node that is named does not exist")?;
        holds((1..=self.epoch.0).contains(&member.incarnation.0), "an incarnation was never issued")
    }
}

fn validate_node(id: NodeId, node: &Node) -> Result<(), &'static str> {
    holds(node.id == id, "it is filed under another id")?;
    holds(is_name(&node.name) && is_zone(&node.zone), "the name or zone is not one")?;
    holds(node.life <= MAX_COUNTER, "it has had more lives than can be")?;
    holds(
        node.addresses.len() <= MAX_ADDRESSES && node.addresses.iter().all(|a| is_address(a)),
        "the addresses are not",
    )
}

/// All that `Government::check_invariants` asserts, and more, without the assert: this one comes from outside.
fn validate_government(government: &Government) -> Result<(), &'static str> {
    let mut parts: Vec<Member> = government.members().chain(government.candidates.iter().copied()).collect();
    parts.sort_unstable();
    holds(parts.windows(2).all(|pair| pair[0].node != pair[1].node), "a node has two parts")?;
    holds(government.since.0 > 0 && government.since <= government.term, "the primary rules since a later term")?;
    holds(government.min_in_sync > 0, "the minimum is 0")?;
    holds(government.heirs.is_empty() || !government.in_sync(), "there are heirs, though the minimum is met")?;
    for (i, heir) in government.heirs.iter().enumerate() {
        holds(government.heirs[..i].iter().all(|h| h.node != heir.node), "an heir comes twice")?;
        // As a candidate an heir keeps its incarnation, and a member is an heir no longer.
        let part = parts.iter().find(|m| m.node == heir.node);
        holds(part.is_none_or(|m| m == heir && government.candidates.contains(heir)), "an heir has another part")?;
    }
    Ok(())
}

fn holds(condition: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if condition { Ok(()) } else { Err(otherwise) }
}
