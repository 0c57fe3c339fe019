//! A few machines, the links between them, their disks and clocks. It does what a driver does and decides nothing; whatever it sees
//! that must not be, it remembers in `faults`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use blueprint::{Conduct, Instant, NodeId};
use registrar::{
    Config, Durable, Edit, Envelope, Event, Input, Level, Life, Outbox, Output, Phase, Record, Registrar, Ticket,
    UpdateNumber, WriteId,
};

use crate::dice::Dice;
use crate::history::{History, Rows};
use crate::network::Network;

pub(crate) const SECOND: u64 = 1_000_000;
/// When the world begins, by a right clock.
const EPOCH: u64 = 1_000_000 * SECOND;

pub(crate) struct World<C: Conduct> {
    pub(crate) config: Config,
    pub(crate) dice: Dice,
    pub(crate) now: u64,
    pub(crate) network: Network,
    pub(crate) nodes: BTreeMap<NodeId, Node<C>>,
    pub(crate) history: History,
    /// What must not be.
    pub(crate) faults: Vec<String>,
    pub(crate) sent: BTreeMap<&'static str, u64>,
    pub(crate) sent_bytes: BTreeMap<&'static str, u64>,
    agenda: BTreeMap<(u64, u64), Happening>,
    order: u64,
    lives: u64,
    tickets: u64,
    issued: BTreeMap<NodeId, UpdateNumber>,
}

pub(crate) struct Node<C: Conduct> {
    /// None while it is down.
    pub(crate) machine: Option<Registrar<C>>,
    /// Who had its name before, and departed.
    predecessors: Vec<NodeId>,
    life: u64,
    /// Its monotonic clock is ahead of the world's by this much.
    ahead: u64,
    wake_at: Option<u64>,
    safe: Vec<Record>,
    under_way: Vec<(WriteId, Vec<Record>)>,
    pending: BTreeMap<Ticket, Vec<Edit>>,
    /// The highest numbers known, of each owner, in this life.
    known: BTreeMap<NodeId, UpdateNumber>,
}

enum Happening {
    Arrives(Envelope),
    Written {
        node: NodeId,
        life: u64,
        upto: WriteId,
    },
    /// It sees the blueprint, as it is then.
    Sees {
        node: NodeId,
    },
}

impl<C: Conduct> World<C> {
    pub(crate) fn new(seed: u64, config: Config) -> Self {
        Self {
            config,
            dice: Dice::new(seed),
            now: EPOCH,
            network: Network::calm(),
            nodes: BTreeMap::new(),
            history: History::new(),
            faults: Vec::new(),
            sent: BTreeMap::new(),
            sent_bytes: BTreeMap::new(),
            agenda: BTreeMap::new(),
            order: 0,
            lives: 0,
            tickets: 0,
            issued: BTreeMap::new(),
        }
    }

    // ---- processes

    pub(crate) fn add(&mut self, id: NodeId) {
        let node = Node {
            machine: None,
            predecessors: Vec::new(),
            life: 0,
            ahead: 0,
            wake_at: None,
            safe: Vec::new(),
            under_way: Vec::new(),
            pending: BTreeMap::new(),
            known: BTreeMap::new(),
        };
        self.nodes.insert(id, node);
    }

    /// `wrong` is how far its wall clock is off, in seconds.
    pub(crate) fn start(&mut self, id: NodeId, wrong: i64) {
        self.lives += 1;
        let (life, ahead) = (self.lives, self.dice.below(1_000 * SECOND));
        let wall = Duration::from_micros(self.now.saturating_add_signed(wrong * SECOND as i64));
        let mut durable = Durable::default();
        let node = self.nodes.get_mut(&id).expect("it was added");
        node.safe.iter().for_each(|record| durable.absorb(record));
        let life_of = Life { node: id, number: life, wall };
        let machine = Registrar::recover(self.config.clone(), life_of, &durable, Instant(self.now + ahead));
        (node.machine, node.life, node.ahead) = (Some(machine), life, ahead);
        node.known.clear();
        // An update that was safe before its owner crashed, but not yet known to be, is there now.
        if let Some(known) = self.machine(id).known(id) {
            let rows = self.rows(id, id);
            self.history.note(id, known, rows);
        }
        self.feed(id, Input::Peers(self.present()));
        for old in self.nodes[&id].predecessors.clone() {
            self.feed(id, Input::Succeeds(old));
        }
    }

    /// Any subset of what was not synced survives.
    pub(crate) fn crash(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).expect("it was added");
        if node.machine.take().is_none() {
            return;
        }
        let under_way = std::mem::take(&mut node.under_way);
        for record in under_way.into_iter().flat_map(|(_, records)| records) {
            if self.dice.percent(50) {
                node.safe.push(record);
            }
        }
        node.pending.clear();
        node.wake_at = None;
    }

    /// Its disk is gone: a new node takes its place.
    pub(crate) fn replace(&mut self, old: NodeId, new: NodeId, wrong: i64) {
        self.crash(old);
        let gone = self.nodes.remove(&old).expect("it was added");
        self.add(new);
        let node = self.nodes.get_mut(&new).expect("it was added");
        node.predecessors = gone.predecessors;
        node.predecessors.push(old);
        for node in self.up() {
            let at = self.now + self.dice.below(SECOND);
            self.plan(at, Happening::Sees { node });
        }
        self.start(new, wrong);
    }

    pub(crate) fn present(&self) -> BTreeSet<NodeId> {
        self.nodes.keys().copied().collect()
    }

    pub(crate) fn up(&self) -> Vec<NodeId> {
        self.nodes.iter().filter(|(_, node)| node.machine.is_some()).map(|(id, _)| *id).collect()
    }

    pub(crate) fn machine(&self, id: NodeId) -> &Registrar<C> {
        self.nodes[&id].machine.as_ref().expect("it is up")
    }

    // ---- time

    fn plan(&mut self, at: u64, happening: Happening) {
        self.order += 1;
        self.agenda.insert((at, self.order), happening);
    }

    /// Everything up to this moment.
    pub(crate) fn run_until(&mut self, until: u64) {
        loop {
            let planned = self.agenda.first_key_value().map(|((at, _), _)| *at);
            let wake = self.nodes.iter().filter_map(|(id, node)| Some((node.wake_at?, *id))).min();
            match (planned, wake) {
                (Some(at), woken) if at <= until && woken.is_none_or(|(wake_at, _)| at <= wake_at) => {
                    self.now = self.now.max(at);
                    let (_, happening) = self.agenda.pop_first().expect("it is there");
                    self.happen(happening);
                }
                (_, Some((at, id))) if at <= until => {
                    self.now = self.now.max(at);
                    self.feed(id, Input::Wake);
                }
                _ => break,
            }
        }
        self.now = until;
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrives(envelope) => {
                if !self.network.is_cut(envelope.from, envelope.to) {
                    self.feed(envelope.to, Input::Message(envelope));
                }
            }
            Happening::Sees { node } => self.feed(node, Input::Peers(self.present())),
            Happening::Written { node, life, upto } => {
                let Some(there) = self.nodes.get_mut(&node).filter(|n| n.life == life && n.machine.is_some()) else {
                    return;
                };
                let (safe, rest) = std::mem::take(&mut there.under_way).into_iter().partition(|(id, _)| *id <= upto);
                there.under_way = rest;
                let safe: Vec<(WriteId, Vec<Record>)> = safe;
                there.safe.extend(safe.into_iter().flat_map(|(_, records)| records));
                self.feed(node, Input::Written { upto });
            }
        }
    }

    // ---- steps

    pub(crate) fn update(&mut self, id: NodeId, edits: Vec<Edit>) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let node = self.nodes.get_mut(&id).expect("it was added");
        node.pending.insert(ticket, edits.clone());
        self.feed(id, Input::Update { ticket, edits });
    }

    /// Several updates in one batch.
    pub(crate) fn update_together(&mut self, id: NodeId, updates: Vec<Vec<Edit>>) {
        let node = self.nodes.get_mut(&id).expect("it was added");
        let mut inputs = Vec::new();
        for edits in updates {
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            node.pending.insert(ticket, edits.clone());
            inputs.push(Input::Update { ticket, edits });
        }
        self.feed_all(id, inputs);
    }

    /// One input is one batch.
    pub(crate) fn feed(&mut self, id: NodeId, input: Input) {
        self.feed_all(id, vec![input]);
    }

    fn feed_all(&mut self, id: NodeId, inputs: Vec<Input>) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(machine) = &mut node.machine else { return };
        let local = Instant(self.now + node.ahead);
        let before = machine.known(id);
        let mut out = Outbox::default();
        for input in inputs {
            machine.step(local, input, &mut out);
        }
        machine.step(local, Input::Flush, &mut out);
        machine.check_invariants();
        let deadline = machine.deadline().map(|at| at.0.saturating_sub(node.ahead));
        node.wake_at = deadline.map(|at| at.max(self.now + 1));
        let after = machine.known(id);
        self.watch_numbers(id);
        self.carry_out(id, out.take());
        if before != after {
            let rows = self.rows(id, id);
            self.history.note(id, after.unwrap_or_default(), rows);
        }
    }

    fn carry_out(&mut self, id: NodeId, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send(envelope) => self.carry(&envelope),
                Output::Write { id: write, records } => {
                    assert_eq!(self.config.level, Level::Durable, "nothing is written at this level");
                    let node = self.nodes.get_mut(&id).expect("it stepped");
                    node.under_way.push((write, records));
                    let life = node.life;
                    let at = self.now + self.dice.between(100, 20_000);
                    self.plan(at, Happening::Written { node: id, life, upto: write });
                }
                Output::Updated { ticket, number } => self.on_updated(id, ticket, number),
                Output::Refused { ticket, .. } => {
                    self.nodes.get_mut(&id).expect("it stepped").pending.remove(&ticket);
                }
                Output::Event(Event::Complete) => self.on_complete(id),
                Output::Changed { .. } | Output::Event(_) => {}
            }
        }
    }

    fn carry(&mut self, envelope: &Envelope) {
        *self.sent.entry(envelope.message.name()).or_default() += 1;
        let bytes = postcard::to_allocvec(envelope).expect("it can be serialised");
        *self.sent_bytes.entry(envelope.message.name()).or_default() += bytes.len() as u64;
        let envelope: Envelope = postcard::from_bytes(&bytes).expect("and back");
        for after in self.network.carry(envelope.from, envelope.to, &mut self.dice) {
            let at = self.now + after;
            self.plan(at, Happening::Arrives(envelope.clone()));
        }
    }

    // ---- what must hold

    /// Rows as a node sees them, with times of the world's clock.
    pub(crate) fn rows(&self, at: NodeId, owner: NodeId) -> Rows {
        let local = Instant(self.now + self.nodes[&at].ahead);
        let rows = self.machine(at).rows(local, owner);
        rows.map(|found| (found.key, (found.value, self.now + found.left.as_micros() as u64))).collect()
    }

    fn fault(&mut self, checker: &str, text: &str) {
        self.faults.push(format!("{checker} at {:.6}: {text}", (self.now - EPOCH) as f64 / SECOND as f64));
    }

    fn watch_numbers(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).expect("it stepped");
        let machine = node.machine.as_ref().expect("it stepped");
        let mut back = Vec::new();
        for owner in machine.owners() {
            let known = machine.known(owner).unwrap_or_default();
            if let Some(before) = node.known.insert(owner, known)
                && known < before
                // Once departed and forgotten, an owner may be heard of again by somebody who was away.
                && self.issued.contains_key(&owner)
                && (owner == id || machine.peers().any(|(peer, _)| peer == owner))
            {
                back.push(format!("{id} knew {owner} up to {before}, and now up to {known}"));
            }
        }
        back.iter().for_each(|text| self.fault("numbers_never_go_back", text));
    }

    fn on_updated(&mut self, id: NodeId, ticket: Ticket, number: UpdateNumber) {
        let edits = self.nodes.get_mut(&id).and_then(|node| node.pending.remove(&ticket)).expect("it was asked for");
        let is_durable = self.config.level == Level::Durable;
        let before = self.issued.insert(id, number).unwrap_or_default();
        if number <= before && is_durable {
            self.fault("numbers_never_go_back", &format!("{id} gave out {before}, and then {number}"));
        }
        let rows = self.rows(id, id);
        let mut later: BTreeSet<_> = self.nodes[&id].pending.values().flatten().map(|edit| key(edit).clone()).collect();
        // What is edited again, in this update or in one that was safe at the same time, is as it was left.
        for edit in edits.iter().rev().filter(|edit| later.insert(key(edit).clone())) {
            let found = rows.get(key(edit)).map(|(value, _)| value);
            let wanted = match edit {
                Edit::Put { value, life, .. } => Some(value).filter(|_| life.as_micros() > 0),
                Edit::Remove { .. } => None,
            };
            // It may have waited for the end of the start.
            let is_short = matches!(edit, Edit::Put { life, .. } if *life < Duration::from_secs(4));
            if found != wanted && !is_short {
                self.fault("owner_holds_its_updates", &format!("{id} {number}: {edit:?}, but found {found:?}"));
            }
        }
    }

    fn on_complete(&mut self, id: NodeId) {
        let machine = self.machine(id);
        let mut missing = Vec::new();
        for (peer, _) in machine.peers().filter(|(_, is_reachable)| *is_reachable) {
            for owner in self.nodes.keys() {
                let (has, theirs) = (machine.known(*owner).unwrap_or_default(), machine.claim(peer, *owner));
                if theirs.is_some_and(|theirs| theirs > has) && *owner != id {
                    missing.push(format!("{id} has {owner} up to {has}, but {peer} has {theirs:?}"));
                }
            }
        }
        missing.iter().for_each(|text| self.fault("complete_means_complete", text));
    }

    /// Everybody's copy is what the owner had at that number.
    pub(crate) fn check_history(&mut self) {
        let mut wrong = Vec::new();
        for at in self.up() {
            for owner in self.nodes.keys().filter(|owner| **owner != at) {
                let Some(known) = self.machine(at).known(*owner).filter(|known| *known > UpdateNumber::ZERO) else {
                    continue;
                };
                let checked = self.history.check(*owner, known, &self.rows(at, *owner), self.now);
                wrong.extend(checked.err().map(|why| format!("{at}: {why}")));
            }
        }
        wrong.iter().for_each(|text| self.fault("a_number_means_its_rows", text));
    }

    /// Once everything is healed and quiet.
    pub(crate) fn check_converged(&mut self) {
        let mut wrong = Vec::new();
        for at in self.up() {
            let machine = self.machine(at);
            if !machine.is_complete() || machine.phase() != Phase::Operating {
                wrong.push(format!("{at} is not complete, and waits for {:?}", machine.waits()));
            }
            for (peer, _) in machine.peers().filter(|(_, is_reachable)| !is_reachable) {
                wrong.push(format!("{at} does not reach {peer}"));
            }
            for owner in self.nodes.keys() {
                let (mine, theirs) = (machine.known(*owner), self.machine(*owner).known(*owner));
                if mine != theirs {
                    wrong.push(format!("{at} has {owner} up to {mine:?}, which is at {theirs:?}"));
                }
                let same = self.history.same(&self.rows(*owner, *owner), &self.rows(at, *owner), self.now);
                wrong.extend(same.err().map(|why| format!("{at} differs from {owner}: {why}")));
            }
            for owner in machine.owners().filter(|owner| !self.nodes.contains_key(owner)) {
                let left = self.rows(at, owner);
                if !left.is_empty() {
                    wrong.push(format!("{at} still has rows of {owner}, who was succeeded: {left:?}"));
                }
            }
        }
        wrong.iter().for_each(|text| self.fault("all_converge", text));
    }
}

fn key(edit: &Edit) -> &bytes::Bytes {
    match edit {
        Edit::Put { key, .. } | Edit::Remove { key } => key,
    }
}
