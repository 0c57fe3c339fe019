//! The log of one bucket: entries after a base, each named by (term, index).
//!
//! They lie in runs, which are shared with whoever else has them. Only the last ones may be *open*: a primary appends one by one, and
//! closes them into a run when they are to be written and sent.
//!
//! A run costs something by itself, and whoever writes little at a time makes small ones. So now and then a new one takes small ones before it
//! along: they are copied together into one block, of which the record that goes to the disk shows only what is new. Whoever absorbs that
//! record has the entries before it in the same block, and lets go of its own ([`Log::adopt`]). Thus the journal, which keeps every log for a
//! second time, has the same memory, and nobody has to say so.

use alloc::collections::VecDeque;
use alloc::collections::vec_deque::Iter;
use core::hash::{Hash, Hasher};

use blueprint::{Index, Position, Slot, SlotSet, Term};
use bytes::BytesMut;

use crate::entries::Entries;
use crate::entry::{EntryRef, Payload};
use crate::run::{Open, Run};

/// More entries than any bucket will ever have: beyond it an index is not meant seriously.
pub(crate) const MOST_INDEX: u64 = 1 << 62;

/// Larger runs are not copied together: what a run costs by itself is little beside that.
const SMALL_BYTES: usize = 2 << 10;
/// When there are so many small ones, they are: so each entry is copied once, and few are in small runs at any time.
const JOINED_RUNS: usize = 16;
/// What was read back at a start is joined up to this: once, and with nobody waiting for a single entry.
const GATHERED_BYTES: usize = 32 << 10;

/// Entries `base.index + 1 ..= last().index`, contiguous, terms never falling. Everything up to the base is committed.
#[derive(Clone, Debug)]
pub struct Log {
    base: Position,
    /// The clock of the entry at the base, so that a successor can go on from it (R13).
    base_clock: u64,
    last: Position,
    runs: VecDeque<Run>,
    /// At least so many of the newest runs are small, of one term and without milestones: they can be joined.
    small: usize,
    /// What follows the runs.
    open: Open,
}

impl Log {
    pub fn new(base: Position, base_clock: u64) -> Self {
        Self { base, base_clock, last: base, runs: VecDeque::new(), small: 0, open: Open::default() }
    }

    /// With these, if they can follow the base.
    pub fn with(base: Position, base_clock: u64, entries: &Entries) -> Option<Self> {
        let mut log = Self::new(base, base_clock);
        if !entries.follow(base, Term(u64::MAX)) {
            return None;
        }
        entries.runs().cloned().for_each(|run| log.adopt(run));
        Some(log)
    }

    pub fn base(&self) -> Position {
        self.base
    }

    pub fn last(&self) -> Position {
        self.last
    }

    pub fn clock(&self) -> u64 {
        self.clock_at(self.last.index)
    }

    /// The clock of the entry at the base.
    pub fn base_clock(&self) -> u64 {
        self.base_clock
    }

    /// The clock of what stands at `index`, which must be held.
    pub(crate) fn clock_at(&self, index: Index) -> u64 {
        self.get(index).map_or(self.base_clock, |e| e.clock)
    }

    pub fn get(&self, index: Index) -> Option<EntryRef<'_>> {
        if index <= self.base.index || index > self.last.index {
            return None;
        }
        if !self.open.is_empty() && index >= self.open.first() {
            return Some(self.open.get((index.0 - self.open.first().0) as usize));
        }
        self.runs.get(self.run_of(index)).map(|run| run.get(index))
    }

    /// Which run has that index; those that come after all runs are in none.
    fn run_of(&self, index: Index) -> usize {
        // Mostly it is one of the newest.
        for (behind, run) in self.runs.iter().rev().take(3).enumerate() {
            if run.first() <= index {
                return self.runs.len() - 1 - behind + usize::from(run.last_index() < index);
            }
        }
        self.runs.partition_point(|run| run.last_index() < index)
    }

    /// What the command at `index` is stamped with: its slot, clock and seed. None for milestones, and for what is not here or open.
    pub(crate) fn stamped_command(&self, index: Index) -> Option<(Slot, u64, u64)> {
        if index <= self.base.index {
            return None;
        }
        match self.runs.back() {
            Some(run) if run.first() <= index && index <= run.last_index() => run.stamped_command(index),
            _ => self.runs.get(self.run_of(index))?.stamped_command(index),
        }
    }

    /// The name of what stands at `index`; the base counts.
    pub fn position(&self, index: Index) -> Option<Position> {
        if index == self.last.index {
            return Some(self.last);
        }
        if index <= self.base.index || index > self.last.index {
            return Some(self.base).filter(|base| base.index == index);
        }
        let term = self.runs.get(self.run_of(index)).map_or(self.open.term(), Run::term);
        Some(Position { term, index })
    }

    pub fn holds(&self, at: Position) -> bool {
        self.position(at.index) == Some(at)
    }

    /// Entries from `first` on.
    pub fn from(&self, first: Index) -> impl DoubleEndedIterator<Item = EntryRef<'_>> + Clone {
        assert!(first > self.base.index, "what was cut off cannot be read");
        let runs = self.runs_from(first).flat_map(Run::iter);
        runs.chain(self.open.iter()).filter(move |entry| entry.at.index >= first)
    }

    fn runs_from(&self, first: Index) -> Iter<'_, Run> {
        self.runs.range(self.run_of(first)..)
    }

    /// Entries from `first` on that nobody appends to any more: at most `most` of them, and as many as make about so many bytes, but at
    /// least one.
    pub(crate) fn frame(&self, first: Index, most: usize, bytes: usize) -> Entries {
        assert!(first > self.base.index && self.open.is_empty(), "what is sent was closed, and not cut off");
        let (mut frame, mut count, mut weight) = (Entries::default(), 0, 0);
        for run in self.runs_from(first) {
            if count >= most || weight >= bytes {
                break;
            }
            let run = run.clone().starting_at(first);
            let (mut last, all) = (run.last_index(), weight + run.bodies().len());
            if all < bytes && !run.may_have_milestones() {
                weight = all;
            } else {
                let full = run.iter().find(|entry| {
                    let full = weight >= bytes;
                    weight += entry.weight();
                    full
                });
                last = full.map_or(last, |entry| entry.at.index.prev());
            }
            last = last.min(Index(run.first().0 + (most - count) as u64 - 1));
            count += (last.0 + 1 - run.first().0) as usize;
            frame.push(run.ending_at(last));
        }
        frame
    }

    /// All of them, as they lie; none may be open.
    pub fn entries(&self) -> Entries {
        assert!(self.open.is_empty(), "what is written down was closed");
        self.runs.iter().cloned().collect()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = EntryRef<'_>> + Clone {
        self.runs.iter().flat_map(Run::iter).chain(self.open.iter())
    }

    /// Those that are not commands.
    pub fn milestones(&self) -> impl DoubleEndedIterator<Item = EntryRef<'_>> {
        let runs = self.runs.iter().filter(|run| run.may_have_milestones()).flat_map(Run::iter);
        let open = self.open.may_have_milestones().then_some(&self.open);
        runs.chain(open.into_iter().flat_map(Open::iter)).filter(EntryRef::is_milestone)
    }

    /// Those of them above that index. What lies below is not looked at: this is asked with every commit of a bucket that grows, and of
    /// every bucket with each blueprint.
    pub fn milestones_after(&self, index: Index) -> impl DoubleEndedIterator<Item = EntryRef<'_>> {
        let first = index.max(self.base.index).next();
        let runs = self.runs_from(first).filter(|run| run.may_have_milestones()).flat_map(Run::iter);
        let open = self.open.may_have_milestones().then_some(&self.open);
        let all = runs.chain(open.into_iter().flat_map(Open::iter));
        all.filter(move |entry| entry.at.index >= first && entry.is_milestone())
    }

    /// What entries and their heads take.
    pub fn bytes(&self) -> usize {
        self.runs.iter().map(Run::bytes).sum::<usize>() + self.open.bytes()
    }

    /// What those from `first` to `last` take, which nobody appends to any more.
    pub fn bytes_of(&self, first: Index, last: Index) -> usize {
        if first > last {
            return 0;
        }
        let runs = self.runs_from(first).take_while(|run| run.first() <= last);
        let part = |run: &Run| run.clone().starting_at(first).ending_at(last);
        let bytes =
            |run: &Run| if run.first() >= first && run.last_index() <= last { run.bytes() } else { part(run).bytes() };
        runs.map(bytes).sum()
    }

    /// Where what ends at `upto`, which must be held, begins if it may have so many entries and take so many bytes. What stands there is not
    /// part of it.
    pub(crate) fn behind(&self, upto: Index, entries: u64, bytes: u64) -> Index {
        let first = Index(upto.0.saturating_sub(entries)).max(self.base.index);
        let mut left = bytes;
        for run in
            self.runs.iter().rev().skip_while(|run| run.first() > upto).take_while(|run| run.last_index() > first)
        {
            let run = run.clone().ending_at(upto);
            if run.bytes() as u64 <= left {
                left -= run.bytes() as u64;
                continue;
            }
            let fits = |first: &Index| run.clone().starting_at(*first).bytes() as u64 <= left;
            let begins = (run.first().0..=run.last_index().0).rev().map(Index).take_while(fits).last();
            return first.max(begins.map_or(run.last_index(), Index::prev));
        }
        first
    }

    /// In how many runs they lie.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// What Absorbs after `base` bring: whoever begins there meets them in the log, and has the slots from then on. (Otherwise a member that
    /// took them over from its own copy and restarts says that it misses them, until it has applied the Absorb again: seed 4954.)
    pub(crate) fn absorbed_after(&self, base: Index) -> SlotSet {
        let absorbed = self.milestones_after(base).filter_map(|e| e.absorb());
        absorbed.fold(SlotSet::empty(), |all, (.., slots)| all.union(&slots))
    }

    /// Can an entry of that term join what is open?
    pub(crate) fn is_open_to(&self, term: Term) -> bool {
        self.open.is_empty() || self.open.term() == term && !self.open.is_full()
    }

    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// A command, as `write` encodes it, in at most so many bytes.
    pub(crate) fn push_command(
        &mut self,
        term: Term,
        (clock, seed): (u64, u64),
        slot: Slot,
        most: usize,
        write: impl FnOnce(&mut BytesMut),
    ) -> Index {
        let index = self.open_up(term);
        self.open.push_command(clock, seed, slot, most, write);
        index
    }

    pub(crate) fn push(&mut self, term: Term, clock: u64, seed: u64, payload: &Payload) -> Index {
        let index = self.open_up(term);
        self.open.push(clock, seed, payload);
        index
    }

    fn open_up(&mut self, term: Term) -> Index {
        assert!(term >= self.last.term, "terms never fall along a log");
        let index = self.last.index.next();
        if self.open.is_empty() {
            self.open.begin(term, index);
        }
        assert!(self.open.term() == term, "what is open is of one term");
        self.last = Position { term, index };
        index
    }

    /// What was open is a run from now on: that, and what stands before it.
    pub(crate) fn close(&mut self) -> Option<(Position, Run)> {
        if self.open.is_empty() {
            return None;
        }
        let previous = self.runs.back().map_or(self.base, Run::last);
        let run = self.open.close();
        Some((previous, self.take(run)))
    }

    /// A run that follows. What is to be written of it is as it lies here from then on.
    pub(crate) fn append(&mut self, run: Run) -> Run {
        self.check_follows(&run);
        self.take(run)
    }

    fn take(&mut self, run: Run) -> Run {
        let is_small = !run.may_have_milestones() && run.bytes() <= SMALL_BYTES;
        let goes_on = self.runs.back().is_some_and(|last| last.term() == run.term());
        self.small = if !is_small {
            0
        } else if goes_on {
            self.small + 1
        } else {
            1
        };
        self.last = run.last();
        self.runs.push_back(run.clone());
        if self.small < JOINED_RUNS {
            return run;
        }
        let first = self.runs.len() - self.small;
        let joined = Run::joined(self.runs.range(first..)).expect("there is something in it");
        self.runs.truncate(first);
        self.runs.push_back(joined.clone());
        self.small = 0;
        joined.starting_at(run.first())
    }

    /// A run that follows, as somebody else has it. If its block has the newest ones of this log too, they are taken from there.
    pub(crate) fn adopt(&mut self, mut run: Run) {
        self.check_follows(&run);
        while let Some(before) = self.runs.back()
            && run.follows_in_block(before)
        {
            run = run.reaching_back_to(before.first());
            self.runs.pop_back();
        }
        self.last = run.last();
        self.runs.push_back(run);
    }

    fn check_follows(&self, run: &Run) {
        assert!(self.open.is_empty(), "a run follows runs");
        assert_eq!(run.first(), self.last.index.next(), "a log has no holes");
        assert!(run.term() >= self.last.term, "terms never fall along a log");
    }

    /// Copies small runs together. For what was read from a disk, where each lies as it was once written.
    pub fn gather(&mut self) {
        assert!(self.open.is_empty(), "what was read is closed");
        let mut before = core::mem::take(&mut self.runs);
        while let Some(first) = before.front() {
            let (term, mut sum) = (first.term(), 0);
            let fits = |run: &&Run| {
                sum += run.bytes();
                run.term() == term && (sum <= GATHERED_BYTES || sum == run.bytes())
            };
            let count = before.iter().take_while(fits).count();
            let joined = if count > 1 { Run::joined(before.range(..count)) } else { before.front().cloned() };
            self.runs.extend(joined);
            before.drain(..count);
        }
        self.runs.shrink_to_fit();
        self.small = 0;
    }

    /// Removes `from` and everything after it.
    pub fn truncate(&mut self, from: Index) {
        assert!(from > self.base.index, "the base is committed");
        assert!(self.open.is_empty(), "nobody truncates what it appends itself");
        if from > self.last.index {
            return;
        }
        self.small = 0;
        while let Some(run) = self.runs.pop_back() {
            if run.first() < from {
                self.runs.push_back(run.ending_at(from.prev()));
                break;
            }
        }
        self.last = self.runs.back().map_or(self.base, Run::last);
    }

    /// Forgets everything up to `base`, which must be held.
    pub fn cut(&mut self, base: Position) {
        assert!(self.holds(base), "a log is cut at an entry that it holds");
        if base.index == self.base.index {
            return;
        }
        assert!(!self.has_open() || base.index < self.open.first(), "what is committed is closed");
        self.base_clock = self.get(base.index).expect("held").clock;
        self.base = base;
        while let Some(run) = self.runs.pop_front() {
            if run.last_index() > base.index {
                self.runs.push_front(run.starting_at(base.index.next()));
                break;
            }
        }
        self.small = self.small.min(self.runs.len());
    }

    pub(crate) fn without_stamps(&self) -> Self {
        let mut same = Self::new(self.base, 0);
        let stripped: Entries = self.iter().map(|entry| entry.without_stamps()).collect();
        stripped.runs().cloned().for_each(|run| same.adopt(run));
        same
    }

    pub fn len(&self) -> u64 {
        self.last.index.0 - self.base.index.0
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// By what is in it, however it lies.
impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        let same_ends = (self.base, self.base_clock, self.last) == (other.base, other.base_clock, other.last);
        same_ends && self.iter().eq(other.iter())
    }
}

impl Eq for Log {}

impl Hash for Log {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.base, self.base_clock, self.last).hash(state);
        self.iter().for_each(|entry| entry.hash(state));
    }
}

#[cfg(test)]
#[path = "log_test.rs"]
mod tests;
