//! A whole node: its desk and its lanes. In the product each station is a thread of its own and this is not used; it is for those
//! who look at a node as one thing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use blueprint::{Blueprint, BucketId, Conduct, CoordinatorId, Index, Instant, LaneId, NodeId, Slot};
use bytes::Bytes;
use phaser::Phaser;
use reactor::coordinator::{self, Coordinator};
use reactor::{Directory, NodeRow, Sighting, Standing};
use registrar::Registrar;

use crate::desk::{Desk, ROW_LIFE};
use crate::io::{Input, NodeDurable, Output, Station};
use crate::lane::Lane;

#[derive(Clone, Debug)]
pub struct Config {
    pub phaser: phaser::Config,
    /// How often a node looks after what nobody else wakes it for.
    pub upkeep: Duration,
    /// What the reactor's rules wait by.
    pub limits: reactor::Limits,
    pub directory: registrar::Config,
    /// How often a coordinator looks at every node.
    pub round: Duration,
    /// Who has not answered a coordinator for this long is silent.
    pub silence: Duration,
    /// What coordinators wait by before the cluster rebalances by itself.
    pub leisure: coordinator::Leisure,
    /// How long a hop may stay unanswered.
    pub hop_patience: Duration,
    /// And how long once the link that it left by has ended: what was answered before may be here, and not read yet.
    pub last_answers: Duration,
    /// Requests under way in a lane; beyond this they are refused.
    pub most_requests: usize,
    /// How often a request may be passed on before it is refused: views differ for a moment, not for long.
    pub most_hops: u8,
    /// Expired keys reaped per bucket and upkeep.
    pub reap_batch: usize,
    /// What logs take together in a lane, in bytes, before checkpoints make them shorter; see [`crate::replica`]. Each bucket has an equal
    /// share of it. A bucket with few and large entries may take more: no checkpoint comes before there are `phaser.checkpoint_every` of them, or
    /// `phaser.checkpoint_bytes`.
    pub log_bytes: u64,
    /// Bytes of checkpoints, and of images, that a lane encodes with one flush, about: a fraction of a millisecond in which it serves nobody.
    pub encoded_at_once: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            phaser: phaser::Config::default(),
            upkeep: Duration::from_millis(250),
            limits: reactor::Limits::default(),
            directory: registrar::Config { longest_life: 2 * ROW_LIFE, ..registrar::Config::default() },
            round: Duration::from_millis(250),
            silence: Duration::from_millis(1500),
            leisure: coordinator::Leisure::default(),
            hop_patience: Duration::from_millis(2500),
            last_answers: Duration::from_millis(100),
            most_requests: 65_536,
            most_hops: 4,
            reap_batch: 16,
            log_bytes: 24 << 20,
            encoded_at_once: 128 << 10,
        }
    }
}

impl Config {
    pub(crate) fn coordinator_of(&self, node: NodeId) -> coordinator::Config {
        let defaults = coordinator::Config::of(CoordinatorId(node.0));
        let late = defaults.late.min(self.silence.saturating_sub(2 * self.round));
        coordinator::Config { period: self.round, patience: self.silence, late, leisure: self.leisure, ..defaults }
    }

    /// What a set of numbers must satisfy; the text says which one to change.
    pub fn check(&self) -> Result<(), &'static str> {
        self.limits.check()?;
        self.directory.check()?;
        self.coordinator_of(NodeId(0)).check()?;
        if self.silence < self.round * 5 / 2 {
            return Err(
                "silence must be at least two and a half rounds: a round that begins a little late must not count for nothing",
            );
        }
        if self.limits.grace < self.phaser.lease + self.phaser.margin {
            return Err("grace must be at least lease + margin: erasing a replica forgets what it granted");
        }
        if self.encoded_at_once == 0 {
            return Err("encoded_at_once must be above zero: no checkpoint would ever be finished");
        }
        self.phaser.check()
    }
}

/// One start of a node's process.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// Higher than that of any earlier start of this node, and not 0.
    pub number: u64,
    pub seed: u64,
    /// What the wall clock says, in microseconds since 1970; it may be wrong.
    pub wall: u64,
}

#[derive(Debug)]
pub struct Node<C> {
    id: NodeId,
    desk: Desk<C>,
    lanes: Vec<Lane<C>>,
}

impl<C: Conduct> Node<C> {
    /// At least one lane, at most as many as there are families of buckets.
    pub fn recover(
        id: NodeId,
        config: &Config,
        lanes: u16,
        durable: NodeDurable,
        life: Life,
        now: Instant,
        out: &mut Vec<(Station, Output)>,
    ) -> Self {
        let desk = Desk::recover(id, lanes, config.clone(), life, now);
        let mut recovered = Vec::new();
        for (lane, durable) in LaneId::all(lanes).zip(durable.deal(lanes)) {
            let mut said = Vec::new();
            recovered.push(Lane::recover(id, lane, config.clone(), durable, life, now, &mut said));
            out.extend(said.into_iter().map(|output| (Station::Lane(lane.number), output)));
        }
        Self { id, desk, lanes: recovered }
    }

    /// A station that is not there hears nothing: a peer may remember more lanes than there are now.
    pub fn step(&mut self, station: Station, now: Instant, input: Input, out: &mut Vec<Output>) {
        match station {
            Station::Desk => self.desk.step(now, input, out),
            Station::Lane(number) => {
                if let Some(lane) = self.lanes.get_mut(usize::from(number)) {
                    lane.step(now, input, out);
                }
            }
        }
    }

    pub fn deadline(&self, station: Station) -> Instant {
        match station {
            Station::Desk => self.desk.deadline(),
            Station::Lane(number) => self.lanes.get(usize::from(number)).map_or(Instant::NEVER, Lane::deadline),
        }
    }

    pub fn check_invariants(&self, station: Station) {
        match station {
            Station::Desk => self.desk.check_invariants(),
            Station::Lane(number) => self.lanes.get(usize::from(number)).into_iter().for_each(Lane::check_invariants),
        }
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    pub fn stations(&self) -> impl Iterator<Item = Station> + use<C> {
        std::iter::once(Station::Desk).chain((0..self.lanes.len() as u16).map(Station::Lane))
    }

    pub fn lanes(&self) -> &[Lane<C>] {
        &self.lanes
    }

    /// What all its lanes act on.
    pub fn blueprint(&self) -> &Arc<Blueprint> {
        self.desk.blueprint()
    }

    pub fn registrar(&self) -> &Registrar<C> {
        &self.desk.registrar
    }

    /// The rows of an owner, and for how long they are good.
    pub fn directory_rows(&self, now: Instant, owner: NodeId) -> BTreeMap<Bytes, (Bytes, Duration)> {
        self.registrar().rows(now, owner).map(|found| (found.key, (found.value, found.left))).collect()
    }

    pub fn directory(&self) -> &Directory {
        &self.desk.directory
    }

    /// A bucket of which it says, having started, what only an earlier life of it said.
    pub fn said_by_an_earlier_life(&self) -> Option<BucketId> {
        self.desk.said_by_an_earlier_life()
    }

    pub fn coordinator(&self) -> &Coordinator<C> {
        &self.desk.coordinator
    }

    fn lane_of(&self, bucket: BucketId) -> &Lane<C> {
        &self.lanes[usize::from(LaneId::of_bucket(bucket, self.lanes.len() as u16).number)]
    }

    pub fn phasers(&self) -> impl Iterator<Item = (BucketId, &Phaser<C>)> {
        self.lanes.iter().flat_map(Lane::phasers)
    }

    pub fn phaser(&self, bucket: BucketId) -> Option<&Phaser<C>> {
        self.lane_of(bucket).phaser(bucket)
    }

    /// Each slot's table here: at which index it stands, and the fingerprint of what is in it. Empty tables are left out.
    pub fn fingerprints(&self, bucket: BucketId) -> Vec<(Slot, Index, u64)> {
        self.lane_of(bucket).fingerprints(bucket)
    }

    /// The table of one slot, for whoever wants to see why two of them differ.
    pub fn table(&self, bucket: BucketId, slot: Slot) -> Option<&values::Table> {
        self.lane_of(bucket).table(bucket, slot)
    }

    /// Everything that waits here, since when, and for what.
    pub fn waits(&self) -> impl Iterator<Item = &Standing> {
        self.lanes.iter().flat_map(Lane::waits)
    }

    /// The same in words.
    pub fn why(&self, now: Instant) -> Vec<String> {
        self.lanes.iter().flat_map(|lane| lane.why(now)).collect()
    }

    /// What this node would say about itself in the directory, were it asked now.
    pub fn sighting(&self) -> Sighting {
        let buckets: BTreeMap<_, _> = self.lanes.iter().flat_map(Lane::rows).collect();
        let bytes = crate::facts::roughly(buckets.values().map(|row| row.bytes).sum());
        let node = NodeRow { echoed: self.blueprint().epoch, bytes, ..self.desk.node_row() };
        Sighting { reachable: true, heard: Instant::ZERO, node, buckets }
    }
}
