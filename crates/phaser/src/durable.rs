//! What survives a crash: the records that a replica writes, and what they add up to.
//!
//! A crash may lose any subset of the records that were not known to be written. [`Durable::absorb`] must therefore make
//! sense of any subsequence: an append names what stood before it, a commit names the entry and not just its index, and
//! nothing that was lost is guessed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use blueprint::{Incarnation, Index, Member, Position, Slot, SlotMap, SlotSet, Term};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::entries::Entries;
use crate::log::Log;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Record {
    /// A replica exists from here on: at a keyspace's first start, as an empty candidate, or forked from a parent.
    Found { me: Member, promised: Term, base: Position, clock: u64, owned: SlotSet, image: Image },
    /// The same data under a newly issued incarnation (R10).
    Adopt(Incarnation),
    /// R2.
    Promise(Term),
    /// Replaces whatever stood after `previous`. With a hint, mostly: nearly every append follows a commit, and a record costs more than it.
    Append { previous: Position, entries: Entries, commit: Option<Position> },
    /// A hint: this entry is known to be committed.
    Commit(Position),
    /// A candidate begins anew: no slots, no log before `base`.
    StartOver { base: Position, clock: u64, owned: SlotSet },
    /// A checkpoint: tables as they stood at an index. What it replaces is still in the log, or in an older one.
    Save(Image),
    /// The log before `base` is no longer needed.
    Cut { base: Position, clock: u64, owned: SlotSet },
    /// An image that was taken. Nothing here says what it says, and others count on it as soon as it is written.
    Take(Image),
}

impl Record {
    /// It is about a checkpoint: it says nothing that is not in the log or in an older one, and nothing is lost with it but time. So, at
    /// level `memory`, it may be reported as written as soon as it will be, and what goes into the log meanwhile may stand before it on
    /// disk: a checkpoint is of what is committed, before any Reign or truncation that may come. But these stay in their order, and before
    /// all that is given after them and is not for the log: a `Cut` counts on the `Save` before it, and after a `StartOver`, a `Found` or an
    /// `Erase` they would speak of another replica.
    pub fn is_note(&self) -> bool {
        matches!(self, Self::Save(_) | Self::Cut { .. })
    }
}

/// Slots as they stood at `as_of`. Slots of `covered` outside `replaced` have not changed since they were last saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Image {
    pub as_of: Index,
    pub covered: SlotSet,
    pub replaced: SlotSet,
    /// The tables of `replaced` that are not empty, in slot order.
    pub tables: Vec<(Slot, Bytes)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Durable {
    pub me: Member,
    /// Where its log began when it was founded: for a forked child the position of the Split that made it, until it begins anew.
    pub origin: Position,
    pub promised: Term,
    pub log: Log,
    pub commit: Index,
    /// The slots that this replica has at the base of its log.
    pub owned: SlotSet,
    /// As of which index each slot's table is saved; slots that are missing are not in it.
    pub as_of: SlotMap<Index>,
    pub tables: BTreeMap<Slot, Bytes>,
}

impl Durable {
    /// The replica that a `Found` record makes; any other record says nothing without one.
    pub fn found(record: &Record) -> Option<Self> {
        let Record::Found { me, promised, base, clock, owned, image } = record else { return None };
        let mut durable = Self {
            me: *me,
            origin: *base,
            promised: *promised,
            log: Log::new(*base, *clock),
            commit: base.index,
            owned: owned.clone(),
            as_of: SlotMap::new(),
            tables: BTreeMap::new(),
        };
        durable.save(image);
        Some(durable)
    }

    pub fn absorb(&mut self, record: &Record) {
        match record {
            Record::Found { .. } => {}
            Record::Adopt(incarnation) => self.me.incarnation = *incarnation,
            Record::Promise(term) => self.promised = self.promised.max(*term),
            Record::Append { previous, entries, commit } => {
                self.append(*previous, entries);
                commit.iter().for_each(|at| self.take_hint(*at));
            }
            Record::Commit(at) => self.take_hint(*at),
            Record::StartOver { base, clock, owned } => {
                self.origin = Position::default();
                self.log = Log::new(*base, *clock);
                self.commit = base.index;
                self.promised = self.promised.max(base.term);
                self.owned = owned.clone();
                self.as_of.clear();
                self.tables.clear();
            }
            Record::Save(image) => self.save_older(image),
            Record::Take(image) => self.save(image),
            Record::Cut { base, clock, owned } => self.cut(*base, *clock, owned),
        }
    }

    fn append(&mut self, previous: Position, entries: &Entries) {
        // An append whose predecessor was lost is lost too.
        if !self.log.holds(previous) || previous.index < self.commit {
            return;
        }
        self.log.truncate(previous.index.next());
        for reign in entries.reigns() {
            // No table of an earlier rule stands here, unless what it was made of is lost.
            let former = self.as_of.where_value(|as_of| *as_of >= reign.at.index);
            self.as_of.remove(&former);
            self.tables.retain(|slot, _| !former.contains(*slot));
        }
        for run in entries.runs() {
            // Whoever wrote these had promised their term, even if that record was lost.
            self.promised = self.promised.max(run.term());
            self.log.adopt(run.clone());
        }
    }

    fn take_hint(&mut self, at: Position) {
        if self.log.holds(at) {
            self.commit = self.commit.max(at.index);
        }
    }

    /// A checkpoint that was long under way: what was taken since is newer.
    fn save_older(&mut self, image: &Image) {
        let newer = self.as_of.where_value(|as_of| *as_of > image.as_of);
        if newer.is_empty() {
            return self.save(image);
        }
        self.save(&Image {
            as_of: image.as_of,
            covered: image.covered.difference(&newer),
            replaced: image.replaced.difference(&newer),
            tables: image.tables.iter().filter(|(slot, _)| !newer.contains(*slot)).cloned().collect(),
        });
    }

    fn save(&mut self, image: &Image) {
        self.as_of.set(&image.covered, image.as_of);
        self.tables.retain(|slot, _| !image.replaced.contains(*slot));
        self.tables.extend(image.tables.iter().cloned());
    }

    fn cut(&mut self, base: Position, clock: u64, owned: &SlotSet) {
        if base.index <= self.log.base().index {
            return;
        }
        if self.log.holds(base) {
            self.log.cut(base);
        } else {
            self.log = Log::new(base, clock);
        }
        self.commit = self.commit.max(base.index);
        self.promised = self.promised.max(base.term);
        // What came in an image since is newer than any split before the base, and may be what an Absorb after it brings (seed 3958).
        let newer = self.as_of.where_value(|as_of| *as_of > base.index);
        let gone = self.owned.difference(owned).difference(&newer);
        self.owned = owned.clone();
        self.as_of.remove(&gone);
        self.tables.retain(|slot, _| owned.contains(*slot) || newer.contains(*slot));
    }
}
