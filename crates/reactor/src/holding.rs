//! What a node knows about its own replicas: facts, as the driver of the phasers reads them off.
//!
//! The reactor does not know the phaser. These few words are all it hears of it; whatever a replica can be doing or waiting for
//! must be expressible here, or the reactor could not say so.

use alloc::vec::Vec;

use blueprint::{BucketId, Epoch, Index, Instant, Member, Position, Term};

/// One replica on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub member: Member,
    /// It would survive a restart; until then it says nothing to anyone.
    pub durable: bool,
    /// The newest blueprint that it was told of, in whatever way.
    pub known: Epoch,
    pub promised: Term,
    /// `promised` is on disk (R2).
    pub promise_safe: bool,
    pub role: Role,
    pub base: Index,
    pub applied: Index,
    pub commit: Index,
    pub last: Position,
    /// How many of its slots are not here yet: it is whole when there are none.
    pub missing: u32,
    /// About what its tables take.
    pub bytes: u64,
    /// When the primary of its term last said a word to it.
    pub heard: Instant,
    /// Splits in its log of which somebody must still hear, applied or not.
    pub splits: Vec<Parting>,
    /// The bucket that absorbs this one, and has not saved on this node what it took over.
    pub owed_to: Option<BucketId>,
    /// Its last entry is committed: it is to be absorbed.
    pub frozen: bool,
    /// The bucket that it is to absorb next, and that has not come to its end on this node.
    pub awaits: Option<BucketId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Secondary, candidate, heir, or named nowhere.
    Following,
    /// Named primary of a term that an earlier life of this process may have led (R4).
    Restarted {
        term: Term,
    },
    /// Named primary: will not reign before `until`, for what it granted (R5) or because it was an heir (R9).
    Ascending {
        term: Term,
        until: Instant,
    },
    Leading(Leading),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leading {
    pub term: Term,
    /// Its Reign, which every member must acknowledge before anything is served (R4).
    pub reign: Index,
    pub serving: bool,
    /// A government that continues this rule was seen; its promise is being written (R2).
    pub succession: bool,
    /// Reads may be answered until then (R5, R9).
    pub reads_until: Instant,
    pub growth: Growth,
    pub hand_over: HandOver,
    /// Secondaries and candidates, as far as they are known in this term.
    pub peers: Vec<Peer>,
}

/// R6, R7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    None,
    /// A fresh read of the blueprint is under way.
    Asking {
        candidate: Member,
    },
    /// Its answers and leases are needed, and it must have applied up to `level`.
    Joint {
        candidate: Member,
        level: Index,
    },
    /// Only a successor of the term ends this.
    Proposed {
        candidate: Member,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOver {
    None,
    /// New writes wait; it falls back at `until`. `told`: the blueprint was read afresh.
    Draining {
        to: Member,
        told: bool,
        until: Instant,
    },
    Proposed {
        to: Member,
    },
}

/// What a primary knows about one of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub member: Member,
    /// Acknowledged under the term that is led now; none when it is not known where the logs meet.
    pub upto: Option<Index>,
    pub applied: Index,
    pub missing: u32,
    pub lease: Instant,
    pub heard: Instant,
}

/// A Split that stands in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parting {
    pub child: BucketId,
    pub at: Position,
    pub applied: bool,
    /// The blueprint knows.
    pub registered: bool,
    /// The child is durable here, or by right elsewhere.
    pub forked: bool,
}

impl Holding {
    /// A replica that has nothing yet: what [`Deed::Found`](crate::Deed) makes.
    pub fn founded(member: Member, missing: u32, now: Instant) -> Self {
        Self {
            member,
            durable: false,
            known: Epoch(0),
            promised: Term(0),
            promise_safe: true,
            role: Role::Following,
            base: Index(0),
            applied: Index(0),
            commit: Index(0),
            last: Position::default(),
            missing,
            bytes: 0,
            heard: now,
            splits: Vec::new(),
            owed_to: None,
            frozen: false,
            awaits: None,
        }
    }

    pub fn leading(&self) -> Option<&Leading> {
        match &self.role {
            Role::Leading(leading) => Some(leading),
            Role::Following | Role::Restarted { .. } | Role::Ascending { .. } => None,
        }
    }

    /// Will a fork of what is here make that child?
    pub fn owes_fork(&self, child: BucketId, at: Position) -> bool {
        self.splits.iter().any(|p| (p.child, p.at) == (child, at) && !(p.applied && p.forked))
    }

    /// Has its log come to that split?
    pub fn comes_to(&self, child: BucketId) -> bool {
        self.splits.iter().any(|p| p.child == child && p.applied)
    }

    pub fn holds_split(&self, child: BucketId) -> bool {
        self.splits.iter().any(|p| p.child == child)
    }
}

impl Leading {
    /// The candidate whose answers and leases are needed, too (R6).
    pub fn joint(&self) -> Option<Member> {
        match self.growth {
            Growth::None | Growth::Asking { .. } => None,
            Growth::Joint { candidate, .. } | Growth::Proposed { candidate } => Some(candidate),
        }
    }

    pub fn peer(&self, member: Member) -> Option<&Peer> {
        self.peers.iter().find(|p| p.member == member)
    }
}
