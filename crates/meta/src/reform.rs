//! The unsafe way out when most voters are lost for good: the file of one that is left is made that of a group of one.
//!
//! It keeps its whole log, also what it does not know to be committed, and gets one more entry at its end: that it alone votes. When its
//! node is started, it leads with that, and others join it. What this breaks: an entry that only lost voters had is gone, although
//! somebody may have been told that it was accepted. And should the lost voters ever come back, they are most of the old group and know
//! nothing of the new one: two groups would keep two blueprints. Nobody can prevent that from here. They must never be started again.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use blueprint::{MetaState, NodeId};
use openraft::storage::{RaftLogStorage, RaftStateMachine};
use openraft::{CommittedLeaderId, EntryPayload, RaftLogReader};

use crate::log::LogStore;
use crate::machine::{Known, Machine};
use crate::raft::{Entry, LogId, Vote};
use crate::store::{Fault, Identity, LOG, RECORDS, Store, encode, record};
use crate::{ClusterId, OpenError};

/// What one voter's file holds.
#[derive(Clone, Debug)]
pub struct Survey {
    pub cluster: ClusterId,
    pub me: NodeId,
    /// Who votes, by the last word that it has.
    pub voters: BTreeSet<NodeId>,
    /// The last entry of its log, as (term, index). Of several voters the one with the greatest knows most.
    pub last: (u64, u64),
    /// Up to where it knows that its log is committed.
    pub committed: u64,
    /// What all of its log leads to.
    pub state: Arc<MetaState>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReformError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(
        "{me} did not vote: what it knows of the blueprint is not a log that could be gone on with. Choose the data directory of a voter \
         that is left: {voters}"
    )]
    NoVoter { me: NodeId, voters: String },
}

/// Looks, and changes nothing.
pub async fn survey(path: &Path) -> Result<Survey, ReformError> {
    let store = opened(path).await?;
    let found = look(&store).await.map_err(|fault| store.fault(fault));
    store.close().await;
    found?
}

/// From now on its node is the only voter.
pub async fn reform(path: &Path) -> Result<Survey, ReformError> {
    let store = opened(path).await?;
    let found = look(&store).await.map_err(|fault| store.fault(fault));
    let reformed = match found {
        Ok(Ok(found)) => {
            let written = write(&store, &found).await.map_err(|fault| ReformError::from(store.fault(fault)));
            written.map(|()| found)
        }
        Ok(Err(error)) => Err(error),
        Err(error) => Err(error.into()),
    };
    store.close().await;
    reformed
}

async fn opened(path: &Path) -> Result<Store, OpenError> {
    // Opening would make one.
    if !path.exists() {
        return Err(OpenError::Vacant(path.to_path_buf()));
    }
    Store::open(path).await
}

async fn look(store: &Store) -> Result<Result<Survey, ReformError>, Fault> {
    let Some(Identity { cluster, me }) = store.get(record::IDENTITY).await? else {
        return Ok(Err(OpenError::Vacant(store.path().to_path_buf()).into()));
    };
    let damaged = |error: crate::raft::StorageError| Fault::Damaged(error.to_string());
    let (known, mut log) = (Arc::new(Known::new()), LogStore::new(store.clone()));
    let mut machine = Machine::load(store.clone(), Arc::clone(&known)).await?;
    let (applied, _) = machine.applied_state().await.map_err(damaged)?;
    let rest = log.try_get_log_entries(applied.map_or(0, |id| id.index + 1)..).await.map_err(damaged)?;
    machine.apply(rest).await.map_err(damaged)?;
    let (_, membership) = machine.applied_state().await.map_err(damaged)?;
    let voters: BTreeSet<NodeId> = membership.voter_ids().map(NodeId).collect();
    if !voters.contains(&me) {
        let voters = voters.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Ok(Err(ReformError::NoVoter { me, voters }));
    }
    let last = log.get_log_state().await.map_err(damaged)?.last_log_id.or(applied);
    let committed = log.read_committed().await.map_err(damaged)?.max(applied).map_or(0, |id| id.index);
    let last = last.map_or((0, 0), |id| (id.leader_id.term, id.index));
    Ok(Ok(Survey { cluster, me, voters, last, committed, state: known.get() }))
}

/// One entry more, of a term that nobody has seen, and the vote for oneself that goes with it; both or none.
async fn write(store: &Store, found: &Survey) -> Result<(), Fault> {
    let me = found.me.0;
    let voted = store.get::<Vote>(record::VOTE).await?.map_or(0, |vote| vote.leader_id().term);
    let (term, index) = (voted.max(found.last.0) + 1, found.last.1 + 1);
    let log_id = LogId::new(CommittedLeaderId::new(term, me), index);
    let alone = openraft::Membership::new(vec![BTreeSet::from([me])], None);
    let entry = Entry { log_id, payload: EntryPayload::Membership(alone) };
    let (entry, vote) = (encode(&entry), encode(&Vote::new(term, me)));
    store
        .run(move |database| {
            let change = database.begin_write()?;
            change.open_table(LOG)?.insert(index, entry.as_slice())?;
            change.open_table(RECORDS)?.insert(record::VOTE, vote.as_slice())?;
            Ok(change.commit()?)
        })
        .await
}
