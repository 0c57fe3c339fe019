//! Split: an entry of the parent's log. Ownership moves at that position; the blueprint is told after.

use blueprint::{Breach, BucketId, Conduct, Instant, Position, SlotSet};

use crate::entry::{Entry, EntryRef, Payload};
use crate::io::{Fork, Outbox, Output};
use crate::phaser::{Parted, Phaser, Role};

impl<C: Conduct> Phaser<C> {
    pub(crate) fn on_split(&mut self, now: Instant, child: BucketId, slots: SlotSet, out: &mut Outbox) {
        let (mine, is_bound) = (self.owned_at_end(), self.is_bound());
        let Role::Leading(leader) = &mut self.role else { return };
        if !leader.takes_writes() || is_bound || slots.is_empty() || slots == mine || !slots.is_subset(&mine) {
            return;
        }
        if self.log.milestones().any(|e| e.split() == Some(child)) {
            return; // ids are used once
        }
        let term = leader.term;
        leader.parting = leader.parting.union(&slots);
        let index = self.append_own(now, term, &Payload::Split { child, slots: slots.clone() });
        if C::breaks(Breach::SplitToldBeforeCommit) {
            out.push(Output::Register { child, slots, at: Position { term, index } });
        }
    }

    /// The slots that will be left once everything in the log is applied.
    pub fn owned_at_end(&self) -> SlotSet {
        let mut owned = self.owned.clone();
        for entry in self.log.milestones().filter(|e| e.at.index > self.applied) {
            match entry.payload() {
                Payload::Split { slots, .. } => owned = owned.difference(&slots),
                Payload::Absorb { slots, .. } => owned = owned.union(&slots),
                Payload::Reign | Payload::Command { .. } | Payload::Freeze { .. } => {}
            }
        }
        owned
    }

    pub(crate) fn apply_split(
        &mut self,
        now: Instant,
        child: BucketId,
        slots: &SlotSet,
        entry: &Entry,
        out: &mut Outbox,
    ) {
        // Tables that are newer than the Split are not what it gives away: they came back since, by an Absorb that follows in the log.
        let newer = self.as_of.where_value(|as_of| *as_of >= entry.at.index).intersection(slots);
        // A replica that came later never held these slots: of that no child can be made.
        let whole = self.is_whole() && slots.is_subset(&self.owned) && newer.is_empty();
        let slots_gone = slots.clone();
        self.owned = self.owned.difference(slots);
        let slots = slots.difference(&newer);
        self.disown(&slots);
        let registered = self.known.as_ref().is_some_and(|view| view.children.iter().any(|(known, _)| *known == child));
        let forked = C::breaks(Breach::ParentErasedBeforeFork);
        self.splits.push(Parted { child, slots: slots_gone.clone(), at: entry.at, registered, forked });
        let abstain_until = self.grants.since_restart();
        out.push(Output::Fork(Fork { child, slots, at: entry.at, clock: entry.clock, whole, abstain_until }));
        if let Role::Leading(leader) = &mut self.role {
            leader.announce = true;
            leader.parting = leader.parting.difference(&slots_gone);
        }
        self.serve_backlog(now, out);
    }

    /// Only the primary tells, again and again, until the blueprint knows. And only when the child is safe on its own disk: at level
    /// memory all members may lose the Split itself, and then nobody could make what the blueprint counts on.
    pub(crate) fn tell_splits(&mut self, out: &mut Outbox) {
        let Role::Leading(leader) = &self.role else { return };
        let untold = |p: &&Parted| (!p.registered || C::breaks(Breach::RegisterAfterMerge)) && p.forked;
        for parted in self.splits.iter().filter(untold) {
            if C::breaks(Breach::SplitForgottenBySuccessor) && parted.at.term < leader.government.since {
                continue;
            }
            out.push(Output::Register { child: parted.child, slots: parted.slots.clone(), at: parted.at });
        }
    }

    pub(crate) fn on_forked(&mut self, child: BucketId, out: &mut Outbox) {
        for parted in &mut self.splits {
            parted.forked |= parted.child == child;
        }
        self.tell_splits(out);
    }

    /// A Split that the blueprint shows registered, or an Absorb that it knows of, was committed, whoever holds it: promise the parent's term in that
    /// blueprint, durably, and then take the entry as committed.
    pub(crate) fn take_registered(&mut self, now: Instant, out: &mut Outbox) {
        let Some(view) = &self.known else { return };
        if self.log.last().index == self.commit || view.children.is_empty() && view.absorbed.is_empty() {
            return;
        }
        let registered = |e: &EntryRef<'_>| match e.payload() {
            Payload::Split { child, .. } => view.children.contains(&(child, e.at)),
            Payload::Absorb { from, .. } => view.absorbed.contains(&(from, e.at)),
            Payload::Reign | Payload::Command { .. } | Payload::Freeze { .. } => false,
        };
        let tail = self.log.milestones_after(self.commit).rev();
        let Some(index) = tail.filter(registered).map(|e| e.at.index).next() else { return };
        let term = view.government.term;
        if term > self.promised {
            self.step_down(now, out);
            self.raise(term);
        }
        if self.disk.is_promise_safe() {
            self.commit = self.commit.max(index);
            self.apply(now, out);
        }
    }

    /// No seat from a Split's commit until its child is seen registered.
    pub(crate) fn has_untold_split(&self) -> bool {
        self.splits.iter().any(|p| !p.registered)
    }

    /// Is there a child that a linearizable read shows registered with this node, and that is still to be made of what is
    /// here (R11)? A child that is not registered will be governed by a government that does not name this replica any more.
    pub fn owes_fork(&self, registered_here: &[(BucketId, Position)]) -> bool {
        let unapplied = self.tail_splits().any(|split| registered_here.contains(&split));
        unapplied || self.splits.iter().any(|p| !p.forked && registered_here.contains(&(p.child, p.at)))
    }

    /// May the log be thrown away to begin anew? Not while a child may have to be made of it: the view must be at least as
    /// new as the order, and show none.
    pub(crate) fn may_owe_fork(&self) -> bool {
        let Some(view) = &self.known else { return self.tail_splits().next().is_some() };
        let old = view.government.term < self.promised;
        self.tail_splits().any(|split| old || view.children.contains(&split)) || self.splits.iter().any(|p| !p.forked)
    }

    /// Splits that are still to be applied.
    pub(crate) fn tail_splits(&self) -> impl Iterator<Item = (BucketId, Position)> {
        let tail = self.log.milestones_after(self.applied).rev();
        tail.filter_map(|e| Some((e.split()?, e.at)))
    }
}
