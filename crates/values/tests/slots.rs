//! What concerns a whole slot, and what spans several.

use std::collections::BTreeSet;

use blueprint::{Honest, Slot};
use bytes::Bytes;
use proptest::prelude::*;
use values::{Command, Cursor, Read, Reply, Scan, Stamp, Table, parse_unsigned, slot_of};

const SLOT: Slot = Slot(5);

fn command(text: &str) -> Command {
    let words: Vec<_> = text.split_whitespace().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
    Command::parse(words).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn run(table: &mut Table, clock: u64, command: &Command) -> Reply {
    table.execute::<Honest>(Stamp { clock, seed: 0 }, command)
}

fn read(table: &Table, clock: u64, command: &Command) -> Reply {
    match table.read(clock, command) {
        Read::Reply(reply) => reply,
        Read::Expired(key) => panic!("{key:?} is expired"),
    }
}

/// Where to go on, and the keys.
fn scan(table: &Table, clock: u64, command: &Command) -> (u32, Vec<Bytes>) {
    let Reply::Array(parts) = read(table, clock, command) else { panic!("not two parts") };
    let [Reply::Value(place), Reply::Array(keys)] = &parts[..] else { panic!("not a place and keys") };
    let value = |reply: &Reply| if let Reply::Value(key) = reply { key.clone() } else { panic!("no key") };
    let place = parse_unsigned(place).and_then(|place| u32::try_from(place).ok()).expect("a place");
    (place, keys.iter().map(value).collect())
}

fn key(number: u16) -> Bytes {
    Bytes::from(format!("{{t}}{number}"))
}

proptest! {
    /// Redis's promise: what is there from beginning to end comes at least once; what never was there does not come.
    #[test]
    fn a_scan_misses_nothing_that_stays(
        stays in prop::collection::btree_set(0u16..300, 0..60),
        changes in prop::collection::vec((300u16..400, any::<bool>()), 0..80),
        count in 1u64..12,
    ) {
        let mut table = Table::new();
        for number in &stays {
            run(&mut table, 0, &Command::set(key(*number), "v".into(), None));
        }
        let (mut seen, mut place, mut changes) = (BTreeSet::new(), 0, changes.into_iter());
        loop {
            let (next, keys) = scan(&table, 0, &Command::scan_slot(SLOT, place, count, None, None));
            seen.extend(keys);
            for (number, comes) in changes.by_ref().take(7) {
                let change = if comes { Command::set(key(number), "v".into(), None) } else { Command::del(key(number)) };
                run(&mut table, 0, &change);
            }
            if next == 0 {
                break;
            }
            prop_assert!(next > place, "it gets on");
            place = next;
        }
        prop_assert!(stays.iter().all(|number| seen.contains(&key(*number))));
        prop_assert!(seen.iter().all(|seen| (0..400).any(|number| key(number) == seen)));
    }

    #[test]
    fn spread_over_slots_and_joined_again(numbers in prop::collection::vec(0u8..12, 1..20)) {
        let keys: Vec<String> = numbers.iter().map(|number| format!("k{number}")).collect();
        let mut tables = vec![Table::new(); Slot::COUNT.into()];
        let mut ask = |text: &str| {
            let spread = command(text).spread().expect("it can be spread");
            let replies: Vec<Reply> = spread.parts().iter().map(|part| {
                let slot = part.slot().expect("each part has one slot");
                run(&mut tables[usize::from(slot.0)], 0, part)
            }).collect();
            spread.join(&replies)
        };
        let pairs: Vec<String> = keys.iter().enumerate().map(|(at, key)| format!("{key} {at}")).collect();
        prop_assert_eq!(ask(&format!("mset {}", pairs.join(" "))), Reply::Ok);
        let last = |key: &String| keys.iter().rposition(|other| other == key).expect("it is there").to_string();
        let expected = Reply::values(keys.iter().map(|key| Bytes::from(last(key))));
        prop_assert_eq!(ask(&format!("mget {}", keys.join(" "))), expected);
        prop_assert_eq!(ask(&format!("exists {}", keys.join(" "))), Reply::count(keys.len()));
        let distinct = keys.iter().collect::<BTreeSet<_>>().len();
        prop_assert_eq!(ask(&format!("del {} none", keys.join(" "))), Reply::count(distinct));
    }

    #[test]
    fn cursors_there_and_back(slot in 0u16..16384, place in any::<u32>()) {
        let cursor = Cursor { slot: Slot(slot), place };
        prop_assert_eq!(Cursor::parse(&cursor.to_bytes()), Some(cursor));
        prop_assert!(parse_unsigned(&cursor.to_bytes()).expect("a number") < 1 << 53);
    }
}

#[test]
fn scans_choose() {
    let mut table = Table::new();
    for line in ["set {t}a 1", "set {t}ab 1", "rpush {t}l 1", "set {t}gone 1 px 1"] {
        run(&mut table, 0, &command(line));
    }
    let found = |pattern: Option<&str>, kind: Option<&str>| {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let (next, mut keys) =
            scan(&table, 1000, &Command::scan_slot(SLOT, 0, 100, pattern.map(bytes), kind.map(bytes)));
        assert_eq!(next, 0);
        keys.sort();
        keys
    };
    assert_eq!(found(None, None), ["{t}a", "{t}ab", "{t}l"]);
    assert_eq!(found(Some("{t}a*"), None), ["{t}a", "{t}ab"]);
    assert_eq!(found(None, Some("LIST")), ["{t}l"]);
    assert_eq!(found(None, Some("hash")), Vec::<Bytes>::new());
    assert_eq!(read(&table, 1000, &Command::count_slot(SLOT)), Reply::Number(4), "expired and not reaped counts");
    let Reply::Array(keys) = read(&table, 1000, &Command::keys_of_slot(SLOT, "*".into())) else { panic!("keys") };
    assert_eq!(keys.len(), 3);
    let random = |chance| read(&table, 1000, &Command::random_of_slot(SLOT, chance));
    let chosen: BTreeSet<String> = (0..64).map(|at| format!("{:?}", random(at << 58))).collect();
    assert_eq!(chosen.len(), 3, "any, but never the expired one: {chosen:?}");
}

#[test]
fn a_flush_leaves_sessions() {
    let mut table = Table::new();
    let incr = command("series 1-1000 1 incr k");
    assert_eq!(run(&mut table, 0, &incr), Reply::Number(1));
    assert_eq!(run(&mut table, 0, &Command::flush_slot(SLOT)), Reply::Number(1));
    assert_eq!(table.count(), 0);
    assert!(!table.is_empty());
    assert_eq!(run(&mut table, 0, &incr), Reply::Number(1));
    assert_eq!(table.count(), 0, "answered, not executed");
    assert_eq!(read(&table, 0, &Command::random_of_slot(SLOT, 7)), Reply::Nil);
}

#[test]
fn what_cannot_be_spread() {
    let refused = |text: &str| match command(text).spread().expect_err(text) {
        Reply::Error(error) => String::from_utf8(error.to_vec()).expect("text"),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("msetnx a 1 b 2"), "CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(refused("rename a b"), "CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(refused("mset a 1 b"), "ERR wrong number of arguments for 'mset' command");
    let spread = command("exists a b").spread().expect("two parts");
    let down = Reply::error("CLUSTERDOWN of one");
    assert_eq!(spread.join(&[Reply::Number(1), down.clone()]), down);
}

#[test]
fn words_of_scan() {
    let parse = |text: &str| Scan::parse(&command(text));
    let scan = parse("scan 0 match a* COUNT 5 type list").expect("all its words");
    assert_eq!((scan.cursor, scan.count), (Cursor::START, 5));
    assert_eq!(scan.within(SLOT, 3, 2), Command::scan_slot(SLOT, 3, 2, Some("a*".into()), Some("list".into())));
    for (text, expected) in [
        ("scan x", "ERR invalid cursor"),
        ("scan 0 count", "ERR syntax error"),
        ("scan 0 count 0", "ERR syntax error"),
        ("scan 0 count x", "ERR value is not an integer or out of range"),
        ("scan 0 bogus 1", "ERR syntax error"),
    ] {
        assert_eq!(parse(text), Err(Reply::error(expected)), "{text}");
    }
    assert_eq!(Cursor::next(Slot(3), 0), Cursor { slot: Slot(4), place: 0 });
    assert_eq!(Cursor::next(Slot(3), 9), Cursor { slot: Slot(3), place: 9 });
    assert_eq!(Cursor::next(Slot::LAST, 0), Cursor::START);
    assert_eq!(slot_of(b"{t}1"), slot_of(b"t"));
}

/// R12: who hears of a failure may believe that nothing was done.
#[test]
fn a_write_in_parts_fails_only_if_no_part_was_done() {
    let (again, uncertain) = (Reply::error("TRYAGAIN later"), Reply::error("UNCERTAIN who knows"));
    let join = |text: &str, replies: &[&Reply]| {
        let replies: Vec<Reply> = replies.iter().map(|reply| (*reply).clone()).collect();
        command(text).spread().expect("two parts").join(&replies)
    };
    for (text, done) in [("mset a 1 b 2", Reply::Ok), ("del a b", Reply::Number(1)), ("unlink a b", Reply::Number(0))] {
        assert_eq!(join(text, &[&again, &again]), again, "{text}");
        for replies in
            [[&done, &again], [&again, &done], [&uncertain, &again], [&again, &uncertain], [&done, &uncertain]]
        {
            let answer = join(text, &replies);
            assert!(answer.is_uncertain(), "{text}: {replies:?} gave {answer:?}");
        }
    }
    assert_eq!(join("mget a b", &[&Reply::Array(vec![Reply::Nil]), &again]), again);
    assert_eq!(join("exists a b", &[&again, &Reply::Number(1)]), again);
}
