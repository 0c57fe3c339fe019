//! Buckets of different sizes.

use std::collections::BTreeMap;

use blueprint::{BucketId, NodeId};
use planner::Wish;
use proptest::prelude::*;

use crate::properties::{Dice, Shape, scattered, shape};
use crate::world::{World, b, n};

impl World {
    fn bytes_of(&self, bucket: BucketId) -> u64 {
        self.facts.bytes[&bucket]
    }

    fn loads(&self) -> BTreeMap<NodeId, u64> {
        let mut loads: BTreeMap<NodeId, u64> = self.blueprint.nodes.keys().map(|node| (*node, 0)).collect();
        for bucket in self.blueprint.buckets.keys() {
            for node in self.members(*bucket) {
                *loads.get_mut(&node).unwrap() += self.bytes_of(*bucket);
            }
        }
        loads
    }

    /// No copy that could still be moved is much smaller than the gap that it would narrow.
    fn assert_even_by_bytes(&self) {
        let loads = self.loads();
        for bucket in self.blueprint.buckets.keys() {
            let members = self.members(*bucket);
            for from in &members {
                for to in loads.keys().filter(|node| !members.contains(node)) {
                    let gap = loads[from].saturating_sub(loads[to]);
                    // Rounding, and what an empty bucket counts.
                    let slack = 20;
                    assert!(self.bytes_of(*bucket) * 4 + slack >= gap * 3, "{bucket} from {from} to {to}: {loads:?}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn ends_even(shape in shape(1..2), mut dice in any::<u64>().prop_map(Dice)) {
        let mut world = scattered(Shape { buckets: shape.buckets.max(shape.nodes), ..shape }, &mut dice);
        world.facts.bytes = world.blueprint.buckets.keys().map(|id| (*id, 1000 + dice.roll(9000) as u64)).collect();
        world.fulfil(&Wish::Rebalance { keyspace: None });
        world.assert_even_by_bytes();
    }
}

/// Sizes that hardly differ move no more than equal ones would.
#[test]
fn the_sixth_node_gets_a_sixth_of_the_bytes() {
    let mut world = World::with_buckets(5, 64, 3);
    world.facts.bytes = (1..=64).map(|id| (b(id), 100_000 + id % 7 * 1_000)).collect();
    let total: u64 = world.loads().values().sum();
    world.add_node(6, "");
    let plan = world.fulfil(&Wish::AddNode { node: n(6) });
    let largest = 106_000;
    assert!(plan.summary.bytes.abs_diff(total / 6) <= largest, "{} of {total}", plan.summary.bytes);
    world.assert_even_by_bytes();
    assert!(world.plan(&Wish::Rebalance { keyspace: None }).unwrap().is_empty());

    let held = world.loads()[&n(6)];
    let plan = world.fulfil(&Wish::RemoveNode { node: n(6) });
    assert_eq!(plan.summary.bytes, held);
}

/// One bucket that is as large as all others together has a node nearly for itself.
#[test]
fn a_giant() {
    let mut world = World::with_buckets(2, 10, 1);
    world.facts.bytes = (1..=10).map(|id| (b(id), if id == 1 { 9_000 } else { 1_000 })).collect();
    world.fulfil(&Wish::Rebalance { keyspace: None });
    let with_giant = world.members(b(1))[0];
    assert_eq!(world.loads()[&with_giant], 9_000);
}

/// A bucket whose size is not known counts as much as the others do on average.
#[test]
fn sizes_that_are_not_known() {
    let mut world = World::with_buckets(2, 4, 1);
    world.facts.bytes = [(b(1), 100), (b(2), 300)].into();
    let plan = world.plan(&Wish::Rebalance { keyspace: None }).unwrap();
    assert!(plan.is_empty(), "{plan}");
}

/// Empty buckets are spread, too.
#[test]
fn nothing_in_it_yet() {
    let mut world = World::with_buckets(3, 12, 2);
    world.facts.bytes = (1..=12).map(|id| (b(id), 0)).collect();
    world.add_node(4, "");
    assert_eq!(world.fulfil(&Wish::AddNode { node: n(4) }).summary.copies, 6);
}

/// What is small counts by its number: a few bytes more or less are no reason to move anything.
#[test]
fn small_buckets_count_alike() {
    let mut world = World::with_buckets(2, 10, 1);
    let lopsided = world.members(b(1))[0];
    let of = |world: &World, id| if world.members(b(id))[0] == lopsided { 900 } else { 1 };
    world.facts.bytes = (1..=10).map(|id| (b(id), of(&world, id))).collect();
    assert!(!world.plan(&Wish::Rebalance { keyspace: None }).unwrap().is_empty(), "by bytes they are not even");
    world.facts.least = 1_000;
    let plan = world.plan(&Wish::Rebalance { keyspace: None }).unwrap();
    assert!(plan.is_empty(), "{plan}");
}
