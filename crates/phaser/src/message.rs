//! What replicas of one bucket say to each other. Each message travels with both ends' incarnations (R10).

use blueprint::{Index, Instant, Member, Position, SlotSet, Term};
use serde::{Deserialize, Serialize};

use crate::durable::Image;
use crate::entries::Entries;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Envelope {
    pub from: Member,
    pub to: Member,
    pub message: Message,
}

/// `sent` is the primary's clock when it sent; it comes back in the answer and means nothing to anyone else (R5).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Primary to everyone: entries that follow `previous`, and how far everything is committed.
    Prepare {
        term: Term,
        previous: Position,
        entries: Entries,
        commit: Index,
        sent: Instant,
    },
    /// `upto` is the last index that this Prepare proved equal, and it is safe. Grants a lease.
    Prepared {
        term: Term,
        upto: Index,
        progress: Progress,
        sent: Instant,
    },
    /// The log differs at `previous`: here is where it ends, and an entry that is surely right.
    Differs {
        term: Term,
        last: Position,
        known: Position,
        progress: Progress,
        sent: Instant,
    },
    /// "A higher term was promised": the sender of the lower one is no longer the primary (R2).
    Outranked {
        promised: Term,
    },
    /// Renews leases when there is no traffic.
    Beacon {
        term: Term,
        commit: Index,
        sent: Instant,
    },
    BeaconAck {
        term: Term,
        progress: Progress,
        sent: Instant,
    },
    /// Primary to candidate: discard everything, your log begins after `base`, these are your slots. Unless you have that base; but
    /// not if you hold `refuted`, which you take for committed and which is in no log of a member any more.
    Begin {
        term: Term,
        base: Position,
        refuted: Option<Position>,
        clock: u64,
        owned: SlotSet,
    },
    /// Primary to candidate: tables as they stood at an index.
    Fill {
        term: Term,
        image: Image,
    },
    /// Candidate to primary: those are safe.
    Filled {
        term: Term,
        slots: SlotSet,
        progress: Progress,
    },
    /// From a primary that has seen its successor: it reads no more in `term` (R5).
    Abdicate {
        term: Term,
    },
}

/// How far a replica is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Progress {
    pub applied: Index,
    /// Slots that are not safe here yet; a replica that misses none is whole.
    pub missing: SlotSet,
}

impl Message {
    pub fn term(&self) -> Term {
        match *self {
            Self::Prepare { term, .. }
            | Self::Prepared { term, .. }
            | Self::Differs { term, .. }
            | Self::Beacon { term, .. }
            | Self::BeaconAck { term, .. }
            | Self::Begin { term, .. }
            | Self::Fill { term, .. }
            | Self::Filled { term, .. }
            | Self::Abdicate { term }
            | Self::Outranked { promised: term } => term,
        }
    }

    /// Only the primary of a term says this.
    pub fn is_order(&self) -> bool {
        matches!(self, Self::Prepare { .. } | Self::Beacon { .. } | Self::Begin { .. } | Self::Fill { .. })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Prepare { .. } => "Prepare",
            Self::Prepared { .. } => "Prepared",
            Self::Differs { .. } => "Differs",
            Self::Outranked { .. } => "Outranked",
            Self::Beacon { .. } => "Beacon",
            Self::BeaconAck { .. } => "BeaconAck",
            Self::Begin { .. } => "Begin",
            Self::Fill { .. } => "Fill",
            Self::Filled { .. } => "Filled",
            Self::Abdicate { .. } => "Abdicate",
        }
    }
}
