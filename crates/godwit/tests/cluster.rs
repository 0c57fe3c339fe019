//! The real binary: a cluster of three processes, killed one by one and all at once. Nothing that was acknowledged may be lost.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use resp::Replies;
use values::Reply;

/// Generous: this machine may be doing anything else.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster of its own, on ports of its own, gone when the test is over.
struct Cluster {
    data: PathBuf,
    base: u16,
}

impl Cluster {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let data = std::env::temp_dir().join(format!("godwit-{name}-{}", std::process::id()));
        let cluster = Self { data, base: free_base() };
        let base = cluster.base.to_string();
        let started = cluster.godwit(&[&["dev", "--detach", "--base-port", &base], arguments].concat());
        assert!(started.status.success(), "{}", text(&started));
        cluster
    }

    fn godwit(&self, arguments: &[&str]) -> Output {
        let at: Vec<String> = (1..=3).map(|i| format!("127.0.0.1:{}", self.base + 200 + i)).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_godwit"));
        command.args(arguments).env("GODWIT_AT", at.join(","));
        if arguments[0] == "dev" {
            command.arg("--data").arg(&self.data);
        }
        command.output().expect("the binary was just built")
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.godwit(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        text(&output)
    }

    fn any_port(&self, node: u16) -> u16 {
        self.base + 100 + node
    }

    fn until_well(&self) {
        let begun = Instant::now();
        loop {
            let status = self.godwit(&["status"]);
            if status.status.success() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{}\n{}", text(&status), text(&self.godwit(&["why"])));
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _stopped = self.godwit(&["dev", "stop"]);
        if std::thread::panicking() {
            for node in 1..=3 {
                let log = std::fs::read_to_string(self.data.join(format!("node-{node}.log"))).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(20).collect();
                eprintln!("node {node}:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
            }
        }
        let _gone = std::fs::remove_dir_all(&self.data);
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Ports that nobody uses right now, and that no other test of this process was given.
fn free_base() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 40) as u16 * 400;
    loop {
        let base = first + NEXT.fetch_add(400, Ordering::Relaxed) % 16_000;
        let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if (0..4).all(|kind| (1..=3).all(|node| free(base + kind * 100 + node))) {
            return base;
        }
    }
}

/// A client that waits for its answers.
struct Client {
    stream: TcpStream,
    buffer: BytesMut,
    replies: Replies,
}

impl Client {
    fn connect(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        Some(Self { stream, buffer: BytesMut::new(), replies: Replies::new() })
    }

    /// None: the connection broke, and what became of it is not known.
    fn ask(&mut self, words: &[&str]) -> Option<Reply> {
        self.send(&[words])?;
        self.reply()
    }

    /// All of them in one write.
    fn pipeline(&mut self, requests: &[&[&str]]) -> Option<Vec<Reply>> {
        self.send(requests)?;
        requests.iter().map(|_| self.reply()).collect()
    }

    fn send(&mut self, requests: &[&[&str]]) -> Option<()> {
        let mut bytes = BytesMut::new();
        for words in requests {
            let words: Vec<Bytes> = words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
            resp::encode_request(&words, &mut bytes);
        }
        self.stream.write_all(&bytes).ok()
    }

    fn reply(&mut self) -> Option<Reply> {
        loop {
            if let Some(reply) = self.replies.next(&mut self.buffer).expect("a server that speaks RESP") {
                return Some(reply);
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.buffer.extend_from_slice(&chunk[..read]),
            }
        }
    }
}

/// Asks any node until somebody answers without an error.
fn ask(cluster: &Cluster, words: &[&str]) -> Reply {
    let begun = Instant::now();
    let mut last = None;
    for node in (1..=3).cycle() {
        if let Some(reply) = Client::connect(cluster.any_port(node)).and_then(|mut client| client.ask(words)) {
            if !reply.is_error() {
                return reply;
            }
            last = Some(reply);
        }
        assert!(begun.elapsed() < PATIENCE, "{words:?}: {last:?}\n{}", text(&cluster.godwit(&["why"])));
        std::thread::sleep(Duration::from_millis(20));
    }
    unreachable!("there is always a next node")
}

/// What was acknowledged so far.
#[derive(Default)]
struct Written(BTreeMap<String, String>);

impl Written {
    fn write(&mut self, cluster: &Cluster, round: &str) {
        for i in 0..60 {
            let (key, value) = (format!("{round}:{i}"), format!("value {i}"));
            assert_eq!(ask(cluster, &["SET", &key, &value]), Reply::Ok);
            self.0.insert(key, value);
        }
    }

    fn check(&self, cluster: &Cluster) {
        for (key, value) in &self.0 {
            let expected = Reply::Value(Bytes::copy_from_slice(value.as_bytes()));
            assert_eq!(ask(cluster, &["GET", key]), expected, "{key} was acknowledged");
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost() {
    let cluster = Cluster::start("lost", &["--buckets", "8"]);
    let mut written = Written::default();
    written.write(&cluster, "calm");

    cluster.succeed(&["dev", "kill", "2"]);
    written.write(&cluster, "without node 2");
    written.check(&cluster);
    cluster.succeed(&["dev", "restart", "2"]);
    cluster.until_well();

    // With a hand over this time.
    cluster.succeed(&["dev", "restart", "1"]);
    written.write(&cluster, "node 1 restarted");
    cluster.until_well();

    for node in ["1", "2", "3"] {
        cluster.succeed(&["dev", "kill", node]);
    }
    let status = cluster.godwit(&["status"]);
    assert_eq!(status.status.code(), Some(3), "nobody can be asked: {}", text(&status));
    for node in ["3", "1", "2"] {
        cluster.succeed(&["dev", "restart", node]);
    }
    cluster.until_well();
    written.check(&cluster);
    written.write(&cluster, "after all");
    written.check(&cluster);
    let inspected = cluster.succeed(&["inspect", cluster.data.join("node-1").to_str().expect("a plain path")]);
    assert!(inspected.contains("b1"), "{inspected}");
}

#[test]
fn clients_as_they_are() {
    let cluster = Cluster::start("clients", &["--buckets", "4", "--durability", "memory"]);
    let mut client = Client::connect(cluster.any_port(1)).expect("node 1 runs");
    let mut is = |words: &[&str], expected: Reply| assert_eq!(client.ask(words), Some(expected), "{words:?}");
    is(&["PING"], Reply::Simple(Bytes::from_static(b"PONG")));
    is(&["MSET", "a", "1", "b", "2", "c", "3"], Reply::Ok);
    is(
        &["MGET", "a", "b", "c", "d"],
        Reply::Array(vec![Reply::text("1"), Reply::text("2"), Reply::text("3"), Reply::Nil]),
    );
    is(&["INCR", "a"], Reply::Number(2));
    is(&["RPUSH", "l", "x", "y"], Reply::Number(2));
    is(&["DBSIZE"], Reply::Number(4));
    is(&["DEL", "a", "b", "nothing"], Reply::Number(2));
    is(&["SERIES", "7-9000000000000000", "1", "INCR", "n"], Reply::Number(1));
    is(&["SERIES", "7-9000000000000000", "1", "INCR", "n"], Reply::Number(1));
    is(&["FLUSHALL"], Reply::Ok);
    is(&["DBSIZE"], Reply::Number(0));
    is(&["GET"], Reply::error("ERR wrong number of arguments for 'get' command"));
    is(&["CLUSTER", "KEYSLOT", "foo"], Reply::Number(12182));
    // On the cluster port whoever does not lead the slot says who does.
    let moved = (1..=3).filter(|node| {
        let reply = Client::connect(cluster.base + node).and_then(|mut client| client.ask(&["GET", "foo"]));
        matches!(reply, Some(Reply::Error(text)) if text.starts_with(b"MOVED 12182 127.0.0.1:"))
    });
    assert_eq!(moved.count(), 2);
}

/// The node that leads the slot of that key.
fn primary_of(cluster: &Cluster, key: &str) -> u16 {
    let begun = Instant::now();
    loop {
        let leads = |node: &u16| {
            let reply = Client::connect(cluster.base + node).and_then(|mut client| client.ask(&["GET", key]));
            reply.is_some_and(|reply| !reply.is_error())
        };
        if let Some(node) = (1..=3).find(leads) {
            return node;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody leads {key}");
    }
}

/// R12: a request that could not even be sent to the primary was certainly not done.
#[test]
fn what_cannot_be_passed_on_was_not_done() {
    let cluster = Cluster::start("unsent", &["--buckets", "4", "--replicas", "1"]);
    let key = (0..).map(|i| format!("k{i}")).find(|key| primary_of(&cluster, key) == 2).expect("node 2 leads some");
    let mut client = Client::connect(cluster.any_port(1)).expect("node 1 runs");
    assert_eq!(client.ask(&["SET", &key, "1"]), Some(Reply::Ok));
    cluster.succeed(&["dev", "kill", "2"]);
    // The first may have been on its way.
    let replies: Vec<_> = (0..3).map(|_| client.ask(&["SET", &key, "2"])).collect();
    let last = replies.last().cloned().flatten();
    assert!(matches!(&last, Some(Reply::Error(text)) if text.starts_with(b"TRYAGAIN ")), "{replies:?}");
}

/// A client sends many writes to one key at once, through a node that passes them on, while the primary dies. What it set last stays.
#[test]
fn a_pipeline_keeps_its_order_through_a_failover() {
    let cluster = Cluster::start("order", &["--buckets", "4"]);
    let primary = primary_of(&cluster, "k");
    let mut client = Client::connect(cluster.any_port(1 + primary % 3)).expect("another node runs");
    let (mut next, mut well_since, mut uncertain) = (0_u64, 0, 0);
    let mut round = |client: &mut Client| {
        let values: Vec<String> = (next..next + 40).map(|value| value.to_string()).collect();
        next += 40;
        let mut requests: Vec<Vec<&str>> = values.iter().map(|value| vec!["SET", "k", value]).collect();
        requests.push(vec!["GET", "k"]);
        let requests: Vec<&[&str]> = requests.iter().map(Vec::as_slice).collect();
        let replies = client.pipeline(&requests).expect("that node lives");
        let (got, set) = replies.split_last().expect("many");
        let acknowledged = values.iter().zip(set).filter(|(_, reply)| **reply == Reply::Ok).map(|(value, _)| value);
        let newest = acknowledged.last().map(|value| value.parse::<u64>().expect("a number"));
        uncertain += set.iter().filter(|reply| reply.is_error()).count();
        if let (Reply::Value(got), Some(newest)) = (got, newest) {
            let got: u64 = String::from_utf8_lossy(got).parse().expect("a number");
            assert!(got >= newest, "{newest} was set after {got}: {set:?}");
        }
        set.iter().all(|reply| *reply == Reply::Ok)
    };
    assert!(round(&mut client));
    std::thread::scope(|scope| {
        let killing = scope.spawn(|| cluster.succeed(&["dev", "kill", &primary.to_string()]));
        let begun = Instant::now();
        while !killing.is_finished() || well_since < 5 {
            well_since = if round(&mut client) && killing.is_finished() { well_since + 1 } else { 0 };
            assert!(begun.elapsed() < PATIENCE, "{}", text(&cluster.godwit(&["why"])));
        }
    });
    eprintln!("{uncertain} of {next} were not acknowledged");
}
