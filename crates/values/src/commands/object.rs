//! What is inside a value. Tables do not follow how often or when a key is used: nothing is ever evicted.

use bytes::Bytes;

use super::{help, rows};
use crate::Reply;
use crate::item::Seen;
use crate::keys::View;
use crate::number::parse_number;
use crate::row::Handler::{Door, Plain, Read};
use crate::row::flag::{CONTAINER, KEYSPACE, LOADING, READONLY, STALE};
use crate::row::{Group::Generic, Outcome, Positions, Row};

const KEY: Positions = Positions::SECOND;
const READS: u32 = READONLY | KEYSPACE;

pub(crate) const ROWS: &[Row] = rows! {
    (96, "object", -2, CONTAINER, Positions::None, Generic, "2.2.3", Door, "About the inside of values."),
    (97, "object|encoding", 3, READS, KEY, Generic, "2.2.3", Read(encoding), "How a value is kept."),
    (98, "object|freq", 3, READS, KEY, Generic, "4.0.0", Read(freq), "How often a key is used: not followed."),
    (99, "object|idletime", 3, READS, KEY, Generic, "2.2.3", Read(idletime), "Seconds since a key was used: not followed, 0."),
    (100, "object|refcount", 3, READS, KEY, Generic, "2.2.3", Read(refcount), "How many share a value."),
    (101, "object|help", 2, LOADING | STALE | KEYSPACE, Positions::None, Generic, "6.2.0", Plain(object_help), "What OBJECT can say."),
};

/// The longest string that Redis keeps in one piece with its header.
const EMBEDDED: usize = 44;
/// Redis keeps one copy of each number below this.
const SHARED: i64 = 10_000;

/// As Redis would keep the value if it had just been set.
fn encoding(view: &View<'_>, words: &[Bytes]) -> Outcome {
    Ok(of(view, words, |value| match value {
        Seen::Text(text) if parse_number(&text).is_some() => Reply::text("int"),
        Seen::Text(text) if text.len() <= EMBEDDED => Reply::text("embstr"),
        Seen::Text(_) => Reply::text("raw"),
        Seen::List(_) => Reply::text("quicklist"),
    }))
}

fn refcount(view: &View<'_>, words: &[Bytes]) -> Outcome {
    Ok(of(view, words, |value| match value {
        Seen::Text(text) if parse_number(&text).is_some_and(|number| (0..SHARED).contains(&number)) => {
            Reply::Number(i64::from(i32::MAX))
        }
        Seen::Text(_) | Seen::List(_) => Reply::Number(1),
    }))
}

fn idletime(view: &View<'_>, words: &[Bytes]) -> Outcome {
    Ok(of(view, words, |_| Reply::Number(0)))
}

fn freq(view: &View<'_>, words: &[Bytes]) -> Outcome {
    Ok(of(view, words, |_| {
        Reply::error(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
             between policies at runtime LRU and LFU data will take some time to adjust.",
        )
    }))
}

fn of(view: &View<'_>, words: &[Bytes], tell: impl Fn(Seen<'_>) -> Reply) -> Reply {
    view.keys.get(&words[2]).map_or(Reply::Nil, |item| tell(item.seen()))
}

fn object_help(_: &[Bytes]) -> Outcome {
    help::lines(&[
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    How the value is kept.",
        "FREQ <key>",
        "    How often the key is used. Not followed here.",
        "IDLETIME <key>",
        "    Seconds since the key was used. Not followed here: always 0.",
        "REFCOUNT <key>",
        "    How many share the value.",
        "HELP",
        "    These lines.",
    ])
}
