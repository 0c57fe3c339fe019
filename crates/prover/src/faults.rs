//! What goes wrong during a run: one thing at a time, and the next one only when the cluster has recovered from the last.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::record::Live;
use crate::rng::Rng;

/// A node that was killed stays away until the others have taken over, but no longer than that.
const LONGEST_AWAY: Duration = Duration::from_secs(20);
const SHORTEST_AWAY: Duration = Duration::from_secs(1);
/// Pauses last between these: longer than any lease, some longer than it takes to be given up for dead.
const SHORTEST_PAUSE: u64 = 1_000;
const LONGEST_PAUSE: u64 = 8_000;
/// However slow the machine is, a cluster that has not recovered by then does not.
const RECOVERY: Duration = Duration::from_secs(90);
/// Writes flow again when they come at this share of the rate before, in a second. Not all of it: rates vary by themselves.
const FLOW_PERCENT: u64 = 70;
const LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The process ends without warning, and starts again on the same data.
    Kill,
    /// It stands still for a while and does not know.
    Pause,
    /// It runs, and nobody hears it.
    Partition,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultKind::Kill => "kill",
            FaultKind::Pause => "pause",
            FaultKind::Partition => "partition",
        })
    }
}

/// Whoever has the nodes in hand. Calls may take a while.
pub trait Hands: Send + Sync + fmt::Debug {
    fn nodes(&self) -> Vec<u16>;
    /// Makes it happen to this node.
    fn strike(&self, kind: FaultKind, node: u16) -> Result<(), Failed>;
    /// Takes it back.
    fn heal(&self, kind: FaultKind, node: u16) -> Result<(), Failed>;
    fn health(&self) -> Health;
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Well,
    /// It serves, but something is still missing: another fault now could be one too many.
    Serves(String),
    Down(String),
}

/// One fault that happened. Times in µs of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Strike {
    pub kind: Option<FaultKind>,
    pub node: u16,
    pub at: u64,
    /// When it was taken back: the node started again, went on.
    pub healed: Option<u64>,
    /// When writes flowed as before for the first time.
    pub flowing: Option<u64>,
    /// When, besides, the cluster was as it should be for the next fault.
    pub recovered: Option<u64>,
    pub rate_before: u64,
    /// What did not come right, in plain words.
    pub note: Option<String>,
    /// It did not even serve when its time was up.
    pub down: bool,
}

/// What to do to the cluster.
#[derive(Clone, Debug)]
pub struct Faults {
    pub kinds: Vec<FaultKind>,
    /// The calm between two.
    pub every: Duration,
    pub next: Next,
    pub hands: Arc<dyn Hands>,
}

/// When the next fault may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// All is served. Copies may be missing: it can be one fault too many to go on serving, never to keep what was acknowledged.
    Serving,
    /// Nothing is missing.
    Whole,
}

impl Faults {
    /// Strikes again and again for so long. Whatever was struck is healed when this returns, unless that is what failed.
    pub(crate) async fn run(
        &self,
        live: &Live,
        length: Duration,
        seed: u64,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), Failed> {
        let (begun, mut rng) = (Instant::now(), Rng::new(seed));
        let nodes = self.hands.nodes();
        for kind in self.kinds.iter().cycle() {
            live.enter("calm");
            let (from, before) = (Instant::now(), live.acknowledged());
            if is_stopped(&mut stop, self.every).await || begun.elapsed() >= length {
                return Ok(());
            }
            let rate = per_second(live.acknowledged() - before, from.elapsed());
            let node = nodes[rng.below(nodes.len() as u64) as usize];
            let pause = Duration::from_millis(SHORTEST_PAUSE + rng.below(LONGEST_PAUSE - SHORTEST_PAUSE));
            let begun = Strike { kind: Some(*kind), node, at: live.now(), rate_before: rate, ..Strike::default() };
            let (strike, done) = match self.one(live, *kind, begun.clone(), pause, &mut stop).await {
                Ok(strike) => (strike, Ok(())),
                Err(failed) => (Strike { note: Some(failed.to_string()), down: true, ..begun }, Err(failed)),
            };
            live.change(|record| record.strikes.push(strike));
            done?;
        }
        Ok(())
    }

    async fn one(
        &self,
        live: &Live,
        kind: FaultKind,
        mut strike: Strike,
        pause: Duration,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Strike, Failed> {
        let (node, rate_before) = (strike.node, strike.rate_before);
        live.enter(format!("{kind} of node {node}"));
        self.by_hand(move |hands| hands.strike(kind, node)).await?;
        match kind {
            FaultKind::Kill => {
                if !is_stopped(stop, SHORTEST_AWAY).await {
                    strike.flowing = when_flowing(live, rate_before, LONGEST_AWAY).await;
                }
            }
            FaultKind::Pause | FaultKind::Partition => _ = is_stopped(stop, pause).await,
        }
        live.enter(format!("after the {kind} of node {node}"));
        self.by_hand(move |hands| hands.heal(kind, node)).await?;
        strike.healed = Some(live.now());
        if strike.flowing.is_none() {
            strike.flowing = when_flowing(live, rate_before, RECOVERY).await;
        }
        match self.until_well().await {
            health if self.allows_next(&health) => {
                // Coming back disturbs, too.
                strike.recovered = when_flowing(live, rate_before, RECOVERY).await;
                if strike.recovered.is_none() {
                    strike.note = Some(format!("writes did not come back to {rate_before} per second in time"));
                }
            }
            Health::Down(lacks) => {
                strike.note = Some(format!("it did not serve again in time: {lacks}"));
                strike.down = true;
            }
            Health::Serves(lacks) => strike.note = Some(format!("it serves, but not all came back in time: {lacks}")),
            Health::Well => unreachable!("always allows the next"),
        }
        Ok(strike)
    }

    fn allows_next(&self, health: &Health) -> bool {
        match health {
            Health::Well => true,
            Health::Serves(_) => self.next == Next::Serving,
            Health::Down(_) => false,
        }
    }

    /// Or as well as it gets.
    pub(crate) async fn until_well(&self) -> Health {
        let begun = Instant::now();
        loop {
            let hands = Arc::clone(&self.hands);
            let health = spawn_blocking(move || hands.health()).await.expect("hands do not panic");
            if self.allows_next(&health) || begun.elapsed() > RECOVERY {
                return health;
            }
            sleep(LOOK).await;
        }
    }

    async fn by_hand(&self, act: impl FnOnce(&dyn Hands) -> Result<(), Failed> + Send + 'static) -> Result<(), Failed> {
        let hands = Arc::clone(&self.hands);
        spawn_blocking(move || act(hands.as_ref())).await.expect("hands do not panic")
    }
}

/// The beginning of the first second, from now on, in which writes come as before.
async fn when_flowing(live: &Live, rate: u64, limit: Duration) -> Option<u64> {
    let flowing = async {
        loop {
            let (now, from, before) = (live.now(), Instant::now(), live.acknowledged());
            sleep(Duration::from_secs(1)).await;
            if per_second(live.acknowledged() - before, from.elapsed()) * 100 >= rate * FLOW_PERCENT {
                return now;
            }
        }
    };
    timeout(limit, flowing).await.ok()
}

fn per_second(count: u64, time: Duration) -> u64 {
    (u128::from(count) * 1_000_000 / time.as_micros().max(1)) as u64
}

/// Waits, unless it is told to stop.
pub(crate) async fn is_stopped(stop: &mut watch::Receiver<bool>, wait: Duration) -> bool {
    // Nobody is left to say stop: then it is only a wait.
    let stopped = async {
        if stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    timeout(wait, stopped).await.is_ok()
}
