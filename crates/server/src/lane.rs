//! One lane's thread: it steps the machine, and carries out what that decides.
//!
//! Everything that is ready is read and stepped first; then one flush, one batch for the journal, one write per peer and per
//! client. `settle` is that second half. It is a task like the others, and woken by whoever steps: it therefore runs after all tasks
//! that were ready before it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use blueprint::{Blueprint, Bucket, BucketId, BucketMap, Durability, Epoch, Honest, Instant, NodeId};
use bytes::BytesMut;
use journal::{Journal, Outcome, State};
use node::{Answered, BatchId, HopId, Input, Lane, Mail, NodeRecord, Origin, Output, PeerMessage, Station};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Notify;
use tokio::task::{spawn_local, yield_now};
use tokio::time::sleep;

use crate::addresses::Addresses;
use crate::clock;
use crate::door::{self, Hall, House};
use crate::link::{Back, Caller, Links};
use crate::post::{DeskLetter, Letter, Letters, Post};
use crate::timer::Alarm;
use crate::wire::{self, End, Frame, LONGEST_FRAME};

/// How often a lane is told what the wall clock says.
const WALL_PERIOD: Duration = Duration::from_secs(1);
const SHORTEST_SLEEP: Duration = Duration::from_micros(200);
/// Bytes that a peer says until it is everybody else's turn. Copies of buckets come by the megabyte, each image of them takes a while to
/// take in, and clients wait meanwhile.
const HEARD_AT_ONCE: usize = 256 << 10;
/// How often a batch that found the disk full is given again.
const FULL_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Driver {
    this: Weak<Self>,
    pub(crate) number: u16,
    pub(crate) me: NodeId,
    pub(crate) lane: RefCell<Lane<Honest>>,
    pub(crate) links: Links,
    pub(crate) post: Post,
    /// The clients of this lane.
    pub(crate) hall: Hall,
    journal: Arc<Journal>,
    out: RefCell<Vec<Output>>,
    /// Empty, and as large as they ever had to be.
    workspace: RefCell<(Vec<Output>, Vec<Input>)>,
    /// Batches that the journal did not take, in their order: its disk is full.
    refused: RefCell<VecDeque<(BatchId, Durability, Vec<NodeRecord>)>>,
    awake: Notify,
    /// It was woken, and has not settled since: most steps find it so.
    is_awake: Cell<bool>,
    alarm: Alarm,
    /// When it last went off.
    woken_at: Cell<Instant>,
    /// The last reading of the clock.
    now: Cell<Instant>,
    /// When the wall clock is to be looked at again.
    wall_at: Cell<Instant>,
    followed: Cell<Epoch>,
    /// How safe what is written of each bucket has to be, as of that epoch.
    levels: RefCell<(Epoch, BucketMap<Durability>)>,
    leaving: Cell<bool>,
    stopping: Cell<bool>,
}

/// What a lane is made of.
pub(crate) struct Parts {
    pub(crate) number: u16,
    pub(crate) me: NodeId,
    pub(crate) cluster: u128,
    pub(crate) lane: Lane<Honest>,
    /// How often its buckets want to be woken.
    pub(crate) tick: Duration,
    /// What it said while it recovered.
    pub(crate) said: Vec<Output>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) post: Post,
    pub(crate) house: Arc<House>,
}

/// The thread's whole life.
pub(crate) fn run(parts: Parts, letters: Letters<Letter>) {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = runtime.expect("a runtime of one thread needs nothing but memory and a few files");
    runtime.block_on(Driver::live(parts, letters));
}

impl Driver {
    pub(crate) async fn live(parts: Parts, mut letters: Letters<Letter>) {
        let Parts { number, me, cluster, lane, tick, said, journal, post, house } = parts;
        let caller = Caller { node: me, cluster, end: End::Lane(number) };
        let driver = Rc::new_cyclic(|this: &Weak<Self>| Self {
            this: this.clone(),
            number,
            me,
            lane: RefCell::new(lane),
            links: Links::new(caller, {
                let this = this.clone();
                Rc::new(move |from, back| this.upgrade().into_iter().for_each(|driver| driver.hear_back(from, &back)))
            }),
            post,
            hall: Hall::new(house),
            journal,
            out: RefCell::new(said),
            workspace: RefCell::default(),
            refused: RefCell::default(),
            awake: Notify::new(),
            is_awake: Cell::new(false),
            alarm: Alarm::new(me, tick).expect("a file for the time: there were some for the runtime"),
            woken_at: Cell::new(Instant::ZERO),
            now: Cell::new(clock::now()),
            wall_at: Cell::new(Instant::ZERO),
            followed: Cell::new(Epoch(0)),
            levels: RefCell::default(),
            leaving: Cell::new(false),
            stopping: Cell::new(false),
        });
        spawn_local(Rc::clone(&driver).keep_settling());
        spawn_local(Rc::clone(&driver).keep_time());
        driver.look_at_wall(driver.now());
        driver.wake();
        while let Some(letter) = letters.recv().await {
            match letter {
                Letter::Input(input) => driver.step(input),
                Letter::Heard { from, message, .. } => driver.step(Input::Peer { from, message }),
                Letter::Peer { from, stream, rest } => driver.take_peer(from, stream, rest),
                Letter::Client { stream, door } => match TcpStream::from_std(stream) {
                    Ok(stream) if !driver.stopping.get() => {
                        spawn_local(door::serve(Rc::clone(&driver), stream, door));
                    }
                    _ => driver.hall.let_out(),
                },
                Letter::Look(question) => question(&driver),
                Letter::Leave => driver.leaving.set(true),
                Letter::Stop => {
                    driver.stopping.set(true);
                    door::hear_all(&driver);
                    driver.hall.close_all();
                }
            }
        }
    }

    /// Takes something in. What follows from it is carried out by `settle`.
    pub(crate) fn step(&self, input: Input) {
        self.wake_lane(clock::now());
        self.step_too(input);
    }

    /// If it wants to be: whatever this thread is awake for, what is due is due.
    fn wake_lane(&self, now: Instant) {
        if self.alarm.take(now).is_some() {
            self.woken_at.set(now);
            self.lane.borrow_mut().step(now, Input::Wake, &mut self.out.borrow_mut());
            self.wake();
        }
        self.now.set(now);
    }

    /// Takes in what came together with something else: it has the same time.
    pub(crate) fn step_too(&self, input: Input) {
        self.lane.borrow_mut().step(self.now.get(), input, &mut self.out.borrow_mut());
        self.wake();
    }

    pub(crate) fn look_at_clock(&self) -> Instant {
        self.now.set(clock::now());
        self.now.get()
    }

    /// What the clock said when it was last looked at.
    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    /// There is something to settle.
    pub(crate) fn wake(&self) {
        if !self.is_awake.replace(true) {
            self.awake.notify_one();
        }
    }

    pub(crate) fn this(&self) -> Option<Rc<Self>> {
        self.this.upgrade()
    }

    async fn keep_settling(self: Rc<Self>) {
        loop {
            self.awake.notified().await;
            self.hear_and_settle();
        }
    }

    /// Everything that was read so far is taken in, and everything that follows from it leaves.
    pub(crate) fn hear_and_settle(self: &Rc<Self>) {
        self.look_at_wall(self.now());
        door::hear_all(self);
        self.is_awake.set(false);
        self.settle();
    }

    fn settle(&self) {
        let (mut outputs, mut again) = self.workspace.take();
        let mut flushed = false;
        loop {
            std::mem::swap(&mut outputs, &mut *self.out.borrow_mut());
            if outputs.is_empty() && again.is_empty() {
                if flushed {
                    break;
                }
                flushed = true;
                again.push(Input::Flush);
            }
            // R5: one reading, after all that was evaluated and before any of it leaves.
            let now = self.look_at_clock();
            for output in outputs.drain(..) {
                self.carry_out(now, output, &mut again);
            }
            for input in again.drain(..) {
                flushed &= matches!(input, Input::Flush);
                self.lane.borrow_mut().step(now, input, &mut self.out.borrow_mut());
            }
        }
        self.workspace.replace((outputs, again));
        // Where many clients are answered, peers come first: they work on it meanwhile. To answer a few takes no longer than that, and what
        // leaves a little later leaves with more.
        if self.hall.has_many_to_answer() {
            self.links.write_out();
        }
        self.hall.write_out();
        self.links.write_out();
        let lane = self.lane.borrow();
        // A deadline that is past already is no reason to do nothing else; nor is there ever one to put it off again.
        let soonest = self.woken_at.get() + SHORTEST_SLEEP;
        self.alarm.set(lane.pressing().max(soonest), lane.deadline().max(soonest));
        if self.followed.get() != lane.blueprint().epoch {
            self.followed.set(lane.blueprint().epoch);
            self.hall.follow_blueprint(lane.blueprint());
            let nodes = lane.blueprint().nodes.values();
            self.links.follow(nodes.map(|node| (node.id, Addresses::from_blueprint(&node.addresses).peers)));
        }
    }

    fn carry_out(&self, now: Instant, output: Output, again: &mut Vec<Input>) {
        match output {
            Output::Send { to, message } => self.send(to, message, again),
            Output::Write { id, records } => self.write(id, records, again),
            Output::Store { id, bucket, tables } => self.journal.store(self.number, id, bucket, tables),
            Output::Release { bucket, tables } => self.journal.release(bucket, tables),
            Output::Answer { origin, answer } => self.answer(origin, answer),
            Output::Read { origin, home, keyspace, command, answer, good_until } => {
                if now >= good_until {
                    again.push(Input::Late { origin, home, keyspace, command });
                } else if home == self.number {
                    self.answer(origin, answer);
                } else {
                    let mail = Mail::Answers(vec![Answered { origin, answer }]);
                    self.mail(Station::Lane(home), mail);
                }
            }
            Output::Mail { to, mail } => self.mail(to, mail),
            Output::Propose(command) => {
                self.post.desk(DeskLetter::Propose { from: Station::Lane(self.number), command });
            }
            Output::Report(report) => self.post.desk(DeskLetter::Report(report)),
            Output::ReadMeta { id } => self.post.desk(DeskLetter::ReadMeta { from: Station::Lane(self.number), id }),
            // Its coordinator is the desk's.
            Output::Rebalance { .. } => {}
            Output::Erased { bucket, incarnation } => tracing::info!(%bucket, %incarnation, "replica erased"),
            Output::Resumed { bucket, as_member } => {
                self.journal.trust(bucket);
                if as_member {
                    tracing::warn!(
                        %bucket,
                        "the operating system restarted on every node that has it (level memory): the copy that has the most goes \
                         on, and up to a second of acknowledged writes may be missing"
                    );
                }
            }
            Output::Event { bucket, event } => tracing::debug!(%bucket, ?event, "replica"),
        }
    }

    fn send(&self, to: NodeId, message: PeerMessage, again: &mut Vec<Input>) {
        let hop = if let PeerMessage::Hop { id, .. } = &message { Some(*id) } else { None };
        if !self.links.send(to, message) {
            again.extend(hop.map(|id| not_sent(to, id)));
        }
    }

    fn hear_back(&self, from: NodeId, back: &Back) {
        let Back::Down { end, unsent } = back else { return };
        unsent.iter().for_each(|id| self.step(not_sent(from, *id)));
        // Whoever dies ends both links. A large request whose link ends alone keeps its patience: most hops went by the other one.
        if matches!(end, End::Lane(_)) {
            self.step(Input::LinkEnded { to: from });
        }
    }

    fn mail(&self, to: Station, mail: Mail) {
        if let Mail::Beat = mail {
            return self.post.beat(self.number); // no reason to wake anybody
        }
        self.post.input(to, Input::Mail { from: Station::Lane(self.number), mail });
    }

    fn answer(&self, origin: Origin, answer: node::Answer) {
        match origin {
            Origin::Client(request) => self.hall.answer(self, request, answer),
            Origin::Hop { node, id } => {
                let _expires_if_lost = self.links.send(node, PeerMessage::HopAnswer { id, answer });
            }
        }
    }

    fn write(&self, id: BatchId, records: Vec<NodeRecord>, again: &mut Vec<Input>) {
        let level = self.level_of(&records);
        if !self.refused.borrow().is_empty() {
            return self.refused.borrow_mut().push_back((id, level, records));
        }
        if !self.give(id, level, records, again)
            && let Some(driver) = self.this()
        {
            spawn_local(driver.keep_giving());
        }
    }

    /// Until there is room again.
    async fn keep_giving(self: Rc<Self>) {
        while !self.refused.borrow().is_empty() {
            sleep(FULL_PAUSE).await;
            self.retry();
        }
    }

    /// True: the journal has it.
    fn give(&self, id: BatchId, level: Durability, records: Vec<NodeRecord>, again: &mut Vec<Input>) -> bool {
        match self.journal.write(self.number, id, level, records) {
            Ok(Outcome::Written) => again.push(Input::Written { upto: id }),
            Ok(Outcome::Ahead(buckets)) => again.push(Input::WrittenAhead { batch: id, buckets }),
            Ok(Outcome::Queued) => {}
            Err(refused) => {
                end_if_failed(&refused.state);
                if !refused.ahead.is_empty() {
                    again.push(Input::WrittenAhead { batch: id, buckets: refused.ahead.clone() });
                }
                if self.refused.borrow().is_empty() && refused.state != State::Stopped {
                    tracing::error!("{refused}");
                    self.hall.refuse_writes(true);
                }
                self.refused.borrow_mut().push_front((id, level, refused.records));
                return false;
            }
        }
        true
    }

    /// Gives what was refused again.
    fn retry(&self) {
        let mut again = Vec::new();
        loop {
            let Some((id, level, records)) = self.refused.borrow_mut().pop_front() else {
                self.hall.refuse_writes(self.is_full());
                break;
            };
            if !self.give(id, level, records, &mut again) {
                break;
            }
        }
        again.into_iter().for_each(|input| self.step(input));
    }

    /// As safe as the most careful of them wants it.
    fn level_of(&self, records: &[NodeRecord]) -> Durability {
        let lane = self.lane.borrow();
        let (epoch, levels) = &mut *self.levels.borrow_mut();
        if std::mem::replace(epoch, lane.blueprint().epoch) != lane.blueprint().epoch {
            *levels = levels_in(lane.blueprint());
        }
        let memory = records.iter().all(|record| match record {
            NodeRecord::Bucket { bucket, .. } => levels.get(bucket) == Some(&Durability::Memory),
            NodeRecord::Epoch { .. } | NodeRecord::Erase { .. } => false,
        });
        if memory { Durability::Memory } else { Durability::Disk }
    }

    /// Reads what a peer says, for as long as it says something.
    fn take_peer(self: &Rc<Self>, from: NodeId, stream: std::net::TcpStream, rest: BytesMut) {
        let driver = Rc::clone(self);
        spawn_local(async move {
            let Ok(mut stream) = TcpStream::from_std(stream) else { return };
            let (mut buffer, mut heard) = (rest, 0);
            driver.wake_lane(clock::now()); // R5: what came with the greeting is answered now, too
            loop {
                loop {
                    let before = buffer.len();
                    match wire::take::<Frame>(&mut buffer, LONGEST_FRAME) {
                        Ok(Some(frame)) => {
                            let message = frame.message(from, driver.me); // what is none is for the desk
                            let bytes = before - buffer.len();
                            message.into_iter().for_each(|message| driver.hear(from, message, bytes));
                            heard += bytes;
                            if heard >= HEARD_AT_ONCE {
                                heard = 0;
                                yield_now().await;
                                driver.wake_lane(clock::now()); // what comes now is heard now
                            }
                        }
                        Ok(None) => break,
                        Err(error) => return tracing::warn!(%from, %error, "a peer was cut off"),
                    }
                }
                buffer.reserve(64 << 10);
                match stream.read_buf(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => driver.wake_lane(clock::now()), // what came together has the same time
                }
            }
        });
    }

    fn hear(&self, from: NodeId, message: PeerMessage, bytes: usize) {
        if let PeerMessage::Bucket { bucket, .. } = &message
            && self.leaving.get()
            && has_no_part(self.lane.borrow().blueprint(), self.me, *bucket)
        {
            return;
        }
        if message.station(self.post.lanes()) == Station::Lane(self.number) {
            self.step_too(Input::Peer { from, message });
        } else if let Some(refusal) = self.post.pass_on(from, message, bytes) {
            let _expires_if_lost = self.links.send(from, refusal);
            self.wake();
        }
    }

    async fn keep_time(self: Rc<Self>) {
        loop {
            self.alarm.goes_off().await;
            self.wake_lane(clock::now());
        }
    }

    /// Now and then, when it is awake anyway.
    fn look_at_wall(&self, now: Instant) {
        if now < self.wall_at.get() {
            return;
        }
        self.wall_at.set(now + WALL_PERIOD);
        self.step(Input::Wall { micros: clock::wall() });
        end_if_failed(&self.journal.state());
        self.hall.refuse_writes(self.is_full());
    }

    /// A full journal takes what is under way, and nothing new is begun until there is room.
    fn is_full(&self) -> bool {
        matches!(self.journal.state(), State::Full { .. })
    }
}

fn levels_in(blueprint: &Blueprint) -> BucketMap<Durability> {
    let level = |bucket: &Bucket| Some((bucket.id, blueprint.keyspaces.get(&bucket.keyspace)?.durability));
    blueprint.buckets.values().filter_map(level).collect()
}

/// A candidate has one: its primary may count on its answers already (R6). So does whoever holds a child that is not registered yet.
fn has_no_part(blueprint: &Blueprint, me: NodeId, bucket: BucketId) -> bool {
    let government = blueprint.buckets.get(&bucket).and_then(|bucket| bucket.government());
    government.is_some_and(|government| government.named(me).is_none())
}

/// What it had promised may be lost: nothing that this process says from here on could be believed.
fn end_if_failed(state: &State) {
    if let State::Failed { why } = state {
        tracing::error!("the journal failed and this node stops, so that others take over: {why}");
        std::process::exit(crate::EXIT_DISK);
    }
}

/// A hop that was not sent was certainly not done (R12).
fn not_sent(to: NodeId, id: HopId) -> Input {
    Input::Peer { from: to, message: PeerMessage::HopAnswer { id, answer: node::Answer::TryAgain } }
}

#[cfg(test)]
mod tests {
    use blueprint::{Change, Command, Kind, Term};

    use super::*;

    #[test]
    fn who_leaves_answers_for_as_long_as_somebody_may_count_on_it() {
        let mut blueprint = Blueprint::new();
        let join = |id| Command::AddNode { id, name: id.to_string(), zone: String::new(), addresses: Vec::new() };
        let create = Command::CreateKeyspace {
            name: "default".into(),
            kind: Kind::Store,
            replicas: 2,
            min_in_sync: None,
            durability: Durability::Disk,
            placement: vec![vec![NodeId(1), NodeId(2)]],
        };
        let change = Change::Enlist { node: NodeId(3) };
        let enlist = Command::Succeed { bucket: BucketId(1), replaces: Term(1), change };
        for command in (1..=4).map(|id| join(NodeId(id))).chain([create, enlist]) {
            blueprint.apply(&command).expect("an empty blueprint takes all of this");
        }
        let quiet = |node| has_no_part(&blueprint, NodeId(node), BucketId(1));
        assert_eq!([1, 2, 3, 4].map(quiet), [false, false, false, true], "primary, secondary, candidate, nobody");
        assert!(!has_no_part(&blueprint, NodeId(4), BucketId(257)), "a child that is not registered yet");
    }
}
