//! A topology change as a durable object: a list of steps, each of which is made true before the next is begun.
//!
//! The list lives in the blueprint, so any coordinator carries it on after any crash. Whether a step *is* true, still open, or can
//! never come true is decided here, from the blueprint alone ([`Blueprint::standing`]); whoever says "advance" is not believed but
//! checked, so a coordinator that knows less than it thinks does no harm. What is done *for* a step is the coordinator's part.
//!
//! A step has a commit point: the change of the blueprint that makes it true. Before it, whatever ends the operation (a cancel, a
//! target that departs) takes back what the step began: falling back. After it, what the step made stays, and the operation goes
//! on from there or ends there: falling forward. Nothing here knows a time-out.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::blueprint::{Birth, Blueprint};
use crate::command::{MAX_RESERVED, Outcome};
use crate::soundness::{MAX_WISH, is_wish, is_words};
use crate::{
    Bond, BucketId, Change, Government, Intent, KeyspaceId, NodeId, OperationId, Refusal, SlotSet, Unlawful, Unlike,
};

/// An operation travels whole with each of its steps. A larger change is several operations.
pub const MAX_STEPS: usize = 1024;
/// More than anybody watches at once.
pub(crate) const MAX_UNFINISHED: usize = 256;
/// How many of those that are over are remembered: enough for an answer that was lost. The audit trail is kept elsewhere.
pub(crate) const MAX_FINISHED: usize = 64;
/// Plans that nobody applied: the oldest goes when there is one more.
pub(crate) const MAX_PLANNED: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operation {
    pub id: OperationId,
    /// Who asked for it, and what they called it.
    pub started_by: String,
    pub steps: Vec<Step>,
    /// The step that is to come true next, counted from 0; all before it did.
    pub at: u32,
    pub state: OperationState,
    /// The copies that it makes take at most so many bytes per second, all of them together.
    pub throttle: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Step {
    /// The node is a candidate of the bucket, or more.
    Enlist { bucket: BucketId, node: NodeId },
    /// The node is a member: its primary has seated it (R6).
    AwaitSeated { bucket: BucketId, node: NodeId },
    /// The node, a secondary before, leads.
    HandOver { bucket: BucketId, to: NodeId },
    /// The node is neither member nor candidate. Only once everyone that this operation seated there is a member.
    Dismiss { bucket: BucketId, node: NodeId },
    /// The child, whose id was reserved when the operation started, has these slots.
    Split { bucket: BucketId, child: BucketId, slots: SlotSet },
    /// The bucket is no more: the other one has absorbed it. To be bound is its commit point; from then on nobody can keep them from it.
    Merge { bucket: BucketId, into: BucketId },
    /// This is in mind with the node. Should the operation not come to its end, it is again what it was when the operation changed it.
    Mark { node: NodeId, intent: Intent, was: Option<Intent> },
    /// Each bucket of the keyspace should have so many members.
    SetReplicas { keyspace: KeyspaceId, replicas: u8 },
    /// Below this many members the bucket takes no writes (R8).
    SetMinimum { bucket: BucketId, min: u8 },
    /// The keyspace is removed: it has no name, and its buckets no members.
    RemoveKeyspace { keyspace: KeyspaceId },
    /// Every holder has erased what it held of it, and it is gone.
    AwaitErased { keyspace: KeyspaceId },
    /// The node's process is a later one than that, and the bucket has all its members again.
    AwaitRestart { bucket: BucketId, node: NodeId, life: u64 },
    /// It was repaired, from the copy of that node or empty. Never planned: it stands here so that everyone can read that it was done.
    Repair { bucket: BucketId, from: Option<NodeId> },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OperationState {
    Running,
    /// Nothing new is begun. What the members do by themselves (seat a candidate) they still do.
    /// Its copies stand still, too.
    Paused,
    Done,
    /// A step can no longer come true.
    Failed {
        why: Hitch,
    },
    Cancelled {
        why: String,
    },
    /// Shown to whoever asked for it, and not begun: it holds nothing, and may make no sense any more when it is applied.
    Planned,
}

/// How the present step of an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    True,
    Open,
    Hitched(Hitch),
}

/// Why a step can no longer come true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Hitch {
    #[error("{0} is being removed or is gone")]
    BucketGone(BucketId),
    #[error("{0} has departed, or was removed")]
    NodeGone(NodeId),
    #[error("{node} is neither member nor candidate of {bucket} any more: somebody dismissed or dropped it")]
    NotNamed { bucket: BucketId, node: NodeId },
    #[error("{node} leads {bucket}: whoever leads must hand over before it can be dismissed")]
    Leads { bucket: BucketId, node: NodeId },
    #[error("{instead}, which was to take the place of {node} in {bucket}, has lost its own: {node} keeps its part")]
    ReplacementLost { bucket: BucketId, node: NodeId, instead: NodeId },
    #[error("the slots that {child} was to have are not in {bucket}, or are all that it has")]
    SlotsElsewhere { bucket: BucketId, child: BucketId },
    #[error("{bucket} and {into} cannot be merged as they are by now: {why}")]
    Unlike { bucket: BucketId, into: BucketId, why: Unlike },
    #[error("{0} is being removed or is gone")]
    KeyspaceGone(KeyspaceId),
    #[error(
        "{keyspace} cannot want {replicas}: a bucket of it needs {min} members for each write, which was raised after this was planned. \
         Plan it again"
    )]
    MinimumAbove { keyspace: KeyspaceId, replicas: u8, min: u8 },
}

impl Operation {
    pub fn is_over(&self) -> bool {
        match self.state {
            OperationState::Planned | OperationState::Running | OperationState::Paused => false,
            OperationState::Done | OperationState::Failed { .. } | OperationState::Cancelled { .. } => true,
        }
    }

    /// It has its hands on its buckets.
    pub fn is_under_way(&self) -> bool {
        matches!(self.state, OperationState::Running | OperationState::Paused)
    }

    /// The step that is to come true next; none when all did.
    pub fn step(&self) -> Option<&Step> {
        self.steps.get(self.at as usize)
    }

    /// Everything that it changes or makes.
    pub fn buckets(&self) -> BTreeSet<BucketId> {
        let others = self.steps.iter().filter_map(Step::other);
        self.steps.iter().filter_map(Step::bucket).chain(others).collect()
    }

    pub fn concerns(&self, bucket: BucketId) -> bool {
        self.steps.iter().any(|step| step.bucket() == Some(bucket) || step.other() == Some(bucket))
    }

    /// Whom it made a candidate, or is about to, and did not see seated. Who is enlisted ahead of the present step counts, too.
    pub(crate) fn enlisted(&self) -> Vec<(BucketId, NodeId)> {
        let seated = |bucket, node| self.seated(bucket).any(|n| n == node);
        self.steps
            .iter()
            .filter_map(|step| match *step {
                Step::Enlist { bucket, node } if !seated(bucket, node) => Some((bucket, node)),
                _ => None,
            })
            .collect()
    }

    /// Whom it marked, as what, and what was in mind with them before.
    fn marked(&self) -> Vec<(NodeId, Intent, Intent)> {
        let begun = self.steps.iter().take(self.at as usize + 1);
        let marked = |step: &Step| match *step {
            Step::Mark { node, intent, was } => Some((node, intent, was?)),
            _ => None,
        };
        begun.filter_map(marked).collect()
    }

    /// Who was seated in this bucket by the steps that came true.
    pub fn seated(&self, bucket: BucketId) -> impl Iterator<Item = NodeId> + '_ {
        self.seated_before(self.at, bucket)
    }

    /// Who was seated in this bucket when that step's turn has come.
    pub fn seated_before(&self, at: u32, bucket: BucketId) -> impl Iterator<Item = NodeId> + '_ {
        self.steps[..at as usize].iter().filter_map(move |step| match step {
            Step::AwaitSeated { bucket: b, node } if *b == bucket => Some(*node),
            _ => None,
        })
    }
}

impl Step {
    /// Without what it remembers from when it was carried out.
    fn as_planned(&self) -> Self {
        match self {
            Self::Mark { node, intent, .. } => Self::Mark { node: *node, intent: *intent, was: None },
            other => other.clone(),
        }
    }

    /// None if it is about a node, or about a whole keyspace.
    pub fn bucket(&self) -> Option<BucketId> {
        match self {
            Self::Enlist { bucket, .. }
            | Self::AwaitSeated { bucket, .. }
            | Self::HandOver { bucket, .. }
            | Self::Dismiss { bucket, .. }
            | Self::Split { bucket, .. }
            | Self::Merge { bucket, .. }
            | Self::AwaitRestart { bucket, .. }
            | Self::Repair { bucket, .. }
            | Self::SetMinimum { bucket, .. } => Some(*bucket),
            Self::Mark { .. } | Self::SetReplicas { .. } | Self::RemoveKeyspace { .. } | Self::AwaitErased { .. } => {
                None
            }
        }
    }

    pub fn child(&self) -> Option<BucketId> {
        if let Self::Split { child, .. } = self { Some(*child) } else { None }
    }

    /// The other bucket that it changes.
    fn other(&self) -> Option<BucketId> {
        if let Self::Merge { into, .. } = self { Some(*into) } else { self.child() }
    }

    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::Enlist { node, .. }
            | Self::AwaitSeated { node, .. }
            | Self::Dismiss { node, .. }
            | Self::AwaitRestart { node, .. }
            | Self::Mark { node, .. } => Some(*node),
            Self::HandOver { to, .. } => Some(*to),
            Self::Repair { from, .. } => *from,
            Self::Split { .. }
            | Self::Merge { .. }
            | Self::SetReplicas { .. }
            | Self::SetMinimum { .. }
            | Self::RemoveKeyspace { .. }
            | Self::AwaitErased { .. } => None,
        }
    }
}

impl Blueprint {
    /// How the present step of an operation stands. One whose steps are all true stands at `True`.
    pub fn standing(&self, operation: &Operation) -> Standing {
        self.standing_at(operation, operation.at)
    }

    /// The same of a later step, as if all before it had come true.
    pub fn standing_at(&self, operation: &Operation, at: u32) -> Standing {
        let Some(step) = operation.steps.get(at as usize) else { return Standing::True };
        if let Step::Repair { .. } = step {
            return Standing::True;
        }
        if let Step::Split { bucket, child, slots } = step {
            return self.split_standing(*bucket, *child, slots);
        }
        if let Step::Merge { bucket, into } = step {
            return self.merge_standing(*bucket, *into);
        }
        if let Some(standing) = self.standing_at_large(step) {
            return standing;
        }
        let bucket = step.bucket().expect("all others are about a bucket");
        let Some(government) = self.government(bucket) else { return Standing::Hitched(Hitch::BucketGone(bucket)) };
        let (seated, named) = (|node| is_seated(government, node), |node| is_named(government, node));
        let gone = |node| (!self.is_present(node)).then_some(Hitch::NodeGone(node));
        let lost = |node| (!named(node)).then_some(Hitch::NotNamed { bucket, node });
        let (done, hitch) = match *step {
            Step::Enlist { node, .. } => (named(node), gone(node)),
            Step::AwaitSeated { node, .. } => (seated(node), gone(node).or(lost(node))),
            Step::HandOver { to, .. } => (government.primary.node == to, gone(to).or(lost(to))),
            Step::Dismiss { node, .. } if government.primary.node == node => {
                (false, Some(Hitch::Leads { bucket, node }))
            }
            Step::Dismiss { node, .. } => {
                let mut instead = operation.seated_before(at, bucket).filter(|n| *n != node);
                let lost = instead.find(|n| !named(*n) || !self.is_present(*n));
                (!named(node), lost.map(|instead| Hitch::ReplacementLost { bucket, node, instead }))
            }
            Step::SetMinimum { min, .. } => (government.min_in_sync == min, None),
            Step::Split { .. }
            | Step::Repair { .. }
            | Step::Merge { .. }
            | Step::Mark { .. }
            | Step::SetReplicas { .. }
            | Step::RemoveKeyspace { .. }
            | Step::AwaitErased { .. } => unreachable!("decided above"),
            // A member holds all that was acknowledged, whatever its process (R1). One that was dismissed meanwhile is seated again
            // when it is level (R6), or another one in its place.
            Step::AwaitRestart { node, life, .. } => {
                let wanted = self.keyspaces[&self.buckets[&bucket].keyspace].replicas;
                let is_whole = seated(node) || government.size() >= usize::from(wanted);
                let is_back = self.is_present(node) && self.nodes[&node].life > life;
                (is_back && is_whole, self.is_replaced(node).then_some(Hitch::NodeGone(node)))
            }
        };
        match hitch {
            _ if done => Standing::True,
            Some(hitch) => Standing::Hitched(hitch),
            None => Standing::Open,
        }
    }

    fn split_standing(&self, bucket: BucketId, child: BucketId, slots: &SlotSet) -> Standing {
        if let Some(known) = self.buckets.get(&child) {
            assert!(known.birth != Birth::First, "the id was reserved for a split");
            return Standing::True;
        }
        match self.buckets.get(&bucket) {
            Some(parent) if parent.government().is_some() => {
                let fits = slots.is_subset(&parent.slots)
                    && *slots != parent.slots
                    && self.reserved.get(&child) == Some(&parent.id);
                if fits { Standing::Open } else { Standing::Hitched(Hitch::SlotsElsewhere { bucket, child }) }
            }
            _ => Standing::Hitched(Hitch::BucketGone(bucket)),
        }
    }

    fn merge_standing(&self, bucket: BucketId, into: BucketId) -> Standing {
        let gone = |bucket| Standing::Hitched(Hitch::BucketGone(bucket));
        match self.buckets.get(&bucket).map(|b| b.bond) {
            None => return Standing::True, // and forgotten: one that is not there any more was absorbed, or went with its keyspace
            Some(Some(Bond::Merged { .. })) => return Standing::True,
            Some(Some(Bond::Fades { .. })) => return Standing::Open,
            Some(Some(Bond::Absorbs { .. }) | None) => {}
        }
        let (Some(one), Some(other)) = (self.government(bucket), self.government(into)) else {
            return gone(if self.government(bucket).is_none() { bucket } else { into });
        };
        let keyspace = &self.keyspaces[&self.buckets[&bucket].keyspace];
        let full = |g: &Government| g.size() >= usize::from(keyspace.replicas) && g.candidates.is_empty();
        match self.unlike(bucket, into) {
            // As long as one of them lacks a copy, somebody will bring it; where, only the plan knew.
            Some(why) if full(one) && full(other) => Standing::Hitched(Hitch::Unlike { bucket, into, why }),
            Some(_) | None => Standing::Open,
        }
    }

    /// The operation that has its hands on this bucket.
    pub fn operation_on(&self, bucket: BucketId) -> Option<&Operation> {
        self.operations.values().find(|o| o.is_under_way() && o.concerns(bucket))
    }

    /// Makes sense now, and is begun at once or when somebody applies it.
    pub(crate) fn start_operation(
        &mut self,
        id: OperationId,
        by: &str,
        steps: &[Step],
        state: OperationState,
    ) -> Result<Outcome, Refusal> {
        if let Some(known) = self.operations.get(&id) {
            let is_begun = known.state != OperationState::Planned || state == OperationState::Planned;
            let same_steps = known.steps.iter().map(Step::as_planned).eq(steps.iter().map(Step::as_planned));
            let same = known.started_by == by && same_steps && is_begun;
            return if same { Ok(Outcome::Nothing) } else { Err(Refusal::OperationTaken(id)) };
        }
        if id != self.next_operation {
            return Err(Refusal::OperationNotNext { id, next: self.next_operation });
        }
        if by.len() > MAX_WISH {
            return Err(Refusal::LongWish { bytes: by.len(), most: MAX_WISH });
        }
        if !is_wish(by) {
            return Err(Refusal::BadWords);
        }
        if steps.is_empty() || steps.len() > MAX_STEPS {
            return Err(Refusal::BadStepCount { steps: steps.len() });
        }
        let children = self.require_steps(steps)?;
        if state == OperationState::Planned {
            self.forget_plans();
        } else {
            self.require_fewer_under_way()?;
            self.reserve_children(children);
        }
        let (started_by, steps) = (by.into(), steps.to_vec());
        self.operations.insert(id, Operation { id, started_by, steps, at: 0, state, throttle: None });
        self.next_operation = id.next();
        Ok(Outcome::Changed)
    }

    /// Begins what was planned, if it still makes sense.
    pub(crate) fn apply_operation(&mut self, id: OperationId) -> Result<Outcome, Refusal> {
        let operation = self.require_operation(id)?;
        if operation.is_under_way() || operation.state == OperationState::Done {
            return Ok(Outcome::Nothing);
        }
        if operation.is_over() {
            return Err(Refusal::OperationOver(id));
        }
        let children = self.require_steps(&operation.steps)?;
        self.require_fewer_under_way()?;
        self.reserve_children(children);
        self.operations.get_mut(&id).expect("found above").state = OperationState::Running;
        Ok(Outcome::Changed)
    }

    fn require_fewer_under_way(&self) -> Result<(), Refusal> {
        let unfinished = self.operations.values().filter(|o| o.is_under_way()).count();
        if unfinished >= MAX_UNFINISHED { Err(Refusal::TooManyOperations(unfinished)) } else { Ok(()) }
    }

    fn reserve_children(&mut self, children: Vec<(BucketId, BucketId)>) {
        for (child, parent) in children {
            let issued = self.reserve_child_of(parent);
            assert_eq!(issued, child, "the children were checked to be the next ones");
        }
    }

    /// Each step makes sense by what is known now, and nobody else works on its bucket. Answers which children are to be reserved.
    fn require_steps(&self, steps: &[Step]) -> Result<Vec<(BucketId, BucketId)>, Refusal> {
        let mut children: Vec<(BucketId, BucketId)> = Vec::new();
        for step in steps {
            self.require_step_at_large(step)?;
            let Some(bucket) = step.bucket() else { continue };
            if !children.iter().any(|(child, _)| *child == bucket) {
                let government = self.require_government(bucket)?;
                if let Some(other) = self.operation_on(bucket) {
                    return Err(Refusal::BucketBusy { bucket, by: other.id });
                }
                if let Step::Enlist { node, .. } = *step
                    && is_named(government, node)
                {
                    return Err(Unlawful::AlreadyNamed(node).into());
                }
            }
            match step {
                Step::Enlist { node, .. } | Step::HandOver { to: node, .. } => {
                    self.require_present(*node)?;
                    if self.drains(*node) {
                        return Err(Refusal::NodeDrains(*node));
                    }
                }
                Step::AwaitSeated { node, .. } => self.require_present(*node)?,
                Step::SetMinimum { min: 0, .. } => return Err(Unlawful::ZeroMinimum.into()),
                Step::SetMinimum { .. } => {}
                Step::Dismiss { node, .. } | Step::AwaitRestart { node, .. } => {
                    self.nodes.get(node).ok_or(Refusal::UnknownNode(*node))?;
                }
                Step::Repair { bucket, .. } => return Err(Refusal::RepairPlanned(*bucket)),
                Step::Split { bucket, child, slots } => {
                    let free = children.last().map_or(self.next_bucket, |(child, _)| child.next());
                    let next = free.next_child_of(*bucket);
                    if *child != next {
                        return Err(Refusal::ChildNotNext { child: *child, next });
                    }
                    let of = self.buckets.get(bucket).map(|b| &b.slots);
                    if slots.is_empty() || of.is_some_and(|of| !slots.is_subset(of) || slots == of) {
                        return Err(Refusal::NotOfParent { parent: *bucket, slots: slots.clone() });
                    }
                    children.push((*child, *bucket));
                }
                Step::Merge { bucket, into } => self.require_merge(*bucket, *into, &children)?,
                Step::Mark { .. }
                | Step::SetReplicas { .. }
                | Step::RemoveKeyspace { .. }
                | Step::AwaitErased { .. } => unreachable!("they are about no bucket"),
            }
        }
        let reserved = self.reserved.len() + children.len();
        if reserved > MAX_RESERVED { Err(Refusal::TooManyReserved(reserved)) } else { Ok(children) }
    }

    /// Who leads and who has a copy may be brought about by the steps before.
    fn require_merge(
        &self,
        bucket: BucketId,
        into: BucketId,
        children: &[(BucketId, BucketId)],
    ) -> Result<(), Refusal> {
        if children.iter().any(|(child, _)| [bucket, into].contains(child)) {
            return Err(Refusal::UnknownBucket(bucket)); // one that is yet to be split off
        }
        self.require_government(into)?;
        if let Some(other) = self.operation_on(into) {
            return Err(Refusal::BucketBusy { bucket: into, by: other.id });
        }
        match self.unlike(bucket, into) {
            None | Some(Unlike::Primaries | Unlike::Members | Unlike::BelowMinimum) => Ok(()),
            Some(why) => Err(Refusal::CannotMerge { absorbed: bucket, into, why }),
        }
    }

    /// The step is true: on to the next. It can never come true: the operation has failed, and falls back to before this step.
    pub(crate) fn advance_operation(&mut self, id: OperationId, from: u32) -> Result<Outcome, Refusal> {
        let operation = self.require_operation(id)?;
        // Whoever repeats itself finds the step behind, or the operation over.
        if operation.at > from || (operation.at == from && operation.is_over()) {
            return Ok(Outcome::Nothing);
        }
        if operation.at < from {
            return Err(Refusal::StepNotReached { id, step: from, at: operation.at });
        }
        if operation.state == OperationState::Paused {
            return Err(Refusal::OperationPaused(id));
        }
        if operation.state == OperationState::Planned {
            return Err(Refusal::OperationNotBegun(id));
        }
        match self.standing(operation) {
            Standing::Open => return Err(Refusal::StepOpen { id, step: from }),
            Standing::True => {
                let operation = self.operations.get_mut(&id).expect("found above");
                operation.at += 1;
                if operation.step().is_none() {
                    operation.state = OperationState::Done;
                }
            }
            Standing::Hitched(why) => self.end_operation(id, OperationState::Failed { why }),
        }
        self.forget_operations();
        Ok(Outcome::Changed)
    }

    pub(crate) fn pause_operation(&mut self, id: OperationId) -> Result<Outcome, Refusal> {
        self.switch_operation(id, &OperationState::Paused)
    }

    pub(crate) fn resume_operation(&mut self, id: OperationId) -> Result<Outcome, Refusal> {
        self.switch_operation(id, &OperationState::Running)
    }

    fn switch_operation(&mut self, id: OperationId, to: &OperationState) -> Result<Outcome, Refusal> {
        let operation = self.require_operation(id)?;
        if operation.is_over() {
            return Err(Refusal::OperationOver(id));
        }
        if operation.state == OperationState::Planned {
            return Err(Refusal::OperationNotBegun(id));
        }
        if operation.state == *to {
            return Ok(Outcome::Nothing);
        }
        self.operations.get_mut(&id).expect("found above").state = to.clone();
        Ok(Outcome::Changed)
    }

    pub(crate) fn cancel_operation(&mut self, id: OperationId, why: &str) -> Result<Outcome, Refusal> {
        let operation = self.require_operation(id)?;
        match operation.state {
            OperationState::Cancelled { .. } => return Ok(Outcome::Nothing),
            OperationState::Done | OperationState::Failed { .. } => return Err(Refusal::OperationOver(id)),
            OperationState::Planned | OperationState::Running | OperationState::Paused => {}
        }
        if !is_words(why) {
            return Err(Refusal::BadWords);
        }
        // Where a copy is and who leads is past its commit point if it is true by now, whether anybody said so or not: it stays.
        self.end_operation(id, OperationState::Cancelled { why: why.into() });
        self.forget_operations();
        Ok(Outcome::Changed)
    }

    /// Ends it before its last step, and takes back what it began and did not finish: a candidate that it enlisted and did not see
    /// seated is named no longer (whichever of this and a seat under way is accepted first settles it, R6). Not only in its present
    /// step: to fill several at once, they are enlisted one after the other before the first of them is waited for. A bucket that lacks
    /// members keeps it. Whom it marked is what it was. (Otherwise: 1. n4 is to replace n3, and half of n3's copies have moved; 2. n4 dies
    /// for good; 3. those need another place, and the only node that is free is n3, which is given nothing because it leaves.)
    fn end_operation(&mut self, id: OperationId, state: OperationState) {
        let operation = self.operations.get_mut(&id).expect("it is known");
        let had_begun = operation.is_under_way();
        operation.state = state;
        if !had_begun {
            return;
        }
        let (enlisted, marked) = (operation.enlisted(), operation.marked());
        // Ids for splits that nobody was told to make are given up. The present step's child stays reserved: its Split may be in
        // the parent's log already, and will then be registered whatever became of the operation.
        let later: Vec<BucketId> =
            operation.steps.iter().skip(operation.at as usize + 1).filter_map(Step::child).collect();
        self.reserved.retain(|id, _| !later.contains(id));
        for (bucket, node) in enlisted {
            self.drop_candidate(bucket, node);
        }
        for (node, intent, was) in marked {
            self.unmark_node(node, intent, was);
        }
    }

    /// Not where members are missing meanwhile: what it has taken in so far is then what recovery would begin anew elsewhere. Should it be
    /// one too many in the end, its primary lets go of it.
    fn drop_candidate(&mut self, bucket: BucketId, node: NodeId) {
        let wanted = self.wanted(bucket);
        let Some(government) = self.government(bucket).filter(|g| g.size() >= wanted) else { return };
        if let Some(candidate) = government.candidates.iter().copied().find(|c| c.node == node) {
            let made = self.follows(bucket, &Change::Drop { candidate }).expect("it is a candidate");
            self.install(made);
        }
    }

    /// Something was done at once, and everyone should be able to read that it was.
    pub(crate) fn note(&mut self, by: &str, steps: Vec<Step>) {
        let id = self.next_operation;
        let (at, state) = (steps.len() as u32, OperationState::Done);
        self.operations.insert(id, Operation { id, started_by: by.into(), steps, at, state, throttle: None });
        self.next_operation = id.next();
        self.forget_operations();
    }

    fn forget_operations(&mut self) {
        let over: Vec<OperationId> = self.operations.values().filter(|o| o.is_over()).map(|o| o.id).collect();
        for id in over.iter().take(over.len().saturating_sub(MAX_FINISHED)) {
            self.operations.remove(id);
        }
    }

    fn forget_plans(&mut self) {
        let planned = self.operations.values().filter(|o| o.state == OperationState::Planned).map(|o| o.id);
        let planned: Vec<OperationId> = planned.collect();
        for id in planned.iter().take((planned.len() + 1).saturating_sub(MAX_PLANNED)) {
            self.operations.remove(id);
        }
    }

    fn require_operation(&self, id: OperationId) -> Result<&Operation, Refusal> {
        self.operations.get(&id).ok_or(Refusal::UnknownOperation(id))
    }
}

fn is_seated(government: &Government, node: NodeId) -> bool {
    government.members().any(|m| m.node == node)
}

fn is_named(government: &Government, node: NodeId) -> bool {
    is_seated(government, node) || government.candidates.iter().any(|c| c.node == node)
}
