//! Three copies before the answer, none of them synced: what it costs that a write survives the loss of machines.

use super::{Contender, GODWIT, KEYS, REDIS, Row, Stage, Turns, VALKEY, results_of_load};
use crate::error::Error;
use crate::load::Mix;
use crate::peers::{Godwit, Level, Log, Peer, Replicated};
use crate::results::{Measure, Results, Wanted};

pub(super) const ROW: Row = Row {
    name: "replicated",
    about: "three copies before the answer, synced within a second: one write at a time on each of 50 connections",
    against: &[Peer::Valkey, Peer::Redis],
    run,
};

const SECONDS: f64 = 2.0;
const QUICK_SECONDS: f64 = 1.0;
/// One log, with one primary and two that follow it: what a primary of Valkey with two replicas is.
const ONE: &str = "SET on three copies, 64 B, 50 connections";
/// As `godwit dev` makes them: a third of the buckets is led by each node.
const SPREAD: &str = "the same in 64 buckets led by three nodes";
/// Above the first cluster's ports.
const SECOND: u16 = 10;

fn run(stage: &Stage<'_>) -> Result<Results, Error> {
    let place = stage.place(ROW.name)?;
    let mut results = results_of_load(&ROW, &[Measure::PerSecond, Measure::Processor, Measure::P99]);
    results.guarantee(
        Peer::Godwit,
        "SET, level memory: on all three nodes, in their logs, before the answer; a failover keeps it and reads are linearizable",
    );
    let binary = stage.godwit()?;
    let godwit = |buckets, port| -> Result<Contender, Error> {
        stage.say(format!("replicated: starting godwit with buckets: {buckets}"));
        let (place, level) = (place.path(), Level::Memory);
        let servers = Godwit { binary, place, port, nodes: 3, replicas: 3, level, buckets, lanes: 1 }.start()?;
        Ok(Contender { servers, mix: Mix::Set, is_cluster: true })
    };
    let mut contenders = vec![godwit(1, stage.port(GODWIT))?];
    for (peer, port) in [(Peer::Valkey, VALKEY), (Peer::Redis, REDIS)] {
        let Some(binary) = stage.binary(peer) else { continue };
        stage.say(format!("replicated: starting {peer}"));
        let port = stage.port(port);
        let replicated = Replicated { binary, place: place.path(), port, replicas: 2, log: Log::EverySecond };
        contenders.push(Contender { servers: replicated.start()?, mix: Mix::SetWait { copies: 2 }, is_cluster: false });
        results.guarantee(
            peer,
            "SET and WAIT 2 0 in one write: both replicas have received it before the answer to WAIT; anybody may read it before that, and \
             nothing keeps a replica without it from taking over",
        );
    }
    contenders.push(godwit(64, stage.port(GODWIT + SECOND))?);
    for contender in &contenders {
        contender.fill(KEYS, 64)?;
    }
    let seconds = if stage.is_quick { QUICK_SECONDS } else { SECONDS };
    let length = stage.length(seconds);
    let turns = Turns { value_bytes: 64, connections: 50, pipeline: 1, length, keys: KEYS, rounds: stage.rounds };
    let (first, last) = (&contenders[..contenders.len() - 1], &contenders[1..]);
    for (cell, contenders) in [(ONE, first), (SPREAD, last)] {
        turns.run(stage, &mut results, cell, contenders, None)?;
    }
    for cell in [ONE, SPREAD] {
        results.bar_on_ratio(cell, Measure::PerSecond, Peer::Valkey, Wanted::AtLeast(1.5));
        results.bar_on_ratio(cell, Measure::P99, Peer::Valkey, Wanted::AtMost(1.0));
        results.bar_on_ratio(cell, Measure::Processor, Peer::Valkey, Wanted::AtMost(1.0));
    }
    Ok(results)
}
