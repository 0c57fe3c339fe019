//! `COMMAND`: what the rows say.

use bytes::Bytes;

use super::help;
use super::options::is;
use crate::row::{Group, Outcome, Positions, Row, flag, named, rows};
use crate::{Command, Reply, errors, glob};

/// Those that a client can name, without subcommands.
fn public() -> impl Iterator<Item = &'static Row> {
    rows().filter(|row| !row.has(flag::INTERNAL) && row.container().is_none())
}

fn public_named(name: &Bytes) -> Option<&'static Row> {
    named(name).filter(|row| !row.has(flag::INTERNAL))
}

fn subcommands(of: &'static Row) -> impl Iterator<Item = &'static Row> {
    rows().filter(|row| !row.has(flag::INTERNAL) && row.container() == Some(of.name))
}

pub(super) fn all(_: &[Bytes]) -> Outcome {
    Ok(Reply::Array(public().map(described).collect()))
}

pub(super) fn count(_: &[Bytes]) -> Outcome {
    Ok(Reply::count(public().count()))
}

pub(super) fn info(words: &[Bytes]) -> Outcome {
    if words.len() == 2 {
        return all(words);
    }
    let one = |name: &Bytes| public_named(name).map_or(Reply::Nil, described);
    Ok(Reply::Array(words[2..].iter().map(one).collect()))
}

pub(super) fn docs(words: &[Bytes]) -> Outcome {
    let documented = |row: &'static Row| (name(row), documented(row));
    Ok(Reply::Map(match &words[2..] {
        [] => public().map(documented).collect(),
        names => names.iter().filter_map(public_named).map(documented).collect(),
    }))
}

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`
pub(super) fn list(words: &[Bytes]) -> Outcome {
    let every = || public().flat_map(|row| std::iter::once(row).chain(subcommands(row)));
    let names: Vec<Reply> = match &words[2..] {
        [] => public().map(name).collect(),
        [filter, by, value] if is(filter, "FILTERBY") => match () {
            () if is(by, "MODULE") => Vec::new(),
            () if is(by, "ACLCAT") => {
                every().filter(|row| categories(row).any(|name| is(value, name))).map(name).collect()
            }
            () if is(by, "PATTERN") => {
                let pattern = value.to_ascii_lowercase();
                every().filter(|row| glob::matches(&pattern, row.name.as_bytes())).map(name).collect()
            }
            () => return Err(errors::syntax()),
        },
        _ => return Err(errors::syntax()),
    };
    Ok(Reply::Array(names))
}

/// `COMMAND GETKEYS command…`
pub(super) fn getkeys(words: &[Bytes]) -> Outcome {
    let words = &words[2..];
    let command = Command::parse(words).map_err(|_| {
        let known = public_named(&words[0]).is_some();
        Reply::error(if known {
            "ERR Invalid number of arguments specified for command"
        } else {
            "ERR Invalid command specified"
        })
    })?;
    if command.row().positions == Positions::None {
        return Err(Reply::error("ERR The command has no key arguments"));
    }
    Ok(Reply::values(command.keys().cloned()))
}

pub(super) fn help(_: &[Bytes]) -> Outcome {
    help::lines(&[
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    All commands, with their flags and the places of their keys.",
        "COUNT",
        "    How many commands there are.",
        "DOCS [<command-name> ...]",
        "    What commands do.",
        "GETKEYS <full-command>",
        "    The keys among the words of a command.",
        "INFO [<command-name> ...]",
        "    The same as without a subcommand, for some.",
        "LIST [FILTERBY (MODULE <module-name>|ACLCAT <category>|PATTERN <pattern>)]",
        "    The names of commands.",
        "HELP",
        "    These lines.",
    ])
}

fn simple(text: &'static str) -> Reply {
    Reply::Simple(Bytes::from_static(text.as_bytes()))
}

fn name(row: &Row) -> Reply {
    Reply::text(row.name)
}

/// The ten things that Redis says about a command.
fn described(row: &'static Row) -> Reply {
    let (first, last, step) = match row.positions {
        Positions::Range { first, last, step } => (first.into(), last.into(), step.into()),
        Positions::None | Positions::Slot => (0, 0, 0),
    };
    let flags = flag::NAMES.iter().filter(|(flag, _)| row.has(*flag)).map(|(_, name)| simple(name));
    Reply::Array(vec![
        name(row),
        Reply::Number(row.arity.into()),
        Reply::Set(flags.collect()),
        Reply::Number(first),
        Reply::Number(last),
        Reply::Number(step),
        Reply::Set(categories(row).map(|name| Reply::Simple([b"@", name.as_bytes()].concat().into())).collect()),
        Reply::Array(tips(row).map(Reply::text).collect()),
        Reply::Array(key_specs(row)),
        Reply::Array(subcommands(row).map(described).collect()),
    ])
}

/// Of ACL, in the order of Redis.
fn categories(row: &Row) -> impl Iterator<Item = &'static str> {
    let dangerous = row.has(flag::ADMIN | flag::DANGEROUS);
    let of = [
        (row.has(flag::KEYSPACE), "keyspace"),
        (row.has(flag::READONLY), "read"),
        (row.has(flag::WRITE), "write"),
        (row.group == Group::List, "list"),
        (row.group == Group::String, "string"),
        (row.has(flag::ADMIN), "admin"),
        (row.has(flag::FAST), "fast"),
        (!row.has(flag::FAST), "slow"),
        (dangerous, "dangerous"),
        (row.has(flag::CONNECTION), "connection"),
    ];
    of.into_iter().filter(|(is, _)| *is).map(|(_, name)| name)
}

/// For clients that spread commands over nodes themselves.
fn tips(row: &Row) -> impl Iterator<Item = &'static str> {
    let of = [
        (row.has(flag::IN_ORDER | flag::SUMMED | flag::ALL_OK), "request_policy:multi_shard"),
        (row.has(flag::SUMMED), "response_policy:agg_sum"),
        (row.has(flag::ALL_OK), "response_policy:all_succeeded"),
    ];
    of.into_iter().filter(|(is, _)| *is).map(|(_, tip)| tip)
}

fn key_specs(row: &Row) -> Vec<Reply> {
    let Positions::Range { first, last, step } = row.positions else { return Vec::new() };
    let flags = if row.has(flag::WRITE) { ["RW", "update"] } else { ["RO", "access"] };
    let last = if last < 0 { i64::from(last) } else { i64::from(last) - i64::from(first) };
    let search = |kind: &'static str, spec: Vec<(&'static str, i64)>| {
        let spec = spec.into_iter().map(|(name, number)| (Reply::text(name), Reply::Number(number))).collect();
        Reply::Map(vec![(Reply::text("type"), Reply::text(kind)), (Reply::text("spec"), Reply::Map(spec))])
    };
    vec![Reply::Map(vec![
        (Reply::text("flags"), Reply::Set(flags.into_iter().map(simple).collect())),
        (Reply::text("begin_search"), search("index", vec![("index", first.into())])),
        (Reply::text("find_keys"), search("range", vec![("lastkey", last), ("keystep", step.into()), ("limit", 0)])),
    ])]
}

fn documented(row: &'static Row) -> Reply {
    let mut facts = vec![
        (Reply::text("summary"), Reply::text(row.summary)),
        (Reply::text("since"), Reply::text(row.since)),
        (Reply::text("group"), Reply::text(row.group.name())),
    ];
    let within: Vec<_> = subcommands(row).map(|row| (name(row), documented(row))).collect();
    if !within.is_empty() {
        facts.push((Reply::text("subcommands"), Reply::Map(within)));
    }
    Reply::Map(facts)
}
