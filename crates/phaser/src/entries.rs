//! Entries that records and messages bring: a run, or a few that follow each other.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use blueprint::{Index, Position, Term};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::entry::{Entry, EntryRef};
use crate::log::MOST_INDEX;
use crate::run::{Open, Run};

/// What is in it is shared, not copied. Mostly it is one run, which then needs no memory of its own.
#[derive(Clone, Default)]
pub struct Entries {
    first: Option<Run>,
    /// Only if there is a first.
    more: Vec<Run>,
}

impl Entries {
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub fn len(&self) -> usize {
        self.runs().map(Run::len).sum()
    }

    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &Run> + Clone {
        self.first.iter().chain(&self.more)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = EntryRef<'_>> + Clone {
        self.runs().flat_map(Run::iter)
    }

    pub(crate) fn first_index(&self) -> Option<Index> {
        self.first.as_ref().map(Run::first)
    }

    pub fn last(&self) -> Option<EntryRef<'_>> {
        self.last_run().map(Run::end)
    }

    fn last_run(&self) -> Option<&Run> {
        self.more.last().or(self.first.as_ref())
    }

    /// The name of the last one, or of what stands before them if there is none.
    pub(crate) fn end(&self, previous: Position) -> Position {
        self.last_run().map_or(previous, Run::last)
    }

    /// What they take to be written, about.
    pub fn bytes(&self) -> usize {
        self.runs().map(|run| run.bytes() + 16).sum()
    }

    /// Others will count on one of them ([`EntryRef::is_counted_on`]).
    pub fn are_counted_on(&self) -> bool {
        self.milestones().any(|entry| entry.is_counted_on())
    }

    pub(crate) fn milestones(&self) -> impl Iterator<Item = EntryRef<'_>> {
        self.runs().filter(|run| run.may_have_milestones()).flat_map(Run::iter).filter(EntryRef::is_milestone)
    }

    pub(crate) fn reigns(&self) -> impl Iterator<Item = EntryRef<'_>> {
        self.milestones().filter(EntryRef::is_reign)
    }

    pub(crate) fn push(&mut self, run: Run) {
        if self.first.is_none() {
            self.first = Some(run);
        } else {
            self.more.push(run);
        }
    }

    /// Without those before `first`.
    pub(crate) fn starting_at(self, first: Index) -> Self {
        let later = self.first.into_iter().chain(self.more).filter(|run| run.last().index >= first);
        later.map(|run| run.starting_at(first)).collect()
    }

    /// Could these follow `previous`, in a message of `term`? Nothing from outside may reach an assert.
    pub fn follow(&self, previous: Position, term: Term) -> bool {
        let mut before = previous;
        for run in self.runs() {
            if run.last().index.0 >= MOST_INDEX
                || run.first().0 != before.index.0.wrapping_add(1)
                || run.term() < before.term
                || run.term() > term
            {
                return false;
            }
            before = run.last();
        }
        previous.term <= term && before.index.0 < MOST_INDEX
    }

    pub(crate) fn without_stamps(&self) -> Self {
        self.iter().map(|entry| entry.without_stamps()).collect()
    }
}

impl From<Run> for Entries {
    fn from(run: Run) -> Self {
        Self { first: Some(run), more: Vec::new() }
    }
}

impl FromIterator<Run> for Entries {
    fn from_iter<I: IntoIterator<Item = Run>>(runs: I) -> Self {
        let mut entries = Self::default();
        runs.into_iter().for_each(|run| entries.push(run));
        entries
    }
}

/// Whether they follow each other or not: that is for [`Entries::follow`] to say.
impl FromIterator<Entry> for Entries {
    fn from_iter<I: IntoIterator<Item = Entry>>(all: I) -> Self {
        let mut entries = Self::default();
        let mut open: Option<Open> = None;
        for entry in all {
            match &mut open {
                Some(open) if open.goes_on_with(entry.at) => open.push(entry.clock, entry.seed, &entry.payload),
                _ => {
                    let before = open.replace(Open::of(&entry));
                    before.and_then(Open::finish).into_iter().for_each(|run| entries.push(run));
                }
            }
        }
        open.and_then(Open::finish).into_iter().for_each(|run| entries.push(run));
        entries
    }
}

/// By what they say, however they are grouped.
impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Entries {}

impl Hash for Entries {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|entry| entry.hash(state));
    }
}

impl core::fmt::Debug for Entries {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Entries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_seq(Some(self.runs().count()))?;
        self.runs().try_for_each(|run| all.serialize_element(run))?;
        all.end()
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Runs;
        impl<'de> serde::de::Visitor<'de> for Runs {
            type Value = Entries;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("runs of entries")
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut all: A) -> Result<Entries, A::Error> {
                let mut entries = Entries::default();
                while let Some(run) = all.next_element()? {
                    entries.push(run);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_seq(Runs)
    }
}
