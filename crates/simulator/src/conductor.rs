//! Whoever runs the cluster: starts operations at random, pauses and cancels some, adds machines and removes what is gone. All the
//! rest the nodes and their coordinators do by themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use blueprint::{
    BucketId, Change, Command as Proposal, Conduct, Fate, Government, Intent, KeyspaceId, Member, MetaCommand, NodeId,
    Operation, OperationId, OperationState, Step, Unlike,
};

use crate::plan::{Fault, MILLI, SECOND};
use crate::rng::Rng;
use crate::tally::{Move, Participant};
use crate::world::{Event, Verdict, World, fail};

/// Buckets at most, with those that splits make: so many in all, or so many more than there were.
const MOST_BUCKETS: usize = 12;
const MOST_MORE_BUCKETS: usize = 4;
/// A step that does not come true in this time is given up.
const STEP_PATIENCE: u64 = 8 * SECOND;
const TICK: u64 = 120 * MILLI;
/// How many of a hundred topology changes the planner plans. The others are bare steps, which it would never combine so.
const PLANNED: u64 = 40;

#[derive(Debug)]
pub struct Conductor {
    pub(crate) rng: Rng,
    /// Since when each operation is at its present step.
    steps: BTreeMap<OperationId, (u32, u64)>,
    pub moves: Vec<Moving>,
    next_node: u64,
    next_move: u64,
    /// How often the cluster has rebalanced by itself since the world healed.
    pub(crate) rebalances: u32,
}

/// A move under way, for the table of what was interrupted by what.
#[derive(Debug)]
pub struct Moving {
    pub kind: Move,
    pub bucket: BucketId,
    pub who: Vec<(Participant, NodeId)>,
    since: u64,
    child: Option<BucketId>,
    accepted: bool,
}

impl Conductor {
    pub fn new(rng: Rng) -> Self {
        Self { rng, steps: BTreeMap::new(), moves: Vec::new(), next_node: 0, next_move: 0, rebalances: 0 }
    }

    pub fn fresh_node_id(&mut self, hosts: usize) -> u64 {
        self.next_node += 1;
        hosts as u64 + self.next_node
    }
}

impl<C: Conduct> World<C> {
    pub(crate) fn conduct(&mut self) -> Verdict {
        self.after(TICK, Event::Conduct);
        self.admit();
        self.watch_operations()?;
        if self.plan.wide {
            self.note_lives();
            self.restart_as_asked();
        }
        if self.healed {
            self.restore();
        }
        self.review_moves();
        let due = self.plan.move_every > 0 && !self.healed && self.time >= self.conductor.next_move;
        if due {
            self.conductor.next_move = self.time + self.conductor.rng.around(self.plan.move_every);
            self.start_something();
        }
        if self.healed && self.clients.are_idle() && self.is_at_rest().is_ok() {
            self.clients.finish();
            for client in 0..self.plan.clients {
                self.after(0, Event::ClientTurn { client });
            }
        }
        Ok(())
    }

    /// Nodes that came under a new id.
    fn admit(&mut self) {
        let known: Vec<NodeId> = self.meta.blueprint.nodes.keys().copied().collect();
        for node in known {
            if self.is_gone(node) && !self.meta.blueprint.is_present(node) {
                self.propose(Proposal::RemoveNode { node });
            }
        }
        for host in 0..self.hosts.len() {
            let (id, name) = (self.hosts[host].id, self.hosts[host].name.clone());
            if !self.meta.blueprint.nodes.contains_key(&id) {
                self.propose(Proposal::AddNode { id, name, zone: String::new(), addresses: Vec::new() });
            }
        }
    }

    fn is_gone(&self, node: NodeId) -> bool {
        !self.index.contains_key(&node)
    }

    /// What an operator changed is changed back, and what was paused goes on.
    fn restore(&mut self) {
        let replicas = self.plan.replicas;
        for keyspace in
            self.meta.blueprint.keyspaces.values().filter(|k| k.replicas != replicas).map(|k| k.id).collect::<Vec<_>>()
        {
            if !self.is_renumbered(keyspace) {
                self.propose(Proposal::SetReplicas { keyspace, replicas });
            }
        }
        for bucket in self.meta.blueprint.buckets.keys().copied().collect::<Vec<_>>() {
            let Some(government) = self.government(bucket).cloned() else { continue };
            let fits = self.meta.blueprint.wanted(bucket) >= usize::from(self.plan.minimum);
            if fits && government.min_in_sync != self.plan.minimum && government.candidates.is_empty() {
                let change = Change::SetMinInSync { min: self.plan.minimum };
                self.propose(Proposal::Succeed { bucket, replaces: government.term, change });
            }
        }
        self.put_plans_away();
        let marked = self.meta.blueprint.nodes.values().filter(|n| n.intent != Intent::Stays).map(|n| n.id);
        let marked: Vec<NodeId> = marked.collect();
        let is_whole =
            marked.is_empty() && self.meta.blueprint.nodes.values().all(|n| self.meta.blueprint.is_present(n.id));
        for node in marked {
            self.propose(Proposal::Mark { node, intent: Intent::Stays, of: None });
        }
        // What waits only until somebody is back, or may be given copies again, does not need help.
        for id in self.hopeless_operations().into_iter().filter(|_| is_whole) {
            self.propose(Proposal::CancelOperation { id, why: "it waits for a copy that there is no room for".into() });
        }
        let paused = |o: &&Operation| o.state == OperationState::Paused;
        for id in self.meta.blueprint.operations.values().filter(paused).map(|o| o.id).collect::<Vec<_>>() {
            self.propose(Proposal::ResumeOperation { id });
        }
        let throttled = |o: &&Operation| o.throttle.is_some() && !o.is_over();
        for id in self.meta.blueprint.operations.values().filter(throttled).map(|o| o.id).collect::<Vec<_>>() {
            self.propose(Proposal::ThrottleOperation { id, rate: None });
        }
    }

    /// An operation that is under way is to change how many copies are wanted, or has, and moves what follows from it.
    fn is_renumbered(&self, keyspace: KeyspaceId) -> bool {
        let of = |step: &Step| matches!(step, Step::SetReplicas { keyspace: k, .. } if *k == keyspace);
        self.meta.blueprint.operations.values().any(|o| o.is_under_way() && o.steps.iter().any(of))
    }

    fn spare_node(&mut self, government: &Government) -> Option<NodeId> {
        let present = |id: NodeId| self.meta.blueprint.is_present(id);
        let free = self.hosts.iter().filter(|h| h.responds(self.time) && present(h.id) && !has_part(government, h.id));
        let free: Vec<NodeId> = free.map(|h| h.id).collect();
        self.conductor.rng.pick(&free).copied()
    }

    /// Those that wait, and say so, until another member is seated, where nobody is about to be and no node is free: each has a part
    /// already, is not present, or is not to be given any (seeds 398 and 4784).
    fn hopeless_operations(&self) -> Vec<OperationId> {
        let blueprint = &self.meta.blueprint;
        let hopeless = |o: &&Operation| {
            let Some(Step::Dismiss { bucket, node }) = o.steps.get(o.at as usize).filter(|_| !o.is_over()) else {
                return false;
            };
            let Some(government) = blueprint.government(*bucket) else { return false };
            let comes = government.candidates.iter().any(|c| c.node != *node);
            let is_free = |n: &NodeId| blueprint.is_present(*n) && !blueprint.drains(*n) && !has_part(government, *n);
            government.size() <= blueprint.wanted(*bucket) && !comes && !blueprint.nodes.keys().any(is_free)
        };
        blueprint.operations.values().filter(hopeless).map(|o| o.id).collect()
    }

    /// A topology change at random.
    fn start_something(&mut self) {
        if self.conductor.rng.percent(PLANNED) {
            return self.start_planned();
        }
        let buckets: Vec<BucketId> = self.meta.blueprint.buckets.keys().copied().collect();
        let Some(bucket) = self.conductor.rng.pick(&buckets).copied() else { return };
        let Some(government) = self.government(bucket).cloned() else { return };
        let spare = self.spare_node(&government);
        let secondary = self.conductor.rng.pick(&government.secondaries).map(|m| m.node);
        let primary = government.primary.node;
        let enlist = |node| [Step::Enlist { bucket, node }, Step::AwaitSeated { bucket, node }];
        let steps: Vec<Step> = match (self.conductor.rng.range(0, 12), spare, secondary) {
            (0..=2, _, Some(to)) => vec![Step::HandOver { bucket, to }],
            (3..=4, _, _) => return self.start_split(bucket),
            (5..=6, Some(new), Some(old)) => [&enlist(new)[..], &[Step::Dismiss { bucket, node: old }]].concat(),
            (7, Some(new), _) => {
                let rest = [Step::HandOver { bucket, to: new }, Step::Dismiss { bucket, node: primary }];
                [&enlist(new)[..], &rest].concat()
            }
            // Where there are only as many as wanted, recovery brings another before this one goes.
            (8, _, Some(old)) if spare.is_some() || government.size() > self.meta.blueprint.wanted(bucket) => {
                vec![Step::Dismiss { bucket, node: old }]
            }
            (9, _, Some(_)) => {
                // A minimum of one means that one copy is enough: then none may be destroyed.
                let destructive = self.plan.faults.has(Fault::Wipe) || self.plan.faults.has(Fault::Damage);
                let min = if government.min_in_sync == 1 || destructive { self.plan.minimum } else { 1 };
                if min != government.min_in_sync {
                    let change = Change::SetMinInSync { min };
                    self.propose(Proposal::Succeed { bucket, replaces: government.term, change });
                }
                return;
            }
            (10, ..) => return self.interfere(),
            (11..=12, ..) => return self.start_merge(bucket),
            _ => return,
        };
        self.start_operation(steps);
    }

    fn start_operation(&mut self, steps: Vec<Step>) {
        let id = self.meta.blueprint.next_operation;
        self.propose(Proposal::StartOperation { id, by: "conductor".into(), steps });
    }

    /// Somebody changes their mind about something that is under way.
    fn interfere(&mut self) {
        let running = self.meta.blueprint.operations.values().filter(|o| o.is_under_way());
        let running: Vec<(OperationId, OperationState)> = running.map(|o| (o.id, o.state.clone())).collect();
        let Some((id, state)) = self.conductor.rng.pick(&running).cloned() else { return };
        let command = match state {
            OperationState::Paused => Proposal::ResumeOperation { id },
            _ if self.conductor.rng.percent(25) => {
                let rate = *self.conductor.rng.pick(&[Some(500), Some(50_000), None]).expect("not empty");
                Proposal::ThrottleOperation { id, rate }
            }
            _ if self.conductor.rng.percent(50) => Proposal::PauseOperation { id },
            _ => Proposal::CancelOperation { id, why: "another plan".into() },
        };
        self.propose(command);
    }

    pub(crate) fn has_room_for_buckets(&self, more: usize) -> bool {
        let most = MOST_BUCKETS.max(self.plan.buckets + MOST_MORE_BUCKETS);
        self.meta.blueprint.buckets.len() + more <= most
    }

    fn start_split(&mut self, bucket: BucketId) {
        let Some(parent) = self.meta.blueprint.buckets.get(&bucket) else { return };
        let slots = parent.slots.clone();
        if !self.has_room_for_buckets(1) || slots.len() < 2 {
            return;
        }
        let part = if self.conductor.rng.percent(50) {
            slots.split_half().1
        } else {
            // Every other stretch: what a child takes need not be contiguous.
            slots.iter().filter(|s| s.0 / 64 % 2 == 1).collect()
        };
        let child = self.meta.blueprint.next_bucket.next_child_of(bucket);
        self.start_operation(vec![Step::Split { bucket, child, slots: part }]);
    }

    /// Two that were split from each other become one again, if they still have the same copies.
    fn start_merge(&mut self, bucket: BucketId) {
        let blueprint = &self.meta.blueprint;
        let Some(into) = blueprint.government(bucket).map(|g| g.primary.node) else { return };
        let mates = blueprint.buckets.values().filter_map(|b| match blueprint.unlike(b.id, bucket) {
            None if b.government().is_some() => Some(vec![Step::Merge { bucket: b.id, into: bucket }]),
            Some(Unlike::Primaries) if b.government()?.secondaries.iter().any(|m| m.node == into) => {
                Some(vec![Step::HandOver { bucket: b.id, to: into }, Step::Merge { bucket: b.id, into: bucket }])
            }
            _ => None,
        });
        let mates: Vec<Vec<Step>> = mates.collect();
        if let Some(steps) = self.conductor.rng.pick(&mates).cloned() {
            self.start_operation(steps);
        }
    }

    /// What coordinators carry forward, for the table of moves; and that it gets somewhere.
    fn watch_operations(&mut self) -> Verdict {
        let blueprint = Arc::clone(&self.meta.blueprint);
        let running = |o: &&Operation| o.state == OperationState::Running;
        self.conductor.steps.retain(|id, _| blueprint.operations.get(id).is_some_and(|o| running(&o)));
        for operation in blueprint.operations.values().filter(running) {
            let time = self.time;
            let since = self.conductor.steps.entry(operation.id).or_insert((operation.at, time));
            if since.0 != operation.at {
                *since = (operation.at, time);
            }
            let waited = time - since.1;
            let Some(step) = operation.steps.get(operation.at as usize) else { continue };
            let Some(bucket) = step.bucket() else { continue };
            let Some(government) = blueprint.government(bucket) else { continue };
            if self.hopeless_operations().contains(&operation.id) {
                self.conductor.steps.insert(operation.id, (operation.at, time));
                continue;
            }
            if self.plan.busy && waited > STEP_PATIENCE {
                // Nothing goes wrong here, no throttle holds anything back: however busy the bucket is, its moves end.
                return fail("moves_end", format!("{step:?} has not come true: {government:?}"));
            }
            let primary = (Participant::Primary, government.primary.node);
            match *step {
                Step::HandOver { to, .. } if to != government.primary.node => {
                    self.begin_move(Move::HandOver, bucket, vec![primary, (Participant::Successor, to)], None);
                }
                Step::Split { child, .. } if !blueprint.buckets.contains_key(&child) => {
                    let others = government.secondaries.iter().map(|m| (Participant::Secondary, m.node));
                    let who = [primary].into_iter().chain(others).collect();
                    self.begin_move(Move::Split, bucket, who, Some(child));
                }
                Step::Enlist { .. }
                | Step::AwaitSeated { .. }
                | Step::HandOver { .. }
                | Step::Dismiss { .. }
                | Step::Split { .. }
                | Step::Merge { .. }
                | Step::SetMinimum { .. }
                | Step::Mark { .. }
                | Step::SetReplicas { .. }
                | Step::RemoveKeyspace { .. }
                | Step::AwaitRestart { .. }
                | Step::Repair { .. }
                | Step::AwaitErased { .. } => {}
            }
        }
        Ok(())
    }

    pub(crate) fn before_proposal(&mut self, command: &Proposal) {
        let mut dismissals = Vec::new();
        match command {
            Proposal::Succeed { bucket, change: Change::Dismiss { secondary, .. }, .. } => {
                dismissals.push((*bucket, secondary.node));
            }
            Proposal::Relieve { parts } => dismissals.extend(parts.iter().filter_map(|p| match p.change {
                Change::Dismiss { secondary, .. } => Some((p.bucket, secondary.node)),
                _ => None,
            })),
            _ => {}
        }
        for (bucket, node) in dismissals {
            if let Some(primary) = self.government(bucket).map(|g| g.primary.node) {
                let who = vec![(Participant::Primary, primary), (Participant::Secondary, node)];
                self.begin_move(Move::Dismiss, bucket, who, None);
            }
        }
    }

    // ---- what is under way, and what interrupts it

    fn begin_move(&mut self, kind: Move, bucket: BucketId, who: Vec<(Participant, NodeId)>, child: Option<BucketId>) {
        let same = |m: &Moving| m.kind == kind && m.bucket == bucket && m.who == who;
        if self.conductor.moves.iter().any(same) {
            return;
        }
        if !self.healed && self.conductor.rng.percent(self.plan.ambush) {
            let (_, victim) = self.conductor.rng.pick(&who).copied().expect("somebody takes part");
            if let Some(&host) = self.index.get(&victim) {
                let mean = self.plan.latency * 4 + 2 * self.plan.disk_latency;
                let delay = self.conductor.rng.around(mean);
                self.after(delay, Event::Ambush { host });
            }
        }
        self.conductor.moves.push(Moving { kind, bucket, who, since: self.time, child, accepted: false });
    }

    /// Right after a change that made somebody a member, the primary is taken for dead, and that member is to lead.
    fn ambush_with_usurp(&mut self, bucket: BucketId, to: Option<Member>) {
        if self.healed || !self.plan.faults.has(Fault::FalseAlarm) || !self.conductor.rng.percent(30) {
            return;
        }
        let Some(government) = self.government(bucket).cloned() else { return };
        if let Some(to) = to.or_else(|| self.conductor.rng.pick(&government.secondaries).copied()) {
            self.tally.fault(Fault::FalseAlarm);
            let change = Change::Usurp { to, fate: Fate::Leaves };
            let delay = self.conductor.rng.around(2 * self.plan.latency);
            let command = MetaCommand::Change(Proposal::Succeed { bucket, replaces: government.term, change });
            self.after(delay, Event::Propose { from: None, command, tries: 0 });
        }
    }

    fn complete(&mut self, kind: Move, bucket: BucketId) {
        if let Some(at) = self.conductor.moves.iter().position(|m| m.kind == kind && m.bucket == bucket) {
            self.conductor.moves.remove(at);
            *self.tally.completed.entry(kind).or_default() += 1;
        }
    }

    pub(crate) fn note_interrupted(&mut self, host: usize) {
        let id = self.hosts[host].id;
        for moving in &self.conductor.moves {
            for (participant, _) in moving.who.iter().filter(|(_, node)| *node == id) {
                *self.tally.interrupted.entry((moving.kind, *participant)).or_default() += 1;
            }
        }
    }

    pub(crate) fn on_accepted(&mut self, command: &Proposal) {
        match command {
            Proposal::Succeed { bucket, change, .. } => {
                let bucket = *bucket;
                let Some(government) = self.government(bucket).cloned() else { return };
                let primary = (Participant::Primary, government.primary.node);
                match *change {
                    Change::Enlist { node } => {
                        if self.meta.blueprint.operation_on(bucket).is_none() {
                            self.tally.note("recoveries: a copy begun elsewhere");
                        }
                        self.begin_move(Move::Enlist, bucket, vec![primary, (Participant::Candidate, node)], None);
                    }
                    Change::Seat { candidate, .. } => {
                        self.complete(Move::Seat, bucket);
                        self.ambush_with_usurp(bucket, Some(candidate));
                    }
                    Change::Usurp { to, .. } => {
                        let mut who = vec![(Participant::Successor, to.node)];
                        who.extend(government.secondaries.iter().map(|m| (Participant::Secondary, m.node)));
                        self.begin_move(Move::Usurp, bucket, who, None);
                        if !government.heirs.is_empty() && government.size() == 1 {
                            self.tally.note("governments below the minimum with heirs");
                        }
                    }
                    Change::Dismiss { secondary, fate } => {
                        if fate == Fate::Stalled {
                            let who = vec![primary, (Participant::Secondary, secondary.node)];
                            self.begin_move(Move::Dismiss, bucket, who, None);
                            self.tally.note("stalled secondaries dismissed");
                        }
                    }
                    Change::Renew { .. } => self.tally.note("rules renewed after a restart"),
                    Change::SetMinInSync { .. } => self.tally.note("minimum changed"),
                    Change::HandOver { .. } | Change::Drop { .. } | Change::Disown { .. } => {}
                }
                for moving in self.conductor.moves.iter_mut().filter(|m| m.bucket == bucket) {
                    moving.accepted |= matches!(
                        (moving.kind, change),
                        (Move::Dismiss, Change::Dismiss { .. })
                            | (Move::HandOver, Change::HandOver { .. })
                            | (Move::Usurp, Change::Usurp { .. })
                    );
                }
                // A successor settles a seat, one way or the other.
                if !matches!(change, Change::Seat { .. }) {
                    self.conductor.moves.retain(|m| !(m.kind == Move::Seat && m.bucket == bucket));
                }
            }
            Proposal::Register { child, .. } => {
                self.tally.note("splits registered");
                self.ambush_with_usurp(*child, None);
            }
            Proposal::Bind { absorbed, .. } => {
                self.tally.note("buckets bound");
                let Some(government) = self.government(*absorbed).cloned() else { return };
                let others = government.secondaries.iter().map(|m| (Participant::Secondary, m.node));
                let who = [(Participant::Primary, government.primary.node)].into_iter().chain(others).collect();
                self.begin_move(Move::Merge, *absorbed, who, None);
                self.ambush_with_usurp(*absorbed, None);
            }
            Proposal::Merge { absorbed, into, .. } => {
                self.complete(Move::Merge, *absorbed);
                self.ambush_with_usurp(*into, None);
            }
            Proposal::Depart { .. } => self.tally.note("nodes departed"),
            Proposal::Return { .. } => self.tally.note("nodes returned"),
            Proposal::StartOperation { .. } => self.tally.note("operations started"),
            Proposal::CancelOperation { .. } => self.tally.note("operations cancelled"),
            Proposal::PauseOperation { .. } => self.tally.note("operations paused"),
            Proposal::ThrottleOperation { rate: Some(_), .. } => self.tally.note("operations throttled"),
            Proposal::PlanOperation { .. } => self.tally.note("operations planned"),
            Proposal::ApplyOperation { .. } => self.tally.note("operations applied"),
            _ => {}
        }
    }

    pub(crate) fn on_phaser_event(&mut self, host: usize, bucket: BucketId, event: &phaser::Event) {
        let id = self.hosts[host].id;
        match event {
            phaser::Event::JointBegan { candidate, .. } => {
                self.complete(Move::Enlist, bucket);
                let who = vec![(Participant::Primary, id), (Participant::Candidate, candidate.node)];
                self.begin_move(Move::Seat, bucket, who, None);
                if self.plan.move_every > 0 && !self.healed && self.conductor.rng.percent(10) {
                    self.start_split(bucket);
                }
            }
            phaser::Event::Serving { term } => {
                if self.government(bucket).is_some_and(|g| g.term == *term) {
                    for kind in [Move::HandOver, Move::Usurp] {
                        let done = |m: &Moving| m.kind == kind && m.bucket == bucket && m.accepted;
                        if self.conductor.moves.iter().any(done) {
                            self.complete(kind, bucket);
                        }
                    }
                }
            }
            phaser::Event::Dropped(why) => self.tally.note(dropped(*why)),
            phaser::Event::Reigned { .. } => {
                self.tally.note("reigns begun");
                self.raise_ghosts(host, bucket);
            }
            phaser::Event::SteppedDown { .. } => self.tally.note("primaries stepped down"),
            phaser::Event::Drained { .. } => {}
        }
    }

    fn review_moves(&mut self) {
        let mut done = Vec::new();
        for moving in &self.conductor.moves {
            let Some(government) = self.government(moving.bucket) else { continue };
            let phaser = |node: &NodeId, bucket| {
                self.index.get(node).and_then(|i| self.hosts[*i].node()).and_then(|n| n.phaser(bucket))
            };
            match moving.kind {
                Move::Dismiss if moving.accepted => {
                    let leads = phaser(&government.primary.node, moving.bucket).and_then(phaser::Phaser::leads);
                    if leads.is_some_and(|(term, _)| term == government.term) {
                        done.push((Move::Dismiss, moving.bucket));
                    }
                }
                Move::Split => {
                    let child = moving.child.expect("a split has a child");
                    let Some(born) = self.government(child) else { continue };
                    if born.members().all(|m| phaser(&m.node, child).is_some()) {
                        done.push((Move::Split, moving.bucket));
                    }
                }
                Move::Enlist | Move::Seat | Move::Dismiss | Move::HandOver | Move::Usurp | Move::Merge => {}
            }
        }
        for (kind, bucket) in done {
            self.complete(kind, bucket);
        }
        let time = self.time;
        self.conductor.moves.retain(|m| time - m.since < STEP_PATIENCE);
    }
}

/// As a member or as a candidate.
fn has_part(government: &Government, node: NodeId) -> bool {
    government.members().chain(government.candidates.iter().copied()).any(|m| m.node == node)
}

fn dropped(why: phaser::Dropped) -> &'static str {
    match why {
        phaser::Dropped::WrongIncarnation => "messages dropped: wrong incarnation",
        phaser::Dropped::UnknownSender => "messages dropped: unknown sender",
        phaser::Dropped::LowerTerm => "messages dropped: lower term",
        phaser::Dropped::NotLeading => "messages dropped: not leading",
        phaser::Dropped::Malformed => "messages dropped: malformed",
        phaser::Dropped::WouldTruncateCommitted => "messages dropped: would truncate what is committed",
        phaser::Dropped::FromTheFuture => "messages dropped: from the future",
        phaser::Dropped::OutdatedImage => "messages dropped: outdated image",
        phaser::Dropped::OutdatedBegin => "messages dropped: outdated begin",
    }
}
