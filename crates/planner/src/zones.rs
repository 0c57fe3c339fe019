//! How many copies of a bucket may share a zone, and how much a node should hold where zones are of different sizes.

use alloc::vec::Vec;

/// As many copies as any bucket can have; replicas are counted in a byte.
const MOST_COPIES: usize = 256;

/// The answer to one question, for every number of copies: how many of them may share a zone. One, when there are zones enough. With fewer,
/// as many as it takes to give each copy a node.
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    most: Vec<usize>,
}

impl Zones {
    /// From the number of nodes in each zone that may hold copies.
    pub(crate) fn of(sizes: &[usize]) -> Self {
        let mut most = Vec::with_capacity(MOST_COPIES);
        let mut each = 0;
        let mut places = 0;
        for copies in 0..MOST_COPIES {
            while places < copies {
                let more = sizes.iter().filter(|size| **size > each).count();
                if more == 0 {
                    break; // There are more copies than nodes: that is found out elsewhere.
                }
                each += 1;
                places += more;
            }
            most.push(each.max(1));
        }
        Self { most }
    }

    pub(crate) fn most(&self, copies: usize) -> usize {
        self.most[copies.min(MOST_COPIES - 1)]
    }
}

/// What zones have to share out a total.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vessel {
    /// Nodes in it that can be given copies.
    pub(crate) nodes: usize,
    /// What all of them together can hold at most: each bucket comes to a zone only so many times.
    pub(crate) most: i64,
}

/// How much a node of each zone should hold: the same everywhere, except in zones that cannot take so much; what they cannot take rises
/// in the others.
pub(crate) fn levels(total: i64, vessels: &[Vessel]) -> Vec<i64> {
    let mut levels: Vec<i64> = alloc::vec![0; vessels.len()];
    let mut order: Vec<usize> = (0..vessels.len()).filter(|zone| vessels[*zone].nodes > 0).collect();
    order.sort_by_key(|zone| vessels[*zone].most / vessels[*zone].nodes as i64);
    let mut left = total;
    let mut nodes: i64 = order.iter().map(|zone| vessels[*zone].nodes as i64).sum();
    let mut open = order.iter();
    while let Some(&zone) = open.as_slice().first() {
        let Vessel { nodes: here, most } = vessels[zone];
        if most / here as i64 >= left / nodes {
            break; // Nor is any of those that follow too small.
        }
        levels[zone] = most / here as i64;
        left -= most;
        nodes -= here as i64;
        open.next();
    }
    for zone in open {
        levels[*zone] = left / nodes;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(sizes: &[usize], copies: usize) -> usize {
        Zones::of(sizes).most(copies)
    }

    #[test]
    fn copies_share_a_zone_only_if_they_must() {
        assert_eq!(most(&[5, 1, 1], 3), 1);
        assert_eq!(most(&[5, 1], 3), 2);
        assert_eq!(most(&[5, 1], 5), 4);
        assert_eq!(most(&[4], 3), 3);
        assert_eq!(most(&[1, 1], 3), 1, "the third has no node at all");
        assert_eq!(most(&[], 3), 1);
    }

    #[test]
    fn what_one_zone_cannot_take_rises_in_the_others() {
        let vessel = |nodes, most| Vessel { nodes, most };
        assert_eq!(levels(300, &[vessel(5, 1000), vessel(5, 1000)]), [30, 30]);
        // 100 buckets of 3 copies: the large zone holds each of them once.
        assert_eq!(levels(300, &[vessel(5, 100), vessel(1, 100), vessel(1, 100)]), [20, 100, 100]);
        assert_eq!(levels(300, &[vessel(5, 100), vessel(1, 100), vessel(1, 100), vessel(2, 100)]), [20, 50, 50, 50]);
        assert_eq!(levels(7, &[vessel(0, 0), vessel(2, 10)]), [0, 3]);
    }
}
