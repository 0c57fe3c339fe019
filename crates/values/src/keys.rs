//! The keys of one slot: their values, when they expire, and the order in which they are scanned.
//!
//! They lie in the order of a hash of ours, equal on every member and in every build. So a scan can say where it stopped in one
//! number and go on there whatever came and went in between, and comparing keys that begin alike costs nothing.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::shelf::Shelf;
use crate::{Reply, errors};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    held: Shelf,
    /// (expires, key) of exactly those in `held` that expire. Not encoded: follows from `held`.
    expiries: BTreeSet<(u64, Bytes)>,
    /// The sum of what all in `held` weigh. Not encoded: follows from `held`.
    bytes: u64,
}

/// What an encoding takes for a key besides the key and its value, about: their lengths, the kind of value, whether it expires.
const PER_KEY: u64 = 5;
/// And for an item of a list: its length.
const PER_ITEM: u64 = 2;

/// What a read sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) keys: &'a Keys,
    /// The clock of the data, in µs.
    pub(crate) clock: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    /// Its place.
    pub(crate) hash: u32,
    pub(crate) key: Key,
}

/// Most keys are short, and lie where they are looked for: to compare one touches no other memory, and to keep one takes none.
#[derive(Clone)]
pub(crate) enum Key {
    Short { length: u8, bytes: [u8; LONGEST_SHORT] },
    Long(Bytes),
}

/// As much as fits without making anything larger.
const LONGEST_SHORT: usize = 23;
const _: () = assert!(size_of::<Key>() == size_of::<Bytes>());

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) value: Value,
    /// On the clock of the data, in µs: absent from then on.
    expires: Option<u64>,
}

/// Postcard numbers the variants: new ones go to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Value {
    Text(Bytes),
    /// Never empty.
    List(VecDeque<Bytes>),
}

/// What becomes of a key's expiry when its value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    Kept,
    /// In µs.
    At(u64),
}

impl Keys {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Those that are expired and not reaped yet included.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn get(&self, key: &Bytes) -> Option<&Held> {
        self.held.get(&Name::of(key))
    }

    /// About as many bytes as their encoding takes. Known at any time, because every change adds and takes away what it changes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What was there weighed `before`, and weighs `after` now.
    fn weigh(&mut self, before: u64, after: u64) {
        self.bytes = (self.bytes + after).checked_sub(before).expect("whatever is there was weighed when it came");
    }

    /// For [`crate::Table::touch`].
    pub(crate) fn shelf(&self) -> &Shelf {
        &self.held
    }

    pub(crate) fn contains(&self, key: &Bytes) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn text(&self, key: &Bytes) -> Result<Option<&Bytes>, Reply> {
        match self.get(key).map(|held| &held.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::List(_)) => Err(errors::wrong_type()),
        }
    }

    /// Changes a text that is there, where it lies.
    pub(crate) fn change_text<T>(
        &mut self,
        key: &Bytes,
        change: impl FnOnce(&mut Bytes) -> Result<T, Reply>,
    ) -> Result<Option<T>, Reply> {
        let Some(held) = self.held.get_mut(&Name::of(key)) else { return Ok(None) };
        let Value::Text(text) = &mut held.value else { return Err(errors::wrong_type()) };
        let before = text.len() as u64;
        let result = change(text);
        let after = text.len() as u64;
        self.weigh(before, after);
        result.map(Some)
    }

    pub(crate) fn list(&self, key: &Bytes) -> Result<Option<&VecDeque<Bytes>>, Reply> {
        match self.get(key).map(|held| &held.value) {
            None => Ok(None),
            Some(Value::List(items)) => Ok(Some(items)),
            Some(Value::Text(_)) => Err(errors::wrong_type()),
        }
    }

    /// Changes a list that is there; if nothing is left of it, the key goes.
    pub(crate) fn change_list<T>(
        &mut self,
        key: &Bytes,
        change: impl FnOnce(&mut VecDeque<Bytes>) -> T,
    ) -> Result<Option<T>, Reply> {
        let Some(held) = self.held.get_mut(&Name::of(key)) else { return Ok(None) };
        let Value::List(items) = &mut held.value else { return Err(errors::wrong_type()) };
        let before = weight_of_items(items);
        let result = change(items);
        let (after, is_empty) = (weight_of_items(items), items.is_empty());
        self.weigh(before, after);
        if is_empty {
            self.remove(key);
        }
        Ok(Some(result))
    }

    /// The value is kept as it is given: see [`own`].
    pub(crate) fn set(&mut self, key: &Bytes, value: Value, expiry: Expiry) {
        let expires = expiry.to_option();
        let name = Name::of(key);
        let after = value.weight();
        if let Some(held) = self.held.get_mut(&name) {
            let before = held.value.weight();
            held.value = value;
            let other_expiry = expiry != Expiry::Kept && held.expires != expires;
            self.weigh(before, after);
            if other_expiry {
                self.set_expiry(key, expires);
            }
        } else {
            self.weigh(0, key.len() as u64 + PER_KEY + after);
            self.expiries.extend(expires.map(|expires| (expires, own(key))));
            self.held.insert(name.kept(), Held { value, expires });
        }
    }

    pub(crate) fn set_text(&mut self, key: &Bytes, text: Bytes, expiry: Expiry) {
        self.set(key, Value::Text(text), expiry);
    }

    /// The same with a copy of the value, which never expires. Most values take the place of one that is as long.
    pub(crate) fn set_copy(&mut self, key: &Bytes, text: &Bytes) {
        let held = self.held.get_mut(&Name::of(key)).filter(|held| held.expires.is_none());
        if !held.is_some_and(|held| held.value.overwrite(text)) {
            self.set_text(key, own(text), Expiry::Never);
        }
    }

    /// Does nothing if there is no such key.
    pub(crate) fn set_expiry(&mut self, key: &Bytes, expires: Option<u64>) {
        let Some(held) = self.held.get_mut(&Name::of(key)) else { return };
        if let Some(old) = std::mem::replace(&mut held.expires, expires) {
            assert!(self.expiries.remove(&(old, key.clone())), "every expiry is in the index");
        }
        self.expiries.extend(expires.map(|expires| (expires, own(key))));
    }

    pub(crate) fn remove(&mut self, key: &Bytes) -> Option<Held> {
        let held = self.held.remove(&Name::of(key))?;
        self.weigh(key.len() as u64 + PER_KEY + held.value.weight(), 0);
        if let Some(expires) = held.expires {
            assert!(self.expiries.remove(&(expires, key.clone())), "every expiry is in the index");
        }
        Some(held)
    }

    pub(crate) fn clear(&mut self) {
        *self = Keys::default();
    }

    pub(crate) fn reap(&mut self, clock: u64, key: &Bytes) -> bool {
        self.is_expired(clock, key) && self.remove(key).is_some()
    }

    /// Still here, and absent for every command at or after `clock`.
    pub(crate) fn is_expired(&self, clock: u64, key: &Bytes) -> bool {
        self.some_expired(clock) && self.get(key).is_some_and(|held| held.is_expired(clock))
    }

    /// Saves the look at single keys, nearly always.
    pub(crate) fn some_expired(&self, clock: u64) -> bool {
        self.expiries.first().is_some_and(|(expires, _)| *expires <= clock)
    }

    /// The longest expired first.
    pub(crate) fn expired(&self, clock: u64) -> impl Iterator<Item = &Bytes> {
        self.expiries.iter().take_while(move |(expires, _)| *expires <= clock).map(|(_, key)| key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Held)> {
        self.held.iter().map(|(_, key, held)| (&**key, held))
    }

    /// In the order of scans, from that place on, each with its place.
    pub(crate) fn iter_from(&self, place: u32) -> impl Iterator<Item = (u32, &[u8], &Held)> {
        self.held.iter_from(place).map(|(place, key, held)| (place, &**key, held))
    }
}

impl View<'_> {
    /// Is it there at this time? For those who go through keys that their command did not name.
    pub(crate) fn sees(&self, held: &Held) -> bool {
        !held.is_expired(self.clock)
    }
}

impl Held {
    #[cfg(test)]
    pub(crate) fn new(value: Value) -> Self {
        Held { value, expires: None }
    }

    pub(crate) fn expires(&self) -> Option<u64> {
        self.expires
    }

    /// Of its value, the beginning and the end.
    pub(crate) fn touch(&self) -> u8 {
        let Value::Text(text) = &self.value else { return 0 };
        text.first().copied().unwrap_or(0) ^ text.last().copied().unwrap_or(0)
    }

    pub(crate) fn is_expired(&self, clock: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= clock)
    }
}

impl Value {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) => "string",
            Value::List(_) => "list",
        }
    }

    /// About what its encoding takes; never a look at more than a few items.
    fn weight(&self) -> u64 {
        match self {
            Value::Text(text) => text.len() as u64,
            Value::List(items) => weight_of_items(items),
        }
    }

    /// In the memory of a value that is as long, if nobody else sees that.
    fn overwrite(&mut self, text: &[u8]) -> bool {
        let Value::Text(old) = self else { return false };
        if old.len() != text.len() {
            return false;
        }
        match std::mem::take(old).try_into_mut() {
            Ok(mut bytes) => {
                bytes.copy_from_slice(text);
                *old = bytes.freeze();
                true
            }
            Err(shared) => {
                *old = shared;
                false
            }
        }
    }

    fn is_sound(&self) -> bool {
        match self {
            Value::Text(_) => true,
            Value::List(items) => !items.is_empty(),
        }
    }
}

/// As if all were like the first, the one in the middle and the last: a list may be long, and is weighed with each change. What it
/// weighed before is what it weighed when it was changed last, so sums stay sums whatever the guess is worth.
fn weight_of_items(items: &VecDeque<Bytes>) -> u64 {
    let count = items.len();
    let some = [items.front(), items.get(count / 2), items.back()].into_iter().flatten();
    let bytes: u64 = some.map(|item| item.len() as u64 + PER_ITEM).sum();
    bytes * count as u64 / 3
}

impl Expiry {
    fn to_option(self) -> Option<u64> {
        match self {
            Expiry::At(expires) => Some(expires),
            Expiry::Never | Expiry::Kept => None,
        }
    }
}

/// A copy that is kept for long. A slice of the entry that brought it would hold on to all of that, and to the frame that the
/// entry came in.
pub(crate) fn own(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

impl Name {
    /// To look for it.
    fn of(key: &Bytes) -> Self {
        Name { hash: place_of(key), key: Key::of(key) }
    }

    /// To keep it: see [`own`].
    fn kept(self) -> Self {
        let Name { hash, key } = self;
        let key = if let Key::Long(key) = key { Key::Long(own(&key)) } else { key };
        Name { hash, key }
    }
}

impl Key {
    /// Before all others.
    pub(crate) const EMPTY: Self = Key::Short { length: 0, bytes: [0; LONGEST_SHORT] };

    pub(crate) fn of(key: &Bytes) -> Self {
        if key.len() > LONGEST_SHORT {
            return Key::Long(key.clone());
        }
        let mut bytes = [0; LONGEST_SHORT];
        bytes[..key.len()].copy_from_slice(key);
        Key::Short { length: key.len() as u8, bytes }
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Key::Short { length, bytes } => &bytes[..usize::from(*length)],
            Key::Long(key) => key,
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.escape_ascii().to_string())
    }
}

impl Serialize for Key {
    /// As `Bytes` are.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

/// Where scans meet a key. Cursors that clients hold are made of it, so it is the same in every version. 32 bits: together with
/// the slot it fits into the whole numbers that every client can represent.
pub(crate) fn place_of(key: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = (key.len() as u64).wrapping_mul(FACTOR);
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
    }
    hash = hash.wrapping_mul(FACTOR);
    (hash >> 32) as u32
}

impl Serialize for Keys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut held = serializer.serialize_seq(Some(self.held.len()))?;
        self.held.iter().try_for_each(|(_, key, value)| held.serialize_element(&(key, value)))?;
        held.end()
    }
}

impl<'de> Deserialize<'de> for Keys {
    /// Takes only what `serialize` makes of some keys: in order, none twice.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let held: Vec<(Bytes, Held)> = Vec::deserialize(deserializer)?;
        let held: Vec<(Name, Held)> = held.into_iter().map(|(key, held)| (Name::of(&key).kept(), held)).collect();
        let in_order = held.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !in_order || !held.iter().all(|(_, held)| held.value.is_sound()) {
            return Err(serde::de::Error::custom("not the encoding of a slot's keys"));
        }
        let expiring = |(name, held): &(Name, Held)| Some((held.expires?, Bytes::copy_from_slice(&name.key)));
        let expiries = held.iter().filter_map(expiring).collect();
        let weight = |(name, held): &(Name, Held)| name.key.len() as u64 + PER_KEY + held.value.weight();
        let bytes = held.iter().map(weight).sum();
        Ok(Keys { held: held.into_iter().collect(), expiries, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(keys: &Keys, key: &Bytes) -> Bytes {
        keys.text(key).expect("a text").expect("it is there").clone()
    }

    /// Whoever was answered with the old value has the old value.
    #[test]
    fn a_value_is_overwritten_only_where_nobody_sees_it() {
        let (mut keys, key) = (Keys::default(), Bytes::from_static(b"k"));
        keys.set_copy(&key, &Bytes::from_static(b"one"));
        let seen = text(&keys, &key);
        keys.set_copy(&key, &Bytes::from_static(b"two"));
        assert_eq!((&seen[..], &text(&keys, &key)[..]), (&b"one"[..], &b"two"[..]));
        let place = text(&keys, &key).as_ptr();
        keys.set_copy(&key, &Bytes::from_static(b"six"));
        assert_eq!((text(&keys, &key).as_ptr(), &text(&keys, &key)[..]), (place, &b"six"[..]), "nobody saw it");
        keys.set_text(&key, Bytes::from_static(b"ten"), Expiry::At(7));
        keys.set_copy(&key, &Bytes::from_static(b"one"));
        assert!(keys.get(&key).is_some_and(|held| held.expires().is_none()) && !keys.some_expired(u64::MAX));
    }

    /// The weight of lists is a guess, and yet nothing is left of it when they are gone.
    #[test]
    fn what_goes_takes_its_weight_along() {
        let (mut keys, a, b) = (Keys::default(), Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        keys.set(&a, Value::List([Bytes::from(vec![0; 100])].into()), Expiry::Never);
        for length in [1, 1000, 3, 0, 70] {
            let pushed = keys.change_list(&a, |items| items.push_back(Bytes::from(vec![0; length])));
            assert_eq!(pushed, Ok(Some(())));
        }
        keys.set_copy(&b, &Bytes::from(vec![0; 50]));
        assert!(keys.bytes() > 100, "{}", keys.bytes());
        assert_eq!(keys.change_list(&a, VecDeque::clear), Ok(Some(())));
        assert_eq!(keys.bytes(), 1 + 50 + PER_KEY);
        keys.set(&b, Value::Text(Bytes::new()), Expiry::At(9));
        assert!(keys.reap(9, &b));
        assert_eq!(keys.bytes(), 0);
    }

    #[test]
    fn long_keys_and_short_ones_are_in_the_same_order() {
        let mut keys = Keys::default();
        let names: Vec<Bytes> = (0..60).map(|length| Bytes::from(vec![b'x'; length])).collect();
        names.iter().for_each(|name| keys.set_copy(name, name));
        assert!(names.iter().all(|name| text(&keys, name) == *name));
        let places: Vec<u32> = keys.iter_from(0).map(|(place, ..)| place).collect();
        assert!(places.is_sorted() && places.len() == names.len());
        let encoded = postcard::to_allocvec(&keys).expect("it has an encoding");
        assert_eq!(postcard::from_bytes::<Keys>(&encoded), Ok(keys));
    }
}
