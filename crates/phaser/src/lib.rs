//! How one bucket's members agree: prepare, commit, lease, usurp, hand over, seat, split, merge.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod canonical;
mod clock;
mod config;
mod disk;
mod durable;
mod entries;
mod entry;
mod fill;
mod follower;
mod growth;
mod handover;
mod io;
mod leader;
mod lease;
mod log;
mod merge;
mod message;
mod peer;
mod phaser;
mod rule;
mod run;
mod split;
mod standing;

pub use clock::DataClock;
pub use config::Config;
pub use durable::{Durable, Image, Record};
pub use entries::Entries;
pub use entry::{Entry, EntryRef, Payload};
pub use fill::Filling;
pub use io::{Bond, Dropped, Event, Fork, Input, Outbox, Output, Refusal, Served, StoreId, Ticket, View, WriteId};
pub use log::Log;
pub use merge::Frozen;
pub use message::{Envelope, Message, Progress};
pub use phaser::{Founding, Phaser, Status};
pub use run::Run;
pub use standing::{Following, Growing, HandingOver, Leading, Parting, Standing};
