//! The log of one bucket: entries after a base, each named by (term, index).

use alloc::vec::Vec;

use blueprint::{BucketId, Index, Position, Slot, SlotSet, Term};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    pub at: Position,
    /// The clock of the data, in microseconds: execution knows no other (R13).
    pub clock: u64,
    /// Where execution takes its randomness from.
    pub seed: u64,
    pub payload: Payload,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Payload {
    /// Begins a rule (R4).
    Reign,
    /// Touches one slot; what it means is not known here.
    Command { slot: Slot, body: Bytes },
    /// From here on these slots are the child's.
    Split { child: BucketId, slots: SlotSet },
    /// Nothing but Reigns follows: this bucket becomes part of that one.
    Freeze { into: BucketId },
    /// From here on the slots of that bucket, as they stand at its Freeze, are this one's.
    /// The clock of their data goes on: it is `ahead` of this bucket's.
    Absorb { from: BucketId, freeze: Position, slots: SlotSet, ahead: i64 },
}

impl Payload {
    /// The blueprint, or another bucket, will count on it: at level `memory` it is not safe before it is on disk.
    pub fn is_counted_on(&self) -> bool {
        match self {
            Self::Split { .. } | Self::Freeze { .. } | Self::Absorb { .. } => true,
            Self::Reign | Self::Command { .. } => false,
        }
    }

    /// What it weighs in a frame; all but commands are small.
    fn len(&self) -> usize {
        match self {
            Self::Command { body, .. } => body.len(),
            Self::Reign | Self::Split { .. } | Self::Freeze { .. } | Self::Absorb { .. } => 0,
        }
    }
}

impl Entry {
    /// Of which bucket, as of which Freeze, with which slots.
    pub(crate) fn absorb(&self) -> Option<(BucketId, Position, &SlotSet)> {
        match &self.payload {
            Payload::Absorb { from, freeze, slots, .. } => Some((*from, *freeze, slots)),
            Payload::Reign | Payload::Command { .. } | Payload::Split { .. } | Payload::Freeze { .. } => None,
        }
    }

    /// Leaves what says where the log stands, and takes what only execution reads.
    pub(crate) fn strip_stamps(&mut self) {
        (self.clock, self.seed) = (0, 0);
        if let Payload::Absorb { ahead, .. } = &mut self.payload {
            *ahead = 0;
        }
    }
}

/// More entries than any bucket will ever have: beyond it an index is not meant seriously.
pub(crate) const MOST_INDEX: u64 = 1 << 62;

/// Entries `base.index + 1 ..= last().index`, contiguous, terms never falling. Everything up to the base is committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    base: Position,
    /// The clock of the entry at the base, so that a successor can go on from it (R13).
    base_clock: u64,
    entries: Vec<Entry>,
}

impl Log {
    pub fn new(base: Position, base_clock: u64) -> Self {
        Self { base, base_clock, entries: Vec::new() }
    }

    pub fn base(&self) -> Position {
        self.base
    }

    pub fn last(&self) -> Position {
        self.entries.last().map_or(self.base, |e| e.at)
    }

    pub fn clock(&self) -> u64 {
        self.entries.last().map_or(self.base_clock, |e| e.clock)
    }

    /// The clock of the entry at the base.
    pub fn base_clock(&self) -> u64 {
        self.base_clock
    }

    /// The clock of what stands at `index`, which must be held.
    pub(crate) fn clock_at(&self, index: Index) -> u64 {
        self.get(index).map_or(self.base_clock, |e| e.clock)
    }

    pub fn get(&self, index: Index) -> Option<&Entry> {
        let offset = index.0.checked_sub(self.base.index.0 + 1)?;
        self.entries.get(offset as usize)
    }

    /// The name of what stands at `index`; the base counts.
    pub fn position(&self, index: Index) -> Option<Position> {
        if index == self.base.index { Some(self.base) } else { self.get(index).map(|e| e.at) }
    }

    pub fn holds(&self, at: Position) -> bool {
        self.position(at.index) == Some(at)
    }

    /// Entries from `first` on, at most `most` of them.
    pub fn from(&self, first: Index, most: usize) -> &[Entry] {
        assert!(first > self.base.index, "what was cut off cannot be read");
        let start = ((first.0 - self.base.index.0 - 1) as usize).min(self.entries.len());
        let end = (start + most).min(self.entries.len());
        &self.entries[start..end]
    }

    /// As many of them as make about so many bytes, and at least one.
    pub fn frame(&self, first: Index, most: usize, bytes: usize) -> &[Entry] {
        let entries = self.from(first, most);
        let mut before = 0;
        let full = entries.iter().position(|entry| {
            let full = before >= bytes;
            before += entry.payload.len();
            full
        });
        &entries[..full.unwrap_or(entries.len())]
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// What Absorbs after `base` bring: whoever begins there meets them in the log, and has the slots from then on. (Otherwise a member that
    /// took them over from its own copy and restarts says that it misses them, until it has applied the Absorb again: seed 4954.)
    pub(crate) fn absorbed_after(&self, base: Index) -> SlotSet {
        let absorbed = self.entries.iter().filter(|e| e.at.index > base).filter_map(Entry::absorb);
        absorbed.fold(SlotSet::empty(), |all, (.., slots)| all.union(slots))
    }

    pub fn push(&mut self, entry: Entry) {
        assert_eq!(entry.at.index, self.last().index.next(), "a log has no holes");
        assert!(entry.at.term >= self.last().term, "terms never fall along a log");
        self.entries.push(entry);
    }

    /// Removes `from` and everything after it.
    pub fn truncate(&mut self, from: Index) {
        assert!(from > self.base.index, "the base is committed");
        self.entries.truncate((from.0 - self.base.index.0 - 1) as usize);
    }

    /// Forgets everything up to `base`, which must be held.
    pub fn cut(&mut self, base: Position) {
        assert!(self.holds(base), "a log is cut at an entry that it holds");
        if base.index > self.base.index {
            self.base_clock = self.get(base.index).expect("held").clock;
            self.entries.drain(..(base.index.0 - self.base.index.0) as usize);
            self.base = base;
        }
    }

    pub(crate) fn without_stamps(mut self) -> Self {
        self.base_clock = 0;
        self.entries.iter_mut().for_each(Entry::strip_stamps);
        self
    }

    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Could these follow `previous`, in a message of `term`? Nothing from outside may reach an assert.
    pub fn well_formed(previous: Position, entries: &[Entry], term: Term) -> bool {
        let mut before = previous;
        for entry in entries {
            if entry.at.index.0 >= MOST_INDEX
                || entry.at.index.0 != before.index.0.wrapping_add(1)
                || entry.at.term < before.term
                || entry.at.term > term
            {
                return false;
            }
            before = entry.at;
        }
        previous.term <= term && before.index.0 < MOST_INDEX
    }
}
