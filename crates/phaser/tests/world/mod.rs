//! A small world for scripted conversations: a few nodes, the links between them, their disks, their clocks, a meta group.
//!
//! It does what a driver does and decides nothing: it carries messages and writes when the script says so, and keeps for each
//! slot a table that is simply the list of the commands applied to it. Every input is a batch of its own and ends in a
//! `Flush`; what is written is safe at once, unless the node's disk was made `slow`.

mod meta;
mod show;
mod verbs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use blueprint::{BucketId, Government, Honest, Instant, Member, NodeId, Position, Slot, SlotSet, Term};
use bytes::Bytes;
use phaser::{
    Config, Durable, Envelope, Fork, Founding, Image, Input, Message, Outbox, Output, Phaser, Record, Ticket, WriteId,
};

use meta::Meta;
use show::{Kind, list, member, moment, record};

/// The bucket that a scenario begins with; others are its children.
const FIRST_BUCKET: BucketId = BucketId(1);
/// Where everybody's clock stands at the beginning, shown as `@0`.
const ORIGIN: Instant = Instant(1_000_000);

#[derive(Default)]
pub(crate) struct World {
    config: Config,
    nodes: BTreeMap<NodeId, Node>,
    replicas: BTreeMap<Actor, Replica>,
    flight: BTreeMap<(Actor, Actor), VecDeque<Envelope>>,
    /// Under way for longer than what was said after it.
    delayed: BTreeMap<(Actor, Actor), VecDeque<Envelope>>,
    meta: Meta,
    /// What replicas must hear of once the batch that caused it is over.
    later: VecDeque<(Actor, Input)>,
    /// What tickets stand for: the body of a write, `r1` and so on for reads.
    requests: Vec<String>,
    shows_clocks: bool,
    is_quiet: bool,
    lines: Vec<String>,
}

/// One bucket on one node: `n1`, or `n1.b2` for the child b2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Actor {
    bucket: BucketId,
    node: NodeId,
}

struct Node {
    now: Instant,
    /// How far wall time is ahead of `now`.
    wall: Option<Duration>,
    has_slow_disk: bool,
    is_cut_off: bool,
}

struct Replica {
    me: Member,
    /// None while its node is down.
    phaser: Option<Phaser<Honest>>,
    tables: BTreeMap<Slot, Vec<String>>,
    safe: Vec<Record>,
    under_way: Vec<(WriteId, Record)>,
    /// Whose fork made it, and must hear of it once it is safe.
    parent: Option<BucketId>,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.node, Suffix(self.bucket))
    }
}

/// `.b2` for everything about a bucket other than the first.
struct Suffix(BucketId);

impl fmt::Display for Suffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == FIRST_BUCKET { Ok(()) } else { write!(f, ".{}", self.0) }
    }
}

impl World {
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    fn say(&mut self, kind: Kind, line: String) {
        if kind == Kind::News || !self.is_quiet {
            self.lines.push(line);
        }
    }

    /// How a replica is called now: `n4/3` when it is not in its first incarnation.
    fn name(&self, actor: Actor) -> String {
        match self.replicas.get(&actor) {
            Some(replica) => format!("{}{}", member(replica.me), Suffix(actor.bucket)),
            None => actor.to_string(),
        }
    }

    fn now(&self, node: NodeId) -> Instant {
        self.nodes.get(&node).map_or(ORIGIN, |n| n.now)
    }

    fn add_node(&mut self, node: NodeId) {
        let new = Node { now: ORIGIN, wall: None, has_slow_disk: false, is_cut_off: false };
        let now = self.nodes.values().map(|n| n.now).max().unwrap_or(ORIGIN);
        self.nodes.entry(node).or_insert(Node { now, ..new });
    }

    fn actors(&self) -> Vec<Actor> {
        self.replicas.keys().copied().collect()
    }

    fn is_up(&self, actor: Actor) -> bool {
        self.replicas.get(&actor).is_some_and(|r| r.phaser.is_some())
    }

    fn is_cut_off(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|n| n.is_cut_off)
    }

    // ---- replicas come and go

    /// A replica that did not exist before: empty and whole at a first start, empty and missing everything as a candidate.
    fn found(
        &mut self,
        actor: Actor,
        founding: Founding,
        tables: BTreeMap<Slot, Vec<String>>,
        parent: Option<BucketId>,
    ) {
        let (me, seed) = (founding.me, actor.node.0);
        let phaser = Phaser::found(self.config.clone(), founding, seed, self.now(actor.node));
        let replica = Replica { me, phaser: Some(phaser), tables, safe: Vec::new(), under_way: Vec::new(), parent };
        self.replicas.insert(actor, replica);
        self.tell_wall(actor);
        self.end_batch(actor);
    }

    fn found_empty(&mut self, actor: Actor, me: Member, slots: &SlotSet, whole: SlotSet) {
        let image = Image { covered: whole, ..Image::default() };
        let (promised, base, abstain_until) = (Term(0), Position::default(), Instant::ZERO);
        let founding = Founding { me, promised, base, clock: 0, owned: slots.clone(), image, abstain_until };
        self.found(actor, founding, BTreeMap::new(), None);
    }

    /// The child of a fork, unless there is one; and the parent hears when it is safe.
    fn fork(&mut self, parent: Actor, fork: Fork) -> Vec<Input> {
        let child = Actor { bucket: fork.child, ..parent };
        let forked = vec![Input::Forked { child: fork.child }];
        let replica = self.replicas.get_mut(&parent).expect("it forked");
        let me = replica.me;
        let mut tables = replica.tables.clone();
        tables.retain(|slot, _| fork.slots.contains(*slot));
        replica.tables.retain(|slot, _| !fork.slots.contains(*slot));
        self.meta.learn_parent(fork.child, parent.bucket);
        if !fork.whole || self.replicas.contains_key(&child) {
            return forked;
        }
        let Fork { slots, at, clock, abstain_until, .. } = fork;
        let image = Image { as_of: at.index, covered: slots.clone(), replaced: slots.clone(), tables: encode(&tables) };
        let founding = Founding { me, promised: at.term, base: at, clock, owned: slots, image, abstain_until };
        self.found(child, founding, tables, Some(parent.bucket));
        Vec::new()
    }

    /// Of the writes under way `keep` says which survive, by their place among them.
    fn crash(&mut self, actor: Actor, keep: impl Fn(usize) -> bool) {
        let name = self.name(actor);
        let replica = self.replicas.get_mut(&actor).expect("it is known");
        replica.phaser = None;
        let mut lost = Vec::new();
        for (place, (_, written)) in std::mem::take(&mut replica.under_way).into_iter().enumerate() {
            if keep(place) {
                replica.safe.push(written);
            } else {
                lost.push(record(&written, self.shows_clocks));
            }
        }
        let what = if lost.is_empty() { "nothing".to_owned() } else { lost.join("; ") };
        self.say(Kind::News, format!("{name} is down, and lost {what}"));
    }

    /// The newest records that were safe are not, either.
    fn forget(&mut self, actor: Actor, count: usize) {
        let replica = self.replicas.get_mut(&actor).expect("it is known");
        let kept = replica.safe.len().saturating_sub(count);
        let forgotten = replica.safe.split_off(kept);
        replica.under_way = forgotten
            .into_iter()
            .map(|written| (WriteId(0), written))
            .chain(std::mem::take(&mut replica.under_way))
            .collect();
        self.crash(actor, |_| false);
    }

    fn restart(&mut self, actor: Actor) {
        let now = self.now(actor.node);
        let replica = self.replicas.get_mut(&actor).expect("it is known");
        let Some(mut durable) = replica.safe.first().and_then(Durable::found) else {
            self.replicas.remove(&actor);
            return self.say(Kind::News, format!("{actor} is back, and has nothing"));
        };
        replica.safe.iter().skip(1).for_each(|r| durable.absorb(r));
        replica.me = durable.me;
        replica.tables = durable.tables.iter().map(|(slot, table)| (*slot, decode(table))).collect();
        let mut out = Outbox::default();
        let phaser = Phaser::recover(self.config.clone(), durable, &[], actor.node.0, now, &mut out);
        phaser.check_invariants();
        replica.phaser = Some(phaser);
        self.say(Kind::News, format!("{} is back", self.name(actor)));
        self.do_all(actor, out);
        self.tell_wall(actor);
        self.end_batch(actor);
    }

    // ---- what a driver does

    /// One batch.
    fn feed(&mut self, actor: Actor, inputs: impl IntoIterator<Item = Input>) {
        for input in inputs {
            self.step(actor, input);
        }
        self.end_batch(actor);
        self.follow_up();
    }

    fn follow_up(&mut self) {
        while let Some((actor, input)) = self.later.pop_front() {
            self.step(actor, input);
            self.end_batch(actor);
        }
    }

    fn end_batch(&mut self, actor: Actor) {
        self.step(actor, Input::Checkpoint);
        self.fill(actor);
        self.step(actor, Input::Flush);
        while !self.nodes[&actor.node].has_slow_disk && self.sync(actor) {}
    }

    /// There is time for all of it.
    fn fill(&mut self, actor: Actor) {
        let wants = |replica: &Replica| replica.phaser.as_ref()?.fills().find(|fill| fill.wants);
        while let Some(fill) = self.replicas.get(&actor).and_then(wants) {
            self.step(actor, Input::Fill { to: fill.to });
        }
    }

    /// What is under way is safe. Returns whether there was anything.
    fn sync(&mut self, actor: Actor) -> bool {
        let last = self.replicas.get(&actor).and_then(|r| r.under_way.last());
        last.map(|(id, _)| *id).is_some_and(|upto| self.sync_upto(actor, upto))
    }

    /// The same, of the oldest write only.
    fn sync_first(&mut self, actor: Actor) -> bool {
        let first = self.replicas.get(&actor).and_then(|r| r.under_way.first());
        first.map(|(id, _)| *id).is_some_and(|upto| self.sync_upto(actor, upto))
    }

    fn sync_upto(&mut self, actor: Actor, upto: WriteId) -> bool {
        let replica = self.replicas.get_mut(&actor).expect("it has writes under way");
        let (safe, rest) = replica.under_way.drain(..).partition::<Vec<_>, _>(|(id, _)| *id <= upto);
        replica.safe.extend(safe.into_iter().map(|(_, record)| record));
        replica.under_way = rest;
        let parent = replica.parent.take();
        self.step(actor, Input::Written { upto });
        self.step(actor, Input::Checkpoint);
        self.fill(actor);
        self.step(actor, Input::Flush);
        if let Some(bucket) = parent {
            self.later.push_back((Actor { bucket, ..actor }, Input::Forked { child: actor.bucket }));
        }
        true
    }

    fn step(&mut self, actor: Actor, input: Input) {
        let now = self.now(actor.node);
        let Some(replica) = self.replicas.get_mut(&actor) else { return };
        let Some(phaser) = &mut replica.phaser else { return };
        let request = match &input {
            Input::Write { ticket, .. } | Input::Read { ticket, .. } => Some(*ticket),
            _ => None,
        };
        let waited = phaser.status().backlog;
        let mut out = Outbox::default();
        phaser.step(now, input, &mut out);
        phaser.check_invariants();
        replica.me = phaser.me();
        let waits = phaser.status().backlog > waited;
        if let Some(ticket) = request.filter(|_| waits) {
            self.say(Kind::News, format!("{} lets {} wait", self.name(actor), self.requests[ticket.0 as usize]));
        }
        self.do_all(actor, out);
    }

    fn do_all(&mut self, actor: Actor, mut out: Outbox) {
        for output in out.take() {
            for input in self.do_one(actor, output) {
                self.step(actor, input);
            }
        }
    }

    /// Shows it and does it; returns what the phaser must hear of it.
    fn do_one(&mut self, actor: Actor, output: Output) -> Vec<Input> {
        let name = self.name(actor);
        let log = self.replicas[&actor].phaser.as_ref().expect("it stepped").log();
        let (kind, line) = show::output(&name, &output, log, self.shows_clocks, &self.requests);
        match output {
            Output::Serve { ticket, .. } => {
                let (line, read) = (line.expect("shown"), self.requests[ticket.0 as usize].clone());
                let slot = Slot(read.split_once('@').map_or(0, |(_, slot)| slot.parse().expect("as it was read")));
                let table = self.replicas[&actor].tables.get(&slot).cloned().unwrap_or_default();
                self.say(kind, line.replace("{table}", &list(table)));
                return Vec::new();
            }
            Output::SendImage { to, term, as_of, slots, bytes } => {
                return self.send_image(actor, to, term, as_of, &slots, bytes);
            }
            _ => {}
        }
        if let Some(line) = line {
            self.say(kind, line);
        }
        let bucket = actor.bucket;
        let replica = self.replicas.get_mut(&actor).expect("it stepped");
        match output {
            Output::Send(envelope) => self.send(bucket, envelope),
            Output::Write { id, records } => replica.under_way.extend(records.into_iter().map(|record| (id, record))),
            Output::Store { id, image } => {
                let mut tables = replica.tables.clone();
                tables.retain(|slot, _| image.replaced.contains(*slot));
                self.later.push_back((actor, Input::Stored { id, tables: encode(&tables) }));
            }
            Output::Apply { index, .. } => {
                let applied = replica.phaser.as_ref().and_then(|phaser| phaser.log().get(index));
                if let Some(phaser::Payload::Command { slot, body }) = applied.map(|entry| entry.payload()) {
                    replica.tables.entry(slot).or_default().push(String::from_utf8_lossy(&body).into_owned());
                }
            }
            Output::Fork(fork) => return self.fork(actor, fork),
            Output::Discard { slots } => replica.tables.retain(|slot, _| !slots.contains(*slot)),
            Output::Install { image } => {
                replica.tables.retain(|slot, _| !image.replaced.contains(*slot));
                replica.tables.extend(image.tables.iter().map(|(slot, table)| (*slot, decode(table))));
            }
            Output::Propose { term, change } => self.meta.hear_proposal(actor, term, change),
            Output::Register { child, slots, at } => self.meta.hear_register(actor, child, slots, at),
            Output::Frozen { into } => self.meet(Actor { bucket: into, ..actor }, bucket, None),
            Output::SeekFrozen { bucket: other, at } => self.meet(actor, other, at),
            Output::Absorb { from, slots, .. } => self.take_over(actor, from, &slots),
            Output::Merge { absorbed, at } => self.meta.hear_merge(bucket, absorbed, at),
            Output::Ask { nonce } => self.meta.hear_question(actor, nonce),
            Output::Release { .. }
            | Output::Refuse { .. }
            | Output::Forward { .. }
            | Output::Uncertain { .. }
            | Output::Event(_)
            | Output::Serve { .. }
            | Output::SendImage { .. } => {}
        }
        Vec::new()
    }

    /// Tells a replica how the one that it is to absorb ended on the same node, once this step is over.
    fn meet(&mut self, actor: Actor, other: BucketId, at: Option<Position>) {
        let frozen = Actor { bucket: other, ..actor };
        if let Some(at) = at {
            self.step(frozen, Input::Named { at });
        }
        let phaser = self.replicas.get(&frozen).and_then(|r| r.phaser.as_ref());
        let frozen = phaser.and_then(|phaser| phaser.frozen(other, self.now(actor.node)));
        if frozen.is_some() || at.is_some() {
            self.later.push_back((actor, Input::Met { bucket: other, frozen }));
        }
    }

    fn take_over(&mut self, actor: Actor, from: BucketId, slots: &SlotSet) {
        let from = Actor { bucket: from, ..actor };
        let Some(frozen) = self.replicas.get_mut(&from) else { return };
        let mut tables = std::mem::take(&mut frozen.tables);
        tables.retain(|slot, _| slots.contains(*slot));
        self.replicas.get_mut(&actor).expect("it stepped").tables.extend(tables);
        self.later.push_back((from, Input::Given));
    }

    fn send(&mut self, bucket: BucketId, envelope: Envelope) {
        let link = (Actor { bucket, node: envelope.from.node }, Actor { bucket, node: envelope.to.node });
        self.flight.entry(link).or_default().push_back(envelope);
    }

    /// The first slots first, up to so many bytes and at least one.
    fn send_image(
        &mut self,
        actor: Actor,
        to: Member,
        term: Term,
        as_of: blueprint::Index,
        slots: &SlotSet,
        most: usize,
    ) -> Vec<Input> {
        let replica = &self.replicas[&actor];
        let (mut covered, mut tables, mut bytes) = (SlotSet::empty(), Vec::new(), 0);
        for slot in slots.iter() {
            let table = replica.tables.get(&slot).map(|t| Bytes::from(t.join(" ")));
            let size = table.as_ref().map_or(0, Bytes::len);
            if !covered.is_empty() && bytes + size > most {
                break;
            }
            covered.insert(slot);
            bytes += size;
            tables.extend(table.map(|table| (slot, table)));
        }
        let image = Image { as_of, covered: covered.clone(), replaced: covered.clone(), tables };
        let envelope = Envelope { from: replica.me, to, message: Message::Fill { term, image } };
        let line = show::envelope(&envelope, actor.bucket, self.shows_clocks);
        self.say(Kind::Talk, line);
        self.send(actor.bucket, envelope);
        vec![Input::ImageSent { to, slots: covered, bytes }]
    }

    // ---- the links

    /// What is under way on a link, as one batch.
    fn deliver(&mut self, link: (Actor, Actor), envelopes: Vec<Envelope>) {
        if !self.is_up(link.1) {
            if !self.is_quiet {
                self.lines.push(format!("nobody is there: {} lost", envelopes.len()));
            }
            return;
        }
        self.feed(link.1, envelopes.into_iter().map(Input::Message));
    }

    fn open_links(&self) -> Vec<(Actor, Actor)> {
        let open = |(from, to): &&(Actor, Actor)| !self.is_cut_off(from.node) && !self.is_cut_off(to.node);
        self.flight.iter().filter(|(_, queue)| !queue.is_empty()).map(|(link, _)| link).filter(open).copied().collect()
    }

    fn deliver_everything(&mut self) -> bool {
        let links = self.open_links();
        for link in &links {
            let envelopes = self.flight.remove(link).unwrap_or_default();
            self.deliver(*link, envelopes.into());
        }
        !links.is_empty()
    }

    /// Until nobody has anything more to say; no time passes.
    fn settle(&mut self, with_meta: bool) {
        for _ in 0..1000 {
            let moved = self.deliver_everything() || (with_meta && self.meta_acts());
            if !moved {
                return;
            }
        }
        panic!("they talk without end");
    }

    // ---- time

    fn pass(&mut self, span: Duration, odd: &BTreeMap<NodeId, Duration>) {
        for (id, node) in &mut self.nodes {
            node.now = node.now + *odd.get(id).unwrap_or(&span);
        }
        for actor in self.actors() {
            let due = self.replicas[&actor].phaser.as_ref().and_then(Phaser::deadline);
            if due.is_some_and(|due| due <= self.now(actor.node)) {
                self.feed(actor, [Input::Wake]);
            }
        }
    }

    fn run(&mut self, span: Duration, with_meta: bool) {
        const GRAIN: Duration = Duration::from_millis(10);
        let mut left = span;
        while !left.is_zero() {
            let step = left.min(GRAIN);
            left -= step;
            self.pass(step, &BTreeMap::new());
            self.settle(with_meta);
        }
    }

    fn tell_wall(&mut self, actor: Actor) {
        let node = &self.nodes[&actor.node];
        if let Some(ahead) = node.wall {
            let micros = (node.now + ahead).0;
            self.step(actor, Input::Wall { micros });
        }
    }

    // ---- what can be seen from outside

    fn state(&self, actor: Actor) -> String {
        let name = self.name(actor);
        let Some(phaser) = self.replicas.get(&actor).and_then(|r| r.phaser.as_ref()) else {
            return format!("{name} is down");
        };
        let status = phaser.status();
        let (base, log) = (phaser.log().base(), list(phaser.log().iter().map(|e| e.at)));
        let (promised, commit, applied) = (status.promised, status.commit, status.applied);
        let term = status.term.map(|term| format!(" {term}")).unwrap_or_default();
        let mut line = format!("{name} {}{term}", if status.serving { "serving" } else { status.role });
        line += &format!(": promised {promised}, log {base} | {log}, commit {commit}, applied {applied}");
        for (who, until) in &status.leases {
            line += &match *until {
                Instant::ZERO => format!(", no lease of {}", member(*who)),
                until => format!(", lease of {} until {}", member(*who), moment(until)),
            };
        }
        if status.abstains_until > self.now(actor.node) {
            line += &format!(", abstains until {}", moment(status.abstains_until));
        }
        if !status.missing.is_empty() {
            line += &format!(", misses {}", status.missing);
        }
        if let Some(why) = status.waits_for {
            line += &format!(", waits for {why}");
        }
        for (child, at) in self.meta.children_on(actor.bucket, actor.node) {
            if phaser.owes_fork(&[(child, at)]) {
                line += &format!(", owes a fork of {child}");
            }
        }
        line
    }

    fn tables(&self, actor: Actor) -> String {
        let tables = &self.replicas[&actor].tables;
        let shown = tables.iter().map(|(slot, table)| format!("{slot}: {}", table.join(" ")));
        format!("{} holds {}", self.name(actor), shown.collect::<Vec<_>>().join(", "))
    }

    /// Gives it the blueprint; who is named and has nothing becomes an empty candidate, as a node would do it.
    fn view(&mut self, actor: Actor) {
        let Some(view) = self.meta.view(actor.bucket) else { return };
        let government: &Government = &view.government;
        if !self.replicas.contains_key(&actor)
            && let Some(me) = government.candidates.iter().copied().find(|m| m.node == actor.node)
        {
            let slots = self.meta.slots(actor.bucket);
            self.found_empty(actor, me, &slots, SlotSet::empty());
        }
        self.feed(actor, [Input::View(view)]);
    }

    /// Everyone who is named and can be reached.
    fn audience(&self, bucket: BucketId) -> Vec<Actor> {
        let named = self.meta.view(bucket).map(|v| v.government.everyone().map(|m| m.node).collect::<BTreeSet<_>>());
        let held = self.replicas.keys().filter(|a| a.bucket == bucket).map(|a| a.node);
        let nodes: BTreeSet<NodeId> = named.into_iter().flatten().chain(held).collect();
        let actors = nodes.into_iter().map(|node| Actor { bucket, node });
        actors.filter(|a| !self.is_cut_off(a.node) && (self.is_up(*a) || !self.replicas.contains_key(a))).collect()
    }

    fn ticket(&mut self, name: String) -> Ticket {
        self.requests.push(name);
        Ticket(self.requests.len() as u64 - 1)
    }
}

fn encode(tables: &BTreeMap<Slot, Vec<String>>) -> Vec<(Slot, Bytes)> {
    tables.iter().map(|(slot, table)| (*slot, Bytes::from(table.join(" ")))).collect()
}

fn decode(table: &Bytes) -> Vec<String> {
    String::from_utf8_lossy(table).split(' ').map(str::to_owned).collect()
}
