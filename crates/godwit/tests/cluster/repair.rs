//! The unsafe ways out, when more is lost than copies were made against.

use values::Reply;

use crate::common::{Client, Cluster, Shape, godwit, text, text_of, until};

fn members(bucket: &server::BucketStatus) -> Vec<String> {
    let mut members: Vec<String> = bucket.secondaries.iter().chain([&bucket.primary]).cloned().collect();
    members.sort();
    members
}

/// A key of the bucket that has these slots.
fn key_within(slots: &str) -> String {
    let ranges: Vec<(u16, u16)> = slots
        .split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            (first.parse().expect("a slot"), last.parse().expect("a slot"))
        })
        .collect();
    let within = |key: &String| {
        let slot = values::slot_of(key.as_bytes()).0;
        ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    };
    (0..).map(|number| format!("k{number}")).find(within).expect("there are many")
}

fn any_client(cluster: &Cluster) -> Client {
    let node = cluster.nodes.iter().find(|node| node.runs()).expect("somebody runs");
    Client::connect(&node.any()).expect("it runs")
}

fn until_departed(cluster: &Cluster, names: &[&str]) {
    let departed = || {
        let status = cluster.status()?;
        let gone = |name: &&str| status.nodes.iter().any(|node| node.name == **name && node.state == "departed");
        names.iter().all(gone).then_some(())
    };
    until("they have departed", departed, || cluster.describe());
}

/// Both members of a bucket lose their disks. It says what is lost, and serves again when somebody accepts that; everything else is
/// as it was.
#[test]
fn a_bucket_that_lost_every_member_begins_anew() {
    let mut cluster = Cluster::start("repair", &Shape { nodes: 5, replicas: 2, buckets: 20, ..Shape::default() });
    let voters = || cluster.status().map(|status| status.meta.voters).filter(|voters| voters.len() == 3);
    let voters = until("three vote", voters, || cluster.describe());
    let before = cluster.status().expect("it runs").buckets;
    // Most voters stay; best of all every one of them.
    let vote = |bucket: &&server::BucketStatus| members(bucket).iter().filter(|name| voters.contains(name)).count();
    let lost = before.iter().min_by_key(vote).expect("there are buckets").clone();
    assert!(vote(&&lost) <= 1, "nobody of two who do not vote has anything: {before:?}");
    let names = members(&lost);
    let victims: Vec<u16> =
        cluster.nodes.iter().filter(|node| names.contains(&node.name())).map(|node| node.number).collect();
    let all_lost: Vec<&str> = before.iter().filter(|b| members(b) == names).map(|b| b.id.as_str()).collect();
    let keys: Vec<(String, String)> = before.iter().map(|b| (b.id.clone(), key_within(&b.slots))).collect();
    for (id, key) in &keys {
        assert_eq!(any_client(&cluster).ask(&["SET", key, id]), Some(Reply::Ok));
    }
    let refused = cluster.godwit(&["repair", &lost.id, "--accept-data-loss"]);
    let said = text(&refused);
    assert!(refused.status.code() == Some(1) && said.contains("a repair would throw that away"), "{said}");

    for number in victims.iter().copied() {
        cluster.kill(number);
    }
    until_departed(&cluster, &[&names[0], &names[1]]);
    let said = cluster.succeed(&["repair", &lost.id]);
    assert!(
        said.contains("has lost every member") && said.contains("start it instead: then nothing is lost"),
        "{said}"
    );
    for number in victims.iter().copied() {
        std::fs::remove_dir_all(&cluster.node(number).data).expect("our own directory");
        cluster.start_node(number);
        cluster.until_up(number);
    }
    let told = || {
        let output = cluster.godwit(&["repair", &lost.id]);
        let said = text(&output);
        let is_so = said.contains("its data is gone") && said.contains("Lost: everything in these slots");
        (output.status.success() && is_so && said.contains("Nothing is done yet")).then_some(())
    };
    until("it says what is lost", told, || text(&cluster.godwit(&["repair", &lost.id])));
    let same = cluster.status().expect("it runs").buckets.iter().any(|bucket| bucket.id == lost.id);
    assert!(same, "a dry run does nothing");

    for id in &all_lost {
        cluster.succeed(&["repair", id, "--accept-data-loss"]);
    }
    cluster.until_well();
    let after = cluster.status().expect("it runs").buckets;
    let new = after.iter().find(|bucket| bucket.slots == lost.slots).expect("every slot has a bucket");
    assert!(new.id != lost.id && new.serving, "{new:?}");
    for (id, key) in &keys {
        let expected = if all_lost.contains(&id.as_str()) { Reply::Nil } else { Reply::Value(id.clone().into()) };
        assert_eq!(any_client(&cluster).ask(&["GET", key]), Some(expected), "{key} of {id}");
        assert_eq!(any_client(&cluster).ask(&["SET", key, "again"]), Some(Reply::Ok));
    }
    let said = cluster.succeed(&["operations"]);
    assert!(said.contains(&format!("repair {} --accept-data-loss", lost.id)), "{said}");
    let again = cluster.godwit(&["repair", &lost.id]);
    assert!(text(&again).contains("there is no bucket"), "{}", text(&again));
}

/// Two of three voters lose their disks. The third is made the only one, and others join it.
#[test]
fn a_meta_group_that_lost_most_voters_goes_on_with_one() {
    let mut cluster = Cluster::start("repair-meta", &Shape { buckets: 4, ..Shape::default() });
    let three = || cluster.status().filter(|status| status.meta.voters.len() == 3);
    until("three vote", three, || cluster.describe());
    assert_eq!(any_client(&cluster).ask(&["SET", "k", "1"]), Some(Reply::Ok));
    let data = cluster.node(3).data.display().to_string();
    let busy = text(&godwit(&["repair-meta", &data], &[]));
    assert!(busy.contains("in use by another process"), "{busy}");
    for number in [1, 2, 3] {
        cluster.kill(number);
    }
    let all: Vec<String> = cluster.nodes.iter().map(|node| node.data.display().to_string()).collect();
    let needless = text(&godwit(&["repair-meta", &all[1], &all[2], "--accept-data-loss"], &[]));
    assert!(needless.contains("which are most of them"), "{needless}");
    let dry = godwit(&["repair-meta", &data], &[]);
    let said = text(&dry);
    assert!(dry.status.success() && said.contains("node-3 would be the only voter"), "{said}");
    assert!(said.contains("Nothing is done yet") && said.contains("Never start these again"), "{said}");
    for number in [1, 2] {
        std::fs::remove_dir_all(&cluster.node(number).data).expect("our own directory");
    }
    let done = godwit(&["repair-meta", &data, "--accept-data-loss"], &[]);
    assert!(done.status.success() && text(&done).contains("Done."), "{}", text(&done));

    // It has what was acknowledged: it was a member of everything. Alone it is below the minimum, until others join.
    cluster.start_node(3);
    let join = vec!["--join".to_owned(), cluster.node(3).address(300)];
    let leads = || cluster.status().filter(|status| status.meta.leader.is_some());
    until("the meta group has a leader", leads, || cluster.node(3).log());
    until_departed(&cluster, &["node-1", "node-2"]);
    for number in [1, 2] {
        cluster.start_node_so(number, &join);
        cluster.until_up(number);
    }
    cluster.until_well();
    assert_eq!(any_client(&cluster).ask(&["GET", "k"]), Some(Reply::text("1")));
    assert_eq!(any_client(&cluster).ask(&["SET", "k", "2"]), Some(Reply::Ok));
    let three = || cluster.status().filter(|status| status.meta.voters.len() == 3);
    until("three vote again", three, || cluster.describe());
    assert_eq!(text_of(&any_client(&cluster).ask(&["GET", "k"]).expect("an answer")), "2");
}

/// A copy that was dismissed and is still there is better than none: what it has is kept, and what came after it is lost.
#[test]
fn a_bucket_goes_on_with_the_copy_that_is_left() {
    // Nobody is given the part of one that is away, as long as the bucket can be written to.
    let flags = vec!["--recovery-delay".to_owned(), "3600".to_owned()];
    let mut cluster = Cluster::start("stale", &Shape { nodes: 5, replicas: 3, buckets: 5, flags, ..Shape::default() });
    let voters = || cluster.status().map(|status| status.meta.voters).filter(|voters| voters.len() == 3);
    let voters = until("three vote", voters, || cluster.describe());
    // Most voters must be left: of five in a circle, three that vote have two neighbours among them.
    let few = |bucket: &&server::BucketStatus| members(bucket).iter().filter(|name| voters.contains(name)).count() == 1;
    let bucket = cluster.status().expect("it runs").buckets.iter().find(few).expect("the other two vote").clone();
    let number = |name: &String| cluster.nodes.iter().find(|node| node.name() == *name).expect("one of ours").number;
    let (stale, lost) = (number(&bucket.secondaries[0]), [number(&bucket.primary), number(&bucket.secondaries[1])]);
    let (before, after) = (key_within(&bucket.slots), format!("{{{}}}later", key_within(&bucket.slots)));
    let set = |cluster: &Cluster, key: &str, value: &str| {
        let done = || (any_client(cluster).ask(&["SET", key, value]) == Some(Reply::Ok)).then_some(());
        until(&format!("{key} is written"), done, || cluster.describe());
    };
    set(&cluster, &before, "1");
    cluster.kill(stale);
    let look = |cluster: &Cluster| cluster.status()?.buckets.into_iter().find(|one| one.id == bucket.id);
    let shrunk = || look(&cluster).filter(|one| members(one).len() == 2);
    until("it is dismissed", shrunk, || cluster.describe());
    set(&cluster, &after, "1");

    for number in lost {
        cluster.kill(number);
    }
    let names = lost.map(|number| format!("node-{number}"));
    until_departed(&cluster, &[&names[0], &names[1]]);
    // The first node may be one of the dead.
    let alive = cluster.nodes.iter().find(|node| node.runs()).expect("two of five").address(300);
    cluster.start_node_so(stale, &["--join".to_owned(), alive]);
    cluster.until_up(stale);
    let from = format!("node-{stale} has a copy that was no member");
    let told = || text(&cluster.godwit(&["repair", &bucket.id])).contains(&from).then_some(());
    until("it says what is left", told, || text(&cluster.godwit(&["repair", &bucket.id])));
    // The cluster goes on changing around the one that came back: it may have to be asked again.
    let mut said = String::new();
    let repaired = || {
        let done = cluster.godwit(&["repair", &bucket.id, "--accept-data-loss"]);
        said = text(&done);
        done.status.success().then_some(())
    };
    until("it is repaired", repaired, || text(&cluster.godwit(&["repair", &bucket.id])));
    assert!(said.contains(&from), "{said}");

    let serves = || look(&cluster).filter(|one| one.serving && one.primary == format!("node-{stale}"));
    until("it serves", serves, || cluster.describe());
    let read = |key: &str| {
        let mut last = None;
        until(
            &format!("{key} is read"),
            || {
                last = any_client(&cluster).ask(&["GET", key]);
                last.clone().filter(|reply| !reply.is_error())
            },
            || cluster.describe(),
        )
    };
    assert_eq!((read(&before), read(&after)), (Reply::text("1"), Reply::Nil));
    set(&cluster, &after, "2");
    assert_eq!(read(&after), Reply::text("2"));
}
