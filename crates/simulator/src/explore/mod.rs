//! Every order in which a few things can happen to one bucket, and to the child that is split from it and merged with it again, tried
//! out on the phaser itself.
//!
//! Where the simulator takes thousands of long walks through a large world, this takes *every* walk through a tiny one: two or
//! three replicas, a write or two, a few terms; messages in any order or never, disks that forget, crashes, leases that run out,
//! proposals that are accepted late. It finds the interleaving that no walk would, and the shortest way to it.
//!
//! What is not here: clocks that run at different rates, the clock of the data, whole nodes, and of erasing more than that of a child that
//! was absorbed. Those are the simulator's.

mod action;
mod catalogue;
mod configuration;
mod describe;
mod explorer;
mod facts;
mod hash;
mod merge;
mod meta;
mod replica;
mod search;
mod world;

#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, mpsc};

use blueprint::{Conduct, Honest};

pub use catalogue::configurations;
pub use configuration::{Configuration, Prelude};
pub use facts::Checker;
pub use world::Budget;

#[derive(Clone, Debug)]
pub struct Options {
    /// At most this many states in each configuration.
    pub states: usize,
    /// Configurations explored at once, each on a thread of its own.
    pub threads: usize,
    /// Only these; all of them when empty.
    pub only: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { states: 1_000_000, threads: 2, only: Vec::new() }
    }
}

/// How far one configuration is.
#[derive(Clone, Debug)]
pub struct Progress {
    pub configuration: String,
    pub states: usize,
    /// Of these, not yet expanded.
    pub waiting: usize,
    pub depth: usize,
}

/// What came of one configuration.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub configuration: String,
    pub states: usize,
    /// Everything was seen; otherwise the bound was reached.
    pub exhausted: bool,
    pub depth: usize,
    /// Distinct replicas and messages among the states.
    pub replicas: usize,
    pub messages: usize,
    /// How many states were in joint mode, had heirs, followed a usurpation, a hand over, a split, a merge.
    pub joint: usize,
    pub heirs: usize,
    pub usurp: usize,
    pub hand_over: usize,
    pub split: usize,
    pub merge: usize,
    pub violations: usize,
    pub seconds: f64,
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub checker: Checker,
    pub configuration: String,
    /// One line per action, numbered, with what followed from it; the last line says what is wrong.
    pub trace: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// In the order of the configurations.
    pub rows: Vec<Row>,
    pub violation: Option<Violation>,
}

/// Everything, honestly.
pub fn run(options: &Options, progress: &mut dyn FnMut(&Progress)) -> Summary {
    let wanted = |c: &Configuration| options.only.is_empty() || options.only.iter().any(|name| name == c.name);
    let all: Vec<Configuration> = configurations().into_iter().filter(wanted).collect();
    let waiting = Mutex::new(all.iter().cloned().enumerate());
    let (reports, inbox) = mpsc::channel();
    let mut done: Vec<(usize, Row, Option<Violation>)> = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..options.threads.clamp(1, all.len().max(1)) {
            let (reports, waiting) = (reports.clone(), &waiting);
            scope.spawn(move || {
                loop {
                    let next = waiting.lock().expect("nobody panics holding it").next();
                    let Some((place, configuration)) = next else { return };
                    let mut tell = |progress: &Progress| {
                        let _ = reports.send(Report::Progress(progress.clone()));
                    };
                    let (row, violation) = explore::<Honest>(&configuration, options.states, &mut tell);
                    let _ = reports.send(Report::Done(place, row, violation));
                }
            });
        }
        drop(reports);
        for report in inbox {
            match report {
                Report::Progress(news) => progress(&news),
                Report::Done(place, row, violation) => done.push((place, row, violation)),
            }
        }
    });
    done.sort_by_key(|(place, _, _)| *place);
    let violation = done.iter_mut().find_map(|(_, _, violation)| violation.take());
    Summary { rows: done.into_iter().map(|(_, row, _)| row).collect(), violation }
}

enum Report {
    Progress(Progress),
    Done(usize, Row, Option<Violation>),
}

/// One configuration, with a phaser that may be made to break a rule.
pub fn explore<C: Conduct + Hash>(
    configuration: &Configuration,
    states: usize,
    progress: &mut dyn FnMut(&Progress),
) -> (Row, Option<Violation>) {
    search::Search::<C>::new(configuration.clone(), progress).run(states)
}

/// Looks for a planted bug in these configurations, one after the other.
pub fn hunt<C: Conduct + Hash>(configuration_names: &[&str], states: usize) -> Option<Violation> {
    let all = configurations();
    configuration_names.iter().find_map(|name| {
        let configuration = all.iter().find(|c| c.name == *name).expect("a configuration that exists");
        explore::<C>(configuration, states, &mut |_| {}).1
    })
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} is violated in `{}`:", self.checker, self.configuration)?;
        self.trace.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = ["joint", "heirs", "usurp", "hand over", "split", "merge"];
        let titles: Vec<&str> =
            ["configuration", "states", "", "depth"].into_iter().chain(kinds).chain(["violations"]).collect();
        let mut lines: Vec<Vec<String>> = vec![titles.iter().copied().map(String::from).collect()];
        lines.extend(self.rows.iter().map(Row::cells));
        lines.push(self.total().cells());
        let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..titles.len()).map(width).collect();
        for line in &lines {
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(f, "{cell:<width$}")?;
                } else {
                    write!(f, "  {cell:>width$}")?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Summary {
    /// The sum of all rows; its depth is the largest.
    pub fn total(&self) -> Row {
        let mut total = Row { configuration: "total".into(), exhausted: true, ..Row::default() };
        for row in &self.rows {
            total.states += row.states;
            total.exhausted &= row.exhausted;
            total.depth = total.depth.max(row.depth);
            total.replicas += row.replicas;
            total.messages += row.messages;
            total.joint += row.joint;
            total.heirs += row.heirs;
            total.usurp += row.usurp;
            total.hand_over += row.hand_over;
            total.split += row.split;
            total.merge += row.merge;
            total.violations += row.violations;
            total.seconds += row.seconds;
        }
        total
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.configuration.clone(), self.states.to_string()];
        cells.push(if self.exhausted { "exhausted" } else { "bounded" }.into());
        let kinds = [self.joint, self.heirs, self.usurp, self.hand_over, self.split, self.merge];
        let counts = [self.depth].into_iter().chain(kinds).chain([self.violations]);
        cells.extend(counts.map(|count| count.to_string()));
        cells
    }
}
