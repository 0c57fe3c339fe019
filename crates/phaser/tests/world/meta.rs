//! The meta group: it hears proposals, and accepts at most one successor of each term (R7). When is up to the script.

use std::collections::{BTreeMap, VecDeque};

use blueprint::{BucketId, Change, Epoch, Government, Incarnation, NodeId, Position, SlotSet, Term, Unlawful};
use phaser::{Bond, Input, View};

use super::show::{self, Kind};
use super::{Actor, FIRST_BUCKET, Suffix, World};

#[derive(Default)]
pub(super) struct Meta {
    epoch: Epoch,
    buckets: BTreeMap<BucketId, Bucket>,
    /// Children that are forked, registered or not.
    parents: BTreeMap<BucketId, BucketId>,
    proposals: VecDeque<(Actor, Term, Change)>,
    registers: VecDeque<Register>,
    /// Which bucket has absorbed which, and where.
    merges: VecDeque<(BucketId, BucketId, Position)>,
    questions: VecDeque<(Actor, u64)>,
}

struct Bucket {
    government: Government,
    slots: SlotSet,
    children: Vec<(BucketId, Position)>,
    bond: Option<Bond>,
    absorbed: Vec<(BucketId, Position)>,
}

impl Bucket {
    fn new(government: Government, slots: SlotSet) -> Self {
        Self { government, slots, children: Vec::new(), bond: None, absorbed: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Register {
    parent: BucketId,
    child: BucketId,
    slots: SlotSet,
    at: Position,
}

impl Meta {
    pub(super) fn begin(&mut self, government: Government, slots: SlotSet) {
        self.epoch = Epoch(1);
        self.buckets.insert(FIRST_BUCKET, Bucket::new(government, slots));
    }

    pub(super) fn learn_parent(&mut self, child: BucketId, parent: BucketId) {
        self.parents.insert(child, parent);
    }

    /// What the blueprint says about a bucket; until it is registered, a child is governed by its parent's government.
    pub(super) fn view(&self, bucket: BucketId) -> Option<View> {
        let mut ruled = bucket;
        while !self.buckets.contains_key(&ruled) {
            ruled = *self.parents.get(&ruled)?;
        }
        let government = self.buckets[&ruled].government.clone();
        let own = self.buckets.get(&bucket);
        let children = own.map(|b| b.children.clone()).unwrap_or_default();
        let absorbed = own.map(|b| b.absorbed.clone()).unwrap_or_default();
        Some(View { epoch: self.epoch, government, children, bond: own.and_then(|b| b.bond), absorbed })
    }

    pub(super) fn government(&self, bucket: BucketId) -> Option<&Government> {
        self.buckets.get(&bucket).map(|b| &b.government)
    }

    /// The registered children of a bucket that have a part on this node.
    pub(super) fn children_on(&self, bucket: BucketId, node: NodeId) -> Vec<(BucketId, Position)> {
        let children = self.buckets.get(&bucket).map(|b| b.children.as_slice()).unwrap_or_default();
        let named = |child: BucketId| self.government(child).is_some_and(|g| g.named(node).is_some());
        children.iter().copied().filter(|(child, _)| named(*child)).collect()
    }

    pub(super) fn slots(&self, bucket: BucketId) -> SlotSet {
        self.buckets.get(&bucket).map(|b| b.slots.clone()).unwrap_or_default()
    }

    pub(super) fn hear_proposal(&mut self, by: Actor, term: Term, change: Change) {
        self.proposals.push_back((by, term, change));
    }

    pub(super) fn hear_question(&mut self, by: Actor, nonce: u64) {
        self.questions.push_back((by, nonce));
    }

    pub(super) fn hear_register(&mut self, by: Actor, child: BucketId, slots: SlotSet, at: Position) {
        let register = Register { parent: by.bucket, child, slots, at };
        if !self.registers.contains(&register) && !self.buckets.contains_key(&child) {
            self.registers.push_back(register);
        }
    }

    pub(super) fn hear_merge(&mut self, into: BucketId, absorbed: BucketId, at: Position) {
        if !self.merges.contains(&(into, absorbed, at)) {
            self.merges.push_back((into, absorbed, at));
        }
    }

    /// One more term in both, and from here on every change is made to both.
    pub(super) fn bind(&mut self, absorbed: BucketId, into: BucketId) {
        self.epoch = self.epoch.next();
        for (bucket, bond) in [(absorbed, Bond::Fades { into }), (into, Bond::Absorbs { other: absorbed })] {
            let bucket = self.buckets.get_mut(&bucket).expect("only registered buckets are bound");
            bucket.bond = Some(bond);
            bucket.government.term = bucket.government.term.next();
            bucket.government.candidates.clear();
        }
    }

    fn partner(&self, bucket: BucketId) -> Option<BucketId> {
        match self.buckets.get(&bucket)?.bond? {
            Bond::Absorbs { other: partner } | Bond::Fades { into: partner } => Some(partner),
        }
    }

    fn succeed(&mut self, bucket: BucketId, replaces: Option<Term>, change: &Change) -> Result<(), Unlawful> {
        let epoch = self.epoch.next();
        let government = &mut self.buckets.get_mut(&bucket).expect("only registered buckets change").government;
        if let Some(proposed) = replaces
            && proposed != government.term
        {
            return Err(Unlawful::StaleTerm { proposed, current: government.term });
        }
        *government = government.succeed(change, Incarnation(epoch.0))?;
        if let Some(partner) = self.partner(bucket) {
            let government = &mut self.buckets.get_mut(&partner).expect("it is bound").government;
            *government = government.succeed(change, Incarnation(epoch.0))?;
        }
        self.epoch = epoch;
        Ok(())
    }
}

impl World {
    pub(super) fn show_government(&mut self, bucket: BucketId) {
        let government = show::government(self.meta.government(bucket).expect("registered"));
        self.say(Kind::News, format!("meta{} {government} ({})", Suffix(bucket), self.meta.epoch));
    }

    /// A change that somebody other than the primary asked for.
    pub(super) fn meta_change(&mut self, bucket: BucketId, change: &Change) {
        match self.meta.succeed(bucket, None, change) {
            Ok(()) => self.show_government(bucket),
            Err(why) => self.say(Kind::News, format!("meta{} refuses: {why}", Suffix(bucket))),
        }
    }

    /// The oldest proposal arrives. Whoever made it hears only if it was refused.
    pub(super) fn meta_accept(&mut self) -> Result<(), String> {
        let (by, term, change) = self.meta.proposals.pop_front().ok_or("nothing was proposed")?;
        match self.meta.succeed(by.bucket, Some(term), &change) {
            Ok(()) => self.show_government(by.bucket),
            Err(why) => {
                self.say(Kind::News, format!("meta{} refuses: {why}", Suffix(by.bucket)));
                self.feed(by, [Input::Rejected { term }]);
            }
        }
        Ok(())
    }

    /// The oldest proposal is refused, for reasons of the meta group's own.
    pub(super) fn meta_refuse(&mut self) -> Result<(), String> {
        let (by, term, _) = self.meta.proposals.pop_front().ok_or("nothing was proposed")?;
        self.feed(by, [Input::Rejected { term }]);
        Ok(())
    }

    /// The oldest proposal never arrives.
    pub(super) fn meta_lose(&mut self) -> Result<(), String> {
        self.meta.proposals.pop_front().map(|_| ()).ok_or_else(|| "nothing was proposed".to_owned())
    }

    pub(super) fn meta_elsewhere(&mut self) -> Result<(), String> {
        self.meta.epoch = self.meta.epoch.next();
        self.show_government(FIRST_BUCKET);
        Ok(())
    }

    pub(super) fn meta_register(&mut self) -> Result<(), String> {
        let Register { parent, child, slots, at } = self.meta.registers.pop_front().ok_or("nothing was registered")?;
        self.meta.epoch = self.meta.epoch.next();
        let of = self.meta.buckets.get_mut(&parent).expect("a parent is registered before its child");
        of.children.push((child, at));
        of.slots = of.slots.difference(&slots);
        let government = of.government.clone();
        self.say(Kind::News, format!("meta knows {child}: slots {slots}, split off at {at} ({})", self.meta.epoch));
        self.meta.buckets.insert(child, Bucket::new(government, slots));
        Ok(())
    }

    pub(super) fn meta_bind(&mut self, absorbed: BucketId, into: BucketId) {
        self.meta.bind(absorbed, into);
        self.show_government(absorbed);
        self.show_government(into);
    }

    /// The absorbed bucket is no more.
    pub(super) fn meta_merge(&mut self) -> Result<(), String> {
        let (into, absorbed, at) = self.meta.merges.pop_front().ok_or("nothing was merged")?;
        self.meta.epoch = self.meta.epoch.next();
        let gone = self.meta.buckets.remove(&absorbed).ok_or("it is gone already")?;
        let left = self.meta.buckets.get_mut(&into).expect("it has absorbed something");
        left.slots = left.slots.union(&gone.slots);
        left.bond = None;
        left.absorbed.push((absorbed, at));
        left.children.retain(|(child, _)| *child != absorbed);
        self.say(Kind::News, format!("meta knows that {into} has absorbed {absorbed} at {at} ({})", self.meta.epoch));
        Ok(())
    }

    /// The oldest question of a replica, answered by what is so now.
    pub(super) fn tell(&mut self, actor: Actor) -> Result<(), String> {
        let at = self.meta.questions.iter().position(|(by, _)| *by == actor).ok_or("it did not ask")?;
        let (_, nonce) = self.meta.questions.remove(at).expect("it was found there");
        let view = self.meta.view(actor.bucket).ok_or("there is no such bucket")?;
        self.feed(actor, [Input::Told { nonce, view }]);
        Ok(())
    }

    /// One thing at a time, at once, and everyone who can be reached sees it. Returns whether there was anything to do.
    pub(super) fn meta_acts(&mut self) -> bool {
        self.meta.questions.retain(|(by, _)| self.replicas.get(by).is_some_and(|r| r.phaser.is_some()));
        if let Some((actor, _)) = self.meta.questions.iter().find(|(by, _)| !self.is_cut_off(by.node)).copied() {
            self.tell(actor).expect("it did ask");
            return true;
        }
        let bucket = if let Some((by, _, _)) = self.meta.proposals.front() {
            let bucket = by.bucket;
            self.meta_accept().expect("there is one");
            bucket
        } else if let Some(register) = self.meta.registers.front() {
            let bucket = register.parent;
            self.meta_register().expect("there is one");
            bucket
        } else {
            return false;
        };
        for actor in self.audience(bucket) {
            self.view(actor);
        }
        true
    }
}
