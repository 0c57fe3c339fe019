//! Nothing happened twice. A retry that was executed again, or a refused command that was executed all the same, shows as an item
//! that stands twice in a list, or as a length or count beyond what clients can have asked for by then.

use std::collections::BTreeMap;

use super::positions::{self, Placed};
use super::{Call, Operation, Seen, Violation};

const NAME: &str = "exactly_once";

/// No range shows an item twice.
pub(super) fn list(operations: &[&Operation]) -> Result<(), Violation> {
    let ranges = operations.iter().filter_map(|operation| match operation.seen() {
        Some(Seen::Items(items)) => Some((*operation, items.as_slice())),
        _ => None,
    });
    let mut longest: &[u64] = &[];
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
    for (range, items) in ranges {
        // A prefix of a list without repeats has none: saves looking at each of many long ranges.
        if longest.starts_with(items) {
            continue;
        }
        no_item_twice(operations, range, items)?;
        if longest.is_empty() {
            longest = items;
        }
    }
    Ok(())
}

/// Every step up to the furthest was somebody's. Called by the checkers of order, which know the places.
pub(super) fn every_step_was_made(
    operations: &[&Operation],
    placed: &[Placed<'_>],
    uncertain: &[&Operation],
) -> Result<(), Violation> {
    no_more_than_begun(operations)?;
    match positions::made_by_nobody(placed, uncertain) {
        None => Ok(()),
        Some((step, witness)) => Err(Violation::new(NAME, format!("nobody can have made step {step}"), &[witness])),
    }
}

fn no_item_twice(operations: &[&Operation], range: &Operation, items: &[u64]) -> Result<(), Violation> {
    let mut places = BTreeMap::new();
    for (place, item) in items.iter().enumerate() {
        if let Some(first) = places.insert(item, place) {
            let pushes = operations.iter().filter(|operation| operation.call == Call::Push { item: *item });
            let involved: Vec<_> = pushes.copied().chain([range]).collect();
            return Err(Violation::new(NAME, format!("item {item} stands at both {first} and {place}"), &involved));
        }
    }
    Ok(())
}

/// No answer is longer than the number of steps that had begun before it came.
fn no_more_than_begun(operations: &[&Operation]) -> Result<(), Violation> {
    let steps = operations.iter().filter(|operation| is_step(operation) && !operation.was_refused());
    let mut begun: Vec<u64> = steps.map(|operation| operation.invoked).collect();
    begun.sort_unstable();
    for operation in operations {
        let Some(number) = operation.number() else { continue };
        let possible = begun.partition_point(|&begun| begun <= operation.end());
        if number > possible as u64 {
            let what = format!("{number} was answered when no more than {possible} can have happened");
            let refused = operations.iter().filter(|other| is_step(other) && other.was_refused());
            let involved: Vec<_> = [*operation].into_iter().chain(refused.copied()).collect();
            return Err(Violation::new(NAME, what, &involved));
        }
    }
    Ok(())
}

fn is_step(operation: &Operation) -> bool {
    matches!(operation.call, Call::Push { .. } | Call::Incr)
}
