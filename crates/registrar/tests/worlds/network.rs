//! Messages under way: late, lost, twice, out of order, or cut off.

use std::collections::BTreeSet;

use blueprint::NodeId;

use crate::dice::Dice;

#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// In microseconds.
    pub(crate) delay: (u64, u64),
    /// In percent.
    pub(crate) loss: u64,
    pub(crate) twice: u64,
    /// Now and then a message takes this long.
    pub(crate) very_late: u64,
    pub(crate) cuts: BTreeSet<(NodeId, NodeId)>,
}

impl Network {
    pub(crate) fn calm() -> Self {
        Self { delay: (200, 2_000), loss: 0, twice: 0, very_late: 0, cuts: BTreeSet::new() }
    }

    pub(crate) fn cut(&mut self, a: NodeId, b: NodeId) {
        self.cuts.insert((a, b));
        self.cuts.insert((b, a));
    }

    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
    }

    pub(crate) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// After how long each copy arrives.
    pub(crate) fn carry(&self, from: NodeId, to: NodeId, dice: &mut Dice) -> Vec<u64> {
        if self.is_cut(from, to) || dice.percent(self.loss) {
            return Vec::new();
        }
        let copies = if dice.percent(self.twice) { 2 } else { 1 };
        let mut take = || match self.very_late > 0 && dice.percent(2) {
            true => dice.between(self.delay.1, self.very_late),
            false => dice.between(self.delay.0, self.delay.1),
        };
        (0..copies).map(|_| take()).collect()
    }
}
