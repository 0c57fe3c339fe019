//! Every node owns some records and holds copies of everyone else's: pull on start, push in operation, check in between.
//!
//! One machine, two uses: the directory (ephemeral) and the registry (durable). See `docs/protocol.md`.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod check;
mod compare;
mod config;
mod disk;
mod durable;
mod holding;
mod io;
mod look;
mod message;
mod number;
mod own;
mod part;
mod peer;
mod pull;
mod push;
mod registrar;
mod succession;
mod waits;

pub use config::{Config, Level};
pub use durable::{Durable, Record, Stored};
pub use io::{Dropped, Edit, Event, Input, Outbox, Output, Refusal, Ticket, WriteId};
pub use look::Found;
pub use message::{Answer, Claim, Envelope, Message, Phase, Standing};
pub use number::UpdateNumber;
pub use part::{Content, Key, Part, Row};
pub use registrar::{Life, Registrar};
pub use waits::{Wait, Waiting};
