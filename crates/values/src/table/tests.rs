//! The table against Redis by example, and against a model too dumb to be wrong.

use super::*;
use crate::command::tests::{any_command, command};
use crate::{Connection, REMEMBERED, errors, parse_number};
use blueprint::Honest;
use proptest::prelude::*;

/// The clock is in µs, clients speak in milliseconds.
const MILLI: u64 = 1000;

fn run(table: &mut Table, clock: u64, command: &Command) -> Reply {
    table.execute::<Honest>(Stamp { clock, seed: 0 }, command)
}

fn say(table: &mut Table, clock: u64, text: &str) -> Reply {
    run(table, clock, &command(text))
}

fn text(text: &'static str) -> Reply {
    Reply::text(text)
}

fn no_keys() -> Vec<Bytes> {
    Vec::new()
}

#[test]
fn types_do_not_mix_and_set_replaces_anything() {
    let mut table = Table::new();
    assert_eq!(say(&mut table, 0, "rpush k x"), Reply::Number(1));
    assert_eq!(say(&mut table, 0, "rpush k x"), Reply::Number(2));
    assert_eq!(say(&mut table, 0, "incr k"), errors::wrong_type());
    assert_eq!(say(&mut table, 0, "get k"), errors::wrong_type());
    assert_eq!(table.read(0, &command("lrange k 0 -1")), Read::Reply(Reply::Array(vec![text("x"), text("x")])));
    assert_eq!(say(&mut table, 0, "set k 9223372036854775806"), Reply::Ok);
    assert_eq!(say(&mut table, 0, "rpush k x"), errors::wrong_type());
    assert_eq!(say(&mut table, 0, "incrby k 2"), errors::overflow());
    assert_eq!(say(&mut table, 0, "set k two"), Reply::Ok);
    assert_eq!(say(&mut table, 0, "incr k"), errors::not_a_number());
    assert_eq!(say(&mut table, 0, "del k"), Reply::Number(1));
    assert_eq!(say(&mut table, 0, "del k"), Reply::Number(0));
    assert!(table.is_empty());
}

#[test]
fn a_read_does_not_decide_that_a_key_is_gone() {
    let mut table = Table::new();
    let (get, reap) = (command("get k"), Command::reap("k".into()));
    say(&mut table, 100, "set k v px 50");
    let end = 100 + 50 * MILLI;
    assert_eq!(table.read(end - 1, &get), Read::Reply(text("v")));
    assert_eq!(run(&mut table, end - 1, &reap), Reply::Number(0));
    assert_eq!(table.expired(end - 1, 9), no_keys());
    assert_eq!(table.read(end, &get), Read::Expired("k".into()));
    assert_eq!(table.expired(end, 9), ["k"]);
    assert_eq!(run(&mut table, end, &reap), Reply::Number(1));
    assert_eq!(table.read(end, &get), Read::Reply(Reply::Nil));
    assert_eq!(table.expired(u64::MAX, 9), no_keys());
}

/// A bucket with another clock takes the table over: for the table nothing happens.
#[test]
fn a_table_keeps_its_clock_when_it_changes_hands() {
    let get = command("get k");
    for ahead in [-7_000_000, 7_000_000] {
        let mut table = Table::new();
        let now = 100_000_000u64;
        say(&mut table, now, "set k v px 50");
        table.move_clock(ahead);
        let here = |clock: u64| clock.saturating_add_signed(-ahead);
        let end = now + 50 * MILLI;
        assert_eq!(table.read(here(end) - 1, &get), Read::Reply(text("v")));
        assert_eq!(table.read(here(end), &get), Read::Expired("k".into()));
        assert_eq!(table.expired(here(end), 9), ["k"]);
        let again = Table::decode(&table.encode()).expect("it was encoded here");
        assert_eq!((again.fingerprint(), &again), (table.fingerprint(), &table));
        assert_eq!(say(&mut table, here(end), "get k"), Reply::Nil);
        assert!(!table.is_empty(), "what comes next goes by the same clock");
        // And back again: as if nothing had been.
        table.move_clock(-ahead);
        assert!(table.is_empty());
    }
}

#[test]
fn the_first_expired_key_of_several_is_named() {
    let mut table = Table::new();
    for line in ["set {t}a 1", "set {t}b 2 px 5", "set {t}c 3 px 1"] {
        say(&mut table, 0, line);
    }
    let mget = command("mget {t}a {t}b {t}c");
    assert_eq!(table.read(4 * MILLI, &mget), Read::Expired("{t}c".into()));
    assert_eq!(table.read(5 * MILLI, &mget), Read::Expired("{t}b".into()));
    assert_eq!(table.read(5 * MILLI, &command("get {t}a")), Read::Reply(text("1")));
}

#[test]
fn a_write_removes_the_expired_keys_that_it_names() {
    let mut table = Table::new();
    say(&mut table, 0, "set {t}a 1 px 1");
    say(&mut table, 0, "set {t}b 1 px 1");
    assert_eq!(say(&mut table, MILLI, "rename {t}a {t}c"), errors::no_such_key());
    assert_eq!(table.expired(MILLI, 9), ["{t}b"], "an entry removed it, though it failed");
    assert_eq!(say(&mut table, MILLI, "setnx {t}b 2"), Reply::Number(1));
    assert_eq!(table.count(), 1);
}

#[test]
fn set_clears_the_expiry_and_incr_keeps_it() {
    let mut table = Table::new();
    say(&mut table, 0, "set k 1 px 50");
    assert_eq!(say(&mut table, 10, "incr k"), Reply::Number(2));
    assert_eq!(table.expired(50 * MILLI, 9), ["k"]);
    assert_eq!(say(&mut table, 60 * MILLI, "incr k"), Reply::Number(1), "expired: counts from 0");
    assert_eq!(table.expired(u64::MAX, 9), no_keys(), "and has no expiry any more");
    say(&mut table, 60, "set k 1 px 50");
    say(&mut table, 61, "set k 2");
    assert_eq!(table.expired(u64::MAX, 9), no_keys());
}

#[test]
fn expired_lists_the_longest_expired_first_and_no_more_than_asked() {
    let mut table = Table::new();
    for line in ["set a v px 30", "set b v px 10", "set c v px 20", "set d v px 99"] {
        say(&mut table, 0, line);
    }
    assert_eq!(table.expired(30 * MILLI, 2), ["b", "c"]);
    assert_eq!(table.expired(30 * MILLI, 9).len(), 3);
}

#[test]
fn a_repeat_is_answered_and_not_executed() {
    let mut table = Table::new();
    for _ in 0..3 {
        assert_eq!(say(&mut table, 0, "series 1-1000 5 incr k"), Reply::Number(1));
    }
    assert_eq!(say(&mut table, 0, "series 1-1000 4 incr k"), Reply::Number(2), "a gap is executed");
    assert_eq!(say(&mut table, 0, "series 1-1000 6 get k"), text("2"), "a read leaves its answer too");
    say(&mut table, 0, "incr k");
    assert_eq!(say(&mut table, 999, "series 1-1000 6 get k"), text("2"));
    assert_eq!(say(&mut table, 1000, "series 1-1000 5 incr k"), errors::expired_connection());
}

/// Plans and progress go by it: what a table says that it weighs is about what travels, and an empty one weighs nothing.
#[test]
fn a_table_weighs_about_as_much_as_its_encoding() {
    let mut table = Table::new();
    for number in 0..500 {
        let value = "v".repeat(number % 300);
        say(&mut table, 0, &format!("set key:{number} {value}x"));
        say(&mut table, 0, &format!("rpush list:{} some-{number} item", number % 7));
        say(&mut table, 0, &format!("series 1-1000 {number} append text {number}"));
    }
    let (weight, encoded) = (table.bytes() as f64, table.encode().len() as f64);
    assert!((0.9..1.1).contains(&(weight / encoded)), "{weight} {encoded}");
    for number in 0..500 {
        say(&mut table, 0, &format!("del key:{number} list:{} text", number % 7));
    }
    say(&mut table, 1000, "get nothing");
    assert_eq!((table.is_empty(), table.bytes()), (true, 0));
}

/// What members send each other and keep: not to be changed by accident.
#[test]
fn the_encoding_is_pinned() {
    let mut table = Table::new();
    say(&mut table, 5, "set k v px 50");
    say(&mut table, 5, "rpush l x");
    say(&mut table, 5, "series 1-300 9 incr n");
    let bytes = table.encode();
    let n = [1, b'n', 0, 1, b'1', 0];
    let (k, l) = ([1, b'k', 0, 1, b'v', 1, 0xd5, 0x86, 3], [1, b'l', 1, 1, 1, b'x', 0]);
    let session = [1, 0xac, 2, 1, 0, 1, 9, 3, 2];
    assert_eq!(&bytes[..], [&[3][..], &l, &n, &k, &session].concat());
    assert_eq!(table.fingerprint(), 0x33f6_da4e_4924_6b48);
    let of = |keys: &[&[u8]]| Table::decode(&[&[keys.len() as u8][..], &keys.concat(), &[0]].concat());
    assert!(of(&[&l, &n]).is_ok());
    assert_eq!(of(&[&n, &l]), Err(Malformed), "out of order");
    assert_eq!(of(&[&l, &l]), Err(Malformed), "one key twice");
    assert_eq!(of(&[&[1, b'l', 1, 0, 0]]), Err(Malformed), "an empty list");
}

/// No index, no removal, no bounds but the rule itself: every session is kept for ever, with everything it executed.
#[derive(Default)]
struct Model {
    keys: Vec<(Bytes, Option<Bytes>, Vec<Bytes>, u64)>, // key, text or list, expires
    executed: Vec<(Connection, u64, Reply)>,
}

impl Model {
    fn execute(&mut self, clock: u64, command: &Command) -> Reply {
        let Some(Series { connection, number }) = command.series() else { return self.plain(clock, command) };
        if connection.expires <= clock {
            return errors::expired_connection();
        }
        let mut mine: Vec<_> = self.executed.iter().filter(|(c, ..)| *c == connection).collect();
        mine.sort_by_key(|(_, number, _)| *number);
        // Only what is held counts towards the bound, so the floor is what fell out, and that is a prefix in sorted order.
        let floor = mine.len().checked_sub(REMEMBERED + 1).map(|last_dropped| mine[last_dropped].1);
        if floor.is_some_and(|floor| number <= floor) {
            return errors::stale_series();
        }
        if let Some((.., reply)) = mine.iter().find(|(_, n, _)| *n == number) {
            return reply.clone();
        }
        let reply = self.plain(clock, command);
        self.executed.push((connection, number, reply.clone()));
        reply
    }

    fn plain(&mut self, clock: u64, command: &Command) -> Reply {
        let words = command.words();
        let key = &words[1];
        let before = self.keys.len();
        self.keys.retain(|(k, _, _, expires)| k != key || *expires > clock);
        let reaped = before - self.keys.len();
        let found = self.keys.iter().position(|(k, ..)| k == key);
        let fresh = |text, list, expires| (key.clone(), text, list, expires);
        match (command.name(), found) {
            ("set", found) => {
                found.map(|at| self.keys.remove(at));
                let millis = words.get(4).map(|millis| parse_number(millis).expect("a number") as u64);
                let expires = millis.map_or(u64::MAX, |millis| clock + millis * MILLI);
                self.keys.push(fresh(Some(words[2].clone()), vec![], expires));
                Reply::Ok
            }
            ("get", None) => Reply::Nil,
            ("get", Some(at)) => self.keys[at].1.clone().map_or(errors::wrong_type(), Reply::Value),
            ("del", found) => Reply::Number(found.map(|at| self.keys.remove(at)).iter().count() as i64),
            ("incrby", None) => {
                self.keys.push(fresh(Some(words[2].clone()), vec![], u64::MAX));
                Reply::Number(parse_number(&words[2]).expect("a number"))
            }
            ("incrby", Some(at)) => {
                let Some(text) = &self.keys[at].1 else { return errors::wrong_type() };
                let parsed = std::str::from_utf8(text).ok().and_then(|t| Some((t, t.parse::<i64>().ok()?)));
                let Some((_, old)) = parsed.filter(|(t, n)| *t == n.to_string()) else { return errors::not_a_number() };
                let by = parse_number(&words[2]).expect("a number");
                let Some(new) = old.checked_add(by) else { return errors::overflow() };
                self.keys[at].1 = Some(new.to_string().into());
                Reply::Number(new)
            }
            ("rpush", None) => {
                self.keys.push(fresh(None, vec![words[2].clone()], u64::MAX));
                Reply::Number(1)
            }
            ("rpush" | "lrange", Some(at)) if self.keys[at].1.is_some() => errors::wrong_type(),
            ("rpush", Some(at)) => {
                self.keys[at].2.push(words[2].clone());
                Reply::Number(self.keys[at].2.len() as i64)
            }
            ("lrange", found) => Reply::values(found.map_or(vec![], |at| self.keys[at].2.clone())),
            ("reap", _) => Reply::Number(reaped as i64),
            (other, _) => unreachable!("{other}"),
        }
    }
}

proptest! {
    #[test]
    fn answers_like_the_model(script in prop::collection::vec((0u64..3, any_command()), 0..400)) {
        let (mut table, mut model, mut clock) = (Table::new(), Model::default(), 0);
        for (elapsed, command) in script {
            clock += elapsed * MILLI;
            if !command.is_write() {
                let key = command.words()[1].clone();
                let read = table.read(clock, &command);
                let mut after_reap = table.clone();
                run(&mut after_reap, clock, &Command::reap(key.clone()));
                let expired = table.expired(clock, usize::MAX).contains(&key);
                prop_assert_eq!(expired, read == Read::Expired(key));
                prop_assert_eq!(after_reap.read(clock, &command), Read::Reply(model.execute(clock, &command)));
            }
            prop_assert_eq!(run(&mut table, clock, &command), model.execute(clock, &command));
            let copy = Table::decode(&table.encode());
            prop_assert_eq!(copy.as_ref().map(Table::fingerprint), Ok(table.fingerprint()));
            prop_assert_eq!(copy.as_ref(), Ok(&table));
        }
    }

    /// One busy connection, so that answers are dropped and the floor rises.
    #[test]
    fn a_busy_session_is_like_the_model(numbers in prop::collection::vec(0u64..300, 0..600)) {
        let (mut table, mut model) = (Table::new(), Model::default());
        for number in numbers {
            let series = Command::incr_by("k".into(), 1).in_series(Connection { id: 1, expires: 9 }, number);
            prop_assert_eq!(run(&mut table, 0, &series), model.execute(0, &series));
        }
        prop_assert_eq!(Table::decode(&table.encode()), Ok(table));
    }

    #[test]
    fn garbage_is_refused_or_understood(garbage in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(table) = Table::decode(&garbage) {
            prop_assert_eq!(Table::decode(&table.encode()), Ok(table));
        }
    }

    #[test]
    fn a_damaged_table_is_refused_or_another(script in prop::collection::vec(any_command(), 0..20), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut table = Table::new();
        for command in &script {
            run(&mut table, 1, command);
        }
        let mut bytes = table.encode().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        if let Ok(other) = Table::decode(&bytes) {
            prop_assert_eq!(Table::decode(&other.encode()), Ok(other));
        }
    }
}

/// One entry, each with its own answer; one that fails keeps none of the others; what is expired is not seen.
#[test]
fn a_transaction_is_one_entry() {
    let parse = |words: &str| Command::parse(words.split(' ').map(word).collect::<Vec<_>>()).unwrap();
    let slot = crate::slot_of(b"{t}a");
    let all = ["set {t}a 1", "incr {t}a", "rpush {t}a x", "mget {t}a {t}b", "get {t}old"].map(parse);
    let mut table = Table::new();
    table.execute::<Honest>(Stamp { clock: 1_000_000, seed: 0 }, &parse("set {t}old 1 px 5"));
    let transaction = Command::transaction(slot, &all);
    assert_eq!(Command::decode(&transaction.encode()), Ok(transaction.clone()));
    let Reply::Array(replies) = table.execute::<Honest>(Stamp { clock: 2_000_000, seed: 0 }, &transaction) else {
        panic!("one answer for each")
    };
    let [Reply::Ok, Reply::Number(2), Reply::Error(error), Reply::Array(values), Reply::Nil] = &replies[..] else {
        panic!("{replies:?}")
    };
    assert!(error.starts_with(b"WRONGTYPE"));
    assert_eq!(values[..], [Reply::text("2"), Reply::Nil]);
    assert_eq!(table.count(), 1, "what was expired is reaped");
}

/// A peer may send anything: what is about another slot, counts series, or is a transaction itself does not count.
#[test]
fn what_does_not_belong_into_a_transaction_is_not_done() {
    let parse = |words: &str| Command::parse(words.split(' ').map(word).collect::<Vec<_>>()).unwrap();
    let (slot, good) = (crate::slot_of(b"{t}a"), parse("set {t}a 1"));
    let others = [
        parse("set {u}a 1").encode(),
        parse("series 1-9000000 1 set {t}b 1").encode(),
        Command::transaction(slot, &[good]).encode(),
        word("nonsense"),
    ];
    for other in others {
        let mut bytes = bytes::BytesMut::new();
        // The row's number, how many words follow, and those: as `encode` has it.
        bytes.extend_from_slice(&[1, 8, 2]);
        for part in [word(&slot.0.to_string()), other] {
            bytes.extend_from_slice(&[part.len() as u8]);
            bytes.extend_from_slice(&part);
        }
        let command = Command::decode(&bytes.freeze()).expect("it has a slot");
        let mut table = Table::new();
        let reply = table.execute::<Honest>(Stamp { clock: 1, seed: 0 }, &command);
        assert_eq!(reply, Reply::Array(vec![Reply::error("ERR this is no part of a transaction")]));
        assert!(table.is_empty());
    }
}

fn word(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
