//! The meta group as the explorer sees it: every government that ever was, and what is being asked of it.
//!
//! Answers are slow by nature here: a proposal lies on the desk until it is accepted (or never is), a question is looked up at
//! one moment and answered at a later one, and each node sees each new blueprint when the explorer says so.

use blueprint::{BucketId, Change, Epoch, Government, Incarnation, Member, NodeId, Position, SlotSet, Term, Unlawful};
use phaser::View;

/// Buckets that exist here: the parent, and the child that a split makes of it.
pub(super) const BUCKETS: usize = 2;
pub(super) const CHILD: BucketId = BucketId(2);

#[derive(Clone, Debug, Hash)]
pub(super) struct Meta {
    pub(super) epoch: u8,
    /// Parent and child.
    realms: [Realm; BUCKETS],
    pub(super) past: Past,
}

/// All governments of one bucket, each with the epoch that made it.
#[derive(Clone, Debug, Default, Hash)]
struct Realm {
    slots: SlotSet,
    /// Where the parent was split: none for the parent itself.
    born: Option<Position>,
    reigns: Vec<(u8, Government)>,
}

/// What kinds of change there were: only counted.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Past {
    pub(super) usurped: bool,
    pub(super) handed_over: bool,
    pub(super) split: bool,
}

impl Meta {
    pub(super) fn first(government: Government, slots: SlotSet) -> Self {
        let parent = Realm { slots, born: None, reigns: vec![(1, government)] };
        Self { epoch: 1, realms: [parent, Realm::default()], past: Past::default() }
    }

    /// The government of a bucket that the blueprint knows.
    pub(super) fn government(&self, bucket: usize) -> Option<&Government> {
        self.realms[bucket].reigns.last().map(|(_, government)| government)
    }

    pub(super) fn government_at(&self, bucket: usize, epoch: u8) -> Option<&Government> {
        let reigns = &self.realms[bucket].reigns;
        reigns.iter().rev().find(|(since, _)| *since <= epoch).map(|(_, government)| government)
    }

    pub(super) fn slots_at(&self, bucket: usize, epoch: u8) -> SlotSet {
        let slots = self.realms[bucket].slots.clone();
        let child = &self.realms[1];
        let parted = bucket == 0 && child.reigns.first().is_some_and(|(since, _)| *since <= epoch);
        if parted { slots.difference(&child.slots) } else { slots }
    }

    /// What the blueprint of an epoch says about a bucket. Until it is registered, a child is governed by its parent's government.
    pub(super) fn view(&self, bucket: usize, epoch: u8) -> View {
        let own = self.government_at(bucket, epoch);
        let government = own.or_else(|| self.government_at(0, epoch)).expect("the parent is always governed").clone();
        let child = &self.realms[1];
        let known = bucket == 0 && child.reigns.first().is_some_and(|(since, _)| *since <= epoch);
        let children = child.born.filter(|_| known).map(|at| (CHILD, at)).into_iter().collect();
        View { epoch: Epoch(u64::from(epoch)), government, children, bond: None, absorbed: Vec::new() }
    }

    /// Accepts a change. At most one successor of each term (R7).
    pub(super) fn succeed(&self, bucket: usize, replaces: Term, change: &Change) -> Result<Self, Unlawful> {
        let epoch = self.epoch + 1;
        let Some(current) = self.government(bucket) else {
            return Err(Unlawful::StaleTerm { proposed: replaces, current: Term(0) });
        };
        if current.term != replaces {
            return Err(Unlawful::StaleTerm { proposed: replaces, current: current.term });
        }
        let government = current.succeed(change, Incarnation(u64::from(epoch)))?;
        let mut next = self.clone();
        next.epoch = epoch;
        next.past.usurped |= matches!(change, Change::Usurp { .. });
        next.past.handed_over |= matches!(change, Change::HandOver { .. });
        next.realms[bucket].reigns.push((epoch, government));
        Ok(next)
    }

    /// A split, told after it committed: the child begins with the parent's government as it stands. Nothing new when it is
    /// known already.
    pub(super) fn register(&self, slots: &SlotSet, at: Position) -> Option<Self> {
        if !self.realms[1].reigns.is_empty() {
            return None;
        }
        let mut next = self.clone();
        next.epoch += 1;
        next.past.split = true;
        let government = self.government(0).expect("the parent is always governed").clone();
        next.realms[1] = Realm { slots: slots.clone(), born: Some(at), reigns: vec![(next.epoch, government)] };
        Some(next)
    }

    pub(super) fn registered_at(&self) -> Option<Position> {
        self.realms[1].born
    }

    pub(super) fn named(&self, bucket: usize, epoch: u8, node: NodeId) -> Option<Member> {
        self.government_at(bucket, epoch)?.named(node)
    }
}

/// What lies on the meta group's desk, in no order.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Desk {
    pub(super) proposals: Vec<Proposal>,
    pub(super) questions: Vec<Question>,
    pub(super) registers: Vec<(SlotSet, Position)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Proposal {
    /// The replica that made it.
    pub(super) by: u8,
    pub(super) bucket: u8,
    pub(super) term: Term,
    pub(super) change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Question {
    pub(super) by: u8,
    pub(super) nonce: u64,
    /// The epoch that was found, once it was looked up.
    pub(super) found: Option<u8>,
}

impl Desk {
    /// A proposal that was made before is the same paper: it may still be accepted.
    pub(super) fn propose(&mut self, proposal: Proposal) {
        if !self.proposals.contains(&proposal) {
            self.proposals.push(proposal);
            self.proposals.sort_by_cached_key(super::hash::name_of);
        }
    }

    /// The same question again is the same question.
    pub(super) fn ask(&mut self, by: u8, nonce: u64) {
        if !self.questions.iter().any(|q| (q.by, q.nonce) == (by, nonce)) {
            self.questions.push(Question { by, nonce, found: None });
            self.questions.sort_unstable();
        }
    }

    pub(super) fn register(&mut self, slots: SlotSet, at: Position) {
        if !self.registers.contains(&(slots.clone(), at)) {
            self.registers.push((slots, at));
        }
    }
}
