//! The clock that stamps commands: it goes on from the clock of the state that this leader leads from, at the pace of its own monotonic
//! clock. Time without a leader is not counted, so the stamps never run faster than time does.

use blueprint::Instant;

#[derive(Debug, Default)]
pub(crate) struct LeaderClock {
    term: u64,
    /// What the node's own clock said, and what the stamps said at that moment.
    own: Instant,
    stamp: Instant,
}

impl LeaderClock {
    /// The stamp of a command that is proposed now, by the leader of `term`, who has applied a state with that clock.
    pub(crate) fn stamp(&mut self, term: u64, own: Instant, applied: Instant) -> Instant {
        if self.term != term {
            *self = Self { term, own, stamp: applied };
        }
        let stamp = self.stamp + own.since(self.own);
        if stamp < applied {
            // A leader may begin to stamp before it has applied all that its predecessor left.
            *self = Self { term, own, stamp: applied };
            return applied;
        }
        stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_from_what_was_applied() {
        let mut clock = LeaderClock::default();
        assert_eq!(clock.stamp(3, Instant(1_000), Instant(50)), Instant(50));
        assert_eq!(clock.stamp(3, Instant(1_010), Instant(50)), Instant(60));
        // Its own clock is of another node, and means nothing by itself.
        assert_eq!(clock.stamp(3, Instant(1_011), Instant(500)), Instant(500));
        assert_eq!(clock.stamp(3, Instant(1_021), Instant(500)), Instant(510));
    }

    #[test]
    fn time_under_others_is_not_counted() {
        let mut clock = LeaderClock::default();
        assert_eq!(clock.stamp(3, Instant(0), Instant(50)), Instant(50));
        assert_eq!(clock.stamp(7, Instant(1_000_000), Instant(60)), Instant(60));
        assert_eq!(clock.stamp(7, Instant(1_000_001), Instant(60)), Instant(61));
    }

    #[test]
    fn never_goes_back() {
        let mut clock = LeaderClock::default();
        let before = clock.stamp(1, Instant(100), Instant(10));
        assert!(clock.stamp(1, Instant(90), Instant(10)) >= before);
    }
}
