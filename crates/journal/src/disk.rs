//! The medium under the journal: a directory of files that are read, written and synced at offsets.
//!
//! What is assumed of it: a sector of 512 bytes is old or new, never a mixture; what was synced stays; of what was not, any subset
//! of sectors may be missing after a crash. Nothing is assumed about order. Tests bring a medium that is as bad as that allows.

use std::any::Any;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Held for as long as the directory is ours.
pub type Lock = Box<dyn Any + Send + Sync>;

pub trait Disk: Debug + Send + Sync {
    fn names(&self) -> io::Result<Vec<String>>;
    /// An existing file.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// A new, empty file; what had that name is gone.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations and removals last.
    fn sync_names(&self) -> io::Result<()>;
    /// `None` when another process has it.
    fn lock(&self) -> io::Result<Option<Lock>>;
}

pub trait DiskFile: Debug + Send + Sync {
    fn size(&self) -> io::Result<u64>;
    /// Fills the buffer, or fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
}

const LOCK: &str = "lock";

/// A directory of the operating system.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Made if it is not there.
    pub fn create(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?; // or the directory itself may be gone after a crash
        }
        Ok(Self { path: path.to_path_buf() })
    }

    pub fn existing(path: &Path) -> Self {
        Self { path: path.to_path_buf() }
    }
}

impl Disk for Directory {
    fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.path)?.collect::<io::Result<Vec<_>>>()?;
        let mut names: Vec<_> = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path.join(name);
        // An inspection may run as someone who can only read.
        let file = OpenOptions::new().read(true).write(true).open(&path).or_else(|_| File::open(&path))?;
        Ok(Arc::new(OnDisk(file)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(self.path.join(name))?;
        Ok(Arc::new(OnDisk(file)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn lock(&self) -> io::Result<Option<Lock>> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(self.path.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[derive(Debug)]
struct OnDisk(File);

impl DiskFile for OnDisk {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
