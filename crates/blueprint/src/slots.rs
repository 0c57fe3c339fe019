//! Slots, sets of slots, and maps from slots: kept as runs, because what owns slots owns them in long stretches.
//!
//! Both structures are *canonical*: sorted, disjoint, and never two runs where one would do. So equality is equality of contents,
//! the empty set allocates nothing, and every operation is one walk over the runs. Input from outside that is not in this form is
//! refused, not repaired: whoever sends it does not keep the rules.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a key belongs: CRC16 of it, as in Redis Cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "u16")]
pub struct Slot(pub u16);

impl Slot {
    pub const COUNT: u16 = 16384;
    pub const FIRST: Self = Self(0);
    pub const LAST: Self = Self(Self::COUNT - 1);

    pub const fn new(number: u16) -> Option<Self> {
        if number < Self::COUNT { Some(Self(number)) } else { None }
    }
}

/// What was received cannot have been written by this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("slot {0} does not exist: slots are 0 to 16383")]
    NoSuchSlot(u16),
    #[error("the run of slots {0}-{1} is reversed, overlaps, or should be joined with the one before it")]
    NotCanonical(u16, u16),
}

impl TryFrom<u16> for Slot {
    type Error = Malformed;
    fn try_from(number: u16) -> Result<Self, Malformed> {
        Self::new(number).ok_or(Malformed::NoSuchSlot(number))
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A set of slots, shown as `0-99,105`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SlotSet {
    /// Inclusive, ascending, with at least one slot between two of them.
    ranges: Vec<(u16, u16)>,
}

impl SlotSet {
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    pub const fn empty() -> Self {
        Self::new()
    }

    pub fn all() -> Self {
        Self::range(Slot::FIRST, Slot::LAST)
    }

    /// From `first` to `last`, both included; empty when `last` comes before `first`.
    pub fn range(first: Slot, last: Slot) -> Self {
        let mut set = Self::new();
        if first <= last {
            set.push(first.0, last.0);
        }
        set
    }

    pub fn single(slot: Slot) -> Self {
        Self::range(slot, slot)
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many slots, not how many ranges.
    pub fn len(&self) -> u32 {
        self.ranges.iter().map(|&(first, last)| u32::from(last - first) + 1).sum()
    }

    pub fn contains(&self, slot: Slot) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < slot.0);
        self.ranges.get(at).is_some_and(|&(first, _)| first <= slot.0)
    }

    pub fn first(&self) -> Option<Slot> {
        self.ranges.first().map(|&(first, _)| Slot(first))
    }

    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| (first..=last).map(Slot))
    }

    /// The runs, as (first, last), both included.
    pub fn ranges(&self) -> impl Iterator<Item = (Slot, Slot)> + '_ {
        self.ranges.iter().map(|&(first, last)| (Slot(first), Slot(last)))
    }

    pub fn insert(&mut self, slot: Slot) {
        assert!(slot < Slot(Slot::COUNT), "slots from outside are checked where they come in");
        // Everything before `at` ends too early to touch the slot.
        let at = self.ranges.partition_point(|&(_, last)| last + 1 < slot.0);
        match self.ranges.get(at).copied() {
            Some((first, last)) if first <= slot.0 + 1 => {
                self.ranges[at] = (first.min(slot.0), last.max(slot.0));
                if let Some(&(next, end)) = self.ranges.get(at + 1)
                    && next <= self.ranges[at].1 + 1
                {
                    self.ranges[at].1 = end;
                    self.ranges.remove(at + 1);
                }
            }
            _ => self.ranges.insert(at, (slot.0, slot.0)),
        }
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut result = Self::new();
        let (mut a, mut b) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        loop {
            let next = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 <= y.0 => a.next(),
                (Some(_), None) => a.next(),
                (_, Some(_)) => b.next(),
                (None, None) => return result,
            };
            let &(first, last) = next.expect("it was peeked at");
            result.push(first, last);
        }
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut result = Self::new();
        for (first, last, ()) in overlaps(self.ranges.iter().map(|&(f, l)| (f, l, ())), &other.ranges) {
            result.push(first, last);
        }
        result
    }

    /// What is in `self` and not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut result = Self::new();
        for (first, last, ()) in remainders(self.ranges.iter().map(|&(f, l)| (f, l, ())), &other.ranges) {
            result.push(first, last);
        }
        result
    }

    pub fn is_subset(&self, of: &Self) -> bool {
        // As neither has two touching ranges, each of ours lies within a single one of theirs.
        let mut theirs = of.ranges.iter().peekable();
        self.ranges.iter().all(|&(first, last)| {
            while theirs.next_if(|t| t.1 < first).is_some() {}
            theirs.peek().is_some_and(|t| t.0 <= first && last <= t.1)
        })
    }

    pub fn is_disjoint(&self, other: &Self) -> bool {
        overlaps(self.ranges.iter().map(|&(f, l)| (f, l, ())), &other.ranges).next().is_none()
    }

    /// The lower and the upper half; of an odd number the lower gets one more.
    pub fn split_half(&self) -> (Self, Self) {
        let mut room = self.len().div_ceil(2);
        let (mut lower, mut upper) = (Self::new(), Self::new());
        for &(first, last) in &self.ranges {
            let length = u32::from(last - first) + 1;
            let taken = length.min(room);
            room -= taken;
            let cut = first + u16::try_from(taken).expect("no longer than the range");
            if taken > 0 {
                lower.push(first, cut - 1);
            }
            if taken < length {
                upper.push(cut, last);
            }
        }
        (lower, upper)
    }

    /// Appends a range that begins no earlier than the last one, and joins it with that when they touch.
    fn push(&mut self, first: u16, last: u16) {
        assert!(first <= last && last < Slot::COUNT, "slots from outside are checked where they come in");
        match self.ranges.last_mut() {
            Some(end) if first <= end.1 + 1 => end.1 = end.1.max(last),
            _ => self.ranges.push((first, last)),
        }
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut sorted: Vec<Slot> = slots.into_iter().collect();
        sorted.sort_unstable();
        let mut set = Self::new();
        for slot in sorted {
            set.push(slot.0, slot.0);
        }
        set
    }
}

impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &(first, last)) in self.ranges.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        if self.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for SlotSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.ranges.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SlotSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ranges = Vec::<(u16, u16)>::deserialize(deserializer)?;
        let mut before = None;
        for &(first, last) in &ranges {
            follows(before, first, last).map_err(serde::de::Error::custom)?;
            if before.is_some_and(|end: u16| end + 1 == first) {
                return Err(serde::de::Error::custom(Malformed::NotCanonical(first, last)));
            }
            before = Some(last);
        }
        Ok(Self { ranges })
    }
}

/// A map from slots to values that are the same over long stretches.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SlotMap<V> {
    /// (first, last, value): inclusive, ascending, disjoint; neighbours that touch have different values.
    runs: Vec<(u16, u16, V)>,
}

impl<V> SlotMap<V> {
    pub const fn new() -> Self {
        Self { runs: Vec::new() }
    }

    #[inline]
    pub fn get(&self, slot: Slot) -> Option<&V> {
        let at = self.runs.partition_point(|run| run.1 < slot.0);
        self.runs.get(at).filter(|run| run.0 <= slot.0).map(|run| &run.2)
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn clear(&mut self) {
        self.runs.clear();
    }

    /// The slots that have a value.
    pub fn keys(&self) -> SlotSet {
        let mut set = SlotSet::new();
        for &(first, last, _) in &self.runs {
            set.push(first, last);
        }
        set
    }

    /// Are these its keys, neither more nor fewer? Without a set of them.
    pub fn has_just(&self, slots: &SlotSet) -> bool {
        let mut runs = self.runs.iter();
        let covers = |(first, last): &(u16, u16)| {
            let mut next = u32::from(*first);
            while next <= u32::from(*last) {
                match runs.next() {
                    Some(run) if u32::from(run.0) == next && run.1 <= *last => next = u32::from(run.1) + 1,
                    _ => return false,
                }
            }
            true
        };
        slots.ranges.iter().all(covers) && runs.next().is_none()
    }

    /// The slots whose value is such.
    pub fn where_value(&self, such: impl Fn(&V) -> bool) -> SlotSet {
        let mut set = SlotSet::new();
        for &(first, last, _) in self.runs.iter().filter(|run| such(&run.2)) {
            set.push(first, last);
        }
        set
    }

    /// (first, last, value), both ends included.
    pub fn runs(&self) -> impl Iterator<Item = (Slot, Slot, &V)> + '_ {
        self.runs.iter().map(|(first, last, value)| (Slot(*first), Slot(*last), value))
    }

    /// One value per run: the same value comes again when another lies between.
    pub fn values(&self) -> impl Iterator<Item = &V> + '_ {
        self.runs.iter().map(|run| &run.2)
    }
}

impl<V: Clone + PartialEq> SlotMap<V> {
    /// Gives all of these slots this value, whatever they had before.
    #[allow(clippy::needless_pass_by_value, reason = "a map owns its values, whatever it does inside")]
    pub fn set(&mut self, slots: &SlotSet, value: V) {
        if slots.is_empty() {
            return;
        }
        let mut result = Self::new();
        let mut added = slots.ranges.iter().copied().peekable();
        for (first, last, old) in remainders(self.runs.iter().map(|r| (r.0, r.1, &r.2)), &slots.ranges) {
            while let Some((f, l)) = added.next_if(|a| a.0 < first) {
                result.push(f, l, &value);
            }
            result.push(first, last, old);
        }
        for (first, last) in added {
            result.push(first, last, &value);
        }
        *self = result;
    }

    pub fn remove(&mut self, slots: &SlotSet) {
        let mut result = Self::new();
        for (first, last, value) in remainders(self.runs.iter().map(|r| (r.0, r.1, &r.2)), &slots.ranges) {
            result.push(first, last, value);
        }
        *self = result;
    }

    /// The part of this map that lies in `slots`.
    #[must_use]
    pub fn restrict(&self, slots: &SlotSet) -> Self {
        let mut result = Self::new();
        for (first, last, value) in overlaps(self.runs.iter().map(|r| (r.0, r.1, &r.2)), &slots.ranges) {
            result.push(first, last, value);
        }
        result
    }

    /// From runs in any order; nothing when two of them overlap.
    pub(crate) fn from_runs(mut runs: Vec<(Slot, Slot, V)>) -> Option<Self> {
        runs.sort_unstable_by_key(|run| run.0);
        let mut result = Self::new();
        for (first, last, value) in runs {
            if result.runs.last().is_some_and(|end| first.0 <= end.1) {
                return None;
            }
            result.push(first.0, last.0, &value);
        }
        Some(result)
    }

    /// Appends a run that begins after the last one.
    fn push(&mut self, first: u16, last: u16, value: &V) {
        match self.runs.last_mut() {
            Some(end) if end.1 + 1 == first && end.2 == *value => end.1 = last,
            _ => self.runs.push((first, last, value.clone())),
        }
    }
}

impl<V> Default for SlotMap<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: fmt::Debug> fmt::Debug for SlotMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.runs.iter().map(|(first, last, value)| (SlotSet::range(Slot(*first), Slot(*last)), value)))
            .finish()
    }
}

impl<V: Serialize> Serialize for SlotMap<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.runs.serialize(serializer)
    }
}

impl<'de, V: Deserialize<'de> + PartialEq> Deserialize<'de> for SlotMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let runs = Vec::<(u16, u16, V)>::deserialize(deserializer)?;
        let mut before: Option<&(u16, u16, V)> = None;
        for run in &runs {
            follows(before.map(|b| b.1), run.0, run.1).map_err(serde::de::Error::custom)?;
            if before.is_some_and(|b| b.1 + 1 == run.0 && b.2 == run.2) {
                return Err(serde::de::Error::custom(Malformed::NotCanonical(run.0, run.1)));
            }
            before = Some(run);
        }
        Ok(Self { runs })
    }
}

/// Whether a run that was received may stand after one that ended at `before`.
fn follows(before: Option<u16>, first: u16, last: u16) -> Result<(), Malformed> {
    if last >= Slot::COUNT {
        return Err(Malformed::NoSuchSlot(last));
    }
    if first > last || before.is_some_and(|end| first <= end) {
        return Err(Malformed::NotCanonical(first, last));
    }
    Ok(())
}

/// The parts of `runs` that lie in `ranges`, in order. Both are ascending and disjoint: one walk over the two.
fn overlaps<T: Copy>(
    mut runs: impl Iterator<Item = (u16, u16, T)>,
    ranges: &[(u16, u16)],
) -> impl Iterator<Item = (u16, u16, T)> {
    let mut current = runs.next();
    let mut at = 0;
    core::iter::from_fn(move || {
        loop {
            let (first, last, value) = current?;
            let &(from, to) = ranges.get(at)?;
            // Whichever ends first can overlap nothing further.
            if last <= to {
                current = runs.next();
            } else {
                at += 1;
            }
            if first.max(from) <= last.min(to) {
                return Some((first.max(from), last.min(to), value));
            }
        }
    })
}

/// The parts of `runs` that do not lie in `ranges`, in order.
fn remainders<T: Copy>(
    mut runs: impl Iterator<Item = (u16, u16, T)>,
    ranges: &[(u16, u16)],
) -> impl Iterator<Item = (u16, u16, T)> {
    let mut current = runs.next();
    let mut at = 0;
    core::iter::from_fn(move || {
        loop {
            let (first, last, value) = current?;
            match ranges.get(at) {
                Some(&(_, to)) if to < first => at += 1,
                Some(&(from, to)) if from <= last => {
                    // What lies behind the range is looked at again, against the ranges that follow.
                    current = if to < last { Some((to + 1, last, value)) } else { runs.next() };
                    if first < from {
                        return Some((first, from - 1, value));
                    }
                }
                _ => {
                    current = runs.next();
                    return Some((first, last, value));
                }
            }
        }
    })
}

#[cfg(test)]
#[path = "slots_test.rs"]
mod tests;
