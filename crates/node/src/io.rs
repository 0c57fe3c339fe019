//! The only ways in and out of a node, and between its stations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blueprint::{
    Blueprint, BucketId, BucketMap, Command as Proposal, Epoch, Incarnation, Instant, KeyspaceId, LaneId, MetaState,
    NodeId, Position, Refusal, Report, Slot,
};
use bytes::Bytes;
use phaser::{Durable, Envelope, Event, Record};
use reactor::coordinator::{self, Order};
use reactor::{BucketRow, Directory};
use serde::{Deserialize, Serialize};
use values::{Command, Reply};

/// A part of a node that runs by itself, and hears of the others only by mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Station {
    /// Speaks for the whole node: its directory, its coordinator.
    Desk,
    /// Has buckets, and connections of clients.
    Lane(u16),
}

impl Station {
    pub fn of_bucket(bucket: BucketId, lanes: u16) -> Self {
        Self::Lane(LaneId::of_bucket(bucket, lanes).number)
    }
}

/// A client's request, named by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names a batch for the journal; `Written` covers all up to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// Names tables that are to be stored, of any bucket of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u64);

/// A request that was passed on to another node: by which lane, and which of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HopId {
    pub lane: u16,
    pub number: u64,
}

/// Where a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Door {
    /// Redirects to whoever leads.
    Cluster,
    /// Hops there itself.
    Any,
}

#[derive(Clone, Debug)]
pub enum Input {
    Peer {
        from: NodeId,
        message: PeerMessage,
    },
    Client {
        request: RequestId,
        /// Where the client works.
        keyspace: KeyspaceId,
        command: Command,
        door: Door,
    },
    /// A blueprint that somebody pushed; possibly an old one.
    Blueprint(Arc<Blueprint>),
    /// The answer to `ReadMeta`: a linearizable read, begun after it was asked for.
    MetaRead {
        id: u64,
        state: Arc<MetaState>,
    },
    /// Whether this node leads the meta group.
    LeadsMeta(bool),
    /// A proposal was refused.
    Rejected {
        command: Proposal,
        why: Refusal,
    },
    /// A read whose lease ran out before its answer could leave.
    Late {
        origin: Origin,
        home: u16,
        keyspace: KeyspaceId,
        command: Command,
    },
    Mail {
        from: Station,
        mail: Mail,
    },
    /// All batches up to that one are written.
    Written {
        upto: BatchId,
    },
    /// What that batch has of these buckets is written, whatever became of the rest and of batches before it. Nothing of these buckets was
    /// waiting then.
    WrittenAhead {
        batch: BatchId,
        buckets: Vec<BucketId>,
    },
    /// The tables of that `Store` are safe; what records say of them.
    Stored {
        id: StoreId,
        bucket: BucketId,
        tables: Vec<(Slot, Bytes)>,
    },
    Wall {
        micros: u64,
    },
    /// The link by which requests hop to that node has ended.
    LinkEnded {
        to: NodeId,
    },
    /// The process is about to end: nobody should give this node another part. For the desk.
    Leave,
    /// Bytes that the disk can still take; whenever somebody looks. For the desk.
    Disk {
        free: u64,
    },
    Flush,
    Wake,
}

#[derive(Clone, Debug)]
pub enum Output {
    Send {
        to: NodeId,
        message: PeerMessage,
    },
    Write {
        id: BatchId,
        records: Vec<NodeRecord>,
    },
    /// Tables of a checkpoint or of an image, to be stored somewhere, whenever: a record will refer to them, or none ever does. Writes
    /// go on meanwhile.
    Store {
        id: StoreId,
        bucket: BucketId,
        tables: Vec<(Slot, Bytes)>,
    },
    /// No record will refer to these, which were stored.
    Release {
        bucket: BucketId,
        tables: Vec<(Slot, Bytes)>,
    },
    Answer {
        origin: Origin,
        answer: Answer,
    },
    /// Good if a clock reading taken after this, by the lane that says it and before it says anything else, is below `good_until`;
    /// then it may take its time to leave from lane `home`, to which it goes as one of its `Mail::Answers`. Else it comes back as
    /// `Late`.
    Read {
        origin: Origin,
        home: u16,
        keyspace: KeyspaceId,
        command: Command,
        answer: Answer,
        good_until: Instant,
    },
    /// To another station of this node. Nothing is lost on the way, and nothing overtaken.
    Mail {
        to: Station,
        mail: Mail,
    },
    Propose(Proposal),
    /// What its coordinator says about the others; for the meta group, like a proposal.
    Report(Report),
    ReadMeta {
        id: u64,
    },
    /// Its coordinator wants to know whether it is worth rebalancing this blueprint. Whoever carries it out plans by that and by what the
    /// desk knows of sizes, elsewhere, as it takes a while, and proposes what comes of it, if anything.
    Rebalance {
        epoch: Epoch,
    },
    /// A replica was erased (R11).
    Erased {
        bucket: BucketId,
        incarnation: Incarnation,
    },
    /// What was in doubt is used again, and need not be doubted after a restart. As a member: up to a second of what was acknowledged
    /// may be missing, and the operator must hear of it (R10).
    Resumed {
        bucket: BucketId,
        as_member: bool,
    },
    Event {
        bucket: BucketId,
        event: Event,
    },
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    Client(RequestId),
    Hop { node: NodeId, id: HopId },
}

#[derive(Clone, Debug)]
pub enum Mail {
    /// From the desk: somebody pushed this, possibly an old one.
    Blueprint(Arc<Blueprint>),
    /// From the desk: what the others say about themselves.
    Directory(Arc<Directory>),
    /// From the desk: a coordinator wants this.
    Order(Order),
    /// To the desk: this is acted on here.
    Acted(Arc<Blueprint>),
    /// To the desk, with every upkeep: this lane runs.
    Beat,
    /// To the desk: the replicas of this lane, all of them.
    Rows(BTreeMap<BucketId, BucketRow>),
    /// For buckets of that lane, from clients of this one.
    Requests(Vec<Passed>),
    /// And what became of them.
    Answers(Vec<Answered>),
}

/// A request that came in at one lane and belongs to a bucket of another.
#[derive(Clone, Debug)]
pub struct Passed {
    pub origin: Origin,
    /// The lane that its answer leaves from.
    pub home: u16,
    pub keyspace: KeyspaceId,
    pub command: Command,
    pub door: Door,
    pub hops: u8,
}

#[derive(Clone, Debug)]
pub struct Answered {
    pub origin: Origin,
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    Reply(Reply),
    /// Somebody else leads this slot.
    Moved(NodeId),
    /// Certainly not done: too few members (R8).
    NoReplicas,
    /// Certainly not done: try again.
    TryAgain,
    /// It may or may not have happened (R12).
    Uncertain,
    /// Certainly not done: its keyspace was removed.
    NoKeyspace,
}

/// Postcard numbers the variants: new ones go to the end, or nodes of two versions misunderstand each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerMessage {
    Bucket {
        bucket: BucketId,
        envelope: Envelope,
    },
    /// A request passed on to the primary of that bucket. Who does not know the bucket yet, or any more, still knows whose slot is meant.
    Hop {
        id: HopId,
        keyspace: KeyspaceId,
        bucket: BucketId,
        hops: u8,
        command: Command,
    },
    HopAnswer {
        id: HopId,
        answer: Answer,
    },
    /// From a coordinator: is anybody there, and what of these buckets?
    Probe {
        round: u64,
        about: Vec<BucketId>,
    },
    Probed {
        round: u64,
        answer: coordinator::Answer,
    },
    /// A blueprint, possibly an old one.
    Push(Arc<Blueprint>),
    /// That epoch is acted on here.
    Echoed(Epoch),
    Order(Order),
    /// What nodes say about themselves.
    Directory(registrar::Envelope),
}

impl PeerMessage {
    /// Who takes it in, in a node of so many lanes.
    pub fn station(&self, lanes: u16) -> Station {
        match self {
            Self::Bucket { bucket, .. } | Self::Hop { bucket, .. } => Station::of_bucket(*bucket, lanes),
            Self::HopAnswer { id, .. } => Station::Lane(id.lane),
            Self::Probe { .. }
            | Self::Probed { .. }
            | Self::Push(_)
            | Self::Echoed(_)
            | Self::Order(_)
            | Self::Directory(_) => Station::Desk,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeRecord {
    /// The newest epoch that a lane acts on (R11).
    Epoch {
        lane: LaneId,
        epoch: Epoch,
    },
    Bucket {
        bucket: BucketId,
        record: Record,
    },
    Erase {
        bucket: BucketId,
    },
}

/// What a node finds in its data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeDurable {
    /// The newest epoch acted on for each family of buckets, whichever lane had it. None is 0.
    pub epochs: BTreeMap<u64, Epoch>,
    pub replicas: BucketMap<Durable>,
    /// Replicas that are known to have been here and are damaged beyond use (R10).
    pub lost: BTreeMap<BucketId, Lost>,
    /// Replicas that may lack the end of what they answered (R10): they answered before it was synced, and the operating system
    /// restarted.
    pub doubtful: BTreeSet<BucketId>,
    /// Something is damaged: later epochs may have been acted on, and replicas may have been here that nobody can name. So an epoch
    /// below a replica's incarnation proves nothing (R10).
    pub epochs_in_doubt: bool,
    /// The same, of replicas that were named up to here, since an earlier damage.
    pub doubted_upto: Epoch,
}

/// The part of it that one lane goes on with.
#[derive(Clone, Debug, Default)]
pub struct LaneDurable {
    pub epochs: BTreeMap<u64, Epoch>,
    pub replicas: BucketMap<Durable>,
    pub lost: BTreeMap<BucketId, Lost>,
    pub doubtful: BTreeSet<BucketId>,
    pub epochs_in_doubt: bool,
    pub doubted_upto: Epoch,
}

/// A replica that is no more: under which incarnation it was here (or at most, if that is damaged too), and where its log began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lost {
    pub incarnation: Incarnation,
    pub origin: Position,
}

impl NodeDurable {
    pub fn absorb(&mut self, record: &NodeRecord) {
        match record {
            NodeRecord::Epoch { lane, epoch } => {
                for family in lane.families() {
                    let known = self.epochs.entry(family).or_default();
                    *known = (*known).max(*epoch);
                }
            }
            NodeRecord::Erase { bucket } => {
                self.replicas.remove(bucket);
                self.doubtful.remove(bucket);
            }
            NodeRecord::Bucket { bucket, record } => {
                // Under a new name, or begun anew, nobody relies on what it once answered.
                if matches!(record, Record::Found { .. } | Record::StartOver { .. } | Record::Adopt(_)) {
                    self.doubtful.remove(bucket);
                }
                match self.replicas.get_mut(bucket) {
                    Some(durable) if !matches!(record, Record::Found { .. }) => durable.absorb(record),
                    _ => {
                        if let Some(durable) = Durable::found(record) {
                            self.lost.remove(bucket);
                            self.replicas.insert(*bucket, durable);
                        }
                    }
                }
            }
        }
    }

    /// To each lane its own, however many they were before.
    pub fn deal(self, lanes: u16) -> Vec<LaneDurable> {
        let Self { epochs_in_doubt, doubted_upto, .. } = self;
        let each = LaneDurable { epochs_in_doubt, doubted_upto, ..LaneDurable::default() };
        let mut dealt = vec![each; usize::from(lanes)];
        let of = |bucket| usize::from(LaneId::of_bucket(bucket, lanes).number);
        for (family, epoch) in self.epochs {
            dealt[of(BucketId(family))].epochs.insert(family, epoch);
        }
        for (bucket, durable) in self.replicas {
            dealt[of(bucket)].replicas.insert(bucket, durable);
        }
        for (bucket, lost) in self.lost {
            dealt[of(bucket)].lost.insert(bucket, lost);
        }
        for bucket in self.doubtful {
            dealt[of(bucket)].doubtful.insert(bucket);
        }
        dealt
    }
}
