//! Where the keys of a slot lie, in the order of their places.
//!
//! Nearly all slots have few keys, and which of them a command is about is decided by places that lie side by side: one look at memory,
//! and one more at the key itself. A slot with many is a tree.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::keys::{Held, Key, Name};

/// From so many on it is a tree; and from half as many on no longer.
const MANY: usize = 65;
/// Room is made for so many at once.
const AT_ONCE: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    /// Sorted; `items` has the same order, and those of one place are in the order of their keys.
    places: Vec<u32>,
    items: Vec<(Key, Held)>,
    /// If it is here, the two above are empty.
    #[expect(clippy::box_collection, reason = "most have none, and lie the closer together")]
    tree: Option<Box<BTreeMap<Name, Held>>>,
}

impl Shelf {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), items: Vec::new(), tree: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.tree.as_ref().map_or(self.items.len(), |tree| tree.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Of whatever comes first. For those who only want to have looked.
    pub(crate) fn first_place(&self) -> u32 {
        self.places.first().copied().unwrap_or(0)
    }

    /// Where something of that place lies, or would: of a tree nobody can say.
    pub(crate) fn find_place(&self, place: u32) -> usize {
        // Counting all of them costs less than to decide after each whether to go on.
        self.places.iter().map(|known| usize::from(*known < place)).sum()
    }

    pub(crate) fn held_at(&self, at: usize) -> Option<&Held> {
        self.items.get(at).map(|(_, held)| held)
    }

    /// Where it is, or would be.
    fn find(&self, name: &Name) -> Result<usize, usize> {
        let mut at = self.find_place(name.hash);
        while self.places.get(at) == Some(&name.hash) {
            match self.items[at].0.cmp(&name.key) {
                std::cmp::Ordering::Less => at += 1,
                std::cmp::Ordering::Equal => return Ok(at),
                std::cmp::Ordering::Greater => break,
            }
        }
        Err(at)
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&Held> {
        match &self.tree {
            Some(tree) => tree.get(name),
            None => self.find(name).ok().map(|at| &self.items[at].1),
        }
    }

    pub(crate) fn get_mut(&mut self, name: &Name) -> Option<&mut Held> {
        if self.tree.is_none() {
            let at = self.find(name).ok()?;
            return Some(&mut self.items[at].1);
        }
        self.tree.as_mut()?.get_mut(name)
    }

    /// It must not be there yet.
    pub(crate) fn insert(&mut self, name: Name, held: Held) {
        if self.tree.is_none() && self.items.len() + 1 >= MANY {
            self.become_tree();
        }
        if let Some(tree) = &mut self.tree {
            let before = tree.insert(name, held);
            debug_assert!(before.is_none(), "it is there already");
            return;
        }
        let at = self.find(&name).expect_err("it is not there yet");
        if self.items.len() == self.items.capacity() {
            self.places.reserve_exact(AT_ONCE);
            self.items.reserve_exact(AT_ONCE);
        }
        self.places.insert(at, name.hash);
        self.items.insert(at, (name.key, held));
    }

    pub(crate) fn remove(&mut self, name: &Name) -> Option<Held> {
        let Some(tree) = &mut self.tree else {
            let at = self.find(name).ok()?;
            self.places.remove(at);
            let (_, held) = self.items.remove(at);
            if self.items.capacity() > 2 * self.items.len() + AT_ONCE {
                self.places.shrink_to_fit();
                self.items.shrink_to_fit();
            }
            return Some(held);
        };
        let held = tree.remove(name)?;
        if tree.len() <= MANY / 2 {
            let few = std::mem::take(&mut **tree);
            *self = few.into_iter().collect();
        }
        Some(held)
    }

    fn become_tree(&mut self) {
        let Self { places, items, .. } = std::mem::take(self);
        let named = places.into_iter().zip(items).map(|(hash, (key, held))| (Name { hash, key }, held));
        self.tree = Some(Box::new(named.collect()));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Key, &Held)> {
        self.iter_from(0)
    }

    /// From that place on.
    pub(crate) fn iter_from(&self, place: u32) -> impl Iterator<Item = (u32, &Key, &Held)> {
        let from = self.places.partition_point(|known| *known < place);
        let few = self.places[from..].iter().zip(&self.items[from..]).map(|(place, (key, held))| (*place, key, held));
        let first = Name { hash: place, key: Key::EMPTY };
        let tree = self.tree.iter().flat_map(move |tree| tree.range((Bound::Included(&first), Bound::Unbounded)));
        few.chain(tree.map(|(name, held)| (name.hash, &name.key, held)))
    }
}

impl Default for Shelf {
    fn default() -> Self {
        Self::new()
    }
}

/// What matters is what lies on it.
impl PartialEq for Shelf {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Shelf {}

/// They come in their order.
impl FromIterator<(Name, Held)> for Shelf {
    fn from_iter<I: IntoIterator<Item = (Name, Held)>>(named: I) -> Self {
        let named = named.into_iter();
        let count = named.size_hint().0;
        let mut shelf = Self { places: Vec::with_capacity(count), items: Vec::with_capacity(count), tree: None };
        for (Name { hash, key }, held) in named {
            shelf.places.push(hash);
            shelf.items.push((key, held));
        }
        if shelf.items.len() >= MANY {
            shelf.become_tree();
        }
        shelf
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::keys::Value;

    fn held(number: u16) -> Held {
        Held::new(Value::Text(Bytes::copy_from_slice(&number.to_le_bytes())))
    }

    proptest! {
        /// It is a map in the order of its names, whether there are few or many: places are few here, so that keys share them.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u32..12, 0u8..30, 0u8..10), 1..400)) {
            let (mut shelf, mut map) = (Shelf::new(), BTreeMap::new());
            for (number, (hash, key, what)) in steps.into_iter().enumerate() {
                let name = Name { hash, key: Key::of(&Bytes::from(vec![b'k'; usize::from(key)])) };
                let value = held(number as u16);
                match what {
                    0..6 if map.contains_key(&name) => {
                        *shelf.get_mut(&name).expect("it is there") = value.clone();
                        map.insert(name, value);
                    }
                    0..6 => {
                        shelf.insert(name.clone(), value.clone());
                        map.insert(name, value);
                    }
                    // Sometimes nearly all of them go.
                    6 if hash == 0 => {
                        let names: Vec<Name> = map.keys().skip(5).cloned().collect();
                        for name in names {
                            prop_assert_eq!(shelf.remove(&name), map.remove(&name));
                        }
                    }
                    6 | 7 => prop_assert_eq!(shelf.remove(&name), map.remove(&name)),
                    8 => prop_assert_eq!(shelf.get(&name), map.get(&name)),
                    _ => {
                        let from = |(n, _): &(&Name, &Held)| n.hash >= hash;
                        let expected = map.iter().filter(from).map(|(n, h)| (n.hash, &n.key, h));
                        prop_assert!(shelf.iter_from(hash).eq(expected));
                    }
                }
                prop_assert_eq!(shelf.len(), map.len());
            }
            prop_assert_eq!(&shelf, &map.clone().into_iter().collect::<Shelf>());
            prop_assert!(shelf.iter().eq(map.iter().map(|(n, h)| (n.hash, &n.key, h))));
        }
    }
}
