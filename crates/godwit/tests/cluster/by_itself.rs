//! A cluster that was asked to rebalances by itself: when it is worth it, and not once more.

use std::time::{Duration, Instant};

use server::{OperationView, PastView, Status};

use crate::common::{Cluster, Load, Manner, Shape, http, text, until};

/// Longer than a blueprint must not have changed before anything begins by itself.
const LONG: Duration = Duration::from_secs(13);

fn operations(cluster: &Cluster) -> Vec<OperationView> {
    serde_json::from_str(&cluster.succeed(&["operations", "--json"])).expect("a list of operations")
}

/// What a node holds, and what it leads.
fn parts(status: &Status, name: &str) -> (usize, usize) {
    let node = status.nodes.iter().find(|node| node.name == name);
    node.map_or((0, 0), |node| (node.leads + node.follows, node.leads))
}

/// A further node, which has nothing.
fn join(cluster: &mut Cluster, number: u16) -> String {
    cluster.add(number, "127.0.0.1", &[], &[]);
    cluster.start_node(number);
    cluster.until_up(number);
    let name = cluster.node(number).name();
    let is_there = || cluster.status().filter(|status| status.nodes.iter().any(|node| node.name == name));
    until("it has joined", is_there, || cluster.describe());
    name
}

/// For long enough, nothing is begun.
fn assert_still(cluster: &Cluster, operations_before: usize) {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        let all = operations(cluster);
        assert_eq!(all.len(), operations_before, "{all:?}\n{}", cluster.describe());
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_node_that_joins_gets_its_share_if_that_was_asked_for() {
    let shape = Shape { nodes: 3, replicas: 2, buckets: 12, ..Shape::default() };
    let mut cluster = Cluster::start("by-itself", &shape);
    assert!(cluster.succeed(&["status"]).contains("auto-rebalance: off"));
    let told = cluster.godwit(&["plan", "rebalance", "--auto"]);
    assert!(text(&told).contains("type: godwit auto-rebalance on"), "{}", text(&told));

    // Off, as it is unless somebody asks: a fourth has nothing, and keeps it.
    let load = Load::start(&cluster, Manner::Cluster);
    let fourth = join(&mut cluster, 4);
    assert_still(&cluster, 0);
    assert_eq!(parts(&cluster.status().expect("it runs"), &fourth), (0, 0));

    // On: it has its share without a further word, and then nothing moves any more.
    let said = cluster.succeed(&["auto-rebalance", "on", "--by", "ada"]);
    assert!(said.contains("auto-rebalance: on, asked for by ada"), "{said}");
    let why = cluster.succeed(&["why"]);
    assert!(why.contains("rebalancing by itself: waits until"), "{why}");
    let has_share = |name: &str, copies, leads| {
        let status = cluster.status()?;
        (parts(&status, name) == (copies, leads) && status.operations.is_empty()).then_some(())
    };
    until("the fourth has its share", || has_share(&fourth, 6, 3), || cluster.describe());
    load.flow(50, &cluster);
    assert_still(&cluster, 1);

    // And so has a fifth, which comes while it is on.
    let fifth = join(&mut cluster, 5);
    let has_share = || {
        let status = cluster.status()?;
        let (copies, leads) = parts(&status, &fifth);
        (copies >= 4 && leads >= 2 && status.operations.is_empty()).then_some(())
    };
    until("the fifth has its share", has_share, || cluster.describe());
    cluster.until_well();

    // Whoever is asked may hear of the end a little later than whoever was asked before.
    let all_done = || Some(operations(&cluster)).filter(|all| all.iter().all(|one| one.state == "done"));
    let all = until("everything that was begun is done", all_done, || cluster.describe());
    let automatic = |one: &&OperationView| (one.by.as_str(), one.asked.as_str()) == ("automatic", "rebalance");
    assert!(all.len() == 2 && all.iter().filter(automatic).count() == 2, "{all:?}");
    let past: Vec<PastView> = serde_json::from_str(&cluster.succeed(&["history", "--json"])).expect("the past");
    let switched = past.iter().find(|past| past.about == "auto-rebalance").expect("somebody asked for it");
    assert_eq!((switched.what.as_str(), switched.by.as_str()), ("on", "ada"));
    assert!(past.iter().any(|past| past.by == "automatic" && past.what == "begun"), "{past:?}");

    let (_, body) = http(&cluster.node(1).address(200), "GET", "/v1/auto-rebalance", "").expect("it runs");
    assert!(body.contains("\"on\":true") && body.contains("\"by\":\"ada\""), "{body}");
    assert!(cluster.succeed(&["auto-rebalance", "off"]).contains("auto-rebalance: off"));
    let status: Status = serde_json::from_str(&cluster.succeed(&["status", "--json"])).expect("a status");
    assert!(!status.auto_rebalance.on);
    let report = load.end();
    for (command, outcomes) in &report.operations {
        assert_eq!((outcomes.uncertain, outcomes.refused), (0, 0), "{command}: {:?}", report.errors);
    }
}
