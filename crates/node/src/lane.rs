//! One lane of a node: its replicas, the blueprint that they follow, and the requests that pass through.
//!
//! Everything that comes out of a phaser is carried out at once and in order, so that a table is always exactly as its
//! phaser believes it to be. A bucket and all that is ever split from it are in the same lane, so lanes share nothing; what one has
//! to tell another leaves as mail.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use blueprint::{
    Blueprint, BucketId, BucketMap, Command as Proposal, Conduct, Epoch, Index, Instant, LaneId, NodeId, Position, Slot,
};
use phaser::{Durable, Filling, Fork, Outbox, Phaser, Served, WriteId};
use reactor::coordinator::Order;
use reactor::{BucketRow, Directory, Ledger, Marks};
use values::{Command, Table};

use crate::copying::Copied;
use crate::doubt::Asking;
use crate::facts;
use crate::glance::{Glance, Leads};
use crate::io::{
    Answer, BatchId, Input, LaneDurable, Lost, Mail, NodeRecord, Origin, Output, PeerMessage, Station, StoreId,
};
use crate::node::{Config, Life};
use crate::pass::Outgoing;
use crate::places::Places;
use crate::react::Reading;
use crate::replica::{Replica, Tables};
use crate::request::Pending;

#[derive(Debug)]
pub struct Lane<C> {
    pub(crate) node: NodeId,
    pub(crate) lane: LaneId,
    pub(crate) config: Config,
    /// The newest epoch acted on, durably, for all buckets here.
    pub(crate) epoch: Epoch,
    /// Families of which an earlier life, with other lanes, acted on more. Empty as soon as this one has acted on something.
    pub(crate) ahead: BTreeMap<u64, Epoch>,
    /// The disk does not say which epochs were acted on.
    pub(crate) asking: Option<Asking>,
    /// What was named up to here may have been here, although nothing says so.
    pub(crate) doubted_upto: Epoch,
    pub(crate) blueprint: Arc<Blueprint>,
    /// Newer, and on its way to be acted on.
    pub(crate) coming: Option<Coming>,
    pub(crate) replicas: BucketMap<Replica<C>>,
    pub(crate) leads: Leads,
    /// The first of the phasers' deadlines, unless it has to be looked for again.
    soonest: Cell<Option<Instant>>,
    /// Some replica may be unborn.
    newborn: bool,
    pub(crate) lost: BTreeMap<BucketId, Lost>,
    /// Replicas that may lack the end of what they answered (R10): as they were found, until it is known what becomes of them.
    pub(crate) aside: BTreeMap<BucketId, Durable>,
    /// Every replica that was here when this life began, and where it had begun: what is set aside makes none of them anew.
    origins: Vec<(BucketId, Position)>,
    /// Forks whose child is not durable yet: child → parent.
    pub(crate) forking: BTreeMap<BucketId, BucketId>,
    /// Forks that wait until it is known whether the child has a place here.
    pub(crate) deferred: Vec<Deferred>,
    /// What phasers were last told of how fast to fill whom; none of those that are free.
    pub(crate) throttled: BTreeMap<BucketId, Vec<(NodeId, u64)>>,
    pub(crate) marks: Marks,
    pub(crate) ledger: Ledger,
    pub(crate) directory: Arc<Directory>,
    /// What the desk was last told of the replicas here.
    told: BTreeMap<BucketId, BucketRow>,
    pub(crate) reading: Option<Reading>,
    /// Only used by the planted bug that erases later than it looks.
    pub(crate) condemned: BTreeMap<BucketId, Instant>,
    /// Those that phasers have, by their tickets.
    pub(crate) requests: Places<Pending>,
    pub(crate) hops: BTreeMap<u64, crate::request::Hopping>,
    /// When hops whose link has ended are answered, in order: at most one for each time that a link is dialled.
    pub(crate) stranded: VecDeque<Instant>,
    /// For the other lanes, until the next flush.
    pub(crate) outgoing: BTreeMap<u16, Outgoing>,
    /// Requests that other lanes have and have not answered yet.
    pub(crate) passed: usize,
    pub(crate) next_hop: u64,
    /// Reads of the blueprint under way, and what they are for.
    pub(crate) asked: BTreeMap<u64, Asked>,
    next_ask: u64,
    /// Those that have something to flush, in no order.
    pub(crate) touched: Vec<BucketId>,
    batch: Vec<NodeRecord>,
    open: BatchId,
    /// The phasers' writes in each batch.
    writing: VecDeque<(BatchId, BucketId, WriteId)>,
    /// Tables that are being stored, of replicas that are here.
    storing: BTreeMap<(BucketId, StoreId), phaser::StoreId>,
    next_store: StoreId,
    /// Those of them that are checkpoints, and how large they are.
    checkpoints: BTreeMap<(BucketId, StoreId), u64>,
    /// Whose checkpoint is due, in that order.
    due: VecDeque<BucketId>,
    /// Large ones of them that are encoded a little with each flush.
    copying: VecDeque<(BucketId, StoreId)>,
    /// When there is time for more of them; never: there are none.
    copy_at: Instant,
    /// Of all tables that were ever encoded to be stored.
    encoded_bytes: u64,
    /// Those that fill somebody.
    filling: BTreeSet<BucketId>,
    /// When there is time for the next image; never: what is under way is waited for.
    fill_at: Instant,
    /// Of all images that ever left.
    image_bytes: u64,
    /// The tables of the message that is being taken in.
    arrived: BTreeMap<Slot, Table>,
    pub(crate) wall: Option<(u64, Instant)>,
    upkeep_at: Instant,
    /// Commands that the step that is carried out applies, and where they stand in the log.
    decoded: VecDeque<(BucketId, Index, Option<Command>)>,
    scratch: Outbox,
    seed: u64,
}

/// A blueprint that waits for the disk: first for the replicas that it brought about, then for its epoch.
#[derive(Clone, Debug)]
pub(crate) struct Coming {
    pub(crate) blueprint: Arc<Blueprint>,
    pub(crate) after: BatchId,
    pub(crate) recorded: bool,
    /// Orders that came after it: whoever gave them knew of it, and may speak of what it says. One that is carried out before that is about
    /// a secondary that nobody here has heard of, and would be given again only with the next round of a coordinator.
    pub(crate) orders: Vec<Order>,
    /// The newest that came since, with its orders.
    pub(crate) behind: Option<(Arc<Blueprint>, Vec<Order>)>,
}

/// A fork that waits until a blueprint of at least that epoch is acted on.
#[derive(Clone, Debug)]
pub(crate) struct Deferred {
    pub(crate) parent: BucketId,
    pub(crate) fork: Fork,
    pub(crate) tables: Tables,
    pub(crate) needs: Epoch,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    Phaser { bucket: BucketId, nonce: u64 },
    Erase,
    Doubt,
}

impl<C: Conduct> Lane<C> {
    pub fn recover(
        node: NodeId,
        lane: LaneId,
        config: Config,
        durable: LaneDurable,
        life: Life,
        now: Instant,
        out: &mut Vec<Output>,
    ) -> Self {
        let seed = life.seed ^ (u64::from(lane.number) << 48);
        // Epochs that are in doubt say nothing: the first that is acted on in this life is written down whatever they are.
        let (epochs, asking) =
            if durable.epochs_in_doubt { (BTreeMap::new(), Some(Asking::default())) } else { (durable.epochs, None) };
        let acted = |family| epochs.get(&family).copied().unwrap_or_default();
        let epoch = lane.families().map(acted).min().unwrap_or_default();
        let mut this = Self {
            node,
            lane,
            epoch,
            ahead: epochs.into_iter().filter(|(_, acted)| *acted > epoch).collect(),
            asking,
            doubted_upto: durable.doubted_upto,
            blueprint: Arc::new(Blueprint::new()),
            coming: None,
            replicas: BucketMap::new(),
            leads: Leads::default(),
            soonest: Cell::new(None),
            newborn: false,
            lost: durable.lost,
            aside: BTreeMap::new(),
            origins: Vec::new(),
            forking: BTreeMap::new(),
            deferred: Vec::new(),
            throttled: BTreeMap::new(),
            marks: Marks::default(),
            ledger: Ledger::default(),
            directory: Arc::default(),
            told: BTreeMap::new(),
            reading: None,
            condemned: BTreeMap::new(),
            requests: Places::default(),
            hops: BTreeMap::new(),
            stranded: VecDeque::new(),
            outgoing: BTreeMap::new(),
            passed: 0,
            next_hop: seed >> 1, // an answer meant for an earlier process must not find its number here
            asked: BTreeMap::new(),
            next_ask: 0,
            touched: Vec::new(),
            batch: Vec::new(),
            open: BatchId(1),
            writing: VecDeque::new(),
            storing: BTreeMap::new(),
            next_store: StoreId(0),
            checkpoints: BTreeMap::new(),
            due: VecDeque::new(),
            copying: VecDeque::new(),
            copy_at: Instant::NEVER,
            encoded_bytes: 0,
            filling: BTreeSet::new(),
            fill_at: Instant::NEVER,
            image_bytes: 0,
            arrived: BTreeMap::new(),
            wall: None,
            upkeep_at: now + config.upkeep,
            decoded: VecDeque::new(),
            scratch: Outbox::default(),
            seed,
            config,
        };
        // All replicas first: a fork must see whether its child is there.
        let held = durable.replicas.iter().map(|(bucket, durable)| (*bucket, durable.origin));
        this.origins = held.chain(this.lost.iter().map(|(bucket, lost)| (*bucket, lost.origin))).collect();
        let mut outboxes = Vec::new();
        for (bucket, replica) in durable.replicas {
            if durable.doubtful.contains(&bucket) {
                this.aside.insert(bucket, replica);
            } else {
                outboxes.push((bucket, this.take_up(now, bucket, replica)));
            }
        }
        // Then all tables, and only then what follows: who absorbs another bucket must find its tables as that one's phaser believes them to be.
        let mut follow_ups = Vec::new();
        for (bucket, mut outbox) in outboxes {
            let mut later = Vec::new();
            outbox.drain().for_each(|output| this.carry_out_one(now, bucket, output, &mut later, out));
            follow_ups.push((bucket, later));
        }
        for (bucket, later) in follow_ups {
            this.follow_up(now, bucket, later, out);
        }
        this.ask_in_doubt(now, out);
        this
    }

    fn take_up(&mut self, now: Instant, bucket: BucketId, durable: Durable) -> Outbox {
        let tables = Tables::recover(&durable);
        let (mut outbox, seed, config) = (Outbox::default(), self.draw(), self.config.phaser.clone());
        let phaser = Phaser::recover(config, durable, &self.origins, seed, now, &mut outbox);
        self.replicas.insert(bucket, Replica::new(phaser, tables, None, now));
        self.forget_glances();
        outbox
    }

    /// What was set aside is used after all, as after a restart that happened just now.
    pub(crate) fn resume(&mut self, now: Instant, bucket: BucketId, as_member: bool, out: &mut Vec<Output>) {
        let Some(durable) = self.aside.remove(&bucket) else { return };
        out.push(Output::Resumed { bucket, as_member });
        let mut outbox = self.take_up(now, bucket, durable);
        self.carry_out(now, bucket, &mut outbox, out);
        if let Some((micros, at)) = self.wall {
            let micros = micros + now.since(at).as_micros() as u64;
            self.drive(now, bucket, phaser::Input::Wall { micros }, out);
        }
    }

    pub fn step(&mut self, now: Instant, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Peer { from, message } => self.on_peer(now, from, message, out),
            Input::Client { request, keyspace, command, door } => {
                self.on_client(now, request, keyspace, command, door, out);
            }
            Input::Blueprint(blueprint) => self.on_blueprint(now, &blueprint, out),
            Input::MetaRead { id, state } => self.on_meta_read(now, id, &state.blueprint, out),
            Input::Rejected { command, .. } => self.on_rejected(now, &command, out),
            Input::Late { origin, home, keyspace, command } => {
                self.route(now, Pending::new(home, origin, keyspace, command), out);
            }
            Input::Mail { from: _, mail } => self.on_mail(now, mail, out),
            Input::Written { upto } => self.on_written(now, upto, out),
            Input::WrittenAhead { batch, buckets } => self.on_written_ahead(now, batch, &buckets, out),
            Input::Stored { id, bucket, tables } => {
                self.checkpoints.remove(&(bucket, id));
                match self.storing.remove(&(bucket, id)) {
                    Some(id) => self.drive(now, bucket, phaser::Input::Stored { id, tables }, out),
                    None => out.push(Output::Release { bucket, tables }),
                }
            }
            Input::Wall { micros } => self.on_wall(now, micros, out),
            Input::LinkEnded { to } => self.on_link_ended(now, to),
            Input::Flush => self.on_flush(now, out),
            Input::Wake => self.on_wake(now, out),
            Input::LeadsMeta(_) | Input::Leave | Input::Disk { .. } => {} // for the desk
        }
    }

    pub fn deadline(&self) -> Instant {
        self.pressing().min(self.upkeep_at)
    }

    /// The deadlines of its phasers. What else there is to do may wait for one of them, if that is not far.
    pub fn pressing(&self) -> Instant {
        let soonest = self.soonest.get().unwrap_or_else(|| self.find_soonest());
        self.soonest.set(Some(soonest));
        self.stranded.front().copied().unwrap_or(Instant::NEVER).min(soonest).min(self.fill_at).min(self.copy_at)
    }

    fn find_soonest(&self) -> Instant {
        self.replicas.values().filter_map(|r| r.glance.deadline).fold(Instant::NEVER, Instant::min)
    }

    pub fn check_invariants(&self) {
        for (bucket, replica) in &self.replicas {
            assert!(self.lane.holds(*bucket), "{bucket} is in {:?}", self.lane);
            replica.phaser.check_invariants();
            assert_eq!(replica.glance, Glance::at(&replica.phaser), "what is kept of a phaser is as it is");
            assert!(
                !replica.phaser.is_filling() || self.filling.contains(bucket),
                "whoever fills somebody has its turn"
            );
        }
        assert!(self.soonest.get().is_none_or(|soonest| soonest == self.find_soonest()), "nobody is woken late");
        let leads = Leads::of(self.replicas.iter(), &self.blueprint);
        assert!(self.leads == Leads::Unknown || self.leads == leads, "who leads is known as it is");
    }

    /// The newest epoch acted on for any of its buckets: a blueprint older than this is ignored (R11).
    pub fn newest(&self) -> Epoch {
        self.ahead.values().copied().fold(self.epoch, Epoch::max)
    }

    pub fn blueprint(&self) -> &Arc<Blueprint> {
        &self.blueprint
    }

    pub fn phasers(&self) -> impl Iterator<Item = (BucketId, &Phaser<C>)> {
        self.replicas.iter().map(|(bucket, replica)| (*bucket, &replica.phaser))
    }

    pub fn phaser(&self, bucket: BucketId) -> Option<&Phaser<C>> {
        self.replicas.get(&bucket).map(|replica| &replica.phaser)
    }

    /// Each slot's table here: at which index it stands, and the fingerprint of what is in it. Empty tables are left out.
    pub fn fingerprints(&self, bucket: BucketId) -> Vec<(Slot, blueprint::Index, u64)> {
        let Some(replica) = self.replicas.get(&bucket) else { return Vec::new() };
        let stands = |slot| replica.phaser.stands_at(slot);
        replica.tables.iter().filter_map(|(slot, table)| Some((slot, stands(slot)?, table.fingerprint()))).collect()
    }

    /// The table of one slot, for whoever wants to see why two of them differ.
    pub fn table(&self, bucket: BucketId, slot: Slot) -> Option<&values::Table> {
        self.replicas.get(&bucket)?.tables.get(slot)
    }

    /// Steps one phaser and carries out what it decided.
    pub(crate) fn drive(&mut self, now: Instant, bucket: BucketId, input: phaser::Input, out: &mut Vec<Output>) {
        let count = self.replicas.len() as u64;
        let Some(replica) = self.replicas.get_mut(&bucket) else { return };
        let mut outbox = std::mem::take(&mut self.scratch);
        replica.phaser.step(now, input, &mut outbox);
        let before = std::mem::replace(&mut replica.glance, Glance::at(&replica.phaser));
        if before.leads != replica.glance.leads {
            self.leads = Leads::Unknown;
        }
        if before.deadline != replica.glance.deadline {
            self.soonest.set(None);
        }
        if before.primary != replica.glance.primary {
            replica.heard = now; // nobody is silent for longer than it leads
        }
        if replica.phaser.has_to_flush() && !std::mem::replace(&mut replica.touched, true) {
            self.touched.push(bucket);
        }
        if replica.is_due_now(&self.config, count) {
            self.due.push_back(bucket);
        }
        if replica.phaser.is_filling() {
            self.filling.insert(bucket);
        }
        if !outbox.is_empty() {
            self.carry_out(now, bucket, &mut outbox, out);
        }
        self.scratch = outbox;
    }

    pub(crate) fn carry_out(&mut self, now: Instant, bucket: BucketId, outbox: &mut Outbox, out: &mut Vec<Output>) {
        self.decode_ahead(bucket, outbox);
        // What a step decided is finished before anything that follows from it begins.
        let mut later = Vec::new();
        for output in outbox.drain() {
            self.carry_out_one(now, bucket, output, &mut later, out);
        }
        self.decoded.clear();
        if !later.is_empty() {
            self.follow_up(now, bucket, later, out);
        }
    }

    pub(crate) fn follow_up(&mut self, now: Instant, bucket: BucketId, later: Vec<FollowUp>, out: &mut Vec<Output>) {
        for follow_up in later {
            match follow_up {
                FollowUp::Phaser(input) => self.drive(now, bucket, input, out),
                FollowUp::Route(pending) => self.route(now, pending, out),
                FollowUp::Govern(child) => self.govern(now, child, out),
                FollowUp::Meet { bucket, other, at } => self.meet(now, bucket, other, at, out),
                FollowUp::Given(bucket) => self.drive(now, bucket, phaser::Input::Given, out),
            }
        }
    }

    /// The commands of others that this step applies, if they are several: what they need of the tables is fetched from memory together.
    fn decode_ahead(&mut self, bucket: BucketId, outbox: &Outbox) {
        let of_others = |output: &phaser::Output| match output {
            phaser::Output::Apply { index, slot, ticket: None, .. } => Some((*index, *slot)),
            _ => None,
        };
        let applied = || outbox.iter().filter_map(of_others);
        if outbox.len() < 2 || applied().nth(1).is_none() {
            return;
        }
        let Some(replica) = self.replicas.get(&bucket) else { return };
        self.decoded.extend(applied().map(|(index, slot)| (bucket, index, replica.logged(slot, index))));
        let commands = self.decoded.iter().filter_map(|(.., command)| command.as_ref());
        Table::touch(&commands.filter_map(|command| replica.tables.wanted_by(command)).collect::<Vec<_>>());
    }

    fn carry_out_one(
        &mut self,
        now: Instant,
        bucket: BucketId,
        output: phaser::Output,
        later: &mut Vec<FollowUp>,
        out: &mut Vec<Output>,
    ) {
        use phaser::Output as Out;
        let Some(replica) = self.replicas.get_mut(&bucket) else { return };
        match output {
            Out::Send(envelope) => {
                out.push(Output::Send { to: envelope.to.node, message: PeerMessage::Bucket { bucket, envelope } });
            }
            Out::Write { id, records } => {
                self.batch.extend(records.into_iter().map(|record| NodeRecord::Bucket { bucket, record }));
                self.writing.push_back((self.open, bucket, id));
            }
            Out::Store { id: store, image } => {
                self.next_store.0 += 1;
                let id = self.next_store;
                self.storing.insert((bucket, id), store);
                let most = self.config.encoded_at_once;
                let is_large = image.tables.is_empty() && replica.tables.bytes() > most;
                if is_large && !replica.tables.is_copying() && replica.tables.bytes_in(&image.replaced) > most {
                    replica.tables.begin_copying(id, &image.replaced);
                    return self.copying.push_back((bucket, id));
                }
                let tables = replica.tables.encode(&image.replaced, image.tables);
                self.encoded_bytes += tables.iter().map(|(_, table)| table.len() as u64).sum::<u64>();
                out.push(Output::Store { id, bucket, tables });
            }
            Out::Release { tables } => out.push(Output::Release { bucket, tables }),
            Out::Apply { index, slot, clock, seed, ticket } => {
                let stamp = values::Stamp { clock, seed };
                if let Some(pending) = ticket.and_then(|ticket| self.requests.take(ticket.0)) {
                    replica.check_asked(slot, index, &pending.command);
                    let reply = replica.tables.execute::<C>(slot, stamp, &pending.command);
                    return self.on_applied(pending, reply, later, out);
                }
                let decoded = self.decoded.pop_front_if(|(of, at, _)| (*of, *at) == (bucket, index));
                if let Some(command) = decoded.map_or_else(|| replica.logged(slot, index), |(.., command)| command) {
                    replica.tables.execute::<C>(slot, stamp, &command);
                }
            }
            Out::Serve { ticket, clock, good_until } => {
                if let Some(pending) = self.requests.take(ticket.0) {
                    self.on_serve(bucket, pending, Served { clock, good_until }, later, out);
                }
            }
            Out::Refuse { ticket, why } => self.on_refused(ticket, why, out),
            Out::Forward { ticket } => self.on_forward(ticket, later, out),
            Out::Uncertain { ticket } => self.on_uncertain(ticket, later, out),
            Out::Fork(fork) => self.on_fork(now, bucket, fork, later, out),
            Out::Frozen { into } => later.push(FollowUp::Meet { bucket: into, other: bucket, at: None }),
            Out::SeekFrozen { bucket: other, at } => later.push(FollowUp::Meet { bucket, other, at }),
            Out::Absorb { from, slots, ahead } => self.take_over(bucket, from, &slots, ahead, later),
            Out::Merge { absorbed, at } => {
                let Some((term, _)) = replica.phaser.leads() else { return };
                out.push(Output::Propose(Proposal::Merge { absorbed, into: bucket, at, term }));
            }
            Out::Discard { slots } => replica.tables.discard(&slots),
            Out::Install { image } => replica.tables.install(&image, std::mem::take(&mut self.arrived)),
            Out::SendImage { to, term, as_of, slots, bytes } => {
                let image = replica.tables.image(&slots, as_of, bytes);
                let size = image.tables.iter().map(|(_, table)| table.len()).sum();
                self.image_bytes += size as u64;
                later.push(FollowUp::Phaser(phaser::Input::ImageSent {
                    to,
                    slots: image.covered.clone(),
                    bytes: size,
                }));
                let message = phaser::Message::Fill { term, image };
                let envelope = phaser::Envelope { from: replica.phaser.me(), to, message };
                out.push(Output::Send { to: to.node, message: PeerMessage::Bucket { bucket, envelope } });
            }
            Out::Propose { term, change } => {
                out.push(Output::Propose(Proposal::Succeed { bucket, replaces: term, change }));
            }
            Out::Register { child, slots, at } => {
                let Some((term, _)) = replica.phaser.leads() else { return };
                out.push(Output::Propose(Proposal::Register { parent: bucket, child, slots, at, term }));
            }
            Out::Ask { nonce } => {
                let id = self.ask(Asked::Phaser { bucket, nonce });
                out.push(Output::ReadMeta { id });
            }
            Out::Event(event) => out.push(Output::Event { bucket, event }),
        }
    }

    fn on_peer(&mut self, now: Instant, from: NodeId, message: PeerMessage, out: &mut Vec<Output>) {
        match message {
            PeerMessage::Bucket { bucket, envelope } => {
                if envelope.from.node != from {
                    return;
                }
                if let Ok(arrived) = Tables::arriving_with(&envelope.message) {
                    if let Some(replica) = self.replicas.get_mut(&bucket) {
                        facts::hears(replica, &envelope.message, now);
                    }
                    self.arrived = arrived;
                    self.drive(now, bucket, phaser::Input::Message(envelope), out);
                    self.arrived.clear();
                } else {
                    out.push(Output::Event { bucket, event: phaser::Event::Dropped(phaser::Dropped::Malformed) });
                }
            }
            PeerMessage::Hop { id, keyspace, bucket: _, hops, command } => {
                let pending = self.pending(Origin::Hop { node: from, id }, keyspace, command);
                self.on_hop(now, Pending { hops, ..pending }, out);
            }
            PeerMessage::HopAnswer { id, answer } => self.on_hop_answer(id, answer, out),
            // For the desk.
            PeerMessage::Probe { .. }
            | PeerMessage::Probed { .. }
            | PeerMessage::Push(_)
            | PeerMessage::Echoed(_)
            | PeerMessage::Order(_)
            | PeerMessage::Directory(_) => {}
        }
    }

    fn on_mail(&mut self, now: Instant, mail: Mail, out: &mut Vec<Output>) {
        match mail {
            Mail::Blueprint(blueprint) => self.on_blueprint(now, &blueprint, out),
            Mail::Directory(directory) => {
                self.directory = directory;
                self.react(now, out);
            }
            Mail::Order(order) => self.on_order(now, order, out),
            Mail::Requests(requests) => self.on_requests(now, requests, out),
            Mail::Answers(answers) => self.on_answers(answers, out),
            Mail::Acted(_) | Mail::Beat | Mail::Rows(_) => {} // for the desk
        }
    }

    pub(crate) fn on_order(&mut self, now: Instant, order: Order, out: &mut Vec<Output>) {
        let Some(coming) = &mut self.coming else { return self.obey(now, order, out) };
        let orders = coming.behind.as_mut().map_or(&mut coming.orders, |(_, orders)| orders);
        // They are given again and again, and each is about one bucket: there are no more of them than buckets.
        if !orders.contains(&order) {
            orders.push(order);
        }
    }

    pub(crate) fn obey(&mut self, now: Instant, order: Order, out: &mut Vec<Output>) {
        match order {
            Order::HandOver { bucket, to } => self.drive(now, bucket, phaser::Input::HandOver { to }, out),
            Order::Split { bucket, child, slots } => {
                // An id that is not reserved for it could never be registered, and nobody would be seated after it.
                if self.blueprint.reserved.get(&child) == Some(&bucket) {
                    self.drive(now, bucket, phaser::Input::Split { child, slots }, out);
                }
            }
        }
    }

    fn on_rejected(&mut self, now: Instant, command: &Proposal, out: &mut Vec<Output>) {
        if let Proposal::Succeed { bucket, replaces, .. } = command {
            self.drive(now, *bucket, phaser::Input::Rejected { term: *replaces }, out);
        }
    }

    fn on_written(&mut self, now: Instant, upto: BatchId, out: &mut Vec<Output>) {
        let count = self.writing.partition_point(|(id, ..)| *id <= upto);
        let written: Vec<_> = self.writing.drain(..count).map(|(_, bucket, write)| (bucket, write)).collect();
        self.report_written(now, written, out);
        if self.newborn {
            self.replicas.values_mut().for_each(|r| r.unborn = r.unborn.filter(|batch| *batch > upto));
            self.newborn = self.replicas.values().any(|r| r.unborn.is_some());
        }
        self.on_coming_written(now, upto, out);
    }

    fn on_written_ahead(&mut self, now: Instant, batch: BatchId, buckets: &[BucketId], out: &mut Vec<Output>) {
        let is_among = |(id, bucket, _): &(BatchId, BucketId, WriteId)| *id == batch && buckets.contains(bucket);
        let (written, left) = std::mem::take(&mut self.writing).into_iter().partition::<VecDeque<_>, _>(is_among);
        self.writing = left;
        self.report_written(now, written.into_iter().map(|(_, bucket, write)| (bucket, write)).collect(), out);
    }

    fn report_written(&mut self, now: Instant, written: Vec<(BucketId, WriteId)>, out: &mut Vec<Output>) {
        // Only the last of a phaser's writes in this answer: it covers the others. In a single batch there mostly is but one.
        let once = written.is_sorted_by(|a, b| a.0 < b.0);
        let last: BTreeMap<BucketId, WriteId> = if once { BTreeMap::new() } else { written.iter().copied().collect() };
        for (bucket, write) in written {
            if once || last[&bucket] == write {
                self.drive(now, bucket, phaser::Input::Written { upto: write }, out);
                self.on_child_durable(now, bucket, out);
            }
        }
    }

    fn on_wall(&mut self, now: Instant, micros: u64, out: &mut Vec<Output>) {
        self.wall = Some((micros, now));
        for bucket in self.replicas.keys().copied().collect::<Vec<_>>() {
            self.drive(now, bucket, phaser::Input::Wall { micros }, out);
        }
    }

    /// Buckets that are written to alike are due at the same time, and tables are encoded by the thread that serves clients: some of them
    /// now, then, and more with the next flush. (Sixty-four at once were a third of a second in which nobody was served, and a large one by
    /// itself ten milliseconds for a hundred thousand keys.) Several under way together: what is stored together is referred to by records
    /// that are synced together, and writes wait for those.
    fn checkpoint(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.copying.is_empty() && self.due.is_empty() {
            return;
        }
        let until = self.encoded_bytes + self.config.encoded_at_once;
        self.go_on_copying(until, out);
        while let Some(bucket) = self.due.front().copied() {
            let Some(replica) = self.replicas.get_mut(&bucket) else {
                self.due.pop_front();
                continue;
            };
            let under_way: u64 = self.checkpoints.values().sum();
            let is_enough = self.encoded_bytes >= until || under_way >= STORED_AT_ONCE;
            if is_enough && !replica.is_overdue() {
                break;
            }
            self.due.pop_front();
            replica.due_at = None;
            let before = (self.next_store, self.encoded_bytes);
            self.drive(now, bucket, phaser::Input::Checkpoint, out);
            if self.next_store != before.0 {
                self.checkpoints.insert((bucket, self.next_store), self.encoded_bytes - before.1);
            }
            self.go_on_copying(until, out);
        }
        self.copy_at = if self.copying.is_empty() { Instant::NEVER } else { now };
    }

    /// The one that was begun first.
    fn go_on_copying(&mut self, until: u64, out: &mut Vec<Output>) {
        while self.encoded_bytes < until
            && let Some((bucket, id)) = self.copying.front().copied()
        {
            let left = until - self.encoded_bytes;
            let copied = self.replicas.get_mut(&bucket).and_then(|replica| replica.tables.go_on_copying(id, left));
            let Some(Copied { bytes, all }) = copied else {
                self.copying.pop_front(); // that replica is gone
                continue;
            };
            self.encoded_bytes += bytes;
            self.checkpoints.entry((bucket, id)).and_modify(|sum| *sum += bytes);
            if let Some(tables) = all {
                self.copying.pop_front();
                out.push(Output::Store { id, bucket, tables });
            }
        }
    }

    /// Images are encoded by the thread that serves clients, too: a little with each flush. And what is under way to one node is bounded
    /// for all buckets together, of which the first is filled first: so it is seated, led by another and done with while the next
    /// ones are being filled. (Side by side they were whole at the same moment, and nothing was copied while they changed hands.)
    fn fill(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.fill_at = Instant::NEVER;
        if self.filling.is_empty() {
            return;
        }
        let most = self.config.phaser.images_in_flight;
        let until = self.image_bytes + self.config.encoded_at_once;
        let mut under_way: BTreeMap<NodeId, usize> = BTreeMap::new();
        for fill in self.filling.iter().filter_map(|bucket| self.phaser(*bucket)).flat_map(Phaser::fills) {
            *under_way.entry(fill.to).or_default() += fill.under_way;
        }
        for bucket in self.filling.iter().copied().collect::<Vec<_>>() {
            loop {
                let has_room = |fill: &Filling| fill.wants && under_way[&fill.to] < most;
                let Some(fill) = self.phaser(bucket).and_then(|phaser| phaser.fills().find(has_room)) else { break };
                if self.image_bytes >= until {
                    self.fill_at = now;
                    return;
                }
                *under_way.entry(fill.to).or_default() += 1;
                self.drive(now, bucket, phaser::Input::Fill { to: fill.to }, out);
            }
        }
        let is_filling = |bucket: &BucketId| self.replicas.get(bucket).is_some_and(|r| r.phaser.is_filling());
        self.filling.retain(is_filling);
    }

    fn on_flush(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.checkpoint(now, out);
        self.fill(now, out);
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.drain(..).for_each(|bucket| self.flush(now, bucket, out));
        self.touched = touched;
        self.flush_mail(out);
        if !self.batch.is_empty() {
            let next = Vec::with_capacity(self.batch.len()); // about as many as this time
            out.push(Output::Write { id: self.open, records: std::mem::replace(&mut self.batch, next) });
            self.open.0 += 1;
        }
    }

    /// Only writes and messages come of it: nothing that a glance sees, and what it leaves undone waits for time, or for an answer.
    fn flush(&mut self, now: Instant, bucket: BucketId, out: &mut Vec<Output>) {
        let Some(replica) = self.replicas.get_mut(&bucket) else { return };
        replica.touched = false;
        let mut outbox = std::mem::take(&mut self.scratch);
        replica.phaser.step(now, phaser::Input::Flush, &mut outbox);
        for output in outbox.drain() {
            match output {
                phaser::Output::Send(envelope) => {
                    out.push(Output::Send { to: envelope.to.node, message: PeerMessage::Bucket { bucket, envelope } });
                }
                phaser::Output::Write { id, records } => {
                    self.batch.extend(records.into_iter().map(|record| NodeRecord::Bucket { bucket, record }));
                    self.writing.push_back((self.open, bucket, id));
                }
                output => unreachable!("a flush makes nothing else: {output:?}"),
            }
        }
        self.scratch = outbox;
    }

    fn on_wake(&mut self, now: Instant, out: &mut Vec<Output>) {
        let due = |r: &Replica<C>| r.glance.deadline.is_some_and(|at| at <= now);
        let woken: Vec<BucketId> = self.replicas.iter().filter(|(_, r)| due(r)).map(|(b, _)| *b).collect();
        for bucket in woken {
            self.drive(now, bucket, phaser::Input::Wake, out);
        }
        if self.stranded.front().is_some_and(|due| now >= *due) {
            self.stranded.retain(|due| now < *due);
            self.expire_hops(now, out);
        }
        if now >= self.upkeep_at {
            self.upkeep_at = now + self.config.upkeep;
            self.ask_in_doubt(now, out);
            self.expire_hops(now, out);
            self.reap(now, out);
            self.react(now, out);
            self.erase_condemned(now, out);
            self.tell_rows(out);
        }
    }

    /// What the desk says about the replicas here, to whoever asks.
    pub(crate) fn tell_rows(&mut self, out: &mut Vec<Output>) {
        let rows = self.rows();
        let mail = if rows == self.told { Mail::Beat } else { Mail::Rows(rows.clone()) };
        self.told = rows;
        out.push(Output::Mail { to: Station::Desk, mail });
    }

    pub(crate) fn write(&mut self, record: NodeRecord) -> BatchId {
        self.batch.push(record);
        self.open
    }

    /// What an erased replica was writing must not count for one that comes after it.
    pub(crate) fn forget_writes(&mut self, bucket: BucketId) {
        self.writing.retain(|(_, b, _)| *b != bucket);
        self.storing.retain(|(b, _), _| *b != bucket);
        self.checkpoints.retain(|(b, _), _| *b != bucket);
        self.forking.retain(|child, parent| *child != bucket && *parent != bucket);
    }

    /// A new replica: it will have something to write.
    pub(crate) fn take_in(&mut self, bucket: BucketId, replica: Replica<C>) {
        self.newborn |= replica.unborn.is_some();
        self.replicas.insert(bucket, Replica { touched: true, ..replica });
        self.touched.push(bucket);
        self.forget_glances();
    }

    /// Who leads and who is next must be looked for again.
    pub(crate) fn forget_glances(&mut self) {
        self.leads = Leads::Unknown;
        self.soonest.set(None);
    }

    /// The batch that whatever is decided now will be part of.
    pub(crate) fn open_batch(&self) -> BatchId {
        self.open
    }

    pub(crate) fn ask(&mut self, what: Asked) -> u64 {
        self.next_ask += 1;
        self.asked.insert(self.next_ask, what);
        // Questions whose answers were lost are asked again by whoever needs them; the old ones are forgotten.
        while self.asked.len() > MOST_ASKED {
            self.asked.pop_first();
        }
        self.next_ask
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.seed ^ (self.seed >> 29)
    }
}

/// Bytes of them that are being stored: memory, and work for the disk that others wait for.
const STORED_AT_ONCE: u64 = 8 << 20;

/// Questions to the meta group that may be open at once: a few per bucket that changes.
const MOST_ASKED: usize = 4096;

/// What follows from an output, once the step that made it is carried out.
pub(crate) enum FollowUp {
    Phaser(phaser::Input),
    Route(Pending),
    Govern(BucketId),
    /// A bucket is to hear how another one, which it is to absorb, ended here.
    Meet {
        bucket: BucketId,
        other: BucketId,
        at: Option<Position>,
    },
    /// Its tables are another bucket's now.
    Given(BucketId),
}

impl From<phaser::Refusal> for Answer {
    fn from(why: phaser::Refusal) -> Self {
        match why {
            phaser::Refusal::NoReplicas => Self::NoReplicas,
            phaser::Refusal::Busy => Self::TryAgain,
        }
    }
}
