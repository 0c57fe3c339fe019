//! What this node does next, and what it waits for.
//!
//! [`react`] is a pure function from a [`Situation`] to acts and waits. Each rule is declared by itself, in `rules/`: when it
//! applies, what it needs first, and what it then does. The first need that is not met is the wait, so that what an operator reads
//! is the very text by which it was decided.
#![no_std]

extern crate alloc;

pub mod coordinator;

mod case;
mod directory;
mod holding;
mod ledger;
mod marks;
mod reaction;
mod rule;
mod rules;
mod situation;
mod words;

pub use directory::{BucketRow, Directory, NodeRow, Part, Sighting};
pub use holding::{Growth, HandOver, Holding, Leading, Parting, Peer, Role};
pub use ledger::{Ledger, Standing};
pub use marks::{Marks, Unneeded};
pub use reaction::{Act, Beginning, Deed, Reaction, Wait, Whom, are_true, describe, is_true, react};
pub use rules::{Declared, declared};
pub use situation::{Limits, Read, Situation};
