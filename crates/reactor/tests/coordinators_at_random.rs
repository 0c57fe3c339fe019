//! Several coordinators, nodes and a meta group, with lost, late and duplicated everything.
//!
//! First faults, then a world in which everything that is not dead for good works. Checked all along: a node departs only if most
//! coordinators that count as alive can honestly have missed it, by the notes of the *world* about which answers arrived; and each
//! term of a bucket has one government. Checked at the end: the dead have departed, the living are present and act on the newest
//! epoch, every bucket is led that can be, and every operation is over or says what it waits for.
//!
//! That the checks can fail is proved by planting the bugs that they are for.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use blueprint::{
    Blueprint, Breach, BucketId, Change, Command, Conduct, CoordinatorId, Durability, Epoch, Government, Honest, Index,
    Instant, Kind, Member, MetaCommand, MetaState, NodeId, OperationId, Position, Step, Term,
};
use reactor::coordinator::{Answer, Config, Coordinator, Holding, Input, Order, Outbox, Output, Subject, Until};

const TICK: u64 = 10;
const FAULTS_UNTIL: u64 = 40_000;
const END: u64 = 75_000;
/// A period, and how late a round may be.
const NAP: u64 = 250 + 500;

#[derive(Clone, Copy, Default)]
struct Stale;
impl Conduct for Stale {
    fn breaks(breach: Breach) -> bool {
        breach == Breach::StaleCoordinatorDeparts
    }
}

#[derive(Clone, Copy, Default)]
struct TwoSuccessors;
impl Conduct for TwoSuccessors {
    fn breaks(breach: Breach) -> bool {
        breach == Breach::TwoSuccessors
    }
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len() as u64) as usize]) }
    }
}

enum Event {
    /// To a coordinator in this of its lives.
    ToCoordinator {
        to: u64,
        life: u32,
        input: Input,
    },
    Probe {
        from: u64,
        node: NodeId,
        round: u64,
        about: Vec<BucketId>,
        sent: u64,
    },
    Answered {
        to: u64,
        life: u32,
        node: NodeId,
        round: u64,
        answer: Answer,
        sent: u64,
    },
    Push {
        from: u64,
        node: NodeId,
        blueprint: Arc<Blueprint>,
    },
    Order {
        node: NodeId,
        order: Order,
    },
    Propose {
        from: Option<u64>,
        command: MetaCommand,
    },
    ReadMeta {
        from: u64,
    },
}

struct Seat<C: Conduct> {
    machine: Coordinator<C>,
    life: u32,
    asleep_until: u64,
    /// Without a break since then.
    listens_since: u64,
    cut_until: u64,
    queue: Vec<Event>,
}

struct Node {
    dead: bool,
    /// Dead, but only until then.
    back_at: Option<u64>,
    view: Arc<Blueprint>,
}

struct World<C: Conduct> {
    dice: Dice,
    now: u64,
    sequence: u64,
    events: BTreeMap<(u64, u64), Event>,
    meta: MetaState,
    meta_away_until: u64,
    /// How far the leader's clock is ahead.
    ahead: u64,
    seats: BTreeMap<u64, Seat<C>>,
    /// How many coordinators are on duty.
    wanted: usize,
    nodes: BTreeMap<NodeId, Node>,
    /// Links that carry nothing until then.
    cut: BTreeMap<(u64, NodeId), u64>,
    /// When the newest probe left whose answer reached the coordinator; when a coordinator that listened had last missed a node.
    heard: BTreeMap<(u64, NodeId), u64>,
    missed: BTreeMap<(u64, NodeId), u64>,
    governments: BTreeMap<(BucketId, Term), Government>,
    tally: Tally,
    conduct: PhantomData<C>,
}

/// What the dice reached.
#[derive(Debug, Default)]
struct Tally {
    departed: u32,
    refused: u32,
    returned: u32,
    usurped: u32,
    operations: u32,
    done: u32,
    ended_otherwise: u32,
    slept: u32,
    stood_by: u32,
}

impl<C: Conduct> World<C> {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let (nodes, coordinators) = (4 + dice.below(3), 1 + dice.below(5));
        // Every other world has more coordinators than it wants.
        let wanted = if seed.is_multiple_of(2) { 7 } else { 1 + dice.below(3) as usize };
        let mut world = Self {
            dice,
            now: 0,
            sequence: 0,
            events: BTreeMap::new(),
            meta: MetaState::default(),
            meta_away_until: 0,
            ahead: 0,
            seats: BTreeMap::new(),
            wanted,
            nodes: BTreeMap::new(),
            cut: BTreeMap::new(),
            heard: BTreeMap::new(),
            missed: BTreeMap::new(),
            governments: BTreeMap::new(),
            tally: Tally::default(),
            conduct: PhantomData,
        };
        for id in 1..=nodes {
            let (id, name) = (NodeId(id), format!("node-{id}"));
            world.change(Command::AddNode { id, name, zone: String::new(), addresses: Vec::new() });
            world.nodes.insert(id, Node { dead: false, back_at: None, view: Arc::default() });
        }
        let placement = (0..3).map(|row| (0..3).map(|i| NodeId((row + i) % nodes + 1)).collect()).collect();
        let (name, kind, durability) = ("k".into(), Kind::Store, Durability::Disk);
        world.change(Command::CreateKeyspace { name, kind, replicas: 3, min_in_sync: None, durability, placement });
        for id in 1..=coordinators {
            world.start_coordinator(id, 0);
        }
        world
    }

    fn start_coordinator(&mut self, id: u64, life: u32) {
        let (seed, now) = (self.dice.next(), self.instant());
        let config = Config { wanted: self.wanted, ..Config::of(CoordinatorId(id)) };
        let machine = Coordinator::recover(config, seed, now);
        let (listens_since, queue) = (self.now, Vec::new());
        self.seats.insert(id, Seat { machine, life, asleep_until: 0, listens_since, cut_until: 0, queue });
    }

    fn instant(&self) -> Instant {
        Instant(self.now * 1000)
    }

    fn faulty(&self) -> bool {
        self.now < FAULTS_UNTIL
    }

    /// Late, lost, or twice.
    fn send(&mut self, make: impl Fn() -> Event) {
        let faulty = self.faulty();
        if faulty && self.dice.percent(8) {
            return;
        }
        let copies = if faulty && self.dice.percent(4) { 2 } else { 1 };
        for _ in 0..copies {
            let slow = faulty && self.dice.percent(2);
            let delay = if slow { self.dice.below(4000) } else { 1 + self.dice.below(60) };
            self.sequence += 1;
            self.events.insert((self.now + delay, self.sequence), make());
        }
    }

    fn run(&mut self) -> Result<(), String> {
        while self.now < END {
            self.now += TICK;
            self.note_who_misses_whom();
            if self.faulty() {
                self.fault();
            } else if self.now - TICK < FAULTS_UNTIL {
                self.heal();
            }
            while let Some(entry) = self.events.first_entry().filter(|e| e.key().0 <= self.now) {
                let event = entry.remove();
                self.happen(event)?;
            }
            for id in self.seats.keys().copied().collect::<Vec<_>>() {
                self.wake(id)?;
            }
            self.primaries_seat();
        }
        self.check_end()
    }

    fn wake(&mut self, id: u64) -> Result<(), String> {
        let now = self.now;
        let seat = self.seats.get_mut(&id).expect("it was started");
        if seat.asleep_until > now {
            return Ok(());
        }
        // What came while it slept comes first: that is the hard case.
        for event in std::mem::take(&mut seat.queue) {
            self.happen(event)?;
        }
        let seat = &self.seats[&id];
        if seat.machine.deadline().is_some_and(|at| at <= self.instant()) {
            self.step(id, Input::Wake);
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::ToCoordinator { to, life, .. } | Event::Answered { to, life, .. }
                if self.seats[&to].life == life && self.seats[&to].asleep_until > self.now =>
            {
                self.seats.get_mut(&to).expect("it was started").queue.push(event);
            }
            Event::ToCoordinator { to, life, input } => {
                if self.seats[&to].life == life {
                    self.step(to, input);
                }
            }
            Event::Answered { to, life, node, round, answer, sent } => {
                if self.seats[&to].life == life {
                    let heard = self.heard.entry((to, node)).or_default();
                    *heard = (*heard).max(sent);
                    self.step(to, Input::Probed { node, round, answer });
                }
            }
            Event::Probe { from, node, round, about, sent } => self.on_probe(from, node, round, &about, sent),
            Event::Push { from, node, blueprint } => {
                let known = self.nodes.get_mut(&node).expect("only nodes are pushed to");
                if known.dead {
                    return Ok(());
                }
                if blueprint.epoch > known.view.epoch {
                    known.view = blueprint;
                }
                let (epoch, life) = (known.view.epoch, self.seats[&from].life);
                let input = Input::Echoed { node, epoch };
                self.send(|| Event::ToCoordinator { to: from, life, input: input.clone() });
            }
            Event::Order { node, order } => self.obey(node, order),
            Event::Propose { from, command } => return self.on_proposal(from, &command),
            Event::ReadMeta { from } => {
                if self.meta_away_until <= self.now {
                    let (life, state) = (self.seats[&from].life, Arc::new(self.meta.clone()));
                    let input = Input::MetaRead { state };
                    self.send(|| Event::ToCoordinator { to: from, life, input: input.clone() });
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, id: u64, input: Input) {
        let now = self.instant();
        let seat = self.seats.get_mut(&id).expect("it was started");
        let mut out = Outbox::default();
        seat.machine.step(now, input, &mut out);
        seat.machine.check_invariants();
        let (from, sent, cut) = (id, self.now, seat.cut_until > self.now);
        for output in out.take() {
            let linked = |node: NodeId| self.cut.get(&(id, node)).is_none_or(|until| *until <= self.now);
            match output {
                Output::Probe { node, round, about } if linked(node) => {
                    self.send(|| Event::Probe { from, node, round, about: about.clone(), sent });
                }
                Output::Push { node, blueprint } if linked(node) => {
                    self.send(|| Event::Push { from, node, blueprint: blueprint.clone() });
                }
                Output::Order { node, order } if linked(node) => {
                    self.send(|| Event::Order { node, order: order.clone() });
                }
                Output::Propose(command) if !cut => {
                    self.send(|| Event::Propose { from: Some(from), command: command.clone() });
                }
                Output::ReadMeta if !cut => self.send(|| Event::ReadMeta { from }),
                Output::Probe { .. }
                | Output::Push { .. }
                | Output::Order { .. }
                | Output::Propose(_)
                | Output::Rebalance { .. }
                | Output::ReadMeta => {}
            }
        }
    }

    // ---- nodes

    fn on_probe(&mut self, from: u64, node: NodeId, round: u64, about: &[BucketId], sent: u64) {
        let known = &self.nodes[&node];
        if known.dead {
            return;
        }
        let mut answer = Answer { echoed: known.view.epoch, holds: BTreeMap::new() };
        for bucket in about {
            if let Some(Member { incarnation, .. }) = known.view.government(*bucket).and_then(|g| g.named(node)) {
                let last = Position { term: Term(1), index: Index(1 + self.dice.below(9)) };
                answer.holds.insert(*bucket, Holding { incarnation, last, whole: true });
            }
        }
        let life = self.seats[&from].life;
        self.send(|| Event::Answered { to: from, life, node, round, answer: answer.clone(), sent });
    }

    fn succeed(&mut self, bucket: BucketId, replaces: Term, change: Change) {
        let command = MetaCommand::Change(Command::Succeed { bucket, replaces, change });
        self.send(|| Event::Propose { from: None, command: command.clone() });
    }

    fn obey(&mut self, node: NodeId, order: Order) {
        let known = &self.nodes[&node];
        let view = known.view.clone();
        let (Order::HandOver { bucket, .. } | Order::Split { bucket, .. }) = order;
        let Some(government) = view.government(bucket) else { return };
        if known.dead || government.primary.node != node {
            return;
        }
        match order {
            Order::HandOver { to, .. } => {
                if let Some(to) = government.secondaries.iter().copied().find(|m| m.node == to) {
                    self.succeed(bucket, government.term, Change::HandOver { to, by: government.primary });
                }
            }
            Order::Split { child, slots, .. } => {
                let at = Position { term: government.term, index: Index(7) };
                let command =
                    MetaCommand::Change(Command::Register { parent: bucket, child, slots, at, term: government.term });
                self.send(|| Event::Propose { from: None, command: command.clone() });
            }
        }
    }

    fn primaries_seat(&mut self) {
        let mut seats = Vec::new();
        for (id, node) in self.nodes.iter().filter(|(_, n)| !n.dead) {
            for bucket in node.view.buckets.values() {
                let Some(government) = bucket.government().filter(|g| g.primary.node == *id) else { continue };
                for candidate in government.candidates.iter().copied() {
                    if !self.nodes[&candidate.node].dead {
                        let change = Change::Seat { candidate, by: government.primary };
                        seats.push((bucket.id, government.term, change));
                    }
                }
            }
        }
        for (bucket, term, change) in seats {
            if self.dice.percent(2) {
                self.succeed(bucket, term, change);
            }
        }
    }

    // ---- the meta group

    fn change(&mut self, command: Command) {
        let stamp = Instant((self.now + self.ahead) * 1000);
        if self.meta.apply::<C>(stamp, &MetaCommand::Change(command)).is_ok() {
            self.note_governments().expect("operators do no harm");
        }
    }

    fn on_proposal(&mut self, from: Option<u64>, command: &MetaCommand) -> Result<(), String> {
        if self.meta_away_until > self.now {
            return Ok(());
        }
        let before = self.meta.blueprint.clone();
        let stamp = Instant((self.now + self.ahead) * 1000);
        match self.meta.apply::<C>(stamp, command) {
            Err(why) => {
                self.tally.refused += 1;
                if let Some(to) = from {
                    let (life, input) = (self.seats[&to].life, Input::Rejected { why });
                    self.send(|| Event::ToCoordinator { to, life, input: input.clone() });
                }
            }
            Ok(_) if before == self.meta.blueprint => {}
            Ok(_) => {
                if let MetaCommand::Change(command) = command {
                    self.on_accepted(command)?;
                }
                self.meta.check_invariants();
                self.note_governments()?;
            }
        }
        Ok(())
    }

    fn on_accepted(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Depart { node } => {
                self.tally.departed += 1;
                self.check_departure(*node)?;
            }
            Command::Return { .. } => self.tally.returned += 1,
            Command::Relieve { parts } => {
                self.tally.usurped += parts.iter().filter(|p| matches!(p.change, Change::Usurp { .. })).count() as u32;
            }
            _ => {}
        }
        Ok(())
    }

    // ---- checks

    fn note_who_misses_whom(&mut self) {
        let patience = patience();
        for (id, seat) in &mut self.seats {
            if !seat.machine.is_on_duty() {
                seat.listens_since = self.now; // it asks nobody
                self.tally.stood_by += 1;
            }
            if seat.asleep_until > self.now || self.now - seat.listens_since <= patience {
                continue;
            }
            for node in self.nodes.keys() {
                let heard = self.heard.get(&(*id, *node)).copied().unwrap_or_default();
                if self.now - heard > patience {
                    self.missed.insert((*id, *node), self.now);
                }
            }
        }
    }

    /// Each report that counted was made within its lifetime, by somebody who had listened for long and heard nothing.
    fn check_departure(&self, node: NodeId) -> Result<(), String> {
        let lifetime = lifetime();
        let alive: Vec<CoordinatorId> = self.meta.reports.coordinators().collect();
        let honest =
            |c: &&CoordinatorId| self.missed.get(&(c.0, node)).is_some_and(|at| self.now - at <= lifetime + 2 * TICK);
        let missed = alive.iter().filter(honest).count();
        if 2 * missed > alive.len() {
            return Ok(());
        }
        Err(format!("{node} departed at {} ms, though only {missed} of {} can have missed it", self.now, alive.len()))
    }

    fn note_governments(&mut self) -> Result<(), String> {
        for bucket in self.meta.blueprint.buckets.values() {
            let Some(government) = bucket.government() else { continue };
            let known = self.governments.entry((bucket.id, government.term)).or_insert_with(|| government.clone());
            if known != government {
                return Err(format!(
                    "{} of {} has two governments: {known:?} and {government:?}",
                    government.term, bucket.id
                ));
            }
        }
        Ok(())
    }

    fn check_end(&mut self) -> Result<(), String> {
        let blueprint = self.meta.blueprint.clone();
        for (id, node) in &self.nodes {
            if blueprint.is_present(*id) == node.dead {
                return Err(format!("{id} is {}, and that is not what the blueprint says", alive(!node.dead)));
            }
            if !node.dead && node.view.epoch != blueprint.epoch {
                return Err(format!("{id} still acts on {}, not on {}", node.view.epoch, blueprint.epoch));
            }
            let echo = self.meta.echoes.get(id).copied().unwrap_or_default();
            if !node.dead && echo < Epoch(blueprint.epoch.0) {
                return Err(format!("nobody knows that {id} acts on {}", blueprint.epoch));
            }
        }
        let dead = |m: &Member| self.nodes[&m.node].dead;
        let mut stuck = BTreeSet::new();
        for bucket in blueprint.buckets.values() {
            let government = bucket.government().expect("no keyspace is removed here");
            let heirs = if government.secondaries.is_empty() { &government.heirs } else { &government.secondaries };
            if dead(&government.primary) {
                stuck.insert(bucket.id);
                if heirs.iter().any(|m| !dead(m)) {
                    return Err(format!("{} is led by nobody, but could be: {government:?}", bucket.id));
                }
            } else if government.secondaries.iter().chain(&government.candidates).any(dead) {
                return Err(format!("{} still counts on the dead: {government:?}", bucket.id));
            }
        }
        self.check_operations(&blueprint, &stuck)
    }

    fn check_operations(&mut self, blueprint: &Blueprint, stuck: &BTreeSet<BucketId>) -> Result<(), String> {
        let mut waits = BTreeMap::new();
        for wait in self.seats.values().flat_map(|seat| seat.machine.waits()) {
            if let Subject::Operation { id, step } = wait.about {
                waits.insert((id, step), wait.until);
            }
        }
        for operation in blueprint.operations.values() {
            self.tally.operations += 1;
            if operation.is_over() {
                let done = operation.state == blueprint::OperationState::Done;
                *(if done { &mut self.tally.done } else { &mut self.tally.ended_otherwise }) += 1;
                continue;
            }
            let bucket = operation.step().expect("it is under way").bucket();
            match waits.get(&(operation.id, operation.at)) {
                Some(Until::EnoughMembers { .. } | Until::Resumed) => {}
                Some(_) if bucket.is_some_and(|bucket| stuck.contains(&bucket)) => {}
                other => return Err(format!("{operation:?} does not end: {other:?}")),
            }
        }
        Ok(())
    }

    // ---- faults

    fn fault(&mut self) {
        if !self.dice.percent(3) {
            return;
        }
        let nodes: Vec<NodeId> = self.nodes.keys().copied().collect();
        let node = self.dice.pick(&nodes).expect("there are nodes");
        let seats: Vec<u64> = self.seats.keys().copied().collect();
        let seat = self.dice.pick(&seats).expect("there are coordinators");
        let until = self.now + 200 + self.dice.below(5000);
        match self.dice.below(20) {
            0 if self.nodes.values().filter(|n| n.dead).count() < 2 => {
                let back_at = self.dice.percent(60).then_some(until + 4000);
                let known = self.nodes.get_mut(&node).expect("it was picked");
                known.dead = true;
                known.back_at = back_at;
            }
            1..4 => drop(self.cut.insert((seat, node), until)),
            4..6 => {
                self.tally.slept += 1;
                let seat = self.seats.get_mut(&seat).expect("it was picked");
                seat.asleep_until = seat.asleep_until.max(until);
                // A nap that ends before the next round is late is no sleep: patience allows for it.
                if until - self.now > NAP {
                    seat.listens_since = seat.asleep_until;
                }
            }
            6 => self.seats.get_mut(&seat).expect("it was picked").cut_until = until,
            7 => {
                let life = self.seats[&seat].life + 1;
                self.start_coordinator(seat, life);
            }
            8 if self.dice.percent(30) => self.meta_away_until = self.now + self.dice.below(2000),
            9 if self.dice.percent(20) => self.ahead += self.dice.below(3000),
            10..16 => self.operate(),
            _ => {}
        }
        for known in self.nodes.values_mut() {
            if known.back_at.is_some_and(|at| at <= self.now) {
                known.dead = false;
                known.back_at = None;
            }
        }
    }

    fn operate(&mut self) {
        let blueprint = self.meta.blueprint.clone();
        let id = blueprint.next_operation;
        let known: Vec<OperationId> = blueprint.operations.keys().copied().collect();
        match (self.dice.below(10), self.dice.pick(&known)) {
            (0, Some(id)) => return self.change(Command::PauseOperation { id }),
            (1..3, Some(id)) => return self.change(Command::ResumeOperation { id }),
            (3, Some(id)) => return self.change(Command::CancelOperation { id, why: "not today".into() }),
            _ => {}
        }
        let buckets: Vec<BucketId> = blueprint.buckets.keys().copied().collect();
        let bucket = self.dice.pick(&buckets).expect("there are buckets");
        let government = blueprint.government(bucket).expect("no keyspace is removed here");
        let free: Vec<NodeId> = blueprint.nodes.keys().copied().filter(|n| government.named(*n).is_none()).collect();
        let members: Vec<NodeId> = government.members().map(|m| m.node).collect();
        let (new, old) = (self.dice.pick(&free), self.dice.pick(&members).expect("there is a primary"));
        let (child, slots) =
            (blueprint.next_bucket.next_child_of(bucket), blueprint.buckets[&bucket].slots.split_half().1);
        let dismiss = Step::Dismiss { bucket, node: old };
        let steps = match (self.dice.below(6), new) {
            (0, _) => vec![Step::HandOver { bucket, to: old }],
            (1, _) if buckets.len() < 8 => vec![Step::Split { bucket, child, slots }],
            (2, _) => vec![dismiss],
            (3, Some(node)) => vec![Step::Enlist { bucket, node }, Step::AwaitSeated { bucket, node }],
            (_, Some(node)) => {
                let mut steps = vec![Step::Enlist { bucket, node }, Step::AwaitSeated { bucket, node }];
                steps.extend((old == government.primary.node).then_some(Step::HandOver { bucket, to: node }));
                steps.push(dismiss);
                steps
            }
            _ => return,
        };
        self.change(Command::StartOperation { id, by: "somebody".into(), steps });
    }

    fn heal(&mut self) {
        self.cut.clear();
        self.meta_away_until = 0;
        for seat in self.seats.values_mut() {
            seat.cut_until = 0;
        }
        for known in self.nodes.values_mut().filter(|n| n.back_at.is_some()) {
            known.dead = false;
            known.back_at = None;
        }
    }
}

fn alive(alive: bool) -> &'static str {
    if alive { "alive" } else { "dead" }
}

fn patience() -> u64 {
    millis(Config::of(CoordinatorId(1)).patience)
}

fn lifetime() -> u64 {
    millis(Config::of(CoordinatorId(1)).lifetime)
}

fn millis(span: Duration) -> u64 {
    span.as_millis() as u64
}

/// More with `SEEDS=2000`.
#[allow(clippy::disallowed_methods, reason = "the test is no core: it is asked for more")]
fn seeds(few: u64) -> u64 {
    std::env::var("SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(few)
}

#[test]
fn nobody_departs_who_is_heard_and_everything_ends() {
    let mut all = Tally::default();
    for seed in 0..seeds(60) {
        let mut world = World::<Honest>::new(seed);
        if let Err(why) = world.run() {
            panic!("seed {seed}: {why}");
        }
        let Tally { departed, refused, returned, usurped, operations, done, ended_otherwise, slept, stood_by } =
            world.tally;
        all.departed += departed;
        all.refused += refused;
        all.returned += returned;
        all.usurped += usurped;
        all.operations += operations;
        all.done += done;
        all.ended_otherwise += ended_otherwise;
        all.slept += slept;
        all.stood_by += stood_by;
    }
    let reached = [all.departed, all.refused, all.returned, all.usurped, all.done, all.ended_otherwise, all.slept];
    assert!(all.stood_by > 1000, "{all:?}");
    assert!(reached.iter().all(|n| *n >= 20), "the dice are worth something only if they reach everything: {all:?}");
}

#[test]
fn planted_bugs_are_noticed() {
    let stale = (0..40).find_map(|seed| World::<Stale>::new(seed).run().err()).expect("nobody noticed");
    assert!(stale.contains("can have missed it"), "{stale}");
    let two = (0..40).find_map(|seed| World::<TwoSuccessors>::new(seed).run().err()).expect("nobody noticed");
    assert!(two.contains("has two governments"), "{two}");
}
