//! `simulator replay`: one world, told event by event.

use blueprint::BucketId;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory};
use simulator::changes::Changes;
use simulator::plan::{Plan, SECOND};
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
    /// Instead of the events: what this bucket waited for, the longest wait first
    #[arg(long, value_name = "B", conflicts_with_all = ["node", "bucket", "last"])]
    why: Option<u64>,
    /// With --why: what it waited for at this moment
    #[arg(long, value_name = "SECONDS", requires = "why", value_parser = parse_moment)]
    at: Option<u64>,
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
        if let Some(bucket) = self.why {
            return self.tell_why(BucketId(bucket), plan);
        }
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

    fn tell_why(&self, bucket: BucketId, plan: Plan) -> anyhow::Result<Ending> {
        let outcome = self.conduct.run(plan, Trace::asking_why(bucket));
        let chronicle = outcome.chronicle.as_ref().expect("it was asked for");
        if !chronicle.exists() {
            let known: Vec<String> = chronicle.known.iter().map(|b| b.0.to_string()).collect();
            let why = format!("there is no bucket {} in this world; there are {}", bucket.0, known.join(", "));
            Cli::command().error(ErrorKind::ValueValidation, why).exit();
        }
        say(chronicle.tell(self.at))?;
        say(self.verdict(&outcome))?;
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

/// Seconds of the world, as its log has them.
fn parse_moment(text: &str) -> Result<u64, String> {
    let seconds: f64 = text.parse().map_err(|_| "seconds, such as 12.5")?;
    if (0.0..1e6).contains(&seconds) {
        Ok((seconds * SECOND as f64) as u64)
    } else {
        Err("that is not in this world".into())
    }
}
