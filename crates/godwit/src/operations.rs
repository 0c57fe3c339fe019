//! Topology changes: planned, looked at, applied, watched, paused, cancelled.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use server::{OperationView, PlanView};

use crate::ask::At;

const POLL: Duration = Duration::from_millis(300);

#[derive(Args, Debug)]
#[command(after_help = kinds())]
pub(crate) struct Plan {
    /// What to do, such as: replace-node node-2 node-6
    #[arg(required = true, num_args = 1..)]
    wish: Vec<String>,
    /// Apply it at once, and watch it
    #[arg(long)]
    apply: bool,
    /// Buckets under way at the same time
    #[arg(long, default_value_t = 4)]
    at_once: usize,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    at: At,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct By {
    /// Who asks, for the record
    #[arg(long, env = "USER", default_value = "somebody")]
    by: String,
}

#[derive(Args, Debug)]
pub(crate) struct Operations {
    #[command(flatten)]
    at: At,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct One {
    /// Such as o3
    id: String,
    #[command(flatten)]
    at: At,
}

#[derive(Args, Debug)]
pub(crate) struct Cancel {
    #[command(flatten)]
    one: One,
    /// For the record
    #[arg(long, default_value = "")]
    why: String,
}

fn kinds() -> String {
    let kinds: Vec<String> = server::KINDS.iter().map(|(usage, what)| format!("  {usage:<38}{what}\n")).collect();
    format!("What can be planned:\n{}", kinds.concat())
}

impl Plan {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let body = json!({ "wish": self.wish.join(" "), "by": self.by.by, "at_once": self.at_once });
        let text = self.at.post("/v1/operations", &body.to_string())?;
        let plan: PlanView = serde_json::from_str(&text).context("the answer is not understood")?;
        if self.json && !self.apply {
            say!("{text}");
            return Ok(ExitCode::SUCCESS);
        }
        say!("{}", plan.text.trim_end());
        let Some(id) = plan.id else { return Ok(ExitCode::SUCCESS) };
        if plan.left > 0 {
            let (steps, left) = (plan.steps, plan.left);
            say!(
                "\n{id} is the first {steps} steps of it. Plan the same again when they are done: {left} steps are left."
            );
        }
        if self.apply {
            let one = One { id, at: self.at };
            one.act("apply", "")?;
            return one.watch();
        }
        say!("\nNothing is done yet. To do it: godwit apply {id}; to watch it: godwit watch {id}");
        Ok(ExitCode::SUCCESS)
    }
}

impl One {
    pub(crate) fn apply(self) -> Result<ExitCode> {
        self.act("apply", "")?;
        say!("{} is under way. To watch it: godwit watch {}", self.id, self.id);
        Ok(ExitCode::SUCCESS)
    }

    pub(crate) fn pause(self) -> Result<ExitCode> {
        self.act("pause", "")?;
        say!("{} is paused: nothing new is begun. To go on: godwit resume {}", self.id, self.id);
        Ok(ExitCode::SUCCESS)
    }

    pub(crate) fn resume(self) -> Result<ExitCode> {
        self.act("resume", "")?;
        say!("{} goes on", self.id);
        Ok(ExitCode::SUCCESS)
    }

    fn act(&self, act: &str, why: &str) -> Result<()> {
        self.at.post(&format!("/v1/operations/{}/{act}", self.id), &json!({ "why": why }).to_string())?;
        Ok(())
    }

    fn look(&self) -> Result<OperationView> {
        let all: Vec<OperationView> = self.at.get("/v1/operations")?;
        let id = format!("o{}", self.id.trim_start_matches('o'));
        all.into_iter().find(|one| one.id == id).with_context(|| {
            format!("there is no operation {id}: it was never planned, or is long over. 'godwit operations' lists them")
        })
    }

    /// Until it is over. Who does not look at a terminal gets a line whenever something has changed.
    pub(crate) fn watch(&self) -> Result<ExitCode> {
        let first = self.look()?;
        let bar = ProgressBar::new(first.steps.len() as u64);
        bar.set_style(
            ProgressStyle::with_template("{prefix} [{bar:32}] {pos} of {len} steps, {elapsed}\n{msg}")
                .expect("a template that is written here")
                .progress_chars("=> "),
        );
        bar.set_prefix(format!("{} {}", first.id, first.asked));
        let is_terminal = std::io::stderr().is_terminal();
        let mut said = String::new();
        let last = loop {
            let now = self.look()?;
            let line = present(&now);
            if is_terminal {
                bar.set_position(now.done as u64);
                bar.set_message(line);
            } else if line != said {
                say!("{} of {}: {line}", now.done, now.steps.len());
                said = line;
            }
            if !matches!(now.state.as_str(), "planned" | "running" | "paused") {
                break now;
            }
            if now.state == "planned" {
                bar.finish_and_clear();
                bail!("{} is only planned. To do it: godwit apply {}", now.id, now.id);
            }
            std::thread::sleep(POLL);
        };
        bar.finish_and_clear();
        let seconds = bar.elapsed().as_secs_f64();
        match last.state.as_str() {
            "done" => {
                let steps = if last.steps.len() == 1 { "step" } else { "steps" };
                say!("{} is done: {} {steps}; watched for {seconds:.1} s", last.id, last.steps.len());
                Ok(ExitCode::SUCCESS)
            }
            state => {
                say!("{} {state} after {} of {} steps: {}", last.id, last.done, last.steps.len(), last.why);
                say!("What it had finished stays; what it had begun is taken back. 'godwit plan' plans from there.");
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// What it is doing now, and for what it waits.
fn present(operation: &OperationView) -> String {
    let paused = if operation.state == "paused" { "paused; " } else { "" };
    let Some(step) = operation.steps.get(operation.done) else { return operation.state.clone() };
    let filled =
        step.filled.map_or_else(String::new, |filled| format!(", {:.0}% of its copy is there", filled * 100.0));
    // A step is named once: what it waits for begins with the operation's own name.
    let wait = operation.waits.first().map(|wait| wait.split_once(": ").map_or(wait.as_str(), |(_, rest)| rest));
    let wait = wait.map_or_else(String::new, |wait| format!("; {wait}"));
    format!("{paused}{}: {}{filled}{wait}", step.bucket, step.what)
}

impl Cancel {
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.one.act("cancel", &self.why)?;
        say!("{} is cancelled: what it had finished stays, what it had begun is taken back", self.one.id);
        Ok(ExitCode::SUCCESS)
    }
}

impl Operations {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut all: Vec<OperationView> = self.at.get("/v1/operations")?;
        if self.json {
            say!("{}", serde_json::to_string_pretty(&all)?);
            return Ok(ExitCode::SUCCESS);
        }
        if all.is_empty() {
            say!("There was none yet. 'godwit plan --help' says what can be planned.");
            return Ok(ExitCode::SUCCESS);
        }
        // Those that somebody may have to do something about come first.
        let rank = |state: &str| ["running", "paused", "failed", "planned"].iter().position(|s| *s == state);
        all.sort_by_key(|one| (rank(&one.state).unwrap_or(9), std::cmp::Reverse(one.id.len()), one.id.clone()));
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).set_header(["operation", "state", "steps", "asked for", "by", "now"]);
        for one in &all {
            let now = match one.state.as_str() {
                "running" | "paused" => present(one),
                _ => one.why.clone(),
            };
            let steps = format!("{} of {}", one.done, one.steps.len());
            table.add_row([&one.id, &one.state, &steps, &one.asked, &one.by, &now]);
        }
        say!("{table}");
        Ok(ExitCode::SUCCESS)
    }
}
