//! One node of one lane, and what drives it: the same steps in the same order as `server::lane`, without a runtime.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use blueprint::{Blueprint, Durability, Honest, Instant, LaneId, Member, MetaState, NodeId};
use bytes::{Buf, BytesMut};
use journal::{Journal, Options, Outcome};
use node::{
    Answer, BatchId, Config, Input, Lane, LaneDurable, Life, Mail, NodeRecord, Origin, Output, PeerMessage, Station,
};
use phaser::Envelope;
use values::Reply;

use crate::disk::Void;

pub(crate) struct Machine {
    pub(crate) lane: Lane<Honest>,
    pub(crate) now: Instant,
    journal: Journal,
    /// What the journal's thread has written.
    written: Receiver<BatchId>,
    state: Arc<MetaState>,
    wakes_at: Instant,
    /// How often it was woken.
    wakes: u64,
    /// It was stepped, and has not settled since.
    is_awake: bool,
    out: Vec<Output>,
    /// Empty, and as large as they ever had to be.
    workspace: (Vec<Output>, Vec<Input>),
    /// What is to be sent to each peer, by its number.
    links: Vec<Vec<u8>>,
    /// What was read from each of them.
    heard: Vec<BytesMut>,
    /// Replies in the order in which they came, and whose.
    pub(crate) replies: Vec<(u64, Reply)>,
}

impl Machine {
    pub(crate) fn new(id: NodeId, of: usize, now: Instant) -> Self {
        // It would sync when some time has passed, and nothing that depends on time can be counted.
        let options = Options { sync_within: Duration::from_secs(86_400), ..Options::new("count") };
        let (journal, _) = Journal::open_on(Arc::new(Void), options, &mut |_| {}).expect("nothing is there");
        let (tell, written) = channel();
        let on_written = move |_, batch| tell.send(batch).expect("somebody listens");
        journal.start(on_written, |_, _, _, _| unreachable!("no tables are stored"));
        let life = Life { number: 1, seed: 7 + id.0, wall: 0 };
        let mut out = Vec::new();
        let durable = LaneDurable::default();
        let lane = Lane::recover(id, LaneId::ONLY, Config::default(), durable, life, now, &mut out);
        let mut machine = Self {
            lane,
            now,
            journal,
            written,
            state: Arc::default(),
            wakes_at: now,
            wakes: 0,
            is_awake: false,
            out,
            workspace: Default::default(),
            links: vec![Vec::new(); of + 1],
            heard: vec![BytesMut::new(); of + 1],
            replies: Vec::new(),
        };
        machine.step(Input::Wall { micros: 1 });
        machine
    }

    pub(crate) fn follow(&mut self, blueprint: &Arc<Blueprint>) {
        self.state = Arc::new(MetaState { blueprint: Arc::clone(blueprint), ..MetaState::default() });
        let mail = Mail::Blueprint(Arc::clone(blueprint));
        self.step(Input::Mail { from: Station::Desk, mail });
        self.settle();
    }

    /// How often something happened that is none of an operation's usual business: it was woken, or its journal's thread had to write.
    pub(crate) fn exceptions(&self) -> u64 {
        self.wakes + self.journal.counts().batches
    }

    /// It wakes if it wants to.
    pub(crate) fn look_at_clock(&mut self, now: Instant) {
        self.now = now;
        if now >= self.wakes_at {
            self.wakes += 1;
            self.step(Input::Wake);
        }
    }

    pub(crate) fn step(&mut self, input: Input) {
        self.lane.step(self.now, input, &mut self.out);
        self.is_awake = true;
    }

    /// Everything that is ready was stepped: one flush, one batch for the journal.
    pub(crate) fn settle(&mut self) {
        if !self.is_awake {
            return;
        }
        let ((mut outputs, mut again), mut flushed) = (std::mem::take(&mut self.workspace), false);
        loop {
            std::mem::swap(&mut outputs, &mut self.out);
            if outputs.is_empty() && again.is_empty() {
                if flushed {
                    break;
                }
                flushed = true;
                again.push(Input::Flush);
            }
            for output in outputs.drain(..) {
                self.carry_out(output, &mut again);
            }
            for input in again.drain(..) {
                flushed &= matches!(input, Input::Flush);
                self.step(input);
            }
        }
        self.workspace = (outputs, again);
        self.is_awake = false;
        self.wakes_at = self.lane.pressing().min(self.lane.deadline());
    }

    fn carry_out(&mut self, output: Output, again: &mut Vec<Input>) {
        match output {
            Output::Send { to, message } => send(&mut self.links[to.0 as usize], &message),
            Output::Write { id, records } => again.push(self.write(id, records)),
            Output::Answer { origin: Origin::Client(request), answer: Answer::Reply(reply) } => {
                self.replies.push((request.0, reply));
            }
            Output::Read { origin: Origin::Client(request), answer: Answer::Reply(reply), good_until, .. } => {
                assert!(self.now < good_until, "time goes on between two batches only");
                self.replies.push((request.0, reply));
            }
            Output::ReadMeta { id } => again.push(Input::MetaRead { id, state: Arc::clone(&self.state) }),
            Output::Mail { to: Station::Desk, .. } | Output::Event { .. } => {}
            Output::Store { .. } => {
                panic!("a script so long that it has checkpoints: what do they cost each operation?")
            }
            Output::Answer { .. }
            | Output::Read { .. }
            | Output::Release { .. }
            | Output::Mail { .. }
            | Output::Propose(_)
            | Output::Report(_)
            | Output::Rebalance { .. }
            | Output::Erased { .. }
            | Output::Resumed { .. } => panic!("nothing changes and nothing fails: {output:?}"),
        }
    }

    fn write(&mut self, id: BatchId, records: Vec<NodeRecord>) -> Input {
        let is_memory = records.iter().all(|record| matches!(record, NodeRecord::Bucket { .. }));
        let level = if is_memory { Durability::Memory } else { Durability::Disk };
        match self.journal.write(0, id, level, records).expect("the disk takes everything") {
            Outcome::Written => {}
            Outcome::Ahead(_) => unreachable!("nothing of an earlier batch waits"),
            Outcome::Queued => while self.written.recv().expect("its thread runs") < id {},
        }
        Input::Written { upto: id }
    }

    /// Takes in what that one has to say to it, as from a socket. False: nothing.
    pub(crate) fn hear(&mut self, me: NodeId, other: &mut Self, from: NodeId) -> bool {
        let said = &mut other.links[me.0 as usize];
        if said.is_empty() {
            return false;
        }
        let mut heard = std::mem::take(&mut self.heard[from.0 as usize]);
        heard.reserve(READ_AT_ONCE);
        heard.extend_from_slice(said);
        said.clear();
        while let Some(message) = take(&mut heard, from, me) {
            self.step(Input::Peer { from, message });
        }
        self.heard[from.0 as usize] = heard;
        true
    }
}

/// As much as a lane makes room for before it reads from a peer.
const READ_AT_ONCE: usize = 64 << 10;

/// As in `server::wire`: what is said of a bucket does not name the nodes.
fn send(link: &mut Vec<u8>, message: &PeerMessage) {
    let PeerMessage::Bucket { bucket, envelope: Envelope { from, to, message } } = message else {
        panic!("nothing else is said: {message:?}");
    };
    let start = link.len();
    link.extend_from_slice(&[0; 4]);
    node::encode_onto(&(bucket, from.incarnation, to.incarnation, message), link);
    let length = (link.len() - start - 4) as u32;
    link[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn take(buffer: &mut BytesMut, from: NodeId, me: NodeId) -> Option<PeerMessage> {
    let length = u32::from_le_bytes(*buffer.first_chunk::<4>()?) as usize;
    let said = postcard::from_bytes(&buffer[4..4 + length]).expect("it was encoded here");
    buffer.advance(4 + length);
    let (bucket, of_from, of_me, message) = said;
    let (from, to) = (Member { node: from, incarnation: of_from }, Member { node: me, incarnation: of_me });
    Some(PeerMessage::Bucket { bucket, envelope: Envelope { from, to, message } })
}
