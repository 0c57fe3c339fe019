//! What travels: rows of one owner, with the numbers that they advance a holder from and to.

use alloc::vec::Vec;
use core::time::Duration;

use blueprint::NodeId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::number::UpdateNumber;

/// Rows of one owner: all that it changed after `after`, up to `upto`, as they stood at `as_of`.
///
/// Rows that changed again between `upto` and `as_of` are not in it: a row is known only in its newest version. So this advances
/// nobody's number unless `upto == as_of`; until then it is one part of several, and the others must follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    /// The state that this builds on. `ZERO` means on nothing: it replaces whatever the receiver holds of the owner.
    pub onto: UpdateNumber,
    pub after: UpdateNumber,
    pub upto: UpdateNumber,
    /// The contiguous point of whoever sent it.
    pub as_of: UpdateNumber,
    /// Tombstones up to here may be missing. Nothing below it can be built on, except nothing at all.
    pub floor: UpdateNumber,
    pub rows: Vec<Row>,
}

/// Times travel as time left and time passed, never as dates.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Row {
    pub key: Key,
    /// The update that last changed it.
    pub number: UpdateNumber,
    /// Since the owner made that update.
    pub age: Duration,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Key {
    Name(Bytes),
    /// An owner whose rows this owner has taken over.
    Predecessor(NodeId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Content {
    Value {
        bytes: Bytes,
        left: Duration,
    },
    /// A tombstone: removed, or expired.
    Gone,
    /// Of a predecessor: everything up to this number of its updates.
    TakenOver {
        upto: UpdateNumber,
    },
}

impl Part {
    pub fn is_whole(&self) -> bool {
        self.onto == UpdateNumber::ZERO
    }

    /// Whether it is the last of its kind: the receiver's number may be advanced to `as_of`.
    pub fn is_last(&self) -> bool {
        self.upto == self.as_of
    }

    /// Anyone may send anything. What passes here makes sense by itself; whether it fits is for the receiver to say.
    pub(crate) fn is_well_formed(&self) -> bool {
        let in_order = self.onto <= self.after && self.after <= self.upto && self.upto <= self.as_of;
        let leads_on = self.is_last() || self.after < self.upto;
        let complete = self.floor <= self.as_of && (self.is_whole() || self.floor <= self.onto);
        let rows =
            self.rows.iter().all(|row| self.after < row.number && row.number <= self.upto && row.is_well_formed());
        in_order && leads_on && complete && rows && self.as_of.is_plausible() && self.as_of > UpdateNumber::ZERO
    }
}

impl Row {
    fn is_well_formed(&self) -> bool {
        match (&self.key, &self.content) {
            (Key::Name(_), Content::Value { .. } | Content::Gone)
            | (Key::Predecessor(_), Content::TakenOver { .. }) => true,
            (Key::Name(_), Content::TakenOver { .. })
            | (Key::Predecessor(_), Content::Value { .. } | Content::Gone) => false,
        }
    }
}

impl Key {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Name(name) => name.len(),
            Self::Predecessor(_) => size_of::<NodeId>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn part() -> Part {
        let row = Row {
            key: Key::Name(Bytes::from_static(b"a")),
            number: UpdateNumber::new(100, 2),
            age: Duration::ZERO,
            content: Content::Gone,
        };
        let (two, three) = (UpdateNumber::new(100, 2), UpdateNumber::new(100, 3));
        let one = UpdateNumber::new(100, 1);
        Part { onto: one, after: one, upto: two, as_of: three, floor: UpdateNumber::ZERO, rows: vec![row] }
    }

    #[test]
    fn a_part_makes_sense_by_itself() {
        assert!(part().is_well_formed());
        let beyond = Part { upto: UpdateNumber::new(100, 4), ..part() };
        assert!(!beyond.is_well_formed(), "nobody answers beyond the contiguous point");
        let holes = Part { floor: UpdateNumber::new(100, 2), ..part() };
        assert!(!holes.is_well_formed(), "nothing builds on what is below the floor");
        let endless = Part { upto: part().after, rows: Vec::new(), ..part() };
        assert!(!endless.is_well_formed(), "a part that does not lead on would be asked for again, forever");
        let stray = Part { after: UpdateNumber::new(100, 2), upto: UpdateNumber::new(100, 3), ..part() };
        assert!(!stray.is_well_formed(), "a row from before");
    }
}
