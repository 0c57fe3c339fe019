//! Chance, from one seed: the same seed gives the same world.

#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self { state: seed ^ 0x6a09_e667_f3bc_c909 }
    }

    /// A stream of its own, so that what one part of the world draws does not move the others.
    pub fn fork(&mut self, label: u64) -> Self {
        Self::new(self.next() ^ label.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// True `percent` times out of a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub fn permille(&mut self, permille: u64) -> bool {
        self.next() % 1000 < permille
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { Some(&from[(self.next() % from.len() as u64) as usize]) }
    }

    /// Waiting times with this mean: mostly short, sometimes long.
    pub fn around(&mut self, mean: u64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((-(1.0 - unit).ln()) * mean as f64) as u64 + 1
    }
}
