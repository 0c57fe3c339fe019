//! What goes wrong during a run: one thing at a time, and the next one only when the cluster has recovered from the last.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
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
/// Pauses in ms: all longer than any lease, and one of `LONG` of any length, up to longer than it takes to be given up for dead.
const PAUSE: Range<u64> = 1_000..3_000;
const LONG_PAUSE: Range<u64> = 1_000..8_000;
const LONG: u64 = 4;
/// However slow the machine is, a cluster that has not recovered by then does not.
const RECOVERY: Duration = Duration::from_secs(90);
/// Writes flow again when they come at this share of the rate before, in a second. Not all of it: rates vary by themselves.
const FLOW_PERCENT: u64 = 70;
const FLOW: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The process ends without warning, and starts again on the same data.
    Kill,
    /// The process is asked to end: it hands over, ends, and starts again on the same data.
    Leave,
    /// It stands still for a while and does not know.
    Pause,
    /// It runs, and nobody hears it.
    Partition,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultKind::Kill => "kill",
            FaultKind::Leave => "leave",
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
    /// When it began to be taken back: until then only the fault itself disturbs.
    pub healing: Option<u64>,
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
            let lengths = if rng.below(LONG) == 0 { LONG_PAUSE } else { PAUSE };
            let pause = Duration::from_millis(lengths.start + rng.below(lengths.end - lengths.start));
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
            FaultKind::Kill | FaultKind::Leave => {
                if !is_stopped(stop, SHORTEST_AWAY).await {
                    strike.flowing = when_flowing(&mut Flow::default(), live, rate_before, LONGEST_AWAY).await;
                }
            }
            FaultKind::Pause | FaultKind::Partition => _ = is_stopped(stop, pause).await,
        }
        live.enter(format!("after the {kind} of node {node}"));
        strike.healing = Some(live.now());
        self.by_hand(move |hands| hands.heal(kind, node)).await?;
        strike.healed = Some(live.now());
        // Coming back disturbs: only from here on it counts.
        let mut flow = Flow::default();
        if strike.flowing.is_none() {
            strike.flowing = when_flowing(&mut flow, live, rate_before, RECOVERY).await;
        }
        match self.until_well(|| flow.note(live) && flow.is_at(rate_before)).await {
            (health, true) if self.allows_next(&health) => strike.recovered = Some(live.now()),
            (health, false) if self.allows_next(&health) => {
                strike.note = Some(format!("writes did not come back to {rate_before} per second in time"));
            }
            (Health::Down(lacks), _) => {
                strike.note = Some(format!("it did not serve again in time: {lacks}"));
                strike.down = true;
            }
            (Health::Serves(lacks), _) => {
                strike.note = Some(format!("it serves, but not all came back in time: {lacks}"));
            }
            (Health::Well, _) => unreachable!("always allows the next"),
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

    /// Or as well as it gets; and whether writes flow, too.
    async fn until_well(&self, mut flows: impl FnMut() -> bool) -> (Health, bool) {
        let begun = Instant::now();
        loop {
            let hands = Arc::clone(&self.hands);
            let health = spawn_blocking(move || hands.health()).await.expect("hands do not panic");
            let flows = flows();
            if flows && self.allows_next(&health) || begun.elapsed() > RECOVERY {
                return (health, flows);
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
async fn when_flowing(flow: &mut Flow, live: &Live, rate: u64, limit: Duration) -> Option<u64> {
    let flowing = async {
        while !(flow.note(live) && flow.is_at(rate)) {
            sleep(LOOK).await;
        }
    };
    timeout(limit, flowing).await.ok()?;
    flow.since()
}

/// How many writes were acknowledged when, during the last second.
#[derive(Default)]
struct Flow(VecDeque<(Instant, u64, u64)>);

impl Flow {
    /// Whether it has seen a whole second.
    fn note(&mut self, live: &Live) -> bool {
        let now = Instant::now();
        self.0.push_back((now, live.now(), live.acknowledged()));
        while self.0.get(1).is_some_and(|(at, ..)| now - *at >= FLOW) {
            self.0.pop_front();
        }
        self.0.front().is_some_and(|(at, ..)| now - *at >= FLOW)
    }

    fn is_at(&self, rate: u64) -> bool {
        let (Some((from, _, before)), Some((to, _, after))) = (self.0.front(), self.0.back()) else { return false };
        per_second(after - before, *to - *from) * 100 >= rate * FLOW_PERCENT
    }

    /// In µs of the run.
    fn since(&self) -> Option<u64> {
        self.0.front().map(|(_, at, _)| *at)
    }
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
