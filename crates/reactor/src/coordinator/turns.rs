//! Who of several coordinators acts: one at once, the next one a little later, if it is still needed then.
//!
//! Nobody is appointed and nobody is asked. Each sorts those alive and counts from a place that the matter itself decides, so that
//! the work spreads, and each knows how long to hold back. If two of them differ about who is alive, a thing is done twice, which is
//! harmless, or a little later.
//!
//! Only whoever runs beside the leader of the meta group does at once what somebody waits for (steps of operations, blueprints for those
//! concerned): it knows before all others, and whoever's turn it is may hear of it only in its next round.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use blueprint::{Conduct, CoordinatorId, Epoch, Instant, MetaState, NodeId, OperationId};

use super::Coordinator;

/// Something that any coordinator could do. It names what it starts from: when that moves, the turns begin anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    Push { node: NodeId, echo: Epoch },
    Echo { node: NodeId, known: Epoch },
    Step { id: OperationId, step: u32 },
}

impl Need {
    fn place(self) -> u64 {
        match self {
            Self::Push { node, .. } | Self::Echo { node, .. } => node.0,
            Self::Step { id, .. } => id.0,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// Since when each thing has been needed.
    since: BTreeMap<Need, Instant>,
    touched: BTreeSet<Need>,
}

impl Turns {
    fn needed_for(&mut self, now: Instant, need: Need) -> Duration {
        self.touched.insert(need);
        now.since(*self.since.entry(need).or_insert(now))
    }

    /// Whatever was not needed since the last time is needed no longer.
    pub(crate) fn settle(&mut self) {
        let touched = core::mem::take(&mut self.touched);
        self.since.retain(|need, _| touched.contains(need));
    }
}

impl<C: Conduct> Coordinator<C> {
    pub(crate) fn is_my_turn(&mut self, now: Instant, need: Need) -> bool {
        let rank = self.rank(need.place());
        self.turns.needed_for(now, need) >= self.config.stagger * rank
    }

    /// The same, if somebody waits for it.
    pub(crate) fn is_my_turn_at_once(&mut self, now: Instant, need: Need) -> bool {
        self.is_my_turn(now, need) || self.leads_meta
    }

    /// Is it this one that does at once what an operation needs, by what it knows?
    pub fn comes_first(&self, operation: OperationId) -> bool {
        self.leads_meta || self.rank(operation.0) == 0
    }

    /// How many come before this one.
    pub(crate) fn rank(&self, place: u64) -> u32 {
        let Place { mine, count } = self.place;
        let first = (place % u64::from(count)) as u32;
        (mine + count - first) % count
    }
}

/// Where a coordinator stands among those alive, itself included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    mine: u32,
    count: u32,
}

impl Place {
    /// One whose node has departed, or is about to, has said its last word, even if that still counts.
    pub(crate) fn of(me: CoordinatorId, state: &MetaState) -> Self {
        let is_there = |id: &CoordinatorId| {
            let (node, reports) = (NodeId(id.0), &state.reports);
            state.blueprint.is_present(node) && !reports.is_silent_to_most(node)
        };
        let mut alive: BTreeSet<CoordinatorId> = state.reports.coordinators().filter(is_there).collect();
        alive.insert(me);
        let mine = alive.iter().take_while(|id| **id < me).count();
        Self { mine: mine as u32, count: alive.len() as u32 }
    }
}
