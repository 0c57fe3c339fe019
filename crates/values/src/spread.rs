//! Commands that span slots, put together of parts that do not. Each part is as atomic as one command; the whole is not.

use blueprint::Slot;
use bytes::Bytes;

use crate::number::{Decimal, parse_number, parse_unsigned};
use crate::row::flag;
use crate::{Command, Reply, errors, slot_of};

/// A command about keys of several slots (`MGET`, `MSET`, `DEL`, `UNLINK`, `EXISTS`, `TOUCH`), as one command per slot.
#[derive(Clone, Debug)]
pub struct Spread {
    flags: u32,
    /// One per slot, in the order in which their slots first come.
    parts: Vec<Command>,
    /// For each key, whose it is and the how many of that one.
    places: Vec<(usize, usize)>,
}

impl Command {
    /// The parts of a command that spans slots, or why it has none.
    pub fn spread(&self) -> Result<Spread, Reply> {
        let row = self.row();
        if !row.has(flag::IN_ORDER | flag::SUMMED | flag::ALL_OK) || self.series().is_some() {
            return Err(errors::cross_slot());
        }
        let (words, step) = (self.words(), if row.has(flag::ALL_OK) { 2 } else { 1 });
        if !(words.len() - 1).is_multiple_of(step) {
            return Err(errors::wrong_arity(row.name.as_bytes()));
        }
        let mut parts: Vec<(Slot, Vec<Bytes>)> = Vec::new();
        let mut places = Vec::with_capacity(words.len() / step);
        for group in words[1..].chunks(step) {
            let slot = slot_of(&group[0]);
            let part = parts.iter().position(|(of, _)| *of == slot).unwrap_or_else(|| {
                parts.push((slot, Vec::new()));
                parts.len() - 1
            });
            places.push((part, parts[part].1.len() / step));
            parts[part].1.extend_from_slice(group);
        }
        let parts = parts.into_iter().map(|(_, words)| self.with_words(words)).collect();
        Ok(Spread { flags: row.flags, parts, places })
    }
}

impl Spread {
    #[must_use]
    pub fn parts(&self) -> &[Command] {
        &self.parts
    }

    /// The answer of the whole, from those of the parts in their order. Of a read an error of one is the answer of all, and so it is
    /// of a write if no part was done.
    #[must_use]
    pub fn join(&self, replies: &[Reply]) -> Reply {
        let failed = match self.flags & flag::WRITE {
            0 => replies.iter().find(|reply| reply.is_error()).cloned(),
            _ => failed_write(replies),
        };
        if let Some(error) = failed {
            return error;
        }
        if self.flags & flag::ALL_OK != 0 {
            return Reply::Ok;
        }
        if self.flags & flag::SUMMED != 0 {
            let numbers = replies.iter().map(|reply| if let Reply::Number(number) = reply { *number } else { 0 });
            return Reply::Number(numbers.sum());
        }
        let item = |(part, at): &(usize, usize)| match replies.get(*part) {
            Some(Reply::Array(items)) => items.get(*at).cloned().unwrap_or(Reply::Nil),
            _ => Reply::Nil,
        };
        Reply::Array(self.places.iter().map(item).collect())
    }
}

/// What is wrong with a write in several parts, each of which was done, or certainly not, or nobody knows. Who hears of a failure may
/// believe that nothing was done (R12), so that is said only if it is true.
#[must_use]
pub fn failed_write(replies: &[Reply]) -> Option<Reply> {
    let error = replies.iter().find(|reply| reply.is_error())?;
    let certainly_nothing = replies.iter().all(|reply| reply.is_error() && !reply.is_uncertain());
    Some(if certainly_nothing { error.clone() } else { errors::partly_done(error) })
}

/// Where a `SCAN` over all slots goes on, as one number that every client can represent: 46 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub slot: Slot,
    /// Within the slot.
    pub place: u32,
}

impl Cursor {
    pub const START: Self = Self { slot: Slot::FIRST, place: 0 };
    const SLOT_BITS: u32 = 14;

    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Cursor> {
        let number = parse_unsigned(text)?;
        let slot = Slot::new((number % (1 << Self::SLOT_BITS)) as u16)?;
        Some(Cursor { slot, place: u32::try_from(number >> Self::SLOT_BITS).ok()? })
    }

    /// 0 is the start, and so the end.
    #[must_use]
    pub fn to_bytes(self) -> Bytes {
        Decimal::unsigned(u64::from(self.place) << Self::SLOT_BITS | u64::from(self.slot.0)).to_bytes()
    }

    /// After `slot` was scanned up to `place`, 0 being its end: the next place, or the start if that was all.
    #[must_use]
    pub fn next(slot: Slot, place: u32) -> Cursor {
        match place {
            0 => Slot::new(slot.0 + 1).map_or(Self::START, |slot| Cursor { slot, place: 0 }),
            place => Cursor { slot, place },
        }
    }
}

/// The words of `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    pub cursor: Cursor,
    pub count: u64,
    pub pattern: Option<Bytes>,
    pub kind: Option<Bytes>,
}

impl Scan {
    pub fn parse(command: &Command) -> Result<Scan, Reply> {
        let words = command.words();
        let cursor = Cursor::parse(&words[1]).ok_or_else(|| Reply::error("ERR invalid cursor"))?;
        let mut scan = Scan { cursor, count: 10, pattern: None, kind: None };
        for pair in words[2..].chunks(2) {
            let [name, value] = pair else { return Err(errors::syntax()) };
            if name.eq_ignore_ascii_case(b"COUNT") {
                let count = parse_number(value).ok_or_else(errors::not_a_number)?;
                scan.count = u64::try_from(count).ok().filter(|count| *count > 0).ok_or_else(errors::syntax)?;
            } else if name.eq_ignore_ascii_case(b"MATCH") {
                scan.pattern = Some(value.clone());
            } else if name.eq_ignore_ascii_case(b"TYPE") {
                scan.kind = Some(value.clone());
            } else {
                return Err(errors::syntax());
            }
        }
        Ok(scan)
    }

    /// The part of it in one slot: see [`Command::scan_slot`].
    #[must_use]
    pub fn within(&self, slot: Slot, place: u32, count: u64) -> Command {
        Command::scan_slot(slot, place, count, self.pattern.clone(), self.kind.clone())
    }
}
