//! The only ways in and out of a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use blueprint::{
    Blueprint, BucketId, Command as Proposal, Epoch, Incarnation, Instant, NodeId, Position, SlotSet, Term,
};
use phaser::{Durable, Envelope, Event, Record};
use values::{Command, Reply};

/// A client's request, named by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names a batch for the journal; `Written` covers all up to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

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
        command: Command,
        door: Door,
    },
    /// A blueprint that somebody pushed; possibly an old one.
    Blueprint(Arc<Blueprint>),
    /// The answer to `ReadMeta`: a linearizable read, begun after it was asked for, and who has echoed what.
    MetaRead {
        id: u64,
        blueprint: Arc<Blueprint>,
        echoes: Arc<BTreeMap<NodeId, Epoch>>,
    },
    /// A proposal was refused.
    Rejected {
        bucket: BucketId,
        term: Term,
    },
    /// A read whose lease ran out before its answer could leave.
    Late {
        origin: Origin,
        command: Command,
    },
    HandOver {
        bucket: BucketId,
        to: NodeId,
    },
    Split {
        bucket: BucketId,
        child: BucketId,
        slots: SlotSet,
    },
    Written {
        upto: BatchId,
    },
    Wall {
        micros: u64,
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
    Answer {
        origin: Origin,
        answer: Answer,
    },
    /// May leave only until `good_until`, by a clock reading taken after this; else it comes back as `Late`.
    Read {
        origin: Origin,
        command: Command,
        answer: Answer,
        good_until: Instant,
    },
    Propose(Proposal),
    ReadMeta {
        id: u64,
    },
    /// This node acts on that epoch now.
    Echo(Epoch),
    /// A replica was erased (R11).
    Erased {
        bucket: BucketId,
        incarnation: Incarnation,
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
    Hop { node: NodeId, id: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerMessage {
    Bucket {
        bucket: BucketId,
        envelope: Envelope,
    },
    /// A request passed on to the primary.
    Hop {
        id: u64,
        hops: u8,
        command: Command,
    },
    HopAnswer {
        id: u64,
        answer: Answer,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeRecord {
    /// The newest epoch acted on (R11).
    Epoch(Epoch),
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
    pub epoch: Epoch,
    pub replicas: BTreeMap<BucketId, Durable>,
    /// Replicas that are known to have been here and are damaged beyond use (R10).
    pub lost: BTreeMap<BucketId, Lost>,
}

/// A replica that is no more: under which incarnation it was here, and where its log began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lost {
    pub incarnation: Incarnation,
    pub origin: Position,
}

impl NodeDurable {
    pub fn absorb(&mut self, record: &NodeRecord) {
        match record {
            NodeRecord::Epoch(epoch) => self.epoch = self.epoch.max(*epoch),
            NodeRecord::Erase { bucket } => {
                self.replicas.remove(bucket);
            }
            NodeRecord::Bucket { bucket, record } => match self.replicas.get_mut(bucket) {
                Some(durable) if !matches!(record, Record::Found { .. }) => durable.absorb(record),
                _ => {
                    if let Some(durable) = Durable::found(record) {
                        self.lost.remove(bucket);
                        self.replicas.insert(*bucket, durable);
                    }
                }
            },
        }
    }
}
