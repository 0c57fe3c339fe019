//! Merge: the log of one bucket ends with a Freeze, and an Absorb in the log of another takes its slots over.
//!
//! bound (the blueprint) → Freeze appended: writes wait → Freeze committed: this bucket serves nothing any more, ever → Absorb appended by
//! the other one, which the same node leads; it names the Freeze → committed: each member takes the frozen tables over at that position →
//! the blueprint is told, naming the Absorb.
//!
//! The two are on the same node, in different phasers, which do not know each other: the driver introduces them. Why a frozen bucket may not
//! even read: its leases are its own. 1. n1 leads both, and n2 follows; 2. n1 is cut off; n2 leads both, waits for what it granted in
//! the other bucket, and there commits the Absorb; 3. n1 could still read the frozen one, by leases that n2 granted for that.

use blueprint::{Breach, BucketId, Conduct, Index, Instant, Position, SlotSet};

use crate::entry::{Entry, EntryRef, Payload};
use crate::growth::Growth;
use crate::io::{Bond, Outbox, Output};
use crate::phaser::{Phaser, Role};

/// A bucket that has come to its end: what another one needs to take it over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frozen {
    pub bucket: BucketId,
    /// Its Freeze.
    pub at: Position,
    pub slots: SlotSet,
    /// The clock of its data now (R13): it may be another one than that of the bucket that absorbs it, and what is to expire is to do so
    /// when it was to.
    pub clock: u64,
}

/// An Absorb that was applied here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Joined {
    pub(crate) bucket: BucketId,
    pub(crate) at: Position,
    /// The blueprint knows.
    pub(crate) told: bool,
}

impl<C: Conduct> Phaser<C> {
    fn bond(&self) -> Option<Bond> {
        self.known.as_ref().and_then(|view| view.bond)
    }

    /// It is bound to another bucket: nothing is split from it, and nobody takes it over in a planned way, until that is done.
    pub(crate) fn is_bound(&self) -> bool {
        self.bond().is_some()
    }

    /// What a primary of a bound bucket does as soon as it can.
    pub(crate) fn try_merge(&mut self, now: Instant, out: &mut Outbox) {
        let Some(bond) = self.bond() else { return };
        let Role::Leading(leader) = &self.role else { return };
        if !leader.takes_writes() || leader.succession.is_some() || leader.growth != Growth::None {
            return;
        }
        match bond {
            Bond::Fades { into } => self.try_freeze(now, into),
            Bond::Absorbs { other } if self.has_absorb_of(other) => {}
            Bond::Absorbs { other } => out.push(Output::SeekFrozen { bucket: other, at: None }),
        }
    }

    /// The last entry of this log that is not a Reign. What was split from it must have been registered: nobody could do it later.
    fn try_freeze(&mut self, now: Instant, into: BucketId) {
        if self.has_untold_split() || self.tail_splits().next().is_some() {
            return;
        }
        let Role::Leading(leader) = &mut self.role else { return };
        if leader.freezing {
            return;
        }
        leader.freezing = true;
        let term = leader.term;
        self.append_own(now, term, &Payload::Freeze { into });
    }

    pub(crate) fn log_has_freeze(&self) -> bool {
        self.log.milestones().any(|e| e.is_freeze())
    }

    fn has_absorb_of(&self, bucket: BucketId) -> bool {
        self.log.milestones().rev().any(|e| e.absorb().is_some_and(|(from, ..)| from == bucket))
    }

    pub(crate) fn apply_freeze(&mut self, entry: &Entry, into: BucketId, out: &mut Outbox) {
        self.frozen = Some(entry.at);
        out.push(Output::Frozen { into });
        if let Role::Leading(leader) = &mut self.role {
            leader.freezing = true;
            leader.announce = true;
        }
    }

    /// Its end, if it is applied here and nothing is missing: then its tables are all that the bucket ever had.
    pub fn frozen(&self, bucket: BucketId, now: Instant) -> Option<Frozen> {
        let clock = self.clock.read(now);
        if C::breaks(Breach::AbsorbBeforeFreeze) && self.is_bound() && !self.given && self.is_whole() {
            let at = self.log.position(self.applied)?;
            return Some(Frozen { bucket, at, slots: self.owned.clone(), clock });
        }
        let at = self.frozen.filter(|_| self.is_whole() && !self.given)?;
        Some(Frozen { bucket, at, slots: self.owned.clone(), clock })
    }

    /// Its Freeze is committed, and its tables may be gone.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// The bucket that has absorbed it took its tables.
    pub fn is_given(&self) -> bool {
        self.given
    }

    /// A committed Absorb names this Freeze: whoever holds it takes it as committed. No rightful log of a higher term is without it, and
    /// lower ones are refused (R2).
    pub(crate) fn on_named(&mut self, now: Instant, at: Position, out: &mut Outbox) {
        if self.log.holds(at) && at.index > self.commit {
            self.commit = at.index;
            self.apply(now, out);
        }
    }

    /// The tables are the other bucket's now. On disk they stay, until those are saved with it.
    pub(crate) fn on_given(&mut self, out: &mut Outbox) {
        self.given = true;
        self.forward_backlog(out);
    }

    /// Here is what is to be absorbed; or there is nothing of it on this node, or not yet.
    pub(crate) fn on_met(&mut self, now: Instant, bucket: BucketId, frozen: Option<Frozen>, out: &mut Outbox) {
        if let Some(frozen) = &frozen {
            self.try_append_absorb(now, frozen);
        }
        self.meeting = Some((bucket, frozen));
        self.apply(now, out);
        self.meeting = None;
        self.after_apply(now, out);
    }

    fn try_append_absorb(&mut self, now: Instant, frozen: &Frozen) {
        let other = frozen.bucket;
        if self.bond() != Some(Bond::Absorbs { other }) || self.has_absorb_of(other) {
            return;
        }
        let Role::Leading(leader) = &self.role else { return };
        if !leader.takes_writes() || leader.succession.is_some() || leader.growth != Growth::None {
            return;
        }
        let term = leader.term;
        let ahead = frozen.clock.cast_signed().wrapping_sub(self.clock.stamp(now).cast_signed());
        let (freeze, slots) = (frozen.at, frozen.slots.clone());
        self.append_own(now, term, &Payload::Absorb { from: other, freeze, slots, ahead });
    }

    /// Takes the slots over at this position of the log. A member waits until the frozen replica beside it is there to be taken: every
    /// member of this bucket is one of the other. Whoever does not count goes on without, and is filled like anyone.
    /// Says whether the entry is applied.
    pub(crate) fn apply_absorb(&mut self, entry: &Entry, out: &mut Outbox) -> bool {
        let Payload::Absorb { from, freeze, slots, ahead } = &entry.payload else { unreachable!("only for an Absorb") };
        let index = entry.at.index;
        // What came in an image since, or was saved since, has it already.
        let newer = self.as_of.where_value(|as_of| *as_of >= index);
        let lacking = slots.difference(&newer);
        if lacking.is_empty() {
            out.push(Output::Absorb { from: *from, slots: lacking, ahead: *ahead }); // nobody needs the frozen tables any more
        } else {
            match self.meeting.take_if(|(bucket, _)| bucket == from) {
                Some((_, Some(frozen))) if frozen.at == *freeze || C::breaks(Breach::AbsorbBeforeFreeze) => {
                    out.push(Output::Absorb { from: *from, slots: lacking.clone(), ahead: *ahead });
                    self.as_of.set(&lacking, index);
                    self.dirty.insert_all(&lacking);
                }
                Some(_) if self.counts_for_nothing() => {
                    self.as_of.remove(&lacking);
                    out.push(Output::Discard { slots: lacking });
                }
                Some(_) => return false, // the driver says when there is more
                None => {
                    out.push(Output::SeekFrozen { bucket: *from, at: Some(*freeze) });
                    return false;
                }
            }
        }
        self.owned = self.owned.union(slots);
        let told = self.known.as_ref().is_some_and(|view| view.absorbed.contains(&(*from, entry.at)));
        self.joined.push(Joined { bucket: *from, at: entry.at, told });
        self.absorptions += 1;
        if let Role::Leading(leader) = &mut self.role {
            leader.announce = true;
        }
        self.tell_merges(out);
        true
    }

    /// It is neither member nor heir of a government that is at least as new as what it promised.
    fn counts_for_nothing(&self) -> bool {
        self.known.as_ref().is_some_and(|v| {
            let g = &v.government;
            g.term >= self.promised && !g.is_member(self.me) && !g.heirs.contains(&self.me)
        })
    }

    /// Only the primary tells, again and again, until the blueprint knows. Also below the minimum: what is applied is committed.
    pub(crate) fn tell_merges(&mut self, out: &mut Outbox) {
        if !matches!(self.role, Role::Leading(_)) {
            return;
        }
        let bond = self.bond();
        for joined in self.joined.iter().filter(|j| !j.told) {
            if bond == Some(Bond::Absorbs { other: joined.bucket }) {
                out.push(Output::Merge { absorbed: joined.bucket, at: joined.at });
            }
        }
    }

    /// Would a restart find the absorbed tables without the frozen replica? Not before the log begins after the Absorb, on disk.
    pub fn has_absorbed(&self, bucket: BucketId, at: Position) -> bool {
        let held = self.joined.iter().any(|j| j.bucket == bucket);
        !held && self.log.base().index >= at.index && self.disk.cut <= self.disk.written
    }

    /// Is there an Absorb of that bucket in this log, applied or not?
    pub fn holds_absorb_of(&self, bucket: BucketId) -> bool {
        self.has_absorb_of(bucket)
    }

    /// The Absorbs in this log that are committed.
    pub fn absorbs(&self) -> impl Iterator<Item = (BucketId, Position)> {
        let committed = self.log.milestones().filter(|e| e.at.index <= self.commit);
        committed.filter_map(|e| e.absorb().map(|(from, ..)| (from, e.at)))
    }

    /// The Freeze that the Absorb of that bucket in this log names. As long as the two are bound it is not cut off.
    pub fn end_of(&self, bucket: BucketId) -> Option<Position> {
        let applied =
            self.joined.iter().filter_map(|joined| self.log.get(joined.at.index).as_ref().and_then(EntryRef::absorb));
        applied.chain(self.awaited()).find(|(from, ..)| *from == bucket).map(|(_, freeze, _)| freeze)
    }

    /// The Absorbs that are still to be applied, committed or not: of which bucket, as of which Freeze, with which slots.
    pub fn awaited(&self) -> impl Iterator<Item = (BucketId, Position, SlotSet)> {
        self.log.milestones_after(self.applied).rev().filter_map(|e| e.absorb())
    }

    /// The slots that it has, or will have by its log; and those of splits that the blueprint is yet to hear of.
    pub fn claims(&self) -> SlotSet {
        let awaited = self.awaited().map(|(.., slots)| slots);
        let untold = self.splits.iter().filter(|split| !split.registered).map(|split| split.slots.clone());
        awaited.chain(untold).fold(self.owned.clone(), |all, slots| all.union(&slots))
    }

    /// Slots of which the tables are newer than the log: it goes on to where they stand, or they are void.
    pub fn ahead_of_log(&self) -> SlotSet {
        self.as_of.where_value(|as_of| *as_of > self.log.last().index)
    }

    /// An Absorb that waits for its frozen replica.
    pub fn awaits_frozen(&self) -> Option<BucketId> {
        let next = self.log.get(self.applied.next()).filter(|_| self.applied < self.commit)?;
        next.absorb().map(|(from, ..)| from)
    }

    /// How many Absorbs were applied in this life.
    pub fn absorptions(&self) -> u64 {
        self.absorptions
    }

    /// Where a candidate begins anew, with the slots that are here: at what is applied, but never after a Freeze, or after an Absorb that the
    /// blueprint does not know of. It would not know of them either, and could one day lead.
    pub(crate) fn new_beginning(&self) -> Position {
        let untold = self.joined.iter().filter(|j| !j.told).map(|j| j.at);
        let index = self.frozen.into_iter().chain(untold).map(|at| at.index.prev()).fold(self.applied, Index::min);
        self.log.position(index.max(self.log.base().index)).expect("it is in the log")
    }

    /// Absorbs up to there.
    pub(crate) fn joined_upto(&self, upto: Index) -> Option<Index> {
        self.joined.iter().map(|j| j.at.index).filter(|at| *at <= upto).max()
    }
}
