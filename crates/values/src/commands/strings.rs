//! Strings.

use bytes::Bytes;

use super::options::{EX, LONGEST, PX, Time, is, number};
use super::{float, rows};
use crate::keys::{Expiry, Keys, View};
use crate::number::{Decimal, parse_number};
use crate::row::Handler::{Read, Write};
use crate::row::flag::{ALL_OK, DENYOOM, FAST, IN_ORDER, READONLY, WRITE};
use crate::row::{Group::String, Outcome, Positions, Row};
use crate::{Reply, Stamp, errors};

const ONE: Positions = Positions::ONE;
const GROWS: u32 = WRITE | DENYOOM;

pub(crate) const ROWS: &[Row] = rows! {
    (16, "append", 3, GROWS | FAST, ONE, String, "2.0.0", Write(append), "Adds to the end of a value."),
    (17, "decr", 2, GROWS | FAST, ONE, String, "1.0.0", Write(decr), "Takes one from a number."),
    (18, "decrby", 3, GROWS | FAST, ONE, String, "1.0.0", Write(decrby), "Takes something from a number."),
    (19, "get", 2, READONLY | FAST, ONE, String, "1.0.0", Read(get), "A value."),
    (20, "getdel", 2, WRITE | FAST, ONE, String, "6.2.0", Write(getdel), "A value, which is then removed."),
    (21, "getex", -2, WRITE | FAST, ONE, String, "6.2.0", Write(getex), "A value, and a new expiry for it."),
    (22, "getrange", 4, READONLY, ONE, String, "2.4.0", Read(getrange), "A part of a value."),
    (23, "getset", 3, GROWS | FAST, ONE, String, "1.0.0", Write(getset), "Sets a value and answers the old one."),
    (24, "incr", 2, GROWS | FAST, ONE, String, "1.0.0", Write(incr), "Adds one to a number."),
    (25, "incrby", 3, GROWS | FAST, ONE, String, "1.0.0", Write(incrby), "Adds something to a number."),
    (26, "incrbyfloat", 3, GROWS | FAST, ONE, String, "2.6.0", Write(incrbyfloat), "Adds a number with a fraction."),
    (27, "mget", -2, READONLY | FAST | IN_ORDER, Positions::ALL, String, "1.0.0", Read(mget), "Several values."),
    (28, "mset", -3, GROWS | ALL_OK, Positions::PAIRS, String, "1.0.1", Write(mset), "Sets several values."),
    (29, "msetnx", -3, GROWS, Positions::PAIRS, String, "1.0.1", Write(msetnx), "Sets several values if none is there."),
    (30, "psetex", 4, GROWS, ONE, String, "2.6.0", Write(psetex), "Sets a value that lives some milliseconds."),
    (31, "set", -3, GROWS, ONE, String, "1.0.0", Write(set), "Sets a value, whatever was there before."),
    (32, "setex", 4, GROWS, ONE, String, "2.0.0", Write(setex), "Sets a value that lives some seconds."),
    (33, "setnx", 3, GROWS | FAST, ONE, String, "1.0.0", Write(setnx), "Sets a value if there is none."),
    (34, "setrange", 4, GROWS, ONE, String, "2.2.0", Write(setrange), "Overwrites a part of a value."),
    (35, "strlen", 2, READONLY | FAST, ONE, String, "2.2.0", Read(strlen), "How long a value is."),
    (36, "substr", 4, READONLY, ONE, String, "1.0.0", Read(getrange), "A part of a value; better GETRANGE."),
};

fn get(view: &View<'_>, words: &[Bytes]) -> Outcome {
    value(view.keys, &words[1])
}

fn value(keys: &Keys, key: &Bytes) -> Outcome {
    Ok(keys.text(key)?.map_or(Reply::Nil, |text| Reply::Value(text.to_bytes())))
}

fn strlen(view: &View<'_>, words: &[Bytes]) -> Outcome {
    Ok(Reply::count(view.keys.text(&words[1])?.map_or(0, |text| text.len())))
}

fn getrange(view: &View<'_>, words: &[Bytes]) -> Outcome {
    let (first, last) = (number(&words[2])?, number(&words[3])?);
    let Some(text) = view.keys.text(&words[1])? else { return Ok(Reply::Value(Bytes::new())) };
    if first < 0 && last < 0 && first > last {
        return Ok(Reply::Value(Bytes::new()));
    }
    let length = text.len() as i64;
    let from_start = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let (first, last) = (from_start(first), from_start(last).min(length - 1));
    let part = if first > last { Bytes::new() } else { text.part(first as usize..last as usize + 1) };
    Ok(Reply::Value(part))
}

/// A key of another type counts as absent here, as nowhere else.
fn mget(view: &View<'_>, words: &[Bytes]) -> Outcome {
    let one = |key| value(view.keys, key).unwrap_or(Reply::Nil);
    Ok(Reply::Array(words[1..].iter().map(one).collect()))
}

/// `SET key value [NX | XX] [GET] [EX seconds | PX millis | EXAT moment | PXAT moment | KEEPTTL]`
fn set(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    let (key, value) = (&words[1], &words[2]);
    if words.len() == 3 {
        keys.set_text(key, value, Expiry::Never);
        return Ok(Reply::Ok);
    }
    let (mut when, mut answers_old) = (When::Always, false);
    let mut lives = Lives::Unsaid;
    let mut rest = words[3..].iter();
    while let Some(word) = rest.next() {
        if is(word, "NX") && when != When::Present {
            when = When::Absent;
        } else if is(word, "XX") && when != When::Absent {
            when = When::Present;
        } else if is(word, "GET") {
            answers_old = true;
        } else if is(word, "KEEPTTL") && matches!(lives, Lives::Unsaid | Lives::Kept) {
            lives = Lives::Kept;
        } else {
            lives = lives.until(word, &mut rest)?;
        }
    }
    let expiry = match lives {
        Lives::Unsaid | Lives::Persists => Expiry::Never,
        Lives::Kept => Expiry::Kept,
        Lives::Until(time, word) => Expiry::At(time.expiry(&words[0], word, stamp.clock)?),
    };
    let old = if answers_old { Some(self::value(keys, key)?) } else { None };
    let goes = match when {
        When::Always => true,
        When::Absent => !keys.contains(key),
        When::Present => keys.contains(key),
    };
    if goes {
        keys.set_text(key, value, expiry);
    }
    Ok(old.unwrap_or(if goes { Reply::Ok } else { Reply::Nil }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    Absent,
    Present,
}

/// What the options say about the expiry. At most one of them may be given, but that one more than once.
#[derive(Clone, Copy)]
enum Lives<'a> {
    Unsaid,
    Kept,
    Persists,
    Until(Time, &'a Bytes),
}

impl<'a> Lives<'a> {
    fn until(self, word: &Bytes, rest: &mut std::slice::Iter<'a, Bytes>) -> Result<Self, Reply> {
        let time = Time::named(word).ok_or_else(errors::syntax)?;
        match self {
            Lives::Unsaid => {}
            Lives::Until(same, _) if same == time => {}
            Lives::Until(..) | Lives::Kept | Lives::Persists => return Err(errors::syntax()),
        }
        Ok(Lives::Until(time, rest.next().ok_or_else(errors::syntax)?))
    }
}

/// `GETEX key [EX seconds | PX millis | EXAT moment | PXAT moment | PERSIST]`
fn getex(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    let mut lives = Lives::Unsaid;
    let mut rest = words[2..].iter();
    while let Some(word) = rest.next() {
        if is(word, "PERSIST") && matches!(lives, Lives::Unsaid | Lives::Persists) {
            lives = Lives::Persists;
        } else {
            lives = lives.until(word, &mut rest)?;
        }
    }
    let key = &words[1];
    let Reply::Value(text) = value(keys, key)? else { return Ok(Reply::Nil) };
    match lives {
        Lives::Unsaid | Lives::Kept => {}
        Lives::Persists => keys.set_expiry(key, None),
        Lives::Until(time, word) => match time.expiry(&words[0], word, stamp.clock)? {
            past if past <= stamp.clock => drop(keys.take(key)),
            expires => keys.set_expiry(key, Some(expires)),
        },
    }
    Ok(Reply::Value(text))
}

fn setnx(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let absent = !keys.contains(&words[1]);
    if absent {
        keys.set_text(&words[1], &words[2], Expiry::Never);
    }
    Ok(absent.into())
}

fn setex(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    set_living(keys, stamp, words, EX)
}

fn psetex(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    set_living(keys, stamp, words, PX)
}

fn set_living(keys: &mut Keys, stamp: Stamp, words: &[Bytes], time: Time) -> Outcome {
    let expires = time.expiry(&words[0], &words[2], stamp.clock)?;
    keys.set_text(&words[1], &words[3], Expiry::At(expires));
    Ok(Reply::Ok)
}

fn getset(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let old = value(keys, &words[1])?;
    keys.set_text(&words[1], &words[2], Expiry::Never);
    Ok(old)
}

fn getdel(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let old = value(keys, &words[1])?;
    keys.remove(&words[1]);
    Ok(old)
}

fn mset(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    for pair in pairs(words)? {
        keys.set_text(&pair[0], &pair[1], Expiry::Never);
    }
    Ok(Reply::Ok)
}

fn msetnx(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    let absent = pairs(words)?.all(|pair| !keys.contains(&pair[0]));
    if absent {
        mset(keys, stamp, words)?;
    }
    Ok(absent.into())
}

fn pairs(words: &[Bytes]) -> Result<std::slice::ChunksExact<'_, Bytes>, Reply> {
    let pairs = words[1..].chunks_exact(2);
    if pairs.remainder().is_empty() { Ok(pairs) } else { Err(errors::wrong_arity(&words[0])) }
}

fn incr(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    add(keys, &words[1], 1)
}

fn decr(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    add(keys, &words[1], -1)
}

fn incrby(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    add(keys, &words[1], number(&words[2])?)
}

fn decrby(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let by = number(&words[2])?.checked_neg();
    add(keys, &words[1], by.ok_or_else(|| Reply::error("ERR decrement would overflow"))?)
}

/// An absent key counts as 0.
fn add(keys: &mut Keys, key: &Bytes, by: i64) -> Outcome {
    let mut new = by;
    let added = keys.change_text(key, |text| {
        let old = parse_number(text).ok_or_else(errors::not_a_number)?;
        new = old.checked_add(by).ok_or_else(errors::overflow)?;
        Ok(Decimal::new(new))
    })?;
    if added.is_none() {
        keys.set_text(key, Decimal::new(by).as_bytes(), Expiry::Never);
    }
    Ok(Reply::Number(new))
}

fn incrbyfloat(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let invalid = || Reply::error("ERR value is not a valid float");
    let old = keys.text(&words[1])?.map_or(Some(float::ZERO), |text| float::parse(&text)).ok_or_else(invalid)?;
    let by = float::parse(&words[2]).ok_or_else(invalid)?;
    let sum = old.plus(by);
    let text = sum.ok_or_else(|| Reply::error("ERR increment would produce NaN or Infinity"))?.to_text();
    let text = Bytes::from(text);
    keys.set_text(&words[1], &text, Expiry::Kept);
    Ok(Reply::Value(text))
}

fn append(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let (key, more) = (&words[1], &words[2]);
    let old = keys.text(key)?.map_or(0, |text| text.len());
    if old + more.len() > LONGEST {
        return Err(errors::too_long());
    }
    keys.write_text(key, old, more).map(Reply::count)
}

fn setrange(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let offset = usize::try_from(number(&words[2])?).map_err(|_| Reply::error("ERR offset is out of range"))?;
    let (key, part) = (&words[1], &words[3]);
    let old = keys.text(key)?.map_or(0, |text| text.len());
    if part.is_empty() {
        return Ok(Reply::count(old));
    }
    offset.checked_add(part.len()).filter(|end| *end <= LONGEST).ok_or_else(errors::too_long)?;
    keys.write_text(key, offset, part).map(Reply::count)
}
