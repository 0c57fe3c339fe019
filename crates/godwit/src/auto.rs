//! Whether the cluster rebalances by itself.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::json;
use server::AutoRebalanceView;

use crate::ask::At;
use crate::operations::By;

#[derive(Args, Debug)]
pub(crate) struct AutoRebalance {
    /// From now on; without it, how it is
    switch: Option<Switch>,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    at: At,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl AutoRebalance {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let view: AutoRebalanceView = match self.switch {
            None => self.at.get("/v1/auto-rebalance")?,
            Some(switch) => {
                let body = json!({ "on": switch == Switch::On, "by": self.by.by });
                let text = self.at.post("/v1/auto-rebalance", &body.to_string())?;
                serde_json::from_str(&text).context("the answer is not understood")?
            }
        };
        if self.json {
            say!("{}", serde_json::to_string_pretty(&view)?);
            return Ok(ExitCode::SUCCESS);
        }
        say!("{}", in_words(&view));
        match self.switch {
            Some(Switch::On) => say!(
                "When nothing has changed for a while and somebody holds or leads clearly too much or too little, an operation begins. \
                 To see what it waits for: godwit why; what came of it: godwit history"
            ),
            Some(Switch::Off) => say!("What it had begun goes on: godwit operations lists it, godwit cancel ends it"),
            None => {}
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// In one line.
pub(crate) fn in_words(view: &AutoRebalanceView) -> String {
    let AutoRebalanceView { on, by, operation, why } = view;
    let now = match (operation.as_str(), why.as_str()) {
        ("", _) => String::new(),
        (id, "") => format!("; {id} is under way"),
        (id, why) => format!("; the last one, {id}: {why}"),
    };
    if *on { format!("auto-rebalance: on, asked for by {by}{now}") } else { "auto-rebalance: off".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_is_in_one_line() {
        let view = |on, operation: &str, why: &str| AutoRebalanceView {
            on,
            by: if on { "ada".into() } else { String::new() },
            operation: operation.into(),
            why: why.into(),
        };
        assert_eq!(in_words(&AutoRebalanceView::default()), "auto-rebalance: off");
        assert_eq!(in_words(&view(true, "", "")), "auto-rebalance: on, asked for by ada");
        assert_eq!(in_words(&view(true, "o3", "")), "auto-rebalance: on, asked for by ada; o3 is under way");
        assert_eq!(
            in_words(&view(true, "o3", "cancelled: not today")),
            "auto-rebalance: on, asked for by ada; the last one, o3: cancelled: not today"
        );
    }
}
