//! Nodes that die, stand still or leave while clients write.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use server::Status;
use values::Reply;

use crate::common::{Client, Cluster, Load, Manner, Node, Shape, ask, text_of, until};

fn leads_nothing(node: &Node) -> impl Fn(&Status) -> bool {
    let name = node.name();
    move |status| status.buckets.iter().all(|bucket| bucket.serving && bucket.primary != name)
}

/// A key in a slot that this node leads.
fn key_of(cluster: &Cluster, node: &Node) -> String {
    let mut client = Client::connect(&node.cluster()).expect("it runs");
    let mut keys = (0..).map(|i| format!("key:{i}"));
    let led = || keys.next().filter(|key| client.ask(&["SET", key, "old"]) == Some(Reply::Ok));
    until("it leads something", led, || cluster.describe())
}

/// What happens: 1. a node that leads a bucket stands still for longer than all leases; 2. the others replace it, and go on; 3. somebody has asked it
/// meanwhile, and the question lies in its socket; 4. it goes on, and its tables are as they were: it must not answer from them.
#[test]
fn a_node_that_stood_still_does_not_answer_from_the_past() {
    let cluster = Cluster::start("pause", &Shape::default());
    let paused = cluster.node(2);
    let keys: Vec<String> = (0..3).map(|_| key_of(&cluster, paused)).collect();
    let doors = [paused.cluster(), paused.any()];
    let load = Load::start(&cluster, Manner::Any);
    load.flow(100, &cluster);

    let mut clients: Vec<Client> = doors.iter().map(|door| Client::connect(door).expect("it runs")).collect();
    paused.signal(Signal::STOP);
    let replaced = leads_nothing(paused);
    until("others lead everything", || cluster.node(1).status().filter(&replaced), || "they do not".into());
    for key in &keys {
        let mut other = Client::connect(&cluster.node(3).any()).expect("it runs");
        let set = || (other.ask(&["SET", key, "new"])? == Reply::Ok).then_some(());
        until("others take writes", set, || cluster.describe());
        clients.iter_mut().for_each(|client| client.send(&["GET", key]).expect("its socket still takes something"));
    }
    load.flow(100, &cluster);
    paused.signal(Signal::CONT);
    for client in &mut clients {
        for key in &keys {
            let reply = client.receive();
            assert_ne!(reply, Some(Reply::text("old")), "{key} is \"new\" since before it went on");
        }
    }
    load.flow(100, &cluster);
    cluster.until_well();
    load.end();
}

/// How long a hop may stay unanswered as long as its link is there.
const HOP_PATIENCE: Duration = Duration::from_millis(2500);

/// The link ends with the node that it led to, and what hopped there is answered: nobody waits until patience runs out.
#[test]
fn who_hopped_to_a_node_that_dies_is_told_at_once() {
    let mut cluster = Cluster::start("hop", &Shape::default());
    let key = key_of(&cluster, cluster.node(2));
    let connect = || Client::connect(&cluster.node(1).any()).expect("it runs");
    let (mut writer, mut reader, mut other) = (connect(), connect(), connect());
    // It takes what hops to it, and answers nothing.
    cluster.node(2).signal(Signal::STOP);
    let asked = Instant::now();
    writer.send(&["SET", &key, "new"]).expect("it listens");
    reader.send(&["GET", &key]).expect("it listens");
    for _ in 0..2 {
        // Who is answered came after those, so they have hopped.
        assert_eq!(other.ask(&["PING"]).map(|pong| text_of(&pong)).as_deref(), Some("PONG"));
    }
    cluster.kill(2);
    let written = text_of(&writer.receive().expect("an answer"));
    let waited = asked.elapsed();
    assert!(written.starts_with("UNCERTAIN"), "R12: it may have happened: {written}");
    assert!(waited < HOP_PATIENCE, "after {waited:?}");
    // A read is asked again until somebody leads, or the door's own patience ends.
    let read = text_of(&reader.receive().expect("an answer"));
    assert!(read == "old" || read.starts_with("TRYAGAIN"), "{read}");
    assert_eq!(text_of(&ask(&cluster, &["GET", &key])), "old", "it lay in the socket of a dead process");
}

/// It hands over first: nobody who follows `MOVED` has anything to repeat.
#[test]
fn a_node_that_is_asked_to_stop_leaves_without_a_failed_write() {
    let mut cluster = Cluster::start("leave", &Shape::default());
    let load = Load::start(&cluster, Manner::Cluster);
    load.flow(200, &cluster);
    cluster.node(2).signal(Signal::TERM);
    let ended = cluster.wait_for_end(2);
    load.flow(200, &cluster);
    let log = cluster.node(2).log();
    assert_eq!(ended.code(), Some(0), "{log}");
    assert!(log.contains("buckets to hand over"), "{log}");
    assert!(log.contains("everything is handed over"), "{log}");

    cluster.start_node(2);
    cluster.until_up(2);
    cluster.until_well();
    load.flow(200, &cluster);
    let report = load.end();
    for (command, outcomes) in &report.operations {
        assert_eq!((outcomes.uncertain, outcomes.refused), (0, 0), "{command}: {:?}", report.errors);
    }
}

#[test]
fn all_killed_at_once_with_level_disk() {
    all_killed_at_once("disk");
}

/// What was handed to the operating system survives the death of processes.
#[test]
fn all_killed_at_once_with_level_memory() {
    all_killed_at_once("memory");
}

fn all_killed_at_once(durability: &'static str) {
    let mut cluster = Cluster::start("all", &Shape { durability, ..Shape::default() });
    let load = Load::start(&cluster, Manner::Any);
    for order in [[3, 1, 2], [2, 3, 1]] {
        load.flow(300, &cluster);
        cluster.nodes.iter().for_each(|node| node.signal(Signal::KILL));
        for node in order {
            cluster.wait_for_end(node);
        }
        for node in order {
            cluster.start_node(node);
        }
        (1..=3).for_each(|node| cluster.until_up(node));
        cluster.until_well();
    }
    load.flow(100, &cluster);
    load.end();
    assert!(text_of(&ask(&cluster, &["PING"])).contains("PONG"));
}
