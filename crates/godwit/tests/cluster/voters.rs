//! Most voters of the meta group stand still: nothing about the cluster can change, and whoever does not need that goes on.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use server::BucketStatus;
use values::Reply;

use crate::common::{Client, Cluster, Shape, until};

/// Seconds; well beyond all leases. The issue's own number is 60.
const SECONDS: &str = "GODWIT_TEST_VOTERS_AWAY";

#[test]
fn buckets_elsewhere_do_not_notice_that_most_voters_are_away() {
    let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let shape = Shape { nodes: 5, replicas: 2, buckets: 48, ..Shape::default() };
    let cluster = Cluster::start("voters", &shape);
    let voters = || cluster.status().map(|status| status.meta.voters).filter(|voters| voters.len() == 3);
    let voters = until("there are three voters", voters, || cluster.describe());
    let paused: BTreeSet<String> = voters.into_iter().take(2).collect();
    let is_elsewhere = |bucket: &BucketStatus| {
        let mut members = bucket.secondaries.iter().chain([&bucket.primary]);
        members.all(|member| !paused.contains(member))
    };
    let buckets: Vec<BucketStatus> = cluster.status().expect("all is well").buckets;
    let elsewhere: Vec<BucketStatus> = buckets.into_iter().filter(is_elsewhere).collect();
    assert!(elsewhere.len() >= 10, "only {} of 48 buckets have no copy on {paused:?}", elsewhere.len());
    let mut asked: Vec<(Client, String)> = elsewhere
        .iter()
        .map(|bucket| {
            let primary = cluster.nodes.iter().find(|node| node.name() == bucket.primary).expect("one of ours");
            (Client::connect(&primary.cluster()).expect("it runs"), key_of(bucket))
        })
        .collect();

    let stopped: Vec<_> = cluster.nodes.iter().filter(|node| paused.contains(&node.name())).collect();
    assert_eq!(stopped.len(), 2);
    stopped.iter().for_each(|node| node.signal(Signal::STOP));
    let begun = Instant::now();
    let mut round = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        round += 1;
        let value = round.to_string();
        for (client, key) in &mut asked {
            assert_eq!(client.ask(&["SET", key, &value]), Some(Reply::Ok), "{key} in round {round}");
            let expected = Reply::Value(value.clone().into());
            assert_eq!(client.ask(&["GET", key]), Some(expected), "{key} in round {round}");
        }
    }
    let others = cluster.nodes.iter().filter(|node| !paused.contains(&node.name()));
    let mut problems = others.filter_map(|node| node.status()).flat_map(|status| status.problems);
    let said = problems.any(|problem| problem.contains("the meta group has no leader"));
    assert!(said, "{}", cluster.describe());
    stopped.iter().for_each(|node| node.signal(Signal::CONT));
    cluster.until_well();
}

/// A key in one of the bucket's slots.
fn key_of(bucket: &BucketStatus) -> String {
    let ranges: Vec<(u16, u16)> = bucket
        .slots
        .split(',')
        .map(|range| range.split_once('-').expect("first-last"))
        .map(|(first, last)| (first.parse().expect("a slot"), last.parse().expect("a slot")))
        .collect();
    let is_here = |key: &String| {
        let slot = values::slot_of(key.as_bytes()).0;
        ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    };
    (0..).map(|i| format!("key:{i}")).find(is_here).expect("some key has that slot")
}
