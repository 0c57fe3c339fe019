//! Probing, and saying who is silent: the only things that a coordinator knows by itself.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use blueprint::{Breach, BucketId, Command, Conduct, Instant, MetaCommand, NodeId, OperationState, Report, Step};

use super::io::{Outbox, Output};
use super::{Config, Coordinator, Subject, Until};
use crate::words::proposal;

/// Who is asked about which buckets.
pub(crate) type Questions = BTreeMap<NodeId, BTreeSet<BucketId>>;

impl<C: Conduct> Coordinator<C> {
    pub(crate) fn probe(&mut self, now: Instant, mut questions: Questions, out: &mut Outbox) {
        let blueprint = self.state.blueprint.clone();
        for node in blueprint.nodes.keys().copied() {
            self.watch.ask(node, now);
            let about = questions.remove(&node).unwrap_or_default().into_iter().collect();
            out.push(Output::Probe { node, round: self.round, about });
        }
    }

    /// Those that a reading shows for the first time need not wait for the next round.
    pub(crate) fn probe_newcomers(&mut self, now: Instant, out: &mut Outbox) {
        let blueprint = self.state.blueprint.clone();
        for node in blueprint.nodes.keys().copied() {
            if self.watch.has_begun() && !self.watch.is_asked(node) {
                self.watch.ask(node, now);
                out.push(Output::Probe { node, round: self.round, about: Vec::new() });
            }
        }
    }

    /// Who is to be asked about which buckets. In good times nobody about any: answers stay small. Once somebody misses a single
    /// probe, those it shares buckets with are asked about them, so that the answers are there by the time it departs.
    pub(crate) fn questions(&self) -> Questions {
        let blueprint = &self.state.blueprint;
        let absent = |node: NodeId| !blueprint.is_present(node) || self.watch.is_suspect(node);
        let mut questions = Questions::new();
        for bucket in blueprint.buckets.values() {
            let Some(government) = bucket.government() else { continue };
            if government.everyone().any(|m| absent(m.node)) {
                for member in government.members().chain(government.heirs.iter().copied()) {
                    questions.entry(member.node).or_default().insert(bucket.id);
                }
            }
        }
        for operation in blueprint.operations.values().filter(|o| o.state == OperationState::Running) {
            if let Some(Step::Dismiss { bucket, .. }) = operation.step()
                && let Some(government) = blueprint.government(*bucket)
            {
                questions.entry(government.primary.node).or_default().insert(*bucket);
            }
        }
        questions
    }

    /// Who is neither heard nor missed yet, as this coordinator has only just begun to ask. That includes those that departed: a
    /// report that one of them is silent may still count when it has returned, and then it must be as good as any.
    fn open_questions(&self, now: Instant) -> Vec<NodeId> {
        let open = |n: &NodeId| !self.watch.hears(*n, now) && !self.watch.misses(*n, now);
        self.state.blueprint.nodes.keys().copied().filter(open).collect()
    }

    pub(crate) fn report(&mut self, now: Instant, out: &mut Outbox) {
        let open = self.open_questions(now);
        if open.is_empty() {
            self.watch.settle();
        }
        // A newcomer that has not answered yet is no reason to fall silent oneself; having asked nobody is.
        if !self.watch.is_settled() {
            return self.wait(now, Subject::Coordinator, Until::EveryoneWasAsked { open });
        }
        let state = self.state.clone();
        let nodes = state.blueprint.nodes.keys().copied();
        let silent: BTreeSet<NodeId> = nodes.filter(|n| self.watch.misses(*n, now)).collect();
        let echoes = self.news_of_echoes(now);
        let Config { me, lifetime, refresh, .. } = self.config;
        // By its own clock: that of the state stands still while nobody says anything.
        let fresh = self.reported_at.is_some_and(|at| now.since(at) < refresh);
        let known = state.reports.get(me).is_some_and(|r| r.silent == silent);
        let same = |m: &MetaCommand| matches!(m, MetaCommand::Report(r) if r.silent == silent);
        let said = self.said.iter().any(|(output, _)| matches!(output, Output::Propose(m) if same(m)));
        if said || (fresh && known && echoes.is_empty()) {
            return;
        }
        self.reported_at = Some(now);
        // With this word there may be most.
        self.proposed |= !known;
        let report = Report { by: me, read_at: state.clock, number: now.0, lifetime, silent, echoes };
        self.say(now, Output::Propose(MetaCommand::Report(report)), out);
    }

    /// Whoever is silent to most coordinators departs. Answers who will have departed, if the meta group agrees.
    pub(crate) fn depart(&mut self, now: Instant, out: &mut Outbox) -> BTreeSet<NodeId> {
        let state = self.state.clone();
        let mut departing = BTreeSet::new();
        for node in state.blueprint.nodes.keys().copied().filter(|n| state.blueprint.is_present(*n)) {
            if !self.watch.misses(node, now) {
                continue;
            }
            let (agreed, settled) = (state.reports.is_silent_to_most(node), state.reports.is_settled(state.clock));
            if agreed && settled || C::breaks(Breach::StaleCoordinatorDeparts) {
                departing.insert(node);
                self.ask_for(now, node, Command::Depart { node }, out);
            } else if agreed {
                self.wait(now, Subject::Node(node), Until::ReportsSettled);
            } else {
                let (reporting, alive) = (state.reports.reporting(node), state.reports.alive());
                self.wait(now, Subject::Node(node), Until::SilentToMost { node, reporting, alive });
            }
        }
        departing
    }

    /// Whoever departed and answers again returns once most coordinators hear it. What it still holds it may be given again; what
    /// it lost meanwhile it has lost.
    pub(crate) fn welcome_back(&mut self, now: Instant, out: &mut Outbox) {
        let state = self.state.clone();
        for node in state.blueprint.nodes.values().filter(|n| !state.blueprint.is_present(n.id)) {
            if !self.watch.hears(node.id, now) {
                continue;
            }
            let (id, about) = (node.id, Subject::Node(node.id));
            if let Some(other) = state.blueprint.node_named(&node.name) {
                self.wait(now, about, Until::NameIsFree { node: id, by: other.id });
            } else if state.reports.is_heard_by_most(id) {
                self.ask_for(now, id, Command::Return { node: id }, out);
            } else {
                let (reporting, alive) = (state.reports.reporting(id), state.reports.alive());
                self.wait(now, about, Until::HeardByMost { node: id, reporting, alive });
            }
        }
    }

    fn ask_for(&mut self, now: Instant, node: NodeId, command: Command, out: &mut Outbox) {
        self.wait(now, Subject::Node(node), Until::Accepted { what: proposal(&command) });
        self.say(now, Output::Propose(MetaCommand::Change(command)), out);
    }
}
