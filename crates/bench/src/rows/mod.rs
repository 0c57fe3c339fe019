//! The rows: each a question that somebody asks who has to choose, put to everyone in the same words.

mod durable;
mod failover;
mod memory;
mod moving;
mod replicated;
mod scaling;
mod single;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::error::Error;
use crate::load::{self, At, Keys, Length, Mix, Work};
use crate::peers::{Binary, Peer, Place, Servers};
use crate::results::{Cell, Measure, Results, reading};

/// Keys that are drawn from, unless a row needs others.
const KEYS: u32 = 100_000;
/// Between two turns: what one side had to finish is not the other's burden.
const SETTLE: Duration = Duration::from_millis(100);
/// How long each turn runs before it counts, as a part of what counts.
const WARM_UP: f64 = 0.2;

/// Where the ports of each begin, above the first.
const GODWIT: u16 = 0;
const VALKEY: u16 = 400;
const REDIS: u16 = 430;
const ETCD: u16 = 460;
/// The highest port that anything here uses, above the first.
pub(crate) const PORTS: u16 = 500;

#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    pub about: &'static str,
    /// Those it is compared with.
    pub against: &'static [Peer],
    run: fn(&Stage<'_>) -> Result<Results, Error>,
}

pub const ROWS: [Row; 7] =
    [single::ROW, replicated::ROW, durable::ROW, failover::ROW, moving::ROW, memory::ROW, scaling::ROW];

/// What every row needs.
#[derive(Debug)]
pub struct Stage<'a> {
    pub binaries: &'a [Binary],
    pub rounds: usize,
    pub is_quick: bool,
    /// How long each turn is measured; a row has its own opinion otherwise.
    pub seconds: Option<f64>,
    pub base_port: u16,
    /// Where servers keep their data, on the disk that is to be measured.
    pub place: &'a Path,
    pub progress: &'a ProgressBar,
}

impl Row {
    pub fn run(&self, stage: &Stage<'_>) -> Result<Results, Error> {
        (self.run)(stage)
    }
}

impl Stage<'_> {
    fn binary(&self, peer: Peer) -> Option<&Binary> {
        self.binaries.iter().find(|binary| binary.peer == peer)
    }

    fn godwit(&self) -> Result<&Binary, Error> {
        self.binary(Peer::Godwit).ok_or_else(|| Error::Server("there is no godwit to be compared".into()))
    }

    fn port(&self, above: u16) -> u16 {
        self.base_port + above
    }

    /// An empty directory for one row.
    fn place(&self, name: &str) -> Result<Place, Error> {
        Place::make(&self.place.join(name))
    }

    fn say(&self, what: impl Into<String>) {
        self.progress.set_message(what.into());
        self.progress.tick();
    }

    fn length(&self, seconds: f64) -> Length {
        let measured = Duration::from_secs_f64(self.seconds.unwrap_or(seconds));
        Length::For { warm_up: measured.mul_f64(WARM_UP), measured }
    }

    /// Rounds of what takes long: one is enough for a glance.
    fn long_rounds(&self) -> usize {
        if self.is_quick { 1 } else { self.rounds }
    }
}

/// Someone who takes part in a row, and how it is asked.
struct Contender {
    servers: Servers,
    mix: Mix,
    is_cluster: bool,
}

impl Contender {
    fn at(&self) -> At {
        if self.is_cluster { At::Cluster(self.servers.nodes.clone()) } else { At::Any(self.servers.nodes.clone()) }
    }

    /// Every key once, with values of that size.
    fn fill(&self, keys: u32, value_bytes: usize) -> Result<load::Outcome, Error> {
        let mix = if self.mix == Mix::EtcdPut { Mix::EtcdPut } else { Mix::Set };
        let pipeline = if mix == Mix::EtcdPut { 1 } else { 32 };
        let outcome = load::run(&Work {
            mix,
            value_bytes,
            keys: Keys::first(keys),
            connections: 8,
            pipeline,
            length: Length::EachKey,
            at: self.at(),
            servers: self.servers.processes.clone(),
        })?;
        if outcome.operations != u64::from(keys) {
            let error = outcome.error.as_deref().unwrap_or("redirects");
            let (done, who) = (outcome.operations, self.servers.who);
            return Err(Error::Server(format!(
                "{who} took {done} of {keys} keys that it was to be filled with: {error}"
            )));
        }
        Ok(outcome)
    }
}

/// One cell of a load: everyone in turn, round by round, each round begun by another.
#[derive(Clone, Copy, Debug)]
struct Turns {
    value_bytes: usize,
    connections: usize,
    pipeline: usize,
    length: Length,
    keys: u32,
    rounds: usize,
}

impl Turns {
    /// `mix`: what is asked, if not what each contender is asked for in this row.
    fn run(
        &self,
        stage: &Stage<'_>,
        results: &mut Results,
        name: &str,
        contenders: &[Contender],
        mix: Option<Mix>,
    ) -> Result<(), Error> {
        let mut cell = Cell::new(name);
        for round in 0..self.rounds {
            for turn in 0..contenders.len() {
                let contender = &contenders[(turn + round) % contenders.len()];
                let who = contender.servers.who;
                stage.say(format!("{}: {name}, round {} of {}: {who}", results.row, round + 1, self.rounds));
                sleep(SETTLE);
                let outcome = load::run(&Work {
                    mix: mix.unwrap_or(contender.mix),
                    value_bytes: self.value_bytes,
                    keys: Keys::Random(self.keys),
                    connections: self.connections,
                    pipeline: self.pipeline,
                    length: self.length,
                    at: contender.at(),
                    servers: contender.servers.processes.clone(),
                })?;
                results.note(name, who, &outcome);
                cell.add(who, reading(&outcome));
            }
        }
        // However the rounds were turned: ours first.
        cell.sides.sort_by_key(|side| side.who);
        results.cells.push(cell);
        Ok(())
    }
}

/// The measures of a load, of which throughput and processor time are compared.
fn results_of_load(row: &Row, compared: &[Measure]) -> Results {
    Results::new(row.name, row.about, &Measure::OF_LOAD, compared)
}
