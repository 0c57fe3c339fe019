//! The smallest program around a node: one node, one bucket, one copy, a disk that answers at once. It shows how a driver
//! carries out what a node decides, and stands in for the product's binary until there is one (see
//! `crates/simulator/tests/product.rs`).
#![allow(clippy::print_stdout)] // it talks to a person

use std::collections::VecDeque;
use std::sync::Arc;

use blueprint::{Blueprint, Command as Proposal, Durability, Honest, Instant, Kind, NodeId};
use bytes::Bytes;
use node::{Config, Door, Input, Node, NodeDurable, Output, RequestId};
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
    let mut node = Node::<Honest>::recover(id, Config::default(), NodeDurable::default(), 1, now, &mut out);
    let key = Bytes::from_static(b"greeting");
    let set = Command::Set { key: key.clone(), value: Bytes::from_static(b"hello"), ttl: None };
    let mut inputs = VecDeque::from([Input::Wall { micros: 1 }, Input::Blueprint(Arc::new(blueprint))]);
    let mut asked = 0;
    loop {
        for input in inputs.drain(..) {
            node.step(now, input, &mut out);
        }
        node.step(now, Input::Flush, &mut out);
        for output in out.drain(..) {
            match output {
                Output::Write { id, .. } => inputs.push_back(Input::Written { upto: id }),
                Output::Answer { answer, .. } | Output::Read { answer, .. } => {
                    println!("{answer:?}");
                    asked += 1;
                }
                Output::Send { .. }
                | Output::Propose(_)
                | Output::ReadMeta { .. }
                | Output::Echo(_)
                | Output::Erased { .. }
                | Output::Event { .. } => {}
            }
        }
        if inputs.is_empty() {
            let (request, door) = (RequestId(asked), Door::Any);
            match asked {
                0 => inputs.push_back(Input::Client { request, command: set.clone(), door }),
                1 => inputs.push_back(Input::Client { request, command: Command::Get { key: key.clone() }, door }),
                _ => return,
            }
        }
        now = now + std::time::Duration::from_millis(1);
    }
}
