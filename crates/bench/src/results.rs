//! What a row came to: cells, each with what was measured of every side in every round; what was promised by whom; and whether the bars are
//! met.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::load::Outcome;
use crate::peers::Peer;
use crate::statistics::Summary;

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    PerSecond,
    /// Of all servers, for each operation, in µs.
    Processor,
    P50,
    P99,
    P999,
    Errors,
    /// In ms, as are the three above.
    LongestWait,
    /// Acknowledged and not there any more.
    Lost,
    /// In s.
    Took,
    MegabytesPerSecond,
    /// Throughput while it went on, of that before, in percent.
    Meanwhile,
    /// In bytes.
    PerKey,
    /// In s, for a million keys.
    Recovery,
}

impl Measure {
    /// Of each operation of a load.
    pub const OF_LOAD: [Measure; 6] =
        [Measure::PerSecond, Measure::Processor, Measure::P50, Measure::P99, Measure::P999, Measure::Errors];

    pub fn title(self) -> &'static str {
        match self {
            Measure::PerSecond => "per second",
            Measure::Processor => "CPU each, µs",
            Measure::P50 => "p50, ms",
            Measure::P99 => "p99, ms",
            Measure::P999 => "p99.9, ms",
            Measure::Errors => "errors",
            Measure::LongestWait => "longest wait of a write, ms",
            Measure::Lost => "acknowledged and lost",
            Measure::Took => "took, s",
            Measure::MegabytesPerSecond => "MB/s",
            Measure::Meanwhile => "throughput meanwhile, %",
            Measure::PerKey => "bytes per key",
            Measure::Recovery => "recovery, s per million keys",
        }
    }

    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Measure::PerSecond | Measure::Errors | Measure::Lost | Measure::PerKey => thousands(value),
            Measure::Processor | Measure::Took | Measure::Recovery => format!("{value:.2}"),
            Measure::P50 | Measure::P99 | Measure::P999 => format!("{value:.2}"),
            Measure::LongestWait | Measure::MegabytesPerSecond => format!("{value:.1}"),
            Measure::Meanwhile => format!("{value:.0}"),
        }
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// What one side showed in one round.
pub type Reading = BTreeMap<Measure, f64>;

pub(crate) fn reading(outcome: &Outcome) -> Reading {
    let ms = |part: f64| outcome.latency.quantile(part).as_secs_f64() * 1e3;
    BTreeMap::from([
        (Measure::PerSecond, outcome.per_second()),
        (Measure::Processor, outcome.processor_each()),
        (Measure::P50, ms(0.5)),
        (Measure::P99, ms(0.99)),
        (Measure::P999, ms(0.999)),
        (Measure::Errors, outcome.errors as f64),
    ])
}

/// One side's rounds of one cell.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    pub who: Peer,
    pub rounds: Vec<Reading>,
}

impl Side {
    /// Round by round; nothing if it was not measured.
    pub fn all(&self, measure: Measure) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| round.get(&measure).copied()).collect()
    }
}

/// The same work for everyone.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    pub name: String,
    pub sides: Vec<Side>,
}

impl Cell {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), sides: Vec::new() }
    }

    pub(crate) fn add(&mut self, who: Peer, reading: Reading) {
        match self.sides.iter_mut().find(|side| side.who == who) {
            Some(side) => side.rounds.push(reading),
            None => self.sides.push(Side { who, rounds: vec![reading] }),
        }
    }

    pub fn side(&self, who: Peer) -> Option<&Side> {
        self.sides.iter().find(|side| side.who == who)
    }

    /// Ours to theirs.
    pub fn ratio(&self, against: Peer, measure: Measure) -> Option<Summary> {
        Summary::of_ratios(&self.side(Peer::Godwit)?.all(measure), &self.side(against)?.all(measure))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

impl Wanted {
    fn is_met(self, value: f64) -> bool {
        match self {
            Wanted::AtLeast(bound) => value >= bound,
            Wanted::AtMost(bound) => value <= bound,
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Wanted::AtLeast(bound) => format!("≥ {}", number(bound)),
            Wanted::AtMost(bound) => format!("≤ {}", number(bound)),
        }
    }
}

/// As short as it can be said.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Something that must show.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    pub what: String,
    pub wanted: Wanted,
    pub got: Summary,
    pub is_met: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Results {
    pub row: String,
    pub about: String,
    pub measures: Vec<Measure>,
    /// Those whose ratio to the peers' is shown.
    pub compared: Vec<Measure>,
    /// What was guaranteed by whom, in words.
    pub guarantees: Vec<(String, String)>,
    pub cells: Vec<Cell>,
    pub bars: Vec<Bar>,
    pub notes: Vec<String>,
    /// The most of this machine that somebody took during a turn who has no part in it, 0 to 1.
    pub disturbance: f64,
}

impl Results {
    pub(crate) fn new(row: &str, about: &str, measures: &[Measure], compared: &[Measure]) -> Self {
        Self {
            row: row.to_owned(),
            about: about.to_owned(),
            measures: measures.to_vec(),
            compared: compared.to_vec(),
            guarantees: Vec::new(),
            cells: Vec::new(),
            bars: Vec::new(),
            notes: Vec::new(),
            disturbance: 0.0,
        }
    }

    pub(crate) fn guarantee(&mut self, who: Peer, words: &str) {
        self.guarantees.push((who.to_string(), words.to_owned()));
    }

    pub(crate) fn cell(&self, name: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.name == name)
    }

    /// Ours must be so large, or so small, beside theirs. A bar for which nothing was measured is not there.
    pub(crate) fn bar_on_ratio(&mut self, cell: &str, measure: Measure, against: Peer, wanted: Wanted) {
        let got = self.cell(cell).and_then(|cell| cell.ratio(against, measure));
        if let Some(got) = got {
            let what = format!("{cell}: {} ÷ {against}'s", measure.title());
            self.bars.push(Bar { what, wanted, got, is_met: wanted.is_met(got.median) });
        }
    }

    /// Ours in one cell beside ours in another one.
    pub(crate) fn bar_between(&mut self, cell: &str, other: &str, measure: Measure, wanted: Wanted) {
        let ours = |name: &str| Some(self.cell(name)?.side(Peer::Godwit)?.all(measure));
        let got = ours(cell).zip(ours(other)).and_then(|(one, two)| Summary::of_ratios(&one, &two));
        if let Some(got) = got {
            let what = format!("{}: {cell} ÷ {other}", measure.title());
            self.bars.push(Bar { what, wanted, got, is_met: wanted.is_met(got.median) });
        }
    }

    /// It must be so in every round.
    pub(crate) fn bar_on_every_round(&mut self, cell: &str, measure: Measure, most: f64) {
        let got = self.cell(cell).and_then(|cell| Summary::of(&cell.side(Peer::Godwit)?.all(measure)));
        if let Some(got) = got {
            let what = format!("{cell}: {}, in every round", measure.title());
            self.bars.push(Bar { what, wanted: Wanted::AtMost(most), got, is_met: got.most <= most });
        }
    }

    /// Both gave the same answer to the same question only if nobody answered with errors.
    pub(crate) fn note(&mut self, cell: &str, who: Peer, outcome: &Outcome) {
        self.disturbance = self.disturbance.max(outcome.disturbance());
        if outcome.errors + outcome.missing + outcome.moved > 0 {
            let error = outcome.error.as_ref().map(|error| format!(", the first: {error}")).unwrap_or_default();
            let Outcome { errors, missing, moved, .. } = outcome;
            self.notes.push(format!(
                "{cell}, {who}: {errors} errors{error}; {missing} reads found nothing; {moved} redirects"
            ));
        }
    }

    pub fn is_met(&self) -> bool {
        self.bars.iter().all(|bar| bar.is_met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(ours: &[f64], theirs: &[f64]) -> Cell {
        let mut cell = Cell::new("SET");
        let reading = |value: &f64| Reading::from([(Measure::PerSecond, *value)]);
        ours.iter().for_each(|value| cell.add(Peer::Godwit, reading(value)));
        theirs.iter().for_each(|value| cell.add(Peer::Valkey, reading(value)));
        cell
    }

    #[test]
    fn bars_are_met_or_not_or_were_not_run() {
        let mut results = Results::new("single", "", &[Measure::PerSecond], &[]);
        results.cells.push(cell(&[110.0, 90.0, 120.0], &[100.0, 100.0, 100.0]));
        results.bar_on_ratio("SET", Measure::PerSecond, Peer::Valkey, Wanted::AtLeast(1.0));
        assert!(results.is_met());
        results.bar_on_ratio("SET", Measure::PerSecond, Peer::Valkey, Wanted::AtLeast(1.15));
        results.bar_on_ratio("SET", Measure::PerSecond, Peer::Redis, Wanted::AtLeast(1.0));
        results.bar_on_ratio("SET", Measure::P99, Peer::Valkey, Wanted::AtMost(1.0));
        results.bar_on_ratio("GET", Measure::PerSecond, Peer::Valkey, Wanted::AtLeast(1.0));
        assert_eq!(results.bars.iter().map(|bar| bar.is_met).collect::<Vec<_>>(), [true, false]);
        assert!(!results.is_met());
    }

    #[test]
    fn in_every_round_means_every_one() {
        let mut results = Results::new("failover", "", &[Measure::PerSecond], &[]);
        results.cells.push(cell(&[0.0, 0.0, 1.0], &[]));
        results.bar_on_every_round("SET", Measure::PerSecond, 0.0);
        assert!(!results.is_met());
    }

    #[test]
    fn figures() {
        assert_eq!(Measure::PerSecond.text(1_234_567.8), "1,234,568");
        assert_eq!(Measure::PerSecond.text(999.0), "999");
        assert_eq!(Measure::P99.text(1.2345), "1.23");
        assert_eq!((number(1.0), number(0.125), number(20.0)), ("1".into(), "0.125".into(), "20".into()));
    }
}
