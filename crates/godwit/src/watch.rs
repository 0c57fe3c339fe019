//! Watching an operation: how far it is, how fast it goes, what it waits for.
//!
//! On a terminal bars, one for each copy that is being made and one for all of it. Elsewhere plain lines, when something has changed;
//! or a line of JSON each.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use indicatif::{DecimalBytes, HumanDuration, MultiProgress, ProgressBar, ProgressStyle};
use serde::Serialize;
use server::{OperationView, StepView};

use crate::operations::{One, in_short};

const POLL: Duration = Duration::from_millis(300);
/// A line that says nothing new but bytes is worth no more than this often.
const LINES: Duration = Duration::from_secs(1);
/// The rate is that of the last while: nodes tell their sizes once a second.
const RATE_OVER: Duration = Duration::from_secs(6);

#[derive(Args, Debug)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) one: One,
    /// A line for programs whenever something has changed
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is there at some moment.
#[derive(Serialize)]
struct Moment<'a> {
    #[serde(flatten)]
    operation: &'a OperationView,
    /// Bytes per second, lately.
    rate: u64,
    /// For the bytes that are not there yet, at that rate.
    seconds_left: Option<u64>,
}

impl Watch {
    /// Until it is over.
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let begun = Instant::now();
        let mut speed = Speed::default();
        let mut shown = if self.json {
            Shown::Json { said: String::new() }
        } else if std::io::stderr().is_terminal() {
            Shown::Bars(Bars::new())
        } else {
            Shown::Lines { said: String::new(), at: None }
        };
        let last = loop {
            let now = self.one.look()?;
            speed.note(now.bytes);
            let rate = speed.rate();
            let left = now.total_bytes.saturating_sub(now.bytes);
            let seconds_left = (rate > 0 && now.state == "running").then(|| left / rate);
            shown.show(&Moment { operation: &now, rate, seconds_left });
            match now.state.as_str() {
                "running" | "paused" => std::thread::sleep(POLL),
                "planned" => bail!("{} is only planned. To do it: godwit apply {}", now.id, now.id),
                _ => break now,
            }
        };
        let done = last.state == "done";
        match shown {
            Shown::Json { .. } => {}
            Shown::Bars(bars) => {
                bars.all.clear().ok();
                conclude(&last, begun);
            }
            Shown::Lines { .. } => conclude(&last, begun),
        }
        Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn conclude(last: &OperationView, begun: Instant) {
    let (id, count, seconds) = (&last.id, last.steps.len(), begun.elapsed().as_secs_f64());
    if last.state == "done" {
        let steps = if count == 1 { "step" } else { "steps" };
        let bytes = if last.total_bytes > 0 { format!(", {}", DecimalBytes(last.total_bytes)) } else { String::new() };
        return say!("{id} is done: {count} {steps}{bytes}; watched for {seconds:.1} s");
    }
    say!("{id} {} after {} of {count} steps: {}", last.state, last.done, last.why);
    say!("What it had finished stays; what it had begun is taken back. 'godwit plan' plans from there.");
}

enum Shown {
    Json { said: String },
    Lines { said: String, at: Option<Instant> },
    Bars(Bars),
}

impl Shown {
    fn show(&mut self, moment: &Moment<'_>) {
        match self {
            Self::Json { said } => {
                // What is the same but for the rate is no news.
                let state = serde_json::to_string(moment.operation).expect("texts and numbers");
                if *said != state {
                    say!("{}", serde_json::to_string(moment).expect("texts and numbers"));
                    *said = state;
                }
            }
            Self::Lines { said, at } => {
                let line = line(moment);
                let news = present(moment.operation, false);
                let due = at.is_none_or(|at| at.elapsed() >= LINES);
                let is_new = !said.ends_with(&format!("\n{news}"));
                if is_new || (due && !said.starts_with(&format!("{line}\n"))) {
                    say!("{line}");
                    (*said, *at) = (format!("{line}\n{news}"), Some(Instant::now()));
                }
            }
            Self::Bars(bars) => bars.show(moment),
        }
    }
}

/// All of it in one line.
fn line(moment: &Moment<'_>) -> String {
    let Moment { operation, .. } = moment;
    format!("{} of {}: {}{}", operation.done, operation.steps.len(), present(operation, true), progress(moment))
}

/// `; 12 MB of 80 MB at 20 MB/s, 3 seconds left`.
fn progress(moment: &Moment<'_>) -> String {
    let Moment { operation, rate, seconds_left } = moment;
    if operation.total_bytes == 0 || !matches!(operation.state.as_str(), "running" | "paused") {
        return String::new();
    }
    let (bytes, total) = (DecimalBytes(operation.bytes), DecimalBytes(operation.total_bytes));
    let limit = operation.throttle.map_or_else(String::new, |limit| format!(" (at most {}/s)", DecimalBytes(limit)));
    let left = seconds_left
        .filter(|_| *rate > 0)
        .map_or_else(String::new, |seconds| format!(", {} left", HumanDuration(Duration::from_secs(seconds))));
    format!("; {bytes} of {total} at {}/s{limit}{left}", DecimalBytes(*rate))
}

/// What it is doing now, and for what it waits.
pub(crate) fn present(operation: &OperationView, with_bytes: bool) -> String {
    let paused = if operation.state == "paused" { "paused; " } else { "" };
    let Some(step) = operation.steps.get(operation.done) else { return operation.state.clone() };
    let filled = step.filled.filter(|_| with_bytes);
    let filled = filled.map_or_else(String::new, |filled| format!(", {:.0}% of its copy is there", filled * 100.0));
    // A step is named once: what it waits for begins with the operation's own name.
    let wait = operation.waits.first().map(|wait| wait.split_once(": ").map_or(wait.as_str(), |(_, rest)| rest));
    let wait = wait.map_or_else(String::new, |wait| format!("; {wait}"));
    let copies = if step.copies == 1 { "1 copy".to_owned() } else { format!("{} copies", step.copies) };
    format!("{paused}{}: {}{filled}, {copies} now{wait}", step.bucket, step.what)
}

/// How fast bytes came lately.
#[derive(Default)]
struct Speed {
    seen: VecDeque<(Instant, u64)>,
}

impl Speed {
    fn note(&mut self, bytes: u64) {
        let now = Instant::now();
        // What was seated and dismissed again, or a bucket that shrank: it begins anew.
        if self.seen.back().is_some_and(|(_, before)| *before > bytes) {
            self.seen.clear();
        }
        self.seen.push_back((now, bytes));
        while self.seen.len() > 2 && self.seen.front().is_some_and(|(at, _)| now.duration_since(*at) > RATE_OVER) {
            self.seen.pop_front();
        }
    }

    fn rate(&self) -> u64 {
        let (Some((from, before)), Some((to, after))) = (self.seen.front(), self.seen.back()) else { return 0 };
        let seconds = to.duration_since(*from).as_secs_f64();
        if seconds > 0.0 { ((after - before) as f64 / seconds) as u64 } else { 0 }
    }
}

/// On a terminal.
struct Bars {
    all: MultiProgress,
    whole: ProgressBar,
    /// Of each copy that is being made: its step, and its bar.
    copies: Vec<(usize, ProgressBar)>,
}

impl Bars {
    fn new() -> Self {
        let all = MultiProgress::new();
        let whole = all.add(ProgressBar::new(0));
        whole.set_style(style("{prefix} [{bar:32}] {pos} of {len} steps, {elapsed}\n{msg}"));
        Self { all, whole, copies: Vec::new() }
    }

    fn show(&mut self, moment: &Moment<'_>) {
        let operation = moment.operation;
        self.whole.set_length(operation.steps.len() as u64);
        self.whole.set_position(operation.done as u64);
        self.whole.set_prefix(format!("{} {}", operation.id, in_short(&operation.asked)));
        self.whole.set_message(format!("{}{}", present(operation, false), progress(moment)));
        let under_way = |(at, step): &(usize, &StepView)| {
            *at >= operation.done && step.filled.is_some_and(|filled| filled > 0.0 && filled < 1.0)
        };
        let making: Vec<(usize, &StepView)> = operation.steps.iter().enumerate().filter(under_way).collect();
        self.copies.retain(|(at, bar)| {
            let stays = making.iter().any(|(now, _)| now == at);
            if !stays {
                bar.finish_and_clear();
            }
            stays
        });
        for (at, step) in making {
            if !self.copies.iter().any(|(known, _)| *known == at) {
                let bar = self.all.add(ProgressBar::new(1));
                bar.set_style(style("  {prefix:24} [{bar:32}] {decimal_bytes} of {decimal_total_bytes}, {msg}"));
                bar.set_prefix(format!("{} {}", step.bucket, step.what));
                self.copies.push((at, bar));
            }
            let Some((_, bar)) = self.copies.iter().find(|(known, _)| *known == at) else { continue };
            bar.set_length(step.total_bytes.unwrap_or(0).max(1));
            bar.set_position(step.bytes.unwrap_or(0));
            bar.set_message(format!("{} copies now", step.copies));
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a template that is written here").progress_chars("=> ")
}
