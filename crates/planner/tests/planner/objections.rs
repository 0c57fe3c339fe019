//! What is refused, and in which words.

use blueprint::{Command, KeyspaceId, Step};
use expect_test::expect;
use planner::{Buckets, Objection, Wish, place};

use crate::world::{K1, World, b, n, slots};

fn buckets(ids: &[u64]) -> Buckets {
    Buckets(ids.iter().copied().map(b).collect())
}

fn assert_refused(world: &World, wish: &Wish, expected: &[Objection]) {
    assert_eq!(world.objections(wish), expected, "{wish:?}");
}

/// Four nodes in zones a, b, c, c; b1 on the first three.
fn four_nodes() -> World {
    let mut world = World::in_zones(&["a", "b", "c", "c"]);
    world.create_rows(vec![vec![n(1), n(2), n(3)]], 3);
    world
}

#[test]
fn nodes_that_cannot_be_given_anything() {
    let mut world = four_nodes();
    world.add_node(5, "a");
    world.add_node(6, "a");
    world.accept(&Command::Depart { node: n(5) });
    world.drain(n(6));
    for (node, objection) in [
        (n(9), Objection::UnknownNode(n(9))),
        (n(5), Objection::DepartedNode(n(5))),
        (n(6), Objection::DrainingNode(n(6))),
    ] {
        let to = node;
        for wish in [
            Wish::AddNode { node },
            Wish::ReplaceNode { old: n(1), new: node },
            Wish::SwapPrimary { bucket: b(1), node },
            Wish::MoveReplica { bucket: b(1), from: n(1), to },
            Wish::MigrateSlots { keyspace: K1, slots: slots(0, 9), to },
        ] {
            assert_refused(&world, &wish, std::slice::from_ref(&objection));
        }
    }
    assert_refused(&world, &Wish::RemoveNode { node: n(9) }, &[Objection::UnknownNode(n(9))]);
    assert_refused(&world, &Wish::Drain { node: n(5) }, &[Objection::DepartedNode(n(5))]);
}

#[test]
fn unknown_ids() {
    let world = four_nodes();
    let keyspace = KeyspaceId(7);
    for wish in [
        Wish::Rebalance { keyspace: Some(keyspace) },
        Wish::DoubleBuckets { keyspace },
        Wish::SetReplicas { keyspace, replicas: 2 },
        Wish::MigrateSlots { keyspace, slots: slots(0, 9), to: n(1) },
        Wish::MigrateEach { keyspace, moves: vec![(slots(0, 9), n(1))] },
        Wish::TakeLead { node: n(1), keyspace },
    ] {
        assert_refused(&world, &wish, &[Objection::UnknownKeyspace(keyspace)]);
    }
    let (bucket, unknown) = (b(8), [Objection::UnknownBucket(b(8))]);
    assert_refused(&world, &Wish::SwapPrimary { bucket, node: n(1) }, &unknown);
    assert_refused(&world, &Wish::SplitBucket { bucket, slots: None }, &unknown);
    let both = [Objection::UnknownBucket(b(8)), Objection::UnknownNode(n(9))];
    assert_refused(&world, &Wish::MoveReplica { bucket, from: n(1), to: n(9) }, &both);
}

#[test]
fn a_slot_that_is_to_go_to_two_nodes() {
    let moves = vec![(slots(0, 9), n(2)), (slots(9, 20), n(3))];
    let twice = Objection::SlotsTwice { slots: slots(9, 9) };
    assert_refused(&four_nodes(), &Wish::MigrateEach { keyspace: K1, moves }, &[twice]);
    let none = Wish::MigrateEach { keyspace: K1, moves: Vec::new() };
    assert_refused(&four_nodes(), &none, &[Objection::NoSlots]);
}

#[test]
fn a_keyspace_that_is_being_removed() {
    let mut world = four_nodes();
    world.accept(&Command::RemoveKeyspace { keyspace: K1 });
    assert_refused(&world, &Wish::DoubleBuckets { keyspace: K1 }, &[Objection::UnknownKeyspace(K1)]);
    assert_refused(&world, &Wish::SplitBucket { bucket: b(1), slots: None }, &[Objection::UnknownBucket(b(1))]);
    assert!(world.plan(&Wish::Rebalance { keyspace: None }).unwrap().is_empty());
}

#[test]
fn the_wrong_zone() {
    let mut world = four_nodes();
    let wrong = |node| Objection::WrongZone { node, zone: "c".into(), buckets: b(1).into() };
    assert_refused(&world, &Wish::MoveReplica { bucket: b(1), from: n(1), to: n(4) }, &[wrong(n(4))]);
    assert!(world.plan(&Wish::MoveReplica { bucket: b(1), from: n(3), to: n(4) }).is_ok(), "zone c for zone c");
    assert!(world.plan(&Wish::ReplaceNode { old: n(1), new: n(4) }).is_ok(), "no other zone is left");
    world.add_node(5, "d");
    assert_refused(&world, &Wish::ReplaceNode { old: n(1), new: n(4) }, &[wrong(n(4))]);
}

#[test]
fn no_room_on_disk() {
    let mut world = four_nodes();
    world.facts.bytes.insert(b(1), 5_000_000);
    world.facts.free.insert(n(4), 4_999_999);
    let full = [Objection::OutOfDisk { node: n(4), needed: 5_000_000, free: 4_999_999 }];
    assert_refused(&world, &Wish::MoveReplica { bucket: b(1), from: n(3), to: n(4) }, &full);
    assert_refused(&world, &Wish::ReplaceNode { old: n(3), new: n(4) }, &full);
    assert_refused(&world, &Wish::MigrateSlots { keyspace: K1, slots: slots(0, 16383), to: n(4) }, &full);
    assert_refused(&world, &Wish::RemoveNode { node: n(3) }, &[Objection::NoRoom { buckets: b(1).into() }]);
    world.facts.free.insert(n(4), 5_000_000);
    assert!(world.plan(&Wish::RemoveNode { node: n(3) }).is_ok());
}

/// A node that is full is not given anything; the others share.
#[test]
fn a_full_node_is_passed_over() {
    let mut world = World::with_buckets(4, 12, 2);
    world.facts.bytes = (1..=12).map(|id| (b(id), 1_000)).collect();
    world.facts.free.insert(n(2), 1_500);
    let before = world.copies_on(2);
    world.fulfil(&Wish::RemoveNode { node: n(1) });
    assert_eq!(world.copies_on(2), before + 1, "one fits, two do not");
}

#[test]
fn fewer_copies_than_wanted() {
    let world = World::with_buckets(3, 5, 3);
    let all = buckets(&[1, 2, 3, 4, 5]);
    let fewer = Objection::FewerCopies { wanted: 3, left: 2, buckets: all };
    assert_refused(&world, &Wish::RemoveNode { node: n(2) }, &[fewer]);
    let few = Objection::TooFewNodes { replicas: 4, nodes: 3 };
    assert_refused(&world, &Wish::SetReplicas { keyspace: K1, replicas: 4 }, std::slice::from_ref(&few));
    assert_eq!(place(&world.blueprint, &world.facts, 8, 4), Err(vec![few]));
}

#[test]
fn replicas_that_cannot_be() {
    let world = World::with_buckets(3, 2, 3);
    assert_refused(&world, &Wish::SetReplicas { keyspace: K1, replicas: 0 }, &[Objection::NoReplicas]);
    assert_eq!(place(&world.blueprint, &world.facts, 0, 1), Err(vec![Objection::BadBucketCount(0)]));
    assert_eq!(place(&world.blueprint, &world.facts, 16385, 1), Err(vec![Objection::BadBucketCount(16385)]));
    assert_eq!(place(&world.blueprint, &world.facts, 1, 0), Err(vec![Objection::NoReplicas]));
}

#[test]
fn nobody_else_to_lead() {
    let mut world = World::with_buckets(2, 2, 1);
    let [one, other] = [1, 2].map(|id| world.members(b(id))[0]);
    assert_ne!(one, other);
    let objection = Objection::NobodyToLead { node: one, buckets: b(1).into() };
    assert_refused(&world, &Wish::Drain { node: one }, &[objection]);
    assert!(world.plan(&Wish::RemoveNode { node: one }).is_ok(), "the other one takes the copy and leads");
    world.drain(other);
    let fewer = Objection::FewerCopies { wanted: 1, left: 0, buckets: b(1).into() };
    assert_refused(&world, &Wish::RemoveNode { node: one }, &[fewer]);
}

#[test]
fn busy_buckets() {
    let mut world = World::with_buckets(3, 8, 3);
    world.add_node(4, "");
    let id = world.blueprint.next_operation;
    let steps = [2, 3].map(|bucket| Step::Enlist { bucket: b(bucket), node: n(4) });
    world.accept(&Command::StartOperation { id, by: "another".into(), steps: steps.into() });
    let busy = |ids: &[u64]| [Objection::BucketBusy { by: id, buckets: buckets(ids) }];
    assert_refused(&world, &Wish::RemoveNode { node: n(1) }, &busy(&[2, 3]));
    assert_refused(&world, &Wish::SplitBucket { bucket: b(3), slots: None }, &busy(&[3]));
    assert_refused(&world, &Wish::DoubleBuckets { keyspace: K1 }, &busy(&[2, 3]));
    assert!(world.plan(&Wish::SplitBucket { bucket: b(4), slots: None }).is_ok());
}

#[test]
fn a_primary_that_has_departed() {
    let mut world = four_nodes();
    world.accept(&Command::Depart { node: n(1) });
    let departed = [Objection::PrimaryDeparted { node: n(1), buckets: b(1).into() }];
    assert_refused(&world, &Wish::SwapPrimary { bucket: b(1), node: n(2) }, &departed);
    assert_refused(&world, &Wish::RemoveNode { node: n(1) }, &departed);
    assert!(world.plan(&Wish::Rebalance { keyspace: None }).unwrap().is_empty());
}

#[test]
fn members_and_strangers() {
    let world = four_nodes();
    let not = |node| [Objection::NotAMember { node, buckets: b(1).into() }];
    assert_refused(&world, &Wish::SwapPrimary { bucket: b(1), node: n(4) }, &not(n(4)));
    assert_refused(&world, &Wish::MoveReplica { bucket: b(1), from: n(4), to: n(3) }, &not(n(4)));
    let already = [Objection::AlreadyMember { node: n(2), buckets: b(1).into() }];
    assert_refused(&world, &Wish::MoveReplica { bucket: b(1), from: n(1), to: n(2) }, &already);
    assert_refused(&world, &Wish::ReplaceNode { old: n(1), new: n(2) }, &already);
    assert_refused(&world, &Wish::ReplaceNode { old: n(1), new: n(1) }, &[Objection::SameNode(n(1))]);
}

#[test]
fn slots_that_cannot_be_split_off() {
    let mut world = World::with_buckets(2, 2, 1);
    let bucket = b(1);
    let split = |slots| Wish::SplitBucket { bucket, slots: Some(slots) };
    let uncovered = Objection::SlotsNotCovered { bucket, slots: slots(8192, 9000) };
    assert_refused(&world, &split(slots(8000, 9000)), &[uncovered]);
    assert_refused(&world, &split(slots(0, 8191)), &[Objection::AllSlots { bucket }]);
    assert_refused(&world, &split(slots(2, 1)), &[Objection::NoSlots]);
    let nothing = Wish::MigrateSlots { keyspace: K1, slots: slots(2, 1), to: n(1) };
    assert_refused(&world, &nothing, &[Objection::NoSlots]);
    world.fulfil(&split(slots(1, 8191)));
    assert_refused(&world, &Wish::SplitBucket { bucket, slots: None }, &[Objection::OneSlot { bucket }]);
}

/// What happened, what it means, what to do.
#[test]
fn words() {
    let all = [
        Objection::DrainingNode(n(3)),
        Objection::OutOfDisk { node: n(4), needed: 5_120_000_000, free: 999 },
        Objection::BucketBusy { by: blueprint::OperationId(7), buckets: buckets(&[1, 2, 3, 4, 5, 6]) },
        Objection::FewerCopies { wanted: 3, left: 2, buckets: buckets(&[1, 2, 3, 4]) },
        Objection::WrongZone { node: n(4), zone: "c".into(), buckets: b(1).into() },
    ];
    let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    expect![[r#"
        n3 drains, or is to go: it is given nothing and shall lead nothing. End that first (undrain), or choose another node
        5.1 GB would be needed on n4, and 999 B are free: it would run out of disk. Give it more, or choose another node
        o7 works on b1, b2, b3 and 3 more buckets: one operation at a time. Wait for it to end, or cancel it
        b1, b2, b3 and b4 would be left with 2 copies, and 3 are wanted: every node that is present and does not drain has one already. Add a node first, or ask for fewer copies
        n4 is in zone `c`, where b1 would then have more copies than needed: one zone lost would be more than one copy lost, and there are nodes in other zones. Choose one of those"#]].assert_eq(&texts.join("\n"));
}
