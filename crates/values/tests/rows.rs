//! What must hold for every declared row.

use std::collections::BTreeSet;

use values::{Kind, Positions, flag, named, rows};

#[test]
fn every_row_is_found_by_its_name() {
    for row in rows() {
        let found = named(row.name.to_ascii_uppercase().as_bytes()).expect(row.name);
        assert_eq!(found.number, row.number, "{}", row.name);
        assert_eq!(row.name, row.name.to_ascii_lowercase());
    }
    assert!(named(b"").is_none());
    assert!(named(b"nosuch").is_none());
    let names: BTreeSet<_> = rows().map(|row| row.name).collect();
    assert_eq!(names.len(), rows().count(), "two rows have one name");
}

#[test]
fn flags_agree_with_what_is_done() {
    for row in rows() {
        let name = row.name;
        match row.kind() {
            Kind::Write => assert!(row.has(flag::WRITE) && !row.has(flag::READONLY), "{name}"),
            Kind::Read => assert!(row.has(flag::READONLY) && !row.has(flag::WRITE), "{name}"),
            Kind::Plain | Kind::Door => assert_eq!(row.positions, Positions::None, "{name}"),
        }
        if matches!(row.kind(), Kind::Read | Kind::Write) {
            assert_ne!(row.positions, Positions::None, "{name} is for a table, but which?");
        }
        assert_eq!(row.positions == Positions::Slot, name.starts_with("slot|"), "{name}");
        assert!(!row.summary.is_empty(), "{name}");
    }
}

/// The words that a row lets through have all its keys.
#[test]
fn keys_are_among_the_words() {
    for row in rows() {
        let least = usize::from(row.arity.unsigned_abs());
        for words in least..least + 5 {
            assert!(row.positions.of(words).all(|at| at < words), "{}", row.name);
        }
        if let Positions::Range { first, .. } = row.positions {
            assert_eq!(row.positions.of(least).next(), Some(usize::from(first)), "{}", row.name);
        }
    }
}

#[test]
fn containers_have_subcommands_and_others_have_none() {
    let containers: BTreeSet<_> = rows().filter(|row| row.has(flag::CONTAINER)).map(|row| row.name).collect();
    let used: BTreeSet<_> = rows().filter(|row| !row.has(flag::INTERNAL)).filter_map(|row| row.container()).collect();
    assert_eq!(containers, used);
}

/// Logs have these numbers in them. A new command gets a new one, an old one never changes: add lines here, and change none.
#[test]
fn numbers_of_logged_rows_are_pinned() {
    let logged = rows().filter(|row| matches!(row.kind(), Kind::Read | Kind::Write));
    let mut lines: Vec<(u16, &str)> = logged.map(|row| (row.number, row.name)).collect();
    lines.sort_unstable();
    let written: Vec<(u16, &str)> = PINNED
        .lines()
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(number, name)| (number.parse().expect("a number"), name))
        .collect();
    assert_eq!(lines, written);
}

const PINNED: &str = "
    1 reap
    3 slot|scan
    4 slot|count
    5 slot|flush
    6 slot|keys
    7 slot|random
    8 slot|exec
    16 append
    17 decr
    18 decrby
    19 get
    20 getdel
    21 getex
    22 getrange
    23 getset
    24 incr
    25 incrby
    26 incrbyfloat
    27 mget
    28 mset
    29 msetnx
    30 psetex
    31 set
    32 setex
    33 setnx
    34 setrange
    35 strlen
    36 substr
    40 lcs
    64 copy
    65 del
    66 exists
    67 rename
    68 renamenx
    69 touch
    70 type
    71 unlink
    80 expire
    81 expireat
    82 expiretime
    83 persist
    84 pexpire
    85 pexpireat
    86 pexpiretime
    87 pttl
    88 ttl
    97 object|encoding
    98 object|freq
    99 object|idletime
    100 object|refcount
    112 lindex
    113 linsert
    114 llen
    115 lmove
    116 lpop
    117 lpos
    118 lpush
    119 lpushx
    120 lrange
    121 lrem
    122 lset
    123 ltrim
    124 rpop
    125 rpoplpush
    126 rpush
    127 rpushx
";
