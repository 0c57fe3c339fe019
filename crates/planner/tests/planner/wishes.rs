//! Each wish, by itself.

use blueprint::{BucketId, Change, Command, Fate, Intent, NodeId, Slot, Step};
use planner::{Objection, Plan, Wish};

use crate::world::{K1, World, b, n, slots, spread};

fn steps(plan: &Plan) -> Vec<Step> {
    plan.steps.iter().map(|planned| planned.step.clone()).collect()
}

/// Buckets 1 to 4 on nodes 1, 2, 3 of four, each led by another one.
fn four_buckets() -> World {
    let mut world = World::of(4);
    let rows = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]];
    world.create_rows(rows.iter().map(|row| row.iter().copied().map(n).collect()).collect(), 3);
    world
}

#[test]
fn who_leads_hands_over_before_it_goes() {
    let mut world = four_buckets();
    let plan = world.fulfil(&Wish::MoveReplica { bucket: b(1), from: n(1), to: n(4) });
    let (bucket, to) = (b(1), n(4));
    assert_eq!(
        steps(&plan),
        [
            Step::Enlist { bucket, node: to },
            Step::AwaitSeated { bucket, node: to },
            Step::HandOver { bucket, to },
            Step::Dismiss { bucket, node: n(1) },
        ]
    );
}

#[test]
fn who_follows_just_goes() {
    let mut world = four_buckets();
    let plan = world.fulfil(&Wish::MoveReplica { bucket: b(1), from: n(2), to: n(4) });
    assert_eq!(plan.summary.hand_overs, 0);
    assert_eq!(world.government(b(1)).primary.node, n(1));
}

#[test]
fn swapping_is_one_hand_over() {
    let mut world = four_buckets();
    let plan = world.fulfil(&Wish::SwapPrimary { bucket: b(2), node: n(1) });
    assert_eq!(steps(&plan), [Step::HandOver { bucket: b(2), to: n(1) }]);
    let again = world.plan(&Wish::SwapPrimary { bucket: b(2), node: n(1) }).unwrap();
    assert!(again.is_empty());
    assert_eq!(again.why, "n1 leads b2 already");
}

/// Who is still catching up is waited for.
#[test]
fn a_candidate_may_be_next() {
    let mut world = four_buckets();
    world.succeed(b(2), Change::Enlist { node: n(4) });
    let plan = world.fulfil(&Wish::SwapPrimary { bucket: b(2), node: n(4) });
    let bucket = b(2);
    assert_eq!(steps(&plan), [Step::AwaitSeated { bucket, node: n(4) }, Step::HandOver { bucket, to: n(4) }]);
}

/// Two members and a third that is catching up: nobody goes before that one is seated, too.
#[test]
fn nobody_goes_while_another_is_catching_up() {
    let mut world = four_buckets();
    let secondary = world.government(b(1)).secondaries[1];
    world.succeed(b(1), Change::Dismiss { secondary, fate: Fate::Stalled });
    let plan = world.fulfil(&Wish::MoveReplica { bucket: b(1), from: n(2), to: n(4) });
    let bucket = b(1);
    assert_eq!(
        steps(&plan),
        [
            Step::Enlist { bucket, node: n(4) },
            Step::AwaitSeated { bucket, node: n(4) },
            Step::AwaitSeated { bucket, node: n(3) },
            Step::Dismiss { bucket, node: n(2) },
        ]
    );
    assert_eq!(world.government(bucket).size(), 3);
}

#[test]
fn a_drained_node_leads_nothing_and_keeps_everything() {
    let mut world = World::with_buckets(5, 40, 3);
    let before = world.counts();
    let plan = world.fulfil(&Wish::Drain { node: n(2) });
    let after = world.counts();
    assert_eq!((plan.summary.copies, plan.summary.hand_overs), (0, 8));
    assert_eq!(after[&n(2)], (before[&n(2)].0, 0));
    let others = after.iter().filter(|(node, _)| **node != n(2));
    assert!(spread(others.map(|(_, c)| c.1)) <= 1, "{after:?}");
    assert!(world.plan(&Wish::Drain { node: n(2) }).unwrap().is_empty());
}

/// It holds what it holds, is given nothing, and others lead what it led.
#[test]
fn a_draining_node_is_left_out_of_a_rebalance() {
    let mut world = World::with_buckets(4, 32, 2);
    world.add_node(5, "");
    world.drain(n(1));
    let before = world.counts();
    world.fulfil(&Wish::Rebalance { keyspace: None });
    let after = world.counts();
    assert_eq!(after[&n(1)], (before[&n(1)].0, 0));
    let others = || after.iter().filter(|(node, _)| **node != n(1));
    assert!(spread(others().map(|(_, c)| c.0)) <= 1, "{after:?}");
    assert!(spread(others().map(|(_, c)| c.1)) <= 1, "{after:?}");
}

#[test]
fn a_new_node_in_the_place_of_an_old_one() {
    let mut world = World::with_buckets(4, 32, 3);
    world.add_node(5, "");
    let before = world.counts();
    let plan = world.fulfil(&Wish::ReplaceNode { old: n(3), new: n(5) });
    let after = world.counts();
    assert_eq!((after[&n(5)], after[&n(3)]), (before[&n(3)], (0, 0)));
    assert_eq!((plan.summary.copies, plan.summary.hand_overs), before[&n(3)]);
    assert!([1, 2, 4].iter().all(|node| after[&n(*node)] == before[&n(*node)]), "nobody else notices");
    world.accept(&Command::RemoveNode { node: n(3) });
}

#[test]
fn what_was_removed_can_be_removed_for_good() {
    let mut world = World::with_buckets(5, 32, 3);
    world.fulfil(&Wish::RemoveNode { node: n(3) });
    world.accept(&Command::RemoveNode { node: n(3) });
}

/// Coordinators have taken it out of its buckets: there is nothing left to take over.
#[test]
fn a_departed_node_that_holds_nothing() {
    let mut world = World::with_buckets(3, 4, 2);
    world.add_node(4, "");
    world.accept(&Command::Depart { node: n(4) });
    let plan = world.fulfil(&Wish::RemoveNode { node: n(4) });
    assert_eq!(
        steps(&plan),
        [Step::Mark { node: n(4), intent: Intent::Goes, was: None }],
        "should it return, it is given nothing"
    );
    let plan = world.plan(&Wish::RemoveNode { node: n(4) }).unwrap();
    assert!(plan.is_empty());
    assert_eq!(plan.why, "n4 holds nothing: it can be removed");
}

/// A departed secondary that nobody has dismissed yet.
#[test]
fn a_departed_member_is_replaced() {
    let mut world = four_buckets();
    world.accept(&Command::Depart { node: n(2) });
    let objections = world.objections(&Wish::RemoveNode { node: n(2) });
    assert_eq!(objections.len(), 1, "{objections:?}");
    let secondary = world.government(b(2)).named(n(1)).unwrap();
    world.succeed(b(2), Change::Usurp { to: secondary, fate: Fate::Leaves });
    world.fulfil(&Wish::RemoveNode { node: n(2) });
    assert_eq!(world.copies_on(2), 0);
    assert_eq!(world.copies_on(4), 3, "for b2 recovery will find somebody");
}

#[test]
fn slots_are_split_off_and_led_by_another() {
    let mut world = four_buckets();
    let wish = Wish::MigrateSlots { keyspace: K1, slots: slots(0, 1000), to: n(4) };
    let plan = world.fulfil(&wish);
    let child = world.blueprint.bucket_of(K1, Slot(1000)).unwrap();
    assert_eq!(child.slots, slots(0, 1000));
    assert_eq!(world.members(child.id)[0], n(4));
    assert!(!world.members(child.id).contains(&n(1)), "it goes from who led to who leads");
    assert_eq!((plan.summary.splits, plan.summary.copies, plan.summary.hand_overs), (1, 1, 1));
    assert_eq!(world.members(b(1)), [n(1), n(2), n(3)], "the rest stays where it is");
    assert_eq!(world.plan(&wish).unwrap().why, "n4 leads these slots already");
}

#[test]
fn slots_of_several_buckets_and_a_whole_one() {
    let mut world = four_buckets();
    let plan = world.fulfil(&Wish::MigrateSlots { keyspace: K1, slots: slots(4000, 9000), to: n(1) });
    assert_eq!(plan.summary.splits, 1, "b1 is led by n1 already, b2 goes as a whole, b3 is split");
    assert_eq!(plan.summary.copies, 0, "n1 is a member of all");
    for slot in 4000..=9000 {
        let bucket = world.blueprint.bucket_of(K1, Slot(slot)).unwrap();
        assert_eq!(world.members(bucket.id)[0], n(1));
    }
}

#[test]
fn buckets_are_doubled() {
    let mut world = World::with_buckets(3, 300, 2);
    let plan = world.fulfil(&Wish::DoubleBuckets { keyspace: K1 });
    assert_eq!(plan.summary.splits, 300);
    let sizes = world.blueprint.buckets.values().map(|bucket| bucket.slots.len() as usize);
    assert!(spread(sizes) <= 1);
    assert_eq!(world.blueprint.buckets.len(), 600);
}

#[test]
fn what_has_one_slot_is_not_doubled() {
    let mut world = World::with_buckets(3, 16384, 1);
    let plan = world.fulfil(&Wish::DoubleBuckets { keyspace: K1 });
    assert!(plan.is_empty());
    assert_eq!(plan.why, "no bucket has more than one slot: nothing can be split");
}

#[test]
fn the_upper_half_is_split_off() {
    let mut world = four_buckets();
    world.fulfil(&Wish::SplitBucket { bucket: b(1), slots: None });
    assert_eq!(world.blueprint.buckets[&b(1)].slots, slots(0, 2047));
    world.fulfil(&Wish::SplitBucket { bucket: b(1), slots: Some(slots(5, 5)) });
    assert_eq!(world.blueprint.bucket_of(K1, Slot(5)).unwrap().slots, slots(5, 5));
}

#[test]
fn what_was_split_is_merged_again() {
    let mut world = four_buckets();
    world.fulfil(&Wish::SplitBucket { bucket: b(1), slots: None });
    let child = world.blueprint.bucket_of(K1, Slot(3000)).unwrap().id;
    let plan = world.fulfil(&Wish::MergeBuckets { bucket: child, into: b(1) });
    assert_eq!((plan.steps.len(), plan.summary.merges, plan.summary.copies), (1, 1, 0));
    assert_eq!(world.blueprint.buckets[&b(1)].slots, slots(0, 4095));
    assert!(world.blueprint.is_retired(child));
}

/// Where the copies differ they are moved first, and no more than those.
#[test]
fn copies_come_together_before_a_merge() {
    let mut world = four_buckets();
    world.fulfil(&Wish::SplitBucket { bucket: b(1), slots: None });
    let child = world.blueprint.bucket_of(K1, Slot(3000)).unwrap().id;
    let nodes = world.blueprint.nodes.keys().copied().collect::<Vec<_>>();
    let spare = *nodes.iter().find(|n| !world.members(child).contains(n)).expect("there is a spare node");
    let from = world.government(child).primary.node;
    world.fulfil(&Wish::MoveReplica { bucket: child, from, to: spare });
    let plan = world.fulfil(&Wish::MergeBuckets { bucket: child, into: b(1) });
    assert_eq!((plan.summary.copies, plan.summary.hand_overs, plan.summary.merges), (1, 1, 1));
    assert_eq!(world.blueprint.buckets[&b(1)].slots, slots(0, 4095));
}

#[test]
fn more_copies_and_fewer() {
    let mut world = World::with_buckets(6, 48, 2);
    let plan = world.fulfil(&Wish::SetReplicas { keyspace: K1, replicas: 3 });
    assert_eq!(plan.summary.copies, 48);
    assert_eq!(steps(&plan)[0], Step::SetReplicas { keyspace: K1, replicas: 3 });
    assert!(spread(world.counts().values().map(|c| c.0)) <= 1, "{:?}", world.counts());
    let before = world.counts();
    let plan = world.fulfil(&Wish::SetReplicas { keyspace: K1, replicas: 2 });
    assert_eq!((plan.summary.copies, plan.summary.hand_overs, plan.steps.len()), (0, 0, 1 + 48));
    assert!(spread(world.counts().values().map(|c| c.0)) <= 1, "{:?}", world.counts());
    assert!(before.iter().all(|(node, c)| world.counts()[node].1 == c.1), "who leads goes on");
    let plan = world.fulfil(&Wish::SetReplicas { keyspace: K1, replicas: 2 });
    assert!(plan.is_empty());
}

/// The minimum follows the number of copies (R8): lowered before, raised after.
#[test]
fn the_minimum_goes_with_the_copies() {
    let mut world = World::with_buckets(3, 2, 1);
    let plan = world.fulfil(&Wish::SetReplicas { keyspace: K1, replicas: 3 });
    let raised = |bucket| Step::SetMinimum { bucket: b(bucket), min: 2 };
    for bucket in [1, 2] {
        let of_bucket = |step: &&Step| step.bucket() == Some(b(bucket));
        assert_eq!(steps(&plan).iter().rfind(of_bucket), Some(&raised(bucket)), "when its copies are there");
    }
    assert_eq!(world.blueprint.keyspaces[&K1].min_in_sync, 2);
    let plan = world.fulfil(&Wish::SetReplicas { keyspace: K1, replicas: 1 });
    let lowered = |bucket| Step::SetMinimum { bucket: b(bucket), min: 1 };
    assert_eq!(steps(&plan)[..3], [lowered(1), lowered(2), Step::SetReplicas { keyspace: K1, replicas: 1 }]);
    assert!(world.blueprint.buckets.values().all(|bucket| bucket.government().unwrap().size() == 1));
}

#[test]
fn a_drained_node_takes_part_again() {
    let mut world = World::with_buckets(4, 16, 2);
    world.fulfil(&Wish::Drain { node: n(2) });
    let before = world.counts();
    let plan = world.fulfil(&Wish::Undrain { node: n(2) });
    assert_eq!(steps(&plan), [Step::Mark { node: n(2), intent: Intent::Stays, was: None }]);
    assert_eq!(world.counts(), before, "by itself nothing comes back");
    world.fulfil(&Wish::Rebalance { keyspace: None });
    assert!(world.counts()[&n(2)].1 > 0);
    assert_eq!(world.plan(&Wish::Undrain { node: n(2) }).unwrap().why, "n2 does not drain");
}

/// It was emptied, and is not to be filled again by whatever comes next.
#[test]
fn who_was_removed_is_given_nothing() {
    let mut world = World::with_buckets(5, 20, 3);
    world.fulfil(&Wish::RemoveNode { node: n(3) });
    world.fulfil(&Wish::Rebalance { keyspace: None });
    world.create(8, 2);
    assert_eq!(world.copies_on(3), 0);
    assert_eq!(world.objections(&Wish::AddNode { node: n(3) }), [Objection::DrainingNode(n(3))]);
}

#[test]
fn a_keyspace_is_removed() {
    let mut world = World::with_buckets(3, 8, 2);
    let other = world.create(4, 1);
    world.fulfil(&Wish::RemoveKeyspace { keyspace: K1 });
    assert_eq!(world.blueprint.keyspaces.keys().copied().collect::<Vec<_>>(), [other]);
    assert_eq!(world.objections(&Wish::RemoveKeyspace { keyspace: K1 }), [Objection::UnknownKeyspace(K1)]);
    let (id, bucket) = (world.blueprint.next_operation, *world.blueprint.buckets.keys().next().unwrap());
    let to = world.members(bucket)[0];
    world.accept(&Command::StartOperation { id, by: "a test".into(), steps: vec![Step::HandOver { bucket, to }] });
    let busy = Objection::BucketBusy { by: id, buckets: bucket.into() };
    assert_eq!(world.objections(&Wish::RemoveKeyspace { keyspace: other }), [busy]);
}

/// A bucket that lost a copy gets it back, before others are touched.
#[test]
fn the_same_number_of_copies_repairs() {
    let mut world = four_buckets();
    let secondary = world.government(b(3)).secondaries[0];
    world.succeed(b(3), Change::Dismiss { secondary, fate: Fate::Lost });
    let plan = world.fulfil(&Wish::SetReplicas { keyspace: K1, replicas: 3 });
    assert_eq!((plan.summary.buckets, plan.summary.copies), (1, 1));
    assert_eq!(world.members(b(3)).last(), Some(&n(4)));
}

#[test]
fn who_lacks_a_copy_comes_first() {
    let mut world = four_buckets();
    world.add_node(5, "");
    let secondary = world.government(b(4)).named(n(2)).unwrap();
    world.succeed(b(4), Change::Dismiss { secondary, fate: Fate::Lost });
    let plan = world.fulfil(&Wish::RemoveNode { node: n(1) });
    let order: Vec<_> = plan.steps.iter().filter_map(|planned| planned.step.bucket()).take(4).collect();
    assert_eq!(order, [b(4), b(1), b(2), b(3)]);
}

/// One node after the other: others lead meanwhile, and in the end everyone leads what it led.
#[test]
fn a_rolling_restart() {
    let mut world = World::with_buckets(3, 6, 3);
    let plan = world.plan(&Wish::RollingRestart { nodes: Vec::new() }).expect("nothing speaks against it");
    let led: Vec<NodeId> =
        world.blueprint.buckets.keys().map(|bucket| world.government(*bucket).primary.node).collect();
    let mut turns: Vec<NodeId> = plan
        .steps
        .iter()
        .filter_map(|planned| match planned.step {
            Step::AwaitRestart { node, .. } => Some(node),
            _ => None,
        })
        .collect();
    assert_eq!(turns.len(), 18, "each node, in each of its buckets");
    turns.dedup();
    assert_eq!(turns, [n(1), n(2), n(3)]);
    assert_eq!((plan.summary.hand_overs, plan.summary.copies, plan.operations().len()), (12, 0, 1));

    for planned in &plan.steps {
        match planned.step {
            Step::HandOver { bucket, to } => {
                let government = world.government(bucket).clone();
                let to = government.named(to).expect("a member");
                world.succeed(bucket, Change::HandOver { to, by: government.primary });
            }
            Step::AwaitRestart { node, .. } => {
                let leads = |bucket: &BucketId| world.government(*bucket).primary.node == node;
                assert!(!world.blueprint.buckets.keys().any(leads), "{node} leads something when it is restarted");
            }
            _ => panic!("{planned:?}"),
        }
    }
    let now: Vec<NodeId> =
        world.blueprint.buckets.keys().map(|bucket| world.government(*bucket).primary.node).collect();
    assert_eq!(now, led);

    let one = world.plan(&Wish::RollingRestart { nodes: vec![n(2), n(2)] }).expect("nothing speaks against it");
    assert_eq!(one.summary.hand_overs, 4);
    world.accept(&Command::Depart { node: n(3) });
    let gone = world.plan(&Wish::RollingRestart { nodes: vec![n(3)] });
    assert_eq!(gone, Err(vec![Objection::DepartedNode(n(3))]));
    let alone = World::with_buckets(2, 2, 1).plan(&Wish::RollingRestart { nodes: vec![n(1)] });
    assert!(matches!(&alone, Err(all) if matches!(all[..], [Objection::NobodyToLead { .. }])), "{alone:?}");
}
