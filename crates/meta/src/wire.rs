//! What nodes ask each other about the blueprint, as bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use blueprint::{
    Applied, Blueprint, Command, Epoch, History, Instant, MetaCommand, MetaState, NodeId, Refusal, Reports,
};
use bytes::Bytes;
use openraft::error::InstallSnapshotError;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest,
    VoteResponse,
};
use serde::{Deserialize, Serialize};

use crate::ClusterId;
use crate::beat::Heard;
use crate::raft::{LogId, Types};

/// Raised whenever the bytes of one version could be misread by another.
const VERSION: u8 = 5;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    /// None from a node that wants to join and cannot know.
    pub(crate) cluster: Option<ClusterId>,
    pub(crate) request: Request,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<u64>),
    Snapshot(InstallSnapshotRequest<Types>),
    Propose(MetaCommand),
    /// The asker has the blueprint of that epoch already.
    Read {
        known: Epoch,
    },
    /// `AddNode`, from the node itself. Whoever gets this does all the asking: the new node can reach only a few.
    Join(Command),
    Ping,
    /// As `Read`, and the leader need not prove that it leads.
    Peek {
        known: Epoch,
    },
    /// Does it hear a leader? From a voter that does not.
    Hear,
    /// What happened, as of a moment after this is asked.
    History,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Append(AppendEntriesResponse<u64>),
    Vote(VoteResponse<u64>),
    Snapshot(Result<InstallSnapshotResponse<u64>, InstallSnapshotError>),
    Done(Applied),
    Refused(Refusal),
    /// It may have been appended.
    Unknown,
    /// Certainly not appended.
    NotLeader(Guide),
    State(StateAnswer, Guide),
    Joined {
        cluster: ClusterId,
        state: StateAnswer,
        guide: Guide,
    },
    Pong(Guide),
    OtherCluster(ClusterId),
    /// In words.
    Failed(String),
    Heard(Heard),
    History(History),
}

/// Whom to ask instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Guide {
    pub(crate) leader: Option<NodeId>,
    pub(crate) voters: BTreeSet<NodeId>,
    /// The entry that made them voters: the later one is right.
    pub(crate) since: Option<LogId>,
}

/// The blueprint is by far the largest part, and changes least.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StateAnswer {
    blueprint: Option<Blueprint>,
    epoch: Epoch,
    reports: Reports,
    echoes: std::collections::BTreeMap<NodeId, Epoch>,
    clock: Instant,
}

impl StateAnswer {
    pub(crate) fn new(state: &MetaState, known: Epoch) -> Self {
        let epoch = state.blueprint.epoch;
        let blueprint = (epoch != known).then(|| state.blueprint.as_ref().clone());
        Self { blueprint, epoch, reports: state.reports.clone(), echoes: state.echoes.clone(), clock: state.clock }
    }

    /// None if the answer leaves out a blueprint that is not known here.
    pub(crate) fn into_state(self, known: &MetaState) -> Option<MetaState> {
        let blueprint = match self.blueprint {
            Some(blueprint) => Arc::new(blueprint),
            None if known.blueprint.epoch == self.epoch => Arc::clone(&known.blueprint),
            None => return None,
        };
        // The history is asked for by itself.
        let (history, wall) = (Arc::clone(&known.history), known.wall);
        Some(MetaState { blueprint, reports: self.reports, echoes: self.echoes, clock: self.clock, history, wall })
    }
}

pub(crate) fn encode<T: Serialize>(message: &T) -> Bytes {
    let bytes = postcard::to_extend(message, vec![VERSION]);
    Bytes::from(bytes.expect("every collection has a length and memory is all it takes"))
}

pub(crate) fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, String> {
    match bytes.split_first() {
        Some((&VERSION, body)) => postcard::from_bytes(body).map_err(|error| format!("it cannot be read ({error})")),
        Some((other, _)) => {
            Err(format!("it has format {other}, and only {VERSION} is known here: the node runs another release"))
        }
        None => Err("it is empty".to_owned()),
    }
}
