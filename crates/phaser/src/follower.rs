//! What a replica does for whoever leads: takes entries and tables, answers when they are safe, grants leases.

use blueprint::{Breach, Conduct, Index, Instant, Member, Position, SlotSet, Term};

use crate::disk::Save;
use crate::durable::Image;
use crate::entries::Entries;
use crate::entry::EntryRef;
use crate::io::{Dropped, Outbox, Output, WriteId};
use crate::log::MOST_INDEX;
use crate::message::{Message, Progress};
use crate::phaser::{Phaser, Role};

impl<C: Conduct> Phaser<C> {
    /// A message that only the primary of its term sends.
    pub(crate) fn on_order(&mut self, now: Instant, from: Member, message: Message, out: &mut Outbox) {
        let term = message.term();
        if term < self.promised {
            let refusal = Message::Outranked { promised: self.promised };
            self.hold(self.disk.promise, from, refusal, now, out);
            return self.drop_message(Dropped::LowerTerm, out);
        }
        if let Some(view) = &self.known
            && view.government.term == term
            && view.government.primary != from
        {
            return self.drop_message(Dropped::UnknownSender, out);
        }
        if term > self.promised {
            if term.0 > self.promised.0 + (1 << 40) {
                return self.drop_message(Dropped::Malformed, out); // no cluster changes that often: spare the counter
            }
            self.step_down(now, out);
            self.raise(term);
        } else if !matches!(self.role, Role::Following) {
            return self.drop_message(Dropped::Malformed, out); // this very replica was named primary of that term
        }
        match message {
            Message::Prepare { previous, entries, commit, sent, .. } => {
                self.on_prepare(now, from, previous, entries, commit, sent, out);
            }
            Message::Beacon { commit, sent, .. } => self.on_beacon(now, from, commit, sent, out),
            Message::Begin { base, refuted, clock, owned, .. } => {
                self.on_begin(now, from, base, refuted, clock, owned, out);
            }
            Message::Fill { image, .. } => self.on_fill(now, from, image, out),
            Message::Prepared { .. }
            | Message::Differs { .. }
            | Message::Outranked { .. }
            | Message::BeaconAck { .. }
            | Message::Filled { .. }
            | Message::Abdicate { .. } => unreachable!("only the primary's orders come here"),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn on_prepare(
        &mut self,
        now: Instant,
        from: Member,
        previous: Position,
        entries: Entries,
        commit: Index,
        sent: Instant,
        out: &mut Outbox,
    ) {
        if !entries.follow(previous, self.promised) {
            return self.drop_message(Dropped::Malformed, out);
        }
        let upto = entries.end(previous).index;
        let Ok(fresh) = self.match_log(previous, entries, out) else {
            return self.answer_differs(now, from, sent, out);
        };
        if let Some(first) = fresh.first_index() {
            let before = first.prev();
            if before < self.log.last().index {
                self.truncate(before);
            }
            let reign = fresh.milestones().find(EntryRef::is_reign).map(|e| e.at.index);
            self.append(&fresh, now);
            if let Some(reign) = reign {
                self.forget_former_tables(reign, out);
            }
        }
        self.proven = self.proven.max(upto);
        self.learn_commit(commit, upto);
        self.apply(now, out);

        let mut ack = upto;
        if C::breaks(Breach::UptoIsEndOfLog) {
            ack = self.log.last().index;
        }
        let mut after = self.disk.covers(ack).max(self.disk.promise);
        if C::breaks(Breach::AnswerBeforeDurable) {
            after = WriteId(0);
        }
        let prepared = Message::Prepared { term: self.promised, upto: ack, progress: Progress::default(), sent };
        self.hold(after, from, prepared, now, out);
    }

    /// What of `entries` is new, once `previous` and everything common has been compared. `Err` where the logs differ at
    /// `previous`, or where matching would undo what is committed.
    fn match_log(&mut self, previous: Position, entries: Entries, out: &mut Outbox) -> Result<Entries, ()> {
        let base = self.log.base();
        let upto = entries.end(previous).index;
        // Up to the base everything is committed, and so the same for every rightful primary: unless every member lost the end of its
        // log (R10, level `memory`). A frame that does not reach the base cannot tell, and nothing above it was compared in this term.
        if upto < base.index && self.proven <= base.index {
            return Err(());
        }
        if previous.index < base.index {
            if entries.iter().any(|e| {
                (e.at.index == base.index) != (e.at == base) || (e.at.index > base.index && e.at.term < base.term)
            }) {
                return Err(());
            }
        } else if !self.log.holds(previous) {
            return Err(());
        }
        if previous == self.log.last() {
            return Ok(entries);
        }
        let unknown = entries.iter().find(|e| e.at.index > base.index && !self.log.holds(e.at));
        let Some(first) = unknown.map(|e| e.at.index) else { return Ok(Entries::default()) };
        if first <= self.commit {
            self.drop_message(Dropped::WouldTruncateCommitted, out);
            return Err(());
        }
        Ok(entries.starting_at(first))
    }

    /// No table of an earlier rule rightly stands where a new one begins. One does where every member lost the end of its log (R10, level
    /// `memory`): it came in an image, or was saved, with what is lost.
    fn forget_former_tables(&mut self, reign: Index, out: &mut Outbox) {
        let former = self.as_of.where_value(|as_of| *as_of >= reign);
        self.disk.forget_tables(reign, &former);
        if !former.is_empty() {
            self.as_of.remove(&former);
            self.unsaved = self.unsaved.difference(&former);
            out.push(Output::Discard { slots: former });
        }
    }

    fn truncate(&mut self, last: Index) {
        assert!(last >= self.commit, "what is committed is never truncated (R1)");
        self.disk.close(&mut self.log);
        self.log.truncate(last.next());
        self.disk.truncate(last);
        self.proven = self.proven.min(last);
    }

    fn answer_differs(&mut self, now: Instant, to: Member, sent: Instant, out: &mut Outbox) {
        let known = self.log.position(self.commit).expect("commit is in the log");
        let last = self.log.last();
        let differs = Message::Differs { term: self.promised, last, known, progress: Progress::default(), sent };
        self.hold(self.disk.promise, to, differs, now, out);
    }

    /// R1: the smaller of what it was told and of what this term proved.
    fn learn_commit(&mut self, told: Index, proven: Index) {
        let mut upto = told.min(proven);
        if C::breaks(Breach::CommitNotClamped) {
            upto = told.min(self.log.last().index);
        }
        self.commit = self.commit.max(upto);
    }

    fn on_beacon(&mut self, now: Instant, from: Member, commit: Index, sent: Instant, out: &mut Outbox) {
        self.learn_commit(commit, self.proven);
        self.apply(now, out);
        let ack = Message::BeaconAck { term: self.promised, progress: Progress::default(), sent };
        self.hold(self.disk.promise, from, ack, now, out);
    }

    #[allow(clippy::too_many_arguments)]
    fn on_begin(
        &mut self,
        now: Instant,
        from: Member,
        base: Position,
        refuted: Option<Position>,
        clock: u64,
        owned: SlotSet,
        out: &mut Outbox,
    ) {
        // A late or repeated Begin must not throw away what this replica has acknowledged, in this term, since; and a log
        // that holds the base needs no new beginning: the primary of this very term says that it is right. Who holds what was
        // refuted cannot have the Reign of this term, nor have acknowledged anything that was counted in it.
        let is_refuted = refuted.is_some_and(|at| at.index <= self.commit && self.log.holds(at));
        let has_base = self.log.holds(base) && base.index > Index(0);
        let compared = self.proven > self.log.base().index;
        if !is_refuted && (has_base || compared && self.proven >= base.index) {
            self.drop_message(Dropped::OutdatedBegin, out);
            self.proven = self.proven.max(base.index.min(self.log.last().index));
            return self.answer_begun(now, from, out);
        }
        // Nothing was compared since it restarted, and its own base lies above: it may have acknowledged that in this term, or it may
        // be what was refuted. It says what it is sure of.
        if !is_refuted && self.proven >= base.index && self.log.last().index > Index(0) {
            self.drop_message(Dropped::OutdatedBegin, out);
            return self.answer_differs(now, from, Instant::ZERO, out);
        }
        if self.given {
            return self.drop_message(Dropped::OutdatedBegin, out); // on disk it is all that what absorbed it has
        }
        if self.may_owe_fork() && !C::breaks(Breach::ParentErasedBeforeFork) {
            return self.drop_message(Dropped::OutdatedBegin, out); // a child must be made of what is here first
        }
        if self.is_vital() || base.index.0 >= MOST_INDEX || base.term > self.promised || owned.is_empty() {
            return self.drop_message(Dropped::Malformed, out);
        }
        self.start_over(base, clock, owned, out);
        self.clock.observe(clock, now);
        self.answer_begun(now, from, out);
    }

    fn answer_begun(&mut self, now: Instant, to: Member, out: &mut Outbox) {
        let upto = self.proven;
        let begun = Message::Prepared { term: self.promised, upto, progress: Progress::default(), sent: Instant::ZERO };
        self.hold(self.disk.covers(upto).max(self.disk.promise), to, begun, now, out);
    }

    /// Members and heirs hold what was acknowledged: they are never told to begin anew.
    fn is_vital(&self) -> bool {
        self.known.as_ref().is_some_and(|v| {
            v.government.term >= self.promised
                && (v.government.is_member(self.me) || v.government.heirs.contains(&self.me))
        })
    }

    fn on_fill(&mut self, now: Instant, from: Member, image: Image, out: &mut Outbox) {
        let wanted = self.missing().difference(&self.unsaved);
        let takes = image.covered.intersection(&wanted);
        let malformed =
            image.replaced != image.covered || image.tables.iter().any(|(slot, _)| !image.covered.contains(*slot));
        if malformed || image.as_of < self.log.base().index {
            return self.drop_message(if malformed { Dropped::Malformed } else { Dropped::OutdatedImage }, out);
        }
        if takes.is_empty() {
            if !image.covered.intersection(&self.unsaved).is_empty() {
                return; // repeated while it is on its way to the disk: the answer follows when it is safe
            }
            // Nothing of it is wanted any more; say so, or the primary would send it again.
            let filled = Message::Filled { term: self.promised, slots: image.covered, progress: Progress::default() };
            return self.hold(self.disk.promise, from, filled, now, out);
        }
        let image = Image {
            as_of: image.as_of,
            tables: image.tables.into_iter().filter(|(slot, _)| takes.contains(*slot)).collect(),
            replaced: takes.clone(),
            covered: takes.clone(),
        };
        out.push(Output::Install { image: image.clone() });
        self.as_of.set(&takes, image.as_of);
        let mut tables = image.tables;
        if !C::breaks(Breach::ImageWithoutReplay) {
            let replayed = self.replay(&takes, image.as_of, out);
            tables.retain(|(slot, _)| !replayed.contains(*slot));
        }
        // What is saved is what stands here now: the image, and the log replayed into it.
        let saved = Image { as_of: image.as_of.max(self.applied), tables, ..image };
        self.unsaved = self.unsaved.union(&takes);
        self.disk.store(saved, Save::Taken { slots: takes, from }, out);
    }

    /// The log from the image's `as_of` to the applied index, into the slots that it brought. Returns those that this changed.
    fn replay(&mut self, slots: &SlotSet, as_of: Index, out: &mut Outbox) -> SlotSet {
        let mut replayed = SlotSet::empty();
        if self.applied <= as_of {
            return replayed;
        }
        for entry in self.log.from(as_of.next()).take_while(|e| e.at.index <= self.applied) {
            if let Some((slot, _)) = entry.command()
                && slots.contains(slot)
            {
                let (index, clock, seed) = (entry.at.index, entry.clock, entry.seed);
                out.push(Output::Apply { index, slot, clock, seed, ticket: None });
                replayed.insert(slot);
            }
        }
        replayed
    }

    /// Says it when write `after` is safe.
    pub(crate) fn hold(&mut self, after: WriteId, to: Member, message: Message, now: Instant, out: &mut Outbox) {
        if after <= self.disk.written {
            self.answer(to, message, now, out);
        } else {
            self.disk.hold(after, to, message);
        }
    }

    pub(crate) fn release_answers(&mut self, now: Instant, out: &mut Outbox) {
        while let Some((to, message)) = self.disk.release() {
            self.answer(to, message, now, out);
        }
    }

    /// R2: only for the promised term. R5: the lease is granted at the moment of answering.
    fn answer(&mut self, to: Member, mut message: Message, now: Instant, out: &mut Outbox) {
        if message.term() < self.promised {
            return;
        }
        match &mut message {
            Message::Prepared { term, progress, .. } | Message::BeaconAck { term, progress, .. } => {
                *progress = self.progress();
                self.grants.grant(*term, now + self.config.abstention());
            }
            Message::Differs { progress, .. } | Message::Filled { progress, .. } => *progress = self.progress(),
            Message::Prepare { .. }
            | Message::Outranked { .. }
            | Message::Beacon { .. }
            | Message::Begin { .. }
            | Message::Fill { .. }
            | Message::Abdicate { .. } => {}
        }
        out.send(self.me, to, message);
    }

    pub(crate) fn on_outranked(&mut self, promised: Term, out: &mut Outbox) {
        // The blueprint will say who leads; until it does there is nothing to do that would be right.
        if promised > self.promised {
            self.drop_message(Dropped::LowerTerm, out);
        }
    }
}
