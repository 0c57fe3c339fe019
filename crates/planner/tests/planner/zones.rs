//! Copies of a bucket in different zones, as far as there are zones enough.

use std::collections::{BTreeMap, BTreeSet};

use blueprint::NodeId;
use planner::Wish;
use proptest::prelude::*;

use crate::properties::{Dice, scattered, shape};
use crate::world::{World, n, spread};

impl World {
    fn zone(&self, node: NodeId) -> &str {
        &self.blueprint.nodes[&node].zone
    }

    fn zone_sizes(&self) -> BTreeMap<&str, usize> {
        let mut sizes = BTreeMap::new();
        for node in self.blueprint.nodes.values() {
            *sizes.entry(node.zone.as_str()).or_insert(0) += 1;
        }
        sizes
    }

    /// How many copies of a bucket must share a zone: found by dealing them out one by one.
    fn needed_in_one_zone(&self, copies: usize) -> usize {
        let sizes = self.zone_sizes();
        let mut dealt: BTreeMap<&str, usize> = sizes.keys().map(|zone| (*zone, 0)).collect();
        for _ in 0..copies {
            let open = dealt.iter().filter(|(zone, dealt)| **dealt < sizes[**zone]);
            let zone = open.min_by_key(|(_, dealt)| **dealt).map(|(zone, _)| *zone);
            *dealt.get_mut(zone.expect("there are as many nodes as copies")).unwrap() += 1;
        }
        dealt.into_values().max().unwrap()
    }

    pub(crate) fn assert_zones_kept(&self) {
        for bucket in self.blueprint.buckets.keys() {
            let members = self.members(*bucket);
            let most = self.needed_in_one_zone(members.len());
            for zone in self.zone_sizes().keys() {
                let here = members.iter().filter(|node| self.zone(**node) == *zone).count();
                assert!(here <= most, "{bucket} has {here} copies in {zone}: {members:?}");
            }
        }
    }

    pub(crate) fn assert_even_in_each_zone(&self) {
        let counts = self.counts();
        for zone in self.zone_sizes().keys() {
            let here = counts.iter().filter(|(node, _)| self.zone(**node) == *zone);
            assert!(spread(here.map(|(_, c)| c.0)) <= 1, "zone {zone}: {counts:?}");
        }
    }

    /// Only who is in a zone that has all it may have (to less than a copy per node) holds clearly less than others.
    pub(crate) fn assert_even_between_zones(&self, replicas: usize) {
        let counts = self.counts();
        let (buckets, most) = (self.blueprint.buckets.len(), self.needed_in_one_zone(replicas));
        for (zone, size) in self.zone_sizes() {
            let here: Vec<usize> =
                counts.iter().filter(|(node, _)| self.zone(**node) == zone).map(|(_, c)| c.0).collect();
            let is_full = here.iter().sum::<usize>() + size > buckets * most.min(size);
            let fullest = counts.values().map(|c| c.0).max().unwrap();
            assert!(is_full || here.iter().all(|copies| copies + 2 > fullest), "zone {zone}: {counts:?}");
        }
    }

    /// Whoever can be reached by hand overs leads at most one fewer.
    pub(crate) fn assert_nobody_leads_too_many(&self) {
        let counts = self.counts();
        for (node, (_, leads)) in &counts {
            let mut reached = BTreeSet::from([*node]);
            loop {
                let led = self.blueprint.buckets.keys().map(|bucket| self.members(*bucket));
                let members = led.filter(|members| reached.contains(&members[0])).flatten();
                let more: BTreeSet<NodeId> = members.chain([*node]).collect();
                if more.is_subset(&reached) {
                    break;
                }
                reached.extend(more);
            }
            assert!(reached.iter().all(|other| counts[other].1 + 1 >= *leads), "{node} could hand over: {counts:?}");
        }
    }
}

/// Three zones hold each bucket once: what one of them gains or loses it shares by itself.
#[test]
fn a_zone_shares_by_itself() {
    let mut world = World::in_zones(&["a", "a", "a", "b", "b", "c"]);
    world.create(60, 3);
    let counts = |world: &World| world.counts().values().map(|c| c.0).collect::<Vec<_>>();
    assert_eq!(counts(&world), [20, 20, 20, 30, 30, 60]);

    world.add_node(7, "b");
    let plan = world.fulfil(&Wish::AddNode { node: n(7) });
    assert_eq!((counts(&world), plan.summary.copies), (vec![20, 20, 20, 20, 20, 60, 20], 20));

    let plan = world.fulfil(&Wish::RemoveNode { node: n(1) });
    assert_eq!((counts(&world), plan.summary.copies), (vec![0, 30, 30, 20, 20, 60, 20], 20));
    world.assert_nobody_leads_too_many();
}

/// The only node of a zone goes: two copies then share one, as there is no other choice.
#[test]
fn a_zone_is_lost() {
    let mut world = World::in_zones(&["a", "a", "b", "c"]);
    world.create(12, 3);
    world.fulfil(&Wish::RemoveNode { node: n(4) });
    world.accept(&blueprint::Command::RemoveNode { node: n(4) });
    world.assert_zones_kept();
    world.add_node(5, "c");
    let plan = world.fulfil(&Wish::AddNode { node: n(5) });
    assert_eq!(plan.summary.copies, 12, "each bucket has a copy there again");
    world.assert_zones_kept();
}

/// Nodes are told their zones later: copies that share one part.
#[test]
fn copies_part_when_zones_are_told() {
    let mut world = World::in_zones(&["a", "a", "b"]);
    world.create_rows(vec![vec![n(1), n(2)], vec![n(2), n(3)], vec![n(1), n(3)]], 2);
    let plan = world.fulfil(&Wish::Rebalance { keyspace: None });
    assert_eq!(plan.summary.copies, 1);
    world.assert_zones_kept();
}

proptest! {
    #[test]
    fn scattered_buckets_end_in_their_zones(shape in shape(2..6), mut dice in any::<u64>().prop_map(Dice)) {
        let mut world = scattered(shape, &mut dice);
        world.fulfil(&Wish::Rebalance { keyspace: None });
        world.assert_zones_kept();
        world.assert_even_in_each_zone();
        world.assert_even_between_zones(shape.replicas);
        world.assert_nobody_leads_too_many();
    }
}
