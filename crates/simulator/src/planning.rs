//! The conductor as an operator with a plan: something is wished for at random, planned by the planner on what the blueprint shows (or
//! showed a moment ago), and applied, at once or after a while; the blueprint may have moved on meanwhile. What is under way is paused,
//! resumed and cancelled like anything else (`conductor.rs`).

use std::sync::Arc;
use std::time::Duration;

use blueprint::{
    Blueprint, BucketId, Command as Proposal, Conduct, Durability, Epoch, Kind, MetaCommand, NodeId, Operation,
    OperationState, Step,
};
use planner::{Facts, Limits, Wish, rebalance_if_worth};
use reactor::coordinator::Leisure;

use crate::host::Host;
use crate::plan::{Fault, MILLI};
use crate::world::{Event, KEYSPACE, Sender, Verdict, World, fail};

/// A larger plan would not end before the world's patience does: copies take their time, a few at once.
const MOST_COPIES: usize = 6;
/// What is in a world is small: all buckets count alike.
const LEAST: u64 = 1 << 20;
/// How long somebody looks at a plan before applying it, on average.
const THOUGHT: u64 = 300 * MILLI;

/// How long it takes to plan on average: the blueprint may have moved on by then.
const PLANNING: u64 = 200 * MILLI;
/// In a wide world: how many of a hundred plans are for a keyspace, and with how many buckets; how many copies may be wished for; in how
/// large a cluster all nodes are restarted by one operation.
const KEYSPACES_MADE: u64 = 12;
const BUCKETS_MADE: usize = 2;
const MOST_REPLICAS: usize = 4;
const MOST_RESTARTS: usize = 4;
/// How likely it is that whoever is to restart a process does it now, each time the conductor looks; and how long that takes on average.
const RESTARTED_AT_ONCE: u64 = 25;
const RESTARTING: u64 = 250 * MILLI;
/// So often it may rebalance by itself after the world has healed: what is even stays so.
const MOST_REBALANCES: u32 = 4;

/// Moments, where a real cluster waits for minutes: or nothing would come of it before a world ends.
pub(crate) fn leisure() -> Leisure {
    Leisure { calm: Duration::from_millis(800), look: Duration::from_secs(3), rest: Duration::from_secs(8) }
}

impl<C: Conduct> World<C> {
    /// What the driver of a node does when its coordinator wants to know whether to rebalance.
    pub(crate) fn weigh(&mut self, sender: Sender, epoch: Epoch) {
        let Some(node) = self.hosts[sender.host].node() else { return };
        let blueprint = Arc::clone(node.blueprint());
        if blueprint.epoch != epoch {
            return self.tally.note("looks whether to rebalance: too late");
        }
        let (own, me) = (node.sighting(), self.hosts[sender.host].id);
        let row =
            |of: NodeId, bucket| if of == me { own.buckets.get(&bucket) } else { node.directory().row(of, bucket) };
        let bytes = |bucket: &blueprint::Bucket| {
            let primary = bucket.government()?.primary.node;
            Some((bucket.id, row(primary, bucket.id)?.bytes))
        };
        let bytes = blueprint.buckets.values().filter_map(bytes).collect();
        let facts = Facts { bytes, least: LEAST, ..Facts::default() };
        let Some(plan) = rebalance_if_worth(&blueprint, &facts, Limits::default()) else {
            return self.tally.note("looks whether to rebalance: not worth it");
        };
        self.tally.note("looks whether to rebalance: worth it");
        let steps = plan.operations().into_iter().next().expect("it is not empty");
        let command = Proposal::Rebalance { id: blueprint.next_operation, based_on: epoch, steps };
        let delay = self.rng.around(PLANNING);
        self.after(delay, Event::Propose { from: Some(sender), command: MetaCommand::Change(command), tries: 0 });
    }

    /// What was accepted.
    pub(crate) fn count_rebalances(&mut self, command: &Proposal) -> Verdict {
        let Proposal::Rebalance { steps, .. } = command else { return Ok(()) };
        self.tally.note("rebalanced by itself");
        self.conductor.rebalances += u32::from(self.healed);
        if self.conductor.rebalances > MOST_REBALANCES {
            let text = format!("{} times since the world healed, and now {steps:?}", self.conductor.rebalances);
            return fail("rebalancing_ends", text);
        }
        Ok(())
    }

    /// Who rebalances by itself does not rest before it is even.
    pub(crate) fn is_even(&self) -> Result<(), String> {
        if !self.plan.auto {
            return Ok(());
        }
        let plan = rebalance_if_worth(&self.meta.blueprint, &Facts::default(), Limits::default());
        plan.map_or(Ok(()), |plan| Err(format!("it rebalances by itself, and has not yet: {plan}")))
    }

    pub(crate) fn start_planned(&mut self) {
        let blueprint = self.seen_by_operator();
        if self.plan.wide && self.conductor.rng.percent(KEYSPACES_MADE) {
            return self.make_keyspace(&blueprint);
        }
        let Some(wish) = self.draw_wish(&blueprint) else { return };
        let limits = Limits { buckets_at_once: self.conductor.rng.range(1, 4) as usize };
        let Ok(plan) = planner::plan(&blueprint, &Facts::default(), limits, &wish) else {
            return self.tally.note("plans refused by the planner");
        };
        let Some(steps) = plan.operations().into_iter().next() else {
            return self.tally.note("plans: nothing to be done");
        };
        if plan.summary.copies > MOST_COPIES || !self.has_room_for_buckets(plan.summary.splits) {
            return self.tally.note("plans too large for this world");
        }
        self.tally.note(kind(&wish));
        let id = blueprint.next_operation;
        let by = format!("conductor: {}", plan.why);
        if self.conductor.rng.percent(30) {
            return self.propose(Proposal::StartOperation { id, by, steps });
        }
        self.propose(Proposal::PlanOperation { id, by, steps });
        let delay = self.conductor.rng.around(THOUGHT);
        let apply = MetaCommand::Change(Proposal::ApplyOperation { id });
        self.after(delay, Event::Propose { from: None, command: apply, tries: 0 });
    }

    /// Often the newest, sometimes one of the last few.
    fn seen_by_operator(&mut self) -> Arc<Blueprint> {
        let old = self.conductor.rng.percent(15);
        let seen = if old { self.conductor.rng.pick(&self.meta.past) } else { None };
        Arc::clone(seen.unwrap_or(&self.meta.blueprint))
    }

    fn draw_wish(&mut self, blueprint: &Blueprint) -> Option<Wish> {
        let rng = &mut self.conductor.rng;
        let nodes: Vec<NodeId> = blueprint.nodes.keys().copied().collect();
        let buckets: Vec<BucketId> = blueprint.buckets.keys().copied().collect();
        let kind = rng.range(0, if self.plan.wide { 19 } else { 12 });
        let (node, other) = (*rng.pick(&nodes)?, *rng.pick(&nodes)?);
        let bucket = *rng.pick(&buckets)?;
        let members: Vec<NodeId> = blueprint.government(bucket)?.members().map(|member| member.node).collect();
        let member = *rng.pick(&members)?;
        let slots = blueprint.buckets[&bucket].slots.split_half().0;
        Some(match kind {
            0 => Wish::AddNode { node },
            1 => Wish::RemoveNode { node },
            2 => Wish::ReplaceNode { old: node, new: other },
            3 => Wish::Drain { node },
            4 => Wish::SwapPrimary { bucket, node: member },
            5 => Wish::MoveReplica { bucket, from: member, to: node },
            6 => Wish::MigrateSlots { keyspace: blueprint.buckets[&bucket].keyspace, slots, to: node },
            7 => Wish::SplitBucket { bucket, slots: None },
            8 => Wish::DoubleBuckets { keyspace: KEYSPACE },
            9 => Wish::Undrain { node },
            10 | 11 => {
                let mates =
                    buckets.iter().copied().filter(|other| *other != bucket && other.family() == bucket.family());
                Wish::MergeBuckets { bucket, into: *rng.pick(&mates.collect::<Vec<_>>())? }
            }
            12 => Wish::Rebalance { keyspace: None },
            13 | 14 => {
                // One copy is enough only where none is ever destroyed.
                let destroys = [Fault::Wipe, Fault::Damage, Fault::Reboot, Fault::Blackout];
                let careful = self.plan.replicas > 1 && destroys.iter().any(|fault| self.plan.faults.has(*fault));
                let most = nodes.len().min(MOST_REPLICAS) as u64;
                let replicas = rng.range(if careful { 2 } else { 1 }, most) as u8;
                Wish::SetReplicas { keyspace: blueprint.buckets[&bucket].keyspace, replicas }
            }
            15 | 16 => {
                let all = nodes.len() <= MOST_RESTARTS && rng.percent(25);
                Wish::RollingRestart { nodes: if all { Vec::new() } else { vec![node, other] } }
            }
            17 | 18 => Wish::TakeLead { node, keyspace: blueprint.buckets[&bucket].keyspace },
            _ => Wish::RemoveKeyspace { keyspace: *blueprint.keyspaces.keys().find(|k| **k != KEYSPACE)? },
        })
    }

    /// One at a time, besides the one that clients work in.
    fn make_keyspace(&mut self, blueprint: &Blueprint) {
        if blueprint.keyspaces.len() > 1 || !self.has_room_for_buckets(BUCKETS_MADE) {
            return;
        }
        let replicas = self.plan.replicas;
        let Ok(placement) = planner::place(blueprint, &Facts::default(), BUCKETS_MADE, replicas) else {
            return self.tally.note("plans refused by the planner");
        };
        self.tally.note("plans made: create-keyspace");
        let (kind, durability, min_in_sync) = (Kind::Store, Durability::Disk, Some(self.plan.minimum));
        let name = format!("made-in-{}", blueprint.epoch);
        self.propose(Proposal::CreateKeyspace { name, kind, replicas, min_in_sync, durability, placement });
    }

    /// What the driver of a node does when its process has begun (decision 0023), until it is heard.
    pub(crate) fn note_lives(&mut self) {
        let known = |host: &Host<C>| self.meta.blueprint.nodes.get(&host.id).map(|node| node.life);
        let begun = |at: &usize| {
            let host = &self.hosts[*at];
            let untold = known(host).is_some_and(|life| life < u64::from(host.life));
            untold && host.responds(self.time) && !self.is_cut_off(*at)
        };
        let begun: Vec<usize> = (0..self.hosts.len()).filter(begun).collect();
        for host in begun {
            let (node, life) = (self.hosts[host].id, u64::from(self.hosts[host].life));
            self.propose(Proposal::Begin { node, life });
        }
    }

    /// Somebody does what a rolling restart waits for: the process that was planned for is ended, and another one started.
    pub(crate) fn restart_as_asked(&mut self) {
        let asked = |o: &Operation| match o.step() {
            Some(Step::AwaitRestart { node, life, .. }) if o.state == OperationState::Running => Some((*node, *life)),
            _ => None,
        };
        let asked: Vec<(NodeId, u64)> = self.meta.blueprint.operations.values().filter_map(asked).collect();
        for (node, life) in asked {
            let Some(&host) = self.index.get(&node) else { continue };
            let is_old = self.hosts[host].responds(self.time) && u64::from(self.hosts[host].life) <= life;
            if is_old && self.conductor.rng.percent(RESTARTED_AT_ONCE) {
                self.tally.note("processes restarted because an operation asked for it");
                self.crash(host);
                let delay = self.conductor.rng.around(RESTARTING);
                self.after(delay, Event::Restart { host });
            }
        }
    }

    /// What was planned and not applied is put away.
    pub(crate) fn put_plans_away(&mut self) {
        let planned = |o: &&Operation| o.state == OperationState::Planned;
        for id in self.meta.blueprint.operations.values().filter(planned).map(|o| o.id).collect::<Vec<_>>() {
            self.propose(Proposal::CancelOperation { id, why: "nobody applied it".into() });
        }
    }
}

fn kind(wish: &Wish) -> &'static str {
    match wish {
        Wish::AddNode { .. } => "plans made: add-node",
        Wish::RemoveNode { .. } => "plans made: remove-node",
        Wish::ReplaceNode { .. } => "plans made: replace-node",
        Wish::Drain { .. } => "plans made: drain",
        Wish::SwapPrimary { .. } => "plans made: swap-primary",
        Wish::MoveReplica { .. } => "plans made: move-replica",
        Wish::MigrateSlots { .. } => "plans made: migrate-slots",
        Wish::SplitBucket { .. } => "plans made: split-bucket",
        Wish::DoubleBuckets { .. } => "plans made: double-buckets",
        Wish::SetReplicas { .. } => "plans made: set-replicas",
        Wish::Rebalance { .. } => "plans made: rebalance",
        Wish::Undrain { .. } => "plans made: undrain",
        Wish::MergeBuckets { .. } => "plans made: merge-buckets",
        Wish::RemoveKeyspace { .. } => "plans made: remove-keyspace",
        Wish::MigrateEach { .. } => "plans made: migrate-slots of several",
        Wish::TakeLead { .. } => "plans made: take-lead",
        Wish::RollingRestart { .. } => "plans made: rolling-restart",
    }
}
