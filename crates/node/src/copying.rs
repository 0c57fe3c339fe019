//! The tables of a checkpoint, encoded some at a time: all of a large bucket at once would be a pause in which nobody is served.
//!
//! Each is encoded as it was when that began: one that is left is encoded before anything happens to it.

use blueprint::{Slot, SlotBits, SlotSet};
use bytes::Bytes;

use crate::io::StoreId;
use crate::replica::Tables;

#[derive(Clone, Debug)]
pub(crate) struct Copying {
    id: StoreId,
    left: SlotBits,
    /// All below it are done.
    next: Slot,
    done: Vec<(Slot, Bytes)>,
}

/// How far it came.
pub(crate) struct Copied {
    pub(crate) bytes: u64,
    /// Nothing is left, and here is everything.
    pub(crate) all: Option<Vec<(Slot, Bytes)>>,
}

impl Tables {
    pub(crate) fn begin_copying(&mut self, id: StoreId, slots: &SlotSet) {
        let mut left = SlotBits::default();
        self.iter().map(|(slot, _)| slot).filter(|slot| slots.contains(*slot)).for_each(|slot| left.insert(slot));
        self.copying = Some(Box::new(Copying { id, left, next: Slot(0), done: Vec::new() }));
    }

    pub(crate) fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// Something is about to happen to that one.
    pub(crate) fn keep(&mut self, slot: Slot) {
        if self.copying.as_ref().is_some_and(|copying| copying.left.contains(slot)) {
            self.keep_now(slot);
        }
    }

    #[cold]
    fn keep_now(&mut self, slot: Slot) {
        let encoded = self.encode_these(&[slot]);
        let Some(copying) = &mut self.copying else { return };
        copying.left.remove(&SlotSet::range(slot, slot));
        copying.done.extend(encoded);
    }

    /// About so many bytes more. None: what was begun under that name is not to be finished any more.
    pub(crate) fn go_on_copying(&mut self, id: StoreId, bytes: u64) -> Option<Copied> {
        let mut copying = self.copying.take_if(|copying| copying.id == id)?;
        let (mut slots, mut room, mut is_all) = (Vec::new(), 0, true);
        for (slot, table) in self.iter_from(copying.next) {
            if room >= bytes {
                is_all = false;
                break;
            }
            copying.next = Slot(slot.0 + 1);
            if copying.left.contains(slot) {
                room += table.room() as u64;
                slots.push(slot);
            }
        }
        let before = copying.done.len();
        copying.done.extend(self.encode_these(&slots));
        let bytes = copying.done[before..].iter().map(|(_, table)| table.len() as u64).sum();
        if !is_all {
            copying.left.remove(&slots.into_iter().collect());
            self.copying = Some(copying);
            return Some(Copied { bytes, all: None });
        }
        copying.done.sort_unstable_by_key(|(slot, _)| *slot);
        Some(Copied { bytes, all: Some(copying.done) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use blueprint::Honest;
    use values::{Command, Stamp, Table};

    use super::*;

    const ID: StoreId = StoreId(7);

    fn put(tables: &mut Tables, slot: u16, value: &'static str) {
        let set = Command::set("k".into(), value.into(), None);
        tables.execute::<Honest>(Slot(slot), Stamp { clock: 0, seed: 0 }, &set);
    }

    fn filled() -> Tables {
        let mut tables = Tables::default();
        (100..110).for_each(|slot| put(&mut tables, slot, "before"));
        tables
    }

    fn contents(tables: &[(Slot, Bytes)]) -> BTreeMap<Slot, Table> {
        assert!(tables.is_sorted_by_key(|(slot, _)| *slot));
        tables.iter().map(|(slot, bytes)| (*slot, Table::decode(bytes).expect("encoded here"))).collect()
    }

    fn finish(tables: &mut Tables, bytes: u64) -> (usize, Vec<(Slot, Bytes)>) {
        for turn in 1.. {
            let Copied { bytes, all } = tables.go_on_copying(ID, bytes).expect("that one was begun");
            if let Some(tables) = all {
                return (turn, tables);
            }
            assert!(bytes > 0, "it gets somewhere");
        }
        unreachable!("there are no more turns than tables")
    }

    /// Whatever happens to the tables meanwhile: written to, removed, given away, replaced, and one that comes to be before all others.
    #[test]
    fn each_table_is_as_it_was_when_it_began() {
        let (expected, slots) = (filled(), SlotSet::range(Slot(0), Slot(16000)));
        let expected = contents(&expected.encode(&slots, Vec::new()));
        let mut tables = filled();
        tables.begin_copying(ID, &slots);
        assert!(tables.go_on_copying(ID, 1).is_some_and(|copied| copied.all.is_none()), "100");
        for slot in [1, 100, 101, 111] {
            put(&mut tables, slot, "after");
        }
        let del = Command::del("k".into());
        tables.execute::<Honest>(Slot(102), Stamp { clock: 0, seed: 0 }, &del);
        tables.discard(&SlotSet::range(Slot(103), Slot(103)));
        let child = tables.fork::<Honest>(&SlotSet::range(Slot(104), Slot(105)));
        tables.take_in(&SlotSet::range(Slot(106), Slot(106)), child, 5);
        assert!(tables.go_on_copying(ID, 1).is_some_and(|copied| copied.all.is_none()), "107");
        put(&mut tables, 107, "after");
        let (turns, copied) = finish(&mut tables, 1);
        assert!(turns >= 2, "108, 109");
        assert_eq!(contents(&copied), expected);
        assert!(!tables.is_copying() && tables.go_on_copying(ID, 1).is_none());
    }

    #[test]
    fn what_is_not_asked_for_is_not_copied_and_a_large_bite_takes_all() {
        let mut tables = filled();
        tables.begin_copying(ID, &SlotSet::range(Slot(105), Slot(200)));
        put(&mut tables, 104, "after");
        assert!(tables.go_on_copying(StoreId(8), 1).is_none(), "another one's");
        let (turns, copied) = finish(&mut tables, 1 << 20);
        assert_eq!((turns, copied.len()), (1, 5));
    }
}
