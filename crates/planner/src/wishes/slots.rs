//! Slots: split off, put together again, doubled, or led by somebody else.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use blueprint::{BucketId, KeyspaceId, NodeId, SlotSet, Unlike};

use crate::draft::{Draft, Purpose};
use crate::objection::Objection;
use crate::sketch::{BucketAt, NodeAt};

impl Draft<'_> {
    pub(crate) fn split_bucket(&mut self, bucket: BucketId, slots: Option<&SlotSet>) -> Option<Purpose> {
        let at = self.free_bucket(bucket)?;
        let has = &self.sketch.buckets[at].slots;
        let slots = slots.cloned().unwrap_or_else(|| has.split_half().1);
        let objection = if has.len() < 2 {
            Some(Objection::OneSlot { bucket })
        } else if slots.is_empty() {
            Some(Objection::NoSlots)
        } else if !slots.is_subset(has) {
            Some(Objection::SlotsNotCovered { bucket, slots: slots.difference(has) })
        } else if slots == *has {
            Some(Objection::AllSlots { bucket })
        } else {
            None
        };
        if let Some(objection) = objection {
            self.object(objection);
            return None;
        }
        self.sketch.split(at, &slots, "asked for".into());
        Some(Purpose::of_splitting(format!("{bucket} parts with some of its slots")))
    }

    pub(crate) fn merge_buckets(&mut self, bucket: BucketId, into: BucketId) -> Option<Purpose> {
        let (one, other) = (self.free_bucket(bucket), self.free_bucket(into));
        let (one, other) = (one?, other?);
        match self.blueprint.unlike(bucket, into) {
            None | Some(Unlike::Primaries | Unlike::Members | Unlike::BelowMinimum) => {}
            Some(why) => {
                self.object(Objection::CannotMerge { bucket, into, why });
                return None;
            }
        }
        let (copies, leader) = (self.sketch.buckets[other].copies.clone(), self.sketch.buckets[other].leader);
        for node in copies.iter().copied().filter(|node| !self.sketch.buckets[one].held(*node)).collect::<Vec<_>>() {
            let id = self.sketch.nodes[node].id;
            self.open_node(id)?;
            self.require_disk(node, &[one]);
        }
        let piece = &mut self.sketch.buckets[one];
        (piece.copies, piece.leader) = (copies, leader);
        self.sketch.merges.push((one, other));
        Some(Purpose {
            why: format!("{into} takes over all that {bucket} has"),
            idle: String::new(),
            hand_over: "led until now, and does not lead the other one",
            first: Vec::new(),
        })
    }

    pub(crate) fn double_buckets(&mut self, keyspace: KeyspaceId) -> Option<Purpose> {
        self.known_keyspace(keyspace)?;
        for bucket in self.of_keyspace(keyspace) {
            let (_, upper) = self.sketch.buckets[bucket].slots.split_half();
            if !upper.is_empty() && self.is_free(bucket) {
                self.sketch.split(bucket, &upper, "in half".into());
            }
        }
        Some(Purpose::of_splitting(format!("{keyspace} gets twice as many buckets")))
    }

    pub(crate) fn migrate_slots(&mut self, keyspace: KeyspaceId, slots: &SlotSet, to: NodeId) -> Option<Purpose> {
        let node = self.open_node(to);
        self.known_keyspace(keyspace)?;
        let node = node?;
        if slots.is_empty() {
            self.object(Objection::NoSlots);
            return None;
        }
        let mut moved = Vec::new();
        for bucket in self.of_keyspace(keyspace) {
            let piece = &self.sketch.buckets[bucket];
            let part = piece.slots.intersection(slots);
            if part.is_empty() || piece.leader == node || !self.is_free(bucket) {
                continue;
            }
            let whole = part == self.sketch.buckets[bucket].slots;
            moved.push(if whole { bucket } else { self.sketch.split(bucket, &part, format!("for {to} to lead")) });
        }
        for bucket in moved.iter().copied() {
            self.put_in_charge(bucket, node);
        }
        self.require_disk(node, &moved);
        Some(Purpose {
            why: format!("{to} leads slots {slots} of {keyspace}"),
            idle: format!("{to} leads these slots already"),
            hand_over: "led until now",
            first: Vec::new(),
        })
    }

    pub(crate) fn migrate_each(&mut self, keyspace: KeyspaceId, moves: &[(SlotSet, NodeId)]) -> Option<Purpose> {
        let mut parts = Vec::with_capacity(moves.len());
        let mut taken = SlotSet::new();
        for (slots, to) in moves {
            let twice = taken.intersection(slots);
            if !twice.is_empty() {
                self.object(Objection::SlotsTwice { slots: twice });
                return None;
            }
            taken = taken.union(slots);
            self.migrate_slots(keyspace, slots, *to)?;
            parts.push(format!("{to} leads slots {slots}"));
        }
        if moves.is_empty() {
            self.object(Objection::NoSlots);
            return None;
        }
        Some(Purpose {
            why: format!("{} of {keyspace}", parts.join(", ")),
            idle: "they lead these slots already".into(),
            hand_over: "led until now",
            first: Vec::new(),
        })
    }

    /// The node leads the bucket. If it had no part in it, whoever is missed least goes for it: a copy in its own zone, if that would
    /// have too many; or else who led.
    fn put_in_charge(&mut self, bucket: BucketAt, node: NodeAt) {
        let piece = &self.sketch.buckets[bucket];
        if piece.copies.contains(&node) {
            self.sketch.buckets[bucket].leader = node;
            return;
        }
        let (leader, wanted, zone) = (piece.leader, piece.wanted, self.sketch.nodes[node].zone);
        if self.sketch.lasting_copies(bucket).count() >= wanted {
            let crowded = self.sketch.copies_in_zone(bucket, zone) >= self.sketch.zone_rule().most(wanted);
            let in_zone = |other: &NodeAt| self.sketch.nodes[*other].zone == zone;
            let here = self.sketch.lasting_copies(bucket).filter(in_zone).last();
            let goes = here.filter(|_| crowded && !in_zone(&leader)).unwrap_or(leader);
            self.sketch.take(bucket, goes);
        }
        let piece = &mut self.sketch.buckets[bucket];
        piece.copies.push(node);
        piece.leader = node;
    }
}

impl Purpose {
    fn of_splitting(why: alloc::string::String) -> Self {
        let idle = "no bucket has more than one slot: nothing can be split".into();
        Self { why, idle, hand_over: "leads", first: Vec::new() }
    }
}
