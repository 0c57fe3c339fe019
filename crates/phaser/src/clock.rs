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
        let elapsed = now.since(self.at).as_micros() as u64;
        let free = self.value + elapsed;
        let Some(wall) = self.wall(now) else { return free };
        let slew = elapsed / SLEW;
        if wall >= free { free + slew.min(wall - free) } else { free - slew.min(free - wall) }
    }

    /// The value to stamp on an entry: from here on the clock goes on from it.
    pub fn stamp(&mut self, now: Instant) -> u64 {
        self.advance(now);
        self.value
    }

    /// An entry of the primary came by.
    pub fn observe(&mut self, value: u64, now: Instant) {
        self.advance(now);
        self.value = self.value.max(value);
    }

    pub fn observe_wall(&mut self, wall: u64, now: Instant) {
        self.advance(now);
        if self.value == 0 {
            self.value = wall; // a bucket's very first clock has nothing to go on from
        }
        self.wall = Some((wall, now));
    }

    /// The planted bug of R13: forget what the data says and start over at this machine's wall time.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.value = self.wall(now).unwrap_or(0);
        self.at = now;
    }

    fn advance(&mut self, now: Instant) {
        self.value = self.read(now);
        self.at = self.at.max(now);
    }

    fn wall(&self, now: Instant) -> Option<u64> {
        self.wall.map(|(wall, at)| wall.saturating_add(now.since(at).as_micros() as u64))
    }
}
