//! Checkpoints: for each bucket one file of slot tables, only ever appended to. The newest table of a slot counts.
//!
//! Records in the journal refer to them ([`TableRef`]), so they never keep a segment alive. A table is synced before the record that
//! refers to it is written, so a reference that can be read has something to refer to. When more than half of a file is not
//! referred to any more, what is left is copied to a new file; the old one goes when the new references are synced. Not while there
//! are tables in it that a record may yet refer to: those are *promised*.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::Arc;

use blueprint::{BucketId, Slot};
use bytes::Bytes;
use crc32c::crc32c;
use phaser::Durable;

use crate::content::TableRef;
use crate::disk::{Disk, DiskFile};
use crate::queue::ToStore;

const TABLES_SUFFIX: &str = ".tables";

#[derive(Debug)]
pub(crate) struct TableFiles {
    disk: Arc<dyn Disk>,
    files: BTreeMap<BucketId, TableFile>,
    /// Stored, and not referred to by any record yet: the first table of each, and its turn.
    promised: BTreeMap<BucketId, Vec<(u64, Bytes)>>,
}

#[derive(Debug)]
struct TableFile {
    generation: u64,
    file: Arc<dyn DiskFile>,
    size: u64,
    state: Written,
}

/// A file that is to be synced by whoever wrote to it.
#[derive(Debug)]
pub(crate) struct Apart {
    bucket: BucketId,
    /// With what was written.
    size: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) is_new: bool,
}

impl Apart {
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
    }
}

/// What became of a rewrite.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// References to where the tables are now.
    pub(crate) tables: Vec<(Slot, Bytes)>,
    /// The file that is not needed once these are synced.
    pub(crate) old: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Synced,
    Unsynced,
    /// Not even its name is.
    New,
}

pub(crate) fn file_name(bucket: BucketId, generation: u64) -> String {
    format!("bucket-{}-{generation}{TABLES_SUFFIX}", bucket.0)
}

/// The bucket of a file of tables.
pub(crate) fn bucket_of(name: &str) -> Option<BucketId> {
    let (bucket, generation) = name.strip_suffix(TABLES_SUFFIX)?.strip_prefix("bucket-")?.split_once('-')?;
    generation.parse::<u64>().ok()?;
    Some(BucketId(bucket.parse().ok()?))
}

impl TableFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, files: BTreeMap::new(), promised: BTreeMap::new() }
    }

    /// Goes on with the file that a replica refers to, if it refers to one only.
    pub(crate) fn adopt(&mut self, bucket: BucketId, durable: &Durable) -> io::Result<()> {
        let mut generations: Vec<_> = references(durable).map(|(_, table)| table.generation).collect();
        generations.sort_unstable();
        generations.dedup();
        if let Some(generation) = generations.last().copied() {
            let file = self.disk.open(&file_name(bucket, generation))?;
            let size = file.size()?;
            self.files.insert(bucket, TableFile { generation, file, size, state: Written::Synced });
        }
        Ok(())
    }

    /// Appends tables and puts references in their place. After an error nothing has changed, and it may be tried again.
    pub(crate) fn store(&mut self, bucket: BucketId, tables: &mut [(Slot, Bytes)], generation: u64) -> io::Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        if let Entry::Vacant(vacant) = self.files.entry(bucket) {
            let file = self.disk.create(&file_name(bucket, generation))?;
            vacant.insert(TableFile { generation, file, size: 0, state: Written::New });
        }
        let file = self.files.get_mut(&bucket).expect("just made");
        let mut bytes = Vec::with_capacity(tables.iter().map(|(_, table)| table.len()).sum());
        let mut places = Vec::with_capacity(tables.len());
        for (_, table) in tables.iter() {
            let (offset, length) = (file.size + bytes.len() as u64, table.len() as u64);
            places.push(TableRef { generation: file.generation, offset, length, crc: crc32c(table) });
            bytes.extend_from_slice(table);
        }
        file.file.write_at(file.size, &bytes)?;
        file.size += bytes.len() as u64;
        if file.state == Written::Synced {
            file.state = Written::Unsynced;
        }
        for ((_, table), place) in tables.iter_mut().zip(places) {
            *table = place.to_bytes();
        }
        Ok(())
    }

    /// The same for tables that a record is to refer to later. They are safe once the file that is returned is synced, and its name if
    /// that is new: see [`TableFiles::on_synced`].
    pub(crate) fn store_ahead(&mut self, wanted: &mut ToStore, generation: u64) -> io::Result<Option<Apart>> {
        self.store(wanted.bucket, &mut wanted.tables, generation)?;
        let Some((_, first)) = wanted.tables.first() else { return Ok(None) };
        self.promised.entry(wanted.bucket).or_default().push((wanted.turn, first.clone()));
        let file = &self.files[&wanted.bucket];
        let is_new = file.state == Written::New;
        Ok(Some(Apart { bucket: wanted.bucket, size: file.size, file: file.file.clone(), is_new }))
    }

    /// Nobody syncs it again, unless something was written to it since.
    pub(crate) fn on_synced(&mut self, apart: &Apart) {
        if let Some(file) = self.files.get_mut(&apart.bucket)
            && Arc::ptr_eq(&file.file, &apart.file)
            && file.size == apart.size
        {
            file.state = Written::Synced;
        }
    }

    /// A record refers to these, or none ever will.
    pub(crate) fn refer(&mut self, bucket: BucketId, tables: &[(Slot, Bytes)]) {
        if let (Some((_, first)), Some(promised)) = (tables.first(), self.promised.get_mut(&bucket)) {
            promised.retain(|(_, other)| other != first);
        }
    }

    /// The replica is erased: no record will refer to what was given before that turn.
    pub(crate) fn forget(&mut self, bucket: BucketId, before: u64) {
        if let Some(promised) = self.promised.get_mut(&bucket) {
            promised.retain(|(turn, _)| *turn > before);
        }
    }

    pub(crate) fn is_promised(&self, bucket: BucketId) -> bool {
        self.promised.get(&bucket).is_some_and(|promised| !promised.is_empty())
    }

    pub(crate) fn sync(&mut self) -> io::Result<()> {
        let mut unsynced: Vec<_> = self.files.values_mut().filter(|file| file.state != Written::Synced).collect();
        for file in &unsynced {
            file.file.sync()?;
        }
        if unsynced.iter().any(|file| file.state == Written::New) {
            self.disk.sync_names()?;
        }
        unsynced.iter_mut().for_each(|file| file.state = Written::Synced);
        Ok(())
    }

    /// Is more than half of it of no use, and is that worth the work?
    pub(crate) fn is_wasteful(&self, bucket: BucketId, durable: &Durable, least: u64) -> bool {
        let Some(file) = self.files.get(&bucket) else { return false };
        let used = references(durable).filter(|(_, table)| table.generation == file.generation);
        let used: u64 = used.map(|(_, table)| table.length).sum();
        file.size > least && used * 2 < file.size
    }

    /// Copies everything that is referred to into a file of that generation, which is synced when this returns.
    pub(crate) fn rewrite(&mut self, bucket: BucketId, durable: &Durable, generation: u64) -> io::Result<Rewritten> {
        let mut tables = Vec::new();
        for (slot, _) in references(durable) {
            tables.push((slot, load(&*self.disk, bucket, &durable.tables[&slot]).map_err(io::Error::other)?));
        }
        let old = self.files.remove(&bucket);
        // A full disk may be tried again, but never a sync, whatever it says: it was of other files as well.
        let stored = self.store(bucket, &mut tables, generation).and_then(|()| self.sync().map_err(io::Error::other));
        if let Err(error) = stored {
            self.files.remove(&bucket);
            self.files.extend(old.map(|old| (bucket, old)));
            // Whatever came of the new file, nothing refers to it: it goes now, or when the journal is opened again.
            drop(self.disk.remove(&file_name(bucket, generation)));
            return Err(error);
        }
        Ok(Rewritten { tables, old: old.map(|old| file_name(bucket, old.generation)) })
    }

    /// The replica is gone, for good.
    pub(crate) fn remove(&mut self, bucket: BucketId) -> io::Result<()> {
        match self.files.remove(&bucket) {
            Some(file) => self.disk.remove(&file_name(bucket, file.generation)),
            None => Ok(()),
        }
    }

    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    pub(crate) fn has(&self, bucket: BucketId) -> bool {
        self.files.contains_key(&bucket)
    }
}

/// Where the tables of a replica lie.
pub(crate) fn references(durable: &Durable) -> impl Iterator<Item = (Slot, TableRef)> + '_ {
    durable.tables.iter().filter_map(|(slot, place)| Some((*slot, TableRef::from_bytes(place)?)))
}

/// The table itself, or why it is not to be had.
pub(crate) fn load(disk: &dyn Disk, bucket: BucketId, place: &[u8]) -> Result<Bytes, String> {
    let place = TableRef::from_bytes(place).ok_or("the reference to the table makes no sense")?;
    let name = file_name(bucket, place.generation);
    let file = disk.open(&name).map_err(|error| format!("{name}: {error}"))?;
    load_from(&*file, place)
}

/// The same for all tables of a replica, each file opened once. With an error comes the slot, and the file that failed.
pub(crate) fn load_all(
    disk: &dyn Disk,
    bucket: BucketId,
    places: &BTreeMap<Slot, Bytes>,
) -> Result<(BTreeMap<Slot, Bytes>, u64), (Slot, String)> {
    let mut files: BTreeMap<u64, Arc<dyn DiskFile>> = BTreeMap::new();
    let (mut tables, mut bytes) = (BTreeMap::new(), 0);
    for (slot, place) in places {
        let place = TableRef::from_bytes(place).ok_or((*slot, String::new()))?;
        let name = file_name(bucket, place.generation);
        let file = match files.entry(place.generation) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(disk.open(&name).map_err(|_| (*slot, name.clone()))?),
        };
        tables.insert(*slot, load_from(&**file, place).map_err(|_| (*slot, name))?);
        bytes += place.length;
    }
    Ok((tables, bytes))
}

fn load_from(file: &dyn DiskFile, place: TableRef) -> Result<Bytes, String> {
    let size = file.size().map_err(|error| error.to_string())?;
    if place.offset.checked_add(place.length).is_none_or(|end| end > size) {
        return Err("the file of tables is shorter than it was".to_owned());
    }
    let mut bytes = vec![0; place.length as usize];
    file.read_at(place.offset, &mut bytes).map_err(|error| error.to_string())?;
    if crc32c(&bytes) != place.crc {
        return Err("the checksum of the table is wrong".to_owned());
    }
    Ok(bytes.into())
}
