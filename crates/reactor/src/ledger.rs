//! Since when each wait stands. Beside the reactor, because a pure function cannot remember.
//!
//! An act that is repeated is a wait, too: it was done, and its effect has not been seen. From its second time on it is listed
//! like the others.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use blueprint::{BucketId, Instant};

use crate::reaction::{Act, Deed, Reaction, Wait, Whom, describe};

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<Key, Entry>,
}

/// Not whom, and not what exactly is lacking: as one after the other arrives it is still the same wait.
type Key = (Option<BucketId>, &'static str, &'static str);

#[derive(Clone, Debug)]
struct Entry {
    standing: Standing,
    listed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub wait: Wait,
    pub since: Instant,
}

impl Ledger {
    pub fn note(&mut self, now: Instant, reaction: &Reaction) {
        let mut before = core::mem::take(&mut self.entries);
        let mut enter = |wait: Wait, at_once: bool| {
            let key = (wait.bucket, wait.rule, wait.condition);
            let old = before.remove(&key);
            let listed = at_once || old.as_ref().is_some_and(|old| old.standing.since < now);
            let since = old.map_or(now, |old| old.standing.since);
            self.entries.insert(key, Entry { standing: Standing { wait, since }, listed });
        };
        for wait in &reaction.waits {
            enter(wait.clone(), true);
        }
        for act in &reaction.acts {
            enter(act.as_wait(), false);
        }
    }

    /// Bucket by bucket, those of the node first.
    pub fn iter(&self) -> impl Iterator<Item = &Standing> {
        self.entries.values().filter(|entry| entry.listed).map(|entry| &entry.standing)
    }

    /// The sentences for `godwit why`.
    pub fn describe(&self, now: Instant) -> Vec<String> {
        self.iter().map(|standing| describe(&standing.wait, Some(standing.waited(now)))).collect()
    }
}

impl Standing {
    pub fn waited(&self, now: Instant) -> Duration {
        now.since(self.since)
    }
}

impl Act {
    /// Done, and not seen to have happened.
    fn as_wait(&self) -> Wait {
        let (whom, lacks) = match &self.deed {
            Deed::Found { .. } => (Whom::Disk, "the replica that it founds"),
            Deed::Follow { .. } => (Whom::Disk, "the epoch to be written down"),
            Deed::Govern { .. } | Deed::Retire { .. } => (Whom::Disk, "the replica to take notice"),
            Deed::ReadMeta { .. } => (Whom::MetaGroup, "its read of the blueprint to be answered"),
            Deed::Erase { .. } => (Whom::Disk, "the replica to be erased"),
            Deed::Propose(_) => (Whom::MetaGroup, "its proposal to be accepted, or another one in its place"),
        };
        Wait {
            rule: self.rule,
            bucket: self.bucket,
            condition: "what was done has taken effect",
            lacks: lacks.into(),
            because: "it was done, and is done again until its effect is seen",
            whom,
        }
    }
}
