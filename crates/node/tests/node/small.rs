//! One node by itself: its disk answers at once, and its stations run in turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use blueprint::{
    Blueprint, Command as Proposal, Durability, Epoch, Honest, Instant, KeyspaceId, Kind, LaneId, NodeId, Slot,
};
use bytes::Bytes;
use node::{Config, Door, Input, Life, Mail, Node, NodeDurable, NodeRecord, Output, PeerMessage, RequestId, Station};
use values::Command;

pub(crate) const ME: NodeId = NodeId(1);
pub(crate) const DEFAULT: KeyspaceId = KeyspaceId(1);

/// A node whose disk answers at once, and whose stations run in turn.
pub(crate) struct Small {
    pub(crate) node: Node<Honest>,
    pub(crate) now: Instant,
    pub(crate) durable: NodeDurable,
    /// What this life wrote.
    pub(crate) records: Vec<NodeRecord>,
    pub(crate) mail: VecDeque<(Station, Input)>,
    /// What left the node.
    pub(crate) left: Vec<(Station, Output)>,
    /// How often mail went from one lane to another.
    pub(crate) letters: usize,
}

impl Small {
    pub(crate) fn start(lanes: u16, durable: NodeDurable) -> Self {
        Self::start_as(ME, lanes, durable)
    }

    pub(crate) fn start_as(me: NodeId, lanes: u16, durable: NodeDurable) -> Self {
        Self::start_with(&Config::default(), me, lanes, durable)
    }

    pub(crate) fn start_with(config: &Config, me: NodeId, lanes: u16, durable: NodeDurable) -> Self {
        let now = Instant(1_000_000);
        let mut said = Vec::new();
        let life = Life { number: 1, seed: 7, wall: 0 };
        let node = Node::recover(me, config, lanes, durable.clone(), life, now, &mut said);
        let (mail, left, records) = (VecDeque::new(), Vec::new(), Vec::new());
        let mut small = Self { node, now, durable, records, mail, left, letters: 0 };
        for lane in 0..lanes {
            small.mail.push_back((Station::Lane(lane), Input::Wall { micros: 1 }));
        }
        small
    }

    pub(crate) fn step(&mut self, station: Station, input: Input) {
        let mut out = Vec::new();
        self.node.step(station, self.now, input, &mut out);
        self.carry_out(station, out);
    }

    pub(crate) fn flush(&mut self, station: Station) {
        self.step(station, Input::Flush);
        self.node.check_invariants(station);
    }

    fn carry_out(&mut self, station: Station, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Write { id, records } => {
                    records.iter().for_each(|record| self.durable.absorb(record));
                    self.records.extend(records);
                    self.mail.push_back((station, Input::Written { upto: id }));
                }
                Output::Store { id, bucket, tables } => {
                    self.mail.push_back((station, Input::Stored { id, bucket, tables }));
                }
                Output::Mail { to, mail } => {
                    self.letters += usize::from(matches!(mail, Mail::Requests(_) | Mail::Answers(_)));
                    self.mail.push_back((to, Input::Mail { from: station, mail }));
                }
                other => self.left.push((station, other)),
            }
        }
    }

    /// Until nothing is under way.
    pub(crate) fn settle(&mut self) {
        for _ in 0..1000 {
            let Some((station, input)) = self.mail.pop_front() else {
                return;
            };
            self.step(station, input);
            self.flush(station);
        }
        panic!("it never settles");
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        for station in self.node.stations() {
            self.step(station, Input::Wake);
            self.flush(station);
        }
        self.settle();
    }

    pub(crate) fn push(&mut self, blueprint: &Arc<Blueprint>) {
        let message = PeerMessage::Push(Arc::clone(blueprint));
        self.step(Station::Desk, Input::Peer { from: NodeId(9), message });
    }

    pub(crate) fn ask(&mut self, lane: u16, request: u64, command: Command) {
        self.ask_in(DEFAULT, Door::Any, lane, request, command);
    }

    pub(crate) fn ask_in(&mut self, keyspace: KeyspaceId, door: Door, lane: u16, request: u64, command: Command) {
        let request = RequestId(request);
        self.step(Station::Lane(lane), Input::Client { request, keyspace, command, door });
    }

    pub(crate) fn echoed(&self) -> Vec<Epoch> {
        let echoes = self.left.iter().filter_map(|(_, output)| match output {
            Output::Send { message: PeerMessage::Echoed(epoch), .. } => Some(*epoch),
            _ => None,
        });
        echoes.collect()
    }
}

/// One node, four buckets, one copy each: b1 and b3 go to one of two lanes, b2 and b4 to the other.
pub(crate) fn town() -> Arc<Blueprint> {
    let mut blueprint = Blueprint::new();
    let join = |id| Proposal::AddNode { id, name: id.to_string(), zone: String::new(), addresses: Vec::new() };
    let create = Proposal::CreateKeyspace {
        name: "default".into(),
        kind: Kind::Store,
        replicas: 1,
        min_in_sync: None,
        durability: Durability::Disk,
        placement: vec![vec![ME]; 4],
    };
    for command in [join(ME), join(NodeId(9)), create] {
        blueprint.apply(&command).expect("an empty blueprint takes all of this");
    }
    Arc::new(blueprint)
}

/// A key of that lane, of two.
pub(crate) fn key_of(lane: u16, blueprint: &Blueprint) -> Bytes {
    let of_lane = |key: &Bytes| {
        let slot: Slot = values::slot_of(key);
        let bucket = blueprint.bucket_of(DEFAULT, slot).expect("all slots have a bucket").id;
        LaneId::of_bucket(bucket, 2).number == lane
    };
    (0..).map(|n| Bytes::from(format!("key-{n}"))).find(of_lane).expect("every lane has keys")
}

pub(crate) fn set(key: &Bytes) -> Command {
    Command::set(key.clone(), Bytes::from_static(b"v"), None)
}
