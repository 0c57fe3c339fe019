//! Since when: what must be remembered from one reaction to the next.
//!
//! The reactor itself remembers nothing. Marks are kept beside it, by the one function below, from the same facts that the rules
//! read; they may be lost at any time, which only makes a node wait anew.

use alloc::collections::BTreeMap;

use blueprint::{Blueprint, BucketId, Epoch, Instant, NodeId, Rule, Term};

use crate::case::copies_to_stay;
use crate::holding::Holding;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    unneeded: BTreeMap<BucketId, Unneeded>,
    /// Buckets that name this node and have fewer copies than wanted.
    short: BTreeMap<BucketId, Instant>,
}

/// A replica that the blueprint does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unneeded {
    /// The government that does not name it, and the epoch at which this node acted on it.
    pub term: Term,
    pub epoch: Epoch,
    pub since: Instant,
}

impl Marks {
    /// Call it with every blueprint that is acted on, and before each reaction. Early, late or twice does no harm.
    pub fn observe(
        &mut self,
        now: Instant,
        me: NodeId,
        epoch: Epoch,
        blueprint: &Blueprint,
        replicas: &BTreeMap<BucketId, Holding>,
    ) {
        if blueprint.epoch != epoch {
            return; // not acted on: it says nothing about what this node may forget
        }
        // One that a coming blueprint named is not judged by the present one.
        let judged = replicas.iter().filter(|(_, r)| r.member.incarnation.0 <= epoch.0);
        let unneeded: BTreeMap<BucketId, Term> =
            judged.filter_map(|(bucket, _)| Some((*bucket, unnamed_in(blueprint, *bucket, me)?))).collect();
        self.unneeded.retain(|bucket, mark| unneeded.get(bucket) == Some(&mark.term));
        for (bucket, term) in unneeded {
            self.unneeded.entry(bucket).or_insert(Unneeded { term, epoch, since: now });
        }

        self.short.retain(|bucket, _| is_short(blueprint, *bucket, me));
        for bucket in blueprint.buckets.keys().filter(|b| is_short(blueprint, **b, me)) {
            self.short.entry(*bucket).or_insert(now);
        }
    }

    /// The mark of a replica that this very government does not name.
    pub fn unneeded(&self, bucket: BucketId, term: Term) -> Option<&Unneeded> {
        self.unneeded.get(&bucket).filter(|mark| mark.term == term)
    }

    pub fn short_since(&self, bucket: BucketId) -> Option<Instant> {
        self.short.get(&bucket).copied()
    }
}

/// The term of the government that does not name this node, if so.
pub(crate) fn unnamed_in(blueprint: &Blueprint, bucket: BucketId, me: NodeId) -> Option<Term> {
    match blueprint.buckets.get(&bucket).map(|b| &b.rule) {
        Some(Rule::Governed(government)) => government.named(me).is_none().then_some(government.term),
        Some(Rule::Removed { term, .. }) => Some(*term),
        None if blueprint.is_retired(bucket) => Some(Term(u64::MAX)),
        None => None, // a child that is not registered yet
    }
}

fn is_short(blueprint: &Blueprint, bucket: BucketId, me: NodeId) -> bool {
    let Some(bucket) = blueprint.buckets.get(&bucket) else { return false };
    let lacks = |government| copies_to_stay(blueprint, bucket.id, government) < blueprint.wanted(bucket.id);
    bucket.government().is_some_and(|g| g.named(me).is_some() && lacks(g))
}
