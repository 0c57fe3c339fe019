//! What coordinators say about the nodes: who is silent to whom, for how long that counts, and what a majority is.
//!
//! Reports live beside the blueprint. They come every few moments from every coordinator, so they raise no epoch, and they are never
//! pushed. Each counts for a while only; a coordinator is *alive* while its own report counts. That makes the list of coordinators
//! one that nobody has to keep.
//!
//! A report says from which reading of this state it was made (`read_at`: what the clock of the state said there), and its time to
//! live runs from there. So one that was long under way is dead on arrival, and of two that overtook each other the later one stands.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{CoordinatorId, Epoch, Instant, NodeId};

/// A coordinator that is heard of less often is of no use, and its word would hold up the others' for as long.
pub(crate) const MAX_LIFETIME: Duration = Duration::from_secs(60);
/// One in each node of a cluster far larger than any that was tried.
pub(crate) const MAX_COORDINATORS: usize = 4096;

/// What a coordinator sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub by: CoordinatorId,
    /// The clock of the state that it read last.
    pub read_at: Instant,
    /// Rises from report to report while `read_at` stays the same.
    pub number: u64,
    /// From `read_at` on.
    pub lifetime: Duration,
    /// Everyone who has not answered it for longer than its patience.
    pub silent: BTreeSet<NodeId>,
    /// Who acts on which epoch by now (R11 asks for it); only what was not known yet.
    pub echoes: BTreeMap<NodeId, Epoch>,
}

/// What is kept of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    pub stamped: Instant,
    pub read_at: Instant,
    pub number: u64,
    pub good_until: Instant,
    pub silent: BTreeSet<NodeId>,
}

/// The last report of each coordinator that is alive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reports {
    by: BTreeMap<CoordinatorId, Reported>,
    /// Most of them were too old at once, which says more about the meta group than about the coordinators.
    lapsed: bool,
    /// After that nobody departs before this: 1. the meta group stalls, and most reports die; 2. it goes on, and the first to
    /// report is the one that hears nobody. For a moment it is most of those that are alive.
    settled_at: Instant,
}

impl Reports {
    pub fn get(&self, coordinator: CoordinatorId) -> Option<&Reported> {
        self.by.get(&coordinator)
    }

    pub fn coordinators(&self) -> impl Iterator<Item = CoordinatorId> + '_ {
        self.by.keys().copied()
    }

    /// How many coordinators are alive.
    pub fn alive(&self) -> usize {
        self.by.len()
    }

    /// Everyone who is alive has had the time to say so.
    pub fn is_settled(&self, clock: Instant) -> bool {
        !self.lapsed && clock >= self.settled_at
    }

    /// How many of them report this node.
    pub fn reporting(&self, node: NodeId) -> usize {
        self.by.values().filter(|r| r.silent.contains(&node)).count()
    }

    /// More than half of those alive report it. With as many for as against, nothing changes in either direction.
    pub fn is_silent_to_most(&self, node: NodeId) -> bool {
        2 * self.reporting(node) > self.alive()
    }

    /// More than half of those alive hear it.
    pub fn is_heard_by_most(&self, node: NodeId) -> bool {
        2 * (self.alive() - self.reporting(node)) > self.alive()
    }

    /// Forgets what no longer counts.
    pub(crate) fn expire(&mut self, now: Instant) {
        let before = self.by.len();
        self.by.retain(|_, reported| reported.good_until > now);
        self.lapsed |= self.by.len() < before - self.by.len();
    }

    pub(crate) fn is_full_for(&self, coordinator: CoordinatorId) -> bool {
        self.by.len() >= MAX_COORDINATORS && !self.by.contains_key(&coordinator)
    }

    /// False when a later one is known.
    pub(crate) fn take(&mut self, coordinator: CoordinatorId, reported: Reported) -> bool {
        let later = |known: &Reported| (known.read_at, known.number) >= (reported.read_at, reported.number);
        if self.by.get(&coordinator).is_some_and(later) {
            return false;
        }
        if core::mem::take(&mut self.lapsed) {
            self.settled_at = reported.stamped + reported.good_until.since(reported.read_at);
        }
        self.by.insert(coordinator, reported);
        true
    }

    /// Nobody speaks of it any more, and it has no say: a node's coordinator bears its number.
    pub(crate) fn forget_node(&mut self, node: NodeId) {
        self.by.remove(&CoordinatorId(node.0));
        for reported in self.by.values_mut() {
            reported.silent.remove(&node);
        }
    }

    pub(crate) fn validate(&self, clock: Instant, known: impl Fn(NodeId) -> bool) -> Result<(), &'static str> {
        for reported in self.by.values() {
            if reported.read_at > reported.stamped || reported.stamped > clock {
                return Err("a report was made later than it was stamped, or after the clock");
            }
            if reported.good_until <= clock || reported.good_until > reported.read_at + MAX_LIFETIME {
                return Err("a report counts no longer, or for too long");
            }
            if !reported.silent.iter().all(|n| known(*n)) {
                return Err("a node that does not exist is reported");
            }
        }
        if self.by.len() > MAX_COORDINATORS { Err("there are too many reports") } else { Ok(()) }
    }
}
