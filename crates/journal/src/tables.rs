//! Checkpoints: for each bucket a file of slot tables, only ever appended to, and those before it. The newest table of a slot counts.
//!
//! Records in the journal refer to them ([`TableRef`]), so they never keep a segment alive. A table is synced before the record that
//! refers to it is written, so a reference that can be read has something to refer to. When half of a file is not referred to any
//! more, the next tables begin another one; the former goes when nothing in it is referred to. A bucket that is written to everywhere
//! is soon done with it, and nothing is ever copied. Where some slots are not written to, what is left is copied to a new file when all
//! of them together are mostly waste. Neither is done to a file with tables that a record may yet refer to: those are *promised*.

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
    /// Those that are written to.
    files: BTreeMap<BucketId, TableFile>,
    /// Those before them that are still referred to: generations and sizes.
    former: BTreeMap<BucketId, BTreeMap<u64, u64>>,
    /// Stored, and not referred to by any record yet.
    promised: BTreeMap<BucketId, Vec<Promise>>,
    /// What is smaller than this is not worth the trouble.
    least: u64,
}

#[derive(Debug)]
struct TableFile {
    generation: u64,
    file: Arc<dyn DiskFile>,
    size: u64,
    /// What was referred to in it when that was last added up.
    used: u64,
    state: Written,
}

#[derive(Debug)]
struct Promise {
    turn: u64,
    /// Of the first table, by which it is known.
    first: Bytes,
    generation: u64,
    bytes: u64,
}

/// Bytes of tables that are gathered for one write: in as little memory as the nearest caches hold.
const WRITTEN_AT_ONCE: usize = 128 << 10;
/// Several times what is alive is what the files of a bucket may take together. (A bucket that is written to everywhere comes to three times by
/// itself: one file of which half is waste, and the next one.)
const MOST_WASTE: u64 = 4;
/// And so many may there be.
const MOST_FORMER: usize = 8;

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
    /// The files that are not needed once these are synced.
    pub(crate) old: Vec<String>,
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
    pub(crate) fn new(disk: Arc<dyn Disk>, least: u64) -> Self {
        Self { disk, files: BTreeMap::new(), former: BTreeMap::new(), promised: BTreeMap::new(), least }
    }

    /// Goes on with the newest of the files that a replica refers to.
    pub(crate) fn adopt(&mut self, bucket: BucketId, durable: &Durable) -> io::Result<()> {
        let used = used(durable);
        for (generation, used) in &used {
            let file = self.disk.open(&file_name(bucket, *generation))?;
            let size = file.size()?;
            let next = TableFile { generation: *generation, file, size, used: *used, state: Written::Synced };
            self.begin(bucket, next);
        }
        Ok(())
    }

    /// From now on that one is written to.
    fn begin(&mut self, bucket: BucketId, file: TableFile) {
        let generation = file.generation;
        if let Some(before) = self.files.insert(bucket, file) {
            assert!(before.generation < generation, "each file has a name of its own");
            self.former.entry(bucket).or_default().insert(before.generation, before.size);
        }
    }

    /// Half of what is written to is waste. (Not if it would get the same name: then no record was written since it was begun.)
    fn is_spent(&self, bucket: BucketId, next: u64) -> bool {
        self.files.get(&bucket).is_some_and(|file| {
            let used = file.used + self.promised_in(bucket, file.generation);
            file.size > self.least && file.size >= 2 * used && file.generation < next && file.state == Written::Synced
        })
    }

    fn promised_in(&self, bucket: BucketId, generation: u64) -> u64 {
        let promised = self.promised.get(&bucket).into_iter().flatten();
        promised.filter(|promise| promise.generation == generation).map(|promise| promise.bytes).sum()
    }

    /// Adds up what a replica refers to. Says which files it is done with; they are no longer known here.
    pub(crate) fn weigh(&mut self, bucket: BucketId, durable: &Durable) -> Vec<String> {
        let used = used(durable);
        if let Some(file) = self.files.get_mut(&bucket) {
            file.used = used.get(&file.generation).copied().unwrap_or(0);
        }
        let Some(mut former) = self.former.remove(&bucket) else { return Vec::new() };
        let is_done = |generation: &u64| !used.contains_key(generation) && self.promised_in(bucket, *generation) == 0;
        let done: Vec<u64> = former.keys().copied().filter(is_done).collect();
        former.retain(|generation, _| !done.contains(generation));
        if !former.is_empty() {
            self.former.insert(bucket, former);
        }
        done.into_iter().map(|generation| file_name(bucket, generation)).collect()
    }

    /// Appends tables and puts references in their place. After an error nothing has changed, and it may be tried again.
    pub(crate) fn store(&mut self, bucket: BucketId, tables: &mut [(Slot, Bytes)], generation: u64) -> io::Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        if !self.files.contains_key(&bucket) || self.is_spent(bucket, generation) {
            let file = self.disk.create(&file_name(bucket, generation))?;
            self.begin(bucket, TableFile { generation, file, size: 0, used: 0, state: Written::New });
        }
        let file = self.files.get_mut(&bucket).expect("just made");
        let mut places = Vec::with_capacity(tables.len());
        let (mut bytes, mut written) = (Vec::new(), file.size);
        for (_, table) in tables.iter() {
            let (offset, length) = (written + bytes.len() as u64, table.len() as u64);
            places.push(TableRef { generation: file.generation, offset, length, crc: crc32c(table) });
            bytes.extend_from_slice(table);
            if bytes.len() >= WRITTEN_AT_ONCE {
                file.file.write_at(written, &bytes)?;
                written += bytes.len() as u64;
                bytes.clear();
            }
        }
        file.file.write_at(written, &bytes)?;
        file.size = written + bytes.len() as u64;
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
        let bytes = wanted.bytes();
        self.store(wanted.bucket, &mut wanted.tables, generation)?;
        let Some((_, first)) = wanted.tables.first() else { return Ok(None) };
        let file = &self.files[&wanted.bucket];
        let promise = Promise { turn: wanted.turn, first: first.clone(), generation: file.generation, bytes };
        self.promised.entry(wanted.bucket).or_default().push(promise);
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
            promised.retain(|promise| promise.first != first);
        }
    }

    /// The replica is erased: no record will refer to what was given before that turn.
    pub(crate) fn forget(&mut self, bucket: BucketId, before: u64) {
        if let Some(promised) = self.promised.get_mut(&bucket) {
            promised.retain(|promise| promise.turn > before);
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

    /// Are its files mostly of no use, or too many, and is that worth the work? Not if the `next` would have the name of the present one: that
    /// was begun a moment ago, and nothing was written since. (To copy into it what is left of it, and then to remove it as an old one,
    /// would be the end of it.)
    pub(crate) fn is_wasteful(&self, bucket: BucketId, durable: &Durable, next: u64) -> bool {
        let Some(file) = self.files.get(&bucket).filter(|file| file.generation < next) else { return false };
        let former = self.former.get(&bucket);
        let size = file.size + former.map_or(0, |former| former.values().sum());
        let used: u64 = used(durable).values().sum();
        let is_many = former.is_some_and(|former| former.len() > MOST_FORMER);
        size > self.least && (used * MOST_WASTE < size || is_many)
    }

    /// Copies everything that is referred to into a file of that generation, which is synced when this returns.
    pub(crate) fn rewrite(&mut self, bucket: BucketId, durable: &Durable, generation: u64) -> io::Result<Rewritten> {
        assert!(self.files.get(&bucket).is_none_or(|file| file.generation < generation), "see `is_wasteful`");
        let broken = |(slot, name): (Slot, String)| io::Error::other(format!("the table of slot {} in {name}", slot.0));
        let (tables, _) = load_all(&*self.disk, bucket, &durable.tables).map_err(broken)?;
        let mut tables: Vec<(Slot, Bytes)> = tables.into_iter().collect();
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
        let former = self.former.remove(&bucket).unwrap_or_default();
        let old = former.into_keys().chain(old.map(|old| old.generation));
        Ok(Rewritten { tables, old: old.map(|generation| file_name(bucket, generation)).collect() })
    }

    /// The replica is gone, for good.
    pub(crate) fn remove(&mut self, bucket: BucketId) -> io::Result<()> {
        let former = self.former.remove(&bucket).unwrap_or_default();
        let all = former.into_keys().chain(self.files.remove(&bucket).map(|file| file.generation));
        all.map(|generation| file_name(bucket, generation)).try_for_each(|name| self.disk.remove(&name))
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

/// How much of each file a replica refers to.
fn used(durable: &Durable) -> BTreeMap<u64, u64> {
    let mut used = BTreeMap::new();
    for (_, table) in references(durable) {
        *used.entry(table.generation).or_default() += table.length;
    }
    used
}

/// All tables of a replica, each file opened once. With an error comes the slot, and the file that failed.
pub(crate) fn load_all(
    disk: &dyn Disk,
    bucket: BucketId,
    places: &BTreeMap<Slot, Bytes>,
) -> Result<(BTreeMap<Slot, Bytes>, u64), (Slot, String)> {
    let mut files: BTreeMap<u64, (Arc<dyn DiskFile>, u64)> = BTreeMap::new();
    let (mut tables, mut bytes) = (BTreeMap::new(), 0);
    for (slot, place) in places {
        let place = TableRef::from_bytes(place).ok_or((*slot, String::new()))?;
        let name = file_name(bucket, place.generation);
        let (file, size) = match files.entry(place.generation) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let opened = disk.open(&name).and_then(|file| Ok((file.size()?, file)));
                let (size, file) = opened.map_err(|_| (*slot, name.clone()))?;
                entry.insert((file, size))
            }
        };
        tables.insert(*slot, load_from(&**file, *size, place).map_err(|_| (*slot, name))?);
        bytes += place.length;
    }
    Ok((tables, bytes))
}

fn load_from(file: &dyn DiskFile, size: u64, place: TableRef) -> Result<Bytes, String> {
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

#[cfg(test)]
mod tests {
    use blueprint::{Index, Member, Position, SlotSet, Term};
    use phaser::{Image, Record};

    use super::*;
    use crate::disk::Directory;

    const BUCKET: BucketId = BucketId(1);

    /// A replica with one table.
    fn referring_to(table: Bytes) -> Durable {
        let slots = SlotSet::range(Slot(0), Slot(0));
        let tables = vec![(Slot(0), table)];
        let image = Image { as_of: Index(0), covered: slots.clone(), replaced: slots.clone(), tables };
        let (me, base) = (Member::new(1, 1), Position::default());
        let found = Record::Found { me, promised: Term(1), base, clock: 0, owned: slots, image };
        Durable::found(&found).expect("it makes one")
    }

    /// A file was begun, nothing was written to the journal since, and it is mostly waste already: what is left of it would be copied to
    /// a file of the same name, which is then removed as an old one.
    #[test]
    fn a_file_is_not_copied_to_one_of_its_own_name() {
        let directory = tempfile::tempdir().expect("a place for it");
        let disk = Arc::new(Directory::create(&directory.path().join("journal")).expect("it can be made"));
        let mut files = TableFiles::new(disk.clone(), 100);
        let mut store = || {
            let mut tables = [(Slot(0), Bytes::from(vec![7; 300]))];
            files.store(BUCKET, &mut tables, 5).expect("there is room");
            let [(_, place)] = tables;
            place
        };
        let last = [store(), store(), store(), store(), store()].into_iter().next_back().expect("five");
        let durable = referring_to(last);
        assert_eq!(files.weigh(BUCKET, &durable), Vec::<String>::new());
        assert!(!files.is_wasteful(BUCKET, &durable, 5), "it would get the same name");
        assert!(files.is_wasteful(BUCKET, &durable, 6));
        let Rewritten { tables, old } = files.rewrite(BUCKET, &durable, 6).expect("there is room");
        assert_eq!(old, [file_name(BUCKET, 5)]);
        let durable = referring_to(tables[0].1.clone());
        files.remove_file(&old[0]).expect("it is there");
        let (tables, _) = load_all(&*disk, BUCKET, &durable.tables).expect("it is in the new one");
        assert_eq!(tables[&Slot(0)], vec![7; 300]);
    }
}
