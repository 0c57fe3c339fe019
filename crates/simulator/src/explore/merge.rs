//! Two replicas on one node that do not know each other are introduced, and what has been absorbed is erased: what the node does in a
//! merge. Here the child is absorbed by its parent, never the other way round.

use std::hash::Hash;

use blueprint::{Bond, Breach, Conduct, Member, NodeId, Position, Rule, Slot, Term};
use phaser::Durable;

use super::action::Action;
use super::explorer::Explorer;
use super::facts::{Checker, Fault, fault};
use super::meta::{CHILD, Meta};
use super::replica::{Beside, Meeting, NOW};
use super::world::{Effect, Stimulus, World, place};

impl<C: Conduct + Hash> Explorer<C> {
    /// What a step means for the other replica on the node, once the step itself is done.
    pub(super) fn follow_up(&mut self, world: &mut World, node: usize, effect: &Effect) -> Result<(), Fault> {
        for beside in &effect.beside {
            match beside {
                Beside::Meet { named } => self.meet(world, node, *named)?,
                Beside::Given { slots } => {
                    let slots = slots.iter().fold(0, |bits, slot| bits | 1 << slot.0);
                    self.perform(world, place(1, node), Stimulus::Given { slots })?;
                }
            }
        }
        Ok(())
    }

    /// Tells the parent how the child ended here. `named`: a committed Absorb names that Freeze, so who holds it takes it as committed.
    fn meet(&mut self, world: &mut World, node: usize, named: Option<Position>) -> Result<(), Fault> {
        let (parent, child) = (place(0, node), place(1, node));
        if let Some(at) = named {
            self.perform(world, child, Stimulus::Named { at })?;
        }
        let mut meeting = Meeting::default();
        if let Some(known) = self.known(world.replicas[child])
            && let Some(mut frozen) = known.replica.phaser.frozen(CHILD, NOW)
        {
            frozen.clock = 0; // nobody reads it here
            meeting = Meeting { frozen: Some(frozen), tables: known.replica.tables.clone() };
        }
        if meeting.frozen.is_none() && named.is_none() {
            return Ok(()); // nothing that could be waited for
        }
        let meeting = self.meetings.add(meeting);
        self.perform(world, parent, Stimulus::Met { meeting })
    }

    /// Whether anything came of it.
    pub(super) fn carry_out_merge(&mut self, world: &mut World, action: &Action) -> Result<bool, Fault> {
        let meta = self.metas.get(world.meta);
        let next = match *action {
            Action::Bind => {
                world.budget.binds -= 1;
                meta.bind::<C>()
            }
            Action::Merge { paper } => meta.merge::<C>(self.desks.get(world.desk).merges[paper]),
            Action::Strike { node } => meta.strike::<C>(NodeId(node as u64 + 1)),
            Action::Erase { node } => return self.erase(world, node).map(|()| true),
            _ => unreachable!("only what a merge is made of"),
        };
        let Some(next) = next else { return Ok(false) };
        self.adopt(world, next)?;
        Ok(true)
    }

    /// A new blueprint.
    pub(super) fn adopt(&mut self, world: &mut World, meta: Meta) -> Result<(), Fault> {
        if let Some(bucket) = meta.newest().unequal_bond() {
            let what = format!("{bucket} is being merged, and others have parts in it than in the other bucket");
            return fault(Checker::BoundAlike, what);
        }
        world.meta = self.metas.add(meta);
        Ok(())
    }

    pub(super) fn erase_actions(&self, world: &World, node: usize, actions: &mut Vec<Action>) {
        let (meta, seen) = (self.metas.get(world.meta), world.seen[node]);
        if !seen.told || !meta.is_over_at(seen.epoch) {
            return;
        }
        let id = NodeId(node as u64 + 1);
        if world.replicas[place(1, node)] == 0 {
            if meta.holder_at(seen.epoch, id).is_some() && meta.holder_at(meta.epoch(), id).is_some() {
                actions.push(Action::Strike { node });
            }
        } else if self.may_erase(world, node) {
            actions.push(Action::Erase { node });
        }
    }

    /// R11, of a bucket that is no more: it has promised nothing since, and what has absorbed it here would be found without it.
    fn may_erase(&self, world: &World, node: usize) -> bool {
        let Some(child) = self.known(world.replicas[place(1, node)]).map(|known| &known.replica.phaser) else {
            return false;
        };
        let parent = self.known(world.replicas[place(0, node)]).map(|known| &known.replica.phaser);
        let blueprint = self.metas.get(world.meta).at(world.seen[node].epoch);
        let bucket = blueprint.and_then(|b| b.buckets.get(&CHILD));
        let over = match bucket.map(|b| &b.rule) {
            Some(Rule::Removed { term, .. }) => *term,
            Some(Rule::Governed(_)) => return false,
            None => Term(u64::MAX),
        };
        let owed = match bucket.and_then(|b| b.bond) {
            Some(Bond::Merged { at, .. }) => parent.is_some_and(|p| !p.has_absorbed(CHILD, at)),
            _ => child.is_frozen() && parent.is_some_and(|p| p.holds_absorb_of(CHILD)),
        };
        child.promised() <= over && (!owed || C::breaks(Breach::FrozenErasedBeforeCheckpoint))
    }

    /// At once, on disk too.
    pub(super) fn erase(&mut self, world: &mut World, node: usize) -> Result<(), Fault> {
        let (parent, child) = (place(0, node), place(1, node));
        self.perform(world, child, Stimulus::Retire)?;
        let newborn = self.known(world.replicas[child]).is_some_and(|known| known.replica.durable.is_none());
        world.replicas[child] = 0;
        if newborn {
            self.perform(world, parent, Stimulus::Forked)?; // nothing will be made of its parent's log any more
        }
        let absorbed_at = self.facts.get(world.facts).absorbed_at();
        let government = self.metas.get(world.meta).government(0).expect("the parent stays");
        // Whoever does not count goes on without, and is filled like anyone.
        let counts = |me: Member| government.is_member(me) || government.heirs.contains(&me);
        let durable = self.known(world.replicas[parent]).and_then(|known| known.replica.durable.as_ref());
        let needs = |durable: &Durable| counts(durable.me) && absorbed_at.is_none_or(|at| is_to_absorb(durable, at));
        if durable.is_some_and(needs) {
            let what = format!("n{} erases the frozen child, and a restart would ask for it", node + 1);
            return fault(Checker::NothingErasedWhileNeeded, what);
        }
        Ok(())
    }
}

/// Would whoever starts with this disk have to absorb the child? Its log begins before the Absorb, and its tables are older.
fn is_to_absorb(durable: &Durable, absorb: u64) -> bool {
    let saved = durable.as_of.get(Slot(1)).is_some_and(|as_of| as_of.0 >= absorb);
    durable.log.base().index.0 < absorb && !saved
}
