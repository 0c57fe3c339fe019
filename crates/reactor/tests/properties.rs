//! Random blueprints, random replicas, random things gone wrong: what holds for any reaction.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use blueprint::{
    Bond, BucketId, Change, Command, Durability, Epoch, Fate, Government, Incarnation, Index, Instant, Kind, Member,
    NodeId, NodeState, Position, Rule, Term,
};
use proptest::prelude::*;
use reactor::{Deed, Growth, HandOver, Holding, Parting, Reaction, Role};

#[allow(dead_code, reason = "the scenarios use the rest of it")]
mod world;

use world::{Asked, Home, World, leading};

/// What a world is made of, drawn one by one.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let at = self.roll(from.len().max(1) as u64) as usize;
        from.get(at).copied()
    }
}

fn random_world(seed: u64) -> World {
    let dice = &mut Dice(seed);
    let mut world = World { now: Instant(3_600_000_000), ..World::default() };
    world.limits.recoveries = 1 + dice.roll(3) as usize;
    world.limits.recoveries_per_node = 1 + dice.roll(2) as usize;
    world.limits.recovery_pace = Duration::from_secs(1 + 40 * dice.roll(2));
    for id in 1..=4 + dice.roll(3) {
        let zone = format!("z{}", dice.roll(3));
        let command = Command::AddNode { id: NodeId(id), name: format!("n{id}"), zone, addresses: Vec::new() };
        world.blueprint.apply(&command).expect("there is nobody of that name");
    }
    let mut history = vec![world.blueprint.clone()];
    for _ in 0..3 + dice.roll(25) {
        let command = random_command(&world.blueprint, dice);
        if world.blueprint.apply(&command).is_ok() {
            history.push(world.blueprint.clone());
        }
    }
    // n99 was never added.
    for node in world.blueprint.nodes.keys().copied().chain([NodeId(99)]).collect::<Vec<_>>() {
        // Most are up to date.
        let back = if dice.one_in(3) { dice.roll(4) as usize } else { 0 };
        let blueprint = history[history.len().saturating_sub(1 + back)].clone();
        let epoch = match dice.roll(6) {
            0 => Epoch(dice.roll(blueprint.epoch.0 + 1)),
            1 => world.blueprint.epoch,
            _ => blueprint.epoch,
        };
        let mut home = Home { epoch, blueprint, ..Home::default() };
        random_replicas(&mut home, node, world.now, dice);
        let before = world.now - Duration::from_secs(dice.roll(90));
        home.marks.observe(before, node, home.epoch, &home.blueprint, &home.replicas);
        home.read = match dice.roll(3) {
            0 => Asked::Nothing,
            1 => Asked::UnderWay(world.now - Duration::from_millis(dice.roll(3000))),
            _ => Asked::Answered(world.now - Duration::from_millis(dice.roll(1500)), world.blueprint.clone()),
        };
        world.homes.insert(node, home);
        if dice.one_in(6) {
            world.cut.insert(node);
        }
    }
    world.operated = world.blueprint.buckets.keys().copied().filter(|_| dice.one_in(8)).collect();
    if dice.one_in(3) {
        random_doubts(&mut world, dice);
    }
    world
}

fn random_command(blueprint: &blueprint::Blueprint, dice: &mut Dice) -> Command {
    let nodes: Vec<NodeId> = blueprint.nodes.keys().copied().collect();
    let node = dice.pick(&nodes).expect("there are nodes");
    let buckets: Vec<BucketId> = blueprint.buckets.keys().copied().collect();
    let Some(bucket) = dice.pick(&buckets).filter(|_| !dice.one_in(12)) else {
        let replicas = 1 + dice.roll(3) as u8;
        let row =
            |from: u64| (0..u64::from(replicas)).map(|i| nodes[((from + i) % nodes.len() as u64) as usize]).collect();
        let placement = (0..1 + dice.roll(3)).map(row).collect();
        let (kind, durability, name) = (Kind::Store, Durability::Disk, format!("k{}", blueprint.next_keyspace.0));
        return Command::CreateKeyspace { name, kind, replicas, min_in_sync: None, durability, placement };
    };
    let term = |id: BucketId| blueprint.government(id).map_or(Term(1), |g| g.term);
    match dice.roll(24) {
        0 | 1 => return Command::Depart { node },
        2 => return Command::Return { node },
        3 => return Command::ReserveBucket { parent: BucketId(1) },
        4 | 5 => {
            let reserved = blueprint.reserved.iter().next().map(|(child, parent)| (*child, *parent));
            let (child, parent) = reserved.unwrap_or((BucketId(99), bucket));
            let slots = blueprint.buckets.get(&parent).map(|b| b.slots.split_half().1).unwrap_or_default();
            return Command::Register { parent, child, slots, at: Position::new(1, 5), term: term(parent) };
        }
        7..=9 => {
            let alike = |other: &BucketId| *other != bucket && blueprint.unlike(bucket, *other).is_none();
            let mates: Vec<BucketId> = buckets.iter().copied().filter(alike).collect();
            if let Some(into) = dice.pick(&mates) {
                return Command::Bind { absorbed: bucket, into, replaces: (term(bucket), term(into)) };
            }
        }
        10 => {
            if let Some(Bond::Fades { into, .. }) = blueprint.buckets[&bucket].bond {
                return Command::Merge { absorbed: bucket, into, at: Position::new(1, 5), term: term(into) };
            }
        }
        6 if dice.one_in(4) => return Command::RemoveKeyspace { keyspace: blueprint.buckets[&bucket].keyspace },
        _ => {}
    }
    let Some(government) = blueprint.government(bucket) else { return Command::ReserveBucket { parent: BucketId(1) } };
    let (by, replaces) = (government.primary, government.term);
    let secondary = dice.pick(&government.secondaries).unwrap_or(by);
    let candidate = dice.pick(&government.candidates).unwrap_or(by);
    let fate = [Fate::Leaves, Fate::Stalled, Fate::Lost][dice.roll(3) as usize];
    let change = match dice.roll(9) {
        0 | 1 => Change::Enlist { node },
        2 | 3 => Change::Seat { candidate, by },
        4 => Change::Dismiss { secondary, fate },
        5 => Change::HandOver { to: secondary, by },
        6 => Change::Usurp { to: dice.pick(&government.heirs).unwrap_or(secondary), fate },
        7 => Change::Drop { candidate },
        _ => Change::Renew { primary: secondary },
    };
    Command::Succeed { bucket, replaces, change }
}

fn random_replicas(home: &mut Home, node: NodeId, now: Instant, dice: &mut Dice) {
    let blueprint = home.blueprint.clone();
    // Most numbers were never given to anyone: a child's is the next one of its family.
    for id in (1..blueprint.next_bucket.0).map(BucketId).filter(|id| id.family() < 5) {
        let government = blueprint.government(id);
        let named = government.and_then(|g| g.named(node));
        let here = if named.is_some() { !dice.one_in(5) } else { dice.one_in(4) };
        let other = Member { node, incarnation: Incarnation(1 + dice.roll(blueprint.epoch.0 + 2)) };
        let member = named.filter(|_| !dice.one_in(8)).unwrap_or(other);
        if !here {
            if dice.one_in(3) {
                home.gone.insert(id, member.incarnation);
            }
            continue;
        }
        let mut holding = Holding::founded(member, 0, now);
        holding.durable = !dice.one_in(10);
        holding.known = if dice.one_in(4) { Epoch(dice.roll(blueprint.epoch.0 + 3)) } else { blueprint.epoch };
        holding.promised = government.map_or(Term(1), |g| g.term);
        if dice.one_in(6) {
            holding.promised = Term(holding.promised.0 + 1);
        }
        holding.promise_safe = !dice.one_in(6);
        (holding.commit, holding.applied, holding.last) = (Index(5), Index(5), Position::new(1, 5 + dice.roll(3) / 2));
        holding.missing = if dice.one_in(5) { 3 } else { 0 };
        holding.heard = now - Duration::from_millis(dice.roll(4) * 400);
        for child in blueprint.buckets.keys().copied().chain([BucketId(50)]) {
            if child > id && dice.one_in(8) {
                let (applied, registered, forked) = (dice.one_in(2), dice.one_in(2), dice.one_in(2));
                holding.splits.push(Parting { child, at: Position::new(1, 5), applied, registered, forked });
            }
        }
        holding.frozen = dice.one_in(3);
        let others: Vec<BucketId> = blueprint.buckets.keys().copied().filter(|other| *other != id).collect();
        holding.awaits = dice.pick(&others).filter(|_| dice.one_in(12));
        holding.owed_to = dice.pick(&others).filter(|_| dice.one_in(6));
        if let Some(government) = government.filter(|g| g.primary == member) {
            holding.role = random_role(&holding, government, now, dice);
        } else if government.is_none() && dice.one_in(3) {
            holding.role = Role::Restarted { term: holding.promised };
        }
        home.replicas.insert(id, holding);
    }
}

/// Some operating systems have restarted; in some worlds nearly all of them.
fn random_doubts(world: &mut World, dice: &mut Dice) {
    let spared = if dice.one_in(6) { 1 } else { 12 };
    for home in world.homes.values_mut() {
        let replicas = std::mem::take(&mut home.replicas);
        for (bucket, mut holding) in replicas {
            if dice.roll(spared + 4) < spared {
                home.replicas.insert(bucket, holding);
            } else {
                (holding.role, holding.missing) = (Role::Following, 0);
                // Some have not promised the present term.
                holding.promised = Term(holding.promised.0.saturating_sub(dice.roll(2)));
                home.aside.insert(bucket, holding);
            }
        }
    }
}

fn random_role(holding: &Holding, government: &Government, now: Instant, dice: &mut Dice) -> Role {
    let term = government.term;
    match dice.roll(10) {
        0 => return Role::Following,
        1 => return Role::Restarted { term },
        2 => return Role::Ascending { term, until: now + Duration::from_millis(dice.roll(2) * 300) },
        _ => {}
    }
    let mut leading = leading(holding, government, now);
    leading.serving = !dice.one_in(6);
    if dice.one_in(8) {
        leading.term = Term(term.0.saturating_sub(1).max(1));
        leading.succession = true;
    }
    if dice.one_in(6) {
        leading.reads_until = now;
    }
    for peer in &mut leading.peers {
        peer.upto = if dice.one_in(6) { None } else { Some(Index(4 + dice.roll(4))) };
        peer.missing = if dice.one_in(4) { 7 } else { 0 };
        peer.lease = if dice.one_in(4) { now } else { peer.lease };
        peer.heard = now - Duration::from_millis(dice.roll(4) * 400);
    }
    if let Some(candidate) = dice.pick(&government.candidates) {
        leading.growth = match dice.roll(6) {
            0 => Growth::Asking { candidate },
            1 => Growth::Joint { candidate, level: Index(5) },
            2 => Growth::Proposed { candidate },
            _ => Growth::None,
        };
    }
    if let Some(to) = dice.pick(&government.secondaries) {
        leading.hand_over = match dice.roll(8) {
            0 => HandOver::Draining { to, told: dice.one_in(2), until: now },
            1 => HandOver::Proposed { to },
            _ => HandOver::None,
        };
    }
    Role::Leading(leading)
}

/// Nothing is left to do and nothing is waited for: written without a look at the rules.
fn is_final(world: &World, node: NodeId, id: BucketId) -> bool {
    let home = &world.homes[&node];
    let blueprint = &home.blueprint;
    let holding = home.replicas.get(&id);
    if home.aside.contains_key(&id) {
        return false;
    }
    let bucket = blueprint.buckets.get(&id);
    let government = bucket.and_then(|b| b.government());
    let Some(named) = government.and_then(|g| g.named(node)) else {
        let holders = match bucket.map(|b| &b.rule) {
            Some(Rule::Removed { holders, .. }) => &holders[..],
            _ => &[],
        };
        return holding.is_none() && holders.iter().all(|h| h.node != node);
    };
    let (Some(holding), Some(government)) = (holding, government) else { return false };
    let settled = holding.member == named && holding.durable && holding.known == blueprint.epoch;
    let parted = holding.splits.iter().all(|p| p.applied && p.registered && p.forked);
    let all_present = government.members().all(|m| blueprint.is_present(m.node));
    let part_is_played = match &holding.role {
        Role::Leading(leading) => {
            let wanted = usize::from(blueprint.keyspaces[&bucket.expect("governed").keyspace].replicas);
            government.primary == named
                && leading.term == government.term
                && !leading.succession
                && leading.serving
                && government.in_sync()
                && holding.commit == holding.last.index
                && leading.reads_until > world.now
                && (leading.growth, leading.hand_over) == (Growth::None, HandOver::None)
                && government.candidates.is_empty()
                && government.size() == wanted
        }
        Role::Following => {
            let primary = government.primary;
            let seen = !world.cut.contains(&primary.node) && !world.cut.contains(&node);
            let row = world.homes.get(&primary.node).and_then(|h| h.replicas.get(&id));
            let serves = row.is_none_or(|h| h.leading().is_some_and(|l| l.serving));
            let heard = world.now.since(holding.heard) <= world.limits.silence;
            government.secondaries.contains(&named) && holding.missing == 0 && seen && serves && heard
        }
        Role::Restarted { .. } | Role::Ascending { .. } => false,
    };
    let merged = holding.awaits.is_none() && bucket.is_some_and(|b| b.bond.is_none());
    settled && parted && merged && all_present && part_is_played
}

fn nodes(world: &World) -> Vec<NodeId> {
    world.homes.keys().copied().collect()
}

fn speaks_of(reaction: &Reaction, bucket: Option<BucketId>) -> bool {
    reaction.acts.iter().any(|a| a.bucket == bucket) || reaction.waits.iter().any(|w| w.bucket == bucket)
}

/// From here on nothing goes wrong any more: disks and networks work, phasers and coordinators do their part.
fn heal(world: &mut World) {
    world.cut.clear();
    world.operated.clear();
    for home in world.homes.values_mut() {
        home.epoch = home.epoch.min(world.blueprint.epoch);
        home.read = Asked::Nothing;
        home.replicas.retain(|bucket, _| !world.blueprint.reserved.contains_key(bucket));
        home.aside.retain(|bucket, _| !world.blueprint.reserved.contains_key(bucket));
        for (bucket, holding) in home.replicas.iter_mut().chain(&mut home.aside) {
            let term = world.blueprint.buckets.get(bucket).map_or(Term(1), |b| b.term());
            let incarnation = holding.member.incarnation.0.min(world.blueprint.epoch.0);
            holding.member.incarnation = Incarnation(incarnation);
            holding.promised = holding.promised.min(term);
            holding.known = Epoch(0);
            holding.splits.clear();
            (holding.frozen, holding.awaits, holding.owed_to) = (false, None, None);
            (holding.durable, holding.missing) = (true, 0);
            holding.last.index = holding.commit;
        }
    }
}

/// A departed member is replaced or dismissed, and a candidate that is there is seated: one change per bucket.
fn coordinate(world: &mut World) {
    let bonds = world.blueprint.buckets.values().filter_map(|b| match b.bond {
        Some(Bond::Fades { into, .. }) => Some((b.id, into)),
        Some(Bond::Absorbs { .. } | Bond::Merged { .. }) | None => None,
    });
    for (absorbed, into) in bonds.collect::<Vec<_>>() {
        let term = world.blueprint.buckets[&into].term();
        world.propose(&Command::Merge { absorbed, into, at: Position::new(1, 5), term });
    }
    let buckets: Vec<(BucketId, Government)> =
        world.blueprint.buckets.values().filter_map(|b| Some((b.id, b.government()?.clone()))).collect();
    for (bucket, government) in buckets {
        let present = |m: &&Member| world.blueprint.is_present(m.node);
        let gone = government.secondaries.iter().find(|m| !present(m)).copied();
        let heirs = if government.secondaries.is_empty() { &government.heirs[..] } else { &[] };
        let successor = government.secondaries.iter().chain(heirs).find(present).copied();
        let by = government.primary;
        let leads = world.homes[&by.node].replicas.get(&bucket).is_some_and(|h| h.leading().is_some());
        let holds = |m: &&Member| world.homes[&m.node].replicas.get(&bucket).is_some_and(|h| h.member == **m);
        let whole = government.candidates.iter().filter(present).find(holds).copied();
        let change = match (present(&&by), successor, gone, whole) {
            (false, Some(to), ..) => Change::Usurp { to, fate: Fate::Leaves },
            (true, _, Some(secondary), _) => Change::Dismiss { secondary, fate: Fate::Leaves },
            (true, _, None, Some(candidate)) if leads => Change::Seat { candidate, by },
            _ => continue,
        };
        world.propose(&Command::Succeed { bucket, replaces: government.term, change });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Determinism, and that each wait is true, is asserted by `World::react`.
    #[test]
    fn a_rule_acts_or_waits_once(seed: u64) {
        let mut world = random_world(seed);
        for node in nodes(&world) {
            let reaction = world.react(node);
            let mut seen = BTreeSet::new();
            let acts = reaction.acts.iter().map(|a| (a.rule, a.bucket));
            for (rule, bucket) in acts.chain(reaction.waits.iter().map(|w| (w.rule, w.bucket))) {
                prop_assert!(seen.insert((rule, bucket)), "{} of {:?} twice", rule, bucket);
            }
        }
    }

    /// No wait without a named cause, nothing silent; and nothing is said of what is as it should be.
    #[test]
    fn nothing_is_silent(seed: u64) {
        let mut world = random_world(seed);
        for node in nodes(&world) {
            let reaction = world.react(node);
            let home = &world.homes[&node];
            if home.blueprint.epoch != home.epoch {
                prop_assert!(speaks_of(&reaction, None), "{} is between two blueprints and says nothing", node);
                continue;
            }
            let ids = home.blueprint.buckets.keys().chain(home.replicas.keys()).chain(home.aside.keys()).copied().collect::<BTreeSet<_>>();
            for id in ids {
                let speaks = speaks_of(&reaction, Some(id));
                prop_assert_eq!(
                    speaks, !is_final(&world, node, id),
                    "{} {}: {:?} in {:?}\n{:#?}", node, id, home.replicas.get(&id), home.blueprint.buckets.get(&id), reaction
                );
            }
        }
    }

    #[test]
    fn recoveries_are_limited(seed: u64) {
        let mut world = random_world(seed);
        for node in nodes(&world) {
            let reaction = world.react(node);
            let blueprint = &world.homes[&node].blueprint;
            let mut candidates: BTreeMap<NodeId, usize> = BTreeMap::new();
            for (id, government) in blueprint.buckets.values().filter_map(|b| Some((b.id, b.government()?))) {
                let primary = government.primary;
                // What nobody leads is no recovery, nor what an operation copies.
                let holds = world.homes[&primary.node].replicas.get(&id).is_some_and(|h| h.member == primary);
                let led = holds && blueprint.is_present(primary.node) && !world.operated.contains(&id);
                for candidate in government.candidates.iter().filter(|c| led && blueprint.is_present(c.node)) {
                    *candidates.entry(candidate.node).or_default() += 1;
                }
            }
            for act in reaction.acts.iter().filter(|a| a.rule == "recover") {
                let Deed::Propose(Command::Succeed { bucket, change: Change::Enlist { node: target }, .. }) = &act.deed else {
                    return Err(TestCaseError::fail("recovery enlists"));
                };
                *candidates.entry(*target).or_default() += 1;
                // Tails are cheap: eight of them in the place of one.
                let whole = world.homes[target].replicas.get(bucket).is_some_and(|h| h.missing == 0);
                let times = if whole { 8 } else { 1 };
                // Where writes wait, nothing else is waited for (R8).
                if blueprint.government(*bucket).expect("it is led").in_sync() {
                    prop_assert!(candidates.values().sum::<usize>() <= world.limits.recoveries * times);
                    prop_assert!(candidates[target] <= world.limits.recoveries_per_node * times);
                }
                prop_assert_eq!(blueprint.nodes[target].state, NodeState::Present);
                prop_assert!(!world.cut.contains(target));
            }
        }
    }

    /// Whoever is up to date proposes only what is lawful; and doing everything twice is doing it once.
    #[test]
    fn acts_may_be_repeated(seed: u64) {
        let mut world = random_world(seed);
        for node in nodes(&world) {
            let reaction = world.react(node);
            if world.homes[&node].blueprint == world.blueprint {
                for act in &reaction.acts {
                    if let Deed::Propose(command) = &act.deed {
                        let result = world.blueprint.clone().apply(command);
                        prop_assert!(result.is_ok(), "{:?}: {:?}", act, result);
                    }
                }
            }
            world.carry_out(node, &reaction);
            let (blueprint, home) = (world.blueprint.clone(), world.homes[&node].clone());
            world.carry_out(node, &reaction);
            let again = &world.homes[&node];
            prop_assert_eq!(&blueprint, &world.blueprint);
            prop_assert_eq!(
                (&home.replicas, &home.gone, home.epoch),
                (&again.replicas, &again.gone, again.epoch)
            );
        }
    }

    /// R11, as the world sees it: nobody who is present and a member has missed the news, and nobody names what is erased.
    #[test]
    fn what_is_erased_is_needed_by_nobody(seed: u64) {
        let mut world = random_world(seed);
        for node in nodes(&world) {
            let reaction = world.react(node);
            let home = &world.homes[&node];
            for act in &reaction.acts {
                let Deed::Erase { bucket, .. } = act.deed else { continue };
                let promised = home.replicas[&bucket].promised;
                if let Some(government) = world.blueprint.government(bucket) {
                    prop_assert_eq!(government.named(node), None);
                    prop_assert!(promised <= government.term);
                    for member in government.members().filter(|m| world.blueprint.is_present(m.node)) {
                        let since = home.marks.unneeded(bucket, government.term).expect("it was marked").epoch;
                        prop_assert!(world.homes[&member.node].epoch >= since);
                    }
                }
            }
        }
    }

    /// A member never creates itself empty: only what no epoch that was acted on has named.
    #[test]
    fn only_a_first_start_begins_empty(seed: u64) {
        let mut world = random_world(seed);
        for node in nodes(&world) {
            let reaction = world.react(node);
            let home = &world.homes[&node];
            for act in &reaction.acts {
                if let Deed::Found { bucket, member, beginning } = act.deed {
                    prop_assert!(!home.replicas.contains_key(&bucket));
                    prop_assert!(home.gone.get(&bucket) != Some(&member.incarnation));
                    let first = home.epoch.0 < member.incarnation.0;
                    prop_assert!(first || beginning == reactor::Beginning::Candidate);
                }
            }
        }
    }
}

/// Whatever happened before, it ends: no act is repeated for ever, and who still waits can name somebody who is not a node.
#[test]
fn a_healed_world_comes_to_rest() {
    for seed in 0..200 {
        let mut world = random_world(seed);
        heal(&mut world);
        let mut last = Vec::new();
        for _ in 0..80 {
            world.now = world.now + Duration::from_secs(5);
            coordinate(&mut world);
            last.clear();
            for node in nodes(&world) {
                world.homes.get_mut(&node).expect("it exists").blueprint = world.blueprint.clone();
                world.play_phasers();
                let reaction = world.react(node);
                world.carry_out(node, &reaction);
                let newest = world.blueprint.clone();
                let home = world.homes.get_mut(&node).expect("as above");
                if let Asked::UnderWay(begun) = home.read {
                    home.read = Asked::Answered(begun, newest);
                    let with_answer = world.react(node);
                    world.carry_out(node, &with_answer);
                }
                let home = world.homes.get_mut(&node).expect("as above");
                home.replicas.values_mut().for_each(|h| (h.durable, h.missing) = (true, 0));
                last.push((node, reaction));
            }
        }
        for (node, reaction) in &last {
            assert!(reaction.acts.is_empty(), "seed {seed}: {node} still does {:#?}", reaction.acts);
            for wait in &reaction.waits {
                // An operator must add a node or decide; a departed node must return; a bucket whose only copies are there waits.
                let excused = [
                    "join", "lost", "recover", "minimum", "departed", "listen", "inherit", "catch-up", "fill", "erase",
                    "claim", "resume",
                ];
                let stuck = wait.bucket.is_some_and(|bucket| is_stuck(&world, bucket));
                assert!(
                    excused.contains(&wait.rule) && (stuck || wait.bucket.is_none()),
                    "seed {seed}: {node} {wait:#?}"
                );
            }
        }
    }
}

/// There are too few nodes for its copies, or nobody left who could lead it.
fn is_stuck(world: &World, bucket: BucketId) -> bool {
    let Some(government) = world.blueprint.government(bucket) else { return false };
    let wanted = usize::from(world.blueprint.keyspaces[&world.blueprint.buckets[&bucket].keyspace].replicas);
    let present = world.blueprint.nodes.values().filter(|n| n.state == NodeState::Present).count();
    let leads = world.homes[&government.primary.node].replicas.get(&bucket).is_some_and(|h| h.leading().is_some());
    present < wanted || !leads || !world.blueprint.is_present(government.primary.node)
}

/// Were the random worlds too tame, the properties above would prove nothing: every rule acts in some of them, and each of its
/// needs is unmet in some.
#[test]
fn the_worlds_are_wild_enough() {
    let mut seen = BTreeSet::new();
    for seed in 0..12_000 {
        let mut world = random_world(seed);
        for node in nodes(&world) {
            let reaction = world.react(node);
            seen.extend(reaction.acts.iter().map(|a| (a.rule, None)));
            seen.extend(reaction.waits.iter().map(|w| (w.rule, Some(w.condition))));
        }
    }
    let mut tame = Vec::new();
    for rule in reactor::declared() {
        let acts = rule.acts.then_some((rule.name, None));
        let waits = rule.needs.iter().map(|(condition, _)| (rule.name, Some(*condition)));
        tame.extend(acts.into_iter().chain(waits).filter(|it| !seen.contains(it)));
    }
    assert!(tame.is_empty(), "never seen: {tame:#?}");
}
