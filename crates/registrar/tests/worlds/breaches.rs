//! A check that cannot fail is a defect: each planted bug is noticed by the random worlds, and by the right checker.

use std::cell::Cell;

use blueprint::{Breach, Conduct};

use crate::chance::storm;

thread_local! {
    static PLANTED: Cell<Option<Breach>> = const { Cell::new(None) };
}

/// Breaks the one rule that was planted in this thread.
#[derive(Clone, Copy, Debug, Default)]
struct Saboteur;

impl Conduct for Saboteur {
    fn breaks(breach: Breach) -> bool {
        PLANTED.get() == Some(breach)
    }
}

const MOST_SEEDS: u64 = 300;

/// How many worlds it takes until someone notices, and who.
fn hunt(breach: Breach) -> (u64, String) {
    PLANTED.set(Some(breach));
    let found = (0..MOST_SEEDS).find_map(|seed| storm::<Saboteur>(seed).into_iter().next().map(|fault| (seed, fault)));
    PLANTED.set(None);
    found.expect("nobody noticed")
}

fn noticed(breach: Breach, by: &[&str]) {
    let (seed, fault) = hunt(breach);
    assert!(by.iter().any(|checker| fault.starts_with(checker)), "seed {seed}: noticed by another one: {fault}");
}

#[test]
fn a_number_advanced_by_half_is_noticed() {
    noticed(Breach::NumberAdvancedByHalf, &["a_number_means_its_rows"]);
}

#[test]
fn a_push_across_a_gap_is_noticed() {
    noticed(Breach::PushAcrossGap, &["a_number_means_its_rows"]);
}

#[test]
fn a_tombstone_dropped_early_is_noticed() {
    noticed(Breach::TombstoneDroppedEarly, &["a_number_means_its_rows"]);
}

#[test]
fn an_owner_that_resumes_below_is_noticed() {
    noticed(Breach::OwnerResumesBelow, &["numbers_never_go_back", "owner_holds_its_updates", "all_converge"]);
}

#[test]
fn a_pull_beyond_the_contiguous_point_is_noticed() {
    noticed(Breach::PullBeyondContiguous, &["a_number_means_its_rows"]);
}

#[test]
fn a_failed_pull_that_skips_siblings_is_noticed() {
    noticed(Breach::FailedPullSkipsSiblings, &["complete_means_complete"]);
}
