//! What became of the cluster: who asked for what, when, and how it ended; who departed and came back.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use server::PastView;

use crate::ask::At;
use crate::operations::in_short;

#[derive(Args, Debug)]
pub(crate) struct History {
    /// Only so many, the newest
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    #[command(flatten)]
    at: At,
    /// For programs
    #[arg(long)]
    json: bool,
}

impl History {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let path = self.last.map_or_else(|| "/v1/history".to_owned(), |last| format!("/v1/history?last={last}"));
        let all: Vec<PastView> = self.at.get(&path)?;
        if self.json {
            say!("{}", serde_json::to_string_pretty(&all)?);
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).set_header(["when", "what", "about", "by", "asked for", "outcome"]);
        for past in &all {
            let when = past.when.replace('T', " ");
            table.add_row([&when, &past.what, &past.about, &past.by, in_short(&past.asked).as_ref(), &past.outcome]);
        }
        say!("{table}");
        if self.last.is_none() && all.first().is_some_and(|first| first.number > 1) {
            say!("{} before these were forgotten: the newest 2048 are kept.", all[0].number - 1);
        }
        Ok(ExitCode::SUCCESS)
    }
}
