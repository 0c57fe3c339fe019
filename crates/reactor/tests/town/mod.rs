//! Coordinators, nodes and a meta group without latency: what is said arrives at once, unless a verb keeps it.

mod show;
mod verbs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use blueprint::{
    Blueprint, BucketId, Command, CoordinatorId, Honest, Instant, MetaCommand, MetaState, NodeId, Position,
};
use reactor::coordinator::{Answer, Config, Coordinator, Holding, Input, Order, Outbox, Output};

const TICK: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(crate) struct Town {
    now: Instant,
    meta: MetaState,
    coordinators: BTreeMap<u64, Seat>,
    nodes: BTreeMap<NodeId, Node>,
    /// Blueprints by epoch.
    past: BTreeMap<u64, Arc<Blueprint>>,
    lines: Vec<String>,
    last_order: Option<(NodeId, Order)>,
    show_probes: bool,
    hide_pushes: bool,
}

struct Seat {
    machine: Coordinator<Honest>,
    asleep: bool,
    cut: bool,
    /// Its proposals are under way, and stay so until they are let go.
    slow: bool,
    inbox: VecDeque<Input>,
    under_way: VecDeque<MetaCommand>,
    last_report: Option<BTreeSet<NodeId>>,
}

struct Node {
    up: bool,
    epoch: u64,
    /// Pushes do not reach it.
    deaf: bool,
    /// Coordinators that do not hear it.
    unheard_by: BTreeSet<u64>,
    ends: BTreeMap<BucketId, Position>,
    lost: BTreeSet<BucketId>,
}

impl Town {
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// Each line once per block: what is repeated, is repeated.
    fn line(&mut self, line: String) {
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    fn add_coordinator(&mut self, id: u64) {
        let machine = Coordinator::recover(Config::of(CoordinatorId(id)), 0, self.now);
        let (inbox, under_way) = (VecDeque::new(), VecDeque::new());
        self.coordinators
            .insert(id, Seat { machine, asleep: false, cut: false, slow: false, inbox, under_way, last_report: None });
    }

    fn add_node(&mut self, id: NodeId) {
        self.nodes.insert(
            id,
            Node {
                up: true,
                epoch: 0,
                deaf: false,
                unheard_by: BTreeSet::new(),
                ends: BTreeMap::new(),
                lost: BTreeSet::new(),
            },
        );
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.tick();
            if self.now >= end {
                return;
            }
            self.now = self.now + TICK;
        }
    }

    fn tick(&mut self) {
        for id in self.coordinators.keys().copied().collect::<Vec<_>>() {
            let seat = &self.coordinators[&id];
            if !seat.asleep && seat.machine.deadline().is_some_and(|at| at <= self.now) {
                self.step(id, Input::Wake);
            }
        }
    }

    fn step(&mut self, id: u64, input: Input) {
        let seat = self.coordinators.get_mut(&id).expect("it was added");
        seat.inbox.push_back(input);
        self.work_off(id);
    }

    fn work_off(&mut self, id: u64) {
        loop {
            let now = self.now;
            let seat = self.coordinators.get_mut(&id).expect("it was added");
            if seat.asleep {
                return;
            }
            let Some(input) = seat.inbox.pop_front() else { return };
            let mut out = Outbox::default();
            seat.machine.step(now, input, &mut out);
            seat.machine.check_invariants();
            for output in out.take() {
                self.carry_out(id, output);
            }
        }
    }

    fn carry_out(&mut self, id: u64, output: Output) {
        match output {
            Output::Probe { node, round, about } => self.on_probe(id, node, round, &about),
            Output::ReadMeta => {
                if !self.coordinators[&id].cut {
                    let state = Arc::new(self.meta.clone());
                    self.inbox(id).push_back(Input::MetaRead { state });
                }
            }
            Output::Propose(command) => {
                if let MetaCommand::Report(report) = &command {
                    let seat = self.coordinators.get_mut(&id).expect("it was added");
                    if seat.last_report.as_ref() != Some(&report.silent) {
                        seat.last_report = Some(report.silent.clone());
                        self.line(format!("c{id} reports {}", show::silent(&report.silent)));
                    }
                }
                let seat = self.coordinators.get_mut(&id).expect("it was added");
                if seat.cut {
                } else if seat.slow && matches!(command, MetaCommand::Change(_)) {
                    self.line(format!("c{id} proposes {}", show::command(&command)));
                    self.coordinators.get_mut(&id).expect("it was added").under_way.push_back(command);
                } else {
                    self.propose(id, &command);
                }
            }
            Output::Push { node, blueprint } => {
                if !self.hide_pushes {
                    self.line(format!("c{id} pushes {} to {node}", blueprint.epoch));
                }
                let known = self.nodes.get_mut(&node).expect("only nodes are pushed to");
                if known.up && !known.deaf {
                    known.epoch = known.epoch.max(blueprint.epoch.0);
                    let epoch = blueprint::Epoch(known.epoch);
                    self.inbox(id).push_back(Input::Echoed { node, epoch });
                }
            }
            Output::Rebalance { epoch } => self.line(format!("c{id} wants to know whether to rebalance {epoch}")),
            Output::Order { node, order } => {
                self.line(format!("c{id} orders {node} to {}", show::order(&order)));
                self.last_order = Some((node, order));
            }
        }
    }

    fn on_probe(&mut self, id: u64, node: NodeId, round: u64, about: &[BucketId]) {
        if self.show_probes {
            let about: Vec<String> = about.iter().map(|b| b.to_string()).collect();
            let about = if about.is_empty() { String::new() } else { format!(" about {}", about.join(" ")) };
            self.line(format!("c{id} probes {node}{about}"));
        }
        let known = &self.nodes[&node];
        if !known.up || known.unheard_by.contains(&id) {
            return;
        }
        let mut answer = Answer { echoed: blueprint::Epoch(known.epoch), holds: BTreeMap::new() };
        for bucket in about {
            // A replica is there from the epoch on that named it.
            let named = self.meta.blueprint.government(*bucket).and_then(|g| g.named(node));
            if let Some(member) = named.filter(|_| !known.lost.contains(bucket)) {
                let last = known.ends.get(bucket).copied().unwrap_or(Position::new(1, 1));
                answer.holds.insert(*bucket, Holding { incarnation: member.incarnation, last, whole: true });
            }
        }
        self.inbox(id).push_back(Input::Probed { node, round, answer });
    }

    fn inbox(&mut self, id: u64) -> &mut VecDeque<Input> {
        &mut self.coordinators.get_mut(&id).expect("it was added").inbox
    }

    /// A coordinator proposes: what came of it, unless nothing did.
    fn propose(&mut self, id: u64, command: &MetaCommand) {
        let before = self.meta.blueprint.clone();
        match self.meta.apply::<Honest>(self.now, command) {
            Ok(_) if self.meta.blueprint.epoch == before.epoch => {
                if matches!(command, MetaCommand::Change(_)) {
                    self.line(format!("c{id} proposes {}: nothing changes", show::command(command)));
                }
            }
            Ok(_) => {
                self.line(format!("c{id} proposes {}: {}", show::command(command), self.meta.blueprint.epoch));
                self.note_change(&before);
            }
            Err(why) => {
                self.line(format!("c{id} proposes {}: refused, {why}", show::command(command)));
                self.inbox(id).push_back(Input::Rejected { why });
            }
        }
    }

    /// A command of an operator or a primary.
    fn change(&mut self, command: Command) -> Result<(), String> {
        let before = self.meta.blueprint.clone();
        let applied = self.meta.apply::<Honest>(self.now, &MetaCommand::Change(command));
        applied.map_err(|refusal| refusal.to_string())?;
        self.note_change(&before);
        Ok(())
    }

    fn note_change(&mut self, before: &Blueprint) {
        self.meta.check_invariants();
        let after = self.meta.blueprint.clone();
        self.past.insert(after.epoch.0, after.clone());
        for bucket in after.buckets.values() {
            if before.government(bucket.id) != bucket.government() {
                self.line(format!("  {}", show::bucket(bucket)));
            }
        }
        for operation in after.operations.values() {
            if before.operations.get(&operation.id) != Some(operation) {
                self.line(format!("  {}", show::operation(operation)));
            }
        }
    }
}
