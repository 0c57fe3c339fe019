//! All that the meta group keeps: the blueprint, and beside it what is said about the nodes, and what happened.
//!
//! Every command is stamped by the leader of the meta group, and a stamp never takes the clock back: it is part of the state, so that
//! every voter comes to the same result. A leader goes on from the clock of the state it leads from, with the pace of its own
//! monotonic clock. That is what the clock is for: it knows how long ago something was, and nothing else.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::history::foresee;
use crate::reports::MAX_LIFETIME;
use crate::{
    Applied, Blueprint, Breach, Command, Conduct, Epoch, Flaw, History, Instant, NodeId, Refusal, Report, Reported,
    Reports,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaState {
    /// Shared: it changes far less often than the rest, and everyone holds on to some epoch of it.
    #[serde(with = "shared")]
    pub blueprint: Arc<Blueprint>,
    pub reports: Reports,
    /// The newest epoch that each node is known to act on.
    pub echoes: BTreeMap<NodeId, Epoch>,
    /// The latest stamp.
    pub clock: Instant,
    /// What happened, for whoever asks later. Shared: it changes rarely, too. Only voters have all of it.
    #[serde(with = "shared")]
    pub history: Arc<History>,
    /// What the leader's wall clock said with the latest stamp, in µs since 1970; 0: nothing. Only the history knows it.
    pub wall: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetaCommand {
    /// A change of the blueprint. A departure or a return needs the word of most coordinators that are alive.
    Change(Command),
    Report(Report),
}

impl MetaState {
    pub fn apply<C: Conduct>(&mut self, stamp: Instant, command: &MetaCommand) -> Result<Applied, Refusal> {
        self.clock = self.clock.max(stamp);
        self.reports.expire(self.clock);
        match command {
            MetaCommand::Report(report) => self.take_report(report),
            MetaCommand::Change(change) => {
                self.require_word::<C>(change)?;
                let (before, happening) = (self.blueprint.epoch, foresee(&self.blueprint, change));
                let applied = Arc::make_mut(&mut self.blueprint).apply_as::<C>(change)?;
                if let Some(happening) = happening.filter(|_| applied.epoch > before) {
                    Arc::make_mut(&mut self.history).note(self.clock, self.wall, happening);
                }
                if let Command::RemoveNode { node } = change {
                    self.echoes.remove(node);
                    self.reports.forget_node(*node);
                }
                Ok(applied)
            }
        }
    }

    /// What the wall clock of whoever stamps the next commands says.
    pub fn tell_wall(&mut self, micros: u64) {
        self.wall = micros;
    }

    /// A coordinator that is cut off, or was asleep, cannot depart a node that the others hear; nor bring back one that they do not.
    fn require_word<C: Conduct>(&self, change: &Command) -> Result<(), Refusal> {
        let (reports, present) = (&self.reports, |node: &NodeId| self.blueprint.is_present(*node));
        let said = |node: NodeId| (node, reports.reporting(node), reports.alive());
        match change {
            Command::Depart { node } if present(node) && !reports.is_silent_to_most(*node) => {
                if C::breaks(Breach::StaleCoordinatorDeparts) {
                    return Ok(());
                }
                let (node, reporting, alive) = said(*node);
                Err(Refusal::NotSilentToMost { node, reporting, alive })
            }
            Command::Depart { node } if present(node) && !reports.is_settled(self.clock) => {
                Err(Refusal::ReportsUnsettled { node: *node })
            }
            Command::Return { node } if !present(node) && !reports.is_heard_by_most(*node) => {
                let (node, reporting, alive) = said(*node);
                Err(Refusal::NotHeardByMost { node, reporting, alive })
            }
            _ => Ok(()),
        }
    }

    fn take_report(&mut self, report: &Report) -> Result<Applied, Refusal> {
        if report.lifetime.is_zero() || report.lifetime > MAX_LIFETIME {
            return Err(Refusal::BadLifetime);
        }
        let read_at = report.read_at.min(self.clock);
        let good_until = read_at + report.lifetime;
        if good_until <= self.clock {
            let late_ms = self.clock.since(good_until).as_millis() as u64;
            return Err(Refusal::ReportExpired { by: report.by, late_ms });
        }
        if self.reports.is_full_for(report.by) {
            return Err(Refusal::TooManyCoordinators(self.reports.alive()));
        }
        let known = |node: &NodeId| self.blueprint.nodes.contains_key(node);
        let silent = report.silent.iter().copied().filter(known).collect();
        let reported = Reported { stamped: self.clock, read_at, number: report.number, good_until, silent };
        self.reports.take(report.by, reported);
        // What a node has acted on stays acted on, so echoes need no order.
        let newest = self.blueprint.epoch;
        for (node, epoch) in report.echoes.iter().filter(|(n, e)| self.blueprint.nodes.contains_key(n) && **e <= newest)
        {
            let echo = self.echoes.entry(*node).or_default();
            *echo = (*echo).max(*epoch);
        }
        Ok(Applied { epoch: newest, bucket: None, keyspace: None })
    }

    pub fn check_invariants(&self) {
        self.blueprint.check_invariants();
        if let Err(flaw) = self.validate() {
            panic!("{flaw}");
        }
    }

    pub(crate) fn validate(&self) -> Result<(), Flaw> {
        let known = |node| self.blueprint.nodes.contains_key(&node);
        self.reports.validate(self.clock, known).map_err(Flaw::Whole)?;
        self.history.validate().map_err(Flaw::Whole)?;
        let possible = |(node, epoch): (&NodeId, &Epoch)| known(*node) && *epoch <= self.blueprint.epoch;
        if self.echoes.iter().all(possible) {
            Ok(())
        } else {
            Err(Flaw::Whole("an epoch is echoed that never was, or by a node that does not exist"))
        }
    }
}

/// Shared in memory, plain in bytes.
mod shared {
    use alloc::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(shared: &Arc<T>, to: S) -> Result<S::Ok, S::Error> {
        shared.as_ref().serialize(to)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Arc<T>, D::Error> {
        T::deserialize(from).map(Arc::new)
    }
}
