//! Lists and counters grow one step at a time, and every answer says how far: so the order is not to be searched for, it stands in
//! the answers. What remains is to compare it with real time.
//!
//! The step to length *n* has place 2n−1, a read that saw length *n* has place 2n: before the next step, after its own. Two things
//! must hold, and together they suffice:
//! - no operation was answered before one of a lower place was invoked;
//! - each length that was passed without an acknowledged step was some uncertain step, a different one each, which had begun in
//!   time.

use super::{Operation, Wrong};

#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) operation: &'a Operation,
    pub(super) place: u64,
}

/// The step that made the length `length`.
pub(super) fn step(operation: &Operation, length: u64) -> Placed<'_> {
    Placed { operation, place: 2 * length - 1 }
}

/// A read that saw the length `length`.
pub(super) fn read(operation: &Operation, length: u64) -> Placed<'_> {
    Placed { operation, place: 2 * length }
}

/// Two operations of which the first was answered before the second was invoked, although it comes later in the order.
pub(super) fn out_of_order<'a>(placed: &[Placed<'a>]) -> Option<(&'a Operation, &'a Operation)> {
    let mut by_start: Vec<_> = placed.to_vec();
    by_start.sort_by_key(|it| it.operation.invoked);
    let mut by_end: Vec<_> = placed.to_vec();
    by_end.sort_by_key(|it| it.operation.end());
    let mut ended = by_end.into_iter().peekable();
    let mut furthest: Option<Placed<'_>> = None;
    for it in by_start {
        while let Some(before) = ended.next_if(|before| before.operation.end() < it.operation.invoked) {
            if furthest.is_none_or(|furthest| before.place > furthest.place) {
                furthest = Some(before);
            }
        }
        if let Some(before) = furthest.filter(|before| before.place > it.place) {
            return Some((before.operation, it.operation));
        }
    }
    None
}

/// What to call it that `late` has too low a place for when it was invoked.
pub(super) fn wrong(late: &Operation) -> Wrong {
    if late.call.is_read() { Wrong::StaleRead } else { Wrong::Order }
}

/// A length that was reached by nobody: no acknowledged step made it, and no uncertain one is left that had begun by the time it
/// was passed. With it, the first operation that shows that it was passed.
///
/// Takes time in the largest length; whoever calls has made sure that it is at most the number of operations.
pub(super) fn made_by_nobody<'a>(placed: &[Placed<'a>], uncertain: &[&Operation]) -> Option<(u64, &'a Operation)> {
    let mut by_place: Vec<_> = placed.to_vec();
    by_place.sort_by_key(|it| std::cmp::Reverse(it.place));
    let longest = by_place.first()?.place.div_ceil(2);

    // From the longest down, so that `witness` is always the first to end of those past the length.
    let mut gaps = Vec::new();
    let mut beyond = by_place.iter().peekable();
    let mut witness: Option<&Operation> = None;
    for length in (1..=longest).rev() {
        let place = 2 * length - 1;
        while let Some(it) = beyond.next_if(|it| it.place > place) {
            if witness.is_none_or(|witness| it.operation.end() < witness.end()) {
                witness = Some(it.operation);
            }
        }
        let mut made = false;
        // The step itself is beyond every shorter length.
        while let Some(it) = beyond.next_if(|it| it.place == place) {
            made = true;
            if witness.is_none_or(|witness| it.operation.end() < witness.end()) {
                witness = Some(it.operation);
            }
        }
        if !made {
            gaps.push((length, witness.expect("something is longer, or this would not be a gap")));
        }
    }

    // Gaps in rising order have rising deadlines: the steps that began first go to the first gaps.
    let mut began: Vec<u64> = uncertain.iter().map(|operation| operation.invoked).collect();
    began.sort_unstable();
    let mut began = began.into_iter();
    gaps.into_iter().rev().find(|(_, witness)| began.next().is_none_or(|began| began > witness.end()))
}
