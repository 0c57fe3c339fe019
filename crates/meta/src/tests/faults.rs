//! A disk that fails, requests that mean nothing, and many at once.

use std::sync::Arc;
use std::time::Duration;

use blueprint::{Command, MetaState, NodeId};
use bytes::Bytes;

use crate::wire::{Answer, Envelope, Request, decode, encode};
use crate::{Carrier, CarryError, ClusterId, Embedded, Identity, Meta, NewNode, Pending, ProposeError, Settings};

pub(super) struct Nobody;

impl Carrier for Nobody {
    fn call(&self, to: NodeId, _: Bytes) -> Pending<'_, Result<Bytes, CarryError>> {
        Box::pin(async move { Err(CarryError::NotSent(to)) })
    }
}

pub(super) async fn alone(dir: &tempfile::TempDir) -> Embedded {
    let identity = Identity { cluster: ClusterId(1), me: NodeId(1) };
    let settings = Settings { deadline: Duration::from_millis(300), ..Settings::default() };
    let path = dir.path().join("meta.redb");
    let started = Embedded::init(&path, identity, vec![node("first")], Arc::new(Nobody), settings).await;
    started.expect("a new cluster")
}

fn node(name: &str) -> Command {
    NewNode { name: name.to_owned(), zone: String::new(), addresses: Vec::new() }.command(NodeId(1))
}

#[tokio::test]
async fn a_disk_that_fails_ends_this_part_of_it_and_that_is_said() {
    let dir = tempfile::tempdir().expect("a directory for a test");
    let this = alone(&dir).await;
    this.inner.store.close().await;
    let first = this.propose(node("second")).await;
    assert_eq!(first, Err(ProposeError::Unknown), "it may have been written");
    let Err(ProposeError::Unavailable(then)) = this.propose(node("third")).await else { panic!("nobody is left") };
    assert!(then.to_string().contains("has stopped on this node"), "{then}");
    assert!(this.status().stopped.is_some());
    let read = this.read().await.expect_err("it cannot prove that it leads");
    assert!(read.0.stopped.is_some(), "{read}");
    this.shutdown().await;
}

#[tokio::test]
async fn anything_may_come_over_the_wire() {
    let dir = tempfile::tempdir().expect("a directory for a test");
    let this = alone(&dir).await;
    let of_this_cluster = |request| encode(&Envelope { cluster: Some(ClusterId(1)), request });
    let (join, ping) = (of_this_cluster(Request::Join(node("first"))), of_this_cluster(Request::Ping));
    let mut state = 7_u64;
    let mut dice = |sides: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % sides
    };
    for round in 0..2_000 {
        let mut bytes = if round % 3 == 0 { join.to_vec() } else { ping.to_vec() };
        match round % 3 {
            0 => bytes.truncate(dice(join.len())),
            1 => {
                let more = dice(64);
                bytes.truncate(dice(3));
                bytes.extend((0..more).map(|_| dice(256) as u8));
            }
            _ => {
                let at = dice(bytes.len());
                bytes[at] ^= 1 << dice(8);
            }
        }
        let answer = this.serve(NodeId(2), Bytes::from(bytes)).await;
        decode::<Answer>(&answer).expect("every request has an answer");
    }
    let other = encode(&Envelope { cluster: Some(ClusterId(2)), request: Request::Ping });
    let answer = decode(&this.serve(NodeId(2), other).await).expect("an answer");
    assert!(matches!(answer, Answer::OtherCluster(ClusterId(1))), "{answer:?}");
    let lost = encode(&Envelope { cluster: None, request: Request::Read { known: blueprint::Epoch(0) } });
    let answer = decode(&this.serve(NodeId(2), lost).await).expect("an answer");
    assert!(matches!(answer, Answer::Failed(_)), "{answer:?}");
    this.shutdown().await;
}

#[tokio::test]
async fn what_is_pushed_never_takes_it_back() {
    let dir = tempfile::tempdir().expect("a directory for a test");
    let this = alone(&dir).await;
    let known = this.read().await.expect("a lone voter");
    this.learn(&Arc::default());
    this.learn(&Arc::new(MetaState { echoes: [(NodeId(1), known.blueprint.epoch)].into(), ..(*known).clone() }));
    assert_eq!(*this.watch().borrow(), known);
    this.shutdown().await;
}

#[tokio::test]
async fn what_is_proposed_together_is_one_entry_and_each_is_answered() {
    let dir = tempfile::tempdir().expect("a directory for a test");
    let this = alone(&dir).await;
    let before = this.status().last_entry;
    let mut proposals = tokio::task::JoinSet::new();
    for number in 0..40 {
        let this = this.clone();
        let create = Command::CreateKeyspace {
            name: format!("keyspace-{}", number / 2),
            kind: blueprint::Kind::Store,
            replicas: 1,
            min_in_sync: None,
            durability: blueprint::Durability::Disk,
            placement: vec![vec![NodeId(1)]],
        };
        proposals.spawn(async move { this.propose(create).await });
    }
    let answers = proposals.join_all().await;
    let refused = answers.iter().filter(|answer| matches!(answer, Err(ProposeError::Refused(_)))).count();
    let epochs: std::collections::BTreeSet<_> = answers.iter().flatten().map(|applied| applied.epoch).collect();
    assert_eq!((epochs.len(), refused), (20, 20), "every name is given once");
    let entries = this.status().last_entry - before;
    assert!(entries <= 2, "one for the first, and one for those that came meanwhile: {entries}");
    this.shutdown().await;
}
