//! Where the buckets of a new keyspace go.

use std::collections::BTreeSet;

use blueprint::NodeId;
use planner::place;
use proptest::prelude::*;

use crate::properties::{Dice, shape};
use crate::world::{World, n, spread};

proptest! {
    #[test]
    fn even_and_in_different_zones(shape in shape(1..5), mut dice in any::<u64>().prop_map(Dice)) {
        const NAMES: [&str; 4] = ["a", "b", "c", "d"];
        let zones: Vec<&str> = (0..shape.nodes).map(|_| NAMES[dice.roll(shape.zones)]).collect();
        let mut world = World::in_zones(&zones);
        world.create(shape.buckets, shape.replicas as u8);
        world.assert_zones_kept();
        world.assert_even_in_each_zone();
        world.assert_even_between_zones(shape.replicas);
        world.assert_nobody_leads_too_many();
        if shape.zones == 1 {
            prop_assert!(spread(world.counts().values().map(|c| c.0)) <= 1);
            prop_assert!(spread(world.counts().values().map(|c| c.1)) <= 1);
        }
    }
}

/// When one of them dies, many share in what it did.
#[test]
fn partners_change() {
    let world = World::with_buckets(10, 100, 3);
    let members = world.blueprint.buckets.keys().map(|bucket| world.members(*bucket));
    let partners: BTreeSet<NodeId> = members.filter(|members| members.contains(&n(1))).flatten().collect();
    assert_eq!(partners.len(), 10, "{partners:?}");
}

/// What does not come out even goes to who has fewer of other keyspaces.
#[test]
fn who_holds_less_gets_more() {
    let mut world = World::with_buckets(3, 30, 2);
    world.add_node(4, "");
    world.add_node(5, "");
    for _ in 0..10 {
        world.create(1, 1);
    }
    assert_eq!([4, 5].map(|node| world.counts()[&n(node)]), [(5, 5), (5, 5)]);
}

#[test]
fn not_on_nodes_that_drain() {
    let mut world = World::of(4);
    world.drain(n(2));
    let rows = place(&world.blueprint, &world.facts, 64, 3).unwrap();
    assert!(rows.iter().flatten().all(|node| *node != n(2)));
}

/// When a node dies, everyone else takes a share of what it led. So every two nodes share something, and whichever two are gone leave enough
/// that they had no part in.
#[test]
fn companions_are_spread() {
    let world = World::of(5);
    let rows = place(&world.blueprint, &world.facts, 48, 2).unwrap();
    for one in 1..=5 {
        for other in one + 1..=5 {
            let has = |row: &&Vec<NodeId>, node| row.contains(&n(node));
            assert!(rows.iter().any(|row| has(&row, one) && has(&row, other)), "n{one} and n{other} share nothing");
            let untouched = rows.iter().filter(|row| !has(row, one) && !has(row, other)).count();
            assert!(untouched >= 10, "without n{one} and n{other} only {untouched} are whole");
        }
    }
}
