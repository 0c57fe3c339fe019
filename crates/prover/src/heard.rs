//! What an answer means for the one who asked: done, certainly not done, or nobody knows.

use bytes::Bytes;
use history::{Call, Seen};
use values::Reply;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Seen(Seen),
    /// Certainly not done here: ask there.
    Moved {
        slot: u16,
        address: String,
    },
    /// Certainly not done. With the first word of the error.
    Refused(String),
    /// It may have been done.
    Doubt(String),
    /// No error, and nothing that this call can be answered. A store that says this is broken.
    Strange(String),
}

/// Errors that promise that nothing was done. Others promise nothing, as far as a stranger can tell.
const REFUSALS: &[&str] = &[
    "TRYAGAIN",
    "NOREPLICAS",
    "CLUSTERDOWN",
    "MISCONF",
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "ASK",
    "NOAUTH",
    "NOPERM",
];

pub(crate) fn hear(call: &Call, reply: &Reply) -> Heard {
    if let Reply::Error(text) = reply {
        return hear_error(&String::from_utf8_lossy(text));
    }
    match seen(call, reply).filter(|seen| call.fits(seen)) {
        Some(seen) => Heard::Seen(seen),
        None => Heard::Strange(format!("{call} was answered {reply:?}")),
    }
}

pub(crate) fn hear_error(text: &str) -> Heard {
    let mut words = text.split_whitespace();
    let kind = words.next().unwrap_or_default().to_owned();
    if kind == "MOVED"
        && let Some(slot) = words.next().and_then(|slot| slot.parse().ok())
        && let Some(address) = words.next()
    {
        return Heard::Moved { slot, address: address.to_owned() };
    }
    if REFUSALS.contains(&kind.as_str()) || kind == "MOVED" { Heard::Refused(kind) } else { Heard::Doubt(kind) }
}

fn seen(call: &Call, reply: &Reply) -> Option<Seen> {
    let number = |bytes: &Bytes| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
    let item = |reply: &Reply| if let Reply::Value(bytes) = reply { number(bytes) } else { None };
    Some(match (call, reply) {
        (_, Reply::Ok) => Seen::Done,
        (_, Reply::Nil | Reply::NilArray) => Seen::Nil,
        (Call::Count, Reply::Value(bytes)) => Seen::Number(i64::try_from(number(bytes)?).ok()?),
        (_, Reply::Value(bytes)) => Seen::Value(number(bytes)?),
        (_, Reply::Number(number)) => Seen::Number(*number),
        (_, Reply::Array(items)) => Seen::Items(items.iter().map(item).collect::<Option<_>>()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Call = Call::Write { value: 7, ttl: None };

    #[test]
    fn answers_that_fit() {
        let value = |text: &'static str| Reply::text(text);
        for (call, reply, expected) in [
            (WRITE, Reply::Ok, Seen::Done),
            (Call::Read, value("7"), Seen::Value(7)),
            (Call::Read, Reply::Nil, Seen::Nil),
            (Call::Delete, Reply::Number(0), Seen::Number(0)),
            (Call::Incr, Reply::Number(3), Seen::Number(3)),
            (Call::Count, value("3"), Seen::Number(3)),
            (Call::Push { item: 1 }, Reply::Number(1), Seen::Number(1)),
            (Call::Range, Reply::Array(vec![value("5"), value("6")]), Seen::Items(vec![5, 6])),
            (Call::Range, Reply::Array(vec![]), Seen::Items(vec![])),
        ] {
            assert_eq!(hear(&call, &reply), Heard::Seen(expected), "{call} {reply:?}");
        }
    }

    #[test]
    fn answers_that_no_store_should_give() {
        for (call, reply) in [
            (WRITE, Reply::Number(1)),
            (Call::Read, Reply::text("not a number")),
            (Call::Read, Reply::Number(7)),
            (Call::Incr, Reply::Number(0)),
            (Call::Range, Reply::Array(vec![Reply::Nil])),
        ] {
            assert!(matches!(hear(&call, &reply), Heard::Strange(_)), "{call} {reply:?}");
        }
    }

    #[test]
    fn errors() {
        let moved = Heard::Moved { slot: 12182, address: "127.0.0.1:7002".into() };
        let refused = |kind: &str| Heard::Refused(kind.into());
        let doubt = |kind: &str| Heard::Doubt(kind.into());
        for (text, expected) in [
            ("MOVED 12182 127.0.0.1:7002", moved),
            ("MOVED nonsense", refused("MOVED")),
            ("TRYAGAIN nobody leads this slot", refused("TRYAGAIN")),
            ("NOREPLICAS Not enough good replicas to write.", refused("NOREPLICAS")),
            ("CLUSTERDOWN The cluster is down", refused("CLUSTERDOWN")),
            ("MISCONF the disk of this node is full", refused("MISCONF")),
            ("UNCERTAIN the primary changed", doubt("UNCERTAIN")),
            ("STALESERIES the number is too old", doubt("STALESERIES")),
            ("ERR anything", doubt("ERR")),
            ("", doubt("")),
        ] {
            assert_eq!(hear(&WRITE, &Reply::error(text)), expected, "{text}");
        }
    }
}
