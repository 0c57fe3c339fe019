//! People with tools for Redis and Valkey change the cluster's shape in the words that those know.

use std::collections::BTreeMap;

use values::Reply;

use crate::common::{Client, Cluster, Load, Manner, Node, Shape, text_of, until};

fn client(node: &Node) -> Client {
    Client::connect(&node.cluster()).expect("it runs")
}

fn my_id(node: &Node) -> String {
    text_of(&client(node).ask(&["CLUSTER", "MYID"]).expect("an answer"))
}

/// The first and the last slot of the first range that each node leads, by its cluster port.
fn led(node: &Node) -> BTreeMap<i64, Vec<(i64, i64)>> {
    let Some(Reply::Array(rows)) = client(node).ask(&["CLUSTER", "SLOTS"]) else { panic!("slots") };
    let mut led: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for row in rows {
        let Reply::Array(row) = row else { panic!("a row") };
        let [Reply::Number(first), Reply::Number(last), Reply::Array(primary), ..] = &row[..] else {
            panic!("{row:?}")
        };
        let Reply::Number(port) = primary[1] else { panic!("{primary:?}") };
        led.entry(port).or_default().push((*first, *last));
    }
    led
}

/// What a node says of slot migrations: a list of names and values each, as RESP2 has it.
fn migrations(node: &Node) -> Vec<BTreeMap<String, String>> {
    let Some(Reply::Array(all)) = client(node).ask(&["CLUSTER", "GETSLOTMIGRATIONS"]) else { panic!("a list") };
    let text = |reply: &Reply| if let Reply::Number(number) = reply { number.to_string() } else { text_of(reply) };
    let one = |reply: &Reply| match reply {
        Reply::Array(words) => words.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
        Reply::Map(pairs) => pairs.iter().map(|(name, value)| (text(name), text(value))).collect(),
        other => panic!("{other:?}"),
    };
    all.iter().map(one).collect()
}

#[test]
fn slots_migrate_in_the_words_of_valkey() {
    let shape = Shape { nodes: 3, replicas: 2, buckets: 6, ..Shape::default() };
    let cluster = Cluster::start("valkey", &shape);
    let load = Load::start(&cluster, Manner::Cluster);
    load.flow(50, &cluster);

    let (from, two, three) = (cluster.node(1), cluster.node(2), cluster.node(3));
    let (first, last) = led(from)[&i64::from(from.port)][0];
    assert!(last - first > 40, "a bucket has more slots than that");
    let word = |number: i64| number.to_string();
    let moves = [word(first), word(first + 9), word(first + 20), word(first + 29), word(first + 10), word(first + 19)];
    let (to_two, to_three) = (my_id(two), my_id(three));
    let words = [
        ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &moves[0], &moves[1], &moves[2], &moves[3], "NODE", &to_two]
            .as_slice(),
        ["SLOTSRANGE", &moves[4], &moves[5], "NODE", &to_three].as_slice(),
    ]
    .concat();
    assert_eq!(migrations(from), Vec::new());
    let Some(Reply::Error(why)) = client(two).ask(&words) else { panic!("it does not lead them") };
    assert_eq!(String::from_utf8_lossy(&why), "ERR Slots are not served by this node.");
    assert_eq!(client(from).ask(&words), Some(Reply::Ok));

    let states = || {
        let all = migrations(from);
        assert_eq!(all.len(), 2, "{all:?}");
        let over = all.iter().all(|one| ["success", "failed", "cancelled"].contains(&one["state"].as_str()));
        over.then_some(all)
    };
    let all = until("both are over", states, || format!("{:?}\n{}", migrations(from), cluster.describe()));
    let one = all.iter().find(|one| one["target_node"] == to_two).expect("the first of them");
    assert_eq!((one["state"].as_str(), one["operation"].as_str()), ("success", "EXPORT"), "{one:?}");
    assert_eq!(one["slot_ranges"], format!("{first}-{} {}-{}", first + 9, first + 20, first + 29));
    assert_eq!((one["source_node"].clone(), one["name"].len()), (my_id(from), 40));
    for field in ["create_time", "last_update_time", "last_ack_time", "message"] {
        assert!(one.contains_key(field), "{one:?}");
    }
    let there = until(
        "the target has heard that it is over",
        || migrations(two).into_iter().find(|one| one["state"] == "success"),
        || format!("{:?}", migrations(two)),
    );
    assert_eq!((there["operation"].as_str(), &there["name"]), ("IMPORT", &one["name"]));
    let now = led(from);
    let leads = |node: &Node, slot: i64| now[&i64::from(node.port)].iter().any(|(a, b)| (*a..=*b).contains(&slot));
    assert!(
        leads(two, first) && leads(two, first + 29) && leads(three, first + 15) && leads(from, first + 30),
        "{now:?}"
    );

    let refused = client(from).ask(&["CLUSTER", "CANCELSLOTMIGRATIONS"]);
    assert_eq!(refused, Some(Reply::error("ERR No migrations ongoing")));
    load.flow(50, &cluster);
    assert!(load.end().is_clean());
}

/// What is asked for is kept with the operation, however much that is to say; what is remembered of it later is its beginning.
#[test]
fn hundreds_of_ranges_are_one_migration() {
    let shape = Shape { nodes: 2, replicas: 1, buckets: 2, ..Shape::default() };
    let cluster = Cluster::start("ranges", &shape);
    let (from, to) = (cluster.node(1), cluster.node(2));
    let (first, last) = led(from)[&i64::from(from.port)][0];
    assert!(last - first > 2000, "half of all slots");
    let led_by_to = |slot: i64| led(from)[&i64::from(to.port)].iter().any(|(a, b)| (*a..=*b).contains(&slot));

    let id = my_id(to);
    let every_other: Vec<String> = (0..400).map(|at| (first + 2 * at).to_string()).collect();
    let mut words = vec!["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"];
    words.extend(every_other.iter().flat_map(|slot| [slot.as_str(), slot.as_str()]));
    words.extend(["NODE", id.as_str()]);
    assert_eq!(client(from).ask(&words), Some(Reply::Ok));
    let is_over = || migrations(from).first().filter(|one| one["state"] == "success").cloned();
    let one = until("it is over", is_over, || format!("{:?}\n{}", migrations(from), cluster.describe()));
    assert_eq!(one["slot_ranges"].split(' ').count(), 400);
    assert!(led_by_to(first) && led_by_to(first + 798) && !led_by_to(first + 1));

    let more: Vec<String> = (500..900).map(|at| (first + 2 * at).to_string()).collect();
    let asked = format!("migrate-slots {} {}", more.join(","), to.name());
    let said = cluster.succeed(&[&["plan", "--apply"][..], &asked.split(' ').collect::<Vec<_>>()].concat());
    assert!(led_by_to(first + 1000) && led_by_to(first + 1798) && !led_by_to(first + 1001), "{said}");

    let operations = cluster.succeed(&["operations", "--json"]);
    assert!(operations.contains(&asked), "{operations}");
    for table in ["operations", "history"] {
        let shown = cluster.succeed(&[table]);
        assert!(shown.contains("migrate-slots") && shown.len() < 8192, "{shown}");
    }
}

/// The target stands still, so that there is something to cancel.
#[test]
fn a_slot_migration_can_be_cancelled() {
    let shape = Shape { nodes: 4, replicas: 2, buckets: 4, ..Shape::default() };
    let cluster = Cluster::start("valkey-cancel", &shape);
    let from = cluster.node(1);
    let status = cluster.status().expect("it runs");
    let bucket = status.buckets.iter().find(|bucket| bucket.primary == from.name()).expect("it leads one of four");
    // Nobody with a copy of its own: it would have nothing to wait for.
    let to = cluster.nodes.iter().find(|node| node.number > 1 && !bucket.secondaries.contains(&node.name()));
    let to = to.expect("four nodes, two copies");
    let (first, _) = led(from)[&i64::from(from.port)][0];
    let (slot, id) = (first.to_string(), my_id(to));
    to.signal(rustix::process::Signal::STOP);
    let words = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &slot, &slot, "NODE", &id];
    let begun = client(from).ask(&words).expect("an answer");
    if begun == Reply::Ok {
        let again = text_of(&client(from).ask(&words).expect("an answer"));
        let ended = client(from).ask(&["CLUSTER", "CANCELSLOTMIGRATIONS"]).expect("an answer");
        let ends = ["cancelled", "failed", "success"];
        let is_over = || migrations(from).into_iter().next().filter(|one| ends.contains(&one["state"].as_str()));
        let one = until("it is over", is_over, || format!("{ended:?} {:?}", migrations(from)));
        match one["state"].as_str() {
            "cancelled" => {
                assert_eq!(again, format!("ERR I am already migrating slot {slot}."));
                assert_eq!((ended, one["message"].as_str()), (Reply::Ok, "CLUSTER CANCELSLOTMIGRATIONS"));
            }
            "failed" => assert!(one["message"].contains("departed"), "it was missed before: {one:?}"),
            _ => panic!("{ended:?} {one:?}"),
        }
    } else {
        assert!(text_of(&begun).contains("departed"), "it was missed before: {begun:?}");
    }
    to.signal(rustix::process::Signal::CONT);
    cluster.until_well();
    let leader = cluster.status().expect("it runs").buckets.into_iter().find(|b| b.slots.starts_with(&slot));
    assert_eq!(leader.expect("it has the slot").primary, from.name());
}

#[test]
fn a_replica_that_is_asked_to_takes_the_lead() {
    let cluster = Cluster::start("failover", &Shape { replicas: 2, ..Shape::default() });
    let load = Load::start(&cluster, Manner::Cluster);
    load.flow(50, &cluster);
    let node = cluster.node(2);
    for how in ["FORCE", "takeover"] {
        let refused = text_of(&client(node).ask(&["CLUSTER", "FAILOVER", how]).expect("an answer"));
        assert!(refused.starts_with("ERR FORCE and TAKEOVER would lose writes"), "{refused}");
    }
    assert_eq!(client(node).ask(&["CLUSTER", "FAILOVER", "NOW"]), Some(Reply::error("ERR syntax error")));
    assert_eq!(client(node).ask(&["CLUSTER", "FAILOVER"]), Some(Reply::Ok));
    let leads_all = || {
        let status = node.status()?;
        let has_copy = |b: &&server::BucketStatus| b.primary == node.name() || b.secondaries.contains(&node.name());
        let all: Vec<_> = status.buckets.iter().filter(has_copy).collect();
        assert!(!all.is_empty() && all.len() < status.buckets.len(), "some, and not all");
        all.iter().all(|bucket| bucket.primary == node.name() && bucket.serving).then_some(())
    };
    until("it leads all that it has a copy of", leads_all, || cluster.describe());
    let idle = || {
        let said = client(node).ask(&["CLUSTER", "FAILOVER"])?;
        (said == Reply::error("ERR You should send CLUSTER FAILOVER to a replica")).then_some(())
    };
    until("there is nothing left to take", idle, || cluster.describe());
    load.flow(50, &cluster);
    let report = load.end();
    for (command, outcomes) in &report.operations {
        assert_eq!((outcomes.uncertain, outcomes.refused), (0, 0), "{command}: {:?}", report.errors);
    }
}

/// Everything about one hash tag, through one connection, as a cluster client does it: it goes where `MOVED` sends it.
struct Tag {
    client: Client,
    keys: [String; 3],
    moved: u64,
    done: u64,
}

impl Tag {
    /// Waits for the answer of all of these; those of a transaction are in its last.
    fn ask(&mut self, pipeline: &[&[&str]]) -> Vec<Reply> {
        loop {
            pipeline.iter().for_each(|words| self.client.send(words).expect("nobody ended"));
            let replies: Vec<Reply> = pipeline.iter().map(|_| self.client.receive().expect("nobody ended")).collect();
            let elsewhere = replies.iter().map(text_of).find(|text| text.starts_with("MOVED "));
            let Some(elsewhere) = elsewhere else { return replies };
            // Where a transaction was sent on, none of it was done: its last answer says so.
            let last = text_of(replies.last().expect("one for each"));
            assert!(last.starts_with("MOVED ") || last.starts_with("EXECABORT "), "{replies:?}");
            let address = elsewhere.rsplit(' ').next().expect("MOVED slot address");
            self.client = Client::connect(address).expect("it runs");
            self.moved += 1;
        }
    }

    /// All keys change together or not at all, whatever moves meanwhile.
    fn round(&mut self, number: u64) {
        let (keys, value) = (self.keys.clone(), number.to_string());
        let [a, b, c] = keys.each_ref().map(String::as_str);
        let all = |value: &str| Reply::Array(vec![Reply::Value(value.to_owned().into()); 3]);
        assert_eq!(self.ask(&[&["MSET", a, &value, b, &value, c, &value]]), [Reply::Ok]);
        assert_eq!(self.ask(&[&["MGET", a, b, c]]), [all(&value)]);
        assert_eq!(self.ask(&[&["EXISTS", a, b, c]]), [Reply::Number(3)]);
        let next = (number + 1).to_string();
        let queued = || Reply::Simple("QUEUED".into());
        let incr = self.ask(&[&["MULTI"], &["INCR", a], &["INCR", b], &["INCR", c], &["MGET", a, b, c], &["EXEC"]]);
        let one = Reply::Number(number as i64 + 1);
        let results = Reply::Array(vec![one.clone(), one.clone(), one, all(&next)]);
        assert_eq!(incr, [Reply::Ok, queued(), queued(), queued(), queued(), results]);
        self.done += 1;
    }
}

/// Whoever waits for others lets them end first, should it fail itself.
struct Ends<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A tag whose slot is in that range.
fn tag_within(first: u16, last: u16) -> String {
    let tags = (0..).map(|number| format!("t{number}"));
    tags.into_iter().find(|tag| (first..=last).contains(&values::slot_of(tag.as_bytes()).0)).expect("there are many")
}

#[test]
fn several_keys_of_a_tag_are_one_while_their_slots_move() {
    let shape = Shape { nodes: 4, replicas: 3, buckets: 4, ..Shape::default() };
    let cluster = Cluster::start("tags", &shape);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let rounds = std::sync::atomic::AtomicU64::new(0);
    let order = std::sync::atomic::Ordering::Relaxed;
    // It may end by a failed assertion of its own: then nobody waits for it.
    let run = |first: u16, last: u16| {
        let tag = tag_within(first, last);
        let keys = ["a", "b", "c"].map(|name| format!("{{{tag}}}{name}"));
        let mut tag = Tag { client: client(cluster.node(1)), keys, moved: 0, done: 0 };
        while !stop.load(order) {
            tag.round(tag.done * 10);
            rounds.fetch_add(1, order);
        }
        (tag.moved, tag.done)
    };
    std::thread::scope(|scope| {
        let _whatever_happens = Ends(&stop);
        let clients: Vec<_> = [(0, 500), (501, 1000)].map(|(a, b)| scope.spawn(move || run(a, b))).into();
        let ended = || clients.iter().any(|client| client.is_finished());
        let flow = |more: u64| {
            let wanted = rounds.load(order) + more;
            let enough = || (rounds.load(order) >= wanted || ended()).then_some(());
            until("clients get on", enough, || cluster.describe());
        };
        flow(20);
        for number in [2, 3, 4, 1, 4] {
            let to = cluster.node(number).name();
            let said = cluster.succeed(&["plan", "--apply", "migrate-slots", "0-1000", &to]);
            assert!(said.contains("is done") || said.contains("already"), "{said}");
            flow(20);
        }
        stop.store(true, order);
        for client in clients {
            let (moved, done) = client.join().expect("every answer was as it should be");
            assert!(moved >= 3, "it moved under them: {moved} times in {done} rounds");
        }
    });
}
