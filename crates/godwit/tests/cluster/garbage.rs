//! Whoever comes with nonsense is told so, or sent away; nobody else notices.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use values::Reply;

use crate::common::{Client, Cluster, PATIENCE, Shape, http, until};

/// What all that nonsense together may leave behind: some buffers, and what the allocator keeps.
const MOST_GROWTH: u64 = 48 << 20;
/// Of connects that say nothing.
const SCANNED: usize = 200;

const DOORS: [(&str, u16); 4] = [("cluster", 0), ("any client", 100), ("http", 200), ("peers", 300)];

struct Victim {
    cluster: Cluster,
    before: u64,
}

impl Victim {
    fn new() -> Self {
        let cluster = Cluster::start("garbage", &Shape { nodes: 1, replicas: 1, buckets: 2, ..Shape::default() });
        let before = cluster.node(1).resident();
        Self { cluster, before }
    }

    fn connect(&self, door: u16) -> TcpStream {
        let stream = TcpStream::connect(self.cluster.node(1).address(door)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    /// Says this and then nothing more; what is answered until it is hung up on.
    fn shout(&self, door: u16, bytes: &[u8]) -> String {
        let mut stream = self.connect(door);
        // It may hang up in the middle.
        let _heard = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _cut = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Says a part of something and goes away.
    fn mumble(&self, door: u16, bytes: &[u8]) {
        let _heard = self.connect(door).write_all(bytes);
    }

    fn is_fine_after(&self, what: &str) {
        let node = self.cluster.node(1);
        for address in [node.cluster(), node.any()] {
            let mut client = Client::connect(&address).expect(what);
            assert_eq!(client.ask(&["SET", "k", what]), Some(Reply::Ok), "after {what}");
            assert_eq!(client.ask(&["STRLEN", "k"]), Some(Reply::Number(what.len() as i64)), "after {what}");
        }
        assert_eq!(http(&node.address(200), "GET", "/readyz", "").map(|(code, _)| code), Some(200), "after {what}");
        let grown = node.resident().saturating_sub(self.before);
        assert!(grown < MOST_GROWTH, "after {what} it has {grown} bytes more");
    }
}

/// The same each time: a test that fails is to fail again.
fn noise(length: usize, mut state: u64) -> Vec<u8> {
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn nonsense_at_the_doors_of_clients() {
    let victim = Victim::new();
    for (name, door) in &DOORS[..2] {
        for (what, bytes, error) in [
            (
                "a value of 512 MB and a byte",
                &b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870913\r\n"[..],
                "invalid bulk length",
            ),
            ("a value of less than nothing", b"*1\r\n$-2\r\n", "invalid bulk length"),
            ("more words than there are", b"*2147483648\r\n", "invalid multibulk length"),
            ("a million words too many", b"*1048577\r\n", "invalid multibulk length"),
            ("a word that is none", b"*1\r\n:1\r\n", "expected '$', got ':'"),
            ("a length that is none", b"*1\r\n$abc\r\n", "invalid bulk length"),
            ("quotes that never end", b"SET \"k\r\n", "unbalanced quotes"),
        ] {
            let answer = victim.shout(*door, bytes);
            assert!(answer.starts_with("-ERR Protocol error: ") && answer.contains(error), "{name}, {what}: {answer}");
            victim.is_fine_after(what);
        }
        let endless = vec![b'x'; 1 << 20];
        let answer = victim.shout(*door, &endless);
        // Whoever is cut off while it still talks may not hear why.
        assert!(answer.is_empty() || answer.contains("too big inline request"), "{name}: {answer}");
        for seed in 1..20 {
            victim.mumble(*door, &noise(10_000, seed));
        }
        for half in
            [&b"*"[..], b"*3\r", b"*3\r\n$3\r\nSET\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nonly so much"]
        {
            victim.mumble(*door, half);
        }
        // Announced is not sent: nothing is set aside for it.
        let waiting: Vec<TcpStream> = (0..20).map(|_| victim.connect(*door)).collect();
        for mut stream in &waiting {
            stream.write_all(b"*1048576\r\n$536870912\r\n").expect("it listens");
        }
        victim.is_fine_after(name);
    }
}

#[test]
fn nonsense_at_the_doors_of_others() {
    let victim = Victim::new();
    let (http, peers) = (200, 300);
    let answer = victim.shout(http, b"GET / NONSENSE/9\r\n\r\n");
    assert!(answer.is_empty() || answer.contains("400"), "{answer}");
    let long = [&b"POST /v1/keyspaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 536870913\r\n\r\n"[..], &noise(3 << 20, 7)].concat();
    let answer = victim.shout(http, &long);
    // Whoever is cut off while it still talks may not hear why.
    assert!(answer.is_empty() || answer.contains("413"), "{answer}");
    let header = [&b"GET / HTTP/1.1\r\nX: "[..], &vec![b'x'; 2 << 20]].concat();
    let answer = victim.shout(http, &header);
    assert!(answer.is_empty() || answer.contains("431"), "{answer}");
    // Half a request is not waited for.
    let mut waiting = victim.connect(http);
    waiting.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-").expect("it listens");
    let answer = victim.shout(http, &long[..200]);
    assert!(answer.contains("408"), "half a body: {answer}");
    assert_eq!(waiting.read(&mut [0; 8]).expect("hung up on, not forgotten"), 0);
    for seed in 1..20 {
        victim.mumble(http, &noise(10_000, seed));
        victim.mumble(peers, &noise(10_000, seed));
        victim.mumble(peers, &[MAGIC, &noise(10_000, seed)].concat());
    }
    victim.is_fine_after("noise");

    assert_eq!(victim.shout(peers, b"*1\r\n$4\r\nPING\r\n"), "", "it does not speak the language of peers");
    assert_eq!(victim.shout(peers, &[MAGIC, &u32::MAX.to_le_bytes()].concat()), "", "a greeting of 4 GiB");
    assert_eq!(victim.shout(peers, &MAGIC[..5]), "", "half a greeting, and nothing more");
    victim.is_fine_after("greetings that are none");

    let status = victim.cluster.status().expect("it answers");
    let cluster = u128::from_str_radix(&status.cluster, 16).expect("a number");
    let node: u64 = status.node.trim_start_matches('n').parse().expect("a number");
    let stranger = node ^ 1;
    for (what, hello, error) in [
        ("another version", Hello { protocol: 9, cluster, from: stranger, to: node }, "speaks protocol 8"),
        (
            "another cluster",
            Hello { protocol: PROTOCOL, cluster: cluster ^ 1, from: stranger, to: node },
            "belongs to cluster",
        ),
        (
            "another node",
            Hello { protocol: PROTOCOL, cluster, from: stranger, to: stranger },
            "was dialled, and this is",
        ),
        ("itself", Hello { protocol: PROTOCOL, cluster, from: node, to: node }, "dials itself"),
        ("nobody's lane", Hello { protocol: PROTOCOL, cluster: 0, from: stranger, to: node }, "belongs to no cluster"),
    ] {
        let answer = victim.shout(peers, &hello.bytes(LANE));
        assert!(answer.contains(error), "{what}: {answer}");
    }
    // One of us, as far as anybody can tell, and then it raves. Who only wants to join is believed less.
    for (cluster, end, length) in [(cluster, LANE, u32::MAX), (cluster, DESK, u32::MAX), (0, DESK, 1 << 24)] {
        let greeting = Hello { protocol: PROTOCOL, cluster, from: stranger, to: node }.bytes(end);
        let answer = victim.shout(peers, &[&greeting[..], &length.to_le_bytes(), &noise(1000, 3)].concat());
        assert!(answer.len() < 200, "welcome, and nothing more: {answer}");
        victim.shout(peers, &[&greeting[..], &1000_u32.to_le_bytes(), &noise(1000, 5)].concat());
        victim.mumble(peers, &[&greeting[..], &100_000_u32.to_le_bytes(), &noise(1000, 5)].concat());
    }
    victim.is_fine_after("frames that are none");
}

#[test]
fn ports_that_are_scanned() {
    let victim = Victim::new();
    let mut open: Vec<TcpStream> = Vec::new();
    for _ in 0..SCANNED {
        open.extend(DOORS.iter().map(|(_, door)| victim.connect(*door)));
    }
    victim.is_fine_after("a scan that holds on");
    // Peers say who they are, or go.
    for mut peer in open.into_iter().skip(3).step_by(4).take(10) {
        assert_eq!(peer.read(&mut [0; 8]).expect("hung up on, not forgotten"), 0);
    }
    for _ in 0..SCANNED {
        for (_, door) in DOORS {
            let _gone = victim.connect(door).shutdown(Shutdown::Both);
        }
    }
    victim.is_fine_after("a scan that lets go");
    let node = victim.cluster.node(1);
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", node.pid())).expect("our own child").count();
    until("it lets go of them, too", || (descriptors() < SCANNED).then_some(()), || descriptors().to_string());
}

const MAGIC: &[u8] = b"GODWIT1\n";
/// What nodes of this version speak.
pub(crate) const PROTOCOL: u8 = 8;
pub(crate) const DESK: &[u8] = &[0];
pub(crate) const LANE: &[u8] = &[1, 0];

/// What a peer says first.
#[derive(Clone, Copy)]
pub(crate) struct Hello {
    pub(crate) protocol: u8,
    pub(crate) cluster: u128,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Hello {
    pub(crate) fn bytes(self, end: &[u8]) -> Vec<u8> {
        let mut body = vec![self.protocol];
        number(&mut body, self.cluster);
        number(&mut body, self.from.into());
        body.push(1);
        number(&mut body, self.to.into());
        body.extend_from_slice(end);
        [MAGIC, &(body.len() as u32).to_le_bytes(), &body].concat()
    }
}

/// Seven bits at a time, the lowest first.
fn number(bytes: &mut Vec<u8>, mut number: u128) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
