//! Nodes that are asked to end before anybody is let in.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use rustix::process::Signal;
use values::Reply;

use crate::common::{Client, Cluster, Node, PATIENCE, Shape, ask, http, text_of, until};
use crate::garbage::{DESK, Hello, LANE, PROTOCOL};

/// How often this node has let clients in.
fn openings(node: &Node) -> usize {
    node.log().lines().filter(|line| line.contains(" serves: ")).count()
}

/// What a peer is answered that says this, until it is hung up on or `most` bytes were said.
fn greeted(node: &Node, hello: &[u8], most: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(node.address(300)).expect("peers are let in first");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.write_all(hello).expect("it listens");
    let mut answer = vec![0; most];
    let mut said = 0;
    while said < most {
        match stream.read(&mut answer[said..]).expect("answered or hung up on") {
            0 => break,
            read => said += read,
        }
    }
    answer.truncate(said);
    answer
}

/// It has its data, and looks for the others: nothing of it runs yet. 1. Whoever dials one of its lanes is not answered, and does not take
/// it for there. 2. Asked to end, it ends, as if it had never been started.
#[test]
fn a_node_that_looks_for_its_cluster_ends_when_asked() {
    let mut cluster = Cluster::start("early", &Shape::default());
    assert_eq!(ask(&cluster, &["SET", "k", "v"]), Reply::Ok);
    let id = cluster.node(2).status().expect("all is well");
    let (number, of): (u64, _) = (id.node[1..].parse().expect("a number"), u128::from_str_radix(&id.cluster, 16));
    cluster.kill(2);

    // Somebody who takes calls and says nothing: each is waited for.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    silent.set_nonblocking(true).expect("a socket");
    let address = silent.local_addr().expect("bound").to_string();
    let start: Vec<String> = (0..60).flat_map(|_| ["--join".to_owned(), address.clone()]).collect();
    cluster.start_node_so(2, &start);
    let dialled = || silent.accept().ok();
    let _held = until("it looks for its cluster", dialled, || cluster.node(2).log());

    let hello = Hello { protocol: PROTOCOL, cluster: of.expect("a number"), from: number ^ 1, to: number };
    assert_ne!(greeted(cluster.node(2), &hello.bytes(DESK), 1), b"", "its desk is there");
    assert_eq!(greeted(cluster.node(2), &hello.bytes(LANE), 1), b"", "its lanes are not");
    assert!(TcpStream::connect(cluster.node(2).any()).is_err(), "and no client is let in");

    let before = openings(cluster.node(2));
    cluster.node(2).signal(Signal::TERM);
    let ended = cluster.wait_for_end(2);
    let log = cluster.node(2).log();
    assert_eq!(ended.code(), Some(0), "{log}");
    assert!(log.contains("asked to end before it had started") && openings(cluster.node(2)) == before, "{log}");

    cluster.start_node(2);
    cluster.until_up(2);
    cluster.until_well();
    assert_eq!(text_of(&ask(&cluster, &["GET", "k"])), "v");
}

/// It runs, and others count on it; but it lets nobody in, as somebody who leads something cannot be reached. It hands over all the same.
#[test]
fn a_node_that_runs_and_lets_nobody_in_hands_over() {
    let (mut cluster, leader, late) = (Cluster::start("late", &Shape { nodes: 5, ..Shape::default() }), 5, 4);
    for key in 0..50 {
        assert_eq!(ask(&cluster, &["SET", &format!("key:{key}"), "v"]), Reply::Ok);
    }
    // The doors open after three seconds whatever happens: on a busy machine that may be before anybody could ask it to end.
    let attempts = (0..5).any(|_| {
        let before = openings(cluster.node(late));
        cluster.node(leader).signal(Signal::STOP);
        cluster.kill(late);
        cluster.start_node(late);
        let node = cluster.node(late);
        let runs = || http(&node.address(200), "GET", "/healthz", "").filter(|(code, _)| *code == 200);
        until("it runs", runs, || node.log());
        node.signal(Signal::TERM);
        let ended = cluster.wait_for_end(late);
        cluster.node(leader).signal(Signal::CONT);
        let log = cluster.node(late).log();
        assert_eq!(ended.code(), Some(0), "{log}");
        assert!(log.trim_end().ends_with("everything is handed over"), "{log}");
        let in_time = openings(cluster.node(late)) == before;
        cluster.start_node(late);
        cluster.until_up(late);
        cluster.until_well();
        in_time
    });
    assert!(attempts, "its doors were open each time: {}", cluster.node(late).log());
    let mut client = Client::connect(&cluster.node(late).any()).expect("it lets clients in");
    for key in 0..50 {
        assert_eq!(client.ask(&["GET", &format!("key:{key}")]), Some(Reply::text("v")));
    }
}

/// A node without a vote is restarted, and the only one that it was told of does not lead the meta group: it finds the one that does by
/// the blueprint that it is sent.
#[test]
fn a_restarted_node_finds_a_leader_that_it_was_not_told_of() {
    let mut cluster = Cluster::start("elsewhere", &Shape { nodes: 4, ..Shape::default() });
    let meta = |cluster: &Cluster| cluster.status().map(|status| status.meta);
    let voters = || meta(&cluster).map(|meta| meta.voters).filter(|voters| voters.len() == 3);
    let voters = until("there are three voters", voters, || cluster.describe());
    assert!(voters.contains(&"node-1".to_owned()), "the first one has a vote: {voters:?}");
    cluster.kill(1);
    let elsewhere = || {
        let status = cluster.nodes.iter().filter(|node| node.number != 1).find_map(|node| node.status())?;
        status.meta.leader.filter(|leader| leader != "node-1")
    };
    until("another one leads the meta group", elsewhere, || cluster.describe());
    cluster.start_node(1);
    cluster.until_well();
    let voteless =
        cluster.nodes.iter().find(|node| !voters.contains(&node.name())).expect("four nodes, three voters").number;
    cluster.kill(voteless);
    cluster.start_node(voteless);
    cluster.until_up(voteless);
    cluster.until_well();
}
