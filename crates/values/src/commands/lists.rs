//! Lists. A list that has become empty is no longer there.

use std::collections::VecDeque;

use bytes::Bytes;

use super::options::{is, number};
use super::rows;
use crate::keys::{Expiry, Keys, View};
use crate::row::Handler::{Read, Write};
use crate::row::flag::{DENYOOM, FAST, READONLY, WRITE};
use crate::row::{Group::List, Outcome, Positions, Row};
use crate::value::{Value, own};
use crate::{Reply, Stamp, errors};

const ONE: Positions = Positions::ONE;
const TWO: Positions = Positions::TWO;
const GROWS: u32 = WRITE | DENYOOM;

pub(crate) const ROWS: &[Row] = rows! {
    (112, "lindex", 3, READONLY, ONE, List, "1.0.0", Read(lindex), "One item."),
    (113, "linsert", 5, GROWS, ONE, List, "2.2.0", Write(linsert), "Adds an item beside another."),
    (114, "llen", 2, READONLY | FAST, ONE, List, "1.0.0", Read(llen), "How many items there are."),
    (115, "lmove", 5, GROWS, TWO, List, "6.2.0", Write(lmove), "Moves an item from one end to another, of another list."),
    (116, "lpop", -2, WRITE | FAST, ONE, List, "1.0.0", Write(lpop), "Removes the first items and answers them."),
    (117, "lpos", -3, READONLY, ONE, List, "6.0.6", Read(lpos), "Where an item is."),
    (118, "lpush", -3, GROWS | FAST, ONE, List, "1.0.0", Write(lpush), "Adds items before the first."),
    (119, "lpushx", -3, GROWS | FAST, ONE, List, "2.2.0", Write(lpushx), "Adds items before the first, if there is one."),
    (120, "lrange", 4, READONLY, ONE, List, "1.0.0", Read(lrange), "The items from one to another."),
    (121, "lrem", 4, WRITE, ONE, List, "1.0.0", Write(lrem), "Removes items that are equal to one."),
    (122, "lset", 4, GROWS, ONE, List, "1.0.0", Write(lset), "Replaces one item."),
    (123, "ltrim", 4, WRITE, ONE, List, "1.0.0", Write(ltrim), "Keeps only the items from one to another."),
    (124, "rpop", -2, WRITE | FAST, ONE, List, "1.0.0", Write(rpop), "Removes the last items and answers them."),
    (125, "rpoplpush", 3, GROWS, TWO, List, "1.2.0", Write(rpoplpush), "Moves the last item to before the first of another."),
    (126, "rpush", -3, GROWS | FAST, ONE, List, "1.0.0", Write(rpush), "Adds items after the last."),
    (127, "rpushx", -3, GROWS | FAST, ONE, List, "2.2.0", Write(rpushx), "Adds items after the last, if there is one."),
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Left,
    Right,
}

impl End {
    fn parse(word: &Bytes) -> Result<End, Reply> {
        if is(word, "LEFT") {
            Ok(End::Left)
        } else if is(word, "RIGHT") {
            Ok(End::Right)
        } else {
            Err(errors::syntax())
        }
    }

    fn push(self, items: &mut VecDeque<Bytes>, item: Bytes) {
        match self {
            End::Left => items.push_front(item),
            End::Right => items.push_back(item),
        }
    }

    fn pop(self, items: &mut VecDeque<Bytes>) -> Option<Bytes> {
        match self {
            End::Left => items.pop_front(),
            End::Right => items.pop_back(),
        }
    }
}

fn lpush(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    push(keys, words, End::Left)
}

fn rpush(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    push(keys, words, End::Right)
}

fn push(keys: &mut Keys, words: &[Bytes], end: End) -> Outcome {
    if let Some(length) = extend(keys, words, end)? {
        return Ok(length);
    }
    let mut items = VecDeque::with_capacity(words.len() - 2);
    words[2..].iter().for_each(|item| end.push(&mut items, own(item)));
    let length = items.len();
    keys.set(&words[1], Value::List(items), Expiry::Never);
    Ok(Reply::count(length))
}

fn lpushx(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    Ok(extend(keys, words, End::Left)?.unwrap_or(Reply::Number(0)))
}

fn rpushx(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    Ok(extend(keys, words, End::Right)?.unwrap_or(Reply::Number(0)))
}

/// Nothing if there is no list.
fn extend(keys: &mut Keys, words: &[Bytes], end: End) -> Result<Option<Reply>, Reply> {
    keys.change_list(&words[1], |items| {
        words[2..].iter().for_each(|item| end.push(items, own(item)));
        Reply::count(items.len())
    })
}

fn lpop(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    pop(keys, words, End::Left)
}

fn rpop(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    pop(keys, words, End::Right)
}

/// `LPOP key [count]`
fn pop(keys: &mut Keys, words: &[Bytes], end: End) -> Outcome {
    let Some(count) = words.get(2) else {
        let item = keys.change_list(&words[1], |items| end.pop(items))?;
        return Ok(item.flatten().map_or(Reply::Nil, Reply::Value));
    };
    if words.len() > 3 {
        return Err(errors::wrong_arity(&words[0]));
    }
    let count = number(count).ok().and_then(|count| usize::try_from(count).ok()).ok_or_else(errors::not_positive)?;
    let popped = keys.change_list(&words[1], |items| {
        Reply::values((0..count.min(items.len())).filter_map(|_| end.pop(items)).collect::<Vec<_>>())
    })?;
    Ok(popped.unwrap_or(Reply::NilArray))
}

fn rpoplpush(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    shift(keys, &words[1], &words[2], End::Right, End::Left)
}

fn lmove(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    shift(keys, &words[1], &words[2], End::parse(&words[3])?, End::parse(&words[4])?)
}

fn shift(keys: &mut Keys, source: &Bytes, destination: &Bytes, from: End, to: End) -> Outcome {
    if keys.list(source)?.is_none() {
        return Ok(Reply::Nil);
    }
    let exists = keys.list(destination)?.is_some();
    if source == destination {
        let item = keys.change_list(source, |items| {
            let item = from.pop(items)?;
            to.push(items, item.clone());
            Some(item)
        })?;
        return Ok(item.flatten().map_or(Reply::Nil, Reply::Value));
    }
    let Some(item) = keys.change_list(source, |items| from.pop(items))?.flatten() else { return Ok(Reply::Nil) };
    if exists {
        keys.change_list(destination, |items| to.push(items, item.clone()))?;
    } else {
        keys.set(destination, Value::List(VecDeque::from([item.clone()])), Expiry::Never);
    }
    Ok(Reply::Value(item))
}

fn llen(view: &View<'_>, words: &[Bytes]) -> Outcome {
    Ok(Reply::count(view.keys.list(&words[1])?.map_or(0, VecDeque::len)))
}

fn lrange(view: &View<'_>, words: &[Bytes]) -> Outcome {
    let (first, last) = (number(&words[2])?, number(&words[3])?);
    let Some(items) = view.keys.list(&words[1])? else { return Ok(Reply::Array(Vec::new())) };
    let (from, end) = bounds(first, last, items.len());
    Ok(Reply::values(items.range(from..end).cloned()))
}

fn ltrim(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let (first, last) = (number(&words[2])?, number(&words[3])?);
    keys.change_list(&words[1], |items| {
        let (from, end) = bounds(first, last, items.len());
        items.truncate(end);
        items.drain(..from);
    })?;
    Ok(Reply::Ok)
}

/// From where to before where; negative places count from the end.
fn bounds(first: i64, last: i64, length: usize) -> (usize, usize) {
    let length = length as i64;
    let from_start = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (first, end) = (from_start(first).max(0), from_start(last).min(length - 1) + 1);
    if first >= end { (0, 0) } else { (first as usize, end as usize) }
}

/// The place that a number means, if it is within.
fn place(at: i64, length: usize) -> Option<usize> {
    let at = if at < 0 { at.saturating_add(length as i64) } else { at };
    usize::try_from(at).ok().filter(|at| *at < length)
}

fn lindex(view: &View<'_>, words: &[Bytes]) -> Outcome {
    let Some(items) = view.keys.list(&words[1])? else { return Ok(Reply::Nil) };
    Ok(place(number(&words[2])?, items.len()).map_or(Reply::Nil, |at| Reply::Value(items[at].clone())))
}

fn lset(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let length = keys.list(&words[1])?.ok_or_else(errors::no_such_key)?.len();
    let at = place(number(&words[2])?, length).ok_or_else(|| Reply::error("ERR index out of range"))?;
    keys.change_list(&words[1], |items| items[at] = own(&words[3]))?;
    Ok(Reply::Ok)
}

/// `LINSERT key BEFORE | AFTER pivot item`
fn linsert(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let after = match () {
        () if is(&words[2], "AFTER") => 1,
        () if is(&words[2], "BEFORE") => 0,
        () => return Err(errors::syntax()),
    };
    let inserted = keys.change_list(&words[1], |items| {
        let Some(pivot) = items.iter().position(|item| item == &words[3]) else { return Reply::Number(-1) };
        items.insert(pivot + after, own(&words[4]));
        Reply::count(items.len())
    })?;
    Ok(inserted.unwrap_or(Reply::Number(0)))
}

/// `LREM key count item`: so many from the left, or if negative from the right; 0: all.
fn lrem(keys: &mut Keys, _: Stamp, words: &[Bytes]) -> Outcome {
    let count = number(&words[2])?;
    let removed = keys.change_list(&words[1], |items| {
        let mut left =
            if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
        let before = items.len();
        let mut keep = |item: &Bytes| {
            let goes = left > 0 && item == &words[3];
            left -= usize::from(goes);
            !goes
        };
        if count < 0 {
            let kept: Vec<Bytes> = items.drain(..).rev().filter(|item| keep(item)).collect();
            items.extend(kept.into_iter().rev());
        } else {
            items.retain(keep);
        }
        Reply::count(before - items.len())
    })?;
    Ok(removed.unwrap_or(Reply::Number(0)))
}

/// `LPOS key item [RANK rank] [COUNT count] [MAXLEN length]`
fn lpos(view: &View<'_>, words: &[Bytes]) -> Outcome {
    let (mut rank, mut count, mut most) = (1, None, 0);
    for pair in words[3..].chunks(2) {
        let [name, value] = pair else { return Err(errors::syntax()) };
        if is(name, "RANK") {
            rank = self::rank(value)?;
        } else if is(name, "COUNT") {
            count = Some(not_negative(value, "ERR COUNT can't be negative")?);
        } else if is(name, "MAXLEN") {
            most = not_negative(value, "ERR MAXLEN can't be negative")?;
        } else {
            return Err(errors::syntax());
        }
    }
    let nothing = if count.is_some() { Reply::Array(Vec::new()) } else { Reply::Nil };
    let Some(items) = view.keys.list(&words[1])? else { return Ok(nothing) };
    let most = if most == 0 { items.len() } else { most };
    let matches = |at: &usize| items[*at] == words[2];
    let skipped = usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let wanted = match count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let found: Vec<Reply> = if rank > 0 {
        (0..items.len()).take(most).filter(matches).skip(skipped).take(wanted).map(Reply::count).collect()
    } else {
        (0..items.len()).rev().take(most).filter(matches).skip(skipped).take(wanted).map(Reply::count).collect()
    };
    Ok(if count.is_some() { Reply::Array(found) } else { found.into_iter().next().unwrap_or(Reply::Nil) })
}

fn rank(word: &Bytes) -> Result<i64, Reply> {
    match number(word)? {
        0 => Err(Reply::error(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start \
             from the end of the list",
        )),
        i64::MIN => Ok(-1), // Redis 7.0 cannot negate it, and looks for the first
        rank => Ok(rank),
    }
}

fn not_negative(word: &Bytes, why: &'static str) -> Result<usize, Reply> {
    number(word).ok().and_then(|number| usize::try_from(number).ok()).ok_or_else(|| Reply::error(why))
}
