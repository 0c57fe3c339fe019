//! Who answers: a fault detector that knows when it must not be believed.
//!
//! Like a night watchman who calls at every door, each round. A door that stays shut for longer than his patience he reports. Should
//! he find that he fell asleep himself, all the silence he remembers is worth nothing: he goes round once more before he says
//! anything at all.
//!
//! An answer counts from when the probe that it answers was *sent*, so a late one makes nobody look more alive than it was.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use blueprint::{BucketId, Epoch, Instant, Member, NodeId};

use super::io::{Answer, Holding};

#[derive(Clone, Debug)]
pub(crate) struct Watch {
    patience: Duration,
    /// The rounds whose answers still count, oldest first, and when they were sent.
    rounds: VecDeque<(u64, Instant)>,
    /// Since when each node has been asked, without a break. All others below are among these.
    asked: BTreeMap<NodeId, Instant>,
    heard: BTreeMap<NodeId, Heard>,
    /// Since it began, everyone was heard or missed at least once. Until then it says nothing about anybody.
    settled: bool,
}

#[derive(Clone, Debug)]
struct Heard {
    round: u64,
    sent: Instant,
    answer: Answer,
}

impl Watch {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, rounds: VecDeque::new(), asked: BTreeMap::new(), heard: BTreeMap::new(), settled: false }
    }

    /// Forgets who was heard, and every question under way.
    pub(crate) fn begin_anew(&mut self) {
        self.rounds.clear();
        self.asked.clear();
        self.heard.clear();
        self.settled = false;
    }

    pub(crate) fn has_begun(&self) -> bool {
        !self.rounds.is_empty()
    }

    pub(crate) fn settle(&mut self) {
        self.settled = self.has_begun();
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    pub(crate) fn begin_round(&mut self, round: u64, now: Instant) {
        let (patience, recent) = (self.patience, &mut self.rounds);
        recent.retain(|(_, sent)| now.since(*sent) <= patience);
        recent.push_back((round, now));
    }

    pub(crate) fn is_asked(&self, node: NodeId) -> bool {
        self.asked.contains_key(&node)
    }

    pub(crate) fn ask(&mut self, node: NodeId, now: Instant) {
        self.asked.entry(node).or_insert(now);
    }

    pub(crate) fn keep_only(&mut self, known: impl Fn(NodeId) -> bool) {
        self.asked.retain(|node, _| known(*node));
        self.heard.retain(|node, _| known(*node));
    }

    pub(crate) fn on_answer(&mut self, node: NodeId, round: u64, answer: Answer) {
        let Some(&(_, sent)) = self.rounds.iter().find(|(r, _)| *r == round) else { return };
        if !self.is_asked(node) || self.heard.get(&node).is_some_and(|h| h.round > round) {
            return;
        }
        // Of one round, in which it may have been asked about one bucket after the other: none of that is forgotten.
        let mut answer = answer;
        if let Some(before) = self.heard.remove(&node).filter(|h| h.round == round) {
            let mut holds = before.answer.holds;
            holds.append(&mut answer.holds);
            answer.holds = holds;
        }
        self.heard.insert(node, Heard { round, sent, answer });
    }

    /// It answered within patience.
    pub(crate) fn hears(&self, node: NodeId, now: Instant) -> bool {
        self.heard.get(&node).is_some_and(|h| now.since(h.sent) <= self.patience)
    }

    /// It was asked for longer than patience, and did not answer within it.
    pub(crate) fn misses(&self, node: NodeId, now: Instant) -> bool {
        let long = self.asked.get(&node).is_some_and(|since| now.since(*since) > self.patience);
        long && !self.hears(node, now)
    }

    /// It did not answer the last round: time to think about what happens if it never does.
    pub(crate) fn is_suspect(&self, node: NodeId) -> bool {
        let last = self.rounds.back().map_or(0, |(round, _)| *round);
        self.heard.get(&node).is_none_or(|h| h.round < last)
    }

    /// What it acts on by its last answer: less than before, when it has restarted since.
    pub(crate) fn acts_on(&self, node: NodeId) -> Option<Epoch> {
        self.heard.get(&node).map(|h| h.answer.echoed)
    }

    pub(crate) fn echo(&self, node: NodeId) -> Epoch {
        self.heard.get(&node).map_or(Epoch(0), |h| h.answer.echoed)
    }

    /// What this very replica has, by its node's last answer.
    pub(crate) fn holding(&self, member: Member, bucket: BucketId, now: Instant) -> Option<Holding> {
        let heard = self.heard.get(&member.node).filter(|_| self.hears(member.node, now))?;
        let holding = heard.answer.holds.get(&bucket).copied()?;
        (holding.incarnation == member.incarnation && holding.whole).then_some(holding)
    }

    pub(crate) fn check_invariants(&self) {
        assert!(self.heard.keys().all(|node| self.is_asked(*node)), "nobody answers who was not asked");
        assert!(self.rounds.iter().is_sorted(), "rounds follow each other");
        assert!(!self.settled || self.has_begun(), "who asked nobody knows nothing");
    }
}
