//! What servers answer, for those who ask: our own clients and tests.

use bytes::{Bytes, BytesMut};
use values::{DEEPEST, Double, Reply, parse_number};

use crate::ProtocolError;
use crate::line::Seeker;

/// Makes replies of the bytes of one connection, in both versions of the protocol: the first byte of each part says what it is.
#[derive(Debug)]
pub struct Replies {
    seeker: Seeker,
    /// Up to here the buffer is understood.
    at: usize,
    /// Parts that are still to come until the reply is whole. Only then it is built: nothing is set aside for what was only
    /// announced.
    expected: u64,
}

impl Default for Replies {
    fn default() -> Self {
        Self { seeker: Seeker::default(), at: 0, expected: 1 }
    }
}

/// The longest string that a server may send.
const LONGEST: usize = 512 * 1024 * 1024;

impl Replies {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next reply, and its bytes taken from the buffer; or nothing until more have arrived. Between two calls the buffer may
    /// only grow.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Reply>, ProtocolError> {
        while self.expected > 0 {
            let Some((part, end)) = self.part(buffer)? else { return Ok(None) };
            self.at = end;
            self.expected = match part {
                Part::Many { count, .. } => (self.expected - 1).checked_add(count),
                // An attribute comes before what it says something about.
                Part::Attribute { count } => self.expected.checked_add(count),
                Part::Whole(_) => Some(self.expected - 1),
            }
            .ok_or(ProtocolError::InvalidReply)?;
        }
        let bytes = buffer.split_to(self.at).freeze();
        *self = Self::default();
        let mut rest = Rest { bytes, at: 0 };
        rest.build(DEEPEST).map(Some)
    }

    fn part(&mut self, buffer: &BytesMut) -> Result<Option<(Part, usize)>, ProtocolError> {
        let Some(line_end) = self.seeker.find(b'\n', buffer, self.at) else { return Ok(None) };
        match part(&buffer[self.at..], line_end + 1 - self.at)? {
            Some((part, length)) => Ok(Some((part, self.at + length))),
            None => Ok(None),
        }
    }
}

/// A reply, or the beginning of one that has others within.
enum Part {
    Whole(Reply),
    /// So many replies follow.
    Many {
        mark: u8,
        count: u64,
    },
    Attribute {
        count: u64,
    },
}

/// The first part of `bytes`, of which the first line has that length with its end; and its own length, if all of it is there.
/// Strings come out empty: only building them needs their bytes.
fn part(bytes: &[u8], line: usize) -> Result<Option<(Part, usize)>, ProtocolError> {
    let invalid = ProtocolError::InvalidReply;
    let [mark, text @ .., b'\r', b'\n'] = &bytes[..line] else { return Err(invalid) };
    let number = || parse_number(text).ok_or(invalid);
    let whole = |reply| Ok(Some((Part::Whole(reply), line)));
    match mark {
        b'+' | b'-' | b'(' | b',' => whole(Reply::Ok),
        b':' => whole(Reply::Number(number()?)),
        b'_' => whole(Reply::Nil),
        b'#' => match text {
            b"t" => whole(Reply::Boolean(true)),
            b"f" => whole(Reply::Boolean(false)),
            _ => Err(invalid),
        },
        b'$' | b'=' | b'!' if text == b"-1" => whole(Reply::Nil),
        b'$' | b'=' | b'!' => {
            let length = usize::try_from(number()?).ok().filter(|length| *length <= LONGEST).ok_or(invalid)?;
            let end = line + length + 2;
            match bytes.get(end - 2..end) {
                None => Ok(None),
                Some(b"\r\n") => Ok(Some((Part::Whole(Reply::Ok), end))),
                Some(_) => Err(invalid),
            }
        }
        b'*' if text == b"-1" => whole(Reply::NilArray),
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            let count = u64::try_from(number()?).map_err(|_| invalid)?;
            let count = if matches!(mark, b'%' | b'|') { count.checked_mul(2).ok_or(invalid)? } else { count };
            let part = if *mark == b'|' { Part::Attribute { count } } else { Part::Many { mark: *mark, count } };
            Ok(Some((part, line)))
        }
        _ => Err(invalid),
    }
}

/// What is still to be built, of a reply that is there as a whole.
struct Rest {
    bytes: Bytes,
    at: usize,
}

impl Rest {
    fn build(&mut self, levels: u8) -> Result<Reply, ProtocolError> {
        let invalid = ProtocolError::InvalidReply;
        let start = self.at;
        let rest = &self.bytes[start..];
        let line = rest.iter().position(|byte| *byte == b'\n').ok_or(invalid)? + 1;
        let mark = rest[0];
        let (part, length) = part(rest, line)?.ok_or(invalid)?;
        self.at += length;
        match part {
            Part::Many { mark, count } => {
                let within = levels.checked_sub(1).ok_or(invalid)?;
                self.build_many(mark, count, within)
            }
            Part::Attribute { count } => {
                let within = levels.checked_sub(1).ok_or(invalid)?;
                self.build_many(b'*', count, within)?;
                self.build(within)
            }
            Part::Whole(reply) => {
                let text = self.bytes.slice(start + 1..start + line - 2);
                let string = || self.bytes.slice(start + line..start + length - 2);
                Ok(match mark {
                    b'+' if text == "OK" => Reply::Ok,
                    b'+' => Reply::Simple(text),
                    b'-' => Reply::Error(text),
                    b'(' => Reply::BigNumber(text),
                    b',' => Reply::Double(Double::new(double(&text).ok_or(invalid)?)),
                    _ if reply == Reply::Nil => reply,
                    b'$' => Reply::Value(string()),
                    b'!' => Reply::Error(string()),
                    b'=' => {
                        let string = string();
                        Reply::Verbatim(if string.len() < 4 { return Err(invalid) } else { string.slice(4..) })
                    }
                    _ => reply,
                })
            }
        }
    }

    fn build_many(&mut self, mark: u8, count: u64, levels: u8) -> Result<Reply, ProtocolError> {
        // As many as were counted when the reply was found to be whole.
        let mut items = (0..count).map(|_| self.build(levels)).collect::<Result<Vec<_>, _>>()?;
        Ok(match mark {
            b'~' => Reply::Set(items),
            b'>' => Reply::Push(items),
            b'%' => {
                let mut pairs = Vec::with_capacity(items.len() / 2);
                let mut items = items.drain(..);
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    pairs.push((key, value));
                }
                Reply::Map(pairs)
            }
            _ => Reply::Array(items),
        })
    }
}

fn double(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
