//! Merge: two buckets become one.
//!
//! First they are *bound*: one more term in both governments at once, so that nothing that was proposed before is accepted after.
//! From then until the one has been absorbed, they have the same members and the same primary, because every change of government
//! is made to both. Who holds a copy of the one therefore holds one of the other, and can put the two together.

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::blueprint::{Blueprint, Bucket, Rule};
use crate::command::Outcome;
use crate::soundness::is_entry;
use crate::{
    Breach, BucketId, Change, Conduct, Government, Incarnation, Member, NodeId, Position, Refusal, Term, Unlawful,
};

/// What a bucket has to do with another one, on the way to be one with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Bond {
    /// It is to absorb that bucket. `ready`: its primary wants to seat that candidate, and the other's does not yet.
    Absorbs { other: BucketId, ready: Option<Member> },
    /// It is to be absorbed by that bucket.
    Fades { into: BucketId, ready: Option<Member> },
    /// It was absorbed, by the Absorb at that position of that bucket's log. Only until every holder has erased it.
    Merged { into: BucketId, at: Position },
}

impl Bond {
    /// The bucket whose government changes with this one's.
    pub fn partner(&self) -> Option<BucketId> {
        match self {
            Self::Absorbs { other, .. } => Some(*other),
            Self::Fades { into, .. } => Some(*into),
            Self::Merged { .. } => None,
        }
    }

    fn ready(&mut self) -> Option<&mut Option<Member>> {
        match self {
            Self::Absorbs { ready, .. } | Self::Fades { ready, .. } => Some(ready),
            Self::Merged { .. } => None,
        }
    }
}

impl Bucket {
    /// This bucket and the position of the Absorb, if that one has absorbed it.
    pub fn merged_into(&self, bucket: BucketId) -> Option<(BucketId, Position)> {
        match self.bond {
            Some(Bond::Merged { into, at }) if into == bucket => Some((self.id, at)),
            Some(Bond::Absorbs { .. } | Bond::Fades { .. } | Bond::Merged { .. }) | None => None,
        }
    }
}

/// In which way two buckets differ that are to be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Unlike {
    #[error("they are the same bucket")]
    Same,
    #[error("they are of different keyspaces")]
    Keyspaces,
    #[error("they never were one bucket, and may be in different lanes of their nodes")]
    Families,
    #[error("one of them is being merged already")]
    Bound,
    #[error("they are led by different nodes: hand one of them over first")]
    Primaries,
    #[error("they have different members: move copies first until they are the same")]
    Members,
    #[error("one of them has fewer members than the minimum")]
    BelowMinimum,
    #[error("their members ask for different minimums, or execute different versions of the semantics")]
    Terms,
}

impl Blueprint {
    /// A bucket in which other nodes have parts than in the one that it is bound to, if there is any: there never is.
    pub fn unequal_bond(&self) -> Option<BucketId> {
        let parts = |g: &Government| {
            let (candidates, heirs) = (g.candidates.iter().copied(), g.heirs.iter().copied());
            (g.primary.node, nodes(g.members()), nodes(candidates), nodes(heirs), g.min_in_sync)
        };
        let bound = self.buckets.values().filter_map(|b| Some((b.id, b.government()?, b.bond?.partner()?)));
        bound.filter(|(_, g, partner)| self.government(*partner).map(parts) != Some(parts(g))).map(|(id, ..)| id).next()
    }

    /// Could these two be bound as they are now?
    pub fn unlike(&self, absorbed: BucketId, into: BucketId) -> Option<Unlike> {
        let (one, other) = (self.buckets.get(&absorbed)?, self.buckets.get(&into)?);
        let (a, b) = (one.government()?, other.government()?);
        if absorbed == into {
            Some(Unlike::Same)
        } else if one.keyspace != other.keyspace {
            Some(Unlike::Keyspaces)
        } else if absorbed.family() != into.family() {
            Some(Unlike::Families)
        } else if one.bond.is_some() || other.bond.is_some() {
            Some(Unlike::Bound)
        } else if a.primary.node != b.primary.node {
            Some(Unlike::Primaries)
        } else if nodes(a.members()) != nodes(b.members()) {
            Some(Unlike::Members)
        } else if !a.in_sync() || !b.in_sync() {
            Some(Unlike::BelowMinimum)
        } else if (a.min_in_sync, a.semantics) != (b.min_in_sync, b.semantics) {
            Some(Unlike::Terms)
        } else {
            None
        }
    }

    /// One more term in both at once, without candidates: whatever was proposed for either is void (R7).
    pub(crate) fn bind<C: Conduct>(
        &mut self,
        absorbed: BucketId,
        into: BucketId,
        replaces: (Term, Term),
    ) -> Result<Outcome, Refusal> {
        let terms = (self.require_government(absorbed)?.term, self.require_government(into)?.term);
        if self.buckets[&absorbed].bond.is_some_and(|b| matches!(b, Bond::Fades { into: by, .. } if by == into)) {
            return Ok(Outcome::Nothing);
        }
        for (proposed, current) in [(replaces.0, terms.0), (replaces.1, terms.1)] {
            if proposed != current {
                return Err(Unlawful::StaleTerm { proposed, current }.into());
            }
        }
        if let Some(why) = self.unlike(absorbed, into) {
            return Err(Refusal::CannotMerge { absorbed, into, why });
        }
        let bonds =
            [(absorbed, Bond::Fades { into, ready: None }), (into, Bond::Absorbs { other: absorbed, ready: None })];
        for (id, bond) in bonds {
            let bucket = self.buckets.get_mut(&id).expect("it has a government");
            bucket.bond = Some(bond);
            if let Rule::Governed(government) = &mut bucket.rule
                && !C::breaks(Breach::BindKeepsTerms)
            {
                government.term = government.term.next();
                government.candidates.clear();
            }
        }
        Ok(Outcome::Changed)
    }

    /// The Absorb is committed: ownership has moved, and the blueprint is told. So this refuses only what cannot be true.
    pub(crate) fn merge(
        &mut self,
        absorbed: BucketId,
        into: BucketId,
        at: Position,
        told_in: Term,
    ) -> Result<Outcome, Refusal> {
        let merged = Bond::Merged { into, at };
        if self.is_retired(absorbed) || self.buckets.get(&absorbed).is_some_and(|b| b.bond == Some(merged)) {
            return Ok(Outcome::Nothing);
        }
        let fading = self.require_government(absorbed)?.clone();
        let taker = self.require_government(into)?;
        taker.require_heard(told_in)?;
        let term = taker.term;
        let bound = matches!(self.buckets[&absorbed].bond, Some(Bond::Fades { into: by, .. }) if by == into);
        if !bound || at.term > term || !is_entry(at) {
            return Err(Refusal::NotMerging { absorbed, into, at });
        }
        let mut holders: Vec<Member> = fading.everyone().collect();
        holders.sort_unstable();
        holders.dedup();
        let gone = self.buckets.get_mut(&absorbed).expect("it has a government");
        gone.rule = Rule::Removed { term: fading.term.next(), holders };
        gone.bond = Some(merged);
        let (slots, keyspace) = (gone.slots.clone(), gone.keyspace);
        let taker = self.buckets.get_mut(&into).expect("it has a government");
        taker.slots = taker.slots.union(&slots);
        taker.bond = None;
        self.routes.get_mut(&keyspace).expect("governed keyspaces have routes").set(&slots, into);
        // Whatever was to be split from it was split before it ended, or never will be.
        let orphans: Vec<BucketId> = self.reserved.keys().copied().filter(|id| self.root_of(*id) == absorbed).collect();
        self.reserved.retain(|id, _| !orphans.contains(id));
        Ok(Outcome::Changed)
    }

    /// The governments that a change makes: that of its bucket, and that of the one that it is bound to.
    pub(crate) fn follows(&self, id: BucketId, change: &Change) -> Result<Vec<(BucketId, Government)>, Unlawful> {
        let fresh = Incarnation(self.epoch.next().0);
        let bucket = &self.buckets[&id];
        let government = bucket.government().expect("only what is governed changes");
        let mut made = vec![(id, government.succeed(change, fresh)?)];
        if let Some(partner) = bucket.bond.and_then(|b| b.partner()) {
            let other = self.government(partner).expect("bound buckets are governed");
            let likewise = likewise(change, other).ok_or(Unlawful::Merging(partner))?;
            made.push((partner, other.succeed(&likewise, fresh)?));
        }
        Ok(made)
    }

    pub(crate) fn install(&mut self, made: Vec<(BucketId, Government)>) {
        for (id, next) in made {
            let bucket = self.buckets.get_mut(&id).expect("it has a government");
            bucket.rule = Rule::Governed(next);
            if let Some(ready) = bucket.bond.as_mut().and_then(Bond::ready) {
                *ready = None;
            }
        }
    }

    /// A seat in a bucket that is bound: it waits until the primary says the same of the other one, which it leads as well. Until it sees a
    /// successor, each of its phasers counts the candidate in (R6); so what it said once is true until then.
    pub(crate) fn seat_both<C: Conduct>(
        &mut self,
        id: BucketId,
        candidate: Member,
        change: &Change,
    ) -> Result<Option<Outcome>, Refusal> {
        let Some(partner) = self.buckets[&id].bond.and_then(|b| b.partner()) else { return Ok(None) };
        if C::breaks(Breach::SeatAloneWhileBound) || C::breaks(Breach::BindKeepsTerms) {
            let fresh = Incarnation(self.epoch.next().0);
            let next = self.require_government(id)?.succeed(change, fresh)?;
            self.install(vec![(id, next)]);
            return Ok(Some(Outcome::Changed));
        }
        self.require_government(id)?.succeed(change, Incarnation(self.epoch.next().0))?;
        let bond = self.buckets.get_mut(&partner).and_then(|b| b.bond.as_mut()).expect("both are bound");
        match bond.ready().and_then(|ready| *ready) {
            Some(other) if other.node == candidate.node => return Ok(None),
            // They would wait for each other: one of them lets go of its candidate.
            Some(_) => return Err(Unlawful::Merging(partner).into()),
            None => {}
        }
        let bond = self.buckets.get_mut(&id).and_then(|b| b.bond.as_mut()).expect("it is bound");
        let ready = bond.ready().expect("it has a partner");
        if *ready == Some(candidate) {
            return Ok(Some(Outcome::Nothing));
        }
        *ready = Some(candidate);
        Ok(Some(Outcome::Changed))
    }
}

/// The same change of another government with the same nodes in the same parts. None for what is not done while they are bound.
fn likewise(change: &Change, other: &Government) -> Option<Change> {
    let named = |member: Member| other.named(member.node).unwrap_or(member);
    Some(match *change {
        Change::Enlist { node } => Change::Enlist { node },
        Change::Drop { candidate } => Change::Drop { candidate: named(candidate) },
        Change::Seat { candidate, by } => Change::Seat { candidate: named(candidate), by: named(by) },
        Change::Dismiss { secondary, fate } => Change::Dismiss { secondary: named(secondary), fate },
        Change::HandOver { .. } => return None,
        Change::Usurp { to, fate } => Change::Usurp { to: named(to), fate },
        Change::Renew { primary } => Change::Renew { primary: named(primary) },
        Change::Disown { heir } => Change::Disown { heir: named(heir) },
        Change::SetMinInSync { min } => Change::SetMinInSync { min },
    })
}

pub(crate) fn nodes(members: impl Iterator<Item = Member>) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = members.map(|m| m.node).collect();
    nodes.sort_unstable();
    nodes
}
