//! A primary is killed, with the settings that each is shipped with: for how long some write waits, and which acknowledged writes are gone.
//! Then a planned swap of primaries.

use std::thread::sleep;
use std::time::Duration;

use super::{GODWIT, Row, Stage, VALKEY};
use crate::error::Error;
use crate::load::steadfast::{Chronicle, Steadfast, Target};
use crate::load::{self, At, Keys, Length, Mix, Outcome, Routes, Work};
use crate::peers::{Cluster, Godwit, Level, Log, Peer, Place, Servers, kill_one, must, until};
use crate::results::{Cell, Measure, Reading, Results, Wanted};

pub(super) const ROW: Row = Row {
    name: "failover",
    about: "a primary is killed (kill -9), or swapped as planned, under 50 clients that write: who waits how long, and what is lost",
    against: &[Peer::Valkey],
    run,
};

const CLIENTS: usize = 50;
const VALUE: usize = 64;
/// Before anything happens, and after all is well again.
const CALM: Duration = Duration::from_millis(1500);
/// The slowest of them needs about twenty seconds.
const PATIENCE: Duration = Duration::from_secs(90);
/// Until nobody is sent elsewhere any more.
const READ_AGAIN: usize = 5;
const KILLED: &str = "primary killed";
const SWAPPED: &str = "primary swapped as planned";

type Blow = fn(&Servers, &mut Results) -> Result<Reading, Error>;

fn run(stage: &Stage<'_>) -> Result<Results, Error> {
    let measures = [Measure::LongestWait, Measure::Lost, Measure::PerSecond];
    let mut results = Results::new(ROW.name, ROW.about, &measures, &[Measure::LongestWait]);
    results.guarantee(
        Peer::Godwit,
        "three nodes, three copies, level disk, as 'godwit dev' starts them: nothing that was acknowledged is ever lost",
    );
    let mut peers = vec![Peer::Godwit];
    if stage.binary(Peer::Valkey).is_some() {
        peers.push(Peer::Valkey);
        results.guarantee(
            Peer::Valkey,
            "three primaries with a replica each, as shipped (node timeout 15 s, asynchronous replication): the last acknowledged writes may \
             be lost",
        );
    }
    let rounds = stage.long_rounds();
    let (mut killed, mut swapped) = (Cell::new(KILLED), Cell::new(SWAPPED));
    for round in 0..rounds {
        for turn in 0..peers.len() {
            let peer = peers[(turn + round) % peers.len()];
            stage.say(format!("failover: round {} of {rounds}: {peer}", round + 1));
            let blows: [(&mut Cell, Blow); 2] = [(&mut swapped, swap), (&mut killed, kill)];
            for (cell, blow) in blows {
                let place = stage.place(&format!("failover-{peer}"))?;
                let servers = start(stage, peer, &place)?;
                cell.add(peer, blow(&servers, &mut results)?);
            }
        }
    }
    killed.sides.sort_by_key(|side| side.who);
    swapped.sides.sort_by_key(|side| side.who);
    results.cells = vec![killed, swapped];
    results.notes.push("per second: writes acknowledged in the calm before".into());
    results.bar_on_ratio(KILLED, Measure::LongestWait, Peer::Valkey, Wanted::AtMost(0.125));
    results.bar_on_every_round(KILLED, Measure::Lost, 0.0);
    results.bar_on_ratio(SWAPPED, Measure::LongestWait, Peer::Valkey, Wanted::AtMost(1.0));
    results.bar_on_every_round(SWAPPED, Measure::Lost, 0.0);
    Ok(results)
}

fn start(stage: &Stage<'_>, peer: Peer, place: &Place) -> Result<Servers, Error> {
    let place = place.path();
    match stage.binary(peer).filter(|_| peer == Peer::Valkey) {
        Some(binary) => {
            let (port, slots) = (stage.port(VALKEY), Cluster::thirds());
            Cluster { binary, place, port, slots, replicas: 1, log: Log::AsShipped }.start()
        }
        None => {
            let (binary, port, level) = (stage.godwit()?, stage.port(GODWIT), Level::Disk);
            Godwit { binary, place, port, nodes: 3, replicas: 3, level, buckets: 64, lanes: 1 }.start()
        }
    }
}

/// Node 1 leads before, and somebody who has a copy of that afterwards.
fn swap(servers: &Servers, results: &mut Results) -> Result<Reading, Error> {
    let writers = Steadfast::start(&servers.nodes, CLIENTS, VALUE, Target::Fresh)?;
    sleep(CALM);
    let at = writers.now();
    // The replica of Valkey's first primary is its fourth node; each of ours has a copy of everything.
    let successor = servers.nodes[if servers.who == Peer::Valkey { 3 } else { 1 }];
    must(successor, &["CLUSTER", "FAILOVER"])?;
    until("the successor leads", PATIENCE, || {
        let routes = Routes::learn(&[successor]);
        let first = servers.nodes[0];
        Ok(routes.is_some_and(|routes| routes.nodes().contains(&successor) && !routes.nodes().contains(&first)))
    })?;
    sleep(CALM);
    conclude(servers, &writers.stop()?, at, results)
}

/// Node 1 of a new cluster: it leads a third, and of Godwit's it leads the meta group, too.
fn kill(servers: &Servers, results: &mut Results) -> Result<Reading, Error> {
    let writers = Steadfast::start(&servers.nodes, CLIENTS, VALUE, Target::Fresh)?;
    sleep(CALM);
    let at = writers.now();
    kill_one(servers.processes[0]);
    let (victim, others) = servers.nodes.split_first().expect("a cluster has nodes");
    until("somebody else leads everything", PATIENCE, || {
        let is_replaced = |node| Routes::learn(&[node]).is_some_and(|routes| !routes.nodes().contains(victim));
        Ok(others.iter().copied().all(is_replaced))
    })?;
    sleep(CALM);
    conclude(servers, &writers.stop()?, at, results)
}

fn conclude(servers: &Servers, chronicle: &Chronicle, at: u64, results: &mut Results) -> Result<Reading, Error> {
    let lost = lost(servers, chronicle)?;
    let mut troubles: Vec<_> = chronicle.troubles.iter().map(|(what, count)| format!("{what} {count}")).collect();
    troubles.sort();
    results.notes.push(format!(
        "{}: {} writes acknowledged; heard meanwhile: {}",
        servers.who,
        chronicle.acks.len(),
        troubles.join(", ")
    ));
    let wait = chronicle.longest_wait(at, u64::MAX).as_secs_f64() * 1e3;
    let rate = chronicle.rate(at.saturating_sub(1_000_000), at);
    Ok(Reading::from([(Measure::LongestWait, wait), (Measure::Lost, lost as f64), (Measure::PerSecond, rate)]))
}

/// Every key that was acknowledged is asked for once more.
fn lost(servers: &Servers, chronicle: &Chronicle) -> Result<u64, Error> {
    let work = Work {
        mix: Mix::Get,
        value_bytes: 0,
        keys: Keys::Once(chronicle.keys()),
        connections: 12,
        pipeline: 16,
        length: Length::EachKey,
        at: At::Cluster(servers.nodes.clone()),
        servers: Vec::new(),
    };
    let (asked, mut why) = (chronicle.acks.len() as u64, String::new());
    for _ in 0..READ_AGAIN {
        let outcome = load::run(&work)?;
        if outcome.operations == asked {
            return Ok(outcome.missing);
        }
        let Outcome { operations, moved, error, .. } = outcome;
        why = format!("{operations} of {asked} keys could be read; {moved} redirects; {}", error.unwrap_or_default());
        sleep(CALM);
    }
    Err(Error::Server(format!("{} after it was struck: {why}", servers.who)))
}
