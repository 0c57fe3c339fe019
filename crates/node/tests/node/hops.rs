//! Requests that hop to another node, and what becomes of them when that does not answer.

use std::sync::Arc;
use std::time::Duration;

use blueprint::{Blueprint, Command as Proposal, Durability, Kind, NodeId};
use bytes::Bytes;
use node::{Answer, Config, HopId, Input, NodeDurable, Origin, Output, PeerMessage, RequestId, Station};
use values::{Command, Reply};

use crate::small::{ME, Small, set};

const LANE: Station = Station::Lane(0);
const LEADER: NodeId = NodeId(9);

/// A node that leads nothing: everything hops.
fn follower() -> Small {
    let mut blueprint = Blueprint::new();
    let join = |id| Proposal::AddNode { id, name: id.to_string(), zone: String::new(), addresses: Vec::new() };
    let create = Proposal::CreateKeyspace {
        name: "default".into(),
        kind: Kind::Store,
        replicas: 1,
        min_in_sync: None,
        durability: Durability::Disk,
        placement: vec![vec![LEADER]],
    };
    for command in [join(ME), join(LEADER), create] {
        blueprint.apply(&command).expect("an empty blueprint takes all of this");
    }
    let mut small = Small::start(1, NodeDurable::default());
    small.push(&Arc::new(blueprint));
    small.settle();
    small.left.clear();
    small
}

fn hop(small: &mut Small, request: u64, command: Command) -> HopId {
    small.ask(0, request, command);
    small.flush(LANE);
    let hopped = |(_, output): &(Station, Output)| match output {
        Output::Send { to: LEADER, message: PeerMessage::Hop { id, .. } } => Some(*id),
        _ => None,
    };
    small.left.iter().rev().find_map(hopped).expect("nobody else leads it")
}

fn answers(small: &mut Small) -> Vec<(u64, Answer)> {
    let answer = |(_, output)| match output {
        Output::Answer { origin: Origin::Client(RequestId(request)), answer } => Some((request, answer)),
        _ => None,
    };
    std::mem::take(&mut small.left).into_iter().filter_map(answer).collect()
}

/// Woken when it wants to be, and not later.
fn wake(small: &mut Small) {
    small.now = small.node.deadline(LANE);
    small.step(LANE, Input::Wake);
    small.flush(LANE);
}

#[test]
fn who_hopped_to_a_node_that_died_is_answered_soon() {
    let (mut small, key) = (follower(), Bytes::from_static(b"k"));
    let asked = small.now;
    hop(&mut small, 1, set(&key));
    hop(&mut small, 2, Command::get(key.clone()));
    let answered = hop(&mut small, 3, set(&key));
    small.step(LANE, Input::LinkEnded { to: NodeId(8) });
    small.step(LANE, Input::LinkEnded { to: LEADER });
    let after = hop(&mut small, 4, set(&key));
    assert_eq!(answers(&mut small), [], "what was answered before it died may be on its way");

    let last_word = PeerMessage::HopAnswer { id: answered, answer: Answer::Reply(Reply::Ok) };
    small.step(LANE, Input::Peer { from: LEADER, message: last_word });
    assert_eq!(answers(&mut small), [(3, Answer::Reply(Reply::Ok))]);

    let last_answers = Config::default().last_answers;
    while small.now < asked + last_answers {
        assert_eq!(answers(&mut small), []);
        wake(&mut small);
    }
    assert_eq!(small.now, asked + last_answers);
    // R12: the write may have happened, the read may be asked again.
    assert_eq!(answers(&mut small), [(1, Answer::Uncertain), (2, Answer::TryAgain)]);

    // That one left by the next link.
    let told = PeerMessage::HopAnswer { id: after, answer: Answer::Reply(Reply::Ok) };
    while small.now < asked + Config::default().hop_patience - Duration::from_millis(500) {
        wake(&mut small);
    }
    assert_eq!(answers(&mut small), []);
    small.step(LANE, Input::Peer { from: LEADER, message: told });
    assert_eq!(answers(&mut small), [(4, Answer::Reply(Reply::Ok))]);
}

#[test]
fn links_that_end_one_after_the_other_are_noticed_one_after_the_other() {
    let (mut small, key) = (follower(), Bytes::from_static(b"k"));
    hop(&mut small, 1, set(&key));
    small.step(LANE, Input::LinkEnded { to: LEADER });
    small.now = small.now + Duration::from_millis(30);
    hop(&mut small, 2, set(&key));
    small.step(LANE, Input::LinkEnded { to: LEADER });
    small.step(LANE, Input::LinkEnded { to: LEADER });
    small.left.clear();
    let begun = small.now;
    wake(&mut small);
    assert_eq!(
        (small.now.since(begun), answers(&mut small)),
        (Duration::from_millis(70), vec![(1, Answer::Uncertain)])
    );
    wake(&mut small);
    assert_eq!(
        (small.now.since(begun), answers(&mut small)),
        (Duration::from_millis(100), vec![(2, Answer::Uncertain)])
    );
}
