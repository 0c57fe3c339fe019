//! `CLUSTER` as Redis Cluster's clients know it. A node of ours may lead some buckets and follow others; where Redis knows one role
//! per node, every node is a master here, and each range of slots names its own replicas.

use std::collections::BTreeMap;

use blueprint::{Blueprint, KeyspaceId, NodeId, Slot, SlotSet};
use bytes::Bytes;
use values::{Command, Reply};

use super::keyspace::Chosen;
use super::talk;
use crate::addresses::{Addresses, host_and_port};
use crate::lane::Driver;

pub(super) enum Found {
    Reply(Reply),
    /// To be asked of whoever leads the slot.
    Ask(Box<Command>),
}

pub(super) fn answer(driver: &Driver, chosen: Chosen, command: &Command) -> Found {
    let blueprint = driver.lane.borrow().blueprint().clone();
    let words = talk::arguments(command);
    let keyspace = match (chosen, chosen.among(&blueprint)) {
        (_, Ok(keyspace)) => keyspace,
        (Chosen::Default, Err(_)) => KeyspaceId::default(), // nobody leads anything yet, which can be said, too
        (Chosen::One(_), Err(error)) => return Found::Reply(error),
    };
    Found::Reply(match command.name() {
        "cluster|myid" => Reply::Value(id(driver.me).into()),
        "cluster|info" => Reply::Value(info(&blueprint, keyspace).into()),
        "cluster|nodes" => Reply::Value(nodes(&blueprint, keyspace, driver.me).into()),
        "cluster|slots" => slots(&blueprint, keyspace),
        "cluster|shards" => shards(&blueprint, keyspace),
        "cluster|replicas" if blueprint.nodes.keys().any(|node| id(*node).as_bytes() == words[0]) => {
            Reply::Array(Vec::new())
        }
        "cluster|replicas" => Reply::error_with(format!("ERR Unknown node {}", String::from_utf8_lossy(&words[0]))),
        "cluster|countkeysinslot" => match number(&words[0]).map(slot) {
            Some(Some(slot)) => return Found::Ask(Box::new(Command::count_slot(slot))),
            Some(None) => Reply::error("ERR Invalid slot"),
            None => not_a_number(),
        },
        _ => talk::unknown(command),
    })
}

/// Of which slot `CLUSTER GETKEYSINSLOT` wants to see keys, and how many.
pub(super) fn keys_asked(command: &Command) -> Result<(Slot, u64), Reply> {
    let words = talk::arguments(command);
    match (number(&words[0]).map(slot), number(&words[1]).map(u64::try_from)) {
        (Some(Some(slot)), Some(Ok(count))) => Ok((slot, count)),
        (None, _) | (_, None) => Err(not_a_number()),
        (Some(_), Some(_)) => Err(Reply::error("ERR Invalid slot or number of keys")),
    }
}

fn number(word: &Bytes) -> Option<i64> {
    values::parse_number(word)
}

fn slot(number: i64) -> Option<Slot> {
    u16::try_from(number).ok().and_then(Slot::new)
}

fn not_a_number() -> Reply {
    Reply::error("ERR value is not an integer or out of range")
}

/// As long as Redis's.
pub(crate) fn id(node: NodeId) -> String {
    format!("{:040x}", node.0)
}

/// The slots of a keyspace that each node leads.
pub(super) fn led(blueprint: &Blueprint, keyspace: KeyspaceId) -> BTreeMap<NodeId, SlotSet> {
    let mut led: BTreeMap<NodeId, SlotSet> = BTreeMap::new();
    for bucket in blueprint.buckets_of(keyspace) {
        let Some(government) = bucket.government() else { continue };
        let slots = led.entry(government.primary.node).or_default();
        *slots = slots.union(&bucket.slots);
    }
    led
}

fn info(blueprint: &Blueprint, keyspace: KeyspaceId) -> String {
    let led = led(blueprint, keyspace);
    let assigned: u32 = led.values().map(SlotSet::len).sum();
    let ok = |node: &NodeId| blueprint.is_present(*node);
    let served: u32 = led.iter().filter(|(node, _)| ok(node)).map(|(_, slots)| slots.len()).sum();
    let state = if served == u32::from(Slot::COUNT) { "ok" } else { "fail" };
    let (known, size) = (blueprint.nodes.len(), led.len());
    format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\ncluster_slots_ok:{served}\r\ncluster_slots_pfail:0\r\n\
         cluster_slots_fail:{}\r\ncluster_known_nodes:{known}\r\ncluster_size:{size}\r\ncluster_current_epoch:{epoch}\r\n\
         cluster_my_epoch:{epoch}\r\n",
        assigned - served,
        epoch = blueprint.epoch.0
    )
}

fn nodes(blueprint: &Blueprint, keyspace: KeyspaceId, me: NodeId) -> String {
    let led = led(blueprint, keyspace);
    let mut text = String::new();
    for node in blueprint.nodes.values() {
        let addresses = Addresses::from_blueprint(&node.addresses);
        let (_, bus) = host_and_port(&addresses.peers);
        let present = blueprint.is_present(node.id);
        let flags = match (node.id == me, present) {
            (true, _) => "myself,master",
            (false, true) => "master",
            (false, false) => "master,fail",
        };
        let link = if present { "connected" } else { "disconnected" };
        let ranges = led.get(&node.id).map(ranges).unwrap_or_default();
        let slots: String = ranges
            .iter()
            .map(|(first, last)| match first == last {
                true => format!(" {first}"),
                false => format!(" {first}-{last}"),
            })
            .collect();
        let (id, epoch) = (id(node.id), blueprint.epoch.0);
        text.push_str(&format!("{id} {}@{bus} {flags} - 0 0 {epoch} {link}{slots}\n", addresses.cluster));
    }
    text
}

fn ranges(slots: &SlotSet) -> Vec<(u16, u16)> {
    slots.ranges().map(|(first, last)| (first.0, last.0)).collect()
}

/// Neighbouring ranges with the same members are one.
fn shared_ranges(blueprint: &Blueprint, keyspace: KeyspaceId) -> Vec<(u16, u16, Vec<NodeId>)> {
    let mut all: Vec<(u16, u16, Vec<NodeId>)> = Vec::new();
    for bucket in blueprint.buckets_of(keyspace) {
        let Some(government) = bucket.government() else { continue };
        let mut members: Vec<NodeId> = government.members().map(|m| m.node).collect();
        members.retain(|node| blueprint.is_present(*node) || *node == government.primary.node);
        all.extend(ranges(&bucket.slots).into_iter().map(|(first, last)| (first, last, members.clone())));
    }
    all.sort_unstable_by_key(|(first, ..)| *first);
    let mut merged: Vec<(u16, u16, Vec<NodeId>)> = Vec::new();
    for (first, last, members) in all {
        match merged.last_mut() {
            Some(before) if before.1 + 1 == first && before.2 == members => before.1 = last,
            _ => merged.push((first, last, members)),
        }
    }
    merged
}

fn slots(blueprint: &Blueprint, keyspace: KeyspaceId) -> Reply {
    let node = |node: &NodeId| {
        let address = Addresses::of(blueprint, *node).unwrap_or_default().cluster;
        let (host, port) = host_and_port(&address);
        let host = Reply::Value(Bytes::copy_from_slice(host.as_bytes()));
        Reply::Array(vec![host, Reply::Number(port.into()), Reply::Value(id(*node).into()), Reply::Array(Vec::new())])
    };
    let row = |(first, last, members): (u16, u16, Vec<NodeId>)| {
        let head = [Reply::Number(first.into()), Reply::Number(last.into())];
        Reply::Array(head.into_iter().chain(members.iter().map(node)).collect())
    };
    Reply::Array(shared_ranges(blueprint, keyspace).into_iter().map(row).collect())
}

fn shards(blueprint: &Blueprint, keyspace: KeyspaceId) -> Reply {
    let text = |text: &str| Reply::Value(Bytes::copy_from_slice(text.as_bytes()));
    let node = |(at, node): (usize, &NodeId)| {
        let address = Addresses::of(blueprint, *node).unwrap_or_default().cluster;
        let (host, port) = host_and_port(&address);
        Reply::Map(vec![
            (text("id"), text(&id(*node))),
            (text("port"), Reply::Number(port.into())),
            (text("ip"), text(host)),
            (text("endpoint"), text(host)),
            (text("role"), text(if at == 0 { "master" } else { "replica" })),
            (text("replication-offset"), Reply::Number(0)),
            (text("health"), text(if blueprint.is_present(*node) { "online" } else { "fail" })),
        ])
    };
    let mut by_members: BTreeMap<Vec<NodeId>, Vec<(u16, u16)>> = BTreeMap::new();
    for (first, last, members) in shared_ranges(blueprint, keyspace) {
        by_members.entry(members).or_default().push((first, last));
    }
    let shard = |(members, ranges): (Vec<NodeId>, Vec<(u16, u16)>)| {
        let slots =
            ranges.iter().flat_map(|(first, last)| [Reply::Number((*first).into()), Reply::Number((*last).into())]);
        Reply::Map(vec![
            (text("slots"), Reply::Array(slots.collect())),
            (text("nodes"), Reply::Array(members.iter().enumerate().map(node).collect())),
        ])
    };
    Reply::Array(by_members.into_iter().map(shard).collect())
}
