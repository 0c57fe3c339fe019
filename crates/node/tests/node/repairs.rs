//! Buckets whose members are lost, while they were being merged.

use std::sync::Arc;
use std::time::Duration;

use blueprint::{
    Blueprint, BucketId, Change, Command as Proposal, Fate, Index, Member, NodeId, Position, Remedy, SlotSet, Term,
};
use bytes::Bytes;
use node::{Answer, Input, Mail, NodeDurable, NodeRecord, Output, Station};
use phaser::{Image, Payload, Record};
use reactor::coordinator::Order;
use values::{Command, Reply, slot_of};

use crate::small::{DEFAULT, ME, Small, set, town};

const LANE: Station = Station::Lane(0);
const OTHER: NodeId = NodeId(9);

/// A node with both halves of a bucket, and the blueprint that it knows.
struct Halves {
    small: Small,
    blueprint: Blueprint,
    parent: BucketId,
    child: BucketId,
    /// Of the child.
    key: Bytes,
}

impl Halves {
    fn new() -> Self {
        let mut halves = Self::to_be();
        let (bucket, child, slots) = (halves.parent, halves.child, halves.half());
        let mail = Mail::Order(Order::Split { bucket, child, slots });
        halves.small.step(LANE, Input::Mail { from: Station::Desk, mail });
        halves.small.flush(LANE);
        halves.small.settle();
        halves.until_proposed(|proposal| matches!(proposal, Proposal::Register { .. }));
        halves.tell();
        let set = set(&halves.key);
        assert_eq!(halves.ask(set), Answer::Reply(Reply::Ok));
        halves
    }

    /// Before the split.
    fn to_be() -> Self {
        let mut blueprint = Blueprint::clone(&town());
        let parent = *blueprint.buckets.keys().next().expect("there are four");
        blueprint.apply(&Proposal::ReserveBucket { parent }).expect("it has slots to spare");
        let child = *blueprint.reserved.keys().next().expect("just reserved");
        let key = key_within(&blueprint.buckets[&parent].slots.split_half().1);
        let mut small = Small::start(1, NodeDurable::default());
        small.push(&Arc::new(blueprint.clone()));
        small.settle();
        Self { small, blueprint, parent, child, key }
    }

    fn half(&self) -> SlotSet {
        self.blueprint.buckets[&self.parent].slots.split_half().1
    }

    /// What it proposes is accepted, until that is.
    fn until_proposed(&mut self, wanted: impl Fn(&Proposal) -> bool) {
        for _ in 0..20 {
            for (_, output) in std::mem::take(&mut self.small.left) {
                let Output::Propose(proposal) = output else { continue };
                if self.blueprint.apply(&proposal).is_ok() && wanted(&proposal) {
                    return;
                }
            }
            self.small.pass(Duration::from_secs(1));
        }
        panic!("it never proposed that: {:?}", self.small.node.why(self.small.now));
    }

    fn tell(&mut self) {
        self.small.push(&Arc::new(self.blueprint.clone()));
        self.small.settle();
        self.small.pass(Duration::from_secs(2));
        self.small.pass(Duration::from_secs(2));
    }

    fn apply(&mut self, proposal: &Proposal) {
        self.blueprint.apply(proposal).unwrap_or_else(|why| panic!("{proposal:?}: {why}"));
    }

    fn term(&self, bucket: BucketId) -> Term {
        self.blueprint.buckets[&bucket].term()
    }

    /// Another node leads it, alone; and this one has heard nothing of that.
    fn pass_to_the_other(&mut self, bucket: BucketId) -> Member {
        let me = self.blueprint.government(bucket).expect("it is governed").primary;
        assert_eq!(me.node, ME);
        let succeed = |halves: &mut Self, change| {
            halves.apply(&Proposal::Succeed { bucket, replaces: halves.term(bucket), change });
        };
        succeed(self, Change::Enlist { node: OTHER });
        let other = self.blueprint.government(bucket).and_then(|g| g.named(OTHER)).expect("a candidate");
        succeed(self, Change::Seat { candidate: other, by: me });
        succeed(self, Change::HandOver { to: other, by: me });
        succeed(self, Change::Dismiss { secondary: me, fate: Fate::Leaves });
        me
    }

    fn pass_both_to_the_other(&mut self) -> [Member; 2] {
        [self.parent, self.child].map(|bucket| self.pass_to_the_other(bucket))
    }

    /// The same while they are bound, and so at once.
    fn dismissed_while_bound(&mut self) -> [Member; 2] {
        let both = [self.parent, self.child];
        let part = |halves: &Self, bucket, node| halves.blueprint.government(bucket)?.named(node);
        let mine = both.map(|bucket| part(self, bucket, ME).expect("it leads"));
        let succeed = |halves: &mut Self, bucket, change| {
            halves.apply(&Proposal::Succeed { bucket, replaces: halves.term(bucket), change });
        };
        succeed(self, self.parent, Change::Enlist { node: OTHER });
        for (bucket, by) in both.into_iter().zip(mine) {
            let candidate = part(self, bucket, OTHER).expect("a candidate");
            succeed(self, bucket, Change::Seat { candidate, by });
        }
        let to = part(self, self.parent, OTHER).expect("a member");
        succeed(self, self.parent, Change::Usurp { to, fate: Fate::Leaves });
        assert!(both.iter().all(|bucket| part(self, *bucket, ME).is_none()));
        mine
    }

    /// With how many slots of its copy something is wrong.
    fn unfit(&self, bucket: BucketId) -> u32 {
        let row = self.small.node.sighting().buckets[&bucket];
        row.missing + row.amiss
    }

    fn bind(&mut self) {
        let (absorbed, into) = (self.child, self.parent);
        self.apply(&Proposal::Bind { absorbed, into, replaces: (self.term(absorbed), self.term(into)) });
    }

    fn repair(&mut self, [copy, other]: [Member; 2]) {
        self.apply(&Proposal::Depart { node: OTHER });
        let (by, remedy) = ("ada: repair".to_owned(), Remedy::Copy { copy, other: Some(other) });
        self.apply(&Proposal::Repair { bucket: self.parent, replaces: self.term(self.parent), by, remedy });
    }

    fn ask(&mut self, command: Command) -> Answer {
        self.small.left.clear();
        self.small.ask(0, 1, command);
        self.small.flush(LANE);
        self.small.settle();
        let answered = self.small.left.iter().find_map(|(_, output)| match output {
            Output::Answer { answer, .. } | Output::Read { answer, .. } => Some(answer.clone()),
            _ => None,
        });
        answered.unwrap_or_else(|| panic!("no answer: {:?}", self.small.node.why(self.small.now)))
    }

    fn ends_as_one(&mut self) {
        self.until_proposed(|proposal| matches!(proposal, Proposal::Merge { .. }));
        self.tell();
        let left = self.blueprint.bucket_of(DEFAULT, slot_of(&self.key)).expect("every slot has a bucket");
        assert_eq!((left.id, left.bond), (self.parent, None));
        let (get, set) = (Command::get(self.key.clone()), set(&self.key));
        assert_eq!(self.ask(get), Answer::Reply(Reply::Value(Bytes::from_static(b"v"))));
        assert_eq!(self.ask(set), Answer::Reply(Reply::Ok));
    }
}

fn key_within(slots: &SlotSet) -> Bytes {
    let within = |key: &Bytes| slots.contains(slot_of(key));
    (0..).map(|n| Bytes::from(format!("key-{n}"))).find(within).expect("there are many")
}

/// Whoever led both is gone before anything was frozen. The merge goes on with the copies that are left, to its end.
#[test]
fn a_merge_goes_on_with_copies_of_both() {
    let mut halves = Halves::new();
    let copies = halves.pass_both_to_the_other();
    halves.bind();
    halves.repair(copies);
    halves.tell();
    halves.ends_as_one();
}

/// The same when the one has come to its end here, and its tables are the other's: only the blueprint was not told.
#[test]
fn a_merge_goes_on_after_the_tables_were_given() {
    let mut halves = Halves::new();
    halves.bind();
    halves.tell();
    assert!(halves.small.node.phaser(halves.child).expect("it is here").is_given());
    let copies = halves.dismissed_while_bound();
    halves.tell();
    assert_eq!([halves.parent, halves.child].map(|bucket| halves.unfit(bucket)), [0, 0], "they are a pair");
    halves.repair(copies);
    halves.tell();
    halves.ends_as_one();
}

/// What was absorbed here ended where this copy of it has no end: it would serve what is another's.
#[test]
fn a_copy_that_has_not_come_to_its_end_is_no_match_for_one_that_absorbed_it() {
    let mut halves = Halves::new();
    halves.bind();
    halves.tell();
    halves.dismissed_while_bound();
    let mut left = NodeDurable::default();
    let is_lost = |record: &NodeRecord| match record {
        NodeRecord::Bucket { bucket, record: Record::Append { entries, .. } } if *bucket == halves.child => {
            entries.iter().any(|entry| matches!(entry.payload(), Payload::Freeze { .. }))
        }
        _ => false,
    };
    halves.small.records.iter().filter(|record| !is_lost(record)).for_each(|record| left.absorb(record));
    halves.small = Small::start(1, left);
    halves.tell();
    let child = halves.small.node.phaser(halves.child).expect("it is here");
    assert!(child.is_whole() && !child.is_frozen(), "by itself it is as good as any");
    assert!(halves.unfit(halves.child) > 0 && halves.unfit(halves.parent) > 0);
}

/// The blueprint knows of an Absorb, and the log of this copy does not: nobody could ever write to what it lacks.
#[test]
fn a_copy_from_before_a_merge_lacks_what_was_absorbed() {
    let mut halves = Halves::new();
    halves.pass_both_to_the_other();
    halves.tell();
    assert_eq!(halves.unfit(halves.parent), 0);
    halves.bind();
    let at = Position { term: halves.term(halves.parent), index: Index(99) };
    let slots = halves.blueprint.buckets[&halves.child].slots.len();
    halves.apply(&Proposal::Merge { absorbed: halves.child, into: halves.parent, at, term: at.term });
    halves.tell();
    assert_eq!(halves.unfit(halves.parent), slots);
}

/// It was being filled, and what its tables stand at never came: an entry of its own would take that place.
#[test]
fn a_copy_whose_tables_are_newer_than_its_log_cannot_go_on() {
    let mut halves = Halves::new();
    halves.pass_both_to_the_other();
    let slots = halves.blueprint.buckets[&halves.parent].slots.clone();
    let image = Image { as_of: Index(99), covered: slots.clone(), replaced: slots.clone(), tables: Vec::new() };
    let mut left = NodeDurable::default();
    halves.small.records.iter().for_each(|record| left.absorb(record));
    left.absorb(&NodeRecord::Bucket { bucket: halves.parent, record: Record::Take(image) });
    halves.small = Small::start(1, left);
    halves.tell();
    assert_eq!(halves.unfit(halves.parent), slots.len());
    assert_eq!(halves.unfit(halves.child), 0);
}

/// And one from before a split has what is the child's: it would serve that.
#[test]
fn a_copy_from_before_a_split_has_too_much() {
    let mut halves = Halves::to_be();
    halves.pass_to_the_other(halves.parent);
    halves.tell();
    assert_eq!(halves.unfit(halves.parent), 0);
    let (parent, child, slots) = (halves.parent, halves.child, halves.half());
    let at = Position { term: halves.term(parent), index: Index(99) };
    halves.apply(&Proposal::Register { parent, child, slots: slots.clone(), at, term: at.term });
    halves.tell();
    assert_eq!(halves.unfit(parent), slots.len());
}
