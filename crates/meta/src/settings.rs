//! Every number that the meta group waits by.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use blueprint::Instant;

#[derive(Clone, Debug)]
pub struct Settings {
    pub heartbeat: Duration,
    /// A voter that has heard a leader within this long votes for no other. After that it is the turn of the first to stand for
    /// election, one heartbeat later that of the next, and so on: by default a leader that dies is replaced after about 0.7 seconds.
    pub lease: Duration,
    /// How long a leader waits for a command to be committed before it says that the outcome is unknown. Also for a voter to answer,
    /// when voters are changed.
    pub patience: Duration,
    /// How long one node is waited for, by another that asks it something. Longer than `patience`: whoever leads should have the
    /// time to say that it gave up.
    pub call: Duration,
    /// How long all of them are asked.
    pub deadline: Duration,
    /// Three or five; fewer while fewer nodes have joined.
    pub voters: usize,
    /// A voter that departed is replaced after that. Counted by each leader anew.
    pub voter_delay: Duration,
    /// How often a leader looks whether its voters are still the right ones, when nothing changes.
    pub round: Duration,
    /// A snapshot is taken after so many entries.
    pub snapshot_every: u64,
    /// So many of the entries before it are kept, for voters that lag only a little.
    pub keep_entries: u64,
    /// A snapshot travels in pieces of that size.
    pub snapshot_piece: u64,
    pub clock: Clock,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            lease: Duration::from_millis(600),
            patience: Duration::from_secs(2),
            call: Duration::from_millis(2500),
            deadline: Duration::from_secs(5),
            voters: 3,
            voter_delay: Duration::from_secs(300),
            round: Duration::from_secs(1),
            snapshot_every: 2_000,
            keep_entries: 500,
            snapshot_piece: 512 << 10,
            clock: Clock::since_now(),
        }
    }
}

impl Settings {
    pub(crate) fn for_raft(&self, cluster: &str) -> Result<openraft::Config, String> {
        if !matches!(self.voters, 1 | 3 | 5) {
            return Err(format!("{} voters: 1, 3 or 5 are possible", self.voters));
        }
        let millis = |span: Duration| span.as_millis() as u64;
        let lease = millis(self.lease);
        if self.heartbeat.is_zero() || self.heartbeat * 3 > self.lease {
            return Err("a lease must last for three heartbeats, or a beat that was lost would end it".to_owned());
        }
        let config = openraft::Config {
            cluster_name: cluster.to_owned(),
            // It neither beats nor stands by itself (`beat`), and need not look whether it is time to, as often as it would.
            enable_heartbeat: false,
            enable_elect: false,
            heartbeat_interval: lease - 2,
            election_timeout_min: lease - 1,
            election_timeout_max: lease,
            install_snapshot_timeout: millis(self.patience),
            snapshot_policy: openraft::SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            max_in_snapshot_log_to_keep: self.keep_entries,
            snapshot_max_chunk_size: self.snapshot_piece,
            // Entries are sent as long as they are there.
            replication_lag_threshold: self.snapshot_every + self.keep_entries,
            ..openraft::Config::default()
        };
        config.validate().map_err(|error| error.to_string())
    }
}

impl Settings {
    /// Who has heard nobody for so long may stand: by then the leases of the others have run out, too.
    pub(crate) fn silence(&self) -> Duration {
        self.lease + self.heartbeat / 4
    }
}

/// The node's own monotonic clock; one that counts suspended time, if the node has it.
#[derive(Clone)]
pub struct Clock(pub Arc<dyn Fn() -> Instant + Send + Sync>);

impl Clock {
    pub fn since_now() -> Self {
        let start = std::time::Instant::now();
        Self(Arc::new(move || Instant::ZERO + start.elapsed()))
    }

    pub(crate) fn now(&self) -> Instant {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?})", self.now())
    }
}
