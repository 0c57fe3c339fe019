//! Everything that can be set about a node.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::addresses::Addresses;

/// What a file does not say is as in `Config::default()`; what it says and is not here is a mistake, probably in spelling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub data: PathBuf,
    /// How people call it.
    pub name: Option<String>,
    /// Copies of a bucket are kept in different zones.
    pub zone: String,
    /// Where it listens.
    pub listen: String,
    /// Where others find it, if that is another address.
    pub advertise: Option<String>,
    pub ports: Ports,
    pub lanes: u16,
    pub start: Start,
    /// Of the meta group: one, three or five.
    pub voters: usize,
    /// A segment of the journal.
    pub segment_mib: u64,
    pub beacon_ms: u64,
    pub lease_ms: u64,
    /// A node that has not answered for this long is silent.
    pub silence_ms: u64,
    /// A copy that was lost is replaced after this long.
    pub recovery_delay_s: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// For clients that know Redis Cluster.
    pub cluster: u16,
    /// For all other clients.
    pub any: u16,
    pub http: u16,
    pub peers: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// A new cluster.
    Init,
    /// A cluster that these belong to (`host:port` for peers).
    Join(Vec<String>),
    /// The cluster that the data directory belongs to.
    Again,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: PathBuf::from("godwit-data"),
            name: None,
            zone: String::new(),
            listen: "127.0.0.1".into(),
            advertise: None,
            ports: Ports::at(7000, 1),
            lanes: 1,
            start: Start::Again,
            voters: 3,
            segment_mib: 16,
            beacon_ms: 100,
            lease_ms: 400,
            silence_ms: 700,
            recovery_delay_s: 30,
        }
    }
}

/// Coordinators look around at least so often.
const LONGEST_ROUND: Duration = Duration::from_millis(250);

/// Tables of a copy that travel together: no more than a lane encodes in a millisecond or so, while its clients wait. Those in flight
/// for the copies that an operation makes at once fit on a link.
const IMAGE_BYTES: usize = 256 << 10;

/// It looks at every bucket.
const SHORTEST_UPKEEP: Duration = Duration::from_millis(200);

impl Ports {
    /// Above it there is no room for the others.
    pub const HIGHEST: u16 = u16::MAX - 300;

    /// Those of the i-th node of a cluster on one machine. Together they are at most `HIGHEST`.
    pub fn at(base: u16, i: u16) -> Self {
        assert!(u32::from(base) + u32::from(i) <= u32::from(Self::HIGHEST), "checked where they come in");
        Self { cluster: base + i, any: base + 100 + i, http: base + 200 + i, peers: base + 300 + i }
    }
}

impl Config {
    pub fn addresses(&self) -> Addresses {
        let host = self.advertise.as_ref().unwrap_or(&self.listen);
        let at = |port: u16| if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let Ports { cluster, any, http, peers } = self.ports;
        Addresses { peers: at(peers), cluster: at(cluster), any: at(any), http: at(http) }
    }

    /// The numbers that the machines wait by, if they fit together.
    pub fn machines(&self) -> Result<node::Config, String> {
        let millis = Duration::from_millis;
        let lease = millis(self.lease_ms);
        let phaser = phaser::Config {
            beacon: millis(self.beacon_ms),
            retry: millis(self.beacon_ms),
            lease,
            margin: (lease / 20).max(millis(1)),
            stall: (2 * lease).max(millis(1)),
            // Whoever was killed or stood still comes back as a laggard, as a rule, and is not slow at all.
            seat_delay: lease / 2,
            image_bytes: IMAGE_BYTES,
            // Operations have throttles of their own; and one image at a time for each copy leaves room for everybody else.
            fill_rate: u64::MAX,
            ..phaser::Config::default()
        };
        // Each round wakes every node a few times, also when nothing happens.
        let round = millis(self.silence_ms * 2 / 7).min(LONGEST_ROUND);
        let usual = reactor::Limits::default();
        let limits = reactor::Limits {
            recovery_delay: Duration::from_secs(self.recovery_delay_s),
            // Erasing a replica forgets what it granted.
            grace: usual.grace.max(lease + phaser.margin),
            ..usual
        };
        let config = node::Config {
            phaser,
            limits,
            silence: millis(self.silence_ms),
            round,
            // When it is awake anyway.
            upkeep: round.max(SHORTEST_UPKEEP),
            // What finds no primary where it hopped to goes back to the door that it came in at: only there is known what else the client
            // asked. From node to node it could be overtaken: 1. SET k 1 hops to a node that is not primary yet, and hops on; 2. that
            // node becomes it; 3. SET k 2 comes, and is done; 4. SET k 1 comes back.
            most_hops: 1,
            ..node::Config::default()
        };
        config
            .check()
            .map_err(|why| format!("{why}. The numbers of this node do not fit together; see 'godwit serve --help'"))?;
        if self.lanes == 0 || self.lanes > 256 {
            return Err("lanes: at least 1, at most 256".into());
        }
        let Ports { cluster, any, http, peers } = self.ports;
        let mut ports = [cluster, any, http, peers];
        ports.sort_unstable();
        if ports[0] == 0 || ports.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!(
                "ports: cluster {cluster}, any {any}, http {http}, peers {peers}. Give four different ones, none of them 0, or one for all \
                 with --port"
            ));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_fit_together() {
        assert!(Config::default().machines().is_ok());
        let patient = Config { beacon_ms: 300, lease_ms: 1200, silence_ms: 2100, ..Config::default() };
        assert!(patient.machines().is_ok(), "{:?}", patient.machines());
        let very = Config { silence_ms: 7000, ..Config::default() };
        assert!(very.machines().is_ok(), "{:?}", very.machines());
        let bad = Config { lease_ms: 100, ..Config::default() };
        assert!(bad.machines().expect_err("a lease of one beacon").contains("beacon"));
    }

    #[test]
    fn every_port_is_one_of_its_own() {
        let with = |ports| Config { ports, ..Config::default() }.machines();
        assert!(with(Ports::at(Ports::HIGHEST, 0)).is_ok());
        for ports in [Ports { any: 7000, ..Ports::at(7000, 0) }, Ports { http: 0, ..Ports::at(7000, 0) }] {
            assert!(with(ports).expect_err("a port twice, or none").contains("--port"));
        }
    }
}
