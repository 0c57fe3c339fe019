//! The data and the client sessions of one slot.
//!
//! A key with an expiry is present until an *entry* at or past that time touches it: [`Table::execute`] takes it as absent and
//! removes it, at the same log position on every member. A read has no log position, so it may not decide that a key is gone: it
//! says [`Read::Expired`], and the caller has the key reaped first (R13). Handlers never meet an expired key that their command
//! names: both are settled here, before they run.

use std::hint::black_box;

use blueprint::Conduct;
use bytes::Bytes;
use serde::Deserialize;

use crate::fnv::Fnv;
use crate::keys::{Keys, Name, View};
use crate::row::Handler;
use crate::sessions::Sessions;
use crate::shelf::Spot;
use crate::{Command, Malformed, Reply, Series, Stamp};

/// More than a processor can wait for at once.
const TOUCHED_AT_ONCE: usize = 32;
/// What an encoding takes besides keys and answers, about: how many there are, and the clock.
const ENCODED_BESIDES: usize = 32;

static NOBODY: Sessions = Sessions::new();

/// A keyspace has 16384 of them, and most commands are about one that was not looked at for long.
const _: () = assert!(size_of::<Table>() <= 80);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    keys: Keys,
    /// None: nobody is remembered, as in most slots. Never empty ones.
    sessions: Option<Box<Sessions>>,
    /// How far its clock is ahead of the bucket's, in µs: the table may have come from a bucket whose clock was another one.
    ahead: i64,
}

/// What a read finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    Reply(Reply),
    /// This key is expired but still in the table: have it reaped, then read again (R13).
    Expired(Bytes),
}

impl Table {
    #[must_use]
    pub fn new() -> Self {
        Table::default()
    }

    /// Neither keys nor sessions nor a clock of its own: nothing would be lost with it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_bare() && self.ahead == 0
    }

    /// Only the clock of its own, if any.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.keys.is_empty() && self.sessions.is_none()
    }

    /// It becomes part of a bucket whose clock is `ahead` behind the one that it knew. Its own goes on as if nothing had happened: what
    /// is to expire does so when it was to, and a connection that was refused is not accepted again.
    pub fn move_clock(&mut self, ahead: i64) {
        self.ahead = self.ahead.saturating_add(ahead);
    }

    fn clock(&self, clock: u64) -> u64 {
        clock.saturating_add_signed(self.ahead)
    }

    /// Keys that it holds, those that are expired and not reaped yet included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// About as many bytes as its encoding takes, without encoding it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.keys.bytes() + self.sessions().bytes()
    }

    /// Executes a committed entry. Reads are tolerated, and then see what a write at this position would see.
    ///
    /// # Panics
    /// On a command that is not for tables. None that was decoded is.
    pub fn execute<C: Conduct>(&mut self, stamp: Stamp, command: &Command) -> Reply {
        let stamp = Stamp { clock: self.clock(stamp.clock), ..stamp };
        self.forget_expired(stamp.clock);
        let Some(Series { connection, number }) = command.series() else {
            return self.execute_plain(stamp, command);
        };
        if let Some(reply) = self.sessions().answer::<C>(stamp.clock, connection, number) {
            return reply;
        }
        let reply = self.execute_plain(stamp, command);
        self.sessions.get_or_insert_default().remember(connection, number, reply.clone());
        reply
    }

    /// Evaluates a command that is not a write, at `clock`, without changing anything.
    ///
    /// # Panics
    /// On anything but a read: writes go through the log, and the rest is none of a table's business.
    #[must_use]
    pub fn read(&self, clock: u64, command: &Command) -> Read {
        let clock = self.clock(clock);
        let Handler::Read(handler) = command.row().handler else { panic!("{} is no read", command.name()) };
        assert!(!command.is_write(), "writes are executed, not read");
        if self.keys.some_expired(clock)
            && let Some(key) = command.keys().find(|key| self.keys.is_expired(clock, key))
        {
            return Read::Expired(key.clone());
        }
        let view = View { keys: &self.keys, clock };
        Read::Reply(handler(&view, command.words()).unwrap_or_else(|error| error))
    }

    /// Looks at what commands about these keys will need, so that it is at hand by then: one step of the way for all of them, then the
    /// next. Memory is slow, and this way it is waited for together.
    pub fn touch(wanted: &[(&Table, &Bytes)]) {
        for wanted in wanted.chunks(TOUCHED_AT_ONCE) {
            black_box(wanted.iter().filter(|(table, _)| table.keys.is_empty() || table.sessions.is_some()).count());
            let mut names = [Name::default(); TOUCHED_AT_ONCE];
            let mut spots = [Spot::default(); TOUCHED_AT_ONCE];
            for ((name, spot), (table, key)) in names.iter_mut().zip(&mut spots).zip(wanted) {
                *name = Name::of(key);
                *spot = table.keys.shelf().find_leaf(*name);
            }
            let places = wanted.iter().zip(spots).map(|((table, _), spot)| table.keys.shelf().place_at(spot));
            black_box(places.fold(0, |seen, place| seen ^ place));
            for ((name, spot), (table, _)) in names.iter().zip(&mut spots).zip(wanted) {
                *spot = table.keys.shelf().find_place(*spot, name.place);
            }
            let items = || wanted.iter().zip(spots).filter_map(|((table, _), spot)| table.keys.shelf().item_at(spot));
            black_box(items().fold(0, |seen, item| seen ^ item.touch_near()));
            black_box(items().fold(0, |seen, item| seen ^ item.touch()));
        }
    }

    /// Up to `most` keys that are expired at `clock` and wait to be reaped, the longest expired first.
    #[must_use]
    pub fn expired(&self, clock: u64, most: usize) -> Vec<Bytes> {
        self.keys.expired(self.clock(clock)).take(most).map(Bytes::copy_from_slice).collect()
    }

    #[must_use]
    pub fn encode(&self) -> Bytes {
        self.encode_after(Vec::with_capacity(self.room())).into()
    }

    /// The same behind what is there.
    #[must_use]
    pub fn encode_after(&self, bytes: Vec<u8>) -> Vec<u8> {
        let both = (&self.keys, self.sessions());
        let encoded = match self.ahead {
            0 => postcard::to_extend(&both, bytes),
            ahead => postcard::to_extend(&(both, ahead), bytes),
        };
        encoded.expect("every table has an encoding")
    }

    /// What its encoding takes, and a little more.
    #[must_use]
    pub fn room(&self) -> usize {
        self.keys.room() + self.sessions().bytes() as usize + ENCODED_BESIDES
    }

    pub fn decode(bytes: &[u8]) -> Result<Table, Malformed> {
        let ((keys, sessions), rest): ((Keys, Sessions), _) =
            postcard::take_from_bytes(bytes).map_err(|_| Malformed)?;
        let ahead = if rest.is_empty() { 0 } else { decode_all(rest)? };
        let sound = sessions.is_sound() && (rest.is_empty() || ahead != 0);
        let sessions = (!sessions.is_empty()).then(|| Box::new(sessions.weighed()));
        if sound { Ok(Table { keys, sessions, ahead }) } else { Err(Malformed) }
    }

    /// Equal tables have equal fingerprints, on every member and in every build.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let both = (&self.keys, self.sessions());
        let print = match self.ahead {
            0 => postcard::serialize_with_flavor(&both, Fnv::new()),
            ahead => postcard::serialize_with_flavor(&(both, ahead), Fnv::new()),
        };
        print.expect("every table has an encoding")
    }

    /// Drops all sessions. Only a planted bug wants that (a split that leaves them behind).
    pub fn take_sessions(&mut self) {
        self.sessions = None;
    }

    fn sessions(&self) -> &Sessions {
        self.sessions.as_deref().unwrap_or(&NOBODY)
    }

    fn forget_expired(&mut self, clock: u64) {
        let Some(sessions) = &mut self.sessions else { return };
        sessions.forget_expired(clock);
        if sessions.is_empty() {
            self.sessions = None;
        }
    }

    fn execute_plain(&mut self, stamp: Stamp, command: &Command) -> Reply {
        run(&mut self.keys, stamp, command)
    }
}

/// Executes a command on a slot's keys: an entry, or one of several in an entry.
pub(crate) fn run(keys: &mut Keys, stamp: Stamp, command: &Command) -> Reply {
    // A reap does just that, and says whether it did.
    let reaps = command.row().number == crate::commands::REAP;
    if !reaps && keys.some_expired(stamp.clock) {
        for key in command.keys() {
            keys.reap(stamp.clock, key);
        }
    }
    let words = command.words();
    let outcome = match command.row().handler {
        Handler::Write(handler) => handler(keys, stamp, words),
        Handler::Read(handler) => handler(&View { keys, clock: stamp.clock }, words),
        Handler::Plain(_) | Handler::Door => panic!("{} has no slot, and so no entry", command.name()),
    };
    outcome.unwrap_or_else(|error| error)
}

/// Decodes a value that must fill `bytes` to the last one.
fn decode_all<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(Malformed),
    }
}

#[cfg(test)]
mod tests;
