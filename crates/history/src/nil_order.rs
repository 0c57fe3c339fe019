//! The search for an order in which every read of nil finds the key absent.
//!
//! Each item may go next if its last start is not after the first end of any other that is left. The key is absent at first; a value
//! makes it present, a delete absent; a value with a time to live may turn absent by itself from some moment on; and a few
//! uncertain calls may make it absent once each. (A moment can have come if no item that is left has ended before it.)
//!
//! Without more this is exponential in how many items overlap. What keeps it near one step per item:
//! - being absent is never worse than being present: nobody needs a value any more once its cluster is done. So whatever
//!   may be absent for nothing is absent;
//! - a read of nil that can go while the key is absent, goes: it changes nothing;
//! - a value that may not expire before somebody else has to go is there for good: that one will replace it;
//! - a value without a time to live that can go while the key is present, goes: it changes nothing either;
//! - uncertain calls are spent only when a read of nil waits for one, and those that were possible earlier are spent first;
//! - a set of done items is not visited twice in the same state.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) first_end: u64,
    pub(super) last_start: u64,
    pub(super) effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Present; may turn absent by itself from that moment on (`u64::MAX`: never).
    Value { nil_from: u64 },
    /// Absent from here on.
    Delete,
    /// Only if absent.
    SeesNil,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Possible { steps: u64 },
    Impossible,
    Undecided,
}

/// `absences`: from when on each uncertain call may make the key absent; sorted.
pub(super) fn search(items: &[Item], absences: &[u64], budget: u64) -> Verdict {
    debug_assert!(absences.is_sorted());
    let mut search = Search::new(items, absences);
    let mut place = Place { nil_from: ABSENT, spent: 0, by_end: 0, by_start: 0 };
    let mut forks: Vec<Fork> = Vec::new();
    for steps in 1..=budget {
        match search.next(&mut place) {
            Next::Finished => return Verdict::Possible { steps },
            Next::Go(choice) => {
                search.go(&mut place, choice);
                continue;
            }
            Next::Fork(choices) => {
                if search.is_new(&place) {
                    forks.push(Fork { place, done: search.trail.len(), choices });
                }
            }
        }
        loop {
            let Some(fork) = forks.last_mut() else { return Verdict::Impossible };
            search.undo(fork.done);
            if let Some(choice) = fork.choices.pop() {
                place = fork.place;
                search.go(&mut place, choice);
                break;
            }
            forks.pop();
        }
    }
    Verdict::Undecided
}

/// As a moment from which on the key may be absent: it is.
const ABSENT: u64 = 0;
/// It is present until something replaces it.
const FOR_GOOD: u64 = u64::MAX;

struct Search<'a> {
    items: &'a [Item],
    absences: &'a [u64],
    by_end: Vec<usize>,
    by_start: Vec<usize>,
    /// A bit per item.
    done: Vec<u64>,
    trail: Vec<usize>,
    /// Which items were done, in which state; and how few uncertain calls had been spent at best.
    visited: BTreeMap<(Vec<u64>, u64), usize>,
}

/// The state besides `done`.
#[derive(Clone, Copy)]
struct Place {
    nil_from: u64,
    spent: usize,
    /// All before these, in their order, are done.
    by_end: usize,
    by_start: usize,
}

struct Fork {
    place: Place,
    done: usize,
    /// The most promising last.
    choices: Vec<Choice>,
}

#[derive(Clone, Copy)]
enum Choice {
    Item(usize),
    Spend,
}

enum Next {
    Finished,
    /// No other choice can do better.
    Go(Choice),
    Fork(Vec<Choice>),
}

impl<'a> Search<'a> {
    fn new(items: &'a [Item], absences: &'a [u64]) -> Self {
        let mut by_end: Vec<usize> = (0..items.len()).collect();
        by_end.sort_by_key(|&item| items[item].first_end);
        let mut by_start: Vec<usize> = (0..items.len()).collect();
        by_start.sort_by_key(|&item| items[item].last_start);
        let done = vec![0; items.len().div_ceil(64)];
        Search { items, absences, by_end, by_start, done, trail: Vec::new(), visited: BTreeMap::new() }
    }

    fn next(&self, place: &mut Place) -> Next {
        let is_left = |item: &usize| !self.is_done(*item);
        while self.by_end.get(place.by_end).is_some_and(|&item| self.is_done(item)) {
            place.by_end += 1;
        }
        while self.by_start.get(place.by_start).is_some_and(|&item| self.is_done(item)) {
            place.by_start += 1;
        }
        let mut ends = self.by_end[place.by_end..].iter().copied().filter(is_left);
        let Some(first) = ends.next() else { return Next::Finished };
        let bound = self.items[first].first_end;
        // If it cannot have turned absent yet it never will: whoever ends first is still to come, and replaces it.
        place.nil_from = if place.nil_from <= bound { ABSENT } else { FOR_GOOD };

        let (mut values, mut deletes, mut waits_for_nil) = (Vec::new(), Vec::new(), false);
        let starts = self.by_start[place.by_start..].iter().copied();
        let ready = starts.take_while(|&item| self.items[item].last_start <= bound).filter(is_left);
        // Whoever ends first is held up only by the others.
        let first_too = (self.items[first].last_start > bound
            && ends.next().is_none_or(|second| self.items[first].last_start <= self.items[second].first_end))
        .then_some(first);
        for item in ready.chain(first_too) {
            match self.items[item].effect {
                Effect::SeesNil if place.nil_from == ABSENT => return Next::Go(Choice::Item(item)),
                Effect::SeesNil => waits_for_nil = true,
                Effect::Value { nil_from: FOR_GOOD } if place.nil_from == FOR_GOOD => {
                    return Next::Go(Choice::Item(item));
                }
                Effect::Value { .. } => values.push(item),
                Effect::Delete => deletes.push(item),
            }
        }
        Next::Fork(self.choices(place, values, deletes, waits_for_nil))
    }

    /// Most promising last. A delete is kept for when it is of use: somebody waits for nil, or nothing else can go.
    fn choices(
        &self,
        place: &Place,
        mut values: Vec<usize>,
        mut deletes: Vec<usize>,
        waits_for_nil: bool,
    ) -> Vec<Choice> {
        let latest_first = |&item: &usize| std::cmp::Reverse(self.items[item].first_end);
        values.sort_by_key(latest_first);
        deletes.sort_by_key(latest_first);
        let bound = self.items[self.by_end[place.by_end]].first_end;
        let can_spend = self.absences.get(place.spent).is_some_and(|&from| from <= bound);
        let spend = (waits_for_nil && can_spend).then_some(Choice::Spend);
        let (values, deletes) = (values.into_iter().map(Choice::Item), deletes.into_iter().map(Choice::Item));
        if waits_for_nil { values.chain(spend).chain(deletes).collect() } else { deletes.chain(values).collect() }
    }

    fn go(&mut self, place: &mut Place, choice: Choice) {
        let Choice::Item(item) = choice else {
            place.spent += 1;
            place.nil_from = ABSENT;
            return;
        };
        self.done[item / 64] |= 1 << (item % 64);
        self.trail.push(item);
        match self.items[item].effect {
            Effect::Value { nil_from } => place.nil_from = nil_from,
            Effect::Delete => place.nil_from = ABSENT,
            Effect::SeesNil => assert_eq!(place.nil_from, ABSENT),
        }
    }

    fn undo(&mut self, done: usize) {
        for item in self.trail.drain(done..) {
            self.done[item / 64] &= !(1 << (item % 64));
        }
    }

    /// Remembers that it was here, unless it was before and had spent no more.
    fn is_new(&mut self, place: &Place) -> bool {
        let best = self.visited.entry((self.done.clone(), place.nil_from)).or_insert(usize::MAX);
        let is_new = place.spent < *best;
        *best = place.spent.min(*best);
        is_new
    }

    fn is_done(&self, item: usize) -> bool {
        self.done[item / 64] & (1 << (item % 64)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search that is cut off must not look like an answer.
    #[test]
    fn out_of_budget_is_undecided() {
        let value = Item { first_end: 9, last_start: 0, effect: Effect::Value { nil_from: FOR_GOOD } };
        let nil = Item { first_end: 20, last_start: 10, effect: Effect::SeesNil };
        assert_eq!(search(&[value, nil], &[], 1), Verdict::Undecided);
        assert_eq!(search(&[value, nil], &[], 100), Verdict::Impossible);
        assert_eq!(search(&[value, nil], &[20], 1), Verdict::Undecided);
        assert!(matches!(search(&[value, nil], &[20], 100), Verdict::Possible { .. }));
        assert_eq!(search(&[value, nil], &[21], 100), Verdict::Impossible, "too late for the read");
    }
}
