//! What a bucket keeps: commands, the tables that they change slot by slot, and the sessions that make a repeated command harmless.
//!
//! Everything here is a function of its arguments. A command is executed when its entry commits, once on every member, and the
//! members must come out equal to the bit: time and chance come from the entry's [`Stamp`], and nothing is ever iterated in an
//! order that is not its own.

mod command;
mod fnv;
mod reply;
mod sessions;
mod slot;
mod table;

pub use command::{Command, Connection, Malformed, Stamp};
pub use reply::Reply;
pub use sessions::REMEMBERED;
pub use slot::slot_of;
pub use table::{Read, Table};
