//! What it costs: messages per node, idle and with one update, as the number of nodes grows.

use std::time::Duration;

use blueprint::{Honest, NodeId};
use bytes::Bytes;
use registrar::{Config, Edit};

use crate::world::{SECOND, World};

const ROUNDS: u64 = 10;

/// So many machines, up, complete, and with a row each.
fn quiet(nodes: u64) -> World<Honest> {
    let mut world = World::new(nodes, Config::default());
    (1..=nodes).for_each(|id| world.add(NodeId(id)));
    (1..=nodes).for_each(|id| world.start(NodeId(id), 0));
    world.run_until(world.now + 3 * SECOND);
    (1..=nodes).for_each(|id| put(&mut world, id));
    world.run_until(world.now + 10 * SECOND);
    world.check_converged();
    assert!(world.faults.is_empty(), "{}", world.faults.join("\n"));
    reset(&mut world);
    world
}

fn put(world: &mut World<Honest>, id: u64) {
    let (key, value) = (Bytes::from(format!("node/{id}")), Bytes::from(vec![b'x'; 100]));
    world.update(NodeId(id), vec![Edit::Put { key, value, life: Duration::from_secs(600) }]);
}

fn reset(world: &mut World<Honest>) {
    world.sent.clear();
    world.sent_bytes.clear();
}

fn sent(world: &World<Honest>, name: &str) -> u64 {
    world.sent.get(name).copied().unwrap_or_default()
}

#[test]
fn an_idle_round_is_one_exchange_per_pair() {
    for nodes in [5, 20, 50] {
        let mut world = quiet(nodes);
        let round = world.config.round.as_micros() as u64;
        world.run_until(world.now + ROUNDS * round);
        let pairs = nodes * (nodes - 1) / 2;
        let (compared, all) = (sent(&world, "Compare"), world.sent.values().sum::<u64>());
        assert_eq!(all, compared + sent(&world, "Same"), "nothing but digests: {:?}", world.sent);
        // One more or less where a round begins and ends.
        assert!(compared.abs_diff(ROUNDS * pairs) <= pairs, "{nodes} nodes: {compared} in {ROUNDS} rounds");
        let size = world.sent_bytes.values().sum::<u64>() / all;
        assert!(size < 24, "{nodes} nodes: {size} bytes in a message, however many nodes there are");
        let seconds = (ROUNDS * round) as f64 / SECOND as f64 * nodes as f64;
        let (messages, bytes) = (all as f64 / seconds, world.sent_bytes.values().sum::<u64>() as f64 / seconds);
        eprintln!("{nodes} nodes, idle: {messages:.1} messages and {bytes:.0} bytes per node and second");
    }
}

#[test]
fn one_update_is_one_message_per_peer() {
    for nodes in [5, 20, 50] {
        let mut world = quiet(nodes);
        let round = world.config.round.as_micros() as u64;
        let begun = world.now;
        // At any moment of a round: checks and pushes cross, and nothing is sent twice for that.
        let updates = 40;
        for number in 0..updates {
            world.run_until(begun + ROUNDS * round * number / updates);
            put(&mut world, 1 + number % nodes);
        }
        world.run_until(begun + (ROUNDS + 1) * round);
        world.check_converged();
        assert!(world.faults.is_empty(), "{}", world.faults.join("\n"));
        assert_eq!(sent(&world, "Push"), updates * (nodes - 1), "{:?}", world.sent);
        assert_eq!(sent(&world, "Pull"), 0, "{:?}", world.sent);
        let (each, all) = (world.sent_bytes["Push"] / sent(&world, "Push"), nodes - 1);
        eprintln!("{nodes} nodes, one update of 100 bytes: {all} messages of {each} bytes");
        let pairs = nodes * (nodes - 1) / 2;
        assert!(sent(&world, "Compare") <= (ROUNDS + 2) * pairs, "{:?}", world.sent);
        // Claims are exchanged only by those whose digests crossed a push, and once. Here that is most of them, at first.
        eprintln!("{nodes} nodes, {updates} updates in {ROUNDS} rounds: {:?}", world.sent);
        assert!(sent(&world, "Check") <= sent(&world, "Compare"), "{:?}", world.sent);
    }
}

#[test]
fn what_gathers_between_two_flushes_is_one_message() {
    let mut world = quiet(5);
    let edit = |key: &'static str| Edit::Put {
        key: Bytes::from_static(key.as_bytes()),
        value: Bytes::new(),
        life: Duration::from_secs(60),
    };
    world.update_together(NodeId(1), vec![vec![edit("a")], vec![edit("b")], vec![edit("c")]]);
    world.run_until(world.now + SECOND / 10);
    assert_eq!(sent(&world, "Push"), 4, "{:?}", world.sent);
    assert_eq!(world.rows(NodeId(3), NodeId(1)).len(), 4);
}

/// All at once, or one more that joins: every row travels to it once, whoever it comes from.
#[test]
fn a_start_costs_each_sibling_two_checks_and_each_owner_one_pull() {
    for nodes in [5, 20, 50] {
        let mut world = quiet(nodes);
        world.crash(NodeId(1));
        world.run_until(world.now + SECOND / 10);
        reset(&mut world);
        world.start(NodeId(1), 0);
        world.run_until(world.now + SECOND);
        assert!(world.machine(NodeId(1)).is_complete());
        assert_eq!(sent(&world, "Pull"), nodes, "one for each owner, itself included: {:?}", world.sent);
        assert!(sent(&world, "Check") <= 3 * (nodes - 1), "{:?}", world.sent);
        eprintln!("{nodes} nodes, one starts: {:?}", world.sent);
    }
}
