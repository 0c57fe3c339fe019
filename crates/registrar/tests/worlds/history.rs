//! The truth: what each owner's rows were at each number that anyone else can have heard of.

use std::collections::BTreeMap;

use blueprint::NodeId;
use bytes::Bytes;
use registrar::UpdateNumber;

/// How far two nodes may be apart about when a row expires: messages are under way for a while.
pub(crate) const SLACK: u64 = 3_000_000;
/// The same where wall clocks jump: a disk does not know how long it lay still. No row of such a world lives that short.
pub(crate) const SLACK_OF_WRONG_CLOCKS: u64 = 3_000_000_000;

/// Values, with the moment (of the world's clock) at which they expire.
pub(crate) type Rows = BTreeMap<Bytes, (Bytes, u64)>;

#[derive(Clone, Debug)]
pub(crate) struct History {
    owners: BTreeMap<NodeId, Owner>,
    pub(crate) slack: u64,
}

#[derive(Clone, Debug, Default)]
struct Owner {
    states: BTreeMap<UpdateNumber, Rows>,
}

impl History {
    pub(crate) fn new() -> Self {
        Self { owners: BTreeMap::new(), slack: SLACK }
    }

    pub(crate) fn note(&mut self, owner: NodeId, number: UpdateNumber, rows: Rows) {
        self.owners.entry(owner).or_default().states.insert(number, rows);
    }

    /// Whether somebody who knows an owner's updates up to `number` has exactly the rows that the owner had then.
    pub(crate) fn check(&self, owner: NodeId, number: UpdateNumber, rows: &Rows, now: u64) -> Result<(), String> {
        let Some(history) = self.owners.get(&owner) else { return Err(format!("{owner} never was at {number}")) };
        let Some(truth) = history.states.get(&number) else { return Err(format!("{owner} never was at {number}")) };
        self.same(truth, rows, now).map_err(|why| format!("rows of {owner} at {number}: {why}"))
    }

    /// Rows that expire about now are nobody's fault.
    pub(crate) fn same(&self, truth: &Rows, found: &Rows, now: u64) -> Result<(), String> {
        for (key, (value, expires)) in truth {
            match found.get(key) {
                Some((other, _)) if other != value => return Err(format!("{key:?} is {other:?}, not {value:?}")),
                Some((_, other)) if other.abs_diff(*expires) > self.slack => {
                    return Err(format!("{key:?} expires at {other}, not {expires}"));
                }
                None if *expires > now + self.slack => return Err(format!("{key:?} = {value:?} is missing")),
                Some(_) | None => {}
            }
        }
        for (key, (value, expires)) in found {
            if !truth.contains_key(key) && *expires > now + self.slack {
                return Err(format!("{key:?} = {value:?} should not be there"));
            }
        }
        Ok(())
    }
}
