//! Who leads what: everyone as many as everyone else, by as few hand overs as possible.
//!
//! A hand over moves no data, so it is only counted. A node that leads too many hands over to a member that leads fewer; if none of its
//! fellow members does, one of them hands over in turn, and so on along the shortest chain.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use blueprint::KeyspaceId;

use crate::sketch::{BucketAt, NodeAt, Sketch};

/// Finds a leader for those of `buckets` whose own has no copy any more or may not lead, and then lets `buckets`, and no others, change
/// hands until everyone leads as many. Answers those that nobody can lead; they stay as they are.
pub(crate) fn settle(
    sketch: &mut Sketch,
    in_scope: impl Fn(&Sketch, BucketAt) -> bool,
    buckets: &[BucketAt],
) -> Vec<BucketAt> {
    let mut leaders = Leaders::count(sketch, in_scope);
    let mut nobodys = Vec::new();
    for bucket in buckets.iter().copied() {
        let leader = leaders.sketch.buckets[bucket].leader;
        if !leaders.may_lead(bucket, leader) {
            match leaders.least_busy(bucket) {
                Some(node) => leaders.crown(bucket, node),
                None => {
                    nobodys.push(bucket);
                    continue;
                }
            }
        }
        leaders.release(bucket);
    }
    leaders.even_out();
    nobodys
}

struct Leaders<'a> {
    sketch: &'a mut Sketch,
    /// How many buckets each node leads.
    numbers: Vec<usize>,
    /// Those of them that may change hands.
    free: Vec<BTreeMap<KeyspaceId, BTreeSet<BucketAt>>>,
}

impl<'a> Leaders<'a> {
    fn count(sketch: &'a mut Sketch, in_scope: impl Fn(&Sketch, BucketAt) -> bool) -> Self {
        let mut numbers = vec![0; sketch.nodes.len()];
        for bucket in (0..sketch.buckets.len()).filter(|bucket| in_scope(sketch, *bucket)) {
            numbers[sketch.buckets[bucket].leader] += 1;
        }
        let free = vec![BTreeMap::new(); sketch.nodes.len()];
        Self { sketch, numbers, free }
    }

    fn may_lead(&self, bucket: BucketAt, node: NodeAt) -> bool {
        self.sketch.is_open(node) && self.sketch.buckets[bucket].copies.contains(&node)
    }

    /// Rather one that is a member already: it need not be waited for.
    fn least_busy(&self, bucket: BucketAt) -> Option<NodeAt> {
        let piece = &self.sketch.buckets[bucket];
        let able = piece.copies.iter().copied().filter(|node| self.sketch.is_open(*node));
        able.min_by_key(|node| (self.numbers[*node], !piece.members.contains(node), *node))
    }

    fn release(&mut self, bucket: BucketAt) {
        let piece = &self.sketch.buckets[bucket];
        self.free[piece.leader].entry(piece.keyspace).or_default().insert(bucket);
    }

    fn crown(&mut self, bucket: BucketAt, node: NodeAt) {
        let piece = &mut self.sketch.buckets[bucket];
        self.numbers[piece.leader] -= 1;
        self.numbers[node] += 1;
        piece.leader = node;
    }

    fn hand_over(&mut self, bucket: BucketAt, to: NodeAt) {
        let piece = &self.sketch.buckets[bucket];
        if let Some(free) = self.free[piece.leader].get_mut(&piece.keyspace) {
            free.remove(&bucket);
        }
        self.crown(bucket, to);
        self.release(bucket);
    }

    fn even_out(&mut self) {
        let mut busiest: BTreeSet<(usize, NodeAt)> =
            self.sketch.open_nodes().map(|node| (self.numbers[node], node)).collect();
        let mut least: BTreeSet<(usize, NodeAt)> = busiest.clone();
        while let Some((number, from)) = busiest.pop_last() {
            let fewest = least.first().expect("nobody leaves it").0;
            if number < fewest + 2 {
                break;
            }
            // Whom no chain leads to somebody less busy will not find one later either: every chain makes others busier.
            let Some(chain) = self.chain(from, fewest) else { continue };
            let (_, to) = *chain.last().expect("a chain has a link");
            least.remove(&(number, from));
            least.remove(&(self.numbers[to], to));
            let takes_part = busiest.remove(&(self.numbers[to], to));
            for (bucket, node) in chain {
                self.hand_over(bucket, node);
            }
            for node in [from, to] {
                least.insert((self.numbers[node], node));
            }
            busiest.insert((self.numbers[from], from));
            if takes_part {
                busiest.insert((self.numbers[to], to));
            }
        }
    }

    /// The shortest chain of hand overs to a node that leads at least two fewer. One hand over is enough nearly always.
    fn chain(&self, from: NodeAt, fewest: usize) -> Option<Vec<(BucketAt, NodeAt)>> {
        if let Some(link) = self.link(from, fewest) {
            return Some(vec![link]);
        }
        let mut came: Vec<Option<(NodeAt, BucketAt)>> = vec![None; self.sketch.nodes.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for bucket in self.free[node].values().flatten().copied() {
                for next in self.sketch.buckets[bucket].copies.iter().copied() {
                    if next == from || came[next].is_some() || !self.sketch.is_open(next) {
                        continue;
                    }
                    came[next] = Some((node, bucket));
                    if self.numbers[next] + 2 <= self.numbers[from] {
                        return Some(follow(&came, next));
                    }
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// To the least busy of its fellow members; of the keyspace of which it leads most.
    fn link(&self, from: NodeAt, fewest: usize) -> Option<(BucketAt, NodeAt)> {
        let mut keyspaces: Vec<&BTreeSet<BucketAt>> = self.free[from].values().collect();
        keyspaces.sort_by_key(|buckets| Reverse(buckets.len()));
        let mut best: Option<(usize, BucketAt, NodeAt)> = None;
        for bucket in keyspaces.into_iter().flatten().copied() {
            for node in self.sketch.buckets[bucket].copies.iter().copied() {
                let number = self.numbers[node];
                let better = best.is_none_or(|(least, ..)| number < least);
                if better && number + 2 <= self.numbers[from] && self.sketch.is_open(node) {
                    best = Some((number, bucket, node));
                }
            }
            if best.is_some_and(|(least, ..)| least <= fewest) {
                break;
            }
        }
        best.map(|(_, bucket, node)| (bucket, node))
    }
}

/// The way to `end`, link by link.
fn follow(came: &[Option<(NodeAt, BucketAt)>], end: NodeAt) -> Vec<(BucketAt, NodeAt)> {
    let mut chain = Vec::new();
    let mut to = end;
    while let Some((node, bucket)) = came[to] {
        chain.push((bucket, to));
        to = node;
    }
    chain.reverse();
    chain
}
