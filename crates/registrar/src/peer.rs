//! What a registrar knows about one of the others.

use alloc::collections::BTreeMap;

use blueprint::{Instant, NodeId};

use crate::number::UpdateNumber;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    /// The newest life heard of; 0 before the first.
    pub(crate) life: u64,
    pub(crate) reach: Reach,
    /// Up to where it said to have everyone's updates. Nothing while it is away.
    pub(crate) claims: BTreeMap<NodeId, UpdateNumber>,
    /// The check that it has not answered yet.
    pub(crate) asked: Option<Asked>,
    /// Whether it has answered, or failed to, since this node started.
    pub(crate) is_tried: bool,
    pub(crate) check_at: Instant,
    /// The newest check of its, by nonce: older ones come late.
    pub(crate) newest_check: u64,
}

/// Only an exchange of numbers changes it for the better.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reach {
    Away {
        since: Instant,
    },
    /// It is there, and pulls: nothing is pushed to it.
    Starting,
    Live(Live),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Live {
    /// My updates that were sent to it, or that it has from elsewhere. At most what I have.
    pub(crate) sent: UpdateNumber,
    pub(crate) pushed_at: Instant,
    /// What it misses does not fit in one message: it has to pull.
    pub(crate) too_far_behind: Option<Instant>,
    /// Its last pull of them all. What a repeat of that brings, it may not want any more: it does not count as sent.
    pub(crate) pulled: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) nonce: u64,
    pub(crate) since: Instant,
    pub(crate) repeat_at: Instant,
    pub(crate) tries: u32,
    /// Since it was sent something has changed that the peer should hear of.
    pub(crate) is_outdated: bool,
    /// It was asked only whether it stands where this node stood, by this digest.
    pub(crate) compared: Option<u64>,
}

impl Peer {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            life: 0,
            reach: Reach::Away { since: now },
            claims: BTreeMap::new(),
            asked: None,
            is_tried: false,
            check_at: now,
            newest_check: 0,
        }
    }

    pub(crate) fn is_away(&self) -> bool {
        matches!(self.reach, Reach::Away { .. })
    }

    pub(crate) fn claim(&self, owner: NodeId) -> UpdateNumber {
        self.claims.get(&owner).copied().unwrap_or_default()
    }
}
