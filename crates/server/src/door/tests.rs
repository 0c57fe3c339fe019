//! One lane with its door and without a desk: it follows whatever blueprint the test says.

use std::sync::Arc;
use std::time::Duration;

use blueprint::{Blueprint, Command as Proposal, Durability, Honest, KeyspaceId, Kind, LaneId, NodeId};
use bytes::{Bytes, BytesMut};
use journal::{Journal, Options};
use node::{Config, Door, Input, Lane, LaneDurable, Life, Mail, Station};
use resp::Replies;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;
use values::Reply;

use super::House;
use crate::addresses::Addresses;
use crate::clock;
use crate::lane::{Driver, Parts};
use crate::post::{Letter, Post};

const ME: NodeId = NodeId(1);
/// Generous: this machine may be doing anything else.
const PATIENCE: Duration = Duration::from_secs(60);

struct Alone {
    post: Post,
    _data: TempDir,
}

impl Alone {
    fn start() -> Self {
        let data = TempDir::new().expect("a temporary directory");
        let options = Options { segment_bytes: 4 << 20, ..Options::new("this boot") };
        let (journal, _) = Journal::open(data.path(), options, &mut |_| {}).expect("an empty directory");
        let (journal, (post, letters, _desk)) = (Arc::new(journal), Post::new(1));
        let written = post.clone();
        let stored = written.clone();
        journal.start(
            move |lane, upto| written.input(Station::Lane(lane), Input::Written { upto }),
            move |lane, id, bucket, tables| {
                stored.input(Station::Lane(lane), Input::Stored { id, bucket, tables });
            },
        );
        let (mut said, life) = (Vec::new(), Life { number: 1, seed: 7, wall: 0 });
        let (durable, lane) = (LaneDurable::default(), LaneId::ONLY);
        let lane: Lane<Honest> = Lane::recover(ME, lane, Config::default(), durable, life, clock::now(), &mut said);
        let house = Arc::new(House::new(ME, "alone".into(), Addresses::default(), 10));
        let (number, cluster, given) = (0, 1, post.clone());
        let tick = Duration::from_millis(100);
        let parts = Parts { number, me: ME, cluster, lane, tick, said, journal, post: given, house };
        let letters = letters.into_iter().next().expect("one lane");
        spawn_local(Driver::live(parts, letters));
        Self { post, _data: data }
    }

    fn follow(&self, blueprint: &Blueprint) {
        let mail = Mail::Blueprint(Arc::new(blueprint.clone()));
        self.post.input(Station::Lane(0), Input::Mail { from: Station::Desk, mail });
    }

    async fn connect(&self, door: Door) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (accepted, _) = listener.accept().await.expect("just dialled");
        self.post.lane(0, Letter::Client { stream: accepted.into_std().expect("a socket"), door });
        Client { stream, buffer: BytesMut::new(), replies: Replies::new() }
    }
}

struct Client {
    stream: TcpStream,
    buffer: BytesMut,
    replies: Replies,
}

impl Client {
    async fn ask(&mut self, words: &str) -> Reply {
        let words: Vec<Bytes> = words.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        let mut bytes = BytesMut::new();
        resp::encode_request(&words, &mut bytes);
        self.stream.write_all(&bytes).await.expect("the lane reads");
        loop {
            if let Some(reply) = self.replies.next(&mut self.buffer).expect("a server that speaks RESP") {
                return reply;
            }
            assert!(self.stream.read_buf(&mut self.buffer).await.expect("an answer") > 0, "the lane hung up");
        }
    }

    async fn text(&mut self, words: &str) -> String {
        match self.ask(words).await {
            Reply::Value(text) | Reply::Verbatim(text) | Reply::Error(text) => {
                String::from_utf8_lossy(&text).into_owned()
            }
            other => format!("{other:?}"),
        }
    }

    async fn until(&mut self, words: &str, is: impl Fn(&Reply) -> bool) {
        let begun = std::time::Instant::now();
        loop {
            let reply = self.ask(words).await;
            if is(&reply) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{words}: {reply:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

fn blueprint() -> Blueprint {
    let mut blueprint = Blueprint::new();
    let join = Proposal::AddNode { id: ME, name: "alone".into(), zone: String::new(), addresses: Vec::new() };
    blueprint.apply(&join).expect("a first node");
    blueprint
}

fn create(blueprint: &mut Blueprint, name: &str, buckets: usize) -> KeyspaceId {
    let create = Proposal::CreateKeyspace {
        name: name.into(),
        kind: Kind::Store,
        replicas: 1,
        min_in_sync: None,
        durability: Durability::Memory,
        placement: vec![vec![ME]; buckets],
    };
    blueprint.apply(&create).expect("there is room");
    blueprint.keyspace_named(name).expect("just made").id
}

fn run(test: impl AsyncFnOnce(Alone)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("one thread");
    LocalSet::new().block_on(&runtime, async { test(Alone::start()).await });
}

/// Everything that looks at keys says so, through both doors, and nothing else is disturbed.
#[test]
fn who_works_in_a_keyspace_that_is_removed_is_told_so() {
    run(async |alone| {
        let mut blueprint = blueprint();
        create(&mut blueprint, "default", 3);
        let more = create(&mut blueprint, "more", 2);
        alone.follow(&blueprint);
        for door in [Door::Any, Door::Cluster] {
            let mut client = alone.connect(door).await;
            client.until("SET a 1", |reply| *reply == Reply::Ok).await;
            client.until("CLIENT KEYSPACE more", |reply| *reply == Reply::Ok).await;
            assert_eq!(client.ask("SET a 2").await, Reply::Ok);
        }
        let (mut any, mut cluster) = (alone.connect(Door::Any).await, alone.connect(Door::Cluster).await);
        for client in [&mut any, &mut cluster] {
            assert_eq!(client.ask("CLIENT KEYSPACE more").await, Reply::Ok);
            assert_eq!(client.text("GET a").await, "2");
        }
        blueprint.apply(&Proposal::RemoveKeyspace { keyspace: more }).expect("it is there");
        alone.follow(&blueprint);
        let is_gone = |text: &str| text.starts_with("NOKEYSPACE ") && text.contains(": there is 'default'.");
        any.until("GET a", |reply| matches!(reply, Reply::Error(text) if is_gone(&String::from_utf8_lossy(text))))
            .await;
        for client in [&mut any, &mut cluster] {
            for words in [
                "GET a",
                "SET a 3",
                "INCR a",
                "SERIES 1-99999999999999999 1 SET a 3",
                "DBSIZE",
                "KEYS *",
                "SCAN 0",
                "RANDOMKEY",
                "FLUSHALL",
                "FLUSHDB",
                "WAIT 0 0",
                "CLUSTER SLOTS",
                "CLUSTER SHARDS",
                "CLUSTER NODES",
                "CLUSTER INFO",
                "CLUSTER COUNTKEYSINSLOT 15495",
                "CLUSTER GETKEYSINSLOT 15495 10",
                "CLIENT KEYSPACE",
            ] {
                let said = client.text(words).await;
                assert!(is_gone(&said), "{words}: {said}");
            }
            assert_eq!(client.ask("PING").await, Reply::Simple(Bytes::from_static(b"PONG")));
            assert!(client.text("CLIENT INFO").await.ends_with(" keyspace=\n"));
            assert!(
                client
                    .text("CLIENT KEYSPACE more")
                    .await
                    .starts_with("ERR no such keyspace 'more': there is 'default'")
            );
        }
        for words in ["MGET a b", "MSET a 3 b 3", "DEL a b"] {
            assert!(is_gone(&any.text(words).await), "{words}");
        }
        assert_eq!(any.ask("CLIENT KEYSPACE default").await, Reply::Ok);
        assert_eq!((any.text("GET a").await, any.ask("DBSIZE").await), ("1".into(), Reply::Number(1)));

        // One of the same name is another one: only who asks for it comes there.
        create(&mut blueprint, "more", 2);
        alone.follow(&blueprint);
        any.until("CLIENT KEYSPACE more", |reply| *reply == Reply::Ok).await;
        any.until("GET a", |reply| *reply == Reply::Nil).await;
        assert!(cluster.text("GET a").await.starts_with("NOKEYSPACE "));
        assert_eq!(cluster.ask("RESET").await, Reply::Simple(Bytes::from_static(b"RESET")));
        assert_eq!(cluster.text("GET a").await, "1");
    });
}

/// A connection that says nothing works in `default`, whichever number that has, and also if it is made later.
#[test]
fn who_is_there_before_the_default_keyspace_works_in_it() {
    run(async |alone| {
        let mut blueprint = blueprint();
        create(&mut blueprint, "first", 2);
        alone.follow(&blueprint);
        let mut client = alone.connect(Door::Any).await;
        client.until("CLIENT KEYSPACE first", |reply| *reply == Reply::Ok).await;
        assert_eq!(client.ask("SET a first").await, Reply::Ok);
        assert_eq!(client.ask("CLIENT KEYSPACE default").await, Reply::Ok);
        for words in ["GET a", "DBSIZE"] {
            let said = client.text(words).await;
            assert!(said.starts_with("TRYAGAIN there is no keyspace 'default'"), "{words}: {said}");
            assert!(said.contains("there is 'first'") && said.contains("'godwit keyspace default'"), "{said}");
        }
        assert_eq!(client.text("CLUSTER INFO").await.lines().next(), Some("cluster_state:fail"));
        create(&mut blueprint, "default", 3);
        alone.follow(&blueprint);
        client.until("GET a", |reply| *reply == Reply::Nil).await;
        assert_eq!(client.ask("SET a default").await, Reply::Ok);
        assert_eq!(client.ask("CLIENT KEYSPACE first").await, Reply::Ok);
        assert_eq!(client.text("GET a").await, "first");
    });
}
