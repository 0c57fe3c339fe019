//! Copies go from the fullest nodes to the emptiest, as few as possible, until no move is worth it.
//!
//! A copy moves only while the gap between the two nodes is clearly larger than the copy: where all weigh the same, while one node has
//! at least two more than the other. So each move serves, none is taken back, and what is even already stays as it is.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use blueprint::KeyspaceId;

use crate::loads::Loads;
use crate::sketch::{BucketAt, NodeAt};

/// Where a copy may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Anywhere,
    /// Only where there is one today: which of them stay is chosen, and nothing is copied.
    WhereItWas,
}

/// Moves any of these copies, and no others.
pub(crate) fn even_out(loads: &mut Loads<'_>, copies: impl IntoIterator<Item = (BucketAt, NodeAt)>, reach: Reach) {
    let mut shelves = Shelves { of_nodes: Vec::new(), reach };
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
    reach: Reach,
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

/// What a copy may weigh to be moved, and what it should rather weigh.
#[derive(Clone, Copy)]
struct Span {
    least: i64,
    ideal: i64,
    most: i64,
}

impl Span {
    /// For a move that narrows the gap between two nodes. Ideally both can do with it. A copy that all but turns the gap round is not
    /// worth the way.
    fn between(from: i64, to: i64) -> Self {
        let most = (from - to) / 4 * 3;
        Self { least: 0, ideal: from.min(-to).clamp(0, most.max(0)), most }
    }

    /// For a move that makes up for another.
    fn about(weight: i64) -> Self {
        Self { least: weight - weight / 4, ideal: weight, most: weight + weight / 4 }
    }
}

/// Lets each node give what it can. Answers whether anybody gave.
fn pass(loads: &mut Loads<'_>, shelves: &mut Shelves) -> bool {
    let mut moved = false;
    let filled = (0..shelves.of_nodes.len()).filter(|node| !shelves.of_nodes[*node].is_empty());
    let mut givers: BTreeSet<(i64, NodeAt)> = filled.map(|node| (loads.excess(node), node)).collect();
    let mut unreachable = BTreeSet::new();
    while let Some((_, from)) = givers.pop_last() {
        let direct = next_move(loads, shelves, from).map(|direct| vec![direct]);
        let Some(moves) = direct.or_else(|| detour(loads, shelves, from, &mut unreachable)) else { continue };
        let mut on_the_way: BTreeSet<NodeAt> = moves.iter().map(|(_, _, to)| *to).collect();
        on_the_way.retain(|node| givers.remove(&(loads.excess(*node), *node)));
        on_the_way.insert(from);
        for (bucket, from, to) in moves {
            shelves.drop(loads, bucket, from);
            loads.take(bucket, from);
            loads.give(bucket, to);
            shelves.put(loads, bucket, to);
        }
        givers.extend(on_the_way.into_iter().map(|node| (loads.excess(node), node)));
        moved = true;
    }
    moved
}

type Move = (BucketAt, NodeAt, NodeAt);

/// From this node to the emptiest that can take something.
fn next_move(loads: &Loads<'_>, shelves: &Shelves, from: NodeAt) -> Option<Move> {
    let lightest = shelves.lightest(from)?;
    let mut hopeless = BTreeSet::new();
    for rank in loads.order() {
        let span = Span::between(loads.excess(from), rank.excess);
        if span.most < lightest {
            break;
        }
        let zone = loads.sketch.nodes[rank.node].zone;
        if hopeless.contains(&zone) {
            continue;
        }
        match shelves.pick(loads, from, rank.node, span) {
            Pick::Copy(bucket) => return Some((bucket, from, rank.node)),
            Pick::NothingForZone => {
                hopeless.insert(zone);
            }
            Pick::Nothing => {}
        }
    }
    None
}

/// From so many of the emptiest nodes a way back is looked for: whoever is fuller than those is not helped much.
const DETOURS: usize = 8;

/// Where zones leave no direct way: a third node gives to the emptiest, and is given as much by this one.
fn detour(loads: &Loads<'_>, shelves: &Shelves, from: NodeAt, unreachable: &mut BTreeSet<NodeAt>) -> Option<Vec<Move>> {
    let lightest = shelves.lightest(from)?;
    for rank in loads.order().take(DETOURS) {
        let span = Span::between(loads.excess(from), rank.excess);
        if span.most < lightest {
            break;
        }
        if unreachable.contains(&rank.node) {
            continue;
        }
        let mut reached = false;
        for third in loads.sketch.open_nodes().filter(|third| *third != from && *third != rank.node) {
            let Pick::Copy(second) = shelves.pick(loads, third, rank.node, span) else { continue };
            reached = true;
            let about = Span::about(loads.weights[second]);
            let Pick::Copy(first) = shelves.pick(loads, from, third, about) else { continue };
            let moves = vec![(second, third, rank.node), (first, from, third)];
            if is_progress(loads, &moves) {
                return Some(moves);
            }
        }
        if !reached {
            unreachable.insert(rank.node);
        }
    }
    None
}

/// Whether nodes are closer to their shares afterwards, all in all. As this never goes back, it ends.
fn is_progress(loads: &Loads<'_>, moves: &[Move]) -> bool {
    let mut shift: BTreeMap<NodeAt, i64> = BTreeMap::new();
    for (bucket, from, to) in moves {
        *shift.entry(*from).or_default() -= loads.weights[*bucket];
        *shift.entry(*to).or_default() += loads.weights[*bucket];
    }
    let square = |number: i64| i128::from(number) * i128::from(number);
    let gain = |(node, shift): (&NodeAt, &i64)| square(loads.excess(*node)) - square(loads.excess(*node) + shift);
    shift.iter().map(gain).sum::<i128>() > 0
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

    fn may_go(&self, loads: &Loads<'_>, bucket: BucketAt, to: NodeAt) -> bool {
        let piece = &loads.sketch.buckets[bucket];
        let reached = self.reach == Reach::Anywhere || piece.held(to);
        reached && !piece.copies.contains(&to) && loads.sketch.has_room(bucket, to)
    }

    fn lightest(&self, node: NodeAt) -> Option<i64> {
        self.of_nodes[node].values().filter_map(|shelf| shelf.copies.first()).map(|copy| copy.weight).min()
    }

    /// Of the keyspace of which `from` has most more than `to`: that way each keyspace is spread, too.
    fn pick(&self, loads: &Loads<'_>, from: NodeAt, to: NodeAt, span: Span) -> Pick {
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
                room && self.may_go(loads, copy.bucket, to)
            };
            if let Some(copy) = shelf.find(span, fits) {
                return Pick::Copy(copy.bucket);
            }
        }
        if zone_has_room { Pick::Nothing } else { Pick::NothingForZone }
    }
}

impl Shelf {
    /// The heaviest up to the ideal; or else the lightest beyond. Rather one that the node does not lead: it moves without a hand over.
    fn find(&self, span: Span, mut fits: impl FnMut(&&Volume) -> bool) -> Option<Volume> {
        let first = |weight| Volume { weight, follows: false, bucket: 0 };
        let last = |weight| Volume { weight, follows: true, bucket: BucketAt::MAX };
        let up_to_ideal = first(span.least)..=last(span.ideal);
        if let Some(copy) = self.copies.range(up_to_ideal).rev().find(&mut fits) {
            return Some(*copy);
        }
        if span.ideal >= span.most {
            return None;
        }
        let weight = self.copies.range(first(span.ideal + 1)..=last(span.most)).find(&mut fits)?.weight;
        self.copies.range(first(weight)..=last(weight)).rev().find(&mut fits).copied()
    }
}

impl Volume {
    fn of(loads: &Loads<'_>, bucket: BucketAt, node: NodeAt) -> Self {
        let follows = loads.sketch.buckets[bucket].led_by() != Some(node);
        Self { weight: loads.weights[bucket], follows, bucket }
    }
}
