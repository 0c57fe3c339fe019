//! Keys of any type.

use bytes::Bytes;

use super::options::{is, number};
use super::rows;
use crate::keys::{Expiry, Keys, View};
use crate::row::Handler::{Read, Write};
use crate::row::flag::{DENYOOM, FAST, KEYSPACE, READONLY, SUMMED, WRITE};
use crate::row::{Group::Generic, Outcome, Positions, Row};
use crate::value::Value;
use crate::{Reply, Stamp, errors};

const ALL: Positions = Positions::ALL;
const ONE: Positions = Positions::ONE;
const TWO: Positions = Positions::TWO;
const READS: u32 = READONLY | KEYSPACE;
const WRITES: u32 = WRITE | KEYSPACE;

pub(crate) const ROWS: &[Row] = rows! {
    (64, "copy", -3, WRITES | DENYOOM, TWO, Generic, "6.2.0", Write(copy), "Copies a key to another."),
    (65, "del", -2, WRITES | SUMMED, ALL, Generic, "1.0.0", Write(del), "Removes keys."),
    (66, "exists", -2, READS | SUMMED | FAST, ALL, Generic, "1.0.0", Read(exists), "How many of these keys there are."),
    (67, "rename", 3, WRITES, TWO, Generic, "1.0.0", Write(rename), "Gives a key another name."),
    (68, "renamenx", 3, WRITES | FAST, TWO, Generic, "1.0.0", Write(renamenx), "Gives a key a name that is free."),
    (69, "touch", -2, READS | SUMMED | FAST, ALL, Generic, "3.2.1", Read(exists), "How many of these keys there are."),
    (70, "type", 2, READS | FAST, ONE, Generic, "1.0.0", Read(kind), "The type of a value."),
    (71, "unlink", -2, WRITES | SUMMED | FAST, ALL, Generic, "4.0.0", Write(del), "Removes keys."),
};

fn del(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    Ok(Reply::count(words[1..].iter().filter(|key| keys.remove(key)).count()))
}

/// A key that is named twice counts twice.
fn exists(view: &View<'_>, words: &[Bytes]) -> Outcome {
    Ok(Reply::count(words[1..].iter().filter(|key| view.keys.contains(key)).count()))
}

fn kind(view: &View<'_>, words: &[Bytes]) -> Outcome {
    let name = view.keys.get(&words[1]).map_or("none", |item| item.seen().type_name());
    Ok(Reply::Simple(Bytes::from_static(name.as_bytes())))
}

/// `COPY source destination [DB number] [REPLACE]`
fn copy(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let mut replaces = false;
    let mut rest = words[3..].iter();
    while let Some(word) = rest.next() {
        if is(word, "REPLACE") {
            replaces = true;
        } else if is(word, "DB") && !rest.as_slice().is_empty() {
            if rest.next().map_or(Ok(0), number)? != 0 {
                return Err(Reply::error("ERR DB index is out of range"));
            }
        } else {
            return Err(errors::syntax());
        }
    }
    let (source, destination) = (&words[1], &words[2]);
    if source == destination {
        return Err(Reply::error("ERR source and destination objects are the same"));
    }
    let Some(item) = keys.get(source) else { return Ok(false.into()) };
    if keys.contains(destination) && !replaces {
        return Ok(false.into());
    }
    let (value, expires) = (item.seen().to_value(), item.expires());
    put(keys, destination, value, expires);
    Ok(true.into())
}

fn rename(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let (source, destination) = (&words[1], &words[2]);
    if source == destination {
        return if keys.contains(source) { Ok(Reply::Ok) } else { Err(errors::no_such_key()) };
    }
    let item = keys.take(source).ok_or_else(errors::no_such_key)?;
    let expires = item.as_ref().expires();
    put(keys, destination, item.into_value(), expires);
    Ok(Reply::Ok)
}

fn renamenx(keys: &mut Keys, stamp: Stamp, words: &[Bytes]) -> Outcome {
    if !keys.contains(&words[1]) {
        return Err(errors::no_such_key());
    }
    if keys.contains(&words[2]) {
        return Ok(false.into());
    }
    rename(keys, stamp, words).map(|_| true.into())
}

fn put(keys: &mut Keys, key: &Bytes, value: Value, expires: Option<u64>) {
    keys.set(key, value, expires.map_or(Expiry::Never, Expiry::At));
}
