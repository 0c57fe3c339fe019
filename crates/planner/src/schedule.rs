//! From what is and what shall be to the steps between, in an order that bounds how much is under way.
//!
//! Of an operation one step after the other is made true. But an Enlist is true at once, and the copy is filled in the background: so
//! the first few buckets are begun together, and each time one is done with, another one is begun. What an operation can hold is bounded,
//! too; where one ends, no bucket is under way.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use blueprint::{Epoch, MAX_STEPS, Step};

use crate::plan::{Plan, PlannedStep, Summary};
use crate::sketch::{BucketAt, NodeAt, Piece, Sketch};
use crate::words::count;
use crate::{Limits, draft::Purpose};

pub(crate) fn schedule(sketch: &Sketch, based_on: Epoch, limits: Limits, purpose: Purpose) -> Plan {
    let mut timetable = Timetable::default();
    for (step, why) in &purpose.first {
        timetable.begin(1);
        timetable.add(step.clone(), why.clone(), 0);
    }
    for cut in &sketch.splits {
        let (parent, child) = (&sketch.buckets[cut.parent], &sketch.buckets[cut.child]);
        let step = Step::Split { bucket: parent.id, child: child.id, slots: cut.slots.clone() };
        timetable.begin(1);
        timetable.add(step, cut.why.clone(), 0);
    }
    let mut visits: Vec<Visit> = (0..sketch.buckets.len()).filter_map(|at| Visit::to(sketch, at, &purpose)).collect();
    visits.sort_by_key(|visit| (visit.urgency, visit.bucket));
    let summary = summarize(sketch, &purpose, &visits);

    let mut open: VecDeque<Visit> = VecDeque::new();
    for visit in visits {
        let wanted: usize = open.iter().map(|open| open.close.len()).sum::<usize>() + visit.steps();
        if !timetable.has_room(wanted) {
            open.drain(..).for_each(|visit| timetable.extend(visit.close));
            timetable.begin(visit.steps());
        }
        if open.len() >= limits.buckets_at_once.max(1) {
            let first = open.pop_front().expect("there are some");
            timetable.extend(first.close);
        }
        let Visit { open: opening, close, .. } = visit;
        timetable.extend(opening);
        open.push_back(Visit { open: Vec::new(), close, ..visit });
    }
    open.into_iter().for_each(|visit| timetable.extend(visit.close));
    for (bucket, into) in &sketch.merges {
        let (bucket, into) = (sketch.buckets[*bucket].id, sketch.buckets[*into].id);
        timetable.begin(1);
        timetable.add(Step::Merge { bucket, into }, "asked for".into(), 0);
    }

    let is_empty = timetable.steps.is_empty();
    let (steps, cuts) = timetable.end();
    let why = if is_empty { purpose.idle } else { purpose.why };
    Plan { based_on, why, steps, summary, cuts }
}

fn summarize(sketch: &Sketch, purpose: &Purpose, visits: &[Visit]) -> Summary {
    let children: BTreeSet<BucketAt> = sketch.splits.iter().map(|cut| cut.child).collect();
    let mut touched: BTreeSet<BucketAt> = sketch.splits.iter().map(|cut| cut.parent).collect();
    touched.extend(visits.iter().map(|visit| visit.bucket));
    touched.extend(sketch.merges.iter().map(|(bucket, _)| *bucket));
    let merges = sketch.merges.len();
    touched.extend(purpose.first.iter().filter_map(|(step, _)| sketch.bucket(step.bucket()?)));
    let mut summary = Summary { merges, splits: sketch.splits.len(), ..Summary::default() };
    for bucket in touched {
        let piece = &sketch.buckets[bucket];
        summary.buckets += usize::from(!children.contains(&bucket));
        let kept = piece.members.iter().filter(|node| piece.copies.contains(node)).count();
        let after = kept + piece.copies.iter().filter(|node| !piece.members.contains(node)).count();
        // Who comes is there before anybody goes: the worst moment is before all or after all.
        let fewest = summary.fewest_members.entry(piece.keyspace).or_insert(usize::MAX);
        *fewest = piece.members.len().min(after).min(*fewest);
    }
    for planned in visits.iter().flat_map(|visit| visit.open.iter().chain(&visit.close)) {
        summary.bytes += planned.bytes;
        match planned.step {
            Step::Enlist { .. } => summary.copies += 1,
            Step::HandOver { .. } => summary.hand_overs += 1,
            Step::AwaitSeated { .. }
            | Step::Merge { .. }
            | Step::Dismiss { .. }
            | Step::Split { .. }
            | Step::SetMinimum { .. }
            | Step::Mark { .. }
            | Step::SetReplicas { .. }
            | Step::RemoveKeyspace { .. }
            | Step::AwaitRestart { .. }
            | Step::Repair { .. }
            | Step::AwaitErased { .. } => {}
        }
    }
    summary
}

/// All that is done to one bucket, in two parts: what sets it under way, and what ends that.
#[derive(Debug)]
struct Visit {
    bucket: BucketAt,
    urgency: Urgency,
    open: Vec<PlannedStep>,
    close: Vec<PlannedStep>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// It has fewer members than wanted.
    Short,
    Moves,
    /// Nothing is copied for it.
    Light,
}

impl Visit {
    fn to(sketch: &Sketch, bucket: BucketAt, purpose: &Purpose) -> Option<Self> {
        let piece = &sketch.buckets[bucket];
        if piece.fixed.is_some() {
            return None;
        }
        let change = Difference::of(sketch, piece);
        let (open, close) = (change.opening(), change.closing(purpose));
        let urgency = match open.is_empty() {
            true => Urgency::Light,
            false if piece.members.len() < piece.wanted => Urgency::Short,
            false => Urgency::Moves,
        };
        (!open.is_empty() || !close.is_empty()).then_some(Self { bucket, urgency, open, close })
    }

    fn steps(&self) -> usize {
        self.open.len() + self.close.len()
    }
}

/// What is different about a bucket.
struct Difference<'a> {
    sketch: &'a Sketch,
    piece: &'a Piece,
    /// Who comes, and in whose place.
    comes: Vec<(NodeAt, Option<NodeAt>)>,
    goes: Vec<NodeAt>,
}

impl<'a> Difference<'a> {
    fn of(sketch: &'a Sketch, piece: &'a Piece) -> Self {
        let now = piece.members.iter().chain(&piece.candidates).copied();
        let goes: Vec<NodeAt> = now.filter(|node| !piece.copies.contains(node)).collect();
        let mut places = goes.clone();
        let mut comes = Vec::new();
        for node in piece.copies.iter().copied().filter(|node| !piece.held(*node)) {
            let zone = |node: NodeAt| sketch.nodes[node].zone;
            let same = places.iter().position(|place| zone(*place) == zone(node));
            let place = same.or((!places.is_empty()).then_some(0)).map(|at| places.remove(at));
            comes.push((node, place));
        }
        Self { sketch, piece, comes, goes }
    }

    fn opening(&self) -> Vec<PlannedStep> {
        let enlist = |(node, place): &(NodeAt, Option<NodeAt>)| {
            let why = match place {
                Some(place) => format!("takes the place of {}", self.id(*place)),
                None => "one copy more".into(),
            };
            let step = Step::Enlist { bucket: self.piece.id, node: self.id(*node) };
            PlannedStep { step, why, bytes: self.piece.bytes.unwrap_or(0) }
        };
        self.comes.iter().map(enlist).collect()
    }

    fn closing(&self, purpose: &Purpose) -> Vec<PlannedStep> {
        let Self { sketch, piece, .. } = self;
        let bucket = piece.id;
        let mut steps = Vec::new();
        let mut add = |step, why| steps.push(PlannedStep { step, why, bytes: 0 });
        for (node, place) in &self.comes {
            let why = match place {
                Some(place) => format!("{} stays until then", self.id(*place)),
                None => "the copy counts from then on".into(),
            };
            add(Step::AwaitSeated { bucket, node: self.id(*node) }, why);
        }
        let goes_member = self.goes.iter().any(|node| piece.members.contains(node));
        for node in piece.candidates.iter().copied().filter(|node| piece.copies.contains(node)) {
            let needed = goes_member || node == piece.leader;
            if needed && sketch.stays(node) {
                add(Step::AwaitSeated { bucket, node: self.id(node) }, "is catching up already".into());
            }
        }
        if let Some(led_by) = piece.led_by().filter(|led_by| *led_by != piece.leader) {
            let why = match self.goes.contains(&led_by) {
                true => format!("{} leads and goes", self.id(led_by)),
                false => format!("{} {}", self.id(led_by), purpose.hand_over),
            };
            add(Step::HandOver { bucket, to: self.id(piece.leader) }, why);
        }
        for node in self.goes.iter().copied() {
            let instead = self.comes.iter().find(|(_, place)| *place == Some(node));
            let why = match instead {
                Some((instead, _)) => format!("{} is in its place", self.id(*instead)),
                None => format!("{} are enough", count(piece.copies.len(), "copy", "copies")),
            };
            add(Step::Dismiss { bucket, node: self.id(node) }, why);
        }
        if piece.minimum != piece.min_in_sync {
            let why = format!("it was {}", piece.min_in_sync);
            add(Step::SetMinimum { bucket, min: piece.minimum }, why);
        }
        steps
    }

    fn id(&self, node: NodeAt) -> blueprint::NodeId {
        self.sketch.nodes[node].id
    }
}

/// Steps, and where one operation ends and the next begins.
#[derive(Default)]
struct Timetable {
    steps: Vec<PlannedStep>,
    cuts: Vec<usize>,
}

impl Timetable {
    fn has_room(&self, steps: usize) -> bool {
        self.steps.len() - self.cuts.last().copied().unwrap_or(0) + steps <= MAX_STEPS
    }

    /// Nothing is under way: so many steps belong into one operation, and if need be that is the next one.
    fn begin(&mut self, steps: usize) {
        if !self.has_room(steps) {
            self.cuts.push(self.steps.len());
        }
    }

    fn add(&mut self, step: Step, why: String, bytes: u64) {
        self.steps.push(PlannedStep { step, why, bytes });
    }

    fn extend(&mut self, steps: Vec<PlannedStep>) {
        self.steps.extend(steps);
    }

    fn end(mut self) -> (Vec<PlannedStep>, Vec<usize>) {
        if self.cuts.last().copied().unwrap_or(0) < self.steps.len() {
            self.cuts.push(self.steps.len());
        }
        (self.steps, self.cuts)
    }
}
