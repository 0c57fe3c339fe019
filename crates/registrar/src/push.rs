//! Push: an owner tells every live peer what is new, in one message for all that gathered. Nobody pushes what it does not own.

use alloc::vec::Vec;

use blueprint::{Breach, Conduct, Instant, NodeId};

use crate::holding::Held;
use crate::io::{Dropped, Event, Outbox};
use crate::message::Message;
use crate::number::UpdateNumber;
use crate::part::Part;
use crate::peer::{Peer, Reach};
use crate::registrar::{Batch, Registrar, Stage};

impl<C: Conduct> Registrar<C> {
    pub(crate) fn on_flush(&mut self, now: Instant, out: &mut Outbox) {
        self.disk.seal(out);
        if self.stage < Stage::Numbering {
            return;
        }
        let known = self.known(self.life.node).unwrap_or_default();
        let lacks = |peer: &Peer| matches!(&peer.reach, Reach::Live(live) if live.sent < known);
        let peers: Vec<NodeId> = self.peers.iter().filter(|(_, peer)| lacks(peer)).map(|(node, _)| *node).collect();
        for peer in peers {
            self.push_news(now, peer, out);
        }
    }

    fn push_news(&mut self, now: Instant, to: NodeId, out: &mut Outbox) {
        let Some(sent) = self.live_mut(to).map(|live| live.sent) else { return };
        let holding = &self.holdings[&self.life.node];
        let (known, floor) = (holding.known, holding.floor);
        let onto = if sent < floor { UpdateNumber::ZERO } else { sent };
        let (rows, upto) = holding.collect(onto, known, &self.config, now);
        let fits = upto == known;
        let live = self.live_mut(to).expect("it is live");
        if fits {
            live.sent = known;
            live.pushed_at = now;
            live.too_far_behind = None;
            let part = Part { onto, after: onto, upto, as_of: known, floor, rows };
            self.send(to, Message::Push(part), out);
        } else if live.too_far_behind.is_none() {
            // It learns from the check how much there is, and pulls.
            live.too_far_behind = Some(now);
            self.announce(now, to, out);
        }
    }

    pub(crate) fn on_push(&mut self, now: Instant, from: NodeId, part: Part, out: &mut Outbox) {
        let is_one_message = part.after == part.onto && part.is_last();
        if !part.is_well_formed() || !is_one_message {
            return self.drop_message(from, Dropped::Malformed, out);
        }
        let is_new = !self.holdings.contains_key(&from);
        if is_new && self.holdings.len() >= self.config.owners {
            return self.drop_message(from, Dropped::TooManyOwners, out);
        }
        let holding = self.holdings.entry(from).or_default();
        let known = holding.known;
        if part.upto <= known {
            return self.drop_message(from, Dropped::AlreadyKnown, out);
        }
        if known < part.onto && !C::breaks(Breach::PushAcrossGap) {
            holding.offered = holding.offered.max(part.upto);
            out.event(Event::PushRefused { owner: from, onto: part.onto, known });
            self.drop_message(from, Dropped::Gap, out);
            return self.announce(now, from, out);
        }
        let held = if part.is_whole() { 0 } else { holding.len() };
        if held + part.rows.len() > self.config.owner_rows {
            return self.drop_message(from, Dropped::TooManyRows, out);
        }
        let Part { onto, upto, floor, rows, .. } = part;
        let rows = rows.into_iter().map(|row| Held::new(row, &self.config, now)).collect();
        self.take(now, from, Batch { onto, upto, floor, rows }, out);
    }
}
