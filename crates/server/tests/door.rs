//! Conversations with one node over its sockets: what clients rely on when they send many requests at once.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use resp::Replies;
use server::{Config, Ports, Start};
use tempfile::TempDir;
use values::Reply;

/// Generous: this machine may be doing anything else.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node of its own, on ports of its own, gone when the test is over.
struct Node {
    ports: Ports,
    thread: Option<JoinHandle<()>>,
    _data: TempDir,
}

impl Node {
    fn start(lanes: u16) -> Self {
        let data = TempDir::new().expect("a temporary directory");
        let ports = free_ports();
        let config = Config {
            data: data.path().join("node"),
            ports,
            lanes,
            start: Start::Init,
            voters: 1,
            segment_mib: 4,
            ..Config::default()
        };
        let thread =
            std::thread::spawn(move || server::serve(config, |_| {}).expect("a node runs until it is stopped"));
        let node = Self { ports, thread: Some(thread), _data: data };
        node.make_keyspace();
        node
    }

    fn make_keyspace(&self) {
        let body = r#"{"name":"default","replicas":1,"buckets":4}"#;
        let request = format!(
            "POST /v1/keyspaces HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        until("the keyspace is there", || {
            let mut stream = TcpStream::connect(("127.0.0.1", self.ports.http)).ok()?;
            stream.write_all(request.as_bytes()).ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            answer.starts_with("HTTP/1.1 200").then_some(())
        });
        until("the first write", || (self.client().ask(&["SET", "first", "1"]) == Reply::Ok).then_some(()));
        assert_eq!(self.client().ask(&["FLUSHALL"]), Reply::Ok);
    }

    fn client(&self) -> Client {
        Client::connect(self.ports.any)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.ports.any)) {
            let _gone = stream.write_all(b"SHUTDOWN\r\n");
            let _ended = stream.read(&mut [0]);
        }
        if let Some(thread) = self.thread.take().filter(|_| !std::thread::panicking()) {
            thread.join().expect("the node ends well");
        }
    }
}

fn free_ports() -> Ports {
    let listeners: Vec<_> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let port = |at: usize| listeners[at].local_addr().expect("bound").port();
    Ports { cluster: port(0), any: port(1), http: port(2), peers: port(3) }
}

fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Client {
    stream: TcpStream,
    buffer: BytesMut,
    replies: Replies,
}

impl Client {
    fn connect(port: u16) -> Self {
        let stream = until("a connection", || TcpStream::connect(("127.0.0.1", port)).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Self { stream, buffer: BytesMut::new(), replies: Replies::new() }
    }

    fn send(&mut self, requests: &[&[&str]]) {
        let mut bytes = BytesMut::new();
        for words in requests {
            let words: Vec<Bytes> = words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
            resp::encode_request(&words, &mut bytes);
        }
        self.stream.write_all(&bytes).expect("the node reads");
    }

    fn reply(&mut self) -> Reply {
        loop {
            if let Some(reply) = self.replies.next(&mut self.buffer).expect("a server that speaks RESP") {
                return reply;
            }
            let mut chunk = [0; 4096];
            let read = self.stream.read(&mut chunk).expect("an answer");
            assert!(read > 0, "the node hung up");
            self.buffer.extend_from_slice(&chunk[..read]);
        }
    }

    /// All of them in one write.
    fn pipeline(&mut self, requests: &[&[&str]]) -> Vec<Reply> {
        self.send(requests);
        requests.iter().map(|_| self.reply()).collect()
    }

    fn ask(&mut self, words: &[&str]) -> Reply {
        self.pipeline(&[words]).pop().expect("as many as were asked")
    }

    /// Everything that comes until the node hangs up.
    fn rest(mut self) -> String {
        self.stream.shutdown(Shutdown::Write).expect("it is open");
        let mut all = Vec::new();
        self.stream.read_to_end(&mut all).expect("answers");
        String::from_utf8_lossy(&all).into_owned()
    }
}

fn text(text: &str) -> Reply {
    Reply::Value(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn a_read_sees_the_writes_before_it() {
    let node = Node::start(1);
    let mut client = node.client();
    for round in 0..20 {
        let value = round.to_string();
        let replies = client.pipeline(&[&["SET", "a", &value], &["GET", "a"], &["SET", "a", "x"], &["GET", "a"]]);
        assert_eq!(replies, [Reply::Ok, text(&value), Reply::Ok, text("x")]);
    }
}

#[test]
fn what_concerns_all_slots_has_its_place_too() {
    let node = Node::start(1);
    let mut client = node.client();
    for _ in 0..3 {
        let replies = client.pipeline(&[
            &["SET", "a", "1"],
            &["SET", "b", "1"],
            &["DBSIZE"],
            &["FLUSHALL"],
            &["DBSIZE"],
            &["SET", "a", "2"],
            &["GET", "a"],
            &["MSET", "b", "3", "c", "3"],
            &["MGET", "a", "b", "c"],
            &["DEL", "a", "b", "c"],
            &["DBSIZE"],
        ]);
        let all = Reply::Array(vec![text("2"), text("3"), text("3")]);
        let number = Reply::Number;
        let (set, wide) = (Reply::Ok, [number(2), Reply::Ok, number(0)]);
        let expected = [
            vec![set.clone(), set.clone()],
            wide.to_vec(),
            vec![set.clone(), text("2"), set, all, number(3), number(0)],
        ];
        assert_eq!(replies, expected.concat());
    }
}

#[test]
fn a_protocol_begins_where_it_was_asked_for() {
    let node = Node::start(1);
    let mut client = node.client();
    client.send(&[
        &["SET", "a", "1"],
        &["GET", "missing"],
        &["HELLO", "3"],
        &["GET", "missing"],
        &["SET", "a", "2"],
        &["RESET"],
        &["GET", "missing"],
    ]);
    let all = client.rest();
    let hello = all.find('%').expect("HELLO 3 answers a map");
    assert_eq!(&all[..hello], "+OK\r\n$-1\r\n");
    let after = all.find("_\r\n").expect("no value, as RESP3 says it");
    assert_eq!(&all[after..], "_\r\n+OK\r\n+RESET\r\n$-1\r\n");
}

#[test]
fn silence_begins_where_it_was_asked_for() {
    let node = Node::start(1);
    let mut client = node.client();
    client.send(&[
        &["SET", "a", "3"],
        &["CLIENT", "REPLY", "SKIP"],
        &["SET", "a", "4"],
        &["SET", "a", "5"],
        &["CLIENT", "REPLY", "OFF"],
        &["SET", "a", "6"],
        &["CLIENT", "REPLY", "SKIP"],
        &["GET", "a"],
        &["GET", "a"],
        &["CLIENT", "REPLY", "ON"],
        &["GET", "a"],
    ]);
    assert_eq!(client.rest(), "+OK\r\n+OK\r\n+OK\r\n$1\r\n6\r\n");
}

/// More than a node takes of one client before it stops reading: it reads on.
#[test]
fn a_pipeline_may_be_of_any_length() {
    let node = Node::start(1);
    let value = "x".repeat(1 << 20);
    let (small, large) = (["SET", "a", "1"], ["SET", "a", &value]);
    for (words, count) in [(&small, 20_000), (&large, 40)] {
        // All of them wait for the first.
        let requests = [&[&["KEYS", "none"][..]], &vec![&words[..]; count][..]].concat();
        let replies = node.client().pipeline(&requests);
        assert!(replies[1..].iter().all(|reply| *reply == Reply::Ok));
    }
}

#[test]
fn who_has_said_everything_is_still_answered() {
    let node = Node::start(1);
    let mut client = node.client();
    client.send(&[&["SET", "a", "1"], &["GET", "a"], &["FLUSHALL"], &["GET", "a"]]);
    assert_eq!(client.rest(), "+OK\r\n$1\r\n1\r\n+OK\r\n$-1\r\n");
}

#[test]
fn words_that_mean_nothing_change_nothing() {
    let node = Node::start(1);
    let mut client = node.client();
    let syntax = Reply::error("ERR syntax error");
    assert_eq!(client.ask(&["SET", "a", "1"]), Reply::Ok);
    for words in [["FLUSHALL", "NOW"], ["FLUSHDB", "x"], ["SHUTDOWN", "x"]] {
        assert_eq!(client.ask(&words), syntax, "{words:?}");
    }
    for words in [["SHUTDOWN", "SAVE", "NOSAVE"], ["SHUTDOWN", "ABORT", "NOW"], ["FLUSHALL", "SYNC", "ASYNC"]] {
        assert_eq!(client.ask(&words), syntax, "{words:?}");
    }
    assert_eq!(client.ask(&["SHUTDOWN", "ABORT"]), Reply::error("ERR No shutdown in progress."));
    assert_eq!(client.ask(&["GET", "a"]), text("1"));
    assert_eq!(client.ask(&["FLUSHDB", "async"]), Reply::Ok);
    assert_eq!(client.ask(&["GET", "a"]), Reply::Nil);
}

#[test]
fn each_door_says_which_it_is() {
    let node = Node::start(1);
    for (port, mode, enabled, setting) in
        [(node.ports.cluster, "cluster", 1, "yes"), (node.ports.any, "standalone", 0, "no")]
    {
        let mut client = Client::connect(port);
        let Reply::Value(info) = client.ask(&["INFO"]) else { panic!("INFO is a text") };
        let info = String::from_utf8_lossy(&info).into_owned();
        for row in [
            format!("redis_mode:{mode}"),
            format!("tcp_port:{port}"),
            format!("cluster_enabled:{enabled}"),
            "maxclients:".into(),
        ] {
            assert!(info.contains(&row), "{row} in {info}");
        }
        let settings = client.ask(&["CONFIG", "GET", "cluster-enabled"]);
        assert_eq!(settings, Reply::Array(vec![text("cluster-enabled"), text(setting)]));
    }
}

#[test]
fn mistakes_are_named_as_redis_does() {
    let node = Node::start(1);
    let mut client = node.client();
    for (words, error) in [
        (&["WAIT", "x", "y"][..], "ERR value is not an integer or out of range"),
        (&["WAIT", "1", "x"], "ERR timeout is not an integer or out of range"),
        (&["WAIT", "1", "-1"], "ERR timeout is negative"),
        (&["CLIENT", "LIST", "ID", "1", "abc"], "ERR Invalid client ID"),
        (&["CLIENT", "KILL", "ID", "0"], "ERR client-id should be greater than 0"),
        (&["CLUSTER", "REPLICAS", "abc"], "ERR Unknown node abc"),
    ] {
        assert_eq!(client.ask(words), Reply::error(error), "{words:?}");
    }
    assert_eq!(client.ask(&["CLIENT", "LIST", "ID", "0", "-1"]), text(""));
    let Reply::Value(me) = client.ask(&["CLUSTER", "MYID"]) else { panic!("MYID is a text") };
    let me = String::from_utf8_lossy(&me).into_owned();
    assert_eq!(client.ask(&["CLUSTER", "REPLICAS", &me]), Reply::Array(Vec::new()));
}

/// Few keys in many empty slots, and many keys in one.
#[test]
fn a_scan_finds_every_key() {
    let node = Node::start(1);
    let mut client = node.client();
    let mut keys: Vec<String> = (0..40).map(|i| i.to_string()).chain((0..40).map(|i| format!("{{a}}{i}"))).collect();
    let sets: Vec<Vec<&str>> = keys.iter().map(|key| vec!["SET", key, "1"]).collect();
    client.pipeline(&sets.iter().map(Vec::as_slice).collect::<Vec<_>>());
    keys.sort_unstable();
    for count in ["1", "10", "1000"] {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let Reply::Array(parts) = client.ask(&["SCAN", &cursor, "COUNT", count]) else { panic!("SCAN is a pair") };
            let [Reply::Value(next), Reply::Array(some)] = &parts[..] else { panic!("{parts:?}") };
            found.extend(some.iter().map(|key| match key {
                Reply::Value(key) => String::from_utf8_lossy(key).into_owned(),
                other => panic!("{other:?}"),
            }));
            cursor = String::from_utf8_lossy(next).into_owned();
            if cursor == "0" {
                break;
            }
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, keys, "COUNT {count}");
    }
}

/// Many requests at once, with few keys; and a plain map that is asked one after the other.
#[test]
fn pipelines_are_as_if_asked_one_by_one() {
    let node = Node::start(2);
    let mut client = node.client();
    let mut model: BTreeMap<String, i64> = BTreeMap::new();
    let mut chance = 7_u64;
    let mut draw = |of: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) % of
    };
    for _ in 0..30 {
        let (mut requests, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..1 + draw(60) {
            let (key, other, value) = (format!("k{}", draw(6)), format!("k{}", draw(6)), draw(1000) as i64);
            let get = |model: &BTreeMap<String, i64>, key: &String| {
                model.get(key).map_or(Reply::Nil, |value| text(&value.to_string()))
            };
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
            let (request, reply) = match draw(20) {
                0..6 => {
                    model.insert(key.clone(), value);
                    (words(&["SET", &key, &value.to_string()]), Reply::Ok)
                }
                6..12 => (words(&["GET", &key]), get(&model, &key)),
                12..15 => {
                    let new = model.entry(key.clone()).or_default();
                    *new += 1;
                    (words(&["INCR", &key]), Reply::Number(*new))
                }
                15 => {
                    let is_there = i64::from(model.remove(&key).is_some());
                    (words(&["DEL", &key]), Reply::Number(is_there))
                }
                16 => {
                    model.insert(key.clone(), value);
                    model.insert(other.clone(), 5);
                    (words(&["MSET", &key, &value.to_string(), &other, "5"]), Reply::Ok)
                }
                17 => (words(&["MGET", &key, &other]), Reply::Array(vec![get(&model, &key), get(&model, &other)])),
                18 => (words(&["EXISTS", &key]), Reply::Number(i64::from(model.contains_key(&key)))),
                _ => {
                    let all = model.len();
                    if draw(4) > 0 {
                        continue;
                    }
                    model.clear();
                    requests.push(words(&["DBSIZE"]));
                    expected.push(Reply::Number(all as i64));
                    (words(&["FLUSHALL"]), Reply::Ok)
                }
            };
            requests.push(request);
            expected.push(reply);
        }
        let words: Vec<Vec<&str>> = requests.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
        let words: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
        let replies = client.pipeline(&words);
        for (at, (reply, expected)) in replies.iter().zip(&expected).enumerate() {
            assert_eq!(reply, expected, "{:?}, the number {at} of {requests:?}", requests[at]);
        }
    }
}
