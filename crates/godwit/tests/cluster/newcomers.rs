//! What a newcomer is likely to meet: each message says what happened and what to do about it.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Cluster, PATIENCE, Ports, Shape, text};

/// Starts a node that is not to come up.
fn fails(arguments: &[&str], words: &[&str]) {
    let mut command = Command::new("timeout");
    command.args([PATIENCE.as_secs().to_string().as_str(), env!("CARGO_BIN_EXE_godwit"), "serve"]).args(arguments);
    let output: Output = command.output().expect("the binary was just built");
    let said = text(&output);
    assert!(!matches!(output.status.code(), Some(0 | 124)), "it came up: {arguments:?}: {said}");
    assert!(output.status.code().is_some(), "it was not killed: {arguments:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{arguments:?}: no \"{word}\" in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

fn at(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_node_that_cannot_start_says_why_and_what_to_do() {
    let one = Cluster::start("one", &Shape { nodes: 1, replicas: 1, buckets: 2, ..Shape::default() });
    let mut other = Cluster::start("other", &Shape { nodes: 1, replicas: 1, buckets: 2, ..Shape::default() });
    let ports = Ports::take();
    let port = (ports.base + 1).to_string();
    let new = one.dir.join("new");
    let (new, peers) = (at(&new), one.node(1).address(300));

    let taken = one.node(1).port.to_string();
    fails(&["--init", "--data", new, "--port", &taken], &["is taken", "another program listens there", "--port"]);
    fails(
        &["--init", "--data", at(&one.node(1).data), "--port", &port],
        &["is in use by another godwit", "Stop the other one", "--data"],
    );
    fails(&["--data", new, "--port", &port], &["belongs to no cluster yet", "--init or --join"]);
    fails(
        &["--init", "--data", new, "--port", &port, "--listen", "192.0.2.1"],
        &["cannot listen on 192.0.2.1", "--listen"],
    );

    // They are patient with whoever may still be starting: all at the same time.
    let nobody = format!("127.0.0.1:{}", ports.base + 309);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = listener.local_addr().expect("bound").to_string();
    let not_peers = "probably not a peer port of Godwit";
    let wrong = [
        (nobody, "refused"),
        ("nonsense".to_owned(), "is no address (host:port)"),
        (one.node(1).address(0), not_peers),
        (one.node(1).address(100), not_peers),
        (one.node(1).address(200), not_peers),
        (silent, "does not answer"),
    ];
    std::thread::scope(|scope| {
        for ((address, why), i) in wrong.iter().zip(1..) {
            let (new, port) = (one.dir.join(format!("new-{i}")), (ports.base + i).to_string());
            scope.spawn(move || {
                let words = ["could be asked", address, why, "--join takes the peer address"];
                fails(&["--join", address, "--data", at(&new), "--port", &port], &words);
            });
        }
    });

    // A node of one cluster is sent to another.
    other.kill(1);
    let own = at(&other.node(1).data).to_owned();
    let own_port = other.node(1).port.to_string();
    fails(
        &["--join", &peers, "--data", &own, "--port", &own_port],
        &["belongs to another cluster", "data directory", "--join"],
    );
    // Files of one node in the directory of another.
    let meta = Path::new(&own).join("meta.redb");
    let kept = std::fs::read(&meta).expect("it was a node");
    drop(one);
    let third = Cluster::start("third", &Shape { nodes: 1, replicas: 1, buckets: 2, ..Shape::default() });
    let foreign = third.node(1).data.join("meta.redb");
    let foreign = {
        let mut third = third;
        third.kill(1);
        std::fs::read(foreign).expect("it was a node")
    };
    std::fs::write(&meta, foreign).expect("ours");
    fails(&["--data", &own, "--port", &own_port], &["copied from another node", "empty directory"]);
    std::fs::write(&meta, kept).expect("ours");

    // Written by a release that is yet to come.
    for file in std::fs::read_dir(Path::new(&own).join("journal")).expect("it was a node") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "segment") {
            age(&path);
        }
    }
    fails(
        &["--data", &own, "--port", &own_port],
        &["written by another release", "format 99", "Start the release that wrote it"],
    );
    std::fs::write(Path::new(&own).join("identity.json"), "{").expect("ours");
    fails(&["--data", &own, "--port", &own_port], &["does not say who this node is", "move the whole directory away"]);
}

/// Another format, properly signed.
fn age(segment: &Path) {
    let mut bytes = std::fs::read(segment).expect("ours");
    for at in [0, 4096] {
        bytes[at + 8] = 99;
        let sum = crc32c::crc32c(&bytes[at..at + 112]);
        bytes[at + 112..at + 116].copy_from_slice(&sum.to_le_bytes());
    }
    std::fs::write(segment, bytes).expect("ours");
}

#[test]
fn without_a_quorum_everybody_says_so() {
    let mut cluster = Cluster::start("quorum", &Shape { buckets: 4, ..Shape::default() });
    cluster.kill(2);
    cluster.kill(3);
    let status = crate::common::until(
        "it is missed",
        || {
            let status = cluster.godwit(&["status"]);
            text(&status).contains("the meta group has no leader").then_some(status)
        },
        || cluster.describe(),
    );
    assert_eq!(status.status.code(), Some(1), "{}", text(&status));
    assert!(text(&status).contains("until most of its voters run"), "{}", text(&status));

    let keyspace = cluster.godwit(&["keyspace", "more"]);
    assert_ne!(keyspace.status.code(), Some(0));
    let said = text(&keyspace);
    assert!(said.contains("no quorum: 1 of 3 voters answer") && said.contains("Start "), "{said}");
    assert!(!said.contains("Is the cluster running?"), "somebody answered: {said}");

    let ports = Ports::take();
    let port = (ports.base + 1).to_string();
    let new = cluster.dir.join("new");
    fails(
        &["--join", &cluster.node(1).address(300), "--data", at(&new), "--port", &port],
        &["cannot take this node in", "voters"],
    );
    let mut client = crate::common::Client::connect(&cluster.node(1).any()).expect("it runs");
    let refused = client.ask(&["SET", "a", "1"]).expect("it answers");
    assert!(refused.is_error(), "{refused:?}");
    let why = cluster.succeed(&["why"]);
    assert!(!why.trim().is_empty());
    for node in [3, 2] {
        cluster.start_node(node);
    }
    cluster.until_well();
}
