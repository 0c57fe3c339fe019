//! One bucket (or the node itself) as a rule sees it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::marker::PhantomData;

use blueprint::{
    Birth, Blueprint, Bucket, BucketId, Conduct, Government, Instant, Member, NodeId, Operation, OperationState, Step,
    Term,
};

use crate::directory::BucketRow;
use crate::holding::{Holding, Leading};
use crate::marks::{Unneeded, unnamed_in};
use crate::situation::{Read, Situation};

#[derive(Debug)]
pub(crate) struct Case<'a, C> {
    pub(crate) situation: &'a Situation<'a>,
    pub(crate) census: &'a Census,
    /// None: the rule is about the node.
    pub(crate) id: Option<BucketId>,
    /// What the blueprint says about it; nothing about a child that is not registered yet.
    pub(crate) bucket: Option<&'a Bucket>,
    /// The bucket by whose government it is ruled: its own, or its parent's until it is registered.
    pub(crate) ruled_by: Option<BucketId>,
    pub(crate) government: Option<&'a Government>,
    /// The part that the government gives to this node.
    pub(crate) named: Option<Member>,
    pub(crate) holding: Option<&'a Holding>,
    /// Then there is no holding.
    pub(crate) aside: Option<&'a BucketRow>,
    conduct: PhantomData<C>,
}

/// What is counted over the whole blueprint, once per reaction.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// In how many buckets a node has a part.
    parts: BTreeMap<NodeId, usize>,
    /// How many candidates each node is catching up with. Only where there is somebody to fill them: a bucket that nobody leads
    /// would hold up the recovery of all others. Not those of operations.
    candidates: BTreeMap<NodeId, usize>,
    /// Buckets that have fewer copies than wanted, a primary that is present, and a node for one more, in their order.
    short: Vec<BucketId>,
    /// What was decided in this very reaction.
    planned: RefCell<BTreeMap<NodeId, usize>>,
}

impl Census {
    pub(crate) fn take(situation: &Situation<'_>) -> Self {
        let blueprint = situation.blueprint;
        let mut census = Self::default();
        for (id, government) in blueprint.buckets.values().filter_map(|b| Some((b.id, b.government()?))) {
            for part in government.members().chain(government.candidates.iter().copied()) {
                *census.parts.entry(part.node).or_default() += 1;
            }
            let copies = government.size() + government.candidates.len();
            let free = || blueprint.nodes.keys().any(|n| could_take(blueprint, government, *n));
            let short = copies < blueprint.wanted(id);
            if short && blueprint.is_present(government.primary.node) && free() {
                census.short.push(id);
            }
            if situation.operated.contains(&id) {
                continue; // an operation has a limit of its own, and must not hold up the replacement of what was lost
            }
            let is_led = may_lead(situation, government.primary, id);
            for candidate in government.candidates.iter().filter(|c| is_led && blueprint.is_present(c.node)) {
                *census.candidates.entry(candidate.node).or_default() += 1;
            }
        }
        census
    }

    /// How many others that lost a copy come before this bucket.
    pub(crate) fn place(&self, bucket: BucketId) -> usize {
        self.short.partition_point(|other| *other < bucket)
    }

    pub(crate) fn parts(&self, node: NodeId) -> usize {
        self.parts.get(&node).copied().unwrap_or(0) + self.planned(node)
    }

    pub(crate) fn candidates_on(&self, node: NodeId) -> usize {
        self.candidates.get(&node).copied().unwrap_or(0) + self.planned(node)
    }

    pub(crate) fn candidates(&self) -> usize {
        self.candidates.values().chain(self.planned.borrow().values()).sum()
    }

    /// The nodes that are catching up with something, or will be.
    pub(crate) fn catching_up(&self) -> Vec<NodeId> {
        self.candidates.keys().chain(self.planned.borrow().keys()).copied().collect()
    }

    pub(crate) fn plan(&self, node: NodeId) {
        *self.planned.borrow_mut().entry(node).or_default() += 1;
    }

    fn planned(&self, node: NodeId) -> usize {
        self.planned.borrow().get(&node).copied().unwrap_or(0)
    }
}

impl<'a, C: Conduct> Case<'a, C> {
    pub(crate) fn of_node(situation: &'a Situation<'a>, census: &'a Census) -> Self {
        Self {
            situation,
            census,
            id: None,
            bucket: None,
            ruled_by: None,
            government: None,
            named: None,
            holding: None,
            aside: None,
            conduct: PhantomData,
        }
    }

    pub(crate) fn of_bucket(situation: &'a Situation<'a>, census: &'a Census, id: BucketId) -> Self {
        let ruled_by = ruled_by(situation, id);
        let government = ruled_by.and_then(|by| situation.blueprint.government(by));
        Self {
            situation,
            census,
            id: Some(id),
            bucket: situation.blueprint.buckets.get(&id),
            ruled_by,
            government,
            named: government.and_then(|g| g.named(situation.me)),
            holding: situation.replicas.get(&id),
            aside: situation.aside.get(&id),
            conduct: PhantomData,
        }
    }

    pub(crate) fn bucket_id(&self) -> BucketId {
        self.id.expect("a rule about buckets is asked about one")
    }

    pub(crate) fn now(&self) -> Instant {
        self.situation.now
    }

    /// R11: nothing but founding happens before the blueprint's epoch is durable.
    pub(crate) fn is_acted_on(&self) -> bool {
        self.situation.epoch == self.situation.blueprint.epoch
    }

    /// Acted on, and the replica knows: what it does is judged by this blueprint, and it holds what it is named for.
    pub(crate) fn settled(&self) -> Option<(&'a Government, &'a Holding)> {
        let (government, holding) = (self.government?, self.holding?);
        let told = self.is_acted_on() && holding.known == self.situation.blueprint.epoch;
        (told && holding.durable && self.named == Some(holding.member)).then_some((government, holding))
    }

    pub(crate) fn leads(&self) -> Option<(&'a Government, &'a Holding, &'a Leading)> {
        let (government, holding) = self.settled()?;
        let leading = holding.leading()?;
        (government.primary == holding.member && leading.term <= government.term)
            .then_some((government, holding, leading))
    }

    /// Leads, and in the term that stands in the blueprint: may propose what comes next.
    pub(crate) fn rules(&self) -> Option<(&'a Government, &'a Holding, &'a Leading)> {
        self.leads().filter(|(government, _, leading)| leading.term == government.term)
    }

    /// Named under this incarnation and holding it, or named anew while the data is here: the replica takes the new name when it
    /// is told.
    pub(crate) fn holds_what_it_is_named_for(&self) -> bool {
        let untold = |h: &Holding| h.known < self.situation.blueprint.epoch;
        self.holding.is_some_and(|h| self.named == Some(h.member) || untold(h))
    }

    /// The very part that what is set aside was named for. Once unnamed, a replica is only ever named again under another incarnation
    /// (and as an heir it stays named).
    pub(crate) fn named_aside(&self) -> Option<Member> {
        self.named.filter(|named| self.aside.is_some_and(|row| row.incarnation == named.incarnation))
    }

    /// It is there, and says that it holds what it is named for.
    pub(crate) fn has_everything(&self, member: Member) -> bool {
        let row = self.situation.directory.row(member.node, self.bucket_id());
        let holds = row.is_some_and(|row| row.incarnation == member.incarnation && row.missing == 0);
        holds && self.is_present(member.node) && self.is_reachable(member.node)
    }

    /// The term of the government that does not name this node, for a replica that the present blueprint may judge.
    pub(crate) fn unnamed(&self) -> Option<Term> {
        let holding = self.holding?;
        if holding.member.incarnation.0 > self.situation.blueprint.epoch.0 {
            return None;
        }
        unnamed_in(self.situation.blueprint, self.bucket_id(), self.situation.me)
    }

    pub(crate) fn mark(&self) -> Option<&'a Unneeded> {
        self.situation.marks.unneeded(self.bucket_id(), self.unnamed()?)
    }

    /// The answer to a read that was begun after this replica was found unneeded, and not long ago.
    pub(crate) fn fresh_read(&self) -> Option<&'a Blueprint> {
        let Read::Answered { begun, blueprint } = self.situation.read else { return None };
        let recent = self.now().since(begun) <= self.situation.limits.read_patience;
        (recent && self.mark().is_some_and(|mark| begun >= mark.since)).then_some(blueprint)
    }

    pub(crate) fn is_present(&self, node: NodeId) -> bool {
        self.situation.blueprint.is_present(node)
    }

    pub(crate) fn is_reachable(&self, node: NodeId) -> bool {
        node == self.situation.me || self.situation.directory.is_reachable(node)
    }

    pub(crate) fn zone(&self, node: NodeId) -> &'a str {
        self.situation.blueprint.nodes.get(&node).map_or("", |n| n.zone.as_str())
    }

    pub(crate) fn copies_to_stay(&self, government: &Government) -> usize {
        copies_to_stay(self.situation.blueprint, self.bucket_id(), government)
    }

    /// How many copies the keyspace wants of each bucket.
    pub(crate) fn wanted(&self) -> usize {
        self.bucket.map_or(0, |bucket| self.situation.blueprint.wanted(bucket.id))
    }

    /// The replica of another bucket here that holds the Split by which this one is to be made.
    pub(crate) fn parent_here(&self) -> Option<(BucketId, &'a Holding)> {
        let Birth::Split { at, .. } = self.bucket?.birth else { return None };
        let child = self.bucket_id();
        let owes = |id: BucketId, r: &Holding| {
            r.owes_fork(child, at) && !fork_is_void(self.situation.blueprint, self.situation.me, id, r, child)
        };
        let mut held = self.situation.replicas.iter();
        held.find(|(id, r)| owes(**id, r)).map(|(id, holding)| (*id, holding))
    }
}

/// A fork that never comes: nobody leads the parent on any more, and what is here of it has not come to the split. (Otherwise: 1. b1 is
/// split, and n3 leaves both before its log of b1 comes to that; 2. b1 is merged into its child; 3. n3 is to have a copy of the child, which
/// waits for the fork, and so does the erase of b1. Seed 1608.)
///
/// Only for whom the child is to fill: a merge is not done before every member has the fork, but a parent also ends when it is repaired and
/// begins anew, and then what is here may be all that is left of the child.
pub(crate) fn fork_is_void(
    blueprint: &Blueprint,
    me: NodeId,
    parent: BucketId,
    held: &Holding,
    child: BucketId,
) -> bool {
    let is_filled = |g: &Government| !g.members().chain(g.heirs.iter().copied()).any(|m| m.node == me);
    let comes = held.comes_to(child);
    blueprint.government(parent).is_none() && !comes && blueprint.government(child).is_some_and(is_filled)
}

/// Present and, as far as it has told, with the replica that it is named for.
fn may_lead(situation: &Situation<'_>, primary: Member, bucket: BucketId) -> bool {
    let holds = if primary.node == situation.me {
        situation.replicas.get(&bucket).is_some_and(|h| h.member == primary)
    } else {
        let row = situation.directory.row(primary.node, bucket);
        let known = situation.directory.sighting(primary.node).is_some();
        !known || row.is_some_and(|row| row.incarnation == primary.incarnation)
    };
    holds && situation.blueprint.is_present(primary.node)
}

/// Until it is registered, a child is governed by its parent's government.
fn ruled_by(situation: &Situation<'_>, bucket: BucketId) -> Option<BucketId> {
    let mut ruled = bucket;
    // A child is younger than its parent, so this ends; the count says so even if what was passed in is nonsense.
    for _ in 0..=situation.replicas.len() {
        if situation.blueprint.buckets.contains_key(&ruled) {
            return Some(ruled);
        }
        if situation.blueprint.is_retired(ruled) {
            return None;
        }
        ruled = *situation.replicas.iter().find(|(_, r)| r.holds_split(ruled))?.0;
    }
    None
}

/// It is present, stays, and has no part in it: as far as the blueprint knows, another copy can be made there. While writes wait for one
/// (R8), it may as well go later.
pub(crate) fn could_take(blueprint: &Blueprint, government: &Government, node: NodeId) -> bool {
    let named = government.members().chain(government.candidates.iter().copied()).any(|m| m.node == node);
    blueprint.is_present(node) && !named && (!blueprint.drains(node) || !government.in_sync())
}

pub(crate) fn copies(government: &Government) -> usize {
    government.size() + government.candidates.len()
}

/// How many there will be when the operation that is under way has ended: without those that it dismisses, and with those that it
/// enlists. (Otherwise: 1. an operation seats a new copy, to dismiss an old one; 2. a third one dies; 3. the old one cannot be
/// dismissed, because it is needed, and nobody replaces the third, because there are as many copies as wanted.)
///
/// Only while it goes on and the bucket can wait for it. (Otherwise, below the minimum: 1. the present step is a split, which cannot
/// commit; 2. the next one would enlist somebody; 3. nobody else is enlisted, because somebody is about to be.)
pub(crate) fn copies_to_stay(blueprint: &Blueprint, bucket: BucketId, government: &Government) -> usize {
    let goes_on = |operation: &&Operation| operation.state == OperationState::Running && government.in_sync();
    let Some(operation) = blueprint.operation_on(bucket).filter(goes_on) else { return copies(government) };
    let named =
        |node: NodeId| government.members().chain(government.candidates.iter().copied()).any(|m| m.node == node);
    let (mut leave, mut come) = (BTreeSet::new(), BTreeSet::new());
    let keyspace = blueprint.buckets.get(&bucket).map(|b| b.keyspace);
    // What comes after another number of copies is wanted is judged once it is: until then nobody comes or goes.
    let of_another_number =
        |step: &&Step| matches!(step, Step::SetReplicas { keyspace: k, .. } if Some(*k) == keyspace);
    let ahead = operation.steps.iter().skip(operation.at as usize).take_while(|step| !of_another_number(step));
    for step in ahead.filter(|step| step.bucket() == Some(bucket)) {
        match *step {
            Step::Dismiss { node, .. } if named(node) => leave.insert(node),
            Step::Enlist { node, .. } if !named(node) => come.insert(node),
            Step::Dismiss { .. }
            | Step::Enlist { .. }
            | Step::AwaitSeated { .. }
            | Step::HandOver { .. }
            | Step::Split { .. }
            | Step::Merge { .. }
            | Step::SetMinimum { .. }
            | Step::Mark { .. }
            | Step::SetReplicas { .. }
            | Step::RemoveKeyspace { .. }
            | Step::AwaitRestart { .. }
            | Step::Repair { .. }
            | Step::AwaitErased { .. } => false,
        };
    }
    copies(government) + come.len() - leave.len()
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    use blueprint::{Change, Command, Durability, Fate, Kind, OperationId, Position, Remedy, Slot, SlotSet};

    use super::*;
    use crate::holding::Parting;

    const BUCKET: BucketId = BucketId(1);
    const OPERATION: OperationId = OperationId(1);

    /// b1 on n1, n2 and n3, two of which are enough. It is to be split, and then to move from n1 to n4 and from n2 to n5.
    fn moving() -> Blueprint {
        let mut blueprint = Blueprint::new();
        let nodes: Vec<NodeId> = (1..=5).map(NodeId).collect();
        for id in nodes.iter().copied() {
            change(&mut blueprint, &Command::AddNode { id, name: id.to_string(), zone: "".into(), addresses: vec![] });
        }
        let (name, kind, durability) = ("default".into(), Kind::Store, Durability::Disk);
        let placement = vec![nodes[..3].to_vec()];
        let create = Command::CreateKeyspace { name, kind, replicas: 3, min_in_sync: None, durability, placement };
        change(&mut blueprint, &create);
        let child = blueprint.next_bucket.next_child_of(BUCKET);
        let enlist = |node| Step::Enlist { bucket: BUCKET, node: NodeId(node) };
        let dismiss = |node| Step::Dismiss { bucket: BUCKET, node: NodeId(node) };
        let split = Step::Split { bucket: BUCKET, child, slots: SlotSet::range(Slot(0), Slot(99)) };
        let steps = vec![split, enlist(4), enlist(5), dismiss(1), dismiss(2)];
        change(&mut blueprint, &Command::StartOperation { id: OPERATION, by: "a test".into(), steps });
        blueprint
    }

    fn change(blueprint: &mut Blueprint, command: &Command) {
        blueprint.apply(command).expect("it makes sense");
    }

    fn lose(blueprint: &mut Blueprint, node: u64) {
        let government = blueprint.government(BUCKET).expect("it is governed");
        let secondary = *government.secondaries.iter().find(|m| m.node == NodeId(node)).expect("it is a secondary");
        let (replaces, next) = (government.term, Change::Dismiss { secondary, fate: Fate::Leaves });
        change(blueprint, &Command::Succeed { bucket: BUCKET, replaces, change: next });
    }

    fn to_stay(blueprint: &Blueprint) -> usize {
        copies_to_stay(blueprint, BUCKET, blueprint.government(BUCKET).expect("it is governed"))
    }

    #[test]
    fn who_is_to_come_counts_while_the_bucket_can_wait_for_it() {
        let mut blueprint = moving();
        assert_eq!(to_stay(&blueprint), 3, "three, two more, and two less");
        lose(&mut blueprint, 3);
        assert_eq!(to_stay(&blueprint), 2, "one is missing, whatever else happens");
        lose(&mut blueprint, 2);
        assert_eq!(to_stay(&blueprint), 1, "writes wait for another one, and the split for writes");
    }

    /// n3 holds the split of b1 and has not heard that it is committed when n1 and n2 are lost for good. Somebody repairs b1, of which nobody
    /// says that there is a copy, and not its child. When n3 is back, a member of the child, what it has of b1 is what that can be made of.
    #[test]
    fn a_fork_that_a_member_owes_itself_is_not_void() {
        let mut blueprint = moving();
        change(&mut blueprint, &Command::CancelOperation { id: OPERATION, why: "a test".into() });
        let child = blueprint.apply(&Command::ReserveBucket { parent: BUCKET }).unwrap().bucket.unwrap();
        let (slots, at, term) = (SlotSet::range(Slot(0), Slot(99)), Position::new(1, 5), Term(1));
        change(&mut blueprint, &Command::Register { parent: BUCKET, child, slots, at, term });
        for node in [1, 2, 3] {
            change(&mut blueprint, &Command::Depart { node: NodeId(node) });
        }
        let replaces = blueprint.government(BUCKET).unwrap().term;
        let remedy = Remedy::Empty(vec![NodeId(4), NodeId(5)]);
        change(&mut blueprint, &Command::Repair { bucket: BUCKET, replaces, by: "a test".into(), remedy });
        assert!(blueprint.government(BUCKET).is_none() && blueprint.government(child).is_some());
        let member = Member::new(3, 6);
        let parting = Parting { child, at, applied: false, registered: false, forked: false };
        let held = Holding { splits: vec![parting], ..Holding::founded(member, 0, Instant::ZERO) };
        let is_void = |node| fork_is_void(&blueprint, NodeId(node), BUCKET, &held, child);
        assert_eq!([is_void(3), is_void(4)], [false, true]);
    }

    #[test]
    fn who_is_to_come_does_not_count_while_nobody_brings_it() {
        let mut blueprint = moving();
        lose(&mut blueprint, 2);
        assert_eq!(to_stay(&blueprint), 3, "n2 was to go anyway");
        change(&mut blueprint, &Command::PauseOperation { id: OPERATION });
        assert_eq!(to_stay(&blueprint), 2);
    }
}
