//! The data directory: who this node is, and that nobody else uses it.
//!
//! ```text
//! identity.json   the node's number, made together with the directory; its name; how often it was started; its journal's number
//! journal/        what its replicas wrote
//! meta.redb       its part in the meta group
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use blueprint::NodeId;
use serde::{Deserialize, Serialize};

#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("{} cannot be used: {error}. Give another directory with --data, or the right to write to this one", .path.display())]
    Unusable { path: PathBuf, error: io::Error },
    #[error(
        "{} is in use by another godwit: two nodes cannot share a data directory. Stop the other one, or give this one a directory of \
         its own with --data", .0.display()
    )]
    InUse(PathBuf),
    #[error(
        "{} does not say who this node is ({why}): the file is damaged. If its content is lost, the node is a new one: move the whole \
         directory away and let a new node take its place", .path.display()
    )]
    Damaged { path: PathBuf, why: String },
}

/// Who this node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub node: u64,
    pub name: String,
    /// How often it was started; each life has numbers of its own.
    pub lives: u64,
    /// Its journal, once it has one: without that very journal it is not this node any more.
    #[serde(default)]
    pub journal: Option<u64>,
}

#[derive(Debug)]
pub struct Data {
    pub path: PathBuf,
    pub identity: Identity,
    _lock: File,
}

impl Data {
    /// Opens the directory, or makes it, and counts this start.
    pub fn open(path: &Path, name: Option<&str>) -> Result<Self, DataError> {
        let unusable = |error| DataError::Unusable { path: path.to_path_buf(), error };
        make_directory(path).map_err(unusable)?;
        let lock = File::create(path.join("lock")).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataError::InUse(path.to_path_buf())),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        let file = path.join("identity.json");
        let mut identity = match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str::<Identity>(&text)
                .map_err(|error| DataError::Damaged { path: file.clone(), why: error.to_string() })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let node = random().map_err(unusable)?;
                let name = name.map_or_else(|| format!("{:x}", node >> 40), str::to_owned);
                Identity { node, name, lives: 0, journal: None }
            }
            Err(error) => return Err(unusable(error)),
        };
        identity.lives += 1;
        save(path, &file, &identity).map_err(unusable)?;
        Ok(Self { path: path.to_path_buf(), identity, _lock: lock })
    }

    pub fn node(&self) -> NodeId {
        NodeId(self.identity.node)
    }

    /// From now on this node starts with this journal, or not at all.
    pub fn bind(&mut self, journal: u64) -> Result<(), DataError> {
        if self.identity.journal == Some(journal) {
            return Ok(());
        }
        self.identity.journal = Some(journal);
        let unusable = |error| DataError::Unusable { path: self.path.clone(), error };
        save(&self.path, &self.path.join("identity.json"), &self.identity).map_err(unusable)
    }

    pub fn meta(&self) -> PathBuf {
        self.path.join("meta.redb")
    }
}

/// With all directories above it that are not there, and so that all of them are there after a power cut.
fn make_directory(path: &Path) -> io::Result<()> {
    let made: Vec<_> = path.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists()).collect();
    fs::create_dir_all(path)?;
    for directory in made {
        let above = directory.parent().filter(|above| !above.as_os_str().is_empty());
        File::open(above.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// Whole or not at all: written beside it, synced, and moved in its place.
fn save(directory: &Path, file: &Path, identity: &Identity) -> io::Result<()> {
    let beside = directory.join("identity.new");
    let mut new = File::create(&beside)?;
    new.write_all(&serde_json::to_vec_pretty(identity)?)?;
    new.sync_all()?;
    fs::rename(&beside, file)?;
    File::open(directory)?.sync_all()
}

/// 63 bits: other programs read node numbers, and some of them know no larger ones.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok((u64::from_le_bytes(bytes) >> 1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stays_who_it_is() {
        let outer = std::env::temp_dir().join(format!("godwit-data-{}", std::process::id()));
        let path = outer.join("several").join("levels");
        let first = Data::open(&path, Some("a")).expect("a new directory");
        let second = Data::open(&path, None);
        assert!(matches!(second, Err(DataError::InUse(_))), "{second:?}");
        let before = first.identity.clone();
        drop(first);
        let again = Data::open(&path, Some("other")).expect("free again");
        assert_eq!(again.identity, Identity { lives: 2, ..before });
        drop(again);
        let mut bound = Data::open(&path, None).expect("free again");
        bound.bind(77).expect("a place for it");
        drop(bound);
        assert_eq!(Data::open(&path, None).expect("free again").identity.journal, Some(77));
        fs::write(path.join("identity.json"), "{").expect("ours");
        assert!(matches!(Data::open(&path, None), Err(DataError::Damaged { .. })));
        fs::remove_dir_all(&outer).expect("ours");
    }
}
