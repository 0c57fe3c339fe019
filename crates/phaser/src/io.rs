//! The only ways in and out of a phaser.

use alloc::vec::Vec;

use blueprint::{BucketId, Change, Epoch, Government, Index, Instant, Member, NodeId, Position, Slot, SlotSet, Term};
use bytes::Bytes;

use crate::durable::{Image, Record};
use crate::merge::Frozen;
use crate::message::{Envelope, Message};

/// A request's name, given and understood by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Names a write to disk; they are issued in order, and `Written` covers all up to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// Names tables that are to be stored. Each is used once in the life of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u64);

/// What a blueprint says about this bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    pub epoch: Epoch,
    pub government: Government,
    /// Children of this bucket that the blueprint knows, with the position of the Split that made them.
    pub children: Vec<(BucketId, Position)>,
    /// With which bucket it is being merged.
    pub bond: Option<Bond>,
    /// Buckets that the blueprint knows to be part of this one, with the position of the Absorb.
    pub absorbed: Vec<(BucketId, Position)>,
}

/// Bound buckets have the same members and the same primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bond {
    /// It is to absorb that one.
    Absorbs { other: BucketId },
    /// It is to be absorbed by that one.
    Fades { into: BucketId },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    Message(Envelope),
    /// A blueprint newer than any before.
    View(View),
    /// The answer to `Ask`: a linearizable read of the blueprint, begun after it was asked for.
    Told {
        nonce: u64,
        view: View,
    },
    /// A proposal that replaces `term` was refused. It proves nothing about earlier, unanswered attempts (R7).
    Rejected {
        term: Term,
    },
    Write {
        ticket: Ticket,
        slot: Slot,
        body: Bytes,
    },
    Read {
        ticket: Ticket,
        slot: Slot,
    },
    /// Planned change of primary.
    HandOver {
        to: NodeId,
    },
    Split {
        child: BucketId,
        slots: SlotSet,
    },
    /// The child of a fork exists durably, here or by right elsewhere.
    Forked {
        child: BucketId,
    },
    /// A committed Absorb names that Freeze of this log.
    Named {
        at: Position,
    },
    /// Its tables were taken over by the bucket that absorbed it.
    Given,
    /// The answer to `SeekFrozen`, or news: how the replica of that bucket on this node ended, unless there is none, or it has not.
    Met {
        bucket: BucketId,
        frozen: Option<Frozen>,
    },
    /// The bucket is no more: stop, and answer whoever waits.
    Retire,
    /// Those are not to be filled as fast as possible, but at so many bytes per second, or not at all (0). All that were named before
    /// and are not here are free again.
    Throttle {
        rates: Vec<(NodeId, u64)>,
    },
    /// An image left: these slots, this many bytes.
    ImageSent {
        to: Member,
        slots: SlotSet,
        bytes: usize,
    },
    /// Everything up to this write is as safe as the keyspace's durability level asks for.
    Written {
        upto: WriteId,
    },
    /// The tables of that `Store` lie safely somewhere; what a record says of them. Writes go on meanwhile.
    Stored {
        id: StoreId,
        tables: Vec<(Slot, Bytes)>,
    },
    /// Wall time, in microseconds.
    Wall {
        micros: u64,
    },
    /// The end of a batch: send what gathered.
    Flush,
    /// There is time for a checkpoint, if one is due: its driver has other buckets, whose checkpoints are due about when this one's is.
    Checkpoint,
    /// There is time for an image for that node, if it is to be filled: its driver has other buckets that fill somebody, and clients.
    Fill {
        to: NodeId,
    },
    Wake,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    Send(Envelope),
    Write {
        id: WriteId,
        records: Vec<Record>,
    },
    /// Store the tables of `image.replaced`, which only the driver has, as they are at this very moment, and say so by `Stored`. They
    /// count for nothing until a record refers to them, so nothing is in order with this, and nobody waits for it. Those in
    /// `image.tables` came in with an image and did not change since: they need not be encoded again.
    Store {
        id: StoreId,
        image: Image,
    },
    /// What was stored is of no use any more: no record will refer to it.
    Release {
        tables: Vec<(Slot, Bytes)>,
    },
    /// Execute the entry at this index of its log, a command, on its slot's table, and answer `ticket` with the reply. Whoever has the
    /// command already need not look at the entry.
    Apply {
        index: Index,
        slot: Slot,
        clock: u64,
        seed: u64,
        ticket: Option<Ticket>,
    },
    /// Evaluate this read now; the answer may leave until `good_until`, by a clock reading taken after the evaluation.
    Serve {
        ticket: Ticket,
        clock: u64,
        good_until: Instant,
    },
    Refuse {
        ticket: Ticket,
        why: Refusal,
    },
    /// This request was never appended and may be sent to whoever leads now.
    Forward {
        ticket: Ticket,
    },
    /// This write was appended and will never be answered here (R12).
    Uncertain {
        ticket: Ticket,
    },
    /// These slots are the child's now: fork their tables, and the replica unless there is one.
    Fork(Fork),
    /// It has come to its end, and says so to the replica of that bucket on this node.
    Frozen {
        into: BucketId,
    },
    /// Has the replica of that bucket on this node come to its end? `at`: a committed Absorb names that Freeze.
    SeekFrozen {
        bucket: BucketId,
        at: Option<Position>,
    },
    /// Take the tables of these slots over from the frozen replica of that bucket on this node. Their clock is `ahead` of this bucket's.
    Absorb {
        from: BucketId,
        slots: SlotSet,
        ahead: i64,
    },
    /// Tell the blueprint of a committed Absorb.
    Merge {
        absorbed: BucketId,
        at: Position,
    },
    /// Forget these tables.
    Discard {
        slots: SlotSet,
    },
    /// Replace these tables.
    Install {
        image: Image,
    },
    /// Send tables of some of `slots`, the first ones first, up to about `bytes`, and say so by `ImageSent`.
    SendImage {
        to: Member,
        term: Term,
        as_of: Index,
        slots: SlotSet,
        bytes: usize,
    },
    Propose {
        term: Term,
        change: Change,
    },
    /// Tell the blueprint of a committed split.
    Register {
        child: BucketId,
        slots: SlotSet,
        at: Position,
    },
    /// A linearizable read of the blueprint is wanted.
    Ask {
        nonce: u64,
    },
    /// For people and checkers: what just happened.
    Event(Event),
}

/// How a read is to be evaluated, and until when its answer may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Served {
    pub clock: u64,
    pub good_until: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fork {
    pub child: BucketId,
    pub slots: SlotSet,
    pub at: Position,
    pub clock: u64,
    /// Only a whole replica forks; another merely drops the slots.
    pub whole: bool,
    /// The parent's own wait after a restart holds for the child (R5).
    pub abstain_until: Instant,
}

/// Refused before it was appended: it certainly did not happen here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// R8.
    NoReplicas,
    /// The backlog is full, or patience ran out.
    Busy,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    Reigned { term: Term, at: Index },
    Serving { term: Term },
    SteppedDown { term: Term },
    JointBegan { term: Term, candidate: Member },
    Drained { term: Term },
    Dropped(Dropped),
}

/// Why a message had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropped {
    WrongIncarnation,
    UnknownSender,
    LowerTerm,
    NotLeading,
    Malformed,
    /// It would have truncated what is known to be committed: a deposed primary can send that (R1).
    WouldTruncateCommitted,
    /// It answers something that was sent later than now.
    FromTheFuture,
    OutdatedImage,
    OutdatedBegin,
}

/// Where a step puts what should happen next, in order.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    outputs: Vec<Output>,
}

impl Outbox {
    pub fn push(&mut self, output: Output) {
        self.outputs.push(output);
    }

    pub fn event(&mut self, event: Event) {
        self.push(Output::Event(event));
    }

    pub(crate) fn send(&mut self, from: Member, to: Member, message: Message) {
        self.push(Output::Send(Envelope { from, to, message }));
    }

    pub fn iter(&self) -> impl Iterator<Item = &Output> {
        self.outputs.iter()
    }

    pub fn drain(&mut self) -> impl Iterator<Item = Output> + '_ {
        self.outputs.drain(..)
    }

    pub fn take(&mut self) -> Vec<Output> {
        core::mem::take(&mut self.outputs)
    }

    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }

    pub fn len(&self) -> usize {
        self.outputs.len()
    }
}
