//! The journal as lanes see it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use blueprint::Durability;
use node::{BatchId, NodeRecord};

use crate::Options;
use crate::content::{self, Encoded};
use crate::disk::{Disk, Lock};
use crate::open::FAILED;
use crate::pen::Pen;
use crate::queue::{Batch, Queue, State, Stop};
use crate::tables::TableFiles;
use crate::writer::Writer;

/// Called with a lane and a batch: that one, and all of the lane before it, are written.
pub(crate) type OnWritten = Box<dyn Fn(u16, BatchId) + Send + Sync>;

#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    writer: Mutex<Thread>,
    lock: Mutex<Option<Lock>>,
}

#[derive(Debug)]
enum Thread {
    NotStarted(TableFiles),
    Running(JoinHandle<()>),
    Ended,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) queue: Queue,
    pen: Mutex<Pen>,
    pub(crate) counts: Counting,
    /// The file that says so is still there.
    pub(crate) had_failed: AtomicBool,
}

#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) syncs: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) direct: AtomicU64,
    pub(crate) carried: AtomicU64,
    pub(crate) recycled: AtomicU64,
    pub(crate) rewritten: AtomicU64,
}

/// What a journal has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Syncs of segments.
    pub syncs: u64,
    /// Batches that went through the writer.
    pub batches: u64,
    /// Batches that lanes wrote themselves.
    pub direct: u64,
    /// Replicas carried forward.
    pub carried: u64,
    /// Segments that became free.
    pub recycled: u64,
    /// Files of tables written anew.
    pub rewritten: u64,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is written, and so is everything this lane wrote before.
    Written,
    /// The callback will say when.
    Queued,
}

/// The batch was not taken; here it is, in as few records as say the same. Nothing of it is on disk, unless the state is `Failed`: then some of it may be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal takes no more: {}", match state {
    State::Healthy => "it is being written to",
    State::Full { why } | State::Failed { why } => why,
    State::Stopped => "it was closed",
})]
pub struct Refused {
    pub state: State,
    pub records: Vec<NodeRecord>,
}

impl Journal {
    pub(crate) fn new(
        options: Options,
        disk: Arc<dyn Disk>,
        lock: Lock,
        pen: Pen,
        tables: TableFiles,
        had_failed: bool,
    ) -> Self {
        let queue = Queue::new(options.queue_batches, options.queue_bytes);
        let (counts, had_failed) = (Counting::default(), AtomicBool::new(had_failed));
        let shared = Shared { options, disk, queue, pen: Mutex::new(pen), counts, had_failed };
        Self { shared: Arc::new(shared), writer: Mutex::new(Thread::NotStarted(tables)), lock: Mutex::new(Some(lock)) }
    }

    /// Starts the writer. Batches given before that wait in the queue. A second call changes nothing.
    pub fn start(&self, on_written: impl Fn(u16, BatchId) + Send + Sync + 'static) {
        let mut thread = self.writer.lock().expect("no thread panics while it has this");
        *thread = match std::mem::replace(&mut *thread, Thread::Ended) {
            Thread::NotStarted(tables) => {
                let writer = Writer::new(self.shared.clone(), tables, Box::new(on_written));
                let spawned = std::thread::Builder::new().name("journal".into()).spawn(move || writer.run());
                match spawned {
                    Ok(handle) => Thread::Running(handle),
                    Err(error) => {
                        let why = format!(
                            "the journal's thread could not be started ({error}). Nothing can be written. Stop this process, \
                             give it more threads or memory, and start it again."
                        );
                        self.shared.queue.set_state(State::Failed { why });
                        Thread::Ended
                    }
                }
            }
            other => other,
        };
    }

    /// Batches of one lane are written in the order in which they are given. Waits when too much is queued (`Options::queue_batches`,
    /// `queue_bytes`), unless the disk is full: then it refuses, and the same batch is to be given again later.
    pub fn write(
        &self,
        lane: u16,
        id: BatchId,
        level: Durability,
        mut records: Vec<NodeRecord>,
    ) -> Result<Outcome, Refused> {
        content::join_appends(&mut records);
        let is_memory = level == Durability::Memory;
        let has_tables = records.iter().any(content::has_tables);
        let mut encoded = Encoded::default();
        if !has_tables {
            records.iter().for_each(|record| encoded.push(record));
        }
        if is_memory
            && records.iter().all(content::may_stay_in_memory)
            && self.shared.queue.is_clear(lane)
            && self.shared.write_directly(&encoded, &records)
        {
            return Ok(Outcome::Written);
        }
        let table_bytes: usize = if has_tables { records.iter().map(content::table_bytes).sum() } else { 0 };
        let bytes = (encoded.bytes.len() + table_bytes + records.len() * 64) as u64;
        let batch = Batch { lane, id, is_memory, records, encoded: (!has_tables).then_some(encoded), bytes };
        match self.shared.queue.push(batch) {
            Ok(()) => Ok(Outcome::Queued),
            Err((state, records)) => Err(Refused { state, records }),
        }
    }

    /// Which journal this is: random, made with it. Whoever has one remembers it, for [`Options::number`].
    pub fn number(&self) -> u64 {
        self.shared.pen().number()
    }

    pub fn state(&self) -> State {
        self.shared.queue.state()
    }

    /// Returns when everything that was given before is synced.
    pub fn sync(&self) -> Result<(), State> {
        self.shared.queue.wait_for_sync()
    }

    /// The replica is not in doubt any more, although the operating system restarted: whoever decides that all members are back,
    /// and this one is the most advanced, says so (R10). On disk with the next sync.
    pub fn trust(&self, bucket: blueprint::BucketId) {
        self.shared.pen().trust(bucket);
    }

    pub fn counts(&self) -> Counts {
        let counts = &self.shared.counts;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            syncs: of(&counts.syncs),
            batches: of(&counts.batches),
            direct: of(&counts.direct),
            carried: of(&counts.carried),
            recycled: of(&counts.recycled),
            rewritten: of(&counts.rewritten),
        }
    }

    /// Writes what is queued, syncs, and says on disk that this was a clean stop: nothing is in doubt after it, and the directory is
    /// free for others.
    pub fn close(&self) -> Result<(), State> {
        self.start(|_, _| {});
        self.end(Stop::Cleanly);
        match self.state() {
            State::Stopped => Ok(()),
            state => Err(state),
        }
    }

    fn end(&self, stop: Stop) {
        self.shared.queue.stop(stop);
        let thread = std::mem::replace(&mut *self.writer.lock().expect("no thread panics with it"), Thread::Ended);
        if let Thread::Running(handle) = thread {
            drop(handle.join()); // if it panicked, it has said so
        }
        drop(self.lock.lock().expect("no thread panics with it").take());
    }
}

impl Drop for Journal {
    /// As if the process had died: what was not reported as written may be there or not.
    fn drop(&mut self) {
        self.end(Stop::Abruptly);
    }
}

impl Shared {
    pub(crate) fn pen(&self) -> MutexGuard<'_, Pen> {
        self.pen.lock().expect("no thread panics while it has this")
    }

    pub(crate) fn fail(&self, what: &str, error: &std::io::Error) {
        let why = format!(
            "{what} failed: {error}. What was written last may or may not be on disk, and trying again could report it as safe \
             when it is not. Nothing more is written or acknowledged. Stop this process, have the disk checked, and start it \
             again: it recovers what is there, and asks the other members for the rest."
        );
        // A lane that found all well a moment ago may be on its way to write by itself.
        self.pen().close_to_lanes();
        self.queue.set_state(State::Failed { why });
        // As far as that is possible on a disk that fails: whether it was is not to be known.
        let _ = self.disk.create(FAILED).and_then(|_| self.disk.sync_names());
    }

    /// Level memory: a short lock and one write. Not when a file would have to be made, nor for a bucket that is not yet known to
    /// write like this: that must be on disk first, or a restart of the operating system would not put it in doubt (R10).
    fn write_directly(&self, encoded: &Encoded, records: &[NodeRecord]) -> bool {
        let mut pen = self.pen();
        let are_known = encoded.items.iter().all(|item| pen.ledger.uneasy.contains(&item.bucket));
        if !are_known || !pen.has_room_for(encoded) {
            return false;
        }
        let written = pen.append(encoded, records, true).and_then(|()| pen.flush());
        drop(pen);
        match written {
            Ok(()) => {
                self.counts.direct.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(error) => {
                self.fail("writing to a segment of the journal", &error);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use blueprint::{BucketId, Index, Member, Position, SlotSet, Term};
    use phaser::{Image, Record};

    use super::*;

    /// 1. A lane asks whether it may write by itself, and it may. 2. A sync fails. 3. The lane goes on to write.
    #[test]
    fn a_lane_that_was_about_to_write_is_stopped_by_a_failure() {
        let directory = tempfile::tempdir().expect("a place for it");
        let options = Options { segment_bytes: 8192, ..Options::new("boot") };
        let (journal, _) = Journal::open(directory.path(), options, &mut |_| {}).expect("it opens");
        journal.start(|_, _| {});
        let bucket = BucketId(1);
        let (me, base) = (Member::new(1, 1), Position::new(1, 0));
        let found = Record::Found {
            me,
            promised: Term(1),
            base,
            clock: 0,
            owned: SlotSet::empty(),
            image: Image { as_of: Index(0), ..Image::default() },
        };
        let commit = || vec![NodeRecord::Bucket { bucket, record: Record::Commit(base) }];
        let found = vec![NodeRecord::Bucket { bucket, record: found }];
        journal.write(0, BatchId(1), Durability::Disk, found).expect("it is taken");
        journal.write(0, BatchId(2), Durability::Memory, commit()).expect("it is taken");
        journal.sync().expect("all is well");
        let mut encoded = Encoded::default();
        commit().iter().for_each(|record| encoded.push(record));
        assert!(journal.shared.write_directly(&encoded, &commit()));
        journal.shared.fail("a test", &std::io::Error::other("on purpose"));
        assert!(!journal.shared.write_directly(&encoded, &commit()), "nothing is reported as written any more");
    }
}
