//! Files that this release cannot read: whose fault that is, and what to do about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use blueprint::{MetaState, NodeId, encode_meta};
use redb::{Database, ReadableDatabase, ReadableTable};

use super::faults::{Nobody, alone};
use crate::raft::SnapshotMeta;
use crate::store::{LOG, RECORDS, encode, record};
use crate::{Embedded, OpenError, Settings};

/// The file of a node that was a voter once.
async fn old_file() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory for a test");
    alone(&dir).await.shutdown().await;
    let path = dir.path().join("meta.redb");
    (dir, path)
}

fn rewrite(path: &Path, name: &str, value: Option<&[u8]>) {
    let database = Database::open(path).expect("nobody has it open");
    let change = database.begin_write().expect("ours");
    let mut records = change.open_table(RECORDS).expect("it was a node's");
    match value {
        Some(value) => drop(records.insert(name, value).expect("ours")),
        None => drop(records.remove(name).expect("ours")),
    }
    drop(records);
    change.commit().expect("ours");
}

/// Nothing, if it is no database.
fn content(path: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(database) = Database::open(path) else { return Vec::new() };
    let view = database.begin_read().expect("ours");
    let (records, log) = (view.open_table(RECORDS).expect("a node's"), view.open_table(LOG).expect("a node's"));
    let records = records.iter().expect("ours").map(|row| row.expect("ours"));
    let log = log.iter().expect("ours").map(|row| row.expect("ours"));
    let records = records.map(|(name, value)| (name.value().to_owned(), value.value().to_vec()));
    records.chain(log.map(|(index, value)| (index.value().to_string(), value.value().to_vec()))).collect()
}

async fn open(path: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(path, NodeId(1), None, Vec::new(), Arc::new(Nobody), Settings::default()).await
}

/// What is said, however it is opened.
async fn refused(path: &Path) -> Vec<String> {
    let before = content(path);
    let opened = open(path).await.err().map(|error| error.to_string());
    let identity = Embedded::identity(path).await.err().map(|error| error.to_string());
    assert_eq!(before, content(path), "what is not read is not changed");
    opened.into_iter().chain(identity).collect()
}

#[tokio::test]
async fn what_another_release_wrote_is_not_called_damaged() {
    let (_dir, path) = old_file().await;
    // One that is yet to come, and one that did not say.
    for (said, format) in [(Some(&[9, 0][..]), 9), (None, 1)] {
        rewrite(&path, record::FORMAT, said);
        let said = refused(&path).await;
        assert_eq!(said.len(), 2, "nobody reads it, not even to ask whose it is");
        for said in said {
            assert!(said.contains("was written by another release"), "{said}");
            assert!(said.contains(&format!("in format {format}; this one reads format 5")), "{said}");
            assert!(said.contains("Start the release that wrote it") && !said.contains("damaged"), "{said}");
        }
    }
    rewrite(&path, record::FORMAT, Some(&[5, 0]));
    open(&path).await.expect("as it was").shutdown().await;
}

#[tokio::test]
async fn a_snapshot_of_another_release_is_not_called_damaged() {
    let (_dir, path) = old_file().await;
    let mut snapshot = encode_meta(&MetaState::default());
    snapshot[8] ^= 0x40;
    rewrite(&path, record::SNAPSHOT, Some(&snapshot));
    rewrite(&path, record::SNAPSHOT_META, Some(&encode(&SnapshotMeta::default())));
    let said = open(&path).await.expect_err("nobody knows that format").to_string();
    let format = format!("has format {}", blueprint::FORMAT_VERSION ^ 0x40);
    assert!(said.contains("was written by another release") && said.contains(&format), "{said}");
}

#[tokio::test]
async fn what_is_damaged_is_called_so() {
    let (_dir, path) = old_file().await;
    rewrite(&path, record::IDENTITY, Some(b"?"));
    let said = refused(&path).await;
    assert_eq!(said.len(), 2);
    assert!(said.iter().all(|said| said.contains("it is damaged. If other voters are alive")), "{said:?}");
    rewrite(&path, record::FORMAT, Some(b"two"));
    assert!(refused(&path).await.iter().all(|said| said.contains("its format is no number")));
    std::fs::write(&path, vec![7; 1 << 16]).expect("ours");
    let said = refused(&path).await;
    assert!(said.iter().all(|said| said.contains("it is damaged")), "{said:?}");
}
