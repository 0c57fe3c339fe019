//! `godwit dev`: a cluster on this machine, as a newcomer starts, breaks and mends it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use bytes::Bytes;
use values::Reply;

use crate::common::{Client, Ports, SETTINGS, godwit, text, until};

struct Dev {
    data: PathBuf,
    ports: Ports,
}

impl Dev {
    /// Nothing is started yet.
    fn new(name: &str) -> Self {
        let data = std::env::temp_dir().join(format!("godwit-{name}-{}", std::process::id()));
        let dev = Self { data, ports: Ports::take() };
        std::fs::create_dir_all(&dev.data).expect("a directory of its own");
        std::fs::write(dev.settings(), SETTINGS).expect("our own directory");
        dev
    }

    fn start(name: &str, arguments: &[&str]) -> Self {
        let dev = Self::new(name);
        let base = dev.ports.base.to_string();
        dev.succeed(&[&["dev", "--detach", "--base-port", &base], arguments].concat());
        dev
    }

    fn godwit(&self, arguments: &[&str]) -> Output {
        let at: Vec<String> = (1..=3).map(|i| format!("127.0.0.1:{}", self.ports.base + 200 + i)).collect();
        let data = ["--data", self.data.to_str().expect("a plain path")];
        let data = if arguments[0] == "dev" { &data[..] } else { &[] };
        godwit(&[arguments, data].concat(), &[("GODWIT_AT", &at.join(",")), ("GODWIT_CONFIG", &self.settings())])
    }

    fn settings(&self) -> String {
        self.data.join("settings.toml").to_string_lossy().into_owned()
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.godwit(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        text(&output)
    }

    fn until_well(&self) {
        let is_well = || self.godwit(&["status"]).status.success().then_some(());
        until("all is well", is_well, || text(&self.godwit(&["status"])) + &text(&self.godwit(&["why"])));
    }

    /// Asks any node until somebody answers without an error.
    fn ask(&self, words: &[&str]) -> Reply {
        let mut nodes = (1..=3).cycle();
        let answered = || {
            let any = format!("127.0.0.1:{}", self.ports.base + 100 + nodes.next().expect("there is always a next"));
            Client::connect(&any)?.ask(words).filter(|reply| !reply.is_error())
        };
        until(&format!("{words:?} is answered"), answered, || text(&self.godwit(&["why"])))
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _stopped = self.godwit(&["dev", "stop"]);
        if std::thread::panicking() {
            for node in 1..=3 {
                let log = std::fs::read_to_string(self.data.join(format!("node-{node}.log"))).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(20).collect();
                eprintln!("node {node}:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
            }
        }
        let _gone = std::fs::remove_dir_all(&self.data);
    }
}

/// What was acknowledged so far.
#[derive(Default)]
struct Written(BTreeMap<String, String>);

impl Written {
    fn write(&mut self, dev: &Dev, round: &str) {
        for i in 0..60 {
            let (key, value) = (format!("{round}:{i}"), format!("value {i}"));
            assert_eq!(dev.ask(&["SET", &key, &value]), Reply::Ok);
            self.0.insert(key, value);
        }
    }

    fn check(&self, dev: &Dev) {
        for (key, value) in &self.0 {
            let expected = Reply::Value(Bytes::copy_from_slice(value.as_bytes()));
            assert_eq!(dev.ask(&["GET", key]), expected, "{key} was acknowledged");
        }
    }
}

/// As the README begins: in a terminal, until Ctrl-C. A node that was started again from elsewhere ends with the others.
#[test]
fn who_ends_the_command_ends_the_cluster() {
    let dev = Dev::new("terminal");
    let (base, data) = (dev.ports.base.to_string(), dev.data.to_str().expect("a plain path").to_owned());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_godwit"));
    command.args(["dev", "--buckets", "4", "--base-port", &base, "--data", &data]).env("GODWIT_CONFIG", dev.settings());
    let mut terminal = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary was just built");
    let is_well = || dev.godwit(&["status"]).status.success().then_some(());
    until("all is well", is_well, || text(&dev.godwit(&["status"])));
    dev.succeed(&["dev", "kill", "2"]);
    dev.succeed(&["dev", "restart", "2"]);
    assert!(terminal.try_wait().expect("our own child").is_none(), "it stays");

    let pid = rustix::process::Pid::from_raw(terminal.id() as i32).expect("a child has a number");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("our own child");
    let ended = until("it ends", || terminal.try_wait().expect("our own child"), || "it runs and runs".into());
    assert!(ended.success(), "{ended}");
    for node in 1..=3 {
        let address = format!("127.0.0.1:{}", dev.ports.base + node);
        assert!(std::net::TcpStream::connect(&address).is_err(), "somebody still listens at {address}");
    }
    assert!(!dev.data.join("dev.json").exists());
}

#[test]
fn nothing_acknowledged_is_lost() {
    let dev = Dev::start("lost", &["--buckets", "8", "--recovery-delay", "1"]);
    let mut written = Written::default();
    written.write(&dev, "calm");

    dev.succeed(&["dev", "kill", "2"]);
    written.write(&dev, "without node 2");
    written.check(&dev);
    dev.succeed(&["dev", "restart", "2"]);
    dev.until_well();

    // With a hand over this time.
    dev.succeed(&["dev", "restart", "1"]);
    written.write(&dev, "node 1 restarted");
    dev.until_well();

    for node in ["1", "2", "3"] {
        dev.succeed(&["dev", "kill", node]);
    }
    let status = dev.godwit(&["status"]);
    assert_eq!(status.status.code(), Some(3), "nobody can be asked: {}", text(&status));
    for node in ["3", "1", "2"] {
        dev.succeed(&["dev", "restart", node]);
    }
    dev.until_well();
    written.check(&dev);
    written.write(&dev, "after all");
    written.check(&dev);
    let inspected = dev.succeed(&["inspect", dev.data.join("node-1").to_str().expect("a plain path")]);
    assert!(inspected.contains("b1"), "{inspected}");
}

#[test]
fn dev_restarts_its_nodes_in_turn() {
    let dev = Dev::start("dev-rolling", &["--buckets", "6"]);
    assert_eq!(dev.ask(&["SET", "a", "1"]), Reply::Ok);
    let said = dev.succeed(&["dev", "rolling-restart"]);
    for line in ["node 1 leads nothing now", "node 2 leads nothing now", "node 3 leads nothing now", "is done"] {
        assert!(said.contains(line), "{said}");
    }
    dev.until_well();
    assert_eq!(dev.ask(&["GET", "a"]), Reply::text("1"));
}

/// Each kind is asked for, comes true, and nobody's clients notice more than that another node leads.
#[test]
fn changes_of_shape_under_load() {
    let dev = Dev::start("shapes", &["--nodes", "4", "--buckets", "8"]);
    for key in 0..200 {
        assert_eq!(dev.ask(&["SET", &format!("k{key}"), &"x".repeat(10_000)]), Reply::Ok);
    }
    let kinds = [
        "swap-primary",
        "move-replica",
        "migrate-slots",
        "split-bucket",
        "merge-buckets",
        "add-node",
        "remove-node",
        "create-keyspace",
        "remove-keyspace",
    ];
    let data = dev.data.to_str().expect("a plain path");
    let arguments =
        ["prove", "--json", "--calm", "0", "--redis-cluster", "--clients", "4", "--dev", data, "--operations"];
    let output = dev.godwit(&[&arguments[..], &[kinds.join(",").as_str()]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let changes = report["by_change"].as_array().expect("a list");
    let made: Vec<&str> = changes.iter().filter_map(|change| change["kind"].as_str()).collect();
    assert_eq!(made, kinds, "{report:#}");
    for change in changes {
        let moves =
            matches!(change["kind"].as_str(), Some("move-replica" | "migrate-slots" | "add-node" | "remove-node"));
        assert_eq!(change["median_bytes"].as_u64() > Some(0), moves, "{change:#}");
    }
    let errors = report["errors"].as_object().expect("a map");
    assert!(errors.keys().all(|kind| kind == "MOVED"), "{errors:?}");
    dev.until_well();
}
