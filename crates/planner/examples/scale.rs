//! How long plans take, for growing clusters: `cargo run --release -p planner --example scale`.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures")]

use std::time::Instant;

use blueprint::{Blueprint, BucketId, Command, Durability, KeyspaceId, Kind, NodeId};
use planner::{Facts, Limits, Wish, place, plan};

const SIZES: [(u64, usize); 6] = [(3, 64), (10, 640), (30, 2_048), (100, 4_096), (300, 16_384), (1_000, 16_384)];
/// Copies in so many zones; or each node in one of its own.
const ZONES: [u64; 2] = [5, u64::MAX];
const REPLICAS: u8 = 3;

fn main() {
    println!("{:>6} {:>7}  {:<44} {:>8} {:>7} {:>7}", "nodes", "buckets", "wish", "seconds", "steps", "copies");
    for (nodes, buckets) in SIZES {
        for zones in ZONES {
            for by_bytes in [false, true] {
                Case { nodes, buckets, zones, by_bytes }.measure();
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Case {
    nodes: u64,
    buckets: usize,
    zones: u64,
    by_bytes: bool,
}

impl Case {
    fn measure(self) {
        let mut blueprint = self.blueprint();
        let begun = Instant::now();
        let placement = place(&blueprint, &Facts::default(), self.buckets, REPLICAS).expect("there are nodes enough");
        self.show("place", begun, 0, self.buckets * usize::from(REPLICAS));
        create(&mut blueprint, placement);
        let keyspace = KeyspaceId(1);
        self.plan(&blueprint, "rebalance", &Wish::Rebalance { keyspace: None });
        self.plan(&blueprint, "drain a node", &Wish::Drain { node: NodeId(1) });
        if self.nodes > 3 {
            self.plan(&blueprint, "remove a node", &Wish::RemoveNode { node: NodeId(1) });
            self.plan(&blueprint, "a fourth copy", &Wish::SetReplicas { keyspace, replicas: 4 });
        }
        self.plan(&blueprint, "two copies", &Wish::SetReplicas { keyspace, replicas: 2 });
        self.add_node(&mut blueprint, self.nodes + 1);
        self.plan(&blueprint, "add a node", &Wish::AddNode { node: NodeId(self.nodes + 1) });
        (self.nodes + 2..=self.nodes * 2).for_each(|id| self.add_node(&mut blueprint, id));
        self.plan(&blueprint, "twice as many nodes", &Wish::Rebalance { keyspace: None });

        let mut scattered = self.blueprint();
        create(&mut scattered, (0..self.buckets as u64).map(|bucket| self.any_nodes(bucket)).collect());
        self.plan(&scattered, "rebalance what is scattered", &Wish::Rebalance { keyspace: None });
    }

    fn blueprint(self) -> Blueprint {
        let mut blueprint = Blueprint::new();
        (1..=self.nodes).for_each(|id| self.add_node(&mut blueprint, id));
        blueprint
    }

    fn add_node(self, blueprint: &mut Blueprint, id: u64) {
        let (name, zone) = (format!("node-{id}"), format!("zone-{}", id % self.zones));
        blueprint.apply(&Command::AddNode { id: NodeId(id), name, zone, addresses: vec![] }).expect("it is new");
    }

    fn any_nodes(self, bucket: u64) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        for attempt in 0.. {
            let node = NodeId(1 + scatter(bucket << 8 | attempt) % self.nodes);
            if !nodes.contains(&node) {
                nodes.push(node);
            }
            if nodes.len() == usize::from(REPLICAS) {
                break;
            }
        }
        nodes
    }

    fn plan(self, blueprint: &Blueprint, name: &str, wish: &Wish) {
        let mut facts = Facts::default();
        if self.by_bytes {
            let bytes = |id: u64| 10_000_000 + scatter(id) % 10_000_000;
            facts.bytes = (1..=self.buckets as u64).map(|id| (BucketId(id), bytes(id))).collect();
        }
        let begun = Instant::now();
        let plan = plan(blueprint, &facts, Limits::default(), wish).expect("nothing speaks against it");
        self.show(name, begun, plan.steps.len(), plan.summary.copies);
    }

    fn show(self, name: &str, begun: Instant, steps: usize, copies: usize) {
        let Self { nodes, buckets, .. } = self;
        let bytes = if self.by_bytes { ", by bytes" } else { "" };
        let zones = if self.zones > nodes { ", a zone each" } else { "" };
        let (wish, seconds) = (format!("{name}{bytes}{zones}"), begun.elapsed().as_secs_f64());
        println!("{nodes:>6} {buckets:>7}  {wish:<44} {seconds:>8.3} {steps:>7} {copies:>7}");
    }
}

fn create(blueprint: &mut Blueprint, placement: Vec<Vec<NodeId>>) {
    let (name, kind, durability) = ("scale".into(), Kind::Store, Durability::Disk);
    let create = Command::CreateKeyspace { name, kind, replicas: REPLICAS, min_in_sync: None, durability, placement };
    blueprint.apply(&create).expect("the placement is good");
}

fn scatter(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}
