//! The same seed gives the same world, byte for byte; another seed gives another.

use blueprint::Honest;
use simulator::changes::Changes;
use simulator::plan::Plan;
use simulator::runner::{self, Outcome};
use simulator::trace::{Trace, Wanted};

fn hash(seed: u64) -> u64 {
    runner::run_plan::<Honest>(Plan::draw(seed), Trace::scrutinised()).hash
}

fn read(seed: u64) -> Outcome {
    runner::run_plan::<Honest>(Plan::draw(seed), Trace::keeping(Wanted::default()))
}

#[test]
fn every_byte_that_happens_is_the_same() {
    for seed in 0..4 {
        // Also in another thread, with other addresses and whatever else a process may lend to its worlds.
        let elsewhere = std::thread::spawn(move || hash(seed)).join().expect("a world's panic is caught");
        assert_eq!(hash(seed), elsewhere, "seed {seed}");
    }
    assert_ne!(hash(0), hash(1));
}

#[test]
fn every_line_that_can_be_read_is_the_same() {
    for seed in 0..3 {
        let (first, second) = (read(seed), read(seed));
        assert!(first.lines.len() > 100, "seed {seed} has something to say");
        assert_eq!(first.lines, second.lines, "seed {seed}");
        assert_eq!(first.hash, second.hash, "seed {seed}");
    }
}

/// Reading a world does not change it.
#[test]
fn who_looks_does_not_disturb() {
    let (silent, told) = (runner::run_seed::<Honest>(5), read(5));
    assert_eq!(silent.hash, told.hash);
    assert_eq!(silent.tally.events, told.tally.events);
}

#[test]
fn twice_is_no_failure() {
    let outcome = runner::run_twice::<Honest>(2, &Changes::default());
    assert!(outcome.failure.is_none_or(|f| f.checker != "determinism"));
}
