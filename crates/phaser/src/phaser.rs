//! The machine: one bucket on one node.
//!
//! This file has its state, its life cycle and the dispatch of inputs. What a replica does for the primary of the moment is
//! in `follower.rs`, how it comes to rule in `rule.rs`, what it does while it leads in `leader.rs` and the files beside it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::marker::PhantomData;

use blueprint::{
    Breach, BucketId, Conduct, Index, Instant, Member, NodeId, Position, Slot, SlotBits, SlotMap, SlotSet, Term,
};
use bytes::Bytes;

use crate::clock::DataClock;
use crate::config::Config;
use crate::disk::{Disk, Save};
use crate::durable::{Durable, Image, Record};
use crate::entries::Entries;
use crate::entry::Payload;
use crate::io::{Dropped, Event, Input, Outbox, Output, Refusal, Ticket, View, WriteId};
use crate::leader::Leader;
use crate::lease::Grants;
use crate::log::Log;
use crate::merge::{Frozen, Joined};
use crate::message::{Envelope, Message, Progress};
use crate::run::Run;

/// How much more of a log is kept while somebody is being brought level.
const KEPT_FOR_PEERS: u64 = 16;

#[derive(Clone, Debug, Hash)]
pub struct Phaser<C> {
    pub(crate) config: Config,
    pub(crate) me: Member,
    /// The Split that made it, if one did and it has not begun anew since.
    origin: Position,
    /// Durable (R2).
    pub(crate) promised: Term,
    /// The term to which *this process* raised `promised`: only that one may it lead (R4).
    pub(crate) raised: Option<Term>,
    pub(crate) log: Log,
    pub(crate) commit: Index,
    /// `base <= applied <= commit <= last`, at all times.
    pub(crate) applied: Index,
    /// The newest commit that was written down as a hint.
    hinted: Index,
    /// What the primary of the promised term has proved equal to its own log.
    pub(crate) proven: Index,
    /// The slots of this bucket, as of `applied`; and as of the base of the log.
    pub(crate) owned: SlotSet,
    owned_at_base: SlotSet,
    /// With which index each slot's table came; a slot that is not in it is missing. What is newer than both this and
    /// `applied` does not exist.
    pub(crate) as_of: SlotMap<Index>,
    /// Slots whose image is taken but not yet safe.
    pub(crate) unsaved: SlotSet,
    pub(crate) dirty: SlotBits,
    checkpointed: Index,
    /// Splits that were applied and of which someone must still hear.
    pub(crate) splits: Vec<Parted>,
    /// Absorbs that were applied and are still in the log.
    pub(crate) joined: Vec<Joined>,
    pub(crate) absorptions: u64,
    /// Its Freeze, once applied. It is never cut off: nothing is saved after it.
    pub(crate) frozen: Option<Position>,
    /// Its tables were taken over.
    pub(crate) given: bool,
    /// Only within the step that says so: what there is to absorb.
    pub(crate) meeting: Option<(BucketId, Option<Frozen>)>,
    pub(crate) disk: Disk,
    pub(crate) grants: Grants,
    pub(crate) clock: DataClock,
    pub(crate) known: Option<View>,
    pub(crate) role: Role,
    /// Who is not to be filled as fast as possible, whoever leads.
    pub(crate) throttles: Vec<(NodeId, u64)>,
    /// Requests that wait, oldest first.
    pub(crate) backlog: VecDeque<Waiting>,
    pub(crate) nonce: u64,
    seed: u64,
    conduct: PhantomData<C>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// Secondary, candidate, heir, or named nowhere: answers whoever leads.
    Following,
    /// Named primary of a term that an earlier life of this process may have led: asks for another one (R4).
    Restarted {
        term: Term,
        ask_at: Instant,
    },
    /// Named primary: waits until its promise is durable and what it granted has run out.
    Ascending {
        term: Term,
        not_before: Instant,
    },
    Leading(Leader),
}

/// A split that was applied here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Parted {
    pub(crate) child: BucketId,
    pub(crate) slots: SlotSet,
    pub(crate) at: Position,
    /// The blueprint knows.
    pub(crate) registered: bool,
    /// The child is durable.
    pub(crate) forked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    pub(crate) slot: Slot,
    pub(crate) since: Instant,
    pub(crate) what: Request,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Read,
    Write(Bytes),
}

/// What a replica says about itself: for people, the directory and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub role: &'static str,
    /// The term that it leads or is about to lead.
    pub term: Option<Term>,
    pub serving: bool,
    pub promised: Term,
    pub base: Index,
    pub applied: Index,
    pub commit: Index,
    pub last: Position,
    pub missing: SlotSet,
    pub backlog: usize,
    /// Whose leases the primary holds until when.
    pub leases: Vec<(Member, Instant)>,
    /// It will not reign in a higher term before then (R5).
    pub abstains_until: Instant,
    pub waits_for: Option<&'static str>,
}

/// How a replica comes into being other than by recovery.
#[derive(Clone, Debug)]
pub struct Founding {
    pub me: Member,
    pub promised: Term,
    pub base: Position,
    pub clock: u64,
    pub owned: SlotSet,
    /// The tables that it starts with; empty ones at a first start, none for a candidate.
    pub image: Image,
    pub abstain_until: Instant,
}

impl<C: Conduct> Phaser<C> {
    /// A replica that did not exist before. It says nothing until it is durable.
    pub fn found(config: Config, founding: Founding, seed: u64, now: Instant) -> Self {
        let Founding { me, promised, base, clock, owned, image, abstain_until } = founding;
        assert!(!owned.is_empty(), "a bucket has slots; a replica of none would count as whole");
        let record = Record::Found { me, promised, base, clock, owned, image };
        let durable = Durable::found(&record).expect("that is what a Found record makes");
        let mut phaser = Self::new(config, durable, Grants::after_restart(abstain_until), seed, now);
        phaser.raised = Some(promised);
        phaser.disk.promise = phaser.disk.push(&mut phaser.log, record);
        phaser
    }

    /// A replica that was there before the process started. `children` are the replicas of other buckets that were durable
    /// on this node, by the position at which they began: one that was forked from this log proves that its Split is
    /// committed, and may have acknowledged writes since. (Were the Split taken for a mere tail, a seat could go before it,
    /// and make somebody a member of a child that it never held anything of.)
    pub fn recover(
        config: Config,
        durable: Durable,
        children: &[(BucketId, Position)],
        seed: u64,
        now: Instant,
        out: &mut Outbox,
    ) -> Self {
        let grants = if C::breaks(Breach::GrantsForgottenOnRestart) {
            Grants::default()
        } else {
            Grants::after_restart(now + config.abstention())
        };
        let mut phaser = Self::new(config, durable, grants, seed, now);
        let forked = phaser.tail_splits().find(|split| children.contains(split)).map(|(_, at)| at.index);
        phaser.commit = forked.map_or(phaser.commit, |index| phaser.commit.max(index));
        phaser.apply(now, out);
        phaser
    }

    fn new(config: Config, durable: Durable, grants: Grants, seed: u64, now: Instant) -> Self {
        let Durable { me, origin, promised, log, commit, owned, as_of, tables: _ } = durable;
        let base = log.base().index;
        Self {
            config,
            me,
            origin,
            promised,
            raised: None,
            commit,
            applied: base,
            hinted: commit,
            proven: base,
            owned_at_base: owned.clone(),
            owned,
            as_of,
            unsaved: SlotSet::empty(),
            dirty: SlotBits::default(),
            checkpointed: base,
            splits: Vec::new(),
            joined: Vec::new(),
            absorptions: 0,
            frozen: None,
            given: false,
            meeting: None,
            disk: Disk::new(log.last().index),
            grants,
            clock: DataClock::new(log.clock(), now),
            log,
            known: None,
            role: Role::Following,
            throttles: Vec::new(),
            backlog: VecDeque::new(),
            nonce: 0,
            seed,
            conduct: PhantomData,
        }
    }

    pub fn step(&mut self, now: Instant, input: Input, out: &mut Outbox) {
        match input {
            Input::Message(envelope) => self.on_message(now, envelope, out),
            Input::View(view) => self.on_view(now, view, out),
            Input::Told { nonce, view } => self.on_told(now, nonce, view, out),
            Input::Rejected { term } => self.on_rejected(now, term, out),
            Input::Write { ticket, slot, body } => {
                self.on_request(now, Waiting { ticket, slot, since: now, what: Request::Write(body) }, out);
            }
            Input::Read { ticket, slot } => {
                self.on_request(now, Waiting { ticket, slot, since: now, what: Request::Read }, out);
            }
            Input::HandOver { to } => self.on_hand_over(now, to, out),
            Input::Split { child, slots } => self.on_split(now, child, slots, out),
            Input::Forked { child } => self.on_forked(child, out),
            Input::Named { at } => self.on_named(now, at, out),
            Input::Given => self.on_given(out),
            Input::Met { bucket, frozen } => self.on_met(now, bucket, frozen, out),
            Input::Retire => self.step_down(now, out),
            Input::Throttle { rates } => self.on_throttle(now, rates),
            Input::ImageSent { to, slots, bytes } => self.on_image_sent(now, to, slots, bytes),
            Input::Written { upto } => self.on_written(now, upto, out),
            Input::Stored { id, tables } => self.disk.on_stored(&mut self.log, id, tables, out),
            Input::Wall { micros } => self.clock.observe_wall(micros, now),
            Input::Flush => self.on_flush(now, out),
            Input::Checkpoint => self.try_checkpoint(out),
            Input::Fill { to } => self.on_fill_turn(now, to, out),
            Input::Wake => self.on_wake(now, out),
        }
        self.note_leases(now);
    }

    /// When the next `Wake` is due; early ones are harmless.
    pub fn deadline(&self) -> Option<Instant> {
        let patience = self.backlog.front().map(|w| w.since + self.config.patience);
        let role = match &self.role {
            Role::Following => None,
            Role::Restarted { ask_at, .. } => Some(*ask_at),
            Role::Ascending { term, not_before } => {
                (self.disk.is_promise_safe() && self.is_whole()).then(|| self.grants.free_at(*term).max(*not_before))
            }
            Role::Leading(leader) => Some(leader.deadline()),
        };
        [patience, role].into_iter().flatten().min()
    }

    pub fn check_invariants(&self) {
        let (base, last) = (self.log.base().index, self.log.last().index);
        assert!(
            base <= self.applied && self.applied <= self.commit && self.commit <= last,
            "base <= applied <= commit <= last"
        );
        let kept = C::breaks(Breach::StartingOverKeepsSlots);
        assert!(kept || self.as_of.values().all(|as_of| *as_of >= base), "no table is older than the log begins");
        assert!(self.disk.safe <= last && self.proven <= last, "nothing is safe or proven beyond the end of the log");
        assert!(self.log.last().term <= self.promised, "no entry is newer than the promise (R2)");
        match &self.role {
            Role::Following | Role::Restarted { .. } => {}
            Role::Ascending { term, .. } => assert_eq!(*term, self.promised, "who ascends has promised that very term"),
            Role::Leading(leader) => leader.check_invariants(self.promised, &self.log),
        }
    }

    fn on_message(&mut self, now: Instant, envelope: Envelope, out: &mut Outbox) {
        let Envelope { from, to, message } = envelope;
        if to != self.me || from.node == self.me.node {
            return self.drop_message(Dropped::WrongIncarnation, out);
        }
        match message {
            Message::Prepare { .. } | Message::Beacon { .. } | Message::Begin { .. } | Message::Fill { .. } => {
                self.on_order(now, from, message, out);
            }
            Message::Prepared { .. } | Message::Differs { .. } | Message::BeaconAck { .. } | Message::Filled { .. } => {
                self.on_answer(now, from, message, out);
            }
            Message::Outranked { promised } => self.on_outranked(promised, out),
            Message::Abdicate { term } => {
                self.grants.release::<C>(term);
                self.try_reign(now, out);
            }
        }
    }

    fn on_written(&mut self, now: Instant, upto: WriteId, out: &mut Outbox) {
        if !self.disk.on_written(upto) {
            return;
        }
        while let Some(save) = self.disk.saved() {
            self.on_saved(save);
        }
        self.release_answers(now, out);
        self.take_registered(now, out);
        self.try_reign(now, out);
        self.try_succeed(now, out);
        self.try_commit(now, out);
    }

    /// Whether a `Flush` would find anything to do.
    pub fn has_to_flush(&self) -> bool {
        let has_to_send = matches!(&self.role, Role::Leading(leader) if leader.has_to_send(self.log.last().index));
        has_to_send || self.log.has_open() || self.disk.has_batch()
    }

    fn on_flush(&mut self, now: Instant, out: &mut Outbox) {
        self.disk.close(&mut self.log);
        // Not beside tables: that they may be ahead of the hint after a restart (see `label`) is then common enough to be seen in tests.
        if self.disk.has_batch() && !self.disk.has_tables() && self.commit > self.hinted {
            let at = self.log.position(self.commit).expect("commit is in the log");
            self.disk.push_hint(at);
            self.hinted = self.commit;
        }
        self.disk.seal(out);
        self.send_frames(now, out);
    }

    fn on_wake(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(waiting) = self.backlog.front() {
            if now.since(waiting.since) < self.config.patience {
                break;
            }
            out.push(Output::Refuse { ticket: waiting.ticket, why: Refusal::Busy });
            self.backlog.pop_front();
        }
        self.on_restarted_timeout(now, out);
        self.try_reign(now, out);
        self.on_tick_timeout(now, out);
        self.on_fill_timeout(now);
    }

    pub fn me(&self) -> Member {
        self.me
    }

    /// Where its log began when it was founded: for a forked child the Split that made it, until it begins anew.
    pub fn origin(&self) -> Position {
        self.origin
    }

    pub fn promised(&self) -> Term {
        self.promised
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn commit(&self) -> Index {
        self.commit
    }

    pub fn applied(&self) -> Index {
        self.applied
    }

    /// The slots of this bucket as of what is applied here.
    pub fn owned(&self) -> &SlotSet {
        &self.owned
    }

    /// As of which index a slot's table stands here; none for a slot that is missing.
    pub fn stands_at(&self, slot: Slot) -> Option<Index> {
        self.as_of.get(slot).map(|as_of| self.applied.max(*as_of))
    }

    /// The term that this replica leads, and whether it serves in it.
    pub fn leads(&self) -> Option<(Term, bool)> {
        match &self.role {
            Role::Leading(leader) => Some((leader.term, leader.serving)),
            Role::Following | Role::Restarted { .. } | Role::Ascending { .. } => None,
        }
    }

    /// Reads are good until then, if this replica serves any.
    pub fn reads_until(&self) -> Option<Instant> {
        match &self.role {
            Role::Leading(leader) if leader.serving && self.frozen.is_none() => Some(leader.read_until::<C>()),
            Role::Leading(_) | Role::Following | Role::Restarted { .. } | Role::Ascending { .. } => None,
        }
    }

    /// The clock of the data, as this replica would stamp it now.
    pub fn data_clock(&self, now: Instant) -> u64 {
        self.clock.read(now)
    }

    /// Does this log hold the split that made `child`?
    pub fn holds_split(&self, child: BucketId) -> bool {
        self.splits.iter().any(|p| p.child == child) || self.log.milestones().any(|e| e.split() == Some(child))
    }

    /// Is the split that makes `child` in this log and still to be applied? Another one of the same name is not it.
    pub fn awaits_split(&self, child: BucketId, at: Position) -> bool {
        self.tail_splits().any(|split| split == (child, at))
    }

    /// The newest blueprint that this replica has seen, in whatever way.
    pub fn known_epoch(&self) -> blueprint::Epoch {
        self.known.as_ref().map_or(blueprint::Epoch(0), |view| view.epoch)
    }

    pub fn government(&self) -> Option<&blueprint::Government> {
        self.known.as_ref().map(|view| &view.government)
    }

    /// The planted bug that lets a child count its parent's leases; honestly, it never does.
    pub fn borrow_leases(&mut self, parent: &Self) {
        if C::breaks(Breach::ChildCountsParentLeases)
            && let (Role::Leading(leader), Some(until)) = (&mut self.role, parent.reads_until())
        {
            leader.borrowed = until;
        }
    }

    pub fn status(&self) -> Status {
        let (role, term, serving, leases) = match &self.role {
            Role::Following => ("following", None, false, Vec::new()),
            Role::Restarted { term, .. } => ("restarted", Some(*term), false, Vec::new()),
            Role::Ascending { term, .. } => ("ascending", Some(*term), false, Vec::new()),
            Role::Leading(leader) => {
                let leases = leader.needed().map(|p| (p.member, p.lease)).collect();
                ("leading", Some(leader.term), leader.serving, leases)
            }
        };
        Status {
            role,
            term,
            serving,
            promised: self.promised,
            base: self.log.base().index,
            applied: self.applied,
            commit: self.commit,
            last: self.log.last(),
            missing: self.missing(),
            backlog: self.backlog.len(),
            leases,
            abstains_until: self.grants.free_at(Term(u64::MAX)),
            waits_for: self.waits_for(),
        }
    }

    /// What this replica waits for, in words; none when it waits for nothing.
    pub fn waits_for(&self) -> Option<&'static str> {
        match &self.role {
            Role::Following => None,
            Role::Restarted { .. } => {
                Some("R4: a new term, because an earlier life of this process may have led this one")
            }
            Role::Ascending { .. } if !self.disk.is_promise_safe() => Some("R2: its promise to become durable"),
            Role::Ascending { .. } if !self.is_whole() => {
                Some("the slots that it misses: without them it cannot reign")
            }
            Role::Ascending { term, not_before } if *not_before > self.grants.free_at(*term) => {
                Some("R9: the former primary to have stopped reading, because it is an heir")
            }
            Role::Ascending { .. } => Some("R5: what it granted to the former primary to run out"),
            Role::Leading(leader) => leader.waits_for(),
        }
    }

    /// Every slot is here, safely, and nothing between its table and the log is missing.
    pub fn is_whole(&self) -> bool {
        self.missing().is_empty()
    }

    pub fn missing(&self) -> SlotSet {
        if self.unsaved.is_empty() && self.as_of.has_just(&self.owned) {
            return SlotSet::empty();
        }
        self.owned.difference(&self.as_of.keys()).union(&self.unsaved.intersection(&self.owned))
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress { applied: self.applied, missing: self.missing() }
    }

    pub(crate) fn drop_message(&mut self, why: Dropped, out: &mut Outbox) {
        out.event(Event::Dropped(why));
    }

    /// R2: raised in memory now, on disk before anything is answered.
    pub(crate) fn raise(&mut self, term: Term) {
        assert!(term > self.promised, "promises only rise");
        self.promised = term;
        self.raised = Some(term);
        self.proven = self.log.base().index;
        if !C::breaks(Breach::PromisedNotSynced) {
            self.disk.promise = self.disk.push(&mut self.log, Record::Promise(term));
        }
    }

    pub(crate) fn append(&mut self, entries: &Entries, now: Instant) {
        self.disk.close(&mut self.log);
        entries.runs().flat_map(Run::clocks).for_each(|clock| self.clock.observe(clock, now));
        for reign in entries.reigns() {
            self.grants.accept_reign(reign.at.term);
        }
        for run in entries.runs() {
            let previous = self.log.last();
            let run = self.log.append(run.clone());
            self.disk.push_run(previous, run);
        }
    }

    /// Executes what is committed, in log order.
    pub(crate) fn apply(&mut self, now: Instant, out: &mut Outbox) {
        while self.applied < self.commit {
            if let Some((slot, clock, seed)) = self.log.stamped_command(self.applied.next()) {
                self.apply_command(slot, clock, seed, out);
                continue;
            }
            let entry = self.log.get(self.applied.next()).expect("what is committed is in the log").to_entry();
            if matches!(entry.payload, Payload::Absorb { .. }) && !self.apply_absorb(&entry, out) {
                return;
            }
            self.applied = entry.at.index;
            match entry.payload {
                Payload::Reign | Payload::Command { .. } => {}
                Payload::Split { child, ref slots } => {
                    let slots = slots.clone();
                    self.apply_split(now, child, &slots, &entry, out);
                }
                Payload::Freeze { into } => self.apply_freeze(&entry, into, out),
                Payload::Absorb { .. } => {} // before it counts as applied
            }
        }
    }

    fn apply_command(&mut self, slot: Slot, clock: u64, seed: u64, out: &mut Outbox) {
        self.applied = self.applied.next();
        let (index, ticket) = (self.applied, self.take_ticket(self.applied));
        // An image that is newer than the entry has it already; a slot that is missing will come with it.
        let newer = match self.as_of.get(slot) {
            Some(as_of) => index > *as_of || C::breaks(Breach::AsOfIgnored),
            None => false,
        };
        if newer && self.owned.contains(slot) {
            self.dirty.insert(slot);
            out.push(Output::Apply { index, slot, clock, seed, ticket });
        }
    }

    /// These slots are no longer this bucket's.
    pub(crate) fn disown(&mut self, slots: &SlotSet) {
        self.owned = self.owned.difference(slots);
        self.as_of.remove(slots);
        self.unsaved = self.unsaved.difference(slots);
        self.dirty.remove(slots);
        self.disk.disown(slots);
    }

    pub(crate) fn start_over(&mut self, base: Position, clock: u64, owned: SlotSet, out: &mut Outbox) {
        if !C::breaks(Breach::StartingOverKeepsSlots) {
            out.push(Output::Discard { slots: self.owned.union(&owned) });
            self.as_of.clear();
        }
        self.origin = Position::default();
        self.unsaved = SlotSet::empty();
        self.dirty.clear();
        self.splits.clear();
        self.joined.clear();
        self.frozen = None;
        self.disk.close(&mut self.log);
        self.log = Log::new(base, clock);
        self.commit = base.index;
        self.applied = base.index;
        self.hinted = base.index;
        self.checkpointed = base.index;
        self.proven = base.index;
        self.disk.truncate(base.index);
        self.owned = owned.clone();
        self.owned_at_base = owned.clone();
        self.disk.start_over(&mut self.log, Record::StartOver { base, clock, owned }, base.index);
    }

    /// Whether a `Checkpoint` would find anything to do. Committed state only, and all of it.
    pub fn wants_checkpoint(&self) -> bool {
        if self.frozen.is_some() || self.disk.is_saving() {
            return false;
        }
        let config = &self.config;
        let is_long = || self.bytes_since_checkpoint(0) >= config.checkpoint_bytes;
        let is_due = || self.since_checkpoint() >= config.checkpoint_every || self.owes_cut() || is_long();
        let ahead = || self.as_of.values().any(|as_of| *as_of > self.applied);
        is_due() && !ahead() && self.is_whole()
    }

    /// Entries that were applied since the last one was taken.
    pub fn since_checkpoint(&self) -> u64 {
        self.applied.0 - self.checkpointed.0
    }

    /// What those take in the log, but for so many of them that came first.
    pub fn bytes_since_checkpoint(&self, but: u64) -> u64 {
        self.log.bytes_of(Index(self.checkpointed.0 + but).next(), self.applied) as u64
    }

    /// A frozen replica is kept until what was absorbed is saved here: that is not to wait for more writes.
    pub fn owes_cut(&self) -> bool {
        let early = C::breaks(Breach::FrozenErasedBeforeCheckpoint);
        !self.joined.is_empty() && !self.disk.is_saving() && !self.keeps_log(self.applied) && !early
    }

    /// Slots that changed only.
    fn try_checkpoint(&mut self, out: &mut Outbox) {
        if !self.wants_checkpoint() {
            return;
        }
        let replaced = self.dirty.take();
        let image = Image { as_of: self.applied, covered: self.owned.clone(), replaced, tables: Vec::new() };
        self.checkpointed = self.applied;
        self.disk.store(image, Save::Checkpoint(self.applied), out);
    }

    fn on_saved(&mut self, save: Save) {
        match save {
            Save::Checkpoint(as_of) => {
                // What was absorbed since may be missing here, or have come with a newer image.
                let older = self.as_of.where_value(|before| *before <= as_of);
                self.as_of.set(&self.owned.intersection(&older), as_of);
                self.cut(as_of);
            }
            Save::Taken { slots, .. } if slots.is_empty() => {}
            Save::Taken { slots, from } => {
                // A later image of the same slot, or starting over, leaves its own mark.
                self.unsaved = self.unsaved.difference(&slots);
                let filled = Message::Filled { term: self.promised, slots, progress: Progress::default() };
                self.disk.hold(WriteId(0), from, filled);
            }
        }
    }

    /// The log is cut only up to the smallest `as_of` on disk. Slots that a split took away were not saved with this
    /// checkpoint: as long as their child may have to be made again nothing is cut, and then the split goes too. (Cutting
    /// up to somewhere before the split would leave their tables older than the log: a child forked from that after a
    /// restart lacks what lies between.)
    fn cut(&mut self, as_of: Index) {
        if self.keeps_log(as_of) {
            return;
        }
        let taken = self.splits.iter().map(|s| s.at.index).filter(|at| *at <= as_of);
        let kept = if self.keeps_for_others() { self.behind(as_of, 1) } else { as_of };
        let kept = kept.min(self.needed_by_peers(as_of));
        // The checkpoint has what was absorbed: the log is not to ask for it again.
        let upto = taken.chain(self.joined_upto(as_of)).fold(kept, Index::max);
        if upto <= self.log.base().index || upto > self.applied {
            return;
        }
        for entry in self.log.milestones().take_while(|e| e.at.index <= upto) {
            match entry.payload() {
                Payload::Split { slots, .. } => self.owned_at_base = self.owned_at_base.difference(&slots),
                Payload::Absorb { slots, .. } => self.owned_at_base = self.owned_at_base.union(&slots),
                Payload::Reign | Payload::Command { .. } | Payload::Freeze { .. } => {}
            }
        }
        let base = self.log.position(upto).expect("at most what is applied");
        let clock = self.log.clock_at(upto);
        self.log.cut(base);
        self.proven = self.proven.max(base.index);
        self.splits.retain(|s| s.at.index > base.index || C::breaks(Breach::RegisterAfterMerge));
        self.joined.retain(|j| j.at.index > base.index);
        self.disk.cut = self.disk.push(&mut self.log, Record::Cut { base, clock, owned: self.owned_at_base.clone() });
    }

    /// Is there something before that in the log of which somebody must still hear? What was applied since a checkpoint was taken is no
    /// matter: a split's slots are in it, and what was absorbed is not asked of it.
    fn keeps_log(&self, as_of: Index) -> bool {
        let split = |s: &Parted| s.at.index <= as_of && (!s.registered || !s.forked);
        let joined = |j: &Joined| j.at.index <= as_of && !j.told;
        self.splits.iter().any(split) || self.joined.iter().any(joined)
    }

    /// A primary that is alone has nobody who could have been away.
    fn keeps_for_others(&self) -> bool {
        match &self.role {
            Role::Leading(leader) => !leader.peers.is_empty(),
            Role::Ascending { .. } | Role::Restarted { .. } | Role::Following => true,
        }
    }

    /// So many times what is kept of the log behind a checkpoint begins there.
    fn behind(&self, as_of: Index, times: u64) -> Index {
        let (entries, bytes) = (self.config.keep_entries, self.config.keep_bytes);
        self.log.behind(as_of, entries.saturating_mul(times), bytes.saturating_mul(times))
    }

    /// Up to where whoever this primary fills and streams to still needs the log: to cut it off would make them begin anew. Within
    /// bounds: who is far behind is filled again, and memory stays bounded.
    fn needed_by_peers(&self, as_of: Index) -> Index {
        let Role::Leading(leader) = &self.role else { return as_of };
        let met = leader.peers.iter().filter_map(|p| p.begin.map(|base| base.index).or(p.upto));
        // What is on its way to somebody is kept however large it is, or that one would begin anew, and again.
        let under_way = Index(as_of.0.saturating_sub(self.config.window_entries));
        met.min().unwrap_or(as_of).max(self.behind(as_of, KEPT_FOR_PEERS).min(under_way))
    }

    pub(crate) fn forget_draws(&mut self) {
        self.seed = 0;
    }

    /// Randomness for an entry: a sequence that the driver seeded.
    pub(crate) fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
