//! What lanes want written and the writer has not taken yet. Bounded: a lane that is far ahead of the disk waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use blueprint::{BucketId, Slot};
use bytes::Bytes;
use node::{BatchId, NodeRecord, StoreId};

use crate::content::{self, Encoded};

/// How the journal is. The texts are meant for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Healthy,
    /// The disk is full: nothing is written until there is space, then everything goes on by itself.
    Full {
        why: String,
    },
    /// Nothing will be written any more. The process must stop.
    Failed {
        why: String,
    },
    /// It was closed.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) lane: u16,
    pub(crate) id: BatchId,
    /// Its place among all that was given, tables included.
    pub(crate) turn: u64,
    pub(crate) manner: Manner,
    pub(crate) records: Vec<NodeRecord>,
    /// Unless it brings tables, which are stored first.
    pub(crate) encoded: Option<Encoded>,
    pub(crate) bytes: u64,
    /// What it is about.
    buckets: Vec<BucketId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Disk,
    Memory,
    /// What records of level memory say of checkpoints (`Record::is_note`): nobody waits for them.
    Notes,
}

impl Batch {
    pub(crate) fn new(lane: u16, id: BatchId, manner: Manner, records: Vec<NodeRecord>) -> Self {
        let has_tables = records.iter().any(content::has_tables);
        let encoded = (!has_tables).then(|| {
            let mut encoded = Encoded::with_room_for(&records);
            records.iter().for_each(|record| encoded.push(record));
            encoded
        });
        let table_bytes: usize = if has_tables { records.iter().map(content::table_bytes).sum() } else { 0 };
        let encoded_bytes = encoded.as_ref().map_or(0, |encoded| encoded.bytes.len());
        let bytes = (encoded_bytes + table_bytes + records.len() * 64) as u64;
        let mut buckets: Vec<BucketId> = records.iter().filter_map(content::bucket_of).collect();
        buckets.dedup();
        Self { lane, id, turn: 0, manner, records, encoded, bytes, buckets }
    }

    pub(crate) fn is_memory(&self) -> bool {
        self.manner != Manner::Disk
    }
}

/// Tables that a lane wants stored.
#[derive(Debug)]
pub(crate) struct ToStore {
    pub(crate) lane: u16,
    pub(crate) id: StoreId,
    pub(crate) bucket: BucketId,
    pub(crate) tables: Vec<(Slot, Bytes)>,
    pub(crate) turn: u64,
}

impl ToStore {
    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().map(|(_, table)| table.len() as u64 + 64).sum()
    }
}

/// Tables that were stored, and to which no record will refer.
#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) bucket: BucketId,
    pub(crate) tables: Vec<(Slot, Bytes)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    No,
    /// At once; what is queued is dropped.
    Abruptly,
    /// When everything is written.
    Cleanly,
}

#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// There is something to do.
    work: Condvar,
    /// There are tables to store.
    tables: Condvar,
    /// Something has been done.
    done: Condvar,
    most_batches: usize,
    most_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    batches: VecDeque<Batch>,
    /// At most one checkpoint of each bucket, and as many images as a primary sends ahead: never more than the tables themselves take.
    to_store: Vec<ToStore>,
    /// What those take that are queued or being stored.
    table_bytes: u64,
    /// They wait for space on the disk, and nobody knows for how long.
    is_pausing: bool,
    released: Vec<Released>,
    /// A lane has begun the last segment there was.
    wants_blank: bool,
    turns: u64,
    /// Queued or being written.
    bytes: u64,
    count: usize,
    /// Of each lane, and of each bucket: not yet reported as written, without notes.
    under_way: BTreeMap<u16, usize>,
    buckets: BTreeMap<BucketId, usize>,
    pub(crate) state: State,
    stop: Stop,
    syncs_wanted: u64,
    syncs_done: u64,
}

/// What the writer does next.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) batches: Vec<Batch>,
    pub(crate) released: Vec<Released>,
    pub(crate) wants_blank: bool,
    /// Everything must be synced, as often as this was asked for.
    pub(crate) sync: Option<u64>,
    pub(crate) stop: Stop,
}

impl Queue {
    pub(crate) fn new(most_batches: usize, most_bytes: u64) -> Self {
        let waiting = Waiting {
            batches: VecDeque::new(),
            to_store: Vec::new(),
            table_bytes: 0,
            is_pausing: false,
            released: Vec::new(),
            wants_blank: false,
            turns: 0,
            bytes: 0,
            count: 0,
            under_way: BTreeMap::new(),
            buckets: BTreeMap::new(),
            state: State::Healthy,
            stop: Stop::No,
            syncs_wanted: 0,
            syncs_done: 0,
        };
        let [work, tables, done] = [(); 3].map(|()| Condvar::new());
        Self { waiting: Mutex::new(waiting), work, tables, done, most_batches, most_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no thread panics while it has this")
    }

    pub(crate) fn state(&self) -> State {
        self.lock().state.clone()
    }

    pub(crate) fn set_state(&self, state: State) {
        let mut waiting = self.lock();
        // Failed is for good.
        if !matches!(waiting.state, State::Failed { .. } | State::Stopped) {
            waiting.state = state;
        }
        drop(waiting);
        self.done.notify_all();
        self.tables.notify_all();
    }

    /// May this lane write by itself, without overtaking what it queued?
    pub(crate) fn is_clear(&self, lane: u16) -> bool {
        let waiting = self.lock();
        waiting.state == State::Healthy && waiting.under_way.get(&lane).is_none_or(|count| *count == 0)
    }

    /// Those of which something is queued that must not be overtaken. None: nobody may write by itself now.
    pub(crate) fn waiting_among(&self, records: &[NodeRecord]) -> Option<BTreeSet<BucketId>> {
        let waiting = self.lock();
        let is_under_way = |bucket: &BucketId| waiting.buckets.contains_key(bucket);
        let under_way = || records.iter().filter_map(content::bucket_of).filter(is_under_way).collect();
        (waiting.state == State::Healthy).then(under_way)
    }

    /// Waits for room, unless they are notes, of which there are never many. Gives the records back when that would be for nothing, or for long.
    pub(crate) fn push(&self, mut batch: Batch) -> Result<(), (State, Vec<NodeRecord>)> {
        let mut waiting = self.lock();
        loop {
            if matches!(waiting.state, State::Failed { .. } | State::Stopped) {
                return Err((waiting.state.clone(), batch.records));
            }
            let is_full = waiting.count >= self.most_batches || waiting.bytes >= self.most_bytes;
            if !is_full || batch.manner == Manner::Notes {
                break;
            }
            if waiting.state != State::Healthy {
                return Err((waiting.state.clone(), batch.records));
            }
            waiting = self.done.wait(waiting).expect("no thread panics while it has this");
        }
        waiting.turns += 1;
        batch.turn = waiting.turns;
        waiting.bytes += batch.bytes;
        waiting.count += 1;
        if batch.manner != Manner::Notes {
            *waiting.under_way.entry(batch.lane).or_default() += 1;
            batch.buckets.iter().for_each(|bucket| *waiting.buckets.entry(*bucket).or_default() += 1);
        }
        waiting.batches.push_back(batch);
        drop(waiting);
        self.work.notify_one();
        Ok(())
    }

    /// Waits while much is to be stored, unless the disk is full. Never refuses: once the journal has failed or stopped nobody is told
    /// any more.
    pub(crate) fn push_tables(&self, mut tables: ToStore) {
        let mut waiting = self.lock();
        while waiting.table_bytes >= self.most_bytes && waiting.state == State::Healthy && !waiting.is_pausing {
            waiting = self.done.wait(waiting).expect("no thread panics while it has this");
        }
        waiting.table_bytes += tables.bytes();
        waiting.turns += 1;
        tables.turn = waiting.turns;
        waiting.to_store.push(tables);
        drop(waiting);
        self.tables.notify_one();
    }

    pub(crate) fn release(&self, released: Released) {
        self.lock().released.push(released);
        self.work.notify_one();
    }

    /// For whoever stores tables: that many bytes are; waits until there are more. None: it is over.
    pub(crate) fn next_tables(&self, stored: u64) -> Option<Vec<ToStore>> {
        let mut waiting = self.lock();
        waiting.table_bytes -= stored;
        waiting.is_pausing = false;
        self.done.notify_all();
        loop {
            if waiting.stop != Stop::No || matches!(waiting.state, State::Failed { .. } | State::Stopped) {
                return None;
            }
            if !waiting.to_store.is_empty() {
                return Some(std::mem::take(&mut waiting.to_store));
            }
            waiting = self.tables.wait(waiting).expect("no thread panics while it has this");
        }
    }

    /// The same, when it cannot go on: waits a little. False: it is over.
    pub(crate) fn pause_tables(&self, patience: Duration) -> bool {
        let mut waiting = self.lock();
        waiting.is_pausing = true;
        self.done.notify_all();
        let waiting = self.tables.wait_timeout(waiting, patience).expect("no thread panics while it has this").0;
        waiting.stop == Stop::No && !matches!(waiting.state, State::Failed { .. } | State::Stopped)
    }

    /// The next segment is to be there before this one is full.
    pub(crate) fn want_blank(&self) {
        self.lock().wants_blank = true;
        self.work.notify_one();
    }

    /// For the writer: waits until there is something to do, at most so long.
    pub(crate) fn next(&self, patience: Duration) -> Job {
        let until = Instant::now() + patience;
        let mut waiting = self.lock();
        loop {
            let has_work =
                !waiting.batches.is_empty() || waiting.syncs_wanted > waiting.syncs_done || waiting.stop != Stop::No;
            let has_work = has_work || !waiting.released.is_empty() || waiting.wants_blank;
            let left = until.saturating_duration_since(Instant::now());
            if has_work || left.is_zero() {
                break;
            }
            waiting = self.work.wait_timeout(waiting, left).expect("no thread panics while it has this").0;
        }
        Job {
            batches: waiting.batches.drain(..).collect(),
            released: std::mem::take(&mut waiting.released),
            wants_blank: std::mem::take(&mut waiting.wants_blank),
            sync: (waiting.syncs_wanted > waiting.syncs_done).then_some(waiting.syncs_wanted),
            stop: waiting.stop,
        }
    }

    /// For the writer, when it cannot go on: waits a little. Says whether it should stop instead.
    pub(crate) fn pause(&self, patience: Duration) -> Stop {
        let waiting = self.lock();
        if waiting.stop != Stop::No {
            return waiting.stop;
        }
        self.work.wait_timeout(waiting, patience).expect("no thread panics while it has this").0.stop
    }

    pub(crate) fn finished(&self, batches: &[Batch]) {
        let mut waiting = self.lock();
        for batch in batches {
            waiting.bytes -= batch.bytes;
            waiting.count -= 1;
            if batch.manner != Manner::Notes {
                *waiting.under_way.get_mut(&batch.lane).expect("it was counted") -= 1;
                for bucket in &batch.buckets {
                    let count = waiting.buckets.get_mut(bucket).expect("it was counted");
                    *count -= 1;
                    if *count == 0 {
                        waiting.buckets.remove(bucket);
                    }
                }
            }
        }
        drop(waiting);
        self.done.notify_all();
    }

    pub(crate) fn synced(&self, upto: u64) {
        let mut waiting = self.lock();
        waiting.syncs_done = waiting.syncs_done.max(upto);
        drop(waiting);
        self.done.notify_all();
    }

    /// Waits until everything that is queued now is synced.
    pub(crate) fn wait_for_sync(&self) -> Result<(), State> {
        let mut waiting = self.lock();
        waiting.syncs_wanted += 1;
        let ticket = waiting.syncs_wanted;
        self.work.notify_one();
        while waiting.syncs_done < ticket {
            if matches!(waiting.state, State::Failed { .. } | State::Stopped) {
                return Err(waiting.state.clone());
            }
            waiting = self.done.wait(waiting).expect("no thread panics while it has this");
        }
        Ok(())
    }

    pub(crate) fn stop(&self, stop: Stop) {
        let mut waiting = self.lock();
        waiting.stop = waiting.stop.max(stop);
        drop(waiting);
        self.work.notify_all();
        self.tables.notify_all();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.lock().stop == Stop::Cleanly
    }

    pub(crate) fn stopped(&self) {
        self.set_state(State::Stopped);
    }
}
