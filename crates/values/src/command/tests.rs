//! Commands from words and from bytes.

use proptest::prelude::*;

use super::*;

pub(crate) fn command(text: &str) -> Command {
    Command::parse(words(text)).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

pub(crate) fn words(text: &str) -> Vec<Bytes> {
    text.split_whitespace().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

/// Few keys and small values, so that commands meet each other. Whole milliseconds, as clients speak of time.
pub(crate) fn any_plain() -> impl Strategy<Value = Command> {
    let key = || (0u8..4).prop_map(|key| Bytes::from(vec![b'{', b't', b'}', b'a' + key]));
    let text = || {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..4).prop_map(Bytes::from),
            prop_oneof![-3i64..3, Just(i64::MAX), Just(i64::MIN)].prop_map(|n| Bytes::from(n.to_string())),
        ]
    };
    let by = prop_oneof![4 => -3i64..3, 1 => any::<i64>()];
    let ttl = prop::option::of((1u64..30).prop_map(Duration::from_millis));
    prop_oneof![
        (key(), text(), ttl).prop_map(|(key, value, ttl)| Command::set(key, value, ttl)),
        key().prop_map(Command::get),
        key().prop_map(Command::del),
        (key(), by).prop_map(|(key, by)| Command::incr_by(key, by)),
        (key(), text()).prop_map(|(key, item)| Command::rpush(key, item)),
        key().prop_map(|key| Command::lrange(key, 0, -1)),
        key().prop_map(Command::reap),
    ]
}

pub(crate) fn any_command() -> impl Strategy<Value = Command> {
    let series = (0u64..3, 1u64..4, 0u64..200, any_plain())
        .prop_map(|(id, life, number, command)| command.in_series(Connection { id, expires: life * 100_000 }, number));
    prop_oneof![any_plain(), series]
}

proptest! {
    #[test]
    fn decodes_what_it_encoded(command in any_command()) {
        prop_assert_eq!(Command::decode(&command.encode()), Ok(command));
    }

    #[test]
    fn garbage_is_refused_or_understood(mut garbage in prop::collection::vec(any::<u8>(), 0..64), form in 0u8..4) {
        if let Some(first) = garbage.first_mut() {
            *first = form;
        }
        let garbage = Bytes::from(garbage);
        if let Ok(command) = Command::decode(&garbage) {
            prop_assert_eq!(command.encode(), garbage, "one command, one form");
        }
    }

    #[test]
    fn a_cut_or_longer_encoding_is_refused(command in any_command(), cut in any::<prop::sample::Index>()) {
        let bytes = command.encode();
        prop_assert_eq!(Command::decode(&bytes.slice(..cut.index(bytes.len()))), Err(Malformed));
        let longer = Bytes::from([&bytes[..], &[0]].concat());
        prop_assert_eq!(Command::decode(&longer), Err(Malformed));
    }

    #[test]
    fn words_of_any_kind_do_no_harm(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5).prop_map(Bytes::from), 0..6)) {
        let _ = Command::parse(words);
    }
}

/// The form is that of all logs to come.
#[test]
fn the_form_is_pinned() {
    let set = Command::set(Bytes::from_static(b"k"), Bytes::from_static(b"v"), None);
    assert_eq!(&set.encode()[..], [1, 31, 2, 1, b'k', 1, b'v']);
    let series = set.in_series(Connection { id: 7, expires: 300 }, 9);
    assert_eq!(&series.encode()[..], [2, 7, 0xac, 2, 9, 31, 2, 1, b'k', 1, b'v']);
}

/// No log can make a table run what is not for tables, or with fewer words than its handler looks at.
#[test]
fn what_no_handler_could_run_is_refused() {
    for bytes in [&[1, 19, 0][..], &[1, 19, 2, 1, b'k', 1, b'v'], &[1, 0xff, 0x7f, 0], &[3, 19, 1, 1, b'k'], &[1, 0]] {
        assert_eq!(Command::decode(&Bytes::from(bytes.to_vec())), Err(Malformed), "{bytes:?}");
    }
    let ping = crate::named(b"ping").expect("a row").number;
    let bytes = Bytes::from(vec![1, (ping & 0x7f) as u8 | 0x80, (ping >> 7) as u8, 0]);
    assert_eq!(Command::decode(&bytes), Err(Malformed));
    let long = Bytes::from(vec![1, 19, 1, 0x81, 0, b'k']);
    assert_eq!(Command::decode(&long), Err(Malformed), "a length in two bytes that needs one");
}

fn error(text: &str) -> String {
    match Command::parse(words(text)) {
        Err(Reply::Error(text)) => String::from_utf8(text.to_vec()).expect("text"),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn mistakes_are_told_as_redis_does() {
    for (text, expected) in [
        ("FOO", "ERR unknown command 'FOO', with args beginning with: "),
        ("foo bar baz", "ERR unknown command 'foo', with args beginning with: 'bar' 'baz' "),
        ("get", "ERR wrong number of arguments for 'get' command"),
        ("GET a b", "ERR wrong number of arguments for 'get' command"),
        ("object", "ERR wrong number of arguments for 'object' command"),
        ("OBJECT encoding", "ERR wrong number of arguments for 'object|encoding' command"),
        ("object foo", "ERR unknown subcommand 'foo'. Try OBJECT HELP."),
        ("object|encoding k", "ERR unknown command 'object|encoding', with args beginning with: 'k' "),
        ("slot|count 1", "ERR unknown command 'slot|count', with args beginning with: '1' "),
        ("reap k", "ERR unknown command 'reap', with args beginning with: 'k' "),
        ("series 1-2 3", "ERR wrong number of arguments for 'series' command"),
        ("series x 3 get k", "ERR invalid connection, it should be id-expires"),
        ("series 1-2 x get k", "ERR value is not an integer or out of range"),
        ("series 1-2 3 ping", "ERR a series needs a command with a key"),
        ("series 1-2 3 series 1-2 4 get k", "ERR a series within a series"),
        ("series 1-2 3 mget a b", "CROSSSLOT Keys in request don't hash to the same slot"),
        ("series 1-2 3 foo", "ERR unknown command 'foo', with args beginning with: "),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
    let long = "x".repeat(200);
    assert_eq!(error(&long), format!("ERR unknown command '{}', with args beginning with: ", &long[..128]));
    assert_eq!(
        error(&format!("foo {long} b")),
        format!("ERR unknown command 'foo', with args beginning with: '{}' ", &long[..128]),
    );
    let lines = Command::parse(vec![Bytes::from_static(b"a\r\nb")]);
    assert_eq!(lines, Err(Reply::error("ERR unknown command 'a  b', with args beginning with: ")));
    assert!(Command::parse(Vec::new()).is_err());
}

#[test]
fn a_chain_of_series_does_not_overflow_the_stack() {
    let chain = "series 1-2 3 ".repeat(300_000) + "get k";
    assert_eq!(error(&chain), "ERR a series within a series");
}

#[test]
fn names_in_letters_of_any_size() {
    assert_eq!(command("GeT k"), command("get k"));
    assert_eq!(command("SET k v").name(), "set");
    assert_eq!(command("oBjEcT ENcoding k").name(), "object|encoding");
}

#[test]
fn a_series_is_a_write_on_the_key_within() {
    let series = command("SERIES 1-2 3 GET foo");
    assert_eq!(series, command("get foo").in_series(Connection { id: 1, expires: 2 }, 3));
    assert!(series.is_write());
    assert_eq!(series.slot(), Ok(Slot(12182)));
    assert!(!command("lrange foo 0 -1").is_write());
}

#[test]
fn slots_and_keys() {
    assert_eq!(command("mget foo {foo}1").slot(), Ok(Slot(12182)));
    assert_eq!(command("mget foo bar").slot(), Err(NoSlot::Across));
    assert_eq!(command("ping").slot(), Err(NoSlot::Keyless));
    assert_eq!(Reply::from(NoSlot::Across), Reply::error("CROSSSLOT Keys in request don't hash to the same slot"));
    let keys = |text| command(text).keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys("mset a 1 b 2"), ["a", "b"]);
    assert_eq!(keys("mset a 1 b"), ["a", "b"]);
    assert_eq!(keys("rename a b"), ["a", "b"]);
    assert_eq!(keys("object encoding a"), ["a"]);
    assert_eq!(keys("set a b ex 1"), ["a"]);
    assert_eq!(Command::flush_slot(Slot(77)).slot(), Ok(Slot(77)));
}

#[test]
fn connections_in_text() {
    let connection = Connection { id: u64::MAX, expires: 0 };
    assert_eq!(Connection::parse(connection.to_string().as_bytes()), Some(connection));
    for text in ["", "-", "1", "1-", "-1", "1-2-3", "+1-2", "01-2"] {
        assert_eq!(Connection::parse(text.as_bytes()), None, "{text}");
    }
}
