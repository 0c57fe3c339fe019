//! The front door: clients of Redis come in here, on the cluster port or on the one for any client.
//!
//! A connection belongs to one lane. Its requests go to the machine as they are read, except those that would overtake others
//! (`order`), and answers leave in the order of the requests, whenever they come: a connection keeps one place in its queue for each.

mod clients;
mod cluster;
mod connection;
mod glimpse;
mod hearing;
mod info;
mod keyspace;
mod migrations;
mod order;
mod requests;
mod server;
mod talk;
#[cfg(test)]
mod tests;
mod transaction;
mod wide;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use blueprint::{Blueprint, KeyspaceId};
use bytes::BytesMut;
use node::{Answer, Door, Input, RequestId};
use resp::{Limits, ProtocolError, Requests as Parser, Words};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{Notify, oneshot};
use tokio::task::{spawn_local, yield_now};
use tokio::time::sleep;
use values::{Command, Reply};

pub(crate) use connection::Connection;
use hearing::Hearing;
pub(crate) use hearing::hear_all;
pub(crate) use info::{House, resident_bytes};
use keyspace::Chosen;
use order::{Concern, Spot, Step, Way};
use requests::{Asked, Asker, Request, Requests, What, concern_of};

use crate::lane::Driver;
use crate::{clock, link};

/// How long the door goes on asking when nobody leads a slot: longer than it takes to replace a primary.
const PATIENCE: Duration = Duration::from_secs(3);
/// And how often.
const PAUSE: Duration = Duration::from_millis(10);
/// A request that was not answered by then is given up: a primary that is cut off waits for its secondaries, and nobody knows for how
/// long. Longer than the largest value takes on a slow disk.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const SWEEP: Duration = Duration::from_secs(1);
/// Bytes read from one client before others have their turn.
const READ_AT_ONCE: usize = 16 << 10;
const SMALLEST_READ: usize = 2 << 10;
/// Requests of one client that share a piece of memory, which is kept for as long as one of them.
const MOST_TOGETHER: usize = 32;
/// Nobody is read from while the requests of all clients of a lane take more than this.
const MOST_BYTES: usize = 256 << 20;
/// Clients that are answered before anything is written to peers: each takes some five microseconds.
const FEW_ANSWERS: usize = 8;
/// As Redis does: a client that is gone without a word is missed after this long.
const KEEPALIVE: Duration = Duration::from_secs(300);

/// The clients of one lane.
pub(crate) struct Hall {
    pub(crate) house: Arc<House>,
    connections: RefCell<BTreeMap<u64, Rc<Connection>>>,
    requests: RefCell<Requests>,
    hearing: Hearing,
    /// Those with something to be written.
    touched: RefCell<Vec<Rc<Connection>>>,
    /// Commands that the house has not been told of.
    commands: Cell<u64>,
    /// What the requests take that are not answered yet.
    bytes: Cell<usize>,
    /// They take less again.
    room: Notify,
    /// The disk is full: nothing new is written.
    refusing: Cell<bool>,
    /// Which keyspace is called `default`; 0, which is nobody's, if none is.
    default: Cell<KeyspaceId>,
    sweeping: Cell<bool>,
}

impl Hall {
    pub(crate) fn new(house: Arc<House>) -> Self {
        Self {
            house,
            connections: RefCell::default(),
            requests: RefCell::default(),
            hearing: Hearing::default(),
            touched: RefCell::default(),
            commands: Cell::new(0),
            bytes: Cell::new(0),
            room: Notify::new(),
            refusing: Cell::new(false),
            default: Cell::default(),
            sweeping: Cell::new(false),
        }
    }

    fn enter(&self, stream: TcpStream, door: Door) -> (Rc<Connection>, OwnedReadHalf) {
        let id = self.house.next_client.fetch_add(1, Ordering::Relaxed);
        let (connection, reader) = Connection::new(id, stream, door);
        let connection = Rc::new(connection);
        self.connections.borrow_mut().insert(id, Rc::clone(&connection));
        (connection, reader)
    }

    fn leave(&self, connection: &Connection) {
        connection.close();
        self.connections.borrow_mut().remove(&connection.id);
    }

    /// Somebody who was let in is gone.
    pub(crate) fn let_out(&self) {
        self.house.clients.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_anyone_waiting(&self, door: Door) -> bool {
        let is_waiting = |connection: &Rc<Connection>| connection.door == door && !connection.is_idle();
        !self.hearing.is_empty() || self.connections.borrow().values().any(is_waiting)
    }

    pub(crate) fn close_all(&self) {
        self.connections.borrow().values().for_each(|connection| connection.close_when_answered());
    }

    pub(crate) fn refuse_writes(&self, refuse: bool) {
        self.refusing.set(refuse);
    }

    /// A new blueprint is acted on.
    pub(crate) fn follow_blueprint(&self, blueprint: &Blueprint) {
        self.default.set(keyspace::default_of(blueprint).unwrap_or_default());
    }

    fn count_commands(&self, count: u64) {
        self.commands.set(self.commands.get() + count);
    }

    fn touch(&self, connection: &Rc<Connection>) {
        if connection.touch() {
            self.touched.borrow_mut().push(Rc::clone(connection));
        }
    }

    /// It takes longer to answer all of them than to write to peers.
    pub(crate) fn has_many_to_answer(&self) -> bool {
        self.touched.borrow().len() > FEW_ANSWERS
    }

    /// Whatever was answered leaves now.
    pub(crate) fn write_out(&self) {
        self.house.count_commands(self.commands.take());
        let mut touched = self.touched.borrow_mut();
        for connection in touched.drain(..) {
            connection.write_out();
        }
    }

    /// What became of a request.
    pub(crate) fn answer(&self, driver: &Driver, id: RequestId, answer: Answer) {
        let Some(request) = self.requests.borrow_mut().take(id.0) else { return };
        let may_ask_again = answer == Answer::TryAgain && driver.now() < request.until;
        match request.asker {
            Asker::Client { connection, place } if may_ask_again && request.command.is_write() => {
                let Request { keyspace, command, until, .. } = request;
                let asked = Asked { place, keyspace, what: What::One(command), until: Some(until) };
                self.take_back(driver, &connection, asked);
            }
            Asker::Client { .. } | Asker::Task(_) if may_ask_again => self.ask_later(driver, request),
            Asker::Client { connection, place } => {
                let happened = matches!(answer, Answer::Reply(_) | Answer::Uncertain);
                let concern = concern_of(request.keyspace, &request.command);
                self.fill(&connection, place, talk::reply(driver, request.keyspace, &request.command, answer));
                self.go_on(driver, &connection, place, concern, happened);
            }
            Asker::Task(asker) => drop(asker.send(talk::reply(driver, request.keyspace, &request.command, answer))),
        }
    }

    fn fill(&self, connection: &Rc<Connection>, place: u64, reply: Reply) {
        let (before, freed) = (self.bytes.get(), connection.fill(place, reply));
        self.bytes.set(before - freed);
        if before >= MOST_BYTES && before - freed < MOST_BYTES {
            self.room.notify_waiters();
        }
        self.touch(connection);
    }

    /// That one is answered; perhaps others waited for it.
    fn go_on(&self, driver: &Driver, connection: &Rc<Connection>, place: u64, concern: Concern, happened: bool) {
        let waited = connection.order.borrow_mut().answered(place, concern, happened);
        if waited {
            self.follow(driver, connection, concern);
        }
    }

    fn follow(&self, driver: &Driver, connection: &Rc<Connection>, concern: Concern) {
        let mut steps = Vec::new();
        connection.order.borrow_mut().follow(concern, way(driver), &mut steps);
        for step in steps {
            match step {
                Step::Begin(asked) => self.begin(driver, connection, asked),
                Step::Again(spot, asked) => self.ask_all_later(driver, connection, spot, asked),
                Step::GiveUp(Asked { place, keyspace, what: What::One(command), .. }) => {
                    self.fill(connection, place, talk::reply(driver, keyspace, &command, Answer::TryAgain));
                }
                Step::GiveUp(_) => unreachable!("only what concerns one slot comes back"),
            }
        }
    }

    /// Nobody leads the slot of that write right now. Somebody will soon, and a client should not have to know.
    fn take_back(&self, driver: &Driver, connection: &Rc<Connection>, asked: Asked) {
        let concern = asked.concern();
        if let Concern::Write { spot, .. } = concern {
            connection.order.borrow_mut().came_back(asked.place, spot, asked);
            self.follow(driver, connection, concern);
        }
    }

    fn ask_all_later(&self, driver: &Driver, connection: &Rc<Connection>, spot: Spot, all: Vec<Asked>) {
        let (Some(driver), connection) = (driver.this(), Rc::clone(connection)) else { return };
        spawn_local(async move {
            sleep(PAUSE).await;
            driver.look_at_clock();
            let hall = &driver.hall;
            all.into_iter().for_each(|asked| hall.begin(&driver, &connection, asked));
            connection.order.borrow_mut().asked_again(spot, way(&driver));
            hall.follow(&driver, &connection, Concern::Read(spot));
        });
    }

    /// The same for what no other can overtake.
    fn ask_later(&self, driver: &Driver, request: Request) {
        let Some(driver) = driver.this() else { return };
        spawn_local(async move {
            sleep(PAUSE).await;
            driver.look_at_clock();
            driver.hall.put(&driver, request);
        });
    }

    fn keyspace_of(&self, chosen: Chosen) -> KeyspaceId {
        match chosen {
            Chosen::Default => self.default.get(),
            Chosen::One(keyspace) => keyspace,
        }
    }

    fn put(&self, driver: &Driver, request: Request) {
        let (command, door) = (request.command.clone(), request.door);
        let keyspace = self.keyspace_of(request.keyspace);
        let id = RequestId(self.requests.borrow_mut().put(request));
        if !self.sweeping.replace(true)
            && let Some(driver) = driver.this()
        {
            spawn_local(Hall::sweep(driver));
        }
        driver.step_too(Input::Client { request: id, keyspace, command, door });
    }

    /// Gives up what has waited for too long, for as long as anything waits.
    async fn sweep(driver: Rc<Driver>) {
        let hall = &driver.hall;
        while !hall.requests.borrow().is_empty() {
            sleep(SWEEP).await;
            // `until` was that long after it was asked.
            let limit = clock::now() - (LONGEST_WAIT - PATIENCE);
            let overdue = hall.requests.borrow_mut().take_if(|request| request.until < limit);
            for request in overdue {
                hall.give_up(&driver, request);
            }
            driver.wake();
        }
        hall.sweeping.set(false);
    }

    fn give_up(&self, driver: &Driver, request: Request) {
        let reply = talk::unanswered(&request.command);
        match request.asker {
            Asker::Client { connection, place } => {
                self.fill(&connection, place, reply);
                self.go_on(driver, &connection, place, concern_of(request.keyspace, &request.command), true);
            }
            Asker::Task(asker) => drop(asker.send(reply)),
        }
    }

    /// Asks on behalf of a client, as soon as nothing is overtaken by it; the answer takes its place in the client's queue.
    fn ask(&self, driver: &Driver, connection: &Rc<Connection>, what: What) {
        let (place, bytes) = connection.wait(what.bytes());
        self.bytes.set(self.bytes.get() + bytes);
        let asked = Asked { place, keyspace: connection.keyspace.get(), what, until: None };
        let begins = connection.order.borrow_mut().admit(place, asked.concern(), asked, way(driver));
        if let Some(asked) = begins {
            self.begin(driver, connection, asked);
        }
    }

    fn begin(&self, driver: &Driver, connection: &Rc<Connection>, asked: Asked) {
        let Asked { place, keyspace, what, until } = asked;
        match what {
            What::One(command) => {
                let asker = Asker::Client { connection: Rc::clone(connection), place };
                let until = until.unwrap_or_else(|| driver.now() + PATIENCE);
                self.put(driver, Request { asker, keyspace, command, door: connection.door, until });
            }
            What::Spread(spread) => wide::spread(driver, connection, place, keyspace, spread),
            What::Wide(command) => wide::ask(driver, connection, place, keyspace, command),
        }
    }

    /// Asks the cluster, wherever the slot is led.
    async fn ask_for(&self, driver: &Driver, keyspace: Chosen, command: Command) -> Reply {
        let (answer, answered) = oneshot::channel();
        let until = driver.look_at_clock() + PATIENCE;
        self.put(driver, Request { asker: Asker::Task(answer), keyspace, command, door: Door::Any, until });
        answered.await.unwrap_or_else(|_| Reply::error("UNCERTAIN the node is stopping"))
    }
}

/// Who leads, as this lane believes, and over which links it hops.
fn way(driver: &Driver) -> Way {
    Way { epoch: driver.lane.borrow().blueprint().epoch, turns: driver.links.turns() }
}

/// One client that was let in, from its first byte to its last.
pub(crate) async fn serve(driver: Rc<Driver>, stream: TcpStream, door: Door) {
    attend(&driver, stream, door).await;
    driver.hall.let_out();
}

/// All that is there.
fn take_in(
    driver: &Driver,
    connection: &Rc<Connection>,
    parser: &mut Parser,
    buffer: &mut BytesMut,
) -> Result<(), ProtocolError> {
    let mut say = |words: Words<'_>| {
        let command = match words {
            Words::Array { bytes, places } => Command::parse_within(bytes, places),
            Words::Line(words) => Command::parse(words),
        };
        driver.hall.hearing.say(connection, command);
    };
    while parser.next_few(buffer, MOST_TOGETHER, &mut say)? {}
    Ok(())
}

async fn attend(driver: &Rc<Driver>, stream: TcpStream, door: Door) {
    if stream.set_nodelay(true).and_then(|()| link::keep_alive(&stream, KEEPALIVE)).is_err() {
        return;
    }
    let (connection, mut reader) = driver.hall.enter(stream, door);
    let mut parser = Parser::new(Limits::KNOWN);
    let mut buffer = BytesMut::new();
    loop {
        if connection.is_over() {
            break;
        }
        if buffer.capacity() - buffer.len() < SMALLEST_READ {
            buffer.reserve(READ_AT_ONCE);
        }
        let has_room = driver.hall.bytes.get() < MOST_BYTES;
        connection.paused.set(!connection.may_read());
        tokio::select! {
            biased; // most of the time it is this, and then the others are not even looked at
            read = reader.read_buf(&mut buffer), if has_room && !connection.paused.get() => match read {
                // It has said everything, and may still listen.
                Ok(0) => {
                    hear_all(driver);
                    connection.close_when_answered();
                    continue;
                }
                Err(_) => break hear_all(driver), // it is gone, and what it said before counts
                Ok(_) => {}
            },
            () = driver.hall.room.notified(), if !has_room => continue,
            writable = connection.writable(), if connection.has_output() => {
                if writable.is_err() {
                    break hear_all(driver);
                }
                connection.write_out();
                continue;
            }
            () = connection.nudged() => continue,
        }
        let is_full = buffer.len() == buffer.capacity();
        if let Err(error) = take_in(driver, &connection, &mut parser, &mut buffer) {
            hear_all(driver); // whatever came before
            if !connection.is_closing() {
                talk::say(driver, &connection, error.reply());
                connection.close_when_answered();
            }
        }
        driver.wake();
        if driver.hall.hearing.has_said_enough() {
            driver.hear_and_settle();
        }
        if is_full {
            yield_now().await; // there may be much more of it, and others have their turn
        }
    }
    driver.hall.leave(&connection);
}
