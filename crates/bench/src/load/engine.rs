//! The loop: whoever has something to say is heard, and is sent the next batch when nothing of the last one is open.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::http::HttpScanner;
use super::keys::{Dice, Keys, Share};
use super::request::{Batch, Mix};
use super::route::{Routes, moved};
use super::scan::{Scanner, Seen};
use super::{At, Length, Outcome, Work};
use crate::error::Error;
use crate::system;

/// Replies that come in one read. More would fall out of the nearest caches.
const CHUNK: usize = 64 * 1024;
/// Events taken at once.
const EVENTS: usize = 512;
/// How long the last answers are waited for, and how long nothing may come in at all.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at who leads what.
const LOOK: Duration = Duration::from_millis(100);

pub fn run(work: &Work) -> Result<Outcome, Error> {
    Engine::new(work)?.run()
}

struct Engine<'a> {
    work: &'a Work,
    epoll: OwnedFd,
    nodes: Vec<SocketAddr>,
    shares: Vec<Share>,
    conversations: Vec<Conversation>,
    batch: Batch,
    dice: Dice,
    outcome: Outcome,
    /// Conversations with replies that are still to come.
    busy: usize,
    is_sending: bool,
    /// Somebody said that a slot is elsewhere.
    doubts_routes: bool,
    looked: Instant,
}

/// One connection, and what is open on it.
struct Conversation {
    stream: TcpStream,
    node: usize,
    scanner: Talk,
    /// When the batch went out.
    since: Instant,
    /// Replies that are still to come.
    open: u32,
    /// Of the operation whose replies come just now: so many are here already, and whether one of them was an error.
    heard: u32,
    is_wrong: bool,
    /// What the system did not take yet.
    unsent: Vec<u8>,
    is_over: bool,
}

enum Talk {
    Resp(Scanner),
    Http(HttpScanner),
}

impl<'a> Engine<'a> {
    fn new(work: &'a Work) -> Result<Self, Error> {
        let (nodes, routes) = match &work.at {
            At::Any(nodes) => (nodes.clone(), None),
            At::Cluster(nodes) => {
                let routes = Routes::learn(nodes);
                let routes = routes.ok_or_else(|| Error::Server(format!("nobody at {nodes:?} says who leads what")))?;
                (routes.nodes().to_vec(), Some(routes))
            }
        };
        let shares = Share::deal(&work.keys, work.mix.prefix(), &nodes, routes.as_ref());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| failed("epoll", error))?;
        let scanner = || match work.mix {
            Mix::EtcdPut => Talk::Http(HttpScanner::default()),
            _ => Talk::Resp(Scanner::default()),
        };
        let mut conversations = Vec::with_capacity(work.connections);
        for place in 0..work.connections {
            let node = place % nodes.len();
            let stream = TcpStream::connect_timeout(&nodes[node], PATIENCE)
                .and_then(|stream| {
                    stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map(|()| stream)
                })
                .map_err(Error::system(format!("connection {} to {}", place + 1, nodes[node])))?;
            epoll::add(&epoll, &stream, epoll::EventData::new_u64(place as u64), epoll::EventFlags::IN)
                .map_err(|error| failed("epoll", error))?;
            conversations.push(Conversation {
                stream,
                node,
                scanner: scanner(),
                since: Instant::now(),
                open: 0,
                heard: 0,
                is_wrong: false,
                unsent: Vec::new(),
                is_over: false,
            });
        }
        Ok(Self {
            work,
            epoll,
            nodes,
            shares,
            conversations,
            batch: Batch::new(work.mix, work.value_bytes, work.pipeline),
            dice: Dice::new(Instant::now().elapsed().as_nanos() as u64 + u64::from(std::process::id())),
            outcome: Outcome::default(),
            busy: 0,
            is_sending: true,
            doubts_routes: false,
            looked: Instant::now(),
        })
    }

    fn run(mut self) -> Result<Outcome, Error> {
        let begun = Instant::now();
        let mut window = match self.work.length {
            Length::For { warm_up, measured } => Window::Warm { until: begun + warm_up, measured },
            Length::EachKey => self.open_window(begun, None),
        };
        (0..self.conversations.len()).try_for_each(|place| self.send(place, begun))?;
        let (mut events, mut chunk) = (Vec::with_capacity(EVENTS), vec![0; CHUNK]);
        let mut last = begun;
        while self.busy > 0 {
            let patience = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&patience)) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(failed("epoll", error)),
            }
            let now = Instant::now();
            window = self.advance(window, now);
            if !events.is_empty() {
                last = now;
            } else if now - last > PATIENCE {
                let silent = self.busy;
                return Err(Error::Server(format!("{silent} connections have waited {PATIENCE:?} for a reply")));
            }
            for event in events.drain(..) {
                self.on_event(event.data.u64() as usize, event.flags, &mut chunk, window.counts())?;
            }
            self.look_who_leads(now);
        }
        if let Window::Open { since, used, .. } = window {
            self.close_window(since, used, Instant::now());
        }
        Ok(self.outcome)
    }

    fn open_window(&mut self, now: Instant, until: Option<Instant>) -> Window {
        // Errors of the warming up are errors, too.
        (self.outcome.operations, self.outcome.missing) = (0, 0);
        self.outcome.latency.clear();
        Window::Open { since: now, until, used: Used::until_now(&self.work.servers) }
    }

    fn close_window(&mut self, since: Instant, before: Used, now: Instant) {
        let used = Used::until_now(&self.work.servers);
        self.outcome.elapsed = now - since;
        self.outcome.processor = used.servers.saturating_sub(before.servers);
        self.outcome.own_processor = used.own.saturating_sub(before.own);
        let all = used.everyone.saturating_sub(before.everyone);
        self.outcome.others_processor = all.saturating_sub(self.outcome.processor + self.outcome.own_processor);
    }

    fn advance(&mut self, window: Window, now: Instant) -> Window {
        match window {
            Window::Warm { until, measured } if now >= until => self.open_window(now, Some(now + measured)),
            Window::Open { since, until: Some(until), used } if now >= until => {
                self.close_window(since, used, now);
                self.is_sending = false;
                Window::Closed
            }
            other => other,
        }
    }

    fn on_event(
        &mut self,
        place: usize,
        flags: epoll::EventFlags,
        chunk: &mut [u8],
        is_counted: bool,
    ) -> Result<(), Error> {
        if self.conversations[place].is_over {
            return Ok(());
        }
        if flags.contains(epoll::EventFlags::OUT) {
            self.send_rest(place)?;
        }
        if !flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            return Ok(());
        }
        loop {
            let read = match self.conversations[place].stream.read(chunk) {
                Ok(0) => return self.lose(place, "the connection was closed"),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return self.lose(place, &error.to_string()),
            };
            let now = Instant::now();
            if let Err(why) = self.hear(place, &chunk[..read], now, is_counted) {
                return self.lose(place, &why);
            }
            if self.conversations[place].open == 0 {
                self.busy -= 1;
                self.send(place, now)?;
                return Ok(());
            }
            if read < chunk.len() {
                return Ok(());
            }
        }
    }

    fn hear(&mut self, place: usize, bytes: &[u8], now: Instant, is_counted: bool) -> Result<(), String> {
        let Self { conversations, outcome, work, doubts_routes, .. } = self;
        let Conversation { scanner, open, heard, is_wrong, since, .. } = &mut conversations[place];
        let (replies, took) = (work.mix.replies(), now - *since);
        let mut surplus = false;
        let mut on = |seen: Seen<'_>| {
            if *open == 0 {
                surplus = true;
                return;
            }
            *open -= 1;
            *heard += 1;
            match judge(work.mix, *heard, seen) {
                Judged::Fine => {}
                Judged::Missing => outcome.missing += u64::from(is_counted),
                Judged::Wrong(why) if moved(why).is_some() => {
                    (*is_wrong, *doubts_routes) = (true, true);
                    outcome.moved += 1;
                }
                Judged::Wrong(why) => {
                    *is_wrong = true;
                    outcome.errors += 1;
                    outcome.error.get_or_insert_with(|| String::from_utf8_lossy(why).into_owned());
                }
            }
            if *heard == replies {
                if is_counted && !*is_wrong {
                    outcome.operations += 1;
                    outcome.latency.add(took);
                }
                (*heard, *is_wrong) = (0, false);
            }
        };
        match scanner {
            Talk::Resp(scanner) => scanner.scan(bytes, &mut on).map_err(|garbled| garbled.to_string())?,
            Talk::Http(scanner) => scanner.scan(bytes, &mut on).map_err(|garbled| garbled.to_string())?,
        }
        if surplus { Err("more replies came than were asked for".into()) } else { Ok(()) }
    }

    fn send(&mut self, place: usize, now: Instant) -> Result<(), Error> {
        let conversation = &mut self.conversations[place];
        let share = &mut self.shares[conversation.node];
        let is_once = matches!(self.work.keys, Keys::Once(_));
        if !self.is_sending || conversation.is_over || share.is_empty() || (is_once && share.left() == 0) {
            return Ok(());
        }
        let count = if is_once { self.work.pipeline.min(share.left()) } else { self.work.pipeline };
        let dice = &mut self.dice;
        let roll = dice.roll();
        let next = || if is_once { share.next() } else { share.any(dice) };
        let bytes = self.batch.fill(count, next, roll);
        (conversation.since, conversation.open) = (now, count as u32 * self.work.mix.replies());
        self.busy += 1;
        match conversation.stream.write(bytes) {
            Ok(sent) if sent == bytes.len() => return Ok(()),
            Ok(sent) => conversation.unsent.extend_from_slice(&bytes[sent..]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => conversation.unsent.extend_from_slice(bytes),
            Err(error) => return self.lose(place, &error.to_string()),
        }
        self.listen(place, epoll::EventFlags::IN | epoll::EventFlags::OUT)
    }

    fn send_rest(&mut self, place: usize) -> Result<(), Error> {
        let conversation = &mut self.conversations[place];
        match conversation.stream.write(&conversation.unsent) {
            Ok(sent) => drop(conversation.unsent.drain(..sent)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return self.lose(place, &error.to_string()),
        }
        if conversation.unsent.is_empty() { self.listen(place, epoll::EventFlags::IN) } else { Ok(()) }
    }

    fn listen(&self, place: usize, flags: epoll::EventFlags) -> Result<(), Error> {
        let stream = &self.conversations[place].stream;
        epoll::modify(&self.epoll, stream, epoll::EventData::new_u64(place as u64), flags)
            .map_err(|error| failed("epoll", error))
    }

    /// What was open on it counts as errors: nobody knows whether it was done.
    fn lose(&mut self, place: usize, why: &str) -> Result<(), Error> {
        let conversation = &mut self.conversations[place];
        let replies = self.work.mix.replies();
        self.outcome.errors += u64::from(conversation.open.div_ceil(replies).max(1));
        self.outcome.error.get_or_insert_with(|| why.to_owned());
        if conversation.open > 0 {
            self.busy -= 1;
        }
        (conversation.is_over, conversation.open) = (true, 0);
        epoll::delete(&self.epoll, &conversation.stream).map_err(|error| failed("epoll", error))?;
        if self.conversations.iter().all(|conversation| conversation.is_over) {
            return Err(Error::Server(format!("every connection was lost, the last one because {why}")));
        }
        Ok(())
    }

    fn look_who_leads(&mut self, now: Instant) {
        if !self.doubts_routes || now - self.looked < LOOK {
            return;
        }
        (self.doubts_routes, self.looked) = (false, now);
        // What is sent once would be sent again: there, whoever has to know sees that operations are missing.
        if let (Some(routes), Keys::Random(_)) = (Routes::learn(&self.nodes), &self.work.keys) {
            self.shares = Share::deal(&self.work.keys, self.work.mix.prefix(), &self.nodes, Some(&routes));
        }
    }
}

/// What counts, and what does not.
#[derive(Clone, Copy, Debug)]
enum Window {
    Warm { until: Instant, measured: Duration },
    Open { since: Instant, until: Option<Instant>, used: Used },
    Closed,
}

/// Processor time until some moment.
#[derive(Clone, Copy, Debug)]
struct Used {
    servers: Duration,
    own: Duration,
    everyone: Duration,
}

impl Used {
    fn until_now(servers: &[u32]) -> Self {
        Self {
            servers: system::processor_time(servers),
            own: system::processor_time(&[std::process::id()]),
            everyone: system::everyones_time(),
        }
    }
}

impl Window {
    fn counts(&self) -> bool {
        matches!(self, Window::Open { .. })
    }
}

enum Judged<'a> {
    Fine,
    Missing,
    Wrong(&'a [u8]),
}

/// `place`: which of the replies to one operation it is, from 1.
fn judge(mix: Mix, place: u32, seen: Seen<'_>) -> Judged<'_> {
    match (mix, place, seen) {
        (_, _, Seen::Error(text)) => Judged::Wrong(text),
        (Mix::SetWait { copies }, 2, Seen::Number(have)) if have >= i64::from(copies) => Judged::Fine,
        (Mix::SetWait { .. }, 2, _) => Judged::Wrong(b"WAIT: fewer replicas have it than asked for"),
        (Mix::SetWaitAof { copies }, 2, Seen::Array([own, have])) if own >= 1 && have >= i64::from(copies) => {
            Judged::Fine
        }
        (Mix::SetWaitAof { .. }, 2, _) => Judged::Wrong(b"WAITAOF: fewer disks have it than asked for"),
        (_, _, Seen::Nil) => Judged::Missing,
        (_, _, Seen::Fine | Seen::Number(_) | Seen::Array(_)) => Judged::Fine,
    }
}

fn failed(what: &str, error: rustix::io::Errno) -> Error {
    Error::System { what: what.to_owned(), error: error.into() }
}
