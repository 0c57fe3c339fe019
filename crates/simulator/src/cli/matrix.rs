//! `simulator matrix`: every operation, every step, every victim, every fault.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use simulator::hunt;
use simulator::matrix::page::{self, Counts, Results};
use simulator::matrix::{Cell, Ended};
use simulator::runner;
use simulator::trace::{Trace, Wanted};

use super::{Ending, progress, sabotage_names, say};

/// Strike every operation at every step, in everyone who takes part, and write docs/crash-matrix.md
///
/// Prints `failed CELL CHECKER TEXT` for each cell that fails.
#[derive(Debug, Args)]
pub(super) struct Matrix {
    /// Only this one, such as replace-node/4.filling/joiner/wipe, and print what happens in it
    #[arg(long, value_name = "CELL", value_parser = parse_cell, conflicts_with_all = ["every", "only"])]
    cell: Option<Cell>,
    /// With --cell: every event, not only what the meta group decides and what befalls nodes
    #[arg(long, requires = "cell")]
    all_events: bool,
    /// Only operations, steps or cells whose names begin so; nothing is written
    #[arg(long, value_name = "PREFIX")]
    only: Option<String>,
    /// Only each Nth cell; nothing is written
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Other luck in the same cells; nothing is written
    #[arg(long, value_name = "N", default_value_t = 0)]
    dice: u64,
    /// Plant this bug, and stop at the first cell that notices; nothing is written
    #[arg(long, value_name = "NAME", value_parser = sabotage_names(), hide_possible_values = true)]
    sabotage: Option<String>,
    /// Where the page goes
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/crash-matrix.md"))]
    page: PathBuf,
}

impl Matrix {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        match &self.cell {
            Some(cell) => self.show(cell),
            None => self.run_all(),
        }
    }

    fn run_one(&self, cell: &Cell, trace: Trace) -> simulator::matrix::Outcome {
        match self.sabotage.as_ref().map(|name| hunt::sabotage(name).expect("the parser knows their names")) {
            Some(sabotage) => cell.run_sabotaged(sabotage, self.dice, trace),
            None => cell.run(self.dice, trace),
        }
    }

    fn show(&self, cell: &Cell) -> anyhow::Result<Ending> {
        let outcome = self.run_one(cell, Trace::keeping(Wanted::default()));
        for line in outcome.lines.iter().filter(|line| self.all_events || is_told(line)) {
            say(line)?;
        }
        say(match &outcome.ended {
            Ended::Done => "\npassed: the operation was done".to_owned(),
            Ended::GaveUp(why) => format!("\npassed: the operation ended with a reason: {why}"),
            Ended::Void(void) => format!("\nnot struck: {void:?}"),
            Ended::Failed(failure) => format!("\nFAILED {}\n{}", failure.checker, failure.text),
        })?;
        Ok(Ending::of(outcome.ended.failure()))
    }

    fn cells(&self) -> Vec<Cell> {
        let wanted = |cell: &Cell| self.only.as_ref().is_none_or(|only| cell.to_string().starts_with(only));
        Cell::all().into_iter().filter(wanted).step_by(self.every as usize).collect()
    }

    fn run_all(&self) -> anyhow::Result<Ending> {
        let start = Instant::now();
        let cells = self.cells();
        let bar =
            progress(cells.len() as u64, "{bar:30} {pos}/{len} cells, {msg} failed, {eta} left").with_message("0");
        let mut results = Results::new();
        let mut failures = 0;
        runner::on_all_cores(
            0..cells.len() as u64,
            |at| self.run_one(&cells[at as usize], Trace::silent()).ended,
            |at, ended| {
                failures += usize::from(ended.failure().is_some());
                results.insert(cells[at as usize].to_string(), ended);
                bar.set_message(failures.to_string());
                bar.inc(1);
                self.sabotage.is_none() || failures == 0
            },
        );
        bar.finish_and_clear();
        for (name, ended) in &results {
            if let Ended::Failed(failure) = ended {
                say(format!("failed {name} {} {}", failure.checker, failure.text.lines().next().unwrap_or_default()))?;
            }
        }
        let Counts { done, gave_up, failed, void } = Counts::of(results.values());
        let struck = done + gave_up + failed;
        say(format!("{struck} cells: {done} done, {gave_up} ended with a reason, {failed} failed; {void} not struck"))?;
        say(format!("{:.0} s", start.elapsed().as_secs_f64()))?;
        if self.is_whole() {
            std::fs::write(&self.page, page::page(&results))
                .with_context(|| format!("the page cannot be written to {}: --page FILE", self.page.display()))?;
        }
        Ok(Ending::of(results.values().filter_map(Ended::failure)))
    }

    /// Only then the page says what it seems to say.
    fn is_whole(&self) -> bool {
        self.only.is_none() && self.every == 1 && self.dice == 0 && self.sabotage.is_none()
    }
}

fn parse_cell(text: &str) -> Result<Cell, String> {
    text.parse()
}

/// What the meta group decides, what befalls nodes, and how rules begin and end.
fn is_told(line: &str) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let who = words.next();
    let what = words.next();
    who == Some("meta") || !matches!(what, Some("<-" | "->"))
}
