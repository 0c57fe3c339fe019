//! Operations, carried forward step by step. How a step stands is for the blueprint to say; here is what is done so that it comes
//! true, and by whom. Nothing is done to make a step true *in time*: there is no time.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use blueprint::{
    Blueprint, Bucket, BucketId, Change, Command, Conduct, Fate, Government, Instant, KeyspaceId, MetaCommand, NodeId,
    Operation, OperationState, Rule, Standing, Step,
};

use super::io::{Order, Outbox, Output};
use super::turns::Need;
use super::{Comes, Coordinator, Subject, Until};
use crate::case::could_take;
use crate::words::proposal;

/// What one step needs next.
enum Due {
    Propose(Change),
    Bind(BucketId),
    Order(NodeId, Order, Until),
    /// What that node holds of the bucket.
    Ask(NodeId, Until),
    Nothing(Until),
}

impl<C: Conduct> Coordinator<C> {
    pub(crate) fn carry_operations(&mut self, now: Instant, out: &mut Outbox) {
        let blueprint = self.state.blueprint.clone();
        for operation in blueprint.operations.values().filter(|o| o.is_under_way()) {
            let (id, step) = (operation.id, operation.at);
            let about = Subject::Operation { id, step };
            if operation.state == OperationState::Paused {
                self.wait(now, about, Until::Resumed);
                continue;
            }
            let mine = self.is_my_turn_at_once(now, Need::Step { id, step });
            let until = match blueprint.standing(operation) {
                Standing::True => self.advance(now, &blueprint, operation, mine, out),
                Standing::Hitched(_) => self.propose(now, Command::AdvanceOperation { id, from_step: step }, mine, out),
                Standing::Open => self.bring_about(now, &blueprint, operation, step, mine, out),
            };
            self.wait(now, about, until);
            for step in blueprint.ripe_ahead(operation) {
                let mine = self.is_my_turn_at_once(now, Need::Step { id, step });
                let until = self.bring_about(now, &blueprint, operation, step, mine, out);
                self.wait(now, Subject::Operation { id, step }, until);
            }
        }
    }

    /// Over all steps that are true by now: the meta group decides them together, as they come together.
    fn advance(
        &mut self,
        now: Instant,
        blueprint: &Blueprint,
        operation: &Operation,
        mine: bool,
        out: &mut Outbox,
    ) -> Until {
        let advance = |from_step| Command::AdvanceOperation { id: operation.id, from_step };
        let until = self.propose(now, advance(operation.at), mine, out);
        let later = operation.at + 1..operation.steps.len() as u32;
        for step in later.take_while(|step| blueprint.standing_at(operation, *step) == Standing::True) {
            self.propose(now, advance(step), mine, out);
        }
        until
    }

    fn bring_about(
        &mut self,
        now: Instant,
        blueprint: &Blueprint,
        operation: &Operation,
        at: u32,
        mine: bool,
        out: &mut Outbox,
    ) -> Until {
        let step = operation.steps.get(at as usize).expect("an open operation has a step");
        let Some(bucket) = step.bucket() else {
            return self.bring_about_at_large(now, blueprint, operation, mine, out);
        };
        let government = blueprint.government(bucket).expect("an open step has a bucket that is governed");
        match self.due(now, operation, at, government) {
            Due::Nothing(until) => until,
            Due::Propose(change) => {
                let command = Command::Succeed { bucket, replaces: government.term, change };
                self.propose(now, command, mine, out)
            }
            Due::Bind(into) => {
                let other = blueprint.government(into).expect("an open merge has two buckets that are governed");
                let command = Command::Bind { absorbed: bucket, into, replaces: (government.term, other.term) };
                self.propose(now, command, mine, out)
            }
            Due::Ask(node, until) => {
                // In the next round it would be asked anyway; this is only faster.
                if mine {
                    self.say(now, Output::Probe { node, round: self.round, about: [bucket].into() }, out);
                }
                until
            }
            Due::Order(node, order, until) => {
                if mine {
                    self.say(now, Output::Order { node, order }, out);
                }
                until
            }
        }
    }

    /// A step that is about a node, or about a whole keyspace.
    fn bring_about_at_large(
        &mut self,
        now: Instant,
        blueprint: &Blueprint,
        operation: &Operation,
        mine: bool,
        out: &mut Outbox,
    ) -> Until {
        let command = match *operation.step().expect("an open operation has a step") {
            Step::Mark { node, intent, .. } => Command::Mark { node, intent, of: Some((operation.id, operation.at)) },
            Step::SetReplicas { keyspace, replicas } => Command::SetReplicas { keyspace, replicas },
            Step::RemoveKeyspace { keyspace } => Command::RemoveKeyspace { keyspace },
            Step::AwaitErased { keyspace } => {
                let (there, away) = holders(blueprint, keyspace).into_iter().partition(|n| blueprint.is_present(*n));
                return Until::Erased { keyspace, there, away };
            }
            Step::Enlist { .. }
            | Step::AwaitSeated { .. }
            | Step::HandOver { .. }
            | Step::Dismiss { .. }
            | Step::Split { .. }
            | Step::Merge { .. }
            | Step::AwaitRestart { .. }
            | Step::Repair { .. }
            | Step::SetMinimum { .. } => unreachable!("it is about a bucket"),
        };
        self.propose(now, command, mine, out)
    }

    fn due(&self, now: Instant, operation: &Operation, at: u32, government: &Government) -> Due {
        let step = &operation.steps[at as usize];
        let primary = government.primary.node;
        let silent = |node: NodeId| !self.watch.hears(node, now);
        match step {
            Step::Enlist { node, .. } if silent(*node) => Due::Nothing(Until::Answers(*node)),
            Step::Enlist { node, .. } => Due::Propose(Change::Enlist { node: *node }),
            Step::AwaitSeated { node, .. } => Due::Nothing(Until::Seated { node: *node, primary }),
            Step::HandOver { bucket, to } => self.hand_over_due(now, *bucket, *to, government),
            Step::Dismiss { bucket, node } => {
                let seated = operation.seated_before(at, *bucket).collect();
                self.dismiss_due(now, seated, *bucket, *node, government)
            }
            Step::AwaitRestart { node, life, .. } => Due::Nothing(self.restart_due(*node, *life, primary)),
            Step::Repair { .. } => unreachable!("it is true from the moment it is written down"),
            Step::Split { .. } if silent(primary) => Due::Nothing(Until::Answers(primary)),
            Step::Split { bucket, child, slots } => {
                let order = Order::Split { bucket: *bucket, child: *child, slots: slots.clone() };
                Due::Order(primary, order, Until::Registered { child: *child, primary })
            }
            Step::Merge { bucket, into } => self.merge_due(now, *bucket, *into, government),
            Step::SetMinimum { min, .. } if government.size() < usize::from(*min) => {
                Due::Nothing(Until::MembersForMinimum { members: government.size(), min: *min })
            }
            Step::SetMinimum { min, .. } => Due::Propose(Change::SetMinInSync { min: *min }),
            Step::Mark { .. } | Step::SetReplicas { .. } | Step::RemoveKeyspace { .. } | Step::AwaitErased { .. } => {
                unreachable!("it is about no bucket")
            }
        }
    }

    /// Bound while everyone answers: until they are one, what is absorbed is not served.
    fn merge_due(&self, now: Instant, bucket: BucketId, into: BucketId, government: &Government) -> Due {
        let blueprint = &self.state.blueprint;
        let primary = government.primary.node;
        if blueprint.buckets[&bucket].bond.is_some() {
            return Due::Nothing(Until::Merged { bucket, into, primary });
        }
        if let Some(why) = blueprint.unlike(bucket, into) {
            return Due::Nothing(Until::Alike { bucket, into, why });
        }
        let silent = government.members().find(|m| !self.watch.hears(m.node, now));
        silent.map_or(Due::Bind(into), |m| Due::Nothing(Until::Answers(m.node)))
    }

    /// Nobody here can start a process: whoever looks after the node is told to. From then on the bucket's primary does the rest.
    fn restart_due(&self, node: NodeId, life: u64, primary: NodeId) -> Until {
        let blueprint = &self.state.blueprint;
        if blueprint.nodes.get(&node).is_some_and(|known| known.life > life) {
            return Until::Seated { node, primary };
        }
        let governments = blueprint.buckets.values().filter_map(Bucket::government);
        Until::Restarted { node, leads: governments.filter(|g| g.primary.node == node).count() }
    }

    fn hand_over_due(&self, now: Instant, bucket: BucketId, to: NodeId, government: &Government) -> Due {
        let primary = government.primary.node;
        if !government.secondaries.iter().any(|m| m.node == to) {
            return Due::Nothing(Until::Seated { node: to, primary }); // too slow for a moment
        }
        for node in [primary, to] {
            if !self.watch.hears(node, now) {
                return Due::Nothing(Until::Answers(node));
            }
        }
        Due::Order(primary, Order::HandOver { bucket, to }, Until::Leads { node: to, primary })
    }

    fn dismiss_due(
        &self,
        now: Instant,
        seated: Vec<NodeId>,
        bucket: BucketId,
        node: NodeId,
        government: &Government,
    ) -> Due {
        let primary = government.primary;
        let is_member = |node: NodeId| government.members().any(|m| m.node == node);
        if let Some(slow) = seated.into_iter().find(|n| *n != node && !is_member(*n)) {
            return Due::Nothing(Until::Seated { node: slow, primary: primary.node });
        }
        // A plan may be old, and others may have died since. Whoever is to go is needed until there are enough without it; recovery
        // counts it as gone already, and enlists another (`copies_to_stay`).
        let wanted = self.state.blueprint.wanted(bucket);
        let others = government.members().filter(|m| m.node != node).count();
        if others < wanted {
            let comes = self.comes_instead(node, government);
            return Due::Nothing(Until::EnoughMembers { leaves: node, others, wanted, comes });
        }
        if let Some(candidate) = government.candidates.iter().copied().find(|m| m.node == node) {
            return Due::Propose(Change::Drop { candidate });
        }
        let secondary = government.secondaries.iter().copied().find(|m| m.node == node);
        let secondary = secondary.expect("an open dismissal is of a secondary or a candidate");
        // A member that is silent will be back or depart: until it is known which, nobody else leaves.
        if let Some(silent) = government.members().find(|m| m.node != node && !self.watch.hears(m.node, now)) {
            return Due::Nothing(Until::Answers(silent.node));
        }
        if self.watch.holding(primary, bucket, now).is_none() {
            return Due::Ask(primary.node, Until::PrimaryHolds { primary: primary.node, leaves: node });
        }
        Due::Propose(Change::Dismiss { secondary, fate: Fate::Leaves })
    }

    fn comes_instead(&self, leaves: NodeId, government: &Government) -> Comes {
        let coming: Vec<NodeId> = government.candidates.iter().map(|m| m.node).filter(|node| *node != leaves).collect();
        let blueprint = &self.state.blueprint;
        if !coming.is_empty() {
            Comes::Candidates(coming)
        } else if blueprint.nodes.keys().any(|node| could_take(blueprint, government, *node)) {
            Comes::ByRecovery
        } else {
            Comes::FromNowhere
        }
    }

    /// If it is this coordinator's turn; another one's otherwise. Either way it is waited for.
    fn propose(&mut self, now: Instant, command: Command, mine: bool, out: &mut Outbox) -> Until {
        let what = proposal(&command);
        if mine {
            self.say(now, Output::Propose(MetaCommand::Change(command)), out);
        }
        Until::Accepted { what }
    }
}

/// Nodes that still hold something of a keyspace that was removed.
fn holders(blueprint: &Blueprint, keyspace: KeyspaceId) -> BTreeSet<NodeId> {
    let holders = |bucket: &Bucket| match &bucket.rule {
        Rule::Removed { holders, .. } => holders.iter().map(|m| m.node).collect(),
        Rule::Governed(_) => Vec::new(),
    };
    blueprint.buckets_of(keyspace).flat_map(holders).collect()
}
