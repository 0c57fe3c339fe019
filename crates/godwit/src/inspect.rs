//! What is in a data directory.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// A node's data directory
    dir: PathBuf,
    /// For programs
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let found = journal::inspect(&self.dir)?;
        if self.json {
            say!("{}", serde_json::to_string_pretty(&found)?);
        } else {
            say!("{found}");
        }
        Ok(ExitCode::SUCCESS)
    }
}
