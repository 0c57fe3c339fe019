//! Topology changes: planned, looked at, applied, paused, throttled, cancelled.

use std::borrow::Cow;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use indicatif::DecimalBytes;
use serde_json::json;
use server::{OperationView, PlanView};

use crate::ask::At;
use crate::watch::{Watch, present};

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
    /// Of 'rebalance', by itself whenever it is worth it: see 'godwit auto-rebalance'
    #[arg(long)]
    auto: bool,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    at: At,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct By {
    /// Who asks, for the record
    #[arg(long, env = "USER", default_value = "somebody")]
    pub(crate) by: String,
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

#[derive(Args, Debug)]
pub(crate) struct Throttle {
    #[command(flatten)]
    one: One,
    /// Bytes per second, such as 20MB/s; or off
    rate: String,
}

fn kinds() -> String {
    let kinds: Vec<String> = server::KINDS.iter().map(|(usage, what)| format!("  {usage:<38}{what}\n")).collect();
    format!("What can be planned:\n{}", kinds.concat())
}

impl Plan {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if self.auto {
            bail!(
                "a plan is made once, and shown. To let the cluster rebalance by itself from now on, type: godwit auto-rebalance on"
            );
        }
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
            one.act("apply", &json!({}))?;
            return Watch { one, json: self.json }.run();
        }
        say!("\nNothing is done yet. To do it: godwit apply {id}; to watch it: godwit watch {id}");
        Ok(ExitCode::SUCCESS)
    }
}

impl One {
    pub(crate) fn apply(self) -> Result<ExitCode> {
        self.act("apply", &json!({}))?;
        say!("{} is under way. To watch it: godwit watch {}", self.id, self.id);
        Ok(ExitCode::SUCCESS)
    }

    pub(crate) fn pause(self) -> Result<ExitCode> {
        self.act("pause", &json!({}))?;
        say!(
            "{} is paused: nothing new is begun, and its copies stand still. To go on: godwit resume {}",
            self.id,
            self.id
        );
        Ok(ExitCode::SUCCESS)
    }

    pub(crate) fn resume(self) -> Result<ExitCode> {
        self.act("resume", &json!({}))?;
        say!("{} goes on", self.id);
        Ok(ExitCode::SUCCESS)
    }

    fn act(&self, act: &str, body: &serde_json::Value) -> Result<()> {
        self.at.post(&format!("/v1/operations/{}/{act}", self.id), &body.to_string())?;
        Ok(())
    }

    pub(crate) fn look(&self) -> Result<OperationView> {
        self.at.get(&format!("/v1/operations/{}", self.id))
    }
}

impl Cancel {
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.one.act("cancel", &json!({ "why": self.why }))?;
        say!("{} is cancelled: what it had finished stays, what it had begun is taken back", self.one.id);
        Ok(ExitCode::SUCCESS)
    }
}

impl Throttle {
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.one.act("throttle", &json!({ "rate": self.rate }))?;
        let id = &self.one.id;
        match self.one.look()?.throttle {
            Some(rate) => say!("{id}: its copies take at most {}/s, all together", DecimalBytes(rate)),
            None => say!("{id}: its copies are made as fast as they can be"),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What was asked for, as far as it fits into a line: it may name thousands of slots. The whole is in what `--json` says.
pub(crate) fn in_short(asked: &str) -> Cow<'_, str> {
    const MOST: usize = 72;
    match asked.char_indices().nth(MOST) {
        None => asked.into(),
        Some((end, _)) => format!("{}…", &asked[..end]).into(),
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
                "running" | "paused" => present(one, true),
                _ => one.why.clone(),
            };
            let steps = format!("{} of {}", one.done, one.steps.len());
            table.add_row([&one.id, &one.state, &steps, in_short(&one.asked).as_ref(), &one.by, &now]);
        }
        say!("{table}");
        Ok(ExitCode::SUCCESS)
    }
}
