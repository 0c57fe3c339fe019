//! Pull: a node that misses something asks whoever has it, one sibling after the other.
//!
//! It is how a node starts (so it knows when it has everything), and how it gets what a dead owner told only some. Pulls are
//! served at any time, even while the node is itself starting: what it has, it has.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;
use core::time::Duration;

use blueprint::{Breach, Conduct, Instant, NodeId};

use crate::holding::Held;
use crate::io::{Dropped, Event, Outbox};
use crate::message::{Answer, Message};
use crate::number::UpdateNumber;
use crate::part::{Key, Part};
use crate::registrar::{Batch, Registrar, Stage};

/// An owner of whom some sibling has more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Behind {
    pub(crate) since: Instant,
    /// A push may be under way.
    pub(crate) not_before: Instant,
    /// The sibling that was asked last; the next one is asked next.
    last_asked: NodeId,
    /// Pulls in a row that failed: each waits longer than the one before.
    failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pull {
    pub(crate) from: NodeId,
    nonce: u64,
    pub(crate) since: Instant,
    /// What was gathered would be lost: the part that is missing is asked for again and again, so often, and not forever.
    rhythm: Duration,
    ask_again_at: Instant,
    give_up_at: Instant,
    /// How long a part that leads on may take.
    patience: Duration,
    /// The question for the part before, until it is answered once more: then it was repeated too soon.
    answered: Option<u64>,
    gathered: Gathered,
}

impl Pull {
    pub(crate) fn due_at(&self) -> Instant {
        self.ask_again_at.min(self.give_up_at)
    }
}

/// Parts that came so far. None of it can be seen, and no number is advanced, before the last one is here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Gathered {
    onto: UpdateNumber,
    upto: UpdateNumber,
    as_of: UpdateNumber,
    floor: UpdateNumber,
    rows: BTreeMap<Key, Held>,
}

impl Gathered {
    fn has_begun(&self) -> bool {
        self.as_of > self.onto
    }
}

/// Failed pulls in a row after which the patience no longer doubles.
const MOST_DOUBLINGS: u32 = 2;
/// A part that is missing is asked for at most so often within one patience.
const MOST_REPEATS: u32 = 4;

impl<C: Conduct> Registrar<C> {
    /// Whether anyone has more of this owner than this node; to be asked whenever that may have changed.
    pub(crate) fn reckon(&mut self, now: Instant, owner: NodeId) {
        // What others have of my updates is for `renumber`, once I give out numbers.
        let is_numbering = owner == self.life.node && self.stage >= Stage::Numbering;
        let known = self.known(owner).unwrap_or_default();
        let is_behind = self.peers.values().any(|peer| peer.claim(owner) > known);
        let has_room = self.holdings.contains_key(&owner) || self.holdings.len() < self.config.owners;
        if !is_behind || is_numbering || !has_room {
            self.behind.remove(&owner);
            self.pulls.remove(&owner);
            return;
        }
        let patience = if self.stage == Stage::Operating { self.config.patience } else { Duration::ZERO };
        // Each owner's rows from another sibling: who starts must not be a burden to one of them.
        let behind = Behind { since: now, not_before: now + patience, last_asked: owner, failures: 0 };
        self.behind.entry(owner).or_insert(behind);
    }

    pub(crate) fn next_pull_at(&self) -> Option<Instant> {
        if self.pulls.len() >= self.config.pulls {
            return None;
        }
        let idle = self.behind.iter().filter(|(owner, _)| !self.pulls.contains_key(owner));
        idle.map(|(_, behind)| behind.not_before).min()
    }

    pub(crate) fn start_pulls(&mut self, now: Instant, out: &mut Outbox) {
        let room = self.config.pulls.saturating_sub(self.pulls.len());
        if self.behind.is_empty() || room == 0 {
            return;
        }
        let is_due =
            |(owner, behind): &(&NodeId, &Behind)| behind.not_before <= now && !self.pulls.contains_key(*owner);
        let mut due: Vec<(&NodeId, &Behind)> = self.behind.iter().filter(is_due).collect();
        // My own rows first: without them there are no numbers. One that failed goes behind those that wait.
        due.sort_by_key(|(owner, behind)| (**owner != self.life.node, behind.not_before));
        let due: Vec<NodeId> = due.into_iter().map(|(owner, _)| *owner).take(room).collect();
        for owner in due {
            self.start_pull(now, owner, out);
        }
    }

    fn start_pull(&mut self, now: Instant, owner: NodeId, out: &mut Outbox) {
        let onto = self.known(owner).unwrap_or_default();
        let Some(behind) = self.behind.get_mut(&owner) else { return };
        let after = (Bound::Excluded(behind.last_asked), Bound::Unbounded);
        let in_turn = self.peers.range(after).chain(self.peers.iter());
        let Some(from) = in_turn.filter(|(_, peer)| peer.claim(owner) > onto).map(|(node, _)| *node).next() else {
            return;
        };
        behind.last_asked = from;
        let give_up_at = now + self.config.patience * (1 << behind.failures.min(MOST_DOUBLINGS));
        let gathered = Gathered { onto, upto: onto, as_of: onto, floor: UpdateNumber::ZERO, rows: BTreeMap::new() };
        let nonce = self.next_nonce();
        let patience = self.config.patience * self.config.attempts;
        let (rhythm, ask_again_at, answered) = (self.config.patience, give_up_at, None);
        let pull = Pull { from, nonce, since: now, rhythm, ask_again_at, give_up_at, patience, answered, gathered };
        self.pulls.insert(owner, pull);
        self.send(from, Message::Pull { nonce, owner, onto, after: onto }, out);
    }

    pub(crate) fn on_pull_timeouts(&mut self, now: Instant, out: &mut Outbox) {
        let late = self.pulls.iter().filter(|(_, pull)| pull.due_at() <= now);
        let late: Vec<(NodeId, NodeId, bool)> =
            late.map(|(owner, pull)| (*owner, pull.from, pull.give_up_at <= now)).collect();
        for (owner, from, is_hopeless) in late {
            if is_hopeless {
                self.fail_pull(now, owner, out);
                self.ask(now, from, None, out);
            } else {
                self.send_pull(now, owner, out);
            }
        }
    }

    /// It goes on to the next sibling, for the same owner.
    pub(crate) fn fail_pull(&mut self, now: Instant, owner: NodeId, out: &mut Outbox) {
        let Some(Pull { from, .. }) = self.pulls.remove(&owner) else { return };
        out.event(Event::PullFailed { owner, from });
        if C::breaks(Breach::FailedPullSkipsSiblings) {
            self.behind.remove(&owner);
        }
        if let Some(behind) = self.behind.get_mut(&owner) {
            behind.failures = behind.failures.saturating_add(1);
            behind.not_before = now;
        }
    }

    // ---- whoever is asked

    /// `numbers` are what it builds onto and what it has gathered so far.
    pub(crate) fn on_pull(
        &mut self,
        now: Instant,
        from: NodeId,
        nonce: u64,
        owner: NodeId,
        numbers: (UpdateNumber, UpdateNumber),
        out: &mut Outbox,
    ) {
        let (onto, after) = numbers;
        if after < onto {
            return self.drop_message(from, Dropped::Malformed, out);
        }
        let answer = self.answer(now, owner, onto, after);
        if let Answer::Part(part) = &answer
            && owner == self.life.node
            && part.is_last()
            && let Some(live) = self.live_mut(from)
            && live.pulled != nonce
        {
            live.sent = live.sent.max(part.upto);
            live.too_far_behind = None;
            live.pulled = nonce;
        }
        self.send(from, Message::Pulled { nonce, owner, answer }, out);
    }

    fn answer(&self, now: Instant, owner: NodeId, onto: UpdateNumber, after: UpdateNumber) -> Answer {
        let Some(holding) = self.holdings.get(&owner) else { return Answer::Nothing { known: UpdateNumber::ZERO } };
        // Only up to where it has everything: whoever is told a number believes to have all that came before.
        let as_of =
            if C::breaks(Breach::PullBeyondContiguous) { holding.known.max(holding.offered) } else { holding.known };
        if as_of <= after {
            return Answer::Nothing { known: as_of };
        }
        // What was removed after `onto` is not all remembered: it has to take everything anew.
        let is_forgotten = onto < holding.floor && onto != UpdateNumber::ZERO;
        let (onto, after) = if is_forgotten { (UpdateNumber::ZERO, UpdateNumber::ZERO) } else { (onto, after) };
        let (rows, upto) = holding.collect(after, as_of, &self.config, now);
        Answer::Part(Part { onto, after, upto, as_of, floor: holding.floor, rows })
    }

    // ---- whoever asked

    pub(crate) fn on_pulled(
        &mut self,
        now: Instant,
        from: NodeId,
        nonce: u64,
        owner: NodeId,
        answer: Answer,
        out: &mut Outbox,
    ) {
        let pull = self.pulls.get_mut(&owner).filter(|pull| pull.from == from);
        if pull.as_ref().is_none_or(|pull| pull.nonce != nonce) {
            if let Some(pull) = pull
                && pull.answered.take_if(|answered| *answered == nonce).is_some()
            {
                // It only was late. On a slow link each needless repeat makes the others later still. But never so seldom that a
                // part that was lost is not asked for again at all.
                pull.rhythm = (pull.rhythm * 2).min(self.config.patience);
            }
            return self.drop_message(from, Dropped::NotAsked, out);
        }
        self.still_speaks(from);
        let known = self.known(owner).unwrap_or_default();
        match answer {
            Answer::Nothing { known: theirs } => self.has_no_more(now, from, owner, theirs),
            Answer::Part(part) if !part.is_well_formed() => {
                self.drop_message(from, Dropped::Malformed, out);
                self.fail_pull(now, owner, out);
            }
            Answer::Part(part) if part.as_of <= known => {
                // It may have said meanwhile that it has more.
                let claim = self.peers.get(&from).map_or(UpdateNumber::ZERO, |peer| peer.claim(owner));
                self.has_no_more(now, from, owner, part.as_of.max(claim));
            }
            Answer::Part(part) => self.gather(now, owner, part, out),
        }
    }

    fn has_no_more(&mut self, now: Instant, from: NodeId, owner: NodeId, theirs: UpdateNumber) {
        self.pulls.remove(&owner);
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.claims.insert(owner, theirs);
        }
        self.reckon(now, owner);
        if let Some(behind) = self.behind.get_mut(&owner) {
            behind.not_before = now;
        }
    }

    fn gather(&mut self, now: Instant, owner: NodeId, part: Part, out: &mut Outbox) {
        let pull = self.pulls.get_mut(&owner).expect("it was asked for");
        let from = pull.from;
        let gathered = &mut pull.gathered;
        let begins_anew = part.is_whole() && part.after == UpdateNumber::ZERO;
        let goes_on = part.onto == gathered.onto && part.after == gathered.upto && gathered.as_of <= part.as_of;
        // A tombstone that was forgotten while the parts came, and before its turn.
        let has_hole = gathered.floor < part.floor && part.after < part.floor && part.is_whole();
        if !begins_anew && (!goes_on || has_hole) {
            self.drop_message(from, Dropped::Malformed, out);
            return self.fail_pull(now, owner, out);
        }
        if !gathered.has_begun() {
            // The first part was asked for once: its answer took as long as answers take.
            let (patience, twice) = (self.config.patience, now.since(pull.since) * 2);
            pull.rhythm = twice.clamp(patience / MOST_REPEATS, patience);
            pull.patience = twice.clamp(patience * self.config.attempts, self.config.round);
        }
        if begins_anew {
            gathered.onto = UpdateNumber::ZERO;
            gathered.rows.clear();
        }
        let is_last = part.is_last();
        (gathered.upto, gathered.as_of, gathered.floor) = (part.upto, part.as_of, part.floor);
        gathered.rows.extend(part.rows.into_iter().map(|row| Held::new(row, &self.config, now)));
        if gathered.rows.len() > self.config.owner_rows {
            self.drop_message(from, Dropped::TooManyRows, out);
            return self.fail_pull(now, owner, out);
        }
        if is_last || C::breaks(Breach::NumberAdvancedByHalf) {
            self.finish_pull(now, owner, out);
        } else {
            self.pull_on(now, owner, out);
        }
    }

    fn pull_on(&mut self, now: Instant, owner: NodeId, out: &mut Outbox) {
        let nonce = self.next_nonce();
        let pull = self.pulls.get_mut(&owner).expect("it is under way");
        pull.answered = Some(core::mem::replace(&mut pull.nonce, nonce));
        pull.give_up_at = now + pull.patience;
        self.send_pull(now, owner, out);
    }

    fn send_pull(&mut self, now: Instant, owner: NodeId, out: &mut Outbox) {
        let Some(pull) = self.pulls.get_mut(&owner) else { return };
        pull.ask_again_at = now + pull.rhythm;
        let (from, nonce, onto, after) = (pull.from, pull.nonce, pull.gathered.onto, pull.gathered.upto);
        self.send(from, Message::Pull { nonce, owner, onto, after }, out);
    }

    fn finish_pull(&mut self, now: Instant, owner: NodeId, out: &mut Outbox) {
        let Some(Pull { from, gathered, .. }) = self.pulls.remove(&owner) else { return };
        let Gathered { onto, as_of, floor, rows, upto: _ } = gathered;
        if let Some(peer) = self.peers.get_mut(&from) {
            // It may have said meanwhile that it has more.
            peer.claims.insert(owner, peer.claim(owner).max(as_of));
        }
        if let Some(behind) = self.behind.get_mut(&owner) {
            behind.failures = 0;
        }
        self.take(now, owner, Batch { onto, upto: as_of, floor, rows: rows.into_iter().collect() }, out);
    }
}
