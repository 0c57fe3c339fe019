//! Nodes with a network of their own each, joined by a bridge: one is cut off without a word, as a cable that is pulled.

use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use values::Reply;

use crate::common::{Client, Cluster, Load, Manner, Shape, text, text_of, until};

/// Namespaces joined by a bridge in one more of them, so that nothing of the machine itself is touched. Gone when the test is over.
struct Net {
    name: String,
    made: Vec<String>,
}

impl Net {
    /// The error says why that is not possible here.
    fn new() -> Result<Self, String> {
        let mut net = Self { name: format!("godwit{}", std::process::id()), made: Vec::new() };
        let hub = net.make("hub")?;
        ip(&["-n", &hub, "link", "set", "lo", "up"])?;
        ip(&["-n", &hub, "link", "add", "bridge", "type", "bridge"])?;
        ip(&["-n", &hub, "address", "add", "10.77.0.254/24", "dev", "bridge"])?;
        ip(&["-n", &hub, "link", "set", "bridge", "up"])?;
        for node in 1..=3 {
            let own = net.make(&node.to_string())?;
            let (cable, address) = (cable(node), format!("{}/24", address(node)));
            ip(&["link", "add", "name", &cable, "netns", &hub, "type", "veth", "peer", "name", "eth0", "netns", &own])?;
            ip(&["-n", &hub, "link", "set", &cable, "master", "bridge", "up"])?;
            ip(&["-n", &own, "address", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &own, "link", "set", "eth0", "up"])?;
            ip(&["-n", &own, "link", "set", "lo", "up"])?;
        }
        Ok(net)
    }

    fn make(&mut self, part: &str) -> Result<String, String> {
        let name = self.of(part);
        ip(&["netns", "add", &name])?;
        self.made.push(name.clone());
        Ok(name)
    }

    fn of(&self, part: &str) -> String {
        format!("{}-{part}", self.name)
    }

    fn set_cable(&self, node: u16, state: &str) {
        ip(&["-n", &self.of("hub"), "link", "set", &cable(node), state]).expect("it was made here");
    }

    /// This thread, and whatever it starts from here on, is there.
    fn enter(&self, part: &str) {
        let namespace = std::fs::File::open(format!("/run/netns/{}", self.of(part))).expect("it was made here");
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Network))
            .expect("who may make one may enter it");
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.made {
            let _gone = ip(&["netns", "delete", name]);
        }
    }
}

fn cable(node: u16) -> String {
    format!("cable{node}")
}

fn address(node: u16) -> String {
    format!("10.77.0.{node}")
}

fn ip(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(words).output().map_err(|error| format!("'ip': {error}"))?;
    if output.status.success() { Ok(()) } else { Err(format!("ip {}: {}", words.join(" "), text(&output).trim())) }
}

#[test]
fn a_node_that_is_cut_off_serves_nothing_and_nothing_is_lost() {
    let net = match Net::new() {
        Ok(net) => net,
        Err(why) => {
            eprintln!(
                "\n!!! SKIPPED: no network namespaces here, so no test of cut networks. It takes root and 'ip'. {why}\n"
            );
            return;
        }
    };
    net.enter("hub");
    let mut cluster = Cluster::empty("cut");
    for node in 1..=3 {
        let within = ["ip", "netns", "exec", &net.of(&node.to_string())].map(str::to_owned);
        cluster.add(node, &address(node), &[], &within);
    }
    cluster.found(&Shape::default());
    let load = Load::start(&cluster, Manner::Any);
    load.flow(100, &cluster);

    let mut key = None;
    let mut client = Client::connect(&cluster.node(3).cluster()).expect("it runs");
    for candidate in (0..).map(|i| format!("key:{i}")).take(1000) {
        if client.ask(&["SET", &candidate, "old"]) == Some(Reply::Ok) {
            key = Some(candidate);
            break;
        }
    }
    let key = key.expect("node 3 leads something");
    net.set_cable(3, "down");
    let replaced = || {
        let status = cluster.node(1).status()?;
        status.buckets.iter().all(|bucket| bucket.serving && bucket.primary != "node-3").then_some(())
    };
    until("others lead everything", replaced, || cluster.describe());
    let set = || (Client::connect(&cluster.node(1).any())?.ask(&["SET", &key, "new"])? == Reply::Ok).then_some(());
    until("others take writes", set, || cluster.describe());
    load.flow(100, &cluster);

    // It runs and listens, only nobody can hear it but who sits beside it.
    let (cut_off, node) = (cluster.node(3).cluster(), net.of("3"));
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            net.enter("3");
            for words in [&["GET", &key][..], &["SET", &key, "its own"]] {
                let mut client = Client::connect(&cut_off).expect("it listens");
                let reply = client.ask(words).expect("it says so");
                assert!(reply.is_error(), "{words:?} at {node}: {}", text_of(&reply));
            }
        });
        beside.join().expect("it serves nothing");
    });

    net.set_cable(3, "up");
    cluster.until_well();
    load.flow(100, &cluster);
    let all_well = cluster.succeed(&["status"]);
    assert!(all_well.contains("All is well"), "{all_well}");
    load.end();
    drop(cluster);
}
