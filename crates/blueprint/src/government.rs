//! Who runs a bucket, and the only ways in which that may change.
//!
//! A government is never edited: a [`Change`] makes its successor, one term later (R7). Everything that the rules say about
//! membership (R3 succession, R6 growth, R8 minimum, R9 heirs, R10 identity) is decided in [`Government::succeed`], by the
//! meta group, in one place. What members do with the result is the phaser's part.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{BucketId, Incarnation, Member, NodeId, Term};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Government {
    pub term: Term,
    /// The first term of this primary's uninterrupted rule: a primary that led it and did not restart needs no new Reign (R4).
    pub since: Term,
    pub primary: Member,
    pub secondaries: Vec<Member>,
    /// Catching up: they get everything, and nobody waits for them.
    pub candidates: Vec<Member>,
    /// Former members that still hold everything acknowledged; only while below `min_in_sync` (R9).
    pub heirs: Vec<Member>,
    /// Below this many members the commit index does not move (R8).
    pub min_in_sync: u8,
    /// Version of the semantics that members execute.
    pub semantics: u16,
}

/// A step from one government to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Change {
    /// Name a candidate. One that is an heir keeps its incarnation: what it holds is still needed.
    Enlist { node: NodeId },
    /// Name that candidate no longer.
    Drop { candidate: Member },
    /// The candidate becomes a secondary. Only the primary may say so (R6).
    Seat { candidate: Member, by: Member },
    /// A secondary is a member no longer.
    Dismiss { secondary: Member, fate: Fate },
    /// Planned: the primary becomes a secondary and `to`, a secondary, becomes the primary.
    HandOver { to: Member, by: Member },
    /// Unplanned: the primary is a member no longer; `to` is a secondary, or an heir when there is none left (R3, R9).
    Usurp { to: Member, fate: Fate },
    /// The same members, a new Reign under `primary`: what a primary that restarted asks for (R4).
    Renew { primary: Member },
    /// An heir whose data is gone is an heir no longer, nor a candidate under that name (R10).
    Disown { heir: Member },
    /// Changing the minimum is a change of government; lowering it clears the heirs (R8).
    SetMinInSync { min: u8 },
}

/// What becomes of a member that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fate {
    /// It is gone or not wanted, but what it held it still holds: an heir, should the minimum be missed.
    Leaves,
    /// It was too slow: it stays on as a candidate (and as an heir, should the minimum be missed).
    Stalled,
    /// Its data is gone (R10): never an heir.
    Lost,
}

/// Why a change of government was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Unlawful {
    #[error("the proposal replaces {proposed}, but the bucket is in {current}: read the blueprint and decide again")]
    StaleTerm { proposed: Term, current: Term },
    #[error("{0} already has a part in this bucket")]
    AlreadyNamed(NodeId),
    #[error("{0} is not a candidate of this government")]
    NotACandidate(Member),
    #[error("{0} is not a secondary of this government")]
    NotASecondary(Member),
    #[error("{0} is not the primary of this government, and only the primary may propose this")]
    NotThePrimary(Member),
    #[error("{0} is not a member of this government, so it may lack acknowledged writes (R3)")]
    NotAMember(Member),
    #[error("{0} is an heir, and heirs reign only when no secondary is left (R9)")]
    SecondariesLeft(Member),
    #[error("{0} is not an heir of this government")]
    NotAnHeir(Member),
    #[error("the minimum must be at least 1")]
    ZeroMinimum,
    #[error("it is being merged with {0}: who leads both stays until they are one")]
    Merging(BucketId),
}

impl Government {
    /// The first government of a bucket, over empty logs.
    pub fn first(primary: Member, secondaries: Vec<Member>, min_in_sync: u8) -> Self {
        let term = Term(1);
        Self {
            term,
            since: term,
            primary,
            secondaries,
            candidates: Vec::new(),
            heirs: Vec::new(),
            min_in_sync,
            semantics: 1,
        }
    }

    /// Primary first, then the secondaries.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        core::iter::once(self.primary).chain(self.secondaries.iter().copied())
    }

    pub fn size(&self) -> usize {
        1 + self.secondaries.len()
    }

    pub fn in_sync(&self) -> bool {
        self.size() >= usize::from(self.min_in_sync)
    }

    pub fn is_member(&self, who: Member) -> bool {
        self.members().any(|m| m == who)
    }

    /// Of what is committed in its log only the present rule tells. Whoever led before it may not know of a repair, by which entries that
    /// were committed are gone; and whatever was kept its successor tells as well.
    pub(crate) fn require_heard(&self, told_in: Term) -> Result<(), Unlawful> {
        if told_in < self.since {
            return Err(Unlawful::StaleTerm { proposed: told_in, current: self.term });
        }
        Ok(())
    }

    /// The part this node has here, in whatever role.
    pub fn named(&self, node: NodeId) -> Option<Member> {
        self.everyone().find(|m| m.node == node)
    }

    /// Members, candidates, heirs. An heir that is a candidate again comes twice.
    pub fn everyone(&self) -> impl Iterator<Item = Member> + '_ {
        self.members().chain(self.candidates.iter().copied()).chain(self.heirs.iter().copied())
    }

    /// The one function by which governments change. `fresh` is the incarnation that this change may issue: the epoch it makes.
    pub fn succeed(&self, change: &Change, fresh: Incarnation) -> Result<Self, Unlawful> {
        let mut next = self.clone();
        next.term = self.term.next();
        match *change {
            Change::Enlist { node } => next.enlist(node, fresh)?,
            Change::Drop { candidate } => next.take_candidate(candidate)?,
            Change::Seat { candidate, by } => {
                next.require_primary(by)?;
                next.take_candidate(candidate)?;
                next.secondaries.push(candidate);
                next.heirs.retain(|h| *h != candidate);
            }
            Change::Dismiss { secondary, fate } => {
                next.take_secondary(secondary)?;
                next.retire(secondary, fate);
            }
            Change::HandOver { to, by } => {
                next.require_primary(by)?;
                next.take_secondary(to)?;
                next.secondaries.push(by);
                next.crown(to);
            }
            Change::Usurp { to, fate } => next.usurp(to, fate)?,
            Change::Renew { primary } => {
                if primary != self.primary {
                    next.take_secondary(primary).map_err(|_| Unlawful::NotAMember(primary))?;
                    next.secondaries.push(self.primary);
                }
                next.crown(primary);
            }
            Change::Disown { heir } => {
                if !next.heirs.contains(&heir) {
                    return Err(Unlawful::NotAnHeir(heir));
                }
                next.heirs.retain(|h| *h != heir);
                next.candidates.retain(|c| *c != heir);
            }
            Change::SetMinInSync { min } => {
                if min == 0 {
                    return Err(Unlawful::ZeroMinimum);
                }
                if min < self.min_in_sync {
                    next.heirs.clear();
                }
                next.min_in_sync = min;
            }
        }
        if next.in_sync() {
            next.heirs.clear();
        }
        next.check_invariants();
        Ok(next)
    }

    fn enlist(&mut self, node: NodeId, fresh: Incarnation) -> Result<(), Unlawful> {
        if self.members().chain(self.candidates.iter().copied()).any(|m| m.node == node) {
            return Err(Unlawful::AlreadyNamed(node));
        }
        let heir = self.heirs.iter().copied().find(|h| h.node == node);
        self.candidates.push(heir.unwrap_or(Member { node, incarnation: fresh }));
        Ok(())
    }

    fn usurp(&mut self, to: Member, fate: Fate) -> Result<(), Unlawful> {
        if self.secondaries.contains(&to) {
            self.take_secondary(to)?;
        } else if self.heirs.contains(&to) {
            if !self.secondaries.is_empty() {
                return Err(Unlawful::SecondariesLeft(to));
            }
            self.heirs.retain(|h| *h != to);
            self.candidates.retain(|c| *c != to);
        } else {
            return Err(Unlawful::NotAMember(to));
        }
        let former = self.primary;
        self.crown(to);
        self.retire(former, fate);
        Ok(())
    }

    fn crown(&mut self, primary: Member) {
        self.primary = primary;
        self.since = self.term;
    }

    /// R9: who leaves a government that is now below its minimum still holds everything ever acknowledged.
    fn retire(&mut self, who: Member, fate: Fate) {
        if fate != Fate::Lost && !self.in_sync() {
            self.heirs.push(who);
        }
        if fate == Fate::Stalled {
            self.candidates.push(who);
        }
    }

    fn require_primary(&self, who: Member) -> Result<(), Unlawful> {
        if self.primary == who { Ok(()) } else { Err(Unlawful::NotThePrimary(who)) }
    }

    fn take_candidate(&mut self, who: Member) -> Result<(), Unlawful> {
        let before = self.candidates.len();
        self.candidates.retain(|c| *c != who);
        if self.candidates.len() < before { Ok(()) } else { Err(Unlawful::NotACandidate(who)) }
    }

    fn take_secondary(&mut self, who: Member) -> Result<(), Unlawful> {
        let before = self.secondaries.len();
        self.secondaries.retain(|s| *s != who);
        if self.secondaries.len() < before { Ok(()) } else { Err(Unlawful::NotASecondary(who)) }
    }

    pub fn check_invariants(&self) {
        assert!(self.since <= self.term, "a rule begins before it goes on");
        assert!(self.heirs.is_empty() || !self.in_sync(), "heirs exist only below the minimum (R9)");
        let mut nodes: Vec<NodeId> = self.members().chain(self.candidates.iter().copied()).map(|m| m.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), self.size() + self.candidates.len(), "a node has one part in a bucket");
        assert!(self.heirs.iter().all(|h| !self.is_member(*h)), "an heir is a member no longer");
    }
}
