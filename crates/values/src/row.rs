//! What is declared about a command, once. Routing, the gate between reads and writes, `COMMAND` and the documents derive from it.
//!
//! The rows themselves stand above their handlers, one file per family in `commands/`.

use bytes::Bytes;

use crate::keys::{Keys, View};
use crate::{Reply, Stamp};

/// One command, or one subcommand.
#[derive(Debug)]
pub struct Row {
    /// Its name in logs and between nodes: once given, it is never changed and never given to another.
    pub number: u16,
    /// In small letters; a subcommand has that of its container before it: `object|encoding`.
    pub name: &'static str,
    /// How many words, the name included; negative: at least so many.
    pub arity: i8,
    /// Bits of [`flag`].
    pub flags: u32,
    pub positions: Positions,
    pub group: Group,
    /// The version of Redis that brought it; of Godwit, if Redis has none.
    pub since: &'static str,
    pub summary: &'static str,
    pub(crate) handler: Handler,
}

/// Who does it. The first of the words that handlers get is the command's name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handler {
    /// On the slot's keys. None that the command names is expired: see [`crate::Table::read`].
    Read(fn(&View<'_>, &[Bytes]) -> Outcome),
    /// Likewise, and through the log.
    Write(fn(&mut Keys, Stamp, &[Bytes]) -> Outcome),
    /// A function of its words alone.
    Plain(fn(&[Bytes]) -> Outcome),
    /// Whoever holds the connection: it is about that, or the node, or more slots than one.
    Door,
}

/// An error is an answer like any other; it only ends a handler early.
pub(crate) type Outcome = Result<Reply, Reply>;

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Served from a slot's table.
    Read,
    /// Executed on a slot's table, at its place in the log.
    Write,
    /// Known without any table: [`crate::Command::answer`].
    Plain,
    /// The front door's own.
    Door,
}

/// Which words are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    None,
    /// From the first to the last (negative: from the end), each so many words apart.
    Range {
        first: u8,
        last: i8,
        step: u8,
    },
    /// No key: the first word after the name is the slot itself. Only for what nodes ask of each other.
    Slot,
}

/// Where Redis's documents have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Cluster,
    Connection,
    Generic,
    List,
    Server,
    String,
    Transactions,
}

impl Group {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Group::Cluster => "cluster",
            Group::Connection => "connection",
            Group::Generic => "generic",
            Group::List => "list",
            Group::Server => "server",
            Group::String => "string",
            Group::Transactions => "transactions",
        }
    }
}

/// What else is known of a command, under the names that `COMMAND INFO` has for it.
pub mod flag {
    pub const WRITE: u32 = 1;
    pub const READONLY: u32 = 1 << 1;
    pub const DENYOOM: u32 = 1 << 2;
    pub const ADMIN: u32 = 1 << 3;
    pub const NOSCRIPT: u32 = 1 << 4;
    pub const LOADING: u32 = 1 << 5;
    pub const STALE: u32 = 1 << 6;
    pub const FAST: u32 = 1 << 7;
    pub const NO_AUTH: u32 = 1 << 8;
    pub const NO_MULTI: u32 = 1 << 9;
    pub const ALLOW_BUSY: u32 = 1 << 10;
    pub const MOVABLEKEYS: u32 = 1 << 11;
    pub const NO_ASYNC_LOADING: u32 = 1 << 12;
    // How answers are joined if the keys are of several slots: see `Spread`.
    /// One answer per key, in the order of the keys.
    pub const IN_ORDER: u32 = 1 << 16;
    /// Numbers, added up.
    pub const SUMMED: u32 = 1 << 17;
    /// OK if all are.
    pub const ALL_OK: u32 = 1 << 18;
    // Categories of ACL that do not follow from the rest.
    pub const KEYSPACE: u32 = 1 << 24;
    pub const CONNECTION: u32 = 1 << 25;
    pub const DANGEROUS: u32 = 1 << 26;
    /// Has subcommands, with rows of their own.
    pub const CONTAINER: u32 = 1 << 30;
    /// Between nodes only: no client can name it.
    pub const INTERNAL: u32 = 1 << 31;

    /// In the order that Redis lists them.
    pub(crate) const NAMES: [(u32, &str); 13] = [
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (NOSCRIPT, "noscript"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_ASYNC_LOADING, "no_async_loading"),
        (NO_MULTI, "no_multi"),
        (ALLOW_BUSY, "allow_busy"),
        (MOVABLEKEYS, "movablekeys"),
    ];
}

impl Positions {
    pub(crate) const ONE: Self = Self::Range { first: 1, last: 1, step: 1 };
    pub(crate) const TWO: Self = Self::Range { first: 1, last: 2, step: 1 };
    pub(crate) const ALL: Self = Self::Range { first: 1, last: -1, step: 1 };
    pub(crate) const PAIRS: Self = Self::Range { first: 1, last: -1, step: 2 };
    /// The first after a subcommand.
    pub(crate) const SECOND: Self = Self::Range { first: 2, last: 2, step: 1 };

    /// The places of the keys among so many words.
    pub fn of(self, words: usize) -> impl Iterator<Item = usize> {
        let (first, end, step) = match self {
            Positions::Range { first, last, step } if last < 0 => {
                (first, (words + 1).saturating_sub(usize::from(last.unsigned_abs())), step)
            }
            Positions::Range { first, last, step } => (first, words.min(usize::from(last.unsigned_abs()) + 1), step),
            Positions::None | Positions::Slot => (0, 0, 1),
        };
        (usize::from(first)..end).step_by(usize::from(step))
    }
}

impl Row {
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.handler {
            Handler::Read(_) => Kind::Read,
            Handler::Write(_) => Kind::Write,
            Handler::Plain(_) => Kind::Plain,
            Handler::Door => Kind::Door,
        }
    }

    #[must_use]
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    #[must_use]
    pub fn takes(&self, words: usize) -> bool {
        let least = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { words >= least } else { words == least }
    }

    /// Whose subcommand it is.
    #[must_use]
    pub fn container(&self) -> Option<&'static str> {
        self.name.split_once('|').map(|(container, _)| container)
    }
}

/// All rows, those of nodes among themselves too.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    crate::commands::FAMILIES.iter().flat_map(|family| family.iter())
}

/// The row of that number in logs.
pub(crate) fn numbered(number: u64) -> Option<&'static Row> {
    let number = usize::try_from(number).ok()?;
    *BY_NUMBER.get(number)?
}

/// The row of that name, in letters of any size. Of a subcommand: `object|encoding`.
#[must_use]
pub fn named(name: &[u8]) -> Option<&'static Row> {
    look_up(&name.iter().copied())
}

/// The row of a subcommand.
pub(crate) fn named_within(container: &'static Row, name: &[u8]) -> Option<&'static Row> {
    look_up(&container.name.bytes().chain(std::iter::once(b'|')).chain(name.iter().copied()))
}

/// More than the highest number given.
const NUMBERS: usize = 512;
/// Several times as many as there are rows, so that a look-up rarely goes on to a second place.
const PLACES: usize = 1024;

static BY_NUMBER: [Option<&Row>; NUMBERS] = by_number();
static BY_NAME: [Option<&Row>; PLACES] = by_name();

const fn by_number() -> [Option<&'static Row>; NUMBERS] {
    let mut table: [Option<&'static Row>; NUMBERS] = [None; NUMBERS];
    let (mut family, mut at) = (0, 0);
    while family < crate::commands::FAMILIES.len() {
        if at == crate::commands::FAMILIES[family].len() {
            (family, at) = (family + 1, 0);
            continue;
        }
        let row = &crate::commands::FAMILIES[family][at];
        assert!(table[row.number as usize].is_none(), "two rows have one number");
        table[row.number as usize] = Some(row);
        at += 1;
    }
    table
}

const fn by_name() -> [Option<&'static Row>; PLACES] {
    let mut table: [Option<&'static Row>; PLACES] = [None; PLACES];
    let mut number = 0;
    while number < NUMBERS {
        if let Some(row) = BY_NUMBER[number] {
            let name = row.name.as_bytes();
            let (mut hash, mut at) = (SEED, 0);
            while at < name.len() {
                hash = mix(hash, name[at]);
                at += 1;
            }
            let mut place = place(hash);
            while table[place].is_some() {
                place = (place + 1) % PLACES;
            }
            table[place] = Some(row);
        }
        number += 1;
    }
    table
}

/// No allocation and no copy in small letters: most commands are found at the first place, by one comparison.
fn look_up(name: &(impl Iterator<Item = u8> + Clone)) -> Option<&'static Row> {
    let mut place = place(name.clone().fold(SEED, mix));
    while let Some(row) = BY_NAME[place] {
        if name.clone().map(|byte| byte.to_ascii_lowercase()).eq(row.name.bytes()) {
            return Some(row);
        }
        place = (place + 1) % PLACES;
    }
    None
}

const SEED: u32 = 0x811c_9dc5;

const fn mix(hash: u32, byte: u8) -> u32 {
    (hash ^ byte.to_ascii_lowercase() as u32).wrapping_mul(0x0100_0193)
}

const fn place(hash: u32) -> usize {
    (hash ^ (hash >> 15)) as usize % PLACES
}
