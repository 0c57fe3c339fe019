//! Keyspaces: the same slots several times over, and nothing of one is ever seen in another.

use std::sync::Arc;
use std::time::Duration;

use blueprint::{Blueprint, Command as Proposal, Durability, KeyspaceId, Kind, NodeId};
use bytes::Bytes;
use node::{Answer, Door, Input, NodeDurable, Origin, Output, PeerMessage, RequestId, Station};
use values::{Command, Reply};

use crate::small::{DEFAULT, ME, Small};

const OTHER: NodeId = NodeId(9);
const MORE: KeyspaceId = KeyspaceId(2);
const KEY: Bytes = Bytes::from_static(b"key");

/// Two nodes, and two keyspaces with so many buckets, one copy each.
fn town(default: (NodeId, usize), more: (NodeId, usize)) -> Blueprint {
    let mut blueprint = Blueprint::new();
    for id in [ME, OTHER] {
        let (name, zone) = (id.to_string(), String::new());
        apply(&mut blueprint, &Proposal::AddNode { id, name, zone, addresses: Vec::new() });
    }
    for (name, (node, buckets)) in [("default", default), ("more", more)] {
        apply(&mut blueprint, &create(name, &[node], buckets));
    }
    assert_eq!(blueprint.keyspace_named("more").map(|keyspace| keyspace.id), Some(MORE));
    blueprint
}

fn create(name: &str, members: &[NodeId], buckets: usize) -> Proposal {
    Proposal::CreateKeyspace {
        name: name.into(),
        kind: Kind::Store,
        replicas: members.len() as u8,
        min_in_sync: None,
        durability: Durability::Disk,
        placement: vec![members.to_vec(); buckets],
    }
}

fn apply(blueprint: &mut Blueprint, command: &Proposal) {
    blueprint.apply(command).expect("it was sound");
}

fn started(me: NodeId, lanes: u16, blueprint: &Blueprint) -> Small {
    let mut small = Small::start_as(me, lanes, NodeDurable::default());
    small.follow(blueprint);
    small
}

impl Small {
    fn follow(&mut self, blueprint: &Blueprint) {
        self.push(&Arc::new(blueprint.clone()));
        self.settle();
    }

    /// What becomes of it, if this node can say.
    fn answer(&mut self, keyspace: KeyspaceId, door: Door, lane: u16, command: Command) -> Option<Answer> {
        self.left.clear();
        self.ask_in(keyspace, door, lane, 1, command);
        self.flush(Station::Lane(lane));
        self.settle();
        let mut answers = self.left.iter().filter_map(|(_, output)| match output {
            Output::Answer { origin: Origin::Client(RequestId(1)), answer } | Output::Read { answer, .. } => {
                Some(answer)
            }
            _ => None,
        });
        answers.next().cloned()
    }

    fn set(&mut self, keyspace: KeyspaceId, value: &'static str, life: Option<Duration>) {
        let command = Command::set(KEY, Bytes::from_static(value.as_bytes()), life);
        assert_eq!(self.answer(keyspace, Door::Any, 0, command), Some(Answer::Reply(Reply::Ok)));
    }

    fn get(&mut self, keyspace: KeyspaceId, lane: u16) -> Option<Answer> {
        self.answer(keyspace, Door::Any, lane, Command::get(KEY))
    }
}

fn value(value: &'static str) -> Option<Answer> {
    Some(Answer::Reply(Reply::text(value)))
}

fn nothing() -> Option<Answer> {
    Some(Answer::Reply(Reply::Nil))
}

/// However many buckets each has, and whichever lanes those are in.
#[test]
fn a_key_is_another_one_in_another_keyspace() {
    for lanes in 1..=3 {
        for buckets in 1..=4 {
            let mut small = started(ME, lanes, &town((ME, 4), (ME, buckets)));
            small.set(DEFAULT, "first", None);
            assert_eq!(small.get(MORE, 0), nothing());
            small.set(MORE, "second", None);
            for lane in 0..lanes {
                assert_eq!((small.get(DEFAULT, lane), small.get(MORE, lane)), (value("first"), value("second")));
            }
            small.answer(DEFAULT, Door::Any, 0, Command::del(KEY));
            assert_eq!((small.get(DEFAULT, 0), small.get(MORE, 0)), (nothing(), value("second")));
        }
    }
}

/// The slot is led here in one keyspace and there in the other, by nodes that talk to each other.
#[test]
fn a_slot_has_a_primary_in_each_keyspace() {
    let blueprint = town((ME, 2), (OTHER, 3));
    let (mut here, mut there) = (started(ME, 2, &blueprint), started(OTHER, 1, &blueprint));
    here.set(DEFAULT, "here", None);
    there.set(MORE, "there", None);
    let get = || Command::get(KEY);
    assert_eq!(here.answer(MORE, Door::Cluster, 0, get()), Some(Answer::Moved(OTHER)));
    assert_eq!(there.answer(DEFAULT, Door::Cluster, 0, get()), Some(Answer::Moved(ME)));
    assert_eq!(here.answer(DEFAULT, Door::Cluster, 0, get()), value("here"));
    assert_eq!(there.answer(MORE, Door::Cluster, 0, get()), value("there"));

    assert_eq!(here.get(MORE, 1), None, "it hops");
    let [(_, Output::Send { to: OTHER, message })] = &here.left[..] else { panic!("one hop: {:?}", here.left) };
    assert!(matches!(message, PeerMessage::Hop { keyspace: MORE, .. }), "{message:?}");
    let station = message.station(1);
    there.left.clear();
    there.step(station, Input::Peer { from: ME, message: message.clone() });
    let [(_, Output::Read { origin: Origin::Hop { node: ME, .. }, keyspace: MORE, answer, .. })] = &there.left[..]
    else {
        panic!("one read: {:?}", there.left)
    };
    assert_eq!(Some(answer.clone()), value("there"));
}

/// A bucket that this node has never heard of says nothing about whose slot is meant. The keyspace does.
#[test]
fn who_does_not_know_the_bucket_of_a_hop_knows_its_keyspace() {
    let mut small = started(ME, 1, &town((ME, 2), (ME, 2)));
    small.set(DEFAULT, "first", None);
    small.set(MORE, "second", None);
    for (keyspace, expected) in [(DEFAULT, value("first")), (MORE, value("second"))] {
        small.left.clear();
        let (id, bucket) = (node::HopId { lane: 0, number: 1 }, blueprint::BucketId(77));
        let message = PeerMessage::Hop { id, keyspace, bucket, hops: 1, command: Command::get(KEY) };
        small.step(Station::Lane(0), Input::Peer { from: OTHER, message });
        let [(_, Output::Read { answer, .. })] = &small.left[..] else { panic!("one read: {:?}", small.left) };
        assert_eq!(Some(answer.clone()), expected);
    }
}

#[test]
fn a_read_that_is_late_starts_over_where_it_was() {
    let mut small = started(ME, 2, &town((ME, 2), (ME, 3)));
    small.set(MORE, "second", None);
    small.get(MORE, 0);
    let Some((station, Output::Read { origin, home, keyspace, command, .. })) = small.left.pop() else {
        panic!("one read")
    };
    small.step(station, Input::Late { origin, home, keyspace, command });
    let [(_, Output::Read { keyspace: MORE, answer, .. })] = &small.left[..] else { panic!("{:?}", small.left) };
    assert_eq!(Some(answer.clone()), value("second"));
}

/// R13: it is reaped where it expired, whoever notices.
#[test]
fn a_key_expires_in_its_own_keyspace() {
    for notices in ["a read", "the primary"] {
        let mut small = started(ME, 2, &town((ME, 2), (ME, 3)));
        small.set(DEFAULT, "stays", None);
        small.set(MORE, "goes", Some(Duration::from_millis(10)));
        small.now = small.now + Duration::from_secs(1);
        if notices == "the primary" {
            for lane in 0..2 {
                small.step(Station::Lane(lane), Input::Wake);
                small.flush(Station::Lane(lane));
            }
            small.settle();
        }
        assert_eq!((small.get(MORE, 0), small.get(DEFAULT, 0)), (nothing(), value("stays")), "{notices} notices");
    }
}

#[test]
fn a_keyspace_that_is_removed_answers_nothing_but_that() {
    let mut blueprint = town((ME, 2), (ME, 3));
    let mut small = started(ME, 2, &blueprint);
    small.set(DEFAULT, "first", None);
    small.set(MORE, "second", None);
    apply(&mut blueprint, &Proposal::RemoveKeyspace { keyspace: MORE });
    small.follow(&blueprint);
    let set = || Command::set(KEY, Bytes::from_static(b"x"), None);
    for (door, lane) in [(Door::Any, 0), (Door::Any, 1), (Door::Cluster, 0)] {
        for command in [set(), Command::get(KEY)] {
            assert_eq!(small.answer(MORE, door, lane, command), Some(Answer::NoKeyspace));
        }
    }
    assert_eq!(small.get(DEFAULT, 0), value("first"));

    // One of the same name is another one.
    apply(&mut blueprint, &create("more", &[ME], 3));
    small.follow(&blueprint);
    let again = blueprint.keyspace_named("more").expect("just made").id;
    assert_ne!(again, MORE);
    assert_eq!((small.get(again, 0), small.get(MORE, 0)), (nothing(), Some(Answer::NoKeyspace)));
}

/// Somebody else has heard of it already, and so will this node.
#[test]
fn a_keyspace_that_is_not_known_yet_is_worth_another_try() {
    let mut small = started(ME, 1, &town((ME, 2), (ME, 2)));
    for keyspace in [KeyspaceId(3), KeyspaceId(u32::MAX), KeyspaceId::default()] {
        assert_eq!(small.get(keyspace, 0), Some(Answer::TryAgain));
    }
}

/// A write waits, because the other member of its bucket says nothing, and then its keyspace is removed. It was not done, and is not
/// done elsewhere.
#[test]
fn what_waits_in_a_keyspace_that_is_removed_hears_of_it() {
    let mut blueprint = town((ME, 2), (ME, 3));
    apply(&mut blueprint, &create("pair", &[ME, OTHER], 2));
    let pair = blueprint.keyspace_named("pair").expect("just made").id;
    let mut small = started(ME, 1, &blueprint);
    assert_eq!(small.answer(pair, Door::Any, 0, Command::set(KEY, Bytes::from_static(b"x"), None)), None, "it waits");
    small.left.clear();
    apply(&mut blueprint, &Proposal::RemoveKeyspace { keyspace: pair });
    small.follow(&blueprint);
    let answers = small.left.iter().filter_map(|(_, output)| match output {
        Output::Answer { answer, .. } => Some(answer.clone()),
        _ => None,
    });
    assert_eq!(answers.collect::<Vec<_>>(), [Answer::NoKeyspace]);
    assert_eq!((small.get(DEFAULT, 0), small.get(MORE, 0)), (nothing(), nothing()));
}
