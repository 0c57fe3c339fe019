//! What grows with nodes and buckets, measured: the blueprint and what is pushed of it, what it costs to change it, plans, and what
//! the directory and failure detection take (by simulated clusters, `traffic.rs`). The numbers of `docs/scale.md` come from here.

use std::hint::black_box;
use std::time::{Duration, Instant};

use blueprint::{
    Blueprint, BucketId, Change, Command, Delta, Durability, Fate, Kind, NodeId, Step, Succession, decode, encode,
};
use planner::{Facts, Limits, Wish};

use crate::report::{self, Paint, grouped};

/// Nodes and buckets.
pub const SIZES: [(u64, usize); 8] =
    [(5, 64), (5, 1_024), (50, 1_024), (50, 16_384), (200, 4_096), (200, 16_384), (1_000, 4_096), (1_000, 16_384)];
const COPIES: u8 = 3;
/// With as many zones as copies each copy has its place; with more there is a choice.
const ZONES: [u64; 2] = [3, 5];
const TRIES: usize = 5;
/// What takes longer is measured once.
const LONG: Duration = Duration::from_millis(500);

/// One blueprint of some size, and what is done with it.
#[derive(Clone, Debug)]
pub struct Grown {
    pub nodes: u64,
    pub buckets: usize,
    /// Encoded, as whoever has none of it gets it.
    pub whole: usize,
    /// What everyone is told when one bucket gets another government.
    pub one_change: usize,
    /// When a node departs and all that it had a part in passes on, in one change.
    pub departure: usize,
    /// When an operation of as many steps as there may be goes one step further.
    pub one_step: usize,
    /// To accept one change, in the meta group.
    pub accept: Duration,
    /// To take over a delta of one change, in every node.
    pub follow: Duration,
    /// To read a whole one.
    pub read: Duration,
}

#[derive(Clone, Debug)]
pub struct Planned {
    pub nodes: u64,
    pub buckets: usize,
    pub zones: u64,
    pub wish: &'static str,
    pub took: Duration,
    pub steps: usize,
}

pub fn grow(nodes: u64, buckets: usize) -> Grown {
    let blueprint = cluster(nodes, buckets, ZONES[0]);
    let bytes = encode(&blueprint);
    let change = hand_over(&blueprint, BucketId(1));
    let mut after = blueprint.clone();
    after.apply(&change).expect("it is lawful");
    let delta = Delta::between(&blueprint, &after);
    let mut follower = blueprint.clone();
    follower.patch(&delta).expect("it fits");
    assert_eq!(follower, after, "a delta leads there");
    let accept = best(|| blueprint.clone(), |mut known| known.apply(&change).map(|_| known));
    let follow = best(|| blueprint.clone(), |mut known| known.patch(&delta).map(|_| known));
    let read = best(|| (), |()| decode(black_box(&bytes)));
    Grown {
        nodes,
        buckets,
        whole: bytes.len(),
        one_change: size(&delta),
        departure: departure(&blueprint),
        one_step: one_step(&blueprint),
        accept,
        follow,
        read,
    }
}

/// What operators wait for most.
pub fn plans(nodes: u64, buckets: usize) -> Vec<Planned> {
    ZONES.into_iter().flat_map(|zones| plans_in(nodes, buckets, zones)).collect()
}

fn plans_in(nodes: u64, buckets: usize, zones: u64) -> Vec<Planned> {
    let blueprint = cluster(nodes, buckets, zones);
    let mut larger = blueprint.clone();
    add_node(&mut larger, nodes + 1, zones);
    let mut double = blueprint.clone();
    (nodes + 1..=2 * nodes).for_each(|id| add_node(&mut double, id, zones));
    let plan = |blueprint, wish, wanted| plan(blueprint, (nodes, zones), wish, wanted);
    let one = Wish::AddNode { node: NodeId(nodes + 1) };
    let remove = Wish::RemoveNode { node: NodeId(1) };
    let even = || Wish::Rebalance { keyspace: None };
    vec![
        plan(&blueprint, "drain a node", &Wish::Drain { node: NodeId(1) }),
        plan(&blueprint, "remove a node", &remove),
        plan(&larger, "add a node", &one),
        plan(&blueprint, "rebalance what is even", &even()),
        plan(&double, "twice as many nodes", &even()),
    ]
}

fn plan(blueprint: &Blueprint, (nodes, zones): (u64, u64), wish: &'static str, wanted: &Wish) -> Planned {
    let make = || planner::plan(blueprint, &Facts::default(), Limits::default(), wanted);
    let begun = Instant::now();
    let plan = make();
    let first = begun.elapsed();
    let took = if first > LONG { first } else { best(|| (), |()| make()) };
    // With as many nodes as copies nobody can go.
    let steps = plan.map_or(0, |plan| plan.steps.len());
    Planned { nodes, buckets: blueprint.buckets.len(), zones, wish, took, steps }
}

fn cluster(nodes: u64, buckets: usize, zones: u64) -> Blueprint {
    let mut blueprint = Blueprint::new();
    (1..=nodes).for_each(|id| add_node(&mut blueprint, id, zones));
    let placement = planner::place(&blueprint, &Facts::default(), buckets, COPIES).expect("there are nodes enough");
    let (name, kind, durability) = ("default".into(), Kind::Store, Durability::Disk);
    let create = Command::CreateKeyspace { name, kind, replicas: COPIES, min_in_sync: None, durability, placement };
    blueprint.apply(&create).expect("the placement is good");
    blueprint
}

/// As a real one: a zone, and four addresses.
fn add_node(blueprint: &mut Blueprint, id: u64, zones: u64) {
    let address = |port: u64| format!("10.{}.{}.{}:{port}", id >> 16, id >> 8 & 255, id & 255);
    let addresses = [7000, 7001, 7002, 7003].map(address).to_vec();
    let (name, zone) = (format!("node-{id}"), format!("zone-{}", id % zones));
    blueprint.apply(&Command::AddNode { id: NodeId(id), name, zone, addresses }).expect("it is new");
}

fn hand_over(blueprint: &Blueprint, bucket: BucketId) -> Command {
    let government = blueprint.government(bucket).expect("it is governed");
    let change = Change::HandOver { to: government.secondaries[0], by: government.primary };
    Command::Succeed { bucket, replaces: government.term, change }
}

fn departure(blueprint: &Blueprint) -> usize {
    let node = NodeId(1);
    let mut after = blueprint.clone();
    after.apply(&Command::Depart { node }).expect("it is present");
    let mut parts = Vec::new();
    for bucket in blueprint.buckets.values() {
        let Some(government) = bucket.government() else { continue };
        let secondary = government.secondaries.iter().copied().find(|member| member.node == node);
        let change = match secondary {
            Some(secondary) => Change::Dismiss { secondary, fate: Fate::Leaves },
            None if government.primary.node == node => {
                Change::Usurp { to: government.secondaries[0], fate: Fate::Leaves }
            }
            None => continue,
        };
        parts.push(Succession { bucket: bucket.id, replaces: government.term, change });
    }
    after.apply(&Command::Relieve { parts }).expect("every part is lawful");
    size(&Delta::between(blueprint, &after))
}

/// Of an operation that goes through as many buckets as one may.
fn one_step(blueprint: &Blueprint) -> usize {
    let mut before = blueprint.clone();
    let to = |bucket: &BucketId| blueprint.government(*bucket).expect("it is governed").secondaries[0].node;
    let buckets = blueprint.buckets.keys().copied().take(blueprint::MAX_STEPS);
    let steps: Vec<Step> = buckets.map(|bucket| Step::HandOver { bucket, to: to(&bucket) }).collect();
    let id = before.next_operation;
    before.apply(&Command::StartOperation { id, by: "scale".into(), steps }).expect("it makes sense");
    before.apply(&hand_over(blueprint, BucketId(1))).expect("it is lawful");
    let mut after = before.clone();
    after.apply(&Command::AdvanceOperation { id, from_step: 0 }).expect("the step is true");
    size(&Delta::between(&before, &after))
}

fn size(delta: &Delta) -> usize {
    postcard::to_allocvec(delta).expect("a delta can be written").len()
}

/// The shortest of a few times: whatever made the others longer was not the work.
fn best<T, U>(prepare: impl Fn() -> T, work: impl Fn(T) -> U) -> Duration {
    let once = |_| {
        let prepared = prepare();
        let begun = Instant::now();
        let done = black_box(work(prepared));
        let took = begun.elapsed();
        drop(done);
        took
    };
    (0..TRIES).map(once).min().unwrap_or_default()
}

/// Everything but what is simulated.
pub fn text(grown: &[Grown], planned: &[Planned], paint: Paint) -> String {
    let titles =
        ["nodes", "buckets", "whole", "one change", "a departure", "one step", "accept", "follow", "read whole"];
    let mut table = report::table(paint, titles.map(String::from));
    for row in grown {
        let bytes = [row.whole, row.one_change, row.departure, row.one_step].map(|bytes| grouped(bytes as u64));
        let times = [row.accept, row.follow, row.read].map(millis);
        let size = [grouped(row.nodes), grouped(row.buckets as u64)];
        table.add_row(size.into_iter().chain(bytes).chain(times));
    }
    report::right(&mut table, 0..9);
    let mut plans = report::table(paint, ["nodes", "buckets", "zones", "wish", "time", "steps"].map(String::from));
    for row in planned {
        let (nodes, buckets, steps) = (grouped(row.nodes), grouped(row.buckets as u64), grouped(row.steps as u64));
        plans.add_row([nodes, buckets, row.zones.to_string(), row.wish.to_owned(), millis(row.took), steps]);
    }
    report::right(&mut plans, 0..3);
    report::right(&mut plans, 4..6);
    format!("the blueprint, in bytes, and what it costs to change it\n{table}\n\nplans\n{plans}\n")
}

fn millis(took: Duration) -> String {
    format!("{:.2} ms", took.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_change_does_not_grow_with_the_cluster() {
        let (small, large) = (grow(5, 64), grow(50, 1_024));
        assert!(large.whole > 8 * small.whole, "the whole does: {} and {}", small.whole, large.whole);
        assert!(large.one_change <= small.one_change + 8, "{} and {}", small.one_change, large.one_change);
    }
}
