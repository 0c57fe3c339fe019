//! Nodes, each a process started by the test itself, so that the test is told how it ended.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use server::Status;

use super::{Client, Ports, text, until};

/// Segments as large as usual would be made, filled and read again for nothing. And three times as patient as usual: this machine may be
/// busy with anything, and nodes that miss each other all the time prove nothing.
pub(crate) const SETTINGS: &str = "segment_mib = 4\nbeacon_ms = 300\nlease_ms = 900\nsilence_ms = 2100\n";

/// What kind of cluster a test wants.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) nodes: u16,
    pub(crate) replicas: u16,
    pub(crate) buckets: u16,
    pub(crate) durability: &'static str,
    /// Given to every node.
    pub(crate) flags: Vec<String>,
}

impl Default for Shape {
    fn default() -> Self {
        Self { nodes: 3, replicas: 3, buckets: 8, durability: "disk", flags: Vec::new() }
    }
}

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) dir: PathBuf,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ports: Ports,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: u16,
    pub(crate) host: String,
    /// Its first port.
    pub(crate) port: u16,
    pub(crate) data: PathBuf,
    log: PathBuf,
    flags: Vec<String>,
    /// Words before the command: where it is to be run.
    within: Vec<String>,
    child: Option<Child>,
}

impl Cluster {
    /// So many keys with values of so many bytes, in all buckets alike.
    pub(crate) fn fill(&self, keys: usize, size: usize) {
        const TOGETHER: usize = 50;
        let mut client = Client::connect(&self.node(1).any()).expect("it runs");
        let value = "v".repeat(size);
        for batch in 0..keys / TOGETHER {
            for key in 0..TOGETHER {
                let name = format!("key:{}", batch * TOGETHER + key);
                client.send(&["SET", &name, &value]).expect("it takes writes");
            }
            for _ in 0..TOGETHER {
                client.receive().expect("it answers");
            }
        }
    }

    pub(crate) fn start(name: &str, shape: &Shape) -> Self {
        let mut cluster = Self::empty(name);
        for number in 1..=shape.nodes {
            cluster.add(number, "127.0.0.1", &shape.flags, &[]);
        }
        cluster.found(shape);
        cluster
    }

    /// Nobody in it yet.
    pub(crate) fn empty(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (number, ports) = (NEXT.fetch_add(1, Ordering::Relaxed), Ports::take());
        let dir = std::env::temp_dir().join(format!("godwit-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory of its own");
        std::fs::write(dir.join("settings.toml"), SETTINGS).expect("our own directory");
        Self { dir, nodes: Vec::new(), ports }
    }

    /// A node that is not started yet.
    pub(crate) fn add(&mut self, number: u16, host: &str, flags: &[String], within: &[String]) {
        let name = format!("node-{number}");
        self.nodes.push(Node {
            number,
            host: host.to_owned(),
            port: self.ports.base + number,
            data: self.dir.join(&name),
            log: self.dir.join(format!("{name}.log")),
            flags: flags.to_vec(),
            within: within.to_vec(),
            child: None,
        });
    }

    /// Starts everyone, makes the keyspace, and waits until all is well.
    pub(crate) fn found(&mut self, shape: &Shape) {
        for at in 0..self.nodes.len() {
            self.start_node(at as u16 + 1);
            if at == 0 {
                self.until_up(1);
            }
        }
        (2..=self.nodes.len() as u16).for_each(|node| self.until_up(node));
        let is_present = |node: &&server::NodeStatus| node.state == "present";
        let all_present = |status: &Status| status.nodes.iter().filter(is_present).count() == self.nodes.len();
        until("everyone has joined", || self.status().filter(all_present), || self.describe());
        let (replicas, buckets) = (shape.replicas.to_string(), shape.buckets.to_string());
        let words =
            ["keyspace", "default", "--replicas", &replicas, "--buckets", &buckets, "--durability", shape.durability];
        // On a busy machine one of them may be missed for a moment, and a keyspace that needs it is refused.
        let made = || self.status().is_some_and(|status| !status.keyspaces.is_empty()).then_some(());
        until(
            "there is a keyspace",
            || {
                made().or_else(|| {
                    self.godwit(&words);
                    made()
                })
            },
            || text(&self.godwit(&words)),
        );
        self.until_well();
    }

    pub(crate) fn node(&self, number: u16) -> &Node {
        &self.nodes[usize::from(number) - 1]
    }

    pub(crate) fn start_node(&mut self, number: u16) {
        let first = self.nodes[0].address(300);
        let start = if number == 1 { vec!["--init".to_owned()] } else { vec!["--join".to_owned(), first] };
        self.start_node_so(number, &start);
    }

    /// With these words in place of those that let it join.
    pub(crate) fn start_node_so(&mut self, number: u16, start: &[String]) {
        self.nodes[usize::from(number) - 1].start(start);
    }

    pub(crate) fn until_up(&self, number: u16) {
        let node = self.node(number);
        let is_up = || {
            assert!(node.is_alive(), "node {number} ended: {}", node.log());
            http(&node.address(200), "GET", "/healthz", "").filter(|(code, _)| *code == 200)?;
            TcpStream::connect(node.any()).ok() // it lets nobody in before it knows who leads
        };
        until(&format!("node {number} answers"), is_up, || self.describe());
    }

    /// As a power cut would.
    pub(crate) fn kill(&mut self, number: u16) {
        self.node(number).signal(Signal::KILL);
        self.wait_for_end(number);
    }

    pub(crate) fn wait_for_end(&mut self, number: u16) -> ExitStatus {
        let child = &mut self.nodes[usize::from(number) - 1].child;
        let running = child.as_mut().expect("it was started");
        let ended = until(
            &format!("node {number} ends"),
            || running.try_wait().expect("our own child"),
            || "it runs and runs".into(),
        );
        *child = None;
        ended
    }

    pub(crate) fn godwit(&self, arguments: &[&str]) -> Output {
        let at: Vec<String> = self.nodes.iter().filter(|n| n.runs()).map(|node| node.address(200)).collect();
        godwit(arguments, &[("GODWIT_AT", &at.join(","))])
    }

    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.godwit(arguments);
        assert!(output.status.success(), "{arguments:?}: {}\n{}", text(&output), self.describe());
        text(&output)
    }

    /// As the first that answers sees it.
    pub(crate) fn status(&self) -> Option<Status> {
        self.nodes.iter().find_map(Node::status)
    }

    /// As everyone who runs sees it: one that has just come back may believe that all is as it was.
    pub(crate) fn until_well(&self) {
        let all_well = || {
            let well = |node: &Node| node.status().is_some_and(|status| status.problems.is_empty());
            self.nodes.iter().all(well).then_some(())
        };
        until("all is well", all_well, || self.describe());
    }

    /// For whoever wants to know why a test failed.
    pub(crate) fn describe(&self) -> String {
        let problems = |node: &Node| match node.status() {
            Some(status) => status.problems.join("\n  "),
            None => "no answer".into(),
        };
        let nodes: Vec<String> =
            self.nodes.iter().map(|node| format!("as node {} sees it:\n  {}", node.number, problems(node))).collect();
        format!("{}\n{}", nodes.join("\n"), text(&self.godwit(&["why"])))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(child) = &mut node.child {
                let _ended = child.kill();
                let _reaped = child.wait();
            }
            if std::thread::panicking() {
                let log = node.log();
                let tail: Vec<&str> = log.lines().rev().take(20).collect();
                eprintln!("node {}:\n{}", node.number, tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
            }
        }
        let _gone = std::fs::remove_dir_all(&self.dir);
    }
}

impl Node {
    pub(crate) fn address(&self, kind: u16) -> String {
        format!("{}:{}", self.host, self.port + kind)
    }

    pub(crate) fn cluster(&self) -> String {
        self.address(0)
    }

    pub(crate) fn any(&self) -> String {
        self.address(100)
    }

    pub(crate) fn name(&self) -> String {
        format!("node-{}", self.number)
    }

    fn start(&mut self, start: &[String]) {
        let log = File::options().create(true).append(true).open(&self.log).expect("our own directory");
        let mut words = self.within.clone();
        words.push(env!("CARGO_BIN_EXE_godwit").to_owned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("serve").arg("--data").arg(&self.data);
        command.args(["--name", &self.name(), "--listen", &self.host, "--port", &self.port.to_string()]);
        command
            .arg("--config")
            .arg(self.log.with_file_name("settings.toml"))
            .args(if self.flags.iter().any(|flag| flag == "--recovery-delay") {
                &[][..]
            } else {
                &["--recovery-delay", "1"]
            })
            .args(&self.flags)
            .args(start);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        self.child = Some(command.spawn().expect("the binary was just built"));
    }

    pub(crate) fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// A process that has ended and was not asked about has no threads left to show.
    fn is_alive(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was started").id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a child has a number");
        kill_process(pid, signal).expect("our own child");
        if signal == Signal::STOP {
            until("every thread stands still", || self.stands_still().then_some(()), || self.log());
        }
    }

    /// Who is stopped goes on until it has noticed.
    fn stands_still(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("our own child");
        let mut states = threads.flatten().map(|thread| std::fs::read_to_string(thread.path().join("stat")));
        states.all(|stat| stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))))
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Option<Status> {
        self.child.as_ref()?;
        let (code, body) = http(&self.address(200), "GET", "/v1/status", "")?;
        (code == 200).then(|| serde_json::from_str(&body).expect("a status"))
    }

    /// Bytes of it that are in memory now.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(Path::new("/proc").join(self.pid().to_string()).join("status"));
        let status = status.expect("our own child");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it runs");
        let kib: u64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number");
        kib << 10
    }
}

/// Runs the command line.
pub(crate) fn godwit(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_godwit"));
    command.args(arguments).envs(environment.iter().copied());
    command.output().expect("the binary was just built")
}

/// Status and body; none if nobody answers soon.
pub(crate) fn http(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address.parse().ok()?, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split_whitespace().nth(1)?.parse().ok()?, body.to_owned()))
}
