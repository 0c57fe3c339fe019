//! What a node does when its disk cannot say any more up to where it acted (R10, R11).
//!
//! An epoch below a replica's incarnation proves that this replica never was here (decision 0003), and a blueprint older than the newest
//! acted on is ignored. After damage the epoch on disk proves neither. But whatever this node once acted on, a read of the blueprint that
//! began later gives at least that. So nothing is followed before such a read is answered; and whatever was named up to that answer and
//! is not here may have been here: it counts as lost, and returns under a later name. When the answer's epoch is written down, the disk
//! proves again what it should, and remembers up to where it does not.

use std::sync::Arc;

use blueprint::{Blueprint, Conduct, Epoch, Instant};

use crate::io::Output;
use crate::lane::{Asked, Lane};

/// A read of the blueprint that nothing goes on without.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asking {
    since: Option<Instant>,
    /// The newest that somebody pushed meanwhile.
    behind: Option<Arc<Blueprint>>,
}

impl<C: Conduct> Lane<C> {
    /// What was named up to here may have been here, although nothing says so.
    pub(crate) fn doubt(&self) -> Epoch {
        if self.asking.is_some() { Epoch(u64::MAX) } else { self.doubted_upto }
    }

    /// Asks, and asks again when there is no answer for long.
    pub(crate) fn ask_in_doubt(&mut self, now: Instant, out: &mut Vec<Output>) {
        let patience = self.config.limits.read_patience;
        let Some(asking) = &mut self.asking else { return };
        if asking.since.is_none_or(|since| now >= since + patience) {
            asking.since = Some(now);
            let id = self.ask(Asked::Doubt);
            out.push(Output::ReadMeta { id });
        }
    }

    /// While nobody knows what this node acted on, a blueprint that somebody pushed may be older than that.
    pub(crate) fn waits_for_read(&mut self, blueprint: &Arc<Blueprint>) -> bool {
        let Some(asking) = &mut self.asking else { return false };
        if asking.behind.as_ref().is_none_or(|behind| behind.epoch < blueprint.epoch) {
            asking.behind = Some(Arc::clone(blueprint));
        }
        true
    }

    /// A read that this life began is answered: this is at least what any earlier life acted on.
    pub(crate) fn end_asking(&mut self, now: Instant, read: &Arc<Blueprint>, out: &mut Vec<Output>) {
        let Some(asking) = self.asking.take() else { return };
        self.doubted_upto = self.doubted_upto.max(read.epoch);
        // Nothing is made of an old split, either: its child may have been here and be lost.
        for deferred in std::mem::take(&mut self.deferred) {
            self.drive(now, deferred.parent, phaser::Input::Forked { child: deferred.fork.child }, out);
        }
        self.on_blueprint(now, read, out);
        if let Some(behind) = asking.behind {
            self.on_blueprint(now, &behind, out);
        }
    }
}
