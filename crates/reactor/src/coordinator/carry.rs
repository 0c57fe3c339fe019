//! Operations, carried forward step by step. How a step stands is for the blueprint to say; here is what is done so that it comes
//! true, and by whom. Nothing is done to make a step true *in time*: there is no time.

use blueprint::{
    Blueprint, Bucket, BucketId, Change, Command, Conduct, Fate, Government, Instant, MetaCommand, NodeId, Operation,
    OperationState, Standing, Step,
};

use super::io::{Order, Outbox, Output};
use super::turns::Need;
use super::{Coordinator, Subject, Until};
use crate::words::proposal;

/// What one step needs next.
enum Due {
    Propose(Change),
    Order(NodeId, Order, Until),
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
            let mine = self.is_my_turn(now, Need::Step { id, step });
            let until = match blueprint.standing(operation) {
                Standing::True | Standing::Hitched(_) => {
                    self.propose(now, Command::AdvanceOperation { id, from_step: step }, mine, out)
                }
                Standing::Open => self.bring_about(now, &blueprint, operation, mine, out),
            };
            self.wait(now, about, until);
        }
    }

    fn bring_about(
        &mut self,
        now: Instant,
        blueprint: &Blueprint,
        operation: &Operation,
        mine: bool,
        out: &mut Outbox,
    ) -> Until {
        let step = operation.step().expect("an open operation has a step");
        let bucket = step.bucket();
        let government = blueprint.government(bucket).expect("an open step has a bucket that is governed");
        match self.due(now, operation, step, government) {
            Due::Nothing(until) => until,
            Due::Propose(change) => {
                let command = Command::Succeed { bucket, replaces: government.term, change };
                self.propose(now, command, mine, out)
            }
            Due::Order(node, order, until) => {
                if mine {
                    self.say(now, Output::Order { node, order }, out);
                }
                until
            }
        }
    }

    fn due(&self, now: Instant, operation: &Operation, step: &Step, government: &Government) -> Due {
        let primary = government.primary.node;
        let silent = |node: NodeId| !self.watch.hears(node, now);
        match step {
            Step::Enlist { node, .. } if silent(*node) => Due::Nothing(Until::Answers(*node)),
            Step::Enlist { node, .. } => Due::Propose(Change::Enlist { node: *node }),
            Step::AwaitSeated { node, .. } => Due::Nothing(Until::Seated { node: *node, primary }),
            Step::HandOver { bucket, to } => self.hand_over_due(now, *bucket, *to, government),
            Step::Dismiss { bucket, node } => self.dismiss_due(now, operation, *bucket, *node, government),
            Step::AwaitRestart { node, life, .. } => Due::Nothing(self.restart_due(*node, *life, primary)),
            Step::Repair { .. } => unreachable!("it is true from the moment it is written down"),
            Step::Split { .. } if silent(primary) => Due::Nothing(Until::Answers(primary)),
            Step::Split { bucket, child, slots } => {
                let order = Order::Split { bucket: *bucket, child: *child, slots: slots.clone() };
                Due::Order(primary, order, Until::Registered { child: *child, primary })
            }
        }
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
        operation: &Operation,
        bucket: BucketId,
        node: NodeId,
        government: &Government,
    ) -> Due {
        let primary = government.primary;
        let is_member = |node: NodeId| government.members().any(|m| m.node == node);
        if let Some(slow) = operation.seated(bucket).find(|n| *n != node && !is_member(*n)) {
            return Due::Nothing(Until::Seated { node: slow, primary: primary.node });
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
        let (members, min) = (government.size(), government.min_in_sync);
        if members <= usize::from(min) {
            return Due::Nothing(Until::EnoughMembers { leaves: node, members, min });
        }
        if self.watch.holding(primary, bucket, now).is_none() {
            return Due::Nothing(Until::PrimaryHolds { primary: primary.node, leaves: node });
        }
        Due::Propose(Change::Dismiss { secondary, fate: Fate::Leaves })
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
