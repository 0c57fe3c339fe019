//! What a bucket keeps: commands, the tables that they change slot by slot, and the sessions that make a repeated command harmless.
//!
//! Everything here is a function of its arguments. A command is executed when its entry commits, once on every member, and the
//! members must come out equal to the bit: time and chance come from the entry's [`Stamp`], and nothing is ever iterated in an
//! order that is not its own.
//!
//! A client's words become a [`Command`] by [`Command::parse`], which finds the [`Row`] that declares it. What its [`Kind`] says
//! is done with it: [`Table::read`], [`Table::execute`] in log order, [`Command::answer`], or it is the front door's own.

mod command;
mod commands;
mod errors;
mod fnv;
mod glob;
mod item;
mod keys;
mod number;
mod reply;
mod row;
mod sessions;
mod shelf;
mod slot;
mod spread;
mod table;
mod value;

pub use command::{Command, Connection, Malformed, NoSlot, Series, Stamp};
pub use glob::matches;
pub use number::{Decimal, parse_number, parse_unsigned};
pub use reply::{DEEPEST, Double, Reply};
pub use row::{Group, Kind, Positions, Row, flag, named, rows};
pub use sessions::REMEMBERED;
pub use slot::slot_of;
pub use spread::{Cursor, Scan, Spread, failed_write};
pub use table::{Read, Table};
