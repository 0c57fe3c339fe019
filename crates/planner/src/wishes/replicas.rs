//! More copies of everything, or fewer.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use blueprint::KeyspaceId;

use crate::draft::{Draft, Purpose, all};
use crate::even_out::{Reach, even_out};
use crate::loads::Loads;
use crate::objection::Objection;
use crate::sketch::{BucketAt, NodeAt};
use crate::words::count;

impl Draft<'_> {
    pub(crate) fn set_replicas(&mut self, keyspace: KeyspaceId, replicas: u8) -> Option<Purpose> {
        let before = self.known_keyspace(keyspace)?.replicas;
        let nodes = self.sketch.open_nodes().count();
        if replicas == 0 {
            self.object(Objection::NoReplicas);
            return None;
        }
        if replicas > before && usize::from(replicas) > nodes {
            self.object(Objection::TooFewNodes { replicas, nodes });
            return None;
        }
        let buckets: Vec<BucketAt> =
            self.of_keyspace(keyspace).into_iter().filter(|bucket| self.is_free(*bucket)).collect();
        let wanted = usize::from(replicas);
        for bucket in buckets.iter().copied() {
            let piece = &mut self.sketch.buckets[bucket];
            piece.wanted = wanted;
            let (min, buckets) = (piece.min_in_sync, piece.id.into());
            if min > replicas {
                self.object(Objection::BelowMinimum { replicas, min, buckets });
            }
        }
        let lacks = |bucket: &BucketAt| wanted.saturating_sub(self.sketch.lasting_copies(*bucket).count());
        let missing: Vec<BucketAt> =
            buckets.iter().flat_map(|bucket| core::iter::repeat_n(*bucket, lacks(bucket))).collect();
        self.give_copies(&missing);
        self.shed_copies(&buckets);
        let words = count(wanted, "copy", "copies");
        Some(Purpose {
            why: format!("{words} of everything in {keyspace}"),
            idle: format!("everything in {keyspace} has {words} already"),
            hand_over: "leads",
            set_replicas: (replicas != before).then_some((keyspace, replicas)),
        })
    }

    /// Takes away what is too many, where most is held. What leads stays.
    fn shed_copies(&mut self, buckets: &[BucketAt]) {
        let mut loads = Loads::weigh(&mut self.sketch, all, &[]);
        let mut shed = BTreeSet::new();
        for bucket in buckets.iter().copied() {
            while loads.sketch.lasting_copies(bucket).count() > loads.sketch.buckets[bucket].wanted {
                let Some(node) = dispensable(&loads, bucket) else { break };
                loads.take(bucket, node);
                shed.insert(bucket);
            }
        }
        let shed: Vec<BucketAt> = shed.into_iter().collect();
        let mut kept = loads.open_copies(&shed);
        kept.retain(|(bucket, node)| loads.sketch.buckets[*bucket].leader != *node);
        even_out(&mut loads, kept, Reach::WhereItWas);
    }
}

/// Who is only catching up; then whose zone has others; then who holds most. Never who leads.
fn dispensable(loads: &Loads<'_>, bucket: BucketAt) -> Option<NodeAt> {
    let piece = &loads.sketch.buckets[bucket];
    let others = loads.sketch.lasting_copies(bucket).filter(|node| *node != piece.leader);
    let rank = |node: &NodeAt| {
        let in_zone = loads.sketch.copies_in_zone(bucket, loads.sketch.nodes[*node].zone);
        (piece.candidates.contains(node), in_zone, loads.excess(*node), *node)
    };
    others.max_by_key(rank)
}
