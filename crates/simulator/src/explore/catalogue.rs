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
    binds: 0,
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

/// Parent and child, with a write in the child, at the moment when they are bound: nobody has seen that yet.
const BOUND: Configuration = Configuration {
    splittable: true,
    prelude: &[Prelude::Split, Prelude::Register, Prelude::WriteChild, Prelude::BindUnseen],
    ..PLAIN
};

/// The same, when the child was absorbed everywhere, and the blueprint does not know.
const ABSORBED: &[Prelude] = &[Prelude::Split, Prelude::Register, Prelude::WriteChild, Prelude::Bind];

/// Smallest first: those before `grow` are exhausted within a million states. So are the merges, except for the last two:
/// `merge-usurp` has 7.5 million, `merge-three` one and a half.
///
/// What bounds a merge, besides its budget: the child is absorbed by its parent and never the other way round; it is bound to it once;
/// only what was absorbed is erased, and that is on disk at once; most begin when the two are bound, or when the child was absorbed.
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
            name: "split-usurp-restart",
            about: "a split, then a usurp and a crash: who reigned in the parent has not reigned in the child",
            splittable: true,
            slow_disk: true,
            prelude: &[Prelude::Split],
            budget: Budget { ticks: 1, crashes: 1, changes: 2, usurps: 1, ..NOTHING },
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
            name: "merge",
            about: "parent and child become one among writes to both, and what is left of the child is erased",
            splittable: true,
            prelude: &[Prelude::Split],
            budget: Budget { writes: 1, binds: 1, ..NOTHING },
            ..PLAIN
        },
        Configuration {
            name: "merge-duplicates",
            about: "a merge in which every message may arrive again and again",
            duplicates: true,
            budget: Budget { changes: 1, usurps: 1, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-restart",
            about: "crash of either at any moment of a merge, with any part of what it had not synced",
            slow_disk: true,
            budget: Budget { crashes: 1, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-restart-alone",
            about: "a lone primary crashes twice while it merges, and reigns anew",
            members: 1,
            slow_disk: true,
            budget: Budget { ticks: 1, crashes: 2, writes: 1, changes: 2, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-saved",
            about: "absorbed, and not saved yet: checkpoints, erasing, a crash",
            slow_disk: true,
            prelude: ABSORBED,
            budget: Budget { ticks: 1, crashes: 1, changes: 1, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-told",
            about: "absorbed, and nobody knows but the primary, which crashes and is usurped",
            prelude: ABSORBED,
            budget: Budget { ticks: 1, crashes: 1, changes: 2, usurps: 1, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-over",
            about: "absorbed, and the blueprint knows: what is left of the child is erased and forgotten",
            prelude: &[Prelude::Split, Prelude::Register, Prelude::WriteChild, Prelude::Bind, Prelude::Merge],
            budget: Budget { ticks: 1, crashes: 1, changes: 2, usurps: 1, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-bind",
            about: "a seat that was proposed before the bond, in one of the two",
            members: 1,
            spare: true,
            prelude: &[Prelude::Split, Prelude::Register, Prelude::Enlist, Prelude::EnlistChild],
            budget: Budget { writes: 1, changes: 2, binds: 1, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-grow",
            about: "a candidate is enlisted before the bond, while it holds and after it, and is seated",
            members: 1,
            spare: true,
            prelude: &[Prelude::Split, Prelude::Register],
            budget: Budget { changes: 3, binds: 1, enlistments: 1, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-seat",
            about: "two that are bound fall below the minimum: a seat needs the word of both primaries",
            min_in_sync: 2,
            fates: &[Fate::Stalled],
            budget: Budget { changes: 3, dismissals: 1, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-lost",
            about: "a disk is gone in the middle of a merge, its node comes back under a new incarnation",
            budget: Budget { losses: 1, changes: 3, enlistments: 1, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-reenlist",
            about: "dismissed in the middle of a merge, and named again with what it had",
            budget: Budget { changes: 4, dismissals: 1, enlistments: 1, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-usurp",
            about: "the primary of both is usurped at any moment of a merge",
            budget: Budget { ticks: 1, changes: 1, usurps: 1, ..NOTHING },
            ..BOUND
        },
        Configuration {
            name: "merge-three",
            about: "three members, of which one is dismissed in the middle of a merge",
            members: 3,
            budget: Budget { changes: 1, dismissals: 1, ..NOTHING },
            ..BOUND
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
