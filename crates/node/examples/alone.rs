//! The smallest program around a node: one node, one bucket, one copy, a disk that answers at once. It shows how a driver
//! carries out what a node decides; and it is small enough to be built and searched for planted bugs in every test run (see
//! `crates/simulator/tests/product.rs`).
#![allow(clippy::print_stdout)] // it talks to a person

use std::collections::VecDeque;
use std::sync::Arc;

use blueprint::{Blueprint, Command as Proposal, Durability, Honest, Instant, KeyspaceId, Kind, NodeId};
use bytes::Bytes;
use node::{Config, Door, Input, Node, NodeDurable, Output, RequestId, Station};
use values::Command;

fn main() {
    let id = NodeId(1);
    let mut blueprint = Blueprint::new();
    let join = Proposal::AddNode { id, name: "alone".into(), zone: String::new(), addresses: Vec::new() };
    let create = Proposal::CreateKeyspace {
        name: "default".into(),
        kind: Kind::Store,
        replicas: 1,
        min_in_sync: None,
        durability: Durability::Disk,
        placement: vec![vec![id]],
    };
    for command in [join, create] {
        blueprint.apply(&command).expect("an empty blueprint takes a first node and a first keyspace");
    }

    let mut now = Instant(1_000_000);
    let mut out = Vec::new();
    let life = node::Life { number: 1, seed: 1, wall: 0 };
    let mut node =
        Node::<Honest>::recover(id, &Config::default(), 1, NodeDurable::default(), life, now, &mut Vec::new());
    let lane = Station::Lane(0);
    let key = Bytes::from_static(b"greeting");
    let set = Command::set(key.clone(), Bytes::from_static(b"hello"), None);
    let mut inputs =
        VecDeque::from([(lane, Input::Wall { micros: 1 }), (Station::Desk, Input::Blueprint(Arc::new(blueprint)))]);
    let mut asked = 0;
    loop {
        for (station, input) in inputs.drain(..).collect::<Vec<_>>() {
            node.step(station, now, input, &mut out);
            node.step(station, now, Input::Flush, &mut out);
            for output in out.drain(..) {
                match output {
                    Output::Write { id, .. } => inputs.push_back((station, Input::Written { upto: id })),
                    Output::Store { id, bucket, tables } => {
                        inputs.push_back((station, Input::Stored { id, bucket, tables }));
                    }
                    Output::Mail { to, mail } => inputs.push_back((to, Input::Mail { from: station, mail })),
                    Output::Answer { answer, .. } | Output::Read { answer, .. } => {
                        println!("{answer:?}");
                        asked += 1;
                    }
                    Output::Send { .. }
                    | Output::Release { .. }
                    | Output::Propose(_)
                    | Output::ReadMeta { .. }
                    | Output::Rebalance { .. }
                    | Output::Report(_)
                    | Output::Erased { .. }
                    | Output::Resumed { .. }
                    | Output::Event { .. } => {}
                }
            }
        }
        if inputs.is_empty() {
            let command = match asked {
                0 => set.clone(),
                1 => Command::get(key.clone()),
                _ => return,
            };
            let (request, keyspace) = (RequestId(asked), KeyspaceId(1));
            inputs.push_back((lane, Input::Client { request, keyspace, command, door: Door::Any }));
        }
        now = now + std::time::Duration::from_millis(1);
    }
}
