//! What the cluster does by itself, once somebody has asked for that: it rebalances.
//!
//! The wish stands here until somebody takes it back. What comes of it is an operation like any other, but for how it begins: nobody
//! looks at its plan first. So it is accepted only while the wish stands, on exactly the blueprint that it was planned by, and while
//! nothing else is going on ([`Blueprint::unrest`]): whoever planned it is not believed but checked. When it is worth the way is for
//! the planner to say, and when it is time for the coordinators.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::blueprint::{Blueprint, Bucket, NodeState};
use crate::command::Outcome;
use crate::soundness::is_words;
use crate::{BucketId, Epoch, Intent, NodeId, Operation, OperationId, OperationState, Refusal, Step};

/// What an operation says that nobody asked for. Nobody else may say it.
pub const AUTOMATIC: &str = "automatic: rebalance";

/// It rebalances by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AutoRebalance {
    /// Who asked for it.
    pub by: String,
    /// The first operation that could come of it: how those before ended is no concern of this wish.
    pub from: OperationId,
}

/// Why this is no time to rebalance by itself: something else will change the cluster, or somebody is away who may be back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Unrest {
    UnderWay(OperationId),
    Departed(NodeId),
    Drains(NodeId),
    /// It has not as many members as wanted, or has candidates.
    Members(BucketId),
    Merging(BucketId),
}

impl Blueprint {
    /// The first thing that speaks against it.
    pub fn unrest(&self) -> Option<Unrest> {
        if let Some(operation) = self.operations.values().find(|o| o.is_under_way()) {
            return Some(Unrest::UnderWay(operation.id));
        }
        for node in self.nodes.values() {
            // One that was removed stays in the list, and one whose name another bears is gone for good: nobody waits for them.
            let is_done_with = || self.is_replaced(node.id) || (node.intent == Intent::Goes && !self.is_named(node.id));
            match (node.state, node.intent) {
                (NodeState::Present, Intent::Stays) => {}
                (NodeState::Departed, _) if !is_done_with() => return Some(Unrest::Departed(node.id)),
                (NodeState::Present, _) if !is_done_with() => return Some(Unrest::Drains(node.id)),
                _ => {}
            }
        }
        self.buckets.values().find_map(|bucket| self.unrest_in(bucket))
    }

    fn unrest_in(&self, bucket: &Bucket) -> Option<Unrest> {
        let government = bucket.government()?;
        if bucket.bond.is_some() {
            return Some(Unrest::Merging(bucket.id));
        }
        let settled = government.size() == self.wanted(bucket.id) && government.candidates.is_empty();
        (!settled).then_some(Unrest::Members(bucket.id))
    }

    /// It has a part in some bucket.
    fn is_named(&self, node: NodeId) -> bool {
        self.buckets.values().filter_map(Bucket::government).any(|g| g.everyone().any(|m| m.node == node))
    }

    /// The last operation that came of the wish, if it did not end well: a while passes before the next one.
    pub fn automatic_setback(&self) -> Option<&Operation> {
        let from = self.auto_rebalance.as_ref()?.from;
        let last = self.operations.range(from..).rev().map(|(_, o)| o).find(|o| o.is_automatic())?;
        match last.state {
            OperationState::Failed { .. } | OperationState::Cancelled { .. } => Some(last),
            OperationState::Planned | OperationState::Running | OperationState::Paused | OperationState::Done => None,
        }
    }

    pub(crate) fn set_auto_rebalance(&mut self, on: bool, by: &str) -> Result<Outcome, Refusal> {
        if !is_words(by) {
            return Err(Refusal::BadWords);
        }
        if self.auto_rebalance.is_some() == on {
            return Ok(Outcome::Nothing);
        }
        self.auto_rebalance = on.then(|| AutoRebalance { by: by.into(), from: self.next_operation });
        Ok(Outcome::Changed)
    }

    pub(crate) fn rebalance(&mut self, id: OperationId, based_on: Epoch, steps: &[Step]) -> Result<Outcome, Refusal> {
        let is_known = self.operations.contains_key(&id);
        if !is_known && self.auto_rebalance.is_none() {
            return Err(Refusal::NotAutomatic);
        }
        if !is_known && based_on != self.epoch {
            return Err(Refusal::MovedOn { based_on, epoch: self.epoch });
        }
        if let Some(why) = self.unrest().filter(|_| !is_known) {
            return Err(Refusal::Unrest(why));
        }
        self.start_operation(id, AUTOMATIC, steps, OperationState::Running)
    }
}

impl Operation {
    /// Nobody asked for it by itself: it came of the wish that the cluster rebalances.
    pub fn is_automatic(&self) -> bool {
        self.started_by == AUTOMATIC
    }
}

/// Of whoever starts an operation.
pub(crate) fn require_somebody(by: &str) -> Result<(), Refusal> {
    if by == AUTOMATIC { Err(Refusal::SaysAutomatic) } else { Ok(()) }
}

impl fmt::Display for Unrest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnderWay(operation) => write!(f, "{operation} is over"),
            Self::Departed(node) => write!(f, "{node}, which has departed, is back or removed"),
            Self::Drains(node) => write!(f, "{node}, which drains or leaves, stays or has gone"),
            Self::Members(bucket) => write!(f, "{bucket} has as many members as wanted, and no candidates"),
            Self::Merging(bucket) => write!(f, "{bucket} is merged"),
        }
    }
}
