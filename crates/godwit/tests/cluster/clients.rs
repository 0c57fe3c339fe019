//! What clients of Redis say, and are answered.

use bytes::Bytes;
use values::Reply;

use crate::common::{Client, Cluster, Shape};

#[test]
fn clients_as_they_are() {
    let shape = Shape { buckets: 4, durability: "memory", ..Shape::default() };
    let cluster = Cluster::start("clients", &shape);
    let mut client = Client::connect(&cluster.node(1).any()).expect("node 1 runs");
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
    let moved = cluster.nodes.iter().filter(|node| {
        let reply = Client::connect(&node.cluster()).and_then(|mut client| client.ask(&["GET", "foo"]));
        matches!(reply, Some(Reply::Error(text)) if text.starts_with(b"MOVED 12182 127.0.0.1:"))
    });
    assert_eq!(moved.count(), 2);
}
