//! The leader's loop over its own members: whoever should vote does, and whoever should not no longer does.
//!
//! A node that is chosen first learns the whole log, and votes only when it has it. One that is chosen no longer first learns that,
//! and then leaves: otherwise it would go on asking for votes that nobody gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;

use blueprint::{Blueprint, Instant, NodeId};
use openraft::{ChangeMembers, EmptyNode};

use crate::embedded::Inner;
use crate::raft::Metrics;
use crate::voters::{Absences, choose_voters};

/// What a leader remembers of its members, as long as it leads.
#[derive(Debug, Default)]
struct Watch {
    term: u64,
    absences: Absences,
    /// Did not answer when it was chosen, and is passed over until then.
    unfit: BTreeMap<NodeId, Instant>,
}

pub(crate) async fn tend(inner: Weak<Inner>) {
    let mut watch = Watch::default();
    let Some((mut known, round)) = inner.upgrade().map(|i| (i.known.watch(), i.settings.round)) else { return };
    loop {
        let Some(strong) = inner.upgrade() else { return };
        let seen = known.borrow_and_update().blueprint.epoch;
        let turn = if strong.is_leader() { strong.turn(&mut watch).await } else { Ok(()) };
        drop(strong);
        if let Err(why) = turn {
            tracing::warn!(why, "the voters of the meta group could not be changed; it is tried again");
            tokio::time::sleep(round).await;
            continue;
        }
        // A new blueprint may have other nodes; reports, which come all the time, change nothing here.
        let news = known.wait_for(|state| state.blueprint.epoch != seen);
        if let Ok(Err(_)) = tokio::time::timeout(round, news).await {
            return;
        }
    }
}

impl Inner {
    async fn turn(&self, watch: &mut Watch) -> Result<(), String> {
        let metrics = self.metrics();
        let (now, state) = (self.settings.clock.now(), self.known.get());
        if watch.term != metrics.current_term {
            *watch = Watch { term: metrics.current_term, ..Watch::default() };
            // The clock of a new leader begins to run, although nothing is to be stamped yet.
            self.stamp(metrics.current_term);
        }
        watch.absences.observe(now, &state.blueprint);
        watch.unfit.retain(|_, until| now < *until);

        let joint = metrics.membership_config.membership().get_joint_config();
        let Some(current) = joint.last() else { return Ok(()) };
        let current: BTreeSet<NodeId> = current.iter().copied().map(NodeId).collect();
        let unfit = watch.unfit.keys().copied().collect();
        let chosen = choose_voters(&state.blueprint, &current, self.me(), &watch.absences, &unfit, now, &self.settings);
        match chosen {
            Some(chosen) => self.change_voters(&current, &chosen, watch).await,
            // A change that its leader did not live to finish.
            None if joint.len() > 1 => self.set_voters(&current).await,
            None => self.dismiss_learners(&metrics, &current, &state.blueprint, &unfit).await,
        }
    }

    async fn change_voters(
        &self,
        current: &BTreeSet<NodeId>,
        chosen: &BTreeSet<NodeId>,
        watch: &mut Watch,
    ) -> Result<(), String> {
        tracing::info!(?current, ?chosen, "the voters of the meta group change");
        for &node in chosen.difference(current) {
            if let Err(why) = self.teach(node).await {
                watch.unfit.insert(node, self.settings.clock.now() + self.settings.voter_delay);
                return Err(format!("{node} is to vote, and did not get the log: {why}"));
            }
        }
        self.set_voters(chosen).await
    }

    /// All of the log, as it is when this begins.
    async fn teach(&self, node: NodeId) -> Result<(), String> {
        let patience = self.settings.patience;
        let added = tokio::time::timeout(patience, self.raft.add_learner(node.0, EmptyNode::new(), false));
        let added = added.await.map_err(|_| "no quorum took it in".to_owned())?.map_err(|e| e.to_string())?;
        let has = |metrics: &Metrics| {
            let matched = metrics.replication.as_ref().and_then(|r| r.get(&node.0).copied().flatten());
            metrics.replication.is_none() || matched >= Some(added.log_id)
        };
        self.raft.wait(Some(patience)).metrics(has, "a learner has the log").await.map_err(|e| e.to_string())?;
        if self.is_leader() { Ok(()) } else { Err("another leads now".to_owned()) }
    }

    async fn set_voters(&self, voters: &BTreeSet<NodeId>) -> Result<(), String> {
        let voters: BTreeSet<u64> = voters.iter().map(|v| v.0).collect();
        // Those who leave stay as learners, to hear of it.
        let change = self.raft.change_membership(ChangeMembers::ReplaceAllVoters(voters), true);
        let changed = tokio::time::timeout(2 * self.settings.patience, change).await;
        changed.map_err(|_| "no quorum accepted it in time".to_owned())?.map_err(|e| e.to_string())?;
        Ok(())
    }

    async fn dismiss_learners(
        &self,
        metrics: &Metrics,
        voters: &BTreeSet<NodeId>,
        blueprint: &Blueprint,
        unfit: &BTreeSet<NodeId>,
    ) -> Result<(), String> {
        let told = *metrics.membership_config.log_id();
        let may_leave = |node: &u64| {
            let matched = metrics.replication.as_ref().and_then(|r| r.get(node).copied().flatten());
            matched >= told || !blueprint.is_present(NodeId(*node)) || unfit.contains(&NodeId(*node))
        };
        let membership = metrics.membership_config.membership();
        let leaving: BTreeSet<u64> =
            membership.learner_ids().filter(|l| !voters.contains(&NodeId(*l)) && may_leave(l)).collect();
        if leaving.is_empty() {
            return Ok(());
        }
        let change = self.raft.change_membership(ChangeMembers::RemoveNodes(leaving), true);
        let changed = tokio::time::timeout(self.settings.patience, change).await;
        changed.map_err(|_| "no quorum accepted it in time".to_owned())?.map_err(|e| e.to_string())?;
        Ok(())
    }
}
