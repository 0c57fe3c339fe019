//! The clocks that machines are told by: one that never goes back and counts suspended time, and the wall clock, which may be wrong.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blueprint::Instant;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_BOOTTIME (R5): a machine that was suspended must not believe in leases that ran out meanwhile.
pub(crate) fn now() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    Instant(time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000)
}

/// The first one after now. Nodes of one machine have the same.
pub(crate) fn next_multiple_of(span: Duration) -> Instant {
    let span = (span.as_micros() as u64).max(1);
    Instant((now().0 / span + 1) * span)
}

/// Microseconds since 1970.
pub(crate) fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back() {
        let mut last = now();
        for _ in 0..10_000 {
            let next = now();
            assert!(next >= last);
            last = next;
        }
    }
}
