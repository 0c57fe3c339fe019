//! What a run has shown, in numbers: for people as a table, for programs as JSON.

use std::collections::{BTreeMap, BTreeSet};

use history::{Judgement, Outcome, Stats, Wrong};
use serde::Serialize;

use crate::changes::Change;
use crate::faults::{FaultKind, Strike};
use crate::record::{Outcomes, Record};
use crate::workload::key_name;

/// Violations that are told in full; the rest are counted.
const TOLD: usize = 50;
/// Operations of one key's story.
const LONGEST_STORY: usize = 120;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub seconds: f64,
    /// By command.
    pub operations: BTreeMap<&'static str, Outcomes>,
    pub acknowledged_writes: u64,
    pub acknowledged_writes_per_second: f64,
    /// Acknowledged writes that are gone.
    pub lost: u64,
    pub duplicated: u64,
    pub stale_reads: u64,
    pub other_violations: u64,
    pub violations: Vec<Told>,
    /// Answers that no store should give.
    pub strange_answers: Vec<String>,
    /// Keys whose last state is not known, as nobody could be asked in the end.
    pub unread_keys: usize,
    /// Of the whole run.
    pub whole: Stretch,
    /// Before the first fault.
    pub calm: Stretch,
    pub faults: Vec<Fault>,
    pub by_kind: Vec<ByKind>,
    /// Changes of shape, in the order in which their kinds first came.
    pub by_change: Vec<ByChange>,
    /// Each attempt that was not answered as hoped.
    pub errors: BTreeMap<String, u64>,
    /// What else did not come right.
    pub problems: Vec<String>,
    pub checked: Stats,
    /// Did it use writes that are safe to repeat?
    pub series: bool,
}

/// A violation, and all that happened to its key.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    pub checker: &'static str,
    pub wrong: Wrong,
    pub times: u64,
    pub key: String,
    pub text: String,
    pub story: Vec<String>,
}

/// How writes went for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stretch {
    pub seconds: f64,
    pub writes_per_second: f64,
    /// The longest time in which no write of any client was acknowledged.
    pub longest_gap_ms: f64,
    /// The longest that one client waited for one write, all attempts together.
    pub slowest_write_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    pub kind: FaultKind,
    pub node: u16,
    pub at_s: f64,
    /// In the calm before it.
    pub writes_per_second_before: u64,
    pub longest_gap_ms: f64,
    /// When that began, from the strike; negative if just before.
    pub gap_began_after_s: f64,
    pub slowest_write_ms: f64,
    /// The same until the fault was taken back: what follows is of the return, not of the fault.
    pub while_away: Stretch,
    /// From the strike until writes flowed as before; to a second, as that is how long it is measured.
    pub flowing_after_s: Option<f64>,
    /// Until, besides, the cluster was as it should be for the next fault.
    pub recovered_after_s: Option<f64>,
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByKind {
    pub kind: FaultKind,
    pub faults: usize,
    /// In the calm before one of them.
    pub least_writes_per_second_before: u64,
    pub median_gap_ms: f64,
    pub longest_gap_ms: f64,
    pub median_slowest_write_ms: f64,
    /// Until the fault was taken back.
    pub median_gap_away_ms: f64,
    pub median_slowest_write_away_ms: f64,
}

/// One kind of change, and the calm before each of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByChange {
    pub kind: String,
    pub times: usize,
    /// What was asked for, each time.
    pub what: Vec<String>,
    pub median_seconds: f64,
    pub median_bytes: u64,
    /// The longest that one client waited for one write, from when it was asked for until it was done.
    pub median_slowest_write_ms: f64,
    pub median_slowest_write_calm_ms: f64,
    pub slowest_write_ms: f64,
    /// The longest time in which no write of any client was acknowledged.
    pub median_gap_ms: f64,
    pub median_gap_calm_ms: f64,
    pub median_writes_per_second: f64,
    pub median_writes_per_second_calm: f64,
}

impl Report {
    #[must_use]
    pub fn new(record: &Record, judgement: &Judgement) -> Self {
        let writes = Writes::of(record);
        let first_fault = record.strikes.iter().map(|strike| strike.at).min();
        let whole = writes.stretch(record.began, record.ended);
        let faults: Vec<Fault> = record.strikes.iter().filter_map(|strike| writes.fault(strike, record)).collect();
        let count = |wrong: &[Wrong]| {
            judgement.violations.iter().filter(|v| wrong.contains(&v.wrong)).map(|violation| violation.times).sum()
        };
        let story = |key| record.history.story(key).into_iter().take(LONGEST_STORY).map(ToString::to_string).collect();
        let told = judgement.violations.iter().take(TOLD).map(|violation| Told {
            checker: violation.checker,
            wrong: violation.wrong,
            times: violation.times,
            key: key_name(record.run, violation.key),
            text: violation.text.clone(),
            story: story(violation.key),
        });
        let mut problems: Vec<String> = record
            .strikes
            .iter()
            .filter(|strike| strike.down)
            .map(|strike| {
                format!("after a fault of node {}: {}", strike.node, strike.note.as_deref().unwrap_or("it is down"))
            })
            .collect();
        problems.extend(record.problems.iter().cloned());
        if writes.acknowledged.is_empty() {
            problems.push("no write was acknowledged: that proves nothing".into());
        }
        if !record.unread.is_empty() {
            problems.push(format!(
                "{} keys could not be read in the end: what became of them is not known",
                record.unread.len()
            ));
        }
        Report {
            seconds: whole.seconds,
            operations: record.tally.clone(),
            acknowledged_writes: writes.acknowledged.len() as u64,
            acknowledged_writes_per_second: whole.writes_per_second,
            lost: count(&[Wrong::Lost]),
            duplicated: count(&[Wrong::Twice]),
            stale_reads: count(&[Wrong::StaleRead]),
            other_violations: count(&[Wrong::Order, Wrong::Record, Wrong::Undecided]),
            violations: told.collect(),
            strange_answers: record.strange.clone(),
            unread_keys: record.unread.len(),
            whole,
            calm: writes.stretch(record.began, first_fault.unwrap_or(record.ended)),
            by_kind: by_kind(&faults),
            by_change: by_change(&record.changes, &writes),
            faults,
            errors: record.errors.clone(),
            problems,
            checked: judgement.stats,
            series: record.series,
        }
    }

    /// Nothing is violated, and there was something to violate.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.strange_answers.is_empty() && self.problems.is_empty()
    }
}

/// When writes were acknowledged, in order; in µs of the run.
struct Writes<'a> {
    acknowledged: Vec<u64>,
    /// The same between the beginning and the end of the run: neighbours have a gap between them.
    marks: Vec<u64>,
    slow: &'a [(u64, u64)],
    ended: u64,
}

impl<'a> Writes<'a> {
    fn of(record: &'a Record) -> Self {
        let writes = record.history.operations.iter().filter(|operation| !operation.call.is_read());
        let mut acknowledged: Vec<u64> = writes
            .filter_map(|operation| match operation.outcome {
                Outcome::Answered { at, .. } => Some(at),
                Outcome::Uncertain { .. } | Outcome::Refused => None,
            })
            .collect();
        acknowledged.sort_unstable();
        let within = acknowledged.iter().copied().filter(|at| (record.began..record.ended).contains(at));
        let marks = [record.began].into_iter().chain(within).chain([record.ended]).collect();
        Writes { acknowledged, marks, slow: &record.slow, ended: record.ended }
    }

    fn stretch(&self, from: u64, until: u64) -> Stretch {
        let count = self.acknowledged.iter().filter(|at| (from..until).contains(at)).count();
        let time = seconds(until.saturating_sub(from));
        Stretch {
            seconds: time,
            writes_per_second: if time > 0.0 { (count as f64 / time).round() } else { 0.0 },
            longest_gap_ms: millis(self.longest_gap(from, until).1),
            slowest_write_ms: millis(self.slowest(|at, _| (from..until).contains(&at))),
        }
    }

    /// With every write that was under way at any time of it: who waited through a change may be answered after it.
    fn all_of(&self, from: u64, until: u64) -> Stretch {
        let slowest = self.slowest(|at, took| at > from && at - took < until);
        Stretch { slowest_write_ms: millis(slowest), ..self.stretch(from, until) }
    }

    /// Until it had recovered, or else until the next one.
    fn fault(&self, strike: &Strike, record: &Record) -> Option<Fault> {
        let next = record.strikes.iter().map(|other| other.at).filter(|at| *at > strike.at).min();
        let until = strike.recovered.or(next).unwrap_or(self.ended);
        let (gap_began, gap) = self.longest_gap(strike.at, until);
        Some(Fault {
            kind: strike.kind?,
            node: strike.node,
            at_s: seconds(strike.at),
            writes_per_second_before: strike.rate_before,
            longest_gap_ms: millis(gap),
            gap_began_after_s: seconds(gap_began) - seconds(strike.at),
            slowest_write_ms: millis(self.slowest(|at, took| at > strike.at && at - took < until)),
            while_away: self.stretch(strike.at, strike.healing.unwrap_or(until)),
            flowing_after_s: strike.flowing.map(|at| seconds(at - strike.at)),
            recovered_after_s: strike.recovered.map(|at| seconds(at - strike.at)),
            note: strike.note.clone(),
        })
    }

    /// Between two neighbours of which the later came after `from` and the earlier before `until`: when it began, and its length.
    fn longest_gap(&self, from: u64, until: u64) -> (u64, u64) {
        let within = self.marks.windows(2).filter(|pair| pair[1] > from && pair[0] < until);
        within.map(|pair| (pair[0], pair[1].min(until) - pair[0])).max_by_key(|(_, gap)| *gap).unwrap_or((from, 0))
    }

    /// Of those that count, by when they were answered and how long they took.
    fn slowest(&self, counts: impl Fn(u64, u64) -> bool) -> u64 {
        self.slow.iter().filter(|(at, took)| counts(*at, *took)).map(|(_, took)| *took).max().unwrap_or(0)
    }
}

fn by_kind(faults: &[Fault]) -> Vec<ByKind> {
    let kinds: BTreeSet<FaultKind> = faults.iter().map(|fault| fault.kind).collect();
    let of = |kind: FaultKind| {
        let of_kind = || faults.iter().filter(move |fault| fault.kind == kind);
        let gaps: Vec<f64> = of_kind().map(|fault| fault.longest_gap_ms).collect();
        ByKind {
            kind,
            faults: gaps.len(),
            least_writes_per_second_before: of_kind().map(|fault| fault.writes_per_second_before).min().unwrap_or(0),
            longest_gap_ms: gaps.iter().copied().fold(0.0, f64::max),
            median_gap_ms: median(gaps),
            median_slowest_write_ms: median(of_kind().map(|fault| fault.slowest_write_ms).collect()),
            median_gap_away_ms: median(of_kind().map(|fault| fault.while_away.longest_gap_ms).collect()),
            median_slowest_write_away_ms: median(of_kind().map(|fault| fault.while_away.slowest_write_ms).collect()),
        }
    };
    kinds.into_iter().map(of).collect()
}

fn by_change(changes: &[Change], writes: &Writes<'_>) -> Vec<ByChange> {
    let mut kinds: Vec<&str> = Vec::new();
    for change in changes.iter().filter(|change| !change.kind.is_empty()) {
        if !kinds.contains(&change.kind.as_str()) {
            kinds.push(&change.kind);
        }
    }
    let of = |kind: &str| {
        let of_kind: Vec<&Change> = changes.iter().filter(|change| change.kind == kind).collect();
        let during: Vec<Stretch> = of_kind.iter().map(|change| writes.all_of(change.at, change.done)).collect();
        let calm: Vec<Stretch> = of_kind.iter().map(|change| writes.all_of(change.calm, change.at)).collect();
        let middle = |of: &[Stretch], what: fn(&Stretch) -> f64| median(of.iter().map(what).collect());
        ByChange {
            kind: kind.to_owned(),
            times: of_kind.len(),
            what: of_kind.iter().map(|change| change.what.clone()).collect(),
            median_seconds: middle(&during, |stretch| stretch.seconds),
            median_bytes: median(of_kind.iter().map(|change| change.bytes as f64).collect()) as u64,
            median_slowest_write_ms: middle(&during, |stretch| stretch.slowest_write_ms),
            median_slowest_write_calm_ms: middle(&calm, |stretch| stretch.slowest_write_ms),
            slowest_write_ms: during.iter().map(|stretch| stretch.slowest_write_ms).fold(0.0, f64::max),
            median_gap_ms: middle(&during, |stretch| stretch.longest_gap_ms),
            median_gap_calm_ms: middle(&calm, |stretch| stretch.longest_gap_ms),
            median_writes_per_second: middle(&during, |stretch| stretch.writes_per_second),
            median_writes_per_second_calm: middle(&calm, |stretch| stretch.writes_per_second),
        }
    };
    kinds.into_iter().map(of).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}

#[cfg(test)]
mod tests;
