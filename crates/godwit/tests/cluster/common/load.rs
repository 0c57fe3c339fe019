//! Clients at work while things go wrong: the prover itself, which judges every answer in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use prover::{Disturbance, Live, Record, Report, Settings};
use tokio::sync::watch;

use super::{Cluster, Node, until};

const CLIENTS: u32 = 4;
/// Until it is told to end.
const LENGTH: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(crate) struct Load {
    live: Arc<Live>,
    stop: watch::Sender<bool>,
    thread: JoinHandle<Result<Record, prover::Error>>,
}

/// How clients find who leads a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Any node will do.
    Any,
    /// They follow `MOVED`.
    Cluster,
}

impl Load {
    pub(crate) fn start(cluster: &Cluster, manner: Manner) -> Self {
        let address = |node: &Node| if manner == Manner::Any { node.any() } else { node.cluster() };
        Self::at(cluster.nodes.iter().map(address).collect(), manner)
    }

    pub(crate) fn at(addresses: Vec<String>, manner: Manner) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let run = NEXT.fetch_add(1, Ordering::Relaxed);
        let live = Arc::new(Live::new(run));
        let (stop, stopped) = watch::channel(false);
        let redis_cluster = manner == Manner::Cluster;
        let disturbance = Disturbance::Nothing;
        let settings = Settings { addresses, redis_cluster, length: LENGTH, clients: CLIENTS, seed: run, disturbance };
        let thread = std::thread::spawn({
            let live = Arc::clone(&live);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(prover::prove(&settings, &live, stopped))
            }
        });
        Self { live, stop, thread }
    }

    /// Waits until so many more writes were acknowledged.
    pub(crate) fn flow(&self, writes: u64, cluster: &Cluster) {
        let wanted = self.live.acknowledged() + writes;
        let enough = || (self.live.acknowledged() >= wanted || self.thread.is_finished()).then_some(());
        until("writes flow", enough, || format!("{}: {}", self.live.phase(), cluster.describe()));
    }

    /// What it was, judged: nothing lost, nothing twice, nothing stale.
    pub(crate) fn end(self) -> Report {
        self.stop.send_replace(true);
        let record = self.thread.join().expect("the prover does not panic").expect("somebody took writes");
        let report = Report::new(&record, &record.history.judge());
        assert!(report.is_clean(), "{}", serde_json::to_string_pretty(&report).expect("a report has an encoding"));
        report
    }
}
