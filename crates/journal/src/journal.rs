//! The journal as lanes see it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use blueprint::{BucketId, Durability, Slot};
use bytes::Bytes;
use node::{BatchId, NodeRecord, StoreId};

use crate::Options;
use crate::content::{self, Encoded};
use crate::disk::{Disk, Lock};
use crate::keeper::Keeper;
use crate::open::FAILED;
use crate::pen::Pen;
use crate::queue::{Batch, Manner, Queue, Released, State, Stop, ToStore};
use crate::tables::TableFiles;
use crate::writer::Writer;

/// Called with a lane and a batch: that one, and all of the lane before it, are written.
pub(crate) type OnWritten = Box<dyn Fn(u16, BatchId) + Send + Sync>;
/// Called with a lane, what it wanted stored, and what records are to say of that.
pub(crate) type OnStored = Box<dyn Fn(u16, StoreId, BucketId, Vec<(Slot, Bytes)>) + Send + Sync>;

#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    threads: Mutex<Threads>,
    lock: Mutex<Option<Lock>>,
}

#[derive(Debug)]
enum Threads {
    NotStarted,
    Running(Vec<JoinHandle<()>>),
    Ended,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) queue: Queue,
    /// Whoever needs both locks this first.
    tables: Mutex<TableFiles>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is written, and so is everything this lane wrote before.
    Written,
    /// What it has of these buckets is written. The callback will say when the rest of it is, if there is any, and what came before it.
    Ahead(Vec<BucketId>),
    /// The callback will say when.
    Queued,
}

/// The batch was not taken; here it is. Nothing of it is on disk, unless the state is `Failed`: then some of it may be. What is not among the
/// `records` any more is written, and `ahead` says whose that is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal takes no more: {}", match state {
    State::Healthy => "it is being written to",
    State::Full { why } | State::Failed { why } => why,
    State::Stopped => "it was closed",
})]
pub struct Refused {
    pub state: State,
    pub records: Vec<NodeRecord>,
    pub ahead: Vec<BucketId>,
}

thread_local! {
    /// What a lane writes by itself is encoded here: memory of that size, new for each batch, is expensive.
    static SCRATCH: RefCell<Encoded> = RefCell::default();
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
        let (tables, pen) = (Mutex::new(tables), Mutex::new(pen));
        let shared = Shared { options, disk, queue, tables, pen, counts, had_failed };
        Self { shared: Arc::new(shared), threads: Mutex::new(Threads::NotStarted), lock: Mutex::new(Some(lock)) }
    }

    /// Starts to write and to store. What is given before that waits. A second call changes nothing.
    pub fn start(
        &self,
        on_written: impl Fn(u16, BatchId) + Send + Sync + 'static,
        on_stored: impl Fn(u16, StoreId, BucketId, Vec<(Slot, Bytes)>) + Send + Sync + 'static,
    ) {
        let mut threads = self.threads.lock().expect("no thread panics while it has this");
        if !matches!(*threads, Threads::NotStarted) {
            return;
        }
        let writer = Writer::new(self.shared.clone(), Box::new(on_written));
        let keeper = Keeper::new(self.shared.clone(), Box::new(on_stored));
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let guard = Guard(self.shared.clone());
            std::thread::Builder::new().name(name.into()).spawn(move || {
                let _guard = guard;
                run();
            })
        };
        let spawned =
            [spawn("journal", Box::new(move || writer.run())), spawn("journal-tables", Box::new(move || keeper.run()))];
        let mut running = Vec::new();
        for thread in spawned {
            match thread {
                Ok(handle) => running.push(handle),
                Err(error) => {
                    let why = format!(
                        "a thread of the journal could not be started ({error}). Nothing can be written. Stop this process, give \
                         it more threads or memory, and start it again."
                    );
                    self.shared.queue.set_state(State::Failed { why });
                }
            }
        }
        *threads = Threads::Running(running);
    }

    /// Tables that a record is to refer to: the callback says how, when they are safe. They are in no order with what is written. Each
    /// ends with a record that refers to them, with [`Journal::release`], or with the erasing of their bucket, if that is given later.
    pub fn store(&self, lane: u16, id: StoreId, bucket: BucketId, tables: Vec<(Slot, Bytes)>) {
        self.shared.queue.push_tables(ToStore { lane, id, bucket, tables, turn: 0 });
    }

    /// No record will refer to these.
    pub fn release(&self, bucket: BucketId, tables: Vec<(Slot, Bytes)>) {
        self.shared.queue.release(Released { bucket, tables });
    }

    /// Records of one bucket are written in the order in which they are given. Waits when too much is queued (`Options::queue_batches`,
    /// `queue_bytes`), unless the disk is full: then it refuses, and the same batch is to be given again later.
    pub fn write(
        &self,
        lane: u16,
        id: BatchId,
        level: Durability,
        mut records: Vec<NodeRecord>,
    ) -> Result<Outcome, Refused> {
        if level == Durability::Disk {
            return self.queue(Batch::new(lane, id, Manner::Disk, records)).map(|()| Outcome::Queued);
        }
        let is_clear = records.iter().all(content::may_go_ahead) && self.shared.queue.is_clear(lane);
        let mut behind = if is_clear { Vec::new() } else { self.split_off_waiting(&mut records) };
        let mut notes = Vec::new();
        if records.is_empty() || !self.write_ahead(&mut records, &mut notes) {
            records.append(&mut notes);
            records.append(&mut behind);
            return self.queue(Batch::new(lane, id, Manner::Memory, records)).map(|()| Outcome::Queued);
        }
        let mut ahead: Vec<BucketId> = Vec::new();
        if !is_clear {
            ahead.extend(records.iter().chain(&notes).filter_map(content::bucket_of));
            ahead.sort_unstable();
            ahead.dedup();
        }
        // Before the notes: what is reported of those covers all that was queued before them.
        if !behind.is_empty()
            && let Err(mut refused) = self.queue(Batch::new(lane, id, Manner::Memory, behind))
        {
            ahead.retain(|bucket| !notes.iter().any(|note| content::bucket_of(note) == Some(*bucket)));
            refused.records.append(&mut notes);
            return Err(Refused { ahead, ..refused });
        }
        if !notes.is_empty() {
            self.queue(Batch::new(lane, id, Manner::Notes, notes))?;
        }
        Ok(if is_clear { Outcome::Written } else { Outcome::Ahead(ahead) })
    }

    fn queue(&self, batch: Batch) -> Result<(), Refused> {
        self.shared.queue.push(batch).map_err(|(state, records)| Refused { state, records, ahead: Vec::new() })
    }

    /// Takes out what must be synced, and whatever is about the same buckets, or about those of which something is queued. (While a node takes
    /// in a bucket's tables, each image must be synced, which takes long where the disk is busy with them; the others go on.)
    fn split_off_waiting(&self, records: &mut Vec<NodeRecord>) -> Vec<NodeRecord> {
        let Some(mut waiting) = self.shared.queue.waiting_among(records) else { return std::mem::take(records) };
        let to_sync = records.iter().filter(|record| !content::may_go_ahead(record));
        waiting.extend(to_sync.filter_map(content::bucket_of));
        let waits = |record: &mut NodeRecord| content::bucket_of(record).is_none_or(|bucket| waiting.contains(&bucket));
        records.extract_if(.., waits).collect()
    }

    /// Level memory: written by the lane itself, except for what is said of checkpoints, which comes back as `notes`: nobody waits for that.
    /// False: nothing is written.
    fn write_ahead(&self, records: &mut Vec<NodeRecord>, notes: &mut Vec<NodeRecord>) -> bool {
        // The first of a bucket in this life waits to be synced, whatever it is. (Otherwise: 1. a note is the first, and not synced yet; 2. the
        // bucket counts as known to write from memory, and an entry is written and answered; 3. the power fails, and nobody doubts it.)
        let has_notes = records.iter().any(content::is_note);
        if has_notes && !self.shared.pen().is_uneasy_about(records) {
            return false;
        }
        if has_notes {
            notes.extend(records.extract_if(.., |record| content::is_note(record)));
        }
        records.is_empty()
            || SCRATCH.with_borrow_mut(|encoded| {
                encoded.clear();
                records.iter().for_each(|record| encoded.push(record));
                self.shared.write_directly(encoded, records)
            })
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
        self.start(|_, _| {}, |_, _, _, _| {});
        self.end(Stop::Cleanly);
        match self.state() {
            State::Stopped => Ok(()),
            state => Err(state),
        }
    }

    fn end(&self, stop: Stop) {
        self.shared.queue.stop(stop);
        let threads = std::mem::replace(&mut *self.threads.lock().expect("no thread panics with it"), Threads::Ended);
        if let Threads::Running(handles) = threads {
            handles.into_iter().for_each(|handle| drop(handle.join())); // if one panicked, it has said so
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

/// A thread that panics must not leave lanes waiting for it.
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = "a thread of the journal ended with a bug, which it has printed. Nothing more is written or acknowledged. Stop \
                       this process, start it again, and report the bug.";
            self.0.queue.set_state(State::Failed { why: why.into() });
        }
    }
}

impl Shared {
    pub(crate) fn tables(&self) -> MutexGuard<'_, TableFiles> {
        self.tables.lock().expect("no thread panics while it has this")
    }

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
    /// write like this.
    fn write_directly(&self, encoded: &Encoded, records: &[NodeRecord]) -> bool {
        let mut pen = self.pen();
        if !pen.writes_from_memory(encoded) || !pen.has_room_for(encoded) {
            return false;
        }
        let had_blanks = !pen.blanks.is_empty();
        let written = pen.append(encoded, records, true).and_then(|()| pen.flush());
        let took_last = had_blanks && pen.blanks.is_empty();
        drop(pen);
        if took_last {
            self.queue.want_blank();
        }
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
    use std::time::Duration;

    use blueprint::{BucketId, Index, Member, Position, SlotSet, Term};
    use phaser::{Image, Record};

    use super::*;

    const BUCKET: BucketId = BucketId(1);
    const ANOTHER: BucketId = BucketId(2);
    const BASE: Position = Position { term: Term(1), index: Index(0) };

    fn found() -> Vec<NodeRecord> {
        let (me, owned, image) = (Member::new(1, 1), SlotSet::empty(), Image::default());
        of_bucket(Record::Found { me, promised: Term(1), base: BASE, clock: 0, owned, image })
    }

    fn of_bucket(record: Record) -> Vec<NodeRecord> {
        vec![NodeRecord::Bucket { bucket: BUCKET, record }]
    }

    fn of_another(mut records: Vec<NodeRecord>) -> Vec<NodeRecord> {
        let of_another = |record: &mut NodeRecord| {
            if let NodeRecord::Bucket { bucket, .. } = record {
                *bucket = ANOTHER;
            }
        };
        records.iter_mut().for_each(of_another);
        records
    }

    fn commit() -> Vec<NodeRecord> {
        of_bucket(Record::Commit(BASE))
    }

    fn open(directory: &std::path::Path, sync_within: Duration) -> Journal {
        let options = Options { segment_bytes: 8192, sync_within, ..Options::new("boot") };
        Journal::open(directory, options, &mut |_| {}).expect("it opens").0
    }

    /// 1. A lane asks whether it may write by itself, and it may. 2. A sync fails. 3. The lane goes on to write.
    #[test]
    fn a_lane_that_was_about_to_write_is_stopped_by_a_failure() {
        let directory = tempfile::tempdir().expect("a place for it");
        let journal = open(directory.path(), Duration::from_secs(1));
        journal.start(|_, _| {}, |_, _, _, _| {});
        journal.write(0, BatchId(1), Durability::Disk, found()).expect("it is taken");
        journal.write(0, BatchId(2), Durability::Memory, commit()).expect("it is taken");
        journal.sync().expect("all is well");
        let mut encoded = Encoded::default();
        commit().iter().for_each(|record| encoded.push(record));
        assert!(journal.shared.write_directly(&encoded, &commit()));
        journal.shared.fail("a test", &std::io::Error::other("on purpose"));
        assert!(!journal.shared.write_directly(&encoded, &commit()), "nothing is reported as written any more");
    }

    /// The writer's work, done by hand: the lane's batches that wait, each a group of its own. How often that synced.
    fn syncs_of_groups(journal: &Journal, writer: &mut Writer) -> Vec<u64> {
        let mut job = journal.shared.queue.next(Duration::ZERO);
        let mut syncs = |batch| {
            let before = journal.counts().syncs;
            assert!(writer.group(std::slice::from_mut(batch)).is_ok());
            journal.counts().syncs - before
        };
        job.batches.iter_mut().map(&mut syncs).collect()
    }

    /// At level memory nothing waits for a sync of what is said of checkpoints; but what is not for the log comes after it.
    #[test]
    fn what_is_about_checkpoints_holds_nobody_up() {
        let directory = tempfile::tempdir().expect("a place for it");
        let journal = open(directory.path(), Duration::from_secs(3600));
        let mut writer = Writer::new(journal.shared.clone(), Box::new(|_, _| {}));
        let give = |id, level, records| journal.write(0, BatchId(id), level, records);
        let cut = || of_bucket(Record::Cut { base: BASE, clock: 0, owned: SlotSet::empty() });
        let saved = || of_bucket(Record::Save(Image::default()));
        assert_eq!(give(1, Durability::Disk, found()), Ok(Outcome::Queued));
        syncs_of_groups(&journal, &mut writer);
        assert_eq!(
            give(2, Durability::Memory, saved()),
            Ok(Outcome::Queued),
            "nobody knew that it would write like this"
        );
        assert_eq!(
            give(2, Durability::Memory, commit()),
            Ok(Outcome::Queued),
            "and until that is synced all wait (R10)"
        );
        syncs_of_groups(&journal, &mut writer);
        assert_eq!(give(3, Durability::Memory, [commit(), saved()].concat()), Ok(Outcome::Written));
        assert_eq!(give(4, Durability::Memory, commit()), Ok(Outcome::Written));
        assert_eq!(syncs_of_groups(&journal, &mut writer), [1], "it is synced nevertheless");
        assert_eq!(give(5, Durability::Memory, cut()), Ok(Outcome::Written));
        assert_eq!(give(6, Durability::Memory, of_bucket(Record::Promise(Term(2)))), Ok(Outcome::Queued));
        assert_eq!(give(7, Durability::Memory, commit()), Ok(Outcome::Queued), "it must not overtake the promise");
        assert_eq!(give(8, Durability::Memory, cut()), Ok(Outcome::Queued));
        assert_eq!(
            give(9, Durability::Disk, saved()),
            Ok(Outcome::Queued),
            "at that level it is safe when it is reported"
        );
        let ids: Vec<BatchId> =
            journal.shared.queue.next(Duration::ZERO).batches.iter().map(|batch| batch.id).collect();
        assert_eq!(ids, [5, 6, 7, 8, 9].map(BatchId), "nothing that is queued overtakes");
    }

    /// What must be synced of one bucket holds up that one, and no other of the same lane.
    #[test]
    fn what_waits_holds_up_its_own_bucket_only() {
        let directory = tempfile::tempdir().expect("a place for it");
        let journal = open(directory.path(), Duration::from_secs(3600));
        let mut writer = Writer::new(journal.shared.clone(), Box::new(|_, _| {}));
        let give = |id, records| journal.write(0, BatchId(id), Durability::Memory, records);
        let promise = || of_bucket(Record::Promise(Term(2)));
        let saved = || of_bucket(Record::Save(Image::default()));
        let both = |of_one: Vec<NodeRecord>| [of_one, of_another(commit())].concat();
        journal.write(0, BatchId(1), Durability::Disk, [found(), of_another(found())].concat()).expect("it is taken");
        syncs_of_groups(&journal, &mut writer);
        assert_eq!(give(2, both(commit())), Ok(Outcome::Queued), "nobody knew that they would write like this (R10)");
        syncs_of_groups(&journal, &mut writer);
        assert_eq!(give(3, both(commit())), Ok(Outcome::Written));

        assert_eq!(give(4, both(promise())), Ok(Outcome::Ahead(vec![ANOTHER])), "the promise must be synced");
        assert_eq!(give(5, both(commit())), Ok(Outcome::Ahead(vec![ANOTHER])), "it must not overtake the promise");
        assert_eq!(give(6, of_another(commit())), Ok(Outcome::Ahead(vec![ANOTHER])), "4 and 5 are not written");
        assert_eq!(give(7, commit()), Ok(Outcome::Queued));
        let noted = [promise(), of_another(saved()), of_another(commit())].concat();
        assert_eq!(give(8, noted), Ok(Outcome::Ahead(vec![ANOTHER])));
        assert_eq!(give(9, vec![NodeRecord::Erase { bucket: ANOTHER }]), Ok(Outcome::Queued));
        assert_eq!(give(10, of_another(commit())), Ok(Outcome::Queued), "it would come before the end of that replica");

        let mut job = journal.shared.queue.next(Duration::ZERO);
        let queued: Vec<(u64, Manner)> = job.batches.iter().map(|batch| (batch.id.0, batch.manner)).collect();
        let memory = |id| (id, Manner::Memory);
        let expected = [memory(4), memory(5), memory(7), memory(8), (8, Manner::Notes), memory(9), memory(10)];
        assert_eq!(queued, expected, "what is reported of notes covers what came before them");
        job.batches.truncate(4);
        assert!(writer.group(&mut job.batches).is_ok());
        assert_eq!(give(11, both(commit())), Ok(Outcome::Ahead(vec![BUCKET])), "another's turn to wait");
    }

    /// 1. A promise is queued, and must be synced. 2. What comes after it at level memory is queued too, or it would overtake it.
    ///
    /// That one is not synced, unless it is time.
    #[test]
    fn what_only_waits_for_its_turn_is_not_synced() {
        for (sync_within, expected) in [(Duration::from_secs(3600), 0), (Duration::ZERO, 1)] {
            let directory = tempfile::tempdir().expect("a place for it");
            let journal = open(directory.path(), sync_within);
            let mut writer = Writer::new(journal.shared.clone(), Box::new(|_, _| {}));
            let give = |id, level, records| {
                assert_eq!(journal.write(0, BatchId(id), level, records), Ok(Outcome::Queued));
            };
            give(1, Durability::Disk, found());
            syncs_of_groups(&journal, &mut writer);
            give(2, Durability::Memory, commit());
            assert_eq!(syncs_of_groups(&journal, &mut writer), [1], "nobody knew that it would write like this (R10)");
            give(3, Durability::Memory, of_bucket(Record::Promise(Term(2))));
            give(4, Durability::Memory, commit());
            assert_eq!(syncs_of_groups(&journal, &mut writer), [1, expected]);
            assert_eq!(journal.write(0, BatchId(5), Durability::Memory, commit()), Ok(Outcome::Written));
        }
    }
}
