//! Hand over: a planned change of primary.
//!
//! the blueprint read afresh → pause (new writes wait) → drain until everything is committed → propose → until the outcome is
//! known no write is accepted (R7), reads go on under R5 → the successor is seen: stop, `Abdicate`, forward the backlog. What
//! cannot drain within its budget falls back before anything is proposed.

use alloc::vec::Vec;

use blueprint::{Breach, Change, Conduct, Instant, Member, NodeId};

use crate::growth::Growth;
use crate::io::{Event, Outbox, Output};
use crate::message::Message;
use crate::phaser::{Phaser, Role};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HandOver {
    None,
    /// Until it is told what it asked, nothing waits for it: there may be no meta group to answer.
    Draining {
        to: Member,
        nonce: u64,
        told: bool,
        until: Instant,
    },
    /// `staying` proposes to go on as before instead: either successor settles it.
    Proposed {
        to: Member,
        staying: bool,
    },
}

impl HandOver {
    pub(crate) fn pauses<C: Conduct>(&self) -> bool {
        match self {
            Self::None => false,
            Self::Draining { told, .. } => *told,
            Self::Proposed { .. } => !C::breaks(Breach::WritesAfterUnknownHandOver),
        }
    }

    pub(crate) fn instants(&mut self) -> Vec<&mut Instant> {
        match self {
            Self::None | Self::Proposed { .. } => Vec::new(),
            Self::Draining { until: at, .. } => alloc::vec![at],
        }
    }
}

impl<C: Conduct> Phaser<C> {
    pub(crate) fn on_hand_over(&mut self, now: Instant, to: NodeId, out: &mut Outbox) {
        let nonce = self.nonce + 1;
        let is_bound = self.is_bound();
        let Role::Leading(leader) = &mut self.role else { return };
        // Whoever orders may have seen that it was seated before this one has: those who gain by a change are told first.
        let is_coming = matches!(leader.growth, Growth::Proposed { candidate, .. } if candidate.node == to);
        if leader.succession.is_some() || is_coming {
            leader.ordered = Some(to);
            return;
        }
        // Below the minimum nothing commits (R8): neither what is to drain, nor the successor's Reign. And whoever asks again and
        // again must not keep the bucket from seating whom it needs.
        if is_bound || !leader.government.in_sync() {
            return;
        }
        let Some(to) = leader.government.secondaries.iter().copied().find(|m| m.node == to) else { return };
        let idle = leader.hand_over == HandOver::None && leader.growth == Growth::None;
        if !leader.serving || !idle {
            return;
        }
        leader.hand_over = HandOver::Draining { to, nonce, told: false, until: now + self.config.drain_budget };
        self.nonce = nonce;
        out.push(Output::Ask { nonce });
    }

    pub(crate) fn on_hand_over_told(&mut self, now: Instant, answered: u64, out: &mut Outbox) {
        let budget = self.config.drain_budget;
        let Role::Leading(leader) = &mut self.role else { return };
        if let HandOver::Draining { nonce, told: told @ false, until, .. } = &mut leader.hand_over
            && *nonce == answered
        {
            (*told, *until) = (true, now + budget);
            self.try_propose_hand_over(now, out);
        }
    }

    pub(crate) fn try_propose_hand_over(&mut self, now: Instant, out: &mut Outbox) {
        let drained = self.commit == self.log.last().index;
        let Role::Leading(leader) = &mut self.role else { return };
        let HandOver::Draining { to, told: true, .. } = leader.hand_over else { return };
        if !drained || leader.succession.is_some() {
            return;
        }
        leader.hand_over = HandOver::Proposed { to, staying: false };
        leader.propose_at = now + self.config.retry_after();
        let term = leader.term;
        out.event(Event::Drained { term });
        out.push(Output::Propose { term, change: Change::HandOver { to, by: self.me } });
        if C::breaks(Breach::AbdicateBeforeOutcome) {
            out.send(self.me, to, Message::Abdicate { term });
        }
    }

    pub(crate) fn on_hand_over_tick(&mut self, now: Instant, out: &mut Outbox) {
        let Role::Leading(leader) = &mut self.role else { return };
        match leader.hand_over {
            HandOver::None => {}
            HandOver::Draining { until, .. } => {
                if now >= until {
                    leader.hand_over = HandOver::None;
                    self.serve_backlog(now, out);
                }
            }
            HandOver::Proposed { to, staying } => {
                if now >= leader.propose_at && leader.succession.is_none() {
                    leader.propose_at = now + self.config.retry_after();
                    let change =
                        if staying { Change::Renew { primary: self.me } } else { Change::HandOver { to, by: self.me } };
                    out.push(Output::Propose { term: leader.term, change });
                }
            }
        }
    }

    pub(crate) fn on_hand_over_rejected(&mut self, term: blueprint::Term) {
        if let Role::Leading(leader) = &mut self.role
            && leader.term == term
            && let HandOver::Proposed { staying, .. } = &mut leader.hand_over
        {
            *staying = !*staying;
        }
    }
}
