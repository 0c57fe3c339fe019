//! A medium as bad as the journal's assumptions allow, and small histories to write on it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod disk;
pub mod history;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use disk::BadDisk;
use journal::{Journal, Options, Recovered};
use node::BatchId;

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
    journal.start(move |lane, id| seen.lock().unwrap().push((lane, id)));
    (journal, recovered, reports)
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
