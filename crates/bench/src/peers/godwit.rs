//! Godwit, as anybody would start it on one machine: `godwit dev`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::{Binary, Process, Servers, loopback, until};
use crate::error::Error;

const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Memory,
    Disk,
}

#[derive(Clone, Debug)]
pub(crate) struct Godwit<'a> {
    pub(crate) binary: &'a Binary,
    pub(crate) place: &'a Path,
    pub(crate) port: u16,
    pub(crate) nodes: u16,
    pub(crate) replicas: u16,
    pub(crate) level: Level,
    pub(crate) buckets: u16,
    pub(crate) lanes: u16,
}

/// Of what `godwit dev` writes down about the cluster that it started.
#[derive(Debug, Deserialize)]
struct Running {
    nodes: Vec<Member>,
}

#[derive(Debug, Deserialize)]
struct Member {
    pid: u32,
}

impl Godwit<'_> {
    pub(crate) fn data(&self) -> PathBuf {
        self.place.join(format!("godwit-{}", self.port))
    }

    /// What is there already is found again. It serves when this returns.
    pub(crate) fn start(&self) -> Result<Servers, Error> {
        let mut servers = self.spawn()?;
        self.wait(&mut servers)?;
        Ok(servers)
    }

    /// The cluster is about to be; whoever needs its processes waits for it.
    pub(crate) fn spawn(&self) -> Result<Servers, Error> {
        let data = self.data();
        let mut command = Command::new(&self.binary.path);
        let Self { nodes, replicas, buckets, lanes, port, .. } = self;
        let level = if self.level == Level::Memory { "memory" } else { "disk" };
        command.args(["dev", "--detach", "--durability", level, "--data"]).arg(&data);
        let numbers = [
            ("--nodes", nodes),
            ("--replicas", replicas),
            ("--buckets", buckets),
            ("--lanes", lanes),
            ("--base-port", port),
        ];
        for (flag, number) in numbers {
            command.args([flag, &number.to_string()]);
        }
        let starter = Process::spawn(command, &self.place.join(format!("godwit-{port}.log")))?;
        let nodes = (1..=*nodes).map(|number| loopback(port + number)).collect();
        Ok(Servers { who: self.binary.peer, nodes, processes: Vec::new(), started: vec![starter] })
    }

    pub(crate) fn wait(&self, servers: &mut Servers) -> Result<(), Error> {
        let starter = &servers.started[0];
        until("godwit dev has started a cluster", PATIENCE, || match starter.ended() {
            None => Ok(false),
            Some(0) => Ok(true),
            Some(code) => Err(Error::Server(format!("godwit dev ended with {code}: {}", starter.last_words()))),
        })?;
        servers.processes = processes(&self.data())?;
        Ok(())
    }
}

/// In the order of their numbers.
fn processes(data: &Path) -> Result<Vec<u32>, Error> {
    let file = data.join("dev.json");
    let text = std::fs::read_to_string(&file).map_err(Error::system(format!("{} cannot be read", file.display())))?;
    let running: Running =
        serde_json::from_str(&text).map_err(|error| Error::Server(format!("{}: {error}", file.display())))?;
    Ok(running.nodes.into_iter().map(|member| member.pid).collect())
}
