//! A disk in memory: what was not synced may be lost, sector by sector; it may fill up, fail to sync, not give back what it has, or stop
//! at any operation.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};

use journal::{Disk, DiskFile, Lock};

const SECTOR: usize = 512;
/// What cannot be read comes in these.
pub const BLOCK: usize = 4096;

#[derive(Debug, Default)]
pub struct BadDisk {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Clone, Debug, Default)]
struct Inner {
    /// By name; a name that is removed leaves its file to whoever has it open.
    names: BTreeMap<String, usize>,
    /// The names after the last sync of names.
    safe_names: BTreeMap<String, usize>,
    files: Vec<Contents>,
    /// No write makes the sum of sizes larger than this.
    capacity: Option<u64>,
    operations: u64,
    /// From this operation on nothing works any more.
    stop_at: Option<u64>,
    fail_syncs: bool,
    pub syncs: u64,
    locked: bool,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    now: Vec<u8>,
    safe: Vec<u8>,
    /// Blocks that the disk does not give back, until they are written as a whole.
    unreadable: BTreeSet<usize>,
}

impl Contents {
    /// Does that part touch a block that cannot be read?
    fn check_readable(&self, from: usize, until: usize) -> io::Result<()> {
        let is_bad = self.unreadable.iter().any(|block| block * BLOCK < until && from < (block + 1) * BLOCK);
        if is_bad { Err(io::Error::other("the disk cannot read this")) } else { Ok(()) }
    }
}

impl Inner {
    fn operate(&mut self) -> io::Result<()> {
        self.operations += 1;
        match self.stop_at {
            Some(at) if self.operations >= at => Err(io::Error::other("the machine has stopped")),
            _ => Ok(()),
        }
    }

    fn check_space(&self, file: usize, end: usize) -> io::Result<()> {
        let used: usize = self.names.values().map(|file| self.files[*file].now.len()).sum();
        let more = end.saturating_sub(self.files[file].now.len());
        match self.capacity {
            Some(capacity) if more > 0 && (used + more) as u64 > capacity => Err(ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }
}

impl BadDisk {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.inner.lock().unwrap().capacity = capacity;
    }

    pub fn used(&self) -> u64 {
        let inner = self.inner.lock().unwrap();
        inner.names.values().map(|file| inner.files[*file].now.len() as u64).sum()
    }

    pub fn fail_syncs(&self, fail: bool) {
        self.inner.lock().unwrap().fail_syncs = fail;
    }

    pub fn operations(&self) -> u64 {
        self.inner.lock().unwrap().operations
    }

    pub fn stop_at(&self, operation: u64) {
        self.inner.lock().unwrap().stop_at = Some(operation);
    }

    /// What the disk holds if the process dies now and the operating system lives on.
    pub fn after_kill(&self) -> Arc<Self> {
        let mut inner = self.inner.lock().unwrap().clone();
        (inner.stop_at, inner.fail_syncs, inner.locked, inner.operations) = (None, false, false, 0);
        Arc::new(Self { inner: Arc::new(Mutex::new(inner)) })
    }

    /// What it holds if the machine loses power now. `keeps` decides for each sector that was not synced, and for each name.
    pub fn after_power_cut(&self, mut keeps: impl FnMut() -> bool) -> Arc<Self> {
        self.after_power_cut_of(|_| keeps())
    }

    /// The same, by what stands in the sector; names and sizes are decided by the empty one.
    pub fn after_power_cut_of(&self, mut keeps: impl FnMut(&[u8]) -> bool) -> Arc<Self> {
        let after = self.after_kill();
        let mut inner = after.inner.lock().unwrap();
        for file in &mut inner.files {
            let size = if keeps(&[]) { file.now.len() } else { file.safe.len() };
            let mut left = file.safe.clone();
            left.resize(size, 0);
            for (sector, new) in left.chunks_mut(SECTOR).zip(file.now.chunks(SECTOR)) {
                let length = sector.len().min(new.len());
                if sector[..length] != new[..length] && keeps(new) {
                    sector[..length].copy_from_slice(&new[..length]);
                }
            }
            *file = Contents { now: left.clone(), safe: left, unreadable: std::mem::take(&mut file.unreadable) };
        }
        let both = [inner.names.clone(), inner.safe_names.clone()];
        for name in both.iter().flat_map(BTreeMap::keys) {
            let (now, safe) = (both[0].get(name), both[1].get(name));
            if now != safe && !keeps(&[]) {
                match safe {
                    Some(file) => inner.names.insert(name.clone(), *file),
                    None => inner.names.remove(name),
                };
            }
        }
        inner.safe_names = inner.names.clone();
        drop(inner);
        after
    }

    pub fn files(&self) -> Vec<(String, usize)> {
        let inner = self.inner.lock().unwrap();
        inner.names.iter().map(|(name, file)| (name.clone(), inner.files[*file].now.len())).collect()
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let inner = self.inner.lock().unwrap();
        inner.files[inner.names[name]].now.clone()
    }

    /// Changes what is on the disk, behind everybody's back.
    pub fn tamper(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut inner = self.inner.lock().unwrap();
        let file = inner.names[name];
        change(&mut inner.files[file].now);
        inner.files[file].safe = inner.files[file].now.clone();
    }
}

impl BadDisk {
    /// From now on, the disk does not give that block back.
    pub fn make_unreadable(&self, name: &str, block: usize) {
        let mut inner = self.inner.lock().unwrap();
        let file = inner.names[name];
        inner.files[file].unreadable.insert(block);
    }
}

impl Disk for BadDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.inner.lock().unwrap().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = *self.inner.lock().unwrap().names.get(name).ok_or(ErrorKind::NotFound)?;
        Ok(Arc::new(BadFile { inner: self.inner.clone(), file }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut inner = self.inner.lock().unwrap();
        inner.operate()?;
        let file = inner.files.len();
        inner.files.push(Contents::default());
        inner.names.insert(name.to_owned(), file);
        Ok(Arc::new(BadFile { inner: self.inner.clone(), file }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap();
        inner.operate()?;
        inner.names.remove(name).map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap();
        inner.operate()?;
        inner.safe_names = inner.names.clone();
        Ok(())
    }

    fn lock(&self) -> io::Result<Option<Lock>> {
        let mut inner = self.inner.lock().unwrap();
        if inner.locked {
            return Ok(None);
        }
        inner.locked = true;
        Ok(Some(Box::new(Unlock(self.inner.clone()))))
    }
}

struct Unlock(Arc<Mutex<Inner>>);

impl Drop for Unlock {
    fn drop(&mut self) {
        self.0.lock().unwrap().locked = false;
    }
}

#[derive(Debug)]
struct BadFile {
    inner: Arc<Mutex<Inner>>,
    file: usize,
}

impl DiskFile for BadFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.inner.lock().unwrap().files[self.file].now.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let inner = self.inner.lock().unwrap();
        let from = offset as usize;
        inner.files[self.file].check_readable(from, from + buffer.len())?;
        let bytes = &inner.files[self.file].now;
        let part = bytes.get(from..from + buffer.len()).ok_or(ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(part);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap();
        inner.operate()?;
        let end = offset as usize + bytes.len();
        inner.check_space(self.file, end)?;
        let unreadable = &mut inner.files[self.file].unreadable;
        // A block that is written as a whole is well again; to write a part of one, it has to be read.
        unreadable.retain(|block| offset as usize > block * BLOCK || end < (block + 1) * BLOCK);
        inner.files[self.file].check_readable(offset as usize, end)?;
        let now = &mut inner.files[self.file].now;
        if now.len() < end {
            now.resize(end, 0);
        }
        now[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap();
        inner.operate()?;
        if inner.fail_syncs {
            return Err(io::Error::other("the disk is broken"));
        }
        inner.syncs += 1;
        inner.files[self.file].safe = inner.files[self.file].now.clone();
        Ok(())
    }
}
