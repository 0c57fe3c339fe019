//! How much is under way at once, and how much fits into one operation.

use std::collections::BTreeSet;

use blueprint::{BucketId, MAX_STEPS, Step};
use planner::{Limits, Plan, Wish};

use crate::world::{K1, World, n};

/// How many buckets are between their first Enlist and the last AwaitSeated, at most.
fn most_under_way(plan: &Plan) -> usize {
    let mut under_way: BTreeSet<(BucketId, blueprint::NodeId)> = BTreeSet::new();
    let mut most = 0;
    for planned in &plan.steps {
        match planned.step {
            Step::Enlist { bucket, node } => {
                under_way.insert((bucket, node));
            }
            Step::AwaitSeated { bucket, node } => {
                under_way.remove(&(bucket, node));
            }
            Step::HandOver { .. }
            | Step::Dismiss { .. }
            | Step::Split { .. }
            | Step::AwaitRestart { .. }
            | Step::Repair { .. } => {}
        }
        let buckets: BTreeSet<BucketId> = under_way.iter().map(|(bucket, _)| *bucket).collect();
        most = most.max(buckets.len());
    }
    most
}

#[test]
fn as_many_as_allowed_and_no_more() {
    for at_once in [1, 2, 4, 7] {
        let mut world = World::with_buckets(5, 64, 3);
        world.limits = Limits { buckets_at_once: at_once };
        world.add_node(6, "");
        let plan = world.fulfil(&Wish::AddNode { node: n(6) });
        assert_eq!(most_under_way(&plan), at_once, "the window is used");
    }
    let mut world = World::with_buckets(3, 8, 3);
    world.add_node(4, "");
    world.limits = Limits { buckets_at_once: 0 };
    let plan = world.plan(&Wish::AddNode { node: n(4) }).unwrap();
    assert_eq!(most_under_way(&plan), 1);
}

/// Each time one bucket is done with, the next is begun.
#[test]
fn the_window_slides() {
    let mut world = World::with_buckets(3, 40, 3);
    world.add_node(4, "");
    let plan = world.plan(&Wish::AddNode { node: n(4) }).unwrap();
    let enlists: Vec<usize> =
        (0..plan.steps.len()).filter(|at| matches!(plan.steps[*at].step, Step::Enlist { .. })).collect();
    assert_eq!(enlists[..4], [0, 1, 2, 3], "four are begun together");
    for (nth, at) in enlists.iter().enumerate().skip(4) {
        let done = plan.steps[..*at].iter().filter(|p| matches!(p.step, Step::Dismiss { .. })).count();
        assert_eq!(done, nth - 3, "the next is begun as soon as one is done with");
    }
}

#[test]
fn a_long_plan_is_several_operations() {
    let mut world = World::with_buckets(6, 900, 3);
    for id in 7..=12 {
        world.add_node(id, "");
    }
    let plan = world.fulfil(&Wish::Rebalance { keyspace: None });
    let operations = plan.operations();
    assert!(operations.len() > 3);
    let all: Vec<Step> = plan.steps.iter().map(|planned| planned.step.clone()).collect();
    assert_eq!(operations.concat(), all);
    let mut over: BTreeSet<BucketId> = BTreeSet::new();
    for steps in &operations {
        assert!(steps.len() <= MAX_STEPS);
        let buckets: BTreeSet<BucketId> = steps.iter().map(Step::bucket).collect();
        assert!(buckets.is_disjoint(&over), "a bucket is done with before the next operation begins");
        over.extend(buckets);
    }
    let waste = operations.iter().rev().skip(1).map(|steps| MAX_STEPS - steps.len()).max().unwrap();
    assert!(waste < 16, "an operation is full before the next begins, but for a bucket's steps");
}

/// The ids of children follow each other from operation to operation.
#[test]
fn a_long_row_of_splits() {
    let mut world = World::with_buckets(3, 1500, 1);
    let plan = world.fulfil(&Wish::DoubleBuckets { keyspace: K1 });
    assert_eq!(plan.operations().iter().map(Vec::len).collect::<Vec<_>>(), [1024, 476]);
    assert_eq!(world.blueprint.buckets.len(), 3000);
}
