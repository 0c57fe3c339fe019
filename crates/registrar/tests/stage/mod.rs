//! A small world for scripted conversations: a few nodes, the links between them, their disks and clocks.
//!
//! It does what a driver does and decides nothing. Every input is a batch of its own and ends in a `Flush`; what is written is safe at
//! once, unless the node's disk was made `slow`. Messages take no time, and wait until the script delivers them.

mod show;
mod verbs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use blueprint::{Honest, Instant, NodeId};
use registrar::{Config, Durable, Envelope, Input, Life, Outbox, Output, Record, Registrar, Ticket, WriteId};

use show::{event, message, name, part};

/// What the wall clocks of the nodes show when a story begins: `100:0`.
const WALL: Duration = Duration::from_secs(100);

#[derive(Default)]
pub(crate) struct Stage {
    config: Config,
    nodes: BTreeMap<NodeId, Node>,
    /// Since the story began.
    now: Duration,
    flight: BTreeMap<(NodeId, NodeId), VecDeque<Envelope>>,
    tickets: u64,
    is_quiet: bool,
    lines: Vec<String>,
}

#[derive(Default)]
struct Node {
    /// None while it is down.
    machine: Option<Registrar<Honest>>,
    is_cut_off: bool,
    has_slow_disk: bool,
    /// Its clock stands still, and stood still for so long before.
    frozen_since: Option<Duration>,
    behind: Duration,
    lives: u64,
    safe: Vec<Record>,
    under_way: Vec<(WriteId, Vec<Record>)>,
}

impl Stage {
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    fn say(&mut self, line: String) {
        if !self.is_quiet {
            self.lines.push(line);
        }
    }

    fn present(&self) -> BTreeSet<NodeId> {
        self.nodes.keys().copied().collect()
    }

    fn up(&self) -> Vec<NodeId> {
        self.nodes.iter().filter(|(_, node)| node.machine.is_some()).map(|(id, _)| *id).collect()
    }

    fn machine(&self, id: NodeId) -> Result<&Registrar<Honest>, String> {
        let node = self.nodes.get(&id).ok_or_else(|| format!("there is no {id}"))?;
        node.machine.as_ref().ok_or_else(|| format!("{id} is down"))
    }

    /// Instants of two nodes have nothing in common.
    fn clock(&self, id: NodeId) -> Instant {
        let passed = self.nodes.get(&id).map_or(self.now, |node| node.frozen_since.unwrap_or(self.now) - node.behind);
        Instant(id.0 * 1_000_000_000) + passed
    }

    // ---- processes

    fn start(&mut self, id: NodeId, wall: Duration) {
        let now = self.clock(id);
        let node = self.nodes.entry(id).or_default();
        node.lives += 1;
        let mut durable = Durable::default();
        node.safe.iter().for_each(|record| durable.absorb(record));
        let life = Life { node: id, number: node.lives, wall };
        node.machine = Some(Registrar::recover(self.config.clone(), life, &durable, now));
        self.feed(id, Input::Peers(self.present()));
    }

    /// What is on its way to it is lost; what is not synced is too.
    fn crash(&mut self, id: NodeId) -> Result<(), String> {
        let node = self.nodes.get_mut(&id).ok_or("there is no such node")?;
        node.machine.take().ok_or("it is down")?;
        node.under_way.clear();
        for ((_, to), envelopes) in &mut self.flight {
            if *to == id {
                envelopes.clear();
            }
        }
        Ok(())
    }

    fn sync(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let under_way = std::mem::take(&mut node.under_way);
        let Some(upto) = under_way.last().map(|(id, _)| *id) else { return };
        node.safe.extend(under_way.into_iter().flat_map(|(_, records)| records));
        self.feed(id, Input::Written { upto });
    }

    // ---- steps

    fn feed(&mut self, id: NodeId, input: Input) {
        let local = self.clock(id);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(machine) = &mut node.machine else { return };
        let mut out = Outbox::default();
        machine.step(local, input, &mut out);
        machine.step(local, Input::Flush, &mut out);
        machine.check_invariants();
        for output in out.take() {
            self.carry_out(id, output);
        }
        if self.nodes.get(&id).is_some_and(|node| !node.has_slow_disk && !node.under_way.is_empty()) {
            self.sync(id);
        }
    }

    fn carry_out(&mut self, id: NodeId, output: Output) {
        match output {
            Output::Send(envelope) => {
                let (from, to) = (envelope.from, envelope.to);
                let is_cut_off = [from, to].iter().any(|id| self.nodes.get(id).is_some_and(|node| node.is_cut_off));
                let fate = if is_cut_off { " (lost)" } else { "" };
                self.say(format!("{from}->{to} {}{fate}", message(&envelope.message)));
                if !is_cut_off {
                    self.flight.entry((from, to)).or_default().push_back(envelope);
                }
            }
            Output::Write { id: write, records } => {
                for record in &records {
                    self.say(format!("{id} writes {} {}", record.owner, part(&record.part)));
                }
                self.nodes.get_mut(&id).expect("it stepped").under_way.push((write, records));
            }
            Output::Updated { ticket: Ticket(ticket), number } => self.say(format!("{id} u{ticket} is {number}")),
            Output::Refused { ticket: Ticket(ticket), why } => self.say(format!("{id} u{ticket} refused: {why:?}")),
            Output::Changed { owner, key } => self.say(format!("{id} sees a change: {} of {owner}", name(&key))),
            Output::Event(what) => self.say(format!("{id} * {}", event(&what))),
        }
    }

    fn deliver(&mut self, link: (NodeId, NodeId), envelope: Envelope) {
        if self.nodes.get(&link.1).is_some_and(|node| node.machine.is_some()) {
            self.feed(link.1, Input::Message(envelope));
        }
    }

    /// Once around: what is under way now, not what comes of it.
    fn deliver_everything(&mut self) -> bool {
        let flight = std::mem::take(&mut self.flight);
        let mut any = false;
        for (link, envelopes) in flight {
            for envelope in envelopes {
                any = true;
                self.deliver(link, envelope);
            }
        }
        any
    }

    fn settle(&mut self) {
        while self.deliver_everything() {}
    }

    /// Whoever is due is woken when it is due; whether messages pass meanwhile is for the caller to say.
    fn pass(&mut self, span: Duration, mut meanwhile: impl FnMut(&mut Self)) {
        let end = self.now + span;
        loop {
            meanwhile(self);
            let due = |id: NodeId| {
                let at = self.machine(id).ok()?.deadline()?;
                let is_frozen = self.nodes[&id].frozen_since.is_some();
                Some((self.now + at.since(self.clock(id)), id)).filter(|_| !is_frozen)
            };
            let Some((at, id)) = self.up().into_iter().filter_map(due).min().filter(|(at, _)| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            self.feed(id, Input::Wake);
        }
        self.now = end;
    }
}
