//! Transactions. Between `MULTI` and `EXEC` the front door keeps what is asked; then all of it is one command of one slot, and so one
//! entry of the log: nobody sees a part of it, and it moves with its slot like any other.

use bytes::Bytes;

use super::rows;
use crate::keys::Keys;
use crate::number::parse_number;
use crate::row::Handler::{Door, Write};
use crate::row::flag::{ALLOW_BUSY, FAST, INTERNAL, LOADING, NOSCRIPT, STALE, WRITE};
use crate::row::{Group::Generic, Group::Transactions, Outcome, Positions, Row};
use crate::{Command, Reply, Stamp, table};

const NONE: Positions = Positions::None;
const OWN: u32 = NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY;

pub(crate) const EXEC: u16 = 8;

pub(crate) const ROWS: &[Row] = rows! {
    (EXEC, "slot|exec", -3, WRITE | INTERNAL, Positions::Slot, Generic, "0.1.0", Write(exec), "Executes several commands at once."),
    (327, "multi", 1, OWN, NONE, Transactions, "1.2.0", Door, "Begins a transaction."),
    (328, "exec", 1, OWN & !FAST & !ALLOW_BUSY, NONE, Transactions, "1.2.0", Door, "Executes a transaction."),
    (329, "discard", 1, OWN, NONE, Transactions, "2.0.0", Door, "Forgets a transaction."),
};

/// `slot command…`, each as it stands in a log. One that fails does not keep the others from being executed, as in Redis.
fn exec(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    let one = |(at, word): (usize, &Bytes)| match part(word, &words[1]) {
        // Each draws by its own lot. And each has bytes of its own: a value that stays must not keep the others here.
        Some(command) => table::run(keys, Stamp { seed: stamp.seed.wrapping_add(at as u64), ..stamp }, &command),
        None => Reply::error("ERR this is no part of a transaction"),
    };
    Ok(Reply::Array(words[2..].iter().enumerate().map(one).collect()))
}

/// None: it is about another slot, or is nothing that can be within a transaction. The front door makes none like that.
fn part(word: &Bytes, slot: &Bytes) -> Option<Command> {
    let command = Command::decode(&Bytes::copy_from_slice(word)).ok()?;
    let here = parse_number(slot).is_some_and(|slot| command.slot().is_ok_and(|of| i64::from(of.0) == slot));
    let fits = here && command.series().is_none() && command.row().number != EXEC;
    fits.then_some(command)
}
