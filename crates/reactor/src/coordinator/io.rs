//! The only ways in and out of a coordinator.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use blueprint::{Blueprint, BucketId, Epoch, Incarnation, MetaCommand, MetaState, NodeId, Position, Refusal, SlotSet};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug)]
pub enum Input {
    Wake,
    /// A node answered the probe of that round.
    Probed {
        node: NodeId,
        round: u64,
        answer: Answer,
    },
    /// A node says by itself which epoch it acts on: what a push is answered with. It is no sign of life: it may be late.
    Echoed {
        node: NodeId,
        epoch: Epoch,
    },
    /// The answer to `ReadMeta`: a linearizable reading.
    MetaRead {
        state: Arc<MetaState>,
    },
    /// Whether its node leads the meta group: then it knows of every change before anybody else.
    LeadsMeta(bool),
    /// A proposal was refused.
    Rejected {
        why: Refusal,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Ask a node whether it is there, and what it holds of these buckets (mostly of none).
    Probe { node: NodeId, round: u64, about: Vec<BucketId> },
    /// To the meta group. Reports go this way too.
    Propose(MetaCommand),
    /// To a node that acts on an older one. A driver that knows which sends only what differs.
    Push { node: NodeId, blueprint: Arc<Blueprint> },
    /// To the node of a bucket's primary; repeated until the blueprint shows the outcome.
    Order { node: NodeId, order: Order },
    /// Read all that the meta group keeps. A driver that holds some epoch fetches only what differs.
    ReadMeta,
    /// Find out whether it is worth rebalancing this blueprint, and if so propose it. Nobody waits for an answer.
    Rebalance { epoch: Epoch },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    HandOver { bucket: BucketId, to: NodeId },
    Split { bucket: BucketId, child: BucketId, slots: SlotSet },
}

/// What a node says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The newest epoch that it acts on.
    pub echoed: Epoch,
    /// Of the buckets that were asked about, those that it has a replica of.
    pub holds: BTreeMap<BucketId, Holding>,
}

/// A replica in brief.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    pub incarnation: Incarnation,
    /// The last entry of its log.
    pub last: Position,
    /// Nothing of it is missing.
    pub whole: bool,
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
