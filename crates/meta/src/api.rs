//! What the rest of a node asks of the meta group, however it is kept.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use blueprint::{Applied, Command, Epoch, History, MetaState, NodeId, Refusal, Report};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::Pending;

pub trait Meta: Send + Sync {
    /// Asks for a change of the blueprint. It is never asked for twice: after an unknown outcome that is up to the caller.
    fn propose(&self, command: Command) -> Pending<'_, Result<Applied, ProposeError>>;

    /// What a coordinator says about the nodes.
    fn report(&self, report: Report) -> Pending<'_, Result<Applied, ProposeError>>;

    /// The state as it was at some moment after the call and before its end; never an older one.
    fn read(&self) -> Pending<'_, Result<Arc<MetaState>, ReadError>>;

    /// The state as its leader has it, if most voters followed that a moment ago: at most a few heartbeats old, and nobody is
    /// asked for it who need not be. For those who compare and set: what they decide on may be old by the time they are heard, whatever they read.
    fn peek(&self) -> Pending<'_, Result<Arc<MetaState>, ReadError>>;

    /// What happened, as it was remembered at some moment after the call.
    fn history(&self) -> Pending<'_, Result<Arc<History>, ReadError>>;

    /// Whatever this node knows, which may be old. It never goes back.
    fn watch(&self) -> watch::Receiver<Arc<MetaState>>;

    fn status(&self) -> MetaStatus;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Certainly not done, and it would not be done now either.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Reading that it is not done says nothing: it may still come (R7).
    #[error(
        "the outcome is unknown: the command was sent to the meta group, and its leader was lost before it answered. It may have been \
         done, or may yet be. Read the blueprint; if it is not done, ask again"
    )]
    Unknown,
    /// Certainly not done.
    #[error("nothing was changed: {0}")]
    Unavailable(#[from] Unavailable),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the blueprint could not be read: {0}")]
pub struct ReadError(#[from] pub Unavailable);

/// The meta group did not answer: who of it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unavailable {
    /// As far as known here.
    pub voters: BTreeSet<NodeId>,
    pub answering: BTreeSet<NodeId>,
    /// Nobody is asked any more: this node's part in it ended.
    pub stopped: Option<String>,
}

impl std::error::Error for Unavailable {}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.stopped {
            return write!(f, "the meta group has stopped on this node ({why}). Restart the node");
        }
        let (voters, answering) = (self.voters.len(), self.answering.len());
        let silent = Names(self.voters.difference(&self.answering).copied().collect(), "or");
        if voters == 0 {
            return write!(
                f,
                "no node that was asked knows the meta group. Look whether the nodes that this one was told to join are up, and can be \
                 reached"
            );
        }
        if 2 * answering > voters {
            return write!(
                f,
                "the meta group has no leader: {answering} of {voters} voters answer ({}), so it should have one within a second or \
                 two. Try again",
                Names(self.answering.iter().copied().collect(), "and")
            );
        }
        write!(f, "no quorum: {answering} of {voters} voters answer")?;
        if answering > 0 {
            write!(f, " ({})", Names(self.answering.iter().copied().collect(), "and"))?;
        }
        write!(
            f,
            ". The data is served as before, but nothing about the cluster can change. Start {silent}, or look why this node cannot \
             reach them; if most voters are lost for good, see `godwit repair-meta`"
        )
    }
}

/// `n1, n2 or n3`.
struct Names(Vec<NodeId>, &'static str);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, node) in self.0.iter().enumerate() {
            match i {
                0 => write!(f, "{node}")?,
                _ if i + 1 == self.0.len() => write!(f, " {} {node}", self.1)?,
                _ => write!(f, ", {node}")?,
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MetaStatus {
    pub cluster: ClusterId,
    pub me: NodeId,
    pub role: Role,
    /// As far as known here.
    pub leader: Option<NodeId>,
    pub voters: BTreeSet<NodeId>,
    /// Catching up, to become voters; or on their way out.
    pub learners: BTreeSet<NodeId>,
    /// The voters change: until that is over, most of the former ones are needed as well as most of the new ones.
    pub changing: bool,
    /// Of the consensus; no government's.
    pub term: u64,
    pub last_entry: u64,
    pub applied: u64,
    /// The log begins after this one.
    pub purged: u64,
    pub snapshot: u64,
    /// On a leader: how long ago most voters were heard.
    pub quorum_heard: Option<Duration>,
    pub epoch: Epoch,
    /// This node's part ended by itself: why.
    pub stopped: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Role {
    Leader,
    Follower,
    Candidate,
    Learner,
    /// Not a member: it asks those who are.
    Outsider,
}

/// A random number, made when a cluster is: two clusters never mix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClusterId(pub u128);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable(voters: &[u64], answering: &[u64]) -> String {
        let set = |ids: &[u64]| ids.iter().map(|id| NodeId(*id)).collect();
        Unavailable { voters: set(voters), answering: set(answering), stopped: None }.to_string()
    }

    #[test]
    fn says_whom_to_start() {
        let text = unavailable(&[1, 2, 3], &[1]);
        assert!(text.starts_with("no quorum: 1 of 3 voters answer (n1). "), "{text}");
        assert!(text.contains("Start n2 or n3"), "{text}");
        assert!(unavailable(&[1, 2, 3], &[1, 3]).contains("2 of 3 voters answer (n1 and n3)"));
        assert!(unavailable(&[1, 2, 3], &[]).starts_with("no quorum: 0 of 3 voters answer. "));
        assert!(unavailable(&[], &[]).starts_with("no node that was asked"));
    }
}
