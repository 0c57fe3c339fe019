//! Plans as a person reads them.

use expect_test::{Expect, expect};
use planner::{Limits, Wish};

use crate::world::{K1, World, b, n, slots};

/// Six buckets of three copies on four nodes in three zones.
fn small() -> World {
    let mut world = World::in_zones(&["a", "b", "c", "c"]);
    world.create(6, 3);
    world.facts.bytes = (1..=6).map(|id| (b(id), 33_600_000)).collect();
    world.limits = Limits { buckets_at_once: 2 };
    world
}

fn check(world: &World, wish: &Wish, expected: &Expect) {
    let text = match world.plan(wish) {
        Ok(plan) => plan.to_string(),
        Err(objections) => objections.iter().map(|objection| format!("{objection}\n")).collect(),
    };
    expected.assert_eq(&text);
}

#[test]
fn adding() {
    let mut world = small();
    world.add_node(5, "a");
    check(
        &world,
        &Wish::AddNode { node: n(5) },
        &expect![[r#"
        plan at e6: n5 takes its share
        3 buckets, 3 copies to make (100.8 MB), 1 hand over, 0 splits; k1 never below 3 members
           1  b2  enlist        n5  33.6 MB  takes the place of n1
           2  b3  enlist        n5  33.6 MB  takes the place of n1
           3  b2  await seated  n5           n1 stays until then
           4  b2  dismiss       n1           n5 is in its place
           5  b4  enlist        n5  33.6 MB  takes the place of n1
           6  b3  await seated  n5           n1 stays until then
           7  b3  hand over to  n5           n2 leads more than its share
           8  b3  dismiss       n1           n5 is in its place
           9  b4  await seated  n5           n1 stays until then
          10  b4  dismiss       n1           n5 is in its place
    "#]],
    );
}

#[test]
fn removing() {
    check(
        &small(),
        &Wish::RemoveNode { node: n(4) },
        &expect![[r#"
            plan at e5: others take what n4 holds
            3 buckets, 3 copies to make (100.8 MB), 1 hand over, 0 splits; k1 never below 3 members
               1      mark as leaving  n4           it is given nothing from now on
               2  b1  enlist           n3  33.6 MB  takes the place of n4
               3  b4  enlist           n3  33.6 MB  takes the place of n4
               4  b1  await seated     n3           n4 stays until then
               5  b1  dismiss          n4           n3 is in its place
               6  b6  enlist           n3  33.6 MB  takes the place of n4
               7  b4  await seated     n3           n4 stays until then
               8  b4  hand over to     n3           n4 leads and goes
               9  b4  dismiss          n4           n3 is in its place
              10  b6  await seated     n3           n4 stays until then
              11  b6  dismiss          n4           n3 is in its place
        "#]],
    );
    check(
        &small(),
        &Wish::RemoveNode { node: n(1) },
        &expect![[r#"
            plan at e5: others take what n1 holds
            6 buckets, 6 copies to make (201.6 MB), 2 hand overs, 0 splits; k1 never below 3 members
               1      mark as leaving  n1           it is given nothing from now on
               2  b1  enlist           n3  33.6 MB  takes the place of n1
               3  b2  enlist           n4  33.6 MB  takes the place of n1
               4  b1  await seated     n3           n1 stays until then
               5  b1  dismiss          n1           n3 is in its place
               6  b3  enlist           n4  33.6 MB  takes the place of n1
               7  b2  await seated     n4           n1 stays until then
               8  b2  dismiss          n1           n4 is in its place
               9  b4  enlist           n3  33.6 MB  takes the place of n1
              10  b3  await seated     n4           n1 stays until then
              11  b3  dismiss          n1           n4 is in its place
              12  b5  enlist           n4  33.6 MB  takes the place of n1
              13  b4  await seated     n3           n1 stays until then
              14  b4  dismiss          n1           n3 is in its place
              15  b6  enlist           n3  33.6 MB  takes the place of n1
              16  b5  await seated     n4           n1 stays until then
              17  b5  hand over to     n3           n1 leads and goes
              18  b5  dismiss          n1           n4 is in its place
              19  b6  await seated     n3           n1 stays until then
              20  b6  hand over to     n4           n1 leads and goes
              21  b6  dismiss          n1           n3 is in its place
        "#]],
    );
}

#[test]
fn nothing_to_do() {
    check(
        &small(),
        &Wish::Rebalance { keyspace: None },
        &expect![[r#"
        plan at e5: everyone holds and leads as much as everyone else already
    "#]],
    );
}

#[test]
fn draining() {
    check(
        &small(),
        &Wish::Drain { node: n(1) },
        &expect![[r#"
            plan at e5: others lead what n1 leads
            2 buckets, 0 copies to make, 2 hand overs, 0 splits; k1 never below 3 members
              1      mark as draining  n1  it leads nothing from now on
              2  b5  hand over to      n3  n1 is to lead nothing
              3  b6  hand over to      n4  n1 is to lead nothing
        "#]],
    );
}

#[test]
fn migrating() {
    let mut world = small();
    world.add_node(5, "a");
    check(
        &world,
        &Wish::MigrateSlots { keyspace: K1, slots: slots(0, 4000), to: n(5) },
        &expect![[r#"
        plan at e6: n5 leads slots 0-4000 of k1
        2 buckets, 2 copies to make (49.2 MB), 2 hand overs, 1 split; k1 never below 3 members
          1  b2    split off     b258 with 2730-4000           for n5 to lead
          2  b1    enlist        n5                   33.6 MB  takes the place of n1
          3  b258  enlist        n5                   15.6 MB  takes the place of n1
          4  b1    await seated  n5                            n1 stays until then
          5  b1    hand over to  n5                            n2 led until now
          6  b1    dismiss       n1                            n5 is in its place
          7  b258  await seated  n5                            n1 stays until then
          8  b258  hand over to  n5                            n3 led until now
          9  b258  dismiss       n1                            n5 is in its place
    "#]],
    );
}

#[test]
fn one_copy_less() {
    check(
        &small(),
        &Wish::SetReplicas { keyspace: K1, replicas: 2 },
        &expect![[r#"
            plan at e5: 2 copies of everything in k1
            6 buckets, 0 copies to make, 0 hand overs, 0 splits; k1 never below 2 members
              1      want     2 copies of k1  otherwise their primaries would undo the rest
              2  b1  dismiss  n4              2 copies are enough
              3  b2  dismiss  n2              2 copies are enough
              4  b3  dismiss  n3              2 copies are enough
              5  b4  dismiss  n1              2 copies are enough
              6  b5  dismiss  n3              2 copies are enough
              7  b6  dismiss  n4              2 copies are enough
        "#]],
    );
}

#[test]
fn from_one_node_to_two() {
    let mut world = World::with_buckets(1, 1, 1);
    world.add_node(2, "");
    check(
        &world,
        &Wish::AddNode { node: n(2) },
        &expect![[r#"
        plan at e3: n2 takes its share
        1 bucket, 1 copy to make, 1 hand over, 1 split; k1 never below 1 member
          1  b1    split off     b257 with 8192-16383  2 nodes share 1 bucket
          2  b257  enlist        n2                    takes the place of n1
          3  b257  await seated  n2                    n1 stays until then
          4  b257  hand over to  n2                    n1 leads and goes
          5  b257  dismiss       n1                    n2 is in its place
    "#]],
    );
}
