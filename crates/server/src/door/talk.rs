//! What becomes of a client's words: answered here, or asked of the cluster.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use blueprint::{KeyspaceId, NodeId};
use bytes::Bytes;
use node::{Answer, Door};
use values::{Command, Kind, NoSlot, Reply};

use super::keyspace::{self, Chosen};
use super::requests::What;
use super::{Connection, cluster, server, transaction, wide};
use crate::addresses::Addresses;
use crate::lane::Driver;

pub(super) fn hear(driver: &Rc<Driver>, connection: &Rc<Connection>, command: Result<Command, Reply>) {
    let hall = &driver.hall;
    hall.count_commands(1);
    let command = match command {
        Ok(command) => command,
        Err(error) => {
            transaction::spoil(connection);
            return say(driver, connection, error);
        }
    };
    connection.last.set((command.name(), driver.now()));
    let Some(command) = transaction::pass(driver, connection, command) else { return };
    match (command.kind(), command.slot()) {
        (Kind::Write, _) if hall.refusing.get() => say(driver, connection, disk_full()),
        (Kind::Read | Kind::Write, Ok(_)) => hall.ask(driver, connection, What::One(command)),
        (Kind::Read | Kind::Write, Err(NoSlot::Across)) => match (connection.door, command.spread()) {
            (Door::Any, Ok(spread)) => hall.ask(driver, connection, What::Spread(spread)),
            (Door::Any, Err(error)) => say(driver, connection, error),
            (Door::Cluster, _) => say(driver, connection, cross_slot()),
        },
        (Kind::Plain, _) => {
            let reply = command.answer().unwrap_or_else(|| unknown(&command));
            say(driver, connection, reply);
        }
        (Kind::Read | Kind::Write, Err(NoSlot::Keyless)) | (Kind::Door, _) => at_the_door(driver, connection, command),
    }
}

/// What is about the connection, the node, the cluster, or more slots than one.
fn at_the_door(driver: &Rc<Driver>, connection: &Rc<Connection>, command: Command) {
    let name = command.name();
    if wide::is_wide(name) {
        return driver.hall.ask(driver, connection, What::Wide(command));
    }
    let reply = if name.starts_with("cluster|") {
        match cluster::answer(driver, connection.keyspace.get(), &command) {
            cluster::Found::Reply(reply) => reply,
            cluster::Found::Ask(command) => return driver.hall.ask(driver, connection, What::Wide(*command)),
        }
    } else if name.starts_with("godwit") {
        return server::godwit(driver, connection, &command);
    } else {
        match server::answer(driver, connection, &command) {
            Some(reply) => reply,
            None => return,
        }
    };
    say(driver, connection, reply);
}

pub(super) fn say(driver: &Rc<Driver>, connection: &Rc<Connection>, reply: Reply) {
    connection.say(reply);
    driver.hall.touch(connection);
}

/// What comes after the name, and after that of the subcommand.
pub(super) fn arguments(command: &Command) -> &[Bytes] {
    &command.words()[if command.row().container().is_some() { 2 } else { 1 }..]
}

/// An answer of the machine, as Redis would say it.
pub(super) fn reply(driver: &Driver, keyspace: Chosen, command: &Command, answer: Answer) -> Reply {
    match answer {
        Answer::Reply(reply) => reply,
        Answer::Moved(node) => moved(driver, command, node),
        Answer::NoReplicas => Reply::error("NOREPLICAS Not enough good replicas to write."),
        Answer::TryAgain if keyspace == Chosen::Default && driver.hall.default.get() == KeyspaceId::default() => {
            keyspace::missing(driver.lane.borrow().blueprint())
        }
        Answer::TryAgain => Reply::error(
            "TRYAGAIN nobody leads this slot right now, and it was certainly not done: ask again; 'godwit why' says what it waits for",
        ),
        Answer::Uncertain => Reply::error(
            "UNCERTAIN the primary changed before it could answer: it may or may not have been done. Read before asking again, or use SERIES",
        ),
        Answer::NoKeyspace => keyspace::removed(driver.lane.borrow().blueprint()),
    }
}

/// Nobody knows what becomes of it, or when.
pub(super) fn unanswered(command: &Command) -> Reply {
    Reply::error(if command.is_write() {
        "UNCERTAIN no answer within ten seconds: it may or may not have been done, or may yet be. Read before asking again, or use SERIES"
    } else {
        "TRYAGAIN no answer within ten seconds: whoever leads this slot waits for others; 'godwit why' says for whom"
    })
}

pub(super) fn moved(driver: &Driver, command: &Command, node: NodeId) -> Reply {
    driver.hall.house.moved.fetch_add(1, Ordering::Relaxed);
    let address = Addresses::of(driver.lane.borrow().blueprint(), node).map(|a| a.cluster).unwrap_or_default();
    match command.slot() {
        Ok(slot) if !address.is_empty() => Reply::error_with(format!("MOVED {} {address}", slot.0)),
        _ => Reply::error("CLUSTERDOWN the slot's primary has no address for clients: look at 'godwit status'"),
    }
}

pub(super) fn cross_slot() -> Reply {
    Reply::error("CROSSSLOT Keys in request don't hash to the same slot")
}

pub(super) fn disk_full() -> Reply {
    Reply::error(
        "MISCONF the disk of this node is full: nothing is written until there is room again. It resumes by itself",
    )
}

pub(super) fn unknown(command: &Command) -> Reply {
    Reply::error_with(format!("ERR '{}' is not there yet", command.name().replace('|', " ")))
}
