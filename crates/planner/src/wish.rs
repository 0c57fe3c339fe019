//! What is asked for, and what is known.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use blueprint::{BucketId, KeyspaceId, NodeId, SlotSet};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The node, known already and present, takes its share. The same as [`Wish::Rebalance`] of everything.
    AddNode { node: NodeId },
    /// What is there is spread over all nodes that are present and do not drain: of one keyspace by itself, or of all together.
    Rebalance { keyspace: Option<KeyspaceId> },
    /// Others take what it holds, so that it can be removed from the blueprint.
    RemoveNode { node: NodeId },
    /// `new` takes what `old` holds, and leads what it led.
    ReplaceNode { old: NodeId, new: NodeId },
    /// Others lead what it leads, from now on. It keeps its copies.
    Drain { node: NodeId },
    /// It takes part in everything again. What it is to lead is for a [`Wish::Rebalance`] to say.
    Undrain { node: NodeId },
    /// The node, a member, leads the bucket.
    SwapPrimary { bucket: BucketId, node: NodeId },
    /// `to` takes the part that `from` has, as primary if it led.
    MoveReplica { bucket: BucketId, from: NodeId, to: NodeId },
    /// `to` leads these slots. What is not a whole bucket is split off first.
    MigrateSlots { keyspace: KeyspaceId, slots: SlotSet, to: NodeId },
    /// The same for several targets at once: they may have parts of one bucket. No slot comes twice.
    MigrateEach { keyspace: KeyspaceId, moves: Vec<(SlotSet, NodeId)> },
    /// The node leads all that it is a member of, in one keyspace.
    TakeLead { node: NodeId, keyspace: KeyspaceId },
    /// These nodes, or all that are present, are started anew one after the other; meanwhile others lead what they lead.
    RollingRestart { nodes: Vec<NodeId> },
    /// A new bucket gets these slots, or else the upper half.
    SplitBucket { bucket: BucketId, slots: Option<SlotSet> },
    /// `into` takes over all that the bucket has. Where their copies differ, those of the bucket move first.
    MergeBuckets { bucket: BucketId, into: BucketId },
    /// Each bucket of the keyspace is split in half.
    DoubleBuckets { keyspace: KeyspaceId },
    /// Each bucket of the keyspace gets so many members.
    SetReplicas { keyspace: KeyspaceId, replicas: u8 },
    /// It is gone, with all that is in it.
    RemoveKeyspace { keyspace: KeyspaceId },
}

/// What the directory says that a plan should heed. All of it may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// What one copy takes. A bucket that is not here counts as much as the others do on average.
    pub bytes: BTreeMap<BucketId, u64>,
    /// What the node can still take in. One that is not here has room for everything.
    pub free: BTreeMap<NodeId, u64>,
    /// Their processes are about to end: they are given nothing, and shall lead nothing.
    pub leaving: BTreeSet<NodeId>,
    /// A bucket that is smaller counts as one of this size when copies are spread.
    pub least: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Each bucket under way is one backfill or more, which share network and disks with the clients. 0 counts as 1.
    pub buckets_at_once: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { buckets_at_once: 4 }
    }
}
