//! What can be done to the nodes of a dev cluster.

use std::path::{Path, PathBuf};

use anyhow::Result;
use prover::{Failed, FaultKind, Hands, Health};
use rustix::process::Signal;
use server::Ports;

use crate::ask::exchange;
use crate::dev::{self, Running};

#[derive(Debug)]
pub(super) struct DevHands {
    data: PathBuf,
    nodes: Vec<u16>,
    http: Vec<String>,
}

impl DevHands {
    pub(super) fn new(data: &Path) -> Result<Self> {
        let running = Running::here(data)?;
        let nodes: Vec<u16> = running.nodes.iter().map(|member| member.number).collect();
        let http = nodes.iter().map(|node| format!("127.0.0.1:{}", Ports::at(running.base_port, *node).http)).collect();
        Ok(Self { data: data.to_owned(), nodes, http })
    }
}

impl Hands for DevHands {
    fn nodes(&self) -> Vec<u16> {
        self.nodes.clone()
    }

    fn strike(&self, kind: FaultKind, node: u16) -> Result<(), Failed> {
        match kind {
            FaultKind::Kill => failed(dev::end_node(&self.data, node, Signal::KILL)),
            FaultKind::Leave => failed(dev::end_node(&self.data, node, Signal::TERM)),
            FaultKind::Pause => failed(dev::halt(&self.data, node, Signal::STOP)),
            FaultKind::Partition => Err(Failed("a dev cluster cannot be partitioned".into())),
        }
    }

    fn heal(&self, kind: FaultKind, node: u16) -> Result<(), Failed> {
        match kind {
            FaultKind::Kill | FaultKind::Leave => failed(dev::start_again(&self.data, node)),
            FaultKind::Pause => failed(dev::halt(&self.data, node, Signal::CONT)),
            FaultKind::Partition => Ok(()),
        }
    }

    /// Every node is asked: one that has just come back may believe that all is as it was.
    fn health(&self) -> Health {
        let mut lacks = None;
        for http in &self.http {
            let status: server::Status = match exchange(http, "GET", "/v1/status", "") {
                Ok((200, text)) => match serde_json::from_str(&text) {
                    Ok(status) => status,
                    Err(error) => return Health::Down(format!("{http} is not understood: {error}")),
                },
                Ok((code, text)) => return Health::Down(format!("{http} says {code}: {}", text.trim())),
                Err(error) => return Health::Down(format!("{http}: {error:#}")),
            };
            if status.buckets.iter().any(|bucket| !bucket.serving) {
                return Health::Down(format!("as {} sees it: {}", status.name, status.problems.join("; ")));
            }
            if !status.problems.is_empty() {
                lacks.get_or_insert(format!("as {} sees it: {}", status.name, status.problems.join("; ")));
            }
        }
        lacks.map_or(Health::Well, Health::Serves)
    }
}

fn failed(done: Result<()>) -> Result<(), Failed> {
    done.map_err(|error| Failed(format!("{error:#}")))
}
