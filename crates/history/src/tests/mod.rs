//! Checkers are code too: here they are shown right and wrong histories, one by one and by the thousand.

mod examples;
mod random;

use super::{Call, History, Operation, Outcome, Seen, Wrong};

const MS: u64 = 1000;

/// Times in ms.
fn operation(invoked: u64, call: Call, outcome: Outcome) -> Operation {
    Operation { client: 0, key: 1, call, invoked: invoked * MS, outcome }
}

fn answered(at: u64, seen: Seen) -> Outcome {
    Outcome::Answered { at: at * MS, seen }
}

fn checker_of(operations: &[Operation]) -> Option<&'static str> {
    History { operations: operations.to_vec() }.check().err().map(|violation| violation.checker)
}
