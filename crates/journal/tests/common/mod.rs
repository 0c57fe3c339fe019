//! A medium as bad as the journal's assumptions allow, and small histories to write on it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod disk;
pub mod history;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use blueprint::{BucketId, Slot};
use bytes::Bytes;
use disk::BadDisk;
use journal::{Journal, Options, Recovered, State};
use node::{BatchId, NodeRecord, StoreId};
use phaser::{Image, Record};

pub const BOOT: &str = "first boot";

pub fn options() -> Options {
    let mut options = Options::new(BOOT);
    options.segment_bytes = 8192;
    options.segments = 3;
    options.census_every = 1500;
    options.rewrite_bytes = 512;
    // Tests ask for syncs; none should come by itself at some moment of its own choosing.
    options.sync_within = Duration::from_secs(3600);
    options
}

/// What a journal has reported as written, in order.
#[derive(Clone, Debug, Default)]
pub struct Reports(Arc<Mutex<Vec<(u16, BatchId)>>>);

impl Reports {
    pub fn all(&self) -> Vec<(u16, BatchId)> {
        self.0.lock().unwrap().clone()
    }

    /// The highest batch of that lane, 0 if none.
    pub fn upto(&self, lane: u16) -> u64 {
        self.all().iter().filter(|(l, _)| *l == lane).map(|(_, id)| id.0).max().unwrap_or_default()
    }
}

pub fn open(disk: &Arc<BadDisk>, options: Options) -> (Journal, Recovered, Reports) {
    let (journal, recovered) = Journal::open_on(disk.clone(), options, &mut |_| {}).expect("it opens");
    let reports = Reports::default();
    let seen = reports.0.clone();
    journal.start(move |lane, id| seen.lock().unwrap().push((lane, id)), on_stored);
    (journal, recovered, reports)
}

/// What journals have stored, by numbers that are used once in all tests.
static STORED: (Mutex<BTreeMap<StoreId, Tables>>, Condvar) = (Mutex::new(BTreeMap::new()), Condvar::new());
type Tables = Vec<(Slot, Bytes)>;
static STORES: AtomicU64 = AtomicU64::new(0);

pub fn on_stored(_lane: u16, id: StoreId, _bucket: BucketId, tables: Tables) {
    STORED.0.lock().unwrap().insert(id, tables);
    STORED.1.notify_all();
}

pub fn store(journal: &Journal, lane: u16, record: &NodeRecord) -> Option<StoreId> {
    let NodeRecord::Bucket { bucket, record: Record::Save(image) } = record else { return None };
    let id = StoreId(STORES.fetch_add(1, Ordering::Relaxed));
    journal.store(lane, id, *bucket, image.tables.clone());
    Some(id)
}

/// None: the journal has failed.
pub fn wait_for(journal: &Journal, id: StoreId) -> Option<Tables> {
    let mut stored = STORED.0.lock().unwrap();
    loop {
        if let Some(tables) = stored.remove(&id) {
            return Some(tables);
        }
        // It is looked at again only because a journal that fails wakes nobody here.
        stored = STORED.1.wait_timeout(stored, Duration::from_millis(2)).unwrap().0;
        if matches!(journal.state(), State::Failed { .. } | State::Stopped) {
            return stored.remove(&id);
        }
    }
}

/// As a node writes them: tables are stored first, and the record refers to them. None: the journal has failed.
pub fn stored(journal: &Journal, lane: u16, records: &[NodeRecord]) -> Option<Vec<NodeRecord>> {
    let ids: Vec<_> = records.iter().map(|record| store(journal, lane, record)).collect();
    let refer = |(record, id): (&NodeRecord, Option<StoreId>)| match (record, id) {
        (NodeRecord::Bucket { bucket, record: Record::Save(image) }, Some(id)) => {
            let image = Image { tables: wait_for(journal, id)?, ..image.clone() };
            Some(NodeRecord::Bucket { bucket: *bucket, record: Record::Save(image) })
        }
        _ => Some(record.clone()),
    };
    records.iter().zip(ids).map(refer).collect()
}

/// Opens, looks, and goes away again without a word.
pub fn recover(disk: &Arc<BadDisk>, options: Options) -> Recovered {
    let (journal, recovered) = Journal::open_on(disk.clone(), options, &mut |_| {}).expect("it opens");
    drop(journal);
    recovered
}

impl Reports {
    pub fn add(&self, lane: u16, id: BatchId) {
        self.0.lock().unwrap().push((lane, id));
    }
}
