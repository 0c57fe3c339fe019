//! `copies_return`: a bucket that has fewer members than wanted gets them back.
//!
//! While things go wrong nobody can say by when; in a world that has healed, with nodes enough, everybody can.

use std::collections::{BTreeMap, BTreeSet};

use blueprint::{Blueprint, BucketId, Command as Proposal, Conduct};

use crate::plan::SECOND;
use crate::world::{Verdict, World, fail};

#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Buckets with fewer members than wanted, since when.
    short: BTreeMap<BucketId, u64>,
    /// Those that a departure made so, or kept so.
    left: BTreeSet<BucketId>,
}

/// From the heal, or the loss if that came later, until every copy is back: the delay of a recovery (1.5 s), the erase of what is
/// in its way, and the slowest backfill of a few buckets, two at a time to each node.
const RETURN: u64 = 25 * SECOND;

impl<C: Conduct> World<C> {
    pub(super) fn copies_on_change(&mut self, command: &Proposal, before: &Blueprint) {
        let Proposal::Depart { node } = command else { return };
        let had_part = before.buckets.values().filter(|b| b.government().is_some_and(|g| g.named(*node).is_some()));
        self.vigil.copies.left.extend(had_part.map(|b| b.id));
    }

    pub(super) fn count_copies(&mut self) -> Verdict {
        let blueprint = std::sync::Arc::clone(&self.meta.blueprint);
        let present = blueprint.nodes.keys().filter(|node| blueprint.is_present(**node)).count();
        let mut short = BTreeMap::new();
        for (bucket, government) in blueprint.buckets.values().filter_map(|b| Some((b, b.government()?))) {
            let wanted = blueprint.keyspaces.get(&bucket.keyspace).map_or(0, |k| usize::from(k.replicas));
            let before = self.vigil.copies.short.get(&bucket.id).copied();
            if government.size() >= wanted {
                if before.is_some() {
                    self.tally.note("copies back at the wanted number");
                    if self.vigil.copies.left.remove(&bucket.id) {
                        self.tally.note("copies back at the wanted number: after a departure");
                    }
                }
                continue;
            }
            let since = before.unwrap_or(self.time);
            short.insert(bucket.id, since);
            let waited = self.time - since.max(self.plan.unrest.min(self.time));
            if self.healed && present >= wanted && waited > RETURN {
                let why = self.why(Some(bucket.id)).join("\n");
                let text = format!(
                    "{}: {} of {wanted} for {} s after the world healed: {government:?}\n{why}",
                    bucket.id,
                    government.size(),
                    waited / SECOND
                );
                return fail("copies_return", text);
            }
        }
        self.vigil.copies.short = short;
        Ok(())
    }
}
