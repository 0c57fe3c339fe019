//! Changes of shape that are asked for during a run, one after the other, each after a calm that it is compared with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::faults::{Failed, is_stopped};
use crate::record::Live;

/// However slow the machine is, a round of all kinds does not take longer.
const LONGEST_ROUND: Duration = Duration::from_secs(3600);

/// Whoever can change the shape of the cluster.
pub trait Shaper: Send + Sync + fmt::Debug {
    /// What is changed in a round, in this order.
    fn kinds(&self, round: u32) -> Vec<String>;
    /// What has to be so before this kind of change can be asked for, and is none of it.
    fn prepare(&self, kind: &str) -> Result<(), Failed>;
    /// Returns when it is over; with nothing if there was nothing to do.
    fn change(&self, kind: &str, round: u32) -> Result<Option<Changed>, Failed>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// What was asked for, in full.
    pub what: String,
    /// Of the copies that it made.
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Changes {
    pub rounds: u32,
    /// Before each of them nothing is done for so long.
    pub calm: Duration,
    pub shaper: Arc<dyn Shaper>,
}

/// One that was made. Times in µs of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    pub kind: String,
    pub what: String,
    pub bytes: u64,
    /// When the calm before it began.
    pub calm: u64,
    pub at: u64,
    pub done: u64,
}

impl Changes {
    pub(crate) fn longest(&self) -> Duration {
        LONGEST_ROUND * self.rounds
    }

    /// Ends with the first that does not come true: what follows would be about another cluster than it should be.
    pub(crate) async fn run(&self, live: &Live, mut stop: watch::Receiver<bool>) -> Result<(), Failed> {
        for round in 0..self.rounds {
            for kind in self.shaper.kinds(round) {
                live.enter(format!("round {} of {}: before {kind}", round + 1, self.rounds));
                self.by_hand(&kind, |shaper, kind| shaper.prepare(kind)).await?;
                let calm = live.now();
                if is_stopped(&mut stop, self.calm).await {
                    return Ok(());
                }
                live.enter(format!("round {} of {}: {kind}", round + 1, self.rounds));
                let at = live.now();
                let changed = self.by_hand(&kind, move |shaper, kind| shaper.change(kind, round)).await?;
                if let Some(Changed { what, bytes }) = changed {
                    let change = Change { kind, what, bytes, calm, at, done: live.now() };
                    live.change(|record| record.changes.push(change));
                }
            }
        }
        Ok(())
    }

    async fn by_hand<T: Send + 'static>(
        &self,
        kind: &str,
        act: impl FnOnce(&dyn Shaper, &str) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, Failed> {
        let (shaper, kind) = (Arc::clone(&self.shaper), kind.to_owned());
        let done = spawn_blocking(move || {
            let done = act(shaper.as_ref(), &kind);
            done.map_err(|failed| Failed(format!("{kind}: {failed}")))
        });
        done.await.expect("shapers do not panic")
    }
}
