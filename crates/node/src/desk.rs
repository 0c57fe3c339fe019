//! The desk of a node: what concerns the whole of it. It keeps the directory and the coordinator, hands blueprints on to the lanes,
//! and says what they act on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use blueprint::{Blueprint, BucketId, Conduct, Instant, NodeId};
use reactor::coordinator::{self, Coordinator, Order};
use reactor::{BucketRow, Directory};
use registrar::Registrar;

use crate::directory::Published;
use crate::io::{Input, Mail, Output, PeerMessage, Station};
use crate::node::{Config, Life};

/// A row that is not said again for this long is gone.
pub(crate) const ROW_LIFE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Desk<C> {
    pub(crate) id: NodeId,
    pub(crate) config: Config,
    /// What each lane acts on.
    acted: Vec<Arc<Blueprint>>,
    /// The oldest of these: what the node acts on.
    pub(crate) blueprint: Arc<Blueprint>,
    rows: Vec<BTreeMap<BucketId, BucketRow>>,
    /// When each lane last said a word.
    heard: Vec<Instant>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) registrar: Registrar<C>,
    pub(crate) published: Published,
    /// Nodes whose rows about replicas are in the directory: those of a life that has begun, and all of them.
    pub(crate) heeded: BTreeSet<NodeId>,
    /// The registrar has something to send with the next flush.
    pub(crate) flush_directory: bool,
    pub(crate) directory_steps: u64,
    /// It is not as it was when the lanes were last looked after.
    pub(crate) directory_changed: bool,
    /// Which lanes are to be sent it, and when each was sent it last. One that hangs gets no second one: it would pile up copies.
    owed: Vec<(bool, Instant)>,
    pub(crate) coordinator: Coordinator<C>,
    /// Counts the coordinator's reads of the meta group.
    pub(crate) asked: u64,
    /// Coordinators that asked lately: they hear what this node acts on next.
    pub(crate) watched_by: BTreeMap<NodeId, Instant>,
    upkeep_at: Instant,
    /// The process is about to end.
    pub(crate) leaving: bool,
    /// Somebody has just said that it leaves.
    pub(crate) leaver_heard: bool,
    /// Bytes that the disk can still take, as the driver found it last.
    pub(crate) free: Option<u64>,
}

impl<C: Conduct> Desk<C> {
    pub fn recover(id: NodeId, lanes: u16, config: Config, life: Life, now: Instant) -> Self {
        let Life { number, seed, wall } = life;
        let life = registrar::Life { node: id, number, wall: Duration::from_micros(wall) };
        let nothing = Arc::new(Blueprint::new());
        Self {
            id,
            acted: vec![Arc::clone(&nothing); usize::from(lanes)],
            blueprint: nothing,
            rows: vec![BTreeMap::new(); usize::from(lanes)],
            heard: vec![now; usize::from(lanes)],
            directory: Arc::default(),
            published: Published::default(),
            heeded: BTreeSet::new(),
            flush_directory: false,
            directory_steps: 0,
            directory_changed: false,
            owed: vec![(false, Instant::ZERO); usize::from(lanes)],
            coordinator: Coordinator::recover(config.coordinator_of(id), seed, now),
            registrar: Registrar::recover(config.directory.clone(), life, &registrar::Durable::default(), now),
            asked: 0,
            watched_by: BTreeMap::new(),
            upkeep_at: now + config.upkeep,
            leaving: false,
            leaver_heard: false,
            free: None,
            config,
        }
    }

    pub fn step(&mut self, now: Instant, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Peer { from, message } => self.on_peer(now, from, message, out),
            Input::Blueprint(blueprint) => self.hand_on(&blueprint, out),
            // Its own node hears of news by a push, as everybody does: those who gain by them first.
            Input::MetaRead { id: _, state } => self.step_coordinator(now, coordinator::Input::MetaRead { state }, out),
            Input::LeadsMeta(leads) => self.step_coordinator(now, coordinator::Input::LeadsMeta(leads), out),
            Input::Rejected { why, .. } => self.step_coordinator(now, coordinator::Input::Rejected { why }, out),
            Input::Mail { from: Station::Lane(lane), mail } => self.on_mail(now, lane, mail, out),
            Input::Flush => {
                if std::mem::take(&mut self.flush_directory) {
                    self.step_registrar(now, registrar::Input::Flush, out);
                    self.flush_directory = false;
                }
                if self.directory_changed {
                    self.look_around(now);
                    self.share_directory(now, out);
                }
            }
            Input::Leave => {
                self.leaving = true;
                self.publish(now, out);
            }
            Input::Disk { free } => self.free = Some(free),
            Input::Wake => self.on_wake(now, out),
            // For the lanes.
            Input::Mail { from: Station::Desk, .. }
            | Input::Client { .. }
            | Input::Late { .. }
            | Input::Written { .. }
            | Input::WrittenAhead { .. }
            | Input::Stored { .. }
            | Input::LinkEnded { .. }
            | Input::Wall { .. } => {}
        }
    }

    pub fn deadline(&self) -> Instant {
        self.pressing().min(self.upkeep_at)
    }

    /// Those of its coordinator and its registrar. What else there is to do may wait for one of them, if that is not far.
    pub fn pressing(&self) -> Instant {
        let all = self.registrar.deadline().into_iter().chain(self.coordinator.deadline());
        all.fold(Instant::NEVER, Instant::min)
    }

    pub fn check_invariants(&self) {
        // It looks at every row that it holds: now and then is enough.
        if self.directory_steps % 32 == 1 {
            self.registrar.check_invariants();
        }
        self.coordinator.check_invariants();
    }

    pub fn blueprint(&self) -> &Arc<Blueprint> {
        &self.blueprint
    }

    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    pub fn coordinator(&self) -> &Coordinator<C> {
        &self.coordinator
    }

    /// What the lanes said of their replicas.
    pub fn rows(&self) -> impl Iterator<Item = (BucketId, &BucketRow)> {
        self.rows.iter().flatten().map(|(bucket, row)| (*bucket, row))
    }

    pub(crate) fn row(&self, bucket: BucketId) -> Option<&BucketRow> {
        self.rows.iter().find_map(|rows| rows.get(&bucket))
    }

    pub(crate) fn on_peer(&mut self, now: Instant, from: NodeId, message: PeerMessage, out: &mut Vec<Output>) {
        match message {
            PeerMessage::Probe { round, about } => self.on_probe(now, from, round, &about, out),
            PeerMessage::Probed { round, answer } => {
                self.step_coordinator(now, coordinator::Input::Probed { node: from, round, answer }, out);
            }
            PeerMessage::Push(blueprint) => self.on_push(now, from, &blueprint, out),
            PeerMessage::Echoed(epoch) => {
                self.step_coordinator(now, coordinator::Input::Echoed { node: from, epoch }, out);
            }
            PeerMessage::Order(order) => self.on_order(order, out),
            PeerMessage::Directory(envelope) => {
                if envelope.from == from {
                    self.step_registrar(now, registrar::Input::Message(envelope), out);
                }
            }
            // For the lanes.
            PeerMessage::Bucket { .. } | PeerMessage::Hop { .. } | PeerMessage::HopAnswer { .. } => {}
        }
    }

    fn on_mail(&mut self, now: Instant, lane: u16, mail: Mail, out: &mut Vec<Output>) {
        let lane = usize::from(lane);
        self.heard[lane] = now;
        match mail {
            Mail::Beat => {}
            Mail::Acted(blueprint) => {
                self.acted[lane] = blueprint;
                self.on_acted(now, out);
            }
            Mail::Rows(rows) => self.rows[lane] = rows,
            // For the lanes.
            Mail::Blueprint(_) | Mail::Directory(_) | Mail::Order(_) | Mail::Requests(_) | Mail::Answers(_) => {}
        }
    }

    /// A node lives only as long as all its lanes do: what leads a bucket and hangs must be replaced, however lively the desk is.
    pub(crate) fn is_alive(&self, now: Instant) -> bool {
        let patience = self.config.silence + 2 * self.config.upkeep;
        self.heard.iter().all(|at| now.since(*at) <= patience)
    }

    /// A node acts on a blueprint when all its lanes do.
    fn on_acted(&mut self, now: Instant, out: &mut Vec<Output>) {
        let Some(oldest) = self.acted.iter().min_by_key(|blueprint| blueprint.epoch) else { return };
        if oldest.epoch == self.blueprint.epoch {
            return;
        }
        self.blueprint = Arc::clone(oldest);
        let present = self.blueprint.nodes.keys().copied().filter(|node| self.blueprint.is_present(*node)).collect();
        self.step_registrar(now, registrar::Input::Peers(present), out);
        self.publish(now, out);
        self.echo(now, out);
    }

    /// Each lane sees for itself whether that is news (R11).
    pub(crate) fn hand_on(&self, blueprint: &Arc<Blueprint>, out: &mut Vec<Output>) {
        for to in self.stations() {
            out.push(Output::Mail { to, mail: Mail::Blueprint(Arc::clone(blueprint)) });
        }
    }

    fn on_order(&self, order: Order, out: &mut Vec<Output>) {
        let (Order::HandOver { bucket, .. } | Order::Split { bucket, .. }) = &order;
        let to = Station::of_bucket(*bucket, self.acted.len() as u16);
        out.push(Output::Mail { to, mail: Mail::Order(order) });
    }

    fn stations(&self) -> impl Iterator<Item = Station> + use<C> {
        (0..self.acted.len() as u16).map(Station::Lane)
    }

    fn on_wake(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.registrar.deadline().is_some_and(|at| at <= now) {
            self.step_registrar(now, registrar::Input::Wake, out);
        }
        if self.coordinator.deadline().is_some_and(|at| at <= now) {
            self.step_coordinator(now, coordinator::Input::Wake, out);
        }
        if now >= self.upkeep_at {
            self.upkeep_at = now + self.config.upkeep;
            self.look_around(now);
            self.share_directory(now, out);
            self.publish(now, out);
        }
    }

    /// With the lanes that lack something of it.
    pub(crate) fn share_directory(&mut self, now: Instant, out: &mut Vec<Output>) {
        let changed = std::mem::take(&mut self.directory_changed);
        for (to, ((owed, sent), heard)) in self.stations().zip(self.owed.iter_mut().zip(&self.heard)) {
            *owed |= changed;
            if *owed && *heard >= *sent {
                (*owed, *sent) = (false, now);
                out.push(Output::Mail { to, mail: Mail::Directory(Arc::clone(&self.directory)) });
            }
        }
    }
}
