//! Conversations with a table, one file per family: what a client says after `>`, and what it is answered, as `redis-cli` shows it.
//! `@ 5ms` lets time pass. All answers were compared with those of a Redis 7.0, except for `SERIES` and what depends on slots.
//! `UPDATE_CONVERSATIONS=1` writes down what is answered now: then read every line.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use blueprint::Honest;
use bytes::Bytes;
use values::{Command, Kind, Read, Reply, Stamp, Table};

/// When conversations begin: September 2001, in µs.
const START: u64 = 1_000_000_000_000_000;

#[test]
fn all_conversations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conversations");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 7, "only {files:?}");
    for file in files {
        let written = std::fs::read_to_string(&file).expect("a conversation");
        let held = hold(&written);
        if std::env::var_os("UPDATE_CONVERSATIONS").is_some() {
            std::fs::write(&file, held).expect("writable");
        } else {
            assert!(held == written, "{}:\n{}", file.display(), difference(&written, &held));
        }
    }
}

fn difference(written: &str, held: &str) -> String {
    let line = written.lines().zip(held.lines()).position(|(a, b)| a != b).unwrap_or(0);
    let from = |text: &str| text.lines().skip(line.saturating_sub(3)).take(6).collect::<Vec<_>>().join("\n");
    format!("line {}: written\n{}\n\nsaid\n{}", line + 1, from(written), from(held))
}

/// The same conversation with the answers of today.
fn hold(written: &str) -> String {
    let (mut table, mut clock, mut out) = (Table::new(), START, String::new());
    for line in written.lines() {
        if let Some(words) = line.strip_prefix("> ") {
            writeln!(out, "{line}").expect("a string");
            let reply = ask(&mut table, clock, split(words));
            show(&reply, 0, &mut out);
        } else if let Some(millis) = line.strip_prefix("@ ").and_then(|rest| rest.strip_suffix("ms")) {
            clock += millis.parse::<u64>().expect("milliseconds") * 1000;
            writeln!(out, "{line}").expect("a string");
        } else if line.starts_with('#') || line.is_empty() {
            writeln!(out, "{line}").expect("a string");
        }
    }
    out
}

/// As a node does it: reads wait for reaps, writes go through the form of the log.
fn ask(table: &mut Table, clock: u64, words: Vec<Bytes>) -> Reply {
    let command = match Command::parse(words) {
        Ok(command) => command,
        Err(error) => return error,
    };
    match command.kind() {
        Kind::Plain => return command.answer().expect("an answer"),
        Kind::Door => return Reply::text("the door's own"),
        Kind::Read | Kind::Write => {}
    }
    if let Err(why) = command.slot() {
        return why.into();
    }
    let command = Command::decode(&command.encode()).expect("it was encoded here");
    let stamp = Stamp { clock, seed: 7 };
    if command.is_write() {
        return table.execute::<Honest>(stamp, &command);
    }
    loop {
        match table.read(clock, &command) {
            Read::Reply(reply) => return reply,
            Read::Expired(key) => assert_eq!(table.execute::<Honest>(stamp, &Command::reap(key)), Reply::Number(1)),
        }
    }
}

/// Words in double quotes may have blanks, and nothing else in them.
fn split(line: &str) -> Vec<Bytes> {
    let (mut words, mut rest) = (Vec::new(), line.trim());
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(inside) => inside.split_once('"').expect("a quote that closes"),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(Bytes::copy_from_slice(word.as_bytes()));
        rest = after.trim_start();
    }
    words
}

fn show(reply: &Reply, indent: usize, out: &mut String) {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let shown = match reply {
        Reply::Ok => "OK".to_owned(),
        Reply::Nil => "(nil)".to_owned(),
        Reply::NilArray => "(nil array)".to_owned(),
        Reply::Value(value) => format!("\"{}\"", value.escape_ascii()),
        Reply::Number(number) => format!("(integer) {number}"),
        Reply::Error(error) => format!("(error) {}", text(error)),
        Reply::Simple(status) => text(status),
        Reply::Array(items) | Reply::Set(items) if items.is_empty() => "(empty array)".to_owned(),
        Reply::Array(items) | Reply::Set(items) => return show_all(items.iter(), indent, out),
        Reply::Map(pairs) => return show_all(pairs.iter().flat_map(|(key, value)| [key, value]), indent, out),
        other => format!("{other:?}"),
    };
    writeln!(out, "{shown}").expect("a string");
}

fn show_all<'a>(items: impl Iterator<Item = &'a Reply>, indent: usize, out: &mut String) {
    for (at, item) in items.enumerate() {
        if at > 0 {
            write!(out, "{:indent$}", "").expect("a string");
        }
        let number = format!("{}) ", at + 1);
        out.push_str(&number);
        show(item, indent + number.len(), out);
    }
}
