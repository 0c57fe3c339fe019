//! A whole cluster under one virtual clock, from one seed.
//!
//! The world does what operating systems, networks, disks and people do; every decision of the protocol is taken by the
//! same code that the product runs. Unrest first: faults, moves and clients at random. Then the world heals, and everything
//! must come to rest: every bucket serves, every move ends, nothing waits.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use blueprint::{Blueprint, BucketId, Change, Command as Proposal, Conduct, Epoch, KeyspaceId, Member, NodeId};
use node::{Answer, BatchId, Door, Input, Node, NodeRecord, Origin, Output, PeerMessage, RequestId};
use values::Command;

use crate::checkers::Checkers;
use crate::clients::Clients;
use crate::conductor::Conductor;
use crate::host::{Clock, Disk, Host, Process};
use crate::meta::Meta;
use crate::network::Network;
use crate::plan::{Fault, MILLI, Plan, SECOND};
use crate::rng::Rng;
use crate::tally::Tally;
use crate::trace::Trace;

#[allow(missing_debug_implementations)] // nobody wants to read all of it at once
pub struct World<C> {
    pub plan: Plan,
    pub time: u64,
    pub rng: Rng,
    pub hosts: Vec<Host<C>>,
    pub network: Network,
    pub meta: Meta,
    pub clients: Clients,
    pub conductor: Conductor,
    pub checkers: Checkers,
    pub tally: Tally,
    pub trace: Trace,
    pub healed: bool,
    /// Node id → host, including ids of disks that are gone (none).
    pub index: BTreeMap<NodeId, usize>,
    /// Acknowledgements that are still under way for the second time: whoever begins to reign hears from its past.
    ghosts: BTreeMap<(usize, BucketId), VecDeque<(NodeId, PeerMessage)>>,
    queue: BinaryHeap<Due>,
    sequence: u64,
    config: node::Config,
    outputs: Vec<Output>,
}

/// What will happen.
#[derive(Debug)]
pub enum Event {
    Deliver { host: usize, life: u32, input: Input },
    Look { host: usize, life: u32 },
    Synced { host: usize, life: u32, batch: BatchId },
    Wake { host: usize, life: u32 },
    Resume { host: usize, life: u32 },
    Restart { host: usize },
    Push { host: usize, blueprint: Arc<Blueprint> },
    Propose { from: Option<(usize, u32)>, command: Proposal, tries: u8 },
    MetaRead { host: usize, life: u32, id: u64 },
    Echo { node: NodeId, epoch: Epoch },
    ClientCall { host: usize, life: u32, request: RequestId, command: Command, door: Door },
    ClientAnswer { request: RequestId, answer: Answer },
    ClientTurn { client: usize },
    ClientPatience { client: usize, request: RequestId },
    ClientRetry { client: usize, request: RequestId },
    Fault(Fault),
    Ambush { host: usize },
    Conduct,
    Sweep,
    Heal,
}

struct Due {
    time: u64,
    sequence: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.time, self.sequence) == (other.time, other.sequence)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.sequence).cmp(&(self.time, self.sequence))
    }
}

/// What was found wrong, by which checker.
#[derive(Clone, Debug)]
pub struct Failure {
    pub checker: &'static str,
    pub text: String,
}

/// The keyspace that clients work in, and the one that comes and goes.
pub(crate) const KEYSPACE: KeyspaceId = KeyspaceId(1);
const SECOND_KEYSPACE: KeyspaceId = KeyspaceId(2);

/// Meant for whatever process runs there when it arrives.
const ANY_LIFE: u32 = u32::MAX;

/// Late acknowledgements kept per replica.
const MOST_GHOSTS: usize = 24;

pub(crate) type Verdict = Result<(), Failure>;

pub(crate) fn fail<T>(checker: &'static str, text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure { checker, text: text.into() })
}

impl<C: Conduct> World<C> {
    pub fn new(plan: Plan, trace: Trace) -> Self {
        let mut rng = Rng::new(plan.seed ^ 0x5eed);
        let mut config = node::Config::default();
        if plan.small_checkpoints {
            config.phaser.checkpoint_every = rng.range(8, 60);
            config.phaser.keep_entries = rng.range(0, 40);
        } else {
            config.phaser.checkpoint_every = 300;
            config.phaser.keep_entries = 100;
        }
        config.phaser.window_entries = *rng.pick(&[3u64, 40, 1024]).expect("not empty");
        config.phaser.frame_entries = *rng.pick(&[2usize, 16, 512]).expect("not empty");
        config.phaser.image_bytes = *rng.pick(&[1usize, 200, 64 << 10]).expect("not empty");
        config.phaser.fill_rate = *rng.pick(&[2_000u64, 100_000, 64 << 20]).expect("not empty");
        if plan.busy {
            // Then it is not the throttle that a candidate waits for.
            config.phaser.window_entries = 1024;
            config.phaser.fill_rate = 64 << 20;
            config.phaser.image_bytes = 64 << 10;
        }
        config.upkeep = std::time::Duration::from_micros(plan.upkeep);
        config.check().expect("the numbers of a world fit together");
        let clients = Clients::new(&plan, rng.fork(1));
        let conductor = Conductor::new(rng.fork(2));
        Self {
            time: 0,
            hosts: Vec::new(),
            network: Network::default(),
            meta: Meta::new(),
            clients,
            conductor,
            checkers: Checkers::default(),
            tally: Tally { seeds: 1, ..Tally::default() },
            trace,
            healed: false,
            index: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            queue: BinaryHeap::new(),
            sequence: 0,
            config,
            outputs: Vec::new(),
            rng,
            plan,
        }
    }

    /// From nothing to the verdict.
    pub fn run(&mut self) -> Verdict {
        self.begin();
        let end = self.plan.unrest + self.plan.patience;
        while let Some(due) = self.queue.pop() {
            self.time = due.time;
            self.tally.events += 1;
            if self.time > end {
                return self.check_liveness();
            }
            self.on_event(due.event)?;
            if self.healed && self.clients.are_done() {
                break;
            }
        }
        self.check_at_end()
    }

    pub fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Due { time: time.max(self.time), sequence: self.sequence, event });
    }

    pub fn after(&mut self, delay: u64, event: Event) {
        self.at(self.time + delay, event);
    }

    fn begin(&mut self) {
        for i in 0..self.plan.nodes {
            let id = NodeId(i as u64 + 1);
            let clock = self.draw_clock();
            let add =
                Proposal::AddNode { id, name: format!("node-{}", i + 1), zone: String::new(), addresses: Vec::new() };
            self.meta.apply::<C>(&add).expect("a first node is welcome");
            self.hosts.push(Host {
                id,
                name: format!("node-{}", i + 1),
                clock,
                disk: Disk::default(),
                process: Process::Down,
                life: 0,
                inbox: Vec::new(),
                look_at: None,
                wake_at: u64::MAX,
                paused_until: 0,
                freeze_next: None,
                frozen: Vec::new(),
                slow_until: 0,
                slow_disk_until: 0,
                down_since: 0,
                meta_cut_until: 0,
            });
            self.index.insert(id, i);
        }
        self.create_keyspace("default", self.plan.buckets);
        if self.plan.second_keyspace {
            self.create_keyspace("second", 2);
            let at = self.rng.range(SECOND, self.plan.unrest);
            let command = Proposal::RemoveKeyspace { keyspace: SECOND_KEYSPACE };
            self.at(at, Event::Propose { from: None, command, tries: 0 });
        }
        for host in 0..self.hosts.len() {
            self.restart(host);
        }
        for client in 0..self.plan.clients {
            let delay = self.rng.range(0, 100 * MILLI);
            self.after(delay, Event::ClientTurn { client });
        }
        self.schedule_faults();
        self.after(200 * MILLI, Event::Conduct);
        self.after(SECOND, Event::Sweep);
        self.at(self.plan.unrest, Event::Heal);
    }

    fn create_keyspace(&mut self, name: &str, buckets: usize) {
        let placement = (0..buckets).map(|b| {
            let node = |k: usize| NodeId(((b + k) % self.plan.nodes) as u64 + 1);
            (0..usize::from(self.plan.replicas)).map(node).collect()
        });
        let create = Proposal::CreateKeyspace {
            name: name.into(),
            kind: blueprint::Kind::Store,
            replicas: self.plan.replicas,
            min_in_sync: Some(self.plan.minimum),
            durability: blueprint::Durability::Disk,
            placement: placement.collect(),
        };
        self.meta.apply::<C>(&create).expect("a first keyspace fits");
    }

    pub(crate) fn draw_clock(&mut self) -> Clock {
        let mut drift = self.rng.range(0, 2000) as i64 - 1000;
        if self.plan.faults.has(Fault::ClockRate) {
            self.tally.fault(Fault::ClockRate);
            drift = if self.rng.percent(50) { 10_000 } else { -10_000 };
        }
        let year = 50 * 365 * 24 * 3600 * SECOND;
        Clock { offset: self.rng.range(1, 1000) * SECOND, drift, wall: year + self.rng.range(0, 2 * SECOND) }
    }

    fn on_event(&mut self, event: Event) -> Verdict {
        match event {
            Event::Deliver { host, life, input } => self.deliver(host, life, input),
            Event::Look { host, life } => return self.look(host, life),
            Event::Synced { host, life, batch } => self.on_synced(host, life, batch),
            Event::Wake { host, life } => {
                if self.hosts[host].life == life {
                    self.hosts[host].wake_at = u64::MAX;
                    self.deliver(host, life, Input::Wake);
                }
            }
            Event::Resume { host, life } => return self.resume(host, life),
            Event::Restart { host } => self.restart(host),
            Event::Push { host, blueprint } => {
                let life = self.hosts[host].life;
                if !self.is_cut_off(host) {
                    self.deliver(host, life, Input::Blueprint(blueprint));
                }
            }
            Event::Propose { from, command, tries } => return self.on_propose(from, command, tries),
            Event::MetaRead { host, life, id } => self.on_meta_read(host, life, id),
            Event::Echo { node, epoch } => self.meta.echo(node, epoch),
            Event::ClientCall { host, life, request, command, door } => {
                self.deliver(host, life, Input::Client { request, command, door });
            }
            Event::ClientAnswer { request, answer } => self.on_client_answer(request, answer),
            Event::ClientTurn { client } => self.on_client_turn(client),
            Event::ClientPatience { client, request } => self.on_client_patience(client, request),
            Event::ClientRetry { client, request } => self.on_client_retry(client, request),
            Event::Fault(fault) => self.strike(fault),
            Event::Ambush { host } => {
                if !self.healed && self.hosts[host].is_up() {
                    self.tally.fault(Fault::Crash);
                    self.crash(host);
                    let delay = self.spell();
                    self.after(delay, Event::Restart { host });
                }
            }
            Event::Conduct => self.conduct()?,
            Event::Sweep => return self.on_sweep(),
            Event::Heal => self.heal(),
        }
        Ok(())
    }

    // ---- processes

    fn deliver(&mut self, host: usize, life: u32, input: Input) {
        let slow = self.hosts[host].slow_until > self.time;
        let delay = if slow { self.rng.range(20 * MILLI, 250 * MILLI) } else { self.rng.range(5, 60) };
        let target = &mut self.hosts[host];
        if (life != ANY_LIFE && target.life != life) || !target.is_up() {
            return;
        }
        let life = target.life;
        target.inbox.push(input);
        if target.look_at.is_none() && target.paused_until <= self.time {
            target.look_at = Some(self.time + delay);
            self.after(delay, Event::Look { host, life });
        }
    }

    /// The process reads everything that is there, decides, and does: one batch.
    fn look(&mut self, host: usize, life: u32) -> Verdict {
        if self.hosts[host].life != life || !self.hosts[host].is_up() {
            return Ok(());
        }
        self.hosts[host].look_at = None;
        if self.hosts[host].paused_until > self.time {
            return Ok(()); // it looks when it resumes
        }
        let now = self.hosts[host].clock.local(self.time);
        let inputs = std::mem::take(&mut self.hosts[host].inbox);
        let mut out = std::mem::take(&mut self.outputs);
        let Process::Up(node) = &mut self.hosts[host].process else { return Ok(()) };
        for input in inputs {
            self.trace.input(self.time, host, &input);
            node.step(now, input, &mut out);
        }
        if node.deadline() <= now {
            node.step(now, Input::Wake, &mut out);
        }
        node.step(now, Input::Flush, &mut out);
        node.check_invariants();
        let deadline = node.deadline();
        self.checkers.look::<C>(self.time, host, &self.hosts, &self.meta)?;
        self.schedule_wake(host, deadline);
        if let Some(until) = self.hosts[host].freeze_next.take() {
            // Paused between deciding and doing.
            self.hosts[host].paused_until = until;
            self.hosts[host].frozen.append(&mut out);
            self.at(until, Event::Resume { host, life });
        } else {
            self.carry_out(host, &mut out)?;
        }
        out.clear();
        self.outputs = out;
        Ok(())
    }

    fn schedule_wake(&mut self, host: usize, deadline: blueprint::Instant) {
        let at = self.hosts[host].clock.true_time(deadline).max(self.time + 1);
        if at < self.hosts[host].wake_at {
            self.hosts[host].wake_at = at;
            let life = self.hosts[host].life;
            self.at(at, Event::Wake { host, life });
        }
    }

    fn resume(&mut self, host: usize, life: u32) -> Verdict {
        if self.hosts[host].life != life || !self.hosts[host].is_up() || self.hosts[host].paused_until > self.time {
            return Ok(());
        }
        let mut frozen = std::mem::take(&mut self.hosts[host].frozen);
        self.carry_out(host, &mut frozen)?;
        if self.hosts[host].look_at.is_none() {
            self.hosts[host].look_at = Some(self.time);
            self.after(0, Event::Look { host, life });
        }
        Ok(())
    }

    fn carry_out(&mut self, host: usize, out: &mut Vec<Output>) -> Verdict {
        let life = self.hosts[host].life;
        let from = self.hosts[host].id;
        for output in out.drain(..) {
            self.trace.output(self.time, host, &output);
            match output {
                Output::Send { to, message } => self.send(host, from, to, message),
                Output::Write { id, records } => self.write(host, life, id, records),
                Output::Answer { origin, answer } => self.answer(host, from, origin, answer),
                Output::Read { origin, command, answer, good_until } => {
                    // One clock reading after the evaluation: what is no longer good goes back.
                    if self.hosts[host].clock.local(self.time) < good_until {
                        self.checkers.on_read(self.time, host, &command, &self.hosts, &self.meta)?;
                        self.answer(host, from, origin, answer);
                    } else {
                        self.tally.note("answers held back, lease over");
                        self.deliver(host, life, Input::Late { origin, command });
                    }
                }
                Output::Propose(_) | Output::ReadMeta { .. } | Output::Echo(_) if self.is_cut_off(host) => {}
                Output::Propose(command) => {
                    let delay = self.meta_delay();
                    self.after(delay, Event::Propose { from: Some((host, life)), command, tries: 0 });
                }
                Output::ReadMeta { id } => {
                    let delay = self.meta_delay();
                    self.after(delay, Event::MetaRead { host, life, id });
                }
                Output::Echo(epoch) => {
                    let delay = self.meta_delay();
                    self.after(delay, Event::Echo { node: from, epoch });
                }
                Output::Erased { bucket, incarnation } => {
                    self.tally.note("replicas erased");
                    self.checkers.on_erased(&self.hosts[host], bucket, incarnation, &self.meta)?;
                }
                Output::Event { bucket, event } => self.on_phaser_event(host, bucket, &event),
            }
        }
        Ok(())
    }

    pub(crate) fn crash(&mut self, host: usize) {
        self.trace.line(self.time, host, || "crashes".into());
        self.note_interrupted(host);
        let lossy = self.plan.faults.has(Fault::LostWrites) && !self.plan.memory_level;
        let torn = self.plan.faults.has(Fault::TornRecord) && !self.plan.memory_level;
        let keep = *self.rng.pick(&[0u64, 30, 50, 80, 100]).expect("not empty");
        let host_ = &mut self.hosts[host];
        let mut survivors = Vec::new();
        for (_, records) in host_.disk.unsynced.drain(..) {
            for record in records {
                if lossy && !self.rng.percent(keep) {
                    self.tally.fault(Fault::LostWrites);
                } else if torn && self.rng.percent(5) {
                    self.tally.fault(Fault::TornRecord); // its checksum says so: as good as lost
                } else {
                    survivors.push(record);
                }
            }
        }
        survivors.iter().for_each(|record| host_.disk.settled.absorb(record));
        host_.disk.stop();
        host_.process = Process::Down;
        host_.life += 1;
        host_.inbox.clear();
        host_.frozen.clear();
        host_.freeze_next = None;
        host_.look_at = None;
        host_.wake_at = u64::MAX;
        host_.paused_until = 0;
        host_.down_since = self.time;
    }

    pub(crate) fn restart(&mut self, host: usize) {
        if self.hosts[host].is_up() {
            return;
        }
        self.trace.line(self.time, host, || "starts".into());
        let seed = self.rng.next();
        let wall = self.hosts[host].clock.wall(self.time);
        let target = &mut self.hosts[host];
        target.life += 1;
        let now = target.clock.local(self.time);
        let mut out = Vec::new();
        let durable = target.disk.settled.clone();
        let node = Node::recover(target.id, self.config.clone(), durable, seed, now, &mut out);
        target.process = Process::Up(Box::new(node));
        let life = target.life;
        let id = target.id;
        self.checkers.on_restart(id);
        target_outputs(&mut self.hosts[host], out);
        self.deliver(host, life, Input::Wall { micros: wall });
        let delay = self.rng.around(60 * MILLI);
        let blueprint = Arc::clone(&self.meta.blueprint);
        self.after(delay, Event::Push { host, blueprint });
        let _ = self.resume(host, life);
    }

    // ---- network

    fn send(&mut self, host: usize, from: NodeId, to: NodeId, message: PeerMessage) {
        let Some(&target) = self.index.get(&to) else { return };
        if !self.network.passes(host, target, self.time) {
            return;
        }
        let faults = if self.healed { crate::plan::Faults::none() } else { self.plan.faults };
        if faults.has(Fault::Loss) && self.rng.permille(20) {
            return self.tally.fault(Fault::Loss);
        }
        // A link delivers a hop at most once; what replicas say to each other must not depend on even that.
        let between_replicas = matches!(message, PeerMessage::Bucket { .. });
        let mut delay = self.plan.latency / 2 + self.rng.range(0, self.plan.latency);
        if host == 0 || target == 0 {
            delay += self.plan.far;
        }
        if faults.has(Fault::Delay) && self.rng.permille(8) {
            self.tally.fault(Fault::Delay);
            delay += self.rng.around(self.plan.lateness);
        } else if faults.has(Fault::Reorder) && self.rng.permille(30) {
            self.tally.fault(Fault::Reorder);
            delay += self.rng.around(4 * self.plan.latency);
        }
        if faults.has(Fault::Duplicate)
            && let PeerMessage::Bucket { bucket, envelope } = &message
            && matches!(envelope.message, phaser::Message::Prepared { .. })
        {
            let ghosts = self.ghosts.entry((target, *bucket)).or_default();
            ghosts.push_back((from, message.clone()));
            if ghosts.len() > MOST_GHOSTS {
                ghosts.pop_front();
            }
        }
        let life = self.hosts[target].life;
        if faults.has(Fault::Duplicate) && between_replicas && self.rng.permille(self.plan.duplicates) {
            self.tally.fault(Fault::Duplicate);
            let again = delay + self.rng.around(self.plan.lateness);
            let input = Input::Peer { from, message: message.clone() };
            self.after(again, Event::Deliver { host: target, life: ANY_LIFE, input });
        }
        self.after(delay, Event::Deliver { host: target, life, input: Input::Peer { from, message } });
    }

    pub(crate) fn raise_ghosts(&mut self, host: usize, bucket: BucketId) {
        if self.healed || !self.rng.percent(50) {
            return;
        }
        for (from, message) in self.ghosts.remove(&(host, bucket)).into_iter().flatten() {
            self.tally.fault(Fault::Duplicate);
            let delay = self.rng.around(60 * MILLI);
            self.after(delay, Event::Deliver { host, life: ANY_LIFE, input: Input::Peer { from, message } });
        }
    }

    fn answer(&mut self, host: usize, from: NodeId, origin: Origin, answer: Answer) {
        match origin {
            Origin::Hop { node, id } => self.send(host, from, node, PeerMessage::HopAnswer { id, answer }),
            Origin::Client(request) => {
                if !self.healed && self.plan.faults.has(Fault::Loss) && self.rng.permille(10) {
                    return self.tally.fault(Fault::Loss);
                }
                let delay = self.plan.latency / 2 + self.rng.range(0, self.plan.latency);
                self.after(delay, Event::ClientAnswer { request, answer });
            }
        }
    }

    // ---- disk

    fn write(&mut self, host: usize, life: u32, id: BatchId, records: Vec<NodeRecord>) {
        let slow = self.hosts[host].slow_disk_until > self.time;
        let mut latency = self.rng.range(self.plan.disk_latency / 2, self.plan.disk_latency * 2);
        if self.plan.memory_level {
            latency = 1;
        }
        if slow {
            latency += self.rng.around(150 * MILLI);
        }
        let disk = &mut self.hosts[host].disk;
        disk.unsynced.push_back((id, records));
        let at = disk.sync(self.time, latency);
        self.at(at, Event::Synced { host, life, batch: id });
    }

    fn on_synced(&mut self, host: usize, life: u32, batch: BatchId) {
        if self.hosts[host].life == life && self.hosts[host].is_up() {
            self.hosts[host].disk.settle(batch);
            self.deliver(host, life, Input::Written { upto: batch });
        }
    }

    // ---- meta group

    fn meta_delay(&mut self) -> u64 {
        let mut delay = self.plan.latency + self.rng.range(0, 3 * self.plan.latency);
        if self.meta.slow_until > self.time {
            delay += self.rng.around(400 * MILLI);
        }
        delay
    }

    pub(crate) fn propose(&mut self, command: Proposal) {
        let delay = self.meta_delay();
        self.after(delay, Event::Propose { from: None, command, tries: 0 });
    }

    fn on_propose(&mut self, from: Option<(usize, u32)>, command: Proposal, tries: u8) -> Verdict {
        if self.meta.away_until > self.time {
            // Lost, or found again when the meta group is back: the proposer cannot tell.
            if self.rng.percent(50) && tries < 8 {
                let delay = self.meta.away_until - self.time + self.rng.around(200 * MILLI);
                self.after(delay, Event::Propose { from, command, tries: tries + 1 });
            }
            return Ok(());
        }
        if !self.healed && self.plan.faults.has(Fault::MetaUnknown) && tries == 0 && self.rng.percent(10) {
            // It arrives once more, late: an unknown outcome is settled only by a successor (R7).
            self.tally.fault(Fault::MetaUnknown);
            let delay = self.rng.around(800 * MILLI);
            self.after(delay, Event::Propose { from, command: command.clone(), tries: 8 });
            if self.rng.percent(50) {
                return Ok(());
            }
        }
        if self.plan.forgetful && !self.healed && matches!(command, Proposal::Register { .. }) && self.rng.percent(95) {
            return Ok(()); // lost, again and again: a child may live long before the blueprint hears of it
        }
        if self.would_orphan(&command) {
            return Ok(());
        }
        let before = self.meta.blueprint.epoch;
        let result = self.meta.apply::<C>(&command);
        self.trace.line(self.time, usize::MAX, || format!("{command:?} -> {result:?}"));
        match result {
            Ok(_) if self.meta.blueprint.epoch == before => {}
            Ok(_) => {
                self.checkers.on_accepted(self.time, &command, &self.hosts, &self.meta)?;
                self.on_accepted(&command);
                self.push_to_all();
            }
            Err(_) => {
                self.tally.note("proposals refused");
                let lost = self.plan.faults.has(Fault::MetaUnknown) && !self.healed && self.rng.percent(30);
                if let (Some((host, life)), Proposal::Succeed { bucket, replaces, .. }, false) = (from, &command, lost)
                {
                    let (bucket, term) = (*bucket, *replaces);
                    let delay = self.meta_delay();
                    self.after(delay, Event::Deliver { host, life, input: Input::Rejected { bucket, term } });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn push_to_all(&mut self) {
        for host in 0..self.hosts.len() {
            let blueprint = Arc::clone(&self.meta.blueprint);
            if !self.healed && self.rng.percent(15) {
                continue; // lost; the next round of pushes brings it
            }
            let delay = self.meta_delay();
            self.after(delay, Event::Push { host, blueprint });
        }
    }

    fn is_cut_off(&self, host: usize) -> bool {
        self.hosts[host].meta_cut_until > self.time
    }

    fn on_meta_read(&mut self, host: usize, life: u32, id: u64) {
        if self.meta.away_until > self.time || self.is_cut_off(host) {
            return;
        }
        let input =
            Input::MetaRead { id, blueprint: Arc::clone(&self.meta.blueprint), echoes: Arc::clone(&self.meta.echoes) };
        let mut delay = self.meta_delay();
        if !self.healed && self.plan.faults.has(Fault::MetaSlow) && self.rng.permille(20) {
            delay += self.rng.around(2 * SECOND);
        }
        self.after(delay, Event::Deliver { host, life, input });
    }

    /// Every so often: wall clocks are read, blueprints are pushed to whoever echoes an older epoch, states are compared.
    fn on_sweep(&mut self) -> Verdict {
        for host in 0..self.hosts.len() {
            let life = self.hosts[host].life;
            let micros = self.hosts[host].clock.wall(self.time);
            self.deliver(host, life, Input::Wall { micros });
            let echoed = self.meta.echoes.get(&self.hosts[host].id).copied().unwrap_or_default();
            if echoed < self.meta.blueprint.epoch && self.meta.away_until <= self.time {
                let delay = self.meta_delay();
                let blueprint = Arc::clone(&self.meta.blueprint);
                self.after(delay, Event::Push { host, blueprint });
            }
        }
        self.checkers.compare_states(self.time, &self.hosts)?;
        self.after(SECOND, Event::Sweep);
        Ok(())
    }

    fn heal(&mut self) {
        self.trace.line(self.time, usize::MAX, || "the world heals".into());
        self.healed = true;
        self.network.heal();
        self.meta.away_until = 0;
        self.meta.slow_until = 0;
        for host in 0..self.hosts.len() {
            self.hosts[host].slow_until = 0;
            self.hosts[host].meta_cut_until = 0;
            self.hosts[host].slow_disk_until = 0;
            self.hosts[host].freeze_next = None;
            if self.hosts[host].paused_until > self.time {
                self.hosts[host].paused_until = self.time;
                let life = self.hosts[host].life;
                self.after(0, Event::Resume { host, life });
            }
            self.restart(host);
        }
        self.push_to_all();
        self.clients.wind_down();
    }

    /// Whoever names a successor has heard from it, and whoever dismisses a secondary has heard from the primary: the
    /// directory says who holds what. Otherwise a live copy could be sent away in favour of a dead one.
    fn would_orphan(&self, command: &Proposal) -> bool {
        let Proposal::Succeed { bucket, change, .. } = command else { return false };
        match change {
            Change::Usurp { to, .. } => !self.holds(*to, *bucket),
            Change::Dismiss { secondary, .. } => {
                self.holds(*secondary, *bucket)
                    && !self.government(*bucket).is_some_and(|g| self.holds(g.primary, *bucket))
            }
            _ => false,
        }
    }

    /// Is this very replica safe on its node's disk?
    pub(crate) fn holds(&self, member: Member, bucket: BucketId) -> bool {
        let durable = self.index.get(&member.node).and_then(|i| self.hosts[*i].disk.settled.replicas.get(&bucket));
        durable.is_some_and(|d| d.me == member)
    }

    pub fn government(&self, bucket: BucketId) -> Option<&blueprint::Government> {
        self.meta.blueprint.government(bucket)
    }
}

fn target_outputs<C>(host: &mut Host<C>, mut out: Vec<Output>) {
    host.frozen.append(&mut out); // what recovery decided leaves as soon as the process runs
}
