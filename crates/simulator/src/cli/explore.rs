//! `simulator explore`: every order of events in worlds small enough for that.

use std::collections::BTreeMap;
use std::time::Instant;

use clap::Args;
use clap::builder::PossibleValuesParser;
use comfy_table::Cell;
use simulator::explore::{self, Options, Row, Summary};
use simulator::report::{count, grouped, right, table};

use super::{Ending, paint, progress, say};

/// Try every order of events in small worlds
#[derive(Debug, Args)]
pub(super) struct Explore {
    /// At most so many states of each configuration
    #[arg(long, value_name = "N", default_value_t = Options::default().states)]
    states: usize,
    /// Only these configurations
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', value_parser = configuration_names())]
    only: Vec<String>,
}

impl Explore {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let bar = progress(0, "{spinner} {pos} states, {per_sec}; {msg}");
        let mut states: BTreeMap<String, usize> = BTreeMap::new();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let options = Options { states: self.states, threads, only: self.only };
        let start = Instant::now();
        let summary = explore::run(&options, &mut |news| {
            states.insert(news.configuration.clone(), news.states);
            bar.set_position(states.values().sum::<usize>() as u64);
            bar.set_message(format!("{}: {} deep, {} waiting", news.configuration, news.depth, news.waiting));
        });
        bar.finish_and_clear();
        say(text(&summary))?;
        say(format!("{:.0} s", start.elapsed().as_secs_f64()))?;
        let Some(violation) = &summary.violation else { return Ok(Ending::Well) };
        say(format!("\n{violation}"))?;
        Ok(Ending::Explore)
    }
}

fn configuration_names() -> PossibleValuesParser {
    PossibleValuesParser::new(explore::configurations().iter().map(|c| c.name))
}

fn text(summary: &Summary) -> String {
    let titles =
        ["configuration", "states", "seen", "depth", "joint mode", "heirs", "usurp", "hand over", "split", "merge"];
    let mut table = table(paint(), titles.map(String::from));
    for row in &summary.rows {
        table.add_row(cells(row, |number| match number {
            0 => Cell::new("·"),
            number => Cell::new(grouped(number)),
        }));
    }
    let total = summary.total();
    table.add_row(cells(&total, count));
    right(&mut table, 1..titles.len());
    let exhausted = summary.rows.iter().filter(|row| row.exhausted).count();
    let bounded = summary.rows.len() - exhausted;
    let states = grouped(total.states as u64);
    let found = match total.violations {
        0 => "no violation".into(),
        violations => format!("{violations} VIOLATIONS"),
    };
    format!("{table}\n\n{found} in {states} distinct states; {exhausted} configurations exhausted, {bounded} bounded")
}

fn cells(row: &Row, number: impl Fn(u64) -> Cell) -> Vec<Cell> {
    let seen = if row.exhausted {
        "all"
    } else if row.violations > 0 {
        "VIOLATED"
    } else {
        "bounded"
    };
    let mut cells = vec![Cell::new(&row.configuration), Cell::new(grouped(row.states as u64)), Cell::new(seen)];
    cells.push(Cell::new(row.depth));
    let kinds = [row.joint, row.heirs, row.usurp, row.hand_over, row.split, row.merge];
    cells.extend(kinds.map(|states| number(states as u64)));
    cells
}
