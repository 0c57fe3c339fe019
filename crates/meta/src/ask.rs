//! Finding whoever leads, and asking it: from any node, within a bounded time.
//!
//! A question goes to one node at a time, the likeliest first. Whoever does not lead says who might. A proposal that may have been
//! heard is never repeated here: its outcome is unknown, and only the one who asked knows what that means (R7).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use blueprint::{Applied, History, MetaCommand, MetaState, NodeId, Refusal};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::embedded::Inner;
use crate::wire::{Answer, Envelope, Guide, Request, decode, encode};
use crate::{CarryError, Unavailable};

#[derive(Clone, Debug)]
pub(crate) enum Question {
    Propose(MetaCommand),
    Read,
    Peek,
    History,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Reached {
    Done(Applied),
    Refused(Refusal),
    Unknown,
    State(Arc<MetaState>),
    History(Arc<History>),
}

enum Heard {
    Reached(Reached),
    /// Not from this one, and nothing happened there.
    Elsewhere(Guide),
    Nothing,
}

impl Inner {
    /// Ends within `deadline` and one `call`, and the time that it takes to find out who answers at all.
    pub(crate) async fn ask(&self, question: &Question) -> Result<Reached, Unavailable> {
        let end = Instant::now() + self.settings.deadline;
        let mut tried = BTreeSet::new();
        while Instant::now() < end && !self.is_closed() {
            let Some(node) = self.likeliest(&tried) else {
                sleep(self.settings.heartbeat).await;
                tried.clear();
                continue;
            };
            tried.insert(node);
            match self.ask_one(node, question).await {
                Heard::Reached(reached) => {
                    if let Reached::State(state) = &reached {
                        self.known.learn(state);
                    }
                    return Ok(reached);
                }
                Heard::Elsewhere(guide) => self.follow_guide(guide).await,
                Heard::Nothing => self.forget_leader(node),
            }
        }
        Err(self.who_answers().await)
    }

    fn likeliest(&self, tried: &BTreeSet<NodeId>) -> Option<NodeId> {
        let (own, heard, known) = (self.guide(), self.heard_guide(), self.known.get());
        let others = own.leader.into_iter().chain(heard.leader).chain(own.voters).chain(heard.voters);
        let others = others.chain(known.blueprint.nodes.keys().copied()).chain(self.seeds.iter().copied());
        let me = self.is_leader().then(|| self.me());
        me.into_iter().chain(others.filter(|node| *node != self.me())).find(|node| !tried.contains(node))
    }

    async fn ask_one(&self, node: NodeId, question: &Question) -> Heard {
        if node == self.me() {
            return match question {
                Question::Propose(command) => heard(question, self.propose_here(command.clone()).await),
                Question::Read => read(self.read_here().await),
                Question::Peek => read(self.peek_here().await),
                Question::History => {
                    let state = self.read_here().await;
                    state.map_or(Heard::Nothing, |state| Heard::Reached(Reached::History(Arc::clone(&state.history))))
                }
            };
        }
        if matches!(question, Question::Propose(_)) && !self.is_said_to_lead(node) {
            // Asked first whether it leads at all: a proposal that goes astray has an unknown outcome, a ping has none.
            match self.call(node, Request::Ping, self.brief()).await {
                Ok(Answer::Pong(guide)) if guide.leader == Some(node) => {}
                Ok(answer) => return heard(question, answer),
                Err(_) => return Heard::Nothing,
            }
        }
        let known = self.known.get();
        let request = match question {
            Question::Propose(command) => Request::Propose(command.clone()),
            Question::Read => Request::Read { known: known.blueprint.epoch },
            Question::Peek => Request::Peek { known: known.blueprint.epoch },
            Question::History => Request::History,
        };
        match (self.call(node, request, self.settings.call).await, question) {
            (Ok(Answer::State(state, guide)), _) => {
                self.follow_guide(guide).await;
                match state.into_state(&known) {
                    Some(state) => Heard::Reached(Reached::State(Arc::new(state))),
                    None => Heard::Nothing,
                }
            }
            (Ok(Answer::History(history)), Question::History) => Heard::Reached(Reached::History(Arc::new(history))),
            (Ok(answer), _) => heard(question, answer),
            (Err(CarryError::NoAnswer(_)), Question::Propose(_)) => {
                self.forget_leader(node);
                Heard::Reached(Reached::Unknown)
            }
            (Err(_), _) => Heard::Nothing,
        }
    }

    fn is_said_to_lead(&self, node: NodeId) -> bool {
        self.guide().leader == Some(node) || self.heard_guide().leader == Some(node)
    }

    /// For questions that need no disk and no quorum.
    fn brief(&self) -> Duration {
        self.settings.call.min(2 * self.settings.lease)
    }

    pub(crate) async fn call(&self, node: NodeId, request: Request, limit: Duration) -> Result<Answer, CarryError> {
        let request = encode(&Envelope { cluster: Some(self.identity.cluster), request });
        let bytes =
            timeout(limit, self.carrier.call(node, request)).await.unwrap_or(Err(CarryError::NoAnswer(node)))?;
        decode(&bytes).map_err(|why| {
            tracing::warn!(%node, %why, "an answer about the blueprint is not understood");
            CarryError::NoAnswer(node)
        })
    }

    /// Nobody leads, as far as this node can reach: why that is.
    async fn who_answers(&self) -> Unavailable {
        let voters = self.guide().voters;
        let limit = self.brief();
        let mut asked = JoinSet::new();
        let mut answering = BTreeSet::new();
        for &voter in &voters {
            if voter == self.me() {
                answering.insert(voter);
                continue;
            }
            let request = encode(&Envelope { cluster: Some(self.identity.cluster), request: Request::Ping });
            let carrier = Arc::clone(&self.carrier);
            asked.spawn(async move {
                let answer = timeout(limit, carrier.call(voter, request)).await;
                let pong = matches!(answer, Ok(Ok(bytes)) if matches!(decode(&bytes), Ok(Answer::Pong(_))));
                pong.then_some(voter)
            });
        }
        while let Some(voter) = asked.join_next().await {
            answering.extend(voter.ok().flatten());
        }
        Unavailable { voters, answering, stopped: self.stopped() }
    }
}

fn read(state: Option<Arc<MetaState>>) -> Heard {
    state.map_or(Heard::Nothing, |state| Heard::Reached(Reached::State(state)))
}

fn heard(question: &Question, answer: Answer) -> Heard {
    match answer {
        Answer::Done(_) | Answer::Refused(_) | Answer::Unknown if !matches!(question, Question::Propose(_)) => {
            tracing::warn!("a node that was asked for the blueprint answers as if it had been asked to change it");
            Heard::Nothing
        }
        Answer::Done(applied) => Heard::Reached(Reached::Done(applied)),
        Answer::Refused(refusal) => Heard::Reached(Reached::Refused(refusal)),
        Answer::Unknown => Heard::Reached(Reached::Unknown),
        Answer::NotLeader(guide) | Answer::Pong(guide) => Heard::Elsewhere(guide),
        Answer::OtherCluster(cluster) => {
            tracing::warn!(%cluster, "a node that was taken for one of this cluster belongs to another");
            Heard::Nothing
        }
        Answer::Failed(why) => {
            tracing::debug!(why, "a node does not answer about the blueprint");
            Heard::Nothing
        }
        Answer::Append(_)
        | Answer::Vote(_)
        | Answer::Snapshot(_)
        | Answer::State(..)
        | Answer::Joined { .. }
        | Answer::History(_)
        | Answer::Heard(_) => Heard::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_another_question_is_none() {
        assert!(matches!(heard(&Question::Read, Answer::Unknown), Heard::Nothing));
        let depart = blueprint::Command::Depart { node: NodeId(1) };
        let propose = Question::Propose(MetaCommand::Change(depart));
        assert!(matches!(heard(&propose, Answer::Unknown), Heard::Reached(Reached::Unknown)));
    }
}
