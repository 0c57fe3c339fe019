//! Every command with words of every kind: nobody falls over, and tables stay what their encoding says.

use blueprint::Honest;
use bytes::Bytes;
use proptest::prelude::*;
use values::{Command, DEEPEST, Kind, Read, Reply, Row, Stamp, Table, flag, rows};

const WORDS: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "2",
    "5",
    "100",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1.5",
    "1e400",
    "inf",
    "0x1p4",
    "x",
    "abcabc",
    "NX",
    "XX",
    "GET",
    "GT",
    "LT",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "KEEPTTL",
    "PERSIST",
    "REPLACE",
    "DB",
    "LEFT",
    "RIGHT",
    "BEFORE",
    "AFTER",
    "RANK",
    "COUNT",
    "MAXLEN",
    "IDX",
    "LEN",
    "MINMATCHLEN",
    "WITHMATCHLEN",
    "*",
    "[a",
    "string",
    "536870912",
];

fn for_tables() -> Vec<&'static Row> {
    rows().filter(|row| matches!(row.kind(), Kind::Read | Kind::Write)).collect()
}

fn any_command() -> impl Strategy<Value = Command> {
    let word = prop_oneof![
        2 => prop::sample::select(&["{t}a", "{t}b", "{t}c"][..]),
        3 => prop::sample::select(WORDS),
    ];
    let word = word.prop_map(|text| Bytes::from_static(text.as_bytes()));
    let words = prop::collection::vec(word, 12);
    (prop::sample::select(for_tables()), words, 0usize..5, any::<prop::sample::Index>()).prop_map(
        |(row, mut words, more, key)| {
            let least = usize::from(row.arity.unsigned_abs()) - 1;
            words.truncate(if row.arity < 0 { least + more } else { least });
            let sub = row.container().map(|container| &row.name[container.len() + 1..]);
            if let (Some(sub), false) = (sub, row.has(flag::INTERNAL)) {
                words[0] = Bytes::from_static(sub.as_bytes());
            }
            let keys: Vec<usize> = row.positions.of(words.len() + 1).collect();
            for at in keys {
                words[at - 1] =
                    [Bytes::from_static(b"{t}a"), Bytes::from_static(b"{t}b")][key.index(at + 1) % 2].clone();
            }
            if row.name.starts_with("slot|") {
                words[0] = Bytes::from_static(b"7");
            }
            made(row, &words)
        },
    )
}

/// By the form of logs: rows of nodes among themselves have no other.
fn made(row: &Row, words: &[Bytes]) -> Command {
    let mut bytes = vec![1];
    let put = |mut number: usize, bytes: &mut Vec<u8>| {
        while number >= 128 {
            bytes.push(number as u8 | 128);
            number >>= 7;
        }
        bytes.push(number as u8);
    };
    put(row.number.into(), &mut bytes);
    put(words.len(), &mut bytes);
    for word in words {
        put(word.len(), &mut bytes);
        bytes.extend_from_slice(word);
    }
    Command::decode(&bytes.into()).unwrap_or_else(|_| panic!("{} {words:?}", row.name))
}

fn depth(reply: &Reply) -> u8 {
    let deepest = |items: &[Reply]| 1 + items.iter().map(depth).max().unwrap_or(0);
    match reply {
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => deepest(items),
        Reply::Map(pairs) => 1 + pairs.iter().map(|(key, value)| depth(key).max(depth(value))).max().unwrap_or(0),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn tables_stay_sound(script in prop::collection::vec((any_command(), 0u64..2_000_000), 1..60)) {
        let (mut table, mut clock) = (Table::new(), 1_000_000_000);
        for (number, (command, elapsed)) in script.into_iter().enumerate() {
            clock += elapsed;
            if !command.is_write() && let Read::Expired(key) = table.read(clock, &command) {
                prop_assert!(command.keys().any(|named| *named == key));
                prop_assert!(table.expired(clock, usize::MAX).contains(&key));
            }
            let stamp = Stamp { clock, seed: 3 };
            let mut other = Table::decode(&table.encode()).expect("a table that was encoded here");
            let series = command.in_series(values::Connection { id: 1, expires: u64::MAX }, number as u64);
            let reply = table.execute::<Honest>(stamp, &series);
            prop_assert!(depth(&reply) < DEEPEST);
            prop_assert_eq!(&other.execute::<Honest>(stamp, &series), &reply, "{:?}", series);
            prop_assert_eq!(&other, &table, "a copy goes the same way: {:?}", series);
            prop_assert_eq!(table.execute::<Honest>(stamp, &series), reply, "and a repeat changes nothing");
            prop_assert_eq!(&other, &table);
            prop_assert_eq!(Table::decode(&table.encode()), Ok(other));
        }
    }
}

/// Every name there is, of whatever kind, with any number of words: it makes no difference how they came.
#[test]
fn words_that_lie_side_by_side_are_the_same_command() {
    let names = rows().map(|row| row.name).chain(["", "nonsense", "SeT", "config|get", "reap", "slot|exec"]);
    for name in names {
        let parts = name.split('|').map(|part| Bytes::copy_from_slice(part.as_bytes()));
        for head in [parts.collect::<Vec<_>>(), vec![Bytes::copy_from_slice(name.as_bytes())]] {
            for count in 0..6 {
                let rest = WORDS[1..].iter().take(count).map(|word| Bytes::from_static(word.as_bytes()));
                let words: Vec<Bytes> = head.iter().cloned().chain(rest).collect();
                let mut ends = 0;
                let mut place = |word: &Bytes| {
                    ends += word.len();
                    ends - word.len()..ends
                };
                let places: Vec<_> = words.iter().map(&mut place).collect();
                let bytes = Bytes::from(words.concat());
                assert_eq!(Command::parse_within(&bytes, &places), Command::parse(words.clone()), "{words:?}");
            }
        }
    }
    assert_eq!(Command::parse_within(&Bytes::new(), &[]), Command::parse(Vec::new()));
}
