//! What openraft is told about us: which types it deals in.
//!
//! Its nodes are numbers without addresses: how a node is reached is known to whoever carries. Commands get their stamp from the
//! leader, before they are appended, so that every voter applies them with the same one.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blueprint::{Applied, Instant, MetaCommand, Refusal};
use openraft::EmptyNode;
use serde::{Deserialize, Serialize};

openraft::declare_raft_types!(
    pub(crate) Types:
        D = Stamped,
        R = Vec<Result<Applied, Refusal>>,
        NodeId = u64,
        Node = EmptyNode,
        Entry = openraft::Entry<Types>,
        SnapshotData = Cursor<Vec<u8>>,
);

pub(crate) type Raft = openraft::Raft<Types>;
pub(crate) type Entry = openraft::Entry<Types>;
pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Vote = openraft::Vote<u64>;
pub(crate) type Membership = openraft::StoredMembership<u64, EmptyNode>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<u64, EmptyNode>;
pub(crate) type Metrics = openraft::RaftMetrics<u64, EmptyNode>;
pub(crate) type RaftError = openraft::error::RaftError<u64>;
pub(crate) type StorageError = openraft::StorageError<u64>;

/// An entry of the log: commands that came together, each accepted or refused by itself (`gather`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stamped {
    pub(crate) stamp: Instant,
    /// What the wall clock of the leader says, in µs since 1970: for the history, and for nothing else.
    pub(crate) wall: u64,
    pub(crate) commands: Vec<MetaCommand>,
    /// For those who wait for it, in this process only.
    #[serde(skip)]
    pub(crate) mark: Mark,
}

/// Set when the entry may have reached a disk. openraft says "forward to the leader" both when it did not take a command and when it
/// took it, and later lost it to another leader. In the second case the command may still come true: 1. n1 appends it, and n2 has it,
/// too; 2. n5 leads with the votes of n3 and n4, and n1 gives way; 3. n5 is lost, and n2 leads with what it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark(Arc<AtomicBool>);

impl Mark {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
