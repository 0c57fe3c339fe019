//! Which slots have changed since the last checkpoint: one bit each, for every entry that is applied says so.

use alloc::vec;
use alloc::vec::Vec;

use blueprint::{Slot, SlotSet};

/// Equal sets are equal: no bits at all, or one for each slot and at least one set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Dirty {
    bits: Vec<u64>,
}

impl Dirty {
    pub(crate) fn insert(&mut self, slot: Slot) {
        if self.bits.is_empty() {
            self.bits = vec![0; usize::from(Slot::COUNT) / 64];
        }
        self.bits[usize::from(slot.0) / 64] |= 1 << (slot.0 % 64);
    }

    pub(crate) fn insert_all(&mut self, slots: &SlotSet) {
        slots.iter().for_each(|slot| self.insert(slot));
    }

    pub(crate) fn remove(&mut self, slots: &SlotSet) {
        if self.bits.is_empty() {
            return;
        }
        slots.iter().for_each(|slot| self.bits[usize::from(slot.0) / 64] &= !(1 << (slot.0 % 64)));
        if self.bits.iter().all(|word| *word == 0) {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bits = Vec::new();
    }

    /// All of them; none is left.
    pub(crate) fn take(&mut self) -> SlotSet {
        let bits = core::mem::take(&mut self.bits);
        let is_set = |slot: &u16| bits[usize::from(*slot) / 64] & (1 << (slot % 64)) != 0;
        (0..bits.len() as u16 * 64).filter(is_set).map(Slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out_once() {
        let mut dirty = Dirty::default();
        [16383, 0, 64, 63, 64].into_iter().for_each(|slot| dirty.insert(Slot(slot)));
        dirty.remove(&SlotSet::range(Slot(60), Slot(63)));
        assert_eq!(dirty.take(), [0, 64, 16383].map(Slot).into_iter().collect());
        assert!(dirty.take().is_empty());
        dirty.insert(Slot(5));
        dirty.remove(&SlotSet::all());
        assert_eq!(dirty, Dirty::default());
    }
}
