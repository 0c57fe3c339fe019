//! What a node holds of one owner: rows, and the numbers that say what they amount to.
//!
//! `known` is the contiguous point: every update of the owner up to it is in the rows, whole. Only the newest version of a row is
//! kept, so a state between two numbers exists nowhere; that is why parts of an answer are gathered before any of them counts.
//!
//! A removed or expired row stays as a tombstone until no older version of it can be alive anywhere. `floor` is the highest number of
//! a row that was forgotten after that: who knows less than the floor cannot be told what to remove, and takes everything anew.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound;
use core::time::Duration;

use blueprint::{Breach, Conduct, Instant, NodeId};
use bytes::Bytes;

use crate::config::{Config, ROW_OVERHEAD};
use crate::number::UpdateNumber;
use crate::part::{Content, Key, Row};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Holding {
    /// `floor <= known`, and no row has a higher number than `known`.
    pub(crate) known: UpdateNumber,
    pub(crate) floor: UpdateNumber,
    /// The newest number that was offered and refused because of a gap.
    pub(crate) offered: UpdateNumber,
    rows: BTreeMap<Key, Held>,
    /// The same rows in the order of their updates.
    by_number: BTreeSet<(UpdateNumber, Key)>,
    /// The same rows in the order in which something happens to them by itself.
    due: BTreeSet<(Instant, Key)>,
}

/// A row, with times on this node's clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    pub(crate) number: UpdateNumber,
    pub(crate) state: State,
    /// Then it is forgotten. A value expires before that.
    pub(crate) kept_until: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Value { bytes: Bytes, expires: Instant },
    Gone,
    TakenOver { upto: UpdateNumber },
}

impl Holding {
    pub(crate) fn get(&self, key: &Key) -> Option<&Held> {
        self.rows.get(key)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Key, &Held)> {
        self.rows.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The owners that this one took over, and up to where.
    pub(crate) fn predecessors(&self) -> impl Iterator<Item = (NodeId, UpdateNumber)> {
        let lowest = Key::Predecessor(NodeId(0));
        self.rows.range(lowest..).filter_map(|(key, held)| held.taken_over(key))
    }

    /// Everything between what is known and `upto`: the rows and the number change together. Returns what changed for a watcher.
    pub(crate) fn merge<C: Conduct>(&mut self, rows: Vec<(Key, Held)>, upto: UpdateNumber) -> Vec<Key> {
        let mut changed = Vec::new();
        for (key, held) in rows {
            let is_value = held.is_value();
            let before = self.rows.get(&key).map(|old| (old.number, old.is_value()));
            if before.is_none_or(|(number, _)| number < held.number) {
                if is_value || before.is_some_and(|(_, was_value)| was_value) {
                    changed.push(key.clone());
                }
                self.put::<C>(key, held);
            }
        }
        self.known = self.known.max(upto);
        changed
    }

    /// Everything there is up to `upto`, whatever was here before.
    pub(crate) fn replace<C: Conduct>(
        &mut self,
        rows: Vec<(Key, Held)>,
        upto: UpdateNumber,
        floor: UpdateNumber,
    ) -> Vec<Key> {
        let new = Self { known: upto, floor, offered: self.offered, ..Self::default() };
        let old = core::mem::replace(self, new);
        for (key, held) in rows {
            self.put::<C>(key, held);
        }
        let value = |holding: &Self, key: &Key| holding.rows.get(key).filter(|h| h.is_value()).map(|h| h.number);
        let keys: BTreeSet<&Key> = old.rows.keys().chain(self.rows.keys()).collect();
        keys.into_iter().filter(|key| value(&old, key) != value(self, key)).cloned().collect()
    }

    /// Another owner has taken over everything up to `upto`.
    pub(crate) fn clear(&mut self, upto: UpdateNumber) -> Vec<Key> {
        let changed = self.rows.iter().filter(|(_, held)| held.is_value()).map(|(key, _)| key.clone()).collect();
        *self = Self { known: upto, floor: upto, ..Self::default() };
        changed
    }

    fn put<C: Conduct>(&mut self, key: Key, held: Held) {
        self.remove(&key);
        if held.state == State::Gone && C::breaks(Breach::TombstoneDroppedEarly) {
            return;
        }
        self.by_number.insert((held.number, key.clone()));
        self.due.insert((held.due(), key.clone()));
        self.rows.insert(key, held);
    }

    fn remove(&mut self, key: &Key) -> Option<Held> {
        let held = self.rows.remove(key)?;
        self.by_number.remove(&(held.number, key.clone()));
        self.due.remove(&(held.due(), key.clone()));
        Some(held)
    }

    /// Values whose time is up become tombstones; tombstones whose time is up are forgotten. Returns what expired.
    pub(crate) fn lapse(&mut self, now: Instant) -> Vec<Key> {
        let mut expired = Vec::new();
        // Asked of every owner in every step: it must cost nothing while nothing is due.
        while self.due().is_some_and(|at| at <= now) {
            let (_, key) = self.due.first().cloned().expect("something is due");
            let held = self.remove(&key).expect("what is due is there");
            if held.is_value() && now < held.kept_until {
                // Of the same number: whoever has the value lets it expire by itself, and needs no message.
                let gone = Held { state: State::Gone, ..held };
                self.by_number.insert((gone.number, key.clone()));
                self.due.insert((gone.due(), key.clone()));
                self.rows.insert(key.clone(), gone);
                expired.push(key);
            } else {
                self.floor = self.floor.max(held.number);
                if held.is_value() {
                    expired.push(key);
                }
            }
        }
        expired
    }

    /// Whole updates after `after`, as many as fit in a message and at least one; and up to where they go, which is `as_of` if that
    /// is all.
    pub(crate) fn collect(
        &self,
        after: UpdateNumber,
        as_of: UpdateNumber,
        config: &Config,
        now: Instant,
    ) -> (Vec<Row>, UpdateNumber) {
        let mut rows: Vec<Row> = Vec::new();
        let mut bytes = 0;
        // How many rows there are up to the last number that is complete.
        let mut fits = (0, after);
        let from = Bound::Included((after.next(), Key::Name(Bytes::new())));
        for (number, key) in self.by_number.range((from, Bound::Unbounded)) {
            let held = &self.rows[key];
            bytes += row_bytes(key, held);
            if let Some(last) = rows.last()
                && last.number != *number
            {
                fits = (rows.len(), last.number);
            }
            if fits.0 > 0 && (rows.len() >= config.part_rows || bytes > config.part_bytes) {
                rows.truncate(fits.0);
                return (rows, fits.1);
            }
            rows.push(held.row(key, config, now));
        }
        (rows, as_of)
    }

    pub(crate) fn check_invariants(&self) {
        assert!(self.floor <= self.known, "the floor is under what is known");
        assert_eq!(self.rows.len(), self.by_number.len(), "every row has one number");
        assert_eq!(self.rows.len(), self.due.len(), "every row is due once");
        for (key, held) in &self.rows {
            assert!(held.number <= self.known, "a row is newer than what is known");
            assert!(self.by_number.contains(&(held.number, key.clone())), "a row is listed under its number");
            assert!(self.due.contains(&(held.due(), key.clone())), "a row is listed when it is due");
        }
    }
}

pub(crate) fn row_bytes(key: &Key, held: &Held) -> usize {
    let value = match &held.state {
        State::Value { bytes, .. } => bytes.len(),
        State::Gone | State::TakenOver { .. } => 0,
    };
    key.len() + value + ROW_OVERHEAD
}

impl Held {
    /// A row that came with a message, or from disk. Nobody else's idea of the longest life counts here.
    pub(crate) fn new(row: Row, config: &Config, now: Instant) -> (Key, Self) {
        let age = row.age.min(config.keep());
        let state = match row.content {
            Content::Value { bytes, left } => {
                State::Value { bytes, expires: now + left.min(config.longest_life.saturating_sub(age)) }
            }
            Content::Gone => State::Gone,
            Content::TakenOver { upto } => State::TakenOver { upto },
        };
        (row.key, Self { number: row.number, state, kept_until: now + (config.keep() - age) })
    }

    pub(crate) fn row(&self, key: &Key, config: &Config, now: Instant) -> Row {
        let content = match &self.state {
            State::Value { bytes, expires } if now < *expires => {
                Content::Value { bytes: bytes.clone(), left: expires.since(now) }
            }
            State::Value { .. } | State::Gone => Content::Gone,
            State::TakenOver { upto } => Content::TakenOver { upto: *upto },
        };
        Row { key: key.clone(), number: self.number, age: self.age(config, now), content }
    }

    pub(crate) fn age(&self, config: &Config, now: Instant) -> Duration {
        config.keep().saturating_sub(self.kept_until.since(now))
    }

    pub(crate) fn is_value(&self) -> bool {
        matches!(self.state, State::Value { .. })
    }

    fn due(&self) -> Instant {
        match self.state {
            State::Value { expires, .. } => expires.min(self.kept_until),
            State::Gone | State::TakenOver { .. } => self.kept_until,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use blueprint::Honest;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn config() -> Config {
        Config { longest_life: 10 * SECOND, margin: SECOND, part_rows: 2, owner_rows: 100, ..Config::default() }
    }

    fn number(count: u64) -> UpdateNumber {
        UpdateNumber::new(100, count)
    }

    fn row(key: &'static str, count: u64, left: u64) -> (Key, Held) {
        let content = match left {
            0 => Content::Gone,
            _ => Content::Value { bytes: Bytes::from_static(b"v"), left: Duration::from_secs(left) },
        };
        let key = Key::Name(Bytes::from_static(key.as_bytes()));
        Held::new(Row { key, number: number(count), age: Duration::ZERO, content }, &config(), Instant::ZERO)
    }

    fn keys(rows: &[Row]) -> Vec<UpdateNumber> {
        rows.iter().map(|row| row.number).collect()
    }

    #[test]
    fn an_answer_is_cut_between_updates_never_inside_one() {
        let mut holding = Holding::default();
        holding.merge::<Honest>(vec![row("a", 1, 5), row("b", 2, 5), row("c", 2, 5), row("d", 3, 5)], number(3));
        holding.check_invariants();
        let (rows, upto) = holding.collect(UpdateNumber::ZERO, number(3), &config(), Instant::ZERO);
        assert_eq!((keys(&rows), upto), (vec![number(1)], number(1)), "b and c do not fit together with a");
        let (rows, upto) = holding.collect(number(1), number(3), &config(), Instant::ZERO);
        assert_eq!((keys(&rows), upto), (vec![number(2), number(2)], number(2)));
        let (rows, upto) = holding.collect(number(2), number(3), &config(), Instant::ZERO);
        assert_eq!((keys(&rows), upto), (vec![number(3)], number(3)));
    }

    #[test]
    fn an_older_version_never_replaces_a_newer_one() {
        let mut holding = Holding::default();
        assert_eq!(holding.merge::<Honest>(vec![row("a", 2, 0)], number(2)), vec![], "nobody saw it before");
        assert_eq!(holding.merge::<Honest>(vec![row("a", 1, 5)], number(1)), vec![]);
        assert_eq!(holding.known, number(2));
        assert!(!holding.rows().any(|(_, held)| held.is_value()));
    }

    #[test]
    fn a_value_expires_then_its_tombstone_is_forgotten_and_the_floor_remembers() {
        let mut holding = Holding::default();
        holding.merge::<Honest>(vec![row("a", 1, 5), row("b", 2, 9)], number(2));
        assert_eq!(holding.lapse(Instant::ZERO + 5 * SECOND).len(), 1);
        assert_eq!((holding.len(), holding.floor), (2, UpdateNumber::ZERO), "its tombstone is kept");
        holding.check_invariants();
        assert_eq!(holding.lapse(Instant::ZERO + 11 * SECOND).len(), 1, "b expired long ago");
        assert_eq!((holding.len(), holding.floor, holding.known), (0, number(2), number(2)));
    }

    #[test]
    fn what_travels_is_time_left() {
        let (key, held) = row("a", 1, 8);
        let later = Instant::ZERO + 3 * SECOND;
        let sent = held.row(&key, &config(), later);
        assert_eq!(sent.age, 3 * SECOND);
        // Another clock altogether.
        let there = Instant(77_000_000);
        let (_, held) = Held::new(sent, &config(), there);
        assert_eq!(held.age(&config(), there), 3 * SECOND);
        assert!(matches!(held.state, State::Value { expires, .. } if expires == there + 5 * SECOND));
    }

    #[test]
    fn replacing_tells_watchers_only_what_differs() {
        let mut holding = Holding::default();
        holding.merge::<Honest>(vec![row("a", 1, 5), row("b", 2, 5), row("c", 3, 5)], number(3));
        let changed = holding.replace::<Honest>(vec![row("a", 1, 5), row("b", 4, 5)], number(4), number(3));
        assert_eq!(changed.len(), 2, "b is newer, c is gone, a is the same");
        assert_eq!((holding.known, holding.floor), (number(4), number(3)));
        holding.check_invariants();
    }
}
