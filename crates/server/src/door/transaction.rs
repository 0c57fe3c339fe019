//! `MULTI`, `EXEC`, `DISCARD`: what a client asks in between is kept here, and then asked as one command of one slot.

use std::rc::Rc;

use blueprint::{NodeId, Slot};
use bytes::Bytes;
use node::Door;
use values::{Command, Kind, NoSlot, Reply};

use super::{Connection, talk};
use crate::lane::Driver;

/// Of one transaction; it is one entry of the log, and one message to each member.
const MOST_BYTES: usize = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct Transaction {
    commands: Vec<Command>,
    /// All of them are about this one.
    slot: Option<Slot>,
    bytes: usize,
    /// Something could not be kept: none of it will be done.
    spoilt: bool,
}

/// Somebody said something that is no command.
pub(super) fn spoil(connection: &Connection) {
    if let Some(transaction) = connection.transaction.borrow_mut().as_mut() {
        transaction.spoilt = true;
    }
}

/// What is to be done with it now; none if it is kept, or was answered.
pub(super) fn pass(driver: &Rc<Driver>, connection: &Rc<Connection>, command: Command) -> Option<Command> {
    let open = connection.transaction.borrow().is_some();
    let reply = match command.name() {
        "multi" if open => Reply::error("ERR MULTI calls can not be nested"),
        "multi" => {
            *connection.transaction.borrow_mut() = Some(Transaction::default());
            Reply::Ok
        }
        "discard" => match connection.transaction.take() {
            Some(_) => Reply::Ok,
            None => Reply::error("ERR DISCARD without MULTI"),
        },
        "exec" => match connection.transaction.take() {
            None => Reply::error("ERR EXEC without MULTI"),
            Some(transaction) if transaction.spoilt => {
                Reply::error("EXECABORT Transaction discarded because of previous errors.")
            }
            Some(Transaction { slot: None, .. }) => Reply::Array(Vec::new()),
            Some(Transaction { slot: Some(slot), commands, .. }) => return Some(Command::transaction(slot, &commands)),
        },
        "quit" | "reset" => return Some(command),
        _ if !open => return Some(command),
        _ => keep(driver, connection, command),
    };
    talk::say(driver, connection, reply);
    None
}

fn keep(driver: &Rc<Driver>, connection: &Connection, command: Command) -> Reply {
    let leads = leads_elsewhere(driver, connection, &command);
    let mut transaction = connection.transaction.borrow_mut();
    let transaction = transaction.as_mut().expect("it is open");
    let error = match (command.slot(), leads) {
        (Ok(_), Some(node)) => Some(talk::moved(driver, &command, node)),
        _ => transaction.objection(&command),
    };
    if let Some(error) = error {
        transaction.spoilt = true;
        return error;
    }
    transaction.bytes += command.most_bytes();
    transaction.slot = command.slot().ok();
    transaction.commands.push(command);
    Reply::Simple(Bytes::from_static(b"QUEUED"))
}

/// Who else leads its slot. On the cluster port a client is told so at once, and not when it has said everything.
fn leads_elsewhere(driver: &Driver, connection: &Connection, command: &Command) -> Option<NodeId> {
    let (Door::Cluster, Ok(slot)) = (connection.door, command.slot()) else { return None };
    let lane = driver.lane.borrow();
    let keyspace = driver.hall.keyspace_of(connection.keyspace.get());
    let primary = lane.blueprint().bucket_of(keyspace, slot)?.government()?.primary.node;
    (primary != driver.me).then_some(primary)
}

impl Transaction {
    fn objection(&self, command: &Command) -> Option<Reply> {
        let name = command.name().replace('|', " ");
        match (command.kind(), command.slot()) {
            (_, Err(NoSlot::Across)) => Some(talk::cross_slot()),
            (Kind::Read | Kind::Write, Ok(slot)) if self.slot.is_some_and(|other| other != slot) => {
                Some(talk::cross_slot())
            }
            (Kind::Read | Kind::Write, Ok(_)) if command.series().is_some() => Some(Reply::error(
                "ERR a series within a transaction: number the commands, or put them into a transaction",
            )),
            (Kind::Read | Kind::Write, Ok(_)) if self.bytes + command.most_bytes() > MOST_BYTES => {
                Some(Reply::error_with(format!("ERR a transaction has at most {} MiB", MOST_BYTES >> 20)))
            }
            (Kind::Read | Kind::Write, Ok(_)) => None,
            _ => Some(Reply::error_with(format!("ERR '{name}' cannot be part of a transaction: it is about no key"))),
        }
    }
}
