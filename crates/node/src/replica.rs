//! One bucket on this node: the phaser that decides, and the tables that it decides about.
//!
//! And when a checkpoint is worth it. It costs what the tables take that were written to since the last one, and saves the log since then. So
//! it waits until the log is as long as a part of the tables, or every few writes to a large bucket would write down all of it; and until
//! the log has had its share of what all logs may take, or a single bucket would be written down as often as each of many.

use std::collections::BTreeMap;

use blueprint::{Breach, Conduct, Index, Instant, Slot, SlotSet};
use bytes::Bytes;
use phaser::{Durable, Image, Message, Phaser};
use values::{Command, Malformed, Read, Reply, Stamp, Table};

use crate::copying::Copying;
use crate::glance::Glance;
use crate::io::BatchId;
use crate::node::Config;

#[derive(Clone, Debug)]
pub(crate) struct Replica<C> {
    pub(crate) phaser: Phaser<C>,
    pub(crate) tables: Tables,
    /// The batch that it comes to be with, until that is written.
    pub(crate) unborn: Option<BatchId>,
    /// When its primary last said a word to it, or came to lead.
    pub(crate) heard: Instant,
    /// It is among those that have something to flush.
    pub(crate) touched: bool,
    /// Its checkpoint is due, and comes in its turn: how many entries there were since the last one when that was found, and what
    /// they took.
    pub(crate) due_at: Option<(u64, u64)>,
    /// How many there were when that was last looked at, and what they took.
    pub(crate) weighed: (u64, u64),
    /// They are worth one, which cannot be taken yet.
    pub(crate) is_ripe: bool,
    /// As of its last step.
    pub(crate) glance: Glance,
}

impl<C: Conduct> Replica<C> {
    pub(crate) fn new(phaser: Phaser<C>, tables: Tables, unborn: Option<BatchId>, now: Instant) -> Self {
        let glance = Glance::at(&phaser);
        Self {
            phaser,
            tables,
            unborn,
            heard: now,
            touched: false,
            due_at: None,
            weighed: (0, 0),
            is_ripe: false,
            glance,
        }
    }

    /// Whether its checkpoint has come to be due, in a lane of so many buckets. Never before there are as many entries as the phaser wants.
    pub(crate) fn is_due_now(&mut self, config: &Config, buckets: u64) -> bool {
        let (since, must) = (self.phaser.since_checkpoint(), self.phaser.owes_cut());
        let (every, most) = (config.phaser.checkpoint_every, config.phaser.checkpoint_bytes);
        if since < self.weighed.0 {
            (self.weighed, self.is_ripe) = ((0, 0), false); // it began anew
        }
        let (before, bytes_before) = self.weighed;
        // Entries need not be alike: however many there are, a few more of them may be worth another look.
        let look_at = before + (before / 8).min(LOOK).min(every);
        if self.due_at.is_some() || since < look_at && !must && !self.is_ripe {
            return false;
        }
        if !self.is_ripe {
            let bytes = bytes_before + self.phaser.bytes_since_checkpoint(before);
            self.weighed = (since, bytes);
            let is_long = since >= every || bytes >= most;
            self.is_ripe = is_long && bytes >= (config.log_bytes / buckets).max(self.tables.bytes() / WORTH);
        }
        if !(must || self.is_ripe) || !self.phaser.wants_checkpoint() {
            return false;
        }
        // One that it must take at once is no more overdue than others.
        self.due_at = Some((since.max(every), self.weighed.1.max(most)));
        true
    }

    /// It was put off for so long that the log has become much longer than it should be.
    pub(crate) fn is_overdue(&self) -> bool {
        self.due_at.is_some_and(|(entries, bytes)| {
            self.phaser.since_checkpoint() >= entries.saturating_mul(OVERDUE)
                || self.phaser.bytes_since_checkpoint(0) >= bytes.saturating_mul(OVERDUE)
        })
    }

    /// The command at that place of its log. One that does not decode came from a primary that could encode it: the same everywhere, and
    /// nothing happens.
    pub(crate) fn logged(&self, slot: Slot, index: Index) -> Option<Command> {
        let entry = self.phaser.log().get(index).expect("what was applied in this step is in the log");
        Command::decode_in(slot, &entry.body()).ok()
    }

    /// Whoever asked still has the command that was logged: nobody has to decode it.
    pub(crate) fn check_asked(&self, slot: Slot, index: Index, asked: &Command) {
        debug_assert_eq!(self.logged(slot, index).as_ref(), Some(asked), "what was asked is what was logged");
    }
}

/// The tables of a bucket, from the first slot that had something in it to the last: a bucket is one range of slots, or a few, and
/// whoever looks for a slot knows its place.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    first: u16,
    all: Vec<Table>,
    /// The sum of what they weigh, so that nobody has to look at all of them.
    bytes: u64,
    pub(crate) copying: Option<Box<Copying>>,
}

/// A log as long as this part of the tables is worth a checkpoint: what it adds to memory and to recovery is bounded by that, and what a write
/// costs in checkpoints by its inverse.
const WORTH: u64 = 4;
/// What a log took is looked at again after so many entries, at the latest.
const LOOK: u64 = 64;
/// So many times longer than when its checkpoint was due, a log is too long to wait for other buckets.
const OVERDUE: u64 = 4;

/// Places are made for so many slots at once: slots that come from the last to the first would otherwise move all others each time.
const AT_ONCE: u16 = 64;

impl Tables {
    pub(crate) fn recover(durable: &Durable) -> Self {
        let mut tables = Self::default();
        // What cannot be decoded was written by ourselves and checked by its checksum: that it is wrong is a bug.
        let decode = |bytes: &Bytes| Table::decode(bytes).expect("a table that was encoded here");
        durable.tables.iter().for_each(|(slot, bytes)| tables.put(*slot, decode(bytes)));
        tables
    }

    /// About what their encoding takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn bytes_in(&self, slots: &SlotSet) -> u64 {
        self.iter().filter(|(slot, _)| slots.contains(*slot)).map(|(_, table)| table.bytes()).sum()
    }

    fn put(&mut self, slot: Slot, table: Table) {
        self.keep(slot);
        let before = std::mem::replace(self.place(slot), table).bytes();
        let after = self.place(slot).bytes();
        self.bytes = self.bytes + after - before;
    }

    fn place(&mut self, slot: Slot) -> &mut Table {
        if self.all.is_empty() {
            self.first = slot.0 - slot.0 % AT_ONCE;
        }
        if slot.0 < self.first {
            let first = slot.0 - slot.0 % AT_ONCE;
            self.all.splice(..0, (first..self.first).map(|_| Table::new()));
            self.first = first;
        }
        let at = usize::from(slot.0 - self.first);
        if at >= self.all.len() {
            self.all.resize_with(at + 1, Table::new);
        }
        &mut self.all[at]
    }

    pub(crate) fn execute<C: Conduct>(&mut self, slot: Slot, stamp: Stamp, command: &Command) -> Reply {
        if !C::breaks(Breach::CheckpointOfLater) {
            self.keep(slot);
        }
        let table = self.place(slot);
        let before = table.bytes();
        let reply = table.execute::<C>(stamp, command);
        let after = table.bytes();
        if table.is_empty() {
            *table = Table::new(); // without the memory that it had
        }
        self.bytes = self.bytes + after - before;
        reply
    }

    pub(crate) fn read(&self, slot: Slot, clock: u64, command: &Command) -> Read {
        match self.get(slot) {
            Some(table) => table.read(clock, command),
            None => Table::new().read(clock, command),
        }
    }

    /// None: it is empty.
    pub(crate) fn get(&self, slot: Slot) -> Option<&Table> {
        self.place_of(slot).filter(|table| !table.is_empty())
    }

    /// The same without a look at the table itself.
    fn place_of(&self, slot: Slot) -> Option<&Table> {
        let at = slot.0.checked_sub(self.first)?;
        self.all.get(usize::from(at))
    }

    /// Where to look for what a command is about, the first of its keys.
    pub(crate) fn wanted_by<'a>(&'a self, command: &'a Command) -> Option<(&'a Table, &'a Bytes)> {
        Some((self.place_of(command.slot().ok()?)?, command.keys().next()?))
    }

    /// Those that are not empty.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Table)> {
        self.iter_from(Slot(0))
    }

    pub(crate) fn iter_from(&self, from: Slot) -> impl Iterator<Item = (Slot, &Table)> {
        let passed = from.0.saturating_sub(self.first).min(self.all.len() as u16);
        let placed = (self.first + passed..).map(Slot).zip(&self.all[usize::from(passed)..]);
        placed.filter(|(_, table)| !table.is_empty())
    }

    /// Those that are not empty, but for those whose encoding is `known`.
    pub(crate) fn encode(&self, slots: &SlotSet, known: Vec<(Slot, Bytes)>) -> Vec<(Slot, Bytes)> {
        let slots = slots.difference(&known.iter().map(|(slot, _)| *slot).collect());
        let wanted: Vec<Slot> = self.iter().map(|(slot, _)| slot).filter(|slot| slots.contains(*slot)).collect();
        let mut tables = known;
        tables.extend(self.encode_these(&wanted));
        tables
    }

    /// All in one piece of memory, which is given back as one.
    pub(crate) fn encode_these(&self, slots: &[Slot]) -> impl Iterator<Item = (Slot, Bytes)> + use<> {
        let wanted = || slots.iter().filter_map(|slot| Some((*slot, self.get(*slot)?)));
        let mut all = Vec::with_capacity(wanted().map(|(_, table)| table.room()).sum());
        let mut places = Vec::with_capacity(slots.len());
        for (slot, table) in wanted() {
            let from = all.len();
            all = table.encode_after(all);
            places.push((slot, from..all.len()));
        }
        let all = Bytes::from(all);
        places.into_iter().map(move |(slot, place)| (slot, all.slice(place)))
    }

    /// The first of `wanted`, up to about `bytes` and at least one that is not empty, as an image.
    pub(crate) fn image(&self, wanted: &SlotSet, as_of: Index, bytes: usize) -> Image {
        let mut tables = Vec::new();
        let mut size = 0;
        let mut end = None;
        for (slot, table) in self.iter().filter(|(slot, _)| wanted.contains(*slot)) {
            if size >= bytes && !table.is_bare() {
                end = Some(slot);
                break;
            }
            let encoded = table.encode();
            size += if table.is_bare() { 0 } else { encoded.len() }; // they travel along
            tables.push((slot, encoded));
        }
        let covered = match end {
            Some(slot) => SlotSet::range(Slot(0), Slot(slot.0 - 1)).intersection(wanted),
            None => wanted.clone(),
        };
        Image { as_of, covered: covered.clone(), replaced: covered, tables }
    }

    /// An image from a peer of another version, or from nowhere: what does not decode must not count as filled.
    pub(crate) fn arriving_with(message: &Message) -> Result<BTreeMap<Slot, Table>, Malformed> {
        let Message::Fill { image, .. } = message else { return Ok(BTreeMap::new()) };
        let decoded = image.tables.iter().map(|(slot, bytes)| Ok((*slot, Table::decode(bytes)?)));
        let decoded: BTreeMap<Slot, Table> = decoded.collect::<Result<_, _>>()?;
        if decoded.len() == image.tables.len() { Ok(decoded) } else { Err(Malformed) } // one table for each slot
    }

    /// With the tables that arrived with it, some of which may not be wanted.
    pub(crate) fn install(&mut self, image: &Image, mut arrived: BTreeMap<Slot, Table>) {
        self.discard(&image.covered);
        for (slot, _) in &image.tables {
            self.put(*slot, arrived.remove(slot).expect("it decoded when it came in"));
        }
    }

    pub(crate) fn discard(&mut self, slots: &SlotSet) {
        drop(self.take(slots));
    }

    /// O(slots): tables change hands, nothing is copied.
    pub(crate) fn fork<C: Conduct>(&mut self, slots: &SlotSet) -> Self {
        let mut child = self.take(slots);
        if C::breaks(Breach::SessionsNotMovedBySplit) {
            child.all.iter_mut().for_each(Table::take_sessions);
            child.bytes = child.all.iter().map(Table::bytes).sum();
        }
        child
    }

    /// The tables of these slots are those now. Also where there is none yet: what comes there goes by the same clock.
    pub(crate) fn take_in(&mut self, slots: &SlotSet, mut other: Self, ahead: i64) {
        self.discard(slots);
        for slot in slots.iter() {
            let mut table = std::mem::take(other.place(slot));
            table.move_clock(ahead);
            self.put(slot, table);
        }
    }

    fn take(&mut self, slots: &SlotSet) -> Self {
        let mut taken = Self::default();
        let wanted: Vec<Slot> = self.iter().map(|(slot, _)| slot).filter(|slot| slots.contains(*slot)).collect();
        for slot in wanted {
            self.keep(slot);
            taken.put(slot, std::mem::take(self.place(slot)));
        }
        self.bytes -= taken.bytes;
        taken
    }
}

#[cfg(test)]
mod tests {
    use blueprint::Honest;

    use super::*;

    fn put(tables: &mut Tables, slot: u16, command: &Command) {
        tables.execute::<Honest>(Slot(slot), Stamp { clock: 0, seed: 0 }, command);
    }

    fn slots(tables: &Tables) -> Vec<u16> {
        tables.iter().map(|(slot, _)| slot.0).collect()
    }

    fn weighed(tables: &Tables) -> u64 {
        tables.iter().map(|(_, table)| table.bytes()).sum()
    }

    /// What was taken in is weighed like everything else, and can be given away again.
    #[test]
    fn what_is_taken_in_weighs_something() {
        let set = Command::set("k".into(), "v".into(), None);
        let (mut tables, mut other) = (Tables::default(), Tables::default());
        put(&mut tables, 1, &set);
        put(&mut other, 7, &set);
        tables.take_in(&SlotSet::range(Slot(5), Slot(9)), other, 0);
        assert_eq!((tables.bytes(), slots(&tables)), (weighed(&tables), vec![1, 7]));
        let child = tables.fork::<Honest>(&SlotSet::range(Slot(0), Slot(7)));
        assert_eq!((tables.bytes(), child.bytes()), (0, weighed(&child)));
    }

    /// Where a key belongs is no matter to a table.
    #[test]
    fn slots_come_and_go_in_any_order() {
        let (set, del) = (Command::set("k".into(), "v".into(), None), Command::del("k".into()));
        let mut tables = Tables::default();
        for slot in [300, 299, 16383, 0, 301, 5000] {
            put(&mut tables, slot, &set);
        }
        assert_eq!(slots(&tables), [0, 299, 300, 301, 5000, 16383]);
        assert!(tables.get(Slot(300)).is_some() && tables.get(Slot(298)).is_none());
        put(&mut tables, 300, &del);
        put(&mut tables, 302, &del);
        tables.discard(&SlotSet::range(Slot(0), Slot(298)));
        let child = tables.fork::<Honest>(&SlotSet::range(Slot(301), Slot(6000)));
        assert_eq!((slots(&tables), slots(&child)), (vec![299, 16383], vec![301, 5000]));
        assert_eq!((tables.bytes(), child.bytes()), (weighed(&tables), weighed(&child)));
        let image = child.image(&SlotSet::range(Slot(0), Slot(9000)), Index(1), usize::MAX);
        let arrived = || image.tables.iter().map(|(slot, bytes)| (*slot, Table::decode(bytes).unwrap())).collect();
        tables.install(&image, arrived());
        assert_eq!(slots(&tables), [301, 5000, 16383]);
        tables.install(&image, arrived());
        assert_eq!((tables.bytes(), tables.bytes() > 0), (weighed(&tables), true));
        let taken = tables.fork::<Honest>(&SlotSet::range(Slot(0), Slot(1000)));
        tables.take_in(&SlotSet::range(Slot(0), Slot(1000)), taken, 7);
        assert_eq!((tables.bytes(), tables.bytes() > 0), (weighed(&tables), true));
        tables.discard(&SlotSet::range(Slot(0), Slot(16383)));
        assert_eq!(tables.bytes(), 0);
    }
}
