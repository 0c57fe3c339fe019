//! Links to the other nodes: everything that this thread says to them leaves through here.
//!
//! A thread of a node has two links to each peer, which it dials itself: one for what is small and urgent, one for what is large,
//! so that a backfill never delays a beacon. What comes back arrives over links that the other side dialled.
//!
//! Nothing here waits for anybody. What is said while a link is down is lost, and so is what does not fit while a peer is slow:
//! the machines repeat whatever matters, and a hop that is not answered is uncertain. A slow peer therefore costs only itself.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use blueprint::NodeId;
use bytes::BytesMut;
use node::PeerMessage;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::wire::{self, End, Frame, Hello, LONGEST_FRAME, LONGEST_GREETING, MAGIC, PROTOCOL, Welcome};

/// What may wait for a peer that reads slowly: several seconds of a busy link.
const MOST_WAITING: usize = 32 << 20;
/// The same for what is large. One image more than this always fits: a single value may be larger.
const MOST_WAITING_BULK: usize = 8 << 20;
const DIAL_PATIENCE: Duration = Duration::from_secs(3);
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A frame from here on is large.
const LARGE: usize = 16 << 10;

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
    /// What comes back over a link that was dialled here: answers to calls, and that there will be no more of them.
    on_back: Rc<dyn Fn(NodeId, Back)>,
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
    /// The link is down: what was asked over it is not answered any more.
    Down,
}

/// What is to be written to one socket.
struct Pipe {
    waiting: RefCell<Vec<u8>>,
    most: usize,
    up: Cell<bool>,
    more: Notify,
    /// Why it is down, for whoever asks.
    trouble: RefCell<Option<String>>,
}

impl Pipe {
    fn new(most: usize) -> Rc<Self> {
        Rc::new(Self {
            waiting: RefCell::default(),
            most,
            up: Cell::new(false),
            more: Notify::new(),
            trouble: RefCell::default(),
        })
    }

    /// False: it was dropped.
    fn push(&self, frame: &[u8]) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        if !self.up.get() || (waiting.len() + frame.len() > self.most && !waiting.is_empty()) {
            return false;
        }
        if waiting.is_empty() {
            self.more.notify_one();
        }
        waiting.extend_from_slice(frame);
        true
    }
}

impl Links {
    pub(crate) fn new(caller: Caller, on_back: Rc<dyn Fn(NodeId, Back)>) -> Self {
        Self { caller: Cell::new(caller), peers: RefCell::default(), on_back, scratch: RefCell::default() }
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
        let (small, bulk) = (Pipe::new(MOST_WAITING), Pipe::new(MOST_WAITING_BULK));
        let caller = self.caller.get();
        let mut ends = vec![(caller.end, Rc::clone(&small))];
        if let End::Lane(lane) = caller.end {
            ends.push((End::Bulk(lane), Rc::clone(&bulk)));
        }
        let task = |(end, pipe)| {
            let (address, on_back) = (address.clone(), Rc::clone(&self.on_back));
            tokio::task::spawn_local(keep_up(Caller { end, ..caller }, node, address, pipe, on_back))
        };
        let tasks = ends.into_iter().map(task).collect();
        Peer { address, small, bulk, tasks }
    }

    pub(crate) fn send(&self, to: NodeId, message: PeerMessage) {
        self.send_frame(to, &Frame::Message(message));
    }

    /// False: nothing was sent.
    pub(crate) fn send_frame(&self, to: NodeId, frame: &Frame) -> bool {
        let peers = self.peers.borrow();
        let Some(peer) = peers.get(&to) else { return false };
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        wire::put(&mut scratch, frame);
        let bulk = scratch.len() >= LARGE && matches!(self.caller.get().end, End::Lane(_)) && may_be_late(frame);
        let pipe = if bulk { &peer.bulk } else { &peer.small };
        let sent = pipe.push(&scratch);
        if scratch.capacity() > MOST_WAITING {
            *scratch = Vec::new();
        }
        sent
    }

    pub(crate) fn is_up(&self, to: NodeId) -> bool {
        self.peers.borrow().get(&to).is_some_and(|peer| peer.small.up.get())
    }

    /// Who cannot be reached, and why.
    pub(crate) fn troubles(&self) -> Vec<(NodeId, String, String)> {
        let peers = self.peers.borrow();
        let down = peers.iter().filter(|(_, peer)| !peer.small.up.get());
        let why = |peer: &Peer| peer.small.trouble.borrow().clone().unwrap_or_else(|| "not answered yet".to_owned());
        down.map(|(node, peer)| (*node, peer.address.clone(), why(peer))).collect()
    }
}

/// Only images are large for their own sake. Large batches of entries are urgent all the same.
fn may_be_late(frame: &Frame) -> bool {
    let Frame::Message(PeerMessage::Bucket { envelope, .. }) = frame else { return false };
    matches!(envelope.message, phaser::Message::Fill { .. })
}

/// Dials, and dials again, for as long as the peer is one.
async fn keep_up(caller: Caller, to: NodeId, address: String, pipe: Rc<Pipe>, on_back: Rc<dyn Fn(NodeId, Back)>) {
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
                pipe.waiting.borrow_mut().clear();
                pipe.up.set(true);
                tracing::debug!(%to, %address, end = ?caller.end, "link is up");
                let ended = pump(stream, to, &pipe, &on_back).await;
                pipe.up.set(false);
                on_back(to, Back::Down);
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

/// Writes what is waiting, reads what comes back, until one of them ends.
async fn pump(stream: TcpStream, to: NodeId, pipe: &Pipe, on_back: &Rc<dyn Fn(NodeId, Back)>) -> io::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    let write = async {
        let mut taken = Vec::new();
        loop {
            if pipe.waiting.borrow().is_empty() {
                pipe.more.notified().await;
                continue;
            }
            // The whole of it counts as waiting no more: what the socket does not take, waits here.
            std::mem::swap(&mut taken, &mut *pipe.waiting.borrow_mut());
            writer.write_all(&taken).await?;
            taken.clear();
            if taken.capacity() > LARGE * 64 {
                taken = Vec::new();
            }
        }
    };
    let read = async {
        let mut buffer = BytesMut::new();
        loop {
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
