//! The end of the log, in memory as well. Whatever is appended is asked for again at once, once for each other voter and once to apply
//! it: the threads that read the file need not be woken for that.

use std::collections::VecDeque;

use crate::raft::{Entry, LogId};

/// More than is ever on its way to a voter that keeps up.
const MOST_ENTRIES: usize = 64;
/// The same in bytes; the last entry is kept however large it is.
const MOST_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// None, or the last ones of the log without a gap.
    entries: VecDeque<(Entry, usize)>,
    bytes: usize,
    /// Where the log ends.
    last: Option<LogId>,
}

impl Recent {
    /// These are the last of the log now, each with its size.
    pub(crate) fn push(&mut self, entries: impl IntoIterator<Item = (Entry, usize)>) {
        for (entry, size) in entries {
            if self.next().is_some_and(|next| next != entry.log_id.index) {
                self.clear();
            }
            self.bytes += size;
            self.last = Some(entry.log_id);
            self.entries.push_back((entry, size));
            while self.entries.len() > MOST_ENTRIES || self.bytes > MOST_BYTES && self.entries.len() > 1 {
                self.forget_first();
            }
        }
    }

    pub(crate) fn last(&self) -> Option<LogId> {
        self.last
    }

    /// By the file.
    pub(crate) fn set_last(&mut self, last: Option<LogId>) {
        self.last = last;
    }

    /// The log ends before this one; where exactly, the file says.
    pub(crate) fn truncate(&mut self, since: u64) {
        while self.entries.back().is_some_and(|(entry, _)| entry.log_id.index >= since) {
            self.bytes -= self.entries.pop_back().map_or(0, |(_, size)| size);
        }
    }

    /// The log begins after this one, although it may not have come so far.
    pub(crate) fn purge(&mut self, upto: LogId) {
        while self.first().is_some_and(|first| first <= upto.index) {
            self.forget_first();
        }
        self.last = self.last.max(Some(upto));
    }

    /// Those from `from` on and before `to` that the log has: about so many bytes of them, and one at least. None: ask the file.
    pub(crate) fn get(&self, from: u64, to: u64, bytes: usize) -> Option<Vec<Entry>> {
        let skipped = from.checked_sub(self.first()?)?;
        let (mut found, mut left) = (Vec::new(), bytes);
        for (entry, size) in self.entries.iter().skip(skipped as usize).take_while(|(e, _)| e.log_id.index < to) {
            if *size > left && !found.is_empty() {
                break;
            }
            left = left.saturating_sub(*size);
            found.push(entry.clone());
        }
        Some(found)
    }

    fn first(&self) -> Option<u64> {
        self.entries.front().map(|(entry, _)| entry.log_id.index)
    }

    fn next(&self) -> Option<u64> {
        self.entries.back().map(|(entry, _)| entry.log_id.index + 1)
    }

    fn forget_first(&mut self) {
        self.bytes -= self.entries.pop_front().map_or(0, |(_, size)| size);
    }

    fn clear(&mut self) {
        (self.entries, self.bytes) = (VecDeque::new(), 0);
    }
}

#[cfg(test)]
mod tests {
    use openraft::{CommittedLeaderId, EntryPayload};

    use super::*;

    fn entry(index: u64) -> (Entry, usize) {
        sized(index, 10)
    }

    fn sized(index: u64, size: usize) -> (Entry, usize) {
        (Entry { log_id: id(index), payload: EntryPayload::Blank }, size)
    }

    fn id(index: u64) -> LogId {
        LogId::new(CommittedLeaderId::new(1, 1), index)
    }

    fn get(recent: &Recent, from: u64, to: u64) -> Option<Vec<u64>> {
        recent.get(from, to, usize::MAX).map(|entries| entries.iter().map(|e| e.log_id.index).collect())
    }

    #[test]
    fn it_answers_for_what_it_has_and_for_nothing_else() {
        let mut recent = Recent::default();
        assert_eq!(get(&recent, 0, 5), None, "the file may have some");
        recent.push((3..7).map(entry));
        assert_eq!(get(&recent, 2, 5), None);
        assert_eq!(get(&recent, 3, 5), Some(vec![3, 4]));
        assert_eq!(get(&recent, 5, 100), Some(vec![5, 6]), "more there is not");
        assert_eq!(get(&recent, 7, 9), Some(vec![]));
        recent.truncate(5);
        recent.push([entry(5)]);
        assert_eq!(get(&recent, 3, 9), Some(vec![3, 4, 5]));
        recent.purge(id(3));
        assert_eq!(get(&recent, 3, 9), None);
        assert_eq!(get(&recent, 4, 9), Some(vec![4, 5]));
        recent.push([entry(9)]);
        assert_eq!(get(&recent, 5, 10), None, "a snapshot came in between");
        assert_eq!(get(&recent, 9, 10), Some(vec![9]));
        assert_eq!(recent.last(), Some(id(9)));
        recent.purge(id(12));
        assert_eq!((get(&recent, 9, 10), recent.last(), recent.bytes), (None, Some(id(12)), 0));
    }

    #[test]
    fn it_is_bounded() {
        let mut recent = Recent::default();
        recent.push((1..=200).map(entry));
        assert_eq!((recent.entries.len(), recent.bytes), (MOST_ENTRIES, MOST_ENTRIES * 10));
        recent.push([sized(201, MOST_BYTES + 1)]);
        assert_eq!(get(&recent, 201, 202), Some(vec![201]), "it is asked for, however large it is");
        assert_eq!(recent.entries.len(), 1);
        recent.push([entry(202)]);
        assert_eq!((recent.entries.len(), recent.bytes), (1, 10));
    }

    #[test]
    fn an_answer_is_about_as_large_as_asked_for() {
        let mut recent = Recent::default();
        recent.push((1..5).map(entry));
        let count = |bytes| recent.get(1, 5, bytes).map(|entries| entries.len());
        assert_eq!((count(0), count(20), count(25), count(40)), (Some(1), Some(2), Some(2), Some(4)));
    }
}
