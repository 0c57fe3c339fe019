//! Small clusters, each with just enough freedom to go wrong in one way.

use blueprint::Fate;

use super::configuration::{Configuration, Prelude};
use super::world::Budget;

const NOTHING: Budget = Budget {
    ticks: 0,
    crashes: 0,
    losses: 0,
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
    about: "",
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

/// Smallest first: those before `grow` are exhausted within a million states.
pub fn configurations() -> Vec<Configuration> {
    vec![
        Configuration {
            name: "two-members",
            about: "crash of either, with any part of what it had not synced; usurp",
            slow_disk: true,
            budget: Budget { ticks: 1, crashes: 1, writes: 1, changes: 2, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "two-members-usurp",
            about: "two writes, leases that run out twice, usurp",
            budget: Budget { ticks: 2, writes: 2, changes: 1, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "two-members-duplicates",
            about: "every message may arrive again and again",
            duplicates: true,
            budget: Budget { ticks: 1, writes: 1, changes: 1, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "hand-over",
            about: "planned change of primary, refused and accepted, against a usurp",
            budget: Budget { ticks: 1, writes: 1, changes: 2, usurps: 1, hand_overs: 1, refusals: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs-tail",
            about: "both fall below the minimum in turn",
            min_in_sync: 2,
            budget: Budget { ticks: 2, writes: 1, changes: 2, usurps: 2, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs-reign",
            about: "a lone primary reads while its heir is appointed and seats a candidate",
            spare: true,
            min_in_sync: 2,
            prelude: &[Prelude::Enlist, Prelude::Dismiss, Prelude::Tick],
            budget: Budget { ticks: 1, reads: 1, changes: 2, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "grow-hand-over",
            about: "a candidate is seated and handed over to",
            members: 1,
            spare: true,
            prelude: &[Prelude::Enlist],
            budget: Budget { ticks: 1, writes: 1, changes: 3, usurps: 1, hand_overs: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "hand-over-back",
            about: "to the other and back, with messages of the first time still under way",
            budget: Budget { ticks: 2, changes: 3, usurps: 1, renewals: 1, hand_overs: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "reenlist",
            about: "dismissed, and named again under a new incarnation while its data is still there",
            budget: Budget { ticks: 1, writes: 1, changes: 4, usurps: 1, dismissals: 1, enlistments: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "grow-refused",
            about: "a seat that is refused, given up, and accepted all the same",
            members: 1,
            spare: true,
            stalls: true,
            prelude: &[Prelude::Enlist],
            budget: Budget { ticks: 2, writes: 1, changes: 2, usurps: 1, refusals: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs-enlist",
            about: "the government changes again while an heir waits to reign",
            spare: true,
            min_in_sync: 2,
            prelude: &[Prelude::Enlist, Prelude::Dismiss, Prelude::Tick],
            budget: Budget { reads: 1, changes: 3, usurps: 1, enlistments: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "split-restart",
            about: "crash after a split, with parent and child on one disk",
            splittable: true,
            slow_disk: true,
            prelude: &[Prelude::Split],
            budget: Budget { ticks: 1, crashes: 1, writes: 1, changes: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "hand-over-restart",
            about: "crash in the middle of a hand over",
            slow_disk: true,
            budget: Budget { ticks: 1, crashes: 1, writes: 1, changes: 2, usurps: 1, hand_overs: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "three-members",
            about: "one crash, one write, one usurp",
            members: 3,
            budget: Budget { ticks: 1, crashes: 1, writes: 1, changes: 1, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "grow",
            about: "a candidate is filled and seated while entries stream, and usurps",
            members: 1,
            spare: true,
            prelude: &[Prelude::Enlist],
            budget: Budget { ticks: 1, crashes: 1, writes: 2, changes: 2, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "split",
            about: "a split among writes to both halves",
            splittable: true,
            budget: Budget { ticks: 1, writes: 1, splits: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "return",
            about: "the former primary stays on as a candidate, is seated again and usurps",
            fates: &[Fate::Stalled],
            budget: Budget { ticks: 2, writes: 1, changes: 3, usurps: 2, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "grow-cut",
            about: "the candidate begins where the log was cut off, and gets tables",
            members: 1,
            spare: true,
            checkpoint_every: Some(2),
            prelude: &[Prelude::Write, Prelude::EnlistUnseen],
            budget: Budget { ticks: 2, writes: 1, changes: 2, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "refill",
            about: "a dismissed laggard begins anew after the log was cut off",
            checkpoint_every: Some(1),
            fates: &[Fate::Stalled],
            budget: Budget { ticks: 2, writes: 2, changes: 3, dismissals: 1, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "restart",
            about: "a primary that restarts asks for a new term and reigns anew",
            slow_disk: true,
            budget: Budget { ticks: 1, crashes: 1, writes: 2, changes: 3, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "lost",
            about: "a disk is gone, its node comes back under a new incarnation",
            budget: Budget { ticks: 1, losses: 1, writes: 1, changes: 3, usurps: 1, enlistments: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "lost-heirs",
            about: "a disk is gone below the minimum",
            spare: true,
            min_in_sync: 2,
            budget: Budget { ticks: 1, losses: 1, writes: 1, changes: 3, usurps: 1, enlistments: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs",
            about: "shrinking to one while a candidate is filled; the heir reigns",
            spare: true,
            min_in_sync: 2,
            prelude: &[Prelude::Enlist],
            budget: Budget { ticks: 1, writes: 1, changes: 3, usurps: 1, dismissals: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs-joint",
            about: "joint mode below the minimum, heirs that are candidates again",
            spare: true,
            min_in_sync: 2,
            fates: &[Fate::Stalled],
            prelude: &[Prelude::Enlist, Prelude::Dismiss],
            budget: Budget { ticks: 1, reads: 1, changes: 3, usurps: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "heirs-split",
            about: "parent and child below the minimum",
            min_in_sync: 2,
            splittable: true,
            prelude: &[Prelude::Split],
            budget: Budget { ticks: 2, writes: 1, changes: 2, usurps: 2, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "split-usurp",
            about: "a split whose primary is usurped",
            splittable: true,
            budget: Budget { ticks: 1, writes: 1, changes: 1, usurps: 1, splits: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "split-grow",
            about: "a split against a seat",
            members: 1,
            spare: true,
            splittable: true,
            prelude: &[Prelude::Enlist],
            budget: Budget { ticks: 1, writes: 1, changes: 2, usurps: 1, splits: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "split-cut",
            about: "a split, checkpoints, and a crash",
            splittable: true,
            slow_disk: true,
            checkpoint_every: Some(1),
            budget: Budget { ticks: 1, crashes: 1, writes: 1, splits: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "three-members-twice",
            about: "two changes of three members: usurp, dismiss, a new Reign of another",
            members: 3,
            budget: Budget { ticks: 1, writes: 1, changes: 2, usurps: 1, renewals: 1, dismissals: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "stall",
            about: "three members, of which one is too slow",
            members: 3,
            min_in_sync: 2,
            stalls: true,
            budget: Budget { ticks: 2, writes: 1, changes: 3, usurps: 1, ..NOTHING },
            ..PLAIN
        },
    ]
}
