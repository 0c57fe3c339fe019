//! Where the keys of a slot lie, in the order of their places.
//!
//! Nearly all slots have few keys, and which of them a command is about is decided by places that lie side by side: one look at memory,
//! and one more at the key itself. That is a leaf. A slot with many keys has many leaves, and looks for the one by the places with which
//! they begin.

mod marks;

use std::slice;

use self::marks::Marks;
use crate::item::{Item, ItemMut, ItemRef, Loose};
use crate::keys::Name;

/// More than so many make two leaves of one. So few that all places are compared in the time of one look at memory, and that a new
/// item does not move many others.
const FULL: usize = 96;
/// A leaf that is left with so few looks for a neighbour to join, and does so if together they have room for as many more.
const FEW: usize = FULL / 4;
/// Room is made for so many at once.
const AT_ONCE: usize = 4;

#[derive(Clone, Debug)]
pub(crate) enum Shelf {
    One(Leaf),
    Many(Box<Many>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Leaf {
    /// The place and the head of each item, sorted by place. Has room for as many as `items` has.
    marks: Marks,
    /// In the same order, and those of one place are in the order of their keys.
    items: Vec<Item>,
}

/// Holds: at least two leaves, none of them empty.
#[derive(Clone, Debug)]
pub(crate) struct Many {
    /// The first place of each leaf.
    firsts: Vec<u32>,
    leaves: Vec<Leaf>,
    /// Items in all leaves.
    count: usize,
}

/// Where an item is, or would be. Means something until the next insertion or removal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spot {
    leaf: usize,
    at: usize,
}

impl Shelf {
    pub(crate) fn len(&self) -> usize {
        match self {
            Shelf::One(leaf) => leaf.items.len(),
            Shelf::Many(many) => many.count,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn leaves(&self) -> &[Leaf] {
        match self {
            Shelf::One(leaf) => slice::from_ref(leaf),
            Shelf::Many(many) => &many.leaves,
        }
    }

    fn leaves_mut(&mut self) -> &mut [Leaf] {
        match self {
            Shelf::One(leaf) => slice::from_mut(leaf),
            Shelf::Many(many) => &mut many.leaves,
        }
    }

    /// Where it is, or else where it belongs.
    pub(crate) fn find(&self, name: Name<'_>) -> Result<Spot, Spot> {
        let Spot { leaf, .. } = self.find_leaf(name);
        match self.leaves()[leaf].find(name) {
            Ok(at) => Ok(Spot { leaf, at }),
            Err(at) => Err(Spot { leaf, at }),
        }
    }

    pub(crate) fn get(&self, name: Name<'_>) -> Option<ItemRef<'_>> {
        let Spot { leaf, .. } = self.find_leaf(name);
        let leaf = &self.leaves()[leaf];
        leaf.find(name).ok().and_then(|at| leaf.get(at))
    }

    pub(crate) fn item_mut(&mut self, spot: Spot) -> ItemMut<'_> {
        let leaf = &mut self.leaves_mut()[spot.leaf];
        ItemMut { head: leaf.marks.head_mut(spot.at), item: &mut leaf.items[spot.at] }
    }

    /// `find` in steps, each of which looks at memory that the one before knew of: for those who look for many at a time. The first finds
    /// the leaf.
    pub(crate) fn find_leaf(&self, name: Name<'_>) -> Spot {
        let leaf = match self {
            Shelf::One(_) => 0,
            Shelf::Many(many) => many.find(name),
        };
        Spot { leaf, at: 0 }
    }

    /// The second step has looked at a place.
    pub(crate) fn place_at(&self, spot: Spot) -> u32 {
        self.leaves()[spot.leaf].marks.place(spot.at).unwrap_or(0)
    }

    /// The third goes to where the place is.
    pub(crate) fn find_place(&self, spot: Spot, place: u32) -> Spot {
        Spot { at: self.leaves()[spot.leaf].marks.find(place), ..spot }
    }

    /// The fourth has the item. What may be there is not there for sure.
    pub(crate) fn item_at(&self, spot: Spot) -> Option<ItemRef<'_>> {
        self.leaves()[spot.leaf].get(spot.at)
    }

    /// At the spot where it was looked for and not found.
    pub(crate) fn insert(&mut self, spot: Spot, place: u32, item: Loose) {
        if let Shelf::Many(many) = self {
            many.count += 1;
            if spot.at == 0 {
                many.firsts[spot.leaf] = place;
            }
        }
        let leaf = &mut self.leaves_mut()[spot.leaf];
        leaf.insert(spot.at, place, item);
        if leaf.items.len() > FULL {
            let upper = leaf.split_off(FULL / 2);
            self.add_leaf(spot.leaf + 1, upper);
        }
    }

    /// After all others. About so many follow.
    pub(crate) fn push(&mut self, place: u32, item: Loose, following: usize) {
        if let Shelf::Many(many) = self {
            many.count += 1;
        }
        let leaves = self.leaves_mut();
        let last = leaves.len() - 1;
        let leaf = &mut leaves[last];
        if leaf.items.len() < FULL {
            leaf.make_room(following.saturating_add(1).min(FULL - leaf.items.len()));
            leaf.insert(leaf.items.len(), place, item);
            return;
        }
        leaf.insert(FULL, place, item);
        let next = leaf.split_off(FULL);
        self.add_leaf(last + 1, next);
    }

    pub(crate) fn last(&self) -> Option<Name<'_>> {
        let leaf = self.leaves().last()?;
        let last = leaf.items.len().checked_sub(1)?;
        Some(Name { place: leaf.marks.place(last)?, key: leaf.get(last)?.key() })
    }

    pub(crate) fn remove(&mut self, spot: Spot) -> Loose {
        match self {
            Shelf::One(leaf) => leaf.remove(spot.at),
            Shelf::Many(many) => {
                let item = many.remove(spot);
                if let [only] = &mut many.leaves[..] {
                    *self = Shelf::One(std::mem::take(only));
                }
                item
            }
        }
    }

    /// All of them in their order, a leaf at a time.
    pub(crate) fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = ItemRef<'_>> + Clone> {
        self.leaves().iter().map(|leaf| leaf.from(0).map(|(_, item)| item))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, ItemRef<'_>)> {
        self.leaves().iter().flat_map(|leaf| leaf.from(0))
    }

    /// From that place on.
    pub(crate) fn iter_from(&self, place: u32) -> impl Iterator<Item = (u32, ItemRef<'_>)> {
        // The one before the first that begins at the place, or after it, may end with it.
        let leaf = match self {
            Shelf::One(_) => 0,
            Shelf::Many(many) => many.firsts.partition_point(|first| *first < place).saturating_sub(1),
        };
        let (leaf, rest) = self.leaves()[leaf..].split_first().expect("there is one that is before all others");
        leaf.from(leaf.marks.find(place)).chain(rest.iter().flat_map(|leaf| leaf.from(0)))
    }

    /// What is in it was in the leaf before it.
    fn add_leaf(&mut self, at: usize, leaf: Leaf) {
        match self {
            Shelf::One(only) => {
                let leaves = vec![std::mem::take(only), leaf];
                let firsts = leaves.iter().map(Leaf::first).collect();
                let count = leaves.iter().map(|leaf| leaf.items.len()).sum();
                *self = Shelf::Many(Box::new(Many { firsts, leaves, count }));
            }
            Shelf::Many(many) => {
                many.firsts.insert(at, leaf.first());
                many.leaves.insert(at, leaf);
            }
        }
    }
}

impl Leaf {
    /// The place with which it begins. Of an empty one nobody asks.
    fn first(&self) -> u32 {
        self.marks.place(0).expect("it has items")
    }

    fn get(&self, at: usize) -> Option<ItemRef<'_>> {
        Some(ItemRef { head: self.marks.head(at)?, item: self.items.get(at)? })
    }

    fn find(&self, name: Name<'_>) -> Result<usize, usize> {
        let mut at = self.marks.find(name.place);
        while self.marks.place(at) == Some(name.place)
            && let Some(item) = self.get(at)
        {
            let key = item.key();
            if key == name.key {
                return Ok(at);
            }
            if key > name.key {
                break;
            }
            at += 1;
        }
        Err(at)
    }

    fn from(&self, at: usize) -> impl Iterator<Item = (u32, ItemRef<'_>)> + Clone {
        let marked = self.marks.from(at).zip(&self.items[at..]);
        marked.map(|((place, head), item)| (place, ItemRef { head, item }))
    }

    fn make_room(&mut self, count: usize) {
        if self.items.len() == self.items.capacity() {
            self.marks.reserve_exact(count);
            self.items.reserve_exact(count);
        }
    }

    fn insert(&mut self, at: usize, place: u32, Loose { head, item }: Loose) {
        self.make_room(AT_ONCE);
        self.marks.insert(at, place, head);
        self.items.insert(at, item);
    }

    fn remove(&mut self, at: usize) -> Loose {
        let item = Loose { head: self.marks.remove(at), item: self.items.remove(at) };
        if self.items.capacity() > 2 * self.items.len() + AT_ONCE {
            self.shrink();
        }
        item
    }

    fn shrink(&mut self) {
        self.marks.shrink_to_fit();
        self.items.shrink_to_fit();
    }

    fn append(&mut self, mut upper: Leaf) {
        self.items.reserve_exact(upper.items.len());
        self.marks.append(&upper.marks);
        self.items.append(&mut upper.items);
    }

    fn split_off(&mut self, at: usize) -> Leaf {
        let upper = Leaf { marks: self.marks.split_off(at), items: self.items.split_off(at) };
        self.shrink();
        upper
    }
}

impl Many {
    /// The last leaf that does not begin after it; the first, if all do.
    fn find(&self, name: Name<'_>) -> usize {
        let mut after = self.firsts.partition_point(|first| *first < name.place);
        if self.firsts.get(after) == Some(&name.place) {
            // Some begin with that very place, and their keys decide.
            let same = self.firsts[after..].partition_point(|first| *first == name.place);
            after += self.leaves[after..after + same]
                .partition_point(|leaf| leaf.get(0).is_some_and(|first| first.key() <= name.key));
        }
        after.saturating_sub(1)
    }

    fn remove(&mut self, spot: Spot) -> Loose {
        let leaf = &mut self.leaves[spot.leaf];
        let item = leaf.remove(spot.at);
        self.count -= 1;
        if let Some(first) = leaf.marks.place(0) {
            self.firsts[spot.leaf] = first;
        }
        if leaf.items.len() <= FEW {
            self.join(spot.leaf);
        }
        item
    }

    /// Few are left in a leaf: it becomes one with that after it or before it, if that is not too full. An empty one always does.
    fn join(&mut self, at: usize) {
        let is_empty = self.leaves[at].items.is_empty();
        let both = |lower: usize| Some(self.leaves[lower].items.len() + self.leaves.get(lower + 1)?.items.len());
        let fits = |lower: &usize| both(*lower).is_some_and(|both| is_empty || both + FEW <= FULL);
        let Some(lower) = [Some(at), at.checked_sub(1)].into_iter().flatten().find(fits) else { return };
        let upper = self.leaves.remove(lower + 1);
        self.firsts.remove(lower + 1);
        self.leaves[lower].append(upper);
        self.firsts[lower] = self.leaves[lower].first();
    }
}

impl Default for Shelf {
    fn default() -> Self {
        Shelf::One(Leaf::default())
    }
}

/// What matters is what lies on it.
impl PartialEq for Shelf {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Shelf {}

#[cfg(test)]
mod tests;
