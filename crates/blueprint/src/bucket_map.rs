//! Something for each of some buckets, in the order of their numbers, and found at once: every message and every record looks for its
//! bucket, several times.

use alloc::vec::{self, Vec};
use core::cell::Cell;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::iter::Zip;
use core::ops::Index;
use core::slice;

use crate::ids::BucketId;

/// A sorted list, and beside it a guess for each few numbers where one of them was found last. A guess that is wrong costs a search, and is
/// right from then on; so nobody has to mend them when buckets come and go, which is rare.
#[derive(Clone)]
pub struct BucketMap<T> {
    buckets: Vec<BucketId>,
    values: Vec<T>,
    /// A power of two, or none.
    guesses: Vec<Cell<u32>>,
}

/// There are this many times as many guesses as buckets, at least: numbers are dense at first, and children's are not.
const ROOM: usize = 4;

impl<T> Default for BucketMap<T> {
    fn default() -> Self {
        Self { buckets: Vec::new(), values: Vec::new(), guesses: Vec::new() }
    }
}

impl<T> BucketMap<T> {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    #[inline]
    fn find(&self, bucket: BucketId) -> Option<usize> {
        // A lane's numbers may be so many apart that they are alike in their low bits.
        let spread = bucket.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let guess = self.guesses.get(spread as usize & self.guesses.len().wrapping_sub(1))?;
        let at = guess.get() as usize;
        if self.buckets.get(at) == Some(&bucket) { Some(at) } else { self.search(bucket, guess) }
    }

    #[cold]
    fn search(&self, bucket: BucketId, guess: &Cell<u32>) -> Option<usize> {
        let at = self.buckets.binary_search(&bucket).ok()?;
        guess.set(at as u32);
        Some(at)
    }

    #[inline]
    pub fn get(&self, bucket: &BucketId) -> Option<&T> {
        self.find(*bucket).map(|at| &self.values[at])
    }

    #[inline]
    pub fn get_mut(&mut self, bucket: &BucketId) -> Option<&mut T> {
        self.find(*bucket).map(|at| &mut self.values[at])
    }

    #[inline]
    pub fn contains_key(&self, bucket: &BucketId) -> bool {
        self.find(*bucket).is_some()
    }

    /// What was there before.
    pub fn insert(&mut self, bucket: BucketId, value: T) -> Option<T> {
        match self.buckets.binary_search(&bucket) {
            Ok(at) => Some(core::mem::replace(&mut self.values[at], value)),
            Err(at) => {
                self.buckets.insert(at, bucket);
                self.values.insert(at, value);
                if self.guesses.len() < self.len() * ROOM {
                    self.guesses.resize((self.len() * ROOM).next_power_of_two(), Cell::new(0));
                }
                None
            }
        }
    }

    /// What is there, or what is put there now.
    pub fn get_or_insert(&mut self, bucket: BucketId, value: T) -> &mut T {
        if !self.contains_key(&bucket) {
            self.insert(bucket, value);
        }
        self.get_mut(&bucket).expect("it is there")
    }

    pub fn remove(&mut self, bucket: &BucketId) -> Option<T> {
        let at = self.buckets.binary_search(bucket).ok()?;
        self.buckets.remove(at);
        Some(self.values.remove(at))
    }

    pub fn clear(&mut self) {
        self.buckets.clear();
        self.values.clear();
    }

    pub fn iter(&self) -> Zip<slice::Iter<'_, BucketId>, slice::Iter<'_, T>> {
        self.buckets.iter().zip(&self.values)
    }

    pub fn keys(&self) -> slice::Iter<'_, BucketId> {
        self.buckets.iter()
    }

    pub fn values(&self) -> slice::Iter<'_, T> {
        self.values.iter()
    }

    pub fn values_mut(&mut self) -> slice::IterMut<'_, T> {
        self.values.iter_mut()
    }
}

impl<T> Index<&BucketId> for BucketMap<T> {
    type Output = T;

    fn index(&self, bucket: &BucketId) -> &T {
        self.get(bucket).expect("whoever asks like this knows that it is there")
    }
}

impl<T: PartialEq> PartialEq for BucketMap<T> {
    fn eq(&self, other: &Self) -> bool {
        self.buckets == other.buckets && self.values == other.values
    }
}

impl<T: Eq> Eq for BucketMap<T> {}

impl<T: Hash> Hash for BucketMap<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.buckets.hash(state);
        self.values.hash(state);
    }
}

impl<T: fmt::Debug> fmt::Debug for BucketMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<'a, T> IntoIterator for &'a BucketMap<T> {
    type Item = (&'a BucketId, &'a T);
    type IntoIter = Zip<slice::Iter<'a, BucketId>, slice::Iter<'a, T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut BucketMap<T> {
    type Item = (&'a BucketId, &'a mut T);
    type IntoIter = Zip<slice::Iter<'a, BucketId>, slice::IterMut<'a, T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.buckets.iter().zip(&mut self.values)
    }
}

impl<T> IntoIterator for BucketMap<T> {
    type Item = (BucketId, T);
    type IntoIter = Zip<vec::IntoIter<BucketId>, vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.buckets.into_iter().zip(self.values)
    }
}

impl<T> Extend<(BucketId, T)> for BucketMap<T> {
    fn extend<I: IntoIterator<Item = (BucketId, T)>>(&mut self, all: I) {
        all.into_iter().for_each(|(bucket, value)| drop(self.insert(bucket, value)));
    }
}

impl<T> FromIterator<(BucketId, T)> for BucketMap<T> {
    fn from_iter<I: IntoIterator<Item = (BucketId, T)>>(all: I) -> Self {
        let mut map = Self::new();
        map.extend(all);
        map
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map_in_order(acts in prop::collection::vec((0u64..600, 0u8..4), 0..200)) {
            let (mut map, mut model) = (BucketMap::new(), BTreeMap::new());
            for (turn, (bucket, act)) in acts.into_iter().enumerate() {
                let bucket = BucketId(bucket);
                match act {
                    0 => prop_assert_eq!(map.remove(&bucket), model.remove(&bucket)),
                    1 => prop_assert_eq!(*map.get_or_insert(bucket, turn), *model.entry(bucket).or_insert(turn)),
                    _ => prop_assert_eq!(map.insert(bucket, turn), model.insert(bucket, turn)),
                }
                prop_assert_eq!(map.len(), model.len());
                for number in 0..600 {
                    let bucket = BucketId(number);
                    prop_assert_eq!(map.get(&bucket), model.get(&bucket));
                    prop_assert_eq!(map.contains_key(&bucket), model.contains_key(&bucket));
                }
            }
            prop_assert!(map.iter().eq(model.iter()) && map.keys().eq(model.keys()));
            prop_assert!(map.into_iter().eq(model));
        }
    }
}
