//! What holds for any plan, in random worlds.

use std::collections::{BTreeMap, BTreeSet};

use blueprint::{BucketId, Change, Command, Intent, NodeId, Step};
use planner::{Limits, Plan, Wish, plan};
use proptest::prelude::*;

use crate::world::{K1, World, b, n, slots, spread};

/// Rolls that follow from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn shuffled(&mut self, nodes: u64) -> Vec<NodeId> {
        let mut all: Vec<NodeId> = (1..=nodes).map(NodeId).collect();
        for at in (1..all.len()).rev() {
            let other = self.roll(at + 1);
            all.swap(at, other);
        }
        all
    }
}

fn dice() -> impl Strategy<Value = Dice> {
    any::<u64>().prop_map(Dice)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) nodes: usize,
    pub(crate) zones: usize,
    pub(crate) replicas: usize,
    pub(crate) buckets: usize,
}

pub(crate) fn shape(zones: std::ops::Range<usize>) -> impl Strategy<Value = Shape> {
    (1..12usize, zones, 1..5usize, 1..60usize).prop_map(|(nodes, zones, replicas, buckets)| Shape {
        nodes,
        zones,
        replicas: replicas.min(nodes),
        buckets,
    })
}

/// Everything lies where it happens to.
pub(crate) fn scattered(shape: Shape, dice: &mut Dice) -> World {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    let zones: Vec<&str> = (0..shape.nodes).map(|_| NAMES[dice.roll(shape.zones)]).collect();
    let mut world = World::in_zones(&zones);
    let row = |dice: &mut Dice| dice.shuffled(shape.nodes as u64)[..shape.replicas].to_vec();
    let rows = (0..shape.buckets).map(|_| row(dice)).collect();
    world.create_rows(rows, shape.replicas as u8);
    world
}

/// Another keyspace, sizes, drains, departures, candidates, buckets that are short of a copy or busy; some of it, some of the time.
fn disturb(world: &mut World, dice: &mut Dice) {
    if dice.roll(3) == 0 {
        let replicas = 1 + dice.roll(world.blueprint.nodes.len().min(3));
        world.create(1 + dice.roll(20), replicas as u8);
    }
    let buckets: Vec<BucketId> = world.blueprint.buckets.keys().copied().collect();
    let nodes: Vec<NodeId> = world.blueprint.nodes.keys().copied().collect();
    world.seats_early = dice.roll(2) == 0;
    world.limits = Limits { buckets_at_once: 1 + dice.roll(5) };
    if dice.roll(2) == 0 {
        world.facts.bytes = buckets.iter().map(|bucket| (*bucket, dice.roll(1000) as u64)).collect();
    }
    if dice.roll(3) == 0 {
        world.facts.free.insert(nodes[dice.roll(nodes.len())], dice.roll(3000) as u64);
    }
    for _ in 0..dice.roll(3) {
        world.drain(nodes[dice.roll(nodes.len())]);
    }
    for _ in 0..dice.roll(4) {
        let bucket = buckets[dice.roll(buckets.len())];
        let government = world.government(bucket);
        let stranger = nodes.iter().copied().find(|node| government.named(*node).is_none());
        match (dice.roll(3), government.secondaries.last().copied(), stranger) {
            (0, Some(candidate), _) if government.candidates.is_empty() => {
                let fate = blueprint::Fate::Stalled;
                world.succeed(bucket, Change::Dismiss { secondary: candidate, fate });
            }
            (1, Some(secondary), _) => {
                world.succeed(bucket, Change::Dismiss { secondary, fate: blueprint::Fate::Lost });
            }
            (2, _, Some(node)) => world.succeed(bucket, Change::Enlist { node }),
            _ => {}
        }
    }
    let bucket = buckets[dice.roll(buckets.len())];
    let is_free = |node: &NodeId| world.government(bucket).named(*node).is_none() && !world.blueprint.drains(*node);
    let stranger = nodes.iter().copied().find(is_free);
    if let Some(node) = stranger.filter(|_| dice.roll(4) == 0) {
        let (id, steps) = (world.blueprint.next_operation, vec![Step::Enlist { bucket, node }]);
        world.accept(&Command::StartOperation { id, by: "somebody".into(), steps });
    }
    if dice.roll(4) == 0 {
        world.accept(&Command::Depart { node: nodes[dice.roll(nodes.len())] });
    }
}

fn any_wish(world: &World, dice: &mut Dice) -> Wish {
    let nodes = world.blueprint.nodes.len() as u64;
    let node = |dice: &mut Dice| n(1 + dice.roll(nodes as usize + 1) as u64);
    let bucket = |dice: &mut Dice| b(1 + dice.roll(world.blueprint.buckets.len() + 1) as u64);
    let range = |dice: &mut Dice| {
        let (one, other) = (dice.roll(16384) as u16, dice.roll(16384) as u16);
        slots(one.min(other), one.max(other))
    };
    match dice.roll(18) {
        0 => Wish::AddNode { node: node(dice) },
        1 => Wish::Rebalance { keyspace: None },
        2 => Wish::Rebalance { keyspace: Some(K1) },
        3 => Wish::RemoveNode { node: node(dice) },
        4 => Wish::ReplaceNode { old: node(dice), new: node(dice) },
        5 => Wish::Drain { node: node(dice) },
        6 => Wish::SwapPrimary { bucket: bucket(dice), node: node(dice) },
        7 => Wish::MoveReplica { bucket: bucket(dice), from: node(dice), to: node(dice) },
        8 => Wish::MigrateSlots { keyspace: K1, slots: range(dice), to: node(dice) },
        9 => Wish::SplitBucket { bucket: bucket(dice), slots: (dice.roll(2) == 0).then(|| range(dice)) },
        10 => Wish::DoubleBuckets { keyspace: K1 },
        11 => Wish::Undrain { node: node(dice) },
        13 => Wish::MergeBuckets { bucket: bucket(dice), into: bucket(dice) },
        12 => Wish::RemoveKeyspace { keyspace: K1 },
        14 => Wish::TakeLead { node: node(dice), keyspace: K1 },
        15 => {
            let (all, edge) = (range(dice), slots(0, dice.roll(16384) as u16));
            let moves = vec![(all.intersection(&edge), node(dice)), (all.difference(&edge), node(dice))];
            Wish::MigrateEach { keyspace: K1, moves }
        }
        _ => Wish::SetReplicas { keyspace: K1, replicas: dice.roll(6) as u8 },
    }
}

fn assert_fulfilled(before: &World, after: &World, wish: &Wish, plan: &Plan) {
    let copies = |world: &World, node: NodeId| world.counts().get(&node).copied().unwrap_or_default();
    match wish {
        Wish::AddNode { .. } | Wish::Rebalance { .. } => assert_rests(after, wish, plan),
        Wish::RemoveNode { node } => {
            assert_eq!(after.blueprint.intent(*node), Intent::Goes);
            assert_eq!(copies(after, *node), (0, 0));
            let held = copies(before, *node).0;
            assert!(plan.summary.copies <= held, "{} copies for {held}", plan.summary.copies);
        }
        Wish::ReplaceNode { old, new } => {
            let (was, has) = (copies(before, *old), copies(before, *new));
            assert_eq!(copies(after, *old), (0, 0));
            assert_eq!(copies(after, *new), (was.0 + has.0, was.1 + has.1));
        }
        Wish::Undrain { node } => assert_eq!(after.blueprint.intent(*node), Intent::Stays),
        Wish::RemoveKeyspace { keyspace } => assert!(!after.blueprint.keyspaces.contains_key(keyspace)),
        Wish::Drain { node } => {
            assert!(after.blueprint.drains(*node));
            assert_eq!(copies(after, *node).1, 0);
            assert_eq!(plan.summary.copies, 0);
        }
        Wish::SwapPrimary { bucket, node } => assert_eq!(after.government(*bucket).primary.node, *node),
        Wish::MoveReplica { bucket, from, to } => {
            let members = after.members(*bucket);
            assert!(members.contains(to) && !members.contains(from));
            assert_eq!(plan.summary.copies, 1);
        }
        Wish::MigrateSlots { keyspace, slots, to } => {
            for slot in slots.iter() {
                let bucket = after.blueprint.bucket_of(*keyspace, slot).unwrap();
                assert_eq!(bucket.government().unwrap().primary.node, *to);
            }
        }
        Wish::MergeBuckets { bucket, .. } => assert!(after.blueprint.is_retired(*bucket)),
        Wish::MigrateEach { keyspace, moves } => {
            for (slot, to) in moves.iter().flat_map(|(slots, to)| slots.iter().map(move |slot| (slot, to))) {
                let bucket = after.blueprint.bucket_of(*keyspace, slot).unwrap();
                assert_eq!(bucket.government().unwrap().primary.node, *to);
            }
        }
        Wish::TakeLead { node, keyspace } => {
            assert_eq!(plan.summary.copies, 0);
            for bucket in before.blueprint.buckets_of(*keyspace) {
                if before.members(bucket.id).contains(node) {
                    assert_eq!(after.government(bucket.id).primary.node, *node);
                }
            }
        }
        Wish::SplitBucket { .. } => assert_eq!(after.blueprint.buckets.len(), before.blueprint.buckets.len() + 1),
        Wish::DoubleBuckets { keyspace } => {
            let buckets = |world: &World| world.blueprint.buckets_of(*keyspace).count();
            assert_eq!(buckets(after), buckets(before) * 2);
        }
        Wish::RollingRestart { .. } => unreachable!("nothing here restarts: see wishes.rs"),
        Wish::SetReplicas { keyspace, replicas } => {
            let present = |node: &NodeId| after.blueprint.is_present(*node);
            for bucket in after.blueprint.buckets_of(*keyspace) {
                let government = after.government(bucket.id);
                assert_eq!(government.min_in_sync, (*replicas).min(2));
                let parts = government.members().chain(government.candidates.iter().copied());
                assert_eq!(parts.filter(|part| present(&part.node)).count(), usize::from(*replicas));
            }
        }
    }
}

/// Asked again, there is nothing left to do; unless the facts are others by then: children have sizes, disks have room again.
fn assert_rests(world: &World, wish: &Wish, plan: &Plan) {
    if plan.summary.splits == 0 && world.facts.free.is_empty() {
        let again = world.plan(wish).unwrap();
        assert!(again.is_empty(), "first {plan}\nthen {again}");
    }
}

proptest! {
    /// Whatever is planned is accepted, keeps to the rules at every step, and does what was asked for.
    #[test]
    fn every_plan_can_be_carried_out(shape in shape(1..4), mut dice in dice()) {
        let mut world = scattered(shape, &mut dice);
        disturb(&mut world, &mut dice);
        let wish = any_wish(&world, &mut dice);
        let before = world.clone();
        match world.plan(&wish) {
            Ok(plan) => {
                prop_assert_eq!(&plan, &world.plan(&wish).unwrap(), "the same again");
                world.carry_out(&plan);
                assert_fulfilled(&before, &world, &wish, &plan);
            }
            Err(why) => prop_assert!(!why.is_empty()),
        }
    }

    /// However uneven: it ends even, by no more moves than there is too much anywhere.
    #[test]
    fn scattered_buckets_end_even(shape in shape(1..2), mut dice in dice()) {
        let mut world = scattered(shape, &mut dice);
        let before = world.counts();
        let copies: usize = shape.buckets * shape.replicas;
        let plan = world.fulfil(&Wish::Rebalance { keyspace: None });
        let after = world.counts();
        prop_assert!(spread(after.values().map(|c| c.0)) <= 1, "copies: {:?}", after);
        prop_assert!(spread(after.values().map(|c| c.1)) <= 1, "primaries: {:?}", after);
        if plan.summary.splits == 0 {
            prop_assert_eq!(plan.summary.copies, least_moves(before.values().map(|c| c.0), copies));
        }
    }

    /// Others share what a node held, as evenly as can be when nothing else may move.
    #[test]
    fn who_stays_shares_evenly(shape in shape(1..2), mut dice in any::<u64>().prop_map(Dice)) {
        let nodes = shape.nodes.max(shape.replicas + 1);
        let mut world = World::with_buckets(nodes, shape.buckets, shape.replicas as u8);
        let gone = n(1 + dice.roll(nodes) as u64);
        let (held, led) = world.counts()[&gone];
        let plan = world.fulfil(&Wish::RemoveNode { node: gone });
        prop_assert_eq!(plan.summary.copies, held);
        let mut counts = world.counts();
        counts.remove(&gone);
        for node in counts.keys() {
            let reached = reached(&world, &plan, *node);
            prop_assert!(reached.iter().all(|other| counts[other].0 + 1 >= counts[node].0), "{node}: {counts:?}");
        }
        prop_assert!(plan.summary.hand_overs == led, "only what it led changes hands");
    }

    /// What the facts were filled in by makes no difference, nor do facts about what is not there.
    #[test]
    fn the_order_of_facts_is_no_input(shape in shape(1..4), mut dice in dice()) {
        let mut world = scattered(shape, &mut dice);
        disturb(&mut world, &mut dice);
        let wish = any_wish(&world, &mut dice);
        let mut facts = planner::Facts::default();
        facts.bytes.extend(world.facts.bytes.iter().rev().map(|(bucket, bytes)| (*bucket, *bytes)));
        facts.free.extend(world.facts.free.iter().rev().map(|(node, free)| (*node, *free)));
        facts.free.insert(n(999), 0);
        prop_assert_eq!(world.plan(&wish), plan(&world.blueprint, &facts, world.limits, &wish));
    }
}

/// Those that could have what the node was given, or what somebody was given who could have that, and so on.
fn reached(world: &World, plan: &Plan, node: NodeId) -> BTreeSet<NodeId> {
    let given: Vec<(BucketId, NodeId)> = plan
        .steps
        .iter()
        .filter_map(|planned| match planned.step {
            Step::Enlist { bucket, node } => Some((bucket, node)),
            _ => None,
        })
        .collect();
    let leaving = plan.steps.iter().find_map(|planned| match planned.step {
        Step::Dismiss { node, .. } => Some(node),
        _ => None,
    });
    let mut reached = BTreeSet::from([node]);
    loop {
        let before = reached.len();
        for (bucket, _) in given.iter().filter(|(_, node)| reached.contains(node)).copied().collect::<Vec<_>>() {
            let members = world.members(bucket);
            let others = world.blueprint.nodes.keys().copied().filter(|node| Some(*node) != leaving);
            reached.extend(others.filter(|other| !members.contains(other)));
        }
        if reached.len() == before {
            return reached;
        }
    }
}

/// By how much the fullest nodes are over, when as many as possible keep one more than the others.
fn least_moves(counts: impl Iterator<Item = usize>, copies: usize) -> usize {
    let mut counts: Vec<usize> = counts.collect();
    counts.sort_unstable();
    let (each, over) = (copies / counts.len(), copies % counts.len());
    let target = |rank: usize| each + usize::from(rank < over);
    let moves: BTreeMap<usize, usize> =
        counts.iter().rev().enumerate().map(|(rank, count)| (rank, count.saturating_sub(target(rank)))).collect();
    moves.values().sum()
}
