//! Who gets the blueprint next: whoever acts on an older one, destinations of a change before its sources.
//!
//! The order is a courtesy, not a rule that safety rests on: a new primary that waits for the old one's lease should wait already
//! when the old one steps down, so that the pause is short. It is known only for changes that this coordinator saw happen; one that
//! has just started pushes to everybody at once.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use blueprint::{Blueprint, Conduct, Epoch, Government, Instant, Member, NodeId};

use super::io::{Outbox, Output};
use super::turns::Need;
use super::{Coordinator, Subject, Until};

#[derive(Clone, Debug, Default)]
pub(crate) struct Pushes {
    /// Which epoch each node was sent last, and when.
    sent: BTreeMap<NodeId, (Epoch, Instant)>,
    /// What nodes said by themselves, in answer to a push.
    echoed: BTreeMap<NodeId, Epoch>,
    held_back: BTreeMap<NodeId, HeldBack>,
    /// Whose own part has changed, and in which epoch: they are not made to wait for the next period.
    concerned: BTreeMap<NodeId, Epoch>,
}

/// It only loses by a change: it hears of it once those that gain act on that epoch, or at `until` at the latest.
#[derive(Clone, Debug)]
struct HeldBack {
    epoch: Epoch,
    destinations: BTreeSet<NodeId>,
    until: Instant,
}

impl Pushes {
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.held_back.values().map(|h| h.until).min()
    }

    pub(crate) fn on_echo(&mut self, node: NodeId, epoch: Epoch) {
        let echoed = self.echoed.entry(node).or_default();
        *echoed = (*echoed).max(epoch);
    }

    pub(crate) fn keep_only(&mut self, known: impl Fn(NodeId) -> bool) {
        self.sent.retain(|node, _| known(*node));
        self.echoed.retain(|node, _| known(*node));
        self.held_back.retain(|node, _| known(*node));
        self.concerned.retain(|node, _| known(*node));
    }

    /// Everybody is sent one in a period at most, whatever happens meanwhile; those concerned at once.
    fn is_due(&self, node: NodeId, now: Instant, period: Duration) -> bool {
        self.sent.get(&node).is_none_or(|(_, at)| now.since(*at) >= period) || self.is_concerned(node)
    }

    fn is_concerned(&self, node: NodeId) -> bool {
        let sent = self.sent.get(&node).map_or(Epoch(0), |(epoch, _)| *epoch);
        self.concerned.get(&node).is_some_and(|in_epoch| *in_epoch > sent)
    }

    /// A newer blueprint was read: who gains by it, and who only loses?
    pub(crate) fn on_change(&mut self, old: &Blueprint, new: &Blueprint, until: Instant) {
        if old.epoch.0 == 0 {
            return;
        }
        let (mut gain, mut lose, mut lead) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for bucket in new.buckets.values() {
            let (before, after) = (old.government(bucket.id), bucket.government());
            if before == after {
                continue;
            }
            // Who leads waits for everyone of the government that it knows: also for one that is let go and no longer answers.
            lead.extend(after.map(|government| government.primary.node));
            let named = before.into_iter().chain(after).flat_map(Government::everyone);
            for node in named.map(|m| m.node).collect::<BTreeSet<_>>() {
                let (had, has) = (part(before, node), part(after, node));
                let anew = has.1 != had.1 && has.0 > Rank::None;
                if has.0 > had.0 || anew {
                    gain.insert(node);
                } else if has.0 < had.0 {
                    lose.insert(node);
                }
            }
        }
        self.concerned.extend(lead.iter().chain(gain.union(&lose)).map(|node| (*node, new.epoch)));
        if gain.is_empty() {
            return;
        }
        for node in lose.difference(&gain) {
            let fresh = HeldBack { epoch: new.epoch, destinations: BTreeSet::new(), until };
            let held = self.held_back.entry(*node).or_insert(fresh);
            // One change after the other does not put it off any further.
            held.epoch = new.epoch;
            held.destinations.extend(&gain);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    None,
    Heir,
    Candidate,
    Secondary,
    Primary,
}

fn part(government: Option<&Government>, node: NodeId) -> (Rank, Option<Member>) {
    let Some(government) = government else { return (Rank::None, None) };
    let named = government.named(node);
    let is = |members: &[Member]| members.iter().any(|m| m.node == node);
    let rank = if government.primary.node == node {
        Rank::Primary
    } else if is(&government.secondaries) {
        Rank::Secondary
    } else if is(&government.candidates) {
        Rank::Candidate
    } else if named.is_some() {
        Rank::Heir
    } else {
        Rank::None
    };
    (rank, named)
}

impl<C: Conduct> Coordinator<C> {
    /// The newest epoch that a node is known to act on.
    pub(crate) fn echo(&self, node: NodeId) -> Epoch {
        let told = self.pushes.echoed.get(&node).copied().unwrap_or_default();
        let kept = self.state.echoes.get(&node).copied().unwrap_or_default();
        self.watch.echo(node).max(told).max(kept)
    }

    pub(crate) fn push_blueprint(&mut self, now: Instant, out: &mut Outbox) {
        self.release(now);
        let blueprint = self.state.blueprint.clone();
        for node in blueprint.nodes.keys().copied() {
            self.push_to(now, node, out);
        }
    }

    /// This node said something new; others may have waited for that.
    pub(crate) fn push_after_echo(&mut self, now: Instant, node: NodeId, out: &mut Outbox) {
        if self.pushes.held_back.is_empty() { self.push_to(now, node, out) } else { self.push_blueprint(now, out) }
    }

    /// Who answers, and acts on less than what is known here. Who does not answer is waited for as such.
    pub(crate) fn wait_for_echoes(&mut self, now: Instant) {
        let blueprint = self.state.blueprint.clone();
        for node in blueprint.nodes.keys().copied() {
            if self.watch.hears(node, now) && self.acts_on(node) < blueprint.epoch {
                self.wait(now, Subject::Node(node), Until::ActsOn { node, epoch: blueprint.epoch });
            }
        }
    }

    /// A node that has restarted acts on nothing until somebody tells it, whatever it acted on before.
    pub(crate) fn acts_on(&self, node: NodeId) -> Epoch {
        self.echo(node).min(self.watch.acts_on(node).unwrap_or(Epoch(u64::MAX)))
    }

    fn push_to(&mut self, now: Instant, node: NodeId, out: &mut Outbox) {
        let echo = self.acts_on(node);
        let epoch = self.state.blueprint.epoch;
        if echo >= epoch || !self.watch.hears(node, now) || self.pushes.held_back.contains_key(&node) {
            return;
        }
        let need = Need::Push { node, echo };
        let is_my_turn = match self.pushes.is_concerned(node) {
            true => self.is_my_turn_at_once(now, need),
            false => self.is_my_turn(now, need),
        };
        if is_my_turn && self.pushes.is_due(node, now, self.config.period) {
            self.pushes.sent.insert(node, (epoch, now));
            out.push(Output::Push { node, blueprint: self.state.blueprint.clone() });
        }
    }

    fn release(&mut self, now: Instant) {
        let mut held_back = core::mem::take(&mut self.pushes.held_back);
        held_back.retain(|_, held| {
            let waits_for = |node: &NodeId| self.watch.hears(*node, now) && self.echo(*node) < held.epoch;
            now < held.until && held.destinations.iter().any(waits_for)
        });
        self.pushes.held_back = held_back;
    }

    /// Echoes that the meta group does not know yet, and that it is this coordinator's turn to tell.
    pub(crate) fn news_of_echoes(&mut self, now: Instant) -> BTreeMap<NodeId, Epoch> {
        let state = self.state.clone();
        let mut news = BTreeMap::new();
        for node in state.blueprint.nodes.keys().copied() {
            let (echo, known) = (self.echo(node), state.echoes.get(&node).copied().unwrap_or_default());
            if echo > known && self.is_my_turn(now, Need::Echo { node, known }) {
                news.insert(node, echo.min(state.blueprint.epoch));
            }
        }
        news
    }
}
