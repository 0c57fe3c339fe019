//! The one thread that stores tables ahead of the records that will refer to them: whatever is written meanwhile does not wait for it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::journal::{OnStored, Shared};
use crate::queue::ToStore;
use crate::tables::Apart;
use crate::writer::{TABLES, is_full};

/// A full disk is tried again this often. Nothing is refused meanwhile: as long as there are segments, entries are safe in those.
const FULL_RETRY: Duration = Duration::from_millis(100);

/// Bytes that are written before they are synced: whoever syncs a segment meanwhile waits for all of them.
const UNSYNCED: u64 = 1 << 20;

pub(crate) struct Keeper {
    shared: Arc<Shared>,
    on_stored: OnStored,
}

impl Keeper {
    pub(crate) fn new(shared: Arc<Shared>, on_stored: OnStored) -> Self {
        Self { shared, on_stored }
    }

    pub(crate) fn run(self) {
        let mut done = 0;
        while let Some(mut wanted) = self.shared.queue.next_tables(done) {
            done = wanted.iter().map(ToStore::bytes).sum();
            match self.store(&mut wanted) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.shared.fail(TABLES, &error),
            }
            for ToStore { lane, id, bucket, tables, .. } in wanted {
                (self.on_stored)(lane, id, bucket, tables);
            }
        }
    }

    /// False: it is over.
    fn store(&self, wanted: &mut [ToStore]) -> io::Result<bool> {
        let (mut written, mut unsynced): (Vec<Apart>, u64) = (Vec::new(), 0);
        for one in wanted {
            unsynced += one.bytes();
            loop {
                let mut tables = self.shared.tables();
                let generation = self.shared.pen().generation();
                match tables.store_ahead(one, generation) {
                    // What was written to a file before is synced with what is written last.
                    Ok(None) => break,
                    Ok(Some(mut apart)) => {
                        apart.is_new |= written.iter().any(|before| apart.is_of(before) && before.is_new);
                        written.retain(|before| !apart.is_of(before));
                        break written.push(apart);
                    }
                    Err(error) if !is_full(&error) => return Err(error),
                    Err(_) => drop(tables),
                }
                if !self.shared.queue.pause_tables(FULL_RETRY) {
                    return Ok(false);
                }
            }
            if unsynced >= UNSYNCED {
                self.sync(&std::mem::take(&mut written))?;
                unsynced = 0;
            }
        }
        self.sync(&written)?;
        Ok(true)
    }

    fn sync(&self, written: &[Apart]) -> io::Result<()> {
        for apart in written {
            apart.file.sync()?;
        }
        if written.iter().any(|apart| apart.is_new) {
            self.shared.disk.sync_names()?;
        }
        let mut tables = self.shared.tables();
        written.iter().for_each(|apart| tables.on_synced(apart));
        Ok(())
    }
}
