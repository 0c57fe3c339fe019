//! The promises that wait for the disk.
//!
//! Records gather in an open batch; `Flush` seals it into one write. Whatever must not be said before a write is safe is
//! held here, inside the machine, until `Written` comes: the driver has no ordering duty.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use blueprint::{Index, Instant, Member, Position, Slot, SlotSet};
use bytes::Bytes;

use crate::durable::{Image, Record};
use crate::io::{Outbox, Output, StoreId, WriteId};
use crate::log::Log;
use crate::message::Message;
use crate::run::Run;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Disk {
    open: WriteId,
    batch: Vec<Record>,
    pub(crate) written: WriteId,
    /// Log writes under way: when that write is safe, so is the log up to that index.
    appended: VecDeque<(WriteId, Index)>,
    /// The log is safe up to here.
    pub(crate) safe: Index,
    /// The write that makes `promised` (and the replica itself) safe.
    pub(crate) promise: WriteId,
    /// The write that cut the log to where it begins now.
    pub(crate) cut: WriteId,
    /// Answers that wait, in order of what they wait for.
    held: VecDeque<(WriteId, Member, Message)>,
    /// Tables that are being stored: no record refers to them yet. Those that are forgotten here never will be.
    storing: VecDeque<(StoreId, Image, Save)>,
    next_store: StoreId,
    /// Records under way that refer to tables.
    saves: VecDeque<(WriteId, Save)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Save {
    /// Every slot, as it stood at this index.
    Checkpoint(Index),
    /// An image that the primary sent.
    Taken { slots: SlotSet, from: Member },
}

impl Disk {
    pub(crate) fn new(safe: Index) -> Self {
        Self {
            open: WriteId(1),
            batch: Vec::new(),
            written: WriteId(0),
            appended: VecDeque::new(),
            safe,
            promise: WriteId(0),
            cut: WriteId(0),
            held: VecDeque::new(),
            storing: VecDeque::new(),
            next_store: StoreId(1),
            saves: VecDeque::new(),
        }
    }

    /// After what is open in the log: records are written in the order in which they came about.
    pub(crate) fn push(&mut self, log: &mut Log, record: Record) -> WriteId {
        self.close(log);
        self.batch.push(record);
        self.open
    }

    /// What is open in the log goes to the disk with this batch.
    pub(crate) fn close(&mut self, log: &mut Log) {
        if let Some((previous, run)) = log.close() {
            self.push_run(previous, run);
        }
    }

    /// What follows the entries before it becomes part of their record: they are safe together anyway.
    pub(crate) fn push_run(&mut self, previous: Position, run: Run) {
        let last = run.last().index;
        match self.batch.last_mut() {
            Some(Record::Append { previous: first, entries, commit: None }) if entries.end(*first) == previous => {
                entries.push(run);
            }
            _ => {
                self.batch.reserve_exact(1); // mostly it is the only one
                self.batch.push(Record::Append { previous, entries: run.into(), commit: None });
            }
        }
        self.makes_safe(last);
    }

    /// That entry is known to be committed. What is open in the log was closed.
    pub(crate) fn push_hint(&mut self, at: Position) {
        match self.batch.last_mut() {
            Some(Record::Append { commit, .. }) => *commit = Some(at),
            _ => self.batch.push(Record::Commit(at)),
        }
    }

    /// When the open batch is safe, so is the log up to `last`.
    fn makes_safe(&mut self, last: Index) {
        match self.appended.back_mut() {
            Some((id, index)) if *id == self.open => *index = last,
            _ => self.appended.push_back((self.open, last)),
        }
    }

    /// What was under way beyond `last` will not make anything safe any more.
    pub(crate) fn truncate(&mut self, last: Index) {
        self.safe = self.safe.min(last);
        for (_, index) in &mut self.appended {
            *index = (*index).min(last);
        }
    }

    /// Nothing that was safe before counts: not even the base, until this record is.
    pub(crate) fn start_over(&mut self, log: &mut Log, record: Record, base: Index) {
        self.safe = Index(0);
        self.appended.clear();
        self.storing.clear();
        self.saves.clear();
        self.cut = self.push(log, record);
        self.makes_safe(base);
    }

    /// The write after which the log is safe up to `index`.
    pub(crate) fn covers(&self, index: Index) -> WriteId {
        if index <= self.safe {
            return WriteId(0);
        }
        self.appended.iter().find(|(_, upto)| *upto >= index).map_or(self.open, |(id, _)| *id)
    }

    /// The same, with write ids counted from the last one that is safe.
    pub(crate) fn rename_writes(&mut self) {
        let by = self.written.0;
        self.open.0 -= by;
        self.written = WriteId(0);
        self.promise.0 = self.promise.0.saturating_sub(by);
        self.cut.0 = self.cut.0.saturating_sub(by);
        self.appended.iter_mut().for_each(|(id, _)| id.0 -= by);
        self.saves.iter_mut().for_each(|(id, _)| id.0 -= by);
        let first = self.storing.front().map_or(self.next_store.0, |(id, ..)| id.0) - 1;
        self.storing.iter_mut().for_each(|(id, ..)| id.0 -= first);
        self.next_store.0 -= first;
        self.held.iter_mut().for_each(|(id, _, _)| id.0 -= by);
    }

    pub(crate) fn records(&mut self) -> impl Iterator<Item = &mut Record> {
        self.batch.iter_mut()
    }

    pub(crate) fn is_promise_safe(&self) -> bool {
        self.promise <= self.written
    }

    pub(crate) fn has_tables(&self) -> bool {
        self.batch.iter().any(|record| matches!(record, Record::Save(_) | Record::Take(_)))
    }

    pub(crate) fn has_batch(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Closes the open batch, if there is anything in it.
    pub(crate) fn seal(&mut self, out: &mut Outbox) {
        if !self.batch.is_empty() {
            out.push(Output::Write { id: self.open, records: core::mem::take(&mut self.batch) });
            self.open.0 += 1;
        }
    }

    pub(crate) fn store(&mut self, image: Image, save: Save, out: &mut Outbox) {
        let id = self.next_store;
        self.next_store.0 += 1;
        let without_tables = Image { tables: Vec::new(), ..image.clone() };
        out.push(Output::Store { id, image });
        self.storing.push_back((id, without_tables, save));
    }

    /// The record that refers to them is written like any other, in its turn; unless nobody wants them any more.
    pub(crate) fn on_stored(&mut self, log: &mut Log, id: StoreId, tables: Vec<(Slot, Bytes)>, out: &mut Outbox) {
        let Some(at) = self.storing.iter().position(|(storing, ..)| *storing == id) else {
            return out.push(Output::Release { tables });
        };
        let (_, image, save) = self.storing.remove(at).expect("just found");
        let image = Image { tables, ..image };
        let record = match save {
            Save::Checkpoint(_) => Record::Save(image),
            Save::Taken { .. } => Record::Take(image),
        };
        let id = self.push(log, record);
        self.saves.push_back((id, save));
    }

    /// These slots are missing again: their tables are of a former rule, as of `reign` or later. What is being stored of them is not to
    /// be referred to any more, for the record would stand behind the Reign; and what was written before it fills nothing. (1. An
    /// image is written; 2. the Reign comes, and it is void; 3. it is taken again, and being stored; 4. the first write is safe. If that
    /// counted, this replica would say that it is whole, and after a crash it is not.)
    pub(crate) fn forget_tables(&mut self, reign: Index, former: &SlotSet) {
        self.storing.retain(|(_, image, save)| {
            assert!(
                image.as_of < reign || *save != Save::Checkpoint(image.as_of),
                "a checkpoint is of what is committed"
            );
            image.as_of < reign
        });
        for (_, save) in &mut self.saves {
            if let Save::Taken { slots, .. } = save {
                *slots = slots.difference(former);
            }
        }
    }

    /// These slots are no longer this bucket's. Should they come back, nothing that is under way now makes them safe.
    pub(crate) fn disown(&mut self, slots: &SlotSet) {
        let saves = self.saves.iter_mut().map(|(_, save)| save);
        for save in saves.chain(self.storing.iter_mut().map(|(_, _, save)| save)) {
            if let Save::Taken { slots: taken, .. } = save {
                *taken = taken.difference(slots);
            }
        }
    }

    pub(crate) fn is_saving(&self) -> bool {
        !self.storing.is_empty() || !self.saves.is_empty()
    }

    pub(crate) fn hold(&mut self, after: WriteId, to: Member, message: Message) {
        // One answer per batch and peer: the later one says it all.
        if let (Some((id, peer, Message::Prepared { term, upto, .. })), Message::Prepared { term: t, upto: u, .. }) =
            (self.held.back_mut(), &message)
            && *id == after
            && *peer == to
            && *term == *t
            && *upto <= *u
        {
            self.held.pop_back();
        }
        // Answers leave in the order of their writes; one that waits for an earlier write than its neighbour may go first.
        let place = self.held.partition_point(|(id, _, _)| *id <= after);
        self.held.insert(place, (after, to, message));
    }

    /// Returns whether this is news.
    pub(crate) fn on_written(&mut self, upto: WriteId) -> bool {
        if upto <= self.written || upto >= self.open {
            return false;
        }
        self.written = upto;
        while let Some((id, index)) = self.appended.front().copied() {
            if id > upto {
                break;
            }
            self.safe = self.safe.max(index);
            self.appended.pop_front();
        }
        true
    }

    pub(crate) fn release(&mut self) -> Option<(Member, Message)> {
        match self.held.front() {
            Some((id, _, _)) if *id <= self.written => self.held.pop_front().map(|(_, to, message)| (to, message)),
            _ => None,
        }
    }

    pub(crate) fn saved(&mut self) -> Option<Save> {
        match self.saves.front() {
            Some((id, _)) if *id <= self.written => self.saves.pop_front().map(|(_, save)| save),
            _ => None,
        }
    }

    pub(crate) fn instants(&mut self) -> impl Iterator<Item = &mut Instant> {
        self.held.iter_mut().filter_map(|(_, _, message)| match message {
            Message::Prepared { sent, .. } | Message::Differs { sent, .. } | Message::BeaconAck { sent, .. } => {
                Some(sent)
            }
            Message::Prepare { .. }
            | Message::Outranked { .. }
            | Message::Beacon { .. }
            | Message::Begin { .. }
            | Message::Fill { .. }
            | Message::Filled { .. }
            | Message::Abdicate { .. } => None,
        })
    }
}
