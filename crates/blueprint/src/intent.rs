//! What operators have in mind with a node and with a keyspace: marks that stand in the blueprint until somebody changes them.
//!
//! A mark moves nothing by itself. It says what everyone who decides something is to heed: recovery, whoever names a successor, the
//! planner. What is there is changed by the steps of operations.

use serde::{Deserialize, Serialize};

use crate::blueprint::{Blueprint, Keyspace};
use crate::command::Outcome;
use crate::{Hitch, KeyspaceId, NodeId, Operation, OperationId, Refusal, Standing, Step};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Intent {
    /// It takes part in everything.
    #[default]
    Stays,
    /// It keeps its copies (after a restart, too), is given no others, and leads only what nobody else can.
    Drains,
    /// The same, and what it holds is to go elsewhere: it is not even given back what it held.
    Goes,
}

impl Blueprint {
    pub fn intent(&self, node: NodeId) -> Intent {
        self.nodes.get(&node).map_or(Intent::Stays, |n| n.intent)
    }

    /// It is to be given nothing, and to lead nothing that others can.
    pub fn drains(&self, node: NodeId) -> bool {
        self.intent(node) != Intent::Stays
    }

    pub(crate) fn mark_node(
        &mut self,
        id: NodeId,
        intent: Intent,
        of: Option<(OperationId, u32)>,
    ) -> Result<Outcome, Refusal> {
        let node = self.nodes.get_mut(&id).ok_or(Refusal::UnknownNode(id))?;
        if node.intent == intent {
            return Ok(Outcome::Nothing);
        }
        if let Some((operation, step)) = of {
            let at_it = |o: &&mut Operation| o.is_under_way() && o.at == step;
            let operation = self.operations.get_mut(&operation).filter(at_it);
            match operation.and_then(|o| o.steps.get_mut(step as usize)) {
                Some(Step::Mark { node: n, intent: i, was }) if (*n, *i) == (id, intent) => *was = Some(node.intent),
                _ => return Ok(Outcome::Nothing), // said too late
            }
        }
        node.intent = intent;
        Ok(Outcome::Changed)
    }

    /// Unless somebody has changed their mind about it since.
    pub(crate) fn unmark_node(&mut self, id: NodeId, intent: Intent, was: Intent) {
        if let Some(node) = self.nodes.get_mut(&id).filter(|node| node.intent == intent) {
            node.intent = was;
        }
    }

    /// How many copies are wanted from now on. Those that are missing are enlisted, those that are too many let go, by an operation or by
    /// their primaries. The minimum belongs to each government (R8): where it is above what is asked for, it is lowered first.
    pub(crate) fn set_replicas(&mut self, id: KeyspaceId, replicas: u8) -> Result<Outcome, Refusal> {
        let keyspace = self.require_governed_keyspace(id)?;
        if replicas == 0 {
            return Err(Refusal::BadReplicas(replicas));
        }
        if keyspace.replicas == replicas {
            return Ok(Outcome::Nothing);
        }
        if let Some(min) = self.minimum_above(id, replicas) {
            return Err(Refusal::BadMinimum { min, replicas });
        }
        let min_in_sync = keyspace.minimum_with(keyspace.min_in_sync, replicas);
        let keyspace = self.keyspaces.get_mut(&id).expect("found above");
        (keyspace.replicas, keyspace.min_in_sync) = (replicas, min_in_sync);
        Ok(Outcome::Changed)
    }

    /// What a bucket of it needs for each write (R8), if that is more than so many copies could ever be.
    fn minimum_above(&self, keyspace: KeyspaceId, replicas: u8) -> Option<u8> {
        let governments = self.buckets_of(keyspace).filter_map(|bucket| bucket.government());
        governments.map(|g| g.min_in_sync).max().filter(|min| *min > replicas)
    }

    pub(crate) fn require_governed_keyspace(&self, id: KeyspaceId) -> Result<&Keyspace, Refusal> {
        let keyspace = self.keyspaces.get(&id).filter(|_| !self.is_removed(id));
        keyspace.ok_or(Refusal::UnknownKeyspace(id))
    }

    /// How a step stands that is about a node or a whole keyspace; none of one that is about a bucket.
    pub(crate) fn standing_at_large(&self, step: &Step) -> Option<Standing> {
        let true_if = |is_true| if is_true { Standing::True } else { Standing::Open };
        Some(match *step {
            Step::Mark { node, intent, .. } => match self.nodes.get(&node) {
                Some(known) => true_if(known.intent == intent),
                None => Standing::Hitched(Hitch::NodeGone(node)),
            },
            Step::SetReplicas { keyspace, replicas } => match self.require_governed_keyspace(keyspace) {
                Ok(known) if known.replicas == replicas => Standing::True,
                Ok(_) => match self.minimum_above(keyspace, replicas) {
                    Some(min) => Standing::Hitched(Hitch::MinimumAbove { keyspace, replicas, min }),
                    None => Standing::Open,
                },
                Err(_) => Standing::Hitched(Hitch::KeyspaceGone(keyspace)),
            },
            Step::RemoveKeyspace { keyspace } => true_if(self.require_governed_keyspace(keyspace).is_err()),
            Step::AwaitErased { keyspace } => true_if(!self.keyspaces.contains_key(&keyspace)),
            Step::Enlist { .. }
            | Step::AwaitSeated { .. }
            | Step::HandOver { .. }
            | Step::Dismiss { .. }
            | Step::Split { .. }
            | Step::Merge { .. }
            | Step::AwaitRestart { .. }
            | Step::Repair { .. }
            | Step::SetMinimum { .. } => return None,
        })
    }

    /// A step that is about a node or a whole keyspace makes sense by what is known now.
    pub(crate) fn require_step_at_large(&self, step: &Step) -> Result<(), Refusal> {
        match *step {
            Step::Mark { node, .. } => {
                self.nodes.get(&node).ok_or(Refusal::UnknownNode(node))?;
            }
            Step::SetReplicas { replicas: 0, .. } => return Err(Refusal::BadReplicas(0)),
            Step::SetReplicas { keyspace, .. } => {
                self.require_governed_keyspace(keyspace)?;
            }
            Step::RemoveKeyspace { keyspace } => {
                self.require_governed_keyspace(keyspace)?;
                for bucket in self.buckets_of(keyspace) {
                    if let Some(other) = self.operation_on(bucket.id) {
                        return Err(Refusal::BucketBusy { bucket: bucket.id, by: other.id });
                    }
                }
            }
            Step::AwaitErased { .. }
            | Step::Enlist { .. }
            | Step::AwaitSeated { .. }
            | Step::HandOver { .. }
            | Step::Dismiss { .. }
            | Step::Split { .. }
            | Step::Merge { .. }
            | Step::AwaitRestart { .. }
            | Step::Repair { .. }
            | Step::SetMinimum { .. } => {}
        }
        Ok(())
    }
}

impl Keyspace {
    /// The minimum that a bucket with this one should have when so many copies are wanted: what follows from the number still does (the
    /// smaller of 2 and that), and what somebody chose stays, as far as it is possible.
    pub fn minimum_with(&self, minimum: u8, replicas: u8) -> u8 {
        if minimum == default_minimum(self.replicas) { default_minimum(replicas) } else { minimum.min(replicas) }
    }
}

/// R8.
pub(crate) fn default_minimum(replicas: u8) -> u8 {
    replicas.min(2)
}
