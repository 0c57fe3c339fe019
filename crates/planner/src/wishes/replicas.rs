//! More copies of everything, or fewer.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use blueprint::{KeyspaceId, Step};

use crate::draft::{Draft, Purpose, all};
use crate::even_out::{Reach, even_out};
use crate::loads::Loads;
use crate::objection::Objection;
use crate::sketch::{BucketAt, Fixed, NodeAt};
use crate::words::count;

impl Draft<'_> {
    pub(crate) fn set_replicas(&mut self, keyspace: KeyspaceId, replicas: u8) -> Option<Purpose> {
        let known = self.known_keyspace(keyspace)?.clone();
        let before = known.replicas;
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
        let mut first = Vec::new();
        for bucket in buckets.iter().copied() {
            let piece = &mut self.sketch.buckets[bucket];
            piece.wanted = wanted;
            piece.minimum = known.minimum_with(piece.min_in_sync, replicas);
            // Where it is too high, it is lowered before the number is, or the number would not be accepted (R8).
            if piece.min_in_sync > replicas {
                let step = Step::SetMinimum { bucket: piece.id, min: piece.minimum };
                first.push((step, format!("{replicas} could never be {}", piece.min_in_sync)));
                piece.min_in_sync = piece.minimum;
            }
        }
        if replicas != before {
            let why = "otherwise their primaries would undo the rest".into();
            first.push((Step::SetReplicas { keyspace, replicas }, why));
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
            first,
        })
    }

    /// Nobody can use it from the first step on; the second waits until nothing is left of it anywhere.
    pub(crate) fn remove_keyspace(&mut self, keyspace: KeyspaceId) -> Option<Purpose> {
        self.known_keyspace(keyspace)?;
        for bucket in self.of_keyspace(keyspace) {
            let piece = &self.sketch.buckets[bucket];
            if let Some(Fixed::Busy(by)) = piece.fixed {
                let buckets = piece.id.into();
                self.object(Objection::BucketBusy { by, buckets });
            }
        }
        let buckets = count(self.of_keyspace(keyspace).len(), "bucket", "buckets");
        Some(Purpose {
            why: format!("{keyspace} and all that is in its {buckets} is gone for good"),
            idle: format!("{keyspace} is gone"),
            hand_over: "leads",
            first: vec![
                (Step::RemoveKeyspace { keyspace }, "nobody reads or writes it any more".into()),
                (Step::AwaitErased { keyspace }, "every copy is erased".into()),
            ],
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
