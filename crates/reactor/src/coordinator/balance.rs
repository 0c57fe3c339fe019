//! When it is time to rebalance, if somebody has asked for that to be done by itself: when nothing else goes on, and nothing has changed
//! for a while. Whether it is worth anything is not known here. To find out takes a plan, which is large where the cluster is: the driver
//! makes it, of what it knows of sizes, and proposes what comes of it ([`Output::Rebalance`]). So it is asked for rarely, and by one
//! coordinator: whoever comes first by the place that the epoch decides. If that one dies another is first, and waits from anew.
//!
//! Times are counted from what this coordinator has seen itself. One that has just begun waits longer than it would have to.

use blueprint::{Conduct, Epoch, Instant, OperationId, Unrest};

use super::io::{Outbox, Output};
use super::{Coordinator, Subject, Until};

#[derive(Clone, Debug, Default)]
pub(crate) struct Balance {
    /// The epoch that was read last, what speaks against it there, and since when it is so.
    seen: Option<Seen>,
    /// The last one that came of it and did not end well, and since when that is known.
    setback: Option<(OperationId, Instant)>,
    /// When it last let somebody look.
    looked: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    epoch: Epoch,
    unrest: Option<Unrest>,
    since: Instant,
}

impl<C: Conduct> Coordinator<C> {
    pub(crate) fn rebalance(&mut self, now: Instant, out: &mut Outbox) {
        if self.state.blueprint.auto_rebalance.is_none() {
            self.balance = Balance::default();
            return;
        }
        let Seen { epoch, unrest, since } = self.look_for_unrest(now);
        if let Some(unrest) = unrest {
            return self.wait(now, Subject::Balance, Until::Calm(unrest));
        }
        if let Some(after) = self.rests_after(now) {
            return self.wait(now, Subject::Balance, Until::Rested { after, for_long: self.config.leisure.rest });
        }
        if now.since(since) < self.config.leisure.calm {
            return self.wait(now, Subject::Balance, Until::Unchanged { for_long: self.config.leisure.calm });
        }
        let is_due = self.balance.looked.is_none_or(|at| now.since(at) >= self.config.leisure.look);
        if is_due && self.rank(epoch.0) == 0 {
            self.balance.looked = Some(now);
            out.push(Output::Rebalance { epoch });
        }
    }

    /// Once for each epoch: it is a walk over all buckets.
    fn look_for_unrest(&mut self, now: Instant) -> Seen {
        let blueprint = &self.state.blueprint;
        let fresh = || Seen { epoch: blueprint.epoch, unrest: blueprint.unrest(), since: now };
        let seen = self.balance.seen.filter(|seen| seen.epoch == blueprint.epoch).unwrap_or_else(fresh);
        if self.balance.seen.is_none_or(|before| before.epoch != seen.epoch) {
            self.balance.looked = None; // it was another cluster
        }
        self.balance.seen = Some(seen);
        seen
    }

    /// What went wrong may go wrong again, and who cancelled it had a reason.
    fn rests_after(&mut self, now: Instant) -> Option<OperationId> {
        let Some(id) = self.state.blueprint.automatic_setback().map(|operation| operation.id) else {
            self.balance.setback = None;
            return None;
        };
        let known = self.balance.setback.filter(|(known, _)| *known == id);
        let (_, since) = *self.balance.setback.insert(known.unwrap_or((id, now)));
        (now.since(since) < self.config.leisure.rest).then_some(id)
    }
}
