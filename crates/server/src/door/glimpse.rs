//! Reads that need not wait for anything: most of them. They are evaluated as they are heard, and answered together, without a place in
//! any list of what is under way.
//!
//! R5: evaluated first; then the leases are checked, by a clock reading taken after the last of them; then the answers leave. One that is
//! late by then is asked like any other request.

use std::rc::Rc;

use blueprint::Instant;
use values::{Command, Kind, Reply};

use super::Connection;
use super::order::Spot;
use super::requests::What;
use crate::lane::Driver;

/// What a read found, and until when that is good.
pub(super) struct Glimpse {
    connection: Rc<Connection>,
    command: Command,
    reply: Reply,
    good_until: Instant,
}

/// The command comes back if it must go the ordinary way: it is no read, nobody leads its slot here, or something that was asked before it
/// has not been answered.
pub(super) fn glimpse(
    driver: &Driver,
    connection: &Rc<Connection>,
    command: Result<Command, Reply>,
) -> Result<Glimpse, Result<Command, Reply>> {
    let Ok(read) = &command else { return Err(command) };
    let (Kind::Read, Ok(slot)) = (read.kind(), read.slot()) else { return Err(command) };
    let keyspace = connection.keyspace.get();
    let follows = !connection.order.borrow().is_clear(Spot { keyspace, slot });
    if follows || connection.transaction.borrow().is_some() {
        return Err(command);
    }
    let keyspace = driver.hall.keyspace_of(keyspace);
    match (driver.lane.borrow_mut().glimpse(driver.now(), keyspace, read), command) {
        (Some((reply, good_until)), Ok(command)) => {
            Ok(Glimpse { connection: Rc::clone(connection), command, reply, good_until })
        }
        (_, command) => Err(command),
    }
}

/// Whatever was seen is answered before anything else is heard.
pub(super) fn answer(driver: &Rc<Driver>, seen: &mut Vec<Glimpse>) {
    if seen.is_empty() {
        return;
    }
    let now = driver.look_at_clock();
    driver.hall.count_commands(seen.len() as u64);
    for Glimpse { connection, command, reply, good_until } in seen.drain(..) {
        connection.last.set((command.name(), now));
        if now < good_until {
            connection.say(reply);
            driver.hall.touch(&connection);
        } else {
            driver.hall.ask(driver, &connection, What::One(command));
        }
    }
}
