//! Looking for the first seed in which a planted bug is noticed.

use std::ops::Range;
use std::sync::Mutex;

use blueprint::Honest;

use crate::runner::{self, Outcome};
use crate::sabotage::{Sabotage, Saboteur, plant};

/// Where a planted bug was noticed, and by whom.
#[derive(Clone, Debug)]
pub struct Caught {
    pub seed: u64,
    pub checker: &'static str,
    pub text: String,
    /// How many seeds it took.
    pub seeds: u64,
}

/// Runs one seed with the bug planted.
pub fn run_sabotaged(sabotage: &Sabotage, seed: u64) -> Outcome {
    let _planted = plant(sabotage.breach);
    runner::run_seed::<Saboteur>(seed)
}

/// An assertion inside the sabotaged code proves nothing about the world's eyes.
fn counts(outcome: &Outcome) -> bool {
    outcome.failure.as_ref().is_some_and(|f| f.checker != "assertion")
}

pub fn hunt(sabotage: &Sabotage, seeds: Range<u64>, tick: impl Fn() + Sync) -> Option<Caught> {
    let caught: Mutex<Option<Caught>> = Mutex::new(None);
    let start = seeds.start;
    runner::run_seeds(
        seeds,
        |seed| run_sabotaged(sabotage, seed),
        |outcome| {
            tick();
            let mut best = caught.lock().expect("no panic under this lock");
            if !counts(&outcome) || best.as_ref().is_some_and(|c| c.seed < outcome.seed) {
                return best.is_none();
            }
            // The same seed must pass without the bug, or it proves nothing.
            if runner::run_seed::<Honest>(outcome.seed).failure.is_none() {
                let failure = outcome.failure.expect("counted");
                let seeds = outcome.seed - start + 1;
                *best = Some(Caught { seed: outcome.seed, checker: failure.checker, text: failure.text, seeds });
            }
            best.is_none()
        },
    );
    caught.into_inner().expect("no panic under this lock")
}
