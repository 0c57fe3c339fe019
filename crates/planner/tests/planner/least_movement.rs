//! Nothing moves that could stay.

use planner::Wish;

use crate::world::{World, n, spread};

fn assert_even(world: &World) {
    let counts = world.counts();
    assert!(spread(counts.values().map(|c| c.0)) <= 1, "copies: {counts:?}");
    assert!(spread(counts.values().map(|c| c.1)) <= 1, "primaries: {counts:?}");
}

fn assert_idle(world: &World) {
    let plan = world.plan(&Wish::Rebalance { keyspace: None }).unwrap();
    assert!(plan.is_empty(), "{plan}");
}

#[test]
fn the_sixth_node_gets_a_sixth_and_gives_it_back() {
    for buckets in [6, 7, 16, 63, 64, 65, 256] {
        let mut world = World::with_buckets(5, buckets, 3);
        assert_idle(&world);
        world.add_node(6, "");
        let copies = buckets * 3;
        let there = world.fulfil(&Wish::AddNode { node: n(6) }).summary.copies;
        assert!((copies / 6..=copies.div_ceil(6)).contains(&there), "{there} of {copies} copies");
        assert_eq!(world.copies_on(6), there, "everything that moves moves to the new node");
        assert_even(&world);
        assert_idle(&world);

        let back = world.fulfil(&Wish::RemoveNode { node: n(6) }).summary.copies;
        assert_eq!(back, there);
        assert_eq!(world.copies_on(6), 0);
        let others = world.counts().into_iter().filter(|(node, _)| *node != n(6));
        assert!(spread(others.map(|(_, c)| c.0)) <= 1, "{buckets} buckets: {:?}", world.counts());
    }
}

#[test]
fn growing_moves_the_share_of_those_who_come() {
    for (before, after) in [(3, 4), (3, 6), (4, 9), (5, 10), (8, 9)] {
        let mut world = World::with_buckets(before, 120, 3);
        for id in before + 1..=after {
            world.add_node(id as u64, "");
        }
        let moved = world.fulfil(&Wish::Rebalance { keyspace: None }).summary.copies;
        let share = 360 * (after - before);
        assert!((share / after..=share.div_ceil(after)).contains(&moved), "{before} to {after}: {moved} moved");
        assert_even(&world);
        assert_idle(&world);
    }
}

#[test]
fn as_few_hand_overs_as_primaries_that_are_too_many() {
    let mut world = World::with_buckets(5, 60, 3);
    world.add_node(6, "");
    let plan = world.fulfil(&Wish::AddNode { node: n(6) });
    assert_eq!(plan.summary.hand_overs, 10, "of 60 primaries the new one leads a sixth");
    assert_eq!(world.counts()[&n(6)], (30, 10));
}

#[test]
fn primaries_are_evened_out_without_moving_data() {
    let mut world = World::of(4);
    let rows = (0..8).map(|_| vec![n(1), n(2), n(3), n(4)]).collect();
    world.create_rows(rows, 4);
    let plan = world.fulfil(&Wish::Rebalance { keyspace: None });
    assert_eq!((plan.summary.copies, plan.summary.hand_overs), (0, 6));
    assert_even(&world);
    assert_idle(&world);
}

/// n1 leads too much and shares nothing with n3, which leads nothing.
#[test]
fn a_chain_of_hand_overs_where_one_is_not_enough() {
    let mut world = World::of(3);
    let row = |primary, secondary| vec![n(primary), n(secondary)];
    world.create_rows(vec![row(1, 2), row(1, 2), row(2, 3), row(3, 2), row(1, 2), row(2, 3)], 2);
    // Copies are not even: only the leaders are of interest, so nothing else may move.
    let counts = world.counts();
    assert_eq!(counts[&n(1)].1, 3);
    let plan = world.fulfil(&Wish::Rebalance { keyspace: None });
    assert_even(&world);
    assert!(plan.summary.hand_overs <= 3, "{plan}");
}

/// Two keyspaces: each is spread, not only the sum of them.
#[test]
fn every_keyspace_gives_its_part() {
    let mut world = World::with_buckets(5, 30, 3);
    let second = world.create(60, 3);
    world.add_node(6, "");
    world.fulfil(&Wish::AddNode { node: n(6) });
    let (copies, _) = world.counts_of(|keyspace| keyspace == second)[&n(6)];
    assert!((28..=32).contains(&copies), "a sixth of 180: {copies}");
    assert_even(&world);
}

#[test]
fn one_keyspace_alone() {
    let mut world = World::with_buckets(3, 30, 3);
    let second = world.create(30, 3);
    world.add_node(4, "");
    let plan = world.fulfil(&Wish::Rebalance { keyspace: Some(second) });
    assert!((22..=23).contains(&plan.summary.copies));
    assert!(
        plan.steps.iter().all(|planned| world.blueprint.buckets[&planned.step.bucket().unwrap()].keyspace == second)
    );
    assert!(spread(world.counts_of(|keyspace| keyspace == second).values().map(|c| c.0)) <= 1);
}

/// Buckets that another operation works on stay, and count as it will leave them.
#[test]
fn busy_buckets_are_left_alone() {
    use blueprint::{Command, Step};
    let mut world = World::with_buckets(3, 12, 2);
    world.add_node(4, "");
    let busy = crate::world::b(5);
    let from = world.members(busy)[1];
    let id = world.blueprint.next_operation;
    let steps = vec![Step::Enlist { bucket: busy, node: n(4) }, Step::Dismiss { bucket: busy, node: from }];
    world.accept(&Command::StartOperation { id, by: "another".into(), steps });
    let plan = world.fulfil(&Wish::AddNode { node: n(4) });
    assert!(plan.steps.iter().all(|planned| planned.step.bucket() != Some(busy)));
    assert_eq!(plan.summary.copies, 5, "a quarter of 24 copies, one of which is under way");
}

/// The largest are split until everyone can lead something.
#[test]
fn too_few_buckets_are_split_first() {
    let mut world = World::with_buckets(3, 1, 2);
    world.facts.bytes.insert(crate::world::b(1), 1_000_000);
    world.add_node(4, "");
    let plan = world.fulfil(&Wish::AddNode { node: n(4) });
    assert_eq!(plan.summary.splits, 3);
    assert_eq!(world.blueprint.buckets.len(), 4);
    assert!(world.blueprint.buckets.values().all(|bucket| bucket.slots.len() == 4096));
    world.facts.bytes.clear();
    assert_even(&world);
    assert_idle(&world);
}
