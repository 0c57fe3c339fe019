//! The workload: clients that set, read, count and append, follow redirects, and repeat only what is safe to repeat (R12).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use blueprint::Conduct;
use bytes::Bytes;
use history::{Call, History, Operation, Outcome, Seen};
use node::{Answer, Door, RequestId};
use values::{Command, Connection, Reply};

use crate::plan::{MILLI, Plan, SECOND};
use crate::rng::Rng;
use crate::world::{Event, World};

/// How long a client waits for one answer.
const PATIENCE: u64 = 1500 * MILLI;
/// How long it goes on trying the same operation.
const PERSISTENCE: u64 = 6 * SECOND;
/// After so long every client moves on to fresh keys: histories stay short, lists too.
const GENERATION: u64 = 3 * SECOND;
/// More than there are in a world.
const GENERATIONS: u32 = 256;
/// What is written once more when everything has come to rest.
const LAST_WRITES: u32 = 12;

#[derive(Debug)]
pub struct Clients {
    rng: Rng,
    clients: Vec<Client>,
    asked: BTreeMap<RequestId, usize>,
    pub history: History,
    /// Two clients share a connection and its numbers: they arrive out of order.
    numbers: Vec<u64>,
    next_request: u64,
    next_value: u64,
    used: BTreeSet<u32>,
    /// Counts blackouts: what was written before one is not asked for after it.
    era: u32,
    last: Vec<u32>,
    last_writes: u32,
    winding_down: bool,
    finishing: bool,
}

#[derive(Debug, Default)]
struct Client {
    doing: Option<Doing>,
    home: usize,
}

#[derive(Debug)]
struct Doing {
    key: u32,
    call: Call,
    command: Command,
    invoked: u64,
    request: RequestId,
    tries: u32,
    /// An earlier attempt may have happened.
    doubtful: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Register,
    Fleeting,
    Counter,
    List,
}

impl Kind {
    fn of(key: u32) -> Self {
        match key % 4 {
            0 => Self::Register,
            1 => Self::Fleeting,
            2 => Self::Counter,
            _ => Self::List,
        }
    }
}

impl Clients {
    pub fn new(plan: &Plan, rng: Rng) -> Self {
        let clients = (0..plan.clients).map(|_| Client::default()).collect();
        Self {
            rng,
            clients,
            asked: BTreeMap::new(),
            history: History::default(),
            numbers: vec![0; plan.clients.div_ceil(2)],
            next_request: 0,
            next_value: 0,
            used: BTreeSet::new(),
            era: 0,
            last: Vec::new(),
            last_writes: 0,
            winding_down: false,
            finishing: false,
        }
    }

    /// No new operations; what is under way may end.
    pub fn wind_down(&mut self) {
        self.winding_down = true;
    }

    /// Everything has come to rest: read every key once more, and write a little.
    pub fn finish(&mut self) {
        if !self.finishing {
            self.finishing = true;
            self.last = self.used.iter().copied().collect();
            self.last_writes = LAST_WRITES;
        }
    }

    pub fn are_idle(&self) -> bool {
        self.clients.iter().all(|c| c.doing.is_none())
    }

    pub fn are_done(&self) -> bool {
        self.finishing && self.last.is_empty() && self.last_writes == 0 && self.are_idle()
    }

    pub fn unfinished(&self) -> usize {
        self.last.len() + self.last_writes as usize + self.clients.iter().filter(|c| c.doing.is_some()).count()
    }

    fn key_bytes(key: u32) -> Bytes {
        Bytes::from(format!("k{key}"))
    }

    /// What this client does next, if anything.
    fn draw(&mut self, plan: &Plan, client: usize, time: u64) -> Option<(u32, Call, Command)> {
        if self.finishing {
            if let Some(key) = self.last.pop() {
                return Some(self.read(key));
            }
            if self.last_writes > 0 {
                self.last_writes -= 1;
                let key = u32::MAX / 8 * 4 + self.last_writes * 4;
                return Some(self.write(plan, client, key));
            }
        }
        if self.winding_down {
            return None;
        }
        let generation = (time / GENERATION) as u32 + self.era * GENERATIONS;
        let place = self.rng.range(0, plan.keys - 1) as u32;
        let kind = if plan.watchful && self.rng.percent(80) { 1 } else { self.rng.range(0, 3) as u32 };
        let key = (generation * 64 + place) * 4 + kind;
        self.used.insert(key);
        Some(if self.rng.percent(plan.read_percent) { self.read(key) } else { self.write(plan, client, key) })
    }

    fn read(&mut self, key: u32) -> (u32, Call, Command) {
        let name = Self::key_bytes(key);
        match Kind::of(key) {
            Kind::Register | Kind::Fleeting => (key, Call::Read, Command::get(name)),
            Kind::Counter => (key, Call::Count, Command::get(name)),
            Kind::List => (key, Call::Range, Command::lrange(name, 0, -1)),
        }
    }

    fn write(&mut self, _plan: &Plan, client: usize, key: u32) -> (u32, Call, Command) {
        let name = Self::key_bytes(key);
        self.next_value += 1;
        let value = self.next_value;
        let bytes = Bytes::from(value.to_string());
        let (call, command) = match Kind::of(key) {
            Kind::Register if self.rng.percent(10) => (Call::Delete, Command::del(name)),
            Kind::Register => (Call::Write { value, ttl: None }, Command::set(name, bytes, None)),
            Kind::Fleeting => {
                let ttl = self.rng.percent(70).then(|| self.rng.range(200, 2500) * MILLI);
                (Call::Write { value, ttl }, Command::set(name, bytes, ttl.map(Duration::from_micros)))
            }
            Kind::Counter => (Call::Incr, Command::incr_by(name, 1)),
            Kind::List => (Call::Push { item: value }, Command::rpush(name, bytes)),
        };
        if self.rng.percent(50) {
            let shared = client / 2;
            self.numbers[shared] += 1;
            let connection = Connection { id: shared as u64 + 1, expires: u64::MAX / 2 };
            return (key, call, command.in_series(connection, self.numbers[shared]));
        }
        (key, call, command)
    }

    fn record(&mut self, client: usize, outcome: Outcome) -> Option<Operation> {
        let doing = self.clients[client].doing.take()?;
        self.asked.remove(&doing.request);
        let operation =
            Operation { client: client as u32, key: doing.key, call: doing.call, invoked: doing.invoked, outcome };
        let reads = matches!(operation.call, Call::Read | Call::Count | Call::Range);
        // A read that was never answered says nothing.
        if !reads || matches!(operation.outcome, Outcome::Answered { .. }) {
            self.history.operations.push(operation.clone());
        }
        Some(operation)
    }
}

fn seen(call: &Call, reply: &Reply) -> Option<Seen> {
    let number = |bytes: &Bytes| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
    let item = |reply: &Reply| if let Reply::Value(bytes) = reply { number(bytes) } else { None };
    Some(match (call, reply) {
        (_, Reply::Ok) => Seen::Done,
        (_, Reply::Nil) => Seen::Nil,
        (Call::Count, Reply::Value(bytes)) => Seen::Number(number(bytes)? as i64),
        (_, Reply::Value(bytes)) => Seen::Value(number(bytes)?),
        (_, Reply::Number(n)) => Seen::Number(*n),
        (_, Reply::Array(items)) => Seen::Items(items.iter().map(item).collect::<Option<_>>()?),
        // An error, or nothing that any of these calls should see.
        _ => return None,
    })
}

impl<C: Conduct> World<C> {
    /// Whatever is under way may have happened or not, and nobody asks for those keys again.
    pub(crate) fn begin_era(&mut self) {
        self.clients.era += 1;
        self.clients.used.clear();
        for client in 0..self.clients.clients.len() {
            if self.clients.clients[client].doing.is_some() {
                self.conclude(client, Outcome::Uncertain { at: self.time });
            }
        }
    }

    pub(crate) fn on_client_turn(&mut self, client: usize) {
        if self.clients.clients[client].doing.is_none() {
            match self.clients.draw(&self.plan, client, self.time) {
                Some((key, call, command)) => {
                    let invoked = self.time;
                    let request = RequestId(0);
                    let doing = Doing { key, call, command, invoked, request, tries: 0, doubtful: false };
                    self.clients.clients[client].doing = Some(doing);
                    self.ask(client);
                }
                None => {
                    if !self.clients.are_done() {
                        self.after(20 * MILLI, Event::ClientTurn { client });
                    }
                }
            }
        }
    }

    /// Sends the operation (again), to the node that served last or to any.
    fn ask(&mut self, client: usize) {
        let hosts = self.hosts.len() as u64;
        let clients = &mut self.clients;
        clients.next_request += 1;
        let request = RequestId(clients.next_request);
        let wander = clients.rng.percent(20);
        let home = if wander { clients.rng.range(0, hosts - 1) as usize } else { clients.clients[client].home };
        let door = if clients.rng.percent(50) { Door::Cluster } else { Door::Any };
        let Some(doing) = &mut clients.clients[client].doing else { return };
        clients.asked.remove(&doing.request);
        doing.request = request;
        doing.tries += 1;
        let command = doing.command.clone();
        clients.asked.insert(request, client);
        let delay = self.plan.latency / 2 + self.rng.range(0, self.plan.latency);
        let life = self.hosts[home].life;
        if self.hosts[home].is_up() {
            self.after(delay, Event::ClientCall { host: home, life, request, command, door });
            self.after(PATIENCE, Event::ClientPatience { client, request });
        } else {
            // Nobody listens there: certainly not done.
            self.clients.clients[client].home = self.rng.range(0, hosts - 1) as usize;
            self.after(delay, Event::ClientAnswer { request, answer: Answer::TryAgain });
        }
    }

    pub(crate) fn on_client_answer(&mut self, request: RequestId, answer: Answer) {
        let Some(client) = self.clients.asked.remove(&request) else { return };
        let Some(doing) = &self.clients.clients[client].doing else { return };
        let at = self.time;
        match answer {
            Answer::Reply(reply) => {
                let outcome = match seen(&doing.call, &reply) {
                    Some(seen) => Outcome::Answered { at, seen },
                    None => Outcome::Uncertain { at },
                };
                self.conclude(client, outcome);
            }
            Answer::Moved(node) => {
                if let Some(host) = self.index.get(&node) {
                    self.clients.clients[client].home = *host;
                }
                self.try_again(client, 0);
            }
            Answer::NoReplicas | Answer::TryAgain | Answer::NoKeyspace => {
                let hosts = self.hosts.len() as u64;
                self.clients.clients[client].home = self.rng.range(0, hosts - 1) as usize;
                self.try_again(client, 40 * MILLI);
            }
            Answer::Uncertain => self.doubt(client),
        }
    }

    pub(crate) fn on_client_patience(&mut self, client: usize, request: RequestId) {
        if self.clients.asked.remove(&request).is_some() {
            self.doubt(client);
        }
    }

    /// It may have happened: only a numbered write, or a read, is sent again.
    fn doubt(&mut self, client: usize) {
        let at = self.time;
        let Some(doing) = &mut self.clients.clients[client].doing else { return };
        let repeatable = doing.command.series().is_some() || !doing.command.is_write();
        doing.doubtful |= doing.command.is_write();
        if repeatable {
            let hosts = self.hosts.len() as u64;
            self.clients.clients[client].home = self.rng.range(0, hosts - 1) as usize;
            self.try_again(client, 10 * MILLI);
        } else {
            self.conclude(client, Outcome::Uncertain { at });
        }
    }

    fn try_again(&mut self, client: usize, delay: u64) {
        let at = self.time;
        let last = self.clients.finishing;
        let Some(doing) = &self.clients.clients[client].doing else { return };
        if at - doing.invoked > PERSISTENCE && !last {
            let outcome = if doing.doubtful { Outcome::Uncertain { at } } else { Outcome::Refused };
            return self.conclude(client, outcome);
        }
        let pause = if doing.tries > 6 { delay + 20 * MILLI } else { delay };
        if pause == 0 {
            return self.ask(client);
        }
        // A turn with something still to do asks again.
        self.clients.next_request += 1;
        let request = RequestId(self.clients.next_request);
        if let Some(doing) = &mut self.clients.clients[client].doing {
            doing.request = request;
        }
        self.after(pause, Event::ClientRetry { client, request });
    }

    pub(crate) fn on_client_retry(&mut self, client: usize, request: RequestId) {
        if self.clients.clients[client].doing.as_ref().is_some_and(|d| d.request == request) {
            self.ask(client);
        }
    }

    fn conclude(&mut self, client: usize, outcome: Outcome) {
        if let Some(operation) = self.clients.record(client, outcome) {
            let reads = matches!(operation.call, Call::Read | Call::Count | Call::Range);
            match operation.outcome {
                Outcome::Answered { .. } if reads => self.tally.reads += 1,
                Outcome::Answered { .. } => self.tally.acked_writes += 1,
                Outcome::Uncertain { .. } => self.tally.uncertain += 1,
                Outcome::Refused => self.tally.refused += 1,
            }
        }
        let pause = if self.healed { MILLI } else { self.clients.rng.around(self.plan.think) };
        self.after(pause, Event::ClientTurn { client });
    }
}
