//! The clock of the data (R13): what expires keys.
//!
//! It runs on the monotonic clock and is slewed by at most one percent towards wall time, so a jump of the wall clock
//! expires nothing and freezes nothing. Every entry carries it; a successor goes on from the last entry plus what has
//! passed since it came.

use blueprint::Instant;

/// How much faster or slower than the monotonic clock: one part in this many.
const SLEW: u64 = 100;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataClock {
    value: u64,
    at: Instant,
    /// Wall time in microseconds, and when it was read.
    wall: Option<(u64, Instant)>,
}

impl DataClock {
    pub fn new(value: u64, now: Instant) -> Self {
        Self { value, at: now, wall: None }
    }

    pub fn read(&self, now: Instant) -> u64 {
        if self.value == 0 {
            return 0; // nothing was ever stamped
        }
        let elapsed = now.since(self.at).as_micros() as u64;
        let free = self.value.saturating_add(elapsed);
        let Some(wall) = self.wall(now) else { return free };
        let slew = elapsed / SLEW;
        if wall >= free { free.saturating_add(slew.min(wall - free)) } else { free - slew.min(free - wall) }
    }

    /// The value to stamp on an entry. A bucket's very first one has nothing to go on from but wall time.
    pub fn stamp(&mut self, now: Instant) -> u64 {
        if self.value == 0 {
            self.restart(now);
        }
        self.read(now)
    }

    /// An entry came by, whoever stamped it: from here on the clock goes on from it, and from nothing of our own.
    pub fn observe(&mut self, value: u64, now: Instant) {
        if value != self.read(now) {
            (self.value, self.at) = (value, now);
        }
    }

    pub fn observe_wall(&mut self, wall: u64, now: Instant) {
        (self.value, self.at) = (self.read(now), self.at.max(now));
        self.wall = Some((wall, now));
    }

    /// This machine's wall time. For the very first stamp only: anywhere else it is the planted bug of R13.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.value = self.wall(now).unwrap_or(0);
        self.at = now;
    }

    fn wall(&self, now: Instant) -> Option<u64> {
        self.wall.map(|(wall, at)| wall.saturating_add(now.since(at).as_micros() as u64))
    }
}
