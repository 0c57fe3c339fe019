//! Random worlds: loss, duplication, reordering, partitions, restarts with and without the disk, clocks that are wrong. Then the
//! world heals, and everybody must agree with every owner.

use std::time::Duration;

use blueprint::{Conduct, Honest, NodeId};
use bytes::Bytes;
use registrar::{Config, Edit, Input, Level};

use crate::dice::Dice;
use crate::history::SLACK_OF_WRONG_CLOCKS;
use crate::network::Network;
use crate::world::{SECOND, World};

const STORM: u64 = 40 * SECOND;
const CALM: u64 = 25 * SECOND;

#[test]
fn whatever_happens_everybody_agrees_with_every_owner() {
    for seed in 0..120 {
        let faults = storm::<Honest>(seed);
        assert!(faults.is_empty(), "seed {seed}: {}", faults.join("\n"));
    }
}

/// What kind of world a seed is.
struct Weather {
    config: Config,
    nodes: u64,
    /// Wall clocks jump, and rows live long; or rows expire, and clocks are right: a disk cannot know how long it lay still
    /// while the clock was wrong.
    has_wrong_clocks: bool,
    keys: u64,
}

impl Weather {
    fn of(dice: &mut Dice) -> Self {
        let has_wrong_clocks = dice.percent(50);
        let longest_life = Duration::from_secs(if has_wrong_clocks { 10_000 } else { dice.between(5, 12) });
        let part_rows = if dice.percent(60) { 3 } else { 100 };
        let config = Config {
            level: if dice.percent(50) { Level::Durable } else { Level::Ephemeral },
            longest_life,
            margin: Duration::from_secs(3),
            round: Duration::from_millis(dice.between(1500, 3000)),
            patience: Duration::from_millis(dice.between(100, 400)),
            pulls: dice.between(1, 4) as usize,
            part_rows,
            owner_rows: 10_000,
            ..Config::default()
        };
        Self { config, nodes: dice.between(3, 6), has_wrong_clocks, keys: dice.between(4, 30) }
    }
}

/// Everything that must not be, and was.
pub(crate) fn storm<C: Conduct>(seed: u64) -> Vec<String> {
    let mut dice = Dice::new(seed);
    let weather = Weather::of(&mut dice);
    let mut world = World::<C>::new(dice.next(), weather.config.clone());
    if weather.has_wrong_clocks {
        world.history.slack = SLACK_OF_WRONG_CLOCKS;
    }
    let mut next_id = weather.nodes + 1;
    (1..=weather.nodes).for_each(|id| world.add(NodeId(id)));
    (1..=weather.nodes).for_each(|id| world.start(NodeId(id), 0));
    world.network = Network {
        loss: dice.below(15),
        twice: dice.below(10),
        very_late: dice.between(60_000, SECOND),
        delay: (100, dice.between(1_000, 60_000)),
        ..Network::calm()
    };
    let end = world.now + STORM;
    while world.now < end && world.faults.is_empty() {
        let pause = dice.between(1_000, SECOND / 2);
        world.run_until(world.now + pause);
        strike(&mut world, &weather, &mut dice, &mut next_id);
        world.check_history();
    }
    heal(&mut world, &weather, &mut dice);
    world.faults
}

fn strike<C: Conduct>(world: &mut World<C>, weather: &Weather, dice: &mut Dice, next_id: &mut u64) {
    let ids: Vec<NodeId> = world.nodes.keys().copied().collect();
    let id = ids[dice.below(ids.len() as u64) as usize];
    let is_up = world.nodes[&id].machine.is_some();
    let wrong = if weather.has_wrong_clocks { dice.below(200) as i64 - 100 } else { 0 };
    match dice.below(100) {
        0..60 if is_up => {
            let edits = edits(weather, dice);
            world.update(id, edits);
        }
        60..66 => world.crash(id),
        0..80 if !is_up => world.start(id, wrong),
        80..83 => {
            world.replace(id, NodeId(*next_id), wrong);
            *next_id += 1;
        }
        83..87 => {
            let other = ids[dice.below(ids.len() as u64) as usize];
            world.network.cut(id, other);
        }
        87..90 => ids.iter().for_each(|other| world.network.cut(id, *other)),
        90..96 => world.network.heal(),
        96..100 => {
            let other = ids[dice.below(ids.len() as u64) as usize];
            world.feed(id, Input::LinkLost(other));
        }
        _ => {}
    }
}

fn edits(weather: &Weather, dice: &mut Dice) -> Vec<Edit> {
    let longest = weather.config.longest_life.as_millis() as u64;
    let edit = |dice: &mut Dice| {
        let key = Bytes::from(format!("k{}", dice.below(weather.keys)));
        match dice.percent(25) {
            true => Edit::Remove { key },
            false => {
                let life =
                    Duration::from_millis(dice.between(if longest > 1_000_000 { longest / 2 } else { 500 }, longest));
                // No value twice: a ghost can be told from a row.
                Edit::Put { key, value: Bytes::from(format!("{:x}", dice.next())), life }
            }
        }
    };
    (0..dice.between(1, 3)).map(|_| edit(dice)).collect()
}

fn heal<C: Conduct>(world: &mut World<C>, weather: &Weather, dice: &mut Dice) {
    world.network = Network::calm();
    let down: Vec<NodeId> = world.nodes.iter().filter(|(_, node)| node.machine.is_none()).map(|(id, _)| *id).collect();
    for id in down {
        let wrong = if weather.has_wrong_clocks { dice.below(200) as i64 - 100 } else { 0 };
        world.start(id, wrong);
    }
    let end = world.now + CALM;
    while world.now < end && world.faults.is_empty() {
        world.run_until(world.now + SECOND);
        world.check_history();
    }
    if world.faults.is_empty() {
        world.check_converged();
    }
}
