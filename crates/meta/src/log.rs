//! The log of the meta group and its vote, for openraft.

use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{AnyError, EntryPayload, LogState, OptionalSend, RaftLogReader, StorageIOError};
use redb::{ReadableDatabase, ReadableTable};

use crate::raft::{Entry, LogId, StorageError, Types, Vote};
use crate::recent::Recent;
use crate::store::{Fault, LOG, RECORDS, Store, decode, encode, record};

/// One message to a voter that lags carries about so many bytes of entries, and at least one entry.
const READ_BYTES: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) struct LogStore {
    store: Store,
    recent: Arc<Mutex<Recent>>,
}

impl LogStore {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, recent: Arc::default() }
    }

    /// Where it ends.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.recent().last()
    }

    /// From the one on, before the other.
    async fn read(&self, from: u64, to: u64, bytes: usize) -> Result<Vec<Entry>, StorageError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let recent = self.recent().get(from, to, bytes);
        if let Some(entries) = recent {
            return Ok(entries);
        }
        let read = self.store.run(move |database| {
            let log = database.begin_read()?.open_table(LOG)?;
            let (mut entries, mut left) = (Vec::new(), bytes);
            for row in log.range(from..to)? {
                let (_, value) = row?;
                let value = value.value();
                if value.len() > left && !entries.is_empty() {
                    break;
                }
                left = left.saturating_sub(value.len());
                entries.push(decode("an entry of the log", value)?);
            }
            Ok(entries)
        });
        read.await.map_err(|fault| StorageIOError::read_logs(because(&fault)).into())
    }

    /// Nothing that is done under this lock can leave it half done.
    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        let from = match range.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        self.read(from, to, usize::MAX).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, StorageError> {
        self.read(start, end, READ_BYTES).await
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        let read = self.store.run(|database| {
            let view = database.begin_read()?;
            let last_purged_log_id = purged_of(&view.open_table(RECORDS)?)?;
            let last_log_id = last_of(&view.open_table(LOG)?)?.or(last_purged_log_id);
            Ok(LogState { last_purged_log_id, last_log_id })
        });
        let state = read.await.map_err(|fault| StorageIOError::read_logs(because(&fault)))?;
        self.recent().set_last(state.last_log_id);
        Ok(state)
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let put = self.store.put(record::VOTE, vote).await;
        put.map_err(|fault| StorageIOError::write_vote(because(&fault)).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        let get = self.store.get(record::VOTE).await;
        get.map_err(|fault| StorageIOError::read_vote(because(&fault)).into())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        *self.store.committed() = Some(encode(&committed));
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        let unwritten = self.store.committed().clone();
        let committed = match unwritten {
            Some(bytes) => decode(record::COMMITTED, &bytes).map(Some),
            None => self.store.get::<Option<LogId>>(record::COMMITTED).await,
        };
        committed.map(Option::flatten).map_err(|fault| StorageIOError::read(because(&fault)).into())
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let (mut rows, mut appended) = (Vec::new(), Vec::new());
        for entry in entries {
            if let EntryPayload::Normal(stamped) = &entry.payload {
                stamped.mark.set();
            }
            let (index, bytes) = (entry.log_id.index, encode(&entry));
            appended.push((entry, bytes.len()));
            rows.push((index, bytes));
        }
        let committed = self.store.committed().take();
        let write = self.store.run(move |database| {
            let change = database.begin_write()?;
            if let Some(committed) = committed {
                change.open_table(RECORDS)?.insert(record::COMMITTED, committed.as_slice())?;
            }
            let mut log = change.open_table(LOG)?;
            for (index, bytes) in &rows {
                log.insert(index, bytes.as_slice())?;
            }
            drop(log);
            Ok(change.commit()?)
        });
        match write.await {
            Ok(()) => {
                self.recent().push(appended);
                callback.log_io_completed(Ok(()));
                Ok(())
            }
            Err(fault) => {
                callback.log_io_completed(Err(std::io::Error::other(fault.to_string())));
                Err(StorageIOError::write_logs(because(&fault)).into())
            }
        }
    }

    async fn truncate(&mut self, since: LogId) -> Result<(), StorageError> {
        self.recent().truncate(since.index);
        let write = self.store.run(move |database| {
            let change = database.begin_write()?;
            change.open_table(LOG)?.retain_in(since.index.., |_, _| false)?;
            let last = match last_of(&change.open_table(LOG)?)? {
                Some(last) => Some(last),
                None => purged_of(&change.open_table(RECORDS)?)?,
            };
            change.commit()?;
            Ok(last)
        });
        let last = write.await.map_err(|fault| StorageIOError::write_logs(because(&fault)))?;
        self.recent().set_last(last);
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), StorageError> {
        self.recent().purge(upto);
        let bytes = encode(&upto);
        let write = self.store.run(move |database| {
            let change = database.begin_write()?;
            change.open_table(RECORDS)?.insert(record::PURGED, bytes.as_slice())?;
            change.open_table(LOG)?.retain_in(..=upto.index, |_, _| false)?;
            Ok(change.commit()?)
        });
        write.await.map_err(|fault| StorageIOError::write_logs(because(&fault)).into())
    }
}

fn last_of(log: &impl ReadableTable<u64, &'static [u8]>) -> Result<Option<LogId>, Fault> {
    let last = log.last()?.map(|(_, bytes)| decode::<Entry>("the last entry", bytes.value())).transpose()?;
    Ok(last.map(|entry| entry.log_id))
}

fn purged_of(records: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<Option<LogId>, Fault> {
    records.get(record::PURGED)?.map(|bytes| decode(record::PURGED, bytes.value())).transpose()
}

pub(crate) fn because(fault: &Fault) -> AnyError {
    AnyError::error(fault.to_string())
}
