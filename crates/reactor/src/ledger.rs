//! Since when each wait stands. Beside the reactor, because a pure function cannot remember.
//!
//! An act that is repeated is a wait, too: it was done, and its effect has not been seen. From its second time on it is listed
//! like the others.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use blueprint::{Breach, BucketId, Conduct, Instant};

use crate::reaction::{Act, Deed, EFFECT, Reaction, Wait, Whom, describe};
use crate::words::proposal;

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<Key, Entry>,
    noted: Instant,
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
    pub fn note<C: Conduct>(&mut self, now: Instant, reaction: &Reaction) {
        let mut before = core::mem::take(&mut self.entries);
        self.enter::<C>(now, reaction, &mut before);
        if C::breaks(Breach::WaitsKeptForEver) {
            self.entries.extend(before);
        }
    }

    /// The reaction to a blueprint that is on its way. What else was waited for still stands, by the one that is acted on: were it
    /// struck out, a node whose blueprint changes again and again would never have waited for anything.
    pub fn note_besides<C: Conduct>(&mut self, now: Instant, reaction: &Reaction) {
        self.enter::<C>(now, reaction, &mut BTreeMap::new());
    }

    fn enter<C: Conduct>(&mut self, now: Instant, reaction: &Reaction, before: &mut BTreeMap<Key, Entry>) {
        self.noted = now;
        if C::breaks(Breach::WaitsUntold) {
            return;
        }
        let mut enter = |wait: Wait, at_once: bool| {
            let key = (wait.bucket, wait.rule, wait.condition);
            let since = before.remove(&key).or_else(|| self.entries.remove(&key)).map(|old| old.standing.since);
            let listed = at_once || since.is_some_and(|since| since < now);
            let standing = Standing { wait, since: since.unwrap_or(now) };
            self.entries.insert(key, Entry { standing, listed });
        };
        for wait in &reaction.waits {
            enter(wait.clone(), true);
        }
        for act in &reaction.acts {
            enter(act.as_wait(), false);
        }
    }

    /// When it was last brought up to date.
    pub fn noted(&self) -> Instant {
        self.noted
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
            Deed::Found { bucket, member, .. } => {
                (Whom::Disk, format!("{bucket} to be here, which it founds as {member}"))
            }
            Deed::Resume { bucket, .. } => (Whom::Disk, format!("{bucket} to be used again")),
            Deed::Follow { epoch } => (Whom::Disk, format!("{epoch} to be written down")),
            Deed::Govern { bucket, .. } => (Whom::Disk, format!("{bucket} to take notice of its government")),
            Deed::Retire { bucket } => (Whom::Disk, format!("{bucket} to take notice that it was removed")),
            Deed::ReadMeta { bucket } => {
                (Whom::MetaGroup, format!("its read of the blueprint to be answered, because of {bucket}"))
            }
            Deed::Erase { bucket, incarnation } => (Whom::Disk, format!("{bucket} of {incarnation} to be erased")),
            Deed::Propose(command) => {
                (Whom::MetaGroup, format!("the meta group to accept {}, or another in its place", proposal(command)))
            }
        };
        Wait {
            rule: self.rule,
            bucket: self.bucket,
            condition: EFFECT,
            lacks,
            because: "it was done, and is done again until its effect is seen",
            whom,
        }
    }
}
