//! Every number that the registrar waits by, and every limit, in one place.

use core::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub level: Level,
    /// No row lives longer than this without being said again.
    pub longest_life: Duration,
    /// Tombstones are kept for the longest life and this: messages are under way for a while, and clocks run at different rates.
    pub margin: Duration,
    /// In one round a node has checked with every sibling, one after the other.
    pub round: Duration,
    /// An unanswered check is repeated after this long; a pull that brought nothing goes to the next sibling. Also how long a node that
    /// sees itself behind waits for a push that may be under way, before it pulls.
    pub patience: Duration,
    /// So many checks in a row without an answer, and the peer counts as away; so many times the patience without the next part, and
    /// a pull that has begun goes to the next sibling.
    pub attempts: u32,
    /// Pulls under way at once: a node that starts must not drown.
    pub pulls: usize,
    /// Rows and bytes in one update, and so in one message: an update always fits.
    pub part_rows: usize,
    pub part_bytes: usize,
    /// Owners held. Those beyond it are not pulled; enough for every node of the largest cluster, and many departed ones.
    pub owners: usize,
    /// Rows held of one owner, tombstones included. Beyond it updates are refused, here and from others.
    pub owner_rows: usize,
    /// Updates that wait for the end of the start, or for the disk. Beyond it they are refused.
    pub waiting_updates: usize,
}

/// What a number must survive before anyone else hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Nothing is written: the directory.
    Ephemeral,
    /// An update is on its owner's disk before it is seen: the registry.
    Durable,
}

/// What a row costs in a message besides its key and value, at most.
pub(crate) const ROW_OVERHEAD: usize = 64;

impl Default for Config {
    fn default() -> Self {
        Self {
            level: Level::Ephemeral,
            longest_life: Duration::from_secs(3600),
            margin: Duration::from_secs(60),
            round: Duration::from_secs(2),
            patience: Duration::from_millis(500),
            attempts: 3,
            pulls: 4,
            part_rows: 1024,
            part_bytes: 256 << 10,
            owners: 4096,
            owner_rows: 1 << 20,
            waiting_updates: 1024,
        }
    }
}

impl Config {
    /// What a set of numbers must satisfy; the text says which one to change.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.longest_life.is_zero() || self.keep() > LONGEST {
            return Err("longest_life must be above zero, and with margin at most ten years");
        }
        if self.patience < SHORTEST_PATIENCE || self.attempts == 0 {
            return Err(
                "patience must be at least a millisecond, and attempts above zero: nothing is answered at once",
            );
        }
        if self.round < self.patience.saturating_mul(self.attempts) {
            return Err("round must be at least patience times attempts: one round's checks end before the next begin");
        }
        if self.round > LONGEST_ROUND {
            return Err("round must be at most an hour: a peer that is away is not noticed before");
        }
        if self.pulls == 0 || self.part_rows == 0 || self.owners == 0 || self.waiting_updates == 0 {
            return Err("pulls, part_rows, owners and waiting_updates must be above zero");
        }
        if self.owner_rows < self.part_rows || self.part_bytes < ROW_OVERHEAD {
            return Err("owner_rows must be at least part_rows, and part_bytes at least 64");
        }
        Ok(())
    }

    /// How long a row is kept after it was made, alive or as a tombstone: no older version of it can be alive anywhere by then.
    pub(crate) fn keep(&self) -> Duration {
        self.longest_life.saturating_add(self.margin)
    }
}

const SHORTEST_PATIENCE: Duration = Duration::from_millis(1);
const LONGEST_ROUND: Duration = Duration::from_secs(3600);
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
