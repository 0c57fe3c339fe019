//! When keys expire. On the clock of the data, which runs in µs; clients speak of milliseconds and seconds.

use bytes::Bytes;

use super::options::{EX, EXAT, PX, PXAT, Time, clamp, is, number};
use super::rows;
use crate::item::ItemRef;
use crate::keys::{Keys, View};
use crate::row::Handler::{Read, Write};
use crate::row::flag::{FAST, KEYSPACE, READONLY, WRITE};
use crate::row::{Group::Generic, Outcome, Positions, Row};
use crate::{Reply, Stamp, errors};

const ONE: Positions = Positions::ONE;
const READS: u32 = READONLY | FAST | KEYSPACE;
const WRITES: u32 = WRITE | FAST | KEYSPACE;

pub(crate) const ROWS: &[Row] = rows! {
    (80, "expire", -3, WRITES, ONE, Generic, "1.0.0", Write(expire), "Lets a key live so many seconds."),
    (81, "expireat", -3, WRITES, ONE, Generic, "1.2.0", Write(expireat), "Lets a key live until a second."),
    (82, "expiretime", 2, READS, ONE, Generic, "7.0.0", Read(expiretime), "When a key expires, in seconds."),
    (83, "persist", 2, WRITES, ONE, Generic, "2.2.0", Write(persist), "Lets a key live for ever."),
    (84, "pexpire", -3, WRITES, ONE, Generic, "2.6.0", Write(pexpire), "Lets a key live so many milliseconds."),
    (85, "pexpireat", -3, WRITES, ONE, Generic, "2.6.0", Write(pexpireat), "Lets a key live until a millisecond."),
    (86, "pexpiretime", 2, READS, ONE, Generic, "7.0.0", Read(pexpiretime), "When a key expires, in milliseconds."),
    (87, "pttl", 2, READS, ONE, Generic, "2.6.0", Read(pttl), "How many milliseconds a key has left."),
    (88, "ttl", 2, READS, ONE, Generic, "1.0.0", Read(ttl), "How many seconds a key has left."),
};

fn expire(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    change(keys, stamp, words, EX)
}

fn expireat(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    change(keys, stamp, words, EXAT)
}

fn pexpire(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    change(keys, stamp, words, PX)
}

fn pexpireat(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    change(keys, stamp, words, PXAT)
}

/// A moment that has passed removes the key.
fn change(keys: &mut Keys, stamp: Stamp, words: &[Bytes], time: Time) -> Outcome {
    let conditions = Conditions::parse(&words[3..])?;
    let moment = time.moment(number(&words[2])?, stamp.clock);
    let moment = clamp(moment.ok_or_else(|| errors::invalid_expiry(&words[0]))?);
    let key = &words[1];
    let Some(item) = keys.get(key) else { return Ok(false.into()) };
    if !conditions.allow(item.expires(), moment) {
        return Ok(false.into());
    }
    if moment <= stamp.clock {
        keys.remove(key);
    } else {
        keys.set_expiry(key, Some(moment));
    }
    Ok(true.into())
}

#[derive(Default)]
struct Conditions {
    /// Only a key without an expiry.
    none: bool,
    /// Only one with an expiry.
    some: bool,
    later: bool,
    sooner: bool,
}

impl Conditions {
    fn parse(words: &[Bytes]) -> Result<Self, Reply> {
        let mut conditions = Conditions::default();
        for word in words {
            match () {
                () if is(word, "NX") => conditions.none = true,
                () if is(word, "XX") => conditions.some = true,
                () if is(word, "GT") => conditions.later = true,
                () if is(word, "LT") => conditions.sooner = true,
                () => return Err(Reply::error_with([b"ERR Unsupported option ", &word[..]].concat())),
            }
        }
        let Conditions { none, some, later, sooner } = conditions;
        if none && (some || later || sooner) {
            return Err(Reply::error("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if later && sooner {
            return Err(Reply::error("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// Without an expiry counts as later than anything.
    fn allow(&self, expires: Option<u64>, moment: u64) -> bool {
        !(self.none && expires.is_some()
            || self.some && expires.is_none()
            || self.later && expires.is_none_or(|expires| moment <= expires)
            || self.sooner && expires.is_some_and(|expires| moment >= expires))
    }
}

fn persist(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let expires = keys.get(&words[1]).is_some_and(|item| item.expires().is_some());
    keys.set_expiry(&words[1], None);
    Ok(expires.into())
}

fn pttl(view: &View<'_>, words: &[Bytes]) -> Outcome {
    Ok(told(view, &words[1], |expires| left(view, expires)))
}

fn ttl(view: &View<'_>, words: &[Bytes]) -> Outcome {
    Ok(told(view, &words[1], |expires| (left(view, expires) + 500) / 1000))
}

fn pexpiretime(view: &View<'_>, words: &[Bytes]) -> Outcome {
    Ok(told(view, &words[1], |expires| expires / 1000))
}

fn expiretime(view: &View<'_>, words: &[Bytes]) -> Outcome {
    Ok(told(view, &words[1], |expires| (expires / 1000 + 500) / 1000))
}

/// In milliseconds. Whoever is there has time left: a part of one counts as one.
fn left(view: &View<'_>, expires: u64) -> u64 {
    expires.saturating_sub(view.clock).div_ceil(1000)
}

/// -2: no such key. -1: it does not expire.
fn told(view: &View<'_>, key: &Bytes, tell: impl Fn(u64) -> u64) -> Reply {
    Reply::Number(match view.keys.get(key).map(ItemRef::expires) {
        None => -2,
        Some(None) => -1,
        Some(Some(expires)) => i64::try_from(tell(expires)).unwrap_or(i64::MAX),
    })
}
