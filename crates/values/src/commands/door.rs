//! What the front door does itself: it is about the connection, the node, the cluster, or more slots than one. The rows are here so
//! that there is one list of all commands. What needs nothing but its words is answered here too.

use bytes::Bytes;

use super::{SERIES, about, help, rows};
use crate::row::Group::{Cluster, Connection, Generic, Server};
use crate::row::Handler::{Door, Plain};
use crate::row::flag::{
    ADMIN, ALLOW_BUSY, CONNECTION, CONTAINER, DANGEROUS, FAST, KEYSPACE, LOADING, MOVABLEKEYS, NO_AUTH, NO_MULTI,
    NOSCRIPT, READONLY, STALE, WRITE,
};
use crate::row::{Outcome, Positions, Row};
use crate::{Reply, slot_of};

const NONE: Positions = Positions::None;
const ALWAYS: u32 = LOADING | STALE;
const OWN: u32 = NOSCRIPT | ALWAYS;
const RULES: u32 = ADMIN | OWN;
const GREETS: u32 = OWN | FAST | NO_AUTH | ALLOW_BUSY | CONNECTION;

pub(crate) const ROWS: &[Row] = rows! {
    (SERIES, "series", -4, WRITE | MOVABLEKEYS, NONE, Generic, "0.1.0", Door, "Executes a command at most once."),
    (256, "ping", -1, FAST | CONNECTION, NONE, Connection, "1.0.0", Door, "Answers."),
    (257, "echo", 2, ALWAYS | FAST | CONNECTION, NONE, Connection, "1.0.0", Plain(echo), "Says the same again."),
    (258, "hello", -1, GREETS, NONE, Connection, "6.0.0", Door, "Chooses the protocol, and who one is."),
    (259, "auth", -2, GREETS, NONE, Connection, "1.0.0", Door, "Says who one is."),
    (260, "client", -2, CONTAINER, NONE, Connection, "2.4.0", Door, "About connections."),
    (261, "client|getname", 2, OWN | CONNECTION, NONE, Connection, "2.6.9", Door, "The name of this connection."),
    (262, "client|help", 2, ALWAYS | CONNECTION, NONE, Connection, "5.0.0", Plain(help::client), "What CLIENT can do."),
    (263, "client|id", 2, OWN | CONNECTION, NONE, Connection, "5.0.0", Door, "The number of this connection."),
    (264, "client|info", 2, OWN | CONNECTION, NONE, Connection, "6.2.0", Door, "About this connection."),
    (265, "client|kill", -3, RULES | CONNECTION, NONE, Connection, "2.4.0", Door, "Closes connections."),
    (266, "client|list", -2, RULES | CONNECTION, NONE, Connection, "2.4.0", Door, "All connections."),
    (267, "client|pause", -3, RULES | CONNECTION, NONE, Connection, "2.9.50", Door, "Lets clients wait."),
    (268, "client|reply", 3, OWN | CONNECTION, NONE, Connection, "3.2.0", Door, "Whether to answer at all."),
    (269, "client|setname", 3, OWN | CONNECTION, NONE, Connection, "2.6.9", Door, "Names this connection."),
    (270, "client|unblock", -3, RULES | CONNECTION, NONE, Connection, "5.0.0", Door, "Wakes a client that waits."),
    (271, "client|unpause", 2, RULES | CONNECTION, NONE, Connection, "6.2.0", Door, "Lets clients go on."),
    (272, "command", -1, ALWAYS | CONNECTION | CONTAINER, NONE, Server, "2.8.13", Plain(about::all), "All commands."),
    (273, "command|count", 2, ALWAYS | CONNECTION, NONE, Server, "2.8.13", Plain(about::count), "How many commands there are."),
    (274, "command|docs", -2, ALWAYS | CONNECTION, NONE, Server, "7.0.0", Plain(about::docs), "What commands do."),
    (275, "command|getkeys", -4, ALWAYS | CONNECTION, NONE, Server, "2.8.13", Plain(about::getkeys), "The keys among some words."),
    (276, "command|help", 2, ALWAYS | CONNECTION, NONE, Server, "5.0.0", Plain(about::help), "What COMMAND can say."),
    (277, "command|info", -2, ALWAYS | CONNECTION, NONE, Server, "2.8.13", Plain(about::info), "About some commands."),
    (278, "command|list", -2, ALWAYS | CONNECTION, NONE, Server, "7.0.0", Plain(about::list), "The names of commands."),
    (279, "info", -1, ALWAYS | DANGEROUS, NONE, Server, "1.0.0", Door, "About this node, in text."),
    (280, "config", -2, CONTAINER, NONE, Server, "2.0.0", Door, "About settings."),
    (281, "config|get", -3, RULES, NONE, Server, "2.0.0", Door, "Settings."),
    (282, "config|help", 2, ALWAYS, NONE, Server, "5.0.0", Plain(help::config), "What CONFIG can do."),
    (283, "config|resetstat", 2, RULES, NONE, Server, "2.0.0", Door, "Counts from zero again."),
    (284, "config|rewrite", 2, RULES, NONE, Server, "2.8.0", Door, "Writes settings down."),
    (285, "config|set", -4, RULES, NONE, Server, "2.0.0", Door, "Changes settings."),
    (286, "cluster", -2, CONTAINER, NONE, Cluster, "3.0.0", Door, "About the cluster."),
    (287, "cluster|slots", 2, STALE, NONE, Cluster, "3.0.0", Door, "Who has which slots."),
    (288, "cluster|shards", 2, STALE, NONE, Cluster, "7.0.0", Door, "Who has which slots, and how they are."),
    (289, "cluster|nodes", 2, STALE, NONE, Cluster, "3.0.0", Door, "All nodes, in text."),
    (290, "cluster|keyslot", 3, STALE, NONE, Cluster, "3.0.0", Plain(keyslot), "The slot of a key."),
    (291, "cluster|myid", 2, STALE, NONE, Cluster, "3.0.0", Door, "The id of this node."),
    (292, "cluster|info", 2, STALE, NONE, Cluster, "3.0.0", Door, "How the cluster is, in text."),
    (293, "cluster|countkeysinslot", 3, STALE, NONE, Cluster, "3.0.0", Door, "How many keys a slot has."),
    (294, "cluster|getkeysinslot", 4, STALE, NONE, Cluster, "3.0.0", Door, "Some keys of a slot."),
    (295, "cluster|help", 2, ALWAYS, NONE, Cluster, "5.0.0", Plain(help::cluster), "What CLUSTER can say."),
    (296, "cluster|replicas", 3, ADMIN | STALE, NONE, Cluster, "5.0.0", Door, "The secondaries of a node."),
    (297, "readonly", 1, ALWAYS | FAST | CONNECTION, NONE, Cluster, "3.0.0", Door, "Lets this connection read from secondaries."),
    (298, "readwrite", 1, ALWAYS | FAST | CONNECTION, NONE, Cluster, "3.0.0", Door, "Undoes READONLY."),
    (299, "asking", 1, FAST | CONNECTION, NONE, Cluster, "3.0.0", Door, "Announces a request that was sent here."),
    (300, "wait", 3, NOSCRIPT | CONNECTION, NONE, Generic, "3.0.0", Door, "Waits for copies."),
    (301, "time", 1, ALWAYS | FAST, NONE, Server, "2.6.0", Door, "The time."),
    (302, "shutdown", -1, RULES | NO_MULTI | ALLOW_BUSY, NONE, Server, "1.0.0", Door, "Stops this node."),
    (303, "select", 2, ALWAYS | FAST | CONNECTION, NONE, Connection, "1.0.0", Door, "Chooses a database: there is 0."),
    (304, "quit", -1, GREETS, NONE, Connection, "1.0.0", Door, "Closes this connection."),
    (305, "reset", 1, GREETS, NONE, Connection, "6.2.0", Door, "Makes this connection like new."),
    (306, "scan", -2, READONLY | KEYSPACE, NONE, Generic, "2.8.0", Door, "Some keys, and where to go on."),
    (307, "dbsize", 1, READONLY | FAST | KEYSPACE, NONE, Server, "1.0.0", Door, "How many keys there are."),
    (308, "keys", 2, READONLY | KEYSPACE | DANGEROUS, NONE, Generic, "1.0.0", Door, "All keys that match."),
    (309, "flushall", -1, WRITE | KEYSPACE | DANGEROUS, NONE, Server, "1.0.0", Door, "Removes all keys."),
    (310, "flushdb", -1, WRITE | KEYSPACE | DANGEROUS, NONE, Server, "1.0.0", Door, "Removes all keys."),
    (311, "randomkey", 1, READONLY | KEYSPACE, NONE, Generic, "1.0.0", Door, "One key, by chance."),
    (312, "client|keyspace", -2, OWN | CONNECTION, NONE, Connection, "0.1.0", Door, "Works in another keyspace."),
    (313, "client|setinfo", 4, OWN | CONNECTION, NONE, Connection, "7.2.0", Door, "Says which library this is."),
    (314, "client|no-evict", 3, RULES | CONNECTION, NONE, Connection, "7.0.0", Door, "Whether it may be closed to save memory."),
    (315, "client|no-touch", 3, OWN | CONNECTION, NONE, Connection, "7.2.0", Door, "Whether its reads count as use."),
    (316, "godwit", -2, CONTAINER, NONE, Server, "0.1.0", Door, "What this node believes."),
    (317, "godwit|epoch", 2, RULES, NONE, Server, "0.1.0", Door, "The epoch of its blueprint."),
    (318, "godwit|listdb", 2, RULES, NONE, Server, "0.1.0", Door, "All keyspaces."),
    (319, "godwit|listpeer", 2, RULES, NONE, Server, "0.1.0", Door, "Who leads which slots, and who gets them."),
    (320, "godwit|myid", 2, RULES, NONE, Server, "0.1.0", Door, "The id of this node."),
    (321, "godwit|why", 2, RULES, NONE, Server, "0.1.0", Door, "What it waits for, and why."),
    (323, "cluster|failover", -2, RULES, NONE, Cluster, "3.0.0", Door, "Leads what it has a copy of."),
    (324, "cluster|migrateslots", -4, RULES, NONE, Cluster, "9.0.0", Door, "Lets other nodes lead slots."),
    (325, "cluster|getslotmigrations", 2, RULES, NONE, Cluster, "9.0.0", Door, "How far MIGRATESLOTS got."),
    (326, "cluster|cancelslotmigrations", 2, RULES, NONE, Cluster, "9.0.0", Door, "Ends what MIGRATESLOTS began."),
    (322, "godwit|help", 2, ALWAYS, NONE, Server, "0.1.0", Plain(help::godwit), "What GODWIT can say."),
};

fn echo(words: &[Bytes]) -> Outcome {
    Ok(Reply::Value(words[1].clone()))
}

fn keyslot(words: &[Bytes]) -> Outcome {
    Ok(Reply::Number(slot_of(&words[2]).0.into()))
}
