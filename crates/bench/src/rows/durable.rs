//! Three copies on three disks, synced, before the answer. (Here all three are one disk, for everyone.)

use super::{Contender, ETCD, GODWIT, KEYS, Row, Stage, Turns, VALKEY, results_of_load};
use crate::error::Error;
use crate::load::Mix;
use crate::peers::{Etcd, Godwit, Level, Log, Peer, Replicated};
use crate::results::{Measure, Results, Wanted};

pub(super) const ROW: Row = Row {
    name: "durable",
    about: "three copies, synced to disk before the answer: one write at a time on each of 50 connections, and 16 at a time",
    against: &[Peer::Valkey, Peer::Etcd],
    run,
};

const SECONDS: f64 = 3.0;
const QUICK_SECONDS: f64 = 1.0;
const CELL: &str = "SET on three disks, 64 B, 50 connections";
/// Whoever has more than one write to do need not wait for each: so everyone is asked, over HTTP too.
const PIPELINED: &str = "SET on three disks, pipeline 16, 64 B, 50 connections";

fn run(stage: &Stage<'_>) -> Result<Results, Error> {
    let place = stage.place(ROW.name)?;
    let mut results = results_of_load(&ROW, &[Measure::PerSecond, Measure::Processor, Measure::P99]);
    results.guarantee(
        Peer::Godwit,
        "SET, level disk: synced on all three nodes before the answer; a failover keeps it and reads are linearizable",
    );
    let mut contenders = Vec::new();
    stage.say("durable: starting godwit");
    let godwit = Godwit {
        binary: stage.godwit()?,
        place: place.path(),
        port: stage.port(GODWIT),
        nodes: 3,
        replicas: 3,
        level: Level::Disk,
        buckets: 64,
        lanes: 1,
    };
    contenders.push(Contender { servers: godwit.start()?, mix: Mix::Set, is_cluster: true });
    if let Some(binary) = stage.binary(Peer::Valkey) {
        stage.say("durable: starting valkey");
        let port = stage.port(VALKEY);
        let replicated = Replicated { binary, place: place.path(), port, replicas: 2, log: Log::Always };
        let mix = Mix::SetWaitAof { copies: 2 };
        contenders.push(Contender { servers: replicated.start()?, mix, is_cluster: false });
        results.guarantee(
            Peer::Valkey,
            "appendfsync always; SET and WAITAOF 1 2 0 in one write: synced by the primary and both replicas before the answer to WAITAOF; \
             nothing keeps a replica without it from taking over",
        );
    }
    let etcd = stage.binary(Peer::Etcd);
    let etcd = etcd.map(|binary| Etcd { binary, place: place.path(), port: stage.port(ETCD), members: 3 });
    if let Some(etcd) = &etcd {
        stage.say("durable: starting etcd");
        contenders.push(Contender { servers: etcd.start()?, mix: Mix::EtcdPut, is_cluster: false });
        results.guarantee(
            Peer::Etcd,
            "put over the JSON gateway, three members as shipped: synced by two of three before the answer; a failover keeps it and reads are \
             linearizable",
        );
    }
    for contender in contenders.iter().filter(|contender| contender.mix != Mix::EtcdPut) {
        contender.fill(KEYS, 64)?;
    }
    let seconds = if stage.is_quick { QUICK_SECONDS } else { SECONDS };
    let length = stage.length(seconds);
    for (cell, pipeline) in [(CELL, 1), (PIPELINED, 16)] {
        let turns = Turns { value_bytes: 64, connections: 50, pipeline, length, keys: KEYS, rounds: stage.rounds };
        turns.run(stage, &mut results, cell, &contenders, None)?;
        results.bar_on_ratio(cell, Measure::PerSecond, Peer::Valkey, Wanted::AtLeast(1.0));
    }
    if let Some(etcd) = etcd.filter(|_| !stage.is_quick && stage.seconds.is_none()) {
        stage.say("durable: etcdctl check perf, which takes a minute");
        better_of_both(&mut results, etcd.own_measurement());
    }
    for cell in [CELL, PIPELINED] {
        results.bar_on_ratio(cell, Measure::PerSecond, Peer::Etcd, Wanted::AtLeast(20.0));
    }
    Ok(results)
}

/// What etcd's own load generator shows counts where it is more than what ours did.
fn better_of_both(results: &mut Results, own: Option<f64>) {
    let Some(own) = own else {
        results.notes.push("etcdctl check perf said nothing (Debian: apt-get install etcd-client)".into());
        return;
    };
    let sides = results.cells.iter_mut().flat_map(|cell| &mut cell.sides).filter(|side| side.who == Peer::Etcd);
    let rounds = sides.flat_map(|side| &mut side.rounds);
    let rates = rounds.filter_map(|round| round.get_mut(&Measure::PerSecond));
    let mut counted = 0;
    for rate in rates.filter(|rate| **rate < own) {
        *rate = own;
        counted += 1;
    }
    results.notes.push(format!(
        "etcdctl check perf --load l (500 clients over gRPC): {own:.0} writes per second, counted in the {counted} rounds in which the gateway had fewer"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Cell, Reading};

    #[test]
    fn the_better_of_both_counts() {
        let mut results = results_of_load(&ROW, &[]);
        let mut cell = Cell::new(CELL);
        [700.0, 900.0].iter().for_each(|rate| cell.add(Peer::Etcd, Reading::from([(Measure::PerSecond, *rate)])));
        results.cells.push(cell);
        better_of_both(&mut results, Some(800.0));
        assert_eq!(results.cells[0].sides[0].all(Measure::PerSecond), [800.0, 900.0]);
        better_of_both(&mut results, None);
        assert_eq!(results.notes.len(), 2);
    }
}
