//! One copy of everything, and no sync on the way to the answer: what the protocol, the tables and the log cost.

use std::process::{Command, Stdio};

use super::{Contender, GODWIT, KEYS, REDIS, Row, Stage, Turns, VALKEY, results_of_load};
use crate::error::Error;
use crate::load::Mix;
use crate::peers::{Godwit, Level, Log, Peer, Single, resolve};
use crate::results::{Cell, Measure, Reading, Results, Wanted};

pub(super) const ROW: Row = Row {
    name: "single",
    about: "one copy, synced within a second: SET, GET, four reads to one write, INCR",
    against: &[Peer::Valkey, Peer::Redis],
    run,
};

const SECONDS: f64 = 1.0;
const QUICK_SECONDS: f64 = 0.7;

fn run(stage: &Stage<'_>) -> Result<Results, Error> {
    let place = stage.place(ROW.name)?;
    let mut results = results_of_load(&ROW, &[Measure::PerSecond, Measure::Processor]);
    results.guarantee(
        Peer::Godwit,
        "level memory, one copy: handed to the operating system before the answer (survives the death of the process), synced within a second; \
         reads are linearizable",
    );
    let mut contenders = Vec::new();
    stage.say("single: starting godwit");
    let godwit = Godwit {
        binary: stage.godwit()?,
        place: place.path(),
        port: stage.port(GODWIT),
        nodes: 1,
        replicas: 1,
        level: Level::Memory,
        buckets: 64,
        lanes: 1,
    };
    contenders.push(Contender { servers: godwit.start()?, mix: Mix::Set, is_cluster: false });
    for (peer, port) in [(Peer::Valkey, VALKEY), (Peer::Redis, REDIS)] {
        let Some(binary) = stage.binary(peer) else { continue };
        stage.say(format!("single: starting {peer}"));
        let single = Single { binary, place: place.path(), port: stage.port(port), log: Log::EverySecond };
        contenders.push(Contender { servers: single.start()?, mix: Mix::Set, is_cluster: false });
        results.guarantee(
            peer,
            "appendonly yes, appendfsync everysec: written to the log before the answer (survives the death of the process), synced within a second",
        );
    }
    for (size, value_bytes) in sizes(stage) {
        stage.say(format!("single: filling everyone with values of {size}"));
        for contender in &contenders {
            contender.fill(KEYS, value_bytes)?;
        }
        for connections in if stage.is_quick { vec![50] } else { vec![50, 500] } {
            for pipeline in [1, 16] {
                for (command, mix) in commands(stage) {
                    let seconds = if stage.is_quick { QUICK_SECONDS } else { SECONDS };
                    let name = name_of(command, pipeline, size, connections);
                    let turns = Turns {
                        value_bytes,
                        connections,
                        pipeline,
                        length: stage.length(seconds),
                        keys: KEYS,
                        rounds: stage.rounds,
                    };
                    turns.run(stage, &mut results, &name, &contenders, Some(mix))?;
                }
            }
        }
    }
    witness(stage, &mut results, &contenders);
    for command in ["SET", "GET"] {
        let (one, many) = (name_of(command, 1, "64 B", 50), name_of(command, 16, "64 B", 50));
        results.bar_on_ratio(&one, Measure::PerSecond, Peer::Valkey, Wanted::AtLeast(1.0));
        results.bar_on_ratio(&many, Measure::PerSecond, Peer::Valkey, Wanted::AtLeast(1.1));
        results.bar_on_ratio(&one, Measure::Processor, Peer::Valkey, Wanted::AtMost(1.0));
        results.bar_on_ratio(&many, Measure::Processor, Peer::Valkey, Wanted::AtMost(1.0));
    }
    Ok(results)
}

fn sizes(stage: &Stage<'_>) -> Vec<(&'static str, usize)> {
    if stage.is_quick { vec![("64 B", 64)] } else { vec![("64 B", 64), ("1 KB", 1024)] }
}

fn commands(stage: &Stage<'_>) -> Vec<(&'static str, Mix)> {
    let all = [("SET", Mix::Set), ("GET", Mix::Get), ("80/20 GET/SET", Mix::Mixed), ("INCR", Mix::Incr)];
    if stage.is_quick { all[..2].to_vec() } else { all.to_vec() }
}

fn name_of(command: &str, pipeline: usize, size: &str, connections: usize) -> String {
    format!("{command}, pipeline {pipeline}, {size}, {connections} connections")
}

/// The same by a load generator that is not ours.
fn witness(stage: &Stage<'_>, results: &mut Results, contenders: &[Contender]) {
    let Some(benchmark) = resolve("redis-benchmark".as_ref()) else {
        results.notes.push("no redis-benchmark as a witness (Debian: apt-get install redis-tools)".into());
        return;
    };
    let rounds = if stage.is_quick { 1 } else { stage.rounds };
    for (pipeline, requests) in [(1, 60_000), (16, 600_000)] {
        let requests = (f64::from(requests) * stage.seconds.unwrap_or(1.0)).max(1000.0) as u32;
        for command in ["SET", "GET"] {
            let mut cell = Cell::new(format!("redis-benchmark {command}, pipeline {pipeline}, 64 B, 50 connections"));
            for round in 0..rounds {
                for turn in 0..contenders.len() {
                    let Contender { servers, .. } = &contenders[(turn + round) % contenders.len()];
                    stage.say(format!("single: {}, round {} of {rounds}: {}", cell.name, round + 1, servers.who));
                    let mut ask = Command::new(&benchmark);
                    ask.args([
                        "-h",
                        "127.0.0.1",
                        "-p",
                        &servers.nodes[0].port().to_string(),
                        "-t",
                        &command.to_lowercase(),
                    ]);
                    ask.args(["-n", &requests.to_string(), "-c", "50", "-P", &pipeline.to_string(), "-d", "64"]);
                    ask.args(["-r", &KEYS.to_string(), "--csv"]).stdin(Stdio::null());
                    let said = ask.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
                    let line = said.unwrap_or_default();
                    if let Some(reading) = read_csv(&line, command) {
                        cell.add(servers.who, reading);
                    }
                }
            }
            cell.sides.sort_by_key(|side| side.who);
            results.cells.push(cell);
        }
    }
}

/// `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"`.
fn read_csv(text: &str, command: &str) -> Option<Reading> {
    let line = text.lines().find(|line| line.starts_with(&format!("\"{command}\"")))?;
    let fields: Vec<f64> = line.split(',').skip(1).filter_map(|field| field.trim_matches('"').parse().ok()).collect();
    let [rate, _average, _least, p50, _p95, p99, _most] = fields[..] else { return None };
    Some(Reading::from([(Measure::PerSecond, rate), (Measure::P50, p50), (Measure::P99, p99)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_benchmark_says() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\"SET\",\"60000.00\",\"0.500\",\"0.100\",\"0.450\",\"0.900\",\"1.100\",\"3.000\"\n";
        let reading = read_csv(said, "SET").expect("it is understood");
        assert_eq!(reading[&Measure::PerSecond], 60000.0);
        assert_eq!((reading[&Measure::P50], reading[&Measure::P99]), (0.45, 1.1));
        assert_eq!(read_csv(said, "GET"), None);
    }
}
