//! What plans go by besides the blueprint: sizes, room on disks, who is about to end. All of it from the directory, so it may be a
//! second old, and what is not known there is left out.

use std::collections::{BTreeMap, BTreeSet};

use blueprint::{Blueprint, Bucket, BucketId, NodeId};
use planner::Facts;
use reactor::{BucketRow, Directory, NodeRow};

/// Smaller buckets are balanced as if they were as large as this: to move one takes no time, and what matters of them is how many
/// there are. (Or a cluster with a handful of keys would be shuffled whenever one of them goes.)
const LEAST: u64 = 1 << 20;

/// What this node knows of itself and of the others.
pub(crate) struct Known<'a> {
    pub(crate) me: NodeId,
    pub(crate) blueprint: &'a Blueprint,
    pub(crate) directory: &'a Directory,
    pub(crate) own: BTreeMap<BucketId, BucketRow>,
    pub(crate) node: NodeRow,
}

impl<'a> Known<'a> {
    pub(crate) fn of(driver: &crate::desk::Driver, desk: &'a node::Desk<blueprint::Honest>) -> Self {
        Self {
            me: driver.me,
            blueprint: desk.blueprint(),
            directory: desk.directory(),
            own: desk.rows().map(|(bucket, row)| (bucket, *row)).collect(),
            node: desk.node_row(),
        }
    }

    pub(crate) fn row(&self, node: NodeId, bucket: BucketId) -> Option<&BucketRow> {
        if node == self.me { self.own.get(&bucket) } else { self.directory.row(node, bucket) }
    }

    /// What one copy of it takes, as its primary says; or else whoever of its members has most.
    pub(crate) fn bytes(&self, bucket: &Bucket) -> Option<u64> {
        let government = bucket.government()?;
        let said = |node| self.row(node, bucket.id).map(|row| row.bytes);
        said(government.primary.node).or_else(|| government.members().filter_map(|member| said(member.node)).max())
    }

    pub(crate) fn facts(&self) -> Facts {
        let others =
            || self.directory.iter().filter(|(node, _)| *node != self.me).map(|(node, seen)| (node, seen.node));
        let rows: BTreeMap<NodeId, NodeRow> = others().chain([(self.me, self.node)]).collect();
        let buckets = self.blueprint.buckets.values();
        let leaving: BTreeSet<NodeId> = rows.iter().filter(|(_, row)| row.leaving).map(|(node, _)| *node).collect();
        Facts {
            bytes: buckets.filter_map(|bucket| Some((bucket.id, self.bytes(bucket)?))).collect(),
            free: rows.iter().filter_map(|(node, row)| Some((*node, row.free?))).collect(),
            leaving,
            least: LEAST,
        }
    }
}
