//! The directory: what every node says about itself now.
//!
//! Each node owns its rows: one about itself and one for each bucket that it holds. They travel as records of the registrar, so a
//! row is as small as its purpose allows. What is added on arrival (is the owner reachable, when was it last heard) never travels.

use alloc::collections::BTreeMap;

use blueprint::{BucketId, Epoch, Incarnation, Index, Instant, NodeId, Position, Term};
use serde::{Deserialize, Serialize};

use crate::holding::{Holding, Role};

/// What this node has heard of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    nodes: BTreeMap<NodeId, Sighting>,
}

/// One of the others, seen from here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    pub reachable: bool,
    /// By the clock of whoever looks: its rows are at least this old.
    pub heard: Instant,
    pub node: NodeRow,
    pub buckets: BTreeMap<BucketId, BucketRow>,
}

/// A node about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeRow {
    /// The newest epoch that it has acted on, durably. It never goes back, so an old row only understates.
    pub echoed: Epoch,
    /// Bytes of data that it holds.
    pub bytes: u64,
    /// It is about to end: nobody gives it another part.
    pub leaving: bool,
    /// Bytes that its disk can still take, if it knows.
    pub free: Option<u64>,
}

/// A node about one replica of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BucketRow {
    pub incarnation: Incarnation,
    pub promised: Term,
    pub part: Part,
    pub applied: Index,
    pub last: Position,
    pub missing: u32,
    /// Slots that keep it from ever leading the bucket: it lacks them and nothing on the node will bring them, or they are another bucket's.
    /// Only a repair asks: nothing is amiss with a member.
    pub amiss: u32,
    /// About what its tables take.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Part {
    /// Not used until it is known what it lacks: see [`Directory::aside`].
    Aside,
    Follows,
    /// Leads, or is about to.
    Rises,
    Serves,
}

impl Directory {
    pub fn sighting(&self, node: NodeId) -> Option<&Sighting> {
        self.nodes.get(&node)
    }

    pub fn sighting_mut(&mut self, node: NodeId) -> &mut Sighting {
        self.nodes.entry(node).or_default()
    }

    pub fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Sighting)> {
        self.nodes.iter().map(|(id, sighting)| (*id, sighting))
    }

    /// A node of which nothing is known has echoed nothing.
    pub fn echoed(&self, node: NodeId) -> Epoch {
        self.nodes.get(&node).map_or(Epoch(0), |s| s.node.echoed)
    }

    pub fn is_reachable(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|s| s.reachable)
    }

    pub fn is_leaving(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|s| s.node.leaving)
    }

    /// What that node holds of it.
    pub fn row(&self, node: NodeId, bucket: BucketId) -> Option<&BucketRow> {
        self.any_row(node, bucket).filter(|row| row.part != Part::Aside)
    }

    /// What that node has set aside: the end of what it once answered may be missing (R10, level `memory`).
    pub fn aside(&self, node: NodeId, bucket: BucketId) -> Option<&BucketRow> {
        self.any_row(node, bucket).filter(|row| row.part == Part::Aside)
    }

    fn any_row(&self, node: NodeId, bucket: BucketId) -> Option<&BucketRow> {
        self.nodes.get(&node)?.buckets.get(&bucket)
    }
}

impl From<&Holding> for BucketRow {
    fn from(holding: &Holding) -> Self {
        let part = match &holding.role {
            Role::Following => Part::Follows,
            Role::Leading(leading) if leading.serving => Part::Serves,
            Role::Leading(_) | Role::Ascending { .. } | Role::Restarted { .. } => Part::Rises,
        };
        Self {
            incarnation: holding.member.incarnation,
            promised: holding.promised,
            part,
            applied: holding.applied,
            last: holding.last,
            missing: holding.missing,
            amiss: 0, // which takes more than one replica to know
            bytes: holding.bytes,
        }
    }
}
