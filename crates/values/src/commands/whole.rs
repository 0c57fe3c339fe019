//! What concerns a whole slot, or the table itself. No client can name these: the front door puts `SCAN`, `KEYS`, `DBSIZE`,
//! `FLUSHALL` and `RANDOMKEY` together of them, slot by slot.

use bytes::Bytes;

use super::{REAP, rows};
use crate::glob;
use crate::keys::{Keys, View};
use crate::number::{Decimal, parse_unsigned};
use crate::row::Handler::{Read, Write};
use crate::row::flag::{INTERNAL, READONLY, WRITE};
use crate::row::{Group::Generic, Outcome, Positions, Row};
use crate::{Reply, Stamp, errors};

const SLOT: Positions = Positions::Slot;

pub(crate) const ROWS: &[Row] = rows! {
    (REAP, "reap", 2, WRITE | INTERNAL, Positions::ONE, Generic, "0.1.0", Write(reap), "Removes a key if it is expired."),
    (3, "slot|scan", 6, READONLY | INTERNAL, SLOT, Generic, "0.1.0", Read(scan), "Some keys of a slot, and where to go on."),
    (4, "slot|count", 2, READONLY | INTERNAL, SLOT, Generic, "0.1.0", Read(count), "How many keys a slot has."),
    (5, "slot|flush", 2, WRITE | INTERNAL, SLOT, Generic, "0.1.0", Write(flush), "Removes all keys of a slot."),
    (6, "slot|keys", 3, READONLY | INTERNAL, SLOT, Generic, "0.1.0", Read(keys), "All keys of a slot that match."),
    (7, "slot|random", 3, READONLY | INTERNAL, SLOT, Generic, "0.1.0", Read(random), "One key of a slot, by chance."),
};

/// Expired keys are no business of others here: this is the one that finds them (see `Table::execute`).
fn reap(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    Ok(keys.reap(stamp.clock, &words[1]).into())
}

/// `slot place count pattern type`, the type possibly empty. Keys that are expired are left out: they may come or not come in any
/// scan, so leaving them out decides nothing.
fn scan(view: &View<'_>, words: &[Bytes]) -> Outcome {
    let number = |at: usize| parse_unsigned(&words[at]).ok_or_else(errors::not_a_number);
    let place = u32::try_from(number(2)?).map_err(|_| errors::not_a_number())?;
    let count = usize::try_from(number(3)?).unwrap_or(usize::MAX).max(1);
    let (pattern, kind) = (&words[4], &words[5]);
    let mut found = Vec::new();
    let mut last = None;
    for (looked_at, (place, item)) in view.keys.iter_from(place).enumerate() {
        // Keys of one place are not told apart by a cursor: they come together.
        if looked_at >= count && last != Some(place) {
            return Ok(scanned(place, found));
        }
        last = Some(place);
        let wanted = kind.is_empty() || kind.eq_ignore_ascii_case(item.seen().type_name().as_bytes());
        if wanted && view.sees(item) && glob::matches(pattern, item.key()) {
            found.push(Bytes::copy_from_slice(item.key()));
        }
    }
    Ok(scanned(0, found))
}

fn scanned(place: u32, keys: Vec<Bytes>) -> Reply {
    Reply::Array(vec![Reply::Value(Decimal::unsigned(place.into()).to_bytes()), Reply::values(keys)])
}

fn count(view: &View<'_>, _: &[Bytes]) -> Outcome {
    Ok(Reply::count(view.keys.len()))
}

fn flush(keys: &mut Keys, _: Stamp, _: &[Bytes]) -> Outcome {
    let count = keys.len();
    keys.clear();
    Ok(Reply::count(count))
}

fn keys(view: &View<'_>, words: &[Bytes]) -> Outcome {
    let seen = view.keys.iter().filter(|item| view.sees(*item) && glob::matches(&words[2], item.key()));
    Ok(Reply::values(seen.map(|item| Bytes::copy_from_slice(item.key()))))
}

/// The first key at or after a random place, or else the first of all: not quite even, and never slow.
fn random(view: &View<'_>, words: &[Bytes]) -> Outcome {
    let chance = parse_unsigned(&words[2]).ok_or_else(errors::not_a_number)?;
    let mut around = view.keys.iter_from((chance >> 32) as u32).chain(view.keys.iter_from(0));
    Ok(around
        .find(|(_, item)| view.sees(*item))
        .map_or(Reply::Nil, |(_, item)| Reply::Value(Bytes::copy_from_slice(item.key()))))
}
