//! Which steps of an operation need not wait for their turn.
//!
//! What is done to the copies of one bucket has nothing to do with those of another: while one is waited for, the others go on, each in
//! the order of its own steps. (Otherwise: 1. four copies are made at once, and all are seated at about the same time; 2. they are handed
//! over one after the other, and while the last one waits for that, nothing is copied.) Only what is true counts, as always: an operation is
//! still at the first step that is not.
//!
//! At no time are more buckets under way than the plan has under way: one is begun ahead of its turn when as many are done with as are done
//! with before it in the list, whichever these are. What is not about the copies of one bucket (a mark, a split, a restart) is waited for by
//! all that stand behind it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::{Blueprint, BucketId, Operation, Standing, Step};

/// Steps that are looked at: several for each of the buckets that are under way at once.
const MOST_AHEAD: usize = 256;

impl Blueprint {
    /// The steps behind the present one that are open, and can be worked on already.
    pub fn ripe_ahead(&self, operation: &Operation) -> Vec<u32> {
        let (from, visits) = (operation.at as usize, Visits::of(&operation.steps));
        let mut bucket_waits = BTreeSet::new();
        let mut seen: Vec<(usize, BucketId, Standing)> = Vec::new();
        for (at, step) in operation.steps.iter().enumerate().skip(from).take(MOST_AHEAD) {
            let Some(bucket) = copies_of(step) else { break };
            seen.push((at, bucket, self.standing_at(operation, at as u32)));
        }
        let mut under_way = visits.under_way(from, &seen);
        let mut ripe = Vec::new();
        for (at, bucket, standing) in seen {
            if standing == Standing::True || !bucket_waits.insert(bucket) {
                continue; // done, or behind one of its own that is not
            }
            let begins = visits.first[&bucket] == at;
            if begins && under_way > visits.planned[at] {
                continue;
            }
            under_way += usize::from(begins);
            if at > from && standing == Standing::Open {
                ripe.push(at as u32);
            }
        }
        ripe
    }
}

/// The bucket whose copies it is about, and nothing else.
fn copies_of(step: &Step) -> Option<BucketId> {
    match *step {
        Step::Enlist { bucket, .. }
        | Step::AwaitSeated { bucket, .. }
        | Step::HandOver { bucket, .. }
        | Step::Dismiss { bucket, .. }
        | Step::SetMinimum { bucket, .. } => Some(bucket),
        Step::Split { .. }
        | Step::Merge { .. }
        | Step::Mark { .. }
        | Step::SetReplicas { .. }
        | Step::RemoveKeyspace { .. }
        | Step::AwaitErased { .. }
        | Step::AwaitRestart { .. }
        | Step::Repair { .. } => None,
    }
}

/// Where in the list each bucket is begun and done with.
struct Visits {
    first: BTreeMap<BucketId, usize>,
    last: BTreeMap<BucketId, usize>,
    /// How many are under way when the turn of each step comes.
    planned: Vec<usize>,
}

impl Visits {
    fn of(steps: &[Step]) -> Self {
        let (mut first, mut last) = (BTreeMap::new(), BTreeMap::new());
        for (at, bucket) in steps.iter().enumerate().filter_map(|(at, step)| Some((at, copies_of(step)?))) {
            first.entry(bucket).or_insert(at);
            last.insert(bucket, at);
        }
        let (mut planned, mut under_way) = (Vec::with_capacity(steps.len()), 0);
        for (at, step) in steps.iter().enumerate() {
            planned.push(under_way);
            let Some(bucket) = copies_of(step) else { continue };
            under_way += usize::from(first[&bucket] == at);
            under_way -= usize::from(last[&bucket] == at);
        }
        Self { first, last, planned }
    }

    /// How many are begun and not done with, as things are.
    fn under_way(&self, from: usize, seen: &[(usize, BucketId, Standing)]) -> usize {
        let is_true = |at: usize| {
            let place = seen.binary_search_by_key(&at, |(at, ..)| *at);
            place.is_ok_and(|place| seen[place].2 == Standing::True)
        };
        let is_begun = |bucket: &BucketId| self.first[bucket] < from || is_true(self.first[bucket]);
        let open: BTreeSet<BucketId> =
            seen.iter().filter(|(.., standing)| *standing != Standing::True).map(|(_, bucket, _)| *bucket).collect();
        let end = seen.last().map_or(from, |(at, ..)| at + 1);
        let is_open = |bucket: &BucketId| open.contains(bucket) || self.last[bucket] >= end;
        self.first.keys().filter(|bucket| is_begun(bucket) && is_open(bucket)).count()
    }
}
