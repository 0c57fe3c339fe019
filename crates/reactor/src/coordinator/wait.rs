//! What is not done, and why not: for every operation, bucket and node that a coordinator would do something about and cannot.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use blueprint::{BucketId, Epoch, Instant, KeyspaceId, NodeId, OperationId, Unlike, Unrest};

use crate::words::span;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub about: Subject,
    pub until: Until,
    pub since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The coordinator itself.
    Coordinator,
    Node(NodeId),
    Bucket(BucketId),
    /// Steps are counted from 0.
    Operation {
        id: OperationId,
        step: u32,
    },
    /// That it rebalances by itself.
    Balance,
}

/// The condition that is unmet, and on whom it depends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Until {
    /// It has just started, or slept: it says nothing about anybody before everyone was asked afresh.
    EveryoneWasAsked {
        open: Vec<NodeId>,
    },
    /// It decides nothing without a reading. What else it says it waits for is as of the last one.
    MetaAnswers,
    SilentToMost {
        node: NodeId,
        reporting: usize,
        alive: usize,
    },
    /// Most reports died at once: who is alive has yet to say so.
    ReportsSettled,
    HeardByMost {
        node: NodeId,
        reporting: usize,
        alive: usize,
    },
    NameIsFree {
        node: NodeId,
        by: NodeId,
    },
    /// The primary departed, and nobody who may succeed is present, answers and holds the bucket.
    SuccessorAnswers {
        primary: NodeId,
        among: Vec<NodeId>,
    },
    /// Somebody is to leave, but nobody leaves on behalf of a primary that is silent or has lost the bucket.
    PrimaryHolds {
        primary: NodeId,
        leaves: NodeId,
    },
    Answers(NodeId),
    Seated {
        node: NodeId,
        primary: NodeId,
    },
    Leads {
        node: NodeId,
        primary: NodeId,
    },
    /// To leave now would leave the bucket with fewer members than wanted.
    EnoughMembers {
        leaves: NodeId,
        /// Members without it.
        others: usize,
        wanted: usize,
        comes: Comes,
    },
    Registered {
        child: BucketId,
        primary: NodeId,
    },
    /// They are to be one, and are not alike enough to be bound.
    Alike {
        bucket: BucketId,
        into: BucketId,
        why: Unlike,
    },
    Merged {
        bucket: BucketId,
        into: BucketId,
        primary: NodeId,
    },
    /// Another minimum is asked for: with fewer members than that the bucket would take no writes (R8).
    MembersForMinimum {
        members: usize,
        min: u8,
    },
    /// The keyspace was removed, and is kept until every holder has erased.
    Erased {
        keyspace: KeyspaceId,
        there: Vec<NodeId>,
        away: Vec<NodeId>,
    },
    /// Proposed; the blueprint does not show it yet.
    Accepted {
        what: String,
    },
    /// It was sent the blueprint, and says that it acts on an older one.
    ActsOn {
        node: NodeId,
        epoch: Epoch,
    },
    Resumed,
    /// Whoever looks after the node ends its process and starts it again. It leads so many buckets now.
    Restarted {
        node: NodeId,
        leads: usize,
    },
    /// Something else goes on, or somebody is away.
    Calm(Unrest),
    /// Something has changed a moment ago.
    Unchanged {
        for_long: Duration,
    },
    /// The last time that it did something by itself it did not end well.
    Rested {
        after: OperationId,
        for_long: Duration,
    },
}

/// Where another member is to come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Comes {
    /// These are being filled, and will be seated.
    Candidates(Vec<NodeId>),
    /// The primary enlists a node, as after a death (`recover`).
    ByRecovery,
    /// Every node that could take a copy has one.
    FromNowhere,
}

impl Until {
    /// Whose doing it is waited for; nobody's in particular when it is the meta group's or an operator's.
    pub fn on(&self) -> Vec<NodeId> {
        match self {
            Self::EveryoneWasAsked { open } => open.clone(),
            Self::SuccessorAnswers { primary, among } => {
                core::iter::once(*primary).chain(among.iter().copied()).collect()
            }
            Self::SilentToMost { node, .. }
            | Self::HeardByMost { node, .. }
            | Self::ActsOn { node, .. }
            | Self::Restarted { node, .. }
            | Self::Calm(Unrest::Departed(node) | Unrest::Drains(node))
            | Self::Answers(node) => Vec::from([*node]),
            Self::NameIsFree { by, .. } => Vec::from([*by]),
            Self::PrimaryHolds { primary, .. } | Self::Registered { primary, .. } | Self::Merged { primary, .. } => {
                Vec::from([*primary])
            }
            Self::Seated { node, primary } | Self::Leads { node, primary } => Vec::from([*primary, *node]),
            Self::MetaAnswers
            | Self::ReportsSettled
            | Self::Alike { .. }
            | Self::MembersForMinimum { .. }
            | Self::Accepted { .. }
            | Self::Calm(Unrest::UnderWay(_) | Unrest::Members(_) | Unrest::Merging(_))
            | Self::Unchanged { .. }
            | Self::Rested { .. }
            | Self::Resumed => Vec::new(),
            Self::Erased { there, away, .. } => there.iter().chain(away).copied().collect(),
            Self::EnoughMembers { comes, .. } => match comes {
                Comes::Candidates(nodes) => nodes.clone(),
                Comes::ByRecovery | Comes::FromNowhere => Vec::new(),
            },
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.about {
            Subject::Coordinator => write!(f, "this coordinator"),
            Subject::Node(node) => write!(f, "{node}"),
            Subject::Bucket(bucket) => write!(f, "{bucket}"),
            // As the plan numbers them, which people have before them.
            Subject::Operation { id, step } => write!(f, "{id}, step {}", step + 1),
            Subject::Balance => write!(f, "rebalancing by itself"),
        }?;
        write!(f, ": waits until {}", self.until)
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EveryoneWasAsked { open } => {
                write!(f, "everyone was asked afresh ({} did not answer yet)", List(open))
            }
            Self::MetaAnswers => write!(f, "the meta group answers"),
            Self::SilentToMost { node, reporting, alive } => {
                write!(f, "{node} is silent to most coordinators ({reporting} of {alive} say so)")
            }
            Self::ReportsSettled => {
                write!(f, "every coordinator has had the time to report again: the reports of most had run out at once")
            }
            Self::HeardByMost { node, reporting, alive } => {
                write!(f, "{node} is heard by most coordinators ({reporting} of {alive} do not hear it)")
            }
            Self::NameIsFree { node, by } => write!(f, "the name of {node} is free ({by} bears it)"),
            Self::SuccessorAnswers { primary, among } if among.is_empty() => {
                write!(f, "its primary {primary}, which departed, is back: nobody else has it all")
            }
            Self::SuccessorAnswers { primary, among } => {
                write!(f, "one of {} is present, answers and holds it: its primary {primary} has departed", List(among))
            }
            Self::PrimaryHolds { primary, leaves } => {
                write!(f, "its primary {primary} answers and holds it: until then {leaves} does not leave")
            }
            Self::Answers(node) => write!(f, "{node} answers, or has departed"),
            Self::Seated { node, primary } => write!(f, "{primary} has filled and seated {node}"),
            Self::Leads { node, primary } => write!(f, "{primary} has handed over to {node}"),
            Self::EnoughMembers { leaves, others, wanted, comes } => {
                write!(f, "there are {wanted} members without {leaves}, as many as wanted ({others} now; {comes})")
            }
            Self::Registered { child, primary } => write!(f, "{primary} has split off {child}"),
            Self::Alike { bucket, into, why } => write!(f, "{bucket} and {into} can be bound: {why}"),
            Self::Merged { bucket, into, primary } => write!(f, "{primary} has merged {bucket} into {into}"),
            Self::MembersForMinimum { members, min } => {
                write!(f, "there are {min} members, below which nothing would be written (there are {members})")
            }
            Self::Erased { keyspace, there, away } if there.is_empty() => write!(
                f,
                "{} returns and has erased what it holds of {keyspace}, or is removed for good: it has departed",
                List(away)
            ),
            Self::Erased { keyspace, there, .. } => {
                let has = if there.len() == 1 { "has" } else { "have" };
                write!(f, "{} {has} erased what is left of {keyspace}", List(there))
            }
            Self::Accepted { what } => write!(f, "the meta group has accepted {what}"),
            Self::ActsOn { node, epoch } => write!(f, "{node} acts on {epoch}, which it was sent"),
            Self::Resumed => write!(f, "somebody resumes it"),
            Self::Restarted { node, leads: 0 } => {
                write!(f, "{node} was started anew: {node} leads nothing now: restart it")
            }
            Self::Restarted { node, leads } => {
                write!(
                    f,
                    "{node} was started anew: restart it; it leads {leads}, and hands over when it is told to end"
                )
            }
            Self::Calm(unrest) => write!(f, "{unrest}"),
            Self::Unchanged { for_long } => write!(f, "nothing about the cluster has changed for {}", span(*for_long)),
            Self::Rested { after, for_long } => {
                let long = span(*for_long);
                write!(f, "{long} have passed since {after}, which it had begun, failed or was cancelled")?;
                write!(f, "; or until somebody says off, and on again")
            }
        }
    }
}

impl fmt::Display for Comes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Candidates(nodes) => write!(f, "on its way: {}", List(nodes)),
            Self::ByRecovery => write!(f, "the primary is to enlist another node"),
            Self::FromNowhere => write!(f, "no node is free for another copy: add one, or cancel this"),
        }
    }
}

struct List<'a>(&'a [NodeId]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "nobody");
        }
        for (i, node) in self.0.iter().enumerate() {
            let gap = if i == 0 { "" } else { ", " };
            write!(f, "{gap}{node}")?;
        }
        Ok(())
    }
}
