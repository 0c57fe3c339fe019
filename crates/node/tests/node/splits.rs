//! Children, and what they were made of.

use std::sync::Arc;
use std::time::Duration;

use blueprint::{Blueprint, BucketId, Command as Proposal, SlotSet};
use bytes::Bytes;
use node::{Answer, Input, Mail, NodeDurable, NodeRecord, Output, Station};
use phaser::{Payload, Record};
use reactor::coordinator::Order;
use values::{Command, Reply, slot_of};

use crate::small::{Small, key_of, town};

const LANE: Station = Station::Lane(0);

/// R10, level `memory`. 1. A Split commits, its child is made, and gets a write. 2. The operating system restarts; the parent's log has
/// lost the Split, and the child is still on disk. 3. The Split is ordered again. What is on disk was made of a Split that never was, and
/// knows of a write that never was: the child is made anew, of what its parent has now.
#[test]
fn a_child_of_a_split_that_was_lost_is_made_anew() {
    let mut blueprint = Blueprint::clone(&town());
    let key = key_of(1, &blueprint);
    let parent = blueprint.bucket_of(blueprint::KeyspaceId(1), slot_of(&key)).expect("all slots have one").id;
    blueprint.apply(&Proposal::ReserveBucket { parent }).expect("it has slots to spare");
    let child = *blueprint.reserved.keys().next().expect("just reserved");
    let mut small = Small::start(1, NodeDurable::default());
    small.push(&Arc::new(blueprint.clone()));
    small.settle();

    assert_eq!(set(&mut small, &key, "before"), Answer::Reply(Reply::Ok));
    split(&mut small, parent, child, &key);
    let first = small.durable.replicas[&child].origin;
    assert_eq!(set(&mut small, &key, "lost"), Answer::Reply(Reply::Ok));

    let mut left = NodeDurable::default();
    let is_lost = |record: &NodeRecord| match record {
        NodeRecord::Bucket { bucket, record: Record::Append { entries, .. } } if *bucket == parent => {
            entries.iter().any(|entry| matches!(entry.payload(), Payload::Split { .. }))
        }
        _ => false,
    };
    small.records.iter().filter(|record| !is_lost(record)).for_each(|record| left.absorb(record));
    assert!(left.replicas.contains_key(&child), "it is still there");

    // Who restarted asks for a new term (R4), and waits out what it granted (R5).
    let mut small = Small::start(1, left);
    small.push(&Arc::new(blueprint.clone()));
    small.settle();
    small.pass(Duration::from_secs(2));
    for (_, output) in std::mem::take(&mut small.left) {
        if let Output::Propose(proposal) = output {
            let _once_is_enough = blueprint.apply(&proposal);
        }
    }
    small.push(&Arc::new(blueprint));
    small.settle();
    small.pass(Duration::from_secs(2));

    split(&mut small, parent, child, &key);
    let second = small.durable.replicas[&child].origin;
    assert_ne!(first, second, "another Split, another child");
    assert_eq!(small.node.phaser(child).map(phaser::Phaser::origin), Some(second));
    small.pass(Duration::from_secs(2)); // until it reigns
    let get = Command::get(key);
    assert_eq!(ask(&mut small, get), Answer::Reply(Reply::Value(Bytes::from_static(b"before"))));
}

fn split(small: &mut Small, bucket: BucketId, child: BucketId, key: &Bytes) {
    let slots = SlotSet::range(slot_of(key), slot_of(key));
    let mail = Mail::Order(Order::Split { bucket, child, slots });
    small.step(LANE, Input::Mail { from: Station::Desk, mail });
    small.flush(LANE);
    small.settle();
}

fn set(small: &mut Small, key: &Bytes, value: &'static str) -> Answer {
    ask(small, Command::set(key.clone(), Bytes::from_static(value.as_bytes()), None))
}

fn ask(small: &mut Small, command: Command) -> Answer {
    small.left.clear();
    small.ask(0, 1, command);
    small.flush(LANE);
    small.settle();
    let answered = small.left.iter().find_map(|(_, output)| match output {
        Output::Answer { answer, .. } | Output::Read { answer, .. } => Some(answer.clone()),
        _ => None,
    });
    answered.unwrap_or_else(|| panic!("no answer: {:?}", small.node.why(small.now)))
}
