//! The command line.
//!
//! Exit codes: 0 all is well; 1 it is not, and the text says what; 2 the command line is wrong; 3 the cluster could not be asked.

/// To whoever looks. If nobody does any more (`godwit why | head`), that is no failure.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _nobody_looks = writeln!(std::io::stdout(), $($text)*);
    }};
}

mod ask;
mod auto;
mod bench;
mod dev;
mod history;
mod inspect;
mod keyspace;
mod operations;
mod prove;
mod repair;
mod serve;
mod status;
mod watch;
mod why;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub(crate) const UNREACHABLE: u8 = 3;

/// Entries are made by a lane and forgotten by the journal's thread: the system's allocator took a fifth of a node's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(
    name = "godwit",
    version,
    about = "A store that changes shape while it runs, and never loses a write that it acknowledged."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a cluster on this machine, to try things out
    Dev(dev::Dev),
    /// Run one node
    Serve(serve::Serve),
    /// How the cluster is; problems first
    Status(status::Status),
    /// What waits, for whom, since when, and why
    Why(why::Why),
    /// Make a keyspace
    Keyspace(keyspace::Keyspace),
    /// Plan a change of the cluster's shape, and show what it would do
    Plan(operations::Plan),
    /// Begin what was planned
    Apply(operations::One),
    /// Watch an operation until it is over
    Watch(watch::Watch),
    /// Changes of the cluster's shape: planned, under way, and the last that are over
    Operations(operations::Operations),
    /// Whether the cluster rebalances by itself: on, off, or how it is
    AutoRebalance(auto::AutoRebalance),
    /// What became of the cluster: operations, nodes that departed and came back, keyspaces
    History(history::History),
    /// Begin nothing new of an operation, and let its copies stand still
    Pause(operations::One),
    /// Go on with what was paused
    Resume(operations::One),
    /// How many bytes per second the copies of an operation may take, all together
    Throttle(operations::Throttle),
    /// End an operation; what it had finished stays
    Cancel(operations::Cancel),
    /// Unsafe: go on with a bucket that lost every member; says first what is lost
    Repair(repair::Repair),
    /// Unsafe: go on when most voters are lost for good; says first what is lost
    RepairMeta(repair::RepairMeta),
    /// Show what is in a data directory, without changing it
    Inspect(inspect::Inspect),
    /// Prove that a live cluster loses and repeats nothing: work, faults, and a judgement of every answer
    Prove(prove::Prove),
    /// How Godwit is beside others, on this machine: the same work for everyone, in turns
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Dev(dev) => dev.run(),
        Command::Serve(serve) => serve.run(),
        Command::Status(status) => status.run(),
        Command::Why(why) => why.run(),
        Command::Keyspace(keyspace) => keyspace.run(),
        Command::Plan(plan) => plan.run(),
        Command::Apply(one) => one.apply(),
        Command::Watch(watch) => watch.run(),
        Command::Operations(operations) => operations.run(),
        Command::AutoRebalance(auto) => auto.run(),
        Command::History(history) => history.run(),
        Command::Pause(one) => one.pause(),
        Command::Resume(one) => one.resume(),
        Command::Throttle(throttle) => throttle.run(),
        Command::Cancel(cancel) => cancel.run(),
        Command::Repair(repair) => repair.run(),
        Command::RepairMeta(repair) => repair.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Prove(prove) => prove.run(),
        Command::Bench(bench) => bench.run(),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("godwit: {error:#}");
            let unreachable = error.downcast_ref::<ask::Unreachable>().is_some();
            ExitCode::from(if unreachable { UNREACHABLE } else { 1 })
        }
    }
}
