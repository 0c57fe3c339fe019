//! `simulator run`: many seeds, one report.

use std::ops::Range;
use std::time::Instant;

use anyhow::anyhow;
use blueprint::Honest;
use clap::Args;
use simulator::changes::{Changes, parse_count, parse_fault};
use simulator::plan::{Fault, Plan};
use simulator::report::{Report, failed};
use simulator::trace::Trace;
use simulator::{runner, traffic};

use super::{Ending, paint, progress, say};

/// Run seeds on all cores and report what happened
#[derive(Debug, Args)]
pub(super) struct Run {
    /// From A up to and without B
    #[arg(long, value_name = "A..B", default_value = "0..200", value_parser = parse_seeds)]
    seeds: Range<u64>,
    /// So many nodes in every seed, and the rest to match; prints also how many messages clusters of 5, 20 and 50 nodes exchange
    #[arg(long, value_name = "N", value_parser = parse_count)]
    nodes: Option<usize>,
    /// Of those seeds only the ones in whose worlds this fault strikes
    #[arg(long, value_name = "FAULT", value_parser = parse_fault)]
    only: Option<Fault>,
    /// Run each seed twice and compare every byte of the two traces
    #[arg(long)]
    twice: bool,
    /// Print one JSON object instead of the report
    #[arg(long)]
    json: bool,
    /// Do not stop at the first failure
    #[arg(long)]
    keep_going: bool,
}

impl Run {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let mut report = self.report();
        if self.nodes.is_some() {
            report.traffic = traffic::measure(&traffic::SIZES).map_err(|failure| anyhow!(failure.text))?;
        }
        if self.json {
            say(report.json())?;
        } else {
            say(report.text(paint()).trim_end())?;
        }
        Ok(Ending::of(report.failures.values()))
    }

    fn report(&self) -> Report {
        let template = "{bar:30} {pos}/{len} seeds, {per_sec}, {msg} failed, {eta} left";
        let strikes = |seed: &u64| self.only.is_none_or(|fault| Plan::draw(*seed).faults.has(fault));
        let seeds: Vec<u64> = self.seeds.clone().filter(strikes).collect();
        let bar = progress(seeds.len() as u64, template).with_message("0");
        let mut report = Report::new(self.seeds.clone());
        let start = Instant::now();
        report.changes = Changes { nodes: self.nodes, ..Changes::default() };
        let changes = report.changes.clone();
        let run = |seed| match self.twice {
            true => runner::run_twice::<Honest>(seed, &changes),
            false => runner::run_plan::<Honest>(changes.plan(seed), Trace::silent()),
        };
        runner::run_seeds(
            0..seeds.len() as u64,
            |at| run(seeds[at as usize]),
            |outcome| {
                if let Some(failure) = &outcome.failure {
                    bar.println(failed(outcome.seed, failure));
                }
                report.add(outcome);
                bar.set_message(report.failures.len().to_string());
                bar.inc(1);
                self.keep_going || report.failures.is_empty()
            },
        );
        report.took = start.elapsed();
        bar.finish_and_clear();
        report
    }
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let seeds = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    match seeds {
        None => Err("seeds are given as two numbers, such as 0..200".into()),
        Some(seeds) if seeds.is_empty() => Err("there is no seed in that".into()),
        Some(seeds) => Ok(seeds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_seeds() {
        assert_eq!(parse_seeds("0..5000"), Ok(0..5000));
        assert_eq!(parse_seeds("7..8"), Ok(7..8));
        assert_eq!(parse_seeds("0..18446744073709551615"), Ok(0..u64::MAX));
        for wrong in ["", "5", "..", "5..", "..5", "a..b", "5..5", "6..5", "-1..5", "0..=5", "0...5"] {
            assert!(parse_seeds(wrong).is_err(), "{wrong}");
        }
    }
}
