//! openraft's messages, over whatever carries ours.

use std::sync::Arc;
use std::time::Duration;

use blueprint::NodeId;
use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest,
    VoteResponse,
};
use openraft::{AnyError, EmptyNode, RaftNetwork, RaftNetworkFactory};

use crate::raft::Types;
use crate::wire::{Answer, Envelope, Request, decode, encode};
use crate::{Carrier, ClusterId};

#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) carrier: Arc<dyn Carrier>,
    pub(crate) cluster: ClusterId,
    /// So long an answer is waited for, and so long until it is tried again.
    pub(crate) heartbeat: Duration,
}

pub(crate) struct Wire {
    network: Network,
    to: NodeId,
}

type Failed<E = RaftError<u64>> = RPCError<u64, EmptyNode, E>;

impl RaftNetworkFactory<Types> for Network {
    type Network = Wire;

    async fn new_client(&mut self, target: u64, _node: &EmptyNode) -> Wire {
        Wire { network: self.clone(), to: NodeId(target) }
    }
}

impl Wire {
    async fn call<E: std::error::Error>(&self, request: Request, limit: Duration) -> Result<Answer, Failed<E>> {
        let request = encode(&Envelope { cluster: Some(self.network.cluster), request });
        let unreachable = |why: String| RPCError::Unreachable(Unreachable::new(&AnyError::error(why)));
        let bytes = match tokio::time::timeout(limit, self.network.carrier.call(self.to, request)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Err(unreachable(error.to_string())),
            Err(_) => return Err(unreachable(format!("{} did not answer in time", self.to))),
        };
        match decode(&bytes) {
            Ok(Answer::Failed(why)) => Err(unreachable(format!("{}: {why}", self.to))),
            Ok(answer) => Ok(answer),
            Err(why) => Err(unreachable(format!("the answer of {}: {why}", self.to))),
        }
    }

    fn misfit<E: std::error::Error>(&self, answer: &Answer) -> Failed<E> {
        RPCError::Network(NetworkError::new(&AnyError::error(format!(
            "{} answers something else: {answer:?}",
            self.to
        ))))
    }
}

impl RaftNetwork<Types> for Wire {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failed> {
        // A voter that is slow with one of these hears no other meanwhile.
        let limit = option.hard_ttl().min(self.network.heartbeat);
        match self.call(Request::Append(rpc), limit).await? {
            Answer::Append(answer) => Ok(answer),
            other => Err(self.misfit(&other)),
        }
    }

    async fn vote(&mut self, rpc: VoteRequest<u64>, option: RPCOption) -> Result<VoteResponse<u64>, Failed> {
        match self.call(Request::Vote(rpc), option.hard_ttl()).await? {
            Answer::Vote(answer) => Ok(answer),
            other => Err(self.misfit(&other)),
        }
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failed<RaftError<u64, InstallSnapshotError>>> {
        match self.call(Request::Snapshot(rpc), option.hard_ttl()).await? {
            Answer::Snapshot(Ok(answer)) => Ok(answer),
            Answer::Snapshot(Err(error)) => {
                Err(RPCError::RemoteError(RemoteError::new(self.to.0, RaftError::APIError(error))))
            }
            other => Err(self.misfit(&other)),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(self.network.heartbeat))
    }
}
