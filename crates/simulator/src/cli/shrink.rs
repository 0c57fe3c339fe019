//! `simulator shrink`: the smallest world that fails in the same way.

use blueprint::Honest;
use clap::Args;
use simulator::changes::Changes;
use simulator::plan::Plan;
use simulator::report;
use simulator::runner::{self, Outcome};
use simulator::shrink::shrink;
use simulator::trace::Trace;

use super::{Conduct, Ending, progress, say};

/// Take away from a failing seed whatever its failure does not need
///
/// Exits as the failure that is left would, or with 0 if the seed does not fail.
#[derive(Debug, Args)]
pub(super) struct Shrink {
    /// Which world
    seed: u64,
    #[command(flatten)]
    conduct: Conduct,
    #[command(flatten)]
    changes: Changes,
}

impl Shrink {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let bar = progress(0, "{spinner} {pos} worlds, {msg}");
        let shrunk = shrink(
            self.seed,
            self.changes.clone(),
            |plan| self.try_out(plan),
            |now| {
                bar.set_position(now.runs);
                bar.set_message(summary(&now.changes.plan(self.seed)));
            },
        );
        bar.finish_and_clear();
        let Some(shrunk) = shrunk else {
            say(format!("seed {}{}{} does not fail", self.seed, self.conduct, self.changes))?;
            return Ok(Ending::Well);
        };
        let (before, after) = (self.changes.plan(self.seed), shrunk.changes.plan(self.seed));
        say(format!("before: {}", summary(&before)))?;
        say(format!("after:  {} ({} worlds tried)\n", summary(&after), report::grouped(shrunk.runs)))?;
        say(report::plan(&after))?;
        say(format!("FAILED {} after {}", shrunk.failure.checker, report::seconds(shrunk.failed_at)))?;
        say(&shrunk.failure.text)?;
        say(format!("\nsee it happen: simulator replay {}{}{}", self.seed, self.conduct, shrunk.changes))?;
        Ok(Ending::of([&shrunk.failure]))
    }

    /// With a planted bug, only what the bug does counts.
    fn try_out(&self, plan: Plan) -> Outcome {
        let outcome = self.conduct.run(plan.clone(), Trace::silent());
        let planted = self.conduct.planted().is_some() && outcome.failure.is_some();
        if planted && runner::run_plan::<Honest>(plan.for_a_bug(), Trace::silent()).failure.is_some() {
            return Outcome { failure: None, ..outcome };
        }
        outcome
    }
}

fn summary(plan: &Plan) -> String {
    let moves = if plan.move_every > 0 { "moves" } else { "no moves" };
    format!(
        "kinds of faults {}, clients {}, buckets {}, nodes {}, {moves}, {} of unrest",
        plan.faults.len(),
        plan.clients,
        plan.buckets,
        plan.nodes,
        report::seconds(plan.unrest)
    )
}
