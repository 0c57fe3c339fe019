//! One node.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, value_parser};
use server::{Config, Ports, Start};
use tracing_subscriber::EnvFilter;

/// openraft says ten times a second that a voter is away, as an error; 'godwit status' says it once.
const LOGGED: &str = "info,openraft=error,openraft::core=off,openraft::replication=off";

/// What is not given here is taken from the environment, then from the file, then from the defaults.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// A file with settings, as --print-config shows them
    #[arg(long, env = "GODWIT_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where this node keeps everything
    #[arg(long, env = "GODWIT_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// How people call it
    #[arg(long, env = "GODWIT_NAME")]
    name: Option<String>,
    /// Copies of a bucket are kept in different zones
    #[arg(long, env = "GODWIT_ZONE")]
    zone: Option<String>,
    /// Address to listen on
    #[arg(long, env = "GODWIT_LISTEN", value_name = "HOST")]
    listen: Option<String>,
    /// Address that others find it at, if that is another one
    #[arg(long, env = "GODWIT_ADVERTISE", value_name = "HOST")]
    advertise: Option<String>,
    /// Ports: this for clusters of Redis, +100 for any client, +200 HTTP, +300 peers
    #[arg(long, env = "GODWIT_PORT", value_name = "PORT", value_parser = value_parser!(u16).range(1..=Ports::HIGHEST.into()))]
    port: Option<u16>,
    /// Threads that have buckets and clients
    #[arg(long, env = "GODWIT_LANES", value_name = "N")]
    lanes: Option<u16>,
    /// Start a new cluster
    #[arg(long, conflicts_with = "join")]
    init: bool,
    /// Join the cluster that these belong to (their peer addresses)
    #[arg(long, env = "GODWIT_JOIN", value_delimiter = ',', value_name = "HOST:PORT")]
    join: Vec<String>,
    /// Voters of the meta group: 1, 3 or 5
    #[arg(long, value_name = "N")]
    voters: Option<usize>,
    /// A copy that was lost is replaced after this many seconds
    #[arg(long, value_name = "SECONDS")]
    recovery_delay: Option<u64>,
    /// Show all settings as they would be, and exit
    #[arg(long)]
    print_config: bool,
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let show = self.print_config;
        let config = self.settings()?;
        if show {
            config.machines().map_err(anyhow::Error::msg)?;
            say!("{}", toml::to_string(&config)?.trim_end());
            return Ok(ExitCode::SUCCESS);
        }
        let filter = EnvFilter::try_from_env("GODWIT_LOG").unwrap_or_else(|_| EnvFilter::new(LOGGED));
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
        end_by_bugs();
        server::serve(config, |line| say!("{line}"))?;
        Ok(ExitCode::SUCCESS)
    }

    fn settings(self) -> Result<Config> {
        let mut config = match &self.config {
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
                toml::from_str(&text).with_context(|| format!("{} is not understood", path.display()))?
            }
            None => Config::default(),
        };
        let Self { data, name, zone, listen, advertise, port, lanes, init, join, voters, recovery_delay, .. } = self;
        config.data = data.unwrap_or(config.data);
        config.name = name.or(config.name);
        config.zone = zone.unwrap_or(config.zone);
        config.listen = listen.unwrap_or(config.listen);
        config.advertise = advertise.or(config.advertise);
        config.ports = port.map_or(config.ports, |port| Ports::at(port, 0));
        config.lanes = lanes.unwrap_or(config.lanes);
        config.voters = voters.unwrap_or(config.voters);
        config.recovery_delay_s = recovery_delay.unwrap_or(config.recovery_delay_s);
        if init {
            config.start = Start::Init;
        } else if !join.is_empty() {
            config.start = Start::Join(join);
        }
        Ok(config)
    }
}

/// A task that panics would be missed by nobody, and half a node is worse than none: it says what happened, and all of it ends.
fn end_by_bugs() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        std::process::exit(server::EXIT_BUG);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test starts itself again, as the process that ends.
    #[test]
    fn a_panic_anywhere_ends_the_process() {
        const INSIDE: &str = "GODWIT_TEST_PANICS";
        if std::env::var_os(INSIDE).is_some() {
            end_by_bugs();
            let panicked = std::thread::spawn(|| panic!("a bug")).join();
            unreachable!("it outlived a panic: {panicked:?}");
        }
        let mut again = std::process::Command::new(std::env::current_exe().expect("this runs"));
        again.args(["--exact", "serve::tests::a_panic_anywhere_ends_the_process", "--nocapture"]).env(INSIDE, "1");
        let output = again.output().expect("it starts");
        assert_eq!(output.status.code(), Some(server::EXIT_BUG), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("a bug"), "{output:?}");
    }
}
