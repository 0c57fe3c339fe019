//! The one thread that syncs: gathers what all lanes want, writes it, syncs once, and says so. Between groups it keeps the house:
//! a blank segment ahead, old segments freed, files of tables rewritten.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use blueprint::BucketId;
use node::{BatchId, NodeRecord};
use phaser::{Durable, Record};

use crate::content::{self, Encoded};
use crate::disk::Disk;
use crate::journal::{OnWritten, Shared};
use crate::ledger::Trail;
use crate::open::FAILED;
use crate::pen::{Blank, InUse, Pen};
use crate::queue::{Batch, Released, State, Stop};
use crate::scan::SEGMENT_SUFFIX;
use crate::tables::{Rewritten, TableFiles};

/// A full disk is tried again this often.
const FULL_RETRY: Duration = Duration::from_millis(100);
/// Eighths of the segments that are wanted: whoever builds on one that lies further back will have to be carried soon.
const OLD_AFTER: u64 = 5;
/// Segments kept for later beyond those that are wanted; what is more than that is removed, so that a burst does not take the disk for ever.
/// (One large bucket whose log is cut frees several at once, and needs as many again until it is cut the next time.)
const SPARE: usize = 2;
/// Bytes that are carried forward with one group, about: a millisecond or two.
const CARRIED_AT_ONCE: u64 = 2 << 20;
/// Each of them counts as so much at least, for it takes a while by itself.
const LEAST_CARRIED: u64 = 32 << 10;
/// Until more are, if there is no group before that.
const CARRY_PAUSE: Duration = Duration::from_millis(2);
/// Whoever is carried forward keeps lanes from writing meanwhile: those that wait have their turn before the next one. (Whoever gives back a lock
/// and takes it again at once is faster than those whom that wakes.)
const LANES_FIRST: Duration = Duration::from_micros(100);
const ZEROS: usize = 1 << 20;

pub(crate) struct Writer {
    shared: Arc<Shared>,
    on_written: OnWritten,
    /// A blank segment on its way, so that nobody waits while it is filled with zeros.
    making: Option<JoinHandle<io::Result<Blank>>>,
    /// No blank could be made ahead; the next try is when one is needed.
    is_short: bool,
    /// The segment that the file `newest` names.
    newest: Option<u64>,
    /// What is alive was last added up in this segment: once for each is enough.
    weighed: Option<u64>,
    /// And so many segments are for that.
    needed: usize,
    /// There are more of them than there should be.
    is_shortening: bool,
    /// When all that was written before was last synced.
    synced_at: Instant,
}

/// Why a group is not written.
pub(crate) enum Trouble {
    Failed { what: &'static str, error: io::Error },
    Stopped,
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> Trouble {
    move |error| Trouble::Failed { what, error }
}

pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

const SYNC: &str = "syncing the journal to disk";
const WRITE: &str = "writing to a segment of the journal";
pub(crate) const TABLES: &str = "writing a checkpoint";

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, on_written: OnWritten) -> Self {
        Self {
            shared,
            on_written,
            making: None,
            is_short: false,
            newest: None,
            weighed: None,
            needed: 0,
            is_shortening: false,
            synced_at: Instant::now(),
        }
    }

    pub(crate) fn run(mut self) {
        loop {
            let within = self.shared.options.sync_within;
            let since = if self.shared.pen().has_unsynced() { self.synced_at.elapsed() } else { Duration::ZERO };
            let patience = if self.is_shortening { CARRY_PAUSE } else { within };
            let mut job = self.shared.queue.next(patience.min(within.saturating_sub(since)));
            if job.stop == Stop::Abruptly {
                break self.shared.queue.stopped();
            }
            let result = self.say_what_is_owed().and_then(|()| self.group(&mut job.batches));
            let result = result.and_then(|()| self.let_go_of(&job.released));
            let is_shortening = self.is_shortening && since < within;
            if job.wants_blank || is_shortening {
                self.keep_a_blank();
            }
            let result = result.and_then(|()| match (job.stop, job.sync) {
                (Stop::Cleanly, _) => self.stop(),
                (_, Some(upto)) => self.sync_and_name().map(|()| self.shared.queue.synced(upto)),
                (_, None) if !job.batches.is_empty() => Ok(()),
                (_, None) if is_shortening => self.shorten(),
                (_, None) if job.wants_blank => Ok(()),
                (_, None) => self.idle(),
            });
            match result {
                Ok(()) if job.stop == Stop::Cleanly => break self.shared.queue.stopped(),
                Ok(()) => {}
                Err(Trouble::Stopped) if self.shared.queue.is_closing() => {
                    let why = "it was closed while the disk was full. What was queued is not written, and was not acknowledged.";
                    break self.shared.queue.set_state(State::Failed { why: why.into() });
                }
                Err(Trouble::Stopped) => break self.shared.queue.stopped(),
                Err(Trouble::Failed { what, error }) => break self.shared.fail(what, &error),
            }
        }
        if let Some(making) = self.making.take() {
            drop(making.join()); // it must not touch the directory when that is no longer ours
        }
    }

    /// Writes, syncs and reports. What a lane would have written by itself, had nothing been queued before it, is not synced here
    /// either: or one checkpoint would begin a row of groups that each find the next one waiting, and a busy lane would never again
    /// write by itself.
    pub(crate) fn group(&mut self, batches: &mut [Batch]) -> Result<(), Trouble> {
        if batches.is_empty() {
            return Ok(());
        }
        self.begin()?;
        self.store_tables(batches)?;
        let mut must_sync = self.synced_at.elapsed() >= self.shared.options.sync_within;
        for batch in batches.iter_mut() {
            let is_memory = batch.is_memory();
            let encoded = batch.encoded.get_or_insert_with(|| {
                let mut encoded = Encoded::default();
                batch.records.iter().for_each(|record| encoded.push(record));
                encoded
            });
            must_sync |= !is_memory
                || !batch.records.iter().all(content::may_stay_in_memory)
                || !self.shared.pen().writes_from_memory(encoded);
            let append = |pen: &mut Pen| pen.append(encoded, &batch.records, is_memory);
            self.with_room(encoded.growth, |pen| pen.has_room_for(encoded), append)?;
        }
        if must_sync {
            self.sync_and_name()?;
        } else {
            self.shared.pen().flush().map_err(failed(WRITE))?;
        }
        self.report(batches);
        let erased = std::mem::take(&mut self.shared.pen().erased);
        drop(erased);
        self.keep_house(batches)
    }

    /// The beginning of this life is on disk before anything else of it.
    fn begin(&mut self) -> Result<(), Trouble> {
        if self.shared.pen().is_begun() {
            return Ok(());
        }
        self.with_room(0, |pen| pen.room_for_census(1), Pen::begin)?;
        self.sync()?;
        if self.shared.had_failed.swap(false, Ordering::Relaxed) {
            // Whom that put in doubt stands in the census now.
            self.shared.disk.remove(FAILED).map_err(failed("removing the note of an earlier failure"))?;
        }
        Ok(())
    }

    fn report(&self, batches: &[Batch]) {
        self.shared.counts.batches.fetch_add(batches.len() as u64, Ordering::Relaxed);
        self.shared.queue.finished(batches);
        let mut newest: BTreeMap<u16, BatchId> = BTreeMap::new();
        for batch in batches {
            newest.insert(batch.lane, batch.id);
        }
        for (lane, id) in newest {
            (self.on_written)(lane, id);
        }
    }

    /// Tables first: a record that refers to one is written when that is safe.
    fn store_tables(&mut self, batches: &mut [Batch]) -> Result<(), Trouble> {
        let mut is_any = false;
        for record in batches.iter_mut().filter(|batch| batch.encoded.is_none()).flat_map(|batch| &mut batch.records) {
            let Some((bucket, images)) = content::tables_of(record) else { continue };
            is_any |= !images.is_empty();
            loop {
                let mut tables = self.shared.tables();
                let generation = self.shared.pen().generation();
                let stored = tables.store(bucket, images, generation);
                drop(tables);
                match stored {
                    Ok(()) => break,
                    Err(error) if is_full(&error) => self.wait_for_space("to write a checkpoint", &error)?,
                    Err(error) => return Err(Trouble::Failed { what: TABLES, error }),
                }
            }
        }
        self.recovered();
        if is_any { self.shared.tables().sync().map_err(failed("syncing a checkpoint to disk")) } else { Ok(()) }
    }

    /// Does something with the pen when there is room for it; makes room, and waits for space on the disk if it must.
    fn with_room<T>(
        &mut self,
        growth: u64,
        has_room: impl Fn(&Pen) -> bool,
        act: impl FnOnce(&mut Pen) -> io::Result<T>,
    ) -> Result<T, Trouble> {
        loop {
            let mut pen = self.shared.pen();
            if has_room(&pen) {
                let done = act(&mut pen).map_err(failed(WRITE))?;
                drop(pen);
                self.recovered();
                return Ok(done);
            }
            if pen.is_cramped(growth) {
                let error = io::Error::other("segment_bytes is too small for so many buckets: raise it");
                return Err(Trouble::Failed { what: WRITE, error });
            }
            drop(pen);
            match self.make_blank() {
                Ok(()) => {}
                Err(error) if is_full(&error) => self.wait_for_space("for another segment of the journal", &error)?,
                Err(error) => return Err(Trouble::Failed { what: "making a segment of the journal", error }),
            }
        }
    }

    fn wait_for_space(&mut self, what: &str, error: &io::Error) -> Result<(), Trouble> {
        let why = format!(
            "there is no space on the disk {what} ({error}). Writes are refused; nothing that was acknowledged is lost. Free \
             some space: writing goes on by itself."
        );
        self.shared.queue.set_state(State::Full { why });
        // What is already in segments stays safe meanwhile, level memory too.
        self.sync()?;
        if self.shared.queue.pause(FULL_RETRY) != Stop::No {
            return Err(Trouble::Stopped);
        }
        Ok(())
    }

    fn recovered(&self) {
        if matches!(self.shared.queue.state(), State::Full { .. }) {
            self.shared.queue.set_state(State::Healthy);
        }
    }

    /// Everything that has been written is safe when this returns. Lanes may go on writing meanwhile.
    fn sync(&mut self) -> Result<(), Trouble> {
        self.synced_at = Instant::now();
        let mut pen = self.shared.pen();
        pen.flush().map_err(failed(WRITE))?;
        let (files, upto) = pen.take_touched();
        drop(pen);
        for file in files {
            file.sync().map_err(failed(SYNC))?;
            self.shared.counts.syncs.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.pen().on_synced(upto);
        Ok(())
    }

    /// What no record says stands in a census; it is synced with whatever comes next.
    fn say_what_is_owed(&mut self) -> Result<(), Trouble> {
        if self.shared.pen().owes_census() {
            self.begin()?;
            self.with_room(0, |pen| pen.room_for_census(1), Pen::let_go)?;
        }
        Ok(())
    }

    /// Nobody wants anything: what lanes wrote by themselves is synced, and that is written down.
    fn idle(&mut self) -> Result<(), Trouble> {
        if self.shared.pen().has_unsynced() {
            self.sync_and_name()?;
        }
        self.shared.pen().mark().map_err(failed(WRITE))?;
        Ok(())
    }

    fn stop(&mut self) -> Result<(), Trouble> {
        if !self.shared.pen().is_begun() {
            return Ok(()); // nothing was written, nothing needs to be said
        }
        self.sync()?;
        self.with_room(0, |pen| pen.room_for_census(2), Pen::stop)?;
        self.sync()?;
        self.shared.pen().mark().map_err(failed(WRITE))?;
        self.sync()?;
        self.name_newest()
    }

    /// What is synced is named before it is reported: or the disappearance of its segment would look like an earlier end.
    fn sync_and_name(&mut self) -> Result<(), Trouble> {
        self.sync()?;
        let is_named = self.shared.pen().newest().map(|newest| newest.ordinal) == self.newest;
        if is_named { Ok(()) } else { self.name_newest() }
    }

    /// Once for each segment, when something in it is synced; and at the end.
    fn name_newest(&mut self) -> Result<(), Trouble> {
        let newest = {
            let pen = self.shared.pen();
            pen.newest()
        };
        match newest.map_or(Ok(()), |newest| newest.store(&*self.shared.disk)) {
            Ok(()) => self.newest = newest.map(|newest| newest.ordinal),
            Err(error) if is_full(&error) => {} // only a safeguard: the next group tries again
            Err(error) => return Err(Trouble::Failed { what: "naming the newest segment", error }),
        }
        Ok(())
    }

    fn keep_house(&mut self, batches: &[Batch]) -> Result<(), Trouble> {
        self.drop_tables(batches, &[])?;
        self.carry_the_light(batches)?;
        self.shorten()?;
        self.keep_a_blank();
        if self.is_short && self.can_squeeze() {
            self.free_oldest(None)?;
        }
        Ok(())
    }

    /// Frees old segments while there are too many, a little at a time: whoever is carried forward takes room, and time in which lanes cannot
    /// write. (When half of the buckets were erased at once, all that had become too long was freed at once: a quarter of a second.)
    fn shorten(&mut self) -> Result<(), Trouble> {
        let most = self.most_segments();
        let is_too_long = |this: &Self| this.shared.pen().segments.len() > most;
        let mut left = if self.is_much() { u64::MAX } else { CARRIED_AT_ONCE };
        while is_too_long(self) && self.free_oldest(Some(&mut left))? {}
        // If it waits for another segment, and there is no space for one, nothing is to be had by looking again and again.
        self.is_shortening = is_too_long(self) && !(self.making.is_none() && self.shared.pen().blanks.is_empty());
        Ok(())
    }

    /// A log is at its shortest when it was just cut: who builds on an old segment is carried then, rather than when that has to be
    /// freed. Only what is small and fits into what is there: all the others can wait.
    fn carry_the_light(&self, batches: &[Batch]) -> Result<(), Trouble> {
        let options = &self.shared.options;
        let records = batches.iter().flat_map(|batch| &batch.records);
        let cut: BTreeSet<BucketId> = records
            .filter_map(|record| match record {
                NodeRecord::Bucket { bucket, record: Record::Cut { .. } } => Some(*bucket),
                _ => None,
            })
            .collect();
        let mut left = CARRIED_AT_ONCE;
        for bucket in cut {
            let mut pen = self.shared.pen();
            let Some(newest) = pen.newest().map(|newest| newest.ordinal) else { break };
            let is_old = |trail: &Trail| trail.base + OLD_AFTER * options.segments as u64 / 8 < newest;
            let Some(durable) = pen.ledger.node.replicas.get(&bucket) else { continue };
            let is_light = alive_bytes(durable) <= left.min(options.segment_bytes / 4);
            if !is_light || !pen.ledger.trails.get(&bucket).is_some_and(is_old) {
                continue;
            }
            let mut encoded = Encoded::default();
            encoded.push_carry(bucket, durable);
            if pen.has_room_for(&encoded) {
                pen.carry(&encoded).and_then(|()| pen.flush()).map_err(failed(WRITE))?;
                drop(pen);
                self.shared.counts.carried.fetch_add(1, Ordering::Relaxed);
                left = left.saturating_sub((encoded.bytes.len() as u64).max(LEAST_CARRIED));
                sleep(LANES_FIRST);
            }
        }
        Ok(())
    }

    /// The disk is nearly full, but the oldest segment could be cleaned within what is left of the newest.
    fn can_squeeze(&self) -> bool {
        let pen = self.shared.pen();
        let Some(oldest) = pen.segments.front().filter(|_| pen.segments.len() > 1) else { return false };
        let needy = || pen.ledger.trails.iter().filter(|(_, trail)| trail.base <= oldest.ordinal);
        let needy = || needy().map(|(bucket, _)| (*bucket, &pen.ledger.node.replicas[bucket]));
        // This is asked after every group while lanes wait for the pen: what certainly does not fit is not encoded.
        let bytes: usize = needy().map(|(_, durable)| durable.log.bytes()).sum();
        if bytes as u64 > pen.room().min(self.shared.options.segment_bytes / 2) {
            return false;
        }
        let mut encoded = Encoded::default();
        needy().for_each(|(bucket, durable)| encoded.push_carry(bucket, durable));
        encoded.bytes.len() * 2 < self.shared.options.segment_bytes as usize && pen.has_room_for(&encoded)
    }

    /// As many as are wanted, or twice what is alive: cleaning never costs more than it frees.
    fn most_segments(&mut self) -> usize {
        let (pen, options) = (self.shared.pen(), &self.shared.options);
        let wanted = options.segments.max(2);
        let newest = pen.newest().map(|newest| newest.ordinal);
        if pen.segments.len() > wanted && newest != self.weighed {
            let alive: u64 = pen.ledger.node.replicas.values().map(alive_bytes).sum();
            (self.weighed, self.needed) = (newest, (2 * alive / options.segment_bytes + 3) as usize);
        }
        wanted.max(self.needed)
    }

    /// Carries whoever still needs the oldest segment forward, and frees it: about so many bytes, as long as lanes have room to go on; or whatever it
    /// takes. False: nothing is free yet.
    fn free_oldest(&mut self, mut left: Option<&mut u64>) -> Result<bool, Trouble> {
        let Some(oldest) = self.shared.pen().segments.front().map(|segment| segment.ordinal) else { return Ok(false) };
        let needy: Vec<_> = {
            let pen = self.shared.pen();
            pen.ledger.trails.iter().filter(|(_, trail)| trail.base <= oldest).map(|(bucket, _)| *bucket).collect()
        };
        for bucket in needy {
            if left.as_ref().is_some_and(|left| **left == 0 || self.is_narrow(bucket)) {
                return Ok(false);
            }
            let carried = self.carry(bucket)?;
            if let Some(left) = &mut left {
                sleep(LANES_FIRST);
                **left = left.saturating_sub(carried.max(LEAST_CARRIED));
            }
        }
        let free_below = self.with_room(0, |pen| pen.room_for_census(1), Pen::let_go)?;
        self.sync()?;
        let free = self.shared.pen().take_free(free_below);
        let is_any = !free.is_empty();
        for segment in free {
            self.recycle(segment)?;
        }
        Ok(is_any)
    }

    /// Lanes will soon want the room that is left, or that bucket does not fit into it, and another segment is being made. (Not if there are so many
    /// already that it is time.)
    fn is_narrow(&self, bucket: BucketId) -> bool {
        let pen = self.shared.pen();
        let bytes = pen.ledger.node.replicas.get(&bucket).map_or(0, alive_bytes);
        let is_narrow = pen.blanks.is_empty() && pen.room() < bytes.max(self.shared.options.segment_bytes / 4);
        drop(pen);
        is_narrow && !self.is_much()
    }

    /// There are so many segments that lanes are to wait rather than make more of them.
    fn is_much(&self) -> bool {
        self.shared.pen().segments.len() > 2 * self.shared.options.segments.max(self.needed)
    }

    /// How much that was.
    fn carry(&mut self, bucket: BucketId) -> Result<u64, Trouble> {
        let encode = |pen: &Pen| {
            let mut encoded = Encoded::default();
            if let Some(durable) = pen.ledger.node.replicas.get(&bucket) {
                encoded.push_carry(bucket, durable);
            }
            encoded
        };
        // Of the last look: nobody writes between that and the act.
        let encoded = Cell::new(Encoded::default());
        let has_room = |pen: &Pen| {
            let latest = encode(pen);
            let has_room = pen.has_room_for(&latest);
            encoded.set(latest);
            has_room
        };
        let carry = |pen: &mut Pen| {
            let encoded = encoded.take();
            pen.carry(&encoded)?;
            pen.flush().map(|()| encoded.bytes.len() as u64)
        };
        let bytes = self.with_room(0, has_room, carry)?;
        self.shared.counts.carried.fetch_add(1, Ordering::Relaxed);
        Ok(bytes)
    }

    fn recycle(&mut self, segment: InUse) -> Result<(), Trouble> {
        self.shared.counts.recycled.fetch_add(1, Ordering::Relaxed);
        let mut pen = self.shared.pen();
        let is_fit = segment.is_sound && segment.size == self.shared.options.segment_bytes;
        let is_wanted =
            pen.blanks.len() < SPARE || pen.segments.len() + pen.blanks.len() < self.shared.options.segments + SPARE;
        if is_wanted && is_fit {
            pen.blanks.push_back(segment.blank);
            return Ok(());
        }
        drop(pen);
        self.shared.disk.remove(&segment.blank.name).map_err(failed("removing a segment that is not needed"))
    }

    fn let_go_of(&mut self, released: &[Released]) -> Result<(), Trouble> {
        if released.is_empty() { Ok(()) } else { self.drop_tables(&[], released) }
    }

    /// Files of replicas that are erased go; those that are mostly waste are rewritten.
    fn drop_tables(&mut self, batches: &[Batch], released: &[Released]) -> Result<(), Trouble> {
        let shared = self.shared.clone();
        let mut tables = shared.tables();
        let mut concerned = BTreeSet::new();
        for (turn, record) in batches.iter().flat_map(|batch| batch.records.iter().map(|record| (batch.turn, record))) {
            match record {
                NodeRecord::Bucket { bucket, record: Record::Save(image) | Record::Take(image) } => {
                    tables.refer(*bucket, &image.tables);
                    concerned.insert(*bucket);
                }
                NodeRecord::Erase { bucket } => {
                    tables.forget(*bucket, turn);
                    concerned.insert(*bucket);
                }
                NodeRecord::Bucket { bucket, record: Record::Found { .. } | Record::StartOver { .. } } => {
                    concerned.insert(*bucket);
                }
                NodeRecord::Bucket {
                    record:
                        Record::Append { .. }
                        | Record::Commit(_)
                        | Record::Promise(_)
                        | Record::Adopt(_)
                        | Record::Cut { .. },
                    ..
                }
                | NodeRecord::Epoch { .. } => {}
            }
        }
        for Released { bucket, tables: unwanted } in released {
            tables.refer(*bucket, unwanted);
            concerned.insert(*bucket);
        }
        concerned.retain(|bucket| tables.has(*bucket));
        for bucket in concerned {
            let pen = shared.pen();
            let durable = pen.ledger.node.replicas.get(&bucket);
            let done = durable.map_or(Vec::new(), |durable| tables.weigh(bucket, durable));
            // What is promised is in the files that are there, and nobody knows yet under which name it will be asked for.
            let is_promised = tables.is_promised(bucket);
            let is_lost = pen.ledger.node.lost.contains_key(&bucket);
            let next = pen.generation();
            let wasteful = durable.filter(|durable| !is_promised && tables.is_wasteful(bucket, durable, next)).cloned();
            let is_gone = durable.is_none() && !is_lost && !is_promised;
            drop(pen);
            if !done.is_empty() && batches.is_empty() {
                self.sync()?; // what does not refer to them any more may have been written by a lane
            }
            for name in done {
                tables.remove_file(&name).map_err(failed("removing a checkpoint that is not needed"))?;
            }
            if is_gone {
                tables.remove(bucket).map_err(failed("removing a checkpoint that is not needed"))?;
            }
            // Only this thread makes references. (A lane may drop some meanwhile, with a Reign that it writes by itself: see `Ledger::moved`.)
            if let Some(durable) = wasteful {
                self.rewrite_tables(&mut tables, bucket, &durable)?;
            }
        }
        Ok(())
    }

    fn rewrite_tables(&mut self, files: &mut TableFiles, bucket: BucketId, durable: &Durable) -> Result<(), Trouble> {
        let generation = self.shared.pen().generation();
        let Rewritten { tables, old } = match files.rewrite(bucket, durable, generation) {
            Ok(rewritten) => rewritten,
            Err(error) if is_full(&error) => return Ok(()), // the waste stays for now; the next checkpoint tries again
            Err(error) => return Err(Trouble::Failed { what: TABLES, error }),
        };
        self.shared.pen().ledger.moved(bucket, tables);
        self.carry(bucket)?;
        self.sync()?;
        for old in old {
            files.remove_file(&old).map_err(failed("removing a checkpoint that is not needed"))?;
        }
        self.shared.counts.rewritten.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn keep_a_blank(&mut self) {
        // Whether there is space must be known while there is still room to make do without.
        let is_urgent = {
            let pen = self.shared.pen();
            pen.blanks.is_empty() && pen.room() < self.shared.options.segment_bytes / 4
        };
        if self.making.as_ref().is_some_and(|making| is_urgent || making.is_finished()) {
            drop(self.make_blank()); // if it could not be made, that is known now, and tried again when one is needed
        }
        if !self.shared.pen().blanks.is_empty() {
            self.is_short = false;
        } else if self.making.is_none() && !self.is_short {
            let (disk, size) = (self.shared.disk.clone(), self.shared.options.segment_bytes);
            let thread = std::thread::Builder::new().name("journal-blank".into());
            self.making = thread.spawn(move || make_blank(&*disk, size)).ok();
        }
    }

    fn make_blank(&mut self) -> io::Result<()> {
        let made = match self.making.take() {
            Some(making) => making.join().unwrap_or_else(|_| Err(io::Error::other("the thread that made it panicked"))),
            None => make_blank(&*self.shared.disk, self.shared.options.segment_bytes),
        };
        self.is_short = made.is_err();
        self.shared.pen().blanks.push_back(made?);
        Ok(())
    }
}

/// What carrying it forward would write, roughly.
fn alive_bytes(durable: &Durable) -> u64 {
    (durable.log.bytes() + durable.log.runs() * 16 + durable.tables.len() * 40 + 256) as u64
}

/// A new file, filled with zeros and synced: from then on writing into it changes no metadata.
pub(crate) fn make_blank(disk: &dyn Disk, size: u64) -> io::Result<Blank> {
    let numbers = disk.names()?.into_iter();
    let numbers = numbers.filter_map(|name| name.strip_suffix(SEGMENT_SUFFIX)?.parse::<u64>().ok());
    let name = format!("{:08}{SEGMENT_SUFFIX}", numbers.max().unwrap_or_default() + 1);
    let fill = || {
        let file = disk.create(&name)?;
        let zeros = vec![0; ZEROS.min(size as usize)];
        let mut at = 0;
        while at < size {
            let length = zeros.len().min((size - at) as usize);
            file.write_at(at, &zeros[..length])?;
            // Piece by piece: whoever else syncs on this disk meanwhile would wait for all of it.
            file.sync()?;
            at += length as u64;
        }
        disk.sync_names()?;
        Ok(file)
    };
    match fill() {
        Ok(file) => Ok(Blank { name, file }),
        Err(error) => {
            drop(disk.remove(&name)); // half of one helps nobody
            Err(error)
        }
    }
}
