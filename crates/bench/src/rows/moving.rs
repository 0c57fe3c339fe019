//! Half of the data goes to another node while clients write: how long that takes, and what they notice.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use values::Reply;

use super::{Contender, GODWIT, Row, Stage, VALKEY};
use crate::client::{Client, text_of};
use crate::error::Error;
use crate::load::Mix;
use crate::load::Routes;
use crate::load::steadfast::{Steadfast, Target};
use crate::peers::{Cluster, Godwit, Level, Log, Peer, Place, Servers, must, until};
use crate::results::{Cell, Measure, Reading, Results, Wanted};

pub(super) const ROW: Row = Row {
    name: "move",
    about: "half of the slots go to another node under 50 clients that write: time, longest wait of a write, throughput meanwhile",
    against: &[Peer::Valkey],
    run,
};

const KEYS: u32 = 250_000;
const QUICK_KEYS: u32 = 60_000;
const VALUE: usize = 1024;
const CLIENTS: usize = 50;
const CALM: Duration = Duration::from_secs(2);
/// After loading: what is left to be written to disk by then is not part of the move.
const LOADED: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(180);
const ANSWER: Duration = Duration::from_secs(5);
const CELL: &str = "8192 slots to another node, values of 1 KB";

fn run(stage: &Stage<'_>) -> Result<Results, Error> {
    let measures =
        [Measure::Took, Measure::MegabytesPerSecond, Measure::LongestWait, Measure::Meanwhile, Measure::PerSecond];
    let mut results =
        Results::new(ROW.name, ROW.about, &measures, &[Measure::LongestWait, Measure::MegabytesPerSecond]);
    results.guarantee(
        Peer::Godwit,
        "level memory, one copy on two nodes: a bucket's new copy has everything before it leads, and nothing acknowledged is lost whoever dies",
    );
    let mut peers = vec![Peer::Godwit];
    if stage.binary(Peer::Valkey).is_some() {
        peers.push(Peer::Valkey);
        results.guarantee(
            Peer::Valkey,
            "appendonly yes, appendfsync everysec, two primaries, CLUSTER MIGRATESLOTS: all slots in one moment",
        );
    }
    let (keys, rounds) = (if stage.is_quick { QUICK_KEYS } else { KEYS }, stage.long_rounds());
    let mut cell = Cell::new(CELL);
    for round in 0..rounds {
        for turn in 0..peers.len() {
            let peer = peers[(turn + round) % peers.len()];
            stage.say(format!("move: round {} of {rounds}: {peer}", round + 1));
            let place = stage.place(&format!("move-{peer}"))?;
            let servers = start(stage, peer, &place)?;
            cell.add(peer, measure(servers, keys)?);
        }
    }
    cell.sides.sort_by_key(|side| side.who);
    results.cells.push(cell);
    results
        .notes
        .push(format!("{keys} keys, of which about half move; per second: writes acknowledged in the calm before"));
    results.bar_on_ratio(CELL, Measure::LongestWait, Peer::Valkey, Wanted::AtMost(0.125));
    results.bar_on_ratio(CELL, Measure::MegabytesPerSecond, Peer::Valkey, Wanted::AtLeast(1.0));
    Ok(results)
}

/// The first of two nodes has everything.
fn start(stage: &Stage<'_>, peer: Peer, place: &Place) -> Result<Servers, Error> {
    let place = place.path();
    if let Some(binary) = stage.binary(peer).filter(|_| peer == Peer::Valkey) {
        let (port, slots) = (stage.port(VALKEY), vec![Some((0, 16383)), None]);
        return Cluster { binary, place, port, slots, replicas: 0, log: Log::EverySecond }.start();
    }
    let (binary, port, level) = (stage.godwit()?, stage.port(GODWIT), Level::Memory);
    let servers = Godwit { binary, place, port, nodes: 2, replicas: 1, level, buckets: 64, lanes: 1 }.start()?;
    let [from, to] = servers.nodes[..] else { return Err(Error::Server("there are not two nodes".into())) };
    let routes = Routes::learn(&servers.nodes).ok_or_else(|| Error::Server("nobody says who leads what".into()))?;
    migrate(to, from, &routes.ranges_of(to))?;
    until("the first node leads these slots", PATIENCE, || is_over(to))?;
    until("the first node leads everything", PATIENCE, || leads_alone(from, 0, 16383))?;
    Ok(servers)
}

fn measure(servers: Servers, keys: u32) -> Result<Reading, Error> {
    let contender = Contender { servers, mix: Mix::Set, is_cluster: true };
    contender.fill(keys, VALUE)?;
    sleep(LOADED);
    let servers = &contender.servers;
    let [from, to] = servers.nodes[..] else { return Err(Error::Server("there are not two nodes".into())) };
    let before = count(to);
    let writers = Steadfast::start(&servers.nodes, CLIENTS, VALUE, Target::Among(keys))?;
    sleep(CALM);
    let begun = writers.now();
    migrate(from, to, &[(0, 8191)])?;
    until("the slots have moved", PATIENCE, || Ok(is_over(from)? && leads_alone(to, 0, 8191)?))?;
    let ended = writers.now();
    sleep(CALM);
    let moved = count(to).saturating_sub(before);
    let chronicle = writers.stop()?;
    let took = (ended - begun) as f64 / 1e6;
    let calm = chronicle.rate(begun.saturating_sub(1_500_000), begun);
    Ok(Reading::from([
        (Measure::Took, took),
        (Measure::MegabytesPerSecond, (moved * VALUE as u64) as f64 / 1e6 / took),
        (Measure::LongestWait, chronicle.longest_wait(begun, u64::MAX).as_secs_f64() * 1e3),
        (Measure::Meanwhile, 100.0 * chronicle.rate(begun, ended) / calm.max(1.0)),
        (Measure::PerSecond, calm),
    ]))
}

fn migrate(from: SocketAddr, to: SocketAddr, ranges: &[(u16, u16)]) -> Result<(), Error> {
    let id = must(to, &["CLUSTER", "MYID"])?;
    let ranges: Vec<String> = ranges.iter().flat_map(|(first, last)| [first.to_string(), last.to_string()]).collect();
    let ranges: Vec<&str> = ranges.iter().map(String::as_str).collect();
    must(from, &[&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"], &ranges[..], &["NODE", &id]].concat()).map(drop)
}

/// Whether everything that this node was asked to give away is done. What failed is an error.
fn is_over(from: SocketAddr) -> Result<bool, Error> {
    let mut client = Client::connect(from, ANSWER).map_err(Error::system(format!("{from}")))?;
    let reply = client.ask(&["CLUSTER", "GETSLOTMIGRATIONS"]).map_err(Error::system(format!("{from}")))?;
    let Reply::Array(migrations) = reply else { return Ok(false) };
    for migration in &migrations {
        let state = field(migration, "state");
        match state.as_str() {
            "success" => {}
            "failed" | "cancelled" => {
                return Err(Error::Server(format!("a migration {state}: {}", field(migration, "message"))));
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// A map, or in RESP2 a flat array of names and values.
fn field(migration: &Reply, name: &str) -> String {
    let Reply::Array(parts) = migration else { return String::new() };
    let found = parts.chunks_exact(2).find(|pair| text_of(&pair[0]) == name);
    found.map(|pair| text_of(&pair[1])).unwrap_or_default()
}

fn leads_alone(node: SocketAddr, first: u16, last: u16) -> Result<bool, Error> {
    let led = Routes::learn(&[node])
        .map_or(0, |routes| (first..=last).filter(|slot| routes.node_of(blueprint::Slot(*slot)) == Some(node)).count());
    Ok(led == usize::from(last - first) + 1)
}

/// Keys that it leads.
fn count(node: SocketAddr) -> u64 {
    match Client::connect(node, ANSWER).and_then(|mut client| client.ask(&["DBSIZE"])) {
        Ok(Reply::Number(count)) => u64::try_from(count).unwrap_or(0),
        _ => 0,
    }
}
