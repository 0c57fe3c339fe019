//! A counter that is only ever incremented tells its own order: each increment answers a value of its own, each count stands
//! between two of them. The rest is a comparison with real time (see [`positions`]).

use std::collections::BTreeMap;

use super::{Call, Operation, Violation, Wrong, exactly_once, positions};

const NAME: &str = "counter";

pub(super) fn check(operations: &[&Operation]) -> Result<(), Violation> {
    let mut answers: BTreeMap<u64, &Operation> = BTreeMap::new();
    let mut placed = Vec::new();
    let mut uncertain = Vec::new();
    for &operation in operations {
        match (&operation.call, operation.number()) {
            (Call::Incr, Some(value)) => {
                if let Some(other) = answers.insert(value, operation) {
                    let what = format!("two increments were answered {value}");
                    // Both counted as one.
                    return Err(Violation::new(NAME, what, &[other, operation]).called(Wrong::Lost));
                }
                placed.push(positions::step(operation, value));
            }
            (Call::Incr, None) if !operation.was_refused() => uncertain.push(operation),
            (Call::Count, Some(value)) => placed.push(positions::read(operation, value)),
            _ => {}
        }
    }
    if let Some((later, earlier)) = positions::out_of_order(&placed) {
        let what = "the first was answered before the second began, but counts more";
        return Err(Violation::new(NAME, what, &[later, earlier]).called(positions::wrong(earlier)));
    }
    exactly_once::every_step_was_made(operations, &placed, &uncertain)
}
