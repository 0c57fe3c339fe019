//! What is known about this node as a whole, shared by its lanes; and `INFO`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant as Moment, SystemTime, UNIX_EPOCH};

use blueprint::NodeId;
use node::Door;

use super::cluster;
use super::migrations::Noted;
use crate::addresses::{Addresses, host_and_port};
use crate::lane::Driver;

/// What clients are told that they talk to: the version of Redis whose semantics these are.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

#[derive(Debug)]
pub(crate) struct House {
    pub(crate) me: NodeId,
    pub(crate) name: String,
    pub(crate) addresses: Addresses,
    pub(crate) started: Moment,
    pub(crate) next_client: AtomicU64,
    pub(crate) most_clients: u64,
    /// From the moment they are let in.
    pub(crate) clients: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// Clients that were sent to another node.
    pub(crate) moved: AtomicU64,
    /// What `CLUSTER GETSLOTMIGRATIONS` was last answered.
    pub(super) migrations: Noted,
    /// Somebody asked for a shutdown: the main thread looks.
    pub(crate) shutdown: tokio::sync::Notify,
}

impl House {
    pub(crate) fn new(me: NodeId, name: String, addresses: Addresses, most_clients: u64) -> Self {
        Self {
            me,
            name,
            addresses,
            started: Moment::now(),
            next_client: AtomicU64::new(1),
            most_clients,
            clients: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            migrations: Noted::default(),
            shutdown: tokio::sync::Notify::new(),
        }
    }

    pub(crate) fn count_commands(&self, count: u64) {
        self.commands.fetch_add(count, Ordering::Relaxed);
    }
}

type Rows = Vec<(String, String)>;
type Section = fn(&Driver, Door) -> Rows;

/// Sections by name; none, `default`, `all` or `everything`: all of them.
pub(super) fn info(driver: &Driver, door: Door, wanted: &[String]) -> String {
    let all = wanted.is_empty() || wanted.iter().any(|w| matches!(w.as_str(), "default" | "all" | "everything"));
    let sections: [(&str, Section); 7] = [
        ("Server", server),
        ("Clients", clients),
        ("Memory", memory),
        ("Stats", stats),
        ("Replication", replication),
        ("Cluster", |_, door| vec![row("cluster_enabled", &u8::from(door == Door::Cluster))]),
        ("Keyspace", |_, _| Vec::new()),
    ];
    let mut text = String::new();
    for (name, section) in sections {
        if all || wanted.iter().any(|w| w.eq_ignore_ascii_case(name)) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str(&format!("# {name}\r\n"));
            for (key, value) in section(driver, door) {
                text.push_str(&format!("{key}:{value}\r\n"));
            }
        }
    }
    text
}

fn row(key: &str, value: &(impl ToString + ?Sized)) -> (String, String) {
    (key.to_owned(), value.to_string())
}

fn server(driver: &Driver, door: Door) -> Rows {
    let house = &driver.hall.house;
    let uptime = house.started.elapsed().as_secs();
    let (mode, address) = match door {
        Door::Cluster => ("cluster", &house.addresses.cluster),
        Door::Any => ("standalone", &house.addresses.any),
    };
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros());
    vec![
        row("redis_version", REDIS_VERSION),
        row("redis_mode", mode),
        row("godwit_version", env!("CARGO_PKG_VERSION")),
        row("godwit_node", &format!("{} {}", house.me, house.name)),
        row("os", std::env::consts::OS),
        row("arch_bits", &usize::BITS),
        row("process_id", &std::process::id()),
        row("run_id", &cluster::id(house.me)),
        row("tcp_port", &host_and_port(address).1),
        row("server_time_usec", &micros),
        row("uptime_in_seconds", &uptime),
        row("uptime_in_days", &(uptime / 86_400)),
    ]
}

fn clients(driver: &Driver, _: Door) -> Rows {
    let house = &driver.hall.house;
    vec![
        row("connected_clients", &house.clients.load(Ordering::Relaxed)),
        row("maxclients", &house.most_clients),
        row("blocked_clients", &0),
    ]
}

fn memory(_: &Driver, _: Door) -> Rows {
    let bytes = resident_bytes();
    vec![
        row("used_memory", &bytes),
        row("used_memory_rss", &bytes),
        row("maxmemory", &0),
        row("maxmemory_policy", "noeviction"),
    ]
}

/// What the operating system says this process has in memory.
pub(crate) fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

fn stats(driver: &Driver, _: Door) -> Rows {
    let house = &driver.hall.house;
    vec![
        row("total_connections_received", &house.connections.load(Ordering::Relaxed)),
        row("total_commands_processed", &house.commands.load(Ordering::Relaxed)),
    ]
}

fn replication(driver: &Driver, _: Door) -> Rows {
    let lane = driver.lane.borrow();
    let blueprint = lane.blueprint();
    let governments = || blueprint.buckets.values().filter_map(|bucket| bucket.government());
    let leads = governments().filter(|g| g.primary.node == driver.me).count();
    let follows = governments().filter(|g| g.secondaries.iter().any(|m| m.node == driver.me)).count();
    vec![
        row("role", "master"),
        row("connected_slaves", &blueprint.nodes.len().saturating_sub(1)),
        row("godwit_buckets_led", &leads),
        row("godwit_buckets_followed", &follows),
        row("godwit_epoch", &blueprint.epoch.0),
    ]
}
