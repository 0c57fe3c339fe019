//! etcd: members of one cluster, as they are if nobody says anything.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Binary, Process, Servers, loopback, resolve, until};
use crate::error::Error;

const PATIENCE: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(2);
/// The ports on which members talk to each other, above those for clients.
const AMONG_MEMBERS: u16 = 10;

#[derive(Debug)]
pub(crate) struct Etcd<'a> {
    pub(crate) binary: &'a Binary,
    pub(crate) place: &'a Path,
    pub(crate) port: u16,
    pub(crate) members: u16,
}

impl Etcd<'_> {
    pub(crate) fn start(&self) -> Result<Servers, Error> {
        let peer_url = |number: u16| format!("http://127.0.0.1:{}", self.port + AMONG_MEMBERS + number);
        let all: Vec<String> = (0..self.members).map(|number| format!("m{number}={}", peer_url(number))).collect();
        let mut started = Vec::new();
        for number in 0..self.members {
            let client = format!("http://127.0.0.1:{}", self.port + number);
            let mut command = Command::new(&self.binary.path);
            command.args(["--name", &format!("m{number}"), "--initial-cluster", &all.join(",")]);
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer_url(number), "--initial-advertise-peer-urls", &peer_url(number)]);
            command.args(["--initial-cluster-state", "new", "--initial-cluster-token", "bench", "--data-dir"]);
            command.arg(self.place.join(format!("etcd-{number}")));
            started.push(Process::spawn(command, &self.place.join(format!("etcd-{number}.log")))?);
        }
        let nodes: Vec<SocketAddr> = (0..self.members).map(|number| loopback(self.port + number)).collect();
        until("etcd is healthy", PATIENCE, || {
            if let Some(ended) = started.iter().find(|process| process.ended().is_some()) {
                return Err(Error::Server(format!("a member of etcd ended: {}", ended.last_words())));
            }
            Ok(nodes.iter().all(|node| is_healthy(*node)))
        })?;
        let processes = started.iter().map(Process::id).collect();
        Ok(Servers { who: self.binary.peer, nodes, processes, started })
    }

    /// Writes per second as etcd's own load generator has them, which takes a minute; None if it is not here.
    pub(crate) fn own_measurement(&self) -> Option<f64> {
        let beside = self.binary.path.with_file_name("etcdctl");
        let etcdctl = resolve(&beside).or_else(|| resolve(Path::new("etcdctl")))?;
        let ends: Vec<String> = (0..self.members).map(|number| format!("127.0.0.1:{}", self.port + number)).collect();
        let mut check = Command::new(etcdctl);
        // Large: its clients are the only ones that may send more than etcd takes.
        check.env("ETCDCTL_API", "3").args(["--endpoints", &ends.join(","), "check", "perf", "--load", "l"]);
        let said = check.stdin(Stdio::null()).output().ok()?;
        writes_per_second(&format!(
            "{}{}",
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr)
        ))
    }
}

/// `PASS: Throughput is 7953 writes/s`, or `FAIL: Throughput too low: 870 writes/s`.
fn writes_per_second(text: &str) -> Option<f64> {
    let (before, _) = text.split_once(" writes/s")?;
    before.split_whitespace().last()?.parse().ok()
}

fn is_healthy(node: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&node, ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    ask().is_ok_and(|text| text.contains("\"health\":\"true\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_etcdctl_says() {
        let said = " 60 / 60 Boooooooo! 100.00% 1m0s\nFAIL: Throughput too low: 870 writes/s\nPASS: Slowest request took 0.4s\n";
        assert_eq!(writes_per_second(said), Some(870.0));
        assert_eq!(writes_per_second("PASS: Throughput is 7953 writes/s\n"), Some(7953.0));
        assert_eq!(writes_per_second("Error: no"), None);
    }
}
