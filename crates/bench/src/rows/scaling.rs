//! How Godwit itself grows: with buckets, connections, sizes of values, copies and lanes.

use std::thread::sleep;

use super::{Contender, GODWIT, KEYS, Row, SETTLE, Stage, Turns};
use crate::error::Error;
use crate::load::Mix;
use crate::peers::{Godwit, Level, Peer, Place};
use crate::results::{Cell, Measure, Results, Wanted};
use crate::system;

pub(super) const ROW: Row = Row {
    name: "scaling",
    about: "Godwit beside itself: SET at level memory with more buckets, connections, bytes, copies, lanes",
    against: &[],
    run,
};

const SECONDS: f64 = 1.5;
const QUICK_SECONDS: f64 = 0.7;
const BUCKETS: [u16; 5] = [1, 16, 64, 256, 1024];
const CONNECTIONS: [usize; 4] = [1, 50, 500, 5000];
const SIZES: [usize; 7] = [16, 64, 256, 1024, 4096, 16384, 65536];
const COPIES: [u16; 5] = [1, 2, 3, 4, 5];
const LANES: [u16; 2] = [1, 2];
/// Files that are open besides connections, in each process.
const OTHER_FILES: u64 = 300;

/// What one cluster is made of, and what is asked of it.
#[derive(Clone, Debug)]
struct Case {
    name: String,
    nodes: u16,
    replicas: u16,
    buckets: u16,
    lanes: u16,
    connections: usize,
    value_bytes: usize,
    keys: u32,
}

impl Default for Case {
    fn default() -> Self {
        let name = String::new();
        Self { name, nodes: 1, replicas: 1, buckets: 64, lanes: 1, connections: 50, value_bytes: 64, keys: KEYS }
    }
}

fn run(stage: &Stage<'_>) -> Result<Results, Error> {
    let mut results = Results::new(ROW.name, ROW.about, &Measure::OF_LOAD, &[]);
    results.guarantee(
        Peer::Godwit,
        "level memory: handed to the operating system on every member before the answer, synced within a second; one copy on one node where \
         nothing else is said, three on three nodes where buckets grow",
    );
    let rounds = if stage.is_quick { 1 } else { stage.rounds };
    let mut cells: Vec<Cell> = Vec::new();
    let cases = cases(stage, &mut results);
    for round in 0..rounds {
        for group in &cases {
            let place = stage.place(ROW.name)?;
            for (number, case) in group.iter().enumerate() {
                stage.say(format!("scaling: {}, round {} of {rounds}", case.name, round + 1));
                let measured = measure(stage, &mut results, case, &place, number)?;
                match cells.iter_mut().find(|cell| cell.name == case.name) {
                    None => cells.push(measured),
                    Some(cell) => measured
                        .sides
                        .into_iter()
                        .flat_map(|side| side.rounds)
                        .for_each(|reading| cell.add(Peer::Godwit, reading)),
                }
            }
        }
    }
    results.cells = cells;
    let throughput = Measure::PerSecond;
    results.bar_between("1024 buckets", "16 buckets", throughput, Wanted::AtLeast(0.7));
    results.bar_between("5000 connections", "50 connections", throughput, Wanted::AtLeast(0.6));
    Ok(results)
}

/// In groups that belong together.
fn cases(stage: &Stage<'_>, results: &mut Results) -> Vec<Vec<Case>> {
    let limit = system::raise_file_limit().saturating_sub(OTHER_FILES);
    let possible = |count: &usize| *count as u64 <= limit;
    if !CONNECTIONS.iter().all(possible) {
        results.notes.push(format!(
            "no more than {limit} connections: the limit of open files is too low for more (ulimit -Hn, or LimitNOFILE of a service)"
        ));
    }
    let is_asked = |is_bar: bool| is_bar || !stage.is_quick;
    let buckets = BUCKETS.iter().filter(|count| is_asked(matches!(count, 16 | 1024)));
    let connections =
        CONNECTIONS.iter().filter(|count| is_asked(matches!(count, 50 | 5000))).filter(|count| possible(count));
    let sizes = SIZES.iter().filter(|_| is_asked(false));
    let copies = COPIES.iter().filter(|_| is_asked(false));
    let lanes = LANES.iter().filter(|_| is_asked(false));
    vec![
        buckets
            .map(|&buckets| Case {
                name: format!("{buckets} buckets"),
                nodes: 3,
                replicas: 3,
                buckets,
                ..Case::default()
            })
            .collect(),
        connections
            .map(|&connections| Case { name: format!("{connections} connections"), connections, ..Case::default() })
            .collect(),
        // Large values in fewer keys: so much memory proves nothing.
        sizes
            .map(|&bytes| Case {
                name: format!("values of {bytes} B"),
                value_bytes: bytes,
                keys: KEYS.min(100_000_000 / bytes as u32),
                ..Case::default()
            })
            .collect(),
        copies
            .map(|&copies| Case {
                name: format!("{copies} copies"),
                nodes: copies,
                replicas: copies,
                ..Case::default()
            })
            .collect(),
        lanes.map(|&lanes| Case { name: format!("{lanes} lanes"), lanes, ..Case::default() }).collect(),
    ]
}

fn measure(stage: &Stage<'_>, results: &mut Results, case: &Case, place: &Place, number: usize) -> Result<Cell, Error> {
    let own = place.path().join(number.to_string());
    std::fs::create_dir_all(&own).map_err(Error::system("a directory"))?;
    let Case { nodes, replicas, buckets, lanes, connections, value_bytes, keys, .. } = *case;
    let (binary, port, level) = (stage.godwit()?, stage.port(GODWIT), Level::Memory);
    let servers = Godwit { binary, place: &own, port, nodes, replicas, level, buckets, lanes }.start()?;
    let contender = Contender { servers, mix: Mix::Set, is_cluster: nodes > 1 };
    contender.fill(keys, value_bytes)?;
    sleep(SETTLE);
    let length = stage.length(if stage.is_quick { QUICK_SECONDS } else { SECONDS });
    let turns = Turns { value_bytes, connections, pipeline: 1, length, keys, rounds: 1 };
    turns.run(stage, results, &case.name, std::slice::from_ref(&contender), None)?;
    Ok(results.cells.pop().expect("it was just measured"))
}
