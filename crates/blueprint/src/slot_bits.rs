//! Which slots, one bit each: for what every entry that is applied asks or says.

use alloc::vec;
use alloc::vec::Vec;

use crate::{Slot, SlotSet};

/// Equal sets are equal: no bits at all, or one for each slot and at least one set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlotBits {
    bits: Vec<u64>,
}

impl SlotBits {
    pub fn contains(&self, slot: Slot) -> bool {
        self.bits.get(usize::from(slot.0) / 64).is_some_and(|word| word & bit(slot) != 0)
    }

    pub fn insert(&mut self, slot: Slot) {
        if self.bits.is_empty() {
            self.bits = vec![0; usize::from(Slot::COUNT) / 64];
        }
        self.bits[usize::from(slot.0) / 64] |= bit(slot);
    }

    pub fn insert_all(&mut self, slots: &SlotSet) {
        slots.iter().for_each(|slot| self.insert(slot));
    }

    pub fn remove(&mut self, slots: &SlotSet) {
        if self.bits.is_empty() {
            return;
        }
        slots.iter().for_each(|slot| self.bits[usize::from(slot.0) / 64] &= !bit(slot));
        if self.bits.iter().all(|word| *word == 0) {
            self.clear();
        }
    }

    pub fn clear(&mut self) {
        self.bits = Vec::new();
    }

    /// All of them; none is left.
    pub fn take(&mut self) -> SlotSet {
        let taken = core::mem::take(self);
        (0..taken.bits.len() as u16 * 64).map(Slot).filter(|slot| taken.contains(*slot)).collect()
    }
}

fn bit(slot: Slot) -> u64 {
    1 << (slot.0 % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out_once() {
        let mut bits = SlotBits::default();
        [16383, 0, 64, 63, 64].into_iter().for_each(|slot| bits.insert(Slot(slot)));
        bits.remove(&SlotSet::range(Slot(60), Slot(63)));
        assert_eq!([0, 1, 63, 64, 16383].map(|slot| bits.contains(Slot(slot))), [true, false, false, true, true]);
        assert_eq!(bits.take(), [0, 64, 16383].map(Slot).into_iter().collect());
        assert!(bits.take().is_empty() && !bits.contains(Slot(0)));
        bits.insert(Slot(5));
        bits.remove(&SlotSet::all());
        assert_eq!(bits, SlotBits::default());
    }
}
