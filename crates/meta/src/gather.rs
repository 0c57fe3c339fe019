//! Proposals that come together are one entry of the log: one sync on each voter, and one new state, however many they are. A node that
//! leaves changes the government of every bucket that it has a part in; one after the other they would wait for a hundred syncs.
//!
//! While an entry is on its way, whatever comes meanwhile waits for the next one. Each command is applied by itself, in the order in which
//! they came: nobody can tell whether they shared an entry.

use std::sync::Weak;
use std::time::Duration;

use blueprint::MetaCommand;
use tokio::sync::{mpsc, oneshot};

use crate::embedded::Inner;
use crate::raft::{Mark, Stamped};
use crate::wire::Answer;

/// Commands in one entry, and as many more that wait for the next one: about all that a cluster can have to say at once.
pub(crate) const MOST_TOGETHER: usize = 256;

/// So long the first one waits for those that were proposed with it, and are a moment behind: less than a sync takes. Without it that one
/// would be written, and all the others wait for it.
const MOMENT: Duration = Duration::from_millis(1);

/// What somebody waits to hear the outcome of.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) command: MetaCommand,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// For as long as there is somebody to propose anything.
pub(crate) async fn write_together(inner: Weak<Inner>, mut proposals: mpsc::Receiver<Proposal>) {
    let mut together = Vec::new();
    while proposals.recv_many(&mut together, MOST_TOGETHER).await > 0 {
        tokio::time::sleep(MOMENT).await;
        while together.len() < MOST_TOGETHER
            && let Ok(proposal) = proposals.try_recv()
        {
            together.push(proposal);
        }
        let Some(inner) = inner.upgrade() else { return };
        inner.write(together.drain(..)).await;
    }
}

/// In µs since 1970.
fn wall() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

impl Inner {
    async fn write(&self, proposals: impl Iterator<Item = Proposal>) {
        // Who has given up has been told that the outcome is unknown. It is kinder to leave it at nothing.
        let awaited = proposals.filter(|proposal| !proposal.answer.is_closed());
        let (commands, askers): (Vec<_>, Vec<_>) =
            awaited.map(|Proposal { command, answer }| (command, answer)).unzip();
        if askers.is_empty() {
            return;
        }
        let mark = Mark::default();
        let (stamp, wall) = (self.stamp(self.metrics().current_term), wall());
        let stamped = Stamped { stamp, wall, commands, mark: mark.clone() };
        let written = tokio::time::timeout(self.settings.patience, self.raft.client_write(stamped)).await;
        let answers: Vec<Answer> = match written {
            Ok(Ok(written)) => {
                let outcome = |outcome: Result<_, _>| outcome.map_or_else(Answer::Refused, Answer::Done);
                written.data.into_iter().map(outcome).collect()
            }
            Ok(Err(error)) if error.forward_to_leader().is_some() && !mark.is_set() => {
                askers.iter().map(|_| Answer::NotLeader(self.guide_elsewhere())).collect()
            }
            Ok(Err(_)) | Err(_) => askers.iter().map(|_| Answer::Unknown).collect(),
        };
        assert_eq!(answers.len(), askers.len(), "every command has an answer");
        for (asker, answer) in askers.into_iter().zip(answers) {
            let _gave_up = asker.send(answer);
        }
    }
}
