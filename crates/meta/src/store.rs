//! The file: log, vote, snapshot and identity, in one redb database.
//!
//! Everything here blocks, so it runs on the threads that tokio keeps for that. An error of the disk is never retried as if nothing
//! had happened: openraft stops at the first one. A full disk is none of these (`patient.rs`).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use blueprint::NodeId;
use redb::backends::FileBackend;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ClusterId;
use crate::patient::Patient;

pub(crate) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
pub(crate) const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");

/// Raised whenever what one release wrote could be misread by another: entries, records, their names. (Snapshots say theirs themselves.)
const FORMAT: u16 = 5;
/// Of files that do not say theirs.
const FIRST_FORMAT: u16 = 1;

/// What is kept besides the log, each under its name.
pub(crate) mod record {
    /// Its value is never anything but two bytes, so that every release can tell.
    pub(crate) const FORMAT: &str = "format";
    pub(crate) const IDENTITY: &str = "identity";
    pub(crate) const VOTE: &str = "vote";
    pub(crate) const COMMITTED: &str = "committed";
    pub(crate) const PURGED: &str = "purged";
    pub(crate) const SNAPSHOT_META: &str = "snapshot meta";
    pub(crate) const SNAPSHOT: &str = "snapshot";
    pub(crate) const GUIDE: &str = "guide";
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub cluster: ClusterId,
    pub me: NodeId,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "{} is in use by another process: two nodes cannot share a data directory. Stop the other one, or give this one a directory \
         of its own", .0.display()
    )]
    Locked(PathBuf),
    #[error(
        "{} belongs to cluster {found}, and cluster {expected} was asked for: nothing was changed. Look whether the data directory is \
         the right one; to move this node to the other cluster, give it an empty directory", .path.display()
    )]
    WrongCluster { path: PathBuf, found: ClusterId, expected: ClusterId },
    #[error(
        "{} belongs to {found}, and this is {expected}: the file was copied from another node. Two nodes with one memory would break \
         promises of each other; put the right file back, or start with an empty directory", .path.display()
    )]
    WrongNode { path: PathBuf, found: NodeId, expected: NodeId },
    #[error(
        "{} belongs to cluster {cluster} already: it can neither start a new one nor join another. Start the node without --init and \
         --join, or give it an empty directory", .path.display()
    )]
    Taken { path: PathBuf, cluster: ClusterId },
    #[error(
        "{} belongs to no cluster yet: this node never finished joining one. Start it with --init or --join", .0.display()
    )]
    Vacant(PathBuf),
    #[error("{} cannot be opened: {source}. Look at the disk and the permissions of the directory", .path.display())]
    Disk { path: PathBuf, source: Box<redb::Error> },
    #[error(
        "{} was written by another release ({what}). Nothing was changed. Start the release that wrote it, or one that says it can read \
         it", .path.display()
    )]
    OtherRelease { path: PathBuf, what: String },
    #[error(
        "{} holds something that cannot be read ({what}): it is damaged. If other voters are alive, start this node with an empty \
         directory", .path.display()
    )]
    Damaged { path: PathBuf, what: String },
    #[error("the settings of the meta group contradict each other: {0}. Correct them")]
    Settings(String),
    #[error("the first command of the new cluster was refused: {0}")]
    Refused(#[from] blueprint::Refusal),
    #[error("the meta group did not start: {0}. Look at the messages before this one")]
    Stopped(String),
}

/// What the disk answers in operation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the file of the meta group is closed")]
    Closed,
    #[error("the disk under the meta group fails: {0}")]
    Disk(Box<redb::Error>),
    #[error("the file of the meta group was written by another release: {0}")]
    OtherRelease(String),
    #[error("the file of the meta group is damaged: {0}")]
    Damaged(String),
}

impl<E: Into<redb::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Disk(Box::new(error.into()))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    path: Arc<PathBuf>,
    /// None once closed. The lock of the file goes with it, whoever still holds on to this.
    database: Arc<RwLock<Option<Database>>>,
    hurry: Arc<AtomicBool>,
    /// Up to where the log is committed, if that is not in the file yet. A node that starts again knows more at once by it, and nothing
    /// depends on it: so it goes with the next append, or when the file is closed.
    committed: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Store {
    /// Makes the file if there is none.
    pub(crate) async fn open(path: &Path) -> Result<Self, OpenError> {
        let owned = path.to_path_buf();
        let hurry = Arc::new(AtomicBool::new(false));
        let patience = Arc::clone(&hurry);
        let opened = blocking(move || {
            let database = create(&owned, patience).map_err(|error| match error {
                DatabaseError::DatabaseAlreadyOpen => OpenError::Locked(owned.clone()),
                DatabaseError::UpgradeRequired(of) => {
                    OpenError::OtherRelease { path: owned.clone(), what: format!("by redb in its file format {of}") }
                }
                DatabaseError::Storage(redb::StorageError::Corrupted(what)) => {
                    OpenError::Damaged { path: owned.clone(), what }
                }
                DatabaseError::Storage(redb::StorageError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                    OpenError::Damaged { path: owned.clone(), what: error.to_string() }
                }
                other => OpenError::Disk { path: owned.clone(), source: Box::new(other.into()) },
            })?;
            make_tables(&database).map_err(|fault| opening(&owned, fault))?;
            // If it was just made, its name too must outlive a power cut: or a voter would come back without its vote.
            let named = sync_directory_of(&owned).map_err(redb::Error::Io);
            named.map_err(|error| OpenError::Disk { path: owned.clone(), source: Box::new(error) })?;
            Ok::<_, OpenError>(database)
        });
        let database = opened.await?;
        Ok(Self {
            path: Arc::new(path.to_path_buf()),
            database: Arc::new(RwLock::new(Some(database))),
            hurry,
            committed: Arc::default(),
        })
    }

    pub(crate) fn committed(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fault(&self, fault: Fault) -> OpenError {
        opening(&self.path, fault)
    }

    /// Whoever comes later finds it closed; whoever is at it finishes first.
    pub(crate) async fn close(&self) {
        self.hurry.store(true, Ordering::Release);
        let (database, committed) = (Arc::clone(&self.database), self.committed().take());
        blocking(move || {
            let database = database.write().unwrap_or_else(PoisonError::into_inner).take();
            if let (Some(database), Some(committed)) = (&database, committed)
                && let Err(fault) = put(database, record::COMMITTED, &committed)
            {
                tracing::warn!(%fault, "what is committed could not be noted down");
            }
        })
        .await;
    }

    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&Database) -> Result<T, Fault> + Send + 'static,
    {
        let database = Arc::clone(&self.database);
        blocking(move || {
            let open = database.read().unwrap_or_else(PoisonError::into_inner);
            work(open.as_ref().ok_or(Fault::Closed)?)
        })
        .await
    }

    /// Forgets everything.
    pub(crate) async fn clear(&self) -> Result<(), Fault> {
        self.run(|database| {
            let change = database.begin_write()?;
            change.delete_table(LOG)?;
            change.delete_table(RECORDS)?;
            change.commit()?;
            make_tables(database)
        })
        .await
    }

    pub(crate) async fn get<T>(&self, name: &'static str) -> Result<Option<T>, Fault>
    where
        T: DeserializeOwned + Send + 'static,
    {
        self.run(move |database| {
            let records = database.begin_read()?.open_table(RECORDS)?;
            records.get(name)?.map(|bytes| decode(name, bytes.value())).transpose()
        })
        .await
    }

    /// Safe on disk when this returns.
    pub(crate) async fn put<T: Serialize>(&self, name: &'static str, value: &T) -> Result<(), Fault> {
        let bytes = encode(value);
        self.run(move |database| put(database, name, &bytes)).await
    }
}

fn put(database: &Database, name: &str, bytes: &[u8]) -> Result<(), Fault> {
    let change = database.begin_write()?;
    change.open_table(RECORDS)?.insert(name, bytes)?;
    Ok(change.commit()?)
}

fn create(path: &Path, hurry: Arc<AtomicBool>) -> Result<Database, DatabaseError> {
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
    Database::builder().create_with_backend(Patient { file: FileBackend::new(file)?, hurry })
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).expect("every collection has a length and memory is all it takes")
}

/// All of the bytes, or none: those of another release could begin with something that looks right.
pub(crate) fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, Fault> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(Fault::Damaged(format!("{what}: {} bytes too many", rest.len()))),
        Err(error) => Err(Fault::Damaged(format!("{what}: {error}"))),
    }
}

fn sync_directory_of(path: &Path) -> std::io::Result<()> {
    let directory = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(directory)?.sync_all()
}

/// Of a file that has none yet. One that has some says in which format they are; if that is not ours, nothing is changed.
fn make_tables(database: &Database) -> Result<(), Fault> {
    let change = database.begin_write()?;
    let (log, mut records) = (change.open_table(LOG)?, change.open_table(RECORDS)?);
    if log.is_empty()? && records.is_empty()? {
        records.insert(record::FORMAT, FORMAT.to_le_bytes().as_slice())?;
    }
    let said = records.get(record::FORMAT)?.map(|said| said.value().try_into().map(u16::from_le_bytes));
    let format = said.unwrap_or(Ok(FIRST_FORMAT));
    match format.map_err(|_| Fault::Damaged("its format is no number".into()))? {
        FORMAT => {
            drop((log, records));
            Ok(change.commit()?)
        }
        other => Err(Fault::OtherRelease(format!("in format {other}; this one reads format {FORMAT}"))),
    }
}

fn opening(path: &Path, fault: Fault) -> OpenError {
    let path = path.to_path_buf();
    match fault {
        Fault::Disk(source) => OpenError::Disk { path, source },
        Fault::OtherRelease(what) => OpenError::OtherRelease { path, what },
        other => OpenError::Damaged { path, what: other.to_string() },
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
