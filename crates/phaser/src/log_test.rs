//! Logs against the dumbest model there is, a list of entries; and what comes from outside against nothing at all.

use alloc::vec;
use alloc::vec::Vec;

use blueprint::BucketId;
use bytes::Bytes;
use proptest::collection::vec as many;
use proptest::prelude::*;

use super::*;
use crate::durable::Record;
use crate::entry::Entry;

/// What a phaser does with its log.
#[derive(Clone, Debug)]
enum Act {
    Push {
        later: u64,
        payload: Payload,
    },
    Close,
    /// Entries that a primary sent, in runs of these lengths.
    Append {
        lengths: Vec<usize>,
        later: u64,
        payload: Payload,
    },
    /// As a part of what there is.
    Truncate {
        at: u8,
    },
    Cut {
        at: u8,
    },
    Gather,
}

fn payload() -> impl Strategy<Value = Payload> {
    let slots = SlotSet::range(Slot(3), Slot(70));
    prop_oneof![
        12 => (0..Slot::COUNT, prop_oneof![8 => 0..100usize, 1 => 1000..3000usize], any::<u8>())
            .prop_map(|(slot, size, byte)| Payload::Command { slot: Slot(slot), body: vec![byte; size].into() }),
        1 => Just(Payload::Reign),
        1 => Just(Payload::Split { child: BucketId(300), slots: slots.clone() }),
        1 => Just(Payload::Freeze { into: BucketId(7) }),
        1 => any::<i64>().prop_map(move |ahead| {
            Payload::Absorb { from: BucketId(9), freeze: Position::new(1, 900), slots: slots.clone(), ahead }
        }),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let later = || prop_oneof![20 => Just(0u64), 1 => Just(1u64)];
    prop_oneof![
        12 => (later(), payload()).prop_map(|(later, payload)| Act::Push { later, payload }),
        6 => Just(Act::Close),
        4 => (many(1..5usize, 1..4), later(), payload())
            .prop_map(|(lengths, later, payload)| Act::Append { lengths, later, payload }),
        1 => any::<u8>().prop_map(|at| Act::Truncate { at }),
        1 => any::<u8>().prop_map(|at| Act::Cut { at }),
        1 => Just(Act::Gather),
    ]
}

/// A log, what it should have, and the log of whoever absorbs its records.
struct Twins {
    log: Log,
    model: Vec<Entry>,
    base: Position,
    other: Log,
    closed: usize,
    stamps: u64,
}

impl Twins {
    fn new() -> Self {
        let base = Position::new(2, 40);
        let log = Log::new(base, 11);
        Self { other: log.clone(), log, model: Vec::new(), base, closed: 0, stamps: 100 }
    }

    fn next(&mut self, later: u64, payload: Payload) -> Entry {
        self.stamps += 1;
        let last = self.model.last().map_or(self.base, |entry| entry.at);
        let at = Position { term: Term(last.term.0 + later), index: last.index.next() };
        Entry { at, clock: self.stamps, seed: self.stamps << 20, payload }
    }

    fn write(&mut self, previous: Position, run: Run) {
        assert_eq!(self.other.last(), previous);
        self.other.adopt(run);
        self.closed = self.model.len();
    }

    fn close(&mut self) {
        if let Some((previous, run)) = self.log.close() {
            self.write(previous, run);
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Push { later, payload } => {
                let entry = self.next(later, payload);
                if !self.log.is_open_to(entry.at.term) {
                    self.close();
                }
                let index = match &entry.payload {
                    Payload::Command { slot, body } => {
                        let write = |bodies: &mut BytesMut| bodies.extend_from_slice(body);
                        self.log.push_command(entry.at.term, (entry.clock, entry.seed), *slot, body.len(), write)
                    }
                    other => self.log.push(entry.at.term, entry.clock, entry.seed, other),
                };
                assert_eq!(index, entry.at.index);
                self.model.push(entry);
            }
            Act::Close => self.close(),
            Act::Append { lengths, later, payload } => {
                self.close();
                for (at, length) in lengths.into_iter().enumerate() {
                    let first = self.model.len();
                    for _ in 0..length {
                        let later = if at == 0 && self.model.len() == first { later } else { 0 };
                        let entry = self.next(later, payload.clone());
                        self.model.push(entry);
                    }
                    let entries: Entries = self.model[first..].iter().cloned().collect();
                    for run in entries.runs() {
                        let previous = self.log.last();
                        let run = self.log.append(run.clone());
                        self.write(previous, run);
                    }
                }
            }
            Act::Truncate { at } if !self.model.is_empty() => {
                self.close();
                let left = usize::from(at) % self.model.len();
                let from = self.model[left].at.index;
                self.model.truncate(left);
                self.closed = left;
                self.log.truncate(from);
                self.other.truncate(from);
            }
            Act::Cut { at } if self.closed > 0 => {
                let gone = usize::from(at) % self.closed + 1;
                self.base = self.model[gone - 1].at;
                self.model.drain(..gone);
                self.closed -= gone;
                self.log.cut(self.base);
                self.other.cut(self.base);
            }
            Act::Gather => {
                self.close();
                self.other.gather();
            }
            Act::Truncate { .. } | Act::Cut { .. } => {}
        }
    }

    fn check(&self) {
        let Self { log, model, base, other, closed, .. } = self;
        assert_eq!(log.iter().map(|entry| entry.to_entry()).collect::<Vec<_>>(), *model);
        assert_eq!(other.iter().map(|entry| entry.to_entry()).collect::<Vec<_>>(), model[..*closed]);
        assert_eq!(
            (log.base(), log.len(), log.last()),
            (*base, model.len() as u64, model.last().map_or(*base, |e| e.at))
        );
        let plain = model.iter().filter(|entry| matches!(entry.payload, Payload::Command { .. })).count();
        assert_eq!(log.milestones().count(), model.len() - plain);
        for (at, entry) in model.iter().enumerate() {
            assert_eq!(log.get(entry.at.index).map(|entry| entry.to_entry()).as_ref(), Some(entry));
            assert!(log.holds(entry.at) && !log.holds(Position { term: Term(1), ..entry.at }));
            assert_eq!(log.from(entry.at.index).count(), model.len() - at);
        }
        assert!(log.get(base.index).is_none() && log.get(log.last().index.next()).is_none());
        let other_way = Log::with(*base, log.base_clock(), &model.iter().cloned().collect());
        assert_eq!(other_way.as_ref(), Some(log));
        if closed == &model.len() {
            assert_eq!(log, other);
        }
    }
}

/// The frame as it would be cut out of a list.
fn frame_of(model: &[Entry], most: usize, bytes: usize) -> &[Entry] {
    let mut before = 0;
    let full = model.iter().take(most).position(|entry| {
        let full = before >= bytes;
        if let Payload::Command { body, .. } = &entry.payload {
            before += body.len();
        }
        full
    });
    &model[..full.unwrap_or(model.len().min(most))]
}

fn encoded(entries: &Entries) -> Vec<u8> {
    postcard::to_allocvec(entries).expect("entries have an encoding")
}

fn decoded(bytes: &[u8]) -> Option<Entries> {
    postcard::take_from_bytes(bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(entries, _)| entries)
}

/// What was decoded can be looked at, and means the same when it comes once more.
fn check_sound(entries: &Entries) {
    for run in entries.runs() {
        assert!(run.iter().count() == run.len() && run.last().index.0 < MOST_INDEX);
    }
    let copies: Vec<Entry> = entries.iter().map(|entry| entry.to_entry()).collect();
    assert_eq!(&copies.into_iter().collect::<Entries>(), entries);
    assert_eq!(decoded(&encoded(entries)).as_ref(), Some(entries));
}

proptest! {
    #[test]
    fn a_log_is_a_list(acts in many(act(), 0..80)) {
        let mut twins = Twins::new();
        for act in acts {
            twins.act(act);
            twins.check();
        }
    }

    #[test]
    fn a_frame_is_cut_as_from_a_list(
        acts in many(act(), 1..60),
        at in any::<u8>(),
        most in 1..20usize,
        bytes in 1..3000usize,
    ) {
        let mut twins = Twins::new();
        acts.into_iter().for_each(|act| twins.act(act));
        twins.close();
        let at = usize::from(at) % (twins.model.len() + 1);
        let frame = twins.log.frame(Index(twins.base.index.0 + 1 + at as u64), most, bytes);
        let expected = frame_of(&twins.model[at..], most, bytes);
        assert_eq!(frame.iter().map(|entry| entry.to_entry()).collect::<Vec<_>>(), expected);
        check_sound(&frame);
    }

    #[test]
    fn what_a_log_takes_is_the_sum_of_its_entries(
        acts in many(act(), 1..60),
        ends in any::<[prop::sample::Index; 2]>(),
        most in 0..20u64,
        bytes in 0..6000u64,
    ) {
        let mut twins = Twins::new();
        acts.into_iter().for_each(|act| twins.act(act));
        twins.close();
        let (log, base) = (&twins.log, twins.base.index.0);
        let size = |index: u64| log.bytes_of(Index(index), Index(index));
        let [first, last] = ends.map(|end| base + 1 + end.index(twins.model.len() + 1) as u64);
        let last = last.min(log.last().index.0);
        assert_eq!(log.bytes_of(Index(first), Index(last)), (first..=last).map(size).sum::<usize>());
        assert_eq!((base + 1..=log.last().index.0).map(size).sum::<usize>(), log.bytes());
        let mut left = bytes;
        let fits = |index: &u64| {
            let after = left.checked_sub(size(*index) as u64);
            left = after.unwrap_or(0);
            after.is_some()
        };
        let kept = (base + 1..=last).rev().take(most as usize).take_while(fits).count() as u64;
        assert_eq!(log.behind(Index(last), most, bytes), Index(last - kept));
    }

    #[test]
    fn any_bytes_are_refused_or_sound(bytes in many(any::<u8>(), 0..200)) {
        decoded(&bytes).iter().for_each(check_sound);
    }

    #[test]
    fn flipped_bits_are_refused_or_sound(
        payloads in many(payload(), 1..6),
        flips in many((any::<prop::sample::Index>(), 0..8u8), 1..4),
    ) {
        let mut twins = Twins::new();
        payloads.into_iter().for_each(|payload| twins.act(Act::Push { later: 0, payload }));
        twins.close();
        let mut bytes = encoded(&twins.log.entries());
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        decoded(&bytes).iter().for_each(check_sound);
    }

    #[test]
    fn what_is_cut_short_is_refused(payloads in many(payload(), 1..4), length in any::<prop::sample::Index>()) {
        let mut twins = Twins::new();
        payloads.into_iter().for_each(|payload| twins.act(Act::Push { later: 0, payload }));
        twins.close();
        let bytes = encoded(&twins.log.entries());
        assert!(decoded(&bytes[..length.index(bytes.len())]).is_none());
    }
}

fn set(size: usize) -> Payload {
    Payload::Command { slot: Slot(5), body: Bytes::from(vec![1; size]) }
}

/// However little is written at a time, the log and whoever absorbs its records have few runs, and those in common.
#[test]
fn small_runs_are_joined_and_shared() {
    for length in [1, 2, 4, 16] {
        let mut twins = Twins::new();
        for _ in 0..2048 / length {
            (0..length).for_each(|_| twins.act(Act::Push { later: 0, payload: set(90) }));
            twins.close();
        }
        twins.check();
        let runs = |log: &Log| log.runs.iter().map(|run| (run.first(), run.last(), run.block())).collect::<Vec<_>>();
        assert_eq!(runs(&twins.log), runs(&twins.other), "the same memory");
        assert!(
            twins.log.runs() <= 2048 / JOINED_RUNS + JOINED_RUNS,
            "{} runs of what came {length} at a time",
            twins.log.runs()
        );
    }
}

/// What was read back is joined, once, with nobody to share with.
#[test]
fn what_was_read_is_gathered() {
    let mut log = Log::new(Position::default(), 0);
    let mut twins = Twins::new();
    for _ in 0..1000 {
        twins.act(Act::Push { later: 0, payload: set(90) });
        twins.close();
    }
    for entry in &twins.model {
        let entry = Entry { at: Position { index: Index(entry.at.index.0 - 40), ..entry.at }, ..entry.clone() };
        Entries::from_iter([entry]).runs().for_each(|run| log.adopt(run.clone()));
    }
    let before = log.clone();
    assert_eq!(log.runs(), 1000);
    log.gather();
    assert!(log == before && log.runs() <= 5);
}

/// A large value is not copied again to become part of a run, and takes nothing along.
#[test]
fn large_ones_stay_apart() {
    let mut twins = Twins::new();
    for size in [90, 100_000, 90, 1 << 20, 90] {
        twins.act(Act::Push { later: 0, payload: set(size) });
        twins.close();
        twins.check();
    }
    assert_eq!(twins.log.runs(), 5);
    (0..2000).for_each(|_| twins.act(Act::Push { later: 0, payload: set(90) }));
    twins.check();
    assert!(twins.log.runs.iter().all(|run| run.len() <= 512), "memory is given back by whole runs");
}

/// What a record shows is what is new, whatever else lies in the same block.
#[test]
fn a_record_shows_what_is_new() {
    let mut twins = Twins::new();
    for _ in 1..JOINED_RUNS {
        twins.act(Act::Push { later: 0, payload: set(9) });
        twins.close();
    }
    twins.act(Act::Push { later: 0, payload: set(10) });
    let (previous, run) = twins.log.close().expect("there is one");
    assert_eq!((previous, run.len(), twins.log.runs()), (Position::new(2, 55), 1, 1));
    let record = Record::Append { previous, entries: Entries::from_iter([run]), commit: None };
    let bytes = postcard::to_allocvec(&record).expect("a record has an encoding");
    assert!(bytes.len() < 50, "{} bytes", bytes.len());
    let again: Record = postcard::from_bytes(&bytes).expect("it was just encoded");
    assert_eq!(again, record);
}

/// A large value lies where it was written, in little more memory than it takes.
#[test]
fn a_large_value_is_not_moved() {
    let mut log = Log::new(Position::default(), 0);
    let (body, mut at) = (vec![7; 1 << 20], core::ptr::null());
    log.push_command(Term(1), (1, 1), Slot(1), body.len() + 10, |bodies| {
        bodies.extend_from_slice(&body);
        at = bodies.as_ptr();
        assert!(bodies.capacity() < body.len() + 200);
    });
    let (_, run) = log.close().expect("there is one");
    assert_eq!(run.block(), (at, body.len() + 24));
}
