//! Growth belongs to the primary (R6); so does the dismissal of a secondary that holds everyone up.
//!
//! candidate near → the blueprint read afresh → joint: its answers and leases are needed from here on → level → proposed,
//! again and again, until a successor is seen (R7). Once proposed, only a successor without it gives growth up.

use alloc::vec::Vec;

use blueprint::{Breach, Change, Conduct, Fate, Index, Instant, Member};

use crate::config::Config;
use crate::handover::HandOver;
use crate::io::{Event, Outbox, Output};
use crate::leader::Leader;
use crate::peer::{Part, Peer};
use crate::phaser::{Phaser, Role};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Growth {
    None,
    /// Waits for a fresh read of the blueprint.
    Asking {
        candidate: Member,
        nonce: u64,
        asked_at: Instant,
    },
    /// Counts for commits and leases. `level` is the commit index that it must have applied.
    Joint {
        candidate: Member,
        level: Index,
        since: Instant,
    },
    /// As before, and proposed: only a successor ends this. `giving_up` proposes the one without it.
    Proposed {
        candidate: Member,
        giving_up: bool,
    },
}

impl Growth {
    pub(crate) fn joint(&self) -> Option<Member> {
        match self {
            Self::None | Self::Asking { .. } => None,
            Self::Joint { candidate, .. } | Self::Proposed { candidate, .. } => Some(*candidate),
        }
    }

    pub(crate) fn instants(&mut self) -> Vec<&mut Instant> {
        match self {
            Self::None | Self::Proposed { .. } => Vec::new(),
            Self::Asking { asked_at: at, .. } | Self::Joint { since: at, .. } => alloc::vec![at],
        }
    }
}

impl Leader {
    /// Near enough to be asked about: whole, answering, and behind by no more than what may be on its way to it. Under
    /// load a candidate that is further away than the secondaries is never level at any instant: that it becomes so is what
    /// joint mode is for, where everyone waits for it.
    fn near_candidate<C: Conduct>(&self, commit: Index, config: &Config, now: Instant) -> Option<Member> {
        // Below the minimum nothing commits, and so nothing is held up by who turns out to be slow.
        let may = |p: &&Peer| {
            let delay = self.delays.get(&p.member.node);
            !self.government.in_sync() || delay.is_none_or(|(_, not_before)| now >= *not_before)
        };
        self.peers.iter().filter(may).find(|p| self.is_near::<C>(p, commit, config, now)).map(|p| p.member)
    }

    /// Also fast enough to grant leases that are worth something: a member that is not would end all reads.
    fn is_near<C: Conduct>(&self, peer: &Peer, commit: Index, config: &Config, now: Instant) -> bool {
        let under_way = config.window_entries + config.frame_entries as u64;
        let near = Index(commit.0.saturating_sub(under_way));
        let answers = now.since(peer.heard) < config.stall && peer.lease > now;
        peer.part == Part::Candidate && answers && self.is_level::<C>(peer, near)
    }

    fn is_level<C: Conduct>(&self, peer: &Peer, commit: Index) -> bool {
        let upto = peer.upto.unwrap_or(Index(0));
        let whole = peer.is_whole() || (C::breaks(Breach::TailAloneForHalfFilled) && peer.upto.is_some());
        let short = u64::from(C::breaks(Breach::SeatOneEntryShort));
        let reign_acked = upto >= self.reign || C::breaks(Breach::SeatBeforeReignAcked);
        whole && upto.0 + short >= commit.0 && reign_acked
    }
}

impl<C: Conduct> Phaser<C> {
    /// No seat from a Split's commit until its child is seen registered; and none in a bucket that is being merged, which takes a moment, and
    /// in which a seat would have to wait for the other one's. Unless nothing goes on without it.
    fn grows_later(&self) -> bool {
        let in_sync = self.known.as_ref().is_some_and(|view| view.government.in_sync());
        self.has_untold_split() || (self.is_bound() && in_sync)
    }

    pub(crate) fn try_seat(&mut self, now: Instant, out: &mut Outbox) {
        let Role::Leading(leader) = &self.role else { return };
        if leader.growth == Growth::None && !leader.peers.iter().any(|peer| peer.part == Part::Candidate) {
            return; // nobody to be seated: so it is nearly always
        }
        let nonce = self.nonce + 1;
        let waits = self.grows_later();
        let (me, stall, retry) = (self.me, self.config.stall, self.config.retry);
        let retry_after = self.config.retry_after();
        let Role::Leading(leader) = &mut self.role else { return };
        if leader.succession.is_some() || leader.hand_over != HandOver::None {
            return;
        }
        match leader.growth {
            Growth::None => {
                if waits {
                    return;
                }
                if let Some(candidate) = leader.near_candidate::<C>(self.commit, &self.config, now) {
                    leader.growth = Growth::Asking { candidate, nonce, asked_at: now };
                    self.nonce = nonce;
                    out.push(Output::Ask { nonce });
                }
            }
            Growth::Asking { candidate, nonce, asked_at } => {
                // The same question again: any answer to it was begun after it was first asked.
                let answers = |p: &Peer| p.member == candidate && now.since(p.heard) < stall;
                if waits || !leader.peers.iter().any(answers) {
                    leader.growth = Growth::None;
                } else if now.since(asked_at) >= retry * 5 {
                    leader.growth = Growth::Asking { candidate, nonce, asked_at: now };
                    out.push(Output::Ask { nonce });
                }
            }
            Growth::Joint { candidate, level, since } => {
                let Some(peer) = leader.peers.iter().find(|p| p.member == candidate) else { return };
                let applied = peer.progress.applied >= level || C::breaks(Breach::SeatOneEntryShort);
                if waits || now.since(since) > stall {
                    leader.growth = Growth::None; // nothing was proposed yet: nobody can accept it
                    leader.delay_seat(candidate, now, &self.config);
                    self.try_commit(now, out);
                } else if applied && leader.is_level::<C>(peer, level) {
                    let term = leader.term;
                    leader.growth = Growth::Proposed { candidate, giving_up: false };
                    leader.propose_at = now + retry_after;
                    out.push(Output::Propose { term, change: Change::Seat { candidate, by: me } });
                }
            }
            Growth::Proposed { candidate, ref mut giving_up } => {
                if now < leader.propose_at {
                    return;
                }
                leader.propose_at = now + retry_after;
                let silent =
                    leader.peers.iter().find(|p| p.member == candidate).is_none_or(|p| now.since(p.heard) > stall);
                *giving_up |= silent;
                if C::breaks(Breach::LeaveJointOnStillT) {
                    out.push(Output::Ask { nonce: u64::MAX });
                }
                let change = if *giving_up { Change::Drop { candidate } } else { Change::Seat { candidate, by: me } };
                out.push(Output::Propose { term: leader.term, change });
            }
        }
    }

    /// The fresh read shows our own term: growth may start.
    pub(crate) fn on_growth_told(&mut self, now: Instant, told: u64, out: &mut Outbox) {
        let waits = self.grows_later();
        let Role::Leading(leader) = &mut self.role else { return };
        if let Growth::Asking { candidate, nonce, .. } = leader.growth
            && nonce == told
        {
            let peer = leader.peers.iter().find(|p| p.member == candidate);
            let near = peer.is_some_and(|p| leader.is_near::<C>(p, self.commit, &self.config, now));
            if waits || !near {
                leader.growth = Growth::None; // the answer was slow, and things are no longer as they were
                return;
            }
            leader.growth = Growth::Joint { candidate, level: self.commit, since: now };
            leader.announce = true;
            out.event(Event::JointBegan { term: leader.term, candidate });
            self.try_seat(now, out);
        } else if C::breaks(Breach::LeaveJointOnStillT)
            && let Growth::Proposed { .. } = leader.growth
        {
            leader.growth = Growth::None;
            self.try_commit(now, out);
        }
    }

    /// Only the proposer's own attempt was refused: an earlier one may still be accepted. The other successor settles it.
    pub(crate) fn on_seat_rejected(&mut self, term: blueprint::Term) {
        if let Role::Leading(leader) = &mut self.role
            && leader.term == term
            && let Growth::Proposed { giving_up, .. } = &mut leader.growth
        {
            *giving_up = !*giving_up;
        }
    }

    /// A secondary that has not answered for `stall`, while the others did, is dismissed and stays on as a candidate.
    pub(crate) fn dismiss_laggards(&mut self, now: Instant, out: &mut Outbox) {
        let (stall, retry_after) = (self.config.stall, self.config.retry_after());
        let Role::Leading(leader) = &mut self.role else { return };
        let spare = leader.government.size() > usize::from(leader.government.min_in_sync);
        if !spare || leader.succession.is_some() || now < leader.propose_at || leader.hand_over != HandOver::None {
            return;
        }
        if leader.growth.joint().is_some() {
            return; // one proposal at a time; growth gives itself up when the candidate is silent
        }
        // Who answers, but always later than a lease lasts, ends all reads.
        let late = |p: &Peer| p.lease != Instant::ZERO && now.since(p.lease) > stall;
        let lags = |p: &Peer| now.since(p.heard) > stall || now.since(p.advanced) > stall || late(p);
        let secondaries = || leader.peers.iter().filter(|p| p.part == Part::Secondary);
        let Some(laggard) = secondaries().find(|p| lags(p)).map(|p| p.member) else { return };
        if secondaries().any(|p| p.member != laggard && !lags(p)) {
            leader.propose_at = now + retry_after;
            let change = Change::Dismiss { secondary: laggard, fate: Fate::Stalled };
            out.push(Output::Propose { term: leader.term, change });
        }
    }
}

impl Leader {
    /// Twice as long each time, unless it has done well since for much longer than it had to wait.
    pub(crate) fn delay_seat(&mut self, who: Member, now: Instant, config: &Config) {
        let (count, not_before) = self.delays.entry(who.node).or_insert((0, now));
        let after = |count: u32| config.seat_delay * 2u32.pow(count.min(5));
        if now.since(*not_before) > 8 * after(count.saturating_sub(1)).max(config.stall) {
            *count = 0;
        }
        *not_before = now + after(*count);
        *count += 1;
    }
}
