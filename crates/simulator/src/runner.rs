//! Many worlds, one per seed, one thread each.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use blueprint::Conduct;

use crate::plan::Plan;
use crate::tally::Tally;
use crate::trace::Trace;
use crate::world::{Failure, World};

/// What became of one seed.
#[derive(Debug)]
pub struct Outcome {
    pub seed: u64,
    pub tally: Tally,
    pub hash: u64,
    pub failure: Option<Failure>,
    pub lines: Vec<String>,
}

/// One world, from its plan to its verdict. A panic is a verdict too.
pub fn run_plan<C: Conduct>(plan: Plan, trace: Trace) -> Outcome {
    let seed = plan.seed;
    let mut world = World::<C>::new(plan, trace);
    let verdict = catch_unwind(AssertUnwindSafe(|| world.run()));
    let failure = match verdict {
        Ok(verdict) => verdict.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Some(Failure { checker: "assertion", text: text.unwrap_or_default() })
        }
    };
    let mut tally = std::mem::take(&mut world.tally);
    tally.simulated = world.time;
    if tally.faults.len() >= 3 {
        tally.acked_in_trouble = tally.acked_writes;
    }
    Outcome { seed, tally, hash: world.trace.hash(), failure, lines: std::mem::take(&mut world.trace.lines) }
}

pub fn run_seed<C: Conduct>(seed: u64) -> Outcome {
    run_plan::<C>(Plan::draw(seed), Trace::silent())
}

/// Runs all seeds on all cores; `done` is called after each, in no particular order, and may stop the rest by returning false.
pub fn run_seeds(seeds: Range<u64>, run: impl Fn(u64) -> Outcome + Sync, mut done: impl FnMut(Outcome) -> bool + Send) {
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    let done = Mutex::new(&mut done);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = run(seed);
                    let mut done = done.lock().expect("a report does not panic");
                    if !done(outcome) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}
