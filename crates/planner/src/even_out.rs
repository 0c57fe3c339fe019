//! Copies go from the fullest nodes to the emptiest, as few as possible, until no move is worth it.
//!
//! A copy moves only while the gap between the two nodes is clearly larger than the copy: where all weigh the same, while one node has
//! at least two more than the other. So each move serves, none is taken back, and what is even already stays as it is.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use blueprint::KeyspaceId;

use crate::loads::Loads;
use crate::sketch::{BucketAt, NodeAt};

/// Moves any of these copies, and no others.
pub(crate) fn even_out(loads: &mut Loads<'_>, copies: impl IntoIterator<Item = (BucketAt, NodeAt)>) {
    let mut shelves = Shelves { of_nodes: Vec::new() };
    shelves.of_nodes.resize_with(loads.sketch.nodes.len(), BTreeMap::new);
    for (bucket, node) in copies {
        shelves.put(loads, bucket, node);
    }
    // A node that found no taker may find one after others have moved theirs.
    while pass(loads, &mut shelves) {}
}

/// The copies that may move, node by node and keyspace by keyspace.
struct Shelves {
    of_nodes: Vec<BTreeMap<KeyspaceId, Shelf>>,
}

#[derive(Default)]
struct Shelf {
    weight: i64,
    /// By weight. Of those that weigh the same, one that the node leads comes first.
    copies: BTreeSet<Volume>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Volume {
    weight: i64,
    follows: bool,
    bucket: BucketAt,
}

enum Pick {
    Copy(BucketAt),
    Nothing,
    /// Nor would there be anything for another node of that zone.
    NothingForZone,
}

/// Whether a copy may close a gap. One that all but turns it round is not worth the way.
fn is_worth(weight: i64, gap: i64) -> bool {
    weight <= most_for(gap)
}

fn most_for(gap: i64) -> i64 {
    gap / 4 * 3
}

/// Lets each node give what it can. Answers whether anybody gave.
fn pass(loads: &mut Loads<'_>, shelves: &mut Shelves) -> bool {
    let mut moved = false;
    let filled = (0..shelves.of_nodes.len()).filter(|node| !shelves.of_nodes[*node].is_empty());
    let mut givers: BTreeSet<(i64, NodeAt)> = filled.map(|node| (loads.excess(node), node)).collect();
    while let Some((excess, from)) = givers.pop_last() {
        let Some((bucket, to)) = next_move(loads, shelves, from) else { continue };
        debug_assert_eq!(excess, loads.excess(from));
        let takes_part = givers.remove(&(loads.excess(to), to));
        shelves.drop(loads, bucket, from);
        loads.take(bucket, from);
        loads.give(bucket, to);
        shelves.put(loads, bucket, to);
        givers.insert((loads.excess(from), from));
        if takes_part {
            givers.insert((loads.excess(to), to));
        }
        moved = true;
    }
    moved
}

fn next_move(loads: &Loads<'_>, shelves: &Shelves, from: NodeAt) -> Option<(BucketAt, NodeAt)> {
    let lightest = shelves.of_nodes[from].values().filter_map(|shelf| shelf.copies.first()).map(|c| c.weight).min()?;
    let mut hopeless = BTreeSet::new();
    for rank in loads.order() {
        if !is_worth(lightest, loads.excess(from) - rank.excess) {
            break;
        }
        let zone = loads.sketch.nodes[rank.node].zone;
        if hopeless.contains(&zone) {
            continue;
        }
        match shelves.pick(loads, from, rank.node) {
            Pick::Copy(bucket) => return Some((bucket, rank.node)),
            Pick::NothingForZone => {
                hopeless.insert(zone);
            }
            Pick::Nothing => {}
        }
    }
    None
}

impl Shelves {
    fn put(&mut self, loads: &Loads<'_>, bucket: BucketAt, node: NodeAt) {
        let copy = Volume::of(loads, bucket, node);
        let shelf = self.of_nodes[node].entry(loads.sketch.buckets[bucket].keyspace).or_default();
        shelf.weight += copy.weight;
        shelf.copies.insert(copy);
    }

    fn drop(&mut self, loads: &Loads<'_>, bucket: BucketAt, node: NodeAt) {
        let copy = Volume::of(loads, bucket, node);
        let keyspace = loads.sketch.buckets[bucket].keyspace;
        let shelf = self.of_nodes[node].get_mut(&keyspace).expect("it was put there");
        shelf.weight -= copy.weight;
        shelf.copies.remove(&copy);
        if shelf.copies.is_empty() {
            self.of_nodes[node].remove(&keyspace);
        }
    }

    /// Of the keyspace of which `from` has most more than `to`: that way each keyspace is spread, too.
    fn pick(&self, loads: &Loads<'_>, from: NodeAt, to: NodeAt) -> Pick {
        let there = |keyspace| self.of_nodes[to].get(keyspace).map_or(0, |shelf| shelf.weight);
        let mut shelves: Vec<(&KeyspaceId, &Shelf)> = self.of_nodes[from].iter().collect();
        shelves.sort_by_key(|(keyspace, shelf)| Reverse(shelf.weight - there(*keyspace)));
        let zone = loads.sketch.nodes[to].zone;
        let within = loads.sketch.nodes[from].zone == zone;
        let mut zone_has_room = within;
        for (_, shelf) in shelves {
            let fits = |copy: &&Volume| {
                let room = within || loads.has_zone_room(copy.bucket, zone);
                zone_has_room |= room;
                let held = loads.sketch.buckets[copy.bucket].copies.contains(&to);
                room && !held && loads.sketch.has_room(copy.bucket, to)
            };
            if let Some(copy) = shelf.find(loads.excess(from), loads.excess(to), fits) {
                return Pick::Copy(copy.bucket);
            }
        }
        if zone_has_room { Pick::Nothing } else { Pick::NothingForZone }
    }
}

impl Shelf {
    /// The heaviest that both can do with; or else the lightest, if it is still worth it. Rather one that the node does not lead: it
    /// moves without a hand over.
    fn find(&self, from: i64, to: i64, mut fits: impl FnMut(&&Volume) -> bool) -> Option<Volume> {
        let (least, most) = (from.min(-to), most_for(from - to));
        let up_to = |weight| ..=Volume { weight, follows: true, bucket: BucketAt::MAX };
        if let Some(copy) = self.copies.range(up_to(least.min(most))).rev().find(&mut fits) {
            return Some(*copy);
        }
        let beyond = Volume { weight: least + 1, follows: false, bucket: 0 };
        if beyond.weight > most {
            return None;
        }
        let mut heavier = self.copies.range(beyond..=up_to(most).end);
        let weight = heavier.find(&mut fits)?.weight;
        self.copies.range(up_to(weight)).rev().find(&mut fits).copied()
    }
}

impl Volume {
    fn of(loads: &Loads<'_>, bucket: BucketAt, node: NodeAt) -> Self {
        let follows = loads.sketch.buckets[bucket].led_by() != Some(node);
        Self { weight: loads.weights[bucket], follows, bucket }
    }
}
