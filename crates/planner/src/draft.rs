//! A plan in the making: the sketch, and what speaks against it.

use alloc::string::String;
use alloc::vec::Vec;

use blueprint::{Blueprint, BucketId, Keyspace, KeyspaceId, NodeId, Step};

use crate::objection::Objection;
use crate::plan::Plan;
use crate::schedule::schedule;
use crate::sketch::{BucketAt, Fixed, NodeAt, SiteState, Sketch};
use crate::wish::{Facts, Limits, Wish};

/// What is to be done so that the wish comes true, or all that speaks against it. That nothing is to be done is an empty plan.
pub fn plan(blueprint: &Blueprint, facts: &Facts, limits: Limits, wish: &Wish) -> Result<Plan, Vec<Objection>> {
    let sketch = Sketch::of(blueprint, facts);
    let mut draft = Draft { blueprint, sketch, objections: Vec::new() };
    if let Wish::RollingRestart { nodes } = wish {
        let plan = draft.rolling_restart(nodes);
        return plan.filter(|_| draft.objections.is_empty()).ok_or(draft.objections);
    }
    let purpose = match wish {
        Wish::AddNode { node } => draft.add_node(*node),
        Wish::Rebalance { keyspace } => draft.rebalance(*keyspace),
        Wish::RemoveNode { node } => draft.remove_node(*node),
        Wish::ReplaceNode { old, new } => draft.replace_node(*old, *new),
        Wish::Drain { node } => draft.drain(*node),
        Wish::Undrain { node } => draft.undrain(*node),
        Wish::SwapPrimary { bucket, node } => draft.swap_primary(*bucket, *node),
        Wish::MoveReplica { bucket, from, to } => draft.move_replica(*bucket, *from, *to),
        Wish::MigrateSlots { keyspace, slots, to } => draft.migrate_slots(*keyspace, slots, *to),
        Wish::MigrateEach { keyspace, moves } => draft.migrate_each(*keyspace, moves),
        Wish::TakeLead { node, keyspace } => draft.take_lead(*node, *keyspace),
        Wish::SplitBucket { bucket, slots } => draft.split_bucket(*bucket, slots.as_ref()),
        Wish::MergeBuckets { bucket, into } => draft.merge_buckets(*bucket, *into),
        Wish::DoubleBuckets { keyspace } => draft.double_buckets(*keyspace),
        Wish::RollingRestart { .. } => unreachable!("planned above"),
        Wish::SetReplicas { keyspace, replicas } => draft.set_replicas(*keyspace, *replicas),
        Wish::RemoveKeyspace { keyspace } => draft.remove_keyspace(*keyspace),
    };
    match purpose {
        Some(purpose) if draft.objections.is_empty() => Ok(schedule(&draft.sketch, blueprint.epoch, limits, purpose)),
        _ => {
            assert!(!draft.objections.is_empty(), "whoever refuses says why");
            Err(draft.objections)
        }
    }
}

pub(crate) struct Draft<'a> {
    pub(crate) blueprint: &'a Blueprint,
    pub(crate) sketch: Sketch,
    pub(crate) objections: Vec<Objection>,
}

/// What a plan is for, in words.
pub(crate) struct Purpose {
    pub(crate) why: String,
    /// Why nothing is to be done, should that be so.
    pub(crate) idle: String,
    /// Of a primary that stays as a secondary, why it hands over.
    pub(crate) hand_over: &'static str,
    /// What comes before everything else, and why: otherwise others would undo what the steps do.
    pub(crate) first: Vec<(Step, String)>,
}

impl Draft<'_> {
    pub(crate) fn object(&mut self, objection: Objection) {
        objection.add(&mut self.objections);
    }

    pub(crate) fn known_node(&mut self, id: NodeId) -> Option<NodeAt> {
        let node = self.sketch.node(id);
        if node.is_none() {
            self.object(Objection::UnknownNode(id));
        }
        node
    }

    /// One that can be given something.
    pub(crate) fn open_node(&mut self, id: NodeId) -> Option<NodeAt> {
        let node = self.known_node(id)?;
        match self.sketch.nodes[node].state {
            SiteState::Open => return Some(node),
            SiteState::Departed => self.object(Objection::DepartedNode(id)),
            SiteState::Draining | SiteState::Leaving => self.object(Objection::DrainingNode(id)),
        }
        None
    }

    pub(crate) fn known_keyspace(&mut self, id: KeyspaceId) -> Option<&Keyspace> {
        if self.blueprint.routes(id).is_none() {
            self.object(Objection::UnknownKeyspace(id));
            return None;
        }
        self.blueprint.keyspaces.get(&id)
    }

    /// One that can be changed.
    pub(crate) fn free_bucket(&mut self, id: BucketId) -> Option<BucketAt> {
        let Some(bucket) = self.sketch.bucket(id) else {
            self.object(Objection::UnknownBucket(id));
            return None;
        };
        self.is_free(bucket).then_some(bucket)
    }

    /// Objects if it is not.
    pub(crate) fn is_free(&mut self, bucket: BucketAt) -> bool {
        let piece = &self.sketch.buckets[bucket];
        let buckets = piece.id.into();
        match piece.fixed {
            None => return true,
            Some(Fixed::Busy(by)) => self.object(Objection::BucketBusy { by, buckets }),
            Some(Fixed::Merging(with)) => self.object(Objection::Merging { with, buckets }),
            Some(Fixed::PrimaryDeparted(node)) => self.object(Objection::PrimaryDeparted { node, buckets }),
        }
        false
    }

    pub(crate) fn of_keyspace(&self, keyspace: KeyspaceId) -> Vec<BucketAt> {
        self.buckets_where(|sketch, bucket| sketch.buckets[bucket].keyspace == keyspace)
    }

    pub(crate) fn buckets_where(&self, such: impl Fn(&Sketch, BucketAt) -> bool) -> Vec<BucketAt> {
        (0..self.sketch.buckets.len()).filter(|bucket| such(&self.sketch, *bucket)).collect()
    }
}

/// Every bucket there is.
pub(crate) fn all(_: &Sketch, _: BucketAt) -> bool {
    true
}
