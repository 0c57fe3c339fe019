//! What clients send: arrays of strings, or lines.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
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
    /// Where that array has begun.
    begun: usize,
    /// The length of the word that comes next, if that is known.
    length: Option<usize>,
    words: Vec<Range<usize>>,
    /// Of the arrays that are whole and still in the buffer: how many words there are with theirs.
    ends: Vec<usize>,
}

/// The words of one request. There is at least one.
#[derive(Clone, Debug)]
pub enum Words<'a> {
    /// Where they lie in these bytes.
    Array {
        bytes: &'a Bytes,
        places: &'a [Range<usize>],
    },
    Line(Vec<Bytes>),
}

impl Words<'_> {
    #[must_use]
    pub fn into_shared(self) -> Arc<[Bytes]> {
        match self {
            Self::Array { bytes, places } => places.iter().map(|place| bytes.slice(place.clone())).collect(),
            Self::Line(words) => words.into(),
        }
    }
}

/// Why no more arrays were looked for.
enum Scanned {
    /// There are as many as were wanted.
    Few,
    /// What comes next has not arrived, or not all of it.
    Rest,
    /// It is no array.
    Line,
}

impl Default for Requests {
    fn default() -> Self {
        Self::new(Limits::KNOWN)
    }
}

impl Requests {
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let (words, ends) = (Vec::new(), Vec::new());
        Self { limits, seeker: Seeker::default(), at: 0, expected: 0, begun: 0, length: None, words, ends }
    }

    /// From the next request on, and for what is still to come of this one.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The next request, and its bytes taken from the buffer; or nothing until more have arrived. Requests without words are left out.
    ///
    /// Between two calls the buffer may only grow.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Arc<[Bytes]>>, ProtocolError> {
        let mut found = None;
        self.next_few(buffer, 1, |words| found = Some(words.into_shared()))?;
        Ok(found)
    }

    /// The same for up to `most` that have arrived. Their bytes are taken together: to take them one by one costs more than to read them.
    /// False: that was all. After an error those before it count.
    pub fn next_few(
        &mut self,
        buffer: &mut BytesMut,
        most: usize,
        mut found: impl FnMut(Words<'_>),
    ) -> Result<bool, ProtocolError> {
        let mut left = most;
        while left > 0 {
            let before = self.ends.len();
            let scanned = self.scan(buffer, left);
            left -= self.ends.len() - before;
            self.take(buffer, &mut found);
            match scanned? {
                Scanned::Few => {}
                Scanned::Rest => return Ok(false),
                Scanned::Line => match self.line(buffer)? {
                    None => return Ok(false),
                    Some(words) if words.is_empty() => {}
                    Some(words) => {
                        found(Words::Line(words));
                        left -= 1;
                    }
                },
            }
        }
        Ok(true)
    }

    /// Finds the words of up to `most` arrays, where they lie.
    fn scan(&mut self, buffer: &BytesMut, most: usize) -> Result<Scanned, ProtocolError> {
        while self.ends.len() < most {
            if self.expected == 0 {
                match buffer.get(self.at) {
                    None => return Ok(Scanned::Rest),
                    Some(b'*') => {
                        self.begun = self.at;
                        let Some(count) = self.count(buffer)? else { return Ok(Scanned::Rest) };
                        self.expected = count;
                        if count == 0 {
                            continue;
                        }
                    }
                    Some(_) => return Ok(Scanned::Line),
                }
            }
            while self.expected > 0 {
                let Some(word) = self.word(buffer)? else { return Ok(Scanned::Rest) };
                self.words.push(word);
                self.expected -= 1;
            }
            self.ends.push(self.words.len());
        }
        Ok(Scanned::Few)
    }

    /// Takes what is whole from the buffer. What has begun after it is found where it lies then.
    fn take(&mut self, buffer: &mut BytesMut, found: &mut impl FnMut(Words<'_>)) {
        let done = if self.expected == 0 { self.at } else { self.begun };
        if done == 0 {
            return;
        }
        let bytes = buffer.split_to(done).freeze();
        let mut from = 0;
        for end in self.ends.drain(..) {
            found(Words::Array { bytes: &bytes, places: &self.words[from..end] });
            from = end;
        }
        self.words.drain(..from);
        self.words.shrink_to(KEPT);
        for word in &mut self.words {
            *word = word.start - done..word.end - done;
        }
        (self.at, self.begun) = (self.at - done, 0);
        self.seeker = Seeker::default();
    }

    /// How many more bytes it takes at least to get on. Worth a reserve before the next read, if there is room for that.
    #[must_use]
    pub fn missing(&self, buffer: &BytesMut) -> usize {
        self.length.map_or(1, |length| (self.at + length + 2).saturating_sub(buffer.len()).max(1))
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
                if self.at - self.begun + length > self.limits.request {
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
