//! The command line. Results go to standard output, progress to standard error and only if that is a terminal.

mod ending;
mod explore;
mod matrix;
mod replay;
mod run;
mod sabotage;
mod scale;
mod shrink;

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use blueprint::Honest;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use simulator::hunt;
use simulator::plan::Plan;
use simulator::report::Paint;
use simulator::runner::{self, Outcome};
use simulator::sabotage::{ALL, Sabotage};
use simulator::trace::Trace;

pub(crate) use ending::Ending;

/// Whole clusters under one virtual clock, and everything that can happen to them
#[derive(Debug, Parser)]
#[command(name = "simulator", version, after_help = ending::HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Replay(replay::Replay),
    Shrink(shrink::Shrink),
    Sabotage(sabotage::Hunt),
    Explore(explore::Explore),
    Matrix(matrix::Matrix),
    Scale(scale::Scale),
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        match self.command {
            Command::Run(run) => run.run(),
            Command::Replay(replay) => replay.run(),
            Command::Shrink(shrink) => shrink.run(),
            Command::Sabotage(hunt) => hunt.run(),
            Command::Explore(explore) => explore.run(),
            Command::Matrix(matrix) => matrix.run(),
            Command::Scale(scale) => scale.run(),
        }
    }
}

/// Who runs the worlds: the product's code, or the same with one bug in it.
#[derive(Debug, Args)]
struct Conduct {
    /// Plant this bug
    #[arg(long, value_name = "NAME", value_parser = sabotage_names(), hide_possible_values = true)]
    sabotage: Option<String>,
}

impl Conduct {
    fn run(&self, plan: Plan, trace: Trace) -> Outcome {
        match self.planted() {
            Some(sabotage) => hunt::run_plan(sabotage, plan, trace),
            None => runner::run_plan::<Honest>(plan, trace),
        }
    }

    fn planted(&self) -> Option<&'static Sabotage> {
        self.sabotage.as_ref().map(|name| hunt::sabotage(name).expect("the parser knows their names"))
    }
}

/// As it is typed, with a space before it.
impl Display for Conduct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.sabotage.as_ref().map_or(Ok(()), |name| write!(f, " --sabotage {name}"))
    }
}

fn sabotage_names() -> PossibleValuesParser {
    PossibleValuesParser::new(ALL.iter().map(|s| s.name))
}

/// A line of the result. Not `println!`, which panics when nobody reads any more.
fn say(line: impl Display) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}

fn paint() -> Paint {
    if std::io::stdout().is_terminal() { Paint::Coloured } else { Paint::Plain }
}

/// Hidden when standard error is not a terminal.
fn progress(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the templates are ours");
    let bar = ProgressBar::new(length).with_style(style.progress_chars("━╸ "));
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_fits_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "",
            "run --seeds 5..5",
            "replay",
            "replay 3 --at 5",
            "replay 3 --why 1 --at soon",
            "sabotage",
            "sabotage earthquake",
            "explore --only nowhere",
            "matrix --cell replace-node/99/joiner/wipe",
            "matrix --every 0",
        ] {
            let words = std::iter::once("simulator").chain(line.split_whitespace());
            let error = Cli::try_parse_from(words).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn what_makes_sense_is_not() {
        for line in [
            "run",
            "run --seeds 0..5 --twice --json --keep-going",
            "run --nodes 50 --seeds 0..5",
            "replay 3 --node 2 --bucket 1 --last 50 --sabotage as-of-ignored --without crash,loss --clients 1 --no-moves",
            "replay 3 --why 1",
            "replay 3 --why 1 --at 12.5 --without crash",
            "shrink 3 --sabotage as-of-ignored",
            "sabotage --all",
            "sabotage --list",
            "sabotage as-of-ignored heir-reigns-at-once --seeds 9",
            "explore --states 100 --only split,two-members",
            "matrix --every 16",
            "scale --brief",
            "matrix --cell replace-node/4.filling/joiner/wipe",
        ] {
            let words = std::iter::once("simulator").chain(line.split_whitespace());
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }
}
