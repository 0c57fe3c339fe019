//! The table against Redis by example, and against a model too dumb to be wrong.

use super::*;
use crate::command::tests::any_command;
use crate::{Connection, REMEMBERED};
use blueprint::Honest;
use proptest::prelude::*;

fn key() -> Bytes {
    Bytes::from_static(b"k")
}

fn set(value: &'static str, ttl: Option<u64>) -> Command {
    Command::Set { key: key(), value: value.into(), ttl }
}

fn run(table: &mut Table, clock: u64, command: &Command) -> Reply {
    table.execute::<Honest>(Stamp { clock, seed: 0 }, command)
}

#[test]
fn numbers_as_redis_prints_them() {
    for (text, expected) in
        [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)]
    {
        assert_eq!(number(text.as_bytes()), Some(expected));
    }
    for text in ["", "-", "-0", "00", "01", "-01", "+1", " 1", "1 ", "1.0", "9223372036854775808", "1\u{e9}"] {
        assert_eq!(number(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn types_do_not_mix_and_set_replaces_anything() {
    let mut table = Table::new();
    let push = Command::Push { key: key(), item: "x".into() };
    let incr = Command::Incr { key: key(), by: 2 };
    assert_eq!(run(&mut table, 0, &push), Reply::Number(1));
    assert_eq!(run(&mut table, 0, &push), Reply::Number(2));
    assert_eq!(run(&mut table, 0, &incr), Reply::WrongType);
    assert_eq!(run(&mut table, 0, &Command::Get { key: key() }), Reply::WrongType);
    assert_eq!(table.read(0, &Command::Range { key: key() }), Read::Reply(Reply::Items(vec!["x".into(), "x".into()])));
    assert_eq!(run(&mut table, 0, &set("9223372036854775806", None)), Reply::Ok);
    assert_eq!(run(&mut table, 0, &push), Reply::WrongType);
    assert_eq!(run(&mut table, 0, &incr), Reply::Overflow);
    assert_eq!(run(&mut table, 0, &set("two", None)), Reply::Ok);
    assert_eq!(run(&mut table, 0, &incr), Reply::NotANumber);
    assert_eq!(run(&mut table, 0, &Command::Del { key: key() }), Reply::Number(1));
    assert_eq!(run(&mut table, 0, &Command::Del { key: key() }), Reply::Number(0));
    assert!(table.is_empty());
}

#[test]
fn a_read_does_not_decide_that_a_key_is_gone() {
    let mut table = Table::new();
    let get = Command::Get { key: key() };
    let reap = Command::Reap { key: key() };
    run(&mut table, 100, &set("v", Some(50)));
    assert_eq!(table.read(149, &get), Read::Reply(Reply::Value("v".into())));
    assert_eq!(run(&mut table, 149, &reap), Reply::Number(0));
    assert_eq!(table.expired(149, 9), Vec::<Bytes>::new());
    assert_eq!(table.read(150, &get), Read::Expired(key()));
    assert_eq!(table.expired(150, 9), vec![key()]);
    assert_eq!(run(&mut table, 150, &reap), Reply::Number(1));
    assert_eq!(table.read(150, &get), Read::Reply(Reply::Nil));
    assert_eq!(table.expired(u64::MAX, 9), Vec::<Bytes>::new());
}

#[test]
fn set_clears_the_expiry_and_incr_keeps_it() {
    let mut table = Table::new();
    run(&mut table, 0, &set("1", Some(50)));
    assert_eq!(run(&mut table, 10, &Command::Incr { key: key(), by: 1 }), Reply::Number(2));
    assert_eq!(table.expired(50, 9), vec![key()]);
    assert_eq!(run(&mut table, 60, &Command::Incr { key: key(), by: 1 }), Reply::Number(1), "expired: counts from 0");
    assert_eq!(table.expired(u64::MAX, 9), Vec::<Bytes>::new(), "and has no expiry any more");
    run(&mut table, 60, &set("1", Some(50)));
    run(&mut table, 61, &set("2", None));
    assert_eq!(table.expired(u64::MAX, 9), Vec::<Bytes>::new());
}

#[test]
fn expired_lists_the_longest_expired_first_and_no_more_than_asked() {
    let mut table = Table::new();
    for (name, ttl) in [("a", 30), ("b", 10), ("c", 20), ("d", 99)] {
        run(&mut table, 0, &Command::Set { key: name.into(), value: "v".into(), ttl: Some(ttl) });
    }
    assert_eq!(table.expired(30, 2), vec![Bytes::from("b"), Bytes::from("c")]);
    assert_eq!(table.expired(30, 9).len(), 3);
}

#[test]
fn a_series_survives_encoding_and_is_executed_once() {
    let mut table = Table::new();
    let connection = Connection { id: 1, expires: 1000 };
    let push = |number| {
        let command = Box::new(Command::Push { key: key(), item: Bytes::from(format!("{number}")) });
        Command::Series { connection, number, command }
    };
    assert_eq!(run(&mut table, 0, &push(2)), Reply::Number(1));
    let mut copy = Table::decode(&table.encode()).expect("what was encoded");
    assert_eq!(copy, table);
    assert_eq!(run(&mut copy, 0, &push(2)), Reply::Number(1), "a repeat");
    assert_eq!(run(&mut copy, 0, &push(1)), Reply::Number(2), "not a repeat, although smaller");
    assert_ne!(copy.fingerprint(), table.fingerprint());
    assert_eq!(run(&mut copy, 1000, &push(3)), Reply::ExpiredConnection);
    copy.take_sessions();
    assert_eq!(run(&mut copy, 0, &push(2)), Reply::Number(3), "the planted bug does it again");
}

/// Fingerprints are compared between members that may run different builds: the encoding is a format.
#[test]
fn the_encoding_does_not_change_unnoticed() {
    let mut table = Table::new();
    run(&mut table, 5, &set("v", Some(50)));
    let command = Box::new(Command::Push { key: "l".into(), item: "x".into() });
    run(&mut table, 6, &Command::Series { connection: Connection { id: 1, expires: 300 }, number: 9, command });
    assert_eq!(
        &table.encode()[..],
        [2, 1, b'k', 0, 1, b'v', 1, 55, 1, b'l', 1, 1, 1, b'x', 0, 1, 0xac, 2, 1, 0, 1, 9, 3, 2],
    );
    assert_eq!(table.fingerprint(), 0x2f41_ec57_8e71_874d);
}

/// No index, no removal, no bounds but the rule itself: every session is kept for ever, with everything it executed.
#[derive(Default)]
struct Model {
    keys: Vec<(Bytes, Option<Bytes>, Vec<Bytes>, u64)>, // key, text or list, expires
    executed: Vec<(Connection, u64, Reply)>,
}

impl Model {
    fn execute(&mut self, clock: u64, command: &Command) -> Reply {
        let Command::Series { connection, number, command } = command else { return self.plain(clock, command) };
        if connection.expires <= clock {
            return Reply::ExpiredConnection;
        }
        let mut mine: Vec<_> = self.executed.iter().filter(|(c, ..)| c == connection).collect();
        mine.sort_by_key(|(_, number, _)| *number);
        // Only what is held counts towards the bound, so the floor is what fell out, and that is a prefix in sorted order.
        let floor = mine.len().checked_sub(REMEMBERED + 1).map(|last_dropped| mine[last_dropped].1);
        if floor.is_some_and(|floor| *number <= floor) {
            return Reply::StaleSeries;
        }
        if let Some((.., reply)) = mine.iter().find(|(_, n, _)| n == number) {
            return reply.clone();
        }
        let reply = self.plain(clock, command);
        self.executed.push((*connection, *number, reply.clone()));
        reply
    }

    fn plain(&mut self, clock: u64, command: &Command) -> Reply {
        let before = self.keys.len();
        self.keys.retain(|(k, _, _, expires)| k != command.key() || *expires > clock);
        let reaped = before - self.keys.len();
        let found = self.keys.iter().position(|(k, ..)| k == command.key());
        let fresh = |text, list, expires| (command.key().clone(), text, list, expires);
        match (command, found) {
            (Command::Set { value, ttl, .. }, found) => {
                found.map(|at| self.keys.remove(at));
                self.keys.push(fresh(Some(value.clone()), vec![], ttl.map_or(u64::MAX, |ttl| clock + ttl)));
                Reply::Ok
            }
            (Command::Get { .. }, None) => Reply::Nil,
            (Command::Get { .. }, Some(at)) => self.keys[at].1.clone().map_or(Reply::WrongType, Reply::Value),
            (Command::Del { .. }, found) => Reply::Number(found.map(|at| self.keys.remove(at)).iter().count() as i64),
            (Command::Incr { by, .. }, None) => {
                self.keys.push(fresh(Some(by.to_string().into()), vec![], u64::MAX));
                Reply::Number(*by)
            }
            (Command::Incr { by, .. }, Some(at)) => {
                let Some(text) = &self.keys[at].1 else { return Reply::WrongType };
                let parsed = std::str::from_utf8(text).ok().and_then(|t| Some((t, t.parse::<i64>().ok()?)));
                let Some((_, old)) = parsed.filter(|(t, n)| *t == n.to_string()) else { return Reply::NotANumber };
                let Some(new) = old.checked_add(*by) else { return Reply::Overflow };
                self.keys[at].1 = Some(new.to_string().into());
                Reply::Number(new)
            }
            (Command::Push { item, .. }, None) => {
                self.keys.push(fresh(None, vec![item.clone()], u64::MAX));
                Reply::Number(1)
            }
            (Command::Push { .. } | Command::Range { .. }, Some(at)) if self.keys[at].1.is_some() => Reply::WrongType,
            (Command::Push { item, .. }, Some(at)) => {
                self.keys[at].2.push(item.clone());
                Reply::Number(self.keys[at].2.len() as i64)
            }
            (Command::Range { .. }, found) => Reply::Items(found.map_or(vec![], |at| self.keys[at].2.clone())),
            (Command::Reap { .. }, _) => Reply::Number(reaped as i64),
            (Command::Series { .. }, _) => unreachable!(),
        }
    }
}

proptest! {
    #[test]
    fn answers_like_the_model(script in prop::collection::vec((0u64..3, any_command()), 0..400)) {
        let (mut table, mut model, mut clock) = (Table::new(), Model::default(), 0);
        for (elapsed, command) in script {
            clock += elapsed;
            if !command.is_write() {
                let read = table.read(clock, &command);
                let mut after_reap = table.clone();
                run(&mut after_reap, clock, &Command::Reap { key: command.key().clone() });
                let expired = table.expired(clock, usize::MAX).contains(command.key());
                prop_assert_eq!(expired, read == Read::Expired(command.key().clone()));
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
            let command = Box::new(Command::Incr { key: key(), by: 1 });
            let series = Command::Series { connection: Connection { id: 1, expires: 9 }, number, command };
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
