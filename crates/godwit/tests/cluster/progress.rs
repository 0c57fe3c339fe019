//! Operations that are watched, throttled and paused, and what is remembered of them.

use std::time::{Duration, Instant};

use server::{BucketStatus, OperationView, PastView, PlanView};

use crate::common::{Cluster, Shape, http, text, until};

const KEYS: usize = 4000;
const SIZE: usize = 1000;

fn bucket(cluster: &Cluster, id: &str) -> BucketStatus {
    let found = cluster.status().and_then(|status| status.buckets.into_iter().find(|bucket| bucket.id == id));
    found.unwrap_or_else(|| panic!("there is no {id}: {}", cluster.describe()))
}

fn plan(cluster: &Cluster, wish: &str) -> PlanView {
    let mut words = vec!["plan", "--json"];
    words.extend(wish.split(' '));
    serde_json::from_str(&cluster.succeed(&words)).expect("a plan")
}

fn look(cluster: &Cluster, id: &str) -> Option<OperationView> {
    let found = http(&cluster.node(1).address(200), "GET", &format!("/v1/operations/{id}"), "");
    let (_, body) = found.filter(|(code, _)| *code == 200)?;
    Some(serde_json::from_str(&body).expect("an operation"))
}

/// A move of one of b1's copies, once its size is known to whoever plans.
fn plan_move(cluster: &Cluster) -> PlanView {
    let b1 = bucket(cluster, "b1");
    let has = |name: &String| b1.primary == *name || b1.secondaries.contains(name);
    let to = cluster.nodes.iter().map(|node| node.name()).find(|name| !has(name)).expect("more nodes than copies");
    let wish = format!("move-replica b1 {} {to}", b1.secondaries[0]);
    // Sizes are told once a second.
    let known = || Some(plan(cluster, &wish)).filter(|plan| plan.bytes as usize > KEYS * SIZE / 5);
    until("the plan knows how much is to be moved", known, || plan(cluster, &wish).text)
}

/// Bytes per second over a while that is long enough for sizes to be told a few times.
fn rate(cluster: &Cluster, id: &str) -> f64 {
    let (from, before) = (Instant::now(), look(cluster, id).map_or(0, |one| one.bytes));
    std::thread::sleep(Duration::from_secs(4));
    let after = look(cluster, id).map_or(0, |one| one.bytes);
    after.saturating_sub(before) as f64 / from.elapsed().as_secs_f64()
}

/// A copy of a megabyte at 50 KB/s would take twenty seconds: time to see that it goes at that rate, stands still while it is paused, and
/// is done soon when nothing holds it up any more.
#[test]
fn a_copy_keeps_to_its_throttle_and_stands_still_when_paused() {
    let cluster = Cluster::start("throttle", &Shape { nodes: 3, replicas: 2, buckets: 4, ..Shape::default() });
    cluster.fill(KEYS, SIZE);
    let plan = plan_move(&cluster);
    let id = plan.id.expect("there is something to do");
    assert!(plan.text.contains(" MB") || plan.text.contains(" KB"), "{}", plan.text);

    for (wrong, because) in [("fast", "is no rate"), ("0", "pause it")] {
        let said = text(&cluster.godwit(&["throttle", &id, wrong]));
        assert!(said.contains(because), "{said}");
    }
    let said = cluster.succeed(&["throttle", &id, "50KB/s"]);
    assert!(said.contains("50.00 kB/s") || said.contains("50 kB/s"), "{said}");
    cluster.succeed(&["apply", &id]);
    let describe = || format!("{:?}", look(&cluster, &id));
    until("bytes come", || look(&cluster, &id).filter(|one| one.bytes > 0), describe);
    // However busy the machine is, never faster. And at that rate as soon as nothing else holds it up: sizes are told in steps of a
    // second, so a while of four may show one more or one less.
    let near = || {
        let rate = rate(&cluster, &id);
        assert!(rate < 50_000.0 * 1.6, "{rate}");
        (rate > 50_000.0 * 0.4).then_some(rate)
    };
    until("it goes at its rate", near, describe);

    cluster.succeed(&["pause", &id]);
    let why = || {
        let said = text(&cluster.godwit(&["why", "b1"]));
        (said.contains("to be resumed") && said.contains("slots")).then_some(said)
    };
    until("it says that its operation is paused", why, || text(&cluster.godwit(&["why"])));
    let stands = || (rate(&cluster, &id) == 0.0).then_some(());
    until("it stands still", stands, describe);
    let paused = look(&cluster, &id).expect("it runs");
    assert_eq!((paused.state.as_str(), paused.throttle), ("paused", Some(50_000)));
    assert!(paused.bytes > 0 && paused.bytes < paused.total_bytes, "{paused:?}");

    cluster.succeed(&["resume", &id]);
    cluster.succeed(&["throttle", &id, "off"]);
    let watched = cluster.succeed(&["watch", &id, "--json"]);
    let lines: Vec<OperationView> = watched.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let last = lines.last().expect("it says how it ended");
    assert_eq!((last.state.as_str(), last.bytes), ("done", last.total_bytes), "{last:?}");
    assert!(lines[0].bytes >= paused.bytes.min(last.total_bytes), "it went on where it was: {:?} {paused:?}", lines[0]);
    cluster.until_well();

    let past = history(&cluster);
    let of_it: Vec<&str> = past.iter().filter(|past| past.about == id).map(|past| past.what.as_str()).collect();
    assert_eq!(of_it, ["throttled", "begun", "paused", "resumed", "throttled", "done"], "{past:?}");
}

fn history(cluster: &Cluster) -> Vec<PastView> {
    serde_json::from_str(&cluster.succeed(&["history", "--json"])).expect("a history")
}

/// What happened outlives every process, and is the same whoever is asked.
#[test]
fn the_history_says_who_came_and_went() {
    let mut cluster = Cluster::start("history", &Shape { nodes: 4, replicas: 2, buckets: 4, ..Shape::default() });
    let swapped = bucket(&cluster, "b1").secondaries[0].clone();
    let said = cluster.succeed(&["plan", "--apply", "--by", "ada", "swap-primary", "b1", &swapped]);
    assert!(said.contains("is done"), "{said}");
    cluster.kill(4);
    let with = |cluster: &Cluster, what: &str| {
        let found = history(cluster).into_iter().rfind(|past| past.about == "node-4");
        found.filter(|past| past.what == what)
    };
    until("its departure is remembered", || with(&cluster, "departed"), || cluster.describe());
    cluster.start_node(4);
    until("so is its return", || with(&cluster, "returned"), || cluster.describe());
    cluster.until_well();

    let before = history(&cluster);
    assert!(before.iter().zip(1..).all(|(past, number)| past.number == number), "{before:?}");
    assert!(before.iter().all(|past| past.when.starts_with("20") && past.when.ends_with('Z')), "{before:?}");
    let about = |about: &str, what: &str| before.iter().find(|past| past.about == about && past.what == what);
    assert!(about("node-1", "added").is_some() && about("default", "created").is_some(), "{before:?}");
    let done = before.iter().find(|past| past.what == "done").expect("the swap");
    assert_eq!((done.by.as_str(), done.asked.as_str()), ("ada", format!("swap-primary b1 {swapped}").as_str()));
    assert_eq!(done.outcome, "1 of 1 steps");
    let table = cluster.succeed(&["history"]);
    assert!(table.contains("swap-primary b1") && table.contains("departed") && table.contains("ada"), "{table}");

    for number in 1..=4 {
        cluster.kill(number);
    }
    for number in 1..=3 {
        cluster.start_node_so(number, &[]);
    }
    cluster.start_node(4); // no voter: somebody must tell it where they are
    (1..=4).for_each(|number| cluster.until_up(number));
    let again = || {
        let output = cluster.godwit(&["history", "--json"]);
        serde_json::from_str::<Vec<PastView>>(&text(&output)).ok()
    };
    let after = until("the history is there again", again, || cluster.describe());
    let same = |(a, b): (&PastView, &PastView)| {
        (a.number, &a.when, &a.about, &a.what) == (b.number, &b.when, &b.about, &b.what)
    };
    assert!(after.len() >= before.len() && before.iter().zip(&after).all(same), "{before:?}\n{after:?}");
}
