//! Redis and Valkey: by themselves, with replicas, and as clusters.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use values::Reply;

use super::{Binary, Process, Servers, loopback, until};
use crate::client::{Client, text_of};
use crate::error::Error;

/// However slow the machine is, what has not come up by then will not.
const PATIENCE: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(5);
/// The ports on which members of a cluster talk to each other, above those for clients.
const BUS: u16 = 10;

/// When the log of writes goes to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// As it is if nobody says anything: there is none, and now and then a snapshot.
    AsShipped,
    EverySecond,
    Always,
}

impl Log {
    fn settings(self) -> &'static [&'static str] {
        match self {
            Log::AsShipped => &[],
            Log::EverySecond => &["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""],
            Log::Always => &["--appendonly", "yes", "--appendfsync", "always", "--save", ""],
        }
    }
}

/// One server.
#[derive(Debug)]
pub(crate) struct Single<'a> {
    pub(crate) binary: &'a Binary,
    pub(crate) place: &'a Path,
    pub(crate) port: u16,
    pub(crate) log: Log,
}

impl Single<'_> {
    /// What is there already is found again.
    pub(crate) fn start(&self) -> Result<Servers, Error> {
        let servers = self.spawn()?;
        until_answering(&servers.started[0], servers.nodes[0])?;
        Ok(servers)
    }

    /// It may not answer yet.
    pub(crate) fn spawn(&self) -> Result<Servers, Error> {
        let process = spawn(self.binary, self.place, self.port, self.log.settings())?;
        let nodes = vec![loopback(self.port)];
        Ok(Servers { who: self.binary.peer, nodes, processes: vec![process.id()], started: vec![process] })
    }
}

/// A primary and its replicas, without a cluster: the primary is who clients ask.
#[derive(Debug)]
pub(crate) struct Replicated<'a> {
    pub(crate) binary: &'a Binary,
    pub(crate) place: &'a Path,
    pub(crate) port: u16,
    pub(crate) replicas: u16,
    pub(crate) log: Log,
}

impl Replicated<'_> {
    pub(crate) fn start(&self) -> Result<Servers, Error> {
        let mut started = Vec::new();
        for number in 0..=self.replicas {
            let primary = self.port.to_string();
            let mut settings = self.log.settings().to_vec();
            // Only how soon it begins: five seconds are for those who start many replicas at once.
            settings.extend(["--repl-diskless-sync-delay", "0"]);
            if number > 0 {
                settings.extend(["--replicaof", "127.0.0.1", &primary]);
            }
            let process = spawn(self.binary, self.place, self.port + number, &settings)?;
            until_answering(&process, loopback(self.port + number))?;
            started.push(process);
        }
        let online = format!("connected_slaves:{}", self.replicas);
        until("all replicas are there", PATIENCE, || {
            let info = ask(loopback(self.port), &["INFO", "replication"]);
            Ok(info.contains(&online) && info.matches("state=online").count() == usize::from(self.replicas))
        })?;
        let processes = started.iter().map(Process::id).collect();
        Ok(Servers { who: self.binary.peer, nodes: vec![loopback(self.port)], processes, started })
    }
}

/// Some primaries that share the slots, and as many replicas of each. Primary i is node i, its replicas come after all primaries.
#[derive(Debug)]
pub(crate) struct Cluster<'a> {
    pub(crate) binary: &'a Binary,
    pub(crate) place: &'a Path,
    pub(crate) port: u16,
    /// The slots of each primary; None: it has none yet.
    pub(crate) slots: Vec<Option<(u16, u16)>>,
    pub(crate) replicas: u16,
    pub(crate) log: Log,
}

impl Cluster<'_> {
    /// Three primaries with a third of the slots each.
    pub(crate) fn thirds() -> Vec<Option<(u16, u16)>> {
        vec![Some((0, 5460)), Some((5461, 10922)), Some((10923, 16383))]
    }

    pub(crate) fn start(&self) -> Result<Servers, Error> {
        let primaries = self.slots.len() as u16;
        let all = primaries * (1 + self.replicas);
        let mut started = Vec::new();
        for number in 0..all {
            let bus = (self.port + BUS + number).to_string();
            let mut settings = self.log.settings().to_vec();
            settings.extend(["--cluster-enabled", "yes", "--cluster-port", &bus, "--repl-diskless-sync-delay", "0"]);
            let process = spawn(self.binary, self.place, self.port + number, &settings)?;
            started.push(process);
        }
        let nodes: Vec<SocketAddr> = (0..all).map(|number| loopback(self.port + number)).collect();
        for (process, node) in started.iter().zip(&nodes) {
            until_answering(process, *node)?;
        }
        for (node, slots) in nodes.iter().zip(&self.slots) {
            if let Some((first, last)) = slots {
                must(*node, &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
            }
        }
        let bus = |number: u16| (self.port + BUS + number).to_string();
        for number in 1..all {
            must(nodes[usize::from(number)], &["CLUSTER", "MEET", "127.0.0.1", &self.port.to_string(), &bus(0)])?;
        }
        until("everyone knows everyone", PATIENCE, || {
            Ok(nodes.iter().all(|node| ask(*node, &["CLUSTER", "NODES"]).lines().count() == usize::from(all)))
        })?;
        for number in primaries..all {
            let primary = ask(nodes[usize::from((number - primaries) % primaries)], &["CLUSTER", "MYID"]);
            until("a replica has found its primary", PATIENCE, || {
                Ok(ask(nodes[usize::from(number)], &["CLUSTER", "REPLICATE", &primary]) == "OK")
            })?;
        }
        until("the cluster is well", PATIENCE, || {
            Ok(nodes.iter().all(|node| ask(*node, &["CLUSTER", "INFO"]).contains("cluster_state:ok")))
        })?;
        until("all replicas are there", PATIENCE, || {
            let mut of_primary = nodes.iter().take(usize::from(primaries));
            Ok(of_primary.all(|node| {
                ask(*node, &["INFO", "replication"]).matches("state=online").count() == usize::from(self.replicas)
            }))
        })?;
        let processes = started.iter().map(Process::id).collect();
        Ok(Servers { who: self.binary.peer, nodes, processes, started })
    }
}

fn spawn(binary: &Binary, place: &Path, port: u16, settings: &[&str]) -> Result<Process, Error> {
    let own = place.join(format!("{}-{port}", binary.peer));
    std::fs::create_dir_all(&own).map_err(Error::system(format!("{} cannot be made", own.display())))?;
    let mut command = Command::new(&binary.path);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no", "--dir"]).arg(&own);
    command.args(settings);
    Process::spawn(command, &own.join("log"))
}

fn until_answering(process: &Process, node: SocketAddr) -> Result<(), Error> {
    until(&format!("{node} answers"), PATIENCE, || {
        if process.ended().is_some() {
            return Err(Error::Server(format!("the server for {node} ended: {}", process.last_words())));
        }
        Ok(ask(node, &["PING"]) == "PONG")
    })
}

/// What is answered, as text; nothing if nobody answers.
pub(crate) fn ask(node: SocketAddr, words: &[&str]) -> String {
    let reply = Client::connect(node, ANSWER).and_then(|mut client| client.ask(words));
    reply.map_or_else(|_| String::new(), |reply| text_of(&reply))
}

pub(crate) fn must(node: SocketAddr, words: &[&str]) -> Result<String, Error> {
    let what = || format!("{} at {node}", words.join(" "));
    let reply =
        Client::connect(node, ANSWER).and_then(|mut client| client.ask(words)).map_err(Error::system(what()))?;
    if let Reply::Error(text) = &reply {
        return Err(Error::Server(format!("{}: {}", what(), String::from_utf8_lossy(text))));
    }
    Ok(text_of(&reply))
}
