//! The commands, one file per family: first its rows, then what they do.
//!
//! Handlers get words that are as many as their row wants, and keys of which none is expired. What else is wrong with a command
//! they say as Redis does, in its order: which of two mistakes is named first is part of being compatible.

mod about;
mod door;
mod expiry;
mod float;
mod generic;
mod help;
mod lcs;
mod lists;
mod object;
mod options;
mod strings;
mod transactions;
mod whole;

use crate::row::Row;

/// Rows of a family: number, name, arity, flags, places of keys, group, since, handler, summary.
macro_rules! rows {
    ($(($number:expr, $name:expr, $arity:expr, $flags:expr, $positions:expr, $group:expr, $since:expr, $handler:expr, $summary:expr)),* $(,)?) => {
        &[$($crate::row::Row {
            number: $number,
            name: $name,
            arity: $arity,
            flags: $flags,
            positions: $positions,
            group: $group,
            since: $since,
            summary: $summary,
            handler: $handler,
        }),*]
    };
}
use rows;

pub(crate) static FAMILIES: [&[Row]; 9] = [
    whole::ROWS,
    strings::ROWS,
    lcs::ROWS,
    generic::ROWS,
    expiry::ROWS,
    object::ROWS,
    lists::ROWS,
    door::ROWS,
    transactions::ROWS,
];

pub(crate) const REAP: u16 = 1;
/// Is no command by itself: it stands before one.
pub(crate) const SERIES: u16 = 2;
