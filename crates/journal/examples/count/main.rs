//! A fixed script through everything between the bytes that a client sends and those that it is answered, except sockets, so that
//! somebody else can count what it takes: `bin/count` runs it under valgrind.
//!
//! ```text
//! count                        the names of the scenarios
//! count SCENARIO OPERATIONS    carries out so many
//! ```
//!
//! Contract: two runs execute the same instructions, but for those of threads that wait, so two lengths of a script differ by their
//! operations only. There is neither clock nor chance in it, and the time that machines are told goes on by the script. It is the
//! parser, the commands, the lanes with their phasers and tables, the journal and the encoder of the product, with its allocator. Left
//! out are the runtime, the sockets, and what the front door remembers of each connection (`server::door`), which is nothing without
//! them; what comes now and then, ticks, upkeep, checkpoints; and the disk itself, which takes everything and keeps nothing.
//!
//! It stands with the journal because nobody above knows disks, and whoever knows sockets takes minutes to build.
#![allow(clippy::print_stdout)] // it talks to a script

mod client;
mod cluster;
mod disk;
mod machine;

use std::process::ExitCode;

use client::{Client, Verb};
use cluster::Cluster;

/// As the product does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Scenario {
    name: &'static str,
    copies: u64,
    verb: Verb,
    /// Requests that come in together.
    pipeline: usize,
}

const SCENARIOS: [Scenario; 10] = [
    Scenario { name: "set-512", copies: 1, verb: Verb::Set, pipeline: 512 },
    Scenario { name: "get-512", copies: 1, verb: Verb::Get, pipeline: 512 },
    Scenario { name: "set-1", copies: 1, verb: Verb::Set, pipeline: 1 },
    Scenario { name: "set-16", copies: 1, verb: Verb::Set, pipeline: 16 },
    Scenario { name: "get-1", copies: 1, verb: Verb::Get, pipeline: 1 },
    Scenario { name: "get-16", copies: 1, verb: Verb::Get, pipeline: 16 },
    Scenario { name: "set-1-three", copies: 3, verb: Verb::Set, pipeline: 1 },
    Scenario { name: "set-16-three", copies: 3, verb: Verb::Set, pipeline: 16 },
    Scenario { name: "get-1-three", copies: 3, verb: Verb::Get, pipeline: 1 },
    Scenario { name: "get-16-three", copies: 3, verb: Verb::Get, pipeline: 16 },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked = match &words[..] {
        [] => {
            SCENARIOS.iter().for_each(|scenario| println!("{}", scenario.name));
            return ExitCode::SUCCESS;
        }
        [name, operations] => {
            let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
            scenario.zip(operations.parse().ok())
        }
        _ => None,
    };
    let Some((scenario, operations)) = asked else {
        eprintln!("count [SCENARIO OPERATIONS]; without words it names the scenarios");
        return ExitCode::from(2);
    };
    run(scenario, operations);
    ExitCode::SUCCESS
}

fn run(scenario: &Scenario, operations: usize) {
    let mut client = Client::new();
    let mut cluster = Cluster::start(scenario.copies);
    // Every key is there before anything is counted, and every bucket is known to write from memory.
    carry_out(&mut cluster, &mut client, Verb::Set, 16, client::KEYS);
    let exceptions = cluster.exceptions();
    counted(&mut cluster, &mut client, scenario, operations);
    assert_eq!(cluster.exceptions(), exceptions, "nothing but operations is counted");
}

/// By this name `bin/count --profile` finds the part that matters.
#[inline(never)]
fn counted(cluster: &mut Cluster, client: &mut Client, scenario: &Scenario, operations: usize) {
    carry_out(cluster, client, scenario.verb, scenario.pipeline, operations);
}

fn carry_out(cluster: &mut Cluster, client: &mut Client, verb: Verb, pipeline: usize, operations: usize) {
    for _ in 0..operations / pipeline {
        let requests = client.ask(verb, pipeline);
        let answers = cluster.serve(requests);
        client.check(verb, pipeline, answers);
    }
}
