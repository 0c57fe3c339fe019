//! One machine: its clock, its disk, and the process that runs on it, if any.

use std::collections::{BTreeSet, VecDeque};

use blueprint::{BucketId, Epoch, Instant, Member, NodeId};
use node::{BatchId, Input, Lost, Node, NodeDurable, NodeRecord, Output, Station};
use phaser::{Payload, Record};

use crate::plan::SECOND;

/// A clock that drifts: local = offset + true × rate.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub offset: u64,
    /// Parts per million faster (or slower) than true time.
    pub drift: i64,
    /// What the wall clock shows at true time zero, in microseconds; it may be hours off, and jump.
    pub wall: u64,
}

const MILLION: i128 = 1_000_000;

impl Clock {
    pub fn local(&self, time: u64) -> Instant {
        let rate = MILLION + i128::from(self.drift);
        Instant(self.offset + (i128::from(time) * rate / MILLION) as u64)
    }

    /// The first true time at which the local clock shows at least `at`.
    pub fn true_time(&self, at: Instant) -> u64 {
        if at == Instant::NEVER {
            return u64::MAX;
        }
        let rate = MILLION + i128::from(self.drift);
        let local = i128::from(at.0.saturating_sub(self.offset));
        (local * MILLION / rate) as u64 + 1
    }

    pub fn wall(&self, time: u64) -> u64 {
        self.wall + time
    }
}

/// A batch that a station wrote.
#[derive(Clone, Debug)]
pub struct Unsynced {
    pub station: Station,
    pub id: BatchId,
    pub records: Vec<NodeRecord>,
    pub part: Part,
}

/// What of a batch goes its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What is in its place among the batches of its station.
    InTurn,
    /// Level memory: entries of buckets of which nothing waits, and which the operating system has.
    Ahead,
    /// Level memory: they were reported, and are still in the memory of the process (`Record::is_note`).
    Notes,
}

/// What is safe, and what is only on its way.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    pub settled: NodeDurable,
    /// Level memory: what would be left if the operating system restarted now, and what it has yet to write, since when.
    written: NodeDurable,
    cached: VecDeque<(u64, NodeRecord)>,
    pub unsynced: VecDeque<Unsynced>,
    /// When the sync under way ends, and the one after it.
    busy_until: u64,
    next_until: u64,
}

impl Disk {
    /// Group commit: what comes while a sync is under way is covered by the next one, all of it. Says when that ends.
    pub fn sync(&mut self, time: u64, latency: u64) -> u64 {
        if time >= self.next_until.max(self.busy_until) {
            self.busy_until = time + latency;
            return self.busy_until;
        }
        if time >= self.busy_until {
            self.busy_until = self.next_until; // the next one has begun meanwhile
        }
        if self.next_until <= self.busy_until {
            self.next_until = self.busy_until + latency;
        }
        self.next_until
    }

    /// A replica of which nothing that it once had can be missing (R10).
    pub fn certain(&self, bucket: BucketId) -> Option<&phaser::Durable> {
        self.settled.replicas.get(&bucket).filter(|_| !self.settled.doubtful.contains(&bucket))
    }

    /// Other replicas on this disk that this one still needs: its log absorbs them, and what they bring is not saved with it yet.
    pub fn needed_by(&self, bucket: BucketId) -> Vec<BucketId> {
        let Some(durable) = self.settled.replicas.get(&bucket) else { return Vec::new() };
        let needed = |entry: phaser::EntryRef<'_>| match &entry.payload() {
            Payload::Absorb { from, slots, .. } => {
                let saved = durable.as_of.where_value(|as_of| *as_of >= entry.at.index);
                (!slots.is_subset(&saved)).then_some(*from)
            }
            Payload::Reign | Payload::Command { .. } | Payload::Split { .. } | Payload::Freeze { .. } => None,
        };
        durable.log.milestones().filter_map(needed).collect()
    }

    /// One of those was damaged: with it this one has lost something, and will say so (R10; seed 446).
    pub fn is_robbed(&self, bucket: BucketId) -> bool {
        self.needed_by(bucket).iter().any(|needed| self.settled.lost.contains_key(needed))
    }

    pub fn stop(&mut self) {
        (self.busy_until, self.next_until) = (0, 0);
    }

    /// A part of a batch has gone through, and with what is in its turn all that came before it: what it says of checkpoints not yet, unless
    /// something went through that they must come before.
    pub fn settle(&mut self, station: Station, upto: BatchId, part: Part) -> Vec<NodeRecord> {
        let is_mine = |batch: &Unsynced| batch.station == station && batch.id <= upto;
        let is_log = |batch: &Unsynced| batch.part != Part::InTurn || batch.records.iter().all(is_lazy);
        let notes = part == Part::Notes || !self.unsynced.iter().filter(|batch| is_mine(batch)).all(is_log);
        let mut covered = Vec::new();
        self.unsynced.retain_mut(|batch| {
            let covers = match part {
                Part::Ahead => batch.station == station && batch.id == upto && batch.part == Part::Ahead,
                Part::InTurn | Part::Notes => is_mine(batch) && (notes || batch.part != Part::Notes),
            };
            if covers {
                covered.append(&mut batch.records);
            }
            !covers
        });
        covered.iter().for_each(|record| self.settled.absorb(record));
        covered
    }

    /// Of whose checkpoints that batch says something.
    pub fn noted(&self, station: Station, id: BatchId) -> Vec<BucketId> {
        let is_it = |batch: &&Unsynced| batch.station == station && batch.id == id && batch.part == Part::Notes;
        self.unsynced.iter().filter(is_it).flat_map(|batch| &batch.records).filter_map(about).collect()
    }

    pub fn waits_in_turn(&self, station: Station) -> bool {
        self.unsynced.iter().any(|batch| batch.station == station && batch.part == Part::InTurn)
    }

    /// Takes out what goes ahead at level memory: what may be reported when only the operating system has it, of buckets of which nothing
    /// else is there, nor waits.
    pub fn split_off_ahead(&self, records: &mut Vec<NodeRecord>) -> Vec<NodeRecord> {
        let queued = self.unsynced.iter().filter(|batch| batch.part == Part::InTurn).flat_map(|batch| &batch.records);
        let stays = |record: &&NodeRecord| !is_lazy(record) && !is_note(record);
        let waiting: BTreeSet<Option<BucketId>> =
            queued.chain(records.iter().filter(stays)).map(about).chain([None]).collect();
        records.extract_if(.., |record| !waiting.contains(&about(record))).collect()
    }

    /// What the operating system has: entries within a second on disk, everything else at once, and whatever came before it.
    pub fn cache(&mut self, time: u64, records: Vec<NodeRecord>) {
        for record in records {
            let lazy = is_lazy(&record);
            self.cached.push_back((time, record));
            let due = if lazy { time.saturating_sub(SECOND) } else { time };
            while self.cached.front().is_some_and(|(since, _)| *since <= due) {
                let (_, record) = self.cached.pop_front().expect("just seen");
                self.written.absorb(&record);
            }
        }
    }

    /// One replica is damaged beyond use.
    pub fn damage(&mut self, bucket: BucketId) -> Option<Member> {
        self.cached.retain(|(_, record)| bucket_of(record) != Some(bucket));
        self.written.replicas.remove(&bucket);
        let durable = self.settled.replicas.remove(&bucket)?;
        let lost = Lost { incarnation: durable.me.incarnation, origin: durable.origin };
        self.settled.lost.insert(bucket, lost);
        self.written.lost.insert(bucket, lost);
        Some(durable.me)
    }

    /// Some percent of what was only cached is gone, from the end. Says how many records.
    pub fn reboot(&mut self, percent: u64) -> usize {
        let mut doubtful = std::mem::take(&mut self.settled.doubtful);
        doubtful.extend(self.cached.iter().filter_map(|(_, record)| bucket_of(record)));
        let lost = self.cached.len() * percent as usize / 100;
        self.cached.truncate(self.cached.len() - lost);
        for (_, record) in self.cached.drain(..) {
            self.written.absorb(&record);
        }
        self.settled = self.written.clone();
        self.settled.doubtful = doubtful;
        lost
    }
}

fn bucket_of(record: &NodeRecord) -> Option<BucketId> {
    match record {
        NodeRecord::Bucket { bucket, .. } => Some(*bucket),
        NodeRecord::Epoch { .. } | NodeRecord::Erase { .. } => None,
    }
}

/// The bucket whose records it is among.
pub fn about(record: &NodeRecord) -> Option<BucketId> {
    match record {
        NodeRecord::Bucket { bucket, .. } | NodeRecord::Erase { bucket } => Some(*bucket),
        NodeRecord::Epoch { .. } => None,
    }
}

/// What it says of checkpoints: at level memory nobody waits for it.
pub fn is_note(record: &NodeRecord) -> bool {
    matches!(record, NodeRecord::Bucket { record, .. } if record.is_note())
}

/// Level memory answers for these before they are on disk; for all else it waits.
pub fn is_lazy(record: &NodeRecord) -> bool {
    match record {
        NodeRecord::Bucket { record: Record::Append { entries, .. }, .. } => !entries.are_counted_on(),
        NodeRecord::Bucket { record: Record::Commit(_), .. } => true,
        NodeRecord::Bucket { .. } | NodeRecord::Epoch { .. } | NodeRecord::Erase { .. } => false,
    }
}

/// What a station of a node runs on.
#[derive(Debug)]
pub struct Thread {
    pub inbox: Vec<Input>,
    /// When the inbox is looked at, if that is due.
    pub look_at: Option<u64>,
    /// A wake-up that is under way, to avoid scheduling many.
    pub wake_at: u64,
    /// The others of its process may run meanwhile.
    pub stalled_until: u64,
}

impl Default for Thread {
    fn default() -> Self {
        Self { inbox: Vec::new(), look_at: None, wake_at: u64::MAX, stalled_until: 0 }
    }
}

#[derive(Debug)]
pub struct Host<C> {
    pub id: NodeId,
    pub name: String,
    pub clock: Clock,
    pub disk: Disk,
    pub process: Process<C>,
    /// Counts processes: what was meant for an earlier one does not reach a later one.
    pub life: u32,
    /// The desk's first, then those of the lanes.
    pub threads: Vec<Thread>,
    pub paused_until: u64,
    /// The pause that is due falls between deciding and doing.
    pub freeze_next: Option<u64>,
    pub frozen: Vec<(Station, Output)>,
    pub slow_until: u64,
    pub slow_disk_until: u64,
    pub down_since: u64,
    /// When its process started.
    pub up_since: u64,
    /// The epoch that its disk said each lane acts on, when its process started.
    pub began_at: Vec<Epoch>,
    /// Neither asks nor hears the meta group until then.
    pub meta_cut_until: u64,
}

#[derive(Debug)]
pub enum Process<C> {
    Down,
    Up(Box<Node<C>>),
}

impl<C> Host<C> {
    pub fn node(&self) -> Option<&Node<C>> {
        match &self.process {
            Process::Up(node) => Some(node),
            Process::Down => None,
        }
    }

    pub fn thread(&mut self, station: Station) -> Option<&mut Thread> {
        self.threads.get_mut(match station {
            Station::Desk => 0,
            Station::Lane(number) => 1 + usize::from(number),
        })
    }

    /// Until when one of its threads at least is not run.
    pub fn stalled_until(&self) -> u64 {
        self.threads.iter().map(|thread| thread.stalled_until).max().unwrap_or_default()
    }

    pub fn lanes(&self) -> u16 {
        self.threads.len().saturating_sub(1) as u16
    }

    pub fn is_up(&self) -> bool {
        matches!(self.process, Process::Up(_))
    }

    /// Would anyone who asks get an answer at `time`?
    pub fn responds(&self, time: u64) -> bool {
        self.is_up() && self.paused_until.max(self.stalled_until()) <= time
    }
}
