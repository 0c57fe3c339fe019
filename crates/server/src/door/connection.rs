//! One client: its socket, and a queue with a place for each of its requests.
//!
//! How an answer is said (which protocol, or not at all) is settled when its request is heard: `HELLO` and `CLIENT REPLY` have their
//! place in a pipeline like everything else.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::task::{Poll, Waker};
use std::time::Instant as Moment;

use blueprint::Instant;
use bytes::{Buf, Bytes, BytesMut};
use node::Door;
use resp::Protocol;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use values::Reply;

use super::keyspace::Chosen;
use super::order::Order;
use super::requests::Asked;
use super::transaction::Transaction;
use crate::clock;

/// A client that asks without reading the answers is not read from any more when this much waits for it.
const MOST_OUTPUT: usize = 1 << 20;
/// Or when so many answers are still to come.
const MOST_WAITING: usize = 10_000;
/// Or when requests and answers of so many bytes are kept here. One request more than this always fits.
const MOST_BYTES: usize = 32 << 20;
/// What a request or an answer takes besides the bytes of its words.
const OVERHEAD: usize = 64;

pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) door: Door,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) since: Moment,
    pub(crate) protocol: Cell<Protocol>,
    pub(crate) name: RefCell<Bytes>,
    pub(crate) library: RefCell<(Bytes, Bytes)>,
    /// What it asks from now on concerns this one.
    pub(crate) keyspace: Cell<Chosen>,
    pub(crate) last: Cell<(&'static str, Instant)>,
    pub(crate) replies: Cell<Replies>,
    /// Between `MULTI` and `EXEC`.
    pub(super) transaction: RefCell<Option<Transaction>>,
    /// Which of its requests are under way, and which wait for others.
    pub(super) order: RefCell<Order<Asked>>,
    writer: OwnedWriteHalf,
    queue: RefCell<VecDeque<Place>>,
    /// The place of the first in the queue.
    first: Cell<u64>,
    /// What the requests and answers in the queue take.
    bytes: Cell<usize>,
    out: RefCell<BytesMut>,
    touched: Cell<bool>,
    nudge: Nudge,
    /// Its task does not read, and looks again only if it is nudged.
    pub(crate) paused: Cell<bool>,
    state: Cell<State>,
}

/// Tells the task of a connection, which is in the same thread, that there is something to look at. It waits for this besides each read,
/// so to wait must cost nothing.
#[derive(Default)]
struct Nudge {
    is_given: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Nudge {
    fn give(&self) {
        self.is_given.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    async fn taken(&self) {
        poll_fn(|context| {
            if self.is_given.replace(false) {
                return Poll::Ready(());
            }
            let mut waker = self.waker.borrow_mut();
            if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
                *waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

/// Where an answer goes.
struct Place {
    reply: Option<Reply>,
    /// None: nobody wants to hear it.
    protocol: Option<Protocol>,
    bytes: usize,
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
            keyspace: Cell::default(),
            last: Cell::new(("NULL", clock::now())),
            replies: Cell::new(Replies::On),
            transaction: RefCell::default(),
            order: RefCell::default(),
            writer,
            queue: RefCell::default(),
            first: Cell::new(0),
            bytes: Cell::new(0),
            out: RefCell::default(),
            touched: Cell::new(false),
            nudge: Nudge::default(),
            paused: Cell::new(false),
            state: Cell::new(State::Open),
        };
        (connection, reader)
    }

    /// A place for an answer that is to come, to a request of so many bytes; and what it takes.
    pub(crate) fn wait(&self, bytes: usize) -> (u64, usize) {
        let bytes = bytes + OVERHEAD;
        let mut queue = self.queue.borrow_mut();
        queue.push_back(Place { reply: None, protocol: self.tone(), bytes });
        self.bytes.set(self.bytes.get() + bytes);
        (self.first.get() + queue.len() as u64 - 1, bytes)
    }

    /// How many bytes its request took.
    pub(crate) fn fill(&self, place: u64, reply: Reply) -> usize {
        let mut queue = self.queue.borrow_mut();
        let Some(at) = place.checked_sub(self.first.get()) else { return 0 };
        let Some(waiting) = queue.get_mut(at as usize).filter(|waiting| waiting.reply.is_none()) else { return 0 };
        let freed = waiting.bytes;
        // Only an answer that waits for others takes anything.
        waiting.bytes = if at == 0 || waiting.protocol.is_none() { 0 } else { size_of(&reply) };
        self.bytes.set(self.bytes.get() + waiting.bytes - freed);
        waiting.reply = Some(reply);
        while let Some(Place { reply: Some(reply), protocol, bytes }) =
            queue.pop_front_if(|first| first.reply.is_some())
        {
            self.first.set(self.first.get() + 1);
            self.bytes.set(self.bytes.get() - bytes);
            self.encode(&reply, protocol);
        }
        freed
    }

    /// An answer that is known at once; it still waits for those before it.
    pub(crate) fn say(&self, reply: Reply) {
        if self.queue.borrow().is_empty() {
            return self.encode(&reply, self.tone());
        }
        let (place, _) = self.wait(0);
        self.fill(place, reply);
    }

    /// How the next answer is said.
    fn tone(&self) -> Option<Protocol> {
        match self.replies.get() {
            Replies::On => Some(self.protocol.get()),
            Replies::Off => None,
            Replies::SkipNext => {
                self.replies.set(Replies::On);
                None
            }
        }
    }

    fn encode(&self, reply: &Reply, protocol: Option<Protocol>) {
        if let Some(protocol) = protocol {
            resp::encode(reply, protocol, &mut self.out.borrow_mut());
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
        let waiting = self.queue.borrow().len() < MOST_WAITING && self.bytes.get() < MOST_BYTES;
        self.state.get() == State::Open && waiting && self.out.borrow().len() < MOST_OUTPUT
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state.get() != State::Open
    }

    /// Everything that it asked is answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.borrow().is_empty() && !self.has_output()
    }

    pub(crate) fn is_over(&self) -> bool {
        match self.state.get() {
            State::Open => false,
            State::Closing => self.is_idle(),
            State::Closed => true,
        }
    }

    pub(crate) fn close(&self) {
        self.state.set(State::Closed);
        self.nudge.give();
    }

    pub(crate) fn close_when_answered(&self) {
        if self.state.get() == State::Open {
            self.state.set(State::Closing);
            self.nudge.give();
        }
    }

    pub(crate) async fn nudged(&self) {
        self.nudge.taken().await;
    }

    /// The socket takes more.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.writer.writable().await
    }

    pub(crate) fn write_out(&self) {
        self.touched.set(false);
        let mut out = self.out.borrow_mut();
        while !out.is_empty() {
            match self.writer.try_write(&out) {
                Ok(written) => out.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.nudge.give(); // its task waits until the socket takes more
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
        if self.paused.get() {
            self.nudge.give();
        }
    }
}

/// About.
fn size_of(reply: &Reply) -> usize {
    let inside = match reply {
        Reply::Value(text)
        | Reply::Error(text)
        | Reply::Simple(text)
        | Reply::Verbatim(text)
        | Reply::BigNumber(text) => text.len(),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => items.iter().map(size_of).sum(),
        Reply::Map(pairs) => pairs.iter().map(|(key, value)| size_of(key) + size_of(value)).sum(),
        Reply::Ok | Reply::Nil | Reply::NilArray | Reply::Number(_) | Reply::Double(_) | Reply::Boolean(_) => 0,
    };
    inside + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn connection() -> Connection {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        Connection::new(1, stream, Door::Any).0
    }

    /// Three places for requests of that size.
    fn wait_thrice(connection: &Connection, bytes: usize) -> [u64; 3] {
        [(); 3].map(|()| connection.wait(bytes).0)
    }

    #[tokio::test]
    async fn nobody_is_read_from_who_makes_us_keep_too_much() {
        let connection = connection().await;
        let places = wait_thrice(&connection, MOST_BYTES / 3);
        assert!(!connection.may_read(), "requests");
        let answer = Reply::Value(vec![0; MOST_BYTES].into());
        connection.fill(places[1], answer);
        connection.fill(places[2], Reply::Ok);
        assert!(!connection.may_read() && !connection.has_output(), "an answer that waits for another");
        connection.fill(places[0], Reply::Nil);
        assert_eq!(connection.bytes.get(), 0);
        connection.out.borrow_mut().clear();
        assert!(connection.may_read());
    }

    #[tokio::test]
    async fn how_an_answer_is_said_is_settled_when_it_is_asked_for() {
        let connection = connection().await;
        let [first, second, third] = wait_thrice(&connection, 0);
        connection.protocol.set(Protocol::Resp3);
        connection.say(Reply::Nil);
        connection.replies.set(Replies::SkipNext);
        let (skipped, _) = connection.wait(0);
        connection.say(Reply::Ok);
        connection.replies.set(Replies::Off);
        for place in [skipped, third, first, second] {
            connection.fill(place, Reply::Nil);
        }
        assert_eq!(&connection.out.borrow()[..], b"$-1\r\n$-1\r\n$-1\r\n_\r\n+OK\r\n");
    }
}
