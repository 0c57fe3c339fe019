//! How long plans take, for growing clusters: `cargo run --release -p planner --example scale`.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures")]

use std::time::Instant;

use blueprint::{Blueprint, BucketId, Command, Durability, Kind, NodeId};
use planner::{Facts, Limits, Wish, place, plan};

const SIZES: [(u64, usize); 6] = [(3, 64), (10, 640), (30, 2_048), (100, 4_096), (300, 16_384), (1_000, 16_384)];
const ZONES: u64 = 5;

fn main() {
    println!("{:>6} {:>7}  {:<36} {:>9} {:>8} {:>7}", "nodes", "buckets", "wish", "seconds", "steps", "copies");
    for (nodes, buckets) in SIZES {
        for bytes in [false, true] {
            measure(nodes, buckets, bytes);
        }
    }
}

fn measure(nodes: u64, buckets: usize, by_bytes: bool) {
    let mut blueprint = Blueprint::new();
    let add = |blueprint: &mut Blueprint, id: u64| {
        let (name, zone) = (format!("node-{id}"), format!("zone-{}", id % ZONES));
        blueprint.apply(&Command::AddNode { id: NodeId(id), name, zone, addresses: vec![] }).expect("it is new");
    };
    (1..=nodes).for_each(|id| add(&mut blueprint, id));
    let facts = Facts::default();
    let show = |wish: &str, begun: Instant, steps: usize, copies: usize| {
        let wish = format!("{wish}{}", if by_bytes { ", by bytes" } else { "" });
        let seconds = begun.elapsed().as_secs_f64();
        println!("{nodes:>6} {buckets:>7}  {wish:<36} {seconds:>9.3} {steps:>8} {copies:>7}");
    };

    let begun = Instant::now();
    let placement = place(&blueprint, &facts, buckets, 3).expect("there are nodes enough");
    show("place", begun, 0, buckets * 3);
    let (name, kind, durability) = ("scale".into(), Kind::Store, Durability::Disk);
    let create = Command::CreateKeyspace { name, kind, replicas: 3, min_in_sync: None, durability, placement };
    blueprint.apply(&create).expect("the placement is good");

    let mut facts = facts;
    if by_bytes {
        let bytes = |id: u64| 10_000_000 + id.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 10_000_000;
        facts.bytes = (1..=buckets as u64).map(|id| (BucketId(id), bytes(id))).collect();
    }
    let measure = |blueprint: &Blueprint, name: &str, wish: Wish| {
        let begun = Instant::now();
        let plan = plan(blueprint, &facts, Limits::default(), &wish).expect("nothing speaks against it");
        show(name, begun, plan.steps.len(), plan.summary.copies);
    };
    measure(&blueprint, "rebalance", Wish::Rebalance { keyspace: None });
    measure(&blueprint, "drain a node", Wish::Drain { node: NodeId(1) });
    if nodes > 3 {
        measure(&blueprint, "remove a node", Wish::RemoveNode { node: NodeId(1) });
        measure(&blueprint, "a fourth copy", Wish::SetReplicas { keyspace: blueprint::KeyspaceId(1), replicas: 4 });
    }
    measure(&blueprint, "two copies", Wish::SetReplicas { keyspace: blueprint::KeyspaceId(1), replicas: 2 });
    add(&mut blueprint, nodes + 1);
    measure(&blueprint, "add a node", Wish::AddNode { node: NodeId(nodes + 1) });
    (nodes + 2..=nodes * 2).for_each(|id| add(&mut blueprint, id));
    measure(&blueprint, "twice as many nodes", Wish::Rebalance { keyspace: None });
}
