//! Entries in a row: encoded once, when they are appended or come in, and shared from then on by the log, the record that is on its way to
//! the disk, what the journal keeps of it, and the messages to all peers.
//!
//! A run is a piece of one block of memory. The block has the bodies of all its entries one after the other, and then a head of fixed size
//! for each: so an entry is found without decoding anything, and a piece is written to disk or sent as two slices. All entries of a
//! run are of one term and have no holes between them, so one name says them all. Nothing in a block ever changes.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use blueprint::{Index, Position, Slot, Term};
use bytes::{Bytes, BytesMut};
use serde::de::Error as _;
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::entry::{Entry, EntryRef, Kind, Payload};
use crate::log::MOST_INDEX;

/// clock (8), seed (8), where the body ends (4), slot (2), kind (1), zero (1); little endian.
const HEAD: usize = 24;

/// A run that grows is closed when its bodies take so much, or when it has so many entries: memory is given back by whole blocks.
const MOST_BYTES: usize = 64 << 10;
const MOST_ENTRIES: usize = 512;

/// Runs that are closed one after the other lie in one piece of memory, as long as they fit. It is let go of with the last of them: as
/// they are of one log, that is soon after the first.
const PIECE_BYTES: usize = 2 << 10;

/// Small, because it is part of messages and records, which are handed from one to the other.
#[derive(Clone)]
pub struct Run {
    block: Arc<Block>,
    /// The index of the first entry in the block. What this run has of it begins `from` entries later.
    origin: u64,
    from: u32,
    /// Never empty: above `from`.
    to: u32,
}

struct Block {
    term: Term,
    /// Bodies, then heads.
    bytes: Bytes,
    /// Where the heads begin.
    heads_at: u32,
    /// There may be other things than commands in it.
    has_milestones: bool,
}

impl Run {
    pub fn term(&self) -> Term {
        self.block.term
    }

    /// The index of its first entry.
    pub fn first(&self) -> Index {
        Index(self.origin + u64::from(self.from))
    }

    pub fn last(&self) -> Position {
        Position { term: self.block.term, index: self.last_index() }
    }

    pub(crate) fn last_index(&self) -> Index {
        Index(self.origin + u64::from(self.to - 1))
    }

    pub fn len(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// It has at least one entry, always.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What it takes to write it: bodies and heads.
    pub fn bytes(&self) -> usize {
        (self.body_at(self.to) - self.body_at(self.from)) as usize + self.len() * HEAD
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = EntryRef<'_>> + Clone {
        (self.from..self.to).map(|at| self.entry(at))
    }

    pub(crate) fn may_have_milestones(&self) -> bool {
        self.block.has_milestones
    }

    /// The entry at this index, which must be in it.
    pub(crate) fn get(&self, index: Index) -> EntryRef<'_> {
        assert!(self.first() <= index && index <= self.last_index(), "a run is asked for what it has");
        self.entry((index.0 - self.origin) as u32)
    }

    /// Its last entry.
    pub(crate) fn end(&self) -> EntryRef<'_> {
        self.entry(self.to - 1)
    }

    fn entry(&self, at: u32) -> EntryRef<'_> {
        let Block { term, bytes, heads_at, .. } = &*self.block;
        let (bodies, heads) = bytes.split_at(*heads_at as usize);
        let position = Position { term: *term, index: Index(self.origin + u64::from(at)) };
        entry_in(position, heads, bodies, at as usize, Some(bytes))
    }

    /// Without what comes before `first`.
    pub(crate) fn starting_at(mut self, first: Index) -> Self {
        if first > self.first() {
            assert!(first <= self.last_index(), "a run is never empty");
            self.from = (first.0 - self.origin) as u32;
        }
        self
    }

    /// Without what comes after `last`.
    pub(crate) fn ending_at(mut self, last: Index) -> Self {
        if last < self.last_index() {
            assert!(last >= self.first(), "a run is never empty");
            self.to = (last.0 - self.origin) as u32 + 1;
        }
        self
    }

    /// What a command is stamped with, without a look at its body; none for a milestone.
    pub(crate) fn stamped_command(&self, index: Index) -> Option<(Slot, u64, u64)> {
        let place = (index.0 - self.origin) as usize;
        let Head { clock, seed, slot, kind, .. } = Head::read(self.heads_from(place).first_chunk::<HEAD>()?);
        (kind == Kind::Command as u8).then_some((Slot(slot), clock, seed))
    }

    /// Does the block have that run too, right before what this one has of it? What has the same name and was stamped in the same moment
    /// is the same.
    pub(crate) fn follows_in_block(&self, before: &Self) -> bool {
        self.from > 0
            && before.term() == self.term()
            && before.first().0 >= self.origin
            && before.last_index().next() == self.first()
            && self.entry(self.from - 1).is_stamped_like(&before.end())
    }

    /// With what the block has before it, from `first` on.
    pub(crate) fn reaching_back_to(mut self, first: Index) -> Self {
        assert!(self.origin <= first.0 && first < self.first(), "the block has it, and this run has not");
        self.from = (first.0 - self.origin) as u32;
        self
    }

    /// Where the body of that entry of the block begins, which is where the one before it ends.
    #[inline]
    fn body_at(&self, place: u32) -> u32 {
        let Some(before) = place.checked_sub(1) else { return 0 };
        let end = self.heads_from(before as usize)[16..].first_chunk();
        u32::from_le_bytes(*end.expect("there is a head for each entry"))
    }

    pub(crate) fn bodies(&self) -> &[u8] {
        &self.block.bytes[self.body_at(self.from) as usize..self.body_at(self.to) as usize]
    }

    fn heads(&self) -> &[u8] {
        &self.heads_from(self.from as usize)[..self.len() * HEAD]
    }

    #[inline]
    fn heads_from(&self, place: usize) -> &[u8] {
        &self.block.bytes[self.block.heads_at as usize + place * HEAD..]
    }

    /// What its entries are stamped with.
    pub(crate) fn clocks(&self) -> impl Iterator<Item = u64> {
        self.heads().as_chunks::<HEAD>().0.iter().map(|head| Head::read(head).clock)
    }

    /// Where its memory lies, and how much of it there is.
    #[cfg(test)]
    pub(crate) fn block(&self) -> (*const u8, usize) {
        (self.block.bytes.as_ptr(), self.block.bytes.len())
    }

    /// These, which follow each other and are of one term, in one block of their own.
    pub(crate) fn joined<'a>(runs: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let (term, first) = runs.clone().map(|run| (run.term(), run.first())).next()?;
        let mut block = Vec::with_capacity(runs.clone().map(Self::bytes).sum());
        runs.clone().for_each(|run| block.extend_from_slice(run.bodies()));
        let (heads_at, mut before, mut has_milestones) = (block.len(), 0, false);
        for run in runs {
            let base = run.body_at(run.from);
            push_heads(&mut block, run.heads(), base, before);
            before += run.body_at(run.to) - base;
            has_milestones |= run.may_have_milestones();
        }
        Some(Self::of_block(term, first, block.into(), heads_at, has_milestones))
    }

    fn of_block(term: Term, first: Index, bytes: Bytes, heads_at: usize, has_milestones: bool) -> Self {
        let to = ((bytes.len() - heads_at) / HEAD) as u32;
        assert!(to > 0, "a run has entries");
        let heads_at = u32::try_from(heads_at).expect("no command is that large");
        Self { block: Arc::new(Block { term, bytes, heads_at, has_milestones }), origin: first.0, from: 0, to }
    }

    /// What came from outside, if it is what this program can have written.
    fn read(encoded: &Encoded) -> Option<Self> {
        let Encoded { term, first, base, heads, bodies } = *encoded;
        let (heads_found, []) = heads.as_chunks::<HEAD>() else { return None };
        if heads_found.is_empty() || first.0 == 0 || first.0.checked_add(heads_found.len() as u64)? >= MOST_INDEX {
            return None;
        }
        u32::try_from(bodies.len()).ok()?;
        let (mut has_milestones, mut before) = (false, base);
        for head in heads_found {
            let Head { end, slot, kind, zero, .. } = Head::read(head);
            let body = bodies.get(before.checked_sub(base)? as usize..end.checked_sub(base)? as usize)?;
            match Kind::from_byte(kind)? {
                Kind::Command => drop(Slot::new(slot)?),
                kind => {
                    has_milestones = true;
                    Payload::milestone(kind, body).filter(|_| slot == 0)?;
                }
            }
            if zero != 0 {
                return None;
            }
            before = end;
        }
        if (before - base) as usize != bodies.len() {
            return None;
        }
        let mut block = Vec::with_capacity(bodies.len() + heads.len());
        block.extend_from_slice(bodies);
        push_heads(&mut block, heads, base, 0);
        Some(Self::of_block(term, first, block.into(), bodies.len(), has_milestones))
    }
}

/// Heads of bodies that began at `from` and begin at `to` now.
fn push_heads(block: &mut Vec<u8>, heads: &[u8], from: u32, to: u32) {
    let start = block.len();
    block.extend_from_slice(heads);
    if from != to {
        for [.., end] in block[start..].as_chunks_mut::<HEAD>().0.iter_mut().map(thirds) {
            let rest = u64::from_le_bytes(*end);
            let moved = (rest as u32).wrapping_sub(from).wrapping_add(to);
            *end = (rest >> 32 << 32 | u64::from(moved)).to_le_bytes();
        }
    }
}

/// Clock, seed, and the rest.
fn thirds(head: &mut [u8; HEAD]) -> &mut [[u8; 8]; 3] {
    head.as_chunks_mut().0.try_into().expect("three times eight bytes")
}

struct Head {
    clock: u64,
    seed: u64,
    end: u32,
    slot: u16,
    kind: u8,
    zero: u8,
}

impl Head {
    fn read(bytes: &[u8; HEAD]) -> Self {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let rest = number(16);
        let [.., kind, zero] = *bytes;
        Self { clock: number(0), seed: number(8), end: rest as u32, slot: (rest >> 32) as u16, kind, zero }
    }

    fn write(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&self.clock.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seed.to_le_bytes());
        let rest = u64::from(self.end) | u64::from(self.slot) << 32 | u64::from(self.kind) << 48;
        bytes[16..].copy_from_slice(&rest.to_le_bytes());
        bytes
    }
}

/// Where the body of the entry begins that follows `at` others.
fn start_of_body(heads: &[u8], at: usize) -> u32 {
    let Some(before) = at.checked_sub(1) else { return 0 };
    let end = &heads[before * HEAD + 16..before * HEAD + 20];
    u32::from_le_bytes(end.try_into().expect("four bytes"))
}

fn entry_in<'a>(at: Position, heads: &[u8], bodies: &'a [u8], place: usize, block: Option<&'a Bytes>) -> EntryRef<'a> {
    let head: &[u8; HEAD] = heads[place * HEAD..(place + 1) * HEAD].try_into().expect("of that size");
    let Head { clock, seed, end, slot, kind, zero: _ } = Head::read(head);
    let body = &bodies[start_of_body(heads, place) as usize..end as usize];
    let kind = Kind::from_byte(kind).expect("it was looked at when it came in");
    EntryRef { at, clock, seed, kind, slot: Slot(slot), body, block }
}

impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_tuple(5)?;
        all.serialize_element(&self.block.term)?;
        all.serialize_element(&self.first())?;
        all.serialize_element(&self.body_at(self.from))?;
        all.serialize_element(&Slice(self.heads()))?;
        all.serialize_element(&Slice(self.bodies()))?;
        all.end()
    }
}

struct Slice<'a>(&'a [u8]);

impl Serialize for Slice<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

#[derive(Deserialize)]
struct Encoded<'a> {
    term: Term,
    first: Index,
    base: u32,
    heads: &'a [u8],
    bodies: &'a [u8],
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&Encoded::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("not a run of entries"))
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The end of a log that still grows: entries that nobody else has yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    term: Term,
    first: u64,
    heads: Vec<u8>,
    bodies: BytesMut,
    has_milestones: bool,
}

impl Open {
    pub(crate) fn new(term: Term, first: Index) -> Self {
        Self { term, first: first.0, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.heads.len() / HEAD
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub(crate) fn first(&self) -> Index {
        Index(self.first)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bodies.len() >= MOST_BYTES || self.len() >= MOST_ENTRIES
    }

    pub(crate) fn term(&self) -> Term {
        self.term
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bodies.len() + self.heads.len()
    }

    pub(crate) fn may_have_milestones(&self) -> bool {
        self.has_milestones
    }

    /// Empty, it becomes what follows `last`.
    pub(crate) fn begin(&mut self, term: Term, first: Index) {
        assert!(self.is_empty(), "what is begun is empty");
        (self.term, self.first) = (term, first.0);
    }

    /// `write` adds the body, of at most so many bytes.
    pub(crate) fn push_command(
        &mut self,
        clock: u64,
        seed: u64,
        slot: Slot,
        most: usize,
        write: impl FnOnce(&mut BytesMut),
    ) {
        // For the heads too: a large value must not be moved, nor take twice its room, because of them.
        let room = most + self.heads.len() + HEAD;
        if !self.is_empty() {
            self.bodies.reserve(room);
        } else if self.bodies.capacity() < room {
            self.bodies = BytesMut::with_capacity(room.max(PIECE_BYTES));
        }
        write(&mut self.bodies);
        self.push_head(clock, seed, slot, Kind::Command);
    }

    pub(crate) fn push(&mut self, clock: u64, seed: u64, payload: &Payload) {
        if let Payload::Command { slot, body } = payload {
            return self.push_command(clock, seed, *slot, body.len(), |bodies| bodies.extend_from_slice(body));
        }
        self.bodies.extend_from_slice(&payload.milestone_body());
        self.has_milestones = true;
        self.push_head(clock, seed, Slot(0), payload.kind());
    }

    fn push_head(&mut self, clock: u64, seed: u64, slot: Slot, kind: Kind) {
        let end = u32::try_from(self.bodies.len()).expect("no command is that large");
        let head = Head { clock, seed, end, slot: slot.0, kind: kind as u8, zero: 0 };
        self.heads.extend_from_slice(&head.write());
    }

    pub(crate) fn get(&self, place: usize) -> EntryRef<'_> {
        let at = Position { term: self.term, index: Index(self.first + place as u64) };
        entry_in(at, &self.heads, &self.bodies, place, None)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = EntryRef<'_>> + Clone {
        (0..self.len()).map(|place| self.get(place))
    }

    /// What it has, where it is. It is empty then.
    pub(crate) fn close(&mut self) -> Run {
        let heads_at = self.bodies.len();
        self.bodies.extend_from_slice(&self.heads);
        let block = self.bodies.split().freeze();
        let run = Run::of_block(self.term, self.first(), block, heads_at, self.has_milestones);
        self.heads.clear();
        self.has_milestones = false;
        run
    }

    /// What it has, in a block of exactly that size: for who has no more entries to put behind it.
    pub(crate) fn finish(mut self) -> Option<Run> {
        if self.is_empty() { None } else { Run::joined(core::iter::once(&self.close())) }
    }

    /// Could that be the next one?
    pub(crate) fn goes_on_with(&self, at: Position) -> bool {
        at.term == self.term && self.first.checked_add(self.len() as u64) == Some(at.index.0)
    }

    pub(crate) fn of(entry: &Entry) -> Self {
        let mut open = Self::new(entry.at.term, entry.at.index);
        open.push(entry.clock, entry.seed, &entry.payload);
        open
    }
}
