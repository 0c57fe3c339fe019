//! Reports as they are printed, over a small tally.

use expect_test::{Expect, expect};

use super::*;

fn outcome(seed: u64, failure: Option<Failure>) -> Outcome {
    let mut tally =
        Tally { seeds: 1, acked_writes: 1500, reads: 700, uncertain: 3, events: 40_000, ..Tally::default() };
    tally.simulated = 31_250_000 + seed * SECOND;
    tally.faults = Fault::ALL.into_iter().skip(2).map(|fault| (fault, 1 + fault as u64 * 400)).collect();
    tally.acked_in_trouble = 1200;
    tally.completed = Move::ALL.into_iter().map(|kind| (kind, 12)).collect();
    for kind in Move::ALL {
        tally.interrupted.extend(Participant::of(kind).iter().skip(1).map(|who| ((kind, *who), 4)));
    }
    tally.note("proposals refused");
    Outcome { seed, tally, hash: 0, failure, lines: Vec::new(), chronicle: None }
}

fn report(failure: Option<Failure>) -> Report {
    let mut report = Report::new(10..12);
    report.add(outcome(10, None));
    report.add(outcome(11, failure));
    report.took = Duration::from_millis(400);
    report
}

fn check(text: &str, expected: &Expect) {
    expected.assert_eq(text);
}

#[test]
fn everything_is_in_the_report() {
    check(
        &report(None).text(Paint::Plain),
        &expect![[r#"
            seeds                2 of 10..12, 5.0 per second
            simulated time       1m 23s, 41.2 s to 42.2 s in each seed
            events               80,000
            acknowledged writes  3,000, of these 2,400 (80%) in seeds with three or more kinds of faults
            reads answered       1,400
            uncertain            6
            refused              0

            | fault                                    | name           |  times |
            |------------------------------------------|----------------|--------|
            | crash and restart                        | crash          |  never |
            | unsynced write lost                      | lost-writes    |  never |
            | record torn                              | torn-record    |  1,602 |
            | all nodes lose power at once             | power-cut      |  2,402 |
            | disk wiped                               | wipe           |  3,202 |
            | one replica damaged                      | damage         |  4,002 |
            | node paused beyond its lease             | pause          |  4,802 |
            | clock runs at another rate               | clock-rate     |  5,602 |
            | wall clock jumps by hours                | wall-jump      |  6,402 |
            | message lost                             | loss           |  7,202 |
            | message delayed long                     | delay          |  8,002 |
            | message duplicated                       | duplicate      |  8,802 |
            | message overtaken                        | reorder        |  9,602 |
            | partition                                | cut-symmetric  | 10,402 |
            | one-way partition                        | cut-one-way    | 11,202 |
            | bridged partition (A-B, B-C, not A-C)    | cut-bridge     | 12,002 |
            | single link cut                          | cut-link       | 12,802 |
            | slow disk                                | slow-disk      | 13,602 |
            | slow node                                | slow-node      | 14,402 |
            | meta group slow                          | meta-slow      | 15,202 |
            | meta group unavailable                   | meta-down      | 16,002 |
            | proposal's answer lost                   | meta-unknown   | 16,802 |
            | old blueprint pushed                     | stale-push     | 17,602 |
            | live primary taken for dead              | false-alarm    | 18,402 |
            | node cut off from the meta group         | meta-cut       | 19,202 |
            | coordinator's report lost                | report-lost    | 20,002 |
            | message of the directory lost            | directory-loss | 20,802 |
            | one lane of a node stalls                | stall          | 21,602 |
            | operating system restarts (level memory) | reboot         | 22,402 |
            | operating systems of all members restart | blackout       | 23,202 |

            | move      | completed | primary crashed | secondary crashed | candidate crashed | successor crashed |
            |-----------|-----------|-----------------|-------------------|-------------------|-------------------|
            | enlist    |        24 |           never |                 · |                 8 |                 · |
            | seat      |        24 |           never |                 · |                 8 |                 · |
            | dismiss   |        24 |           never |                 8 |                 · |                 · |
            | hand over |        24 |           never |                 · |                 · |                 8 |
            | usurp     |        24 |               · |                 8 |                 · |             never |
            | split     |        24 |           never |                 8 |                 · |                 · |
            | merge     |        24 |           never |                 8 |                 · |                 · |

            | besides           | times |
            |-------------------|-------|
            | proposals refused |     2 |

            never: crash and restart; unsynced write lost; enlist interrupted by a crash of the primary; seat interrupted by a crash of the primary; dismiss interrupted by a crash of the primary; hand over interrupted by a crash of the primary; usurp interrupted by a crash of the successor; split interrupted by a crash of the primary; merge interrupted by a crash of the primary

            no failure in 2 seeds
        "#]],
    );
}

#[test]
fn failures_stand_at_the_end() {
    let failure = Failure { checker: "linearizable", text: "key 3: nobody wrote 7\n  [0.1s] read → 7".into() };
    let text = report(Some(failure)).text(Paint::Plain);
    let end = text.split_once("\nfailed").map(|(_, end)| format!("failed{end}")).unwrap_or_default();
    check(
        &end,
        &expect![[r#"
        failed 11 linearizable key 3: nobody wrote 7

        1 of 2 seeds failed; look closer: simulator replay 11
    "#]],
    );
}

#[test]
fn programs_can_read_it_too() {
    let failure = Failure { checker: "assertion", text: "a \"quoted\"\nword".into() };
    let json = report(Some(failure)).json();
    assert_eq!(json["acknowledged_writes"], 3000);
    assert_eq!(json["faults"]["crash"], 0);
    assert_eq!(json["moves"]["hand over"]["interrupted"]["successor"], 8);
    check(
        &json["failures"].to_string(),
        &expect![[r#"[{"checker":"assertion","seed":11,"text":"a \"quoted\"\nword"}]"#]],
    );
}

#[test]
fn what_never_happened_is_red() {
    let text = report(None).text(Paint::Coloured);
    let crash = text.lines().find(|line| line.contains("crash and restart")).expect("it has its line");
    assert!(crash.contains('\u{1b}'), "{crash:?}");
    let torn = text.lines().find(|line| line.contains("record torn")).expect("it has its line");
    assert!(!torn.contains('\u{1b}'), "{torn:?}");
    assert!(!report(None).text(Paint::Plain).contains('\u{1b}'));
}

#[test]
fn numbers_and_times() {
    assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    assert_eq!([5, 1500, 2_500_000].map(seconds), ["5 µs", "1 ms", "2.5 s"]);
    assert_eq!([5, 65, 3605].map(|s| duration(s * SECOND)), ["5s", "1m 05s", "1h 00m 05s"]);
}

#[test]
fn a_plan_in_words() {
    let mut calm = Plan::draw(0);
    calm.faults = crate::plan::Faults::none().with(Fault::CutOneWay).with(Fault::Loss);
    (calm.nodes, calm.buckets, calm.replicas, calm.clients, calm.keys, calm.read_percent) = (3, 2, 3, 4, 5, 40);
    (calm.think, calm.latency, calm.disk_latency, calm.memory_level, calm.ambush) = (15_000, 200, 1000, false, 20);
    (calm.unrest, calm.patience, calm.move_every, calm.fault_every) = (27 * SECOND, 40 * SECOND, 300_000, 900_000);
    calm.small_checkpoints = true;
    check(
        &plan(&calm),
        &expect![[r#"
        nodes 3, buckets 2, replicas 3; clients 4, a call every 15 ms each, reads 40%, keys of each kind 5
        network 200 µs, disk 1 ms, checkpoints often
        a move every 300 ms, 20% of them ambushed; unrest for 27.0 s, then 40.0 s to come to rest
        faults of 2 kinds, about every 900 ms: loss cut-one-way
    "#]],
    );
}
