//! Side by side with others, and the load generator by itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bench::load::{At, Keys, Length, Mix, Outcome, Work};
use bench::{HIGHEST_BASE_PORT, Peer, ROWS, Settings};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, value_parser};
use tokio::signal::unix::{SignalKind, signal};

use crate::UNREACHABLE;

/// As shells say of what Ctrl-C ended.
const INTERRUPTED: i32 = 130;
/// Rounds that are run when nobody says how many.
const ROUNDS: u16 = 5;
const QUICK_ROUNDS: u16 = 3;

#[derive(Args, Debug)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Start Godwit and others here, give them the same work in turns, and say how each did
    Compare(Compare),
    /// Only work: the load generator against what runs already
    Load(Load),
}

/// Exit codes: 0 all bars that were looked at are met; 1 some are not; 3 it could not be run. REDIS, VALKEY, ETCD, GODWIT name other
/// binaries than those that are found.
#[derive(Args, Debug)]
struct Compare {
    /// Only this row; may be repeated
    #[arg(long, value_name = "ROW", value_parser = PossibleValuesParser::new(ROWS.iter().map(|row| row.name)))]
    only: Vec<String>,
    /// Say which rows there are, and do nothing
    #[arg(long)]
    list: bool,
    /// Compare with these only
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_values = ["valkey", "redis", "etcd"],
          value_parser = PossibleValuesParser::new(["valkey", "redis", "etcd"]))]
    against: Vec<String>,
    /// How often everyone has its turn in each cell [default: 5, with --quick 3]
    #[arg(long, value_parser = value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Fewer cells, shorter turns, smaller data: about two minutes
    #[arg(long)]
    quick: bool,
    /// How long each turn is measured; otherwise each row has its own opinion
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// The first of the ports that are used, some five hundred
    #[arg(long, default_value_t = 24000, value_parser = value_parser!(u16).range(1..=i64::from(HIGHEST_BASE_PORT)))]
    base_port: u16,
    /// Where servers keep their data and results are written, in a directory 'bench' [default: CARGO_TARGET_DIR, or target]
    #[arg(long, value_name = "DIR")]
    target: Option<PathBuf>,
    /// Write results to bench/results and charts to docs/performance, below the working directory
    #[arg(long)]
    write: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Load {
    /// Who is asked
    #[arg(long, value_delimiter = ',', default_value = "127.0.0.1:7001", value_name = "HOST:PORT")]
    at: Vec<SocketAddr>,
    /// Ask each node of a Redis Cluster for the keys that it leads
    #[arg(long)]
    cluster: bool,
    #[arg(long, default_value = "set", value_parser = PossibleValuesParser::new(Mix::NAMES))]
    mix: String,
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u32).range(1..=100_000))]
    connections: u32,
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=10_000))]
    pipeline: u32,
    /// Of each value
    #[arg(long, default_value_t = 64)]
    bytes: usize,
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u32).range(1..))]
    keys: u32,
    #[arg(long, default_value = "5", value_parser = seconds)]
    seconds: f64,
    /// Send each key once instead, however long that takes
    #[arg(long, conflicts_with = "seconds")]
    fill: bool,
    /// Processes whose processor time is counted
    #[arg(long, value_delimiter = ',', value_name = "PID")]
    servers: Vec<u32>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds".to_owned())?;
    if (0.01..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("0.01 to 3600 seconds".into()) }
}

impl Bench {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.what {
            What::Compare(compare) => compare.run(),
            What::Load(load) => load.run(),
        }
    }
}

impl Compare {
    fn run(self) -> Result<ExitCode> {
        if self.list {
            ROWS.iter().for_each(|row| say!("{:<12}{}", row.name, row.about));
            return Ok(ExitCode::SUCCESS);
        }
        end_with_us()?;
        let is_json = self.json;
        let report = match bench::compare(&self.settings()?, |row| {
            if !is_json {
                say!("{row}");
            }
        }) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("godwit: {error}");
                return Ok(ExitCode::from(UNREACHABLE));
            }
        };
        if is_json {
            say!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            say!("{}", bench::show_bars(&report.rows));
            say!("{}", report.machine.line());
            report.failed.iter().for_each(|(row, why)| say!("{row} could not be run: {why}"));
        }
        Ok(match (report.failed.is_empty(), report.is_met()) {
            (false, _) => ExitCode::from(UNREACHABLE),
            (true, false) => ExitCode::from(1),
            (true, true) => ExitCode::SUCCESS,
        })
    }

    fn settings(self) -> Result<Settings> {
        let usual = || std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        let is_named = |peer: &Peer| self.against.iter().any(|name| name == peer.name());
        let rounds = self.rounds.unwrap_or(if self.quick { QUICK_ROUNDS } else { ROUNDS });
        let write_to = self.write.then(std::env::current_dir).transpose().context("the working directory")?;
        Ok(Settings {
            only: self.only.clone(),
            against: Peer::ALL.into_iter().filter(is_named).collect(),
            rounds: usize::from(rounds),
            is_quick: self.quick,
            seconds: self.seconds,
            base_port: self.base_port,
            target: self.target.clone().unwrap_or_else(usual),
            write_to,
        })
    }
}

/// Whoever ends this command ends what it started.
fn end_with_us() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate, mut hang_up) = {
        let _inside = runtime.enter();
        let of = |kind| signal(kind).context("signals cannot be waited for");
        (of(SignalKind::interrupt())?, of(SignalKind::terminate())?, of(SignalKind::hangup())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
        });
        bench::end_everything();
        std::process::exit(INTERRUPTED);
    });
    Ok(())
}

impl Load {
    fn run(self) -> Result<ExitCode> {
        bench::raise_file_limit();
        let measured = Duration::from_secs_f64(self.seconds);
        let work = Work {
            mix: Mix::by_name(&self.mix).context("a name that was checked")?,
            value_bytes: self.bytes,
            keys: if self.fill { Keys::first(self.keys) } else { Keys::Random(self.keys) },
            connections: self.connections as usize,
            pipeline: self.pipeline as usize,
            length: if self.fill { Length::EachKey } else { Length::For { warm_up: measured.mul_f64(0.1), measured } },
            at: if self.cluster { At::Cluster(self.at) } else { At::Any(self.at) },
            servers: self.servers,
        };
        let outcome = match bench::load::run(&work) {
            Ok(outcome) => outcome,
            Err(error) => bail!(crate::ask::Unreachable(error.to_string())),
        };
        show(&outcome);
        Ok(if outcome.errors == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

fn show(outcome: &Outcome) {
    let ms = |part: f64| outcome.latency.quantile(part).as_secs_f64() * 1e3;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / outcome.operations.max(1) as f64;
    say!("{:.0} per second ({} in {:.2} s)", outcome.per_second(), outcome.operations, outcome.elapsed.as_secs_f64());
    let (p50, p99, p999, longest) = (ms(0.5), ms(0.99), ms(0.999), outcome.latency.longest().as_secs_f64() * 1e3);
    say!("p50 {p50:.3} ms, p99 {p99:.3} ms, p99.9 {p999:.3} ms, longest {longest:.3} ms");
    say!(
        "processor time each: servers {:.2} µs, load generator {:.2} µs",
        each(outcome.processor),
        each(outcome.own_processor)
    );
    let Outcome { errors, missing, moved, .. } = outcome;
    say!(
        "{errors} errors{}, {missing} reads found nothing, {moved} redirects",
        match &outcome.error {
            Some(error) => format!(" (the first: {error})"),
            None => String::new(),
        }
    );
}
