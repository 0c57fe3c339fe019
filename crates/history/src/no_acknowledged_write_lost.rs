//! What was acknowledged is there in the end. The runner heals the world and reads every key once more; that last read must show
//! every acknowledged write, or something that can have replaced it.
//!
//! The exact checkers would find these too. This one runs before them to call a loss a loss.

use std::collections::BTreeSet;

use super::linearizable::may_be_nil_from;
use super::{Call, Operation, Seen, Violation};

const NAME: &str = "no_acknowledged_write_lost";

/// The last write that was surely over when the final read began, unless what the read saw can have come after it.
pub(super) fn register(operations: &[&Operation]) -> Result<(), Violation> {
    let Some(last_read) = last_answered(operations, &Call::Read) else { return Ok(()) };
    let is_write = |operation: &Operation| matches!(operation.call, Call::Write { .. });
    let over = operations.iter().filter(|operation| is_write(operation) && operation.end() < last_read.invoked);
    let Some(&written) = over.max_by_key(|operation| operation.invoked) else { return Ok(()) };

    let not_before = |operation: &Operation| !operation.was_refused() && operation.end() >= written.invoked;
    let explained = match last_read.seen() {
        // A value that nobody wrote is for `linearizable` to name.
        Some(Seen::Value(seen)) => operations.iter().all(|operation| match operation.call {
            Call::Write { value, .. } if value == *seen => not_before(operation),
            _ => true,
        }),
        Some(Seen::Nil) => operations.iter().any(|operation| match operation.call {
            Call::Write { .. } => not_before(operation) && may_be_nil_from(operation) <= last_read.end(),
            Call::Delete => not_before(operation) && operation.invoked <= last_read.end(),
            _ => false,
        }),
        _ => true,
    };
    if explained {
        return Ok(());
    }
    let seen = |operation: &&&Operation| match operation.call {
        Call::Write { value, .. } => last_read.seen() == Some(&Seen::Value(value)),
        _ => false,
    };
    let involved: Vec<_> = operations.iter().filter(seen).copied().chain([written, last_read]).collect();
    Err(Violation::new(NAME, "the last acknowledged write is gone, and nothing can have replaced it", &involved))
}

pub(super) fn list(operations: &[&Operation]) -> Result<(), Violation> {
    let Some(last_range) = last_answered(operations, &Call::Range) else { return Ok(()) };
    let items: BTreeSet<u64> = match last_range.seen() {
        Some(Seen::Items(items)) => items.iter().copied().collect(),
        _ => BTreeSet::new(),
    };
    let lost = |operation: &&&Operation| match operation.call {
        Call::Push { item } => operation.end() < last_range.invoked && !items.contains(&item),
        _ => false,
    };
    let lost: Vec<&Operation> = operations.iter().filter(lost).copied().collect();
    if lost.is_empty() {
        return Ok(());
    }
    let count = lost.len();
    let what = format!("{count} acknowledged items are missing from the last range");
    let involved: Vec<_> = lost.into_iter().take(8).chain([last_range]).collect();
    Err(Violation::new(NAME, what, &involved).times(count as u64))
}

pub(super) fn counter(operations: &[&Operation]) -> Result<(), Violation> {
    let Some(last_count) = last_answered(operations, &Call::Count) else { return Ok(()) };
    let count = last_count.number().expect("a count is a number");
    let over =
        operations.iter().filter(|operation| operation.call == Call::Incr && operation.end() < last_count.invoked);
    let mut over: Vec<&Operation> = over.copied().collect();
    // By number and by value: two that were answered the same value may hide a loss from the second alone.
    let highest = over.iter().filter_map(|operation| operation.number()).max().unwrap_or(0);
    let least = highest.max(over.len() as u64);
    if count >= least {
        return Ok(());
    }
    over.sort_by_key(|operation| std::cmp::Reverse(operation.number()));
    let what = format!("the last count is {count}, after at least {least} acknowledged increments");
    let involved: Vec<_> = over.into_iter().take(4).chain([last_count]).collect();
    Err(Violation::new(NAME, what, &involved).times(least - count))
}

fn last_answered<'a>(operations: &[&'a Operation], call: &Call) -> Option<&'a Operation> {
    let answered = operations.iter().filter(|operation| operation.call == *call && operation.seen().is_some());
    answered.copied().max_by_key(|operation| operation.invoked)
}
