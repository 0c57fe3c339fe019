//! What a cell is made of: a moment of a step, a victim, and a blow.

use blueprint::Step;

/// How far a step has come when the blow falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The blueprint shows that it is next.
    Begins,
    /// What makes it true, or tells that it is true, is on its way to the meta group.
    Proposed,
    /// Some of the copy has been sent.
    Filling,
    /// The primary needs the candidate's acknowledgements already, and proposes to seat it (R6).
    Joint,
    /// The primary has stopped writing, and proposes its successor.
    Drained,
    /// The split is in the parent's log, on its way to the other members; or the end of what is to be merged is in its log.
    Logged,
}

impl Moment {
    pub fn of(step: &Step) -> &'static [Self] {
        match step {
            Step::Enlist { .. } | Step::Dismiss { .. } => &[Self::Begins, Self::Proposed],
            Step::AwaitSeated { .. } => &[Self::Begins, Self::Filling, Self::Joint],
            Step::HandOver { .. } => &[Self::Begins, Self::Drained],
            Step::Split { .. } | Step::Merge { .. } => &[Self::Begins, Self::Logged, Self::Proposed],
            Step::SetMinimum { .. } | Step::AwaitRestart { .. } => &[Self::Begins],
            // They are about no bucket: nobody has a part in them.
            Step::Mark { .. }
            | Step::SetReplicas { .. }
            | Step::RemoveKeyspace { .. }
            | Step::AwaitErased { .. }
            | Step::Repair { .. } => &[],
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Begins => "begins",
            Self::Proposed => "proposed",
            Self::Filling => "filling",
            Self::Joint => "joint",
            Self::Drained => "drained",
            Self::Logged => "logged",
        }
    }
}

/// Who is struck. All of them take part in the step, or in carrying it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// Who led the bucket when the operation began.
    OldPrimary,
    /// Who is to lead it, unless that is the joiner.
    NewPrimary,
    /// Another member: the one that is to leave, if any is.
    Secondary,
    /// Who gets a copy.
    Joiner,
    /// A node without a part in the bucket that leads the meta group: that is away until it has another leader.
    Voter,
    /// The node of the coordinator whose turn it is to carry the operation on, if it is none of the others.
    Coordinator,
}

impl Victim {
    pub const ALL: [Self; 6] =
        [Self::OldPrimary, Self::NewPrimary, Self::Secondary, Self::Joiner, Self::Voter, Self::Coordinator];

    pub fn name(self) -> &'static str {
        match self {
            Self::OldPrimary => "old-primary",
            Self::NewPrimary => "new-primary",
            Self::Secondary => "secondary",
            Self::Joiner => "joiner",
            Self::Voter => "voter",
            Self::Coordinator => "coordinator",
        }
    }
}

/// What befalls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// The process dies and is back before anybody misses it.
    Restart,
    /// The process dies, and is back long after it departed.
    Crash,
    /// The disk is lost as well: another node comes under the same name.
    Wipe,
    /// The process stands still for as long, and then goes on as if nothing had happened.
    Pause,
    /// Nobody reaches it for as long, nor does it reach anybody; but for clients.
    Cut,
}

impl Blow {
    pub const ALL: [Self; 5] = [Self::Restart, Self::Crash, Self::Wipe, Self::Pause, Self::Cut];

    pub fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Crash => "crash",
            Self::Wipe => "wipe",
            Self::Pause => "pause",
            Self::Cut => "cut",
        }
    }
}

/// The one of that name.
pub(super) fn find<T: Copy>(all: &[T], wanted: &str, name: impl Fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|one| name(*one) == wanted).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        format!("there is no '{wanted}' here; there are {}", names.join(", "))
    })
}
