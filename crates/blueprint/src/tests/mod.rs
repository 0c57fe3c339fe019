mod auto;
mod commands;
mod governments;
mod histories;
mod intent;
mod merges;
mod operations;
mod past;
mod repair;
mod reports;

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Applied, Blueprint, Command, Durability, Kind, NodeId, Refusal};

/// A blueprint that is checked after each step, and the same again after every refusal.
struct Town {
    blueprint: Blueprint,
}

impl Town {
    /// Nodes 1 to `nodes`, named `a`, `b`, …
    fn of(nodes: u64) -> Self {
        let mut town = Self { blueprint: Blueprint::new() };
        for id in 1..=nodes {
            town.accept(&add_node(id, &letter(id)));
        }
        town
    }

    fn accept(&mut self, command: &Command) -> Applied {
        let before = self.blueprint.epoch;
        let applied = self.apply(command).unwrap_or_else(|refusal| panic!("{command:?} refused: {refusal}"));
        assert_eq!(applied.epoch, before.next(), "{command:?} changed nothing");
        applied
    }

    /// What is true already.
    fn repeat(&mut self, command: &Command) {
        let before = self.blueprint.clone();
        let applied = self.apply(command).unwrap_or_else(|refusal| panic!("{command:?} refused: {refusal}"));
        assert_eq!(applied, Applied { epoch: before.epoch, bucket: None, keyspace: None });
        assert_eq!(self.blueprint, before);
    }

    fn refuse(&mut self, command: &Command) -> Refusal {
        self.apply(command).expect_err("it should have been refused")
    }

    fn apply(&mut self, command: &Command) -> Result<Applied, Refusal> {
        let before = self.blueprint.clone();
        let result = self.blueprint.apply(command);
        self.blueprint.check_invariants();
        assert_eq!(self.blueprint.unequal_bond(), None, "what is bound changes together");
        match &result {
            Ok(applied) => assert_eq!(applied.epoch, self.blueprint.epoch),
            Err(_) => assert_eq!(self.blueprint, before, "a refusal changes nothing"),
        }
        result
    }
}

fn letter(id: u64) -> String {
    format!("{}", char::from(b'a' + (id as u8 - 1) % 26))
}

fn add_node(id: u64, name: &str) -> Command {
    let addresses = vec![format!("10.0.0.{id}:7000")];
    Command::AddNode { id: NodeId(id), name: name.into(), zone: format!("z{}", id % 3), addresses }
}

fn create(name: &str, replicas: u8, placement: &[&[u64]]) -> Command {
    let placement: Vec<Vec<NodeId>> = placement.iter().map(|row| row.iter().copied().map(NodeId).collect()).collect();
    let (kind, durability) = (Kind::Store, Durability::Disk);
    Command::CreateKeyspace { name: name.into(), kind, replicas, min_in_sync: None, durability, placement }
}
