//! Links to the other nodes: everything that this thread says to them leaves through here.
//!
//! A thread of a node has two links to each peer, which it dials itself: one for what is small and urgent, one for what is large,
//! so that a backfill never delays a beacon. What comes back arrives over links that the other side dialled.
//!
//! What is said leaves with the next [`Links::write_out`], all of it in one write for each socket.
//!
//! Nothing here waits for anybody. What is said while a link is down is lost, and so is what does not fit while a peer is slow:
//! the machines repeat whatever matters, and whoever sends a hop is told that it was not sent. A slow peer therefore costs only itself.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use blueprint::NodeId;
use bytes::BytesMut;
use node::{HopId, PeerMessage};
use rustix::net::sockopt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::wire::{self, End, Frame, Hello, LONGEST_FRAME, LONGEST_GREETING, MAGIC, PROTOCOL, Welcome};

/// What may wait for a peer that reads slowly: several seconds of a busy link. One frame more than this always fits, for a single
/// value may be larger.
const MOST_WAITING: usize = 32 << 20;
/// The same for images, which are sent again if they are lost, a second later: so there is room for all that may be in flight for the
/// copies that an operation makes at once, two megabytes for each.
const MOST_IMAGES: usize = 24 << 20;
/// A peer that does not take what it was sent for so long, or does not even say that it is there, is gone: the link is dialled again.
const SILENCE: Duration = Duration::from_secs(2);
const DIAL_PATIENCE: Duration = Duration::from_secs(3);
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// An image from here on is large.
const LARGE: usize = 16 << 10;
/// A request that hops, or its answer, from here on.
pub(crate) const LARGE_HOP: usize = 64 << 10;
/// Memory that a link keeps when nothing waits.
const MOST_KEPT: usize = 1 << 20;
/// Room for what a peer says, before it is read.
pub(crate) const READ_AT_ONCE: usize = 4 << 10;

/// Who dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) node: NodeId,
    pub(crate) cluster: u128,
    pub(crate) end: End,
}

pub(crate) struct Links {
    caller: Cell<Caller>,
    peers: RefCell<BTreeMap<NodeId, Peer>>,
    /// How often one came up, went down or was dropped.
    turns: Rc<Cell<u64>>,
    /// What comes back over a link that was dialled here: answers to calls, and that there will be no more of them.
    on_back: Rc<dyn Fn(NodeId, Back)>,
    /// Those with something to be written.
    touched: RefCell<Vec<Rc<Pipe>>>,
    scratch: RefCell<Vec<u8>>,
}

struct Peer {
    address: String,
    small: Rc<Pipe>,
    bulk: Rc<Pipe>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

pub(crate) enum Back {
    Frame(Frame),
    /// The link is down: what was asked over it is not answered any more. Of these not a byte was sent.
    Down {
        end: End,
        unsent: Vec<HopId>,
    },
}

/// What is to be written to one socket.
struct Pipe {
    waiting: RefCell<Vec<u8>>,
    /// What the socket has begun to take. It does not count as waiting any more: whether it arrives, nobody knows.
    leaving: RefCell<Leaving>,
    /// None: it is down.
    socket: RefCell<Option<Rc<OwnedWriteHalf>>>,
    /// The socket takes no more right now, or has failed: the task of this link sees to it.
    stuck: Notify,
    /// Why it is down, for whoever asks.
    trouble: RefCell<Option<String>>,
}

impl Pipe {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            waiting: RefCell::default(),
            leaving: RefCell::default(),
            socket: RefCell::default(),
            stuck: Notify::new(),
            trouble: RefCell::default(),
        })
    }

    fn is_up(&self) -> bool {
        self.socket.borrow().is_some()
    }

    /// However large, it is taken if less than `most` waits: it would never be otherwise, on a busy link.
    fn push(&self, frame: &[u8], most: usize) -> Pushed {
        let mut waiting = self.waiting.borrow_mut();
        if !self.is_up() || waiting.len() >= most {
            return Pushed::Dropped;
        }
        let is_first = waiting.is_empty();
        waiting.extend_from_slice(frame);
        if is_first { Pushed::First } else { Pushed::Taken }
    }

    fn write_out(&self) {
        let socket = self.socket.borrow();
        let Some(socket) = socket.as_deref() else { return };
        // If something is leaving, the task waits for the socket already.
        if self.leaving.borrow().rest().is_empty() && !matches!(self.try_write(socket), Ok(true)) {
            self.stuck.notify_one();
        }
    }

    /// True: everything is written.
    fn try_write(&self, socket: &OwnedWriteHalf) -> io::Result<bool> {
        let (mut waiting, mut leaving) = (self.waiting.borrow_mut(), self.leaving.borrow_mut());
        loop {
            if leaving.rest().is_empty() {
                leaving.written = 0;
                leaving.bytes.clear();
                leaving.bytes.shrink_to(MOST_KEPT);
                if waiting.is_empty() {
                    return Ok(true);
                }
                std::mem::swap(&mut leaving.bytes, &mut *waiting);
            }
            match socket.try_write(leaving.rest()) {
                Ok(written) => leaving.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Of what waited not a byte was sent.
    fn close(&self) -> Vec<u8> {
        self.socket.take();
        self.leaving.take();
        self.waiting.take()
    }
}

#[derive(Default)]
struct Leaving {
    bytes: Vec<u8>,
    written: usize,
}

impl Leaving {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushed {
    /// Nothing waited before it.
    First,
    Taken,
    /// All of it.
    Dropped,
}

impl Links {
    pub(crate) fn new(caller: Caller, on_back: Rc<dyn Fn(NodeId, Back)>) -> Self {
        let (caller, turns) = (Cell::new(caller), Rc::default());
        Self {
            caller,
            peers: RefCell::default(),
            turns,
            on_back,
            touched: RefCell::default(),
            scratch: RefCell::default(),
        }
    }

    /// Another number if any link has come up or gone down since.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// A node that has just joined knows now which cluster it belongs to.
    pub(crate) fn set_cluster(&self, cluster: u128) {
        self.caller.set(Caller { cluster, ..self.caller.get() });
        let known: Vec<(NodeId, String)> =
            std::mem::take(&mut *self.peers.borrow_mut()).iter().map(|(n, p)| (*n, p.address.clone())).collect();
        self.follow(known);
    }

    /// From now on these are the peers, and that is where they are. Must be called within a local set.
    pub(crate) fn follow(&self, addresses: impl IntoIterator<Item = (NodeId, String)>) {
        let mut peers = self.peers.borrow_mut();
        let mut before = std::mem::take(&mut *peers);
        let me = self.caller.get().node;
        for (node, address) in addresses.into_iter().filter(|(node, address)| *node != me && !address.is_empty()) {
            let kept = before.remove(&node).filter(|peer| peer.address == address);
            peers.insert(node, kept.unwrap_or_else(|| self.dial(node, address)));
        }
    }

    fn dial(&self, node: NodeId, address: String) -> Peer {
        turn(&self.turns); // it may replace another
        let (small, bulk) = (Pipe::new(), Pipe::new());
        let caller = self.caller.get();
        let mut ends = vec![(caller.end, Rc::clone(&small))];
        if let End::Lane(lane) = caller.end {
            ends.push((End::Bulk(lane), Rc::clone(&bulk)));
        }
        let task = |(end, pipe)| {
            let (address, turns, on_back) = (address.clone(), Rc::clone(&self.turns), Rc::clone(&self.on_back));
            tokio::task::spawn_local(keep_up(Caller { end, ..caller }, node, address, pipe, turns, on_back))
        };
        let tasks = ends.into_iter().map(task).collect();
        Peer { address, small, bulk, tasks }
    }

    /// It leaves with the next [`Links::write_out`]. False: not a byte of it was sent, nor will be.
    pub(crate) fn send(&self, to: NodeId, message: PeerMessage) -> bool {
        if let PeerMessage::Bucket { envelope, .. } = &message {
            // R10: only the greeting says who both are.
            debug_assert_eq!((envelope.from.node, envelope.to.node), (self.caller.get().node, to));
        }
        self.send_frame(to, &Frame::from(message))
    }

    /// As [`Links::send`].
    pub(crate) fn send_frame(&self, to: NodeId, frame: &Frame) -> bool {
        let peers = self.peers.borrow();
        let Some(peer) = peers.get(&to) else { return false };
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        wire::put(&mut scratch, frame);
        let (pipe, most) = match Haste::of(frame, scratch.len()) {
            Haste::Urgent => (&peer.small, MOST_WAITING),
            Haste::Image => (&peer.bulk, MOST_IMAGES),
            Haste::Apart if peer.bulk.is_up() => (&peer.bulk, MOST_WAITING),
            Haste::Apart => (&peer.small, MOST_WAITING),
        };
        let pushed = pipe.push(&scratch, most);
        if pushed == Pushed::First {
            self.touched.borrow_mut().push(Rc::clone(pipe));
        }
        if scratch.capacity() > MOST_WAITING {
            *scratch = Vec::new();
        }
        pushed != Pushed::Dropped
    }

    /// Whatever was sent leaves now.
    pub(crate) fn write_out(&self) {
        self.touched.borrow_mut().drain(..).for_each(|pipe| pipe.write_out());
    }

    pub(crate) fn is_up(&self, to: NodeId) -> bool {
        self.peers.borrow().get(&to).is_some_and(|peer| peer.small.is_up())
    }

    /// Who cannot be reached, and why.
    pub(crate) fn troubles(&self) -> Vec<(NodeId, String, String)> {
        let peers = self.peers.borrow();
        let down = peers.iter().filter(|(_, peer)| !peer.small.is_up());
        let why = |peer: &Peer| peer.small.trouble.borrow().clone().unwrap_or_else(|| "not answered yet".to_owned());
        down.map(|(node, peer)| (*node, peer.address.clone(), why(peer))).collect()
    }
}

fn turn(turns: &Cell<u64>) {
    turns.set(turns.get() + 1);
}

/// By which of the two links something goes.
enum Haste {
    /// Large batches of entries included.
    Urgent,
    /// Large for its own sake; only ever from a lane to a lane.
    Image,
    /// A large request that hops, or an answer: it should not delay a beacon. Nothing depends on when it arrives: the door begins nothing
    /// that must not overtake a large request before that is answered.
    Apart,
}

impl Haste {
    fn of(frame: &Frame, length: usize) -> Self {
        let message = match frame {
            Frame::Bucket { message: phaser::Message::Fill { .. }, .. } if length >= LARGE => return Self::Image,
            Frame::Bucket { .. } | Frame::Call { .. } | Frame::CallAnswer { .. } => return Self::Urgent,
            Frame::Message(message) => message,
        };
        match message {
            PeerMessage::Hop { .. } | PeerMessage::HopAnswer { .. } if length >= LARGE_HOP => Self::Apart,
            PeerMessage::Bucket { .. }
            | PeerMessage::Hop { .. }
            | PeerMessage::HopAnswer { .. }
            | PeerMessage::Probe { .. }
            | PeerMessage::Probed { .. }
            | PeerMessage::Push(_)
            | PeerMessage::Echoed(_)
            | PeerMessage::Order(_)
            | PeerMessage::Directory(_) => Self::Urgent,
        }
    }
}

/// Dials, and dials again, for as long as the peer is one.
async fn keep_up(
    caller: Caller,
    to: NodeId,
    address: String,
    pipe: Rc<Pipe>,
    turns: Rc<Cell<u64>>,
    on_back: Rc<dyn Fn(NodeId, Back)>,
) {
    let mut pause = SHORTEST_PAUSE;
    loop {
        let dialled = match timeout(DIAL_PATIENCE, dial(caller, Some(to), &address)).await {
            Ok(dialled) => dialled.map_err(|error| error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        };
        let ended = match dialled {
            Ok((stream, _)) => {
                pause = SHORTEST_PAUSE;
                pipe.trouble.take();
                let (reader, writer) = stream.into_split();
                let writer = Rc::new(writer);
                pipe.socket.replace(Some(Rc::clone(&writer)));
                turn(&turns);
                tracing::debug!(%to, %address, end = ?caller.end, "link is up");
                let ended = pump(reader, &writer, to, &pipe, &on_back).await;
                let unsent = pipe.close();
                turn(&turns);
                on_back(to, Back::Down { end: caller.end, unsent: hops_among(&unsent) });
                ended.map_or_else(|error| error.to_string(), |()| "the other side closed it".to_owned())
            }
            Err(why) => why,
        };
        if pipe.trouble.borrow().as_deref() != Some(&ended) {
            tracing::debug!(%to, %address, end = ?caller.end, why = %ended, "link is down");
        }
        *pipe.trouble.borrow_mut() = Some(ended);
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn hops_among(frames: &[u8]) -> Vec<HopId> {
    let (mut frames, mut hops) = (BytesMut::from(frames), Vec::new());
    while let Ok(Some(frame)) = wire::take(&mut frames, LONGEST_FRAME) {
        if let Frame::Message(PeerMessage::Hop { id, .. }) = frame {
            hops.push(id);
        }
    }
    hops
}

/// Writes what the socket did not take at once, reads what comes back, until one of them ends.
async fn pump(
    mut reader: OwnedReadHalf,
    writer: &OwnedWriteHalf,
    to: NodeId,
    pipe: &Pipe,
    on_back: &Rc<dyn Fn(NodeId, Back)>,
) -> io::Result<()> {
    let write = async {
        loop {
            pipe.stuck.notified().await;
            while !pipe.try_write(writer)? {
                writer.writable().await?;
            }
        }
    };
    let read = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(READ_AT_ONCE);
            if reader.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            while let Some(frame) = wire::take(&mut buffer, LONGEST_FRAME).map_err(io::Error::other)? {
                on_back(to, Back::Frame(frame));
            }
        }
    };
    tokio::select! {
        ended = write => ended,
        ended = read => ended,
    }
}

/// Greets, and learns who answers.
pub(crate) async fn dial(caller: Caller, to: Option<NodeId>, address: &str) -> io::Result<(TcpStream, Welcome)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    watch(&stream)?;
    let Caller { node, cluster, end } = caller;
    let mut greeting = MAGIC.to_vec();
    wire::put(&mut greeting, &Hello { protocol: PROTOCOL, cluster, from: node, to, end });
    stream.write_all(&greeting).await?;
    let mut buffer = BytesMut::new();
    loop {
        if stream.read_buf(&mut buffer).await? == 0 {
            return Err(io::Error::other("it hung up without a greeting: probably not a peer port of Godwit"));
        }
        match wire::take::<Welcome>(&mut buffer, LONGEST_GREETING) {
            Ok(None) => {}
            Ok(Some(Welcome::Stay { why })) => return Err(io::Error::other(format!("refused: {why}"))),
            Ok(Some(welcome)) => return Ok((stream, welcome)),
            Err(_) => {
                return Err(io::Error::other("it answers in another language: probably not a peer port of Godwit"));
            }
        }
    }
}

/// A peer that is gone without a word is missed soon, on either side of a link.
pub(crate) fn watch(stream: &TcpStream) -> io::Result<()> {
    keep_alive(stream, SILENCE)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(stream, SILENCE.as_millis() as u32)?;
    Ok(())
}

/// Asks the other side whether it is still there when it has said nothing for so long, and gives it as long again to answer.
pub(crate) fn keep_alive(stream: &TcpStream, after: Duration) -> io::Result<()> {
    const PROBES: u32 = 3;
    let between = (after / PROBES).max(Duration::from_secs(1));
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, after)?;
    sockopt::set_tcp_keepintvl(stream, between)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use blueprint::{BucketId, KeyspaceId};
    use bytes::Bytes;
    use node::Answer;
    use values::{Command, Reply};

    use super::*;

    /// Whoever listens, and a link to it that is up.
    async fn pipe() -> (TcpStream, OwnedReadHalf, Rc<Pipe>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (peer, _) = listener.accept().await.expect("somebody just dialled");
        let (reader, writer) = stream.into_split();
        let pipe = Pipe::new();
        pipe.socket.replace(Some(Rc::new(writer)));
        (peer, reader, pipe)
    }

    #[tokio::test]
    async fn a_frame_larger_than_any_bound_is_not_refused_for_ever() {
        assert_eq!(Pipe::new().push(b"abc", 10), Pushed::Dropped, "it is down");
        let (_peer, _reader, pipe) = pipe().await;
        assert_eq!(pipe.push(b"abc", 10), Pushed::First);
        assert_eq!(pipe.push(&[0; 100], 10), Pushed::Taken, "something waits, and it is taken all the same");
        assert_eq!(pipe.push(b"abc", 10), Pushed::Dropped);
        assert_eq!(pipe.waiting.borrow().len(), 103, "what was refused left nothing behind");
    }

    #[tokio::test]
    async fn what_the_socket_does_not_take_at_once_follows_in_its_order() {
        let (mut peer, reader, pipe) = pipe().await;
        let writer = pipe.socket.borrow().clone().expect("it is up");
        let bytes: Vec<u8> = (0..32_000_000_u32).map(|at| (at % 251) as u8).collect();
        let (first, second) = bytes.split_at(bytes.len() - 10);
        pipe.push(first, MOST_WAITING);
        pipe.write_out();
        assert!(!pipe.leaving.borrow().rest().is_empty(), "more than any socket takes at once");
        assert_eq!(pipe.push(second, MOST_WAITING), Pushed::First, "what is leaving does not wait");
        pipe.write_out();
        assert_eq!(pipe.waiting.borrow().len(), 10, "it does not overtake");
        let read = async {
            let mut seen = vec![0; bytes.len()];
            peer.read_exact(&mut seen).await.expect("both ends are here");
            assert!(seen == bytes);
        };
        let on_back: Rc<dyn Fn(NodeId, Back)> = Rc::new(|_, _| {});
        tokio::select! {
            _ = pump(reader, &writer, NodeId(2), &pipe, &on_back) => panic!("the link ended"),
            () = read => {}
        }
        assert!(pipe.leaving.borrow().bytes.is_empty() && pipe.close().is_empty());
    }

    #[tokio::test]
    async fn who_is_gone_without_a_word_is_missed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        watch(&stream).expect("options of every socket");
        assert!(sockopt::socket_keepalive(&stream).expect("an option"));
        assert_eq!(sockopt::tcp_keepidle(&stream).expect("an option"), SILENCE);
        #[cfg(target_os = "linux")]
        assert_eq!(sockopt::tcp_user_timeout(&stream).expect("an option"), SILENCE.as_millis() as u32);
    }

    #[test]
    fn hops_that_were_not_sent_are_found_again() {
        let hop = |number| {
            let (id, command) = (HopId { lane: 3, number }, Command::get(Bytes::from_static(b"k")));
            Frame::Message(PeerMessage::Hop { id, keyspace: KeyspaceId(1), bucket: BucketId(1), hops: 1, command })
        };
        let mut frames = Vec::new();
        for frame in [hop(1), Frame::Message(PeerMessage::Echoed(blueprint::Epoch(1))), hop(2)] {
            wire::put(&mut frames, &frame);
        }
        let found: Vec<u64> = hops_among(&frames).into_iter().map(|id| id.number).collect();
        assert_eq!(found, [1, 2]);
    }

    #[test]
    fn large_values_do_not_delay_beacons() {
        let id = HopId { lane: 0, number: 1 };
        let command = |size| Command::set(Bytes::from_static(b"k"), vec![0; size].into(), None);
        let hop = |size| PeerMessage::Hop {
            id,
            keyspace: KeyspaceId(1),
            bucket: BucketId(1),
            hops: 1,
            command: command(size),
        };
        let answer = |size| PeerMessage::HopAnswer { id, answer: Answer::Reply(Reply::Value(vec![0; size].into())) };
        let haste = |message| {
            let frame = Frame::Message(message);
            let mut bytes = Vec::new();
            wire::put(&mut bytes, &frame);
            Haste::of(&frame, bytes.len())
        };
        assert!(matches!(haste(hop(100)), Haste::Urgent) && matches!(haste(answer(100)), Haste::Urgent));
        assert!(matches!(haste(hop(1 << 20)), Haste::Apart) && matches!(haste(answer(1 << 20)), Haste::Apart));
    }
}
