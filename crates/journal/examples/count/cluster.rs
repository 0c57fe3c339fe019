//! The nodes of the script in one process: the first leads everything and has the client; the others follow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use blueprint::{Blueprint, Command as Proposal, Durability, Instant, KeyspaceId, Kind, NodeId};
use bytes::BytesMut;
use node::{Door, Input, RequestId};
use resp::{Limits, Protocol, Requests, Words};
use values::{Command, Reply};

use crate::machine::Machine;

const KEYSPACE: KeyspaceId = KeyspaceId(1);
/// As a keyspace has by default.
const BUCKETS: usize = 64;
/// How long a batch takes, as machines are told: so little that nothing becomes due while a script runs.
const PACE: Duration = Duration::from_micros(1);
/// As much as the front door makes room for, and when.
const READ_AT_ONCE: usize = 16 << 10;
const SMALLEST_READ: usize = 2 << 10;
/// As many as it reads before it carries out the first. No script sends more at once.
const MOST_AHEAD: usize = 32;

pub(crate) struct Cluster {
    machines: Vec<Machine>,
    now: Instant,
    parser: Requests,
    buffer: BytesMut,
    ahead: Vec<Command>,
    /// A place for each request that is not answered, or behind one.
    queue: VecDeque<Option<Reply>>,
    /// The request of the first place.
    first: u64,
    answers: BytesMut,
}

impl Cluster {
    /// Everything is led, and nobody has asked anything yet.
    pub(crate) fn start(copies: u64) -> Self {
        let now = Instant(1_000_000);
        let nodes: Vec<NodeId> = (1..=copies).map(NodeId).collect();
        let machines = nodes.iter().map(|node| Machine::new(*node, nodes.len(), now)).collect();
        let (parser, queue) = (Requests::new(Limits::KNOWN), VecDeque::new());
        let (buffer, answers) = (BytesMut::new(), BytesMut::new());
        let mut cluster = Self { machines, now, parser, buffer, ahead: Vec::new(), queue, first: 0, answers };
        let blueprint = Arc::new(blueprint(nodes));
        cluster.machines.iter_mut().for_each(|machine| machine.follow(&blueprint));
        while !cluster.is_led() {
            cluster.pass(Duration::from_millis(10));
            cluster.talk();
        }
        cluster
    }

    fn is_led(&self) -> bool {
        let mut phasers = self.machines[0].lane.phasers();
        phasers.all(|(_, phaser)| phaser.leads().is_some_and(|(_, serves)| serves))
            && self.machines[0].lane.phasers().count() == BUCKETS
    }

    pub(crate) fn exceptions(&self) -> u64 {
        self.machines.iter().map(Machine::exceptions).sum()
    }

    /// From the bytes of requests that came in together to those of their answers.
    pub(crate) fn serve(&mut self, requests: &[u8]) -> &[u8] {
        self.pass(PACE);
        if self.buffer.capacity() - self.buffer.len() < SMALLEST_READ {
            self.buffer.reserve(READ_AT_ONCE);
        }
        self.buffer.extend_from_slice(requests);
        let ahead = &mut self.ahead;
        let mut take = |words: Words<'_>| {
            ahead.push(match words {
                Words::Array { bytes, places } => Command::parse_within(bytes, places).expect("known commands"),
                Words::Line(_) => unreachable!("the script sends arrays"),
            });
        };
        while self.parser.next_few(&mut self.buffer, MOST_AHEAD, &mut take).expect("well-formed requests") {}
        let door = &mut self.machines[0];
        door.lane.touch(self.ahead.iter().map(|command| (KEYSPACE, command)));
        for command in self.ahead.drain(..) {
            let request = RequestId(self.first + self.queue.len() as u64);
            let seen = door.lane.glimpse(self.now, KEYSPACE, &command);
            let good = seen.filter(|(_, good_until)| self.now < *good_until).map(|(reply, _)| reply);
            let is_answered = good.is_some();
            self.queue.push_back(good);
            if is_answered {
                continue;
            }
            door.step(Input::Client { request, keyspace: KEYSPACE, command, door: Door::Any });
        }
        self.talk();
        self.answer();
        &self.answers
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.machines.iter_mut().for_each(|machine| machine.look_at_clock(self.now));
    }

    /// Until nobody has anything to say.
    fn talk(&mut self) {
        loop {
            self.machines.iter_mut().for_each(Machine::settle);
            let (first, others) = self.machines.split_first_mut().expect("at least one");
            let mut is_quiet = true;
            for (id, other) in (2..).map(NodeId).zip(others) {
                if other.hear(id, first, LEADER) {
                    other.settle();
                }
                is_quiet &= !first.hear(LEADER, other, id);
            }
            if is_quiet {
                break;
            }
        }
    }

    /// In the order of the requests, whichever came first.
    fn answer(&mut self) {
        self.answers.clear();
        for (request, reply) in self.machines[0].replies.drain(..) {
            self.queue[(request - self.first) as usize] = Some(reply);
        }
        while let Some(Some(reply)) = self.queue.pop_front_if(|first| first.is_some()) {
            self.first += 1;
            resp::encode(&reply, Protocol::Resp2, &mut self.answers);
        }
    }
}

const LEADER: NodeId = NodeId(1);

fn blueprint(nodes: Vec<NodeId>) -> Blueprint {
    let mut blueprint = Blueprint::new();
    let join =
        |id: &NodeId| Proposal::AddNode { id: *id, name: id.to_string(), zone: String::new(), addresses: Vec::new() };
    let joins: Vec<Proposal> = nodes.iter().map(join).collect();
    let create = Proposal::CreateKeyspace {
        name: "default".into(),
        kind: Kind::Store,
        replicas: nodes.len() as u8,
        min_in_sync: None,
        durability: Durability::Memory,
        placement: vec![nodes; BUCKETS],
    };
    for command in joins.into_iter().chain([create]) {
        blueprint.apply(&command).expect("an empty blueprint takes all of this");
    }
    blueprint
}
