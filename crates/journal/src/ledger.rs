//! What the journal adds up to, by itself: every replica without its tables' bytes, and where each one's records lie.
//!
//! One structure for both ends. The writer keeps it in step with what it writes, to know which segments are needed and to carry a
//! quiet bucket forward. Recovery builds it from what it reads, with a doubt wherever something was damaged.

use std::collections::{BTreeMap, BTreeSet};

use blueprint::{BucketId, BucketMap, Incarnation, LaneId, Slot};
use bytes::Bytes;
use node::{Lost, NodeDurable, NodeRecord};
use phaser::{Durable, Record};

use crate::content::{Census, Resident};

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Tables are references ([`crate::content::TableRef`]).
    pub(crate) node: NodeDurable,
    /// Of exactly the replicas in `node`, as long as nothing is damaged.
    pub(crate) trails: BucketMap<Trail>,
    /// Buckets of which something may have been reported as written and not be synced.
    pub(crate) uneasy: BucketMap<()>,
    /// Buckets of which such a thing may be missing, because the operating system restarted (R10). They stay here until a record
    /// says that the replica begins anew, goes by a new name, or somebody who knows better trusts it.
    pub(crate) doubtful: BTreeSet<BucketId>,
    /// Families of which later epochs may have been acted on than is known, and replicas may have been here that nobody can name,
    /// because something is damaged. The next epoch of a lane ends it: nothing was here that was named later than that. Up to there,
    /// the doubt stays (`node.doubted_upto`).
    pub(crate) in_doubt: BTreeSet<u64>,
}

/// The records of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trail {
    /// Its last record.
    pub(crate) last: u64,
    /// The segment of the record that everything since builds on.
    pub(crate) base: u64,
    pub(crate) continuity: Continuity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuity {
    Whole,
    /// Something was damaged that may have been its own; a later record can tell.
    Unproven,
    Broken,
}

impl Ledger {
    /// Does this record say anything? Without a replica only a founding does.
    pub(crate) fn heeds(&self, record: &NodeRecord) -> bool {
        match record {
            NodeRecord::Epoch { .. } | NodeRecord::Bucket { record: Record::Found { .. }, .. } => true,
            NodeRecord::Erase { bucket } | NodeRecord::Bucket { bucket, .. } => self.node.replicas.contains_key(bucket),
        }
    }

    /// The last record of that bucket, 0 if there is none.
    pub(crate) fn last_of(&self, bucket: BucketId) -> u64 {
        self.trails.get(&bucket).map_or(0, |trail| trail.last)
    }

    /// A record that begins in segment `ordinal` and ends with frame `sequence`; `previous` is what it says came before it.
    pub(crate) fn absorb(&mut self, record: &NodeRecord, ordinal: u64, previous: u64, sequence: u64) {
        match record {
            NodeRecord::Epoch { lane, epoch } => {
                if lane.families().filter(|family| self.in_doubt.remove(family)).count() > 0 {
                    self.node.doubted_upto = self.node.doubted_upto.max(*epoch);
                }
            }
            NodeRecord::Erase { bucket } => {
                self.trails.remove(bucket);
                self.uneasy.remove(bucket);
            }
            NodeRecord::Bucket { bucket, record: Record::Found { .. } } => self.base(*bucket, ordinal, sequence),
            NodeRecord::Bucket { bucket, .. } => self.continue_trail(*bucket, previous, sequence),
        }
        if let NodeRecord::Erase { bucket }
        | NodeRecord::Bucket {
            bucket,
            record: Record::Found { .. } | Record::StartOver { .. } | Record::Adopt(_),
        } = record
        {
            self.doubtful.remove(bucket);
        }
        self.node.absorb(record);
    }

    pub(crate) fn carry(&mut self, bucket: BucketId, durable: Durable, ordinal: u64, sequence: u64) {
        self.base(bucket, ordinal, sequence);
        self.node.lost.remove(&bucket);
        self.node.replicas.insert(bucket, durable);
    }

    /// That is where a replica's tables lie now. Those that were dropped meanwhile stay dropped: nothing says any more as of when they are.
    pub(crate) fn moved(&mut self, bucket: BucketId, tables: Vec<(Slot, Bytes)>) {
        let Some(durable) = self.node.replicas.get_mut(&bucket) else { return };
        for (slot, place) in tables {
            durable.tables.entry(slot).and_modify(|before| *before = place);
        }
    }

    /// From this record on, nothing before it matters.
    pub(crate) fn base(&mut self, bucket: BucketId, ordinal: u64, sequence: u64) {
        self.trails.insert(bucket, Trail { last: sequence, base: ordinal, continuity: Continuity::Whole });
    }

    fn continue_trail(&mut self, bucket: BucketId, previous: u64, sequence: u64) {
        let unfounded = Trail { last: 0, base: 0, continuity: Continuity::Broken };
        let trail = self.trails.get_or_insert(bucket, unfounded);
        trail.continuity = match trail.continuity {
            Continuity::Whole | Continuity::Unproven if trail.last == previous => Continuity::Whole,
            _ => Continuity::Broken,
        };
        trail.last = sequence;
    }

    /// From now on nobody knows which epochs were acted on.
    pub(crate) fn doubt_epochs(&mut self) {
        self.in_doubt = every_family();
    }

    /// The segment that the oldest of all replicas builds on.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.trails.values().map(|trail| trail.base).min()
    }

    pub(crate) fn census(&self, oldest: u64) -> Census {
        let residents = self.trails.iter().map(|(bucket, trail)| {
            let identity = self.node.replicas.get(bucket).map(identity).expect("whoever has a trail is here");
            Resident { bucket: *bucket, last: trail.last, identity }
        });
        Census {
            oldest,
            epochs: self.node.epochs.clone(),
            in_doubt: !self.in_doubt.is_empty(),
            doubted_upto: self.node.doubted_upto,
            buckets: residents.collect(),
            lost: self.node.lost.clone(),
            uneasy: self.uneasy.keys().copied().collect(),
            doubtful: self.doubtful.clone(),
            stopped: false,
        }
    }
}

fn every_family() -> BTreeSet<u64> {
    LaneId::ONLY.families().collect()
}

pub(crate) fn identity(durable: &Durable) -> Lost {
    Lost { incarnation: durable.me.incarnation, origin: durable.origin }
}

/// A ledger as recovery builds it.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) ledger: Ledger,
    /// What a census called buckets that may turn out to be lost.
    known: BTreeMap<BucketId, Lost>,
    /// The last census speaks of epochs in doubt, so that will not be forgotten.
    pub(crate) is_doubt_said: bool,
    /// A clean stop was read, and nothing after it.
    pub(crate) stopped: bool,
    /// The same, in the segment that is being read: what is missing there can only be the stop's own second copy.
    pub(crate) ended: bool,
}

impl Recovery {
    /// Something is missing here, and nobody knows whose.
    pub(crate) fn on_gap(&mut self) {
        if self.ended {
            return;
        }
        for trail in self.ledger.trails.values_mut() {
            if trail.continuity == Continuity::Whole {
                trail.continuity = Continuity::Unproven;
            }
        }
        self.ledger.doubt_epochs();
    }

    /// A record of this bucket is missing, up to that frame.
    pub(crate) fn on_missing(&mut self, bucket: BucketId, sequence: u64) {
        let broken = Trail { last: sequence, base: 0, continuity: Continuity::Broken };
        let trail = self.ledger.trails.get_or_insert(bucket, broken);
        (trail.last, trail.continuity) = (sequence, Continuity::Broken);
    }

    pub(crate) fn on_census(&mut self, census: &Census) {
        let mut before = std::mem::take(&mut self.ledger.trails);
        for Resident { bucket, last, identity } in &census.buckets {
            self.known.insert(*bucket, *identity);
            let trail = before.remove(bucket).unwrap_or(Trail { last: 0, base: 0, continuity: Continuity::Broken });
            let continuity = match trail.continuity {
                Continuity::Whole | Continuity::Unproven if trail.last == *last => Continuity::Whole,
                _ => Continuity::Broken,
            };
            self.ledger.trails.insert(*bucket, Trail { last: *last, base: trail.base, continuity });
        }
        // Whoever is not listed was erased, or lost, before the census was taken.
        for bucket in before.keys() {
            self.ledger.node.replicas.remove(bucket);
        }
        self.ledger.node.lost = census.lost.clone();
        // Not the higher of both: what was read before may be the void end of an earlier life, in a segment that is not needed
        // any more and whose successor, which says so, is gone already.
        self.ledger.node.epochs = census.epochs.clone();
        self.ledger.uneasy = census.uneasy.iter().map(|bucket| (*bucket, ())).collect();
        self.ledger.doubtful = census.doubtful.clone();
        self.ledger.in_doubt = if census.in_doubt { every_family() } else { BTreeSet::new() };
        self.ledger.node.doubted_upto = census.doubted_upto;
        self.is_doubt_said = census.in_doubt;
        (self.stopped, self.ended) = (census.stopped, census.stopped);
    }

    /// Nothing more comes: whoever is not proven whole is lost (R10). Says who that is.
    pub(crate) fn settle(&mut self) -> Vec<BucketId> {
        let doubted = |(bucket, trail): (&BucketId, &Trail)| (trail.continuity != Continuity::Whole).then_some(*bucket);
        let gone: Vec<_> = self.ledger.trails.iter().filter_map(doubted).collect();
        for bucket in &gone {
            // Not even what it was called is certain: an adoption may be missing, though not of a later name than was acted on; or
            // a founding, and then nobody knows.
            if !self.known.contains_key(bucket) && !self.ledger.node.replicas.contains_key(bucket) {
                self.ledger.doubt_epochs();
            }
            self.lose(*bucket);
            let acted_on = self.ledger.node.epochs.get(&bucket.family()).copied().unwrap_or_default();
            if let Some(lost) = self.ledger.node.lost.get_mut(bucket) {
                lost.incarnation = lost.incarnation.max(Incarnation(acted_on.0));
            }
        }
        gone
    }

    /// That replica is damaged beyond use.
    pub(crate) fn lose(&mut self, bucket: BucketId) {
        self.ledger.trails.remove(&bucket);
        let held = self.ledger.node.replicas.remove(&bucket).as_ref().map(identity);
        // The later name counts: an adoption may be what is missing.
        let known = self.known.get(&bucket).copied();
        let unknown = Lost { incarnation: Incarnation(0), origin: blueprint::Position::default() };
        let lost = held.into_iter().chain(known).max_by_key(|lost| lost.incarnation).unwrap_or(unknown);
        self.ledger.node.lost.entry(bucket).or_insert(lost);
    }
}

#[cfg(test)]
mod tests {
    use blueprint::{Index, Member, Position, SlotSet, Term};
    use phaser::{Entry, Image, Payload};

    use super::*;

    const BUCKET: BucketId = BucketId(1);

    fn reference(place: &'static [u8]) -> Bytes {
        Bytes::from_static(place)
    }

    /// While the writer copies the tables of a bucket to another file, a lane appends a Reign below the `as_of` of one of them (what that was
    /// made of was lost), which drops it. Then the writer says where the copies lie.
    #[test]
    fn a_table_that_is_dropped_while_it_is_copied_stays_dropped() {
        let owned = SlotSet::range(Slot(0), Slot(1));
        let image = |slot, as_of, place| {
            let slots = SlotSet::range(Slot(slot), Slot(slot));
            Image {
                as_of: Index(as_of),
                covered: slots.clone(),
                replaced: slots,
                tables: vec![(Slot(slot), reference(place))],
            }
        };
        let (me, base) = (Member::new(1, 1), Position::default());
        let found = Record::Found { me, promised: Term(1), base, clock: 0, owned, image: image(0, 0, b"one") };
        let reign =
            Entry { at: Position { term: Term(2), index: Index(1) }, clock: 0, seed: 0, payload: Payload::Reign };
        let reign = Record::Append { previous: base, entries: [reign].into_iter().collect(), commit: None };
        let mut ledger = Ledger::default();
        for record in [found, Record::Save(image(1, 5, b"two")), reign] {
            ledger.absorb(&NodeRecord::Bucket { bucket: BUCKET, record }, 1, 0, 1);
        }
        ledger.moved(BUCKET, vec![(Slot(0), reference(b"one, elsewhere")), (Slot(1), reference(b"two, elsewhere"))]);
        let tables = &ledger.node.replicas[&BUCKET].tables;
        assert_eq!(tables.iter().collect::<Vec<_>>(), [(&Slot(0), &reference(b"one, elsewhere"))]);
    }
}
