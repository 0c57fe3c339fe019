//! A cluster on this machine: real nodes, each a process with a data directory of its own.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, value_parser};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, test_kill_process, waitpid};
use serde::{Deserialize, Serialize};
use serde_json::json;
use server::Ports;
use tokio::signal::unix::{SignalKind, signal};

use crate::ask::{At, exchange};
use crate::status;

/// However slow the machine is, a node that has not come up by then will not.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// Whether somebody else has ended the cluster that this process started.
const LOOK: Duration = Duration::from_millis(500);
/// The ports of one kind are a hundred apart.
const MOST_NODES: u16 = 99;

#[derive(Args, Debug)]
pub(crate) struct Dev {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Stop the cluster; its data stays
    Stop(Place),
    /// Start a node again, stopping it first if it runs
    Restart {
        /// 1, 2, 3 …
        node: u16,
        #[command(flatten)]
        place: Place,
    },
    /// Start one node more, which joins; 'godwit plan add-node' then gives it its share
    Add(Place),
    /// Start every node again, one after the other, when others lead what it leads
    RollingRestart(Place),
    /// Kill a node as a power cut would (kill -9)
    Kill {
        /// 1, 2, 3 …
        node: u16,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Args, Debug, Clone)]
struct Place {
    /// Where the cluster keeps everything
    #[arg(long, default_value = "godwit-dev", value_name = "DIR")]
    data: PathBuf,
}

#[derive(Args, Debug)]
struct Cluster {
    /// Where the cluster keeps everything
    #[arg(long, default_value = "godwit-dev", value_name = "DIR")]
    data: PathBuf,
    /// How many nodes
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u16).range(1..=MOST_NODES.into()))]
    nodes: u16,
    /// Node i: this + i for clients of Redis Cluster, +100 any client, +200 HTTP, +300 peers
    #[arg(long, default_value_t = 7000, value_parser = value_parser!(u16).range(1..=(Ports::HIGHEST - MOST_NODES).into()))]
    base_port: u16,
    /// Copies of each bucket; as many as there are nodes, but at most three
    #[arg(long)]
    replicas: Option<u8>,
    #[arg(long, default_value_t = 64)]
    buckets: u16,
    /// 'disk' or 'memory'
    #[arg(long, default_value = "disk", value_parser = ["disk", "memory"])]
    durability: String,
    /// Threads of each node
    #[arg(long, default_value_t = 1)]
    lanes: u16,
    /// A copy that was lost is replaced after this many seconds
    #[arg(long, value_name = "SECONDS")]
    recovery_delay: Option<u64>,
    /// Come back at once; 'godwit dev stop' ends it
    #[arg(long)]
    detach: bool,
}

/// What a later command must know about it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) base_port: u16,
    lanes: u16,
    #[serde(default)]
    recovery_delay: Option<u64>,
    pub(crate) nodes: Vec<Member>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) number: u16,
    pid: u32,
    /// When the process began, as the system counts: a number of a process is used again after it.
    began: u64,
}

impl Dev {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.what {
            None => self.cluster.start(),
            Some(What::Stop(place)) => stop(&place.data),
            Some(What::Restart { node, place }) => restart(&place.data, node),
            Some(What::Add(place)) => add(&place.data),
            Some(What::RollingRestart(place)) => rolling_restart(&place.data),
            Some(What::Kill { node, place }) => kill(&place.data, node),
        }
    }
}

impl Cluster {
    fn start(self) -> Result<ExitCode> {
        if let Some(running) = Running::load(&self.data)?
            && running.nodes.iter().any(|member| member.is_alive())
        {
            bail!("a cluster already runs in {}: 'godwit dev stop' ends it", self.data.display());
        }
        for number in 1..=self.nodes {
            let ports = Ports::at(self.base_port, number);
            for port in [ports.cluster, ports.any, ports.http, ports.peers] {
                if TcpListener::bind(("127.0.0.1", port)).is_err() {
                    bail!(
                        "port {port} is taken, and node {number} needs it: stop whatever listens there ('godwit dev stop' ends a cluster \
                         that runs in ./godwit-dev), or choose other ports with --base-port"
                    );
                }
            }
        }
        fs::create_dir_all(&self.data).with_context(|| format!("{} cannot be made", self.data.display()))?;
        let Self { base_port, lanes, recovery_delay, .. } = self;
        let mut running = Running { base_port, lanes, recovery_delay, nodes: Vec::new() };
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("a fixed template"));
        bar.enable_steady_tick(Duration::from_millis(100));
        for number in 1..=self.nodes {
            bar.set_message(format!("starting node {number} of {}", self.nodes));
            let was_here = self.data.join(format!("node-{number}")).exists();
            let process = running.process_of(&self.data, number)?;
            running.nodes.push(Member::spawn(number, process)?);
            running.save(&self.data)?;
            // The others join it. If it was here before it waits for them.
            if number == 1 && !was_here {
                running.wait_for(&self.data, number)?;
            }
        }
        for number in 1..=self.nodes {
            bar.set_message(format!("waiting for node {number} of {}", self.nodes));
            running.wait_for(&self.data, number)?;
        }
        bar.set_message("waiting until everyone has joined");
        let is_present = |node: &&server::NodeStatus| node.state == "present";
        let joined = |status: &server::Status| status.nodes.iter().filter(is_present).count() >= self.nodes.into();
        let status = running.wait_until(&self.data, "everyone has joined", joined)?;
        if status.keyspaces.is_empty() {
            bar.set_message("making the keyspace");
            self.make_keyspace(&running)?;
        }
        bar.set_message("waiting until all buckets serve");
        let served = |status: &server::Status| !status.buckets.is_empty() && status.buckets.iter().all(|b| b.serving);
        let status = running.wait_until(&self.data, "all buckets serve", served)?;
        bar.finish_and_clear();
        self.explain(&running, &status);
        if self.detach {
            return Ok(ExitCode::SUCCESS);
        }
        say!("\nCtrl-C stops it; the data stays in {}.", self.data.display());
        stay(&self.data)
    }

    /// On a busy machine a node that has just joined may be missed for a moment, and a keyspace that needs it is refused.
    fn make_keyspace(&self, running: &Running) -> Result<()> {
        let replicas = self.replicas.unwrap_or(self.nodes.min(3) as u8);
        let memory = self.durability == "memory";
        let body = json!({ "name": "default", "replicas": replicas, "buckets": self.buckets, "memory": memory });
        let begun = Instant::now();
        loop {
            match running.at().post("/v1/keyspaces", &body.to_string()) {
                Err(_) if usize::from(replicas) <= running.nodes.len() && begun.elapsed() < PATIENCE => sleep(PAUSE),
                done => return done.map(drop),
            }
        }
    }

    fn explain(&self, running: &Running, status: &server::Status) {
        status::show(status, false);
        let pids: Vec<String> = running.nodes.iter().map(|m| format!("node-{}: {}", m.number, m.pid)).collect();
        let (any, cluster) = (Ports::at(self.base_port, 1).any, Ports::at(self.base_port, 2).cluster);
        say!("processes: {}\n", pids.join(", "));
        say!("Try it:");
        say!("  redis-cli -p {any} SET a 1          any client, any node");
        say!("  redis-cli -p {} GET a", any + 2.min(self.nodes - 1));
        say!("  redis-cli -c -p {cluster} INCR n         clients that know Redis Cluster");
        say!("  godwit dev kill 2                  then: godwit status; godwit why");
        say!("  godwit dev restart 2");
    }
}

impl Running {
    fn file(data: &Path) -> PathBuf {
        data.join("dev.json")
    }

    fn load(data: &Path) -> Result<Option<Self>> {
        match fs::read_to_string(Self::file(data)) {
            Ok(text) => serde_json::from_str(&text).map(Some).with_context(|| {
                format!(
                    "{} is not understood: it was damaged, or another version wrote it. End the processes of that cluster yourself \
                     ('pgrep -a godwit' shows them), then remove that file: the data stays",
                    Self::file(data).display()
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{} cannot be read", Self::file(data).display())),
        }
    }

    pub(crate) fn here(data: &Path) -> Result<Self> {
        Self::load(data)?.with_context(|| {
            format!("no cluster was started in {}: 'godwit dev --data {0}' starts one", data.display())
        })
    }

    fn save(&self, data: &Path) -> Result<()> {
        // Whoever reads meanwhile, or after a power cut, finds all of it.
        let (file, beside) = (Self::file(data), data.join("dev.json.new"));
        fs::write(&beside, serde_json::to_vec_pretty(self)?)
            .and_then(|()| fs::rename(&beside, &file))
            .with_context(|| format!("{} cannot be written", file.display()))
    }

    fn forget(data: &Path) {
        let _gone = fs::remove_file(Self::file(data));
    }

    fn member(&self, data: &Path, node: u16) -> Result<Member> {
        let member = self.nodes.iter().find(|m| m.number == node);
        member.cloned().with_context(|| format!("there is no node {node} in {}", data.display()))
    }

    pub(crate) fn at(&self) -> At {
        At {
            at: self.nodes.iter().map(|m| format!("127.0.0.1:{}", Ports::at(self.base_port, m.number).http)).collect(),
        }
    }

    fn process_of(&self, data: &Path, number: u16) -> Result<Process> {
        let log = File::options().create(true).append(true).open(log_of(data, number))?;
        let mut process = Process::new(std::env::current_exe()?);
        process.arg("serve").arg("--data").arg(data.join(format!("node-{number}")));
        process.args(["--name", &format!("node-{number}"), "--port", &(self.base_port + number).to_string()]);
        process.args(["--lanes", &self.lanes.to_string()]);
        if let Some(seconds) = self.recovery_delay {
            process.args(["--recovery-delay", &seconds.to_string()]);
        }
        match number {
            1 => process.arg("--init"),
            _ => process.arg("--join").arg(format!("127.0.0.1:{}", Ports::at(self.base_port, 1).peers)),
        };
        process.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(process)
    }

    /// Until its HTTP answers, or it has ended and its log says why.
    fn wait_for(&self, data: &Path, number: u16) -> Result<()> {
        let Ports { http, any, .. } = Ports::at(self.base_port, number);
        let http = format!("127.0.0.1:{http}");
        let is_open = || TcpStream::connect(("127.0.0.1", any)).is_ok(); // it lets nobody in before it knows who leads
        let member = self.nodes.iter().find(|m| m.number == number).context("it was started")?;
        let begun = Instant::now();
        while !matches!(exchange(&http, "GET", "/healthz", ""), Ok((200, _))) || !is_open() {
            let ended = pid(member.pid)
                .is_none_or(|pid| matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_))))
                || !member.is_alive();
            if ended || begun.elapsed() > PATIENCE {
                let log = log_of(data, number);
                let text = fs::read_to_string(&log).unwrap_or_default();
                let last: Vec<&str> = text.lines().rev().take(3).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                let what = if ended { "ended" } else { "does not answer" };
                bail!(
                    "node {number} {what}: {}\n(all of it in {}; the others still run: 'godwit dev stop')",
                    last.join("\n"),
                    log.display()
                );
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    fn wait_until(&self, data: &Path, what: &str, is_so: impl Fn(&server::Status) -> bool) -> Result<server::Status> {
        let begun = Instant::now();
        loop {
            let status = self.at().get::<server::Status>("/v1/status");
            if let Ok(status) = &status
                && is_so(status)
            {
                return Ok(status.clone());
            }
            if begun.elapsed() > PATIENCE {
                let problems = status.map_or_else(|error| error.to_string(), |s| s.problems.join("\n  "));
                bail!("it is not so that {what}, after a minute:\n  {problems}\n(logs: {}/node-*.log)", data.display());
            }
            sleep(PAUSE);
        }
    }
}

fn log_of(data: &Path, number: u16) -> PathBuf {
    data.join(format!("node-{number}.log"))
}

impl Member {
    fn spawn(number: u16, mut process: Process) -> Result<Self> {
        let pid = process.spawn().context("a node could not be started")?.id();
        Ok(Self { number, pid, began: stat(pid).map_or(0, |stat| stat.began) })
    }

    /// A process that has ended and that nobody has asked about yet counts as dead; but not while threads of it still end: they hold its
    /// ports. So does another one that was given its number since: a machine may have started again in between.
    fn is_alive(&self) -> bool {
        let Some(stat) = stat(self.pid).filter(|stat| stat.began == self.began) else { return false };
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).map_or(0, Iterator::count);
        let ended = matches!(stat.state, 'Z' | 'X') && threads <= 1;
        pid(self.pid).is_some_and(|pid| test_kill_process(pid).is_ok()) && !ended
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// What the system says about a process.
struct Stat {
    state: char,
    began: u64,
}

/// None: there is no such process.
fn stat(number: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // After the name, which may hold anything, in parentheses: the state is field 3, the time of its start field 22.
    let mut fields = text.rsplit(')').next()?.split_whitespace();
    Some(Stat { state: fields.next()?.chars().next()?, began: fields.nth(22 - 4)?.parse().ok()? })
}

fn end(member: &Member, signal: Signal) -> Result<()> {
    if let Some(pid) = pid(member.pid).filter(|_| member.is_alive()) {
        kill_process(pid, signal)
            .with_context(|| format!("node {} (process {}) cannot be stopped", member.number, member.pid))?;
    }
    let begun = Instant::now();
    while member.is_alive() {
        if begun.elapsed() > PATIENCE {
            bail!("node {} (process {}) does not end", member.number, member.pid);
        }
        sleep(PAUSE);
    }
    Ok(())
}

fn stop(data: &Path) -> Result<ExitCode> {
    let running = Running::here(data)?;
    // All at once: there is nobody to hand over to.
    for member in &running.nodes {
        if let Some(pid) = pid(member.pid).filter(|_| member.is_alive()) {
            let _ended = kill_process(pid, Signal::INT);
        }
    }
    running.nodes.iter().try_for_each(|member| end(member, Signal::INT))?;
    Running::forget(data);
    say!("stopped; the data stays in {}", data.display());
    Ok(ExitCode::SUCCESS)
}

/// Until somebody asks for its end, here or with 'godwit dev stop'. Nodes that were started again meanwhile end with the others, though
/// Ctrl-C does not reach them.
fn stay(data: &Path) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let is_asked = runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        loop {
            tokio::select! {
                _ = interrupt.recv() => return std::io::Result::Ok(true),
                _ = terminate.recv() => return Ok(true),
                () = tokio::time::sleep(LOOK) => {}
            }
            while let Ok(Some(_ended)) = waitpid(None, WaitOptions::NOHANG) {}
            if !matches!(Running::load(data), Ok(Some(_))) {
                return Ok(false);
            }
        }
    })?;
    if is_asked { stop(data) } else { Ok(ExitCode::SUCCESS) }
}

fn restart(data: &Path, node: u16) -> Result<ExitCode> {
    start_again(data, node)?;
    say!("node {node} runs again");
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn start_again(data: &Path, node: u16) -> Result<()> {
    let mut running = Running::here(data)?;
    end(&running.member(data, node)?, Signal::TERM)?;
    let mut process = running.process_of(data, node)?;
    // Ctrl-C is not for a node that is to outlive the command that started it again.
    process.process_group(0);
    let new = Member::spawn(node, process)?;
    if let Some(member) = running.nodes.iter_mut().find(|member| member.number == node) {
        *member = new;
    }
    running.save(data)?;
    running.wait_for(data, node)
}

fn add(data: &Path) -> Result<ExitCode> {
    let number = add_node(data)?;
    say!("node-{number} has joined, and holds nothing yet. To give it its share: godwit plan add-node node-{number}");
    Ok(ExitCode::SUCCESS)
}

/// Its number.
pub(crate) fn add_node(data: &Path) -> Result<u16> {
    let mut running = Running::here(data)?;
    let number = 1 + running.nodes.iter().map(|member| member.number).max().unwrap_or(0);
    if number > MOST_NODES {
        bail!("there are {MOST_NODES} nodes already: more have no ports");
    }
    let mut process = running.process_of(data, number)?;
    // Ctrl-C is not for a node that is to outlive the command that started it.
    process.process_group(0);
    running.nodes.push(Member::spawn(number, process)?);
    running.save(data)?;
    running.wait_for(data, number)?;
    let name = format!("node-{number}");
    let joined = |status: &server::Status| status.nodes.iter().any(|n| n.name == name && n.state == "present");
    running.wait_until(data, &format!("{name} has joined"), joined)?;
    Ok(number)
}

fn rolling_restart(data: &Path) -> Result<ExitCode> {
    let under_way = |id: &str| say!("{id} is under way. To watch it: godwit watch {id}");
    let restarts = |node: u16| say!("node {node} leads nothing now: it is started again");
    let Some((done, _)) = carry_out(data, "rolling-restart", under_way, restarts)? else {
        bail!("there is nothing to restart")
    };
    say!("{} is done: every node was started again", done.id);
    Ok(ExitCode::SUCCESS)
}

/// Plans and applies an operation, starts nodes again when it waits for that, and returns when it is done, with how many steps are left for
/// another one. None if there was nothing to do.
pub(crate) fn carry_out(
    data: &Path,
    wish: &str,
    under_way: impl Fn(&str),
    restarts: impl Fn(u16),
) -> Result<Option<(server::OperationView, usize)>> {
    let at = Running::here(data)?.at();
    let body = json!({ "wish": wish, "by": "godwit dev" });
    let plan: server::PlanView = serde_json::from_str(&at.post("/v1/operations", &body.to_string())?)?;
    let Some(id) = plan.id else { return Ok(None) };
    at.post(&format!("/v1/operations/{id}/apply"), "{}")?;
    under_way(&id);
    loop {
        let operation: server::OperationView = at.get(&format!("/v1/operations/{id}"))?;
        let number = |name: &String| name.strip_prefix("node-").and_then(|number| number.parse().ok());
        match (operation.state.as_str(), operation.restart.as_ref().and_then(number)) {
            ("done", _) => return Ok(Some((operation, plan.left))),
            ("running" | "paused", None) => sleep(PAUSE),
            ("running" | "paused", Some(node)) => {
                restarts(node);
                start_again(data, node)?;
                // Whoever is asked may not have heard yet that it is another process.
                until_restarted(&at, &id, node)?;
            }
            (state, _) => bail!("{id} {state} after {} steps: {}", operation.done, operation.why),
        }
    }
}

fn until_restarted(at: &At, id: &str, node: u16) -> Result<()> {
    let (begun, name) = (Instant::now(), format!("node-{node}"));
    loop {
        let all: Vec<server::OperationView> = at.get("/v1/operations")?;
        let waits = |one: &server::OperationView| one.id == id && one.restart.as_ref() == Some(&name);
        if !all.iter().any(waits) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            bail!("node {node} was started again a minute ago, and nobody has heard of it: look at 'godwit why'");
        }
        sleep(PAUSE);
    }
}

fn kill(data: &Path, node: u16) -> Result<ExitCode> {
    end_node(data, node, Signal::KILL)?;
    say!("node {node} is dead; 'godwit dev restart {node}' starts it again");
    Ok(ExitCode::SUCCESS)
}

/// KILL: as a power cut would. TERM: it hands over first.
pub(crate) fn end_node(data: &Path, node: u16, signal: Signal) -> Result<()> {
    end(&Running::here(data)?.member(data, node)?, signal)
}

/// It stands still, or goes on.
pub(crate) fn halt(data: &Path, node: u16, signal: Signal) -> Result<()> {
    let member = Running::here(data)?.member(data, node)?;
    let pid = pid(member.pid).filter(|_| member.is_alive());
    let pid = pid.with_context(|| format!("node {node} (process {}) does not run", member.pid))?;
    kill_process(pid, signal).with_context(|| format!("node {node} (process {}) cannot be signalled", member.pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_cannot_be_read_is_not_none() {
        let data = tempfile::tempdir().expect("a temporary directory");
        assert!(Running::load(data.path()).expect("nothing is there").is_none());
        let running = Running { base_port: 7000, lanes: 1, recovery_delay: None, nodes: Vec::new() };
        running.save(data.path()).expect("there is room");
        assert!(Running::load(data.path()).expect("it was written").is_some());
        assert_eq!(fs::read_dir(data.path()).expect("it is there").count(), 1, "nothing is left beside it");
        fs::write(Running::file(data.path()), "{\"base_port\":70").expect("there is room");
        let error = Running::load(data.path()).expect_err("half of it").to_string();
        assert!(error.contains("then remove that file"), "{error}");
    }

    #[test]
    fn a_number_that_another_process_was_given_is_not_that_node() {
        let mut sleeping = Process::new("sleep");
        sleeping.arg("60");
        let node = Member::spawn(1, sleeping).expect("there is a sleep");
        assert!(node.is_alive() && node.began > 0);
        let before = Member { began: node.began - 1, ..node.clone() };
        assert!(!before.is_alive());
        end(&before, Signal::KILL).expect("it has ended long ago");
        assert!(node.is_alive(), "nobody signalled the other one");
        end(&node, Signal::KILL).expect("it ends");
        assert!(!node.is_alive());
    }
}
