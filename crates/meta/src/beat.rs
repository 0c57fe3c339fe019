//! The beats of the leader, and what a voter does that hears none.
//!
//! openraft can do both by itself. But there a voter that stood still, or was cut off, stands for election as soon as it is back, and by its
//! higher term ends a leader whom everyone else hears; and two voters that drew about the same time to wait, which they do once in
//! their lives, stand against each other again and again. So here voters take turns, and before one stands it asks the others: it
//! does so when most of them, itself included, hear no leader.
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
    followed: Option<Followed>,
    /// Since when nobody leads, as far as it knows: it followed a leader, gave somebody its vote or stood itself.
    silent_since: Instant,
    /// It is about to stand.
    asking: bool,
}

/// Whose log it followed last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    leader: NodeId,
    at: Instant,
    /// It had followed the same leader a moment before: what stood still for long may find one message that has waited as long.
    steadily: bool,
    committed: Option<LogId>,
}

/// What it answers another that wants to know whether it may stand.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Heard {
    /// It hears a leader, or somebody who is about to be one, and would vote for no other.
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
    /// A node that has just started waits for its turn, and no longer; unless it knew a leader when it ended: then it votes for nobody
    /// else at first, and neither do others.
    pub(crate) fn new(now: Instant, patience: Duration, knew_leader: bool) -> Self {
        let silent_since = if knew_leader { now } else { now - patience };
        Self { followed: None, silent_since, asking: false }
    }
}

/// As long as it lives no other question is asked.
struct Asking<'a>(&'a Inner);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.hearing().asking = false;
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
        if self.is_closed() || metrics.running_state.is_err() {
            return Due::Nothing;
        }
        let mut hearing = self.hearing();
        if metrics.state == ServerState::Leader {
            (hearing.silent_since, hearing.followed) = (now, None);
            return Due::Beat;
        }
        if hearing.asking || !self.is_voter(&metrics) {
            return Due::Nothing;
        }
        let others: BTreeSet<NodeId> = metrics.membership_config.voter_ids().map(NodeId).collect();
        // Whom nobody hears is not waited for.
        let lost = hearing.followed.map(|followed| followed.leader);
        let turn = others.iter().filter(|node| **node < self.me() && Some(**node) != lost).count() as u32;
        if now.since(hearing.silent_since) < self.settings.silence() + self.settings.heartbeat * turn {
            return Due::Nothing;
        }
        hearing.asking = true;
        Due::Stand { others: others.into_iter().filter(|node| *node != self.me()).collect() }
    }

    async fn stand(self: &Arc<Self>, others: &BTreeSet<NodeId>) {
        let _asking = Asking(self);
        let (vote, silent_since) = (self.metrics().vote, self.hearing().silent_since);
        let heard = self.ask_who_hears(others).await;
        for (_, Heard { guide, .. }) in &heard {
            self.follow_guide(guide.clone()).await;
        }
        let metrics = self.metrics();
        {
            let mut hearing = self.hearing();
            // While it asked, somebody else may have stood, and even have its vote.
            let is_news = metrics.vote != vote || hearing.silent_since != silent_since;
            if is_news || !self.may_stand(&metrics, silent_since, &heard) {
                return;
            }
            hearing.silent_since = self.settings.clock.now();
        }
        tracing::debug!(?heard, "nobody leads the meta group: this node stands");
        drop(self.raft.trigger().elect().await); // it may have stopped meanwhile
    }

    /// Until it may stand; who does not answer before the next beat is not waited for.
    async fn ask_who_hears(self: &Arc<Self>, others: &BTreeSet<NodeId>) -> Vec<(NodeId, Heard)> {
        let silent_since = self.hearing().silent_since;
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
        while !self.may_stand(&self.metrics(), silent_since, &all)
            && let Some(answer) = asked.join_next().await
        {
            all.extend(answer.ok().flatten());
        }
        all
    }

    /// Most would vote for it, as far as anyone can say.
    fn may_stand(&self, metrics: &Metrics, silent_since: Instant, heard: &[(NodeId, Heard)]) -> bool {
        // Who has more of the log would not vote for this one. It stands in its own turn, unless something is wrong with it.
        let silent = self.settings.clock.now().since(silent_since);
        let is_patient = silent < self.settings.silence() * 2 + self.settings.heartbeat * self.settings.voters as u32;
        let last = self.log.last();
        let agrees = |their: &Heard| !(their.hears || is_patient && their.last > last);
        let is_for_it =
            |node: &u64| *node == self.me().0 || heard.iter().any(|(id, their)| id.0 == *node && agrees(their));
        let joint = metrics.membership_config.membership().get_joint_config();
        self.is_voter(metrics)
            && joint.iter().all(|voters| 2 * voters.iter().filter(|node| is_for_it(node)).count() > voters.len())
    }

    /// None: it could not vote for anybody.
    pub(crate) fn heard(&self) -> Option<Heard> {
        let metrics = self.metrics();
        if metrics.running_state.is_err() {
            return None;
        }
        let since = self.settings.clock.now().since(self.hearing().silent_since);
        let heeded = metrics.millis_since_quorum_ack.map(Duration::from_millis);
        let leads = metrics.state == ServerState::Leader && heeded.is_some_and(|ago| ago < self.settings.lease);
        let follows = metrics.state != ServerState::Leader && since < self.settings.lease;
        Some(Heard { hears: leads || follows, last: self.log.last(), guide: self.guide() })
    }

    /// What the leader sends its voters.
    pub(crate) async fn follow(
        &self,
        rpc: AppendEntriesRequest<Types>,
    ) -> Result<AppendEntriesResponse<u64>, RaftError> {
        let (leader, committed) = (rpc.vote.leader_id().voted_for().map(NodeId), rpc.leader_commit);
        let at = self.settings.clock.now();
        // It is heard before it is followed: a disk may be slow, and then that of all voters at once.
        if rpc.vote >= self.raft.metrics().borrow().vote {
            self.hearing().silent_since = at;
        }
        let answer = self.raft.append_entries(rpc).await?;
        if let (AppendEntriesResponse::Success, Some(leader)) = (&answer, leader) {
            let mut hearing = self.hearing();
            let steadily = hearing.followed.is_some_and(|f| f.leader == leader && self.is_lately(f.at));
            hearing.followed = Some(Followed { leader, at, steadily, committed });
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

    /// Whom it followed a moment ago, and the moment before; and how far that leader had committed.
    pub(crate) fn followed_lately(&self) -> Option<(NodeId, Option<LogId>)> {
        let Followed { leader, at, steadily, committed } = self.hearing().followed?;
        (steadily && self.is_lately(at)).then_some((leader, committed))
    }

    fn is_lately(&self, at: Instant) -> bool {
        self.settings.clock.now().since(at) <= 2 * self.settings.heartbeat
    }

    fn hearing(&self) -> MutexGuard<'_, Hearing> {
        lock(&self.hearing)
    }
}
