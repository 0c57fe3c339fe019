//! What clients said and nobody has looked at yet: each of them is read from first, then all are heard together.
//!
//! So what their commands need of the tables is fetched from memory at the same time, and reads that need not wait are evaluated one after
//! the other and answered with one look at the clock. A client's own order is kept.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use values::{Command, Reply};

use super::glimpse::Glimpse;
use super::{Connection, glimpse, talk};
use crate::lane::Driver;

/// Commands that are looked at ahead together: what they need should still be at hand when they are carried out.
const AHEAD: usize = 64;

/// So many are heard before more is read, and memory for more than these is not kept: each takes some ten times its bytes on the wire.
const MOST_SAID: usize = 4096;
/// So many clients are heard, and answered, before others are read from. Each is looked at when it is read from, when it is heard and when it
/// is answered; with many more of them, all of what is kept of each would have to be fetched from far memory each time.
const MOST_SPEAKERS: usize = 256;

/// What was read from each client once, for nobody is read from twice before all are heard; and no more than [`MOST_SAID`], and what one
/// client said at once.
#[derive(Default)]
pub(super) struct Hearing {
    said: RefCell<Vec<Said>>,
    /// How many clients said it.
    speakers: Cell<usize>,
    /// Empty, and as large as it ever had to be.
    seen: RefCell<Vec<Glimpse>>,
}

struct Said {
    connection: Rc<Connection>,
    /// Or what is to be answered to something that is no command.
    command: Result<Command, Reply>,
}

impl Hearing {
    pub(super) fn say(&self, connection: &Rc<Connection>, command: Result<Command, Reply>) {
        self.said.borrow_mut().push(Said { connection: Rc::clone(connection), command });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.said.borrow().is_empty()
    }

    /// That client has said what it had to say. True: it is time to listen, rather than to read from yet others.
    pub(super) fn has_said_enough(&self) -> bool {
        self.speakers.set(self.speakers.get() + 1);
        self.speakers.get() >= MOST_SPEAKERS || self.said.borrow().len() >= MOST_SAID
    }
}

/// Everything that was said so far is carried out, or begun.
pub(crate) fn hear_all(driver: &Rc<Driver>) {
    let hearing = &driver.hall.hearing;
    hearing.speakers.set(0);
    if hearing.is_empty() {
        return;
    }
    driver.look_at_clock();
    let (mut said, mut seen) = (hearing.said.take(), hearing.seen.take());
    let mut rest = said.drain(..);
    while !rest.as_slice().is_empty() {
        touch(driver, &rest.as_slice()[..rest.len().min(AHEAD)]);
        for Said { connection, command } in rest.by_ref().take(AHEAD) {
            if connection.is_closing() {
                continue; // it came after the last word
            }
            match glimpse::glimpse(driver, &connection, command) {
                Ok(read) => seen.push(read),
                Err(command) => {
                    glimpse::answer(driver, &mut seen);
                    talk::hear(driver, &connection, command);
                }
            }
        }
    }
    glimpse::answer(driver, &mut seen);
    drop(rest);
    // Nothing that is heard makes anybody say something.
    if said.capacity() <= 2 * MOST_SAID {
        hearing.said.replace(said);
        hearing.seen.replace(seen);
    }
}

fn touch(driver: &Driver, said: &[Said]) {
    let keyspace = |said: &Said| driver.hall.keyspace_of(said.connection.keyspace.get());
    let commands = said.iter().filter_map(|said| Some((keyspace(said), said.command.as_ref().ok()?)));
    driver.lane.borrow().touch(commands);
}
