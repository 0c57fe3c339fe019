//! Opening a journal: what is there, what is missing, and what that means.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use blueprint::BucketId;
use node::NodeDurable;

use crate::disk::{Directory, Disk};
use crate::frame::Newest;
use crate::journal::Journal;
use crate::notes::Note;
use crate::pen::{Beginning, Blank, InUse, Pen};
use crate::scan::{self, Scan};
use crate::tables::{self, TableFiles};
use crate::{frame, ledger};

/// The directory under a node's data directory.
pub(crate) const DIRECTORY: &str = "journal";
const LEAST_SEGMENT: u64 = 8192;
const MOST_SEGMENT: u64 = 1 << 31;

#[derive(Clone, Debug)]
pub struct Options {
    /// The size of a segment. From 8 KiB (which is for tests: every segment begins with a list of all buckets) to 2 GiB.
    pub segment_bytes: u64,
    /// Segments in use before the oldest is cleaned; more, if what is alive needs them.
    pub segments: usize,
    /// What was written at level memory is synced within this time.
    pub sync_within: Duration,
    /// Bytes between two lists of all buckets. After damage, only a later record or such a list proves a bucket whole.
    pub census_every: u64,
    /// Tables go to another file when the one they went to is larger than this and half of it is of no use.
    pub rewrite_bytes: u64,
    /// Batches that are queued or being written; beyond this `write` waits. More than all lanes have under way in a healthy node.
    pub queue_batches: usize,
    /// The same in bytes: memory stays bounded.
    pub queue_bytes: u64,
    /// Names this run of the operating system: `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// The [`Journal::number`] of the journal that must be here, once there was one: its absence is no fresh start.
    pub number: Option<u64>,
}

impl Options {
    /// The defaults, in this run of the operating system. Where it does not say which that is, every start counts as a restart.
    pub fn for_this_machine() -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let boot_id = boot_id.unwrap_or_else(|_| format!("unknown {:016x}", RandomState::new().hash_one(0)));
        Self::new(boot_id.trim())
    }

    pub fn new(boot_id: &str) -> Self {
        Self {
            segment_bytes: 16 << 20,
            segments: 8,
            sync_within: Duration::from_secs(1),
            census_every: 1 << 20,
            rewrite_bytes: 1 << 20,
            queue_batches: 4096,
            queue_bytes: 256 << 20,
            boot_id: boot_id.to_owned(),
            number: None,
        }
    }
}

/// How far reading has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub segments_read: u64,
    pub segments: u64,
    pub bytes_read: u64,
    pub bytes: u64,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Recovered {
    pub node: NodeDurable,
    /// The operating system restarted without a clean stop, and these buckets had answered before they synced (R10). They stay here
    /// from start to start, until the replica begins anew, adopts a new incarnation, or [`Journal::trust`] is called.
    pub doubtful: BTreeSet<BucketId>,
    pub notes: Vec<Note>,
    /// The last journal ended with a clean stop.
    pub was_stopped: bool,
    pub bytes_read: u64,
    pub table_bytes_read: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "another process has this data directory open. Two nodes must never share one. Stop the other process (it holds the file \
         \"lock\" in the journal directory), or start this one with another data directory."
    )]
    InUse,
    #[error(
        "{file} was written by another release (format {version}; this one reads format {}). Nothing was changed. Start the \
         release that wrote it, or one that says it can read it.",
        frame::FORMAT
    )]
    Version { file: String, version: u16 },
    #[error(
        "{file} belongs to the journal of another node. Nothing was changed. Files were copied between data directories: put each \
         back where it came from."
    )]
    Mixed { file: String },
    #[error(
        "the journal of this node is not there: it was removed, or its disk is not mounted. Without it the node would forget what it \
         promised and acknowledge what it does not have, so it does not start. Mount or restore the directory \"journal\" as it was. If \
         it is gone for good, so is this node: move its whole data directory away, and let a new node join in its place."
    )]
    Gone,
    #[error(
        "the journal that is here belongs to another node, or to an earlier one in this place (its number is {found}, and not \
         {expected}). With it the node would forget what it promised, so it does not start. Nothing was changed. Put the directory \
         \"journal\" of this node back. If it is gone for good, so is this node: move its whole data directory away, and let a new \
         node join in its place."
    )]
    Another { found: u64, expected: u64 },
    #[error("the setting {name} is {value}, which cannot work: {why}.")]
    Setting { name: &'static str, value: u64, why: &'static str },
    #[error(
        "could not {what}: {error}. Nothing was lost by this. Check the disk and the rights on the data directory."
    )]
    Io { what: String, error: io::Error },
}

fn io_error(what: &str) -> impl FnOnce(io::Error) -> OpenError {
    let what = what.to_owned();
    move |error| OpenError::Io { what, error }
}

impl Journal {
    /// The journal of a node's data directory, made if it is not there.
    pub fn open(
        data: &Path,
        options: Options,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, Recovered), OpenError> {
        let path = data.join(DIRECTORY);
        let disk = Directory::create(&path).map_err(io_error(&format!("make the directory {}", path.display())))?;
        Self::open_on(Arc::new(disk), options, progress)
    }

    pub fn open_on(
        disk: Arc<dyn Disk>,
        options: Options,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, Recovered), OpenError> {
        check(&options)?;
        let lock = disk.lock().map_err(io_error("lock the journal's directory"))?.ok_or(OpenError::InUse)?;
        let mut scan = scan::scan(&*disk, options.number, progress)?;
        let number = number(&scan, options.number)?;
        let has_failed = has_failed(&*disk)?;
        let recovered = recover(&*disk, &mut scan, &frame::boot(&options.boot_id), has_failed);
        scan::settle_on_disk(&scan).map_err(io_error("sync the end of the journal"))?;
        let mut tables = TableFiles::new(disk.clone(), options.rewrite_bytes);
        remove_unreferenced(&*disk, &scan)?;
        for (bucket, durable) in &scan.recovery.ledger.node.replicas {
            tables.adopt(*bucket, durable).map_err(io_error("open a checkpoint"))?;
        }
        let is_empty = scan.segments.is_empty() && scan.recovery.ledger.in_doubt.is_empty();
        if scan.journal.is_none() || is_empty {
            // Whoever remembers the number must find it again, also if nothing is ever written. And where nothing ever was, there is
            // nothing to miss, once what is not sound is removed.
            let newest = Newest { journal: number, ordinal: 0, synced: 0 };
            newest.store(&*disk).map_err(io_error("give the journal its number"))?;
        }
        let blanks = if scan.has_news { VecDeque::new() } else { blanks(&*disk, &scan, options.segment_bytes)? };
        // A process that was killed may have made a file and not come to make its name last; it would be written to, and synced, and
        // gone after a power cut.
        disk.sync_names().map_err(io_error("sync the journal's directory"))?;
        let in_use = scan.segments.iter().map(|segment| InUse {
            ordinal: segment.head.ordinal,
            size: segment.size,
            is_sound: segment.unreadable.is_empty(),
            blank: Blank { name: segment.name.clone(), file: segment.file.clone() },
        });
        let mut ledger = scan.recovery.ledger;
        ledger.uneasy.clear(); // all of it is synced by now
        let beginning = Beginning {
            ledger,
            segments: in_use.collect(),
            blanks,
            journal: number,
            life: random(),
            next_ordinal: scan.next_ordinal,
            next_sequence: scan.next_sequence,
            last: scan.last,
        };
        let pen = Pen::new(&options, beginning);
        Ok((Self::new(options, disk, lock, pen, tables, has_failed), recovered))
    }
}

fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Which journal this is: a new one, unless there is one, or should be.
fn number(scan: &Scan, expected: Option<u64>) -> Result<u64, OpenError> {
    match (scan.journal, expected) {
        (Some(found), Some(expected)) if found != expected => Err(OpenError::Another { found, expected }),
        (None, Some(_)) if scan.is_vacant => Err(OpenError::Gone),
        (Some(number), _) | (None, Some(number)) => Ok(number), // damaged beyond recognition, and still the one
        (None, None) => Ok(random() >> 1), // other programs read it, and some of them know no larger ones
    }
}

/// A journal that failed leaves this file. What the operating system was told to write then may be gone from its memory too, and after a
/// failed sync nobody says so: for level memory that is as bad as a restart of the operating system.
pub(crate) const FAILED: &str = "failed";

fn has_failed(disk: &dyn Disk) -> Result<bool, OpenError> {
    let names = disk.names().map_err(io_error("list the files of the journal"))?;
    Ok(names.iter().any(|name| name == FAILED))
}

fn check(options: &Options) -> Result<(), OpenError> {
    let refuse = |name, value, why| Err(OpenError::Setting { name, value, why });
    if !(LEAST_SEGMENT..=MOST_SEGMENT).contains(&options.segment_bytes) || !options.segment_bytes.is_multiple_of(4096) {
        return refuse("segment_bytes", options.segment_bytes, "it must be a multiple of 4096, from 8192 up to 2 GiB");
    }
    if options.queue_batches == 0 || options.queue_bytes == 0 {
        return refuse("queue_batches or queue_bytes", 0, "with an empty queue nothing could ever be written");
    }
    Ok(())
}

/// Tables are read, and whoever cannot be made whole is lost. For `inspect` too: changes nothing on disk.
pub(crate) fn recover(disk: &dyn Disk, scan: &mut Scan, boot: &frame::Boot, has_failed: bool) -> Recovered {
    let (tables, table_bytes_read) = load_tables(disk, scan);
    // Before there are two of each: what is kept here and what a lane goes on with have the same memory.
    scan.recovery.ledger.node.replicas.values_mut().for_each(|durable| durable.log.gather());
    let mut node = scan.recovery.ledger.node.clone();
    node.epochs_in_doubt = !scan.recovery.ledger.in_doubt.is_empty();
    for (bucket, durable) in &mut node.replicas {
        durable.tables = tables.get(bucket).cloned().unwrap_or_default();
    }
    let was_stopped = scan.recovery.stopped || scan.segments.is_empty();
    let restarted = scan.segments.last().is_some_and(|segment| segment.head.boot != *boot);
    let ledger = &mut scan.recovery.ledger;
    if (restarted || has_failed) && !was_stopped {
        ledger.doubtful.extend(ledger.uneasy.keys().copied());
    }
    ledger.doubtful.retain(|bucket| ledger.node.replicas.contains_key(bucket));
    let doubtful = ledger.doubtful.clone();
    if !doubtful.is_empty() {
        scan.notes.push(Note::Doubtful { buckets: doubtful.iter().copied().collect() });
    }
    let bytes_read = scan.segments.iter().map(|segment| segment.size).sum();
    Recovered { node, doubtful, notes: scan.notes.clone(), was_stopped, bytes_read, table_bytes_read }
}

type Tables = BTreeMap<BucketId, BTreeMap<blueprint::Slot, bytes::Bytes>>;

fn load_tables(disk: &dyn Disk, scan: &mut Scan) -> (Tables, u64) {
    let (mut all, mut total, mut damaged) = (Tables::new(), 0, Vec::new());
    for (bucket, durable) in &scan.recovery.ledger.node.replicas {
        match tables::load_all(disk, *bucket, &durable.tables) {
            Ok((tables, bytes)) => {
                all.insert(*bucket, tables);
                total += bytes;
            }
            Err((slot, file)) => damaged.push(Note::Table { bucket: *bucket, file, slot: slot.0 }),
        }
    }
    for note in damaged {
        if let Note::Table { bucket, .. } = note {
            scan.recovery.lose(bucket);
            scan.notes.extend([note, Note::ReplicaLost { bucket }]);
        }
    }
    (all, total)
}

/// Files of tables that no replica refers to: of replicas that were erased, or of a rewrite that did not come to its end. Those of
/// lost replicas are kept for whoever wants to look into it.
fn remove_unreferenced(disk: &dyn Disk, scan: &Scan) -> Result<(), OpenError> {
    let ledger::Ledger { node, .. } = &scan.recovery.ledger;
    let of = |(bucket, durable): (&BucketId, &phaser::Durable)| {
        let bucket = *bucket;
        let generations: BTreeSet<u64> = tables::references(durable).map(|(_, table)| table.generation).collect();
        generations.into_iter().map(move |generation| tables::file_name(bucket, generation))
    };
    let referenced: BTreeSet<String> = node.replicas.iter().flat_map(of).collect();
    // Without any segment nobody can tell what was referred to, nor which replicas there were while that is in doubt.
    if scan.segments.is_empty() || !scan.recovery.ledger.in_doubt.is_empty() {
        return Ok(());
    }
    for name in disk.names().map_err(io_error("list the files of the journal"))? {
        let Some(bucket) = tables::bucket_of(&name) else { continue };
        if !referenced.contains(&name) && !node.lost.contains_key(&bucket) {
            disk.remove(&name).map_err(io_error(&format!("remove {name}")))?;
        }
    }
    Ok(())
}

/// Free segments of the size that is wanted now; the others go, and those that the disk does not give back.
fn blanks(disk: &dyn Disk, scan: &Scan, size: u64) -> Result<VecDeque<Blank>, OpenError> {
    let mut blanks = VecDeque::new();
    for scan::Free { name, size: length, is_sound } in &scan.free {
        if *length == size && *is_sound {
            let file = disk.open(name).map_err(io_error(&format!("open {name}")))?;
            blanks.push_back(Blank { name: name.clone(), file });
        } else {
            disk.remove(name).map_err(io_error(&format!("remove {name}")))?;
        }
    }
    Ok(blanks)
}
