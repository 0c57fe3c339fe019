//! Many worlds, one per seed, one thread each.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use blueprint::Conduct;

use crate::changes::Changes;
use crate::chronicle::Chronicle;
use crate::panics;
use crate::plan::Plan;
use crate::tally::Tally;
use crate::trace::{Trace, Wanted};
use crate::world::{Failure, World};

/// What became of one seed.
#[derive(Debug)]
pub struct Outcome {
    pub seed: u64,
    pub tally: Tally,
    pub hash: u64,
    pub failure: Option<Failure>,
    pub lines: Vec<String>,
    /// If somebody asked why a bucket waits.
    pub chronicle: Option<Box<Chronicle>>,
}

/// One world, from its plan to its verdict. A panic is a verdict too.
pub fn run_plan<C: Conduct>(plan: Plan, trace: Trace) -> Outcome {
    run_world(World::<C>::new(plan, trace)).0
}

/// The same, and the world as it is in the end.
pub fn run_world<C: Conduct>(mut world: World<C>) -> (Outcome, World<C>) {
    let seed = world.plan.seed;
    let failure = match panics::caught(|| world.run()) {
        Ok(verdict) => verdict.err(),
        Err(text) => Some(Failure { checker: "assertion", text }),
    };
    let mut tally = std::mem::take(&mut world.tally);
    tally.simulated = world.time;
    if tally.faults.len() >= 3 {
        tally.acked_in_trouble = tally.acked_writes;
    }
    let (lines, chronicle) = (std::mem::take(&mut world.trace.lines), world.trace.chronicle.take());
    let outcome = Outcome { seed, tally, hash: world.trace.hash(), failure, lines, chronicle };
    (outcome, world)
}

pub fn run_seed<C: Conduct>(seed: u64) -> Outcome {
    run_plan::<C>(Plan::draw(seed), Trace::silent())
}

/// The same world twice, and every byte of the two compared. It counts once.
pub fn run_twice<C: Conduct>(seed: u64, changes: &Changes) -> Outcome {
    let run = || run_plan::<C>(changes.plan(seed), Trace::scrutinised());
    let (first, second) = (run(), run());
    if first.hash == second.hash {
        return first;
    }
    let read = || run_plan::<C>(changes.plan(seed), Trace::keeping(Wanted::default())).lines;
    let text = first_difference(&read(), &read());
    Outcome { failure: Some(Failure { checker: "determinism", text }), ..first }
}

fn first_difference(first: &[String], second: &[String]) -> String {
    let same = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    match (first.get(same), second.get(same)) {
        (None, None) => "the traces differ, but not in what can be read".into(),
        (a, b) => {
            let line = |line: Option<&String>| line.map_or("(the end)", |l| l.as_str()).to_owned();
            format!("the traces differ from line {}\n  first  {}\n  second {}", same + 1, line(a), line(b))
        }
    }
}

/// Runs all seeds on all cores; `done` is called after each, in no particular order, and may stop the rest by returning false.
pub fn run_seeds(seeds: Range<u64>, run: impl Fn(u64) -> Outcome + Sync, mut done: impl FnMut(Outcome) -> bool + Send) {
    on_all_cores(seeds, run, |_, outcome| done(outcome));
}

/// Does all numbers on all cores, the lower ones first. When `done` returns false no other is begun, but those that were come to
/// their end: so the lowest of which `done` disapproves does not depend on chance.
pub fn on_all_cores<T>(
    numbers: Range<u64>,
    work: impl Fn(u64) -> T + Sync,
    mut done: impl FnMut(u64, T) -> bool + Send,
) {
    let next = AtomicU64::new(numbers.start);
    let stop = AtomicBool::new(false);
    let done = Mutex::new(&mut done);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    let result = work(number);
                    let mut done = done.lock().expect("a report does not panic");
                    if !done(number, result) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_where_it_begins() {
        let lines = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let told = first_difference(&lines("a b c"), &lines("a x c"));
        assert_eq!(told, "the traces differ from line 2\n  first  b\n  second x");
        assert!(first_difference(&lines("a b"), &lines("a")).ends_with("second (the end)"));
    }

    #[test]
    fn the_lowest_number_wins_whoever_comes_first() {
        for _ in 0..20 {
            let mut lowest = u64::MAX;
            on_all_cores(
                0..100,
                |n| n,
                |n, _| {
                    if n >= 40 {
                        lowest = lowest.min(n);
                    }
                    n < 40
                },
            );
            assert_eq!(lowest, 40);
        }
    }
}
