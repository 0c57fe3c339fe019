//! One bucket on this node: the phaser that decides, and the tables that it decides about.

use std::collections::BTreeMap;

use blueprint::{Breach, Conduct, Index, Instant, Slot, SlotSet};
use bytes::Bytes;
use phaser::{Durable, Entry, Image, Message, Payload, Phaser};
use values::{Command, Reply, Stamp, Table};

use crate::glance::Glance;
use crate::io::BatchId;

#[derive(Clone, Debug)]
pub(crate) struct Replica<C> {
    pub(crate) phaser: Phaser<C>,
    pub(crate) tables: Tables,
    /// The batch that it comes to be with, until that is written.
    pub(crate) unborn: Option<BatchId>,
    /// When the primary of its term last said a word to it.
    pub(crate) heard: Instant,
    /// It was stepped since its last flush.
    pub(crate) touched: bool,
    /// As of its last step.
    pub(crate) glance: Glance,
}

impl<C: Conduct> Replica<C> {
    pub(crate) fn new(phaser: Phaser<C>, tables: Tables, unborn: Option<BatchId>, now: Instant) -> Self {
        let glance = Glance::at(&phaser);
        Self { phaser, tables, unborn, heard: now, touched: false, glance }
    }
}

/// The tables of a bucket, one per slot that is not empty.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    slots: BTreeMap<Slot, Table>,
}

impl Tables {
    pub(crate) fn recover(durable: &Durable) -> Self {
        Self::decode(durable.tables.iter().map(|(slot, bytes)| (*slot, bytes.clone())))
    }

    /// What cannot be decoded was written by ourselves and checked by its checksum: that it is wrong is a bug.
    fn decode(tables: impl Iterator<Item = (Slot, Bytes)>) -> Self {
        let table = |bytes: &Bytes| Table::decode(bytes).expect("a table that was encoded here");
        Self { slots: tables.map(|(slot, bytes)| (slot, table(&bytes))).collect() }
    }

    /// `asked`: the command as it came in here, if it did. The entry's body is that, encoded.
    pub(crate) fn execute<C: Conduct>(&mut self, entry: &Entry, asked: Option<&Command>) -> Option<Reply> {
        let Payload::Command { slot, body } = &entry.payload else { return None };
        let decoded;
        let command = match asked {
            Some(command) => {
                debug_assert_eq!(Command::decode(body).as_ref(), Ok(command), "what was asked is what was logged");
                command
            }
            None => {
                // One that does not decode came from a primary that could encode it: the same everywhere, and nothing happens.
                decoded = Command::decode(body).ok()?;
                &decoded
            }
        };
        let table = self.slots.entry(*slot).or_default();
        let reply = table.execute::<C>(Stamp { clock: entry.clock, seed: entry.seed }, command);
        if table.is_empty() {
            self.slots.remove(slot);
        }
        Some(reply)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Table> {
        self.slots.get(&slot)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Table)> {
        self.slots.iter().map(|(slot, table)| (*slot, table))
    }

    pub(crate) fn encode(&self, slots: &SlotSet) -> Vec<(Slot, Bytes)> {
        self.slots
            .iter()
            .filter(|(slot, _)| slots.contains(**slot))
            .map(|(slot, table)| (*slot, table.encode()))
            .collect()
    }

    /// The first of `wanted`, up to about `bytes` and at least one that is not empty, as an image.
    pub(crate) fn image(&self, wanted: &SlotSet, as_of: Index, bytes: usize) -> Image {
        let mut tables = Vec::new();
        let mut size = 0;
        let mut end = None;
        for (slot, table) in self.slots.iter().filter(|(slot, _)| wanted.contains(**slot)) {
            if size >= bytes {
                end = Some(*slot);
                break;
            }
            let encoded = table.encode();
            size += encoded.len();
            tables.push((*slot, encoded));
        }
        let covered = match end {
            Some(slot) => SlotSet::range(Slot(0), Slot(slot.0 - 1)).intersection(wanted),
            None => wanted.clone(),
        };
        Image { as_of, covered: covered.clone(), replaced: covered, tables }
    }

    /// An image from a peer of another version, or from nowhere: what does not decode must not count as filled.
    pub(crate) fn can_take(message: &Message) -> bool {
        let Message::Fill { image, .. } = message else { return true };
        image.tables.iter().all(|(_, bytes)| Table::decode(bytes).is_ok())
    }

    pub(crate) fn install(&mut self, image: &Image) {
        self.discard(&image.covered);
        let decode = |bytes: &Bytes| Table::decode(bytes).expect("it decoded when it came in");
        self.slots.extend(image.tables.iter().map(|(slot, bytes)| (*slot, decode(bytes))));
    }

    pub(crate) fn discard(&mut self, slots: &SlotSet) {
        self.slots.retain(|slot, _| !slots.contains(*slot));
    }

    /// O(slots): tables change hands, nothing is copied.
    pub(crate) fn fork<C: Conduct>(&mut self, slots: &SlotSet) -> Self {
        let (child, rest) = std::mem::take(&mut self.slots).into_iter().partition(|(slot, _)| slots.contains(*slot));
        self.slots = rest;
        let mut child = Self { slots: child };
        if C::breaks(Breach::SessionsNotMovedBySplit) {
            child.slots.values_mut().for_each(Table::take_sessions);
        }
        child
    }
}
