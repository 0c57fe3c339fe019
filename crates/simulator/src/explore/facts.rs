//! What the outside knows: which writes were acknowledged, what was ever committed where. The checks compare replicas with it.
//!
//! History is what any replica ever held as committed, position by position. It only grows; whoever disagrees with it, or whose
//! tables are not what it says, is the violation.

use std::fmt;

use blueprint::Position;
use phaser::{EntryRef, Payload};

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
    MergeAbsorbsAtItsPosition,
    NothingErasedWhileNeeded,
    BoundAlike,
    IdsAreUsedOnce,
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
            Self::MergeAbsorbsAtItsPosition => "merge_absorbs_at_its_position",
            Self::NothingErasedWhileNeeded => "nothing_erased_while_needed",
            Self::BoundAlike => "bound_alike",
            Self::IdsAreUsedOnce => "ids_are_used_once",
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
    Write {
        slot: u8,
        write: u8,
    },
    Split,
    /// Nothing but Reigns follows.
    Freeze,
    /// What the child had at that Freeze is the parent's.
    Absorb {
        freeze: Position,
    },
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
        match committed.act {
            Act::Write { slot, write } => self.check_write(bucket, slot, write, committed)?,
            Act::Absorb { freeze } => self.check_absorb(freeze, committed)?,
            Act::Reign | Act::Split | Act::Freeze => {}
        }
        self.history[bucket].push(committed);
        Ok(())
    }

    fn check_write(&self, bucket: usize, slot: u8, write: u8, committed: Committed) -> Result<(), Fault> {
        if self.refused & (1 << write) != 0 {
            let what = format!("write {write} was refused and is committed all the same");
            return fault(Checker::RefusedWritesNeverHappen, what);
        }
        if bucket == 0 && slot == 1 && self.is_split() && self.absorbed_at().is_none() {
            let what = format!("{} is in the parent's log after slot 1 was split off", committed.text());
            return fault(Checker::SplitForksAtItsPosition, what);
        }
        if self.history[bucket].iter().any(|c| c.act == Act::Freeze) {
            let what = format!("{} is in the child's log after its Freeze", committed.text());
            return fault(Checker::MergeAbsorbsAtItsPosition, what);
        }
        Ok(())
    }

    /// What is absorbed has come to its end: that very Freeze is committed, and it is absorbed once.
    fn check_absorb(&self, freeze: Position, committed: Committed) -> Result<(), Fault> {
        let is_named = |c: &Committed| c.act == Act::Freeze && (c.term, c.index) == (freeze.term.0, freeze.index.0);
        if !self.history[1].iter().any(is_named) || self.absorbed_at().is_some() {
            let what =
                format!("{} names {freeze}, which is no committed Freeze, or was absorbed before", committed.text());
            return fault(Checker::MergeAbsorbsAtItsPosition, what);
        }
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

    /// What was executed on a slot. The child goes on from the Split; the parent, from the Absorb on, from what the child had at its Freeze.
    fn executed(&self, bucket: usize, slot: u8, upto: u64) -> Vec<u8> {
        let mut writes = Vec::new();
        if bucket == 1 {
            let split = self.history[0].iter().find(|c| c.act == Act::Split).map_or(0, |c| c.index);
            writes = self.executed(0, slot, split);
        }
        for c in self.history[bucket].iter().take_while(|c| c.index <= upto) {
            match c.act {
                Act::Write { slot: s, write } if s == slot => writes.push(write),
                Act::Absorb { freeze } if slot == 1 => writes = self.executed(1, slot, freeze.index.0),
                Act::Write { .. } | Act::Absorb { .. } | Act::Reign | Act::Split | Act::Freeze => {}
            }
        }
        writes
    }

    /// The split is committed.
    pub(super) fn is_split(&self) -> bool {
        self.history[0].iter().any(|c| c.act == Act::Split)
    }

    /// The position of the committed Absorb: the parent has the child's slots again.
    pub(super) fn absorbed_at(&self) -> Option<u64> {
        self.history[0].iter().find(|c| matches!(c.act, Act::Absorb { .. })).map(|c| c.index)
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
                Act::Write { .. } | Act::Reign | Act::Split | Act::Freeze | Act::Absorb { .. } => {}
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
    pub(super) fn of(entry: EntryRef<'_>) -> Self {
        let act = match &entry.payload() {
            Payload::Reign => Act::Reign,
            Payload::Command { slot, body } => Act::Write { slot: slot.0 as u8, write: body[0] },
            Payload::Split { .. } => Act::Split,
            Payload::Freeze { .. } => Act::Freeze,
            Payload::Absorb { freeze, .. } => Act::Absorb { freeze: *freeze },
        };
        Self { index: entry.at.index.0, term: entry.at.term.0, act }
    }

    fn text(self) -> String {
        match self.act {
            Act::Reign => format!("t{}#{} Reign", self.term, self.index),
            Act::Write { write, .. } => format!("t{}#{} write {write}", self.term, self.index),
            Act::Split => format!("t{}#{} Split", self.term, self.index),
            Act::Freeze => format!("t{}#{} Freeze", self.term, self.index),
            Act::Absorb { .. } => format!("t{}#{} Absorb", self.term, self.index),
        }
    }
}

#[cfg(test)]
mod tests {
    use blueprint::{Index, Term};

    use super::*;

    fn merged() -> Facts {
        let mut facts = Facts::default();
        let at = |index, act| Committed { index, term: 1, act };
        let write = |write| Act::Write { slot: 1, write };
        let freeze = Position { term: Term(1), index: Index(4) };
        facts.learn(0, &[at(1, write(0)), at(2, Act::Split)]).expect("a split");
        facts.learn(1, &[at(3, write(1)), at(4, Act::Freeze)]).expect("the end of its child");
        facts.learn(0, &[at(3, Act::Absorb { freeze }), at(4, write(2))]).expect("the merge");
        facts.acknowledged = 0b111;
        facts
    }

    #[test]
    fn what_the_child_acknowledged_is_expected_of_the_parent() {
        let facts = merged();
        assert_eq!(facts.missing(0b10, &[vec![], vec![0, 1, 2]]), 0);
        assert_eq!(facts.missing(0b10, &[vec![], vec![0, 2]]), 0b10);
        let standing = |writes: &[u8]| [Standing { slot: 1, index: 4, writes: writes.to_vec() }];
        facts.check_tables(0, &standing(&[0, 1, 2])).expect("all there is");
        facts.check_tables(0, &standing(&[0, 2])).expect_err("the child's write is missing");
    }

    #[test]
    fn nothing_is_written_after_the_end() {
        let late = Committed { index: 5, term: 1, act: Act::Write { slot: 1, write: 3 } };
        let found = merged().learn(1, &[late]).expect_err("it comes after the Freeze");
        assert_eq!(found.checker, Checker::MergeAbsorbsAtItsPosition);
    }

    #[test]
    fn only_what_has_ended_is_absorbed_and_only_once() {
        let at = |index, act| Committed { index, term: 1, act };
        let freeze = Position { term: Term(1), index: Index(4) };
        let again = merged().learn(0, &[at(5, Act::Absorb { freeze })]).expect_err("it was absorbed before");
        assert_eq!(again.checker, Checker::MergeAbsorbsAtItsPosition);
        let early = Facts::default().learn(0, &[at(1, Act::Absorb { freeze })]).expect_err("it has not ended");
        assert_eq!(early.checker, Checker::MergeAbsorbsAtItsPosition);
    }
}
