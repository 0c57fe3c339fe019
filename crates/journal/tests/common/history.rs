//! Histories such as a node writes: each record fits what came before, for several buckets at once.

use std::collections::BTreeMap;

use blueprint::{BucketId, Epoch, Incarnation, Index, LaneId, Member, Position, Slot, SlotSet, Term};
use bytes::Bytes;
use node::{NodeDurable, NodeRecord};
use phaser::{Entry, Image, Payload, Record};
use proptest::prelude::*;

pub fn bucket(number: u64, record: Record) -> NodeRecord {
    NodeRecord::Bucket { bucket: BucketId(number), record }
}

pub fn found(number: u64) -> NodeRecord {
    let (me, base, owned) = (Member::new(1, 1 + number), Position::new(1, 0), SlotSet::range(Slot(0), Slot(15)));
    bucket(number, Record::Found { me, promised: Term(1), base, clock: 0, owned, image: Image::default() })
}

pub fn append(number: u64, term: u64, after: u64, sizes: &[usize]) -> NodeRecord {
    let previous = Position::new(if after == 0 { 1 } else { term }, after);
    let entries = sizes.iter().zip(after + 1..).map(|(size, index)| entry(term, index, *size)).collect();
    bucket(number, Record::Append { previous, entries, commit: None })
}

pub fn entry(term: u64, index: u64, size: usize) -> Entry {
    let body = Bytes::from(vec![(index % 251) as u8; size]);
    let payload = Payload::Command { slot: Slot((index % 16) as u16), body };
    Entry { at: Position::new(term, index), clock: index * 10, seed: index * 7, payload }
}

pub fn save(number: u64, as_of: u64, slots: &[(u16, usize)]) -> NodeRecord {
    let tables = slots.iter().map(|(slot, size)| (Slot(*slot), Bytes::from(vec![as_of as u8; *size]))).collect();
    let replaced = slots.iter().map(|(slot, _)| Slot(*slot)).collect();
    let covered = SlotSet::range(Slot(0), Slot(15));
    bucket(number, Record::Save(Image { as_of: Index(as_of), covered, replaced, tables }))
}

pub fn absorbed<'a>(records: impl IntoIterator<Item = &'a NodeRecord>) -> NodeDurable {
    let mut node = NodeDurable::default();
    records.into_iter().for_each(|record| node.absorb(record));
    node
}

/// A choice that becomes a record when it is known what stands before it.
#[derive(Clone, Debug)]
pub enum Wish {
    Append { entries: Vec<u16>, back: u8 },
    Commit,
    Promise,
    Adopt,
    Save { slots: Vec<(u16, u16)> },
    Cut,
    StartOver,
    Erase,
    Epoch,
}

pub fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        12 => (prop::collection::vec(0u16..200, 1..4), 0u8..12)
            .prop_map(|(entries, back)| Wish::Append { entries, back }),
        1 => prop::collection::vec(1500u16..6000, 1..2).prop_map(|entries| Wish::Append { entries, back: 0 }),
        4 => Just(Wish::Commit),
        2 => Just(Wish::Promise),
        1 => Just(Wish::Adopt),
        4 => prop::collection::vec((0u16..16, 0u16..300), 0..5).prop_map(|slots| Wish::Save { slots }),
        3 => Just(Wish::Cut),
        1 => Just(Wish::StartOver),
        1 => Just(Wish::Erase),
        1 => Just(Wish::Epoch),
    ]
}

/// Makes records out of wishes, as a node would.
#[derive(Debug, Default)]
pub struct Author {
    pub node: NodeDurable,
    epoch: u64,
    incarnations: BTreeMap<u64, u64>,
}

impl Author {
    pub fn of(node: NodeDurable) -> Self {
        Self { node, ..Self::default() }
    }

    pub fn write(&mut self, number: u64, wish: &Wish) -> NodeRecord {
        let record = self.record(number, wish);
        self.node.absorb(&record);
        record
    }

    fn record(&mut self, number: u64, wish: &Wish) -> NodeRecord {
        let Some(durable) = self.node.replicas.get(&BucketId(number)) else {
            return found(number);
        };
        let last = durable.log.last();
        let record = match wish {
            Wish::Append { entries, back } => {
                // Now and then a conflicting end is replaced, under a higher term.
                let back = if *back > 9 { u64::from(*back) - 9 } else { 0 };
                let index = last.index.0.saturating_sub(back).max(durable.commit.0);
                let previous = durable.log.position(Index(index)).expect("it is held");
                let term = durable.promised.0 + u64::from(back > 0);
                let entries = entries.iter().zip(index + 1..);
                let entries = entries.map(|(size, index)| entry(term, index, usize::from(*size))).collect();
                let commit = (index % 3 == 0).then_some(previous);
                Record::Append { previous, entries, commit }
            }
            Wish::Commit => Record::Commit(last),
            Wish::Promise => Record::Promise(Term(durable.promised.0 + 1)),
            Wish::Adopt => {
                let incarnation = self.incarnations.entry(number).or_insert(100);
                *incarnation += 1;
                Record::Adopt(Incarnation(*incarnation))
            }
            Wish::Save { slots } => {
                let unique: BTreeMap<_, _> = slots.iter().copied().collect();
                let slots: Vec<_> = unique.into_iter().map(|(slot, size)| (slot, usize::from(size))).collect();
                return save(number, durable.commit.0, &slots);
            }
            Wish::Cut => {
                let base = durable.log.position(durable.commit).expect("what is committed is held");
                // Now and then behind a split.
                let parted = if base.index.0 % 4 == 3 { SlotSet::range(Slot(12), Slot(15)) } else { SlotSet::empty() };
                Record::Cut { base, clock: durable.commit.0 * 10, owned: durable.owned.difference(&parted) }
            }
            Wish::StartOver => {
                let base = Position { term: durable.promised, index: Index(last.index.0 + 5) };
                Record::StartOver { base, clock: 1, owned: durable.owned.clone() }
            }
            Wish::Erase => return NodeRecord::Erase { bucket: BucketId(number) },
            Wish::Epoch => {
                self.epoch += 1;
                let lane = LaneId { number: (number % 8) as u16, of: 256 };
                return NodeRecord::Epoch { lane, epoch: Epoch(self.epoch) };
            }
        };
        bucket(number, record)
    }
}
