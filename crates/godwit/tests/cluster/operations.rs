//! The cluster changes its shape by command, while clients write.

use std::collections::BTreeMap;

use server::{BucketStatus, OperationView, Status};
use values::Reply;

use crate::common::{Cluster, Load, Manner, Shape, http, text, until};

fn bucket(cluster: &Cluster, id: &str) -> BucketStatus {
    let found = cluster.status().and_then(|status| status.buckets.into_iter().find(|bucket| bucket.id == id));
    found.unwrap_or_else(|| panic!("there is no {id}: {}", cluster.describe()))
}

fn members(bucket: &BucketStatus) -> Vec<String> {
    let mut members: Vec<String> = bucket.secondaries.iter().chain([&bucket.primary]).cloned().collect();
    members.sort();
    members
}

/// Who has no copy of it.
fn outsider(cluster: &Cluster, bucket: &BucketStatus) -> String {
    let has = members(bucket);
    cluster.nodes.iter().map(|node| node.name()).find(|name| !has.contains(name)).expect("more nodes than copies")
}

/// How many copies each node has.
fn copies(status: &Status) -> BTreeMap<String, usize> {
    let mut copies: BTreeMap<String, usize> = status.nodes.iter().map(|node| (node.name.clone(), 0)).collect();
    for name in status.buckets.iter().flat_map(members) {
        *copies.entry(name).or_default() += 1;
    }
    copies
}

fn operation(cluster: &Cluster, id: &str) -> OperationView {
    let (_, body) = http(&cluster.node(1).address(200), "GET", "/v1/operations", "").expect("it runs");
    let all: Vec<OperationView> = serde_json::from_str(&body).expect("a list of operations");
    all.into_iter().find(|one| one.id == id).expect("it was planned")
}

/// The id under which it can be applied.
fn plan(cluster: &Cluster, wish: &str) -> String {
    let mut words = vec!["plan", "--json"];
    words.extend(wish.split(' '));
    let plan: server::PlanView = serde_json::from_str(&cluster.succeed(&words)).expect("a plan");
    plan.id.unwrap_or_else(|| panic!("nothing to do for {wish}: {}", plan.text))
}

/// Planned, applied and watched to its end.
fn perform(cluster: &Cluster, load: &Load, wish: &str) {
    eprintln!("== {wish}");
    let mut words = vec!["plan", "--apply"];
    words.extend(wish.split(' '));
    let said = cluster.succeed(&words);
    assert!(said.contains("is done"), "{said}");
    load.flow(50, cluster);
    cluster.until_well();
}

#[test]
fn every_kind_of_change_while_clients_write() {
    let shape = Shape { nodes: 4, replicas: 3, buckets: 8, ..Shape::default() };
    let cluster = Cluster::start("operations", &shape);
    let (load, other) = (Load::start(&cluster, Manner::Cluster), Load::start(&cluster, Manner::Any));
    load.flow(100, &cluster);

    let before = bucket(&cluster, "b1");
    let next = before.secondaries[0].clone();
    perform(&cluster, &load, &format!("swap-primary b1 {next}"));
    assert_eq!(bucket(&cluster, "b1").primary, next);

    let before = bucket(&cluster, "b2");
    let (from, to) = (before.primary.clone(), outsider(&cluster, &before));
    perform(&cluster, &load, &format!("move-replica b2 {from} {to}"));
    let after = bucket(&cluster, "b2");
    assert!(after.primary == to && !members(&after).contains(&from) && members(&after).len() == 3, "{after:?}");

    perform(&cluster, &load, "split-bucket b3");
    assert_eq!(cluster.status().expect("it runs").buckets.len(), 9);

    let to = outsider(&cluster, &bucket(&cluster, "b1"));
    perform(&cluster, &load, &format!("migrate-slots 0-99 {to}"));
    let owner = cluster.status().expect("it runs").buckets.into_iter().find(|bucket| bucket.slots == "0-99");
    assert_eq!(owner.expect("they were split off").primary, to);

    // What was split off b3 goes back to it.
    let slots = |id: &str| bucket(&cluster, id).slots;
    let (lower, upper) = (slots("b3"), slots("b259"));
    perform(&cluster, &load, "merge-buckets b259 b3");
    let (first, last) = (lower.split('-').next().expect("a range"), upper.split('-').next_back().expect("a range"));
    assert_eq!(slots("b3"), format!("{first}-{last}"));
    assert_eq!(cluster.status().expect("it runs").buckets.len(), 9);

    perform(&cluster, &load, "drain node-2");
    assert!(cluster.status().expect("it runs").buckets.iter().all(|bucket| bucket.primary != "node-2"));

    perform(&cluster, &load, "undrain node-2");

    perform(&cluster, &load, "remove-node node-4");
    assert_eq!(copies(&cluster.status().expect("it runs"))["node-4"], 0);

    perform(&cluster, &load, "undrain node-4");
    perform(&cluster, &load, "add-node node-4");
    let spread = copies(&cluster.status().expect("it runs"));
    let (most, fewest) = (spread.values().max().expect("four"), spread.values().min().expect("four"));
    assert!(most - fewest <= 1, "{spread:?}");

    perform(&cluster, &load, "double-buckets");
    assert_eq!(cluster.status().expect("it runs").buckets.len(), 18);

    let said = cluster.succeed(&["operations"]);
    assert_eq!(said.matches("done").count(), 11, "{said}");
    for load in [load, other] {
        let report = load.end();
        for (command, outcomes) in &report.operations {
            assert_eq!((outcomes.uncertain, outcomes.refused), (0, 0), "{command}: {:?}", report.errors);
        }
    }
}

/// Fewer copies, more, and fewer again. With two of them on four nodes it takes a while until all are well; nobody notices.
#[test]
fn another_number_of_copies_while_clients_write() {
    let shape = Shape { nodes: 3, replicas: 2, buckets: 6, ..Shape::default() };
    let cluster = Cluster::start("replicas", &shape);
    let load = Load::start(&cluster, Manner::Cluster);
    load.flow(100, &cluster);
    let sizes = || cluster.status().expect("it runs").buckets.iter().map(|b| members(b).len()).collect::<Vec<_>>();
    let minimums = || cluster.status().expect("it runs").buckets.iter().map(|b| b.min_in_sync).collect::<Vec<_>>();
    for (copies, minimum) in [(3, 2), (2, 2), (1, 1), (2, 2)] {
        perform(&cluster, &load, &format!("set-replicas default {copies}"));
        assert_eq!((sizes(), minimums()), (vec![copies; 6], vec![minimum; 6]));
    }
    for (wish, because) in [
        ("set-replicas default 4", "4 copies need as many nodes, and 3 are present"),
        ("set-replicas default 0", "at least 1 replica"),
        ("set-replicas default many", "no number of copies"),
    ] {
        let mut words = vec!["plan"];
        words.extend(wish.split(' '));
        let output = cluster.godwit(&words);
        assert!(output.status.code() == Some(1) && text(&output).contains(because), "{wish}: {}", text(&output));
    }
    let report = load.end();
    for (command, outcomes) in &report.operations {
        assert_eq!((outcomes.uncertain, outcomes.refused), (0, 0), "{command}: {:?}", report.errors);
    }
}

/// A node that drains leads nothing, also when another one dies, when it is restarted itself, and when the meta group has another leader.
#[test]
fn draining_outlives_failovers() {
    let shape = Shape { nodes: 4, replicas: 3, buckets: 12, ..Shape::default() };
    let mut cluster = Cluster::start("draining", &shape);
    cluster.succeed(&["plan", "--apply", "drain", "node-2"]);
    let leads = |status: &Status, name: &str| status.buckets.iter().filter(|bucket| bucket.primary == name).count();
    let intent =
        |status: &Status, name: &str| status.nodes.iter().find(|node| node.name == name).map(|n| n.intent.clone());
    let is_drained =
        |status: &Status| intent(status, "node-2").as_deref() == Some("draining") && leads(status, "node-2") == 0;
    let status = cluster.status().expect("it runs");
    assert!(is_drained(&status) && copies(&status)["node-2"] > 0, "{}", cluster.describe());
    assert!(text(&cluster.godwit(&["status"])).contains("draining"));
    for wish in ["add-node node-2", "replace-node node-1 node-2"] {
        let mut words = vec!["plan"];
        words.extend(wish.split(' '));
        let said = text(&cluster.godwit(&words));
        assert!(said.contains("node-2 drains"), "{wish}: {said}");
    }

    // Whoever leads the meta group goes, and with it what it led; then the drained one.
    let leader = status.meta.leader.expect("there is one");
    let leader = cluster.nodes.iter().find(|node| node.name() == leader).expect("one of ours").number;
    for victim in [leader, 2] {
        cluster.kill(victim);
        let served = || {
            let status = cluster.nodes.iter().filter(|node| node.number != victim).find_map(|node| node.status())?;
            let name = cluster.node(victim).name();
            (leads(&status, &name) == 0 && status.buckets.iter().all(|bucket| bucket.serving)).then_some(status)
        };
        let status = until("others lead what it led", served, || cluster.describe());
        assert!(victim == 2 || is_drained(&status), "{}", cluster.describe());
        cluster.start_node(victim);
        cluster.until_well();
        assert!(is_drained(&cluster.status().expect("it runs")), "{}", cluster.describe());
    }

    cluster.succeed(&["plan", "--apply", "undrain", "node-2"]);
    let status = cluster.status().expect("it runs");
    assert_eq!(
        (intent(&status, "node-2").as_deref(), leads(&status, "node-2")),
        (Some(""), 0),
        "nothing comes by itself"
    );
    cluster.succeed(&["plan", "--apply", "rebalance"]);
    assert!(leads(&cluster.status().expect("it runs"), "node-2") > 0, "{}", cluster.describe());
}

#[test]
fn a_keyspace_is_removed_and_its_name_is_free() {
    let cluster = Cluster::start("removed", &Shape::default());
    cluster.succeed(&["keyspace", "more", "--replicas", "2", "--buckets", "5"]);
    let load = Load::start(&cluster, Manner::Cluster);
    load.flow(50, &cluster);
    let mut client = crate::common::Client::connect(&cluster.node(1).any()).expect("it runs");
    client.ask(&["CLIENT", "KEYSPACE", "more"]).expect("it is there");
    client.ask(&["SET", "key", "value"]).expect("it is there");
    perform(&cluster, &load, "remove-keyspace more");
    let status = cluster.status().expect("it runs");
    assert!(status.keyspaces.iter().all(|keyspace| keyspace.name == "default"), "{status:?}");
    assert!(text(&cluster.godwit(&["plan", "remove-keyspace", "more"])).contains("there is no keyspace 'more'"));
    cluster.succeed(&["keyspace", "more", "--replicas", "2", "--buckets", "3"]);
    let mut client = crate::common::Client::connect(&cluster.node(1).any()).expect("it runs");
    client.ask(&["CLIENT", "KEYSPACE", "more"]).expect("it is there again");
    let found = until("it serves", || client.ask(&["GET", "key"]), || cluster.describe());
    assert_eq!(found, Reply::Nil, "it begins empty");
    let report = load.end();
    for (command, outcomes) in &report.operations {
        assert_eq!((outcomes.uncertain, outcomes.refused), (0, 0), "{command}: {:?}", report.errors);
    }
}

#[test]
fn what_is_refused_says_why() {
    let cluster = Cluster::start("refused", &Shape { nodes: 4, ..Shape::default() });
    let refused = |wish: &str| {
        let mut words = vec!["plan"];
        words.extend(wish.split(' '));
        let output = cluster.godwit(&words);
        assert_eq!(output.status.code(), Some(1), "{wish}: {}", text(&output));
        text(&output)
    };
    let b1 = bucket(&cluster, "b1");
    let (member, outsider) = (b1.secondaries[0].clone(), outsider(&cluster, &b1));
    for (wish, because) in [
        ("explode".to_owned(), "nothing that can be planned"),
        ("drain".to_owned(), "that is written: drain NODE"),
        ("drain node-9".to_owned(), "there is no node 'node-9'; there are node-1, node-2, node-3, node-4"),
        ("split-bucket b99".to_owned(), "there is no bucket b99"),
        (format!("move-replica b1 {} {member}", b1.primary), "already has a part"),
        (format!("swap-primary b1 {outsider}"), "has no part"),
        ("migrate-slots 5-3 node-1".to_owned(), "are no slots"),
        ("double-buckets other".to_owned(), "there is no keyspace 'other'"),
    ] {
        let said = refused(&wish);
        assert!(said.contains(because), "{wish}: {said}");
    }

    // Planned and not applied: nobody is kept from anything, and what does not fit any more is shown anew.
    let split = plan(&cluster, "split-bucket b1");
    let same = plan(&cluster, "split-bucket b1");
    let busy = plan(&cluster, &format!("swap-primary b2 {}", bucket(&cluster, "b2").secondaries[0]));
    cluster.succeed(&["apply", &split]);
    cluster.succeed(&["watch", &split]);
    let output = cluster.godwit(&["apply", &same]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("does not fit any more") && said.contains("Planned again as"), "{said}");
    assert_eq!(operation(&cluster, &same).state, "planned");

    let output = cluster.godwit(&["pause", &busy]);
    assert!(text(&output).contains("apply it first"), "{}", text(&output));
    cluster.succeed(&["cancel", &busy, "--why", "it is too late today"]);
    assert_eq!(operation(&cluster, &busy).why, "it is too late today");
    let output = cluster.godwit(&["watch", "o77"]);
    assert!(text(&output).contains("there is no operation o77"), "{}", text(&output));
}

/// The node that is to take over stands still: the operation waits and says for whom, can be paused and cancelled, and leaves no trace.
#[test]
fn an_operation_that_waits_says_for_whom_and_can_be_cancelled() {
    let cluster = Cluster::start("waits", &Shape { nodes: 4, ..Shape::default() });
    let b1 = bucket(&cluster, "b1");
    let to = outsider(&cluster, &b1);
    let node = cluster.nodes.iter().find(|node| node.name() == to).expect("one of ours");
    let id = plan(&cluster, &format!("move-replica b1 {} {to}", b1.secondaries[0]));
    let asked = cluster.nodes.iter().find(|node| node.name() != to).expect("three others");
    // Not of the command line: it would ask the one that stands still, too, and wait for that.
    let post = |act: &str| {
        let path = format!("/v1/operations/{id}/{act}");
        let answered = || http(&asked.address(200), "POST", &path, "{}").filter(|(code, _)| matches!(code, 200 | 409));
        until(&format!("{act} is answered"), answered, || cluster.describe())
    };
    node.signal(rustix::process::Signal::STOP);
    let applied = post("apply");
    let look = || {
        let (_, body) = http(&asked.address(200), "GET", "/v1/operations", "")?;
        let all: Vec<OperationView> = serde_json::from_str(&body).expect("a list of operations");
        all.into_iter().find(|one| one.id == id)
    };
    if applied.0 == 409 {
        // It was missed before that: the plan does not fit any more, and nothing was begun.
        assert!(applied.1.contains("departed"), "{applied:?}");
        post("cancel");
    }
    // It may depart before anybody waits for it: then the operation has failed, and says so.
    let is_over = || look().filter(|one| one.state == "cancelled" || one.state == "failed");
    let says = || look().filter(|one| one.waits.iter().any(|wait| wait.contains("answers"))).or_else(is_over);
    let seen = until("it says that it waits for an answer", says, || format!("{:?}", look()));
    if !matches!(seen.state.as_str(), "failed" | "cancelled") {
        for act in ["pause", "cancel"] {
            let (code, said) = post(act);
            assert!(code == 200 || said.contains("is over"), "{act}: {said}");
        }
    }
    let over = until("it is over", is_over, || format!("{:?}", look()));
    assert!(!over.why.is_empty(), "{over:?}");
    node.signal(rustix::process::Signal::CONT);
    cluster.until_well();
    let after = bucket(&cluster, "b1");
    assert!(after.candidates.is_empty() && members(&after) == members(&b1), "{after:?}");
}

/// Whoever looks after the nodes restarts each when it is told to. Clients write all the time.
#[test]
fn every_node_is_restarted_when_it_leads_nothing() {
    let mut cluster = Cluster::start("rolling", &Shape { buckets: 6, ..Shape::default() });
    let load = Load::start(&cluster, Manner::Cluster);
    load.flow(50, &cluster);
    let led = |cluster: &Cluster| -> BTreeMap<String, String> {
        let buckets = cluster.status().expect("it runs").buckets;
        buckets.into_iter().map(|bucket| (bucket.id, bucket.primary)).collect()
    };
    let (before, pids) = (led(&cluster), [1, 2, 3].map(|number| cluster.node(number).pid()));
    let id = plan(&cluster, "rolling-restart");
    cluster.succeed(&["apply", &id]);
    let asked = |cluster: &Cluster| {
        let views = cluster.nodes.iter().filter_map(|node| http(&node.address(200), "GET", "/v1/operations", ""));
        let all = views.filter_map(|(_, body)| serde_json::from_str::<Vec<OperationView>>(&body).ok()).flatten();
        all.filter(|one| one.id == id).max_by_key(|one| one.done)
    };
    for number in 1..=3 {
        let name = cluster.node(number).name();
        let its_turn = || asked(&cluster).filter(|one| one.restart.as_ref() == Some(&name));
        until(&format!("it is the turn of {name}"), its_turn, || {
            format!("{:?}\n{}", asked(&cluster), cluster.describe())
        });
        assert!(led(&cluster).values().all(|primary| *primary != name), "it leads nothing now");
        let told =
            || text(&cluster.godwit(&["why"])).contains(&format!("{name} leads nothing now: restart it")).then_some(());
        until("that is said", told, || cluster.describe());
        cluster.node(number).signal(rustix::process::Signal::TERM);
        cluster.wait_for_end(number);
        cluster.start_node(number);
        cluster.until_up(number);
    }
    let over = until("it is over", || asked(&cluster).filter(|one| one.state != "running"), || cluster.describe());
    assert_eq!((over.state.as_str(), over.why.as_str()), ("done", ""), "{over:?}");
    cluster.until_well();
    assert_eq!(led(&cluster), before, "everyone leads what it led");
    assert!([1, 2, 3].map(|number| cluster.node(number).pid()).iter().all(|pid| !pids.contains(pid)));
    load.flow(50, &cluster);
    assert!(load.end().is_clean());
}
