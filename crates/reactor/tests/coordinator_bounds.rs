//! Whatever comes in, in whatever order: no panic, nothing out of bounds, and no more traffic than promised.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blueprint::{
    BucketId, Change, Command, CoordinatorId, Durability, Epoch, Honest, Incarnation, Instant, Kind, MetaCommand,
    MetaState, NodeId, OperationId, Position, Refusal, Step, Term,
};
use proptest::prelude::*;
use reactor::coordinator::{Answer, Config, Coordinator, Holding, Input, Leisure, Outbox, Output};

type Dice = (u8, u64, u64, u64);

/// Anything that an operator, a primary or another coordinator may have done in between.
fn meddle(state: &mut MetaState, now: Instant, (_, x, y, z): Dice) {
    let (node, bucket) = (NodeId(1 + x % 5), BucketId(1 + y % 4));
    let term = state.blueprint.government(bucket).map_or(Term(1), |g| g.term);
    let member = |i: u64| {
        let everyone: Vec<_> = state.blueprint.government(bucket).into_iter().flat_map(|g| g.everyone()).collect();
        everyone.get(i as usize % everyone.len().max(1)).copied()
    };
    let succeed = |change| Command::Succeed { bucket, replaces: term, change };
    let id = state.blueprint.next_operation;
    let command = match (z % 13, member(x)) {
        (12, _) => Command::SetAutoRebalance { on: x % 8 > 0, by: "x".into() },
        (0, _) => Command::Depart { node },
        (1, _) => Command::Return { node },
        (2, _) => Command::AddNode { id: node, name: format!("x{y}"), zone: String::new(), addresses: Vec::new() },
        (3, _) => succeed(Change::Enlist { node }),
        (4, Some(candidate)) => succeed(Change::Seat { candidate, by: member(0).expect("there is a primary") }),
        (5, Some(primary)) => succeed(Change::Renew { primary }),
        (6, Some(secondary)) => succeed(Change::Dismiss { secondary, fate: blueprint::Fate::Leaves }),
        (7, _) => Command::StartOperation {
            id,
            by: "x".into(),
            steps: vec![Step::Enlist { bucket, node }, Step::AwaitSeated { bucket, node }],
        },
        (8, _) => Command::StartOperation { id, by: "x".into(), steps: vec![Step::Dismiss { bucket, node }] },
        (9, _) => {
            let (child, of) = (state.blueprint.next_bucket.next_child_of(bucket), state.blueprint.buckets.get(&bucket));
            let slots = of.map(|b| b.slots.split_half().1).unwrap_or_default();
            Command::StartOperation { id, by: "x".into(), steps: vec![Step::Split { bucket, child, slots }] }
        }
        (10, _) => Command::CancelOperation { id: OperationId(1 + x % 4), why: "x".into() },
        _ => succeed(Change::SetMinInSync { min: 1 + (x % 2) as u8 }),
    };
    // Straight into the blueprint: a departure needs nobody's word here.
    if Arc::make_mut(&mut state.blueprint).apply(&command).is_err() {
        let _ = state.apply::<Honest>(now, &MetaCommand::Change(command));
    }
}

fn answer(state: &MetaState, (_, x, y, z): Dice) -> Answer {
    let mut answer = Answer { echoed: Epoch(z % (state.blueprint.epoch.0 + 2)), holds: BTreeMap::new() };
    for bucket in (1..4).map(BucketId) {
        let named = state.blueprint.government(bucket).and_then(|g| g.named(NodeId(1 + x % 5)));
        let incarnation = named.map_or(Incarnation(y % 9), |m| m.incarnation);
        answer.holds.insert(bucket, Holding { incarnation, last: Position::new(1, y % 9), whole: z % 5 > 0 });
    }
    answer
}

/// Does an operation wait there for a word of this primary?
fn is_dismissed_from(state: &MetaState, bucket: BucketId, primary: NodeId) -> bool {
    let dismisses =
        |o: &blueprint::Operation| matches!(o.step(), Some(Step::Dismiss { bucket: b, .. }) if *b == bucket);
    let leads = state.blueprint.government(bucket).is_some_and(|g| g.primary.node == primary);
    leads && state.blueprint.operations.values().any(dismisses)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn nothing_from_outside_breaks_it(dice in prop::collection::vec(any::<Dice>(), 1..300)) {
        let mut state = MetaState::default();
        for id in 1..=5 {
            let (id, name) = (NodeId(id), format!("n{id}"));
            let add = Command::AddNode { id, name, zone: String::new(), addresses: Vec::new() };
            state.apply::<Honest>(Instant::ZERO, &MetaCommand::Change(add)).unwrap();
        }
        let placement = (0..3).map(|r| (0..3).map(|i| NodeId((r + i) % 5 + 1)).collect()).collect();
        let (name, kind, durability) = ("k".into(), Kind::Store, Durability::Disk);
        let create = Command::CreateKeyspace { name, kind, replicas: 3, min_in_sync: None, durability, placement };
        state.apply::<Honest>(Instant::ZERO, &MetaCommand::Change(create)).unwrap();

        let mut now = Instant::ZERO;
        let mut machine: Coordinator = Coordinator::recover(Config::of(CoordinatorId(1)), dice[0].1, now);
        let (mut round, mut probed, mut readings) = (0, BTreeSet::new(), 0);
        let (mut asked, period) = (BTreeMap::new(), Config::of(CoordinatorId(1)).period);
        let (mut past, mut looked, calm) = (Vec::new(), None::<Instant>, Leisure::default().calm);
        for roll in dice {
            let (kind, x, y, z) = roll;
            // Mostly moments, sometimes a night.
            now = now + std::time::Duration::from_millis(if z % 40 == 0 { x % 20_000 } else { x % 60 });
            let input = match kind % 10 {
                0..3 => Input::Wake,
                3..6 => {
                    let round = if z % 7 == 0 { y } else { round };
                    Input::Probed { node: NodeId(1 + x % 6), round, answer: answer(&state, roll) }
                }
                6 => Input::Echoed { node: NodeId(1 + x % 6), epoch: Epoch(y % 50) },
                7 => Input::Rejected { why: Refusal::BadLifetime },
                _ => {
                    meddle(&mut state, now, roll);
                    past.push(Arc::new(state.clone()));
                    // Sometimes an answer that was overtaken.
                    let old = if z % 5 == 0 { y as usize % past.len() } else { past.len() - 1 };
                    Input::MetaRead { state: past[old].clone() }
                }
            };
            // A round begins then, also if there is nobody to probe yet.
            if matches!(input, Input::Wake) && machine.deadline().is_some_and(|at| at <= now) {
                readings = 0;
            }
            let mut out = Outbox::default();
            machine.step(now, input, &mut out);
            machine.check_invariants();
            prop_assert!(machine.deadline().is_some());
            for wait in machine.waits() {
                prop_assert!(!wait.to_string().is_empty() && wait.since <= now);
            }
            for output in out.take() {
                match output {
                    Output::Probe { node, round: number, about } => {
                        if number > round {
                            round = number;
                            probed.clear();
                        }
                        // Whoever is to be dismissed waits for the primary's word, and that is asked for at once.
                        let awaited = |bucket: &BucketId| past.iter().any(|s| is_dismissed_from(s, *bucket, node));
                        let extra = about.first().filter(|b| about.len() == 1 && awaited(b) && probed.contains(&node));
                        if let Some(bucket) = extra {
                            let before = asked.insert((node, *bucket, round), now);
                            prop_assert!(before.is_none_or(|at| now.since(at) >= period), "once in a round, or in a period");
                        } else {
                            prop_assert!(probed.insert(node), "one probe per node and round");
                        }
                    }
                    Output::ReadMeta => {
                        readings += 1;
                        prop_assert!(readings <= 10, "a round has an end");
                    }
                    Output::Propose(command) => {
                        let _ = state.apply::<Honest>(now, &command);
                        state.check_invariants();
                    }
                    Output::Push { node, blueprint } => prop_assert!(blueprint.nodes.contains_key(&node)),
                    Output::Order { .. } => {}
                    Output::Rebalance { epoch } => {
                        prop_assert!(state.blueprint.auto_rebalance.is_some() || epoch < state.blueprint.epoch);
                        prop_assert!(looked.is_none_or(|at| now.since(at) >= calm), "rarely");
                        looked = Some(now);
                    }
                }
            }
        }
    }
}
