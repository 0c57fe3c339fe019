//! One client: its socket, and a queue with a place for each of its requests.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Instant as Moment;

use blueprint::Instant;
use bytes::{Buf, Bytes, BytesMut};
use node::Door;
use resp::Protocol;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use values::Reply;

use crate::clock;

/// A client that asks without reading the answers is not read from any more when this much waits for it.
const MOST_OUTPUT: usize = 1 << 20;
/// Or when so many answers are still to come.
const MOST_WAITING: usize = 10_000;

pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) door: Door,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) since: Moment,
    pub(crate) protocol: Cell<Protocol>,
    pub(crate) name: RefCell<Bytes>,
    pub(crate) library: RefCell<(Bytes, Bytes)>,
    pub(crate) last: Cell<(&'static str, Instant)>,
    pub(crate) replies: Cell<Replies>,
    pub(crate) readonly: Cell<bool>,
    writer: OwnedWriteHalf,
    queue: RefCell<VecDeque<Option<Reply>>>,
    /// The place of the first in the queue.
    first: Cell<u64>,
    out: RefCell<BytesMut>,
    touched: Cell<bool>,
    nudge: Notify,
    state: Cell<State>,
}

/// `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// Not to the next one.
    SkipNext,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Nothing more is read; what is under way is answered.
    Closing,
    Closed,
}

impl Connection {
    pub(crate) fn new(id: u64, stream: TcpStream, door: Door) -> (Self, OwnedReadHalf) {
        let now = Moment::now();
        let (peer, local) = (stream.peer_addr().ok(), stream.local_addr().ok());
        let (reader, writer) = stream.into_split();
        let connection = Self {
            id,
            door,
            peer,
            local,
            since: now,
            protocol: Cell::new(Protocol::Resp2),
            name: RefCell::default(),
            library: RefCell::default(),
            last: Cell::new(("NULL", clock::now())),
            replies: Cell::new(Replies::On),
            readonly: Cell::new(false),
            writer,
            queue: RefCell::default(),
            first: Cell::new(0),
            out: RefCell::default(),
            touched: Cell::new(false),
            nudge: Notify::new(),
            state: Cell::new(State::Open),
        };
        (connection, reader)
    }

    /// A place for an answer that is to come.
    pub(crate) fn wait(&self) -> u64 {
        let mut queue = self.queue.borrow_mut();
        queue.push_back(None);
        self.first.get() + queue.len() as u64 - 1
    }

    pub(crate) fn fill(&self, place: u64, reply: Reply) {
        let mut queue = self.queue.borrow_mut();
        let Some(at) = place.checked_sub(self.first.get()) else { return };
        if let Some(waiting) = queue.get_mut(at as usize) {
            *waiting = Some(reply);
        }
        while let Some(Some(_)) = queue.front() {
            let reply = queue.pop_front().flatten().expect("just seen");
            self.first.set(self.first.get() + 1);
            self.encode(&reply);
        }
    }

    /// An answer that is known at once; it still waits for those before it.
    pub(crate) fn say(&self, reply: Reply) {
        if self.queue.borrow().is_empty() {
            return self.encode(&reply);
        }
        let place = self.wait();
        self.fill(place, reply);
    }

    fn encode(&self, reply: &Reply) {
        match self.replies.get() {
            Replies::On => resp::encode(reply, self.protocol.get(), &mut self.out.borrow_mut()),
            Replies::Off => {}
            Replies::SkipNext => self.replies.set(Replies::On),
        }
    }

    /// False: it was touched already.
    pub(crate) fn touch(&self) -> bool {
        !self.touched.replace(true)
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.out.borrow().is_empty()
    }

    pub(crate) fn may_read(&self) -> bool {
        let room = self.out.borrow().len() < MOST_OUTPUT && self.queue.borrow().len() < MOST_WAITING;
        self.state.get() == State::Open && room
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state.get() != State::Open
    }

    pub(crate) fn is_over(&self) -> bool {
        match self.state.get() {
            State::Open => false,
            State::Closing => self.queue.borrow().is_empty() && !self.has_output(),
            State::Closed => true,
        }
    }

    pub(crate) fn close(&self) {
        self.state.set(State::Closed);
        self.nudge.notify_one();
    }

    pub(crate) fn close_when_answered(&self) {
        if self.state.get() == State::Open {
            self.state.set(State::Closing);
            self.nudge.notify_one();
        }
    }

    pub(crate) async fn nudged(&self) {
        self.nudge.notified().await;
    }

    /// The socket takes more.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.writer.writable().await
    }

    pub(crate) fn write_out(&self) {
        self.touched.set(false);
        let clogged = !self.may_read();
        let mut out = self.out.borrow_mut();
        while !out.is_empty() {
            match self.writer.try_write(&out) {
                Ok(written) => out.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.nudge.notify_one(); // its task waits until the socket takes more
                    return;
                }
                Err(_) => {
                    out.clear();
                    drop(out);
                    return self.close();
                }
            }
        }
        if out.capacity() > MOST_OUTPUT {
            *out = BytesMut::new();
        }
        drop(out);
        if clogged {
            self.nudge.notify_one();
        }
    }
}
