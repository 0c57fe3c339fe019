//! Tables that are stored ahead of the records that refer to them, while other things happen.

mod common;

use std::fmt;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use blueprint::{BucketId, Durability, Position, Slot, SlotSet};
use common::disk::BadDisk;
use common::history::{absorbed, append, bucket, found, save};
use common::{on_stored, options, recover, store, stored, wait_for};
use journal::{Disk, DiskFile, Journal, Lock};
use node::{BatchId, NodeRecord};
use phaser::Record;

/// A disk on which something happens at a certain moment: whenever a thread of that name does one of these things.
struct Staged {
    disk: Arc<BadDisk>,
    happens: Mutex<Option<Happens>>,
}

type Happens = Box<dyn FnMut(&str, &str) + Send>;

impl Staged {
    fn open() -> (Arc<Self>, Journal) {
        let staged = Arc::new(Self { disk: BadDisk::new(), happens: Mutex::new(None) });
        let (journal, _) = Journal::open_on(staged.clone(), options(), &mut |_| {}).expect("it opens");
        journal.start(|_, _| {}, on_stored);
        (staged, journal)
    }

    fn when(&self, happens: impl FnMut(&str, &str) + Send + 'static) {
        *self.happens.lock().unwrap() = Some(Box::new(happens));
    }

    fn at(&self, what: &str) {
        let thread = std::thread::current();
        if let (Some(happens), Some(name)) = (&mut *self.happens.lock().unwrap(), thread.name()) {
            happens(name, what);
        }
    }
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl Disk for Staged {
    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.at("names");
        self.disk.sync_names()
    }

    fn lock(&self) -> io::Result<Option<Lock>> {
        self.disk.lock()
    }
}

fn give(journal: &Journal, id: u64, level: Durability, records: &[NodeRecord]) {
    let records = stored(journal, 0, records).expect("the journal is well");
    journal.write(0, BatchId(id), level, records).expect("it is taken");
    journal.sync().expect("the journal is well");
}

/// 1. Tables are to be stored, and wait behind others. 2. Their replica begins anew. 3. They are stored, and nobody wants them. They must
///    not keep their file as it is for ever.
#[test]
fn what_nobody_refers_to_does_not_keep_a_file() {
    let (staged, journal) = Staged::open();
    let mut records = vec![found(1), found(2), append(1, 1, 0, &[5])];
    give(&journal, 1, Durability::Disk, &records);
    let ((arrive, arrived), (go, gone)) = (channel(), channel());
    let mut first = true;
    staged.when(move |thread, what| {
        if thread == "journal-tables" && what == "names" && std::mem::take(&mut first) {
            arrive.send(()).expect("somebody waits");
            gone.recv().expect("somebody says so");
        }
    });
    let other = save(2, 0, &[(1, 10)]);
    let other = store(&journal, 0, &other).expect("it has tables");
    arrived.recv().expect("it is about to sync");
    let late = store(&journal, 0, &save(1, 1, &[(1, 300)])).expect("it has tables");
    let (base, owned) = (Position::new(1, 7), SlotSet::range(Slot(0), Slot(15)));
    records.push(bucket(1, Record::StartOver { base, clock: 1, owned }));
    journal.write(0, BatchId(2), Durability::Disk, records[3..].to_vec()).expect("it is taken");
    go.send(()).expect("it waits");
    journal.sync().expect("the journal is well");
    for (number, id) in [(2, other), (1, late)] {
        journal.release(BucketId(number), wait_for(&journal, id).expect("it is stored"));
    }
    for id in 3..30 {
        records.push(save(1, 7, &[(1, 300)]));
        give(&journal, id, Durability::Disk, &records[records.len() - 1..]);
    }
    let size: usize =
        staged.disk.files().iter().filter(|(name, _)| name.starts_with("bucket-1-")).map(|(_, size)| *size).sum();
    assert!(size < 5 * 300, "{:?}", staged.disk.files());
    drop(journal);
    assert_eq!(recover(&staged.disk, options()).node, absorbed(&records));
}
