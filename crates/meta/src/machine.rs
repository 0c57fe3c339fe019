//! The state that the log leads to, for openraft; and what this node knows of it.
//!
//! The state is in memory. On disk are the snapshot and the log after it, which lead to it again.

use std::io::Cursor;
use std::sync::Arc;

use blueprint::{Epoch, FormatError, Honest, Instant, MetaState, decode_meta, encode_meta};
use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot, StorageIOError};
use redb::{ReadableDatabase, ReadableTable};
use tokio::sync::watch;

use crate::log::because;
use crate::raft::{Entry, LogId, Membership, SnapshotMeta, StorageError, Types};
use crate::store::{Fault, RECORDS, Store, decode, encode, record};

/// The newest state that this node has heard of: from its own log if it is a member, from answers and pushes otherwise. All of them
/// are states of one history, so the one with the later epoch and clock is the later one.
#[derive(Debug)]
pub(crate) struct Known(watch::Sender<Arc<MetaState>>);

impl Known {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Arc::default()))
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Arc<MetaState>> {
        self.0.subscribe()
    }

    pub(crate) fn get(&self) -> Arc<MetaState> {
        Arc::clone(&self.0.borrow())
    }

    /// From somebody else.
    pub(crate) fn learn(&self, state: &Arc<MetaState>) {
        self.take(state, |known| rank(state) > rank(known));
    }

    /// From the own log: the later of two entries may bear the same stamp.
    fn advance(&self, state: &Arc<MetaState>) {
        self.take(state, |known| rank(state) >= rank(known) && !Arc::ptr_eq(state, known));
    }

    fn take(&self, state: &Arc<MetaState>, is_newer: impl Fn(&Arc<MetaState>) -> bool) {
        self.0.send_if_modified(|known| {
            let newer = is_newer(known);
            if newer {
                *known = Arc::clone(state);
            }
            newer
        });
    }
}

fn rank(state: &MetaState) -> (Epoch, Instant) {
    (state.blueprint.epoch, state.clock)
}

#[derive(Debug)]
pub(crate) struct Machine {
    at: Snapshotter,
    known: Arc<Known>,
}

/// The state at one position of the log.
#[derive(Clone, Debug)]
pub(crate) struct Snapshotter {
    store: Store,
    state: Arc<MetaState>,
    applied: Option<LogId>,
    membership: Membership,
}

impl Machine {
    pub(crate) async fn load(store: Store, known: Arc<Known>) -> Result<Self, Fault> {
        let mut at = Snapshotter { store, state: Arc::default(), applied: None, membership: Membership::default() };
        if let Some((meta, bytes)) = at.read().await? {
            at.state = Arc::new(decode_meta(&bytes).map_err(|error| match error {
                FormatError::UnknownVersion { .. } => Fault::OtherRelease(error.to_string()),
                damage => Fault::Damaged(damage.to_string()),
            })?);
            at.applied = meta.last_log_id;
            at.membership = meta.last_membership;
            known.advance(&at.state);
        }
        Ok(Self { at, known })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Snapshotter;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, Membership), StorageError> {
        Ok((self.at.applied, self.at.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<<Types as openraft::RaftTypeConfig>::R>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut answers = Vec::new();
        for entry in entries {
            self.at.applied = Some(entry.log_id);
            answers.push(match entry.payload {
                EntryPayload::Blank => Vec::new(),
                EntryPayload::Normal(stamped) => {
                    let state = Arc::make_mut(&mut self.at.state);
                    state.tell_wall(stamped.wall);
                    stamped.commands.iter().map(|command| state.apply::<Honest>(stamped.stamp, command)).collect()
                }
                EntryPayload::Membership(membership) => {
                    self.at.membership = Membership::new(Some(entry.log_id), membership);
                    Vec::new()
                }
            });
        }
        // Before anyone is answered: whoever reads afterwards sees it.
        self.known.advance(&self.at.state);
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Snapshotter {
        self.at.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        let bytes = snapshot.into_inner();
        let signature = Some(meta.signature());
        let state = decode_meta(&bytes).map_err(|error| {
            StorageIOError::read_snapshot(signature.clone(), openraft::AnyError::error(error.to_string()))
        })?;
        let written = self.at.write(meta, bytes).await;
        written.map_err(|fault| StorageIOError::write_snapshot(signature, because(&fault)))?;
        self.at.state = Arc::new(state);
        self.at.applied = meta.last_log_id;
        self.at.membership = meta.last_membership.clone();
        self.known.advance(&self.at.state);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, StorageError> {
        let read = self.at.read().await.map_err(|fault| StorageIOError::read_snapshot(None, because(&fault)))?;
        Ok(read.map(|(meta, bytes)| Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) }))
    }
}

impl RaftSnapshotBuilder<Types> for Snapshotter {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, StorageError> {
        let bytes = encode_meta(&self.state);
        // The same log gives the same state, and the same state the same bytes: its position is name enough.
        let snapshot_id = self.applied.map_or_else(|| "empty".to_owned(), |id| id.to_string());
        let meta = SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone(), snapshot_id };
        let written = self.write(&meta, bytes.clone()).await;
        written.map_err(|fault| StorageIOError::write_snapshot(Some(meta.signature()), because(&fault)))?;
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) })
    }
}

impl Snapshotter {
    async fn read(&self) -> Result<Option<(SnapshotMeta, Vec<u8>)>, Fault> {
        let read = self.store.run(|database| {
            let records = database.begin_read()?.open_table(RECORDS)?;
            let Some(meta) = records.get(record::SNAPSHOT_META)? else { return Ok(None) };
            let bytes = records.get(record::SNAPSHOT)?.ok_or_else(|| Fault::Damaged("a snapshot is missing".into()))?;
            Ok(Some((decode(record::SNAPSHOT_META, meta.value())?, bytes.value().to_vec())))
        });
        read.await
    }

    /// Both at once, so that what is on disk is always one snapshot; and never an older one than is there already: one may be built
    /// here while a later one arrives, and the log before that is gone by then.
    async fn write(&self, meta: &SnapshotMeta, bytes: Vec<u8>) -> Result<(), Fault> {
        let (position, meta) = (meta.last_log_id, encode(meta));
        let write = self.store.run(move |database| {
            let change = database.begin_write()?;
            let mut records = change.open_table(RECORDS)?;
            let there = records.get(record::SNAPSHOT_META)?;
            let there = there.map(|b| decode::<SnapshotMeta>(record::SNAPSHOT_META, b.value())).transpose()?;
            if there.is_some_and(|there| there.last_log_id > position) {
                return Ok(());
            }
            records.insert(record::SNAPSHOT_META, meta.as_slice())?;
            records.insert(record::SNAPSHOT, bytes.as_slice())?;
            drop(records);
            Ok(change.commit()?)
        });
        write.await
    }
}
