//! Update numbers: 96 bits, totally ordered, given by an owner to its own updates and to nothing else.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Seconds when the counter was last reset, and the counter. An owner that lost its history resets the counter, and is above
/// everything that it ever gave out, provided its clock is. Where it is not, the numbers are still other ones than those that any
/// earlier life gave out: no number ever means two things.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct UpdateNumber {
    pub seconds: u32,
    pub count: u64,
}

/// The counter begins at the number of the life that resets it, in its highest bits. A clock and what peers hold are not enough to
/// tell two lives apart: (1) all hold 8:3 of an owner whose clock went back; (2) it restarts, goes on above that, at 9:0, and is heard by
/// one peer only; (3) it restarts again, hears only the others, and would go on at 9:0 once more.
///
/// Enough for a million lives, of a million updates a second over half a year each.
const COUNT_BITS: u32 = 44;
const LIFE_MASK: u64 = (1 << (u64::BITS - COUNT_BITS)) - 1;

impl UpdateNumber {
    /// Before the first update: whoever has nothing has everything up to here.
    pub const ZERO: Self = Self { seconds: 0, count: 0 };
    /// Numbers from beyond this second are taken for garbage: an owner could not get above them.
    pub const FURTHEST: u32 = u32::MAX - (1 << 20);

    pub fn new(seconds: u32, count: u64) -> Self {
        Self { seconds, count }
    }

    /// A counter that this life resets now.
    pub fn reset_at(wall: Duration, life: u64) -> Self {
        let seconds = wall.as_secs().min(u64::from(Self::FURTHEST)) as u32;
        Self { seconds, count: first_count(life) }
    }

    /// A reset that is above this number, whatever the clock says.
    pub fn reset_above(self, life: u64) -> Self {
        Self { seconds: self.seconds.saturating_add(1), count: first_count(life) }
    }

    pub fn next(self) -> Self {
        match self.count.checked_add(1) {
            Some(count) => Self { count, ..self },
            None => Self { seconds: self.seconds.saturating_add(1), count: 0 },
        }
    }

    /// Counted since the same reset.
    pub fn is_of_reset(self, other: Self) -> bool {
        self.seconds == other.seconds && self.count >> COUNT_BITS == other.count >> COUNT_BITS
    }

    pub fn is_plausible(self) -> bool {
        self.seconds <= Self::FURTHEST
    }
}

/// Lives are counted from 1.
fn first_count(life: u64) -> u64 {
    (life.wrapping_sub(1) & LIFE_MASK) << COUNT_BITS
}

/// `100:3` is of the first life, `100#2:3` of the second.
impl fmt::Display for UpdateNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (earlier, count) = (self.count >> COUNT_BITS, self.count & ((1 << COUNT_BITS) - 1));
        match earlier {
            0 => write!(f, "{}:{count}", self.seconds),
            _ => write!(f, "{}#{}:{count}", self.seconds, earlier + 1),
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
    fn two_lives_never_give_the_same_number() {
        let wall = Duration::from_millis(5_300);
        let first = UpdateNumber::reset_at(wall, 1);
        let much_later = (0..1000).fold(first, |n, _| n.next());
        assert!(much_later < UpdateNumber::reset_at(wall, 2), "within one second");
        assert_ne!(much_later.reset_above(2), much_later.reset_above(3), "above the same number");
        assert_eq!(alloc::format!("{}", much_later.reset_above(3).next()), "6#3:1");
    }

    #[test]
    fn no_clock_is_too_far_ahead() {
        let last = UpdateNumber::reset_at(Duration::MAX, 1);
        assert!(last.is_plausible());
        assert!(last.reset_above(1) > last);
        assert!(!UpdateNumber::new(u32::MAX, 0).is_plausible());
    }
}
