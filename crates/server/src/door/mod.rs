//! The front door: clients of Redis come in here, on the cluster port or on the one for any client.
//!
//! A connection belongs to one lane. Its requests go to the machine as they are read, and answers leave in the order of the
//! requests, whenever they come: a connection keeps one place in its queue for each.

mod clients;
mod cluster;
mod connection;
mod info;
mod requests;
mod server;
mod talk;
mod wide;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use node::{Answer, Door, Input, RequestId};
use resp::{Limits, Requests as Parser};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::sleep;
use values::{Command, Reply};

pub(crate) use connection::Connection;
pub(crate) use info::{House, resident_bytes};
use requests::{Asker, Request, Requests};

use crate::clock;
use crate::lane::Driver;

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

/// The clients of one lane.
pub(crate) struct Hall {
    pub(crate) house: Arc<House>,
    connections: RefCell<BTreeMap<u64, Rc<Connection>>>,
    requests: RefCell<Requests>,
    /// Those with something to be written.
    touched: RefCell<Vec<Rc<Connection>>>,
    /// The disk is full: nothing new is written.
    refusing: Cell<bool>,
    sweeping: Cell<bool>,
}

impl Hall {
    pub(crate) fn new(house: Arc<House>) -> Self {
        Self {
            house,
            connections: RefCell::default(),
            requests: RefCell::default(),
            touched: RefCell::default(),
            refusing: Cell::new(false),
            sweeping: Cell::new(false),
        }
    }

    fn enter(&self, stream: TcpStream, door: Door) -> (Rc<Connection>, OwnedReadHalf) {
        let id = self.house.next_client.fetch_add(1, Ordering::Relaxed);
        let (connection, reader) = Connection::new(id, stream, door);
        let connection = Rc::new(connection);
        self.connections.borrow_mut().insert(id, Rc::clone(&connection));
        self.house.clients.fetch_add(1, Ordering::Relaxed);
        (connection, reader)
    }

    fn leave(&self, connection: &Connection) {
        connection.close();
        self.connections.borrow_mut().remove(&connection.id);
        self.house.clients.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn close_all(&self) {
        self.connections.borrow().values().for_each(|connection| connection.close_when_answered());
    }

    pub(crate) fn refuse_writes(&self, refuse: bool) {
        self.refusing.set(refuse);
    }

    fn touch(&self, connection: &Rc<Connection>) {
        if connection.touch() {
            self.touched.borrow_mut().push(Rc::clone(connection));
        }
    }

    /// Whatever was answered leaves now.
    pub(crate) fn write_out(&self) {
        let mut touched = self.touched.borrow_mut();
        for connection in touched.drain(..) {
            connection.write_out();
        }
    }

    /// What became of a request.
    pub(crate) fn answer(&self, driver: &Driver, id: RequestId, answer: Answer) {
        let Some(request) = self.requests.borrow_mut().take(id) else { return };
        if answer == Answer::TryAgain && clock::now() < request.until {
            return self.ask_later(driver, request);
        }
        let reply = talk::reply(driver, &request.command, answer);
        self.reply(request, reply);
    }

    fn reply(&self, request: Request, reply: Reply) {
        match request.asker {
            Asker::Client { connection, place } => {
                connection.fill(place, reply);
                self.touch(&connection);
            }
            Asker::Task(answer) => drop(answer.send(reply)),
        }
    }

    /// Nobody leads that slot right now. Somebody will soon, and a client should not have to know.
    fn ask_later(&self, driver: &Driver, request: Request) {
        let Some(driver) = driver.this() else { return };
        spawn_local(async move {
            sleep(PAUSE).await;
            driver.hall.put(&driver, request);
        });
    }

    fn put(&self, driver: &Driver, request: Request) {
        let (command, door) = (request.command.clone(), request.door);
        let id = self.requests.borrow_mut().put(request);
        if !self.sweeping.replace(true)
            && let Some(driver) = driver.this()
        {
            spawn_local(Hall::sweep(driver));
        }
        driver.step(Input::Client { request: id, command, door });
    }

    /// Gives up what has waited for too long, for as long as anything waits.
    async fn sweep(driver: Rc<Driver>) {
        let hall = &driver.hall;
        while !hall.requests.borrow().is_empty() {
            sleep(SWEEP).await;
            // `until` was that long after it was asked.
            let limit = clock::now() - (LONGEST_WAIT - PATIENCE);
            let overdue = hall.requests.borrow_mut().take_older_than(limit);
            for request in overdue {
                let reply = talk::unanswered(&request.command);
                hall.reply(request, reply);
            }
            driver.wake();
        }
        hall.sweeping.set(false);
    }

    /// Asks the cluster on behalf of a client; the answer takes its place in the client's queue.
    fn ask(&self, driver: &Driver, connection: &Rc<Connection>, command: Command) {
        let place = connection.wait();
        let asker = Asker::Client { connection: Rc::clone(connection), place };
        self.put(driver, Request { asker, command, door: connection.door, until: clock::now() + PATIENCE });
    }

    /// Asks the cluster, wherever the slot is led.
    pub(crate) async fn ask_for(&self, driver: &Driver, command: Command) -> Reply {
        let (answer, answered) = oneshot::channel();
        let until = clock::now() + PATIENCE;
        self.put(driver, Request { asker: Asker::Task(answer), command, door: Door::Any, until });
        answered.await.unwrap_or_else(|_| Reply::error("TRYAGAIN the node is stopping"))
    }
}

/// One client, from its first byte to its last.
pub(crate) async fn serve(driver: Rc<Driver>, stream: TcpStream, door: Door) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let (connection, mut reader) = driver.hall.enter(stream, door);
    let mut parser = Parser::new(Limits::KNOWN);
    let mut buffer = BytesMut::new();
    while !connection.is_over() {
        if buffer.capacity() - buffer.len() < SMALLEST_READ {
            buffer.reserve(READ_AT_ONCE);
        }
        tokio::select! {
            read = reader.read_buf(&mut buffer), if connection.may_read() => match read {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            },
            writable = connection.writable(), if connection.has_output() => {
                if writable.is_err() {
                    break;
                }
                connection.write_out();
                continue;
            }
            () = connection.nudged() => continue,
        }
        loop {
            match parser.next(&mut buffer) {
                Ok(Some(words)) if !words.is_empty() => talk::hear(&driver, &connection, words),
                Ok(Some(_)) => {} // an empty line
                Ok(None) => break,
                Err(error) => {
                    connection.say(error.reply());
                    driver.hall.touch(&connection);
                    connection.close_when_answered();
                    break;
                }
            }
            if connection.is_closing() {
                break;
            }
        }
        driver.wake();
    }
    driver.hall.leave(&connection);
}
