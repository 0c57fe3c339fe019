//! Backfill, the primary's side: tables slot by slot, while entries stream; throttled, resumable.
//!
//! Images leave when the driver has time for one (`Input::Fill`): it has other buckets that fill somebody, and clients.

use alloc::vec::Vec;

use blueprint::{Breach, Conduct, Index, Instant, Member, NodeId, SlotSet};

use crate::io::{Outbox, Output, View};
use crate::log::Log;
use crate::message::Message;
use crate::peer::Peer;
use crate::phaser::{Phaser, Role};

/// An image of which nothing is heard for so many retries is sent again. A busy disk takes its time, and what comes twice makes it no
/// faster.
const FILL_PATIENCE: u32 = 10;
/// At the least, if something throttles.
const IMAGES_PER_SECOND: u64 = 8;

/// How it stands with one that is being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filling {
    pub to: NodeId,
    /// Images that left and are not said to be safe yet.
    pub under_way: usize,
    /// Whether a `Fill` would find anything to do.
    pub wants: bool,
}

impl<C: Conduct> Phaser<C> {
    pub(crate) fn on_fill_tick(&mut self, now: Instant, out: &mut Outbox) {
        let Role::Leading(leader) = &mut self.role else { return };
        let patience = self.config.retry * FILL_PATIENCE;
        for peer in &mut leader.peers {
            if !peer.fill.in_flight.is_empty() && now.since(peer.fill.moved_at) > patience {
                peer.fill.in_flight.clear();
            }
        }
        for member in leader.peers.iter().map(|peer| peer.member).collect::<Vec<_>>() {
            self.send_begin(member, out);
        }
    }

    /// If it is to begin anew: at once, and again with each tick.
    pub(crate) fn send_begin(&mut self, to: Member, out: &mut Outbox) {
        let newest = self.new_beginning();
        let begins = |log: &Log, owned: &SlotSet, base: Index| owned.difference(&log.absorbed_after(base));
        let Role::Leading(leader) = &mut self.role else { return };
        let term = leader.term;
        let Some(peer) = leader.peer(to) else { return };
        let Some(base) = peer.begin else { return };
        // Cut off meanwhile: it begins at a newer one. (To probe again would find the same, and be too late again.) So it does if
        // nothing of that time is left here.
        let is_held = self.log.holds(base) && !begins(&self.log, &self.owned, base.index).is_empty();
        let base = if is_held { base } else { newest };
        peer.begin = Some(base);
        peer.next = base.index.next();
        let clock = self.log.clock_at(base.index);
        let (owned, refuted) = (begins(&self.log, &self.owned, base.index), peer.refuted);
        out.send(self.me, to, Message::Begin { term, base, refuted, clock, owned });
    }

    /// A throttle lets it go on now: ticks are too far apart for that.
    pub(crate) fn on_fill_timeout(&mut self, now: Instant) {
        let Role::Leading(leader) = &mut self.role else { return };
        for peer in &mut leader.peers {
            peer.fill.wake_at.take_if(|at| *at <= now);
        }
    }

    /// What was owed at another rate counts no longer: after a very low one it could be hours.
    pub(crate) fn on_throttle(&mut self, now: Instant, rates: Vec<(NodeId, u64)>) {
        let before = core::mem::replace(&mut self.throttles, rates);
        let rate_in = |rates: &[(NodeId, u64)], node| rates.iter().find(|(n, _)| *n == node).map(|(_, rate)| *rate);
        if let Role::Leading(leader) = &mut self.role {
            for peer in &mut leader.peers {
                let node = peer.member.node;
                if rate_in(&before, node) != rate_in(&self.throttles, node) {
                    peer.fill.not_before = now;
                    peer.fill.wake_at = None;
                }
            }
        }
    }

    /// In bytes per second; none: it is not to be filled now.
    fn fill_rate(&self, node: NodeId) -> Option<u64> {
        let throttle = self.throttles.iter().find(|(n, _)| *n == node).map(|(_, rate)| *rate);
        Some(self.config.fill_rate.min(throttle.unwrap_or(u64::MAX))).filter(|rate| *rate > 0)
    }

    /// Somebody is to be filled here: so it is nearly never.
    pub fn is_filling(&self) -> bool {
        matches!(&self.role, Role::Leading(leader) if leader.peers.iter().any(|peer| !peer.progress.missing.is_empty()))
    }

    /// Whom it fills, and how that stands.
    pub fn fills(&self) -> impl Iterator<Item = Filling> {
        let peers = if let Role::Leading(leader) = &self.role { &leader.peers[..] } else { &[] };
        let filled = peers.iter().filter(|peer| !peer.progress.missing.is_empty());
        filled.map(|peer| Filling {
            to: peer.member.node,
            under_way: peer.fill.in_flight.len(),
            wants: peer.fill.wake_at.is_none() && !self.unsent(peer).is_empty(),
        })
    }

    /// What could be sent to it now, but for the throttle: it misses something, its log is known to meet ours, and few images are under
    /// way.
    fn unsent(&self, peer: &Peer) -> SlotSet {
        let lacks = peer.upto.is_some() && peer.begin.is_none() && !peer.progress.missing.is_empty();
        let has_room = peer.fill.in_flight.len() < self.config.images_in_flight;
        // Once given away, it has nothing any more that it could send.
        let may = lacks && has_room && !self.given && self.fill_rate(peer.member.node).is_some();
        if !may || C::breaks(Breach::TailAloneForHalfFilled) {
            return SlotSet::empty();
        }
        peer.fill.unsent(&peer.progress.missing).intersection(&self.owned)
    }

    /// One image: which slots it has is known when it has left, and then, when there is time again, comes the next.
    pub(crate) fn on_fill_turn(&mut self, now: Instant, to: NodeId, out: &mut Outbox) {
        let Role::Leading(leader) = &self.role else { return };
        let Some(peer) = leader.peers.iter().find(|peer| peer.member.node == to) else { return };
        let (unsent, member, not_before) = (self.unsent(peer), peer.member, peer.fill.not_before);
        let waits = !unsent.is_empty() && now < not_before;
        if !unsent.is_empty() && !waits {
            let (as_of, slots) = self.label(&unsent, self.applied);
            // A throttle that is far below an image per second would otherwise come in jolts.
            let rate = self.fill_rate(to).unwrap_or(u64::MAX);
            let bytes = usize::try_from(rate / IMAGES_PER_SECOND).unwrap_or(usize::MAX);
            let bytes = bytes.clamp(1, self.config.image_bytes);
            out.push(Output::SendImage { to: member, term: leader.term, as_of, slots, bytes });
        }
        let Role::Leading(leader) = &mut self.role else { return };
        if let Some(peer) = leader.peer(member) {
            peer.fill.wake_at = waits.then_some(not_before);
        }
    }

    /// A table is as of the larger of the applied index and the `as_of` that it came with: a restarted sender may have
    /// applied less. Only slots with the same label travel together.
    fn label(&self, wanted: &SlotSet, applied: Index) -> (Index, SlotSet) {
        if C::breaks(Breach::ImageLabelledApplied) {
            return (applied, wanted.clone());
        }
        for (first, last, as_of) in self.as_of.runs() {
            let run = SlotSet::range(first, last).intersection(wanted);
            if *as_of > applied && !run.is_empty() {
                return (*as_of, run);
            }
        }
        (applied, wanted.clone())
    }

    pub(crate) fn on_image_sent(&mut self, now: Instant, to: Member, slots: SlotSet, bytes: usize) {
        let rate = self.fill_rate(to.node).unwrap_or(self.config.fill_rate);
        let slack = self.config.beacon;
        let Role::Leading(leader) = &mut self.role else { return };
        if let Some(peer) = leader.peer(to).filter(|_| !slots.is_empty()) {
            peer.fill.in_flight.push(slots);
            peer.fill.moved_at = now;
            let micros = (bytes as u64).saturating_mul(1_000_000) / rate;
            // From when it could have left, unless that is long ago: who is woken late, or waits for an answer, keeps its rate.
            let due = peer.fill.not_before;
            let from = if due + slack >= now { due.min(now) } else { now };
            peer.fill.not_before = from + core::time::Duration::from_micros(micros);
        }
    }

    /// The answer to a question about the blueprint: it is news like any other, and permits what was asked for.
    pub(crate) fn on_told(&mut self, now: Instant, nonce: u64, view: View, out: &mut Outbox) {
        let term = view.government.term;
        self.on_view(now, view, out);
        if let Role::Leading(leader) = &self.role
            && leader.term == term
            && leader.succession.is_none()
        {
            self.on_growth_told(now, nonce, out);
            self.on_hand_over_told(now, nonce, out);
            self.on_confirmed(now, nonce, out);
        }
    }

    pub(crate) fn on_rejected(&mut self, _now: Instant, term: blueprint::Term, _out: &mut Outbox) {
        self.on_seat_rejected(term);
        self.on_hand_over_rejected(term);
    }
}
