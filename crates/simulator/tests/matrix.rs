//! A few cells of the crash matrix, and that it would notice. All of them: `simulator matrix`.

use simulator::hunt;
use simulator::matrix::{Cell, Ended, OPERATIONS};
use simulator::trace::Trace;

fn cell(name: &str) -> Cell {
    name.parse().unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn run(name: &str) -> Ended {
    cell(name).run(0, Trace::silent()).ended
}

#[test]
fn every_operation_is_done_if_nothing_goes_wrong() {
    for asked in OPERATIONS {
        assert!(matches!(run(asked.name), Ended::Done), "{}: {:?}", asked.name, run(asked.name));
    }
}

/// Whoever dies: the operation is done, or ends with a reason, and everything is in order.
#[test]
fn cells_pass() {
    let done = [
        "replace-node/4.filling/secondary/crash",
        "replace-node/7.drained/old-primary/crash",
        "migrate-slots/1.logged/old-primary/wipe",
        "move-primary/2.joint/voter/pause",
        "double-buckets/2.proposed/coordinator/cut",
        "split-bucket/1.proposed/old-primary/pause",
        "rebalance/3.proposed/joiner/restart",
        "merge-buckets/1.logged/old-primary/crash",
        "merge-buckets/1.proposed/secondary/wipe",
    ];
    for name in done {
        let ended = run(name);
        assert!(matches!(ended, Ended::Done), "{name}: {ended:?}");
    }
    let gave_up = ["replace-node/4.filling/joiner/wipe", "swap-primary/1/new-primary/crash"];
    for name in gave_up {
        let ended = run(name);
        assert!(matches!(&ended, Ended::GaveUp(why) if why.contains("departed")), "{name}: {ended:?}");
    }
}

/// Bugs that are planted elsewhere, each in a cell that passes without it.
#[test]
fn a_bug_is_noticed() {
    let planted = [
        ("growth-without-joint-acks", "add-node/3/joiner/restart", "members_hold_everything"),
        ("split-forgotten-by-a-successor", "split-bucket/1.logged/old-primary/crash", "liveness"),
        ("copies-not-replaced", "add-node/1/old-primary/crash", "no_wait_without_cause"),
        ("waits-untold", "add-node/1/old-primary/cut", "no_wait_without_cause"),
        ("commit-on-a-majority", "swap-primary", "enough_copies"),
    ];
    for (bug, name, checker) in planted {
        let ended = run(name);
        assert!(ended.failure().is_none() && ended.counts(), "{name} without a bug: {ended:?}");
        let sabotage = hunt::sabotage(bug).expect("it is one of them");
        let ended = cell(name).run_sabotaged(sabotage, 0, Trace::silent()).ended;
        assert_eq!(ended.failure().map(|failure| failure.checker), Some(checker), "{name} with {bug}: {ended:?}");
    }
}

#[test]
fn who_has_no_part_is_not_struck() {
    for name in ["split-bucket/1/joiner/crash", "move-primary/1/new-primary/wipe"] {
        let ended = run(name);
        assert!(!ended.counts(), "{name}: {ended:?}");
    }
}

#[test]
fn the_same_cell_is_the_same_world() {
    let hash = |dice| cell("move-replica/2.filling/joiner/cut").run(dice, Trace::scrutinised()).hash;
    assert_eq!(hash(0), hash(0));
    assert_ne!(hash(0), hash(1));
}

#[test]
fn what_is_no_cell_is_refused_with_what_there_is() {
    for (name, why) in [
        ("explode/1/joiner/wipe", "there are add-node, "),
        ("drain/9/old-primary/wipe", "drain has steps 1 to "),
        ("drain/2.filling/old-primary/wipe", "there are begins, drained"),
        ("drain/2/king/wipe", "there are old-primary, "),
        ("drain/2/old-primary/flood", "there are restart, "),
        ("drain/2", "is written like"),
    ] {
        let error = name.parse::<Cell>().expect_err(name);
        assert!(error.contains(why), "{name}: {error}");
    }
}
