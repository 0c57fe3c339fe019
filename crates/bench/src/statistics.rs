//! What several rounds say together. Absolute figures drift with the machine, so sides are compared round by round, and the median of
//! those ratios counts; how far they lie apart is always said with it.

use serde::Serialize;

/// The middle of some numbers, and how far they reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Summary {
    /// None of nothing.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.iter().copied().filter(|number| number.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        Some(Self { median, least, most })
    }

    /// Of ours to theirs, round by round. Rounds in which they had nothing are left out.
    pub fn of_ratios(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        let ratios: Vec<f64> =
            ours.iter().zip(theirs).filter(|(_, their)| **their > 0.0).map(|(our, their)| our / their).collect();
        Self::of(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_odd_and_even() {
        assert_eq!(Summary::of(&[3.0, 1.0, 2.0]), Some(Summary { median: 2.0, least: 1.0, most: 3.0 }));
        assert_eq!(Summary::of(&[4.0, 1.0]), Some(Summary { median: 2.5, least: 1.0, most: 4.0 }));
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[f64::NAN, 1.0]).map(|summary| summary.median), Some(1.0));
    }

    /// The machine slowed down by half in the second round, for both: their ratio did not change.
    #[test]
    fn ratios_are_of_the_same_round() {
        let ratio = Summary::of_ratios(&[100.0, 50.0, 100.0], &[50.0, 25.0, 200.0]);
        assert_eq!(ratio, Some(Summary { median: 2.0, least: 0.5, most: 2.0 }));
        assert_eq!(Summary::of_ratios(&[1.0, 2.0], &[0.0, 1.0]).map(|ratio| ratio.median), Some(2.0));
        assert_eq!(Summary::of_ratios(&[1.0], &[]), None);
    }
}
