//! Where a node can be found, as it stands in the blueprint: `peers=host:port`, `cluster=…`, `any=…`, `http=…`.

use std::fmt;

use blueprint::{Blueprint, NodeId};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// For the other nodes.
    pub peers: String,
    /// For clients that know Redis Cluster.
    pub cluster: String,
    /// For all other clients.
    pub any: String,
    pub http: String,
}

impl Addresses {
    pub fn to_blueprint(&self) -> Vec<String> {
        self.parts().map(|(name, address)| format!("{name}={address}")).into()
    }

    /// What is not said is empty: nobody will find it there.
    pub fn from_blueprint(addresses: &[String]) -> Self {
        let find = |name: &str| {
            let mut found = addresses.iter().filter_map(|a| a.split_once('=')).filter(|(n, _)| *n == name);
            found.next().map(|(_, address)| address.to_owned()).unwrap_or_default()
        };
        Self { peers: find("peers"), cluster: find("cluster"), any: find("any"), http: find("http") }
    }

    pub fn of(blueprint: &Blueprint, node: NodeId) -> Option<Self> {
        blueprint.nodes.get(&node).map(|node| Self::from_blueprint(&node.addresses))
    }

    fn parts(&self) -> [(&'static str, &str); 4] {
        [("peers", &self.peers), ("cluster", &self.cluster), ("any", &self.any), ("http", &self.http)]
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_blueprint().join(" "))
    }
}

/// Host and port of `host:port`; the port is 0 where there is none to be found.
pub(crate) fn host_and_port(address: &str) -> (&str, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    (host.trim_matches(['[', ']']), port.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_as_read() {
        let addresses =
            Addresses { peers: "a:1".into(), cluster: "[::1]:2".into(), any: String::new(), http: "10.0.0.1:4".into() };
        assert_eq!(Addresses::from_blueprint(&addresses.to_blueprint()), addresses);
        assert_eq!(Addresses::from_blueprint(&["nonsense".into()]), Addresses::default());
        assert_eq!(host_and_port(&addresses.cluster), ("::1", 2));
        assert_eq!(host_and_port("nonsense"), ("nonsense", 0));
    }
}
