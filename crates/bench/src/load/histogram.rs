//! How long things took: counts in buckets that are all about as wide as a hundredth of what they hold, so that a quantile is off by less than
//! one percent, at a nanosecond as at a minute, and to add one is to count up one number.

use std::time::Duration;

/// Each power of two is cut into so many buckets.
const PARTS: u64 = 128;
const PART_BITS: u32 = PARTS.ilog2();
/// About a quarter of an hour, in nanoseconds. What takes longer counts as that.
const LONGEST: u64 = (1 << 40) - 1;
const BUCKETS: usize = bucket_of(LONGEST) + 1;

#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    longest: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, longest: 0 }
    }
}

impl Histogram {
    pub fn add(&mut self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(nanoseconds.min(LONGEST))] += 1;
        self.count += 1;
        self.longest = self.longest.max(nanoseconds);
    }

    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.longest) = (0, 0);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }

    /// What this part of all, 0 to 1, did not exceed. Nothing was added: zero.
    pub fn quantile(&self, part: f64) -> Duration {
        let rank = ((part * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return Duration::from_nanos(middle_of(bucket).min(self.longest));
            }
        }
        Duration::ZERO
    }
}

/// Below `PARTS` a bucket for each number; from there on `PARTS` for each power of two.
const fn bucket_of(value: u64) -> usize {
    if value < PARTS {
        return value as usize;
    }
    let shift = value.ilog2() - PART_BITS;
    ((shift as u64 + 1) * PARTS + (value >> shift) - PARTS) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    ((bucket % PARTS + PARTS) << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(Histogram::default().quantile(0.99), Duration::ZERO);
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        let edges = (0..100_000u64).chain((17..40).flat_map(|power| (1u64 << power) - 2..(1 << power) + 2));
        let buckets: Vec<usize> = edges.map(bucket_of).collect();
        assert!(buckets[..100_000].windows(2).all(|pair| pair[1] - pair[0] <= 1));
        assert!(buckets.is_sorted());
        assert_eq!(bucket_of(LONGEST), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn a_quantile_is_off_by_less_than_a_percent(mut took in proptest::collection::vec(1u64..1 << 39, 1..300), part in 0.0f64..=1.0) {
            let mut histogram = Histogram::default();
            took.iter().for_each(|nanoseconds| histogram.add(Duration::from_nanos(*nanoseconds)));
            took.sort_unstable();
            let rank = ((part * took.len() as f64).ceil() as usize).clamp(1, took.len());
            let (exact, told) = (took[rank - 1] as f64, histogram.quantile(part).as_nanos() as f64);
            prop_assert!((told - exact).abs() <= exact * 0.01 + 1.0, "{told} for {exact}");
            prop_assert_eq!(histogram.longest().as_nanos() as u64, *took.last().expect("there is one"));
        }
    }
}
