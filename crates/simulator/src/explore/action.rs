//! Everything that can happen next, and what it makes of a world.

use std::hash::Hash;
use std::rc::Rc;

use blueprint::{Breach, Change, Conduct, Fate, Government, Member, NodeId};

use super::explorer::Explorer;
use super::facts::{Checker, Fault, fault};
use super::meta::{BUCKETS, Meta};
use super::replica::SLOTS;
use super::world::{Effect, NODES, Seen, Stimulus, World, bucket_of, place};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Deliver {
        letter: u32,
    },
    /// A node's journal is synced: this many writes of each bucket.
    Sync {
        node: usize,
        writes: [u8; BUCKETS],
    },
    Wake {
        at: usize,
    },
    See {
        node: usize,
        epoch: u8,
    },
    /// A question is looked up; and answered.
    Look {
        question: usize,
    },
    Tell {
        question: usize,
    },
    Accept {
        proposal: usize,
    },
    /// One copy is refused; another may still be under way.
    Refuse {
        proposal: usize,
    },
    Register {
        paper: usize,
    },
    /// Parent and child are bound; the blueprint hears of the Absorb; a node erases its frozen copy; the blueprint hears of that.
    Bind,
    Merge {
        paper: usize,
    },
    Erase {
        node: usize,
    },
    Strike {
        node: usize,
    },
    /// A process dies and starts again; the bits are the unsynced records of each bucket that stay.
    Crash {
        node: usize,
        kept: [u16; BUCKETS],
    },
    /// A node's disk is gone, and everything on it.
    Lose {
        node: usize,
    },
    Tick,
    Write {
        at: usize,
        slot: u8,
    },
    Read {
        at: usize,
        slot: u8,
    },
    HandOver {
        at: usize,
        to: usize,
    },
    Split {
        at: usize,
    },
    /// Someone other than the primary changes the government.
    Change {
        bucket: usize,
        change: Change,
    },
}

impl<C: Conduct + Hash> Explorer<C> {
    /// In an order that depends on nothing but the world: an action is named by its place in this list.
    pub(super) fn actions(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::with_capacity(32);
        let exists = |letter: &&u32| world.replicas[self.letters.get(**letter).to()] != 0;
        actions.extend(world.mail.iter().filter(exists).map(|letter| Action::Deliver { letter: *letter }));
        for node in 0..self.configuration.nodes() {
            self.node_actions(world, node, &mut actions);
            self.erase_actions(world, node, &mut actions);
        }
        for at in 0..world.replicas.len() {
            self.replica_actions(world, at, &mut actions);
        }
        self.desk_actions(world, &mut actions);
        for bucket in 0..BUCKETS {
            self.changes(world, bucket, &mut actions);
        }
        if world.budget.ticks > 0 {
            actions.push(Action::Tick);
        }
        actions
    }

    fn node_actions(&self, world: &World, node: usize, actions: &mut Vec<Action>) {
        let lore = |bucket: usize| self.known(world.replicas[place(bucket, node)]).map(|known| &known.lore);
        let unsynced = [0, 1].map(|bucket| lore(bucket).map_or(0, |lore| lore.unsynced));
        let writes = [0, 1].map(|bucket| lore(bucket).map_or(0, |lore| lore.writes));
        if writes != [0, 0] {
            actions.push(Action::Sync { node, writes });
        }
        if writes[0] + writes[1] > 1 {
            let firsts = [[1, 0], [0, 1]].into_iter().filter(|first| first[0] <= writes[0] && first[1] <= writes[1]);
            actions.extend(firsts.map(|writes| Action::Sync { node, writes }));
        }
        let newest = self.metas.get(world.meta).epoch();
        let seen = world.seen[node];
        let next = if seen.told { seen.epoch + 1 } else { seen.epoch.max(1) };
        for epoch in [next, newest] {
            let see = Action::See { node, epoch };
            if epoch <= newest && actions.last() != Some(&see) {
                actions.push(see);
            }
        }
        let alive = (0..BUCKETS).any(|bucket| world.replicas[place(bucket, node)] != 0);
        if world.budget.crashes > 0 && alive {
            actions.extend(losses(unsynced).into_iter().map(|kept| Action::Crash { node, kept }));
        }
        if world.budget.losses > 0 && alive && world.lost[node] == 0 {
            actions.push(Action::Lose { node });
        }
    }

    fn replica_actions(&self, world: &World, at: usize, actions: &mut Vec<Action>) {
        let Some(known) = self.known(world.replicas[at]) else { return };
        if known.lore.due {
            actions.push(Action::Wake { at });
        }
        if !known.lore.rules {
            return;
        }
        for slot in (0..SLOTS as u8).filter(|slot| known.lore.owned & (1 << slot) != 0) {
            if world.budget.writes > 0 {
                actions.push(Action::Write { at, slot });
            }
            if world.budget.reads > 0 && known.lore.readable & (1 << slot) == 0 {
                actions.push(Action::Read { at, slot });
            }
        }
        if world.budget.hand_overs > 0 {
            let others = (0..NODES).filter(|node| at % NODES != *node);
            actions.extend(others.map(|to| Action::HandOver { at, to }));
        }
        if world.budget.splits > 0 && bucket_of(at) == 0 {
            actions.push(Action::Split { at });
        }
    }

    fn desk_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let desk = self.desks.get(world.desk);
        for (question, asked) in desk.questions.iter().enumerate() {
            let look = self.configuration.slow_meta && asked.found.is_none();
            actions.push(if look { Action::Look { question } } else { Action::Tell { question } });
        }
        for proposal in 0..desk.proposals.len() {
            if world.budget.changes > 0 {
                actions.push(Action::Accept { proposal });
            }
            if world.budget.refusals > 0 {
                actions.push(Action::Refuse { proposal });
            }
        }
        actions.extend((0..desk.registers.len()).map(|paper| Action::Register { paper }));
        actions.extend((0..desk.merges.len()).map(|paper| Action::Merge { paper }));
        if world.budget.binds > 0 {
            actions.push(Action::Bind);
        }
    }

    /// What coordinators and operators may propose at any time. The meta group accepts or refuses it at once: a late acceptance
    /// is the same as a late proposal.
    fn changes(&self, world: &World, bucket: usize, actions: &mut Vec<Action>) {
        let budget = world.budget;
        let Some(government) = self.metas.get(world.meta).government(bucket) else { return };
        if budget.changes == 0 {
            return;
        }
        let mut push = |change: Change| actions.push(Action::Change { bucket, change });
        for fate in self.configuration.fates {
            if budget.usurps > 0 {
                successors(government).for_each(|to| push(Change::Usurp { to, fate: *fate }));
            }
            if budget.dismissals > 0 {
                let secondaries = government.secondaries.iter();
                secondaries.for_each(|m| push(Change::Dismiss { secondary: *m, fate: *fate }));
            }
        }
        if budget.enlistments > 0 {
            for node in (1..=self.configuration.nodes() as u64).map(NodeId) {
                if !government.members().chain(government.candidates.iter().copied()).any(|m| m.node == node) {
                    push(Change::Enlist { node });
                }
            }
        }
        if budget.renewals > 0 {
            government.secondaries.iter().for_each(|m| push(Change::Renew { primary: *m }));
        }
        for (node, lost) in world.lost.iter().enumerate().filter(|(_, lost)| **lost != 0) {
            report_lost(government, Member::new(node as u64 + 1, u64::from(*lost))).into_iter().for_each(&mut push);
        }
    }

    /// None when the action turns out to do nothing.
    pub(super) fn act(&mut self, world: &World, action: &Action) -> Result<Option<World>, Fault> {
        let mut next = world.clone();
        let done = self.carry_out(&mut next, action)?;
        if !done {
            return Ok(None);
        }
        self.clear_mail(&mut next);
        self.clear_desk(&mut next);
        Ok((next != *world).then_some(next))
    }

    fn carry_out(&mut self, world: &mut World, action: &Action) -> Result<bool, Fault> {
        match *action {
            Action::Deliver { letter } => {
                if !self.configuration.duplicates {
                    world.mail.retain(|l| *l != letter);
                }
                let at = self.letters.get(letter).to();
                self.perform(world, at, Stimulus::Letter(letter))?;
            }
            Action::Sync { node, writes } => {
                for bucket in (0..BUCKETS).filter(|bucket| writes[*bucket] > 0) {
                    let at = place(bucket, node);
                    let newborn = self.known(world.replicas[at]).is_some_and(|known| known.replica.durable.is_none());
                    self.perform(world, at, Stimulus::Written { writes: writes[bucket] })?;
                    if newborn && bucket == 1 {
                        self.tell_parent(world, at)?;
                    }
                }
            }
            Action::Wake { at } => self.perform(world, at, Stimulus::Wake)?,
            Action::See { node, epoch } => self.see(world, node, epoch)?,
            Action::Look { question } => {
                let mut desk = self.desks.get(world.desk).clone();
                desk.questions[question].found = Some(self.metas.get(world.meta).epoch());
                desk.questions.sort_unstable();
                world.desk = self.desks.add(desk);
            }
            Action::Tell { question } => {
                let mut desk = self.desks.get(world.desk).clone();
                let asked = desk.questions.remove(question);
                world.desk = self.desks.add(desk);
                let at = usize::from(asked.by);
                let epoch = asked.found.unwrap_or(self.metas.get(world.meta).epoch());
                if let Some(view) = self.view(world, at, epoch) {
                    self.perform(world, at, Stimulus::Told { nonce: asked.nonce, view })?;
                }
            }
            Action::Accept { proposal } => {
                let proposal = self.desks.get(world.desk).proposals[proposal].clone();
                let meta = self.metas.get(world.meta);
                let bucket = usize::from(proposal.bucket);
                let Some(next) = meta.succeed::<C>(bucket, proposal.term, &proposal.change) else { return Ok(false) };
                self.enact(world, next)?;
            }
            Action::Refuse { proposal } => {
                let proposal = &self.desks.get(world.desk).proposals[proposal];
                let (at, term) = (usize::from(proposal.by), proposal.term.0);
                world.budget.refusals -= 1;
                return self.request(world, at, Stimulus::Rejected { term });
            }
            Action::Register { paper } => {
                let mut desk = self.desks.get(world.desk).clone();
                let (slots, at) = desk.registers.remove(paper);
                world.desk = self.desks.add(desk);
                let meta = self.metas.get(world.meta);
                let known_before = meta.is_registered();
                if let Some(meta) = meta.register::<C>(&slots, at) {
                    self.adopt(world, meta)?;
                    if known_before {
                        return fault(
                            Checker::IdsAreUsedOnce,
                            format!("the child is registered once more, for its Split {at}"),
                        );
                    }
                }
            }
            Action::Bind | Action::Merge { .. } | Action::Erase { .. } | Action::Strike { .. } => {
                return self.carry_out_merge(world, action);
            }
            Action::Crash { node, kept } => self.crash(world, node, kept)?,
            Action::Lose { node } => {
                world.budget.losses -= 1;
                let lost = self.known(world.replicas[place(0, node)]).map_or(0, |known| known.lore.incarnation as u8);
                self.start_anew(world, node);
                world.lost[node] = lost;
                for bucket in 0..BUCKETS {
                    world.replicas[place(bucket, node)] = 0;
                }
            }
            Action::Tick => {
                world.budget.ticks -= 1;
                self.tick(world);
            }
            Action::Write { at, slot } => {
                world.budget.writes -= 1;
                let write = self.facts.get(world.facts).issued + 1;
                self.amend(world, |facts| facts.issued = write);
                return self.request(world, at, Stimulus::Write { write, slot });
            }
            Action::Read { at, slot } => {
                world.budget.reads -= 1;
                let facts = self.facts.get(world.facts);
                let read = facts.asked * SLOTS as u8 + slot;
                self.amend(world, |facts| {
                    facts.asked += 1;
                    facts.reads.push((read, facts.acknowledged));
                });
                return self.request(world, at, Stimulus::Read { read, slot });
            }
            Action::HandOver { at, to } => {
                world.budget.hand_overs -= 1;
                return self.request(world, at, Stimulus::HandOver { to: to as u8 });
            }
            Action::Split { at } => {
                world.budget.splits -= 1;
                return self.request(world, at, Stimulus::Split);
            }
            Action::Change { bucket, ref change } => {
                let meta = self.metas.get(world.meta);
                let term = meta.government(bucket).expect("it was there a moment ago").term;
                let Some(next) = meta.succeed::<C>(bucket, term, change) else { return Ok(false) };
                match change {
                    Change::Usurp { fate: Fate::Lost, .. } | Change::Dismiss { fate: Fate::Lost, .. } => {}
                    Change::Usurp { .. } => world.budget.usurps -= 1,
                    Change::Dismiss { .. } => world.budget.dismissals -= 1,
                    Change::Enlist { .. } => world.budget.enlistments -= 1,
                    Change::Renew { .. } => world.budget.renewals -= 1,
                    _ => {} // a report of a loss
                }
                self.enact(world, next)?;
            }
        }
        Ok(true)
    }

    fn enact(&mut self, world: &mut World, meta: Meta) -> Result<(), Fault> {
        world.budget.changes = world.budget.changes.saturating_sub(1);
        self.adopt(world, meta)
    }

    /// A request that changes nothing was refused, or answered on the spot: as if it had not been made.
    fn request(&mut self, world: &mut World, at: usize, stimulus: Stimulus) -> Result<bool, Fault> {
        let before = world.replicas[at];
        self.perform(world, at, stimulus)?;
        Ok(world.replicas[at] != before)
    }

    fn crash(&mut self, world: &mut World, node: usize, kept: [u16; BUCKETS]) -> Result<(), Fault> {
        world.budget.crashes -= 1;
        self.start_anew(world, node);
        let child = self.restart(world, place(1, node), Stimulus::Crash { kept: kept[1], child: None })?;
        let origin = self.known(world.replicas[place(1, node)]).and_then(|known| known.replica.durable.as_ref());
        let origin = origin.map(|durable| durable.origin);
        let parent = self.restart(world, place(0, node), Stimulus::Crash { kept: kept[0], child: origin })?;
        // Both first, and then what follows: who absorbs must find what it absorbs.
        for effect in parent.iter().chain(&child) {
            self.follow_up(world, node, effect)?;
        }
        Ok(())
    }

    fn restart(&mut self, world: &mut World, at: usize, crash: Stimulus) -> Result<Option<Rc<Effect>>, Fault> {
        if world.replicas[at] == 0 {
            return Ok(None);
        }
        let effect = self.outcome(world.replicas[at], at, crash)?;
        self.take_effect(world, at, &effect)?;
        Ok(Some(effect))
    }

    /// What only the process knew is gone.
    fn start_anew(&mut self, world: &mut World, node: usize) {
        world.seen[node] = Seen { told: false, ..world.seen[node] };
        let mut desk = self.desks.get(world.desk).clone();
        desk.questions.retain(|question| usize::from(question.by) % NODES != node);
        world.desk = self.desks.add(desk);
        self.forget_deferred(world, node);
    }

    /// Papers that nothing can come of any more.
    fn clear_desk(&mut self, world: &mut World) {
        let desk = self.desks.get(world.desk);
        let meta = self.metas.get(world.meta);
        let current = |bucket: u8| meta.government(usize::from(bucket)).map(|government| government.term);
        let stale = |p: &super::meta::Proposal| current(p.bucket) != Some(p.term) && world.budget.refusals == 0;
        let pointless = world.budget.changes == 0 && world.budget.refusals == 0;
        let registered = meta.is_registered() && !C::breaks(Breach::RegisterAfterMerge);
        let merged = meta.is_over_at(meta.epoch());
        let any = desk.proposals.iter().any(|p| pointless || stale(p))
            || (registered && !desk.registers.is_empty())
            || (merged && !desk.merges.is_empty());
        if any {
            let mut desk = desk.clone();
            desk.proposals.retain(|p| !pointless && !stale(p));
            if registered {
                desk.registers.clear();
            }
            if merged {
                desk.merges.clear();
            }
            world.desk = self.desks.add(desk);
        }
    }
}

/// R3, R9: secondaries; heirs when there are none.
fn successors(government: &Government) -> impl Iterator<Item = Member> + '_ {
    let heirs = government.heirs.iter().filter(|_| government.secondaries.is_empty());
    government.secondaries.iter().chain(heirs).copied()
}

/// R10: a replica whose data is gone says so.
fn report_lost(government: &Government, lost: Member) -> Option<Change> {
    let fate = Fate::Lost;
    if government.primary == lost {
        successors(government).next().map(|to| Change::Usurp { to, fate })
    } else if government.secondaries.contains(&lost) {
        Some(Change::Dismiss { secondary: lost, fate })
    } else if government.heirs.contains(&lost) {
        Some(Change::Disown { heir: lost })
    } else if government.candidates.contains(&lost) {
        Some(Change::Drop { candidate: lost })
    } else {
        None
    }
}

/// Which unsynced records a crash may leave: any subset of a few; of more, any beginning.
fn losses(unsynced: [usize; BUCKETS]) -> Vec<[u16; BUCKETS]> {
    let subsets = |records: usize| -> Vec<u16> {
        if records <= 3 {
            (0..1 << records).collect()
        } else {
            (0..=records).map(|kept| ((1u32 << kept) - 1) as u16).collect()
        }
    };
    let extremes = |records: usize| if records == 0 { vec![0] } else { vec![0, ((1u32 << records) - 1) as u16] };
    let few = unsynced[0] + unsynced[1] <= 3 || unsynced[1] == 0;
    let [parent, child] = if few { unsynced.map(subsets) } else { unsynced.map(extremes) };
    parent.iter().flat_map(|p| child.iter().map(|c| [*p, *c])).collect()
}
