//! A list that is only ever pushed to has one order, and everybody sees a beginning of it.
//!
//! The longest range gives the order; every other must be a prefix of it. The answer to a push gives its place, so the rest is a
//! comparison with real time (see [`positions`]): what was acknowledged stands before what began later, a range holds all that
//! was acknowledged before it began, and lists do not shrink.

use std::collections::{BTreeMap, BTreeSet};

use super::{Call, Operation, Outcome, Seen, Violation, exactly_once, positions};

const NAME: &str = "list_order";

pub(super) fn check(operations: &[&Operation]) -> Result<(), Violation> {
    let pushes = pushes(operations)?;
    let ranges: Vec<(&Operation, &[u64])> = operations.iter().filter_map(|it| Some((*it, items(it)?))).collect();
    let longest = ranges.iter().max_by_key(|(_, items)| items.len());
    let order = longest.map_or(&[][..], |(_, items)| items);

    let mut placed = Vec::new();
    for &(range, items) in &ranges {
        if !order.starts_with(items) {
            let longest = longest.expect("there is a range").0;
            return Err(Violation::new(NAME, "one range is not the beginning of the other", &[range, longest]));
        }
        placed.push(positions::read(range, items.len() as u64));
    }

    let mut lengths = BTreeMap::new();
    for (place, item) in order.iter().enumerate() {
        let range = longest.expect("there is a range").0;
        let Some(&push) = pushes.get(item) else {
            return Err(Violation::new(NAME, format!("nobody pushed item {item}"), &[range]));
        };
        if push.was_refused() {
            return Err(Violation::new(NAME, format!("item {item} was refused, and is there"), &[push, range]));
        }
        let length = place as u64 + 1;
        if push.number().is_some_and(|answered| answered != length) {
            let what = format!("item {item} stands at {place}: its push should have answered {length}");
            return Err(Violation::new(NAME, what, &[push, range]));
        }
        lengths.insert(length, push);
        placed.push(positions::step(push, length));
    }

    let seen: BTreeSet<u64> = order.iter().copied().collect();
    let mut uncertain = Vec::new();
    for (item, push) in pushes.iter().filter(|(_, push)| !push.was_refused()) {
        let Some(length) = push.number() else {
            if !seen.contains(item) {
                uncertain.push(*push);
            }
            continue;
        };
        match lengths.insert(length, push) {
            // Already placed, by the longest range.
            Some(other) if std::ptr::eq(other, *push) => {}
            Some(other) => {
                let what = format!("item {item} was answered length {length}, but another item stands there");
                let range = longest.map(|(range, _)| *range);
                let involved: Vec<_> = [*push, other].into_iter().chain(range).collect();
                return Err(Violation::new(NAME, what, &involved));
            }
            None => placed.push(positions::step(push, length)),
        }
    }

    if let Some((later, earlier)) = positions::out_of_order(&placed) {
        let what = "the first was answered before the second began, but comes after it in the list";
        return Err(Violation::new(NAME, what, &[later, earlier]).called(positions::wrong(earlier)));
    }
    exactly_once::every_step_was_made(operations, &placed, &uncertain)
}

fn pushes<'a>(operations: &[&'a Operation]) -> Result<BTreeMap<u64, &'a Operation>, Violation> {
    let mut pushes = BTreeMap::new();
    for &operation in operations {
        let Call::Push { item } = operation.call else { continue };
        if let Some(other) = pushes.insert(item, operation) {
            return Err(Violation::new("history", format!("item {item} was pushed twice"), &[other, operation]));
        }
    }
    Ok(pushes)
}

fn items(operation: &Operation) -> Option<&[u64]> {
    match (&operation.call, &operation.outcome) {
        (Call::Range, Outcome::Answered { seen: Seen::Items(items), .. }) => Some(items),
        (Call::Range, Outcome::Answered { .. }) => Some(&[]),
        _ => None,
    }
}
