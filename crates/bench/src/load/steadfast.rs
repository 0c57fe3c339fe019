//! Clients that do not give up: each writes one key after the other to a cluster that loses nodes and moves slots, tries again until it is
//! answered `OK`, and remembers when it began and when it was done. What was acknowledged is asked for again in the end.
//!
//! A client has one write open at a time and a connection to every node that it was ever sent to. How long one write took, from the first
//! attempt to the acknowledgement, redirects and all, is what somebody who uses the cluster would have seen.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use values::slot_of;

use super::keys::{Dice, key_name};
use super::request::{Batch, Mix};
use super::route::{Routes, moved};
use super::scan::{Scanner, Seen};
use crate::error::Error;

/// After something other than a redirect. Little beside the gaps that are measured.
const PAUSE: Duration = Duration::from_millis(5);
/// Between two looks at who leads what, while somebody has doubts.
const LOOK: Duration = Duration::from_millis(20);
/// How long one attempt may take before it is given up. Longer than a server takes that holds on to writes during a change.
const PATIENCE: Duration = Duration::from_secs(12);
/// For what is open in the end.
const LAST_ANSWERS: Duration = Duration::from_secs(40);
/// For letting somebody in who listens.
const ADMISSION: Duration = Duration::from_millis(200);

/// What the clients are told.
const GO_ON: u8 = 0;
const FINISH: u8 = 1;
/// Nobody wants to know any more.
const LEAVE: u8 = 2;

/// Which keys are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// Every write has a key of its own: what is missing in the end was lost, whatever came twice.
    Fresh,
    /// Any of the first so many.
    Among(u32),
}

/// One write that was acknowledged, in µs since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) key: u32,
    pub(crate) began: u64,
    pub(crate) done: u64,
}

/// All that was acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Chronicle {
    pub(crate) acks: Vec<Ack>,
    /// What was answered instead of `OK`, by its first word, and how often.
    pub(crate) troubles: HashMap<String, u64>,
}

impl Chronicle {
    /// Acknowledged in this time, per second.
    pub(crate) fn rate(&self, from: u64, to: u64) -> f64 {
        let count = self.acks.iter().filter(|ack| (from..to).contains(&ack.done)).count();
        count as f64 / (to.saturating_sub(from).max(1) as f64 / 1e6)
    }

    /// The longest that one write waited within this time, whenever it began and was done.
    pub(crate) fn longest_wait(&self, from: u64, to: u64) -> Duration {
        let within = |ack: &Ack| ack.done.min(to).saturating_sub(ack.began.max(from));
        Duration::from_micros(self.acks.iter().map(within).max().unwrap_or(0))
    }

    pub(crate) fn keys(&self) -> Vec<u32> {
        self.acks.iter().map(|ack| ack.key).collect()
    }
}

/// They run until they are told to stop.
#[derive(Debug)]
pub(crate) struct Steadfast {
    began: Instant,
    stop: Arc<AtomicU8>,
    thread: Option<JoinHandle<Result<Chronicle, Error>>>,
}

impl Steadfast {
    pub(crate) fn start(
        nodes: &[SocketAddr],
        clients: usize,
        value_bytes: usize,
        target: Target,
    ) -> Result<Self, Error> {
        let (began, stop) = (Instant::now(), Arc::new(AtomicU8::new(GO_ON)));
        let crowd = Crowd::new(nodes, clients, value_bytes, target, began)?;
        let told = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || crowd.run(&told)));
        Ok(Self { began, stop, thread })
    }

    /// In µs, as in what is acknowledged.
    pub(crate) fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// What is open is waited for.
    pub(crate) fn stop(mut self) -> Result<Chronicle, Error> {
        self.stop.store(FINISH, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Steadfast {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop.store(LEAVE, Ordering::Relaxed);
        }
    }
}

struct Crowd {
    epoll: OwnedFd,
    /// Everyone who can be asked who leads what.
    nodes: Vec<SocketAddr>,
    routes: Routes,
    clients: Vec<Client>,
    batch: Batch,
    target: Target,
    next: u32,
    dice: Dice,
    began: Instant,
    doubts_routes: bool,
    looked: Instant,
    /// Somebody is being asked.
    look: Option<JoinHandle<Option<Routes>>>,
    chronicle: Chronicle,
}

#[derive(Default)]
struct Client {
    /// By the place of the node in `nodes`.
    lines: Vec<Option<Line>>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// Sent to the node with that place.
    Waiting {
        write: Attempted,
        node: usize,
        sent: Instant,
    },
    Pausing {
        write: Attempted,
        until: Instant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attempted {
    key: u32,
    began: u64,
}

struct Line {
    stream: TcpStream,
    scanner: Scanner,
    unsent: Vec<u8>,
}

enum Answer {
    Done,
    Moved(u16, SocketAddr),
    Trouble(String),
}

/// More would not fit beside a client's number in what epoll remembers.
const MOST_NODES: usize = 64;

impl Crowd {
    fn new(
        nodes: &[SocketAddr],
        clients: usize,
        value_bytes: usize,
        target: Target,
        began: Instant,
    ) -> Result<Self, Error> {
        let routes = Routes::learn(nodes);
        let routes = routes.ok_or_else(|| Error::Server(format!("nobody at {nodes:?} says who leads what")))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| Error::System { what: "epoll".into(), error: error.into() })?;
        Ok(Self {
            epoll,
            nodes: nodes.to_vec(),
            routes,
            clients: (0..clients).map(|_| Client::default()).collect(),
            batch: Batch::new(Mix::Set, value_bytes, 1),
            target,
            next: 0,
            dice: Dice::new(u64::from(std::process::id())),
            began,
            doubts_routes: false,
            looked: began,
            look: None,
            chronicle: Chronicle::default(),
        })
    }

    fn run(mut self, stop: &AtomicU8) -> Result<Chronicle, Error> {
        let (mut events, mut chunk) = (Vec::with_capacity(256), vec![0; 4096]);
        // When they were last to go on.
        let mut wanted = Instant::now();
        loop {
            let told = stop.load(Ordering::Relaxed);
            if told == LEAVE {
                return Err(Error::Interrupted);
            }
            let (is_stopped, now) = (told == FINISH, Instant::now());
            if !is_stopped {
                wanted = now;
            } else if now - wanted > LAST_ANSWERS {
                return Err(Error::Server(format!("writes still wait {LAST_ANSWERS:?} after all should be well")));
            }
            self.look_who_leads(now);
            for place in 0..self.clients.len() {
                match self.clients[place].state {
                    State::Idle if is_stopped => {}
                    State::Idle => {
                        let write = Attempted { key: self.draw(), began: self.microseconds(now) };
                        self.attempt(place, write, now);
                    }
                    State::Pausing { write, until } if until <= now => self.attempt(place, write, now),
                    State::Waiting { write, node, sent } if now - sent > PATIENCE => {
                        self.clients[place].lines[node] = None;
                        self.on_answer(place, write, &Answer::Trouble("no answer in time".into()), now);
                    }
                    State::Pausing { .. } | State::Waiting { .. } => {}
                }
            }
            if self.clients.iter().all(|client| client.state == State::Idle) && is_stopped {
                return Ok(self.chronicle);
            }
            let patience = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&patience)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::System { what: "epoll".into(), error: error.into() }),
            }
            for event in events.drain(..) {
                let token = event.data.u64() as usize;
                self.on_event(token / MOST_NODES, token % MOST_NODES, event.flags, &mut chunk);
            }
        }
    }

    fn microseconds(&self, now: Instant) -> u64 {
        (now - self.began).as_micros() as u64
    }

    fn draw(&mut self) -> u32 {
        match self.target {
            Target::Fresh => {
                self.next += 1;
                self.next
            }
            Target::Among(count) => self.dice.below(count as usize) as u32,
        }
    }

    /// Sends it to whoever leads its slot, as far as is known.
    fn attempt(&mut self, place: usize, write: Attempted, now: Instant) {
        let slot = slot_of(key_name(Mix::Set.prefix(), write.key).as_bytes());
        let node = self.routes.node_of(slot).map(|address| self.place_of(address));
        let pausing = State::Pausing { write, until: now + PAUSE };
        let Some(node) = node else {
            self.doubts_routes = true;
            self.clients[place].state = pausing;
            return;
        };
        if let Err(why) = self.send(place, node, write.key) {
            self.clients[place].lines[node] = None;
            self.on_answer(place, write, &Answer::Trouble(why), now);
            return;
        }
        self.clients[place].state = State::Waiting { write, node, sent: now };
    }

    fn send(&mut self, place: usize, node: usize, key: u32) -> Result<(), String> {
        let lines = &mut self.clients[place].lines;
        if lines.len() <= node {
            lines.resize_with(node + 1, || None);
        }
        let token = epoll::EventData::new_u64((place * MOST_NODES + node) as u64);
        if lines[node].is_none() {
            let open = TcpStream::connect_timeout(&self.nodes[node], ADMISSION);
            let stream = open.map_err(|error| error.kind().to_string())?;
            stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(|error| error.to_string())?;
            epoll::add(&self.epoll, &stream, token, epoll::EventFlags::IN).map_err(|error| error.to_string())?;
            lines[node] = Some(Line { stream, scanner: Scanner::default(), unsent: Vec::new() });
        }
        let line = lines[node].as_mut().expect("opened just now, or before");
        let bytes = self.batch.fill(1, || key, 0);
        let sent = match line.stream.write(bytes) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error.kind().to_string()),
        };
        if sent < bytes.len() {
            line.unsent = bytes[sent..].to_vec();
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT;
            epoll::modify(&self.epoll, &line.stream, token, flags).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn on_event(&mut self, place: usize, node: usize, flags: epoll::EventFlags, chunk: &mut [u8]) {
        let Some(line) = self.clients[place].lines.get_mut(node).and_then(Option::as_mut) else { return };
        let mut answer = None;
        if flags.contains(epoll::EventFlags::OUT) {
            match line.stream.write(&line.unsent) {
                Ok(sent) => drop(line.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => answer = Some(Answer::Trouble(error.kind().to_string())),
            }
            if line.unsent.is_empty() {
                let token = epoll::EventData::new_u64((place * MOST_NODES + node) as u64);
                let _as_before = epoll::modify(&self.epoll, &line.stream, token, epoll::EventFlags::IN);
            }
        }
        let mut is_over = answer.is_some();
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            match line.stream.read(chunk) {
                Ok(0) => (is_over, answer) = (true, Some(Answer::Trouble("connection lost".into()))),
                Ok(read) => {
                    let scanned = line.scanner.scan(&chunk[..read], |seen| answer = Some(Answer::read(seen)));
                    is_over |= scanned.is_err();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => (is_over, answer) = (true, Some(Answer::Trouble(error.kind().to_string()))),
            }
        }
        if is_over {
            // With it goes what epoll knows of it.
            self.clients[place].lines[node] = None;
        }
        let State::Waiting { write, node: asked, .. } = self.clients[place].state else { return };
        if let Some(answer) = answer.filter(|_| asked == node) {
            self.on_answer(place, write, &answer, Instant::now());
        }
    }

    fn on_answer(&mut self, place: usize, write: Attempted, answer: &Answer, now: Instant) {
        match answer {
            Answer::Done => {
                self.chronicle.acks.push(Ack { key: write.key, began: write.began, done: self.microseconds(now) });
                self.clients[place].state = State::Idle;
                // The next one goes out with the others that are idle, after all events of this turn.
            }
            Answer::Moved(slot, to) => {
                self.trouble("MOVED");
                self.routes.put(*slot, *to);
                self.doubts_routes = true;
                // Two nodes may send us back and forth for a while: that is no reason to do nothing else.
                self.clients[place].state = State::Pausing { write, until: now };
            }
            Answer::Trouble(why) => {
                self.trouble(why);
                self.doubts_routes = true;
                self.clients[place].state = State::Pausing { write, until: now + PAUSE };
            }
        }
    }

    fn trouble(&mut self, why: &str) {
        match self.chronicle.troubles.get_mut(why) {
            Some(count) => *count += 1,
            None => _ = self.chronicle.troubles.insert(why.to_owned(), 1),
        }
    }

    fn place_of(&mut self, address: SocketAddr) -> usize {
        self.nodes.iter().position(|node| *node == address).unwrap_or_else(|| {
            assert!(self.nodes.len() < MOST_NODES, "no cluster here has so many");
            self.nodes.push(address);
            self.nodes.len() - 1
        })
    }

    /// Nodes may be asked that are dying, and those that answer may know less than whoever said `MOVED`: so it is asked for until nobody has
    /// doubts any more. By a thread of its own, as clients do it: no write waits for the answer.
    fn look_who_leads(&mut self, now: Instant) {
        if let Some(look) = self.look.take_if(|look| look.is_finished())
            && let Ok(Some(routes)) = look.join()
        {
            self.routes = routes;
        }
        if self.look.is_some() || !self.doubts_routes || now - self.looked < LOOK {
            return;
        }
        (self.doubts_routes, self.looked) = (false, now);
        // Another one first each time: the one that is dead must not be asked for ever.
        let first = self.dice.below(self.nodes.len());
        let order: Vec<SocketAddr> = self.nodes[first..].iter().chain(&self.nodes[..first]).copied().collect();
        self.look = Some(std::thread::spawn(move || Routes::learn(&order)));
    }
}

impl Answer {
    fn read(seen: Seen<'_>) -> Self {
        match seen {
            Seen::Fine => Answer::Done,
            Seen::Error(text) => match moved(text) {
                Some((slot, to)) => Answer::Moved(slot, to),
                None => Answer::Trouble(first_word(text)),
            },
            other => Answer::Trouble(format!("{other:?}")),
        }
    }
}

fn first_word(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chronicle(acks: &[(u64, u64)]) -> Chronicle {
        let acks = acks.iter().map(|&(began, done)| Ack { key: 0, began, done }).collect();
        Chronicle { acks, troubles: HashMap::new() }
    }

    #[test]
    fn a_write_waits_from_the_blow_on() {
        let chronicle = chronicle(&[(0, 10), (5, 2_000_005), (2_000_000, 2_000_100)]);
        assert_eq!(chronicle.longest_wait(1_000_000, u64::MAX), Duration::from_micros(1_000_005));
        assert_eq!(chronicle.longest_wait(0, 1_000), Duration::from_micros(995), "as far as it lies within");
        assert_eq!(chronicle.longest_wait(3_000_000, u64::MAX), Duration::ZERO);
    }

    #[test]
    fn a_rate_is_of_what_was_done() {
        let chronicle = chronicle(&[(0, 10), (0, 400_000), (0, 500_000)]);
        assert!((chronicle.rate(0, 500_000) - 4.0).abs() < 1e-9);
    }
}
