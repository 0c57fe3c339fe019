//! The coordinator that runs in this node: its probes, pushes and orders travel as messages between nodes, its own included.

use std::collections::BTreeMap;
use std::sync::Arc;

use blueprint::{BucketId, Conduct, Instant, MetaCommand, NodeId};
use reactor::Part;
use reactor::coordinator::{self, Answer, Holding};

use crate::desk::Desk;
use crate::io::{Output, PeerMessage};

impl<C: Conduct> Desk<C> {
    pub(crate) fn step_coordinator(&mut self, now: Instant, input: coordinator::Input, out: &mut Vec<Output>) {
        let mut outbox = coordinator::Outbox::default();
        self.coordinator.step(now, input, &mut outbox);
        for output in outbox.take() {
            match output {
                coordinator::Output::Probe { node, round, about } => {
                    self.tell(now, node, PeerMessage::Probe { round, about }, out);
                }
                coordinator::Output::Push { node, blueprint } => {
                    self.tell(now, node, PeerMessage::Push(blueprint), out);
                }
                coordinator::Output::Order { node, order } => self.tell(now, node, PeerMessage::Order(order), out),
                coordinator::Output::Propose(MetaCommand::Change(command)) => out.push(Output::Propose(command)),
                coordinator::Output::Propose(MetaCommand::Report(report)) => out.push(Output::Report(report)),
                coordinator::Output::ReadMeta => {
                    self.asked += 1;
                    out.push(Output::ReadMeta { id: self.asked });
                }
                coordinator::Output::Rebalance { epoch } => out.push(Output::Rebalance { epoch }),
            }
        }
    }

    /// A coordinator treats its own node like any other.
    fn tell(&mut self, now: Instant, node: NodeId, message: PeerMessage, out: &mut Vec<Output>) {
        if node == self.id {
            self.on_peer(now, node, message, out);
        } else {
            out.push(Output::Send { to: node, message });
        }
    }

    pub(crate) fn on_probe(
        &mut self,
        now: Instant,
        from: NodeId,
        round: u64,
        about: &[BucketId],
        out: &mut Vec<Output>,
    ) {
        if !self.is_alive(now) {
            return;
        }
        self.watched_by.insert(from, now);
        let holding = |bucket: &BucketId| {
            // What is set aside is nothing to rely on.
            let row = self.row(*bucket).filter(|row| row.part != Part::Aside)?;
            Some((*bucket, Holding { incarnation: row.incarnation, last: row.last, whole: row.missing == 0 }))
        };
        let holds: BTreeMap<BucketId, Holding> = about.iter().filter_map(holding).collect();
        let answer = Answer { echoed: self.blueprint.epoch, holds };
        self.tell(now, from, PeerMessage::Probed { round, answer }, out);
    }

    /// Whoever pushes a blueprint hears when it is acted on.
    pub(crate) fn on_push(
        &mut self,
        now: Instant,
        from: NodeId,
        blueprint: &Arc<blueprint::Blueprint>,
        out: &mut Vec<Output>,
    ) {
        self.watched_by.insert(from, now);
        self.hand_on(blueprint, out);
        if self.blueprint.epoch >= blueprint.epoch {
            self.tell(now, from, PeerMessage::Echoed(self.blueprint.epoch), out);
        }
    }

    /// Every coordinator on duty hears it, whoever pushed: 1. n1 hands over to n2; 2. one of them pushes that to n2, and it is the turn of
    /// another to push it to n1, which it does once n2 acts on it.
    pub(crate) fn echo(&mut self, now: Instant, out: &mut Vec<Output>) {
        let patience = self.config.silence;
        self.watched_by.retain(|_, asked| now.since(*asked) <= patience);
        for node in self.watched_by.keys().copied().collect::<Vec<_>>() {
            self.tell(now, node, PeerMessage::Echoed(self.blueprint.epoch), out);
        }
    }
}
