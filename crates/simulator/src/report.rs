//! What happened in many worlds, for people and for programs. A fault that never struck and a move that never ended prove nothing,
//! so those stand out.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets};
use serde_json::{Value, json};

use crate::changes::{Changes, fault_name};
use crate::plan::{Fault, Plan, SECOND};
use crate::runner::Outcome;
use crate::tally::{Move, Participant, Tally};
use crate::traffic::{self, Measured};
use crate::world::Failure;

#[derive(Clone, Debug)]
pub struct Report {
    pub asked: Range<u64>,
    pub tally: Tally,
    /// By seed.
    pub failures: BTreeMap<u64, Failure>,
    /// Simulated microseconds of the shortest and the longest seed.
    pub shortest: u64,
    pub longest: u64,
    /// How long it took by the clock on the wall.
    pub took: Duration,
    /// What was different from the plans that the seeds draw.
    pub changes: Changes,
    /// How much nodes say to each other, if that was measured.
    pub traffic: Vec<Measured>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Coloured,
}

impl Report {
    pub fn new(asked: Range<u64>) -> Self {
        Self {
            asked,
            tally: Tally::default(),
            failures: BTreeMap::new(),
            shortest: u64::MAX,
            longest: 0,
            took: Duration::ZERO,
            changes: Changes::default(),
            traffic: Vec::new(),
        }
    }

    pub fn add(&mut self, outcome: Outcome) {
        self.tally.add(&outcome.tally);
        if let Some(failure) = outcome.failure {
            self.failures.insert(outcome.seed, failure);
        } else {
            // One that failed ended early.
            self.shortest = self.shortest.min(outcome.tally.simulated);
            self.longest = self.longest.max(outcome.tally.simulated);
        }
    }

    pub fn seeds_per_second(&self) -> f64 {
        self.tally.seeds as f64 / self.took.as_secs_f64().max(0.001)
    }

    pub fn text(&self, paint: Paint) -> String {
        let mut text = format!("{}\n{}\n\n{}\n", self.summary(), self.faults(paint), self.moves(paint));
        if !self.tally.other.is_empty() {
            text += &format!("\n{}\n", self.others(paint));
        }
        let never = self.never();
        if !never.is_empty() {
            text += &format!("\nnever: {}\n", never.join("; "));
        }
        if !self.traffic.is_empty() {
            text += &format!("\n{}", traffic::text(&self.traffic, paint));
        }
        if self.failures.is_empty() {
            return text + &format!("\nno failure in {} seeds\n", grouped(self.tally.seeds));
        }
        text.push('\n');
        for (seed, failure) in &self.failures {
            text += &format!("{}\n", failed(*seed, failure));
        }
        let count = self.failures.len();
        let first = self.failures.keys().next().expect("there are some");
        text + &format!(
            "\n{count} of {} seeds failed; look closer: simulator replay {first}{}\n",
            grouped(self.tally.seeds),
            self.changes
        )
    }

    fn summary(&self) -> String {
        let tally = &self.tally;
        let share = 100 * tally.acked_in_trouble / tally.acked_writes.max(1);
        let mut simulated = duration(tally.simulated);
        if self.shortest <= self.longest {
            simulated += &format!(", {} to {} in each seed", seconds(self.shortest), seconds(self.longest));
        }
        let rows = [
            (
                "seeds",
                format!(
                    "{} of {}..{}, {:.1} per second",
                    grouped(tally.seeds),
                    self.asked.start,
                    self.asked.end,
                    self.seeds_per_second()
                ),
            ),
            ("simulated time", simulated),
            ("events", grouped(tally.events)),
            (
                "acknowledged writes",
                format!(
                    "{}, of these {} ({share}%) in seeds with three or more kinds of faults",
                    grouped(tally.acked_writes),
                    grouped(tally.acked_in_trouble)
                ),
            ),
            ("reads answered", grouped(tally.reads)),
            ("uncertain", grouped(tally.uncertain)),
            ("refused", grouped(tally.refused)),
        ];
        rows.iter().map(|(name, value)| format!("{name:<20} {value}\n")).collect()
    }

    fn faults(&self, paint: Paint) -> Table {
        let mut table = table(paint, ["fault", "name", "times"].map(String::from));
        for fault in Fault::ALL {
            let times = self.tally.faults.get(&fault).copied().unwrap_or_default();
            table.add_row([Cell::new(fault.words()), Cell::new(fault_name(fault)), count(times)]);
        }
        right(&mut table, 2..3);
        table
    }

    fn moves(&self, paint: Paint) -> Table {
        let mut crashed: Vec<Participant> =
            Move::ALL.into_iter().flat_map(|kind| Participant::of(kind).iter().copied()).collect();
        crashed.sort();
        crashed.dedup();
        let titles = ["move", "completed"].map(String::from).into_iter();
        let mut table = table(paint, titles.chain(crashed.iter().map(|who| format!("{} crashed", who.words()))));
        for kind in Move::ALL {
            let mut row = vec![Cell::new(kind.words()), count(self.completed(kind))];
            row.extend(crashed.iter().map(|who| match Participant::of(kind).contains(who) {
                true => count(self.interrupted(kind, *who)),
                false => Cell::new("·"),
            }));
            table.add_row(row);
        }
        right(&mut table, 1..2 + crashed.len());
        table
    }

    fn others(&self, paint: Paint) -> Table {
        let mut table = table(paint, ["besides", "times"].map(String::from));
        for (what, times) in &self.tally.other {
            table.add_row([Cell::new(what), count(*times)]);
        }
        right(&mut table, 1..2);
        table
    }

    /// Everything that should have happened and did not.
    fn never(&self) -> Vec<String> {
        let fault = |fault: &Fault| !self.tally.faults.contains_key(fault);
        let mut never: Vec<String> = Fault::ALL.into_iter().filter(fault).map(|f| f.words().to_owned()).collect();
        for kind in Move::ALL {
            if self.completed(kind) == 0 {
                never.push(format!("{} completed", kind.words()));
            }
            let uninterrupted = Participant::of(kind).iter().filter(|who| self.interrupted(kind, **who) == 0);
            never.extend(
                uninterrupted.map(|who| format!("{} interrupted by a crash of the {}", kind.words(), who.words())),
            );
        }
        never
    }

    fn completed(&self, kind: Move) -> u64 {
        self.tally.completed.get(&kind).copied().unwrap_or_default()
    }

    fn interrupted(&self, kind: Move, who: Participant) -> u64 {
        self.tally.interrupted.get(&(kind, who)).copied().unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        let tally = &self.tally;
        let faults: BTreeMap<String, u64> = Fault::ALL
            .into_iter()
            .map(|f| (fault_name(f), tally.faults.get(&f).copied().unwrap_or_default()))
            .collect();
        let moves: BTreeMap<&str, Value> = Move::ALL
            .into_iter()
            .map(|kind| {
                let who = Participant::of(kind).iter();
                let interrupted: BTreeMap<&str, u64> =
                    who.map(|who| (who.words(), self.interrupted(kind, *who))).collect();
                (kind.words(), json!({ "completed": self.completed(kind), "interrupted": interrupted }))
            })
            .collect();
        let failure = |(seed, f): (&u64, &Failure)| json!({ "seed": seed, "checker": f.checker, "text": f.text });
        let mut object = json!({
            "seeds": { "from": self.asked.start, "to": self.asked.end, "run": tally.seeds },
            "seconds": self.took.as_secs_f64(),
            "seeds_per_second": self.seeds_per_second(),
            "simulated_seconds": tally.simulated as f64 / SECOND as f64,
            "events": tally.events,
            "acknowledged_writes": tally.acked_writes,
            "acknowledged_writes_in_trouble": tally.acked_in_trouble,
            "reads": tally.reads,
            "uncertain": tally.uncertain,
            "refused": tally.refused,
            "faults": faults,
            "moves": moves,
            "besides": tally.other,
            "failures": self.failures.iter().map(failure).collect::<Vec<_>>(),
        });
        if !self.traffic.is_empty() {
            object["traffic"] = traffic::json(&self.traffic);
        }
        object
    }
}

/// One line, whatever the checker has to say.
pub fn failed(seed: u64, failure: &Failure) -> String {
    format!("failed {seed} {} {}", failure.checker, failure.text.lines().next().unwrap_or_default())
}

/// What kind of world this is.
pub fn plan(plan: &Plan) -> String {
    let mut text = format!(
        "nodes {}, buckets {}, replicas {}; clients {}, a call every {} each, reads {}%, keys of each kind {}\n",
        plan.nodes,
        plan.buckets,
        plan.replicas,
        plan.clients,
        seconds(plan.think),
        plan.read_percent,
        plan.keys
    );
    let disk = if plan.memory_level { "only as durable as memory".into() } else { seconds(plan.disk_latency) };
    text += &format!("network {}, disk {disk}", seconds(plan.latency));
    text += if plan.small_checkpoints { ", checkpoints often\n" } else { "\n" };
    text += &match plan.move_every {
        0 => "no moves".into(),
        every => format!("a move every {}, {}% of them ambushed", seconds(every), plan.ambush),
    };
    text += &format!("; unrest for {}, then {} to come to rest\n", seconds(plan.unrest), seconds(plan.patience));
    let faults: Vec<String> = plan.faults.iter().map(fault_name).collect();
    text + &match faults.len() {
        0 => "no faults\n".into(),
        count => format!("faults of {count} kinds, about every {}: {}\n", seconds(plan.fault_every), faults.join(" ")),
    }
}

pub fn table(paint: Paint, titles: impl IntoIterator<Item = String>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(titles.into_iter().collect::<Vec<_>>());
    match paint {
        Paint::Plain => table.force_no_tty(),
        Paint::Coloured => table.enforce_styling(),
    };
    table
}

/// Numbers stand under each other.
pub fn right(table: &mut Table, columns: Range<usize>) {
    for column in columns {
        table.column_mut(column).expect("it has that many").set_cell_alignment(CellAlignment::Right);
    }
}

pub fn count(times: u64) -> Cell {
    match times {
        0 => Cell::new("never").fg(Color::Red).add_attribute(Attribute::Bold),
        times => Cell::new(grouped(times)),
    }
}

/// 1234567 is 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A short time, from microseconds.
pub fn seconds(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

/// A long time, from microseconds.
fn duration(micros: u64) -> String {
    let whole = micros / SECOND;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s:02}s"),
        (h, m, s) => format!("{h}h {m:02}m {s:02}s"),
    }
}

#[cfg(test)]
mod tests;
