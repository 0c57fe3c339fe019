//! Records made by hand: what is wrong is counted under its right name, what is right passes, and gaps are where they were.

use super::*;
use history::{Call, Operation, Seen};

const MS: u64 = 1000;

fn record(operations: Vec<(u64, Call, u64, Seen)>) -> Record {
    let mut record = Record { ended: 1000 * MS, ..Record::default() };
    for (invoked, call, at, seen) in operations {
        let outcome = Outcome::Answered { at: at * MS, seen };
        record.add(Operation { client: 0, key: 2, call, invoked: invoked * MS, outcome }, invoked * MS, false);
    }
    record
}

fn report(record: &Record) -> Report {
    Report::new(record, &record.history.judge())
}

/// (lost, duplicated, stale, other)
#[track_caller]
fn counts(expected: (u64, u64, u64, u64), operations: Vec<(u64, Call, u64, Seen)>) {
    let report = report(&record(operations));
    assert_eq!((report.lost, report.duplicated, report.stale_reads, report.other_violations), expected, "{report:#?}");
    assert_eq!(report.is_clean(), expected == (0, 0, 0, 0));
}

fn write(value: u64) -> Call {
    Call::Write { value, ttl: None }
}

fn push(item: u64) -> Call {
    Call::Push { item }
}

#[test]
fn registers() {
    let reads = |at, value| (at, Call::Read, at + 1, Seen::Value(value));
    let writes = |at, value| (at, write(value), at + 1, Seen::Done);
    counts((0, 0, 0, 0), vec![writes(0, 1), reads(2, 1), writes(4, 2), reads(6, 2)]);
    counts((1, 0, 0, 0), vec![writes(0, 1), writes(2, 2), reads(4, 1)]);
    counts((1, 0, 0, 0), vec![writes(0, 1), (2, Call::Read, 3, Seen::Nil)]);
    counts((0, 0, 1, 0), vec![writes(0, 1), writes(2, 2), reads(4, 1), reads(6, 2)]);
    counts((0, 0, 0, 1), vec![writes(0, 1), reads(2, 9)]);
}

#[test]
fn lists() {
    let range = |at, items: &[u64]| (at, Call::Range, at + 1, Seen::Items(items.to_vec()));
    let pushes = |at, item, length| (at, push(item), at + 1, Seen::Number(length));
    counts((0, 0, 0, 0), vec![pushes(0, 1, 1), pushes(2, 2, 2), range(4, &[1, 2])]);
    counts((2, 0, 0, 0), vec![pushes(0, 1, 1), pushes(2, 2, 2), pushes(4, 3, 3), range(6, &[1])]);
    counts((0, 1, 0, 0), vec![pushes(0, 1, 1), range(2, &[1, 1])]);
    counts((0, 0, 1, 0), vec![pushes(0, 1, 1), pushes(2, 2, 2), range(4, &[1]), range(6, &[1, 2])]);
    counts((0, 0, 0, 1), vec![pushes(0, 1, 1), pushes(2, 2, 2), range(4, &[2, 1])]);
}

#[test]
fn counters() {
    let count = |at, value| (at, Call::Count, at + 1, Seen::Number(value));
    let incr = |at, value| (at, Call::Incr, at + 1, Seen::Number(value));
    counts((0, 0, 0, 0), vec![incr(0, 1), incr(2, 2), count(4, 2)]);
    counts((2, 0, 0, 0), vec![incr(0, 1), incr(2, 2), incr(4, 3), count(6, 1)]);
    counts((1, 0, 0, 0), vec![incr(0, 1), incr(2, 1)]);
    counts((0, 1, 0, 0), vec![incr(0, 1), count(2, 2)]);
    counts((0, 0, 1, 0), vec![incr(0, 1), incr(2, 2), count(4, 1), count(6, 2)]);
}

#[test]
fn a_run_without_writes_proves_nothing() {
    assert!(!report(&record(vec![(0, Call::Read, 1, Seen::Nil)])).is_clean());
    let mut unread = record(vec![(0, write(1), 1, Seen::Done)]);
    assert!(report(&unread).is_clean());
    unread.unread.insert(2);
    assert!(!report(&unread).is_clean());
}

#[test]
fn gaps_before_and_after_faults() {
    // Every 10 ms, but not for 200 ms from 300 on, and not for 80 ms from 700 on.
    let times = (0..100).map(|i| i * 10).filter(|at| !(310..500).contains(at) && !(710..780).contains(at));
    let mut record = record(times.map(|at| (at, write(at), at, Seen::Done)).collect());
    let strike = |kind, at, recovered| Strike {
        kind: Some(kind),
        node: 1,
        at: at * MS,
        recovered: Some(recovered * MS),
        ..Strike::default()
    };
    record.strikes =
        vec![strike(FaultKind::Kill, 305, 600), strike(FaultKind::Pause, 650, 790), strike(FaultKind::Kill, 800, 900)];
    record.slow = vec![(500 * MS, 190 * MS), (850 * MS, 40 * MS)];
    let report = report(&record);
    assert_eq!((report.whole.longest_gap_ms, report.calm.longest_gap_ms), (200.0, 10.0));
    let gaps: Vec<f64> = report.faults.iter().map(|fault| fault.longest_gap_ms).collect();
    assert_eq!(gaps, [200.0, 80.0, 10.0]);
    let began: Vec<i64> = report.faults.iter().map(|fault| (fault.gap_began_after_s * 1000.0).round() as i64).collect();
    assert_eq!(began[..2], [-5, 50]);
    assert_eq!(report.calm.slowest_write_ms, 0.0, "what was answered after the strike is the fault's");
    let slowest: Vec<f64> = report.faults.iter().map(|fault| fault.slowest_write_ms).collect();
    assert_eq!(slowest, [190.0, 0.0, 40.0]);
    let kill = &report.by_kind[0];
    assert_eq!((kill.kind, kill.faults, kill.median_gap_ms, kill.longest_gap_ms), (FaultKind::Kill, 2, 105.0, 200.0));
    assert_eq!(report.faults[0].recovered_after_s, Some(0.295));
}

/// A cluster that stops for good has a gap up to the end.
#[test]
fn a_gap_that_does_not_end() {
    let mut record = record(vec![(0, write(1), 1, Seen::Done)]);
    record.strikes = vec![Strike { kind: Some(FaultKind::Kill), at: 500 * MS, down: true, ..Strike::default() }];
    let report = report(&record);
    assert_eq!(report.faults[0].longest_gap_ms, 999.0);
    assert!(!report.is_clean());
}

#[test]
fn lines_of_json() {
    let record = record(vec![(0, push(5), 1, Seen::Number(1)), (2, Call::Range, 3, Seen::Items(vec![5]))]);
    let mut lines = Vec::new();
    record.write_lines(&mut lines).expect("a vector takes everything");
    let lines = String::from_utf8(lines).expect("text");
    let back: Vec<Operation> = lines.lines().map(|line| serde_json::from_str(line).expect("an operation")).collect();
    assert_eq!(back, record.history.operations);
    assert!(lines.starts_with(r#"{"name":"prove:0:list:2","client":0,"key":2,"call":{"push":{"item":5}},"#), "{lines}");
}
