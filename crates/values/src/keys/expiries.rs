//! When which places of a slot have something that expires.

use std::collections::BTreeSet;

/// Most slots have none, and pay for no more than to say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::box_collection, reason = "tables lie the closer together")]
pub(super) struct Expiries(
    /// (expires, place). Never an empty set.
    Option<Box<BTreeSet<(u64, u32)>>>,
);

impl Expiries {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |set| set.len())
    }

    /// The next to expire first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.0.iter().flat_map(|set| set.iter().copied())
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.0.as_ref()?.first().map(|(expires, _)| *expires)
    }

    pub(super) fn insert(&mut self, expires: u64, place: u32) {
        self.0.get_or_insert_default().insert((expires, place));
    }

    pub(super) fn remove(&mut self, expires: u64, place: u32) {
        let set = self.0.as_mut().expect("every expiry is in the index");
        assert!(set.remove(&(expires, place)), "every expiry is in the index");
        if set.is_empty() {
            self.0 = None;
        }
    }
}
