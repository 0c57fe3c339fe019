//! How much nodes say to each other: idle, and while one of them is replaced. By the same nodes in the same world as everything else,
//! with nothing going wrong but one death.

use std::collections::BTreeSet;

use blueprint::{Conduct, Honest, NodeId};
use node::{Origin, Output, PeerMessage};
use serde_json::{Value, json};

use crate::plan::{Faults, MILLI, Plan, SECOND};
use crate::report::{self, Paint};
use crate::runner;
use crate::trace::Trace;
use crate::world::{Failure, World, fail};

/// Sizes that are compared.
pub const SIZES: [usize; 3] = [5, 20, 50];
const COPIES: u8 = 3;
const BUCKETS_PER_NODE: usize = 4;
/// Until then everything has come to rest.
const SETTLED: u64 = 20 * SECOND;
/// Two refreshes of the directory, and whole rounds of everything else.
const IDLE: u64 = 20 * SECOND;
/// A departure that takes longer never ends.
const LONGEST_DEPARTURE: u64 = 120 * SECOND;
/// Who dies. One of the first few: they are busier than most.
const VICTIM: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Replication,
    Directory,
    Coordinators,
    Hops,
    /// What goes to the meta group: readings, reports, proposals. Not to a peer, so it is in no frame.
    Meta,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Replication, Self::Directory, Self::Coordinators, Self::Hops, Self::Meta];

    pub fn words(self) -> &'static str {
        match self {
            Self::Replication => "replication",
            Self::Directory => "directory",
            Self::Coordinators => "coordinators",
            Self::Hops => "hops",
            Self::Meta => "meta group",
        }
    }
}

/// Everything that was sent since it was last cleared, by all nodes together.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    messages: [u64; Kind::ALL.len()],
    /// All that a node sends to the same peer at once is one frame: that is how links carry it.
    frames: u64,
    /// Encoded, without the frame around it.
    directory_bytes: u64,
    /// Who looks, when, and to whom it has spoken in this look.
    look: (u64, usize),
    told: BTreeSet<NodeId>,
}

impl Traffic {
    pub(crate) fn count(&mut self, time: u64, host: usize, output: &Output) {
        let (kind, to) = match output {
            Output::Send { to, message } => (kind(message), Some(*to)),
            Output::Answer { origin, .. } | Output::Read { origin, .. } => match origin {
                Origin::Hop { node, .. } => (Kind::Hops, Some(*node)),
                Origin::Client(_) => return,
            },
            Output::Propose(_) | Output::Report(_) | Output::ReadMeta { .. } => (Kind::Meta, None),
            Output::Write { .. }
            | Output::Store { .. }
            | Output::Release { .. }
            | Output::Mail { .. }
            | Output::Rebalance { .. }
            | Output::Erased { .. }
            | Output::Resumed { .. }
            | Output::Event { .. } => return,
        };
        self.messages[kind as usize] += 1;
        if let Output::Send { message: PeerMessage::Directory(envelope), .. } = output {
            self.directory_bytes += postcard::to_allocvec(envelope).map_or(0, |bytes| bytes.len() as u64);
        }
        if self.look != (time, host) {
            self.look = (time, host);
            self.told.clear();
        }
        if to.is_some_and(|to| self.told.insert(to)) {
            self.frames += 1;
        }
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

fn kind(message: &PeerMessage) -> Kind {
    match message {
        PeerMessage::Bucket { .. } => Kind::Replication,
        PeerMessage::Hop { .. } | PeerMessage::HopAnswer { .. } => Kind::Hops,
        PeerMessage::Probe { .. }
        | PeerMessage::Probed { .. }
        | PeerMessage::Push(_)
        | PeerMessage::Echoed(_)
        | PeerMessage::Order(_) => Kind::Coordinators,
        PeerMessage::Directory(_) => Kind::Directory,
    }
}

/// What was sent over some time, by how many.
#[derive(Clone, Debug)]
pub struct Measured {
    pub nodes: usize,
    pub when: &'static str,
    pub micros: u64,
    senders: usize,
    traffic: Traffic,
}

impl Measured {
    fn per_node_and_second(&self, count: u64) -> f64 {
        count as f64 * SECOND as f64 / self.micros.max(1) as f64 / self.senders as f64
    }

    pub fn messages(&self, kind: Kind) -> f64 {
        self.per_node_and_second(self.traffic.messages[kind as usize])
    }

    /// To peers: without what goes to the meta group.
    pub fn all_messages(&self) -> f64 {
        Kind::ALL.into_iter().filter(|kind| *kind != Kind::Meta).map(|kind| self.messages(kind)).sum()
    }

    pub fn frames(&self) -> f64 {
        self.per_node_and_second(self.traffic.frames)
    }

    pub fn directory_bytes(&self) -> f64 {
        self.per_node_and_second(self.traffic.directory_bytes)
    }

    fn json(&self) -> Value {
        let mut row = json!({
            "nodes": self.nodes,
            "when": self.when,
            "seconds": self.micros as f64 / SECOND as f64,
            "messages": self.all_messages(),
            "frames": self.frames(),
            "directory_bytes": self.directory_bytes(),
        });
        for kind in Kind::ALL {
            row[kind.words()] = json!(self.messages(kind));
        }
        row
    }
}

/// Idle and during a departure, for each size. The same every time.
pub fn measure(sizes: &[usize]) -> Result<Vec<Measured>, Failure> {
    let mut rows = vec![Ok(Vec::new()); sizes.len()];
    runner::on_all_cores(
        0..sizes.len() as u64,
        |at| measure_one(sizes[sizes.len() - 1 - at as usize]),
        |at, row| {
            rows[sizes.len() - 1 - at as usize] = row;
            true
        },
    );
    rows.into_iter().collect::<Result<Vec<_>, _>>().map(|rows| rows.into_iter().flatten().collect())
}

fn measure_one(nodes: usize) -> Result<Vec<Measured>, Failure> {
    let mut world = World::<Honest>::quiet(nodes);
    world.run_until(SETTLED)?;
    if let Err(why) = world.is_at_rest() {
        return fail("traffic", format!("{nodes} nodes do not come to rest: {why}"));
    }
    world.clear_traffic();
    world.run_until(SETTLED + IDLE)?;
    let idle = world.measured("idle", IDLE, nodes);
    let died = world.time;
    world.crash(VICTIM);
    world.clear_traffic();
    while !world.has_full_copies_without(VICTIM) {
        if world.time > died + LONGEST_DEPARTURE {
            return fail("traffic", format!("{nodes} nodes, one dead: {}", world.why(None).join("\n")));
        }
        world.run_until(world.time + 10 * MILLI)?;
    }
    let departure = world.measured("departure", world.time - died, nodes - 1);
    Ok(vec![idle, departure])
}

impl<C: Conduct> World<C> {
    /// Nothing goes wrong here, and nobody asks for anything.
    fn quiet(nodes: usize) -> Self {
        let plan = Plan {
            nodes,
            lanes: (1, 1),
            buckets: BUCKETS_PER_NODE * nodes,
            replicas: COPIES,
            minimum: 2,
            second_keyspace: false,
            far: 0,
            busy: false,
            clients: 0,
            unrest: u64::MAX / 4,
            faults: Faults::none(),
            move_every: 0,
            latency: 500,
            disk_latency: MILLI,
            upkeep: 250 * MILLI,
            memory_level: false,
            ambush: 0,
            steady: true,
            auto: false,
            wide: false,
            ..Plan::draw(0)
        };
        let mut world = Self::new(plan, Trace::silent());
        let recovery_delay = world.config.limits.recovery_delay;
        world.config = node::Config::default();
        world.config.limits.recovery_delay = recovery_delay;
        world.traffic = Some(Traffic::default());
        world.begin();
        world
    }

    fn clear_traffic(&mut self) {
        self.traffic.as_mut().expect("it is measured").clear();
    }

    fn measured(&self, when: &'static str, micros: u64, senders: usize) -> Measured {
        let traffic = self.traffic.clone().expect("it is measured");
        Measured { nodes: self.plan.nodes, when, micros, senders, traffic }
    }

    fn has_full_copies_without(&self, host: usize) -> bool {
        let dead = self.hosts[host].id;
        self.meta.blueprint.buckets.values().filter_map(|bucket| bucket.government()).all(|government| {
            let full = government.size() == usize::from(self.plan.replicas) && government.candidates.is_empty();
            full && government.members().all(|member| member.node != dead)
        })
    }
}

pub fn text(rows: &[Measured], paint: Paint) -> String {
    let titles = ["nodes", "when", "seconds"].into_iter().chain(Kind::ALL.map(Kind::words));
    let titles = titles.chain(["to peers", "frames", "directory bytes"]).map(String::from);
    let mut table = report::table(paint, titles);
    for row in rows {
        let rates = Kind::ALL.into_iter().map(|kind| row.messages(kind));
        let rates = rates.chain([row.all_messages(), row.frames()]).map(|rate| format!("{rate:.1}"));
        let first = [row.nodes.to_string(), row.when.into(), format!("{:.1}", row.micros as f64 / SECOND as f64)];
        table.add_row(first.into_iter().chain(rates).chain([report::grouped(row.directory_bytes() as u64)]));
    }
    report::right(&mut table, 0..1);
    report::right(&mut table, 2..Kind::ALL.len() + 6);
    format!(
        "messages per node and second; {COPIES} copies, {BUCKETS_PER_NODE} buckets per node; a departure lasts from a silent death \
         until all copies are there again\n{table}\n"
    )
}

pub fn json(rows: &[Measured]) -> Value {
    rows.iter().map(Measured::json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_every_time() {
        let measured = || text(&measure(&[4, 5]).expect("nothing goes wrong"), Paint::Plain);
        assert_eq!(measured(), measured());
    }
}
