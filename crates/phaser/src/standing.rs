//! What a replica is doing, in full: for whoever decides what its node does next, and says what it waits for.

use alloc::vec::Vec;

use blueprint::{BucketId, Conduct, Index, Instant, Member, Position, Term};

use crate::growth::Growth;
use crate::handover::HandOver;
use crate::phaser::{Phaser, Role};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Secondary, candidate, heir, or named nowhere.
    Following,
    /// Asks for another term than the one that an earlier life may have led (R4).
    Restarted {
        term: Term,
    },
    /// Does not reign before `until` (R5, R9).
    Ascending {
        term: Term,
        until: Instant,
    },
    Leading(Leading),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leading {
    pub term: Term,
    pub reign: Index,
    pub serving: bool,
    /// It has seen a successor that is its own, and its promise is being written (R2).
    pub succession: bool,
    pub reads_until: Instant,
    pub growth: Growing,
    pub hand_over: HandingOver,
    pub peers: Vec<Following>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growing {
    None,
    Asking { candidate: Member },
    Joint { candidate: Member, level: Index },
    Proposed { candidate: Member },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandingOver {
    None,
    Draining { to: Member, told: bool, until: Instant },
    Proposed { to: Member },
}

/// One of the others, as its primary knows it in this term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Following {
    pub member: Member,
    pub upto: Option<Index>,
    pub applied: Index,
    pub missing: u32,
    pub lease: Instant,
    pub heard: Instant,
}

/// A Split that stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parting {
    pub child: BucketId,
    pub at: Position,
    pub applied: bool,
    pub registered: bool,
    pub forked: bool,
}

impl<C: Conduct> Phaser<C> {
    pub fn standing(&self) -> Standing {
        match &self.role {
            Role::Following => Standing::Following,
            Role::Restarted { term, .. } => Standing::Restarted { term: *term },
            Role::Ascending { term, not_before } => {
                Standing::Ascending { term: *term, until: self.grants.free_at(*term).max(*not_before) }
            }
            Role::Leading(leader) => {
                let following = |p: &crate::peer::Peer| Following {
                    member: p.member,
                    upto: p.upto.filter(|_| p.begin.is_none()),
                    applied: p.progress.applied,
                    missing: p.progress.missing.len(),
                    lease: p.lease,
                    heard: p.heard,
                };
                Standing::Leading(Leading {
                    term: leader.term,
                    reign: leader.reign,
                    serving: leader.serving,
                    succession: leader.succession.is_some(),
                    reads_until: leader.read_until::<C>(),
                    growth: growing(&leader.growth),
                    hand_over: handing_over(&leader.hand_over),
                    peers: leader.peers.iter().map(following).collect(),
                })
            }
        }
    }

    /// Is what it promised on disk (R2)?
    pub fn is_promise_safe(&self) -> bool {
        self.disk.is_promise_safe()
    }

    /// Every Split in the log of which somebody must still hear, applied or not.
    pub fn partings(&self) -> Vec<Parting> {
        let applied = self.splits.iter().map(|s| Parting {
            child: s.child,
            at: s.at,
            applied: true,
            registered: s.registered,
            forked: s.forked,
        });
        let known = |child| self.known.as_ref().is_some_and(|view| view.children.contains(&child));
        let unapplied = self.tail_splits().map(|(child, at)| Parting {
            child,
            at,
            applied: false,
            registered: known((child, at)),
            forked: false,
        });
        applied.chain(unapplied).collect()
    }
}

fn growing(growth: &Growth) -> Growing {
    match *growth {
        Growth::None => Growing::None,
        Growth::Asking { candidate, .. } => Growing::Asking { candidate },
        Growth::Joint { candidate, level, .. } => Growing::Joint { candidate, level },
        Growth::Proposed { candidate, .. } => Growing::Proposed { candidate },
    }
}

fn handing_over(hand_over: &HandOver) -> HandingOver {
    match *hand_over {
        HandOver::None => HandingOver::None,
        HandOver::Draining { to, told, until, .. } => HandingOver::Draining { to, told, until },
        HandOver::Proposed { to, .. } => HandingOver::Proposed { to },
    }
}
