//! The way from one epoch to a later one: only what differs.
//!
//! Every node holds the blueprint, and most changes touch one bucket of it: sending the whole each time would cost more than
//! everything else that coordinators do. A delta fits exactly one epoch; whoever holds another asks for the whole.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::blueprint::{Blueprint, Bucket, Keyspace, Node};
use crate::{AutoRebalance, BucketId, Epoch, Flaw, KeyspaceId, NodeId, Operation, OperationId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    pub from: Epoch,
    pub to: Epoch,
    /// What something is now; `None` is "no longer there".
    pub nodes: BTreeMap<NodeId, Option<Node>>,
    pub keyspaces: BTreeMap<KeyspaceId, Option<Keyspace>>,
    pub buckets: BTreeMap<BucketId, Option<Bucket>>,
    pub reserved: BTreeMap<BucketId, Option<BucketId>>,
    pub next_bucket: BucketId,
    pub next_keyspace: KeyspaceId,
    pub operations: BTreeMap<OperationId, Option<Operation>>,
    pub next_operation: OperationId,
    pub auto_rebalance: Option<AutoRebalance>,
}

/// Why a delta cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    #[error(
        "the delta leads from {from} to {to}, but the blueprint here is {here}: ask for one that fits, or for the whole"
    )]
    Epoch { here: Epoch, from: Epoch, to: Epoch },
    #[error("the delta takes back ids that were issued: it is not of this cluster's history. Ask for the whole")]
    Unissued,
    #[error("the delta leads to a blueprint that cannot be: {0}. Ask for the whole")]
    Flawed(#[from] Flaw),
}

impl Delta {
    pub fn between(old: &Blueprint, new: &Blueprint) -> Self {
        Self {
            from: old.epoch,
            to: new.epoch,
            nodes: changes(&old.nodes, &new.nodes),
            keyspaces: changes(&old.keyspaces, &new.keyspaces),
            buckets: changes(&old.buckets, &new.buckets),
            reserved: changes(&old.reserved, &new.reserved),
            next_bucket: new.next_bucket,
            next_keyspace: new.next_keyspace,
            operations: changes(&old.operations, &new.operations),
            next_operation: new.next_operation,
            auto_rebalance: new.auto_rebalance.clone(),
        }
    }
}

impl Blueprint {
    /// Goes to the epoch that the delta leads to. When it does not fit, nothing changes.
    pub fn patch(&mut self, delta: &Delta) -> Result<Epoch, Misfit> {
        let Delta { from, to, .. } = *delta;
        if from != self.epoch || to < from {
            return Err(Misfit::Epoch { here: self.epoch, from, to });
        }
        let (bucket, keyspace, operation) = (self.next_bucket, self.next_keyspace, self.next_operation);
        if delta.next_bucket < bucket || delta.next_keyspace < keyspace || delta.next_operation < operation {
            return Err(Misfit::Unissued);
        }
        let mut next = self.clone();
        next.epoch = to;
        make(&mut next.nodes, &delta.nodes);
        make(&mut next.keyspaces, &delta.keyspaces);
        make(&mut next.buckets, &delta.buckets);
        make(&mut next.reserved, &delta.reserved);
        next.next_bucket = delta.next_bucket;
        next.next_keyspace = delta.next_keyspace;
        make(&mut next.operations, &delta.operations);
        next.next_operation = delta.next_operation;
        next.auto_rebalance.clone_from(&delta.auto_rebalance);
        next.routes = next.find_routes()?;
        next.validate()?;
        if to == from && next != *self {
            // One epoch is one blueprint.
            return Err(Misfit::Epoch { here: self.epoch, from, to });
        }
        *self = next;
        Ok(to)
    }
}

fn changes<K: Ord + Copy, V: Clone + PartialEq>(old: &BTreeMap<K, V>, new: &BTreeMap<K, V>) -> BTreeMap<K, Option<V>> {
    let gone = old.keys().filter(|k| !new.contains_key(k)).map(|k| (*k, None));
    let made = new.iter().filter(|(k, v)| old.get(k) != Some(v)).map(|(k, v)| (*k, Some(v.clone())));
    gone.chain(made).collect()
}

fn make<K: Ord + Copy, V: Clone>(map: &mut BTreeMap<K, V>, changes: &BTreeMap<K, Option<V>>) {
    for (key, change) in changes {
        match change {
            Some(value) => map.insert(*key, value.clone()),
            None => map.remove(key),
        };
    }
}
