//! What becomes of the parts of nodes that departed: bucket by bucket, each a compare and set.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::blueprint::{Blueprint, NodeState};
use crate::command::Outcome;
use crate::{Breach, BucketId, Change, Conduct, Government, Incarnation, NodeId, Refusal, Term};

/// Many buckets in one change, so that the death of a node is one epoch and not one per bucket. Who has more asks twice.
pub(crate) const MAX_PARTS: usize = 1024;

/// The next government of one bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Succession {
    pub bucket: BucketId,
    pub replaces: Term,
    pub change: Change,
}

impl Blueprint {
    /// Each bucket gets its next government if it still has the one that was decided on, and if whoever loses its part has
    /// departed; otherwise it has moved on, and is skipped.
    pub(crate) fn relieve<C: Conduct>(&mut self, parts: &[Succession]) -> Result<Outcome, Refusal> {
        if parts.len() > MAX_PARTS {
            return Err(Refusal::TooManyParts(parts.len()));
        }
        let fresh = Incarnation(self.epoch.next().0);
        let mut made: Vec<(BucketId, Government)> = Vec::new();
        for part in parts {
            let Some(government) = self.government(part.bucket) else { continue };
            // One bucket changes once: a term is never ahead of the epoch.
            if made.iter().any(|(bucket, _)| *bucket == part.bucket) {
                continue;
            }
            if C::breaks(Breach::TwoSuccessors)
                && let Some(another) = write_over(government, part, fresh)
            {
                made.push((part.bucket, another));
                continue;
            }
            if government.term != part.replaces || !self.is_relief(government, &part.change) {
                continue;
            }
            if let Ok(next) = self.follows(part.bucket, &part.change) {
                assert_eq!(next[0].1.term, part.replaces.next(), "each term has one successor");
                made.extend(next);
            }
        }
        let outcome = if made.is_empty() { Outcome::Nothing } else { Outcome::Changed };
        self.install(made);
        Ok(outcome)
    }

    /// It takes its part from a node that has departed, and gives it to none that has.
    fn is_relief(&self, government: &Government, change: &Change) -> bool {
        let departed = |node: NodeId| self.nodes.get(&node).is_some_and(|n| n.state == NodeState::Departed);
        match change {
            Change::Usurp { to, .. } => departed(government.primary.node) && self.is_present(to.node),
            Change::Dismiss { secondary, .. } => departed(secondary.node),
            Change::Drop { candidate } => departed(candidate.node),
            Change::Disown { heir } => departed(heir.node),
            Change::Enlist { .. }
            | Change::Seat { .. }
            | Change::HandOver { .. }
            | Change::Renew { .. }
            | Change::SetMinInSync { .. } => false,
        }
    }
}

/// The planted bug: a second successor of the same term, as if the first had never been.
fn write_over(government: &Government, part: &Succession, fresh: Incarnation) -> Option<Government> {
    let Change::Usurp { to, .. } = part.change else { return None };
    if government.term != part.replaces.next() {
        return None;
    }
    let before = Government { term: part.replaces, ..government.clone() };
    before.succeed(&Change::HandOver { to, by: government.primary }, fresh).ok()
}
