//! One key of a slot with all that belongs to it.
//!
//! Most keys have a short text as their value, and there are millions of them: such a one is a single piece of memory, with the key and
//! the text. Whatever is longer, or no text, lies apart from its key. The byte that says where the one ends and the other begins, the
//! head, is not part of it: it lies with the heads of its neighbours. Keys and values tend to have lengths that an allocator has a size
//! for, and with one byte more each would need the next size.
//!
//! ```text
//! head: length of the key (6 bits), free (1 bit), expires (1 bit)
//! item: length of the key, if it is long (8 bytes) | expiry, if it expires (8 bytes) | key | text
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
    /// Key and text. The text is never longer than [`LONGEST_WHOLE`].
    Whole(Box<[u8]>),
    /// Never a text that could be in one piece with its key.
    Parted(Box<Parted>),
}

/// A table of a million keys has a million of them.
const _: () = assert!(size_of::<Item>() == 16);

#[derive(Clone, Debug)]
pub(crate) struct Parted {
    /// The key, and what comes before it.
    name: Box<[u8]>,
    value: Value,
}

/// An item and its head, as readers see them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemRef<'a> {
    pub(crate) head: u8,
    pub(crate) item: &'a Item,
}

/// The same for those who change them.
#[derive(Debug)]
pub(crate) struct ItemMut<'a> {
    pub(crate) head: &'a mut u8,
    pub(crate) item: &'a mut Item,
}

/// The same on their way to a shelf, or from it.
#[derive(Clone, Debug)]
pub(crate) struct Loose {
    pub(crate) head: u8,
    pub(crate) item: Item,
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

/// In the head.
const EXPIRES: u8 = 1;
const LENGTH: u32 = 2;
/// Instead of a length: it did not fit.
const LONG: u8 = u8::MAX >> LENGTH;

impl Loose {
    pub(crate) fn of_text(key: &[u8], expires: Option<u64>, text: &[u8]) -> Self {
        Loose { head: head_of(key, expires), item: Item::of_text(key, expires, text) }
    }

    pub(crate) fn of(key: &[u8], expires: Option<u64>, value: Value) -> Self {
        Loose { head: head_of(key, expires), item: Item::of(key, expires, value) }
    }

    pub(crate) fn as_ref(&self) -> ItemRef<'_> {
        ItemRef { head: self.head, item: &self.item }
    }

    pub(crate) fn as_mut(&mut self) -> ItemMut<'_> {
        ItemMut { head: &mut self.head, item: &mut self.item }
    }

    pub(crate) fn into_value(self) -> Value {
        match self.item {
            Item::Whole(_) => self.as_ref().seen().to_value(),
            Item::Parted(parted) => parted.value,
        }
    }
}

impl Item {
    fn of_text(key: &[u8], expires: Option<u64>, text: &[u8]) -> Self {
        if text.len() > LONGEST_WHOLE {
            return Self::parted(key, expires, Value::Text(Bytes::copy_from_slice(text)));
        }
        Item::Whole(pack(key, expires, text))
    }

    fn of(key: &[u8], expires: Option<u64>, value: Value) -> Self {
        match value {
            Value::Text(text) if text.len() <= LONGEST_WHOLE => Item::Whole(pack(key, expires, &text)),
            value => Self::parted(key, expires, value),
        }
    }

    fn parted(key: &[u8], expires: Option<u64>, value: Value) -> Self {
        Item::Parted(Box::new(Parted { name: pack(key, expires, &[]), value }))
    }

    /// Where its key is.
    fn packed(&self) -> &[u8] {
        match self {
            Item::Whole(bytes) => bytes,
            Item::Parted(parted) => &parted.name,
        }
    }

    fn packed_mut(&mut self) -> &mut Box<[u8]> {
        match self {
            Item::Whole(bytes) => bytes,
            Item::Parted(parted) => &mut parted.name,
        }
    }
}

impl<'a> ItemRef<'a> {
    pub(crate) fn key(self) -> &'a [u8] {
        let packed = self.item.packed();
        &packed[key_within(self.head, packed)]
    }

    /// On the clock of the data, in µs: absent from then on.
    pub(crate) fn expires(self) -> Option<u64> {
        if self.head & EXPIRES == 0 {
            return None;
        }
        let packed = self.item.packed();
        let end = key_within(self.head, packed).start;
        Some(u64::from_le_bytes(packed[end - 8..end].try_into().expect("eight bytes")))
    }

    pub(crate) fn is_expired(self, clock: u64) -> bool {
        self.expires().is_some_and(|expires| expires <= clock)
    }

    pub(crate) fn seen(self) -> Seen<'a> {
        match self.item {
            Item::Whole(bytes) => Seen::Text(Text::Near(&bytes[key_within(self.head, bytes).end..])),
            Item::Parted(parted) => match &parted.value {
                Value::Text(text) => Seen::Text(Text::Shared(text)),
                Value::List(items) => Seen::List(items),
            },
        }
    }

    /// For those who only want to have looked: at what lies side by side with its neighbours.
    pub(crate) fn touch_near(self) -> u8 {
        self.head ^ u8::from(matches!(self.item, Item::Whole(_)))
    }

    /// And at what lies anywhere: its beginning and its end.
    pub(crate) fn touch(self) -> u8 {
        let packed = self.item.packed();
        packed.first().zip(packed.last()).map_or(0, |(first, last)| first ^ last)
    }
}

/// Only an expiry that comes or goes changes the head: the key stays, and of the value it says nothing.
impl<'a> ItemMut<'a> {
    pub(crate) fn as_ref(&self) -> ItemRef<'_> {
        ItemRef { head: *self.head, item: self.item }
    }

    /// For those who change it without making another kind of it.
    pub(crate) fn list_mut(self) -> Option<&'a mut VecDeque<Bytes>> {
        match self.item {
            Item::Parted(parted) => match &mut parted.value {
                Value::List(items) => Some(items),
                Value::Text(_) => None,
            },
            Item::Whole(_) => None,
        }
    }

    /// Whatever its value is, it becomes this text, in the same memory if it can.
    pub(crate) fn set_text(&mut self, text: &[u8]) {
        match self.item {
            Item::Whole(bytes) if text.len() <= LONGEST_WHOLE => {
                let from = key_within(*self.head, bytes).end;
                resize(bytes, from + text.len());
                bytes[from..].copy_from_slice(text);
            }
            Item::Parted(parted) if text.len() > LONGEST_WHOLE => {
                if !parted.value.overwrite(text) {
                    parted.value = Value::Text(Bytes::copy_from_slice(text));
                }
            }
            Item::Whole(_) | Item::Parted(_) => {
                let old = self.as_ref();
                *self.item = Item::of_text(old.key(), old.expires(), text);
            }
        }
    }

    pub(crate) fn set_value(&mut self, value: Value) {
        match (&mut *self.item, value) {
            (_, Value::Text(text)) if text.len() <= LONGEST_WHOLE => self.set_text(&text),
            (Item::Parted(parted), value) => parted.value = value,
            (Item::Whole(_), value) => {
                let old = self.as_ref();
                *self.item = Item::of(old.key(), old.expires(), value);
            }
        }
    }

    pub(crate) fn set_expiry(&mut self, expires: Option<u64>) {
        let packed = self.item.packed_mut();
        let key = key_within(*self.head, packed);
        match expires {
            Some(expires) if *self.head & EXPIRES != 0 => {
                packed[key.start - 8..key.start].copy_from_slice(&expires.to_le_bytes());
            }
            expires => {
                *self.head = head_of(&packed[key.clone()], expires);
                *packed = pack(&packed[key.clone()], expires, &packed[key.end..]);
            }
        }
    }

    /// Writes a part of its text, which becomes as long as that takes. Does nothing to what is no text.
    pub(crate) fn write_at(&mut self, offset: usize, part: &[u8]) {
        let Seen::Text(text) = self.as_ref().seen() else { return };
        let length = text.len().max(offset + part.len());
        match self.item {
            Item::Whole(bytes) if length <= LONGEST_WHOLE => {
                let from = key_within(*self.head, bytes).end;
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
        if let Item::Whole(_) = self.item {
            let old = self.as_ref();
            *self.item = Item::parted(old.key(), old.expires(), old.seen().to_value());
        }
        match self.item {
            Item::Parted(parted) => match &mut parted.value {
                Value::Text(text) => Some(text),
                Value::List(_) => None,
            },
            Item::Whole(_) => None,
        }
    }
}

/// What matters is what it says.
impl PartialEq for ItemRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.key(), self.expires(), self.seen()) == (other.key(), other.expires(), other.seen())
    }
}

impl Eq for ItemRef<'_> {}

impl PartialEq for Loose {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for Loose {}

fn head_of(key: &[u8], expires: Option<u64>) -> u8 {
    let length = if is_long(key) { LONG } else { key.len() as u8 };
    length << LENGTH | if expires.is_some() { EXPIRES } else { 0 }
}

fn is_long(key: &[u8]) -> bool {
    key.len() >= usize::from(LONG)
}

fn pack(key: &[u8], expires: Option<u64>, text: &[u8]) -> Box<[u8]> {
    let before = 8 * usize::from(is_long(key)) + 8 * usize::from(expires.is_some());
    let mut bytes = Vec::with_capacity(before + key.len() + text.len());
    if is_long(key) {
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
fn key_within(head: u8, packed: &[u8]) -> Range<usize> {
    let expiry = 8 * usize::from(head & EXPIRES);
    let length = head >> LENGTH;
    if length < LONG {
        return expiry..expiry + usize::from(length);
    }
    let length = u64::from_le_bytes(packed[..8].try_into().expect("eight bytes")) as usize;
    8 + expiry..8 + expiry + length
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
                    let mut loose = Loose::of_text(&key, expires, text);
                    let same = Loose::of(&key, expires, Value::Text(text.clone().into()));
                    assert_eq!(loose, same);
                    assert_eq!(matches!(loose.item, Item::Whole(_)), text.len() <= LONGEST_WHOLE);
                    let says = |item: ItemRef<'_>| (item.key().to_vec(), item.expires(), item.seen().to_value());
                    let expected = |text: &[u8]| (key.clone(), expires, Value::Text(Bytes::copy_from_slice(text)));
                    let mut item = loose.as_mut();
                    assert_eq!(says(item.as_ref()), expected(text));
                    for other in &texts {
                        item.set_text(other);
                        assert_eq!(says(item.as_ref()), expected(other));
                        item.set_text(text);
                    }
                    item.set_value(Value::List([Bytes::new()].into()));
                    assert_eq!(item.as_ref().seen(), Seen::List(&[Bytes::new()].into()));
                    item.set_value(Value::Text(text.clone().into()));
                    assert_eq!(says(item.as_ref()), expected(text));
                    for other in [Some(7), None, expires] {
                        item.set_expiry(other);
                        assert_eq!((item.as_ref().expires(), item.as_ref().key()), (other, &key[..]));
                    }
                    assert_eq!(says(item.as_ref()), expected(text));
                    item.as_ref().touch();
                    assert_eq!(loose.into_value(), Value::Text(text.clone().into()));
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
