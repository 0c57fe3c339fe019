//! A look at a journal that changes nothing and takes no lock: also while a node runs, or when none would start.

use std::fmt;
use std::io;
use std::path::Path;

use blueprint::{BucketId, Incarnation, Index, Position, Term};
use serde::Serialize;

use crate::OpenError;
use crate::disk::{Directory, Disk};
use crate::open::{DIRECTORY, recover};
use crate::scan::{self, Scan};
use crate::tables;

#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    pub format: u16,
    pub segments: Vec<SegmentReport>,
    pub free_segments: Vec<String>,
    pub last_sequence: u64,
    /// The highest number that a record says was synced before it.
    pub synced: u64,
    pub was_stopped: bool,
    pub buckets: Vec<BucketReport>,
    pub tables: Vec<TableReport>,
    pub lost: Vec<BucketId>,
    /// Each in words: what was found damaged, unfinished or in doubt.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SegmentReport {
    pub file: String,
    pub ordinal: u64,
    pub first_sequence: u64,
    pub last_sequence: u64,
    pub records: u64,
    pub bytes_used: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct BucketReport {
    pub bucket: BucketId,
    pub incarnation: Incarnation,
    pub promised: Term,
    /// The log begins after this.
    pub base: Position,
    pub last: Position,
    pub commit: Index,
    pub slots_owned: u32,
    pub slots_saved: u32,
    pub table_bytes: u64,
    /// The oldest segment that it needs.
    pub since_segment: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct TableReport {
    pub file: String,
    pub bytes: u64,
}

/// The journal of a node's data directory. While a node runs, its end may change under the eyes of whoever looks, and show as torn.
pub fn inspect(data: &Path) -> Result<Inspection, OpenError> {
    let path = data.join(DIRECTORY);
    if !path.is_dir() {
        let error = io::Error::new(io::ErrorKind::NotFound, "there is no such directory");
        return Err(OpenError::Io { what: format!("find a journal in {}", path.display()), error });
    }
    inspect_on(&Directory::existing(&path))
}

pub fn inspect_on(disk: &dyn Disk) -> Result<Inspection, OpenError> {
    let mut scan = scan::scan(disk, None, &mut |_| {})?;
    let boot = scan.segments.last().map_or([0; 40], |segment| segment.head.boot);
    let recovered = recover(disk, &mut scan, &boot, false);
    Ok(Inspection {
        format: crate::frame::FORMAT,
        segments: segments(&scan),
        free_segments: scan.free.iter().map(|free| free.name.clone()).collect(),
        last_sequence: scan.last,
        synced: scan.synced,
        was_stopped: recovered.was_stopped,
        buckets: buckets(&scan),
        tables: table_files(disk)?,
        lost: recovered.node.lost.keys().copied().collect(),
        notes: recovered.notes.iter().map(ToString::to_string).collect(),
    })
}

fn segments(scan: &Scan) -> Vec<SegmentReport> {
    let report = |segment: &scan::Segment| SegmentReport {
        file: segment.name.clone(),
        ordinal: segment.head.ordinal,
        first_sequence: segment.head.first,
        last_sequence: segment.last,
        records: segment.frames,
        bytes_used: segment.end,
        bytes: segment.size,
    };
    scan.segments.iter().map(report).collect()
}

fn buckets(scan: &Scan) -> Vec<BucketReport> {
    let ledger = &scan.recovery.ledger;
    let report = |(bucket, durable): (&BucketId, &phaser::Durable)| BucketReport {
        bucket: *bucket,
        incarnation: durable.me.incarnation,
        promised: durable.promised,
        base: durable.log.base(),
        last: durable.log.last(),
        commit: durable.commit,
        slots_owned: durable.owned.len(),
        slots_saved: durable.as_of.keys().len(),
        table_bytes: tables::references(durable).map(|(_, table)| table.length).sum(),
        since_segment: ledger.trails.get(bucket).map_or(0, |trail| trail.base),
    };
    ledger.node.replicas.iter().map(report).collect()
}

fn table_files(disk: &dyn Disk) -> Result<Vec<TableReport>, OpenError> {
    let names = disk.names().map_err(|error| OpenError::Io { what: "list the files".into(), error })?;
    let names = names.into_iter().filter(|name| tables::bucket_of(name).is_some());
    let report = |file: String| {
        let bytes = disk.open(&file).and_then(|opened| opened.size()).unwrap_or_default();
        TableReport { file, bytes }
    };
    Ok(names.map(report).collect())
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stop = if self.was_stopped { "clean stop" } else { "no clean stop" };
        writeln!(
            f,
            "journal format {}, last record {}, synced {}, {stop}",
            self.format, self.last_sequence, self.synced
        )?;
        let mut rows = vec![row(["segment", "file", "first", "last", "records", "used", "size"])];
        for s in &self.segments {
            let numbers = [s.first_sequence, s.last_sequence, s.records, s.bytes_used, s.bytes].map(|n| n.to_string());
            rows.push([vec![s.ordinal.to_string(), s.file.clone()], numbers.to_vec()].concat());
        }
        table(f, &rows)?;
        writeln!(f, "free segments: {}", self.free_segments.len())?;
        let mut rows = vec![row([
            "bucket",
            "incarnation",
            "promised",
            "base",
            "last",
            "commit",
            "owned",
            "saved",
            "bytes",
            "since",
        ])];
        for b in &self.buckets {
            let names = [b.bucket.to_string(), b.incarnation.to_string(), b.promised.to_string()];
            let places = [b.base.to_string(), b.last.to_string(), b.commit.to_string()];
            let slots = [b.slots_owned.to_string(), b.slots_saved.to_string()];
            let rest = [b.table_bytes.to_string(), b.since_segment.to_string()];
            rows.push([names.as_slice(), &places, &slots, &rest].concat());
        }
        table(f, &rows)?;
        let mut rows = vec![row(["tables", "bytes"])];
        rows.extend(self.tables.iter().map(|t| vec![t.file.clone(), t.bytes.to_string()]));
        table(f, &rows)?;
        for bucket in &self.lost {
            writeln!(f, "lost: {bucket}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn table(f: &mut fmt::Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            write!(f, "{}{cell:<width$}", if column == 0 { "" } else { "  " }, width = width(column))?;
        }
        writeln!(f)?;
    }
    Ok(())
}
