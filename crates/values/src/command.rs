//! What can be asked of a slot, and its form in the log.
//!
//! A command is its row and its words. One command touches one slot: that is what makes split and backfill exact slot by slot.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use blueprint::Slot;
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::number::{Decimal, parse_number, parse_unsigned};
use crate::row::{self, Handler, Kind, Positions, Row, flag};
use crate::{Reply, commands, errors, slot_of};

#[derive(Clone)]
pub struct Command {
    row: &'static Row,
    /// As many as the row wants. The first is the row's name. Shared: whoever may have to ask again keeps the command.
    words: Arc<[Bytes]>,
    series: Option<Series>,
    slot: Result<Slot, NoSlot>,
}

/// Executes its command at most once per connection and number (R12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Series {
    pub connection: Connection,
    pub number: u64,
}

/// The number of a client's connection, which carries its expiry: both together are its name. In text: `id-expires`, as
/// `SERIES 17-1790000000000000 1 INCR visits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Connection {
    pub id: u64,
    /// In µs on the clock of the data: refused at or after that.
    pub expires: u64,
}

/// Why a command belongs to no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoSlot {
    /// It names no key.
    Keyless,
    /// It names keys of different slots.
    Across,
}

/// All that execution may know besides the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The clock of the data, in µs (R13). Never goes back from entry to entry.
    pub clock: u64,
    pub seed: u64,
}

/// The bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Malformed;

impl Command {
    /// What a client says, in words. The error is the answer for it.
    pub fn parse(words: impl Into<Arc<[Bytes]>>) -> Result<Command, Reply> {
        let mut words = words.into();
        let row = find_row(&words)?;
        if row.number == commands::SERIES {
            return parse_series(&words);
        }
        Arc::make_mut(&mut words)[0] = Bytes::from_static(row.name.as_bytes());
        Ok(Command::of(row, words, None))
    }

    /// The same of words that lie in these bytes. Nearly always the first of them is all that it takes to know the row, and then none of it
    /// is kept: the name is the row's own.
    pub fn parse_within(bytes: &Bytes, places: &[Range<usize>]) -> Result<Command, Reply> {
        let [name, rest @ ..] = places else { return Command::parse(Vec::new()) };
        let plain = |row: &&Row| !row.has(flag::INTERNAL | flag::CONTAINER) && row.container().is_none();
        let row = row::named(&bytes[name.clone()]).filter(plain);
        match row.filter(|row| row.takes(places.len()) && row.number != commands::SERIES) {
            Some(row) => {
                let name = std::iter::once(Bytes::from_static(row.name.as_bytes()));
                let words = name.chain(rest.iter().map(|place| bytes.slice(place.clone()))).collect();
                Ok(Command::of(row, words, None))
            }
            None => Command::parse(places.iter().map(|place| bytes.slice(place.clone())).collect::<Arc<[Bytes]>>()),
        }
    }

    /// Without a look at who asks, and with any row. The words are as many as the row wants.
    fn of(row: &'static Row, words: Arc<[Bytes]>, series: Option<Series>) -> Command {
        assert!(row.takes(words.len()), "{} with {} words", row.name, words.len());
        let slot = slot_among(row, &words);
        Command { row, words, series, slot }
    }

    #[must_use]
    pub fn row(&self) -> &'static Row {
        self.row
    }

    /// In small letters; of a subcommand `object|encoding`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// All words, the first of them the name in small letters.
    #[must_use]
    pub fn words(&self) -> &[Bytes] {
        &self.words
    }

    #[must_use]
    pub fn series(&self) -> Option<Series> {
        self.series
    }

    pub fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.row.positions.of(self.words.len()).map(|at| &self.words[at])
    }

    pub fn slot(&self) -> Result<Slot, NoSlot> {
        self.slot
    }

    #[must_use]
    pub fn kind(&self) -> Kind {
        self.row.kind()
    }

    /// Must it go through the log? A series always must, whatever it holds: it leaves its answer in the session.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.series.is_some() || self.kind() == Kind::Write
    }

    /// The answer, if it takes no table, no node and no connection to know it.
    #[must_use]
    pub fn answer(&self) -> Option<Reply> {
        match self.row.handler {
            Handler::Plain(answer) => Some(answer(&self.words).unwrap_or_else(|error| error)),
            Handler::Read(_) | Handler::Write(_) | Handler::Door => None,
        }
    }

    /// The same command, executed at most once.
    #[must_use]
    pub fn in_series(self, connection: Connection, number: u64) -> Command {
        Command { series: Some(Series { connection, number }), ..self }
    }
}

/// For those who know what they want.
impl Command {
    #[must_use]
    pub fn get(key: Bytes) -> Command {
        Command::built("get", [key])
    }

    /// Lives at least a millisecond, and whole ones, as `PX` has it.
    #[must_use]
    pub fn set(key: Bytes, value: Bytes, ttl: Option<Duration>) -> Command {
        let Some(ttl) = ttl else { return Command::built("set", [key, value]) };
        let millis = Decimal::unsigned(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1)).to_bytes();
        Command::built("set", [key, value, Bytes::from_static(b"PX"), millis])
    }

    #[must_use]
    pub fn del(key: Bytes) -> Command {
        Command::built("del", [key])
    }

    #[must_use]
    pub fn incr_by(key: Bytes, by: i64) -> Command {
        Command::built("incrby", [key, Decimal::new(by).to_bytes()])
    }

    #[must_use]
    pub fn rpush(key: Bytes, item: Bytes) -> Command {
        Command::built("rpush", [key, item])
    }

    #[must_use]
    pub fn lrange(key: Bytes, first: i64, last: i64) -> Command {
        Command::built("lrange", [key, Decimal::new(first).to_bytes(), Decimal::new(last).to_bytes()])
    }

    /// Proposed by the primary: removes the key if it is expired at the entry's clock (R13). Answers how many keys it removed.
    #[must_use]
    pub fn reap(key: Bytes) -> Command {
        Command::built("reap", [key])
    }

    /// Some of a slot's keys, from that place on: answers the place to go on at, 0 if that was all, and the keys. Looks at `count`
    /// keys or a few more. A key that is there from the first call to the last is answered at least once.
    #[must_use]
    pub fn scan_slot(slot: Slot, place: u32, count: u64, pattern: Option<Bytes>, kind: Option<Bytes>) -> Command {
        let (pattern, kind) = (pattern.unwrap_or_else(|| Bytes::from_static(b"*")), kind.unwrap_or_default());
        let (place, count) = (Decimal::unsigned(place.into()).to_bytes(), Decimal::unsigned(count).to_bytes());
        Command::built("slot|scan", [slot_word(slot), place, count, pattern, kind])
    }

    /// How many keys there are in a slot, those that are expired and not reaped yet included, as Redis counts.
    #[must_use]
    pub fn count_slot(slot: Slot) -> Command {
        Command::built("slot|count", [slot_word(slot)])
    }

    /// Removes all keys of a slot, and answers how many. Sessions stay.
    #[must_use]
    pub fn flush_slot(slot: Slot) -> Command {
        Command::built("slot|flush", [slot_word(slot)])
    }

    /// All keys of a slot that match.
    #[must_use]
    pub fn keys_of_slot(slot: Slot, pattern: Bytes) -> Command {
        Command::built("slot|keys", [slot_word(slot), pattern])
    }

    /// One key of a slot, chosen by `chance`; or nothing.
    #[must_use]
    pub fn random_of_slot(slot: Slot, chance: u64) -> Command {
        Command::built("slot|random", [slot_word(slot), Decimal::unsigned(chance).to_bytes()])
    }

    /// All of these, which are about this slot, as one.
    #[must_use]
    pub fn transaction(slot: Slot, commands: &[Command]) -> Command {
        assert!(commands.iter().all(|command| command.slot == Ok(slot)), "a transaction is about one slot");
        let row = row::named(b"slot|exec").expect("a name of ours");
        let head = [Bytes::from_static(row.name.as_bytes()), slot_word(slot)];
        let words: Vec<Bytes> = head.into_iter().chain(commands.iter().map(Command::encode)).collect();
        Command::of(row, words.into(), None)
    }

    fn built<const WORDS: usize>(name: &'static str, rest: [Bytes; WORDS]) -> Command {
        let row = row::named(name.as_bytes()).expect("a name of ours");
        let mut words = Vec::with_capacity(WORDS + 1);
        words.push(Bytes::from_static(row.name.as_bytes()));
        words.extend(rest);
        Command::of(row, words.into(), None)
    }

    /// The same command about other words; for parts of one that spans slots.
    pub(crate) fn with_words(&self, mut words: Vec<Bytes>) -> Command {
        words.insert(0, self.words[0].clone());
        Command::of(self.row, words.into(), self.series)
    }
}

/// The form in the log and between nodes: `1`, number of the row, how many words follow the name, and each of them; or `2`, the
/// connection and the number of a series, and then the same. Numbers as postcard has them, seven bits to the byte, the low ones first.
/// Another first byte will be another form.
const PLAIN: u8 = 1;
const IN_SERIES: u8 = 2;
const LONGEST_VARINT: usize = 10;

impl Command {
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(self.most_bytes());
        self.encode_into(&mut bytes);
        bytes.freeze()
    }

    /// No more than these are encoded.
    #[must_use]
    pub fn most_bytes(&self) -> usize {
        let words: usize = self.words[1..].iter().map(|word| word.len() + LONGEST_VARINT).sum();
        let series = if self.series.is_some() { 3 * LONGEST_VARINT } else { 0 };
        1 + series + 2 * LONGEST_VARINT + words
    }

    pub fn encode_into(&self, bytes: &mut BytesMut) {
        match self.series {
            None => bytes.put_u8(PLAIN),
            Some(Series { connection, number }) => {
                bytes.put_u8(IN_SERIES);
                [connection.id, connection.expires, number].iter().for_each(|number| put_varint(bytes, *number));
            }
        }
        put_varint(bytes, self.row.number.into());
        put_varint(bytes, self.words.len() as u64 - 1);
        for word in &self.words[1..] {
            put_varint(bytes, word.len() as u64);
            bytes.put_slice(word);
        }
    }

    /// Its words are slices of `bytes`. Refuses what no execution could make sense of: no such row, too few words, no slot.
    pub fn decode(bytes: &Bytes) -> Result<Command, Malformed> {
        Command::decode_of(bytes, slot_among)
    }

    /// The same of what somebody has put into the log of that slot, so it need not be found out again.
    pub fn decode_in(slot: Slot, bytes: &Bytes) -> Result<Command, Malformed> {
        Command::decode_of(bytes, |_, _| Ok(slot))
    }

    fn decode_of(
        bytes: &Bytes,
        slot: impl FnOnce(&Row, &[Bytes]) -> Result<Slot, NoSlot>,
    ) -> Result<Command, Malformed> {
        let mut rest = Rest { bytes, at: 0 };
        let series = match rest.byte()? {
            PLAIN => None,
            IN_SERIES => {
                let connection = Connection { id: rest.varint()?, expires: rest.varint()? };
                Some(Series { connection, number: rest.varint()? })
            }
            _ => return Err(Malformed),
        };
        let row = row::numbered(rest.varint()?).ok_or(Malformed)?;
        let follow = usize::try_from(rest.varint()?).map_err(|_| Malformed)?;
        // Each word takes a byte at least: garbage cannot ask for more memory than it has bytes.
        if follow > rest.len() || !row.takes(follow + 1) || !matches!(row.kind(), Kind::Read | Kind::Write) {
            return Err(Malformed);
        }
        // Nearly always there are few: then nothing has to be allocated but the words themselves.
        let (mut few, mut many) = ([const { 0..0 }; 8], Vec::new());
        if follow > few.len() {
            many.resize(follow, 0..0);
        }
        let places = if follow > few.len() { &mut many[..] } else { &mut few[..follow] };
        for place in &mut *places {
            *place = rest.word()?;
        }
        let name = std::iter::once(Bytes::from_static(row.name.as_bytes()));
        let words: Arc<[Bytes]> = name.chain(places.iter().map(|place| bytes.slice(place.clone()))).collect();
        let slot = slot(row, &words);
        if rest.len() > 0 || slot.is_err() { Err(Malformed) } else { Ok(Command { row, words, series, slot }) }
    }
}

fn find_row(words: &[Bytes]) -> Result<&'static Row, Reply> {
    let name = words.first().map_or(&[][..], |name| &name[..]);
    let known = row::named(name).filter(|row| !row.has(flag::INTERNAL) && row.container().is_none());
    let mut row = known.ok_or_else(|| errors::unknown_command(words))?;
    if row.has(flag::CONTAINER) && words.len() > 1 {
        row = row::named_within(row, &words[1]).ok_or_else(|| errors::unknown_subcommand(words))?;
    }
    if row.takes(words.len()) { Ok(row) } else { Err(errors::wrong_arity(row.name.as_bytes())) }
}

/// `SERIES <connection> <number> <command…>`
fn parse_series(words: &[Bytes]) -> Result<Command, Reply> {
    // Not after parsing it: a long enough chain of them would overflow the stack.
    if row::named(&words[3]).is_some_and(|row| row.number == commands::SERIES) {
        return Err(Reply::error("ERR a series within a series"));
    }
    let command = Command::parse(&words[3..])?;
    let connection = Connection::parse(&words[1]);
    let connection = connection.ok_or_else(|| Reply::error("ERR invalid connection, it should be id-expires"))?;
    let number = parse_unsigned(&words[2]).ok_or_else(errors::not_a_number)?;
    match command.slot {
        Ok(_) => Ok(command.in_series(connection, number)),
        Err(NoSlot::Across) => Err(errors::cross_slot()),
        Err(NoSlot::Keyless) => Err(Reply::error("ERR a series needs a command with a key")),
    }
}

fn slot_among(row: &Row, words: &[Bytes]) -> Result<Slot, NoSlot> {
    if row.positions == Positions::Slot {
        let number = words.get(1).and_then(|word| parse_number(word)).and_then(|number| u16::try_from(number).ok());
        return number.and_then(Slot::new).ok_or(NoSlot::Keyless);
    }
    let mut slots = row.positions.of(words.len()).map(|at| slot_of(&words[at]));
    let first = slots.next().ok_or(NoSlot::Keyless)?;
    if slots.all(|slot| slot == first) { Ok(first) } else { Err(NoSlot::Across) }
}

fn slot_word(slot: Slot) -> Bytes {
    Decimal::unsigned(slot.0.into()).to_bytes()
}

impl Connection {
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Connection> {
        let dash = text.iter().position(|byte| *byte == b'-')?;
        Some(Connection { id: parse_unsigned(&text[..dash])?, expires: parse_unsigned(&text[dash + 1..])? })
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.id, self.expires)
    }
}

impl From<NoSlot> for Reply {
    fn from(why: NoSlot) -> Reply {
        match why {
            NoSlot::Across => errors::cross_slot(),
            NoSlot::Keyless => Reply::error("ERR the command names no key"),
        }
    }
}

impl PartialEq for Command {
    fn eq(&self, other: &Self) -> bool {
        self.row.number == other.row.number && self.words == other.words && self.series == other.series
    }
}

impl Eq for Command {}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Series { connection, number }) = self.series {
            write!(f, "series {connection} {number} ")?;
        }
        f.write_str(self.row.name)?;
        self.words[1..].iter().try_for_each(|word| write!(f, " {word:?}"))
    }
}

impl Serialize for Command {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.encode().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Command::decode(&Bytes::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed encoding")
    }
}

impl std::error::Error for Malformed {}

fn put_varint(bytes: &mut BytesMut, mut number: u64) {
    while number >= 0x80 {
        bytes.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.put_u8(number as u8);
}

/// What is still to be decoded.
struct Rest<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl Rest<'_> {
    fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = self.bytes.get(self.at).ok_or(Malformed)?;
        self.at += 1;
        Ok(*byte)
    }

    /// Only the shortest form: equal commands have equal bytes.
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return Err(Malformed);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    /// Where it lies.
    fn word(&mut self) -> Result<Range<usize>, Malformed> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        if length > self.len() {
            return Err(Malformed);
        }
        self.at += length;
        Ok(self.at - length..self.at)
    }
}

#[cfg(test)]
pub(crate) mod tests;
