//! What survives a crash: every batch of rows, stored together with the number that it leads to.
//!
//! A crash may lose any subset of the records that were not known to be written; [`Durable::absorb`] makes sense of any subsequence,
//! because a record names the number that it builds on.

use alloc::collections::BTreeMap;
use core::time::Duration;

use blueprint::NodeId;
use serde::{Deserialize, Serialize};

use crate::number::UpdateNumber;
use crate::part::{Content, Key, Part, Row};

/// Rows of one owner as they were taken: one update, or everything that a pull brought.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    pub owner: NodeId,
    pub part: Part,
    /// This node's own wall clock when that was: only it is ever compared with it, after a restart.
    pub wall: Duration,
}

/// What the records add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Durable {
    pub owners: BTreeMap<NodeId, Stored>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stored {
    pub known: UpdateNumber,
    pub floor: UpdateNumber,
    /// Each with the wall clock at which its times held.
    pub rows: BTreeMap<Key, (Row, Duration)>,
}

impl Durable {
    pub fn absorb(&mut self, record: &Record) {
        let part = &record.part;
        let stored = self.owners.entry(record.owner).or_default();
        // What it builds on was lost, so it is lost too.
        if part.as_of <= stored.known || stored.known < part.onto {
            return;
        }
        if part.is_whole() {
            stored.rows.clear();
            stored.floor = part.floor;
        }
        for row in &part.rows {
            let is_newer = stored.rows.get(&row.key).is_none_or(|(old, _)| old.number < row.number);
            if is_newer {
                stored.rows.insert(row.key.clone(), (row.clone(), record.wall));
            }
        }
        stored.known = part.as_of;
        stored.floor = stored.floor.max(part.floor);
    }
}

/// The same row after a while. A clock that went back makes it a little younger; one that jumped ahead makes it expire, and its
/// tombstone be forgotten, which the floor remembers.
pub(crate) fn aged(row: &Row, by: Duration) -> Row {
    let content = match &row.content {
        Content::Value { bytes, left } => Content::Value { bytes: bytes.clone(), left: left.saturating_sub(by) },
        Content::Gone => Content::Gone,
        Content::TakenOver { upto } => Content::TakenOver { upto: *upto },
    };
    Row { age: row.age.saturating_add(by), content, ..row.clone() }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn record(onto: u64, upto: u64, keys: &[&'static str]) -> Record {
        let number = |count| if count == 0 { UpdateNumber::ZERO } else { UpdateNumber::new(100, count) };
        let row = |key: &&'static str| Row {
            key: Key::Name(Bytes::from_static(key.as_bytes())),
            number: number(upto),
            age: Duration::ZERO,
            content: Content::Gone,
        };
        let (onto, upto) = (number(onto), number(upto));
        let rows = keys.iter().map(row).collect();
        let part = Part { onto, after: onto, upto, as_of: upto, floor: UpdateNumber::ZERO, rows };
        Record { owner: NodeId(1), part, wall: Duration::ZERO }
    }

    fn known(records: &[Record]) -> (u64, usize) {
        let mut durable = Durable::default();
        records.iter().for_each(|record| durable.absorb(record));
        let stored = &durable.owners[&NodeId(1)];
        (stored.known.count, stored.rows.len())
    }

    #[test]
    fn a_record_whose_predecessor_was_lost_is_lost_too() {
        assert_eq!(known(&[record(0, 1, &["a"]), record(2, 3, &["c"])]), (1, 1));
        assert_eq!(known(&[record(0, 1, &["a"]), record(1, 2, &["b"]), record(2, 3, &["c"])]), (3, 3));
    }

    #[test]
    fn a_whole_one_replaces() {
        assert_eq!(known(&[record(0, 1, &["a", "b"]), record(0, 5, &["c"])]), (5, 1));
        assert_eq!(known(&[record(0, 5, &["c"]), record(0, 1, &["a", "b"])]), (5, 1));
    }
}
