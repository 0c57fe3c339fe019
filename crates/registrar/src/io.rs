//! The only ways in and out of a registrar.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use blueprint::NodeId;
use bytes::Bytes;

use crate::durable::Record;
use crate::message::Envelope;
use crate::number::UpdateNumber;

/// An update's name, given and understood by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Names a write to disk; they are issued in order, and `Written` covers all up to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    Message(Envelope),
    /// The nodes that are present, by the newest blueprint; whether this one is among them makes no difference.
    Peers(BTreeSet<NodeId>),
    /// This node has the name of one that departed, and takes over its rows.
    Succeeds(NodeId),
    /// One update of this node's own rows, whole or not at all.
    Update {
        ticket: Ticket,
        edits: Vec<Edit>,
    },
    /// The link to this peer broke: whatever was under way may be lost.
    LinkLost(NodeId),
    /// Everything up to this write survives a crash.
    Written {
        upto: WriteId,
    },
    /// The end of a batch: push and write what gathered.
    Flush,
    Wake,
}

/// One row of an update.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Edit {
    Put { key: Bytes, value: Bytes, life: Duration },
    Remove { key: Bytes },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    Send(Envelope),
    Write {
        id: WriteId,
        records: Vec<Record>,
    },
    /// The update has this number, is as safe as the level asks for, and can be seen.
    Updated {
        ticket: Ticket,
        number: UpdateNumber,
    },
    /// The update did not happen.
    Refused {
        ticket: Ticket,
        why: Refusal,
    },
    /// For watchers: a row of this owner is another one now, or none.
    Changed {
        owner: NodeId,
        key: Bytes,
    },
    /// For people and checkers: what just happened.
    Event(Event),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// It has no rows.
    Empty,
    /// More rows or bytes than one message carries.
    TooLarge,
    /// A row would live longer than the longest life.
    LivesTooLong,
    /// This node owns as many rows as it may.
    TooManyRows,
    /// Too many updates wait for the end of the start, or for the disk.
    Busy,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// This node gives out numbers, from above this one.
    Resumed {
        above: UpdateNumber,
    },
    /// The start is over.
    Operating,
    /// Everything that any sibling had is here.
    Complete,
    /// By an exchange of numbers; it gets what is new, from after this number of mine.
    Live {
        peer: NodeId,
        sent: UpdateNumber,
    },
    Away {
        peer: NodeId,
    },
    /// It would leave a gap: a check follows.
    PushRefused {
        owner: NodeId,
        onto: UpdateNumber,
        known: UpdateNumber,
    },
    /// The next sibling is asked.
    PullFailed {
        owner: NodeId,
        from: NodeId,
    },
    /// What was held of this owner could not be built on, and was replaced.
    Replaced {
        owner: NodeId,
        upto: UpdateNumber,
    },
    /// A peer holds more of my updates than I know of: the counter was reset above that.
    Renumbered {
        above: UpdateNumber,
    },
    TookOver {
        owner: NodeId,
        upto: UpdateNumber,
        rows: usize,
    },
    Dropped {
        from: NodeId,
        why: Dropped,
    },
}

/// Why a message had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropped {
    NotForMe,
    UnknownSender,
    /// From a process of the sender's that has been replaced since.
    EarlierLife,
    /// For a process of mine that was here before.
    NotThisLife,
    Malformed,
    /// It answers nothing that is still open: late, or twice.
    NotAsked,
    /// A newer one of its kind came first.
    Outdated,
    /// A push that brings nothing new: late, or twice.
    AlreadyKnown,
    /// A push that would leave a gap.
    Gap,
    TooManyOwners,
    TooManyRows,
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

    pub fn drain(&mut self) -> impl Iterator<Item = Output> + '_ {
        self.outputs.drain(..)
    }

    pub fn take(&mut self) -> Vec<Output> {
        core::mem::take(&mut self.outputs)
    }

    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }
}
