//! The machine: one node's records, and its copies of everyone else's.
//!
//! This file has its state, its life cycle and the dispatch of inputs. The three verbs are in `pull.rs`, `push.rs` and `check.rs`,
//! what an owner does in `own.rs` and `succession.rs`, what is held of one owner in `holding.rs`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::time::Duration;

use blueprint::{Conduct, Instant, NodeId};

use crate::config::{Config, Level};
use crate::disk::Disk;
use crate::durable::{Durable, Record, aged};
use crate::holding::{Held, Holding};
use crate::io::{Dropped, Event, Input, Outbox, Output};
use crate::message::{Envelope, Message, Phase};
use crate::number::UpdateNumber;
use crate::own::Own;
use crate::part::{Key, Part};
use crate::peer::Peer;
use crate::pull::{Behind, Pull};

/// One start of a node's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    pub node: NodeId,
    /// Higher than that of any earlier start of this node, and not 0.
    pub number: u64,
    /// What the wall clock says, since 1970. It may be wrong; nobody else's is ever compared with it.
    pub wall: Duration,
}

#[derive(Clone, Debug, Hash)]
pub struct Registrar<C> {
    pub(crate) config: Config,
    pub(crate) life: Life,
    pub(crate) begun: Instant,
    pub(crate) stage: Stage,
    pub(crate) is_complete: bool,
    /// What siblings had of each owner when they first said so: who has that may begin. They go on meanwhile, and over a bad network
    /// nobody is ever level with all of them at once.
    pub(crate) goals: BTreeMap<NodeId, UpdateNumber>,
    pub(crate) holdings: BTreeMap<NodeId, Holding>,
    pub(crate) peers: BTreeMap<NodeId, Peer>,
    /// Owners of whom some sibling has more than this node.
    pub(crate) behind: BTreeMap<NodeId, Behind>,
    /// At most one per owner, and only of owners in `behind`.
    pub(crate) pulls: BTreeMap<NodeId, Pull>,
    pub(crate) own: Own,
    pub(crate) disk: Disk,
    pub(crate) nonce: u64,
    dropped: BTreeMap<Dropped, u64>,
    conduct: PhantomData<C>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Stage {
    /// Nobody said yet who the peers are.
    Unaware,
    /// Asks every sibling what it has, and pulls it; its own rows too, so it gives out no numbers.
    Starting,
    /// Has what was left of its own rows, and pulls everyone else's.
    Numbering,
    Operating,
}

impl<C: Conduct> Registrar<C> {
    /// `durable` is empty at level `Ephemeral`, and for a node whose disk is new.
    pub fn recover(config: Config, life: Life, durable: &Durable, now: Instant) -> Self {
        assert!(life.number > 0, "0 stands for a life that nobody has heard of");
        assert!(config.check().is_ok(), "a configuration is checked before it gets here");
        let mut registrar = Self {
            own: Own::default(),
            disk: Disk::new(),
            life,
            begun: now,
            stage: Stage::Unaware,
            is_complete: false,
            goals: BTreeMap::new(),
            holdings: BTreeMap::new(),
            peers: BTreeMap::new(),
            behind: BTreeMap::new(),
            pulls: BTreeMap::new(),
            nonce: 0,
            dropped: BTreeMap::new(),
            conduct: PhantomData,
            config,
        };
        registrar.restore(durable, now);
        registrar
    }

    fn restore(&mut self, durable: &Durable, now: Instant) {
        for (owner, stored) in &durable.owners {
            let row = |(row, wall): &(_, Duration)| {
                Held::new(aged(row, self.life.wall.saturating_sub(*wall)), &self.config, now)
            };
            let rows: Vec<(Key, Held)> = stored.rows.values().map(row).collect();
            let mut holding = Holding::default();
            holding.replace::<C>(rows, stored.known, stored.floor);
            holding.lapse(now);
            self.holdings.insert(*owner, holding);
        }
        let taken: Vec<_> = self.holdings.values().flat_map(Holding::predecessors).collect();
        for (owner, upto) in taken {
            self.forget_taken_over(owner, upto);
        }
        self.recover_own();
    }

    /// Total: never fails, never waits.
    pub fn step(&mut self, now: Instant, input: Input, out: &mut Outbox) {
        self.lapse(now, out);
        match input {
            Input::Message(envelope) => self.on_message(now, envelope, out),
            Input::Peers(peers) => self.on_peers(now, &peers, out),
            Input::Succeeds(old) => self.on_succeeds(old),
            Input::Update { ticket, edits } => self.on_update(now, ticket, &edits, out),
            Input::LinkLost(peer) => self.on_link_lost(now, peer, out),
            Input::Written { upto } => self.on_written(upto, out),
            Input::Flush => self.on_flush(now, out),
            Input::Wake => self.on_wake(now, out),
        }
        self.proceed(now, out);
    }

    /// When the next Wake is due; early ones are harmless.
    pub fn deadline(&self) -> Option<Instant> {
        let rows = self.holdings.values().filter_map(Holding::due);
        let checks = self.peers.values().map(|peer| peer.asked.as_ref().map_or(peer.check_at, |asked| asked.repeat_at));
        let pulls = self.pulls.values().map(Pull::due_at);
        rows.chain(checks).chain(pulls).chain(self.next_pull_at()).min()
    }

    /// Everything that any sibling had when this node started, and could still give, is here.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::Unaware | Stage::Starting | Stage::Numbering => Phase::Starting,
            Stage::Operating => Phase::Operating,
        }
    }

    /// How many messages had no effect, and why.
    pub fn dropped(&self) -> &BTreeMap<Dropped, u64> {
        &self.dropped
    }

    /// Everything held, and everything on its way to the disk, as records that replace all earlier ones: for whoever wants to begin
    /// a new journal.
    pub fn records(&self, now: Instant) -> Vec<Record> {
        let record = |(owner, holding): (&NodeId, &Holding)| {
            let rows = holding.rows().map(|(key, held)| held.row(key, &self.config, now)).collect();
            let (zero, known) = (UpdateNumber::ZERO, holding.known);
            let part = Part { onto: zero, after: zero, upto: known, as_of: known, floor: holding.floor, rows };
            Record { owner: *owner, part, wall: self.wall(now) }
        };
        let mut records: Vec<Record> = self.holdings.iter().map(record).collect();
        records.extend(self.unwritten_records(now));
        records
    }

    /// After each step, in tests and simulation.
    pub fn check_invariants(&self) {
        for holding in self.holdings.values() {
            holding.check_invariants();
        }
        assert!(self.pulls.len() <= self.config.pulls, "too many pulls at once");
        assert!(self.pulls.keys().all(|owner| self.behind.contains_key(owner)), "what is pulled is missing");
        assert!(self.own.waits.len() <= self.config.waiting_updates, "too many updates wait");
        assert!(!self.peers.contains_key(&self.life.node), "nobody is its own peer");
        assert!(!self.is_complete || self.stage == Stage::Operating, "complete before it operates");
        let is_silent = |peer: &Peer| !peer.is_away() || peer.claims.is_empty();
        assert!(self.peers.values().all(is_silent), "nobody who is away can be asked");
    }

    // ---- time and peers

    pub(crate) fn wall(&self, now: Instant) -> Duration {
        self.life.wall.saturating_add(now.since(self.begun))
    }

    fn lapse(&mut self, now: Instant, out: &mut Outbox) {
        for (owner, holding) in &mut self.holdings {
            for key in holding.lapse(now) {
                tell(*owner, key, out);
            }
        }
    }

    fn on_wake(&mut self, now: Instant, out: &mut Outbox) {
        self.forget_departed();
        self.on_pull_timeouts(now, out);
        self.on_check_timeouts(now, out);
    }

    fn on_peers(&mut self, now: Instant, peers: &BTreeSet<NodeId>, out: &mut Outbox) {
        let gone: Vec<NodeId> = self.peers.keys().filter(|node| !peers.contains(node)).copied().collect();
        for node in gone {
            self.become_away(now, node, out);
            self.peers.remove(&node);
        }
        for node in peers {
            if *node != self.life.node && !self.peers.contains_key(node) {
                self.peers.insert(*node, Peer::new(now));
                self.ask(now, *node, None, out);
            }
        }
        self.forget_all_taken_over(out);
        if self.stage == Stage::Unaware {
            self.stage = Stage::Starting;
        }
    }

    /// An owner that is not present any more, and of whom nothing is left here or elsewhere, is forgotten.
    fn forget_departed(&mut self) {
        if self.stage == Stage::Unaware {
            return;
        }
        let taken: BTreeSet<NodeId> =
            self.holdings.values().flat_map(Holding::predecessors).map(|(old, _)| old).collect();
        let (me, peers) = (self.life.node, &self.peers);
        self.holdings.retain(|owner, holding| {
            let is_present = *owner == me || peers.contains_key(owner);
            let is_claimed = || peers.values().any(|peer| peer.claims.contains_key(owner));
            is_present || !holding.is_empty() || taken.contains(owner) || is_claimed()
        });
    }

    /// What follows from the state, whatever led to it.
    fn proceed(&mut self, now: Instant, out: &mut Outbox) {
        self.start_pulls(now, out);
        if self.is_complete {
            self.take_over(now, out);
            return;
        }
        let is_settled = self.stage != Stage::Unaware && self.peers.values().all(|peer| peer.is_tried);
        if self.stage == Stage::Starting && is_settled && !self.behind.contains_key(&self.life.node) {
            self.resume(now, out);
        }
        let has_goal = |owner: &NodeId| {
            let goal = self.goals.get(owner).copied().unwrap_or_default();
            self.known(*owner).unwrap_or_default() >= goal
        };
        if self.stage == Stage::Numbering && is_settled && self.behind.keys().all(has_goal) {
            self.become_operating(now, out);
        }
        let has_everything = is_settled && self.behind.is_empty();
        // A node that heard from nobody has all that it could get, and does not know whether that is all there is.
        let has_heard = self.peers.is_empty() || self.peers.values().any(|peer| !peer.is_away());
        if self.stage == Stage::Operating && has_everything && has_heard {
            self.is_complete = true;
            self.goals.clear();
            out.event(Event::Complete);
            self.take_over(now, out);
        }
    }

    // ---- messages

    fn on_message(&mut self, now: Instant, envelope: Envelope, out: &mut Outbox) {
        let Envelope { from, from_life, to, to_life, message } = envelope;
        if to != self.life.node {
            return self.drop_message(from, Dropped::NotForMe, out);
        }
        let Some(peer) = self.peers.get(&from) else {
            return self.drop_message(from, Dropped::UnknownSender, out);
        };
        if from_life == 0 {
            return self.drop_message(from, Dropped::Malformed, out);
        }
        if from_life < peer.life {
            return self.drop_message(from, Dropped::EarlierLife, out);
        }
        if from_life > peer.life {
            self.meet(now, from, from_life, out);
        }
        let is_for_this_life = to_life == self.life.number;
        match message {
            // Said to an earlier life of mine, perhaps long ago: who starts counts on what it asked for itself.
            Message::Check { nonce, .. } if !is_for_this_life && !self.is_complete => {
                self.answer_check(from, nonce, out);
                self.ask_again(now, from, out);
            }
            Message::Check { nonce, standing } => self.on_check(now, from, nonce, standing, out),
            Message::Pull { nonce, owner, onto, after } => self.on_pull(now, from, nonce, owner, (onto, after), out),
            Message::Compare { nonce, digest } => self.on_compare(now, from, nonce, digest, out),
            Message::Checked { .. } | Message::Same { .. } | Message::Pulled { .. } | Message::Push(_)
                if !is_for_this_life =>
            {
                self.drop_message(from, Dropped::NotThisLife, out);
            }
            Message::Same { nonce } => self.on_same(now, from, nonce, out),
            Message::Checked { nonce, standing } => self.on_checked(now, from, nonce, standing, out),
            Message::Pulled { nonce, owner, answer } => self.on_pulled(now, from, nonce, owner, answer, out),
            Message::Push(part) => self.on_push(now, from, part, out),
        }
        // Somebody speaks who counts as away: it comes back only through a check.
        if self.peers.get(&from).is_some_and(Peer::is_away) {
            self.ask(now, from, None, out);
        }
    }

    pub(crate) fn drop_message(&mut self, from: NodeId, why: Dropped, out: &mut Outbox) {
        *self.dropped.entry(why).or_default() += 1;
        out.event(Event::Dropped { from, why });
    }

    pub(crate) fn send(&self, to: NodeId, message: Message, out: &mut Outbox) {
        let to_life = self.peers.get(&to).map_or(0, |peer| peer.life);
        let Life { node: from, number: from_life, .. } = self.life;
        out.push(Output::Send(Envelope { from, from_life, to, to_life, message }));
    }

    pub(crate) fn next_nonce(&mut self) -> u64 {
        self.nonce += 1;
        self.nonce
    }

    // ---- rows

    /// A last part that fits: its rows and its number are taken together, and written together.
    pub(crate) fn take(&mut self, now: Instant, owner: NodeId, batch: Batch, out: &mut Outbox) {
        let Batch { onto, upto, floor, rows } = batch;
        let taken: Vec<(NodeId, UpdateNumber)> = rows.iter().filter_map(|(key, held)| held.taken_over(key)).collect();
        let written = match self.config.level {
            Level::Ephemeral => Vec::new(),
            Level::Durable => rows.iter().map(|(key, held)| held.row(key, &self.config, now)).collect(),
        };
        let holding = self.holdings.entry(owner).or_default();
        let changed = if onto == UpdateNumber::ZERO {
            if !holding.is_empty() {
                out.event(Event::Replaced { owner, upto });
            }
            holding.replace::<C>(rows, upto, floor)
        } else {
            holding.merge::<C>(rows, upto)
        };
        let floor = holding.floor;
        if self.config.level == Level::Durable {
            let part = Part { onto, after: onto, upto, as_of: upto, floor, rows: written };
            self.disk.push(Record { owner, part, wall: self.wall(now) });
        }
        changed.into_iter().for_each(|key| tell(owner, key, out));
        for (old, upto) in taken {
            self.forget_taken_over(old, upto).into_iter().for_each(|key| tell(old, key, out));
        }
        if owner == self.life.node {
            self.own.last = self.own.last.max(upto);
        }
        // Whoever has more than before misses nothing that it did not miss before.
        if self.behind.contains_key(&owner) {
            self.reckon(now, owner);
        }
    }
}

/// Everything of one owner between two numbers; built onto `ZERO` it is everything there is.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) onto: UpdateNumber,
    pub(crate) upto: UpdateNumber,
    pub(crate) floor: UpdateNumber,
    pub(crate) rows: Vec<(Key, Held)>,
}

pub(crate) fn tell(owner: NodeId, key: Key, out: &mut Outbox) {
    match key {
        Key::Name(key) => out.push(Output::Changed { owner, key }),
        Key::Predecessor(_) => {}
    }
}
