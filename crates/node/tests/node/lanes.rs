//! One node in several lanes: what travels between them, and what they share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use blueprint::{Blueprint, BucketId, Command as Proposal, Durability, Epoch, Kind, LaneId, MetaState, NodeId};
use bytes::Bytes;
use node::{
    Answer, BatchId, Config, HopId, Input, Life, Node, NodeDurable, NodeRecord, Origin, Output, PeerMessage, RequestId,
    Station,
};
use values::{Command, Reply};

use crate::small::{DEFAULT, ME, Small, key_of, set, town};

#[test]
fn requests_for_another_lane_travel_in_one_batch() {
    let blueprint = town();
    let mut small = Small::start(2, NodeDurable::default());
    small.push(&blueprint);
    small.settle();
    let key = key_of(1, &blueprint);
    for request in 0..10 {
        small.ask(0, request, set(&key));
    }
    small.flush(Station::Lane(0));
    assert_eq!(small.letters, 1, "ten requests, one letter");
    small.settle();
    let answered: BTreeMap<_, _> = small
        .left
        .iter()
        .filter_map(|(station, output)| match output {
            Output::Answer { origin: Origin::Client(request), answer } => Some((*request, (*station, answer.clone()))),
            _ => None,
        })
        .collect();
    assert_eq!(answered.len(), 10);
    let done = (Station::Lane(0), Answer::Reply(Reply::Ok));
    assert!(answered.values().all(|answer| *answer == done), "they leave from where they came in: {answered:?}");
}

#[test]
fn a_read_is_judged_by_the_lane_that_evaluated_it() {
    let blueprint = town();
    let mut small = Small::start(2, NodeDurable::default());
    small.push(&blueprint);
    small.settle();
    let key = key_of(1, &blueprint);
    small.ask(0, 1, set(&key));
    small.flush(Station::Lane(0));
    small.settle();
    small.left.clear();
    small.ask(0, 2, Command::get(key.clone()));
    small.flush(Station::Lane(0));
    small.settle();
    let [(station, Output::Read { origin, home, answer, .. })] = &small.left[..] else {
        panic!("one read: {:?}", small.left)
    };
    assert_eq!((*station, *home), (Station::Lane(1), 0));
    assert_eq!(*origin, Origin::Client(RequestId(2)));
    assert_eq!(*answer, Answer::Reply(Reply::Value(Bytes::from_static(b"v"))));

    // Its lease ran out meanwhile: it starts over, and is still an answer for lane 0.
    small.left.clear();
    let (origin, command) = (Origin::Client(RequestId(2)), Command::get(key));
    small.step(Station::Lane(1), Input::Late { origin, home: 0, keyspace: DEFAULT, command });
    assert!(matches!(&small.left[..], [(Station::Lane(1), Output::Read { home: 0, .. })]), "{:?}", small.left);
}

#[test]
fn a_node_echoes_when_all_lanes_act() {
    let blueprint = town();
    let mut small = Small::start(2, NodeDurable::default());
    small.push(&blueprint);
    // Lane 1 is not run for a while.
    let mut held = Vec::new();
    while let Some((station, input)) = small.mail.pop_front() {
        if station == Station::Lane(1) {
            held.push((station, input));
        } else {
            small.step(station, input);
            small.flush(station);
        }
    }
    assert_eq!(small.node.lanes()[0].blueprint().epoch, blueprint.epoch);
    assert_eq!(small.node.blueprint().epoch, Epoch(0));
    assert_eq!(small.echoed(), []);
    small.mail.extend(held);
    small.settle();
    assert_eq!(small.node.blueprint().epoch, blueprint.epoch);
    assert_eq!(small.echoed(), [blueprint.epoch]);
}

#[test]
fn buckets_are_dealt_anew_when_the_number_of_lanes_changes() {
    let blueprint = town();
    let key = key_of(1, &blueprint);
    let mut small = Small::start(2, NodeDurable::default());
    small.push(&blueprint);
    small.settle();
    small.ask(0, 1, set(&key));
    small.flush(Station::Lane(0));
    small.settle();
    for lanes in [1, 3, 2] {
        let held = small.node.phasers().count();
        small = Small::start(lanes, small.durable);
        assert_eq!(small.node.phasers().count(), held);
        for lane in small.node.stations() {
            small.flush(lane);
        }
        small.settle();
        assert!(small.durable.epochs.values().all(|epoch| *epoch == blueprint.epoch), "{:?}", small.durable.epochs);
    }
}

#[test]
fn epochs_stay_with_the_families() {
    let mut durable = NodeDurable::default();
    let lane = |number, of| LaneId { number, of };
    let said = |durable: &mut NodeDurable, lane, epoch| {
        durable.absorb(&NodeRecord::Epoch { lane, epoch: Epoch(epoch) });
    };
    said(&mut durable, lane(0, 2), 5);
    said(&mut durable, lane(1, 2), 7);
    said(&mut durable, lane(1, 2), 6);
    // Three lanes go on with what two have done. One of them is ahead, and the process ends; two go on with that.
    said(&mut durable, lane(0, 3), 20);
    let [even, odd] = &durable.clone().deal(2)[..] else { panic!("two lanes") };
    assert!([0, 6, 252].iter().all(|family| even.epochs[family] == Epoch(20)));
    assert!([2, 4, 254].iter().all(|family| even.epochs[family] == Epoch(5)));
    assert!([3, 9, 255].iter().all(|family| odd.epochs[family] == Epoch(20)));
    assert!([1, 5, 251].iter().all(|family| odd.epochs[family] == Epoch(7)));
    said(&mut durable, lane(0, 2), 20);
    assert!(durable.deal(2)[1].epochs.values().all(|epoch| *epoch >= Epoch(7)), "nothing goes back");
}

/// Lane 0 of two acts on a blueprint, lane 1 has brought nothing about yet; then the process ends, and starts with three lanes. What
/// lane 1 would have made never was, and nobody else has it.
#[test]
fn what_no_lane_brought_about_is_not_lost() {
    let blueprint = town();
    let mut small = Small::start(2, NodeDurable::default());
    small.push(&blueprint);
    while let Some((station, input)) = small.mail.pop_front() {
        if station != Station::Lane(1) {
            small.step(station, input);
            small.flush(station);
        }
    }
    assert_eq!(small.durable.replicas.len(), 2);
    small = Small::start(3, small.durable);
    small.settle();
    small.push(&blueprint);
    small.settle();
    assert_eq!(small.durable.replicas.len(), 4, "{:?}", small.node.why(small.now));
    assert_eq!(small.node.blueprint().epoch, blueprint.epoch);
}

/// A lane that hangs must not be hidden by a desk that answers.
#[test]
fn who_has_a_lane_that_hangs_answers_no_probe() {
    let mut small = Small::start(2, NodeDurable::default());
    small.push(&town());
    small.settle();
    let answers = |small: &mut Small| {
        small.left.clear();
        let probe = PeerMessage::Probe { round: 1, about: Vec::new() };
        small.step(Station::Desk, Input::Peer { from: NodeId(9), message: probe });
        small.left.iter().any(|(_, o)| matches!(o, Output::Send { message: PeerMessage::Probed { .. }, .. }))
    };
    assert!(answers(&mut small));
    for second in 0..10 {
        small.now = small.now + Duration::from_secs(1);
        for station in [Station::Lane(0), Station::Lane(1)].into_iter().take(if second < 5 { 2 } else { 1 }) {
            small.step(station, Input::Wake);
            small.flush(station);
        }
        small.settle();
        assert_eq!(answers(&mut small), second < 7, "after {second} s");
    }
}

#[test]
fn what_is_meant_for_a_lane_that_is_not_there_is_dropped() {
    let mut small = Small::start(1, NodeDurable::default());
    small.settle();
    let id = HopId { lane: 5, number: 1 };
    let message = PeerMessage::HopAnswer { id, answer: Answer::TryAgain };
    assert_eq!(message.station(1), Station::Lane(5));
    small.step(Station::Lane(5), Input::Peer { from: NodeId(9), message });
    small.step(Station::Lane(5), Input::Written { upto: BatchId(1) });
    assert!(small.left.is_empty());
    small.now = small.now + Duration::from_secs(1);
    small.step(Station::Lane(0), Input::Wake);
}

#[test]
fn a_lane_takes_only_so_many_requests() {
    let blueprint = town();
    let mut small = Small::start(2, NodeDurable::default());
    let config = Config { most_requests: 3, ..Config::default() };
    let life = Life { number: 1, seed: 7, wall: 0 };
    small.node = Node::recover(ME, &config, 2, NodeDurable::default(), life, small.now, &mut Vec::new());
    small.push(&blueprint);
    small.settle();
    let key = key_of(1, &blueprint);
    (0..5).for_each(|request| small.ask(0, request, set(&key)));
    let refused = |small: &Small| {
        small.left.iter().filter(|(_, o)| matches!(o, Output::Answer { answer: Answer::TryAgain, .. })).count()
    };
    assert_eq!(refused(&small), 2, "those that other lanes have count, too");
    let (id, hops, bucket) = (HopId { lane: 0, number: 1 }, 1, BucketId(1));
    let hop = PeerMessage::Hop { id, keyspace: DEFAULT, bucket, hops, command: set(&key) };
    small.step(Station::Lane(0), Input::Peer { from: NodeId(9), message: hop });
    assert_eq!(refused(&small), 3, "and so does what hopped here");
    small.flush(Station::Lane(0));
    small.settle();
    small.ask(0, 9, set(&key));
    assert_eq!(refused(&small), 3, "they were answered");
}

/// Its disk cannot say up to where it acted. 1. An old blueprint that somebody pushes is not followed. 2. What a read names, and is not
/// here, may have been here: it is not begun empty (R10). 3. What is named later begins as usual.
#[test]
fn a_node_in_doubt_begins_nothing_that_may_have_been_here() {
    let durable = NodeDurable { epochs_in_doubt: true, ..NodeDurable::default() };
    let mut small = Small::start(2, durable);
    let blueprint = town();
    small.push(&blueprint);
    small.settle();
    assert_eq!((small.node.phasers().count(), small.durable.epochs.len(), small.echoed()), (0, 0, vec![]));

    // The first question found no answer.
    small.now = small.now + Duration::from_secs(5);
    for lane in 0..2 {
        small.step(Station::Lane(lane), Input::Wake);
    }
    let asked = |(station, output): &(Station, Output)| match output {
        Output::ReadMeta { id } => Some((*station, *id)),
        _ => None,
    };
    let asked: Vec<_> = small.left.iter().filter_map(asked).collect();
    assert_eq!(asked.len(), 2);
    let state = Arc::new(MetaState { blueprint: Arc::clone(&blueprint), ..MetaState::default() });
    for (station, id) in asked {
        small.step(station, Input::MetaRead { id, state: Arc::clone(&state) });
        small.flush(station);
    }
    small.settle();
    assert_eq!(small.node.phasers().count(), 0, "nothing begins empty");
    assert!(small.durable.epochs.values().all(|epoch| *epoch == blueprint.epoch) && !small.durable.epochs.is_empty());
    let why = small.node.why(small.now).join("\n");
    assert!(why.contains("somebody to decide"), "{why}");

    let mut later = Blueprint::clone(&blueprint);
    let create = Proposal::CreateKeyspace {
        name: "later".into(),
        kind: Kind::Store,
        replicas: 1,
        min_in_sync: None,
        durability: Durability::Disk,
        placement: vec![vec![ME]; 2],
    };
    later.apply(&create).expect("there is room for more");
    small.push(&Arc::new(later));
    small.settle();
    assert_eq!(small.node.phasers().count(), 2, "what never was begins empty");
}
