//! Every number that the protocol waits by, in one place, with the relations that must hold between them.

use core::time::Duration;

use blueprint::Instant;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// How long a lease lasts, counted from the sending of what was answered (R5).
    pub lease: Duration,
    /// Added to a lease by whoever granted it: clocks may run at rates that differ by a few percent.
    pub margin: Duration,
    /// The tick of a primary: beacons, repeated frames, repeated proposals. Due at the multiples of this on the node's clock, so
    /// that the beacons of all its buckets leave together, one frame per peer.
    pub beacon: Duration,
    /// An unanswered frame or proposal is repeated after this long.
    pub retry: Duration,
    /// A secondary that has not answered for this long, while others did, is dismissed.
    pub stall: Duration,
    /// A dismissed laggard is seated again only after this long, doubled each time.
    pub seat_delay: Duration,
    /// How long a hand over may take to drain before it falls back.
    pub drain_budget: Duration,
    /// How long a request may wait in the backlog before it is refused.
    pub patience: Duration,
    /// Requests that wait while the bucket is paused. Beyond this they are refused: memory stays bounded.
    pub backlog: usize,
    /// Writes appended and not yet committed; beyond this they wait in the backlog. Enough for a lane's largest batch.
    pub uncommitted: usize,
    /// Entries in one frame: a peer far behind must not make one huge message.
    pub frame_entries: usize,
    /// About so many bytes of them (at least one entry): beacons travel on the same way, and a frame that no peer takes would be
    /// repeated for ever.
    pub frame_bytes: usize,
    /// Entries sent to a peer and not yet answered. Beyond this it waits for answers.
    pub window_entries: u64,
    /// Bytes of tables in one image (at least one slot).
    pub image_bytes: usize,
    /// Images on their way to one candidate, or to its disk. More than one, so that neither the network nor the disk waits for the other.
    pub images_in_flight: usize,
    /// Backfill, in bytes per second.
    pub fill_rate: u64,
    /// Applied entries between checkpoints, at least.
    pub checkpoint_every: u64,
    /// Or bytes of them: they may be large.
    pub checkpoint_bytes: u64,
    /// Entries kept behind a checkpoint, so that a secondary that was away catches up by log. None where there is no secondary.
    pub keep_entries: u64,
    /// No more than so many bytes of them.
    pub keep_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Duration::from_millis(400),
            margin: Duration::from_millis(20),
            beacon: Duration::from_millis(100),
            retry: Duration::from_millis(100),
            stall: Duration::from_millis(800),
            seat_delay: Duration::from_millis(1000),
            drain_budget: Duration::from_millis(500),
            patience: Duration::from_millis(2000),
            backlog: 1024,
            uncommitted: 65_536,
            frame_entries: 512,
            frame_bytes: 1 << 20,
            window_entries: 1024,
            image_bytes: 64 << 10,
            images_in_flight: 8,
            fill_rate: 64 << 20,
            checkpoint_every: 4096,
            checkpoint_bytes: 1 << 20,
            keep_entries: 1024,
            keep_bytes: 1 << 20,
        }
    }
}

impl Config {
    /// What a set of numbers must satisfy; the text says which one to change.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.beacon * 2 > self.lease {
            return Err("beacon must be at most half of lease: one lost beacon must not end a lease");
        }
        if self.margin * 25 < self.lease {
            return Err("margin must be at least 4% of lease: that is how far the rates of two clocks may drift apart");
        }
        if self.retry < self.beacon {
            return Err("retry must be at least beacon: what is repeated goes with a tick");
        }
        if self.stall < self.lease {
            return Err("stall must be at least lease: a secondary is not slow before its lease has run out");
        }
        if self.image_bytes == 0 || self.uncommitted == 0 {
            return Err("image_bytes and uncommitted must be above zero");
        }
        if self.checkpoint_bytes == 0 {
            return Err("checkpoint_bytes must be above zero");
        }
        if self.frame_entries == 0 || self.frame_bytes == 0 || self.window_entries == 0 {
            return Err("frame_entries, frame_bytes and window_entries must be above zero");
        }
        if self.backlog == 0 || self.fill_rate == 0 || self.images_in_flight == 0 {
            return Err("backlog, fill_rate and images_in_flight must be above zero");
        }
        Ok(())
    }

    /// The first tick after `now`, never later than one beacon from there.
    pub(crate) fn next_tick(&self, now: Instant) -> Instant {
        let beacon = (self.beacon.as_micros() as u64).max(1);
        Instant((now.0 / beacon + 1).saturating_mul(beacon))
    }

    /// What is repeated goes with a tick, so a little early is in time: a tick that woke late must not cost another one.
    pub(crate) fn retry_after(&self) -> Duration {
        self.retry.saturating_sub(self.beacon / 10)
    }

    /// How long whoever granted a lease must not reign.
    pub(crate) fn abstention(&self) -> Duration {
        self.lease + self.margin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_buckets_of_a_node_tick_together() {
        let config = Config::default();
        let tick = |micros| config.next_tick(Instant(micros)).0;
        assert_eq!((tick(0), tick(1), tick(99_999)), (100_000, 100_000, 100_000));
        assert_eq!((tick(100_000), tick(100_060)), (200_000, 200_000), "a wake that comes late moves nothing");
    }
}
