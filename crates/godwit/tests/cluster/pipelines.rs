//! What a client may rely on when it asks for many things without waiting, while nodes die.

use values::Reply;

use crate::common::{Client, Cluster, Shape, until};

/// The node that leads the slot of that key.
fn primary_of(cluster: &Cluster, key: &str) -> u16 {
    let leads = |node: &u16| {
        let client = Client::connect(&cluster.node(*node).cluster());
        client.and_then(|mut client| client.ask(&["GET", key])).is_some_and(|reply| !reply.is_error())
    };
    until(&format!("somebody leads {key}"), || (1..=3).find(leads), || cluster.describe())
}

/// R12: a request that could not even be sent to the primary was certainly not done.
#[test]
fn what_cannot_be_passed_on_was_not_done() {
    let mut cluster = Cluster::start("unsent", &Shape { buckets: 4, replicas: 1, ..Shape::default() });
    let key = (0..).map(|i| format!("k{i}")).find(|key| primary_of(&cluster, key) == 2).expect("node 2 leads some");
    let mut client = Client::connect(&cluster.node(1).any()).expect("node 1 runs");
    assert_eq!(client.ask(&["SET", &key, "1"]), Some(Reply::Ok));
    cluster.kill(2);
    // The first may have been on its way.
    let replies: Vec<_> = (0..3).map(|_| client.ask(&["SET", &key, "2"])).collect();
    let last = replies.last().cloned().flatten();
    assert!(matches!(&last, Some(Reply::Error(text)) if text.starts_with(b"TRYAGAIN ")), "{replies:?}");
}

/// A client sends many writes to one key at once, through a node that passes them on, while the primary dies. What it set last stays.
#[test]
fn a_pipeline_keeps_its_order_through_a_failover() {
    let mut cluster = Cluster::start("order", &Shape { buckets: 4, ..Shape::default() });
    let primary = primary_of(&cluster, "k");
    let mut client = Client::connect(&cluster.node(1 + primary % 3).any()).expect("another node runs");
    let mut next = 0_u64;
    let mut all_well = |client: &mut Client| {
        let values: Vec<String> = (next..next + 40).map(|value| value.to_string()).collect();
        next += 40;
        for value in &values {
            client.send(&["SET", "k", value]).expect("that node lives");
        }
        client.send(&["GET", "k"]).expect("that node lives");
        let replies: Vec<Reply> = (0..41).map(|_| client.receive().expect("that node lives")).collect();
        let (got, set) = replies.split_last().expect("many");
        let acknowledged = values.iter().zip(set).filter(|(_, reply)| **reply == Reply::Ok).map(|(value, _)| value);
        let newest = acknowledged.last().map(|value| value.parse::<u64>().expect("a number"));
        if let (Reply::Value(got), Some(newest)) = (got, newest) {
            let got: u64 = String::from_utf8_lossy(got).parse().expect("a number");
            assert!(got >= newest, "{newest} was set after {got}: {set:?}");
        }
        set.iter().all(|reply| *reply == Reply::Ok)
    };
    assert!(all_well(&mut client));
    cluster.kill(primary);
    let mut in_a_row = 0;
    let go_on = || {
        in_a_row = if all_well(&mut client) { in_a_row + 1 } else { 0 };
        (in_a_row >= 5).then_some(())
    };
    until("writes go on", go_on, || cluster.describe());
}
