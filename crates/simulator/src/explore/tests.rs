//! The explorer proves itself: small worlds are exhausted and clean, and a phaser that breaks one rule is found out.

use blueprint::{Breach, Conduct, Honest};

use super::replica::{NOW, TICK};
use super::search::Search;
use super::{Checker, Configuration, Options, Violation, configurations, explore, hunt, run};

fn configuration(name: &str) -> Configuration {
    configurations().into_iter().find(|c| c.name == name).expect("a configuration that exists")
}

/// Each test has a phaser of its own, which breaks just the rule that the test is named after.
macro_rules! caught {
    ($($test:ident $breach:ident in $configuration:literal within $states:literal by $($checker:ident)|+;)*) => {
        $(
            #[test]
            fn $test() {
                #[derive(Clone, Copy, Default, Hash)]
                struct Breaks;
                impl Conduct for Breaks {
                    fn breaks(breach: Breach) -> bool {
                        breach == Breach::$breach
                    }
                }
                let violation = hunt::<Breaks>(&[$configuration], $states).expect("a planted bug is found");
                assert!(matches!(violation.checker, $(Checker::$checker)|+), "found by another checker:\n{violation}");
                check_trace(&violation);
            }
        )*
    };
}

caught! {
    commit_on_majority CommitOnMajority in "three-members" within 200_000 by CommittedPrefixesAgree;
    ack_from_earlier_term AckFromEarlierTerm in "two-members" within 200_000 by CommittedPrefixesAgree;
    answer_before_durable AnswerBeforeDurable in "two-members" within 200_000 by CommittedPrefixesAgree;
    promised_not_synced PromisedNotSynced in "grow" within 200_000 by CommittedPrefixesAgree;
    restarted_primary_resumes RestartedPrimaryResumes in "two-members" within 200_000 by CommittedPrefixesAgree;
    serves_before_reign ServesBeforeReign in "two-members" within 100_000 by NoAcknowledgedWriteLost;
    usurp_carries_last_only UsurpCarriesLastOnly in "two-members" within 100_000 by CommittedPrefixesAgree;
    no_wait_for_lease NoWaitForLease in "two-members" within 20_000 by OneServingPrimary;
    lease_from_receipt LeaseFromReceipt in "two-members" within 100_000 by OneServingPrimary;
    lease_checked_before_read LeaseCheckedBeforeRead in "two-members" within 20_000 by OneServingPrimary;
    grants_forgotten_on_restart GrantsForgottenOnRestart in "two-members" within 20_000 by OneServingPrimary;
    restart_forgets_its_wait RestartForgetsItsWait in "two-members" within 100_000 by OneServingPrimary;
    abdicate_without_term AbdicateWithoutTerm in "hand-over-back" within 200_000 by OneServingPrimary;
    abdicate_before_outcome AbdicateBeforeOutcome in "hand-over" within 20_000 by OneServingPrimary;
    seat_one_entry_short SeatOneEntryShort in "grow-cut" within 500_000 by CommittedPrefixesAgree;
    growth_without_joint_acks GrowthWithoutJointAcks in "grow" within 100_000 by CommittedPrefixesAgree;
    joint_acks_without_leases JointAcksWithoutLeases in "grow" within 100_000 by OneServingPrimary;
    tail_committed_below_minimum TailCommittedBelowMinimum in "heirs-tail" within 20_000 by CommittedPrefixesAgree;
    writes_accepted_alone WritesAcceptedAlone in "heirs-tail" within 20_000 by CommittedPrefixesAgree;
    lone_primary_reads_without_asking LonePrimaryReadsWithoutAsking in "heirs-reign" within 100_000 by OneServingPrimary;
    heir_reigns_at_once HeirReignsAtOnce in "heirs-reign" within 100_000 by OneServingPrimary;
    redirect_for_appended RedirectForAppended in "two-members" within 100_000 by RefusedWritesNeverHappen;
    split_commits_during_growth SplitCommitsDuringGrowth in "split-grow" within 200_000
        by CommittedPrefixesAgree | SplitForksAtItsPosition | OneServingPrimary;
    bind_keeps_terms BindKeepsTerms in "merge-bind" within 20_000 by BoundAlike;
    seat_alone_while_bound SeatAloneWhileBound in "merge-seat" within 20_000 by BoundAlike;
    absorb_before_freeze AbsorbBeforeFreeze in "merge" within 20_000 by MergeAbsorbsAtItsPosition;
    frozen_erased_before_checkpoint FrozenErasedBeforeCheckpoint in "merge-saved" within 20_000
        by NothingErasedWhileNeeded;
    register_after_merge RegisterAfterMerge in "merge-over" within 100_000 by IdsAreUsedOnce;
    wiped_disk_rejoins WipedDiskRejoins in "lost" within 200_000 by NoAcknowledgedWriteLost | CommittedPrefixesAgree;
    image_without_replay ImageWithoutReplay in "grow-cut" within 200_000 by CommittedPrefixesAgree;
}

/// Numbered from one, without a gap, and at the end what is wrong.
fn check_trace(violation: &Violation) {
    let (last, actions) = violation.trace.split_last().expect("a trace says at least what is wrong");
    assert!(last.starts_with(" ! "), "the last line says what is wrong: {last}");
    for (at, line) in actions.iter().enumerate() {
        assert!(line.trim_start().starts_with(&format!("{}. ", at + 1)), "line {at} is out of order: {line}");
    }
}

#[test]
fn honest_worlds_are_exhausted_and_clean() {
    let moves = ["two-members", "two-members-duplicates", "hand-over", "heirs-tail", "heirs-reign"];
    let merges = ["merge", "merge-duplicates", "merge-restart", "merge-bind", "merge-grow", "merge-seat"];
    for name in moves.into_iter().chain(merges) {
        let (row, violation) = explore::<Honest>(&configuration(name), 1_000_000, &mut |_| {});
        assert!(violation.is_none(), "{}", violation.expect("just looked"));
        assert!(row.exhausted, "{name} is small enough to be exhausted");
        assert!(row.states > 100, "{name} has {} states: nothing happened", row.states);
    }
}

#[test]
fn the_same_worlds_every_time() {
    let count = || explore::<Honest>(&configuration("hand-over"), 1_000_000, &mut |_| {}).0;
    let (one, other) = (count(), count());
    assert_eq!((one.states, one.depth, one.replicas), (other.states, other.depth, other.replicas));
}

#[test]
fn every_kind_of_state_is_reached_and_rows_stay_in_order() {
    let only = ["hand-over", "heirs-tail", "grow", "split", "merge"].map(String::from).to_vec();
    let mut heard = 0;
    let summary = run(&Options { states: 30_000, threads: 2, only: only.clone() }, &mut |_| heard += 1);
    assert!(summary.violation.is_none(), "{}", summary.violation.expect("just looked"));
    assert!(heard >= only.len());
    assert_eq!(summary.rows.iter().map(|row| row.configuration.clone()).collect::<Vec<_>>(), only);
    let total = summary.total();
    for (what, count) in [
        ("joint", total.joint),
        ("heirs", total.heirs),
        ("usurp", total.usurp),
        ("hand over", total.hand_over),
        ("split", total.split),
        ("merge", total.merge),
    ] {
        assert!(count > 0, "no state had {what}\n{summary}");
    }
}

/// The explorer lives on `canonical`: an instant that it forgot to shift would stand still while time passes.
#[test]
fn every_instant_grows_older() {
    let of = |text: &str, instant: blueprint::Instant| text.matches(&format!("{instant:?}")).count();
    let mut silent = |_: &super::Progress| {};
    for name in ["hand-over", "grow", "heirs-tail", "merge-told", "merge-seat"] {
        let mut search = Search::<Honest>::new(configuration(name), &mut silent);
        search.walk(20_000);
        for replica in search.replicas() {
            let before = format!("{:?}", replica.phaser);
            let after = format!("{:?}", replica.age().phaser);
            let now_then_future = (of(&after, NOW), of(&after, NOW + TICK));
            assert_eq!(
                now_then_future,
                (of(&before, NOW + TICK), 0),
                "{name}: an instant was not shifted\n{before}\n{after}"
            );
        }
    }
}

#[test]
fn names_of_configurations_are_used_once() {
    let mut names: Vec<&str> = configurations().iter().map(|c| c.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
