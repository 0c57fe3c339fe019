//! One key of a slot with all that belongs to it.
//!
//! Most keys have a short text as their value, and there are millions of them: such a one is a single piece of memory, with the key, the
//! text, and a byte that says where the one ends and the other begins. Whatever is longer, or no text, lies apart from its key.
//!
//! ```text
//! head: length of the key (6 bits), free (1 bit), expires (1 bit) | length of the key, if it is long (8 bytes)
//!       | expiry, if it expires (8 bytes) | key | text
//! ```

use std::collections::VecDeque;
use std::ops::{Deref, Range};

use bytes::{Bytes, BytesMut};

use crate::value::{self, Value};

/// Longer texts are shared with those who read them; shorter ones are copied, which costs less than to share. And a text of just 1 KiB,
/// 2 KiB and so on, as many are, fills what an allocator has for it: with a key before it, it would need the next size.
pub(crate) const LONGEST_WHOLE: usize = 1000;

#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// Head, key and text. The text is never longer than [`LONGEST_WHOLE`].
    Whole(Box<[u8]>),
    /// Never a text that could be in one piece with its key.
    Parted(Box<Parted>),
}

/// A table of a million keys has a million of them.
const _: () = assert!(size_of::<Item>() == 16);

#[derive(Clone, Debug)]
pub(crate) struct Parted {
    /// Head and key.
    name: Box<[u8]>,
    value: Value,
}

/// A value as readers see it, wherever it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen<'a> {
    Text(Text<'a>),
    List(&'a VecDeque<Bytes>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Text<'a> {
    Near(&'a [u8]),
    Shared(&'a Bytes),
}

/// In the first byte.
const EXPIRES: u8 = 1;
const LENGTH: u32 = 2;
/// Instead of a length: it did not fit.
const LONG: u8 = u8::MAX >> LENGTH;

impl Item {
    pub(crate) fn of_text(key: &[u8], expires: Option<u64>, text: &[u8]) -> Self {
        if text.len() > LONGEST_WHOLE {
            return Self::parted(key, expires, Value::Text(Bytes::copy_from_slice(text)));
        }
        Item::Whole(pack(key, expires, text))
    }

    pub(crate) fn of(key: &[u8], expires: Option<u64>, value: Value) -> Self {
        match value {
            Value::Text(text) if text.len() <= LONGEST_WHOLE => Item::Whole(pack(key, expires, &text)),
            value => Self::parted(key, expires, value),
        }
    }

    fn parted(key: &[u8], expires: Option<u64>, value: Value) -> Self {
        Item::Parted(Box::new(Parted { name: pack(key, expires, &[]), value }))
    }

    /// Where its head is.
    fn name(&self) -> &[u8] {
        match self {
            Item::Whole(bytes) => bytes,
            Item::Parted(parted) => &parted.name,
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        let name = self.name();
        &name[key_within(name)]
    }

    /// On the clock of the data, in µs: absent from then on.
    pub(crate) fn expires(&self) -> Option<u64> {
        let name = self.name();
        if name[0] & EXPIRES == 0 {
            return None;
        }
        let end = key_within(name).start;
        Some(u64::from_le_bytes(name[end - 8..end].try_into().expect("eight bytes")))
    }

    pub(crate) fn is_expired(&self, clock: u64) -> bool {
        self.expires().is_some_and(|expires| expires <= clock)
    }

    pub(crate) fn seen(&self) -> Seen<'_> {
        match self {
            Item::Whole(bytes) => Seen::Text(Text::Near(&bytes[key_within(bytes).end..])),
            Item::Parted(parted) => match &parted.value {
                Value::Text(text) => Seen::Text(Text::Shared(text)),
                Value::List(items) => Seen::List(items),
            },
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Item::Whole(_) => self.seen().to_value(),
            Item::Parted(parted) => parted.value,
        }
    }

    /// For those who change it without making another kind of it.
    pub(crate) fn list_mut(&mut self) -> Option<&mut VecDeque<Bytes>> {
        match self {
            Item::Parted(parted) => match &mut parted.value {
                Value::List(items) => Some(items),
                Value::Text(_) => None,
            },
            Item::Whole(_) => None,
        }
    }

    /// Its beginning and its end, for those who only want to have looked.
    pub(crate) fn touch(&self) -> u8 {
        let name = self.name();
        name[0] ^ name[name.len() - 1]
    }

    /// Whatever its value is, it becomes this text, in the same memory if it can.
    pub(crate) fn set_text(&mut self, text: &[u8]) {
        match self {
            Item::Whole(bytes) if text.len() <= LONGEST_WHOLE => {
                let from = key_within(bytes).end;
                resize(bytes, from + text.len());
                bytes[from..].copy_from_slice(text);
            }
            Item::Parted(parted) if text.len() > LONGEST_WHOLE => {
                if !parted.value.overwrite(text) {
                    parted.value = Value::Text(Bytes::copy_from_slice(text));
                }
            }
            Item::Whole(_) | Item::Parted(_) => *self = Item::of_text(self.key(), self.expires(), text),
        }
    }

    pub(crate) fn set_value(&mut self, value: Value) {
        match (self, value) {
            (item, Value::Text(text)) if text.len() <= LONGEST_WHOLE => item.set_text(&text),
            (Item::Parted(parted), value) => parted.value = value,
            (item, value) => *item = Item::of(item.key(), item.expires(), value),
        }
    }

    pub(crate) fn set_expiry(&mut self, expires: Option<u64>) {
        let packed = match self {
            Item::Whole(bytes) => bytes,
            Item::Parted(parted) => &mut parted.name,
        };
        let key = key_within(packed);
        match expires {
            Some(expires) if packed[0] & EXPIRES != 0 => {
                packed[key.start - 8..key.start].copy_from_slice(&expires.to_le_bytes());
            }
            expires => *packed = pack(&packed[key.clone()], expires, &packed[key.end..]),
        }
    }

    /// Writes a part of its text, which becomes as long as that takes. Does nothing to what is no text.
    pub(crate) fn write_at(&mut self, offset: usize, part: &[u8]) {
        let Seen::Text(text) = self.seen() else { return };
        let length = text.len().max(offset + part.len());
        match self {
            Item::Whole(bytes) if length <= LONGEST_WHOLE => {
                let from = key_within(bytes).end;
                resize(bytes, from + length);
                bytes[from + offset..][..part.len()].copy_from_slice(part);
            }
            Item::Whole(_) | Item::Parted(_) => {
                let Some(text) = self.text_apart() else { return };
                let old = std::mem::take(text);
                let mut grown = old.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                grown.resize(length, 0);
                grown[offset..][..part.len()].copy_from_slice(part);
                *text = grown.freeze();
            }
        }
    }

    /// A text, apart from its key from now on.
    fn text_apart(&mut self) -> Option<&mut Bytes> {
        if let Item::Whole(_) = self {
            *self = Item::parted(self.key(), self.expires(), self.seen().to_value());
        }
        match self {
            Item::Parted(parted) => match &mut parted.value {
                Value::Text(text) => Some(text),
                Value::List(_) => None,
            },
            Item::Whole(_) => None,
        }
    }
}

/// What matters is what it says.
impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        (self.key(), self.expires(), self.seen()) == (other.key(), other.expires(), other.seen())
    }
}

impl Eq for Item {}

fn pack(key: &[u8], expires: Option<u64>, text: &[u8]) -> Box<[u8]> {
    let long = key.len() >= usize::from(LONG);
    let before = 1 + 8 * usize::from(long) + 8 * usize::from(expires.is_some());
    let mut bytes = Vec::with_capacity(before + key.len() + text.len());
    let length = if long { LONG } else { key.len() as u8 };
    bytes.push(length << LENGTH | if expires.is_some() { EXPIRES } else { 0 });
    if long {
        bytes.extend_from_slice(&(key.len() as u64).to_le_bytes());
    }
    if let Some(expires) = expires {
        bytes.extend_from_slice(&expires.to_le_bytes());
    }
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(text);
    bytes.into_boxed_slice()
}

/// Where the key is.
fn key_within(packed: &[u8]) -> Range<usize> {
    let head = packed[0];
    let expiry = 8 * usize::from(head & EXPIRES);
    let length = head >> LENGTH;
    if length < LONG {
        return 1 + expiry..1 + expiry + usize::from(length);
    }
    let length = u64::from_le_bytes(packed[1..9].try_into().expect("eight bytes")) as usize;
    9 + expiry..9 + expiry + length
}

/// Without another piece of memory, if the allocator finds that the old one does.
fn resize(bytes: &mut Box<[u8]>, length: usize) {
    if bytes.len() == length {
        return;
    }
    let mut resized = std::mem::take(bytes).into_vec();
    resized.reserve_exact(length.saturating_sub(resized.len()));
    resized.resize(length, 0);
    *bytes = resized.into_boxed_slice();
}

impl<'a> Seen<'a> {
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Seen::Text(_) => "string",
            Seen::List(_) => "list",
        }
    }

    /// About what its encoding takes; never a look at more than a few items.
    pub(crate) fn weight(self) -> u64 {
        match self {
            Seen::Text(text) => text.len() as u64,
            Seen::List(items) => value::weight_of_items(items),
        }
    }

    pub(crate) fn to_value(self) -> Value {
        match self {
            Seen::Text(text) => Value::Text(text.to_bytes()),
            Seen::List(items) => Value::List(items.clone()),
        }
    }
}

impl<'a> Text<'a> {
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Text::Near(text) => text,
            Text::Shared(text) => text,
        }
    }

    /// For an answer, which may outlive it.
    pub(crate) fn to_bytes(self) -> Bytes {
        match self {
            Text::Near(text) => Bytes::copy_from_slice(text),
            Text::Shared(text) => text.clone(),
        }
    }

    pub(crate) fn part(self, range: Range<usize>) -> Bytes {
        match self {
            Text::Near(text) => Bytes::copy_from_slice(&text[range]),
            Text::Shared(text) => text.slice(range),
        }
    }
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Text<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind of head, and texts on both sides of what fits.
    #[test]
    fn it_says_what_it_was_told() {
        let lengths = [0, 1, 16, 62, 63, 64, 300, 70_000];
        let texts = [0, 1, 64, LONGEST_WHOLE, LONGEST_WHOLE + 1].map(|length| vec![b't'; length]);
        for key in lengths.map(|length| vec![b'k'; length]) {
            for expires in [None, Some(0), Some(u64::MAX)] {
                for text in &texts {
                    let mut item = Item::of_text(&key, expires, text);
                    let says = |item: &Item| (item.key().to_vec(), item.expires(), item.seen().to_value());
                    let expected = |text: &[u8]| (key.clone(), expires, Value::Text(Bytes::copy_from_slice(text)));
                    assert_eq!(says(&item), expected(text));
                    assert_eq!(item, Item::of(&key, expires, Value::Text(text.clone().into())));
                    assert_eq!(matches!(item, Item::Whole(_)), text.len() <= LONGEST_WHOLE);
                    for other in &texts {
                        item.set_text(other);
                        assert_eq!(says(&item), expected(other));
                        item.set_text(text);
                    }
                    item.set_value(Value::List([Bytes::new()].into()));
                    assert_eq!(item.seen(), Seen::List(&[Bytes::new()].into()));
                    item.set_value(Value::Text(text.clone().into()));
                    assert_eq!(says(&item), expected(text));
                    for other in [Some(7), None, expires] {
                        item.set_expiry(other);
                        assert_eq!((item.expires(), item.key()), (other, &key[..]));
                    }
                    assert_eq!(says(&item), expected(text));
                }
            }
        }
    }

    /// Lists, and whatever comes after them: there may be as many as there are texts.
    #[test]
    fn what_lies_apart_takes_little_more() {
        assert!(size_of::<Parted>() <= 56);
    }
}
