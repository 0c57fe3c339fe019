//! Where the buckets of a new keyspace go.

use alloc::vec;
use alloc::vec::Vec;

use blueprint::{Blueprint, KeyspaceId, Kind, NodeId, Slot, SlotSet};

use crate::even_out::{Reach, even_out};
use crate::loads::Loads;
use crate::objection::Objection;
use crate::sketch::{BucketAt, Piece, Sketch};
use crate::wishes::give_all;
use crate::{Facts, leaders};

/// One row for each bucket, its primary first, as `CreateKeyspace` takes them. Everyone holds and leads as many as everyone else; where
/// that does not come out even, who holds fewer of other keyspaces gets more.
pub fn place(
    blueprint: &Blueprint,
    facts: &Facts,
    buckets: usize,
    replicas: u8,
) -> Result<Vec<Vec<NodeId>>, Vec<Objection>> {
    let mut sketch = Sketch::of(blueprint, facts);
    let nodes = sketch.open_nodes().count();
    if buckets == 0 || buckets > usize::from(Slot::COUNT) {
        return Err(vec![Objection::BadBucketCount(buckets)]);
    }
    if replicas == 0 {
        return Err(vec![Objection::NoReplicas]);
    }
    if usize::from(replicas) > nodes {
        return Err(vec![Objection::TooFewNodes { replicas, nodes }]);
    }
    let known = sketch.buckets.len();
    let new = |_: &Sketch, bucket: BucketAt| bucket >= known;
    let leader = sketch.open_nodes().next().expect("there are as many as replicas");
    sketch.buckets.resize(known + buckets, unborn(blueprint, replicas, leader));

    let missing: Vec<BucketAt> =
        (known..known + buckets).flat_map(|bucket| core::iter::repeat_n(bucket, usize::from(replicas))).collect();
    let mut objections = Vec::new();
    let mut loads = Loads::weigh(&mut sketch, new, &missing);
    let given = give_all(&mut loads, &missing, &mut objections);
    assert!(objections.is_empty(), "an empty bucket takes no room, and there are nodes enough");
    even_out(&mut loads, given, Reach::Anywhere);
    let all: Vec<BucketAt> = (known..known + buckets).collect();
    let nobodys = leaders::settle(&mut sketch, new, &all);
    assert!(nobodys.is_empty(), "every copy is on an open node");

    let row = |piece: &Piece| {
        let others = piece.copies.iter().filter(|node| **node != piece.leader);
        core::iter::once(&piece.leader).chain(others).map(|node| sketch.nodes[*node].id).collect()
    };
    Ok(sketch.buckets[known..].iter().map(row).collect())
}

/// A bucket that nobody holds yet. Everything else about it is decided by who makes it.
fn unborn(blueprint: &Blueprint, replicas: u8, leader: usize) -> Piece {
    Piece {
        id: blueprint.next_bucket,
        keyspace: KeyspaceId(blueprint.next_keyspace.0),
        kind: Kind::Store,
        slots: SlotSet::empty(),
        bytes: None,
        wanted: usize::from(replicas),
        min_in_sync: 1,
        minimum: 1,
        members: vec![],
        candidates: vec![],
        copies: vec![],
        leader,
        fixed: None,
    }
}
