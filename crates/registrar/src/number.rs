//! Update numbers: 96 bits, totally ordered, given by an owner to its own updates and to nothing else.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Seconds when the counter was last reset, and the counter. An owner that lost its history resets the counter, and is above
/// everything that it ever gave out, provided its clock is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct UpdateNumber {
    pub seconds: u32,
    pub count: u64,
}

/// The counter begins at the fraction of the second at which it was reset, in its highest bits: a process that restarts within
/// a second, and cannot ask anyone, would otherwise give the same numbers again. What is left is enough for a million updates a
/// second over half a year; beyond that it simply runs into the next microsecond.
const COUNT_BITS: u32 = 44;

impl UpdateNumber {
    /// Before the first update: whoever has nothing has everything up to here.
    pub const ZERO: Self = Self { seconds: 0, count: 0 };
    /// Numbers from beyond this second are taken for garbage: an owner could not get above them.
    pub const FURTHEST: u32 = u32::MAX - (1 << 20);

    pub fn new(seconds: u32, count: u64) -> Self {
        Self { seconds, count }
    }

    /// A counter that is reset now.
    pub fn reset_at(wall: Duration) -> Self {
        let seconds = wall.as_secs().min(u64::from(Self::FURTHEST)) as u32;
        Self { seconds, count: u64::from(wall.subsec_micros()) << COUNT_BITS }
    }

    /// A reset that is above this number, whatever the clock says.
    pub fn reset_above(self) -> Self {
        Self { seconds: self.seconds.saturating_add(1), count: 0 }
    }

    pub fn next(self) -> Self {
        match self.count.checked_add(1) {
            Some(count) => Self { count, ..self },
            None => self.reset_above(),
        }
    }

    pub fn is_plausible(self) -> bool {
        self.seconds <= Self::FURTHEST
    }
}

impl fmt::Display for UpdateNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (micros, count) = (self.count >> COUNT_BITS, self.count & ((1 << COUNT_BITS) - 1));
        match micros {
            0 => write!(f, "{}:{count}", self.seconds),
            _ => write!(f, "{}.{micros:06}:{count}", self.seconds),
        }
    }
}

impl fmt::Debug for UpdateNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_weigh_more_than_the_counter() {
        assert!(UpdateNumber::new(5, u64::MAX) < UpdateNumber::new(6, 0));
        assert_eq!(UpdateNumber::new(5, u64::MAX).next(), UpdateNumber::new(6, 0));
        assert!(UpdateNumber::new(5, 7).next() > UpdateNumber::new(5, 7));
    }

    #[test]
    fn two_resets_within_a_second_do_not_meet() {
        let first = UpdateNumber::reset_at(Duration::from_micros(5_000_001));
        let second = UpdateNumber::reset_at(Duration::from_micros(5_000_002));
        let much_later = (0..1000).fold(first, |n, _| n.next());
        assert!(much_later < second);
    }

    #[test]
    fn no_clock_is_too_far_ahead() {
        let last = UpdateNumber::reset_at(Duration::MAX);
        assert!(last.is_plausible());
        assert!(last.reset_above() > last);
        assert!(!UpdateNumber::new(u32::MAX, 0).is_plausible());
    }
}
