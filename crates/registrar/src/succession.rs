//! A node that lost its disk is a new owner. It takes over what its predecessor, of the same name and departed, had left behind with
//! the siblings, under numbers of its own.
//!
//! The last of those updates carries a mark: "everything of that owner up to here is mine now". Whoever has no more than that drops its
//! copy of the old rows with it; whoever has more keeps it, until the successor has pulled that too and marked it again.

use alloc::vec::Vec;

use blueprint::{Conduct, Instant, NodeId};

use crate::holding::{Held, Holding, State};
use crate::io::{Event, Outbox};
use crate::number::UpdateNumber;
use crate::part::Key;
use crate::registrar::{Registrar, tell};

/// How far a predecessor is taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Taken {
    pub(crate) upto: UpdateNumber,
    /// The numbers of my updates that did it, first and last: a row of one of them is still as the predecessor left it. After a restart
    /// only the one with the mark is known; a row of another counts as mine then, and stays as it is.
    pub(crate) by: Vec<(UpdateNumber, UpdateNumber)>,
}

impl<C: Conduct> Registrar<C> {
    pub(crate) fn on_succeeds(&mut self, old: NodeId) {
        if old != self.life.node {
            self.own.predecessors.entry(old).or_default();
        }
    }

    /// Once this node has everything that can be had.
    pub(crate) fn take_over(&mut self, now: Instant, out: &mut Outbox) {
        let has_more = |(old, taken): &(&NodeId, &Taken)| {
            let has_departed = !self.peers.contains_key(*old) && !self.behind.contains_key(*old);
            has_departed && self.known(**old).is_some_and(|known| known > taken.upto)
        };
        let due: Vec<NodeId> = self.own.predecessors.iter().filter(has_more).map(|(old, _)| *old).collect();
        for old in due {
            self.take_over_from(now, old, out);
        }
    }

    fn take_over_from(&mut self, now: Instant, old: NodeId, out: &mut Outbox) {
        let theirs = &self.holdings[&old];
        let taken = &self.own.predecessors[&old];
        // What was said to me is newer than anything that was said to my predecessor. (Numbers of two owners cannot be compared; ages
        // could, were it not for siblings that restarted with a wrong clock.)
        let is_theirs = |mine: &Held| taken.by.iter().any(|(first, last)| (*first..=*last).contains(&mine.number));
        let is_news =
            |(key, held): &(&Key, &Held)| held.number > taken.upto && self.newest_own(key).is_none_or(is_theirs);
        let mut rows: Vec<(Key, Held)> = theirs.rows().filter(is_news).map(|(k, h)| (k.clone(), h.clone())).collect();
        let (upto, count) = (theirs.known, rows.len());
        let mark = Held { number: upto, state: State::TakenOver { upto }, kept_until: now + self.config.keep() };
        rows.push((Key::Predecessor(old), mark));
        let first = self.own.last.next();
        self.issue_rows(now, rows, out);
        let taken = self.own.predecessors.entry(old).or_default();
        taken.upto = upto;
        taken.by.push((first, self.own.last));
        out.event(Event::TookOver { owner: old, upto, rows: count });
    }

    /// The blueprint has changed: marks of successors that came before it did.
    pub(crate) fn forget_all_taken_over(&mut self, out: &mut Outbox) {
        let taken: Vec<_> = self.holdings.values().flat_map(Holding::predecessors).collect();
        for (old, upto) in taken {
            self.forget_taken_over(old, upto).into_iter().for_each(|key| tell(old, key, out));
        }
    }

    /// Somebody has taken over everything of `old` up to here. Nobody can do so whose predecessor, by the blueprint, is still
    /// present. Returns what watchers see go.
    pub(crate) fn forget_taken_over(&mut self, old: NodeId, upto: UpdateNumber) -> Vec<Key> {
        let is_present = old == self.life.node || self.peers.contains_key(&old);
        let has_room = self.holdings.contains_key(&old) || self.holdings.len() < self.config.owners;
        if is_present || !has_room || !upto.is_plausible() {
            return Vec::new();
        }
        let holding = self.holdings.entry(old).or_default();
        if holding.known > upto {
            return Vec::new();
        }
        let gone = Holding::clear(holding, upto);
        self.behind.remove(&old);
        self.pulls.remove(&old);
        gone
    }
}

impl Held {
    /// The mark of a successor.
    pub(crate) fn taken_over(&self, key: &Key) -> Option<(NodeId, UpdateNumber)> {
        match (key, &self.state) {
            (Key::Predecessor(old), State::TakenOver { upto }) => Some((*old, *upto)),
            _ => None,
        }
    }
}
