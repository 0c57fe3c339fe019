//! What is there, spread over all nodes: for one that was added, or because it has become uneven.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use blueprint::{KeyspaceId, Kind, NodeId};

use crate::draft::{Draft, Purpose};
use crate::even_out::{Reach, even_out};
use crate::leaders;
use crate::loads::Loads;
use crate::sketch::{BucketAt, NodeAt, Sketch};
use crate::words::count;

impl Draft<'_> {
    pub(crate) fn add_node(&mut self, node: NodeId) -> Option<Purpose> {
        self.open_node(node)?;
        self.spread(None);
        let why = format!("{node} takes its share");
        let idle = format!("{node} has its share already, and everything is even");
        Some(Purpose { why, idle, ..Purpose::of_spreading() })
    }

    pub(crate) fn rebalance(&mut self, keyspace: Option<KeyspaceId>) -> Option<Purpose> {
        if let Some(keyspace) = keyspace {
            self.known_keyspace(keyspace)?;
        }
        self.spread(keyspace);
        Some(Purpose::of_spreading())
    }

    /// Buckets that cannot be changed now count as they are, and stay.
    fn spread(&mut self, keyspace: Option<KeyspaceId>) {
        let in_scope =
            |sketch: &Sketch, bucket: BucketAt| keyspace.is_none_or(|k| sketch.buckets[bucket].keyspace == k);
        self.split_for_all(in_scope);

        let free: Vec<BucketAt> =
            self.buckets_where(|sketch, bucket| in_scope(sketch, bucket) && sketch.buckets[bucket].fixed.is_none());
        let mut loads = Loads::weigh(&mut self.sketch, in_scope, &[]);
        for bucket in free.iter().copied() {
            part_in_zones(&mut loads, bucket);
        }
        let copies = loads.open_copies(&free);
        even_out(&mut loads, copies, Reach::Anywhere);
        // Where only members lead that drain, they go on.
        let _ = leaders::settle(&mut self.sketch, in_scope, &free);
    }

    /// With fewer buckets than nodes, some would lead nothing: the largest are split until there are enough. Not those of a log: its
    /// order is promised bucket by bucket, so how many there are is for its owner to say.
    fn split_for_all(&mut self, in_scope: impl Fn(&Sketch, BucketAt) -> bool) {
        let nodes = self.sketch.open_nodes().count();
        let scope = self.buckets_where(in_scope);
        let weights = self.sketch.weights();
        // Of those that weigh the same, the one with more slots, then the older one.
        let size = |sketch: &Sketch, bucket: BucketAt, weight| (weight, sketch.buckets[bucket].slots.len(), !bucket);
        let divisible = |bucket: &BucketAt| {
            let piece = &self.sketch.buckets[*bucket];
            piece.fixed.is_none() && piece.kind == Kind::Store && piece.slots.len() > 1
        };
        let mut by_size: BTreeSet<(i64, u32, BucketAt)> =
            scope.iter().copied().filter(divisible).map(|at| size(&self.sketch, at, weights[at])).collect();
        for buckets in scope.len()..nodes {
            let Some((weight, _, bucket)) = by_size.pop_last() else { break };
            let (_, upper) = self.sketch.buckets[!bucket].slots.split_half();
            let why = format!("{nodes} nodes share {}", count(buckets, "bucket", "buckets"));
            let child = self.sketch.split(!bucket, &upper, why);
            let halves = [!bucket, child].into_iter().filter(|half| self.sketch.buckets[*half].slots.len() > 1);
            by_size.extend(halves.map(|half| size(&self.sketch, half, weight / 2)));
        }
    }
}

/// A zone that has more copies than needed gives some to others, if they can take them.
fn part_in_zones(loads: &mut Loads<'_>, bucket: BucketAt) {
    loop {
        let most = loads.most_in_zone(bucket);
        let sketch = &loads.sketch;
        let crowded = |node: &NodeAt| sketch.copies_in_zone(bucket, sketch.nodes[*node].zone) > most;
        let piece = &sketch.buckets[bucket];
        let movable = piece.copies.iter().copied().filter(|node| sketch.is_open(*node) && crowded(node));
        let Some(from) = movable.max_by_key(|node| (*node != piece.leader, loads.excess(*node), *node)) else { return };
        let Some(to) = loads.best_for(bucket) else { return };
        loads.take(bucket, from);
        loads.give(bucket, to);
    }
}

impl Purpose {
    pub(crate) fn of_spreading() -> Self {
        Self {
            why: "everyone holds and leads as much as everyone else".into(),
            idle: "everyone holds and leads as much as everyone else already".into(),
            hand_over: "leads more than its share",
            first: Vec::new(),
        }
    }
}
