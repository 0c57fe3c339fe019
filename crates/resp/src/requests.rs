//! What clients send: arrays of strings, or lines.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use values::parse_number;

use crate::line::Seeker;
use crate::{ProtocolError, inline};

/// The bounds of one request. Together with them the memory of a connection is bounded: nothing is set aside for what was only
/// announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub words: usize,
    pub bulk: usize,
    /// All of it, with what stands between the words.
    pub request: usize,
    /// What is too much is told as to one who has not said who it is.
    pub stranger: bool,
}

impl Limits {
    /// Those of Redis.
    pub const KNOWN: Limits =
        Limits { words: 1024 * 1024, bulk: 512 * 1024 * 1024, request: 1024 * 1024 * 1024, stranger: false };

    /// For who must say first who it is.
    pub const STRANGER: Limits = Limits { words: 10, bulk: 16 * 1024, stranger: true, ..Self::KNOWN };
}

/// The longest line: of an inline request, or of a length.
const LONGEST_LINE: usize = 64 * 1024;

/// So many places of words are kept for the next request; a client that once sent many more does not keep their memory.
const KEPT: usize = 1024;

/// Makes requests of the bytes of one connection.
#[derive(Debug)]
pub struct Requests {
    limits: Limits,
    seeker: Seeker,
    /// Up to here the buffer is understood.
    at: usize,
    /// Words that are still to come, of an array that has begun.
    expected: usize,
    /// The length of the word that comes next, if that is known.
    length: Option<usize>,
    words: Vec<Range<usize>>,
}

impl Default for Requests {
    fn default() -> Self {
        Self::new(Limits::KNOWN)
    }
}

impl Requests {
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, seeker: Seeker::default(), at: 0, expected: 0, length: None, words: Vec::new() }
    }

    /// From the next request on, and for what is still to come of this one.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The next request, and its bytes taken from the buffer; or nothing until more have arrived. Requests without words are left out.
    ///
    /// Between two calls the buffer may only grow.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Arc<[Bytes]>>, ProtocolError> {
        loop {
            if self.expected == 0 {
                match buffer.first() {
                    None => return Ok(None),
                    Some(b'*') => {
                        let Some(count) = self.count(buffer)? else { return Ok(None) };
                        self.expected = count;
                        if count == 0 {
                            self.begin_anew(buffer);
                            continue;
                        }
                    }
                    Some(_) => match self.line(buffer)? {
                        Some(words) if words.is_empty() => continue,
                        other => return Ok(other.map(Arc::from)),
                    },
                }
            }
            while self.expected > 0 {
                let Some(word) = self.word(buffer)? else { return Ok(None) };
                self.words.push(word);
                self.expected -= 1;
            }
            let request = buffer.split_to(self.at).freeze();
            let words = self.words.drain(..).map(|word| request.slice(word)).collect();
            self.words.shrink_to(KEPT);
            self.at = 0;
            return Ok(Some(words));
        }
    }

    /// How many more bytes it takes at least to get on. Worth a reserve before the next read, if there is room for that.
    #[must_use]
    pub fn missing(&self, buffer: &BytesMut) -> usize {
        self.length.map_or(1, |length| (self.at + length + 2).saturating_sub(buffer.len()).max(1))
    }

    fn begin_anew(&mut self, buffer: &mut BytesMut) {
        buffer.advance(self.at);
        self.at = 0;
    }

    /// `*3`
    fn count(&mut self, buffer: &BytesMut) -> Result<Option<usize>, ProtocolError> {
        let Some(number) = self.number(buffer, ProtocolError::TooBigMultibulkCount)? else { return Ok(None) };
        let count = number.ok_or(ProtocolError::InvalidMultibulkLength)?.max(0);
        let count = usize::try_from(count).map_err(|_| ProtocolError::InvalidMultibulkLength)?;
        if count > Limits::KNOWN.words.max(self.limits.words) {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if count > self.limits.words {
            return Err(self.strange(ProtocolError::UnauthenticatedMultibulk, ProtocolError::InvalidMultibulkLength));
        }
        Ok(Some(count))
    }

    /// `$5`, the bytes, and two more for the end of the line, whatever they are.
    fn word(&mut self, buffer: &BytesMut) -> Result<Option<Range<usize>>, ProtocolError> {
        let length = match self.length {
            Some(length) => length,
            None => {
                let first = buffer.get(self.at).copied();
                let Some(number) = self.number(buffer, ProtocolError::TooBigBulkCount)? else { return Ok(None) };
                match first {
                    Some(b'$') | None => {}
                    Some(other) => return Err(ProtocolError::ExpectedDollar(other)),
                }
                let length = number.and_then(|number| usize::try_from(number).ok());
                let length = length.ok_or(ProtocolError::InvalidBulkLength)?;
                if length > self.limits.bulk {
                    let known = length <= Limits::KNOWN.bulk;
                    let strange = self.strange(ProtocolError::UnauthenticatedBulk, ProtocolError::InvalidBulkLength);
                    return Err(if known { strange } else { ProtocolError::InvalidBulkLength });
                }
                if self.at + length > self.limits.request {
                    return Err(ProtocolError::TooBigRequest);
                }
                self.length = Some(length);
                length
            }
        };
        let end = self.at + length;
        if buffer.len() < end + 2 {
            return Ok(None);
        }
        let word = self.at..end;
        self.at = end + 2;
        self.length = None;
        Ok(Some(word))
    }

    fn strange(&self, stranger: ProtocolError, other: ProtocolError) -> ProtocolError {
        if self.limits.stranger { stranger } else { other }
    }

    /// The number after the first byte of a line, once all of the line is there; inside, whether it is one.
    fn number(&mut self, buffer: &BytesMut, too_long: ProtocolError) -> Result<Option<Option<i64>>, ProtocolError> {
        // Nearly always there are one or two digits, and all of them have arrived.
        let short = match buffer.get(self.at + 1..) {
            Some([digit @ b'0'..=b'9', b'\r', _, ..]) => Some((i64::from(digit - b'0'), 4)),
            Some([tens @ b'1'..=b'9', digit @ b'0'..=b'9', b'\r', _, ..]) => {
                Some((i64::from(tens - b'0') * 10 + i64::from(digit - b'0'), 5))
            }
            _ => None,
        };
        if let Some((number, length)) = short {
            self.seeker = Seeker::default();
            self.at += length;
            return Ok(Some(Some(number)));
        }
        let Some(end) = self.seeker.find(b'\r', buffer, self.at) else {
            return if buffer.len() - self.at > LONGEST_LINE { Err(too_long) } else { Ok(None) };
        };
        if buffer.len() < end + 2 {
            return Ok(None);
        }
        let number = buffer.get(self.at + 1..end).and_then(parse_number);
        self.at = end + 2;
        Ok(Some(number))
    }

    fn line(&mut self, buffer: &mut BytesMut) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        let Some(end) = self.seeker.find(b'\n', buffer, 0) else {
            return if buffer.len() > LONGEST_LINE { Err(ProtocolError::TooBigInline) } else { Ok(None) };
        };
        let mut line = buffer.split_to(end + 1).freeze();
        line.truncate(end);
        if line.ends_with(b"\r") {
            line.truncate(end - 1);
        }
        inline::words(&line).map(Some)
    }
}
