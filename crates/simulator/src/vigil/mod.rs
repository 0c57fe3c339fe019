//! What is watched over time: that waits are true and have a name, that departures leave alone whom they do not concern, that
//! copies return. The other checkers look at one instant; these look at how long something has been so.
//!
//! Nobody knows at once what happens elsewhere. So nothing here fails because somebody is behind; it fails because somebody
//! *stays* behind although nothing keeps the news from it ([`World::calm_since`]).

mod beats;
mod causes;
mod copies;
mod truth;

use std::collections::BTreeMap;

use blueprint::{Blueprint, Command as Proposal, Conduct, Epoch, NodeId};

use crate::plan::{Fault, SECOND};
use crate::world::{Verdict, World};

#[derive(Debug, Default)]
pub struct Vigil {
    truth: truth::Truth,
    causes: causes::Causes,
    beats: beats::Beats,
    copies: copies::Copies,
    /// When each epoch came to be.
    epochs: BTreeMap<Epoch, u64>,
}

/// How long news may be under way when nothing is wrong: a blueprint is pushed every quarter of a second, a directory's row is
/// checked by its readers every two seconds, and a message may be lost now and then.
const NEWS: u64 = 5 * SECOND;
/// The same where one in five messages of the directory is lost: a check takes four of them.
const LOSSY_NEWS: u64 = 15 * SECOND;

impl Vigil {
    /// When something newer than this was decided, if so.
    fn superseded(&self, epoch: Epoch) -> Option<u64> {
        self.epochs.range(Epoch(epoch.0 + 1)..).next().map(|(_, at)| *at)
    }
}

impl<C: Conduct> World<C> {
    /// After a lane looked at its inbox.
    pub(crate) fn watch_lane(&mut self, host: usize, lane: u16) -> Verdict {
        if let (Some(chronicle), Some(node)) = (&mut self.trace.chronicle, self.hosts[host].node()) {
            chronicle.on_look(self.time, host, node, &self.meta.blueprint);
        }
        if !self.plan.vigil {
            return Ok(());
        }
        self.judge_waits(host, lane)?;
        self.take_pulse(host)
    }

    /// Every second.
    pub(crate) fn watch_all(&mut self) -> Verdict {
        if !self.plan.vigil {
            return Ok(());
        }
        self.look_for_causes()?;
        self.count_copies()
    }

    /// The meta group accepted it; `asked` is false if the conductor did, which stands for people and their mistakes.
    pub(crate) fn watch_change(&mut self, command: &Proposal, asked: bool, before: &Blueprint) -> Verdict {
        self.vigil.epochs.insert(self.meta.blueprint.epoch, self.time);
        if let Some(chronicle) = &mut self.trace.chronicle {
            chronicle.on_blueprint(self.time, Some(before), &self.meta.blueprint);
        }
        if !self.plan.vigil {
            return Ok(());
        }
        self.copies_on_change(command, before);
        self.beats_on_change(command, asked, before)
    }

    /// How long the directory's rows, and what follows from them, may be under way: told by a lane, published by its desk, handed
    /// on by another desk, heard by a lane, at an upkeep each.
    fn patience(&self) -> u64 {
        let lossy = self.plan.faults.has(Fault::DirectoryLoss) && !self.healed;
        4 * self.plan.upkeep + if lossy { LOSSY_NEWS } else { NEWS }
    }

    /// Since when nothing has kept this host from hearing, speaking and writing.
    fn calm_since(&self, host: usize) -> u64 {
        let healed = if self.healed { self.plan.unrest } else { 0 };
        let h = &self.hosts[host];
        let own = [h.up_since, h.paused_until, h.stalled_until(), h.slow_until, h.slow_disk_until, healed];
        let unrest = own.into_iter().max().unwrap_or_default().max(self.network.cut_until(host));
        let down = !h.responds(self.time) || h.freeze_next.is_some();
        if down { self.time } else { unrest.min(self.time) }
    }

    /// The same, and nothing kept it from the meta group either.
    fn informed_since(&self, host: usize) -> u64 {
        let meta = self.hosts[host].meta_cut_until.max(self.meta.away_until).max(self.meta.slow_until);
        self.calm_since(host).max(meta.min(self.time))
    }

    /// Could these two talk to each other right now?
    fn in_touch(&self, a: usize, b: usize) -> bool {
        let up = |host: usize| self.hosts[host].responds(self.time);
        let passes = |from, to| self.network.passes(from, to, self.time);
        up(a) && up(b) && (a == b || (passes(a, b) && passes(b, a)))
    }

    fn reaches(&self, from: usize, node: NodeId) -> bool {
        self.index.get(&node).is_some_and(|to| self.in_touch(from, *to))
    }
}

#[cfg(test)]
mod tests;
