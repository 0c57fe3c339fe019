//! The keys of one slot: their values, when they expire, and the order in which they are scanned.
//!
//! They lie in the order of a hash of ours, equal on every member and in every build. So a scan can say where it stopped in one
//! number and go on there whatever came and went in between, and comparing keys that begin alike costs nothing.

mod coding;
mod expiries;

use std::collections::VecDeque;

use bytes::Bytes;

use self::expiries::Expiries;
use crate::item::{ItemMut, ItemRef, Loose, Seen, Text};
use crate::shelf::{Shelf, Spot};
use crate::value::{Value, weight_of_items};
use crate::{Reply, errors};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    shelf: Shelf,
    /// (expires, place) of exactly those on the shelf that expire; there may be more than one for each. Not encoded: follows from
    /// the shelf.
    expiries: Expiries,
    /// The sum of what all on the shelf weigh. Not encoded: follows from the shelf.
    bytes: u64,
}

/// What an encoding takes for a key besides the key and its value, about: their lengths, the kind of value, whether it expires.
const PER_KEY: u64 = 5;
/// And for its expiry.
const PER_EXPIRY: usize = 9;

/// What a read sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) keys: &'a Keys,
    /// The clock of the data, in µs.
    pub(crate) clock: u64,
}

/// Keys lie in the order of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name<'a> {
    pub(crate) place: u32,
    pub(crate) key: &'a [u8],
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
        self.shelf.is_empty()
    }

    /// Those that are expired and not reaped yet included.
    pub(crate) fn len(&self) -> usize {
        self.shelf.len()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<ItemRef<'_>> {
        self.shelf.get(Name::of(key))
    }

    /// About as many bytes as their encoding takes. Known at any time, because every change adds and takes away what it changes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same, but rather too much than too little.
    pub(crate) fn room(&self) -> usize {
        self.bytes as usize + self.expiries.len() * PER_EXPIRY
    }

    /// What was there weighed `before`, and weighs `after` now.
    fn weigh(&mut self, before: u64, after: u64) {
        self.bytes = (self.bytes + after).checked_sub(before).expect("whatever is there was weighed when it came");
    }

    /// For [`crate::Table::touch`].
    pub(crate) fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn text(&self, key: &[u8]) -> Result<Option<Text<'_>>, Reply> {
        match self.get(key).map(ItemRef::seen) {
            None => Ok(None),
            Some(Seen::Text(text)) => Ok(Some(text)),
            Some(Seen::List(_)) => Err(errors::wrong_type()),
        }
    }

    pub(crate) fn list(&self, key: &[u8]) -> Result<Option<&VecDeque<Bytes>>, Reply> {
        match self.get(key).map(ItemRef::seen) {
            None => Ok(None),
            Some(Seen::List(items)) => Ok(Some(items)),
            Some(Seen::Text(_)) => Err(errors::wrong_type()),
        }
    }

    /// Makes another text of the one that is there, if there is one.
    pub(crate) fn change_text<T: AsRef<[u8]>>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&[u8]) -> Result<T, Reply>,
    ) -> Result<Option<T>, Reply> {
        let Ok(spot) = self.shelf.find(Name::of(key)) else { return Ok(None) };
        let mut item = self.shelf.item_mut(spot);
        let Seen::Text(old) = item.as_ref().seen() else { return Err(errors::wrong_type()) };
        let (before, new) = (old.len(), change(&old)?);
        item.set_text(new.as_ref());
        self.weigh(before as u64, new.as_ref().len() as u64);
        Ok(Some(new))
    }

    /// Writes a part of a text, which becomes as long as that takes, and answers how long that is. An absent one counts as empty.
    pub(crate) fn write_text(&mut self, key: &[u8], offset: usize, part: &[u8]) -> Result<usize, Reply> {
        let name = Name::of(key);
        let spot = match self.shelf.find(name) {
            Ok(spot) => spot,
            Err(spot) => {
                let mut item = Loose::of_text(key, None, &[]);
                item.as_mut().write_at(offset, part);
                self.insert(spot, name.place, item);
                return Ok(offset + part.len());
            }
        };
        let item = self.shelf.item_mut(spot);
        let Seen::Text(old) = item.as_ref().seen() else { return Err(errors::wrong_type()) };
        let length = old.len().max(offset + part.len());
        self.change(spot, |item| item.write_at(offset, part));
        Ok(length)
    }

    /// Changes a list that is there; if nothing is left of it, the key goes.
    pub(crate) fn change_list<T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut VecDeque<Bytes>) -> T,
    ) -> Result<Option<T>, Reply> {
        let name = Name::of(key);
        let Ok(spot) = self.shelf.find(name) else { return Ok(None) };
        let Some(items) = self.shelf.item_mut(spot).list_mut() else { return Err(errors::wrong_type()) };
        let before = weight_of_items(items);
        let result = change(items);
        let (after, is_empty) = (weight_of_items(items), items.is_empty());
        self.weigh(before, after);
        if is_empty {
            self.take_at(spot, name.place);
        }
        Ok(Some(result))
    }

    /// What is in the value is kept as it is given, unless it is a short text: see [`crate::value::own`].
    pub(crate) fn set(&mut self, key: &[u8], value: Value, expiry: Expiry) {
        let name = Name::of(key);
        match self.shelf.find(name) {
            Ok(spot) => {
                self.change(spot, |item| item.set_value(value));
                self.change_expiry(spot, name.place, expiry);
            }
            Err(spot) => self.insert(spot, name.place, Loose::of(key, expiry.after(None), value)),
        }
    }

    /// A copy of the text. Most take the place of one that is as long.
    pub(crate) fn set_text(&mut self, key: &[u8], text: &[u8], expiry: Expiry) {
        let name = Name::of(key);
        match self.shelf.find(name) {
            Ok(spot) => {
                self.change(spot, |item| item.set_text(text));
                self.change_expiry(spot, name.place, expiry);
            }
            Err(spot) => self.insert(spot, name.place, Loose::of_text(key, expiry.after(None), text)),
        }
    }

    /// Does nothing if there is no such key.
    pub(crate) fn set_expiry(&mut self, key: &[u8], expires: Option<u64>) {
        let name = Name::of(key);
        if let Ok(spot) = self.shelf.find(name) {
            self.change_expiry(spot, name.place, expires.map_or(Expiry::Never, Expiry::At));
        }
    }

    /// Was it there?
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.take(key).is_some()
    }

    pub(crate) fn take(&mut self, key: &[u8]) -> Option<Loose> {
        let name = Name::of(key);
        let spot = self.shelf.find(name).ok()?;
        Some(self.take_at(spot, name.place))
    }

    pub(crate) fn clear(&mut self) {
        *self = Keys::default();
    }

    pub(crate) fn reap(&mut self, clock: u64, key: &[u8]) -> bool {
        self.is_expired(clock, key) && self.remove(key)
    }

    /// Still here, and absent for every command at or after `clock`.
    pub(crate) fn is_expired(&self, clock: u64, key: &[u8]) -> bool {
        self.some_expired(clock) && self.get(key).is_some_and(|item| item.is_expired(clock))
    }

    /// Saves the look at single keys, nearly always.
    pub(crate) fn some_expired(&self, clock: u64) -> bool {
        self.expiries.first().is_some_and(|expires| expires <= clock)
    }

    /// The longest expired first.
    pub(crate) fn expired(&self, clock: u64) -> impl Iterator<Item = &[u8]> {
        let due = self.expiries.iter().take_while(move |(expires, _)| *expires <= clock);
        due.flat_map(|(expires, place)| self.expiring(expires, place).map(ItemRef::key))
    }

    /// Those that the index speaks of: nearly always one.
    fn expiring(&self, expires: u64, place: u32) -> impl Iterator<Item = ItemRef<'_>> {
        let here = self.shelf.iter_from(place).take_while(move |(at, _)| *at == place);
        here.map(|(_, item)| item).filter(move |item| item.expires() == Some(expires))
    }

    /// In the order of scans.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ItemRef<'_>> {
        self.shelf.iter().map(|(_, item)| item)
    }

    /// From that place on, each with its place.
    pub(crate) fn iter_from(&self, place: u32) -> impl Iterator<Item = (u32, ItemRef<'_>)> {
        self.shelf.iter_from(place)
    }

    fn change(&mut self, spot: Spot, change: impl FnOnce(&mut ItemMut<'_>)) {
        let mut item = self.shelf.item_mut(spot);
        let before = item.as_ref().seen().weight();
        change(&mut item);
        let after = item.as_ref().seen().weight();
        self.weigh(before, after);
    }

    fn change_expiry(&mut self, spot: Spot, place: u32, expiry: Expiry) {
        let mut item = self.shelf.item_mut(spot);
        let before = item.as_ref().expires();
        let after = expiry.after(before);
        if before != after {
            item.set_expiry(after);
            self.note_expiry(after, place);
            self.forget_expiry(before, place);
        }
    }

    fn note_expiry(&mut self, expires: Option<u64>, place: u32) {
        if let Some(expires) = expires {
            self.expiries.insert(expires, place);
        }
    }

    /// It was that of a key in this place, and no longer is.
    fn forget_expiry(&mut self, expires: Option<u64>, place: u32) {
        let Some(expires) = expires else { return };
        if self.expiring(expires, place).next().is_none() {
            self.expiries.remove(expires, place);
        }
    }

    fn insert(&mut self, spot: Spot, place: u32, item: Loose) {
        self.note(place, item.as_ref());
        self.shelf.insert(spot, place, item);
    }

    /// It comes now.
    fn note(&mut self, place: u32, item: ItemRef<'_>) {
        self.weigh(0, weight(item));
        self.note_expiry(item.expires(), place);
    }

    fn take_at(&mut self, spot: Spot, place: u32) -> Loose {
        let item = self.shelf.remove(spot);
        self.weigh(weight(item.as_ref()), 0);
        self.forget_expiry(item.as_ref().expires(), place);
        item
    }
}

fn weight(item: ItemRef<'_>) -> u64 {
    item.key().len() as u64 + PER_KEY + item.seen().weight()
}

impl View<'_> {
    /// Is it there at this time? For those who go through keys that their command did not name.
    pub(crate) fn sees(&self, item: ItemRef<'_>) -> bool {
        !item.is_expired(self.clock)
    }
}

impl Expiry {
    fn after(self, before: Option<u64>) -> Option<u64> {
        match self {
            Expiry::Never => None,
            Expiry::Kept => before,
            Expiry::At(expires) => Some(expires),
        }
    }
}

impl<'a> Name<'a> {
    pub(crate) fn of(key: &'a [u8]) -> Self {
        Name { place: place_of(key), key }
    }
}

/// Where scans meet a key. Cursors that clients hold are made of it, so it is the same in every version. 32 bits: together with
/// the slot it fits into the whole numbers that every client can represent.
fn place_of(key: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: [u8; 8]| {
        let hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        hash ^ (hash >> 32)
    };
    let (words, rest) = key.as_chunks::<8>();
    let mut hash = (key.len() as u64).wrapping_mul(FACTOR);
    hash = words.iter().fold(hash, |hash, word| mix(hash, *word));
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = mix(hash, word);
    }
    hash = hash.wrapping_mul(FACTOR);
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests;
