//! A file that waits for room. When the disk is full, the meta group cannot go on, but it need not end either: nothing was lost, and
//! whoever fills disks usually empties them again. To redb it looks like a slow disk.
//!
//! Only what is written waits. An error of a sync is passed on: what was written before it may be lost.

use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Patient {
    pub(crate) file: FileBackend,
    /// The process wants to end, and waits for nothing.
    pub(crate) hurry: Arc<AtomicBool>,
}

impl Patient {
    fn until_there_is_room(&self, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut is_told = false;
        loop {
            match write() {
                Err(error) if is_full(&error) && !self.hurry.load(Ordering::Acquire) => {
                    if !is_told {
                        tracing::error!(
                            "the disk under the meta group is full: it waits until there is room, and then goes on"
                        );
                        is_told = true;
                    }
                    sleep(PAUSE);
                }
                done => return done,
            }
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

impl StorageBackend for Patient {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.until_there_is_room(|| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.until_there_is_room(|| self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
