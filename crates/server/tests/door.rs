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
        node.make_keyspace("default", 4);
        until("the first write", || (node.client().ask(&["SET", "first", "1"]) == Reply::Ok).then_some(()));
        assert_eq!(node.client().ask(&["FLUSHALL"]), Reply::Ok);
        node
    }

    fn make_keyspace(&self, name: &str, buckets: usize) {
        let body = format!(r#"{{"name":"{name}","replicas":1,"buckets":{buckets}}}"#);
        let request = format!(
            "POST /v1/keyspaces HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        until("the keyspace is there", || self.http(&request)?.starts_with("HTTP/1.1 200").then_some(()));
    }

    fn http(&self, request: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports.http)).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
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

    /// All keys, sorted.
    fn scan(&mut self, count: &str) -> Vec<String> {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let Reply::Array(parts) = self.ask(&["SCAN", &cursor, "COUNT", count]) else { panic!("SCAN is a pair") };
            let [next, Reply::Array(some)] = &parts[..] else { panic!("{parts:?}") };
            found.extend(some.iter().map(said));
            cursor = said(next);
            if cursor == "0" {
                found.sort_unstable();
                found.dedup();
                return found;
            }
        }
    }

    /// Everything that comes until the node hangs up.
    fn rest(mut self) -> String {
        self.stream.shutdown(Shutdown::Write).expect("it is open");
        let mut all = Vec::new();
        self.stream.read_to_end(&mut all).expect("answers");
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// What it says, whatever kind of reply it is.
fn said(reply: &Reply) -> String {
    match reply {
        Reply::Value(text) | Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
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
        assert_eq!(client.scan(count), keys, "COUNT {count}");
    }
}

#[test]
fn a_keyspace_begins_where_it_was_asked_for() {
    let node = Node::start(2);
    node.make_keyspace("more", 3);
    let (switch, back) = (&["CLIENT", "KEYSPACE", "more"][..], &["CLIENT", "KEYSPACE", "default"][..]);
    let mut client = node.client();
    for round in 0..20 {
        let (one, two) = (format!("one-{round}"), format!("two-{round}"));
        let replies = client.pipeline(&[
            &["SET", "a", &one],
            switch,
            &["SET", "a", &two],
            &["GET", "a"],
            back,
            &["GET", "a"],
            &["SET", "a", "x"],
            switch,
            &["GET", "a"],
            back,
            &["MSET", "a", &one, "b", &one],
            switch,
            &["MGET", "a", "b"],
            &["DEL", "a", "b"],
            &["DBSIZE"],
            back,
            &["MGET", "a", "b"],
            &["DBSIZE"],
        ]);
        let (set, number) = (Reply::Ok, Reply::Number);
        let both = Reply::Array(vec![text(&one), text(&one)]);
        let expected = [
            vec![set.clone(), set.clone(), set.clone(), text(&two), set.clone(), text(&one), set.clone()],
            vec![set.clone(), text(&two), set.clone(), set.clone(), set.clone()],
            vec![Reply::Array(vec![text(&two), Reply::Nil]), number(1), number(0), set, both, number(2)],
        ];
        assert_eq!(replies, expected.concat(), "round {round}");
    }
}

#[test]
fn what_concerns_all_slots_concerns_one_keyspace() {
    let node = Node::start(2);
    node.make_keyspace("more", 3);
    let (mut one, mut two) = (node.client(), node.client());
    assert_eq!(two.ask(&["CLIENT", "KEYSPACE", "more"]), Reply::Ok);
    let keys: Vec<String> = (0..20).map(|n| format!("key-{n}")).collect();
    for key in &keys {
        assert_eq!(one.ask(&["SET", key, "1"]), Reply::Ok);
    }
    assert_eq!(two.ask(&["SET", "key-0", "2"]), Reply::Ok);
    assert_eq!(two.ask(&["SET", "only", "2"]), Reply::Ok);
    let mut keys = keys;
    keys.sort_unstable();
    assert_eq!((one.scan("10"), two.scan("10")), (keys.clone(), vec!["key-0".to_owned(), "only".to_owned()]));
    let Reply::Array(found) = two.ask(&["KEYS", "*"]) else { panic!("a list") };
    let mut found: Vec<String> = found.iter().map(said).collect();
    found.sort_unstable();
    assert_eq!(found, ["key-0", "only"]);
    let Reply::Number(only) = one.ask(&["CLUSTER", "KEYSLOT", "only"]) else { panic!("a number") };
    let only = only.to_string();
    for (client, count) in [(&mut one, 0), (&mut two, 1)] {
        assert_eq!(client.ask(&["CLUSTER", "COUNTKEYSINSLOT", &only]), Reply::Number(count));
        let Reply::Array(found) = client.ask(&["CLUSTER", "GETKEYSINSLOT", &only, "9"]) else { panic!("a list") };
        assert_eq!(found.len() as i64, count);
    }
    assert_eq!((one.ask(&["DBSIZE"]), two.ask(&["DBSIZE"])), (Reply::Number(20), Reply::Number(2)));
    assert!(["key-0", "only"].contains(&said(&two.ask(&["RANDOMKEY"])).as_str()));
    assert_eq!(two.ask(&["FLUSHALL"]), Reply::Ok);
    assert_eq!((one.ask(&["DBSIZE"]), two.ask(&["DBSIZE"])), (Reply::Number(20), Reply::Number(0)));
    assert_eq!((one.ask(&["GET", "key-0"]), two.ask(&["RANDOMKEY"])), (text("1"), Reply::Nil));
}

#[test]
fn who_says_nothing_works_in_the_default_keyspace() {
    let node = Node::start(2);
    node.make_keyspace("more", 3);
    let mut client = node.client();
    let keyspace = ["CLIENT", "KEYSPACE"];
    assert_eq!(client.ask(&keyspace), text("default"));
    assert!(said(&client.ask(&["CLIENT", "INFO"])).ends_with(" keyspace=default\n"));
    assert_eq!(client.ask(&["CLIENT", "KEYSPACE", "more"]), Reply::Ok);
    assert_eq!(client.ask(&keyspace), text("more"));
    let info = said(&client.ask(&["CLIENT", "INFO"]));
    assert!(info.contains(" db=0 ") && info.ends_with(" keyspace=more\n"), "{info}");
    // Connections of both lanes, whichever keyspace they are in.
    let mut other = node.client();
    assert_eq!(other.ask(&["CLIENT", "SETNAME", "other"]), Reply::Ok);
    let list = said(&client.ask(&["CLIENT", "LIST"]));
    assert!(list.lines().any(|line| line.contains(" name=other ") && line.ends_with(" keyspace=default")), "{list}");
    assert!(list.lines().any(|line| line.ends_with(" keyspace=more")), "{list}");

    // What is refused changes nothing.
    for name in ["none", "MORE", "", "more more"] {
        let error = said(&client.ask(&["CLIENT", "KEYSPACE", name]));
        let expected =
            format!("ERR no such keyspace '{name}': there are 'default', 'more'. 'godwit keyspace {name}' makes one");
        assert_eq!(error, expected);
    }
    let error = said(&client.ask(&["CLIENT", "KEYSPACE", "more", "default"]));
    assert_eq!(error, "ERR wrong number of arguments for 'client|keyspace' command");
    assert_eq!(client.ask(&keyspace), text("more"));

    assert_eq!(client.ask(&["RESET"]), Reply::Simple(Bytes::from_static(b"RESET")));
    assert_eq!((client.ask(&keyspace), node.client().ask(&keyspace)), (text("default"), text("default")));
    let all = Reply::Array(vec![text("default"), text("more")]);
    assert_eq!(client.ask(&["GODWIT", "LISTDB"]), all);
    let Reply::Array(peers) = client.ask(&["GODWIT", "LISTPEER"]) else { panic!("a list") };
    let of = |name: &str| peers.iter().filter(|row| said(row).starts_with(name)).count();
    assert_eq!((of("default "), of("more ")), (4, 3));
}

/// R12: the answers are remembered where the command was executed.
#[test]
fn a_series_is_another_one_in_another_keyspace() {
    let node = Node::start(1);
    node.make_keyspace("more", 1);
    let mut client = node.client();
    let incr = ["SERIES", "7-99999999999999999", "1", "INCR", "a"];
    assert_eq!(client.ask(&["SET", "a", "10"]), Reply::Ok);
    for _ in 0..2 {
        assert_eq!(client.ask(&["CLIENT", "KEYSPACE", "default"]), Reply::Ok);
        assert_eq!((client.ask(&incr), client.ask(&incr)), (Reply::Number(11), Reply::Number(11)));
        assert_eq!(client.ask(&["CLIENT", "KEYSPACE", "more"]), Reply::Ok);
        assert_eq!((client.ask(&incr), client.ask(&incr)), (Reply::Number(1), Reply::Number(1)));
    }
}

#[test]
fn each_keyspace_is_measured() {
    let node = Node::start(1);
    node.make_keyspace("more", 3);
    let rows =
        [r#"godwit_keyspace_buckets{keyspace="default"} 4"#, r#"godwit_keyspace_buckets_serving{keyspace="more"} 3"#];
    until("all of them serve", || {
        let metrics = node.http("GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        rows.iter().all(|row| metrics.lines().any(|line| line == *row)).then_some(())
    });
}

/// Many requests at once, with few keys, in two keyspaces; and two plain maps that are asked one after the other.
#[test]
fn pipelines_are_as_if_asked_one_by_one() {
    let node = Node::start(2);
    node.make_keyspace("more", 3);
    let mut client = node.client();
    let names = ["default", "more"];
    let mut models: [BTreeMap<String, i64>; 2] = Default::default();
    let mut at = 0;
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
            let model = &mut models[at];
            let (request, reply) = match draw(23) {
                0..6 => {
                    model.insert(key.clone(), value);
                    (words(&["SET", &key, &value.to_string()]), Reply::Ok)
                }
                6..12 => (words(&["GET", &key]), get(model, &key)),
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
                17 => (words(&["MGET", &key, &other]), Reply::Array(vec![get(model, &key), get(model, &other)])),
                18 => (words(&["EXISTS", &key]), Reply::Number(i64::from(model.contains_key(&key)))),
                19..22 => {
                    at = draw(2) as usize;
                    (words(&["CLIENT", "KEYSPACE", names[at]]), Reply::Ok)
                }
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

#[test]
fn transactions_as_redis_has_them() {
    let node = Node::start(1);
    for port in [node.ports.cluster, node.ports.any] {
        let mut client = Client::connect(port);
        let mut is = |words: &[&str], expected: Reply| assert_eq!(client.ask(words), expected, "{words:?}");
        let queued = || Reply::Simple(Bytes::from_static(b"QUEUED"));
        let aborted = || Reply::error("EXECABORT Transaction discarded because of previous errors.");
        is(&["EXEC"], Reply::error("ERR EXEC without MULTI"));
        is(&["DISCARD"], Reply::error("ERR DISCARD without MULTI"));
        is(&["MULTI"], Reply::Ok);
        is(&["MULTI"], Reply::error("ERR MULTI calls can not be nested"));
        is(&["EXEC"], Reply::Array(Vec::new()));

        is(&["DEL", "{t}a", "{t}b"], Reply::Number(0));
        is(&["MULTI"], Reply::Ok);
        is(&["SET", "{t}a", "x"], queued());
        is(&["INCR", "{t}a"], queued());
        is(&["RPUSH", "{t}b", "1", "2"], queued());
        is(&["GET", "{t}a"], queued());
        let failed = Reply::error("ERR value is not an integer or out of range");
        is(&["EXEC"], Reply::Array(vec![Reply::Ok, failed, Reply::Number(2), Reply::text("x")]));
        is(&["LLEN", "{t}b"], Reply::Number(2));

        is(&["MULTI"], Reply::Ok);
        is(&["SET", "{t}a", "y"], queued());
        is(&["DISCARD"], Reply::Ok);
        is(&["GET", "{t}a"], Reply::text("x"));

        for (words, error) in [
            (&["NOSUCH"][..], "ERR unknown command 'NOSUCH', with args beginning with: "),
            (&["GET"], "ERR wrong number of arguments for 'get' command"),
            (&["SET", "{u}a", "1"], "CROSSSLOT Keys in request don't hash to the same slot"),
            (&["MGET", "{t}a", "{u}a"], "CROSSSLOT Keys in request don't hash to the same slot"),
            (&["PING"], "ERR 'ping' cannot be part of a transaction: it is about no key"),
        ] {
            is(&["MULTI"], Reply::Ok);
            is(&["SET", "{t}a", "z"], queued());
            is(words, Reply::error(error));
            is(&["EXEC"], aborted());
            is(&["GET", "{t}a"], Reply::text("x"));
        }
        is(&["MULTI"], Reply::Ok);
        is(&["RESET"], Reply::Simple(Bytes::from_static(b"RESET")));
        is(&["EXEC"], Reply::error("ERR EXEC without MULTI"));
        is(&["DEL", "{t}a", "{t}b"], Reply::Number(2));
    }
}
