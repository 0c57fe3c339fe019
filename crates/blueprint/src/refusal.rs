//! Why a command was not accepted: what happened, what it means, what to do. These texts reach operators as they stand here.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::{
    BucketId, CoordinatorId, Epoch, KeyspaceId, NodeId, OperationId, Position, SlotSet, Term, Unlawful, Unlike, Unrest,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    // Nodes
    #[error(
        "`{0}` cannot be a name: names are 1 to 128 bytes without spaces or control characters (a zone may be empty). Choose \
         another"
    )]
    BadName(String),
    #[error(
        "{count} addresses, or one that is empty or longer than 256 bytes: a node has at most 16. Give only those that others \
         are to use"
    )]
    BadAddresses { count: usize },
    #[error(
        "the name {name} belongs to {by}, which is present: two nodes cannot share it. If {by} is gone, wait until it has \
         departed; otherwise choose another name"
    )]
    NodeNameTaken { name: String, by: NodeId },
    #[error("there is no node {0} in this cluster: it was never added, or has been removed. Look at the list of nodes")]
    UnknownNode(NodeId),
    #[error("{0} has departed: it can be given nothing to hold. Wait for its return, or choose a node that is present")]
    NodeDeparted(NodeId),
    #[error(
        "{0} drains, or is to go: it is given nothing, and shall lead nothing. End that first (undrain), or choose another node"
    )]
    NodeDrains(NodeId),
    #[error(
        "{node} still has a part in {buckets} bucket(s), {bucket} among them: removing it could lose their data. Drain it first"
    )]
    NodeStillNamed { node: NodeId, bucket: BucketId, buckets: usize },
    #[error(
        "{node} is present and still has to erase its copy of {bucket}, whose keyspace was removed. It will do so by itself: try \
         again in a while"
    )]
    NodeStillHolds { node: NodeId, bucket: BucketId },

    // Keyspaces
    #[error("the name {name} belongs to {by}: two keyspaces cannot share it. Choose another, or remove that one first")]
    KeyspaceNameTaken { name: String, by: KeyspaceId },
    #[error("there is no keyspace {0}: it was never created, or has been removed. Look at the list of keyspaces")]
    UnknownKeyspace(KeyspaceId),
    #[error("{0} replicas are not possible: a keyspace has at least 1 replica. Ask for 1 or more")]
    BadReplicas(u8),
    #[error(
        "a minimum of {min} in sync is not possible with {replicas} replicas: it could never accept a write. Choose 1 to \
         {replicas}"
    )]
    BadMinimum { min: u8, replicas: u8 },
    #[error("{rows} buckets are not possible: a keyspace has 1 to 16384 of them, as it has 16384 slots. Choose fewer")]
    BadBucketCount { rows: usize },
    #[error(
        "bucket {row} (counted from 0) of the placement has {nodes} nodes: it needs at least {min} to accept writes, and no \
         more than {replicas} replicas were asked for. Plan again"
    )]
    BadPlacement { row: usize, nodes: usize, min: u8, replicas: u8 },
    #[error(
        "bucket {row} (counted from 0) of the placement names {node} twice: two copies on one node are one. Plan again"
    )]
    PlacedTwice { row: usize, node: NodeId },

    // Buckets
    #[error("there is no bucket {0}: it was never created, or is not registered yet. Read the blueprint again")]
    UnknownBucket(BucketId),
    #[error(
        "{0} is gone: its keyspace was removed and every copy erased, and ids are not used twice. Nothing is left to do"
    )]
    BucketRetired(BucketId),
    #[error(
        "{0} belongs to a keyspace that is being removed: nothing about it changes any more. Nothing is left to do"
    )]
    BucketRemoved(BucketId),
    #[error(
        "{bucket} is not being removed (it is in {term}): its copies leave by a change of government, not like this"
    )]
    BucketGoverned { bucket: BucketId, term: Term },
    #[error(transparent)]
    Unlawful(#[from] Unlawful),

    // Splits
    #[error(
        "{0} bucket ids are reserved for splits that were never registered: something reserves and does not split. Find it \
         before reserving more"
    )]
    TooManyReserved(usize),
    #[error(
        "{0} was never reserved: a split needs an id that the blueprint issued for it. Reserve one and split with that"
    )]
    NotReserved(BucketId),
    #[error(
        "{0} exists already, and was not born by this split: ids are used once. The slots belong to whoever has them now"
    )]
    BornElsewhere(BucketId),
    #[error("slots {slots} are not all in {parent}: they cannot be split off from it. Read the blueprint again")]
    NotOfParent { parent: BucketId, slots: SlotSet },
    #[error("a split of {parent} at {at} cannot have committed: the bucket is in {term}. Read the blueprint again")]
    NoSuchSplit { parent: BucketId, at: Position, term: Term },

    // Merges
    #[error("{absorbed} and {into} cannot be merged as they are: {why}")]
    CannotMerge { absorbed: BucketId, into: BucketId, why: Unlike },
    #[error("{into} cannot have absorbed {absorbed} at {at}: the two are not bound. Read the blueprint again")]
    NotMerging { absorbed: BucketId, into: BucketId, at: Position },

    // Departures and reports
    #[error(
        "{node} is reported silent by {reporting} of the {alive} coordinators that are alive: it departs only when most of them \
         say so. Nothing is to be done: they go on watching"
    )]
    NotSilentToMost { node: NodeId, reporting: usize, alive: usize },
    #[error(
        "nobody departs now, {node} included: no coordinator was heard for a while, and those who hear it may not have said so yet.          Nothing is to be done: it takes a few seconds"
    )]
    ReportsUnsettled { node: NodeId },
    #[error(
        "{node} is still reported silent by {reporting} of the {alive} coordinators that are alive: it returns when most of them \
         hear it. Look whether it runs and can be reached"
    )]
    NotHeardByMost { node: NodeId, reporting: usize, alive: usize },
    #[error(
        "the report of {by} counted until {late_ms} ms ago: it was long under way, or made from an old reading. Read, and report \
         again"
    )]
    ReportExpired { by: CoordinatorId, late_ms: u64 },
    #[error("a report counts for at least an instant and at most a minute. Configure the coordinator accordingly")]
    BadLifetime,
    #[error("{0} coordinators report already: no more are listened to. Run fewer of them")]
    TooManyCoordinators(usize),
    #[error("{0} buckets in one change are too many. Ask for some of them, then for the others")]
    TooManyParts(usize),

    // Operations
    #[error(
        "{0} is another operation: somebody was faster. Read the blueprint again, look whether yours still makes sense, and start \
         it under the next id"
    )]
    OperationTaken(OperationId),
    #[error("{id} cannot be started: the next operation is {next}. Read the blueprint again, and plan by what it says")]
    OperationNotNext { id: OperationId, next: OperationId },
    #[error("there is no operation {0}: it was never started, or is over for so long that it was forgotten")]
    UnknownOperation(OperationId),
    #[error("{0} is over already: nothing about it changes any more. Look at how it ended")]
    OperationOver(OperationId),
    #[error("{0} is paused. Resume it first")]
    OperationPaused(OperationId),
    #[error("{0} is planned, and was not begun: apply it first")]
    OperationNotBegun(OperationId),
    #[error("step {step} of {id} has not come true yet (steps are counted from 0). It is waited for")]
    StepOpen { id: OperationId, step: u32 },
    #[error("step {step} of {id} is not begun: it is at step {at} (counted from 0). Read the blueprint again")]
    StepNotReached { id: OperationId, step: u32, at: u32 },
    #[error("an operation of {steps} steps is not possible: it has 1 to 1024. Split it into several")]
    BadStepCount { steps: usize },
    #[error("{0} operations are under way: no more are started. Wait for some to end, or cancel them")]
    TooManyOperations(usize),
    #[error("{bucket} is being changed by {by}: one operation at a time. Wait for it to end, or cancel it")]
    BucketBusy { bucket: BucketId, by: OperationId },
    #[error(
        "the split was planned for the child {child}, but the next bucket is {next}: something came between. Read the blueprint \
         again, and plan by what it says"
    )]
    ChildNotNext { child: BucketId, next: BucketId },
    #[error(
        "at no bytes per second {0} would never end. To stop it for a while, pause it; to let it go on at full speed, say off"
    )]
    BadThrottle(OperationId),
    #[error("say who starts it, or why it is cancelled, in 1 to 256 bytes without control characters")]
    BadWords,
    #[error(
        "what is asked for takes {bytes} bytes to say, and {most} are the most: ask for one part of it after the other"
    )]
    LongWish { bytes: usize, most: usize },
    #[error("a process cannot be the life number {0} of its data directory: that is damage. Look at the node's data")]
    BadLife(u64),
    #[error(
        "a repair of {0} is no step of a plan: it is asked for by itself, with a dry run of its own ('godwit repair {0}')"
    )]
    RepairPlanned(BucketId),
    #[error(
        "{node} is a member of {bucket} and is present: it may have all that was acknowledged, and a repair would throw that away. Look at \
         what it waits for ('godwit why {bucket}'). If its data is gone for good, end its process and wait until it has departed"
    )]
    MemberPresent { bucket: BucketId, node: NodeId },
    #[error(
        "{bucket} is being merged with {other}, and both are repaired at once: from copies of both on one node, or empty. Read the \
         blueprint again, and look for both"
    )]
    RepairsBoth { bucket: BucketId, other: BucketId },
    #[error("{0} is not being merged: no copy of another bucket has to do with its repair. Read the blueprint again")]
    RepairsOne(BucketId),

    // What the cluster does by itself
    #[error("the cluster does not rebalance by itself: somebody has to ask for that ('godwit auto-rebalance on')")]
    NotAutomatic,
    #[error("'automatic: rebalance' is what the cluster says of what it starts by itself. Say who you are")]
    SaysAutomatic,
    #[error(
        "it was planned by {based_on}, and the blueprint is at {epoch}: it may not make sense any more. Plan again"
    )]
    MovedOn { based_on: Epoch, epoch: Epoch },
    #[error("the cluster does not rebalance by itself before {0}. Nothing is to be done: it looks again then")]
    Unrest(Unrest),
}
