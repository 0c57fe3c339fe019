//! Every number that a coordinator waits by, in one place, with the relations that must hold between them.

use core::time::Duration;

use blueprint::CoordinatorId;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub me: CoordinatorId,
    /// So many of those alive are on duty; the others stand by. Where there are no more nodes than that, all are.
    pub wanted: usize,
    /// One round: one probe to each node, one reading of the blueprint.
    pub period: Duration,
    /// Whoever has not answered a probe sent within this long is silent. Several rounds, as probes get lost.
    pub patience: Duration,
    /// A round that begins later than this after its time: whoever slept so long knows nothing, and begins anew.
    pub late: Duration,
    /// How long a report counts, from the reading that it was made from.
    pub lifetime: Duration,
    /// A report that says nothing new is repeated after this long.
    pub refresh: Duration,
    /// Who loses something by a change hears of it at most this much later than who gains something.
    pub head_start: Duration,
    /// What any coordinator could do, one does at once, the next one this much later, and so on: so that in good times it is
    /// done once. Departures are too urgent for that.
    pub stagger: Duration,
    pub leisure: Leisure,
}

/// What it waits by if somebody has asked for the cluster to rebalance by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leisure {
    /// So long the blueprint must not have changed: who adds a node often adds another.
    pub calm: Duration,
    /// So long after it let somebody find out whether it is worth it, it does so again: sizes change, and no epoch tells. In the largest
    /// cluster that takes seconds.
    pub look: Duration,
    /// So long it does nothing by itself after what it had begun failed, or was cancelled.
    pub rest: Duration,
}

impl Default for Leisure {
    fn default() -> Self {
        Self { calm: Duration::from_secs(10), look: Duration::from_secs(60), rest: Duration::from_secs(15 * 60) }
    }
}

impl Config {
    pub fn of(me: CoordinatorId) -> Self {
        Self {
            me,
            wanted: 7,
            period: Duration::from_millis(250),
            patience: Duration::from_millis(1500),
            late: Duration::from_millis(500),
            lifetime: Duration::from_millis(3000),
            refresh: Duration::from_millis(1000),
            head_start: Duration::from_millis(200),
            stagger: Duration::from_millis(250),
            leisure: Leisure::default(),
        }
    }

    /// What a set of numbers must satisfy; the text says which one to change.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.wanted == 0 {
            return Err("wanted must be above zero: somebody has to watch");
        }
        if self.period.is_zero() {
            return Err("period must be above zero");
        }
        if self.patience < 2 * self.period + self.late {
            return Err("patience must be at least late and two periods: a lost probe must not make anybody silent");
        }
        // The clock that a lone coordinator reads is that of its own last report.
        if self.lifetime <= 2 * self.refresh + 2 * self.period {
            return Err(
                "lifetime must be above two of refresh and two periods: a coordinator in good health counts as alive",
            );
        }
        Ok(())
    }
}
