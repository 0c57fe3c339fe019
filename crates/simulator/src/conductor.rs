//! Whoever runs the cluster: reports failures, replaces what is lost, and starts topology changes at random. Stands in for
//! the coordinators; its knowledge is late and sometimes wrong, and everything it writes is a compare and set.

use std::collections::{BTreeMap, VecDeque};

use blueprint::{BucketId, Change, Command as Proposal, Conduct, Fate, Government, Member, NodeId, SlotSet};

use crate::plan::{Fault, MILLI, SECOND};
use crate::rng::Rng;
use crate::tally::{Move, Participant};
use crate::world::{Event, Verdict, World, fail};

/// Buckets at most, with those that splits make.
const MOST_BUCKETS: usize = 12;
/// A step that does not come true in this time is given up.
const STEP_PATIENCE: u64 = 8 * SECOND;
const TICK: u64 = 120 * MILLI;

#[derive(Debug)]
pub struct Conductor {
    rng: Rng,
    /// Since when each node has not answered.
    silent: BTreeMap<NodeId, u64>,
    operations: Vec<Operation>,
    /// Splits that were ordered, until the blueprint knows them: ordered again, under the same id, from whoever leads.
    splits: Vec<Splitting>,
    pub moves: Vec<Moving>,
    next_node: u64,
    next_move: u64,
}

/// A list of steps on one bucket, each made true before the next.
#[derive(Debug)]
struct Operation {
    bucket: BucketId,
    steps: VecDeque<Step>,
    since: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enlist(NodeId),
    Seated(NodeId),
    HandOver(NodeId),
    Dismiss(NodeId),
}

#[derive(Clone, Debug)]
struct Splitting {
    bucket: BucketId,
    child: BucketId,
    slots: SlotSet,
    until: u64,
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
        Self {
            rng,
            silent: BTreeMap::new(),
            operations: Vec::new(),
            splits: Vec::new(),
            moves: Vec::new(),
            next_node: 0,
            next_move: 0,
        }
    }

    pub fn fresh_node_id(&mut self, hosts: usize) -> u64 {
        self.next_node += 1;
        hosts as u64 + self.next_node
    }

    pub fn is_idle(&self) -> bool {
        self.operations.is_empty()
    }
}

impl<C: Conduct> World<C> {
    pub(crate) fn conduct(&mut self) -> Verdict {
        self.after(TICK, Event::Conduct);
        self.watch();
        self.admit();
        let buckets: Vec<BucketId> = self.meta.blueprint.buckets.keys().copied().collect();
        for bucket in buckets {
            self.care_for(bucket);
        }
        self.advance_operations()?;
        self.repeat_splits();
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

    fn watch(&mut self) {
        for host in &self.hosts {
            if host.responds(self.time) {
                self.conductor.silent.remove(&host.id);
            } else {
                self.conductor.silent.entry(host.id).or_insert(self.time);
            }
        }
    }

    /// Nodes that came under a new id.
    fn admit(&mut self) {
        let known: Vec<NodeId> = self.meta.blueprint.nodes.keys().copied().collect();
        for node in known {
            if self.is_gone(node) {
                let departed = !self.meta.blueprint.is_present(node);
                self.propose(if departed { Proposal::RemoveNode { node } } else { Proposal::Depart { node } });
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

    fn is_suspect(&mut self, node: NodeId) -> bool {
        let patience = self.conductor.rng.range(300 * MILLI, 1500 * MILLI);
        self.conductor.silent.get(&node).is_some_and(|since| self.time - since > patience)
    }

    fn responds(&self, node: NodeId) -> bool {
        self.index.get(&node).is_some_and(|host| self.hosts[*host].responds(self.time))
    }

    fn succeed(&mut self, bucket: BucketId, government: &Government, change: Change) {
        if let Change::Dismiss { secondary, .. } = change {
            self.begin_move(
                Move::Dismiss,
                bucket,
                vec![(Participant::Primary, government.primary.node), (Participant::Secondary, secondary.node)],
                None,
            );
        }
        self.propose(Proposal::Succeed { bucket, replaces: government.term, change });
    }

    /// Departures and recovery, bucket by bucket; one change at a time.
    fn care_for(&mut self, bucket: BucketId) {
        if !self.healed && self.conductor.rng.percent(40) {
            return;
        }
        let Some(government) = self.government(bucket).cloned() else { return };
        if let Some(change) = self.departure(&government) {
            return self.succeed(bucket, &government, change);
        }
        let wanted = usize::from(self.plan.replicas);
        let busy = self.conductor.operations.iter().any(|o| o.bucket == bucket);
        if government.size() + government.candidates.len() < wanted {
            if let Some(node) = self.spare_node(&government) {
                self.succeed(bucket, &government, Change::Enlist { node });
            }
        } else if !busy && government.size() > wanted {
            let Some(secondary) = self.conductor.rng.pick(&government.secondaries).copied() else { return };
            self.succeed(bucket, &government, Change::Dismiss { secondary, fate: Fate::Leaves });
        } else if !busy && government.size() == wanted && !government.candidates.is_empty() {
            self.succeed(bucket, &government, Change::Drop { candidate: government.candidates[0] });
        } else if self.healed && government.min_in_sync != self.plan.minimum {
            self.succeed(bucket, &government, Change::SetMinInSync { min: self.plan.minimum });
        }
    }

    fn departure(&mut self, government: &Government) -> Option<Change> {
        let fate = |gone| if gone { Fate::Lost } else { Fate::Leaves };
        let led = self.responds(government.primary.node);
        for secondary in &government.secondaries {
            let gone = self.is_gone(secondary.node);
            // Nobody is dismissed on behalf of a primary that is silent itself: it may be the only copy left.
            if gone || (led && self.is_suspect(secondary.node)) {
                return Some(Change::Dismiss { secondary: *secondary, fate: fate(gone) });
            }
        }
        let gone = self.is_gone(government.primary.node);
        if gone || self.is_suspect(government.primary.node) {
            let heirs = if government.secondaries.is_empty() { &government.heirs } else { &government.secondaries };
            let able: Vec<Member> = heirs.iter().copied().filter(|m| self.responds(m.node)).collect();
            if let Some(to) = self.conductor.rng.pick(&able).copied() {
                return Some(Change::Usurp { to, fate: fate(gone) });
            }
        }
        if let Some(heir) = government.heirs.iter().find(|h| self.is_gone(h.node)) {
            return Some(Change::Disown { heir: *heir });
        }
        let silent = |w: &Self, m: &&Member| w.is_gone(m.node) || w.conductor.silent.contains_key(&m.node);
        government.candidates.iter().find(|m| silent(self, m)).map(|candidate| Change::Drop { candidate: *candidate })
    }

    fn spare_node(&mut self, government: &Government) -> Option<NodeId> {
        let named =
            |id: NodeId| government.members().chain(government.candidates.iter().copied()).any(|m| m.node == id);
        let present = |id: NodeId| self.meta.blueprint.is_present(id);
        let free = self.hosts.iter().filter(|h| h.responds(self.time) && present(h.id) && !named(h.id));
        let free: Vec<NodeId> = free.map(|h| h.id).collect();
        self.conductor.rng.pick(&free).copied()
    }

    /// A topology change at random.
    fn start_something(&mut self) {
        let buckets: Vec<BucketId> = self.meta.blueprint.buckets.keys().copied().collect();
        let Some(bucket) = self.conductor.rng.pick(&buckets).copied() else { return };
        let Some(government) = self.government(bucket).cloned() else { return };
        if self.conductor.operations.iter().any(|o| o.bucket == bucket) {
            return;
        }
        let spare = self.spare_node(&government);
        let secondary = self.conductor.rng.pick(&government.secondaries).map(|m| m.node);
        let steps: Vec<Step> = match (self.conductor.rng.range(0, 9), spare, secondary) {
            (0..=2, _, Some(to)) => vec![Step::HandOver(to)],
            (3..=4, _, _) => return self.start_split(bucket),
            (5..=6, Some(new), Some(old)) => vec![Step::Enlist(new), Step::Seated(new), Step::Dismiss(old)],
            (7, Some(new), _) => {
                let old = government.primary.node;
                vec![Step::Enlist(new), Step::Seated(new), Step::HandOver(new), Step::Dismiss(old)]
            }
            (8, _, Some(old)) => vec![Step::Dismiss(old)],
            (9, _, Some(_)) => {
                // A minimum of one means that one copy is enough: then none may be destroyed.
                let destructive = self.plan.faults.has(Fault::Wipe) || self.plan.faults.has(Fault::Damage);
                let min = if government.min_in_sync == 1 || destructive { self.plan.minimum } else { 1 };
                if min != government.min_in_sync {
                    self.succeed(bucket, &government, Change::SetMinInSync { min });
                }
                return;
            }
            _ => return,
        };
        self.conductor.operations.push(Operation { bucket, steps: steps.into(), since: self.time });
    }

    fn start_split(&mut self, bucket: BucketId) {
        let Some(parent) = self.meta.blueprint.buckets.get(&bucket) else { return };
        let slots = parent.slots.clone();
        let government = self.government(bucket).cloned();
        let (Some(government), true) = (government, self.meta.blueprint.buckets.len() < MOST_BUCKETS) else { return };
        if slots.len() < 2 || self.meta.away_until > self.time {
            return;
        }
        let Some(child) = self.meta.apply::<C>(&Proposal::ReserveBucket { parent: bucket }).ok().and_then(|a| a.bucket)
        else {
            return;
        };
        let part = if self.conductor.rng.percent(50) {
            slots.split_half().1
        } else {
            // Every other stretch: what a child takes need not be contiguous.
            slots.iter().filter(|s| s.0 / 64 % 2 == 1).collect()
        };
        if part.is_empty() || part == slots {
            return;
        }
        let mut who = vec![(Participant::Primary, government.primary.node)];
        who.extend(government.secondaries.iter().map(|m| (Participant::Secondary, m.node)));
        self.begin_move(Move::Split, bucket, who, Some(child));
        self.order(government.primary.node, node::Input::Split { bucket, child, slots: part.clone() });
        if self.conductor.rng.percent(50) {
            let until = self.time + STEP_PATIENCE;
            self.conductor.splits.push(Splitting { bucket, child, slots: part, until });
        }
    }

    fn repeat_splits(&mut self) {
        let (time, reserved) = (self.time, &self.meta.blueprint.reserved);
        self.conductor.splits.retain(|s| s.until > time && reserved.contains_key(&s.child));
        if !self.healed && self.conductor.rng.percent(10) {
            for Splitting { bucket, child, slots, .. } in self.conductor.splits.clone() {
                if let Some(primary) = self.government(bucket).map(|g| g.primary.node) {
                    self.order(primary, node::Input::Split { bucket, child, slots });
                }
            }
        }
    }

    fn order(&mut self, node: NodeId, input: node::Input) {
        if let Some(&host) = self.index.get(&node) {
            let life = self.hosts[host].life;
            self.after(self.plan.latency, Event::Deliver { host, life, input });
        }
    }

    fn advance_operations(&mut self) -> Verdict {
        let mut given_up = None;
        let mut operations = std::mem::take(&mut self.conductor.operations);
        operations.retain_mut(|operation| {
            let Some(government) = self.government(operation.bucket).cloned() else { return false };
            let Some(step) = operation.steps.front().copied() else { return false };
            if self.time - operation.since > STEP_PATIENCE {
                given_up = Some(format!("{step:?} of {} has not come true: {government:?}", operation.bucket));
                return false;
            }
            let before = operation.steps.len();
            if !self.advance(operation, &government, step) {
                return false;
            }
            if operation.steps.len() < before {
                operation.since = self.time;
            }
            true
        });
        self.conductor.operations.extend(operations);
        match given_up.filter(|_| self.plan.busy) {
            // Nothing goes wrong here, no throttle holds anything back: however busy the bucket is, its moves end.
            Some(text) => fail("moves_end", text),
            None => Ok(()),
        }
    }

    /// False when the operation can no longer be done.
    fn advance(&mut self, operation: &mut Operation, government: &Government, step: Step) -> bool {
        let bucket = operation.bucket;
        let seated = |node: NodeId| government.members().any(|m| m.node == node);
        let named = |node: NodeId| government.named(node).is_some();
        match step {
            Step::Enlist(node) if named(node) => drop(operation.steps.pop_front()),
            Step::Enlist(node) => {
                if !self.responds(node) {
                    return false;
                }
                self.succeed(bucket, government, Change::Enlist { node });
            }
            Step::Seated(node) if seated(node) => drop(operation.steps.pop_front()),
            Step::Seated(node) => return named(node),
            Step::HandOver(node) if government.primary.node == node => drop(operation.steps.pop_front()),
            Step::HandOver(node) => {
                if !seated(node) {
                    return false;
                }
                let primary = government.primary.node;
                let who = vec![(Participant::Primary, primary), (Participant::Successor, node)];
                self.begin_move(Move::HandOver, bucket, who, None);
                self.order(primary, node::Input::HandOver { bucket, to: node });
            }
            Step::Dismiss(node) if !seated(node) => drop(operation.steps.pop_front()),
            Step::Dismiss(node) => {
                let Some(secondary) = government.secondaries.iter().copied().find(|m| m.node == node) else {
                    return false;
                };
                self.succeed(bucket, government, Change::Dismiss { secondary, fate: Fate::Leaves });
            }
        }
        true
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
            let command = Proposal::Succeed { bucket, replaces: government.term, change };
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
                Move::Enlist | Move::Seat | Move::Dismiss | Move::HandOver | Move::Usurp => {}
            }
        }
        for (kind, bucket) in done {
            self.complete(kind, bucket);
        }
        let time = self.time;
        self.conductor.moves.retain(|m| time - m.since < STEP_PATIENCE);
    }
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
