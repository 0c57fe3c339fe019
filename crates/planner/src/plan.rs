//! What comes of a wish.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use blueprint::{Epoch, KeyspaceId, Step};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// By the blueprint of this epoch. Once that has moved on, plan again.
    pub based_on: Epoch,
    /// What it is for; of an empty one, why there is nothing to do.
    pub why: String,
    pub steps: Vec<PlannedStep>,
    pub summary: Summary,
    /// Behind how many steps no bucket is under way and an operation ends.
    pub(crate) cuts: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    pub step: Step,
    pub why: String,
    /// What is copied for it.
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Buckets that something is done to; those that are split off not counted by themselves.
    pub buckets: usize,
    /// Copies that are made.
    pub copies: usize,
    /// What all of them take, as far as it is known.
    pub bytes: u64,
    pub hand_overs: usize,
    pub splits: usize,
    pub merges: usize,
    /// How many members a bucket of that keyspace has at the worst moment, among those that something is done to.
    pub fewest_members: BTreeMap<KeyspaceId, usize>,
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The same steps as operations that the blueprint accepts, to be started one after the other, each when the one before is done.
    pub fn operations(&self) -> Vec<Vec<Step>> {
        let mut begin = 0;
        let mut operations = Vec::with_capacity(self.cuts.len());
        for end in self.cuts.iter().copied() {
            operations.push(self.steps[begin..end].iter().map(|planned| planned.step.clone()).collect());
            begin = end;
        }
        assert_eq!(begin, self.steps.len(), "the last cut is at the end");
        operations
    }
}
