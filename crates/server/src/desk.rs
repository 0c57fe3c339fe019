//! The desk's thread: it speaks for the whole node. It keeps the directory and the coordinator, asks the meta group for everybody,
//! and lets peers and clients in.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use blueprint::{Epoch, Honest, Instant, NodeId};
use bytes::{Bytes, BytesMut};
use meta::{Carrier, CarryError, Embedded, Meta, Pending, ProposeError, Role};
use node::{Desk, Input, Mail, Output, Station};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use tokio::task::spawn_local;
use tokio::time::Duration;

use crate::addresses::Addresses;
use crate::clock;
use crate::gate::{self, Host, Visitor};
use crate::http::Office;
use crate::link::{Back, Caller, Links, READ_AT_ONCE};
use crate::post::{DeskLetter, Letter, Post};
use crate::timer::{Alarm, as_if_in_time};
use crate::wire::{self, End, Frame, LONGEST_FRAME, LONGEST_GREETING};

/// A deadline that is past already is no reason to do nothing else.
const SHORTEST_SLEEP: Duration = Duration::from_micros(500);

/// Proposals of this node under way. More than buckets that change at once in any healthy cluster; what is refused here is proposed
/// again.
const MOST_PROPOSALS: usize = 128;

/// Questions to the meta group that wait for the next reading: some for each bucket that changes. More are not answered, and asked again.
const MOST_ASKERS: usize = 4096;

/// Calls of one peer that are being served, and answers that wait for it if it reads slowly. The meta group has a few of them under way.
const MOST_ANSWERS: usize = 256;

/// The links of the desk, and the calls of the meta group that travel over them. There before anything else: a node that joins has
/// nothing yet but these.
pub(crate) struct Wires {
    pub(crate) links: Links,
    calls: Rc<Calls>,
    /// Where to find those who are not in a blueprint that is known here.
    seeds: RefCell<BTreeMap<NodeId, String>>,
    host: Cell<Host>,
}

#[derive(Default)]
struct Calls {
    next: Cell<u64>,
    open: RefCell<BTreeMap<u64, (NodeId, oneshot::Sender<Bytes>)>>,
}

impl Wires {
    pub(crate) fn new(me: NodeId) -> Rc<Self> {
        let calls = Rc::new(Calls::default());
        let answered = Rc::clone(&calls);
        let on_back = move |from: NodeId, back| match back {
            Back::Frame(Frame::CallAnswer { id, body }) => {
                if let Some((_, answer)) = answered.open.borrow_mut().remove(&id) {
                    let _gone = answer.send(body);
                }
            }
            Back::Frame(Frame::Message(_) | Frame::Bucket { .. } | Frame::Call { .. }) => {}
            // Whoever asked need not wait for its patience to end: somebody else may lead by then.
            Back::Down { .. } => answered.open.borrow_mut().retain(|_, (to, _)| *to != from),
        };
        let caller = Caller { node: me, cluster: 0, end: End::Desk };
        Rc::new(Self {
            links: Links::new(caller, Rc::new(on_back)),
            calls,
            seeds: RefCell::default(),
            host: Cell::new(Host { node: me, cluster: 0 }),
        })
    }

    pub(crate) fn add_seed(&self, node: NodeId, address: String) {
        self.seeds.borrow_mut().insert(node, address);
        self.links.follow(self.seeds.borrow().clone());
    }

    /// From now on it is known which cluster this node belongs to.
    pub(crate) fn settle_in(&self, cluster: u128) {
        self.host.set(Host { cluster, ..self.host.get() });
        self.links.set_cluster(cluster);
    }

    pub(crate) fn host(&self) -> Host {
        self.host.get()
    }

    /// What the blueprint says counts; a seed only for those that it does not know.
    pub(crate) fn follow(&self, blueprint: &blueprint::Blueprint) {
        let mut all = self.seeds.borrow().clone();
        all.extend(blueprint.nodes.values().map(|node| (node.id, Addresses::from_blueprint(&node.addresses).peers)));
        self.links.follow(all);
    }

    pub(crate) fn call(&self, to: NodeId, body: Bytes, answer: oneshot::Sender<Bytes>, sent: oneshot::Sender<bool>) {
        let id = self.calls.next.get() + 1;
        self.calls.next.set(id);
        let mut open = self.calls.open.borrow_mut();
        open.retain(|_, (_, answer)| !answer.is_closed()); // nobody waits for those any more
        let is_sent = self.links.send_frame(to, &Frame::Call { id, body });
        self.links.write_out();
        if is_sent {
            open.insert(id, (to, answer));
        }
        let _gone = sent.send(is_sent);
    }
}

/// Carries the meta group's calls, from whatever thread.
pub(crate) struct Porter(pub(crate) Post);

impl Carrier for Porter {
    fn call(&self, to: NodeId, request: Bytes) -> Pending<'_, Result<Bytes, CarryError>> {
        let (answer, answered) = oneshot::channel();
        let (sent, was_sent) = oneshot::channel();
        self.0.desk(DeskLetter::Call { to, body: request, answer, sent });
        Box::pin(async move {
            if was_sent.await != Ok(true) {
                return Err(CarryError::NotSent(to));
            }
            answered.await.map_err(|_| CarryError::NoAnswer(to))
        })
    }
}

pub(crate) struct Driver {
    pub(crate) me: NodeId,
    pub(crate) desk: RefCell<Desk<Honest>>,
    pub(crate) wires: Rc<Wires>,
    pub(crate) meta: Embedded,
    pub(crate) post: Post,
    /// Who plans and applies operations, for clients that ask for them in Redis's words.
    pub(crate) office: OnceCell<Office>,
    /// Proposals under way.
    proposed: RefCell<Vec<blueprint::Command>>,
    /// A report that waits for its turn.
    report: RefCell<Option<blueprint::Report>>,
    reporting: Cell<bool>,
    /// Who waits for the next reading of the meta group.
    askers: RefCell<Vec<(Station, u64)>>,
    reading: Cell<bool>,
    /// Somebody finds out whether to rebalance.
    pub(crate) weighing: Cell<bool>,
    out: RefCell<Vec<Output>>,
    awake: Notify,
    alarm: Alarm,
    /// When it last went off.
    woken_at: Cell<Instant>,
    /// What its machine was last told of the time.
    told: Cell<Instant>,
    followed: Cell<Epoch>,
    leads_meta: Cell<bool>,
    /// The epoch whose addresses the links have.
    linked: Cell<Epoch>,
}

impl Driver {
    /// `round`: how often its coordinator wants to be woken.
    pub(crate) fn start(
        me: NodeId,
        desk: Desk<Honest>,
        round: Duration,
        wires: Rc<Wires>,
        meta: Embedded,
        post: Post,
    ) -> Rc<Self> {
        let driver = Rc::new(Self {
            me,
            desk: RefCell::new(desk),
            wires,
            meta,
            post,
            office: OnceCell::new(),
            proposed: RefCell::default(),
            report: RefCell::default(),
            reporting: Cell::new(false),
            askers: RefCell::default(),
            reading: Cell::new(false),
            weighing: Cell::new(false),
            out: RefCell::default(),
            awake: Notify::new(),
            told: Cell::new(clock::now()),
            woken_at: Cell::new(Instant::ZERO),
            alarm: Alarm::new(me, round).expect("a file for the time: there were some for the runtime"),
            followed: Cell::new(Epoch(0)),
            leads_meta: Cell::new(false),
            linked: Cell::new(Epoch(0)),
        });
        spawn_local(Rc::clone(&driver).keep_settling());
        spawn_local(Rc::clone(&driver).keep_time());
        spawn_local(Rc::clone(&driver).keep_up());
        driver.awake.notify_one();
        driver
    }

    pub(crate) fn on_letter(self: &Rc<Self>, letter: DeskLetter) {
        match letter {
            DeskLetter::Input(input) => self.step(input),
            DeskLetter::Heard { from, message, .. } => self.step(Input::Peer { from, message }),
            DeskLetter::Propose { from, command } => self.propose(from, command),
            DeskLetter::Report(report) => self.report(report),
            DeskLetter::ReadMeta { from, id } => self.read_meta(from, id),
            DeskLetter::Call { to, body, answer, sent } => self.wires.call(to, body, answer, sent),
            DeskLetter::Look(question) => question(self),
        }
    }

    pub(crate) fn step(&self, input: Input) {
        let now = clock::now();
        self.wake_desk(now);
        self.step_at(now, input);
        self.awake.notify_one();
    }

    /// If it wants to be: whatever this thread is awake for, what is due is due.
    fn wake_desk(&self, now: Instant) {
        if let Some(due) = self.alarm.take(now) {
            self.woken_at.set(now);
            self.step_at(as_if_in_time(due, now, self.told.get()), Input::Wake);
            self.awake.notify_one();
        }
    }

    fn step_at(&self, now: Instant, input: Input) {
        self.told.set(now);
        let (mut desk, mut out) = (self.desk.borrow_mut(), self.out.borrow_mut());
        for lane in self.post.take_beats() {
            let beat = Input::Mail { from: Station::Lane(lane), mail: Mail::Beat };
            desk.step(now, beat, &mut out);
        }
        desk.step(now, input, &mut out);
    }

    /// Whichever came first, what was read or what was pushed: 1. a node without a vote restarts; the only one that it was told of does
    /// not lead the meta group, and says who does; 2. it knows no address of that one, so it reads nothing; 3. its seed pushes it the
    /// blueprint, in which the address stands.
    fn link_to(&self, blueprint: &blueprint::Blueprint) {
        if blueprint.epoch > self.linked.get() {
            self.linked.set(blueprint.epoch);
            self.wires.follow(blueprint);
        }
    }

    async fn keep_settling(self: Rc<Self>) {
        loop {
            self.awake.notified().await;
            self.settle();
            let acted_on = Arc::clone(self.desk.borrow().blueprint());
            self.link_to(&acted_on);
        }
    }

    fn settle(self: &Rc<Self>) {
        self.step_at(clock::now(), Input::Flush);
        let outputs = std::mem::take(&mut *self.out.borrow_mut());
        for output in outputs {
            self.carry_out(output);
        }
        self.wires.links.write_out();
        let (desk, soonest) = (self.desk.borrow(), self.woken_at.get() + SHORTEST_SLEEP);
        self.alarm.set(desk.pressing().max(soonest), desk.deadline().max(soonest));
    }

    fn carry_out(self: &Rc<Self>, output: Output) {
        match output {
            Output::Send { to, message } => {
                let _repeated_if_lost = self.wires.links.send(to, message);
            }
            Output::Mail { to, mail } => self.post.input(to, Input::Mail { from: Station::Desk, mail }),
            Output::Propose(command) => self.propose(Station::Desk, command),
            Output::Report(report) => self.report(report),
            Output::ReadMeta { id } => self.read_meta(Station::Desk, id),
            Output::Rebalance { epoch } => self.rebalance(epoch),
            // A desk has neither disk nor clients.
            Output::Write { .. }
            | Output::Store { .. }
            | Output::Release { .. }
            | Output::Answer { .. }
            | Output::Read { .. }
            | Output::Erased { .. }
            | Output::Resumed { .. }
            | Output::Event { .. } => {}
        }
    }

    /// What is proposed again while the first is still under way adds nothing, and many of them would crowd out the very messages
    /// by which the meta group decides: 1. it is slow for a moment; 2. every bucket repeats itself ten times a second; 3. it stays slow.
    fn propose(self: &Rc<Self>, from: Station, command: blueprint::Command) {
        let mut proposed = self.proposed.borrow_mut();
        if proposed.len() >= MOST_PROPOSALS || proposed.contains(&command) {
            return;
        }
        proposed.push(command.clone());
        let driver = Rc::clone(self);
        spawn_local(async move {
            match driver.meta.propose(command.clone()).await {
                Ok(applied) => tracing::debug!(?command, epoch = %applied.epoch, "accepted"),
                Err(ProposeError::Refused(why)) => {
                    tracing::debug!(?command, %why, "refused");
                    driver.post.input(from, Input::Rejected { command: command.clone(), why });
                }
                // Whoever proposed it proposes it again until it sees a successor (R7).
                Err(error @ (ProposeError::Unknown | ProposeError::Unavailable(_))) => {
                    tracing::debug!(?command, %error, "not decided");
                }
            }
            driver.proposed.borrow_mut().retain(|other| *other != command);
        });
    }

    /// One at a time; of those that wait for their turn only the newest is worth anything.
    fn report(self: &Rc<Self>, report: blueprint::Report) {
        if self.report.borrow_mut().replace(report).is_some() || self.reporting.replace(true) {
            return;
        }
        let driver = Rc::clone(self);
        spawn_local(async move {
            loop {
                let Some(report) = driver.report.borrow_mut().take() else { break };
                if let Err(error) = driver.meta.report(report).await {
                    tracing::debug!(%error, "a report was not heard");
                }
            }
            driver.reporting.set(false);
        });
    }

    /// One reading answers everyone who asked before it began; who asks meanwhile gets the next one. A lane needs to know what is so
    /// (R6, R9, R11). The coordinator, which asks ten times a second, only compares and sets: it is all the same to it whether the
    /// reading was late or its word is, so no voter is troubled for it.
    fn read_meta(self: &Rc<Self>, from: Station, id: u64) {
        if self.askers.borrow().len() >= MOST_ASKERS {
            return;
        }
        self.askers.borrow_mut().push((from, id));
        if self.reading.replace(true) {
            return;
        }
        let driver = Rc::clone(self);
        spawn_local(async move {
            loop {
                let askers = std::mem::take(&mut *driver.askers.borrow_mut());
                if askers.is_empty() {
                    break;
                }
                let for_a_lane = askers.iter().any(|(from, _)| *from != Station::Desk);
                let reading = if for_a_lane { driver.meta.read() } else { driver.meta.peek() };
                match reading.await {
                    Ok(state) => {
                        for (from, id) in askers {
                            driver.post.input(from, Input::MetaRead { id, state: Arc::clone(&state) });
                        }
                    }
                    Err(error) => tracing::debug!(%error, "not read"),
                }
            }
            driver.reading.set(false);
        });
    }

    async fn keep_time(self: Rc<Self>) {
        loop {
            self.alarm.goes_off().await;
            self.wake_desk(clock::now());
        }
    }

    /// Links go where the newest blueprint that is known here says. And the coordinator hears of it at once, as if it had just read it:
    /// whoever gains or loses something by it should not have to wait for a round.
    async fn keep_up(self: Rc<Self>) {
        let mut watch = self.meta.watch();
        loop {
            let state = Arc::clone(&watch.borrow_and_update());
            if state.blueprint.epoch > self.followed.get() {
                self.followed.set(state.blueprint.epoch);
                self.link_to(&state.blueprint);
                let leads = self.meta.status().role == Role::Leader;
                if self.leads_meta.replace(leads) != leads {
                    self.step(Input::LeadsMeta(leads));
                }
                self.step(Input::MetaRead { id: 0, state });
            }
            if watch.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Lets peers in, for as long as the process lives. Those that dial for a lane go to that lane.
pub(crate) async fn let_peers_in(
    listener: TcpListener,
    wires: Rc<Wires>,
    meta: Rc<RefCell<Option<Embedded>>>,
    post: Post,
    lanes_run: watch::Receiver<bool>,
) {
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a peer could not be let in");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (wires, meta, post) = (Rc::clone(&wires), Rc::clone(&meta), post.clone());
        let lanes_run = lanes_run.clone();
        spawn_local(async move {
            match gate::receive(stream, wires.host(), lanes_run).await {
                Ok(visitor) => direct(visitor, &meta, &post).await,
                Err(error) => tracing::debug!(%address, %error, "whoever dialled was sent away"),
            }
        });
    }
}

async fn direct(visitor: Visitor, meta: &Rc<RefCell<Option<Embedded>>>, post: &Post) {
    let Visitor { hello, stream, rest } = visitor;
    match hello.end {
        // Who belongs to no cluster yet may only ask to join one: what it says to a lane is for nobody.
        End::Lane(_) | End::Bulk(_) if hello.cluster == 0 => {
            tracing::debug!(from = %hello.from, "a lane was dialled by who has not joined");
        }
        End::Lane(lane) | End::Bulk(lane) => {
            if let Ok(stream) = stream.into_std() {
                post.lane(lane % post.lanes(), Letter::Peer { from: hello.from, stream, rest });
            }
        }
        End::Desk => attend(hello.from, hello.cluster != 0, stream, rest, meta, post).await,
    }
}

/// Another desk: what it says, and what it asks the meta group. Answers go back over the same link.
async fn attend(
    from: NodeId,
    is_one_of_us: bool,
    stream: tokio::net::TcpStream,
    rest: BytesMut,
    meta: &Rc<RefCell<Option<Embedded>>>,
    post: &Post,
) {
    let (mut reader, mut writer) = stream.into_split();
    let (answers, mut to_write) = mpsc::channel::<Vec<u8>>(MOST_ANSWERS);
    spawn_local(async move {
        while let Some(bytes) = to_write.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let served = Arc::new(Semaphore::new(MOST_ANSWERS));
    let mut buffer = rest;
    let longest = if is_one_of_us { LONGEST_FRAME } else { LONGEST_GREETING };
    loop {
        loop {
            let before = buffer.len();
            match wire::take::<Frame>(&mut buffer, longest) {
                Ok(Some(Frame::Message(message))) if is_one_of_us => {
                    // Nobody hops to a desk, and what else is refused is said again.
                    let _refusal = post.pass_on(from, message, before - buffer.len());
                }
                Ok(Some(Frame::Call { id, body })) => {
                    let Some(meta) = meta.borrow().clone() else { continue };
                    // Full: it asks more than anybody who waits for answers would.
                    let Ok(serving) = Arc::clone(&served).try_acquire_owned() else { continue };
                    let answers = answers.clone();
                    spawn_local(async move {
                        let body = meta.serve(from, body).await;
                        drop(serving);
                        let mut bytes = Vec::new();
                        wire::put(&mut bytes, &Frame::CallAnswer { id, body });
                        // Full: it asks and does not listen. What it misses it asks again.
                        let _dropped = answers.try_send(bytes);
                    });
                }
                Ok(Some(Frame::Message(_) | Frame::Bucket { .. } | Frame::CallAnswer { .. })) => {} // buckets are for lanes
                Ok(None) => break,
                Err(error) => return tracing::warn!(%from, %error, "a peer was cut off"),
            }
        }
        buffer.reserve(READ_AT_ONCE);
        match reader.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Hello, PROTOCOL};

    /// A visitor with that greeting.
    async fn visitor(cluster: u128, end: End) -> Visitor {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        let hello = Hello { protocol: PROTOCOL, cluster, from: NodeId(2), to: None, end };
        Visitor { hello, stream, rest: BytesMut::new() }
    }

    #[tokio::test]
    async fn who_has_not_joined_reaches_no_lane() {
        let (post, mut letters, _desk) = Post::new(1);
        let meta = Rc::default();
        for end in [End::Lane(0), End::Bulk(0)] {
            direct(visitor(0, end).await, &meta, &post).await;
            assert!(letters[0].try_recv().is_none(), "{end:?}");
            direct(visitor(7, end).await, &meta, &post).await;
            assert!(matches!(letters[0].try_recv(), Some(Letter::Peer { from: NodeId(2), .. })));
        }
    }
}
