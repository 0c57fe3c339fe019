//! One client: does one thing after another, tries again what was certainly not done, and repeats what is safe to repeat. Everything
//! else whose outcome is unknown stays unknown.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use history::{Operation, Outcome};
use tokio::time::sleep;

use crate::heard::{Heard, hear};
use crate::record::Live;
use crate::route::{Attempt, Route};
use crate::workload::{Task, Workload};

/// How long one operation is tried, in µs. Longer than any fault: what goes on for longer is refused, or uncertain, for good.
const PERSISTENCE: u64 = 30_000_000;
/// Between two attempts: enough to leave the cluster alone, little beside the gaps that are measured.
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) number: u32,
    pub(crate) route: Route,
    pub(crate) live: Arc<Live>,
}

/// What an attempt came to.
enum Came {
    Answered(Outcome),
    NotDone,
    Unknown,
}

impl Client {
    /// Until the workload has nothing more.
    pub(crate) async fn work(&mut self, workload: &Mutex<Workload>) {
        loop {
            let drawn = workload.lock().expect("nobody panics with it").draw(self.number, self.live.now());
            let Some(task) = drawn else { return };
            self.carry_out(&task, PERSISTENCE).await;
            self.route.wander();
        }
    }

    /// Reads these keys once more. Those that could not be read by `deadline` are noted.
    pub(crate) async fn read_back(&mut self, tasks: &Mutex<Vec<Task>>, deadline: u64) {
        loop {
            let Some(task) = tasks.lock().expect("nobody panics with it").pop() else { return };
            let left = deadline.saturating_sub(self.live.now());
            let outcome = if left > 0 { Some(self.carry_out(&task, left).await) } else { None };
            if !matches!(outcome, Some(Outcome::Answered { .. })) {
                self.live.change(|record| _ = record.unread.insert(task.key));
            }
            self.route.wander();
        }
    }

    pub(crate) async fn carry_out(&mut self, task: &Task, persistence: u64) -> Outcome {
        let first = self.live.now();
        let mut invoked = first;
        let mut is_doubtful = false;
        let outcome = loop {
            let now = self.live.now();
            // What was certainly not done has not begun yet.
            if !is_doubtful {
                invoked = now;
            }
            match self.attempt(task).await {
                Came::Answered(outcome) => break outcome,
                Came::NotDone => {}
                Came::Unknown if task.call.is_read() => {}
                Came::Unknown if task.in_series => is_doubtful = true,
                Came::Unknown => break Outcome::Uncertain { at: self.live.now() },
            }
            let at = self.live.now();
            if at - first > persistence {
                break if is_doubtful { Outcome::Uncertain { at } } else { Outcome::Refused };
            }
        };
        let Task { key, call, in_series, .. } = task.clone();
        let operation = Operation { client: self.number, key, call, invoked, outcome: outcome.clone() };
        self.live.add(operation, first, in_series);
        outcome
    }

    async fn attempt(&mut self, task: &Task) -> Came {
        let reply = match self.route.ask(task.slot, &task.words).await {
            Attempt::Replied(reply) => reply,
            Attempt::Unsent => {
                self.live.error("nobody listens");
                self.turn().await;
                return Came::NotDone;
            }
            Attempt::Unknown(silence) => {
                self.live.error(silence.to_string());
                self.turn().await;
                return Came::Unknown;
            }
        };
        match hear(&task.call, &reply) {
            Heard::Seen(seen) => Came::Answered(Outcome::Answered { at: self.live.now(), seen }),
            Heard::Moved { slot, address } => {
                self.live.error("MOVED");
                self.route.on_moved(slot, &address);
                // Two nodes may send us back and forth for a while.
                sleep(Duration::from_millis(1)).await;
                Came::NotDone
            }
            Heard::Refused(kind) => {
                self.live.error(kind);
                self.turn().await;
                Came::NotDone
            }
            Heard::Doubt(kind) => {
                self.live.error(kind);
                self.turn().await;
                Came::Unknown
            }
            Heard::Strange(text) => {
                self.live.strange(text);
                self.turn().await;
                Came::Unknown
            }
        }
    }

    async fn turn(&mut self) {
        self.route.turn();
        sleep(PAUSE).await;
    }
}
