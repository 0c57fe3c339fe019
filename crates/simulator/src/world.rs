//! A whole cluster under one virtual clock, from one seed.
//!
//! The world does what operating systems, networks, disks and people do; every decision of the protocol is taken by the
//! same code that the product runs. Unrest first: faults, moves and clients at random. Then the world heals, and everything
//! must come to rest: every bucket serves, every move ends, nothing waits.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use blueprint::{
    Blueprint, BucketId, Change, Command as Proposal, Conduct, KeyspaceId, LaneId, Member, MetaCommand, NodeId, Slot,
    Succession,
};
use bytes::Bytes;
use node::{
    Answer, Answered, BatchId, Door, Input, Mail, Node, NodeRecord, Origin, Output, PeerMessage, RequestId, Station,
    StoreId,
};
use values::Command;

use crate::checkers::Checkers;
use crate::clients::Clients;
use crate::conductor::Conductor;
use crate::host::{Clock, Disk, Host, Part, Process, Thread, Unsynced, about, is_note};
use crate::matrix::Drill;
use crate::matrix::drill::APPLIED_AT;
use crate::meta::Meta;
use crate::network::Network;
use crate::plan::{Fault, MILLI, Plan, SECOND};
use crate::planning::leisure;
use crate::rng::Rng;
use crate::tally::Tally;
use crate::trace::Trace;
use crate::traffic::Traffic;
use crate::vigil::Vigil;

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
    pub vigil: Vigil,
    pub tally: Tally,
    pub trace: Trace,
    pub healed: bool,
    /// Node id → host, including ids of disks that are gone (none).
    pub index: BTreeMap<NodeId, usize>,
    /// Acknowledgements that are still under way for the second time: whoever begins to reign hears from its past.
    ghosts: BTreeMap<(usize, BucketId), VecDeque<(NodeId, PeerMessage)>>,
    queue: BinaryHeap<Due>,
    sequence: u64,
    pub(crate) config: node::Config,
    outputs: Vec<Output>,
    /// What is sent is counted, if anybody wants to know.
    pub(crate) traffic: Option<Traffic>,
    /// The one thing that goes wrong, in a world of the matrix.
    pub(crate) drill: Option<Box<Drill>>,
}

/// What will happen.
#[derive(Debug)]
pub enum Event {
    Deliver {
        host: usize,
        life: u32,
        station: Option<Station>,
        input: Input,
    },
    Look {
        host: usize,
        life: u32,
        station: Station,
    },
    Synced {
        host: usize,
        life: u32,
        station: Station,
        batch: BatchId,
        part: Part,
    },
    Stored {
        host: usize,
        life: u32,
        station: Station,
        id: StoreId,
        bucket: BucketId,
        tables: Vec<(Slot, Bytes)>,
    },
    Wake {
        host: usize,
        life: u32,
        station: Station,
    },
    Resume {
        host: usize,
        life: u32,
    },
    Restart {
        host: usize,
    },
    Push {
        host: usize,
        blueprint: Arc<Blueprint>,
    },
    Propose {
        from: Option<Sender>,
        command: MetaCommand,
        tries: u8,
    },
    MetaRead {
        from: Sender,
        id: u64,
    },
    ClientCall {
        host: usize,
        life: u32,
        request: RequestId,
        command: Command,
        door: Door,
    },
    ClientAnswer {
        request: RequestId,
        answer: Answer,
    },
    ClientTurn {
        client: usize,
    },
    ClientPatience {
        client: usize,
        request: RequestId,
    },
    ClientRetry {
        client: usize,
        request: RequestId,
    },
    Fault(Fault),
    Ambush {
        host: usize,
    },
    /// A world of the matrix: its operation begins; its blow falls.
    Drill,
    Blow,
    Conduct,
    Sweep,
    Heal,
}

/// Who asked, and may hear an answer.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    pub(crate) host: usize,
    life: u32,
    station: Station,
}

struct Due {
    time: u64,
    sequence: u64,
    /// Boxed, because the queue moves what it sorts.
    event: Box<Event>,
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

/// No seed is over before this; a world that healed early must stay as it is.
const SHORTEST: u64 = 30 * SECOND;

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
        let log_bytes = if plan.seed.is_multiple_of(3) { 4 << 10 } else { 0 };
        let encoded_at_once = if plan.seed % 4 == 1 { 16 } else { node::Config::default().encoded_at_once };
        let mut config = node::Config { log_bytes, encoded_at_once, ..node::Config::default() };
        if plan.small_checkpoints {
            config.phaser.checkpoint_every = rng.range(8, 60);
            config.phaser.keep_entries = rng.range(0, 40);
        } else {
            config.phaser.checkpoint_every = 300;
            config.phaser.keep_entries = 100;
        }
        if plan.seed % 5 == 2 {
            (config.phaser.checkpoint_bytes, config.phaser.keep_bytes) = (1500, 800);
        }
        config.phaser.window_entries = *rng.pick(&[3u64, 40, 1024]).expect("not empty");
        config.phaser.frame_entries = *rng.pick(&[2usize, 16, 512]).expect("not empty");
        config.phaser.image_bytes = *rng.pick(&[1usize, 200, 64 << 10]).expect("not empty");
        // Slow, but what is written in this world must arrive before its patience ends (seed 2528); and of a bucket that absorbed others
        // each slot is at least a clock (seeds 2423 and 3676).
        let clocks = u64::from(Slot::COUNT) * 8;
        let slow = (plan.writes() / 6).max(clocks / 20);
        config.phaser.fill_rate = *rng.pick(&[slow, 100_000, 64 << 20]).expect("not empty");
        if plan.busy {
            // Then it is not the throttle that a candidate waits for.
            config.phaser.window_entries = 1024;
            config.phaser.fill_rate = 64 << 20;
            config.phaser.image_bytes = 64 << 10;
        }
        config.upkeep = std::time::Duration::from_micros(plan.upkeep);
        config.directory.part_rows = plan.directory_rows;
        config.limits.recovery_delay = std::time::Duration::from_millis(1500);
        if plan.auto {
            config.leisure = leisure();
        }
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
            vigil: Vigil::default(),
            tally: Tally { seeds: 1, ..Tally::default() },
            trace,
            healed: false,
            index: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            queue: BinaryHeap::new(),
            sequence: 0,
            config,
            outputs: Vec::new(),
            traffic: None,
            drill: None,
            rng,
            plan,
        }
    }

    /// From nothing to the verdict.
    pub fn run(&mut self) -> Verdict {
        self.begin();
        while let Some(due) = self.queue.pop() {
            self.time = due.time;
            self.tally.events += 1;
            // A drill decides only when its blow falls when the world heals.
            if self.time > self.plan.unrest + self.plan.patience {
                return self.check_liveness();
            }
            self.on_event(*due.event)?;
            if self.drill.as_ref().is_some_and(|drill| drill.void().is_some()) {
                return Ok(());
            }
            if self.healed && self.clients.are_done() && self.time >= SHORTEST {
                break;
            }
        }
        self.check_at_end()
    }

    pub fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Due { time: time.max(self.time), sequence: self.sequence, event: Box::new(event) });
    }

    pub fn after(&mut self, delay: u64, event: Event) {
        self.at(self.time + delay, event);
    }

    /// Everything that happens before that.
    pub(crate) fn run_until(&mut self, time: u64) -> Verdict {
        while self.queue.peek().is_some_and(|due| due.time < time) {
            let due = self.queue.pop().expect("it was just seen");
            self.time = due.time;
            self.on_event(*due.event)?;
        }
        self.time = time;
        Ok(())
    }

    pub(crate) fn begin(&mut self) {
        for i in 0..self.plan.nodes {
            let id = NodeId(i as u64 + 1);
            let clock = self.draw_clock();
            let add =
                Proposal::AddNode { id, name: format!("node-{}", i + 1), zone: String::new(), addresses: Vec::new() };
            self.meta.change::<C>(0, &add).expect("a first node is welcome");
            self.hosts.push(Host {
                id,
                name: format!("node-{}", i + 1),
                clock,
                disk: Disk::default(),
                process: Process::Down,
                life: 0,
                threads: Vec::new(),
                paused_until: 0,
                freeze_next: None,
                frozen: Vec::new(),
                slow_until: 0,
                slow_disk_until: 0,
                down_since: 0,
                up_since: 0,
                began_at: Vec::new(),
                meta_cut_until: 0,
            });
            self.index.insert(id, i);
        }
        self.create_keyspace("default", self.plan.buckets);
        if self.plan.second_keyspace {
            self.create_keyspace("second", 2);
            let at = self.rng.range(SECOND, self.plan.unrest);
            let command = MetaCommand::Change(Proposal::RemoveKeyspace { keyspace: SECOND_KEYSPACE });
            if !self.plan.wide {
                self.at(at, Event::Propose { from: None, command, tries: 0 }); // otherwise by an operation
            }
        }
        if self.plan.auto {
            let on = Proposal::SetAutoRebalance { on: true, by: "conductor".into() };
            self.meta.change::<C>(0, &on).expect("it was off");
        }
        if let Some(chronicle) = &mut self.trace.chronicle {
            chronicle.on_blueprint(0, None, &self.meta.blueprint);
        }
        for host in 0..self.hosts.len() {
            self.restart(host);
        }
        for client in 0..self.plan.clients {
            let delay = self.rng.range(0, 100 * MILLI);
            self.after(delay, Event::ClientTurn { client });
        }
        self.schedule_faults();
        if self.drill.is_some() {
            self.at(APPLIED_AT, Event::Drill);
        }
        self.after(200 * MILLI, Event::Conduct);
        self.after(SECOND, Event::Sweep);
        self.at(self.plan.unrest, Event::Heal);
    }

    fn create_keyspace(&mut self, name: &str, buckets: usize) {
        let placement = (0..buckets).map(|b| {
            let node = |k: usize| NodeId(((b + k) % self.plan.nodes) as u64 + 1);
            let as_drilled = self.drill.as_ref().map(|drill| drill.holders(b));
            as_drilled.unwrap_or_else(|| (0..usize::from(self.plan.replicas)).map(node).collect())
        });
        let create = Proposal::CreateKeyspace {
            name: name.into(),
            kind: blueprint::Kind::Store,
            replicas: self.plan.replicas,
            min_in_sync: Some(self.plan.minimum),
            durability: blueprint::Durability::Disk,
            placement: placement.collect(),
        };
        self.meta.change::<C>(0, &create).expect("a first keyspace fits");
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
            Event::Deliver { host, life, station, input } => match station {
                Some(station) => self.deliver(host, life, station, input),
                None => self.deliver_from_peer(host, life, input),
            },
            Event::Look { host, life, station } => return self.look(host, life, station),
            Event::Synced { host, life, station, batch, part } => self.on_synced(host, life, station, batch, part),
            Event::Stored { host, life, station, id, bucket, tables } => {
                if self.hosts[host].life == life && self.hosts[host].is_up() {
                    self.deliver(host, life, station, Input::Stored { id, bucket, tables });
                }
            }
            Event::Wake { host, life, station } => {
                if self.hosts[host].life == life
                    && let Some(thread) = self.hosts[host].thread(station)
                {
                    thread.wake_at = u64::MAX;
                    self.deliver(host, life, station, Input::Wake);
                }
            }
            Event::Resume { host, life } => return self.resume(host, life),
            Event::Restart { host } => self.restart(host),
            Event::Push { host, blueprint } => {
                let life = self.hosts[host].life;
                if !self.is_cut_off(host) {
                    self.deliver(host, life, Station::Desk, Input::Blueprint(blueprint));
                }
            }
            Event::Propose { from, command, tries } => return self.on_propose(from, command, tries),
            Event::MetaRead { from, id } => self.on_meta_read(from, id),
            Event::ClientCall { host, life, request, command, door } => {
                let lane = request.0 % u64::from(self.hosts[host].lanes().max(1));
                let input = Input::Client { request, keyspace: KEYSPACE, command, door };
                self.deliver(host, life, Station::Lane(lane as u16), input);
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
            Event::Drill => return self.begin_drill(),
            Event::Blow => self.strike_blow(),
            Event::Conduct => self.conduct()?,
            Event::Sweep => return self.on_sweep(),
            Event::Heal if self.time < self.plan.unrest => {} // put off
            Event::Heal => self.heal(),
        }
        Ok(())
    }

    // ---- processes

    fn deliver_from_peer(&mut self, host: usize, life: u32, input: Input) {
        if let Input::Peer { message, .. } = &input
            && self.hosts[host].is_up()
        {
            let station = message.station(self.hosts[host].lanes());
            self.deliver(host, life, station, input);
        }
    }

    fn deliver(&mut self, host: usize, life: u32, station: Station, input: Input) {
        let slow = self.hosts[host].slow_until > self.time;
        let delay = if slow { self.rng.range(20 * MILLI, 250 * MILLI) } else { self.rng.range(5, 60) };
        let target = &mut self.hosts[host];
        if (life != ANY_LIFE && target.life != life) || !target.is_up() {
            return;
        }
        let (life, paused) = (target.life, target.paused_until > self.time);
        let Some(thread) = target.thread(station) else { return };
        thread.inbox.push(input);
        if thread.look_at.is_none() && !paused {
            let at = (self.time + delay).max(thread.stalled_until);
            thread.look_at = Some(at);
            self.at(at, Event::Look { host, life, station });
        }
    }

    /// A station reads everything that is there, decides, and does: one batch.
    fn look(&mut self, host: usize, life: u32, station: Station) -> Verdict {
        if self.hosts[host].life != life || !self.hosts[host].is_up() {
            return Ok(());
        }
        let paused = self.hosts[host].paused_until > self.time;
        let Some(thread) = self.hosts[host].thread(station) else { return Ok(()) };
        thread.look_at = None;
        if paused {
            return Ok(()); // it looks when it resumes
        }
        let inputs = std::mem::take(&mut thread.inbox);
        let now = self.hosts[host].clock.local(self.time);
        let mut out = std::mem::take(&mut self.outputs);
        let Process::Up(node) = &mut self.hosts[host].process else { return Ok(()) };
        for input in inputs {
            self.trace.input(self.time, host, station, &input);
            node.step(station, now, input, &mut out);
            self.checkers.check_complete(node)?;
        }
        if node.deadline(station) <= now {
            node.step(station, now, Input::Wake, &mut out);
        }
        node.step(station, now, Input::Flush, &mut out);
        self.checkers.check_complete(node)?;
        node.check_invariants(station);
        if station == Station::Desk {
            Checkers::check_rows(node)?;
        }
        let deadline = node.deadline(station);
        if let Station::Lane(lane) = station {
            self.checkers.look::<C>(self.time, host, &self.hosts, &self.meta)?;
            self.watch_lane(host, lane)?;
        }
        self.schedule_wake(host, station, deadline);
        if let Some(until) = self.hosts[host].freeze_next.take() {
            // Paused between deciding and doing; not into the past, though something else kept it from looking for so long.
            let until = until.max(self.time);
            self.hosts[host].paused_until = until;
            self.hosts[host].frozen.extend(out.drain(..).map(|output| (station, output)));
            self.at(until, Event::Resume { host, life });
        } else {
            for output in out.drain(..) {
                self.carry_out(host, station, output)?;
            }
        }
        self.outputs = out;
        Ok(())
    }

    fn schedule_wake(&mut self, host: usize, station: Station, deadline: blueprint::Instant) {
        let at = self.hosts[host].clock.true_time(deadline).max(self.time + 1);
        let life = self.hosts[host].life;
        if let Some(thread) = self.hosts[host].thread(station).filter(|thread| at < thread.wake_at) {
            thread.wake_at = at;
            self.at(at, Event::Wake { host, life, station });
        }
    }

    fn resume(&mut self, host: usize, life: u32) -> Verdict {
        if self.hosts[host].life != life || !self.hosts[host].is_up() || self.hosts[host].paused_until > self.time {
            return Ok(());
        }
        for (station, output) in std::mem::take(&mut self.hosts[host].frozen) {
            self.carry_out(host, station, output)?;
        }
        let stations: Vec<Station> = self.hosts[host].node().into_iter().flat_map(Node::stations).collect();
        let time = self.time;
        for station in stations {
            let idle = self.hosts[host].thread(station).filter(|thread| thread.look_at.is_none());
            if let Some(thread) = idle {
                let at = time.max(thread.stalled_until);
                thread.look_at = Some(at);
                self.at(at, Event::Look { host, life, station });
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, host: usize, station: Station, output: Output) -> Verdict {
        let life = self.hosts[host].life;
        let from = self.hosts[host].id;
        let sender = Sender { host, life, station };
        self.trace.output(self.time, host, station, &output);
        self.drill_on_output(&output);
        if let Some(traffic) = &mut self.traffic {
            traffic.count(self.time, host, &output);
        }
        match output {
            Output::Send { to, message } => self.send(host, from, to, message),
            Output::Write { id, records } => self.write(sender, id, records),
            Output::Store { id, bucket, tables } => self.store(sender, id, bucket, tables),
            Output::Release { .. } => {}
            Output::Answer { origin, answer } => self.answer(host, from, origin, answer),
            Output::Read { origin, home, keyspace, command, answer, good_until } => {
                // One clock reading after the evaluation: what is no longer good goes back.
                if self.hosts[host].clock.local(self.time) < good_until {
                    self.checkers.on_read(self.time, host, &command, &self.hosts, &self.meta)?;
                    if station == Station::Lane(home) {
                        self.answer(host, from, origin, answer);
                    } else {
                        let mail = Mail::Answers(vec![Answered { origin, answer }]);
                        self.deliver(host, life, Station::Lane(home), Input::Mail { from: station, mail });
                    }
                } else {
                    self.tally.note("answers held back, lease over");
                    self.deliver(host, life, station, Input::Late { origin, home, keyspace, command });
                }
            }
            Output::Mail { to, mail } => self.deliver(host, life, to, Input::Mail { from: station, mail }),
            Output::Propose(_) | Output::Report(_) | Output::ReadMeta { .. } | Output::Rebalance { .. }
                if self.is_cut_off(host) => {}
            Output::Propose(command) => {
                let delay = self.meta_delay();
                let command = MetaCommand::Change(command);
                self.after(delay, Event::Propose { from: Some(sender), command, tries: 0 });
            }
            Output::Report(report) => {
                if !self.healed && self.plan.faults.has(Fault::ReportLost) && self.rng.percent(25) {
                    self.tally.fault(Fault::ReportLost);
                    return Ok(());
                }
                let delay = self.meta_delay();
                let command = MetaCommand::Report(report);
                self.after(delay, Event::Propose { from: Some(sender), command, tries: 0 });
            }
            Output::ReadMeta { id } => {
                let delay = self.meta_delay();
                self.after(delay, Event::MetaRead { from: sender, id });
            }
            Output::Rebalance { epoch } => self.weigh(sender, epoch),
            Output::Erased { bucket, incarnation } => {
                self.tally.note("replicas erased");
                self.checkers.on_erased(&self.hosts[host], bucket, incarnation, &self.hosts, &self.meta)?;
            }
            Output::Resumed { bucket, as_member } => {
                self.hosts[host].disk.settled.doubtful.remove(&bucket);
                if as_member {
                    self.tally.note("members in doubt that went on");
                    if let Some(durable) = self.hosts[host].disk.settled.replicas.get(&bucket) {
                        let lost = self.checkers.on_resumed(bucket, &durable.log);
                        self.trace.line(self.time, host, || format!("goes on with {bucket}: {lost} entries are lost"));
                    }
                } else {
                    self.tally.note("replicas in doubt that returned");
                }
            }
            Output::Event { bucket, event } => self.on_phaser_event(host, bucket, &event),
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
        let mut queue_ends = false;
        for batch in host_.disk.unsynced.drain(..) {
            // At level memory what is queued is still in the memory of the process; what came before it may have been written.
            let is_queued = self.plan.memory_level && batch.part != Part::Ahead;
            queue_ends |= is_queued && self.rng.percent(50);
            if is_queued && queue_ends {
                self.tally.fault(Fault::LostWrites);
                continue;
            }
            for record in batch.records {
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
        if self.plan.memory_level {
            host_.disk.cache(self.time, survivors);
        }
        host_.disk.stop();
        host_.process = Process::Down;
        host_.life += 1;
        host_.threads.clear();
        host_.frozen.clear();
        host_.freeze_next = None;
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
        let lanes = self.rng.range(u64::from(self.plan.lanes.0), u64::from(self.plan.lanes.1)) as u16;
        let target = &mut self.hosts[host];
        target.life += 1;
        target.up_since = self.time;
        let now = target.clock.local(self.time);
        let mut out = Vec::new();
        let durable = target.disk.settled.clone();
        let newest = |lane: LaneId| lane.families().filter_map(|f| durable.epochs.get(&f)).max().copied();
        target.began_at = LaneId::all(lanes).map(|lane| newest(lane).unwrap_or_default()).collect();
        target.threads = (0..=lanes).map(|_| Thread::default()).collect();
        let life = node::Life { number: u64::from(target.life), seed, wall };
        let node = Node::recover(target.id, &self.config, lanes, durable, life, now, &mut out);
        target.process = Process::Up(Box::new(node));
        let life = target.life;
        let id = target.id;
        self.checkers.on_restart(id);
        self.checkers.on_start(self.time, host, &self.hosts);
        self.hosts[host].frozen = out; // what recovery decided leaves as soon as the process runs
        self.tell_time(host);
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
        if faults.has(Fault::DirectoryLoss) && matches!(message, PeerMessage::Directory(_)) && self.rng.percent(20) {
            return self.tally.fault(Fault::DirectoryLoss);
        }
        // A link delivers a hop at most once; what replicas say to each other must not depend on even that.
        let between_replicas = !matches!(message, PeerMessage::Hop { .. } | PeerMessage::HopAnswer { .. });
        let mut delay = self.plan.latency / 2 + self.rng.range(0, self.plan.latency);
        if self.plan.steady {
            delay = self.plan.latency;
        }
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
            self.after(again, Event::Deliver { host: target, life: ANY_LIFE, station: None, input });
        }
        let input = Input::Peer { from, message };
        self.after(delay, Event::Deliver { host: target, life, station: None, input });
    }

    pub(crate) fn raise_ghosts(&mut self, host: usize, bucket: BucketId) {
        if self.healed || !self.rng.percent(50) {
            return;
        }
        for (from, message) in self.ghosts.remove(&(host, bucket)).into_iter().flatten() {
            self.tally.fault(Fault::Duplicate);
            let delay = self.rng.around(60 * MILLI);
            let input = Input::Peer { from, message };
            self.after(delay, Event::Deliver { host, life: ANY_LIFE, station: None, input });
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

    /// At level memory what is for the log waits neither for what must be synced of other buckets, nor for what is said of checkpoints.
    fn write(&mut self, from: Sender, id: BatchId, mut records: Vec<NodeRecord>) {
        let Sender { host, station, .. } = from;
        let slow = self.hosts[host].slow_disk_until > self.time;
        let mut latency = self.rng.range(self.plan.disk_latency / 2, self.plan.disk_latency * 2);
        if slow {
            latency += self.rng.around(150 * MILLI);
        }
        let disk = &self.hosts[host].disk;
        let mut ahead = if self.plan.memory_level { disk.split_off_ahead(&mut records) } else { Vec::new() };
        let notes: Vec<NodeRecord> = ahead.extract_if(.., |record| is_note(record)).collect();
        if !records.is_empty() {
            let at = self.hosts[host].disk.sync(self.time, latency);
            self.put(from, at, Unsynced { station, id, records, part: Part::InTurn });
        }
        if !ahead.is_empty() || !notes.is_empty() {
            self.put(from, self.time + 1, Unsynced { station, id, records: ahead, part: Part::Ahead });
        }
        if !notes.is_empty() {
            let at = self.time + 1 + self.rng.range(1, self.plan.disk_latency * 4);
            self.put(from, at, Unsynced { station, id, records: notes, part: Part::Notes });
        }
    }

    /// On its way to the disk until then.
    fn put(&mut self, from: Sender, at: u64, batch: Unsynced) {
        let Sender { host, life, station } = from;
        self.at(at, Event::Synced { host, life, station, batch: batch.id, part: batch.part });
        self.hosts[host].disk.unsynced.push_back(batch);
    }

    /// Much later than what is written meanwhile, or soon; those of one bucket in any order.
    fn store(&mut self, from: Sender, id: StoreId, bucket: BucketId, tables: Vec<(Slot, Bytes)>) {
        let Sender { host, life, station } = from;
        let slow = self.hosts[host].slow_disk_until > self.time;
        let most = self.plan.disk_latency * 8 + if slow { 300 * MILLI } else { 0 };
        let delay = self.rng.range(1, most.max(2));
        self.after(delay, Event::Stored { host, life, station, id, bucket, tables });
    }

    fn on_synced(&mut self, host: usize, life: u32, station: Station, batch: BatchId, part: Part) {
        if self.hosts[host].life != life || !self.hosts[host].is_up() {
            return;
        }
        let disk = &mut self.hosts[host].disk;
        let mut buckets = disk.noted(station, batch);
        let records = disk.settle(station, batch, part);
        let input = match part {
            Part::Ahead if disk.waits_in_turn(station) => {
                self.tally.note("written ahead of other buckets");
                buckets.extend(records.iter().filter_map(about));
                Input::WrittenAhead { batch, buckets }
            }
            Part::InTurn | Part::Ahead | Part::Notes => Input::Written { upto: batch },
        };
        if self.plan.memory_level {
            self.hosts[host].disk.cache(self.time, records);
        }
        if part != Part::Notes {
            self.deliver(host, life, station, input);
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
        self.after(delay, Event::Propose { from: None, command: MetaCommand::Change(command), tries: 0 });
    }

    pub(crate) fn on_propose(&mut self, from: Option<Sender>, command: MetaCommand, tries: u8) -> Verdict {
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
        if self.plan.forgetful
            && !self.healed
            && matches!(command, MetaCommand::Change(Proposal::Register { .. }))
            && self.rng.percent(95)
        {
            return Ok(()); // lost, again and again: a child may live long before the blueprint hears of it
        }
        // Whoever wants to be rid of a copy believes that others have it. Were their disks wiped a moment ago, that word is lost on its
        // way: what was sent away would be the last copy, and nothing but a repair by hand would bring the bucket back.
        let dismisses =
            |command: &Proposal| matches!(command, Proposal::Succeed { change: Change::Dismiss { .. }, .. });
        if let MetaCommand::Change(command) = &command
            && (from.is_none() || dismisses(command))
            && self.would_orphan(command)
        {
            return Ok(());
        }
        if let MetaCommand::Change(command) = &command {
            self.before_proposal(command);
        }
        let before = Arc::clone(&self.meta.blueprint);
        let result = self.meta.apply::<C>(self.time, &command);
        let MetaCommand::Change(command) = command else { return Ok(()) };
        self.trace.line(self.time, usize::MAX, || format!("{command:?} -> {result:?}"));
        match result {
            Ok(_) if self.meta.blueprint.epoch == before.epoch => {}
            Ok(_) => {
                self.checkers.on_changed(&command, &before, &self.meta)?;
                self.watch_change(&command, from.is_some(), &before)?;
                self.count_rebalances(&command)?;
                for change in changes_of(command, &before, &self.meta.blueprint) {
                    self.checkers.on_accepted(self.time, &change, &self.hosts, &self.meta)?;
                    self.on_accepted(&change);
                }
                self.drill_on_change();
            }
            Err(why) => {
                self.tally.note("proposals refused");
                let lost = self.plan.faults.has(Fault::MetaUnknown) && !self.healed && self.rng.percent(30);
                if let (Some(Sender { host, life, station }), false) = (from, lost) {
                    let delay = self.meta_delay();
                    let input = Input::Rejected { command, why };
                    self.after(delay, Event::Deliver { host, life, station: Some(station), input });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn is_cut_off(&self, host: usize) -> bool {
        self.hosts[host].meta_cut_until > self.time
    }

    fn on_meta_read(&mut self, from: Sender, id: u64) {
        let Sender { host, life, station } = from;
        if self.meta.away_until > self.time || self.is_cut_off(host) {
            return;
        }
        if station == Station::Desk {
            let input = Input::LeadsMeta(self.leads_meta(host));
            self.after(0, Event::Deliver { host, life, station: Some(station), input });
        }
        let input = Input::MetaRead { id, state: Arc::clone(&self.meta.state) };
        let mut delay = self.meta_delay();
        if !self.healed && self.plan.faults.has(Fault::MetaSlow) && self.rng.permille(20) {
            delay += self.rng.around(2 * SECOND);
        }
        self.after(delay, Event::Deliver { host, life, station: Some(station), input });
    }

    /// The meta group is no part of this world, so anybody may be said to lead it: one after the other.
    fn leads_meta(&self, host: usize) -> bool {
        (self.time / (7 * SECOND)) as usize % self.hosts.len() == host
    }

    /// Every so often: wall clocks are read, states are compared.
    fn on_sweep(&mut self) -> Verdict {
        (0..self.hosts.len()).for_each(|host| self.tell_time(host));
        self.checkers.compare_states(self.time, &self.hosts)?;
        self.checkers.compare_directories(self.time, &self.hosts)?;
        self.watch_all()?;
        self.after(SECOND, Event::Sweep);
        Ok(())
    }

    pub(crate) fn tell_time(&mut self, host: usize) {
        let (life, micros) = (self.hosts[host].life, self.hosts[host].clock.wall(self.time));
        for lane in 0..self.hosts[host].lanes() {
            self.deliver(host, life, Station::Lane(lane), Input::Wall { micros });
        }
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
            let stalled = self.hosts[host].stalled_until() > self.time;
            for thread in &mut self.hosts[host].threads {
                (thread.stalled_until, thread.look_at) = (0, thread.look_at.filter(|_| !stalled));
            }
            if self.hosts[host].paused_until > self.time || stalled {
                self.hosts[host].paused_until = self.time;
                let life = self.hosts[host].life;
                self.after(0, Event::Resume { host, life });
            }
            self.restart(host);
        }
        self.clients.wind_down();
    }

    /// Is this very replica safe on its node's disk, all of it?
    pub(crate) fn holds(&self, member: Member, bucket: BucketId) -> bool {
        let Some(disk) = self.index.get(&member.node).map(|i| &self.hosts[*i].disk) else { return false };
        disk.certain(bucket).is_some_and(|d| d.me == member) && !disk.is_robbed(bucket)
    }

    pub fn government(&self, bucket: BucketId) -> Option<&blueprint::Government> {
        self.meta.blueprint.government(bucket)
    }
}

/// What a command came to, bucket by bucket.
fn changes_of(command: Proposal, before: &Blueprint, after: &Blueprint) -> Vec<Proposal> {
    let Proposal::Relieve { parts } = command else { return vec![command] };
    let took_place = |p: &Succession| {
        let term = |blueprint: &Blueprint| blueprint.government(p.bucket).map(|g| g.term);
        term(before) == Some(p.replaces) && term(after) == Some(p.replaces.next())
    };
    let accepted = parts.into_iter().filter(took_place);
    accepted.map(|Succession { bucket, replaces, change }| Proposal::Succeed { bucket, replaces, change }).collect()
}
