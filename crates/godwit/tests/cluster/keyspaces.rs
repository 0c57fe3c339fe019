//! Two keyspaces in one cluster: the same keys twice, with copies and levels of their own.

use std::collections::BTreeMap;

use rustix::process::Signal;
use values::Reply;

use crate::common::{Client, Cluster, Node, Shape, text_of, until};

const KEYSPACES: [&str; 2] = ["default", "more"];
const KEYS: usize = 60;

/// Any key, of any slot.
fn keys() -> impl Iterator<Item = String> {
    (0..KEYS).map(|n| format!("key:{n}"))
}

fn connect(address: &str, keyspace: &str) -> Client {
    let mut client = Client::connect(address).expect("it runs");
    assert_eq!(client.ask(&["CLIENT", "KEYSPACE", keyspace]), Some(Reply::Ok));
    client
}

/// Until it is answered without an error.
fn insist(cluster: &Cluster, client: &mut Client, words: &[&str]) -> Reply {
    let answer = || client.ask(words).filter(|reply| !reply.is_error());
    until(&format!("{words:?} is answered"), answer, || cluster.describe())
}

/// Each keyspace has values of its own.
fn value(keyspace: &str, key: &str, round: usize) -> String {
    format!("{keyspace} {key} {round}")
}

fn write_all(cluster: &Cluster, keyspace: &str, round: usize) {
    let mut clients: Vec<Client> = cluster.nodes.iter().map(|node| connect(&node.any(), keyspace)).collect();
    for (at, key) in keys().enumerate() {
        let client = &mut clients[at % cluster.nodes.len()];
        assert_eq!(insist(cluster, client, &["SET", &key, &value(keyspace, &key, round)]), Reply::Ok);
    }
}

/// Through every node.
fn read_all(cluster: &Cluster, keyspace: &str, round: usize) {
    for node in &cluster.nodes {
        let mut client = connect(&node.any(), keyspace);
        for key in keys() {
            let found = text_of(&insist(cluster, &mut client, &["GET", &key]));
            assert_eq!(found, value(keyspace, &key, round), "through node {}", node.number);
        }
        assert_eq!(insist(cluster, &mut client, &["DBSIZE"]), Reply::Number(KEYS as i64));
    }
}

fn scan(cluster: &Cluster, client: &mut Client) -> Vec<String> {
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let Reply::Array(parts) = insist(cluster, client, &["SCAN", &cursor, "COUNT", "100"]) else { panic!("a pair") };
        let [next, Reply::Array(some)] = &parts[..] else { panic!("{parts:?}") };
        found.extend(some.iter().map(text_of));
        cursor = text_of(next);
        if cursor == "0" {
            found.sort_unstable();
            found.dedup();
            return found;
        }
    }
}

/// Who leads each key, as the cluster ports say: one has it, and the others send there. `CLUSTER SLOTS` says the same.
fn leaders(cluster: &Cluster, keyspace: &str) -> BTreeMap<String, String> {
    let mut clients: Vec<(String, Client)> =
        cluster.nodes.iter().map(|node| (node.cluster(), connect(&node.cluster(), keyspace))).collect();
    let mut leader = |key: &str| {
        let mut said = BTreeMap::new();
        for (address, client) in &mut clients {
            said.insert(address.clone(), text_of(&client.ask(&["GET", key])?));
        }
        let (here, moved): (Vec<_>, Vec<_>) = said.iter().partition(|(_, reply)| reply.starts_with(keyspace));
        let [(leader, _)] = here[..] else { return None };
        let is_sent_there = |reply: &str| reply.starts_with("MOVED ") && reply.ends_with(leader);
        let all_agree = moved.iter().all(|(_, reply)| is_sent_there(reply));
        (all_agree && leader_by_slots(&mut clients[0].1, key) == *leader).then(|| leader.clone())
    };
    // On a busy machine one may have been replaced a moment ago.
    let mut agreed = |key: &str| until("all agree who leads it", || leader(key), || cluster.describe());
    keys().map(|key| (key.clone(), agreed(&key))).collect()
}

fn leader_by_slots(client: &mut Client, key: &str) -> String {
    let Some(Reply::Number(slot)) = client.ask(&["CLUSTER", "KEYSLOT", key]) else { panic!("a number") };
    let Some(Reply::Array(rows)) = client.ask(&["CLUSTER", "SLOTS"]) else { panic!("a list") };
    let address = |row: &Reply| {
        let Reply::Array(row) = row else { panic!("a row") };
        let [Reply::Number(first), Reply::Number(last), Reply::Array(primary), ..] = &row[..] else {
            panic!("{row:?}")
        };
        let Reply::Number(port) = primary[1] else { panic!("{row:?}") };
        (*first..=*last).contains(&slot).then(|| format!("{}:{port}", text_of(&primary[0])))
    };
    rows.iter().find_map(address).expect("all slots are somewhere")
}

#[test]
fn two_keyspaces_are_two_stores() {
    let mut cluster = Cluster::start("keyspaces", &Shape::default());
    let more = ["keyspace", "more", "--replicas", "1", "--buckets", "5", "--durability", "memory"];
    let made = cluster.succeed(&more);
    assert!(made.contains("keyspace more: 5 buckets, 1 copy of each, level memory"), "{made}");
    assert!(made.contains("CLIENT KEYSPACE more"), "{made}");
    cluster.until_well();
    let status = cluster.succeed(&["status"]);
    for row in [
        "keyspace default: 8 of 8 buckets serve, 3 copies, level disk",
        "keyspace more: 5 of 5 buckets serve, 1 copy, level memory",
    ] {
        assert!(status.contains(row), "{status}");
    }
    let again = cluster.godwit(&more);
    assert_ne!(again.status.code(), Some(0), "there is one of that name");

    for keyspace in KEYSPACES {
        write_all(&cluster, keyspace, 0);
    }
    for keyspace in KEYSPACES {
        read_all(&cluster, keyspace, 0);
    }
    let (in_default, in_more) = (leaders(&cluster, "default"), leaders(&cluster, "more"));
    let is_apart = |key: &String| in_default[key] != in_more[key];
    assert!(in_more.keys().any(is_apart), "no slot is led by different nodes: {in_default:?} {in_more:?}");

    flush_one(&cluster);
    die_and_return(&mut cluster, &in_more);

    // All of them at once.
    cluster.nodes.iter().for_each(|node| node.signal(Signal::KILL));
    for node in 1..=3 {
        cluster.wait_for_end(node);
        cluster.start_node(node);
    }
    (1..=3).for_each(|node| cluster.until_up(node));
    cluster.until_well();
    read_all(&cluster, "default", 2);
    read_all(&cluster, "more", 1);
    assert_eq!(leaders(&cluster, "more"), in_more, "nobody else has a copy");
    leaders(&cluster, "default");
}

/// `FLUSHALL` in one leaves the other alone, through either door.
fn flush_one(cluster: &Cluster) {
    let (mut one, mut two) = (connect(&cluster.node(1).any(), "default"), connect(&cluster.node(2).any(), "more"));
    assert_eq!(insist(cluster, &mut two, &["SET", "only", "here"]), Reply::Ok);
    let mut all: Vec<String> = keys().collect();
    all.sort_unstable();
    assert_eq!(scan(cluster, &mut one), all);
    all.push("only".into());
    assert_eq!(scan(cluster, &mut two), all);

    // Clients of Redis Cluster ask every node.
    let of_all = |keyspace: &str, words: &[&str]| -> Vec<Reply> {
        cluster.nodes.iter().map(|node| insist(cluster, &mut connect(&node.cluster(), keyspace), words)).collect()
    };
    let sum = |replies: &[Reply]| -> i64 {
        replies.iter().map(|reply| if let Reply::Number(count) = reply { *count } else { panic!("{reply:?}") }).sum()
    };
    assert_eq!(sum(&of_all("default", &["DBSIZE"])), KEYS as i64);
    assert_eq!(sum(&of_all("more", &["DBSIZE"])), KEYS as i64 + 1);
    assert_eq!(of_all("more", &["FLUSHALL"]), [Reply::Ok, Reply::Ok, Reply::Ok]);
    assert_eq!((sum(&of_all("more", &["DBSIZE"])), scan(cluster, &mut two)), (0, vec![]));
    read_all(cluster, "default", 0);

    write_all(cluster, "more", 1);
    assert_eq!(insist(cluster, &mut one, &["FLUSHALL"]), Reply::Ok);
    assert_eq!(insist(cluster, &mut one, &["DBSIZE"]), Reply::Number(0));
    read_all(cluster, "more", 1);
    write_all(cluster, "default", 1);
    read_all(cluster, "default", 1);
}

/// A node is killed. Where there are more copies nobody misses it; where there is one, its keys are away until it is back, and so long
/// nobody gets those of the other keyspace instead.
fn die_and_return(cluster: &mut Cluster, in_more: &BTreeMap<String, String>) {
    let dead = cluster.node(2).cluster();
    cluster.kill(2);
    let alive: Vec<&Node> = cluster.nodes.iter().filter(|node| node.runs()).collect();
    for node in &alive {
        let (mut one, mut two) = (connect(&node.any(), "default"), connect(&node.any(), "more"));
        for key in keys() {
            assert_eq!(text_of(&insist(cluster, &mut one, &["GET", &key])), value("default", &key, 1));
            if in_more[&key] != dead {
                assert_eq!(text_of(&insist(cluster, &mut two, &["GET", &key])), value("more", &key, 1));
            }
        }
        // One is enough: whoever asks waits for a while.
        for key in in_more.iter().filter(|(_, leader)| **leader == dead).map(|(key, _)| key).take(1) {
            let reply = two.ask(&["GET", key]).map(|reply| text_of(&reply)).unwrap_or_default();
            assert!(reply.starts_with("TRYAGAIN "), "{key}: {reply}");
        }
    }
    let mut one = connect(&alive[0].any(), "default");
    for key in keys() {
        assert_eq!(insist(cluster, &mut one, &["SET", &key, &value("default", &key, 2)]), Reply::Ok);
    }
    cluster.start_node(2);
    cluster.until_up(2);
    cluster.until_well();
    read_all(cluster, "default", 2);
    read_all(cluster, "more", 1);
}
