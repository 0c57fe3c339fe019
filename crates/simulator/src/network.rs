//! Who reaches whom.

use std::collections::BTreeMap;

/// Cuts between hosts, by index; each ends by itself or when the world heals.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// From, to → until when nothing passes.
    cuts: BTreeMap<(usize, usize), u64>,
}

impl Network {
    pub fn passes(&self, from: usize, to: usize, time: u64) -> bool {
        self.cuts.is_empty() || self.cuts.get(&(from, to)).is_none_or(|until| time >= *until)
    }

    pub fn cut(&mut self, from: usize, to: usize, until: u64) {
        let end = self.cuts.entry((from, to)).or_default();
        *end = until.max(*end);
    }

    /// Until when something was, or is, in this one's way.
    pub fn cut_until(&self, host: usize) -> u64 {
        let cuts = self.cuts.iter().filter(|((from, to), _)| *from == host || *to == host);
        cuts.map(|(_, until)| *until).max().unwrap_or_default()
    }

    pub fn heal(&mut self) {
        self.cuts.clear();
    }
}
