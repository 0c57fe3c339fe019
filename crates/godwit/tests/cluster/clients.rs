//! What clients of Redis say, and are answered.

use bytes::Bytes;
use values::Reply;

use crate::common::{Client, Cluster, Shape, text_of};

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

    // And whoever is asked there for all keys means those that it leads; clients add them up.
    for i in 0..30 {
        assert_eq!(client.ask(&["SET", &i.to_string(), "1"]), Some(Reply::Ok));
    }
    let count = |client: &mut Client| match client.ask(&["DBSIZE"]) {
        Some(Reply::Number(count)) => count,
        other => panic!("{other:?}"),
    };
    let mut sum = 0;
    for node in &cluster.nodes {
        let mut one = Client::connect(&node.cluster()).expect("it runs");
        let own = count(&mut one);
        assert!(own > 0 && own < 30, "{own} of 30");
        sum += own;
        let Some(Reply::Array(keys)) = one.ask(&["KEYS", "*"]) else { panic!("keys") };
        assert_eq!(keys.len() as i64, own);
        assert!(matches!(one.ask(&["RANDOMKEY"]), Some(key) if keys.contains(&key)));
        let mut cursor = "0".to_owned();
        let mut scanned = Vec::new();
        loop {
            let Some(Reply::Array(parts)) = one.ask(&["SCAN", &cursor]) else { panic!("a pair") };
            let [next, Reply::Array(some)] = &parts[..] else { panic!("{parts:?}") };
            scanned.extend(some.clone());
            cursor = text_of(next);
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(scanned.len() as i64, own, "{scanned:?}");
    }
    assert_eq!(sum, 30);
    let mut one = Client::connect(&cluster.node(1).cluster()).expect("it runs");
    let own = count(&mut one);
    assert_eq!(one.ask(&["FLUSHALL"]), Some(Reply::Ok));
    assert_eq!((count(&mut one), count(&mut client)), (0, 30 - own));
}

/// A reply that is text.
fn said(client: &mut Client, words: &[&str]) -> String {
    text_of(&client.ask(words).unwrap_or_else(|| panic!("{words:?} is answered")))
}

#[test]
fn what_is_about_connections() {
    let flags = ["--lanes", "2"].map(str::to_owned).to_vec();
    let cluster =
        Cluster::start("connections", &Shape { nodes: 1, replicas: 1, buckets: 4, flags, ..Shape::default() });
    let connect = || Client::connect(&cluster.node(1).any()).expect("it runs");
    let (mut one, mut two) = (connect(), connect());
    assert_eq!(one.ask(&["CLIENT", "GETNAME"]), Some(Reply::Nil));
    assert_eq!(one.ask(&["CLIENT", "SETNAME", "first"]), Some(Reply::Ok));
    assert_eq!(two.ask(&["CLIENT", "SETNAME", "second"]), Some(Reply::Ok));
    assert_eq!(said(&mut one, &["CLIENT", "GETNAME"]), "first");
    assert!(said(&mut one, &["CLIENT", "SETNAME", "a b"]).starts_with("ERR Client names cannot contain spaces"));
    assert_eq!(one.ask(&["CLIENT", "SETINFO", "LIB-NAME", "some"]), Some(Reply::Ok));
    assert_eq!(one.ask(&["CLIENT", "SETINFO", "lib-ver", "1.0"]), Some(Reply::Ok));
    assert!(said(&mut one, &["CLIENT", "SETINFO", "nothing", "1.0"]).starts_with("ERR Unrecognized option"));
    assert_eq!(one.ask(&["CLIENT", "NO-EVICT", "on"]), Some(Reply::Ok));
    assert_eq!(one.ask(&["CLIENT", "NO-TOUCH", "off"]), Some(Reply::Ok));
    assert_eq!(said(&mut one, &["CLIENT", "NO-TOUCH", "maybe"]), "ERR syntax error");
    assert_eq!(one.ask(&["CLIENT", "KEYSPACE", "default"]), Some(Reply::Ok));
    let info = said(&mut one, &["CLIENT", "INFO"]);
    assert!(info.contains("name=first") && info.contains("lib-name=some lib-ver=1.0"), "{info}");

    // Connections of both lanes.
    let list = said(&mut one, &["CLIENT", "LIST"]);
    assert!(list.contains("name=first") && list.contains("name=second"), "{list}");
    assert_eq!(said(&mut one, &["CLIENT", "LIST", "TYPE", "replica"]), "");
    let Some(Reply::Number(id)) = two.ask(&["CLIENT", "ID"]) else { panic!("it has a number") };
    let id = id.to_string();
    let listed = said(&mut one, &["CLIENT", "LIST", "ID", &id]);
    assert!(listed.contains("name=second") && !listed.contains("name=first"), "{listed}");
    assert_eq!(one.ask(&["CLIENT", "KILL", "ID", "999999"]), Some(Reply::Number(0)));
    assert_eq!(said(&mut one, &["CLIENT", "KILL", "127.0.0.1:1"]), "ERR No such client");
    assert_eq!(one.ask(&["CLIENT", "KILL", "ID", &id]), Some(Reply::Number(1)));
    assert_eq!(two.ask(&["PING"]), None, "it was closed");
    let address = one.stream.local_addr().expect("connected").to_string();
    assert_eq!(one.ask(&["CLIENT", "KILL", "ADDR", &address]), Some(Reply::Number(0)), "not itself");
    assert_eq!(one.ask(&["CLIENT", "KILL", &address]), Some(Reply::Ok), "unless it says so; and it is told");
    assert_eq!(one.ask(&["PING"]), None);

    let mut quiet = connect();
    quiet.send(&["CLIENT", "REPLY", "OFF"]).expect("connected");
    quiet.send(&["PING"]).expect("connected");
    assert_eq!(quiet.ask(&["CLIENT", "REPLY", "ON"]), Some(Reply::Ok), "and nothing before it");
    let Some(Reply::Array(_) | Reply::Map(_)) = quiet.ask(&["CONFIG", "GET", "save"]) else { panic!("a setting") };
}

#[test]
fn what_is_about_slots_and_the_node() {
    let cluster = Cluster::start("slots", &Shape { nodes: 2, replicas: 2, buckets: 4, ..Shape::default() });
    let mut client = Client::connect(&cluster.node(1).any()).expect("it runs");
    for i in 0..9 {
        assert_eq!(client.ask(&["SET", &format!("{{tag}}{i}"), "1"]), Some(Reply::Ok));
    }
    let slot = values::slot_of(b"tag").0.to_string();
    assert_eq!(client.ask(&["CLUSTER", "COUNTKEYSINSLOT", &slot]), Some(Reply::Number(9)));
    for (count, found) in [("0", 0), ("4", 4), ("9", 9), ("1000", 9)] {
        let reply = client.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, count]);
        let Some(Reply::Array(keys)) = reply else { panic!("keys: {reply:?}") };
        assert_eq!(keys.len(), found, "of {count}");
        assert!(keys.iter().all(|key| text_of(key).starts_with("{tag}")), "{keys:?}");
    }
    assert_eq!(said(&mut client, &["CLUSTER", "GETKEYSINSLOT", "16384", "1"]), "ERR Invalid slot or number of keys");
    assert_eq!(said(&mut client, &["CLUSTER", "GETKEYSINSLOT", "1", "-1"]), "ERR Invalid slot or number of keys");
    assert_eq!(said(&mut client, &["CLUSTER", "COUNTKEYSINSLOT", "16384"]), "ERR Invalid slot");
    assert!(said(&mut client, &["CLUSTER", "COUNTKEYSINSLOT", "x"]).contains("not an integer"));

    let Some(Reply::Number(epoch)) = client.ask(&["GODWIT", "EPOCH"]) else { panic!("a number") };
    assert!(epoch > 0);
    assert_eq!(client.ask(&["GODWIT", "LISTDB"]), Some(Reply::Array(vec![Reply::text("default")])));
    let Some(Reply::Array(rows)) = client.ask(&["GODWIT", "LISTPEER"]) else { panic!("rows") };
    assert_eq!(rows.iter().filter(|row| text_of(row).starts_with("default 127.0.0.1:")).count(), 4, "{rows:?}");
    let (id, own) = (said(&mut client, &["GODWIT", "MYID"]), said(&mut client, &["CLUSTER", "MYID"]));
    assert_eq!((id.len(), &id), (40, &own));
    let Some(Reply::Array(_)) = client.ask(&["GODWIT", "WHY"]) else { panic!("what it waits for") };
    let Some(Reply::Array(help)) = client.ask(&["GODWIT", "HELP"]) else { panic!("lines") };
    assert!(help.len() > 10, "{help:?}");

    // READONLY is understood; whoever follows redirects all the same, as nobody said that old data will do.
    let follower = cluster.nodes.iter().find_map(|node| {
        let mut client = Client::connect(&node.cluster())?;
        said(&mut client, &["GET", "{tag}1"]).starts_with("MOVED").then_some(client)
    });
    let mut follower = follower.expect("one of two follows");
    assert_eq!(follower.ask(&["READONLY"]), Some(Reply::Ok));
    assert!(said(&mut follower, &["GET", "{tag}1"]).starts_with("MOVED"));
    assert_eq!(follower.ask(&["READWRITE"]), Some(Reply::Ok));
}
