//! Seeds that found something once, and what it was. The world changes, and a seed with it; that these pass is still what we
//! want to know.

use blueprint::Honest;
use simulator::runner;

const KEPT: &[(u64, &str)] = &[
    (118, "orders to hand over, repeated below the minimum, kept a primary from seating anyone (handover.rs)"),
    (
        266,
        "a far candidate of a busy bucket was never asked about: it is level at no instant (growth.rs, near_candidate)",
    ),
    (223, "a node whose blueprint changed often began no recovery and said nothing until the next upkeep (react.rs)"),
    (279, "a child that was not registered outlived its keyspace: ids are reserved for one, and go with it"),
    (4655, "a bucket was said to wait for a successor that answers, and the one that answered had departed (wait.rs)"),
    (4229, "rows that came in many parts, of which some were lost, took 17 s to arrive (registrar, pull.rs)"),
    (1608, "after a blackout an entry that counted as lost could still reach the one who went on (reactor, claim)"),
    (4821, "a node that started over a bad network was never level with all siblings at once (registrar, goals)"),
    (4, "a node that restarted said for a moment what its earlier life had said of replicas (node, directory.rs)"),
    (5847, "members in doubt waited for ever where only an heir had everything (reactor, lost)"),
    (9481, "a child was registered that every member lost with its Split (phaser, split.rs)"),
    (
        293,
        "below the minimum nobody was enlisted: an operation was about to, behind a split that could not commit (case.rs)",
    ),
    (
        5004,
        "what a merge took over did not count in the size of the bucket, and was subtracted from it later (node, replica.rs)",
    ),
    (
        4954,
        "whoever began before an Absorb was told that it has what that brings, and seemed to miss it (phaser, fill.rs)",
    ),
    (
        3958,
        "a cut of the log dropped tables from disk that came in an image after it, of slots absorbed later (durable.rs)",
    ),
    (1703, "two lives of an owner whose clock went back gave out the same numbers (registrar, number.rs)"),
];

#[test]
fn kept_seeds_pass() {
    for (seed, what) in KEPT {
        let outcome = runner::run_seed::<Honest>(*seed);
        assert!(outcome.failure.is_none(), "seed {seed} ({what}): {:?}", outcome.failure);
    }
}
