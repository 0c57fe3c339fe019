//! `simulator replay`: one world, told event by event.

use clap::error::ErrorKind;
use clap::{Args, CommandFactory};
use simulator::changes::Changes;
use simulator::report;
use simulator::runner::Outcome;
use simulator::trace::{Trace, Wanted};

use super::{Cli, Conduct, Ending, say};

/// Show what happened in one seed: its plan, its event log, the verdict
#[derive(Debug, Args)]
pub(super) struct Replay {
    /// Which world
    seed: u64,
    /// Only what this node sees and does (1 is h1 in the log)
    #[arg(long, value_name = "N")]
    node: Option<usize>,
    /// Only what concerns this bucket, or no bucket in particular
    #[arg(long, value_name = "B")]
    bucket: Option<u64>,
    /// Only so many events before the end
    #[arg(long, value_name = "K")]
    last: Option<usize>,
    #[command(flatten)]
    conduct: Conduct,
    #[command(flatten)]
    changes: Changes,
}

impl Replay {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let plan = self.changes.plan(self.seed);
        if let Some(node) = self.node.filter(|node| !(1..=plan.nodes).contains(node)) {
            let why = format!("there is no node {node} in this world; there are {}", plan.nodes);
            Cli::command().error(ErrorKind::ValueValidation, why).exit();
        }
        say(format!("seed {}{}{}\n{}", self.seed, self.conduct, self.changes, report::plan(&plan)))?;
        let wanted = Wanted { host: self.node.map(|node| node - 1), bucket: self.bucket };
        let outcome = self.conduct.run(plan, Trace::keeping(wanted));
        let skipped = self.last.map_or(0, |last| outcome.lines.len().saturating_sub(last));
        if skipped > 0 {
            say(format!("({} events before these)", report::grouped(skipped as u64)))?;
        }
        for line in &outcome.lines[skipped..] {
            say(line)?;
        }
        say(format!("\n{}", self.verdict(&outcome)))?;
        Ok(Ending::of(&outcome.failure))
    }

    fn verdict(&self, outcome: &Outcome) -> String {
        let tally = &outcome.tally;
        let simulated = report::seconds(tally.simulated);
        let Some(failure) = &outcome.failure else {
            let (events, writes) = (report::grouped(tally.events), report::grouped(tally.acked_writes));
            return format!("passed: {simulated}, {events} events, {writes} acknowledged writes");
        };
        let mut verdict = format!("FAILED {} after {simulated}\n{}", failure.checker, failure.text);
        if self.changes == Changes::default() {
            verdict += &format!("\n\nfewer things that go wrong: simulator shrink {}{}", self.seed, self.conduct);
        }
        verdict
    }
}
