//! Proving a live cluster: it is worked, disturbed and judged.

mod hands;
mod shape;
mod table;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, id};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use prover::{Changes, Disturbance, FaultKind, Faults, Live, Next, Record, Report, Settings};
use server::Ports;
use tokio::sync::watch;
use tokio::time::sleep;

use self::hands::DevHands;
use self::shape::{DevShaper, Shape};
use crate::ask::Unreachable;
use crate::dev::Running;

/// Exit codes: 0 nothing is violated; 1 something is; 3 the cluster cannot be asked.
#[derive(Args, Debug)]
pub(crate) struct Prove {
    /// Where clients connect [default: those of 127.0.0.1:7101 … 7109 that answer, or the nodes of --dev]
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT")]
    at: Vec<String>,
    /// A cluster that 'godwit dev' started in this directory
    #[arg(long, value_name = "DIR")]
    dev: Option<PathBuf>,
    /// Follow MOVED and keep a map of slots, as clients of a Redis Cluster do
    #[arg(long)]
    redis_cluster: bool,
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// What goes wrong meanwhile, one after the other; only with --dev
    #[arg(long, value_delimiter = ',', requires = "dev", value_name = "KIND")]
    faults: Vec<Kind>,
    /// Seconds of calm before each fault
    #[arg(long, default_value_t = 1, value_name = "SECONDS")]
    fault_every: u64,
    /// Change the shape of the cluster meanwhile, one change after the other, for as long as that takes; only with --dev
    #[arg(long, value_delimiter = ',', requires = "dev", conflicts_with = "faults", value_name = "KIND")]
    operations: Vec<Shape>,
    /// How often each of them; what cannot be undone comes once
    #[arg(long, default_value_t = 1, requires = "operations", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of calm before each of them, with which it is compared
    #[arg(long, default_value_t = 5, requires = "operations", value_name = "SECONDS")]
    calm: u64,
    /// When the next fault may come: 'whole', when nothing is missing any more; 'serving', when all is served, though copies may be
    /// missing
    #[arg(long, default_value = "whole", value_name = "WHEN")]
    next_fault: When,
    /// Write every operation there, as lines of JSON
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Which operations, and which nodes are struck; drawn if not given
    #[arg(long)]
    seed: Option<u64>,
    /// Leave the keys in the cluster, which are otherwise deleted when nothing is violated
    #[arg(long)]
    keep: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// kill -9, and start again
    Kill,
    /// SIGTERM: it hands over and ends, and is started again
    Leave,
    /// Stop the process for longer than a lease, and let it go on
    Pause,
    /// Cut the network between nodes; not possible where all share one address, as in a dev cluster
    Partition,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Serving,
    Whole,
}

impl Prove {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.prove())
    }

    async fn prove(self) -> Result<ExitCode> {
        let disturbance = self.disturbance()?;
        let chance = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros() as u64);
        let settings = Settings {
            addresses: self.addresses().await?,
            redis_cluster: self.redis_cluster,
            length: Duration::from_secs(self.seconds),
            clients: self.clients,
            seed: self.seed.unwrap_or(chance % 1_000_000),
            disturbance,
        };
        // Not of the seed: keys of two runs with the same seed must not meet.
        let live = Arc::new(Live::new((chance ^ (u64::from(id()) << 20)) & 0xffff_ffff_ffff));
        let (stop, stopped) = watch::channel(false);
        let _interrupt = tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                eprintln!("stopping: what was struck is healed, and what there is judged. Once more ends it at once");
                stop.send_replace(true);
            }
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(1);
            }
        });
        let progress = tokio::spawn(show_progress(Arc::clone(&live), self.seconds, self.operations.is_empty()));
        let proven = prover::prove(&settings, &live, stopped).await;
        progress.abort();
        let record = proven.map_err(|error| match error {
            prover::Error::Unreachable { .. } => anyhow!(Unreachable(error.to_string())),
        })?;
        self.conclude(&record, &settings).await
    }

    async fn conclude(&self, record: &Record, settings: &Settings) -> Result<ExitCode> {
        if let Some(path) = &self.history {
            let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
            record
                .write_lines(BufWriter::new(file))
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
        let report = Report::new(record, &record.history.judge());
        if self.json {
            say!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            table::show(&report, settings);
        }
        if report.is_clean() && !self.keep {
            let left = prover::tidy(settings, record).await;
            if left > 0 {
                eprintln!("godwit: {left} keys (prove:{:x}:*) could not be deleted", record.run);
            }
        }
        Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    async fn addresses(&self) -> Result<Vec<String>> {
        if !self.at.is_empty() {
            return Ok(self.at.clone());
        }
        if let Some(data) = &self.dev {
            let running = Running::here(data)?;
            let ports = running.nodes.iter().map(|member| Ports::at(running.base_port, member.number));
            let ports = ports.map(|ports| if self.redis_cluster { ports.cluster } else { ports.any });
            return Ok(ports.map(|port| format!("127.0.0.1:{port}")).collect());
        }
        let first = if self.redis_cluster { 7001 } else { 7101 };
        let usual: Vec<String> = (first..first + 9).map(|port| format!("127.0.0.1:{port}")).collect();
        let found = prover::who_answers(&usual).await;
        if found.is_empty() {
            bail!(Unreachable(format!(
                "nobody answers at 127.0.0.1:{first} … {}. Is the cluster running? 'godwit dev' starts one; --at names where another's clients connect",
                first + 8
            )));
        }
        Ok(found)
    }

    fn disturbance(&self) -> Result<Disturbance> {
        match &self.dev {
            Some(data) if !self.operations.is_empty() => {
                let shaper = Arc::new(DevShaper::new(data, &self.operations)?);
                Ok(Disturbance::Changes(Changes { rounds: self.rounds, calm: Duration::from_secs(self.calm), shaper }))
            }
            Some(data) if !self.faults.is_empty() => Ok(Disturbance::Faults(self.faults(data)?)),
            _ => Ok(Disturbance::Nothing),
        }
    }

    fn faults(&self, data: &Path) -> Result<Faults> {
        if self.faults.contains(&Kind::Partition) {
            eprintln!(
                "godwit: no partitions: the nodes of a dev cluster share one address, where what one of them sends cannot be told from what \
                 the others send, and so cannot be cut off. That takes nodes with addresses of their own. Other faults go on"
            );
        }
        let kind = |kind: &Kind| match kind {
            Kind::Kill => Some(FaultKind::Kill),
            Kind::Leave => Some(FaultKind::Leave),
            Kind::Pause => Some(FaultKind::Pause),
            Kind::Partition => None,
        };
        let kinds: Vec<FaultKind> = self.faults.iter().filter_map(kind).collect();
        if kinds.is_empty() {
            bail!("--faults: nothing is left that could be done");
        }
        let hands = Arc::new(DevHands::new(data)?);
        let next = match self.next_fault {
            When::Serving => Next::Serving,
            When::Whole => Next::Whole,
        };
        Ok(Faults { kinds, every: Duration::from_secs(self.fault_every), next, hands })
    }
}

async fn show_progress(live: Arc<Live>, seconds: u64, ends: bool) {
    let bar = ProgressBar::new(seconds);
    let style = if ends { "{bar:30} {pos:>4}/{len} s  {msg}" } else { "{spinner} {elapsed}  {msg}" };
    bar.set_style(ProgressStyle::with_template(style).expect("a fixed template"));
    let mut before = (0, 0);
    loop {
        let (now, acknowledged) = (live.now(), live.acknowledged());
        let rate = (acknowledged - before.1) * 1_000_000 / (now - before.0).max(1);
        bar.set_position(seconds.min(now / 1_000_000));
        bar.set_message(format!(
            "{rate}/s  {acknowledged} writes, {} reads, {} errors: {}",
            live.reads(),
            live.errors(),
            live.phase()
        ));
        before = (now, acknowledged);
        sleep(Duration::from_millis(500)).await;
    }
}
