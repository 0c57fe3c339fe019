//! openraft's own suite, over our log and state machine.

use std::sync::Arc;

use openraft::testing::{StoreBuilder, Suite};

use crate::log::LogStore;
use crate::machine::{Known, Machine};
use crate::raft::{StorageError, Types};
use crate::store::Store;

struct InTempDir;

impl StoreBuilder<Types, LogStore, Machine, tempfile::TempDir> for InTempDir {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore, Machine), StorageError> {
        let dir = tempfile::tempdir().expect("a directory for a test");
        let store = Store::open(&dir.path().join("meta.redb")).await.expect("a new file");
        let machine = Machine::load(store.clone(), Arc::new(Known::new())).await.expect("nothing is in it");
        Ok((dir, LogStore::new(store), machine))
    }
}

#[test]
fn the_suite_of_openraft_passes() {
    Suite::test_all(InTempDir).expect("a sound store");
}
