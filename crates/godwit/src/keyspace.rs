//! Making a keyspace.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::ask::At;

#[derive(Args, Debug)]
pub(crate) struct Keyspace {
    /// Its name; clients work in 'default', or go to another with CLIENT KEYSPACE
    name: String,
    /// Copies of each bucket
    #[arg(long, default_value_t = 3)]
    replicas: u8,
    #[arg(long, default_value_t = 64)]
    buckets: u16,
    /// 'disk': synced on every member before the answer; 'memory': handed to the operating system there
    #[arg(long, default_value = "disk", value_parser = ["disk", "memory"])]
    durability: String,
    #[command(flatten)]
    at: At,
}

impl Keyspace {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self { name, replicas, buckets, durability, at } = self;
        let body = json!({ "name": name, "replicas": replicas, "buckets": buckets, "memory": durability == "memory" });
        at.post("/v1/keyspaces", &body.to_string())?;
        let copies = if replicas == 1 { "copy" } else { "copies" };
        say!("keyspace {name}: {buckets} buckets, {replicas} {copies} of each, level {durability}");
        if name != "default" {
            say!("clients go there with: CLIENT KEYSPACE {name}");
        }
        Ok(ExitCode::SUCCESS)
    }
}
