//! Check: both say up to where they have everyone's updates. It is the only way in which a peer comes to count as live, and the way in
//! which two nodes find out that one of them misses something of a third, who may be dead.
//!
//! Every pair does so once per round, in turn; the one with the lower id begins. Where both stand at the same place a digest says so
//! (`compare.rs`).

use alloc::vec::Vec;

use blueprint::{Conduct, Instant, NodeId};

use crate::io::{Dropped, Event, Outbox};
use crate::message::{Claim, Message, Phase, Standing};
use crate::number::UpdateNumber;
use crate::peer::{Asked, Live, Peer, Reach};
use crate::registrar::{Registrar, Stage};

impl<C: Conduct> Registrar<C> {
    /// Unless it is being asked already. With a digest, only whether it stands where this node does.
    pub(crate) fn ask(&mut self, now: Instant, node: NodeId, compared: Option<u64>, out: &mut Outbox) {
        if self.peers.get(&node).is_none_or(|peer| peer.asked.is_some()) {
            return;
        }
        let nonce = self.next_nonce();
        let repeat_at = now + self.config.patience;
        let asked = Asked { nonce, since: now, repeat_at, tries: 1, is_outdated: false, compared };
        self.peers.get_mut(&node).expect("it was there").asked = Some(asked);
        let message = match compared {
            Some(digest) => Message::Compare { nonce, digest },
            None => Message::Check { nonce, standing: self.standing(node) },
        };
        self.send(node, message, out);
    }

    /// Also if it is being asked whether it stands where this node does.
    pub(crate) fn ask_for_everything(&mut self, now: Instant, node: NodeId, out: &mut Outbox) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.asked.take_if(|asked| asked.compared.is_some());
        }
        self.ask(now, node, None, out);
    }

    /// The same, for something that the peer should hear of: if it is being asked already, it is asked once more after that.
    pub(crate) fn announce(&mut self, now: Instant, node: NodeId, out: &mut Outbox) {
        match self.peers.get_mut(&node).and_then(|peer| peer.asked.as_mut()) {
            Some(asked) => asked.is_outdated = true,
            None => self.ask(now, node, None, out),
        }
    }

    /// Who speaks may not have heard what it was asked. (Otherwise: 1. n2 starts, departed, and asks n1, to whom it is nobody; 2. it is
    /// welcomed back, and n1 asks it; 3. n2 waits for an answer that does not come, and says nothing about itself meanwhile.)
    pub(crate) fn ask_again(&mut self, now: Instant, node: NodeId, out: &mut Outbox) {
        let repeat_at = now + self.config.patience;
        let standing = self.standing(node);
        let Some(asked) = self.peers.get_mut(&node).and_then(|peer| peer.asked.as_mut()) else { return };
        *asked = Asked { repeat_at, tries: 1, is_outdated: false, compared: None, ..asked.clone() };
        let nonce = asked.nonce;
        self.send(node, Message::Check { nonce, standing }, out);
    }

    pub(crate) fn on_check(&mut self, now: Instant, from: NodeId, nonce: u64, standing: Standing, out: &mut Outbox) {
        if !self.makes_sense(&standing) {
            return self.drop_message(from, Dropped::Malformed, out);
        }
        if !self.is_heard(now, from, nonce) {
            return self.drop_message(from, Dropped::Outdated, out);
        }
        // That answers more than whether it stands where this node does.
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.asked.take_if(|asked| asked.compared.is_some());
        }
        self.on_standing(now, from, standing, out);
        self.answer_check(from, nonce, out);
    }

    pub(crate) fn answer_check(&self, to: NodeId, nonce: u64, out: &mut Outbox) {
        let standing = self.standing(to);
        self.send(to, Message::Checked { nonce, standing }, out);
    }

    /// A question of a peer's, unless it is older than another.
    pub(crate) fn is_heard(&mut self, now: Instant, from: NodeId, nonce: u64) -> bool {
        let again = now + self.config.patience;
        let Some(peer) = self.peers.get_mut(&from).filter(|peer| nonce >= peer.newest_check) else { return false };
        peer.newest_check = nonce;
        // It speaks: what I asked it before, and it did not hear, is asked as if for the first time.
        if let Some(asked) = &mut peer.asked {
            (asked.tries, asked.repeat_at) = (1, again);
        }
        true
    }

    /// Whoever sends rows is there, even if what it was asked besides, or its answer, was lost: it is asked until it falls silent. (Or
    /// a pull that takes long would fail, and begin anew, though its parts keep coming.)
    pub(crate) fn still_speaks(&mut self, from: NodeId) {
        if let Some(asked) = self.peers.get_mut(&from).and_then(|peer| peer.asked.as_mut()) {
            asked.tries = 1;
        }
    }

    pub(crate) fn on_checked(&mut self, now: Instant, from: NodeId, nonce: u64, standing: Standing, out: &mut Outbox) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let Some(asked) = peer.asked.take_if(|asked| asked.nonce == nonce && asked.compared.is_none()) else {
            return self.drop_message(from, Dropped::NotAsked, out);
        };
        if !self.makes_sense(&standing) {
            return self.drop_message(from, Dropped::Malformed, out);
        }
        self.on_standing(now, from, standing, out);
        if asked.is_outdated {
            self.ask(now, from, None, out);
        }
    }

    fn makes_sense(&self, standing: &Standing) -> bool {
        standing.claims.len() <= self.config.owners && standing.claims.iter().all(|claim| claim.known.is_plausible())
    }

    /// An exchange of numbers, seen from one side.
    pub(crate) fn on_standing(&mut self, now: Instant, from: NodeId, standing: Standing, out: &mut Outbox) {
        let Standing { phase, claims, refused } = standing;
        let me = self.life.node;
        let mine = claims.iter().find(|claim| claim.owner == me).map(|claim| claim.known).unwrap_or_default();
        if self.stage >= Stage::Numbering && mine > self.own.last {
            self.renumber(now, mine, out);
        }
        let have = self.known(me).unwrap_or_default();
        let (check_at, patience) = (self.next_check(now, from), self.config.patience);
        let peer = self.peers.get_mut(&from).expect("only peers are heard");
        if !peer.is_tried && !self.is_complete {
            for claim in &claims {
                let goal = self.goals.entry(claim.owner).or_default();
                *goal = claim.known.max(*goal);
            }
        }
        peer.is_tried = true;
        peer.check_at = check_at;
        peer.claims = claims.iter().map(|claim| (claim.owner, claim.known)).collect();
        match (phase, &mut peer.reach) {
            (Phase::Starting, reach) => *reach = Reach::Starting,
            (Phase::Operating, Reach::Live(live)) if live.sent <= mine => {
                live.sent = mine.min(have);
                // It may have pulled the rest from somebody else.
                live.too_far_behind.take_if(|_| mine >= have);
            }
            (Phase::Operating, Reach::Live(live)) => {
                // It may have spoken before my last push came; the next push, or the next check, will tell. It certainly misses
                // something if it had to refuse a push, or if the last one is long ago.
                if refused.is_some_and(|refused| refused > mine) || live.pushed_at + patience <= now {
                    live.sent = mine;
                }
            }
            (Phase::Operating, reach) => {
                let sent = mine.min(have);
                *reach = Reach::Live(Live { sent, pushed_at: now, too_far_behind: None, pulled: 0 });
                out.event(Event::Live { peer: from, sent });
            }
        }
        let mut owners: Vec<NodeId> = self.behind.keys().copied().collect();
        owners.extend(claims.iter().filter(|c| c.known > self.known(c.owner).unwrap_or_default()).map(|c| c.owner));
        for owner in owners {
            self.reckon(now, owner);
        }
    }

    pub(crate) fn standing(&self, to: NodeId) -> Standing {
        // Of an owner that is gone, and of whom nothing is left, nobody needs to know how much that was.
        let matters = |owner: &NodeId| *owner == self.life.node || self.peers.contains_key(owner);
        let claims = self
            .holdings
            .iter()
            .filter(|(owner, holding)| holding.known > UpdateNumber::ZERO && (matters(owner) || !holding.is_empty()));
        let claims = claims.map(|(owner, holding)| Claim { owner: *owner, known: holding.known }).collect();
        let refused = self.holdings.get(&to).filter(|h| h.offered > h.known).map(|h| h.offered);
        Standing { phase: self.phase(), claims, refused }
    }

    pub(crate) fn on_check_timeouts(&mut self, now: Instant, out: &mut Outbox) {
        let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
        for node in nodes {
            let (patience, attempts) = (self.config.patience, self.config.attempts);
            let Some(peer) = self.peers.get_mut(&node) else { continue };
            match &mut peer.asked {
                None if peer.check_at <= now => self.compare(now, node, out),
                Some(asked) if asked.repeat_at <= now && asked.tries < attempts => {
                    asked.tries += 1;
                    asked.is_outdated = false;
                    asked.compared = None;
                    asked.repeat_at = now + patience;
                    let nonce = asked.nonce;
                    let standing = self.standing(node);
                    self.send(node, Message::Check { nonce, standing }, out);
                }
                Some(asked) if asked.repeat_at <= now => {
                    peer.is_tried = true;
                    self.become_away(now, node, out);
                }
                None | Some(_) => {}
            }
        }
    }

    pub(crate) fn on_link_lost(&mut self, now: Instant, node: NodeId, out: &mut Outbox) {
        if self.peers.contains_key(&node) {
            self.become_away(now, node, out);
            self.ask(now, node, None, out);
        }
    }

    /// The peer's process is another one: nothing that was known about the earlier one holds.
    pub(crate) fn meet(&mut self, now: Instant, node: NodeId, life: u64, out: &mut Outbox) {
        if self.peers.get(&node).is_some_and(|peer| peer.life != 0) {
            self.become_away(now, node, out);
        }
        let peer = self.peers.get_mut(&node).expect("only peers are met");
        peer.life = life;
        peer.newest_check = 0;
    }

    pub(crate) fn become_away(&mut self, now: Instant, node: NodeId, out: &mut Outbox) {
        let check_at = now + self.config.round;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if !peer.is_away() {
            out.event(Event::Away { peer: node });
            peer.reach = Reach::Away { since: now };
        }
        peer.asked = None;
        peer.check_at = check_at;
        peer.claims.clear();
        let failed: Vec<NodeId> = self.pulls.iter().filter(|(_, p)| p.from == node).map(|(owner, _)| *owner).collect();
        failed.into_iter().for_each(|owner| self.fail_pull(now, owner, out));
        let owners: Vec<NodeId> = self.behind.keys().copied().collect();
        owners.into_iter().for_each(|owner| self.reckon(now, owner));
    }

    /// Each sibling has its place in the round. Who does not begin the exchange only steps in when the other one fails to.
    pub(crate) fn next_check(&self, now: Instant, node: NodeId) -> Instant {
        if node < self.life.node {
            return now + self.config.round * 2;
        }
        let round = self.config.round.as_micros() as u64;
        let place = self.peers.range(..node).count() as u64;
        let first = self.begun.0.saturating_add(round / self.peers.len().max(1) as u64 * place);
        let rounds = now.0.saturating_add(round / 2).saturating_sub(first).div_ceil(round);
        Instant(first.saturating_add(rounds.saturating_mul(round)))
    }

    /// How far a peer is with my updates, if it is live.
    pub(crate) fn live_mut(&mut self, node: NodeId) -> Option<&mut Live> {
        match self.peers.get_mut(&node) {
            Some(Peer { reach: Reach::Live(live), .. }) => Some(live),
            Some(_) | None => None,
        }
    }
}
