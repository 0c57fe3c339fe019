//! A copy for each bucket that lacks one.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::draft::{Draft, all};
use crate::even_out::{Reach, even_out};
use crate::loads::Loads;
use crate::objection::Objection;
use crate::sketch::{BucketAt, NodeAt};

impl Draft<'_> {
    /// Gives each of these buckets one more copy (a bucket that comes twice gets two), where there is room and least is held. Nothing
    /// else moves.
    pub(crate) fn give_copies(&mut self, missing: &[BucketAt]) {
        let mut objections = Vec::new();
        let mut loads = Loads::weigh(&mut self.sketch, all, missing);
        let given = give_all(&mut loads, missing, &mut objections);
        even_out(&mut loads, given, Reach::Anywhere);
        objections.into_iter().for_each(|objection| self.object(objection));
    }
}

/// The heaviest first: the lighter ones fill the gaps.
pub(crate) fn give_all(
    loads: &mut Loads<'_>,
    missing: &[BucketAt],
    objections: &mut Vec<Objection>,
) -> Vec<(BucketAt, NodeAt)> {
    let mut order = missing.to_vec();
    order.sort_by_key(|bucket| (Reverse(loads.weights[*bucket]), *bucket));
    let mut given = Vec::with_capacity(order.len());
    for bucket in order {
        match loads.best_for(bucket).or_else(|| loads.next_best_for(bucket)) {
            Some(node) => {
                loads.give(bucket, node);
                given.push((bucket, node));
            }
            None => why_nobody(loads, bucket).add(objections),
        }
    }
    given
}

fn why_nobody(loads: &Loads<'_>, bucket: BucketAt) -> Objection {
    let piece = &loads.sketch.buckets[bucket];
    let buckets = piece.id.into();
    if loads.sketch.open_nodes().any(|node| !piece.copies.contains(&node)) {
        return Objection::NoRoom { buckets };
    }
    Objection::FewerCopies { wanted: piece.wanted, left: loads.sketch.lasting_copies(bucket).count(), buckets }
}
