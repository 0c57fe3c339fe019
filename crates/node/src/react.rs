//! The reactor at work: what it is shown, and what is done with its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blueprint::{Birth, Blueprint, Breach, Bucket, BucketId, Conduct, Instant, Member, Position, SlotSet, Term};
use phaser::{Founding, Image};
use reactor::{Act, Beginning, BucketRow, Deed, Directory, Holding, Reaction, Read, Situation, Standing, Wait};

use crate::facts;
use crate::io::Output;
use crate::lane::{Asked, Lane};
use crate::replica::Tables;

/// The linearizable read that an erase asks for.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) id: u64,
    pub(crate) begun: Instant,
    pub(crate) answer: Option<Arc<Blueprint>>,
}

impl<C: Conduct> Lane<C> {
    /// Does what can be done, and notes why the rest cannot.
    ///
    /// What is founded can be governed, and what is governed can rule: once more, but not for ever. It must not wait for the next
    /// upkeep: 1. a blueprint comes, and its replicas are told; 2. before the upkeep the next one comes. Between the two this node
    /// would neither recover anything nor say what it waits for.
    pub(crate) fn react(&mut self, now: Instant, out: &mut Vec<Output>) {
        let mut done: Vec<Act> = Vec::new();
        let mut reaction = self.react_once(now, &done, out);
        for _ in 0..2 {
            let more = |act: &Act| matches!(act.deed, Deed::Found { .. } | Deed::Govern { .. } | Deed::Resume { .. });
            if !reaction.acts.iter().any(more) {
                break;
            }
            done.append(&mut reaction.acts);
            reaction = self.react_once(now, &done, out);
        }
        if self.coming.is_some() {
            self.ledger.note_besides::<C>(now, &reaction);
        } else {
            self.ledger.note::<C>(now, &reaction);
        }
    }

    /// What was done a moment ago is not done again in the same step.
    fn react_once(&mut self, now: Instant, done: &[Act], out: &mut Vec<Output>) -> Reaction {
        let coming = self.coming.as_ref().map(|c| Arc::clone(&c.blueprint));
        let blueprint = coming.unwrap_or_else(|| Arc::clone(&self.blueprint));
        let replicas = self.holdings(&blueprint);
        self.marks.observe(now, self.node, self.epoch, &blueprint, &replicas);
        let reaction = self.in_situation(now, &blueprint, &self.directory, &replicas, reactor::react::<C>);
        for act in reaction.acts.iter().filter(|act| !done.contains(act)) {
            self.carry_out_deed(now, &blueprint, act.deed.clone(), out);
        }
        reaction
    }

    fn holdings(&self, blueprint: &Blueprint) -> BTreeMap<BucketId, Holding> {
        self.replicas.iter().map(|(b, r)| (*b, self.holding(blueprint, *b, r))).collect()
    }

    /// What this node knows about itself, with that blueprint and that directory.
    fn in_situation<T>(
        &self,
        now: Instant,
        blueprint: &Blueprint,
        directory: &Directory,
        replicas: &BTreeMap<BucketId, Holding>,
        judge: impl FnOnce(&Situation<'_>) -> T,
    ) -> T {
        let gone: BTreeMap<_, _> = self.lost.iter().map(|(bucket, lost)| (*bucket, lost.incarnation)).collect();
        let aside: BTreeMap<_, _> = self.aside.iter().map(|(bucket, d)| (*bucket, facts::aside(d))).collect();
        let operations = blueprint.operations.values().filter(|o| o.is_under_way());
        let operated: BTreeSet<BucketId> = operations.flat_map(|o| o.buckets()).collect();
        let read = match &self.reading {
            None => Read::None,
            Some(Reading { begun, answer: None, .. }) => Read::UnderWay { begun: *begun },
            Some(Reading { begun, answer: Some(blueprint), .. }) => Read::Answered { begun: *begun, blueprint },
        };
        judge(&Situation {
            me: self.node,
            lane: self.lane,
            now,
            epoch: self.epoch,
            ahead: &self.ahead,
            doubt: self.doubt(),
            blueprint,
            directory,
            replicas,
            aside: &aside,
            gone: &gone,
            operated: &operated,
            marks: &self.marks,
            read,
            limits: &self.config.limits,
        })
    }

    fn carry_out_deed(&mut self, now: Instant, blueprint: &Blueprint, deed: Deed, out: &mut Vec<Output>) {
        match deed {
            Deed::Found { bucket, member, beginning } => {
                if let Some(bucket) = blueprint.buckets.get(&bucket) {
                    self.found_empty(now, bucket, member, beginning);
                }
            }
            Deed::Resume { bucket, as_member } => self.resume(now, bucket, as_member, out),
            Deed::Follow { .. } => self.record_epoch(),
            Deed::Govern { bucket, .. } => self.govern(now, bucket, out),
            Deed::Retire { bucket } => self.drive(now, bucket, phaser::Input::Retire, out),
            Deed::ReadMeta { .. } => {
                let asked = self.reading.as_ref().is_some_and(|r| r.begun == now && r.answer.is_none());
                if !asked {
                    let id = self.ask(Asked::Erase);
                    self.reading = Some(Reading { id, begun: now, answer: None });
                    out.push(Output::ReadMeta { id });
                }
            }
            Deed::Erase { bucket, .. } => self.on_erase(now, bucket, out),
            Deed::Propose(command) => out.push(Output::Propose(command)),
        }
    }

    fn found_empty(&mut self, now: Instant, bucket: &Bucket, me: Member, beginning: Beginning) {
        if self.replicas.contains_key(&bucket.id) {
            return;
        }
        let whole = match beginning {
            Beginning::Empty => bucket.slots.clone(),
            Beginning::Candidate => SlotSet::empty(),
        };
        let (promised, base) = match (bucket.birth, beginning) {
            // Only a planted bug founds a child without its Split.
            (Birth::Split { at, .. }, Beginning::Empty) => (at.term, at),
            _ => (Term(0), Position::default()),
        };
        let image = Image { as_of: base.index, covered: whole, ..Image::default() };
        let owned = bucket.slots.clone();
        let founding = Founding { me, promised, base, clock: 0, owned, image, abstain_until: Instant::ZERO };
        self.found(now, bucket.id, founding, Tables::default());
    }

    fn on_erase(&mut self, now: Instant, bucket: BucketId, out: &mut Vec<Output>) {
        if C::breaks(Breach::ReenlistedBeforeErase) {
            self.condemned.entry(bucket).or_insert(now + self.config.limits.grace);
        } else {
            self.erase(now, bucket, out);
        }
    }

    /// Everything that waits here, since when, and for what.
    pub fn waits(&self) -> impl Iterator<Item = &Standing> {
        self.ledger.iter()
    }

    /// When that list was made.
    pub fn reacted_at(&self) -> Instant {
        self.ledger.noted()
    }

    /// Which of these waits are true, were the directory this one, and the blueprint, unless this node's is newer? While one is on
    /// its way, by either. For checkers, who know the truth about everybody.
    pub fn are_true(
        &self,
        now: Instant,
        waits: &[&Wait],
        directory: &Directory,
        blueprint: Option<&Blueprint>,
    ) -> Vec<bool> {
        if waits.is_empty() {
            return Vec::new();
        }
        let coming = self.coming.as_ref().map(|coming| &*coming.blueprint);
        let own = coming.unwrap_or(&self.blueprint);
        let given = blueprint.filter(|given| given.epoch > own.epoch);
        let by = given.map_or_else(|| vec![&*self.blueprint, own], |given| vec![given]);
        let replicas = self.holdings(&self.blueprint);
        let mut verdicts = vec![false; waits.len()];
        for blueprint in by.iter().take(if coming.is_some() { 2 } else { 1 }) {
            let by_this = self.in_situation(now, blueprint, directory, &replicas, |situation| {
                reactor::are_true::<C>(waits, situation)
            });
            verdicts.iter_mut().zip(by_this).for_each(|(verdict, holds)| *verdict |= holds);
        }
        verdicts
    }

    /// What this lane would say about its replicas, were it asked now.
    pub(crate) fn rows(&self) -> BTreeMap<BucketId, BucketRow> {
        let row = |b, r| BucketRow { amiss: self.amiss(b, r), ..BucketRow::from(&facts::holding(r)) };
        let held = self.replicas.iter().map(|(b, r)| (*b, row(*b, r)));
        held.chain(self.aside.iter().map(|(b, d)| (*b, facts::aside(d)))).collect()
    }

    /// The same in words.
    pub fn why(&self, now: Instant) -> Vec<String> {
        self.ledger.describe(now)
    }
}
