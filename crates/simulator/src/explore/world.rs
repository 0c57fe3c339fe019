//! One state of everything. It is small: the parts are numbered, and a world is a handful of numbers.

use std::hash::Hash;
use std::rc::Rc;

use blueprint::{Breach, BucketId, Change, Conduct, Position, Slot, SlotSet, Term};
use phaser::{Envelope, Fork, Message};

use super::facts::{Committed, Fault, Standing};
use super::meta::BUCKETS;
use super::replica::{Beside, Deed, NOW, Replica, SLOTS, Tables};

/// Nodes that exist at most.
pub(super) const NODES: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// Bucket by bucket, node by node; 0 where there is none.
    pub(super) replicas: [u32; BUCKETS * NODES],
    pub(super) seen: [Seen; NODES],
    pub(super) meta: u32,
    pub(super) desk: u32,
    pub(super) facts: u32,
    /// Forks that wait until a node knows a blueprint that is new enough to judge them by.
    pub(super) deferred: [u32; NODES],
    pub(super) budget: Budget,
    /// The incarnation that each node lost together with its disk; 0 when it lost none (R10).
    pub(super) lost: [u8; NODES],
    /// Messages in flight, sorted. They arrive in any order, or never.
    pub(super) mail: Vec<u32>,
}

/// The newest blueprint that a node has acted on, durably; and whether this life of its process has been told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pub(super) epoch: u8,
    pub(super) told: bool,
}

/// How much of everything may still happen. Without it nothing would ever be exhausted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// How often time passes.
    pub ticks: u8,
    pub crashes: u8,
    /// Disks that are lost for good.
    pub losses: u8,
    pub writes: u8,
    pub reads: u8,
    /// Changes of government in all, whoever proposes them.
    pub changes: u8,
    pub usurps: u8,
    pub dismissals: u8,
    pub enlistments: u8,
    /// A new Reign under a secondary, the members staying as they are.
    pub renewals: u8,
    pub hand_overs: u8,
    pub splits: u8,
    /// Parent and child are bound to be one, whenever that is allowed.
    pub binds: u8,
    /// Proposals that are refused although a copy of them may still be accepted (R7).
    pub refusals: u8,
}

pub(super) fn place(bucket: usize, node: usize) -> usize {
    bucket * NODES + node
}

pub(super) fn bucket_of(place: usize) -> usize {
    place / NODES
}

pub(super) fn node_of(place: usize) -> usize {
    place % NODES
}

/// A fork that waits for a blueprint of this epoch.
#[derive(Clone, Hash)]
pub(super) struct Deferred {
    pub(super) fork: Fork,
    pub(super) tables: Tables,
    pub(super) needs: u8,
}

/// A message in flight.
#[derive(Clone, Hash)]
pub(super) struct Letter {
    pub(super) bucket: u8,
    pub(super) envelope: Envelope,
}

impl Letter {
    pub(super) fn to(&self) -> usize {
        place(usize::from(self.bucket), self.envelope.to.node.0 as usize - 1)
    }

    /// Can it never again make a difference to this replica? Terms only rise, and what is durable stays.
    pub(super) fn is_dead<C: Conduct>(&self, receiver: &Lore) -> bool {
        if self.envelope.to.incarnation.0 < receiver.incarnation {
            return true;
        }
        let outdated = self.envelope.message.term().0 < receiver.promised;
        match self.envelope.message {
            Message::Prepare { .. } | Message::Beacon { .. } | Message::Begin { .. } | Message::Fill { .. } => outdated,
            Message::Prepared { .. } | Message::Differs { .. } | Message::BeaconAck { .. } | Message::Filled { .. } => {
                outdated && !C::breaks(Breach::AckFromEarlierTerm)
            }
            Message::Outranked { .. } | Message::Abdicate { .. } => false,
        }
    }
}

/// A replica with what is often asked about it.
pub(super) struct Known<C> {
    pub(super) replica: Replica<C>,
    pub(super) lore: Lore,
}

pub(super) struct Lore {
    /// A wake is due.
    pub(super) due: bool,
    /// It leads, or is about to: requests are worth sending.
    pub(super) rules: bool,
    /// The durable promise.
    pub(super) promised: u64,
    pub(super) incarnation: u64,
    pub(super) joint: bool,
    /// One bit per slot: it owns them; it would answer a read of them right now.
    pub(super) owned: u8,
    pub(super) readable: u8,
    /// Records that a crash could take, and in how many writes they are.
    pub(super) unsynced: usize,
    pub(super) writes: u8,
    pub(super) standing: Vec<Standing>,
}

impl<C: Conduct + Hash> Known<C> {
    pub(super) fn new(replica: Replica<C>) -> Self {
        let phaser = &replica.phaser;
        let slots = (0..SLOTS as u8).filter(|slot| phaser.owned().contains(Slot(u16::from(*slot))));
        let standing = slots.clone().filter(|_| !phaser.is_given()).filter_map(|slot| {
            let index = phaser.stands_at(Slot(u16::from(slot)))?.0;
            Some(Standing { slot, index, writes: replica.tables[usize::from(slot)].clone() })
        });
        let readable = slots.clone().filter(|slot| replica.answers_reads(Slot(u16::from(*slot))));
        let lore = Lore {
            due: phaser.deadline().is_some_and(|at| at <= NOW),
            rules: phaser.leads().is_some() || phaser.waits_for().is_some(),
            promised: replica.durable.as_ref().map_or(0, |durable| durable.promised.0),
            incarnation: phaser.me().incarnation.0,
            joint: replica.joint.is_some(),
            owned: slots.clone().fold(0, |bits, slot| bits | 1 << slot),
            readable: readable.fold(0, |bits, slot| bits | 1 << slot),
            unsynced: replica.unsynced(),
            writes: replica.pending.len() as u8,
            standing: standing.collect(),
        };
        Self { replica, lore }
    }
}

/// What one input does to one replica, with everything in it numbered.
pub(super) struct Effect {
    pub(super) replica: u32,
    pub(super) letters: Vec<u32>,
    pub(super) proposals: Vec<(Term, Change)>,
    pub(super) questions: Vec<u64>,
    pub(super) registers: Vec<(BucketId, SlotSet, Position)>,
    pub(super) merges: Vec<Position>,
    pub(super) forks: Vec<(Fork, Tables)>,
    pub(super) beside: Vec<Beside>,
    pub(super) deeds: Vec<Deed>,
    pub(super) committed: Vec<Committed>,
}

/// The machine itself may break: a panic is a violation like any other.
pub(super) type Outcome = Result<Rc<Effect>, Fault>;

/// The inputs of a replica, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stimulus {
    Letter(u32),
    Written {
        writes: u8,
    },
    Wake,
    View(u32),
    Told {
        nonce: u64,
        view: u32,
    },
    Rejected {
        term: u64,
    },
    Write {
        write: u8,
        slot: u8,
    },
    Read {
        read: u8,
        slot: u8,
    },
    HandOver {
        to: u8,
    },
    Split,
    Forked,
    /// A committed Absorb names that Freeze.
    Named {
        at: Position,
    },
    /// How the replica beside it ended.
    Met {
        meeting: u32,
    },
    /// The tables of these slots, one bit each, are those of the replica beside it now.
    Given {
        slots: u8,
    },
    Retire,
    /// `child` is where the log of the child that survives on the same node began.
    Crash {
        kept: u16,
        child: Option<Position>,
    },
}
