//! What can be asked of a cluster, in words: the same on the command line, over HTTP, and in the blueprint, which keeps them.

use blueprint::{Blueprint, BucketId, KeyspaceId, NodeId, Slot, SlotSet};
use planner::Wish;

/// Each kind with its words, and what comes of it.
pub const KINDS: &[(&str, &str)] = &[
    ("add-node NODE", "a node that joined takes its share"),
    ("remove-node NODE", "others take what it holds"),
    ("replace-node OLD NEW", "NEW takes what OLD holds, and leads what it led"),
    ("drain NODE", "others lead what it leads; it keeps its copies, and is given nothing until it is undrained"),
    ("undrain NODE", "it can be given copies and can lead again; 'rebalance' gives it some"),
    ("swap-primary BUCKET NODE", "NODE, which has a copy, leads"),
    ("move-replica BUCKET FROM TO", "TO takes the part that FROM has"),
    ("migrate-slots SLOTS NODE [KEYSPACE]", "NODE leads these slots, such as 0-1000,5000; they are split off first"),
    ("take-lead NODE [KEYSPACE]", "NODE leads all that it has a copy of"),
    ("rolling-restart [NODE …]", "one after the other is started anew, by you, when others lead what it leads"),
    ("split-bucket BUCKET [SLOTS]", "a new bucket gets these slots, or else the upper half"),
    ("merge-buckets BUCKET INTO", "INTO takes over all that BUCKET has; the two were split from each other"),
    ("double-buckets [KEYSPACE]", "each bucket is split in half"),
    ("rebalance [KEYSPACE]", "everyone holds and leads as much as everyone else"),
    ("set-replicas KEYSPACE COPIES", "each of its buckets gets so many copies"),
    ("remove-keyspace KEYSPACE", "it is gone for good, with all that is in it"),
];

pub(super) fn parse(text: &str, blueprint: &Blueprint) -> Result<Wish, String> {
    let node = |name: &str| node(blueprint, name);
    let keyspace = |name: &str| keyspace(blueprint, name);
    let words: Vec<&str> = text.split_whitespace().collect();
    Ok(match words[..] {
        ["add-node", name] => Wish::AddNode { node: node(name)? },
        ["remove-node", name] => Wish::RemoveNode { node: node(name)? },
        ["replace-node", old, new] => Wish::ReplaceNode { old: node(old)?, new: node(new)? },
        ["drain", name] => Wish::Drain { node: node(name)? },
        ["undrain", name] => Wish::Undrain { node: node(name)? },
        ["swap-primary", id, name] => Wish::SwapPrimary { bucket: bucket(id)?, node: node(name)? },
        ["move-replica", id, from, to] => Wish::MoveReplica { bucket: bucket(id)?, from: node(from)?, to: node(to)? },
        ["migrate-slots", ranges, to] => {
            Wish::MigrateSlots { keyspace: keyspace("default")?, slots: slots(ranges)?, to: node(to)? }
        }
        ["migrate-slots", ranges, to, name] => {
            Wish::MigrateSlots { keyspace: keyspace(name)?, slots: slots(ranges)?, to: node(to)? }
        }
        // More slots with another node, and so on, and in the end the keyspace.
        ["migrate-slots", ref pairs @ .., name] if pairs.len() >= 4 && pairs.len().is_multiple_of(2) => {
            let one = |pair: &[&str]| Ok::<_, String>((slots(pair[0])?, node(pair[1])?));
            let moves = pairs.chunks(2).map(one).collect::<Result<_, _>>()?;
            Wish::MigrateEach { keyspace: keyspace(name)?, moves }
        }
        ["take-lead", name] => Wish::TakeLead { node: node(name)?, keyspace: keyspace("default")? },
        ["take-lead", name, of] => Wish::TakeLead { node: node(name)?, keyspace: keyspace(of)? },
        ["rolling-restart", ref names @ ..] => {
            Wish::RollingRestart { nodes: names.iter().map(|name| node(name)).collect::<Result<_, _>>()? }
        }
        ["split-bucket", id] => Wish::SplitBucket { bucket: bucket(id)?, slots: None },
        ["split-bucket", id, ranges] => Wish::SplitBucket { bucket: bucket(id)?, slots: Some(slots(ranges)?) },
        ["merge-buckets", id, into] => Wish::MergeBuckets { bucket: bucket(id)?, into: bucket(into)? },
        ["double-buckets"] => Wish::DoubleBuckets { keyspace: keyspace("default")? },
        ["double-buckets", name] => Wish::DoubleBuckets { keyspace: keyspace(name)? },
        ["rebalance"] => Wish::Rebalance { keyspace: None },
        ["rebalance", name] => Wish::Rebalance { keyspace: Some(keyspace(name)?) },
        ["set-replicas", name, number] => {
            let wrong = |_| format!("'{number}' is no number of copies: from 1 to 255");
            Wish::SetReplicas { keyspace: keyspace(name)?, replicas: number.parse().map_err(wrong)? }
        }
        ["remove-keyspace", name] => Wish::RemoveKeyspace { keyspace: keyspace(name)? },
        _ => return Err(not_understood(&words)),
    })
}

fn not_understood(words: &[&str]) -> String {
    let of_kind = |usage: &&(&str, &str)| words.first() == usage.0.split(' ').next().as_ref();
    match KINDS.iter().find(of_kind) {
        Some((usage, what)) => format!("that is written: {usage} ({what})"),
        None => {
            let all: Vec<String> = KINDS.iter().map(|(usage, what)| format!("\n  {usage:<38}{what}")).collect();
            format!("'{}' is nothing that can be planned; these can:{}", words.join(" "), all.concat())
        }
    }
}

fn node(blueprint: &Blueprint, name: &str) -> Result<NodeId, String> {
    let by_id = || name.strip_prefix('n')?.parse().ok().map(NodeId).filter(|id| blueprint.nodes.contains_key(id));
    // Of those that have departed, the one that bore the name last.
    let departed = || blueprint.nodes.values().rev().find(|node| node.name == name).map(|node| node.id);
    let found = blueprint.node_named(name).map(|node| node.id).or_else(departed).or_else(by_id);
    found.ok_or_else(|| {
        let mut names: Vec<&str> = blueprint.nodes.values().map(|node| node.name.as_str()).collect();
        names.sort_unstable();
        format!("there is no node '{name}'; there are {}", names.join(", "))
    })
}

fn keyspace(blueprint: &Blueprint, name: &str) -> Result<KeyspaceId, String> {
    blueprint.keyspace_named(name).map(|keyspace| keyspace.id).ok_or_else(|| {
        let there = blueprint.keyspaces.values().filter(|keyspace| !blueprint.is_removed(keyspace.id));
        let names: Vec<&str> = there.map(|keyspace| keyspace.name.as_str()).collect();
        format!("there is no keyspace '{name}'; there are: {}", names.join(", "))
    })
}

fn bucket(id: &str) -> Result<BucketId, String> {
    let number = id.strip_prefix('b').unwrap_or(id).parse();
    number
        .map(BucketId)
        .map_err(|_| format!("'{id}' is no bucket: they are called b1, b2, … ('godwit status --buckets')"))
}

pub(super) fn slots(text: &str) -> Result<SlotSet, String> {
    let wrong = || format!("'{text}' are no slots: from 0 to {}, such as 0-1000,5000", Slot::COUNT - 1);
    let mut all = SlotSet::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else { return Err(wrong()) };
        if first > last || last >= Slot::COUNT {
            return Err(wrong());
        }
        all = all.union(&SlotSet::range(Slot(first), Slot(last)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_as_people_write_them() {
        assert_eq!(slots("0-3,7").unwrap().to_string(), "0-3,7");
        assert_eq!(slots("5,0-9").unwrap().to_string(), "0-9");
        for wrong in ["", "x", "3-1", "0-16384", "1,,2", "-1"] {
            assert!(slots(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_writes_it_wrong_is_told_how() {
        let blueprint = Blueprint::new();
        assert_eq!(
            parse("replace-node node-1", &blueprint).unwrap_err(),
            "that is written: replace-node OLD NEW (NEW takes what OLD holds, and leads what it led)"
        );
        assert!(parse("explode", &blueprint).unwrap_err().contains("\n  rebalance [KEYSPACE]"));
        assert!(parse("drain node-1", &blueprint).unwrap_err().starts_with("there is no node 'node-1'"));
        assert!(parse("split-bucket x", &blueprint).unwrap_err().starts_with("'x' is no bucket"));
    }
}
