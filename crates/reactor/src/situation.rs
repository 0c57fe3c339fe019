//! Everything that a reaction depends on. Nothing else is looked at, nothing is remembered.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use blueprint::{Blueprint, BucketId, Epoch, Incarnation, Instant, LaneId, NodeId};

use crate::directory::{BucketRow, Directory};
use crate::holding::Holding;
use crate::marks::Marks;

#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    pub me: NodeId,
    /// The thread of the node that asks: only its buckets are looked at.
    pub lane: LaneId,
    pub now: Instant,
    /// The newest epoch acted on, durably (R11), by all families of buckets in this lane.
    pub epoch: Epoch,
    /// Those that an earlier life acted on more for: it dealt them out to other lanes.
    pub ahead: &'a BTreeMap<u64, Epoch>,
    /// What was named up to here may have been here, although nothing says so: the disk was damaged. 0 if it was not.
    pub doubt: Epoch,
    /// The newest blueprint that is here: newer than `epoch` while it is on its way to be acted on.
    pub blueprint: &'a Blueprint,
    pub directory: &'a Directory,
    pub replicas: &'a BTreeMap<BucketId, Holding>,
    /// Replicas that are here, not used, and may lack the end of what they once answered (R10, level `memory`).
    pub aside: &'a BTreeMap<BucketId, BucketRow>,
    /// Replicas that were here and are no more, erased or damaged beyond use: under which incarnation (R10).
    pub gone: &'a BTreeMap<BucketId, Incarnation>,
    /// Buckets of which an operation speaks: it decides who has a copy, not the rules that look after strays.
    pub operated: &'a BTreeSet<BucketId>,
    pub marks: &'a Marks,
    pub read: Read<'a>,
    pub limits: &'a Limits,
}

impl Situation<'_> {
    /// The newest epoch acted on for this bucket: what was named until then has been here.
    pub(crate) fn epoch_of(&self, bucket: BucketId) -> Epoch {
        self.ahead.get(&bucket.family()).copied().unwrap_or(self.epoch)
    }

    /// The newest epoch acted on for any of its buckets: what is older is ignored (R11).
    pub(crate) fn newest(&self) -> Epoch {
        self.ahead.values().copied().fold(self.epoch, Epoch::max)
    }

    /// The buckets of this lane that the blueprint describes.
    pub(crate) fn described(&self) -> impl Iterator<Item = BucketId> {
        self.blueprint.buckets.keys().copied().filter(|bucket| self.lane.holds(*bucket))
    }
}

/// The linearizable read of the blueprint that R11 asks for.
#[derive(Clone, Copy, Debug)]
pub enum Read<'a> {
    None,
    UnderWay { begun: Instant },
    Answered { begun: Instant, blueprint: &'a Blueprint },
}

/// Every number that the rules wait by or stop at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A replica that nobody names is kept at least this long (R11). At least the lease plus its margin: what is erased forgets
    /// what it granted.
    pub grace: Duration,
    /// A read of the blueprint is good for this long after it began, and asked for again when unanswered for as long.
    pub read_patience: Duration,
    /// A lost copy is replaced only after this long: most nodes come back by themselves, and backfill costs.
    pub recovery_delay: Duration,
    /// So many recoveries as may be under way in the cluster begin together, the next ones this much later: nodes decide by
    /// themselves, and would otherwise all begin at once.
    pub recovery_pace: Duration,
    /// Candidates in the whole cluster beyond which no further recovery begins: they share the network with the clients.
    pub recoveries: usize,
    /// Candidates on one node beyond which no further one is sent there.
    pub recoveries_per_node: usize,
    /// A primary or secondary that has said nothing for this long is worth a word to the operator.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(1),
            read_patience: Duration::from_secs(1),
            recovery_delay: Duration::from_secs(30),
            recovery_pace: Duration::from_secs(1),
            recoveries: 8,
            recoveries_per_node: 2,
            silence: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// What a set of numbers must satisfy; the text says which one to change.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.recoveries == 0 || self.recoveries_per_node == 0 {
            return Err("recoveries and recoveries_per_node must be above zero: nothing would ever be replaced");
        }
        if self.read_patience.is_zero() {
            return Err("read_patience must be above zero: every read would be too old when it is answered");
        }
        Ok(())
    }
}
