//! One replica as the explorer keeps it: the real phaser, its disk, its tables; and what one input does to it.
//!
//! A replica is always kept in canonical form, as if the time were [`NOW`]: time does not pass by counting up, everything else
//! grows older (see [`Replica::age`]). So two replicas with the same past-independent state are the same value, and what an
//! input does to it has to be computed only once.

use std::hash::Hash;
use std::time::Duration;

use blueprint::{BucketId, Change, Conduct, Index, Instant, Position, Slot, SlotSet, Term};
use bytes::Bytes;
use phaser::{Config, Durable, Envelope, Event, Fork, Founding, Frozen, Image, Input, Message, Outbox, Output, Phaser};
use phaser::{Record, Ticket, WriteId};

use super::facts::Committed;
use super::meta::CHILD;

/// What every clock says, always: the instant to which the phaser's `canonical` shifts the present.
pub(super) const NOW: Instant = Instant(10_000_000);
/// The one step in which time passes. As long as what `canonical` remembers of the past: whatever is a tick old is simply old.
pub(super) const TICK: Duration = Duration::from_micros(NOW.0);
/// Slots that exist here: 0, and 1 for what a split takes away.
pub(super) const SLOTS: usize = 2;
/// Tickets from here on are reads; those before are the numbers of writes.
pub(super) const FIRST_READ: u64 = 100;

/// Per slot, the numbers of the writes that were executed on it, in order.
pub(super) type Tables = [Vec<u8>; SLOTS];

#[derive(Clone, Hash)]
pub(super) struct Replica<C> {
    pub(super) phaser: Phaser<C>,
    /// What a crash cannot take; none until the record that founds the replica is synced.
    pub(super) durable: Option<Durable>,
    /// Writes under way, in order.
    pub(super) pending: Vec<(WriteId, Vec<Record>)>,
    pub(super) tables: Tables,
    /// Joint mode began in this term, and this replica still leads it. Only counted, never decided upon.
    pub(super) joint: Option<Term>,
}

/// What happened besides messages, for the checks and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Acknowledged {
        write: u8,
    },
    /// The client was told that it certainly did not happen here.
    Refused {
        write: u8,
    },
    Uncertain {
        write: u8,
    },
    /// A read was answered; these writes were visible.
    Read {
        read: u8,
        slot: u8,
        sees: u8,
    },
    Reigned {
        term: Term,
    },
    Serving {
        term: Term,
    },
    SteppedDown {
        term: Term,
    },
    Joint,
    Drained,
    Dropped(phaser::Dropped),
    /// Its Freeze is applied.
    Frozen,
    /// It has taken the child's slots over.
    Absorbed,
}

/// What a step means for the replica of the other bucket on the same node: a child that fades, or the parent that absorbs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// The parent hears how the child ended. `named`: a committed Absorb names that Freeze.
    Meet { named: Option<Position> },
    /// The child's tables of these slots are the parent's now.
    Given { slots: SlotSet },
}

/// How a child ended, and its tables: all that the replica beside it is shown.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Meeting {
    pub(super) frozen: Option<Frozen>,
    pub(super) tables: Tables,
}

/// What one input led to.
pub(super) struct Played<C> {
    /// None when it is gone: a crash took the record that founded it.
    pub(super) replica: Option<Replica<C>>,
    pub(super) sent: Vec<Envelope>,
    pub(super) proposals: Vec<(Term, Change)>,
    pub(super) questions: Vec<u64>,
    pub(super) registers: Vec<(BucketId, SlotSet, Position)>,
    /// Absorbs that the blueprint is to know of.
    pub(super) merges: Vec<Position>,
    pub(super) forks: Vec<(Fork, Tables)>,
    pub(super) beside: Vec<Beside>,
    pub(super) deeds: Vec<Deed>,
    /// What it came to hold as committed.
    pub(super) committed: Vec<Committed>,
}

/// Whether writes are safe at once, or when the explorer says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    Instant,
    Slow,
}

impl<C: Conduct + Hash> Replica<C> {
    pub(super) fn found(config: &Config, founding: Founding, tables: Tables, disk: Disk) -> Played<C> {
        let phaser = Phaser::found(config.clone(), founding, 0, NOW);
        let replica = Self { phaser, durable: None, pending: Vec::new(), tables, joint: None };
        Hands::new(replica, disk).finish()
    }

    /// One input, and the end of the batch after it.
    pub(super) fn play(&self, input: Input, disk: Disk) -> Played<C> {
        let mut hands = Hands::new(self.clone(), disk);
        hands.step(input);
        hands.finish()
    }

    /// It meets the frozen replica beside it.
    pub(super) fn meet(&self, meeting: Meeting, disk: Disk) -> Played<C> {
        let mut hands = Hands::new(self.clone(), disk);
        hands.tables_beside = meeting.tables;
        hands.step(Input::Met { bucket: CHILD, frozen: meeting.frozen });
        hands.finish()
    }

    /// The replica beside it has taken these tables. On disk they stay.
    pub(super) fn give(&self, slots: &SlotSet, disk: Disk) -> Played<C> {
        let mut hands = Hands::new(self.clone(), disk);
        discard(&mut hands.replica.tables, slots);
        hands.step(Input::Given);
        hands.finish()
    }

    /// The first of what is under way is safe now: this many writes.
    pub(super) fn sync(&self, writes: usize, disk: Disk) -> Played<C> {
        let mut hands = Hands::new(self.clone(), disk);
        hands.sync(writes);
        hands.finish()
    }

    /// The process dies and starts again. Of the records under way those stay whose bit is set. `children` are what else the
    /// process finds when it starts.
    pub(super) fn crash(&self, kept: u16, children: &[(BucketId, Position)], config: &Config, disk: Disk) -> Played<C> {
        let mut durable = self.durable.clone();
        for (at, record) in self.pending.iter().flat_map(|(_, records)| records).enumerate() {
            if kept & (1 << at) != 0 {
                absorb(&mut durable, record);
            }
        }
        let Some(durable) = durable else { return Played::gone() };
        let mut tables = Tables::default();
        for (slot, bytes) in &durable.tables {
            tables[usize::from(slot.0)] = bytes.to_vec();
        }
        let mut outbox = Outbox::default();
        let phaser = Phaser::recover(config.clone(), durable.clone(), children, 0, NOW, &mut outbox);
        let replica = Self { phaser, durable: Some(durable), pending: Vec::new(), tables, joint: None };
        let mut hands = Hands::new(replica, disk);
        hands.noted = Index(0);
        hands.note_committed();
        hands.carry_out(&mut outbox);
        hands.finish()
    }

    /// A tick passes.
    pub(super) fn age(&self) -> Self {
        let mut older = self.clone();
        older.phaser = self.phaser.canonical(NOW + TICK);
        older
    }

    /// How many records a crash could take.
    pub(super) fn unsynced(&self) -> usize {
        self.pending.iter().map(|(_, records)| records.len()).sum()
    }

    /// Would a read of this slot be answered right now?
    pub(super) fn answers_reads(&self, slot: Slot) -> bool {
        if self.phaser.leads().is_none() {
            return false;
        }
        let mut probe = self.phaser.clone();
        let mut outbox = Outbox::default();
        probe.step(NOW, Input::Read { ticket: Ticket(FIRST_READ), slot }, &mut outbox);
        outbox.take().iter().any(|output| matches!(output, Output::Serve { good_until, .. } if *good_until > NOW))
    }
}

/// The write that has this number: its whole content.
pub(super) fn body(write: u8) -> Bytes {
    static BODIES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    Bytes::from_static(&BODIES[usize::from(write)..=usize::from(write)])
}

/// A set of writes, one bit each.
pub(super) fn bits(writes: &[u8]) -> u8 {
    writes.iter().fold(0, |bits, write| bits | 1 << write)
}

/// Carries out what the phaser decides, as a node does: what a step decided is finished before what follows from it begins.
struct Hands<C> {
    disk: Disk,
    played: Played<C>,
    replica: Replica<C>,
    written: u64,
    /// What is committed up to here has been noted.
    noted: Index,
    /// Those of the frozen replica that it meets in this very step.
    tables_beside: Tables,
}

impl<C: Conduct + Hash> Hands<C> {
    fn new(replica: Replica<C>, disk: Disk) -> Self {
        let noted = replica.phaser.commit();
        Self { disk, played: Played::gone(), replica, written: 0, noted, tables_beside: Tables::default() }
    }

    fn step(&mut self, input: Input) {
        let mut outbox = Outbox::default();
        self.replica.phaser.step(NOW, input, &mut outbox);
        self.note_committed();
        self.carry_out(&mut outbox);
    }

    /// After every step, because the log may be cut in the next one.
    fn note_committed(&mut self) {
        let phaser = &self.replica.phaser;
        let news = phaser.log().iter().filter(|e| e.at.index > self.noted && e.at.index <= phaser.commit());
        self.played.committed.extend(news.map(Committed::of));
        self.noted = phaser.commit();
    }

    fn finish(mut self) -> Played<C> {
        self.end_batch();
        while self.disk == Disk::Instant && !self.replica.pending.is_empty() {
            self.sync(usize::MAX);
            self.end_batch();
        }
        self.replica.phaser.check_invariants();
        let leads = self.replica.phaser.leads().map(|(term, _)| term);
        self.replica.joint = self.replica.joint.filter(|term| Some(*term) == leads);
        self.replica.phaser = self.replica.phaser.canonical(NOW);
        for (id, _) in &mut self.replica.pending {
            id.0 -= self.written; // as `canonical` does
        }
        self.played.replica = Some(self.replica);
        self.played
    }

    fn end_batch(&mut self) {
        self.step(Input::Checkpoint);
        let wanted = |this: &Self| this.replica.phaser.fills().find(|fill| fill.wants).map(|fill| fill.to);
        while let Some(to) = wanted(self) {
            self.step(Input::Fill { to });
        }
        self.step(Input::Flush);
    }

    fn sync(&mut self, writes: usize) {
        let writes = writes.min(self.replica.pending.len());
        let mut upto = WriteId(0);
        for (id, records) in self.replica.pending.drain(..writes) {
            records.iter().for_each(|record| absorb(&mut self.replica.durable, record));
            upto = id;
        }
        self.written = upto.0;
        self.step(Input::Written { upto });
    }

    fn carry_out(&mut self, outbox: &mut Outbox) {
        let mut later = Vec::new();
        for output in outbox.take() {
            self.carry_out_one(output, &mut later);
        }
        for input in later {
            self.step(input);
        }
    }

    fn carry_out_one(&mut self, output: Output, later: &mut Vec<Input>) {
        let Self { replica, played, tables_beside, .. } = self;
        match output {
            Output::Send(envelope) => played.sent.push(envelope),
            Output::Write { id, records } => {
                replica.pending.push((id, records.into_iter().map(Record::canonical).collect()));
            }
            // At once: that others come in between is for the simulator.
            Output::Store { id, image } => {
                later.push(Input::Stored { id, tables: encode(&replica.tables, &image.replaced) });
                later.push(Input::Flush);
            }
            Output::Release { .. } => {}
            Output::Apply { index, ticket, .. } => {
                let entry = replica.phaser.log().get(index).expect("what was applied in this step is in the log");
                if let Some((slot, body)) = entry.command() {
                    replica.tables[usize::from(slot.0)].push(body[0]);
                    played.deeds.extend(ticket.map(|_| Deed::Acknowledged { write: body[0] }));
                }
            }
            Output::Serve { ticket, good_until, .. } => {
                if good_until > NOW {
                    played.deeds.push(Deed::read(ticket, &replica.tables));
                }
            }
            Output::Refuse { ticket, .. } | Output::Forward { ticket } => {
                played.deeds.extend(write_of(ticket).map(|write| Deed::Refused { write }));
            }
            Output::Uncertain { ticket } => {
                played.deeds.extend(write_of(ticket).map(|write| Deed::Uncertain { write }));
            }
            Output::Fork(fork) => {
                let mut tables = Tables::default();
                for slot in fork.slots.iter() {
                    tables[usize::from(slot.0)] = std::mem::take(&mut replica.tables[usize::from(slot.0)]);
                }
                played.forks.push((fork, tables));
            }
            Output::Discard { slots } => discard(&mut replica.tables, &slots),
            Output::Install { image } => {
                discard(&mut replica.tables, &image.covered);
                for (slot, bytes) in &image.tables {
                    replica.tables[usize::from(slot.0)] = bytes.to_vec();
                }
            }
            Output::SendImage { to, term, as_of, slots, .. } => {
                let tables = encode(&replica.tables, &slots);
                let bytes = tables.iter().map(|(_, table)| table.len()).sum();
                let image = Image { as_of, covered: slots.clone(), replaced: slots.clone(), tables };
                later.push(Input::ImageSent { to, slots, bytes });
                played.sent.push(Envelope { from: replica.phaser.me(), to, message: Message::Fill { term, image } });
            }
            Output::Propose { term, change } => played.proposals.push((term, change)),
            Output::Register { child, slots, at } => played.registers.push((child, slots, at)),
            Output::Frozen { .. } => {
                played.deeds.push(Deed::Frozen);
                played.beside.push(Beside::Meet { named: None });
            }
            Output::SeekFrozen { at, .. } => played.beside.push(Beside::Meet { named: at }),
            Output::Absorb { slots, .. } => {
                for slot in slots.iter().map(|slot| usize::from(slot.0)) {
                    replica.tables[slot] = std::mem::take(&mut tables_beside[slot]);
                }
                played.deeds.push(Deed::Absorbed);
                played.beside.push(Beside::Given { slots });
            }
            Output::Merge { at, .. } => played.merges.push(at),
            Output::Ask { nonce } => played.questions.push(nonce),
            Output::Event(event) => self.note(&event),
        }
    }

    fn note(&mut self, event: &Event) {
        self.played.deeds.push(match *event {
            Event::Reigned { term, .. } => Deed::Reigned { term },
            Event::Serving { term } => Deed::Serving { term },
            Event::SteppedDown { term } => Deed::SteppedDown { term },
            Event::JointBegan { term, .. } => {
                self.replica.joint = Some(term);
                Deed::Joint
            }
            Event::Drained { .. } => Deed::Drained,
            Event::Dropped(why) => Deed::Dropped(why),
        });
    }
}

impl<C> Played<C> {
    fn gone() -> Self {
        Self {
            replica: None,
            sent: Vec::new(),
            proposals: Vec::new(),
            questions: Vec::new(),
            registers: Vec::new(),
            merges: Vec::new(),
            forks: Vec::new(),
            beside: Vec::new(),
            deeds: Vec::new(),
            committed: Vec::new(),
        }
    }
}

impl Deed {
    /// The ticket of a read says which slot it is for.
    fn read(ticket: Ticket, tables: &Tables) -> Self {
        let read = (ticket.0 - FIRST_READ) as u8;
        let slot = read % SLOTS as u8;
        Self::Read { read, slot, sees: bits(&tables[usize::from(slot)]) }
    }
}

fn write_of(ticket: Ticket) -> Option<u8> {
    (ticket.0 < FIRST_READ).then_some(ticket.0 as u8)
}

fn absorb(durable: &mut Option<Durable>, record: &Record) {
    match durable {
        Some(durable) => durable.absorb(record),
        None => *durable = Durable::found(record),
    }
}

fn encode(tables: &Tables, slots: &SlotSet) -> Vec<(Slot, Bytes)> {
    let held = slots.iter().filter(|slot| !tables[usize::from(slot.0)].is_empty());
    held.map(|slot| (slot, Bytes::from(tables[usize::from(slot.0)].clone()))).collect()
}

fn discard(tables: &mut Tables, slots: &SlotSet) {
    for slot in slots.iter() {
        tables[usize::from(slot.0)].clear();
    }
}
