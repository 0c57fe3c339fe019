//! `godwit bench`: it starts what it compares, says who is missing, and leaves nothing behind. How fast anybody is, is not asked here.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Ports, SETTINGS, godwit, text, until};

struct Bench {
    target: tempfile::TempDir,
    ports: Ports,
    settings: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let target = tempfile::tempdir().expect("a directory of its own");
        let settings = target.path().join("settings.toml");
        std::fs::write(&settings, SETTINGS).expect("our own directory");
        Self { target, ports: Ports::take(), settings }
    }

    /// Turns so short that the figures mean nothing.
    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let (base, target) = (self.ports.base.to_string(), self.target.path().to_string_lossy().into_owned());
        let usual = [
            "bench",
            "compare",
            "--quick",
            "--rounds",
            "1",
            "--seconds",
            "0.05",
            "--base-port",
            &base,
            "--target",
            &target,
        ];
        usual.iter().chain(more).map(|&word| word.to_owned()).collect()
    }

    fn run(&self, more: &[&str], environment: &[(&str, &str)]) -> Output {
        let arguments = self.arguments(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let config = self.settings.to_string_lossy();
        godwit(&arguments, &[environment, &[("GODWIT_CONFIG", config.as_ref())]].concat())
    }

    /// Of servers that do not run any more nothing is left but results.
    fn assert_tidy(&self) {
        let left = std::fs::read_dir(self.target.path().join("bench")).expect("results are there");
        let left: Vec<String> = left.flatten().map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        assert_eq!(left, ["results"]);
    }
}

const NOBODY: [(&str, &str); 2] = [("VALKEY", "/nowhere/valkey-server"), ("REDIS", "/nowhere/redis-server")];

#[test]
fn alone_it_says_who_is_missing_and_measures_itself() {
    let bench = Bench::new();
    let output = bench.run(&["--only", "single"], &NOBODY);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "no bar could be looked at, and so none is missed: {said}");
    for words in
        ["valkey is left out", "redis is left out", "apt-get install redis-server", "SET, pipeline 16", "guaranteed:"]
    {
        assert!(said.contains(words), "{words:?} is missing: {said}");
    }
    let kept = std::fs::read_to_string(bench.target.path().join("bench/results/single.json")).expect("it was kept");
    let kept: serde_json::Value = serde_json::from_str(&kept).expect("it is JSON");
    assert_eq!(kept["cells"][0]["sides"][0]["rounds"][0]["errors"], 0.0);
    bench.assert_tidy();
}

#[test]
fn beside_a_redis() {
    if !Command::new("redis-server").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!(
            "\n!!! SKIPPED: there is no redis-server here to be compared with (Debian: apt-get install redis-server).\n"
        );
        return;
    }
    let bench = Bench::new();
    let output = bench.run(&["--only", "replicated", "--against", "redis", "--json"], &[]);
    assert_eq!(output.status.code(), Some(0), "bars are about Valkey only: {}", text(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let sides = report["rows"][0]["cells"][0]["sides"].as_array().expect("there are sides");
    let who: Vec<&str> = sides.iter().filter_map(|side| side["who"].as_str()).collect();
    assert_eq!(who, ["godwit", "redis"]);
    for side in sides {
        assert!(side["rounds"][0]["per-second"].as_f64().is_some_and(|rate| rate > 0.0), "{side}");
        assert_eq!(side["rounds"][0]["errors"], 0.0, "{report}");
    }
    bench.assert_tidy();
}

#[test]
fn what_is_interrupted_leaves_nothing_running() {
    let bench = Bench::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_godwit"));
    let arguments = bench.arguments(&["--only", "single"]);
    command.args(arguments.iter().map(|word| if word == "0.05" { "60" } else { word }));
    let mut child = command.envs(NOBODY).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let place = bench.target.path().join(format!("bench/run-{}", child.id()));
    let node = until("a node runs", || node_in(&place), || format!("{place:?}"));
    let pid = Pid::from_raw(child.id() as i32).expect("a process");
    kill_process(pid, Signal::INT).expect("it runs");
    let status = child.wait().expect("it is ours");
    assert_eq!(status.code(), Some(130), "{status:?}");
    let has_ended = || (!Path::new(&format!("/proc/{node}")).exists()).then_some(());
    until("the node has ended", has_ended, || node.to_string());
    assert!(!place.join("single").exists(), "its data is gone, too");
}

fn node_in(place: &Path) -> Option<u64> {
    let clusters = std::fs::read_dir(place.join("single")).ok()?;
    clusters.flatten().find_map(|cluster| {
        let text = std::fs::read_to_string(cluster.path().join("dev.json")).ok()?;
        serde_json::from_str::<serde_json::Value>(&text).ok()?["nodes"][0]["pid"].as_u64()
    })
}

#[test]
fn command_lines_that_make_no_sense() {
    for wrong in
        [["--only", "speed"], ["--rounds", "0"], ["--seconds", "0"], ["--against", "mongo"], ["--base-port", "65400"]]
    {
        let output = godwit(&[&["bench", "compare"], &wrong[..]].concat(), &[]);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", text(&output));
    }
    let listed = text(&godwit(&["bench", "compare", "--list"], &[]));
    for row in ["single", "replicated", "durable", "failover", "move", "memory", "scaling"] {
        assert!(listed.lines().any(|line| line.starts_with(row)), "{listed}");
    }
}
