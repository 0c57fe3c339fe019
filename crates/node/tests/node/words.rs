//! What a node says that it waits for.

use std::sync::Arc;
use std::time::Duration;

use blueprint::{Blueprint, BucketId, Change, Command as Proposal, Durability, Kind, NodeId};
use node::{Input, NodeDurable, Output, PeerMessage};

use crate::small::{ME, Small};

const OTHER: NodeId = NodeId(2);
const BUCKET: BucketId = BucketId(1);

/// One bucket, which this node leads.
fn pair() -> Blueprint {
    let mut blueprint = Blueprint::new();
    let join = |id| Proposal::AddNode { id, name: id.to_string(), zone: String::new(), addresses: Vec::new() };
    let create = Proposal::CreateKeyspace {
        name: "default".into(),
        kind: Kind::Store,
        replicas: 2,
        min_in_sync: None,
        durability: Durability::Disk,
        placement: vec![vec![ME, OTHER]],
    };
    for command in [join(ME), join(OTHER), join(NodeId(9)), create] {
        blueprint.apply(&command).expect("an empty blueprint takes all of this");
    }
    blueprint
}

/// What each says to the other arrives, as far as it is let through.
fn exchange(nodes: &mut [Small; 2], passes: fn(&PeerMessage) -> bool) {
    for _ in 0..20 {
        let all: Vec<_> = nodes.iter_mut().flat_map(|node| std::mem::take(&mut node.left)).collect();
        for (_, output) in all {
            let Output::Send { to, message } = output else { continue };
            let Some(at) = [ME, OTHER].iter().position(|node| *node == to).filter(|_| passes(&message)) else {
                continue;
            };
            let input = Input::Peer { from: [OTHER, ME][at], message };
            let Input::Peer { message, .. } = &input else { unreachable!("made just now") };
            let station = message.station(1);
            nodes[at].step(station, input);
            nodes[at].flush(station);
        }
        nodes.iter_mut().for_each(Small::settle);
    }
}

fn pass(nodes: &mut [Small; 2], span: Duration, passes: fn(&PeerMessage) -> bool) {
    nodes.iter_mut().for_each(|node| node.pass(span));
    exchange(nodes, passes);
}

/// What happens: 1. a node leads for a minute, and nobody has to say anything to it; 2. another one leads. That one has not been silent for
/// a minute, and is no cause for concern yet.
#[test]
fn nobody_is_silent_for_longer_than_it_leads() {
    let mut blueprint = pair();
    let mut nodes = [ME, OTHER].map(|node| Small::start_as(node, 1, NodeDurable::default()));
    nodes.iter_mut().for_each(|node| node.push(&Arc::new(blueprint.clone())));
    for _ in 0..600 {
        pass(&mut nodes, Duration::from_millis(100), |_| true);
    }
    let government = blueprint.government(BUCKET).expect("it is governed");
    let change = Change::HandOver { to: government.secondaries[0], by: government.primary };
    let command = Proposal::Succeed { bucket: BUCKET, replaces: government.term, change };
    blueprint.apply(&command).expect("a secondary may lead");
    // From now on they speak only about themselves.
    let is_directory = |message: &PeerMessage| matches!(message, PeerMessage::Directory(_));
    nodes.iter_mut().for_each(|node| node.push(&Arc::new(blueprint.clone())));
    let silence = |nodes: &[Small; 2]| -> Option<String> {
        let said = nodes[0].node.why(nodes[0].now);
        said.into_iter().find(|line| line.contains("has said nothing"))
    };
    for _ in 0..5 {
        pass(&mut nodes, Duration::from_millis(100), is_directory);
        assert_eq!(silence(&nodes), None);
    }
    for _ in 0..15 {
        pass(&mut nodes, Duration::from_millis(100), is_directory);
    }
    let line = silence(&nodes).unwrap_or_else(|| panic!("{:?}", nodes[0].node.why(nodes[0].now)));
    assert!(line.contains("a word from n2, which has said nothing for 1 s"), "{line}");
}
