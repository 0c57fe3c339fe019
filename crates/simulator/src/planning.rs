//! The conductor as an operator with a plan: something is wished for at random, planned by the planner on what the blueprint shows (or
//! showed a moment ago), and applied, at once or after a while; the blueprint may have moved on meanwhile. What is under way is paused,
//! resumed and cancelled like anything else (`conductor.rs`).

use std::sync::Arc;

use blueprint::{Blueprint, BucketId, Command as Proposal, Conduct, MetaCommand, NodeId, Operation, OperationState};
use planner::{Facts, Limits, Wish};

use crate::plan::MILLI;
use crate::world::{Event, KEYSPACE, World};

/// A larger plan would not end before the world's patience does: copies take their time, a few at once.
const MOST_COPIES: usize = 6;
/// How long somebody looks at a plan before applying it, on average.
const THOUGHT: u64 = 300 * MILLI;

impl<C: Conduct> World<C> {
    pub(crate) fn start_planned(&mut self) {
        let blueprint = self.seen_by_operator();
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
        let kind = rng.range(0, 12);
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
            _ => Wish::Rebalance { keyspace: None },
        })
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
