//! What the outside knows: which writes were acknowledged, what was ever committed where. The checks compare replicas with it.
//!
//! History is what any replica ever held as committed, position by position. It only grows; whoever disagrees with it, or whose
//! tables are not what it says, is the violation.

use std::fmt;

use phaser::{Entry, Payload};

use super::meta::BUCKETS;
use super::replica::{SLOTS, Tables, bits};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Checker {
    NoAcknowledgedWriteLost,
    CommittedPrefixesAgree,
    OneServingPrimary,
    ReadsSeeAcknowledgedWrites,
    RefusedWritesNeverHappen,
    SplitForksAtItsPosition,
    InvariantsHold,
}

impl Checker {
    pub fn name(self) -> &'static str {
        match self {
            Self::NoAcknowledgedWriteLost => "no_acknowledged_write_lost",
            Self::CommittedPrefixesAgree => "committed_prefixes_agree",
            Self::OneServingPrimary => "one_serving_primary",
            Self::ReadsSeeAcknowledgedWrites => "reads_see_acknowledged_writes",
            Self::RefusedWritesNeverHappen => "refused_writes_never_happen",
            Self::SplitForksAtItsPosition => "split_forks_at_its_position",
            Self::InvariantsHold => "invariants_hold",
        }
    }
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that must never be.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) checker: Checker,
    pub(super) what: String,
}

pub(super) fn fault<T>(checker: Checker, what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { checker, what: what.into() })
}

/// One committed entry, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    Reign,
    Write { slot: u8, write: u8 },
    Split,
}

/// Position in a log, and what stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Committed {
    pub(super) index: u64,
    pub(super) term: u64,
    pub(super) act: Act,
}

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Facts {
    /// Per bucket, in order, without holes: the parent's begins at index 1, the child's after the Split.
    history: [Vec<Committed>; BUCKETS],
    /// Writes that a client was told are safe; and those of which it was told that they did not happen.
    pub(super) acknowledged: u8,
    pub(super) refused: u8,
    /// Writes given out so far.
    pub(super) issued: u8,
    /// The newest term that was served in each bucket. A deposed primary may still hear that its Reign is committed, and then
    /// believes that it serves: that is harmless while it answers no reads.
    served: [u64; BUCKETS],
    /// Reads under way: their number, and what was acknowledged before they were issued.
    pub(super) reads: Vec<(u8, u8)>,
    pub(super) asked: u8,
}

/// A slot as a replica has it: up to which index it stands, and what was executed on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Standing {
    pub(super) slot: u8,
    pub(super) index: u64,
    pub(super) writes: Vec<u8>,
}

impl Facts {
    /// Adds what is news; refuses what contradicts.
    pub(super) fn learn(&mut self, bucket: usize, committed: &[Committed]) -> Result<(), Fault> {
        for c in committed {
            let history = &mut self.history[bucket];
            let first = history.first().map_or(c.index, |h| h.index);
            let known = c.index.checked_sub(first).map(|at| at as usize);
            match known {
                Some(at) if at < history.len() => {
                    if history[at] != *c {
                        let (now, before) = (c.text(), history[at].text());
                        let what =
                            format!("bucket {bucket} holds {now} as committed where {before} was committed before");
                        return fault(Checker::CommittedPrefixesAgree, what);
                    }
                }
                Some(at) if at == history.len() => self.append(bucket, *c)?,
                Some(_) | None => {
                    let what = format!(
                        "bucket {bucket} holds {} as committed, but nobody ever committed what is before it",
                        c.text()
                    );
                    return fault(Checker::CommittedPrefixesAgree, what);
                }
            }
        }
        Ok(())
    }

    fn append(&mut self, bucket: usize, committed: Committed) -> Result<(), Fault> {
        if let Act::Write { slot, write } = committed.act {
            if self.refused & (1 << write) != 0 {
                let what = format!("write {write} was refused and is committed all the same");
                return fault(Checker::RefusedWritesNeverHappen, what);
            }
            let split = self.history[bucket].iter().any(|c| c.act == Act::Split);
            if bucket == 0 && split && slot == 1 {
                let what = format!("{} is in the parent's log after slot 1 was split off", committed.text());
                return fault(Checker::SplitForksAtItsPosition, what);
            }
        }
        self.history[bucket].push(committed);
        Ok(())
    }

    /// Are the tables what history says?
    pub(super) fn check_tables(&self, bucket: usize, standing: &[Standing]) -> Result<(), Fault> {
        for s in standing {
            let expected = self.executed(bucket, s.slot, s.index);
            if expected != s.writes {
                let what = format!(
                    "slot {} stands at #{} with writes {:?}, but what was committed up to there is {expected:?}",
                    s.slot, s.index, s.writes
                );
                return fault(Checker::CommittedPrefixesAgree, what);
            }
        }
        Ok(())
    }

    /// A child is made of what the parent had just before the Split.
    pub(super) fn check_fork(&self, index: u64, tables: &Tables) -> Result<(), Fault> {
        for slot in 0..SLOTS as u8 {
            let forked = &tables[usize::from(slot)];
            let expected = self.executed(0, slot, index);
            if slot == 1 && *forked != expected {
                let what = format!(
                    "the child starts with writes {forked:?} in slot {slot}, the parent had {expected:?} at the Split"
                );
                return fault(Checker::SplitForksAtItsPosition, what);
            }
        }
        Ok(())
    }

    fn executed(&self, bucket: usize, slot: u8, upto: u64) -> Vec<u8> {
        let mut writes = Vec::new();
        let mut walk = |history: &[Committed], upto: u64| {
            for c in history.iter().take_while(|c| c.index <= upto) {
                match c.act {
                    Act::Write { slot: s, write } if s == slot => writes.push(write),
                    Act::Write { .. } | Act::Reign | Act::Split => {}
                }
            }
        };
        if bucket == 1 {
            let split = self.history[0].iter().find(|c| c.act == Act::Split).map_or(0, |c| c.index);
            walk(&self.history[0], split);
        }
        walk(&self.history[bucket], upto);
        writes
    }

    /// The split is committed.
    pub(super) fn is_split(&self) -> bool {
        self.history[0].iter().any(|c| c.act == Act::Split)
    }

    /// Who begins to serve has everything that was acknowledged in the slots that it owns.
    pub(super) fn check_serving(&mut self, bucket: usize, term: u64, owned: u8, tables: &Tables) -> Result<(), Fault> {
        if term < self.served[bucket] {
            return Ok(());
        }
        self.served[bucket] = term;
        let lost = self.missing(owned, tables);
        if lost != 0 {
            let who = if bucket == 0 { "the primary" } else { "the child's primary" };
            let what =
                format!("{who} of t{term} serves without write {}, which was acknowledged", lost.trailing_zeros());
            return fault(Checker::NoAcknowledgedWriteLost, what);
        }
        Ok(())
    }

    /// Acknowledged writes of these slots that are not in these tables.
    pub(super) fn missing(&self, slots: u8, tables: &Tables) -> u8 {
        let mut wanted = 0;
        for c in self.history.iter().flatten() {
            match c.act {
                Act::Write { slot, write } if slots & (1 << slot) != 0 => wanted |= 1 << write,
                Act::Write { .. } | Act::Reign | Act::Split => {}
            }
        }
        let held = tables.iter().fold(0, |held, table| held | bits(table));
        wanted & self.acknowledged & !held
    }

    pub(super) fn check_read(&mut self, read: u8, sees: u8, slot: u8) -> Result<(), Fault> {
        let Some(at) = self.reads.iter().position(|(r, _)| *r == read) else { return Ok(()) };
        let (_, before) = self.reads.remove(at);
        let of_slot = self.executed(0, slot, u64::MAX).into_iter().chain(self.executed(1, slot, u64::MAX));
        let missed = bits(&of_slot.collect::<Vec<_>>()) & before & !sees;
        if missed != 0 {
            let what = format!("a read misses write {}, acknowledged before it was issued", missed.trailing_zeros());
            return fault(Checker::ReadsSeeAcknowledgedWrites, what);
        }
        Ok(())
    }
}

impl Committed {
    pub(super) fn of(entry: &Entry) -> Self {
        let act = match &entry.payload {
            Payload::Reign => Act::Reign,
            Payload::Command { slot, body } => Act::Write { slot: slot.0 as u8, write: body[0] },
            Payload::Split { .. } => Act::Split,
            Payload::Freeze { .. } | Payload::Absorb { .. } => unreachable!("nothing is merged here yet"),
        };
        Self { index: entry.at.index.0, term: entry.at.term.0, act }
    }

    fn text(self) -> String {
        match self.act {
            Act::Reign => format!("t{}#{} Reign", self.term, self.index),
            Act::Write { write, .. } => format!("t{}#{} write {write}", self.term, self.index),
            Act::Split => format!("t{}#{} Split", self.term, self.index),
        }
    }
}
