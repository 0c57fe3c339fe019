//! How much each node holds beyond its share, kept in order while copies come and go.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use crate::sketch::{BucketAt, NodeAt, Sketch};
use crate::zones::{Vessel, Zones, levels};

#[derive(Debug)]
pub(crate) struct Loads<'a> {
    pub(crate) sketch: &'a mut Sketch,
    pub(crate) weights: Vec<i64>,
    zones: Zones,
    /// What each node holds beyond its share; less than nothing when it lacks some. Shares add up to what there is.
    excess: Vec<i64>,
    /// Copies that are not weighed here: they tell between nodes that are otherwise alike.
    elsewhere: Vec<usize>,
    /// The open nodes, the emptiest first: all of them, and zone by zone.
    order: BTreeSet<Rank>,
    in_zone: Vec<BTreeSet<Rank>>,
    /// The emptiest node of each zone.
    first_of_zones: BTreeSet<Rank>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) excess: i64,
    elsewhere: usize,
    /// Another order at each level, so that it is not always the same nodes that share buckets: when one of them dies, many should
    /// share in what it did.
    turn: u64,
    pub(crate) node: NodeAt,
}

impl<'a> Loads<'a> {
    /// Weighs those buckets that `in_scope` names. `missing` are those that lack a copy which will be given, once for each.
    pub(crate) fn weigh(
        sketch: &'a mut Sketch,
        in_scope: impl Fn(&Sketch, BucketAt) -> bool,
        missing: &[BucketAt],
    ) -> Self {
        let (nodes, zones) = (sketch.nodes.len(), sketch.zones.len());
        let mut loads = Self {
            weights: sketch.weights(),
            zones: sketch.zone_rule(),
            excess: vec![0; nodes],
            elsewhere: vec![0; nodes],
            order: BTreeSet::new(),
            in_zone: vec![BTreeSet::new(); zones],
            first_of_zones: BTreeSet::new(),
            sketch,
        };
        let (scope, rest): (Vec<BucketAt>, Vec<BucketAt>) =
            (0..loads.sketch.buckets.len()).partition(|bucket| in_scope(loads.sketch, *bucket));
        for (bucket, node) in loads.open_copies(&scope) {
            loads.excess[node] += loads.weights[bucket];
        }
        for (_, node) in loads.open_copies(&rest) {
            loads.elsewhere[node] += 1;
        }
        loads.subtract_shares(&scope, missing);
        for node in loads.sketch.open_nodes().collect::<Vec<_>>() {
            loads.enter(node);
        }
        loads
    }

    /// What of these buckets lies on open nodes.
    pub(crate) fn open_copies(&self, buckets: &[BucketAt]) -> Vec<(BucketAt, NodeAt)> {
        let copies = |bucket: &BucketAt| {
            let bucket = *bucket;
            self.sketch.buckets[bucket].copies.iter().map(move |node| (bucket, *node))
        };
        buckets.iter().flat_map(copies).filter(|(_, node)| self.sketch.is_open(*node)).collect()
    }

    /// What was the load of each node becomes its excess.
    fn subtract_shares(&mut self, scope: &[BucketAt], missing: &[BucketAt]) {
        // For each number of copies that a zone may have of a bucket, what all the buckets with that number weigh.
        let mut by_most: BTreeMap<usize, i64> = BTreeMap::new();
        for bucket in scope.iter().copied() {
            *by_most.entry(self.most_in_zone(bucket)).or_default() += self.weights[bucket];
        }
        let mut vessels = vec![Vessel { nodes: 0, most: 0 }; self.in_zone.len()];
        for node in self.sketch.open_nodes() {
            vessels[self.sketch.nodes[node].zone].nodes += 1;
        }
        for vessel in &mut vessels {
            vessel.most = by_most.iter().map(|(most, weight)| *most.min(&vessel.nodes) as i64 * weight).sum();
        }
        let total = self.excess.iter().sum::<i64>() + missing.iter().map(|bucket| self.weights[*bucket]).sum::<i64>();
        let levels = levels(total, &vessels);
        for (node, excess) in self.excess.iter_mut().enumerate().filter(|(node, _)| self.sketch.is_open(*node)) {
            *excess -= levels[self.sketch.nodes[node].zone];
        }
    }

    pub(crate) fn excess(&self, node: NodeAt) -> i64 {
        self.excess[node]
    }

    /// The emptiest first.
    pub(crate) fn order(&self) -> impl Iterator<Item = &Rank> + '_ {
        self.order.iter()
    }

    /// How many copies of this bucket may share a zone.
    pub(crate) fn most_in_zone(&self, bucket: BucketAt) -> usize {
        let piece = &self.sketch.buckets[bucket];
        self.zones.most(piece.wanted.max(self.sketch.lasting_copies(bucket).count()))
    }

    pub(crate) fn has_zone_room(&self, bucket: BucketAt, zone: usize) -> bool {
        self.sketch.copies_in_zone(bucket, zone) < self.most_in_zone(bucket)
    }

    /// The emptiest node that may have another copy, in a zone with room for it.
    pub(crate) fn best_for(&self, bucket: BucketAt) -> Option<NodeAt> {
        let mut best: Option<Rank> = None;
        for first in &self.first_of_zones {
            if best.is_some_and(|best| best <= *first) {
                break;
            }
            let zone = self.sketch.nodes[first.node].zone;
            if self.has_zone_room(bucket, zone) {
                let here = self.in_zone[zone].iter().find(|rank| self.can_take(bucket, rank.node));
                best = best.into_iter().chain(here.copied()).min();
            }
        }
        best.map(|rank| rank.node)
    }

    /// Where no zone has room: the emptiest node of a zone with few copies.
    pub(crate) fn next_best_for(&self, bucket: BucketAt) -> Option<NodeAt> {
        let takers = self.order.iter().filter(|rank| self.can_take(bucket, rank.node));
        let zone = |rank: &Rank| self.sketch.nodes[rank.node].zone;
        takers.min_by_key(|rank| (self.sketch.copies_in_zone(bucket, zone(rank)), **rank)).map(|rank| rank.node)
    }

    fn can_take(&self, bucket: BucketAt, node: NodeAt) -> bool {
        !self.sketch.buckets[bucket].copies.contains(&node) && self.sketch.has_room(bucket, node)
    }

    pub(crate) fn give(&mut self, bucket: BucketAt, node: NodeAt) {
        self.sketch.give(bucket, node);
        self.shift(node, self.weights[bucket]);
    }

    pub(crate) fn take(&mut self, bucket: BucketAt, node: NodeAt) {
        self.sketch.take(bucket, node);
        self.shift(node, -self.weights[bucket]);
    }

    fn shift(&mut self, node: NodeAt, weight: i64) {
        if self.sketch.is_open(node) {
            self.leave(node);
            self.excess[node] += weight;
            self.enter(node);
        }
    }

    fn enter(&mut self, node: NodeAt) {
        let (rank, zone) = (self.rank(node), self.sketch.nodes[node].zone);
        self.order.insert(rank);
        let first = self.in_zone[zone].first().copied();
        self.in_zone[zone].insert(rank);
        if first.is_none_or(|first| rank < first) {
            first.map(|first| self.first_of_zones.remove(&first));
            self.first_of_zones.insert(rank);
        }
    }

    fn leave(&mut self, node: NodeAt) {
        let (rank, zone) = (self.rank(node), self.sketch.nodes[node].zone);
        self.order.remove(&rank);
        self.in_zone[zone].remove(&rank);
        if self.first_of_zones.remove(&rank) {
            self.first_of_zones.extend(self.in_zone[zone].first());
        }
    }

    fn rank(&self, node: NodeAt) -> Rank {
        let excess = self.excess[node];
        let turn = mix(self.sketch.nodes[node].id.0 ^ mix(excess.cast_unsigned()));
        Rank { excess, elsewhere: self.elsewhere[node], turn, node }
    }
}

/// Scatters numbers that lie close together (the finalizer of splitmix64). Nothing random: the same number gives the same.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
