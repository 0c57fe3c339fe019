//! A small cluster, and how much may happen to it.

use std::time::Duration;

use blueprint::{Fate, Government, Member, Slot, SlotSet};
use phaser::Config;

use super::replica::{Disk, TICK};
use super::world::Budget;

/// What is explored: who is there, how it begins, and how much may happen.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub name: &'static str,
    /// What it is after, in a few words.
    pub about: &'static str,
    /// The first is the primary.
    pub members: u8,
    /// One more node, that is nothing at first.
    pub spare: bool,
    pub min_in_sync: u8,
    /// The bucket has two slots and can be split.
    pub splittable: bool,
    pub slow_disk: bool,
    /// A question to the meta group is looked up at one moment and answered at a later one.
    pub slow_meta: bool,
    /// A message may arrive more than once.
    pub duplicates: bool,
    /// A candidate (or laggard) that is silent for less than a tick is waited for; otherwise forever.
    pub stalls: bool,
    /// After this many entries the tables are checkpointed and the log before is cut off.
    pub checkpoint_every: Option<u64>,
    pub fates: &'static [Fate],
    /// Done in this order, everything settled after each, before exploration begins.
    pub prelude: &'static [Prelude],
    pub budget: Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prelude {
    Write,
    /// The spare node becomes a candidate; `Unseen`: nobody has seen that yet.
    Enlist,
    EnlistUnseen,
    /// The last secondary is dismissed.
    Dismiss,
    /// To slot 1, which may be the child's.
    WriteChild,
    Split,
    /// The blueprint hears of the split.
    Register,
    /// In the child.
    EnlistChild,
    /// Parent and child are bound, and settling makes them one; `Unseen`: nobody has seen that yet.
    Bind,
    BindUnseen,
    /// The blueprint hears of that.
    Merge,
    Tick,
}

impl Configuration {
    pub(super) fn disk(&self) -> Disk {
        if self.slow_disk { Disk::Slow } else { Disk::Instant }
    }

    pub(super) fn nodes(&self) -> usize {
        usize::from(self.members) + usize::from(self.spare)
    }

    pub(super) fn slots(&self) -> SlotSet {
        SlotSet::range(Slot(0), Slot(u16::from(self.splittable)))
    }

    pub(super) fn government(&self) -> Government {
        let members: Vec<Member> = (1..=u64::from(self.members)).map(|node| Member::new(node, 1)).collect();
        Government::first(members[0], members[1..].to_vec(), self.min_in_sync)
    }

    /// One tick is a lease, a beacon and a retry: so there are only the present, what is still good, and the past. A margin would
    /// add nothing, because all nodes share one clock here.
    pub(super) fn phaser(&self) -> Config {
        let never = TICK * 1000;
        Config {
            lease: TICK,
            margin: Duration::ZERO,
            beacon: TICK,
            retry: TICK,
            stall: if self.stalls { TICK / 2 } else { never },
            seat_delay: Duration::ZERO,
            drain_budget: TICK,
            patience: never,
            checkpoint_every: self.checkpoint_every.unwrap_or(u64::MAX),
            keep_entries: 0,
            fill_rate: u64::MAX,
            ..Config::default()
        }
    }
}
