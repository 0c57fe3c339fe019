//! The blueprint: the one authoritative description of what should be.
//!
//! It is a plain value. The meta group keeps it, everyone else holds copies of some epoch of it, and nothing in it says what *is*:
//! that is the directory's part. It changes only through [`Blueprint::apply`] (see `command`), and a copy moves forward through
//! [`Blueprint::patch`] (see `delta`). What must hold for it stands in `soundness`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{
    AutoRebalance, Bond, BucketId, Epoch, Flaw, Government, Intent, KeyspaceId, Member, NodeId, Operation, OperationId,
    Position, Slot, SlotMap, SlotSet, Term,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Parts")]
pub struct Blueprint {
    pub epoch: Epoch,
    pub nodes: BTreeMap<NodeId, Node>,
    pub keyspaces: BTreeMap<KeyspaceId, Keyspace>,
    pub buckets: BTreeMap<BucketId, Bucket>,
    /// Issued for a split of that bucket that is not registered yet. What was issued and is neither here nor in `buckets` is retired: that way the
    /// memory of all the ids that ever were costs nothing.
    pub reserved: BTreeMap<BucketId, BucketId>,
    pub next_bucket: BucketId,
    pub next_keyspace: KeyspaceId,
    /// Those under way, and the last few that are over.
    pub operations: BTreeMap<OperationId, Operation>,
    pub next_operation: OperationId,
    /// None: it is rebalanced only when somebody asks for it.
    pub auto_rebalance: Option<AutoRebalance>,
    /// Which bucket has a slot, for each keyspace that is not being removed. Follows from `buckets`.
    #[serde(skip)]
    pub(crate) routes: BTreeMap<KeyspaceId, SlotMap<BucketId>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Node {
    pub id: NodeId,
    /// Of all nodes that are present, only this one has it.
    pub name: String,
    /// Copies of a bucket are kept in different zones where possible; may be empty.
    pub zone: String,
    pub addresses: Vec<String>,
    pub state: NodeState,
    /// It outlives departures and failovers: only operators change it.
    pub intent: Intent,
    /// Which life of its data directory its process is: it says so when it has found everything that it holds. 0: it never did.
    pub life: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeState {
    Present,
    /// Nobody hears of it: it is enlisted nowhere, and its name is free.
    Departed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Keyspace {
    pub id: KeyspaceId,
    pub name: String,
    pub kind: Kind,
    /// How many members each bucket should have.
    pub replicas: u8,
    /// What the buckets begin with; from then on it belongs to each government (R8).
    pub min_in_sync: u8,
    pub durability: Durability,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    Store,
    Log,
}

/// What "safe on its side" means for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Durability {
    /// Synced: survives a power cut.
    Disk,
    /// Handed to the operating system: survives the death of the process.
    Memory,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bucket {
    pub id: BucketId,
    pub keyspace: KeyspaceId,
    pub slots: SlotSet,
    pub birth: Birth,
    pub rule: Rule,
    /// While it is being merged with another one, and until that is forgotten.
    pub bond: Option<Bond>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Birth {
    /// Made with its keyspace, over empty logs.
    First,
    /// Forked from its parent by the Split at this position of the parent's log.
    Split { parent: BucketId, at: Position },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rule {
    Governed(Government),
    /// A government without members, kept until every holder has erased.
    Removed {
        term: Term,
        holders: Vec<Member>,
    },
}

impl Blueprint {
    /// Epoch 0: nothing known yet.
    pub fn new() -> Self {
        Self {
            epoch: Epoch(0),
            nodes: BTreeMap::new(),
            keyspaces: BTreeMap::new(),
            buckets: BTreeMap::new(),
            reserved: BTreeMap::new(),
            next_bucket: BucketId(1),
            next_keyspace: KeyspaceId(1),
            operations: BTreeMap::new(),
            next_operation: OperationId(1),
            auto_rebalance: None,
            routes: BTreeMap::new(),
        }
    }

    /// The bucket that has this slot now; none when the keyspace is unknown or being removed.
    pub fn bucket_of(&self, keyspace: KeyspaceId, slot: Slot) -> Option<&Bucket> {
        self.buckets.get(self.routes.get(&keyspace)?.get(slot)?)
    }

    /// Every slot of a keyspace with its bucket; none when the keyspace is unknown or being removed.
    pub fn routes(&self, keyspace: KeyspaceId) -> Option<&SlotMap<BucketId>> {
        self.routes.get(&keyspace)
    }

    /// Known, but only until everyone has erased it.
    pub fn is_removed(&self, keyspace: KeyspaceId) -> bool {
        self.keyspaces.contains_key(&keyspace) && !self.routes.contains_key(&keyspace)
    }

    /// One that is being removed no longer has a name.
    pub fn keyspace_named(&self, name: &str) -> Option<&Keyspace> {
        self.keyspaces.values().find(|k| k.name == name && !self.is_removed(k.id))
    }

    /// One that has departed no longer has a name.
    pub fn node_named(&self, name: &str) -> Option<&Node> {
        self.nodes.values().find(|n| n.name == name && n.state == NodeState::Present)
    }

    pub fn is_present(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|n| n.state == NodeState::Present)
    }

    /// Departed, and another node that is present bears its name: its data directory was replaced, and it is gone for good.
    pub fn is_replaced(&self, node: NodeId) -> bool {
        let Some(known) = self.nodes.get(&node) else { return true };
        known.state == NodeState::Departed && self.node_named(&known.name).is_some()
    }

    pub fn buckets_of(&self, keyspace: KeyspaceId) -> impl Iterator<Item = &Bucket> + '_ {
        self.buckets.values().filter(move |b| b.keyspace == keyspace)
    }

    pub fn government(&self, bucket: BucketId) -> Option<&Government> {
        self.buckets.get(&bucket)?.government()
    }

    /// How many members this bucket should have.
    pub fn wanted(&self, bucket: BucketId) -> usize {
        let keyspace = self.buckets.get(&bucket).and_then(|b| self.keyspaces.get(&b.keyspace));
        keyspace.map_or(0, |k| usize::from(k.replicas))
    }

    /// The bucket that a reserved child descends from: its parent may be a child that is not registered either.
    pub(crate) fn root_of(&self, child: BucketId) -> BucketId {
        let mut root = child;
        while let Some(parent) = self.reserved.get(&root) {
            root = *parent;
        }
        root
    }

    /// Existed once, or was given up: never to be used again.
    pub fn is_retired(&self, bucket: BucketId) -> bool {
        self.was_issued(bucket) && !self.buckets.contains_key(&bucket) && !self.reserved.contains_key(&bucket)
    }

    pub fn was_issued(&self, bucket: BucketId) -> bool {
        bucket.0 > 0 && bucket < self.next_bucket
    }
}

impl Default for Blueprint {
    fn default() -> Self {
        Self::new()
    }
}

impl Bucket {
    pub fn government(&self) -> Option<&Government> {
        match &self.rule {
            Rule::Governed(government) => Some(government),
            Rule::Removed { .. } => None,
        }
    }

    pub fn term(&self) -> Term {
        match &self.rule {
            Rule::Governed(government) => government.term,
            Rule::Removed { term, .. } => *term,
        }
    }
}

/// A blueprint as it is stored and sent: anything that could be decoded, sound or not.
#[derive(Deserialize)]
pub(crate) struct Parts {
    // The fields of Blueprint, in its order: that is the format.
    epoch: Epoch,
    nodes: BTreeMap<NodeId, Node>,
    keyspaces: BTreeMap<KeyspaceId, Keyspace>,
    buckets: BTreeMap<BucketId, Bucket>,
    reserved: BTreeMap<BucketId, BucketId>,
    next_bucket: BucketId,
    next_keyspace: KeyspaceId,
    operations: BTreeMap<OperationId, Operation>,
    next_operation: OperationId,
    auto_rebalance: Option<AutoRebalance>,
}

impl TryFrom<Parts> for Blueprint {
    type Error = Flaw;

    fn try_from(parts: Parts) -> Result<Self, Flaw> {
        let mut blueprint = Self {
            epoch: parts.epoch,
            nodes: parts.nodes,
            keyspaces: parts.keyspaces,
            buckets: parts.buckets,
            reserved: parts.reserved,
            next_bucket: parts.next_bucket,
            next_keyspace: parts.next_keyspace,
            operations: parts.operations,
            next_operation: parts.next_operation,
            auto_rebalance: parts.auto_rebalance,
            routes: BTreeMap::new(),
        };
        blueprint.routes = blueprint.find_routes()?;
        blueprint.validate()?;
        Ok(blueprint)
    }
}
