//! The data and the client sessions of one slot.
//!
//! A key with an expiry is present until an *entry* at or past that time touches it: [`Table::execute`] takes it as absent and
//! removes it, at the same log position on every member. A read has no log position, so it may not decide that a key is gone: it
//! says [`Read::Expired`], and the caller has the key reaped first (R13).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use blueprint::Conduct;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::command::decode_all;
use crate::fnv::Fnv;
use crate::sessions::Sessions;
use crate::{Command, Malformed, Reply, Stamp};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    keys: BTreeMap<Bytes, Held>,
    /// (expires, key) of exactly those in `keys` that expire. Not encoded: follows from `keys`.
    expiries: BTreeSet<(u64, Bytes)>,
    sessions: Sessions,
}

/// What a read finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    Reply(Reply),
    /// This key is expired but still in the table: have it reaped, then read again (R13).
    Expired(Bytes),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    value: Value,
    /// On the clock of the data, in µs: absent from then on.
    expires: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Value {
    Text(Bytes),
    /// Never empty.
    List(VecDeque<Bytes>),
}

impl Table {
    #[must_use]
    pub fn new() -> Self {
        Table::default()
    }

    /// Neither keys nor sessions: nothing would be lost with it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.sessions.is_empty()
    }

    /// Executes a committed entry. Reads are tolerated, and then see what a write at this position would see.
    pub fn execute<C: Conduct>(&mut self, stamp: Stamp, command: &Command) -> Reply {
        self.sessions.forget_expired(stamp.clock);
        let Command::Series { connection, number, command } = command else {
            return self.execute_plain(stamp.clock, command);
        };
        if let Some(reply) = self.sessions.answer::<C>(stamp.clock, *connection, *number) {
            return reply;
        }
        let reply = self.execute_plain(stamp.clock, command);
        self.sessions.remember(*connection, *number, reply.clone());
        reply
    }

    /// Evaluates a command that is not a write, at `clock`, without changing anything.
    ///
    /// # Panics
    /// On a write: those go through the log.
    #[must_use]
    pub fn read(&self, clock: u64, command: &Command) -> Read {
        assert!(!command.is_write(), "writes are executed, not read");
        let held = self.keys.get(command.key());
        if held.is_some_and(|held| held.is_expired(clock)) {
            return Read::Expired(command.key().clone());
        }
        Read::Reply(match command {
            Command::Get { .. } => get(held),
            Command::Range { .. } => range(held),
            _ => unreachable!("the only commands that are not writes"),
        })
    }

    /// Up to `most` keys that are expired at `clock` and wait to be reaped, the longest expired first.
    #[must_use]
    pub fn expired(&self, clock: u64, most: usize) -> Vec<Bytes> {
        let expired = self.expiries.iter().take_while(|(expires, _)| *expires <= clock);
        expired.take(most).map(|(_, key)| key.clone()).collect()
    }

    #[must_use]
    pub fn encode(&self) -> Bytes {
        postcard::to_allocvec(&(&self.keys, &self.sessions)).expect("every table has an encoding").into()
    }

    pub fn decode(bytes: &[u8]) -> Result<Table, Malformed> {
        let (keys, sessions): (BTreeMap<Bytes, Held>, Sessions) = decode_all(bytes)?;
        let no_empty_list = keys.values().all(|held| !matches!(&held.value, Value::List(items) if items.is_empty()));
        if !no_empty_list || !sessions.is_sound() {
            return Err(Malformed);
        }
        let expiries = keys.iter().filter_map(|(key, held)| Some((held.expires?, key.clone()))).collect();
        Ok(Table { keys, expiries, sessions })
    }

    /// Equal tables have equal fingerprints, on every member and in every build.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        postcard::serialize_with_flavor(&(&self.keys, &self.sessions), Fnv::new()).expect("every table has an encoding")
    }

    /// Drops all sessions. Only a planted bug wants that (a split that leaves them behind).
    pub fn take_sessions(&mut self) {
        self.sessions = Sessions::default();
    }

    fn execute_plain(&mut self, clock: u64, command: &Command) -> Reply {
        let key = command.key();
        let reaped = self.reap(clock, key);
        match command {
            Command::Set { value, ttl, .. } => {
                let expires = ttl.map(|ttl| clock.saturating_add(ttl));
                self.remove(key);
                self.expiries.extend(expires.map(|expires| (expires, key.clone())));
                self.keys.insert(key.clone(), Held { value: Value::Text(value.clone()), expires });
                Reply::Ok
            }
            Command::Get { .. } => get(self.keys.get(key)),
            Command::Del { .. } => Reply::Number(i64::from(self.remove(key))),
            Command::Incr { by, .. } => self.incr(key, *by),
            Command::Push { item, .. } => self.push(key, item),
            Command::Range { .. } => range(self.keys.get(key)),
            Command::Reap { .. } => Reply::Number(i64::from(reaped)),
            Command::Series { .. } => unreachable!("series do not nest"),
        }
    }

    fn incr(&mut self, key: &Bytes, by: i64) -> Reply {
        let held = self.keys.get_mut(key);
        let old = match held.as_deref().map(|held| &held.value) {
            None => Some(0),
            Some(Value::Text(text)) => number(text),
            Some(Value::List(_)) => return Reply::WrongType,
        };
        let Some(old) = old else { return Reply::NotANumber };
        let Some(new) = old.checked_add(by) else { return Reply::Overflow };
        let value = Value::Text(new.to_string().into());
        match held {
            Some(held) => held.value = value,
            None => drop(self.keys.insert(key.clone(), Held { value, expires: None })),
        }
        Reply::Number(new)
    }

    fn push(&mut self, key: &Bytes, item: &Bytes) -> Reply {
        let absent = || Held { value: Value::List(VecDeque::new()), expires: None };
        match &mut self.keys.entry(key.clone()).or_insert_with(absent).value {
            Value::List(items) => {
                items.push_back(item.clone());
                Reply::Number(items.len() as i64)
            }
            Value::Text(_) => Reply::WrongType,
        }
    }

    fn reap(&mut self, clock: u64, key: &Bytes) -> bool {
        self.keys.get(key).is_some_and(|held| held.is_expired(clock)) && self.remove(key)
    }

    fn remove(&mut self, key: &Bytes) -> bool {
        let Some(held) = self.keys.remove(key) else { return false };
        if let Some(expires) = held.expires {
            let indexed = self.expiries.remove(&(expires, key.clone()));
            assert!(indexed, "every expiry is in the index");
        }
        true
    }
}

impl Held {
    fn is_expired(&self, clock: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= clock)
    }
}

fn get(held: Option<&Held>) -> Reply {
    match held.map(|held| &held.value) {
        None => Reply::Nil,
        Some(Value::Text(text)) => Reply::Value(text.clone()),
        Some(Value::List(_)) => Reply::WrongType,
    }
}

fn range(held: Option<&Held>) -> Reply {
    match held.map(|held| &held.value) {
        None => Reply::Items(Vec::new()),
        Some(Value::List(items)) => Reply::Items(items.iter().cloned().collect()),
        Some(Value::Text(_)) => Reply::WrongType,
    }
}

/// Only what Redis itself would print: no plus, no leading zero, no blank.
fn number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    if canonical { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
