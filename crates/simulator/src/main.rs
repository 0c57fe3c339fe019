//! `simulator`: runs worlds, shows them, makes them smaller, and proves that it would notice.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    simulator::panics::install_hook();
    match cli::Cli::parse().run() {
        Ok(ending) => ending.into(),
        // Whoever reads has read enough.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("simulator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
