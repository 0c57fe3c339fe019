//! How fast the copies of an operation may be made: at its throttle all together, and not at all while it is paused.
//!
//! Everyone who fills a candidate finds its share here, in the blueprint alone: the throttle, divided by the candidates that the
//! operation has now. So nobody has to ask anybody, wherever the primaries are, and a share grows as others are seated.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::blueprint::Blueprint;
use crate::command::Outcome;
use crate::{BucketId, NodeId, Operation, OperationId, OperationState, Refusal};

impl Blueprint {
    /// For each bucket, those of its candidates that are not to be filled as fast as possible, and at how many bytes per second; 0
    /// is not at all.
    pub fn throttles(&self) -> BTreeMap<BucketId, Vec<(NodeId, u64)>> {
        let mut found: BTreeMap<BucketId, Vec<(NodeId, u64)>> = BTreeMap::new();
        for operation in self.operations.values().filter(|operation| operation.is_under_way()) {
            let Some(rate) = operation.rate() else { continue };
            let filled: Vec<(BucketId, NodeId)> = self.filled_by(operation).collect();
            let share = if rate == 0 { 0 } else { (rate / (filled.len() as u64).max(1)).max(1) };
            for (bucket, node) in filled {
                found.entry(bucket).or_default().push((node, share));
            }
        }
        found
    }

    /// The operation under way that made this node a candidate of that bucket.
    pub fn enlisted_by(&self, bucket: BucketId, node: NodeId) -> Option<&Operation> {
        self.operation_on(bucket).filter(|operation| operation.enlisted().contains(&(bucket, node)))
    }

    /// Whom it made a candidate, and is one now.
    fn filled_by(&self, operation: &Operation) -> impl Iterator<Item = (BucketId, NodeId)> + '_ {
        let is_candidate = |bucket, node| {
            self.government(bucket).is_some_and(|government| government.candidates.iter().any(|c| c.node == node))
        };
        operation.enlisted().into_iter().filter(move |(bucket, node)| is_candidate(*bucket, *node))
    }

    pub(crate) fn throttle_operation(&mut self, id: OperationId, rate: Option<u64>) -> Result<Outcome, Refusal> {
        let operation = self.operations.get_mut(&id).ok_or(Refusal::UnknownOperation(id))?;
        if operation.is_over() {
            return Err(Refusal::OperationOver(id));
        }
        if rate == Some(0) {
            return Err(Refusal::BadThrottle(id));
        }
        if operation.throttle == rate {
            return Ok(Outcome::Nothing);
        }
        operation.throttle = rate;
        Ok(Outcome::Changed)
    }
}

impl Operation {
    /// At how many bytes per second its copies are made, all together; none: as fast as they can.
    fn rate(&self) -> Option<u64> {
        if self.state == OperationState::Paused { Some(0) } else { self.throttle }
    }
}
