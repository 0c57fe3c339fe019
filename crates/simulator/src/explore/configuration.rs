//! Small clusters, each with just enough freedom to go wrong in one way.

use std::time::Duration;

use blueprint::{Fate, Government, Member, Slot, SlotSet};
use phaser::Config;

use super::replica::{Disk, TICK};
use super::world::Budget;

/// What is explored: who is there, how it begins, and how much may happen.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub name: &'static str,
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
    Split,
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

const NOTHING: Budget = Budget {
    ticks: 0,
    crashes: 0,
    writes: 0,
    reads: 0,
    changes: 0,
    usurps: 0,
    dismissals: 0,
    enlistments: 0,
    renewals: 0,
    hand_overs: 0,
    splits: 0,
    refusals: 0,
};

const PLAIN: Configuration = Configuration {
    name: "",
    members: 2,
    spare: false,
    min_in_sync: 1,
    splittable: false,
    slow_disk: false,
    slow_meta: false,
    duplicates: false,
    stalls: false,
    checkpoint_every: None,
    fates: &[Fate::Leaves],
    prelude: &[],
    budget: NOTHING,
};

/// Smallest first.
pub fn configurations() -> Vec<Configuration> {
    vec![
        Configuration {
            name: "two-members",
            slow_disk: true,
            budget: Budget { ticks: 1, crashes: 1, writes: 1, changes: 2, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "two-members-usurp",
            budget: Budget { ticks: 2, writes: 2, changes: 1, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "two-members-duplicates",
            duplicates: true,
            budget: Budget { ticks: 1, writes: 1, changes: 1, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "hand-over",
            budget: Budget { ticks: 1, writes: 1, changes: 2, usurps: 1, hand_overs: 1, refusals: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "hand-over-back",
            budget: Budget { ticks: 2, changes: 3, usurps: 1, renewals: 1, hand_overs: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "grow",
            members: 1,
            spare: true,
            prelude: &[Prelude::Enlist],
            budget: Budget { ticks: 1, crashes: 1, writes: 2, changes: 2, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "grow-cut",
            members: 1,
            spare: true,
            checkpoint_every: Some(2),
            prelude: &[Prelude::Write, Prelude::EnlistUnseen],
            budget: Budget { ticks: 2, writes: 1, changes: 2, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "refill",
            checkpoint_every: Some(1),
            fates: &[Fate::Stalled],
            budget: Budget { ticks: 2, writes: 2, changes: 3, dismissals: 1, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs-tail",
            min_in_sync: 2,
            budget: Budget { ticks: 2, writes: 1, changes: 2, usurps: 2, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs",
            spare: true,
            min_in_sync: 2,
            prelude: &[Prelude::Enlist],
            budget: Budget { ticks: 1, writes: 1, changes: 3, usurps: 1, dismissals: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs-reign",
            spare: true,
            min_in_sync: 2,
            prelude: &[Prelude::Enlist, Prelude::Dismiss, Prelude::Tick],
            budget: Budget { ticks: 1, reads: 1, changes: 2, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "split",
            splittable: true,
            budget: Budget { ticks: 1, writes: 1, splits: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "split-grow",
            members: 1,
            spare: true,
            splittable: true,
            prelude: &[Prelude::Enlist],
            budget: Budget { ticks: 1, writes: 1, changes: 2, usurps: 1, splits: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "split-restart",
            splittable: true,
            slow_disk: true,
            prelude: &[Prelude::Split],
            budget: Budget { ticks: 1, crashes: 1, writes: 1, changes: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "split-usurp",
            splittable: true,
            budget: Budget { ticks: 1, writes: 1, changes: 1, usurps: 1, splits: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "three-members",
            members: 3,
            budget: Budget { ticks: 1, crashes: 1, writes: 1, changes: 1, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "three-members-twice",
            members: 3,
            budget: Budget { ticks: 1, writes: 1, changes: 2, usurps: 1, renewals: 1, dismissals: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "restart",
            slow_disk: true,
            budget: Budget { ticks: 1, crashes: 1, writes: 2, changes: 3, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "grow-refused",
            members: 1,
            spare: true,
            stalls: true,
            prelude: &[Prelude::Enlist],
            budget: Budget { ticks: 2, writes: 1, changes: 2, usurps: 1, refusals: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "grow-hand-over",
            members: 1,
            spare: true,
            prelude: &[Prelude::Enlist],
            budget: Budget { ticks: 1, writes: 1, changes: 3, usurps: 1, hand_overs: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "hand-over-restart",
            slow_disk: true,
            budget: Budget { ticks: 1, crashes: 1, writes: 1, changes: 2, usurps: 1, hand_overs: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "return",
            fates: &[Fate::Stalled],
            budget: Budget { ticks: 2, writes: 1, changes: 3, usurps: 2, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "reenlist",
            budget: Budget { ticks: 1, writes: 1, changes: 4, usurps: 1, dismissals: 1, enlistments: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs-split",
            min_in_sync: 2,
            splittable: true,
            prelude: &[Prelude::Split],
            budget: Budget { ticks: 2, writes: 1, changes: 2, usurps: 2, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs-joint",
            spare: true,
            min_in_sync: 2,
            fates: &[Fate::Stalled],
            prelude: &[Prelude::Enlist, Prelude::Dismiss],
            budget: Budget { ticks: 1, reads: 1, changes: 3, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "split-cut",
            splittable: true,
            slow_disk: true,
            checkpoint_every: Some(1),
            budget: Budget { ticks: 1, crashes: 1, writes: 1, splits: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs-enlist",
            spare: true,
            min_in_sync: 2,
            prelude: &[Prelude::Enlist, Prelude::Dismiss, Prelude::Tick],
            budget: Budget { reads: 1, changes: 3, usurps: 1, enlistments: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "stall",
            members: 3,
            min_in_sync: 2,
            stalls: true,
            budget: Budget { ticks: 2, writes: 1, changes: 3, usurps: 1, ..NOTHING },
            ..PLAIN
        },
    ]
}
