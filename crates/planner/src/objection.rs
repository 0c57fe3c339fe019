//! Why a wish is not planned: what happened, what it means, what to do. These texts reach operators as they stand here.

use alloc::vec::Vec;
use core::fmt;

use blueprint::{BucketId, KeyspaceId, NodeId, OperationId, SlotSet, Unlike};

use crate::words::size;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    // Nodes
    #[error("there is no node {0} in this cluster: it was never added, or has been removed. Look at the list of nodes")]
    UnknownNode(NodeId),
    #[error("{0} has departed: it can be given nothing. Wait for its return, or choose a node that is present")]
    DepartedNode(NodeId),
    #[error(
        "{0} drains, or is to go: it is given nothing and shall lead nothing. End that first (undrain), or choose another node"
    )]
    DrainingNode(NodeId),
    #[error(
        "the restart of {node} takes {steps} steps, as it has a part in so many buckets, and an operation has at most 1024. Let \
         others have some of them first"
    )]
    TooManySteps { node: NodeId, steps: usize },
    #[error("{0} cannot take the place of itself. Choose another node")]
    SameNode(NodeId),
    #[error(
        "{} would be needed on {node}, and {} are free: it would run out of disk. Give it more, or choose another node",
        size(*needed),
        size(*free)
    )]
    OutOfDisk { node: NodeId, needed: u64, free: u64 },

    // Keyspaces
    #[error("there is no keyspace {0}: it was never created, or has been removed. Look at the list of keyspaces")]
    UnknownKeyspace(KeyspaceId),
    #[error("a keyspace has 1 to 16384 buckets, as it has 16384 slots: {0} are not possible. Choose another number")]
    BadBucketCount(usize),
    #[error("a keyspace has at least 1 replica. Ask for 1 or more")]
    NoReplicas,
    #[error(
        "{replicas} copies need as many nodes, and {nodes} are present and do not drain: two copies on one node are one. Add \
         nodes, or ask for fewer copies"
    )]
    TooFewNodes { replicas: u8, nodes: usize },

    // Buckets
    #[error("there is no bucket {0}: it was never created, or has been removed. Read the blueprint again")]
    UnknownBucket(BucketId),
    #[error("{by} works on {buckets}: one operation at a time. Wait for it to end, or cancel it")]
    BucketBusy { by: OperationId, buckets: Buckets },
    #[error(
        "{node} has departed and still leads {buckets}: nobody can hand over or be seated there. Others will lead in a moment: \
         plan again then"
    )]
    PrimaryDeparted { node: NodeId, buckets: Buckets },
    #[error("{buckets} and {with} are being merged: nothing else can be done with them. Wait for that to end")]
    Merging { with: BucketId, buckets: Buckets },
    #[error("{bucket} and {into} cannot be merged: {why}. Choose two that were split from each other")]
    CannotMerge { bucket: BucketId, into: BucketId, why: Unlike },
    #[error("{node} already has a part in {buckets}: two copies on one node are one. Choose another node")]
    AlreadyMember { node: NodeId, buckets: Buckets },
    #[error("{node} has no part in {buckets}. Look at who has, or give it one first (move-replica)")]
    NotAMember { node: NodeId, buckets: Buckets },
    #[error(
        "{node} is in zone `{zone}`, where {buckets} would then have more copies than needed: one zone lost would be more than \
         one copy lost, and there are nodes in other zones. Choose one of those"
    )]
    WrongZone { node: NodeId, zone: alloc::string::String, buckets: Buckets },
    #[error(
        "no node has room for another copy of {buckets}: whoever could take it would run out of disk. Add a node, or give those \
         that are there more disk"
    )]
    NoRoom { buckets: Buckets },
    #[error(
        "{buckets} would be left with {left} copies, and {wanted} are wanted: every node that is present and does not drain has \
         one already. Add a node first, or ask for fewer copies"
    )]
    FewerCopies { wanted: usize, left: usize, buckets: Buckets },
    #[error(
        "{node} leads {buckets}, and no other member is there to lead: without it nobody could write. Add a copy elsewhere first, or \
         end the draining of another member"
    )]
    NobodyToLead { node: NodeId, buckets: Buckets },

    // Slots
    #[error("no slots were named. Name some, like 0-1000")]
    NoSlots,
    #[error("slots {slots} were named twice: they can go to one node only. Name each of them once")]
    SlotsTwice { slots: SlotSet },
    #[error("slots {slots} are not in {bucket}: it cannot part with them. Look at what it has")]
    SlotsNotCovered { bucket: BucketId, slots: SlotSet },
    #[error("{bucket} would be left without slots: that is no split. Leave it at least one, or move it as a whole")]
    AllSlots { bucket: BucketId },
    #[error("{bucket} has one slot, and a slot cannot be split. Choose another bucket")]
    OneSlot { bucket: BucketId },
}

/// Those that an objection is about. In words: the first few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets(pub Vec<BucketId>);

impl Buckets {
    /// As many are named as a person reads.
    const NAMED: usize = 3;
}

impl From<BucketId> for Buckets {
    fn from(bucket: BucketId) -> Self {
        Self([bucket].into())
    }
}

impl fmt::Display for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = if self.0.len() > Self::NAMED + 1 { Self::NAMED } else { self.0.len() };
        for (at, bucket) in self.0[..named].iter().enumerate() {
            let between = match at {
                0 => "",
                _ if at + 1 == self.0.len() => " and ",
                _ => ", ",
            };
            write!(f, "{between}{bucket}")?;
        }
        if named < self.0.len() {
            write!(f, " and {} more buckets", self.0.len() - named)?;
        }
        Ok(())
    }
}

impl Objection {
    /// Adds an objection, or its buckets to one that says the same of others.
    pub(crate) fn add(mut self, to: &mut Vec<Self>) {
        let mine = self.take_buckets();
        for known in to.iter_mut() {
            let mut all = known.take_buckets();
            let same = *known == self;
            if same {
                all.0.extend(mine.0.iter().copied());
            }
            known.set_buckets(all);
            if same {
                return;
            }
        }
        self.set_buckets(mine);
        to.push(self);
    }

    fn take_buckets(&mut self) -> Buckets {
        self.buckets().map(core::mem::take).unwrap_or_default()
    }

    fn set_buckets(&mut self, buckets: Buckets) {
        if let Some(mine) = self.buckets() {
            *mine = buckets;
        }
    }

    fn buckets(&mut self) -> Option<&mut Buckets> {
        match self {
            Self::BucketBusy { buckets, .. }
            | Self::PrimaryDeparted { buckets, .. }
            | Self::Merging { buckets, .. }
            | Self::AlreadyMember { buckets, .. }
            | Self::NotAMember { buckets, .. }
            | Self::WrongZone { buckets, .. }
            | Self::NoRoom { buckets }
            | Self::FewerCopies { buckets, .. }
            | Self::NobodyToLead { buckets, .. } => Some(buckets),
            Self::UnknownNode(_)
            | Self::DepartedNode(_)
            | Self::DrainingNode(_)
            | Self::SameNode(_)
            | Self::TooManySteps { .. }
            | Self::OutOfDisk { .. }
            | Self::UnknownKeyspace(_)
            | Self::BadBucketCount(_)
            | Self::NoReplicas
            | Self::TooFewNodes { .. }
            | Self::UnknownBucket(_)
            | Self::CannotMerge { .. }
            | Self::NoSlots
            | Self::SlotsTwice { .. }
            | Self::SlotsNotCovered { .. }
            | Self::AllSlots { .. }
            | Self::OneSlot { .. } => None,
        }
    }
}
