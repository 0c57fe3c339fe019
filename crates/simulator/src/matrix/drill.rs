//! One operation in one world, and the one blow that falls in the middle of it: planned, applied, watched until the moment comes.
//!
//! All is as in the product: the planner plans on the blueprint as it is, the plan stands in the blueprint, and is applied. From then
//! on nobody helps. Who the victim is, is known only when the moment comes, by the blueprint and the coordinators of that moment.

use std::collections::{BTreeMap, BTreeSet};

use blueprint::{
    Blueprint, BucketId, Change, Command as Proposal, Conduct, Government, MetaCommand, NodeId, Operation, OperationId,
    OperationState, Step,
};
use node::{NodeRecord, Output, PeerMessage};
use phaser::{Message, Payload, Record};
use planner::{Facts, Limits, Wish};

use super::{Asked, Blow, Layout, Moment, NODES, Target, Victim};
use crate::plan::{MILLI, SECOND};
use crate::world::{Event, Verdict, World};

/// By then everybody has heard of everybody, every bucket serves, and there is something in it.
pub(crate) const APPLIED_AT: u64 = 3 * SECOND;
/// Back before anybody is missed: that takes six periods of a quarter of a second.
const BLINK: u64 = 200 * MILLI;
/// Long enough to depart, and for copies to be made elsewhere meanwhile.
const SPELL: u64 = 8 * SECOND;
/// Clients go on for so long after that.
const AFTERMATH: u64 = 4 * SECOND;
/// Until the meta group has another leader.
const ELECTION: u64 = 1500 * MILLI;
/// The second piece of a copy is on its way: some has arrived, some has not.
const FILLED: u32 = 2;

#[derive(Debug)]
pub struct Drill {
    asked: &'static Asked,
    target: Option<Target>,
    operation: Option<OperationId>,
    steps: Vec<Step>,
    /// Who led each bucket when the operation began.
    led: BTreeMap<BucketId, NodeId>,
    /// Pieces of the copy that were sent to the joiner.
    pieces: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// The moment has come.
    Due,
    Struck,
    Void(Void),
}

/// Why there is nothing to strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Void {
    /// Nobody has that part in the step.
    Nobody,
    /// That node is struck in another cell already: the one of this victim.
    SameAs(Victim),
    /// The operation ended before the moment came.
    NeverCame,
    /// It would be the last copy.
    Vital,
}

impl Drill {
    pub(crate) fn new(asked: &'static Asked, target: Option<Target>) -> Self {
        let (steps, led) = (Vec::new(), BTreeMap::new());
        Self { asked, target, operation: None, steps, led, pieces: 0, stage: Stage::Waiting }
    }

    pub fn void(&self) -> Option<Void> {
        if let Stage::Void(void) = self.stage { Some(void) } else { None }
    }

    /// Each operation has worlds of its own.
    pub(super) fn seed(&self) -> u64 {
        self.asked.name.bytes().fold(0x6d61_7472_6978, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)))
    }

    pub(super) fn layout(&self) -> Layout {
        self.asked.layout
    }

    /// Who holds a bucket at first, its primary in front.
    pub(crate) fn holders(&self, bucket: usize) -> Vec<NodeId> {
        self.layout()[bucket].map(NodeId).to_vec()
    }

    fn awaited(&self) -> Option<(&Step, Moment)> {
        let target = self.target.filter(|_| self.stage == Stage::Waiting)?;
        Some((self.steps.get(target.step)?, target.moment))
    }

    /// Whose child it is, if it is one of this operation's.
    fn origin(&self, bucket: BucketId) -> BucketId {
        let parent = self.steps.iter().find(|step| step.child() == Some(bucket)).and_then(Step::bucket);
        parent.map_or(bucket, |parent| self.origin(parent))
    }

    fn joiner(&self, bucket: BucketId) -> Option<NodeId> {
        self.steps.iter().find_map(|step| match *step {
            Step::Enlist { bucket: b, node } if b == bucket => Some(node),
            _ => None,
        })
    }

    fn successor(&self, bucket: BucketId) -> Option<NodeId> {
        self.steps.iter().find_map(|step| match *step {
            Step::HandOver { bucket: b, to } if b == bucket => Some(to),
            _ => None,
        })
    }

    fn leaver(&self, bucket: BucketId) -> Option<NodeId> {
        self.steps.iter().find_map(|step| match *step {
            Step::Dismiss { bucket: b, node } if b == bucket => Some(node),
            _ => None,
        })
    }
}

/// Who has which part in the step that is struck.
struct Cast {
    old: NodeId,
    new: Option<NodeId>,
    joiner: Option<NodeId>,
    secondary: Option<NodeId>,
    voter: Option<NodeId>,
    coordinator: Option<NodeId>,
}

impl Cast {
    fn get(&self, victim: Victim) -> Option<NodeId> {
        match victim {
            Victim::OldPrimary => Some(self.old),
            Victim::NewPrimary => self.new,
            Victim::Secondary => self.secondary,
            Victim::Joiner => self.joiner,
            Victim::Voter => self.voter,
            Victim::Coordinator => self.coordinator,
        }
    }
}

impl<C: Conduct> World<C> {
    pub(super) fn drilled_operation(&self) -> Option<&Operation> {
        self.meta.blueprint.operations.get(&self.drill.as_ref()?.operation?)
    }

    /// Plans and applies. Ids of operations decide whose turn they are: it is planned again until that is a coordinator whose node has
    /// no part in what is done, if there is one.
    pub(crate) fn begin_drill(&mut self) -> Verdict {
        let Some(drill) = &self.drill else { return Ok(()) };
        if !self.has_done_first() {
            return self.do_first();
        }
        let (wish, by) = ((drill.asked.wish)(), format!("matrix: {}", drill.asked.words));
        let mut steps = planned_steps(&self.meta.blueprint, &wish);
        for attempt in 0..NODES {
            let id = self.meta.blueprint.next_operation;
            self.order(Proposal::PlanOperation { id, by: by.clone(), steps: steps.clone() })?;
            let concerned = self.concerned(&steps);
            let is_apart = self.at_work_on(id).any(|node| !concerned.contains(&node));
            if is_apart || attempt == NODES - 1 {
                self.note_drill(id, steps);
                return self.order(Proposal::ApplyOperation { id });
            }
            self.order(Proposal::CancelOperation { id, why: "another is planned".into() })?;
            steps = planned_steps(&self.meta.blueprint, &wish);
        }
        Ok(())
    }

    fn has_done_first(&self) -> bool {
        let Some(drill) = &self.drill else { return true };
        let done = |o: &Operation| o.started_by == FIRST && o.state == OperationState::Done;
        drill.asked.first.is_none() || self.meta.blueprint.operations.values().any(done)
    }

    /// Begins what must be done first, if it is not under way, and looks again in a while.
    fn do_first(&mut self) -> Verdict {
        let first = self.drill.as_ref().and_then(|drill| drill.asked.first);
        self.after(100 * MILLI, Event::Drill);
        let begun = self.meta.blueprint.operations.values().any(|o| o.started_by == FIRST);
        let Some(first) = first.filter(|_| !begun) else { return Ok(()) };
        let (id, by) = (self.meta.blueprint.next_operation, FIRST.to_owned());
        let steps = planned_steps(&self.meta.blueprint, &first());
        self.order(Proposal::StartOperation { id, by, steps })
    }

    fn note_drill(&mut self, id: OperationId, steps: Vec<Step>) {
        let governed = self.meta.blueprint.buckets.values().filter_map(|b| Some((b.id, b.government()?.primary.node)));
        let led = governed.collect();
        let drill = self.drill.as_mut().expect("it has begun");
        (drill.operation, drill.steps, drill.led) = (Some(id), steps, led);
    }

    fn order(&mut self, command: Proposal) -> Verdict {
        self.on_propose(None, MetaCommand::Change(command), 0)
    }

    /// Who has a part in the bucket of the step that is struck, before or after.
    fn concerned(&self, steps: &[Step]) -> BTreeSet<NodeId> {
        let struck = self.drill.as_ref().and_then(|drill| steps.get(drill.target?.step)).and_then(Step::bucket);
        let steps = steps.iter().filter(|step| struck.is_none() || step.bucket() == struck);
        let governments = steps.clone().filter_map(|step| self.government(step.bucket()?));
        let members = governments.flat_map(|government| government.everyone().map(|member| member.node));
        members.chain(steps.filter_map(Step::node)).collect()
    }

    /// Those who do at once what the operation needs: the one whose turn it is, and the one beside the leader of the meta group.
    fn at_work_on(&self, operation: OperationId) -> impl Iterator<Item = NodeId> {
        let at_work = self.hosts.iter().filter(|h| h.responds(self.time));
        at_work.filter(move |h| h.node().is_some_and(|n| n.coordinator().comes_first(operation))).map(|h| h.id)
    }

    // ---- the moment

    /// The blueprint has changed.
    pub(crate) fn drill_on_change(&mut self) {
        let Some(drill) = &self.drill else { return };
        let Some(operation) = self.drilled_operation() else { return };
        if drill.stage != Stage::Waiting || drill.target.is_none() {
            return;
        }
        let begins = drill.target.is_some_and(|t| t.moment == Moment::Begins && t.step == operation.at as usize);
        if begins && operation.is_under_way() {
            self.come_to_blows();
        } else if operation.is_over() {
            self.end_drill(Void::NeverCame);
        }
    }

    /// A node says or writes something.
    pub(crate) fn drill_on_output(&mut self, output: &Output) {
        let Some((step, moment)) = self.drill.as_ref().and_then(|drill| drill.awaited()) else { return };
        let (Some(bucket), node) = (step.bucket(), step.node()) else { return };
        let has_come = match (moment, output) {
            (Moment::Proposed, Output::Propose(command)) => makes_true(command, step),
            (Moment::Joint, Output::Event { bucket: b, event: phaser::Event::JointBegan { candidate, .. } }) => {
                *b == bucket && Some(candidate.node) == node
            }
            (Moment::Drained, Output::Event { bucket: b, event: phaser::Event::Drained { .. } }) => *b == bucket,
            (Moment::Logged, Output::Write { records, .. }) => records.iter().any(|record| is_logged(record, step)),
            (Moment::Filling, Output::Send { to, message: PeerMessage::Bucket { bucket: b, envelope } }) => {
                let is_piece = matches!(envelope.message, Message::Fill { .. });
                let counts = *b == bucket && Some(*to) == node && is_piece;
                let drill = self.drill.as_mut().expect("it waits");
                drill.pieces += u32::from(counts);
                counts && drill.pieces == FILLED
            }
            _ => false,
        };
        if has_come {
            self.come_to_blows();
        }
    }

    /// At once, but not in the middle of what somebody is doing.
    fn come_to_blows(&mut self) {
        self.drill.as_mut().expect("it waits").stage = Stage::Due;
        self.after(0, Event::Blow);
    }

    fn end_drill(&mut self, void: Void) {
        self.drill.as_mut().expect("there is one").stage = Stage::Void(void);
    }

    // ---- the blow

    pub(crate) fn strike_blow(&mut self) {
        let Some(target) = self.drill.as_ref().and_then(|drill| drill.target) else { return };
        match self.find_victim(target) {
            Ok(host) => self.hit(target, host),
            Err(void) => self.end_drill(void),
        }
    }

    fn find_victim(&self, target: Target) -> Result<usize, Void> {
        let cast = self.cast(target.step).ok_or(Void::Nobody)?;
        let victim = cast.get(target.victim).ok_or(Void::Nobody)?;
        let earlier = Victim::ALL.into_iter().take_while(|v| *v != target.victim);
        // Who leads the meta group is struck together with that.
        if let Some(same) = earlier.into_iter().find(|v| cast.get(*v) == Some(victim) && *v != Victim::Voter) {
            return Err(Void::SameAs(same));
        }
        self.index.get(&victim).copied().filter(|host| self.hosts[*host].responds(self.time)).ok_or(Void::Nobody)
    }

    fn cast(&self, step: usize) -> Option<Cast> {
        let drill = self.drill.as_ref()?;
        let bucket = drill.steps.get(step)?.bucket()?;
        let government = self.government(bucket).or_else(|| self.government(drill.origin(bucket)))?;
        let is_named = |node: &NodeId| government.named(*node).is_some();
        let old = drill.led.get(&drill.origin(bucket)).copied().filter(is_named)?;
        let joiner = drill.joiner(bucket);
        let new = drill.successor(bucket).filter(|node| Some(*node) != joiner);
        let taken = |node: &NodeId| *node == old || Some(*node) == new || Some(*node) == joiner;
        let secondary = other_member(government, drill.leaver(bucket), &taken);
        let apart = |node: &NodeId| !is_named(node) && !taken(node) && secondary != Some(*node);
        let at_work = || self.at_work_on(drill.operation.expect("it has begun"));
        let coordinator = at_work().find(apart).or_else(|| at_work().next());
        let free: Vec<NodeId> = self.hosts.iter().map(|h| h.id).filter(apart).collect();
        let voter = free.iter().copied().find(|node| Some(*node) != coordinator).or(free.first().copied());
        Some(Cast { old, new, joiner, secondary, voter, coordinator })
    }

    fn hit(&mut self, target: Target, host: usize) {
        let Target { step, moment, victim, blow } = target;
        let (id, time) = (self.hosts[host].id, self.time);
        self.trace.line(time, host, || {
            format!("matrix: step {} {}: {} {id}: {}", step + 1, moment.name(), victim.name(), blow.name())
        });
        let until = time + if blow == Blow::Restart { BLINK } else { SPELL };
        if victim == Victim::Voter {
            self.meta.away_until = time + ELECTION;
        }
        match blow {
            Blow::Restart | Blow::Crash => {
                self.crash(host);
                self.at(until, Event::Restart { host });
            }
            Blow::Wipe => {
                if !self.wipe(host, until - time) {
                    return self.end_drill(Void::Vital);
                }
            }
            Blow::Pause => {
                self.hosts[host].paused_until = until;
                let life = self.hosts[host].life;
                self.at(until, Event::Resume { host, life });
            }
            Blow::Cut => self.cut_off(host, until),
        }
        self.drill.as_mut().expect("it is due").stage = Stage::Struck;
        self.plan.unrest = until + AFTERMATH;
        self.at(self.plan.unrest, Event::Heal);
    }

    fn cut_off(&mut self, host: usize, until: u64) {
        for other in (0..self.hosts.len()).filter(|other| *other != host) {
            self.network.cut(host, other, until);
            self.network.cut(other, host, until);
        }
        self.hosts[host].meta_cut_until = until;
    }
}

/// Who asks for what must be done first.
const FIRST: &str = "matrix: what comes first";

pub(super) fn planned_steps(blueprint: &Blueprint, wish: &Wish) -> Vec<Step> {
    let plan = planner::plan(blueprint, &Facts::default(), Limits::default(), wish);
    let plan = plan.expect("nothing speaks against what the matrix asks for");
    plan.operations().into_iter().next().expect("there is something to be done")
}

/// A secondary that is none of the others: best of all the one that leaves.
fn other_member(government: &Government, leaver: Option<NodeId>, taken: &dyn Fn(&NodeId) -> bool) -> Option<NodeId> {
    let members: Vec<NodeId> = government.members().map(|member| member.node).filter(|node| !taken(node)).collect();
    leaver.filter(|leaver| members.contains(leaver)).or(members.last().copied())
}

/// Is this what the step needs from the meta group?
fn makes_true(command: &Proposal, step: &Step) -> bool {
    match (command, step) {
        (Proposal::Succeed { bucket, change, .. }, _) if Some(*bucket) == step.bucket() => match (change, step) {
            (Change::Enlist { node: enlisted }, Step::Enlist { node, .. }) => enlisted == node,
            (Change::Dismiss { secondary, .. }, Step::Dismiss { node, .. }) => secondary.node == *node,
            (Change::Drop { candidate }, Step::Dismiss { node, .. }) => candidate.node == *node,
            _ => false,
        },
        (Proposal::Register { child: registered, .. }, Step::Split { child, .. }) => registered == child,
        (Proposal::Merge { absorbed, .. }, Step::Merge { bucket, .. }) => absorbed == bucket,
        _ => false,
    }
}

/// Is this where the log of a bucket says what the step is about?
fn is_logged(record: &NodeRecord, step: &Step) -> bool {
    let NodeRecord::Bucket { bucket, record: Record::Append { entries, .. } } = record else { return false };
    entries.iter().any(|entry| match (&entry.payload(), step) {
        (Payload::Split { child, .. }, Step::Split { child: wanted, .. }) => child == wanted,
        (Payload::Freeze { .. }, Step::Merge { bucket: fades, .. }) => bucket == fades,
        _ => false,
    })
}
