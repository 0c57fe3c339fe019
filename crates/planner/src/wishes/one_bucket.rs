//! One bucket: who leads it, and who holds it.

use alloc::format;
use alloc::vec::Vec;

use blueprint::{BucketId, KeyspaceId, NodeId};

use crate::draft::{Draft, Purpose};
use crate::objection::Objection;
use crate::sketch::{BucketAt, NodeAt};

impl Draft<'_> {
    pub(crate) fn swap_primary(&mut self, bucket: BucketId, node: NodeId) -> Option<Purpose> {
        let (at, to) = (self.free_bucket(bucket), self.open_node(node));
        let (at, to) = (at?, to?);
        if !self.sketch.buckets[at].held(to) {
            self.object(Objection::NotAMember { node, buckets: bucket.into() });
            return None;
        }
        self.sketch.buckets[at].leader = to;
        Some(Purpose {
            why: format!("{node} leads {bucket}"),
            idle: format!("{node} leads {bucket} already"),
            hand_over: "led until now",
            first: Vec::new(),
        })
    }

    /// Only what it is a member of already: nothing is copied.
    pub(crate) fn take_lead(&mut self, node: NodeId, keyspace: KeyspaceId) -> Option<Purpose> {
        let to = self.open_node(node);
        self.known_keyspace(keyspace)?;
        let to = to?;
        for bucket in self.of_keyspace(keyspace) {
            let piece = &self.sketch.buckets[bucket];
            if piece.members.contains(&to) && piece.leader != to && self.is_free(bucket) {
                self.sketch.buckets[bucket].leader = to;
            }
        }
        Some(Purpose {
            why: format!("{node} leads all of {keyspace} that it has a copy of"),
            idle: format!("{node} leads all of {keyspace} that it has a copy of already"),
            hand_over: "led until now",
            first: Vec::new(),
        })
    }

    pub(crate) fn move_replica(&mut self, bucket: BucketId, from: NodeId, to: NodeId) -> Option<Purpose> {
        let (at, old, new) = (self.free_bucket(bucket), self.known_node(from), self.open_node(to));
        let (at, old, new) = (at?, old?, new?);
        if old == new {
            self.object(Objection::SameNode(from));
            return None;
        }
        if !self.sketch.buckets[at].held(old) {
            self.object(Objection::NotAMember { node: from, buckets: bucket.into() });
            return None;
        }
        self.replace(at, old, new);
        self.require_disk(new, &[at]);
        Some(Purpose {
            why: format!("{to} takes the part of {from} in {bucket}"),
            idle: format!("{to} has it already"),
            hand_over: "led until now",
            first: Vec::new(),
        })
    }

    /// `to` holds it instead of `from`, and leads it if that did. Objects if it must not.
    pub(crate) fn replace(&mut self, bucket: BucketAt, from: NodeAt, to: NodeAt) {
        let id = self.sketch.buckets[bucket].id;
        let node = self.sketch.nodes[to].id;
        if self.sketch.buckets[bucket].copies.contains(&to) {
            self.object(Objection::AlreadyMember { node, buckets: id.into() });
            return;
        }
        self.sketch.take(bucket, from);
        let same_zone = self.sketch.nodes[from].zone == self.sketch.nodes[to].zone;
        if !same_zone && self.is_wrong_zone(bucket, to) {
            let zone = self.sketch.zones[self.sketch.nodes[to].zone].clone();
            self.object(Objection::WrongZone { node, zone, buckets: id.into() });
        }
        self.sketch.buckets[bucket].copies.push(to);
        if self.sketch.buckets[bucket].leader == from {
            self.sketch.buckets[bucket].leader = to;
        }
    }

    /// Its zone has as many copies as it should have, and another node could be chosen.
    fn is_wrong_zone(&self, bucket: BucketAt, to: NodeAt) -> bool {
        let (sketch, piece) = (&self.sketch, &self.sketch.buckets[bucket]);
        let most = sketch.zone_rule().most(piece.wanted);
        let is_full = |node: NodeAt| sketch.copies_in_zone(bucket, sketch.nodes[node].zone) >= most;
        let others = || sketch.open_nodes().filter(|node| !piece.copies.contains(node));
        is_full(to) && others().any(|node| !is_full(node))
    }

    /// Objects if the node has no room for all of these that it does not hold already.
    pub(crate) fn require_disk(&mut self, node: NodeAt, buckets: &[BucketAt]) {
        let site = &self.sketch.nodes[node];
        let new = buckets.iter().map(|at| &self.sketch.buckets[*at]).filter(|piece| !piece.held(node));
        let needed: u64 = new.filter_map(|piece| piece.bytes).sum();
        if let Some(free) = site.free.filter(|free| *free < needed) {
            self.object(Objection::OutOfDisk { node: site.id, needed, free });
        }
    }
}
