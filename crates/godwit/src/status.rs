//! How the cluster is.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Cell, CellAlignment, Color, Table};

use crate::ask::At;
use crate::auto::in_words;

#[derive(Args, Debug)]
pub(crate) struct Status {
    #[command(flatten)]
    at: At,
    /// Show every bucket
    #[arg(long)]
    buckets: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let status: server::Status = self.at.get("/v1/status")?;
        if self.json {
            say!("{}", serde_json::to_string_pretty(&status)?);
        } else {
            show(&status, self.buckets);
        }
        Ok(if status.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

pub(crate) fn show(status: &server::Status, buckets: bool) {
    if status.problems.is_empty() {
        say!("All is well.");
    } else {
        say!(
            "{} to look at:",
            if status.problems.len() == 1 { "One thing".into() } else { format!("{} things", status.problems.len()) }
        );
        status.problems.iter().for_each(|problem| say!("  ! {problem}"));
    }
    say!();
    say!("{}", nodes(status));
    for keyspace in &status.keyspaces {
        let copies = if keyspace.replicas == 1 { "copy" } else { "copies" };
        say!(
            "keyspace {}: {} of {} buckets serve, {} {copies}, level {}",
            keyspace.name,
            keyspace.serving,
            keyspace.buckets,
            keyspace.replicas,
            keyspace.durability
        );
    }
    let leader = status.meta.leader.as_deref().unwrap_or("nobody");
    say!(
        "meta group: {leader} leads, voters {}; epoch {}, as {} sees it",
        status.meta.voters.join(" "),
        status.epoch,
        status.name
    );
    say!("{}", in_words(&status.auto_rebalance));
    if buckets {
        say!("\n{}", all_buckets(status));
    }
}

fn nodes(status: &server::Status) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_BORDERS_ONLY).set_header([
        "node",
        "state",
        "leads",
        "follows",
        "redis cluster",
        "any client",
        "http",
        "peers",
    ]);
    for node in &status.nodes {
        let state = match (node.state.as_str(), node.reachable) {
            ("present", true) if !node.intent.is_empty() => Cell::new(&node.intent).fg(Color::Yellow),
            ("present", true) => Cell::new("present").fg(Color::Green),
            ("present", false) => Cell::new("not heard").fg(Color::Yellow),
            _ => Cell::new("departed").fg(Color::Red),
        };
        let number = |n: usize| Cell::new(n).set_alignment(CellAlignment::Right);
        let row = [Cell::new(&node.name), state, number(node.leads), number(node.follows)];
        let addresses = [&node.cluster, &node.any, &node.http, &node.peers].map(Cell::new);
        table.add_row(row.into_iter().chain(addresses));
    }
    table
}

fn all_buckets(status: &server::Status) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_BORDERS_ONLY).set_header([
        "bucket",
        "slots",
        "term",
        "primary",
        "secondaries",
        "candidates",
        "heirs",
        "serves",
        "applied",
    ]);
    for bucket in &status.buckets {
        let list = |names: &[String]| names.join(" ");
        table.add_row([
            bucket.id.clone(),
            bucket.slots.clone(),
            bucket.term.to_string(),
            bucket.primary.clone(),
            list(&bucket.secondaries),
            list(&bucket.candidates),
            list(&bucket.heirs),
            if bucket.serving { "yes" } else { "no" }.to_owned(),
            bucket.applied.to_string(),
        ]);
    }
    table
}
