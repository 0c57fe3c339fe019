//! Where the buckets of a new keyspace go.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use blueprint::{Blueprint, KeyspaceId, Kind, NodeId, Slot, SlotSet};

use crate::even_out::{Reach, even_out};
use crate::loads::Loads;
use crate::objection::Objection;
use crate::sketch::{BucketAt, NodeAt, Piece, Sketch};
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
    let mut loads = Loads::weigh(&mut sketch, new, &missing);
    let given = give_apart(&mut loads, &missing);
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

/// Everyone is to share buckets with everyone else, not always with the same: when a node dies, all others take over a part of what it
/// led, and make a part of the copies that are missing. Among those that hold least, the one with the fewest buckets in common with whom
/// the bucket has already.
fn give_apart(loads: &mut Loads<'_>, missing: &[BucketAt]) -> Vec<(BucketAt, NodeAt)> {
    let mut together: BTreeMap<(NodeAt, NodeAt), usize> = BTreeMap::new();
    let mut given = Vec::with_capacity(missing.len());
    for bucket in missing.iter().copied() {
        let has = loads.sketch.buckets[bucket].copies.clone();
        let common = |node: NodeAt| -> usize {
            has.iter().map(|other| together.get(&(node.min(*other), node.max(*other))).copied().unwrap_or(0)).sum()
        };
        let best = loads.equals_for(bucket).take(COMPARED).min_by_key(|node| common(*node));
        let node = best.or_else(|| loads.next_best_for(bucket)).expect("there are as many nodes as copies");
        for other in has {
            *together.entry((node.min(other), node.max(other))).or_default() += 1;
        }
        loads.give(bucket, node);
        given.push((bucket, node));
    }
    given
}

/// So many of those that hold least are looked at: enough to spread, and a thousand nodes are placed on in no time.
const COMPARED: usize = 16;

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
