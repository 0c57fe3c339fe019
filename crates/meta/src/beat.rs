//! The beats of the leader, and what a voter does that hears none.
//!
//! openraft can do both by itself. But there a voter that stood still, or was cut off, stands for election as soon as it is back, and by its
//! higher term ends a leader whom everyone else hears; and two voters that drew about the same time to wait, which they do once in
//! their lives, stand against each other again and again. So here voters take turns, and before one stands it asks the others: as
//! long as any of them hears a leader it does not, nor unless most of them answer.
//!
//! None of this is needed for safety: whoever stands and should not is refused, or costs an election.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use blueprint::{Instant, NodeId};
use openraft::ServerState;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use tokio::task::JoinSet;

use crate::Embedded;
use crate::embedded::{Inner, lock};
use crate::raft::{LogId, Metrics, RaftError, Types};
use crate::wire::{Answer, Guide, Request};

/// What a voter has heard of others.
#[derive(Debug)]
pub(crate) struct Hearing {
    /// Whose log it followed last, and when.
    followed: Option<(NodeId, Instant)>,
    /// Since when nobody leads, as far as it knows: it followed a leader, gave somebody its vote or stood itself.
    silent_since: Instant,
    /// It is about to stand.
    asking: bool,
}

/// What it answers another that wants to know whether it may stand.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Heard {
    /// It hears a leader, or somebody who is about to be one.
    hears: bool,
    last: Option<LogId>,
    guide: Guide,
}

enum Due {
    Nothing,
    Beat,
    Stand { others: BTreeSet<NodeId> },
}

impl Hearing {
    /// A node that has just started waits for its turn, and no longer.
    pub(crate) fn new(now: Instant, patience: Duration) -> Self {
        Self { followed: None, silent_since: now - patience, asking: false }
    }
}

impl Embedded {
    /// To be called every `heartbeat`, and by nobody else: without it nobody leads. False: this node's part has ended.
    pub fn beat(&self) -> bool {
        let due = self.inner.due(self.inner.settings.clock.now());
        let inner = Arc::clone(&self.inner);
        match due {
            Due::Nothing => {}
            // What fails here has stopped, and says so elsewhere.
            Due::Beat => drop(tokio::spawn(async move { drop(inner.raft.trigger().heartbeat().await) })),
            Due::Stand { others } => drop(tokio::spawn(async move { inner.stand(&others).await })),
        }
        !self.inner.is_closed()
    }
}

impl Inner {
    fn due(&self, now: Instant) -> Due {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        if self.is_closed() || metrics.running_state.is_err() || !self.is_voter(&metrics) {
            return Due::Nothing;
        }
        let mut hearing = self.hearing();
        if metrics.state == ServerState::Leader {
            hearing.silent_since = now;
            return Due::Beat;
        }
        let others: BTreeSet<NodeId> = metrics.membership_config.voter_ids().map(NodeId).collect();
        // Whom nobody hears is not waited for.
        let lost = hearing.followed.map(|(leader, _)| leader);
        let turn = others.iter().filter(|node| **node < self.me() && Some(**node) != lost).count() as u32;
        let patience = self.settings.silence() + self.settings.heartbeat * turn;
        let alone = others.len() == 1;
        if hearing.asking || !alone && now.since(hearing.silent_since) < patience {
            return Due::Nothing;
        }
        hearing.asking = true;
        Due::Stand { others: others.into_iter().filter(|node| *node != self.me() && Some(*node) != lost).collect() }
    }

    async fn stand(self: &Arc<Self>, others: &BTreeSet<NodeId>) {
        let heard = self.ask_who_hears(others).await;
        for (_, Heard { guide, .. }) in &heard {
            self.follow_guide(guide.clone()).await;
        }
        let may_stand = self.may_stand(&self.metrics(), &heard);
        {
            let mut hearing = self.hearing();
            hearing.asking = false;
            if !may_stand {
                return;
            }
            hearing.silent_since = self.settings.clock.now();
        }
        tracing::debug!(?heard, "nobody leads the meta group: this node stands");
        drop(self.raft.trigger().elect().await); // it may have stopped meanwhile
    }

    /// Who does not answer before the next beat is not waited for.
    async fn ask_who_hears(self: &Arc<Self>, others: &BTreeSet<NodeId>) -> Vec<(NodeId, Heard)> {
        let mut asked = JoinSet::new();
        for node in others.iter().copied() {
            let inner = Arc::clone(self);
            asked.spawn(async move {
                match inner.call(node, Request::Hear, inner.settings.heartbeat).await {
                    Ok(Answer::Heard(heard)) => Some((node, heard)),
                    _ => None,
                }
            });
        }
        let mut all = Vec::new();
        while let Some(answer) = asked.join_next().await {
            all.extend(answer.ok().flatten());
        }
        all
    }

    /// Most would vote for it, as far as anyone can say.
    fn may_stand(&self, metrics: &Metrics, heard: &[(NodeId, Heard)]) -> bool {
        // Who has more of the log would not vote for this one. It stands in its own turn, unless something is wrong with it.
        let silent = self.settings.clock.now().since(self.hearing().silent_since);
        let is_patient = silent < self.settings.silence() * 2 + self.settings.heartbeat * self.settings.voters as u32;
        let last = self.log.last();
        let is_ahead = |their: &Heard| is_patient && their.last > last;
        if heard.iter().any(|(_, their)| their.hears || is_ahead(their)) || !self.is_voter(metrics) {
            return false;
        }
        let agrees = |node: &u64| *node == self.me().0 || heard.iter().any(|(their, _)| their.0 == *node);
        let joint = metrics.membership_config.membership().get_joint_config();
        joint.iter().all(|voters| 2 * voters.iter().filter(|node| agrees(node)).count() > voters.len())
    }

    /// None: it could not vote for anybody.
    pub(crate) fn heard(&self) -> Option<Heard> {
        let metrics = self.metrics();
        if metrics.running_state.is_err() {
            return None;
        }
        let since = self.settings.clock.now().since(self.hearing().silent_since);
        let leads = metrics.state == ServerState::Leader && !self.is_forsaken(&metrics);
        let follows = metrics.state != ServerState::Leader && since < self.settings.lease;
        Some(Heard { hears: leads || follows, last: self.log.last(), guide: self.guide() })
    }

    /// What the leader sends its voters.
    pub(crate) async fn follow(
        &self,
        rpc: AppendEntriesRequest<Types>,
    ) -> Result<AppendEntriesResponse<u64>, RaftError> {
        let (leader, at) = (rpc.vote.leader_id().voted_for().map(NodeId), self.settings.clock.now());
        // It is heard before it is followed: a disk may be slow, and then that of all voters at once.
        if rpc.vote >= self.raft.metrics().borrow().vote {
            self.hearing().silent_since = at;
        }
        let answer = self.raft.append_entries(rpc).await?;
        if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
            self.hearing().followed = leader.map(|leader| (leader, at));
        }
        Ok(answer)
    }

    pub(crate) async fn vote(&self, rpc: VoteRequest<u64>) -> Result<VoteResponse<u64>, RaftError> {
        let answer = self.raft.vote(rpc).await?;
        if answer.vote_granted {
            self.hearing().silent_since = self.settings.clock.now();
        }
        Ok(answer)
    }

    /// Whom it followed a moment ago.
    pub(crate) fn followed_lately(&self) -> Option<NodeId> {
        let (leader, at) = self.hearing().followed?;
        (self.settings.clock.now().since(at) <= 2 * self.settings.heartbeat).then_some(leader)
    }

    fn hearing(&self) -> MutexGuard<'_, Hearing> {
        lock(&self.hearing)
    }
}
