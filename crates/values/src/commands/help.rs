//! What `CLIENT`, `CONFIG`, `CLUSTER` and `GODWIT` can do here: only what is there.

use bytes::Bytes;

use crate::Reply;
use crate::row::Outcome;

pub(super) fn client(_: &[Bytes]) -> Outcome {
    lines(&[
        "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GETNAME",
        "    The name of this connection.",
        "ID",
        "    The number of this connection.",
        "INFO",
        "    About this connection.",
        "KEYSPACE [<name>]",
        "    Works in another keyspace; or says in which it does: 'default', if nothing was said.",
        "KILL <ip:port>",
        "    Closes the connection from there.",
        "KILL <option> <value> [<option> <value> [...]]",
        "    Closes all connections that fit all options:",
        "    * ADDR <ip:port>",
        "      It comes from there.",
        "    * ID <client-id>",
        "      It has this number.",
        "    * LADDR <ip:port>",
        "      It goes to there.",
        "    * SKIPME (YES|NO)",
        "      Whether this one is left out: yes, if nothing is said.",
        "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
        "      It is of this kind: all are normal.",
        "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)|ID <client-id> [<client-id> ...]]",
        "    Connections, of one kind or with these numbers.",
        "NO-EVICT (ON|OFF)",
        "    Changes nothing: no connection is closed to save memory.",
        "NO-TOUCH (ON|OFF)",
        "    Changes nothing: use is not followed.",
        "REPLY (ON|OFF|SKIP)",
        "    Whether requests are answered, or the next one is.",
        "SETINFO (LIB-NAME|LIB-VER) <value>",
        "    Says which library this is.",
        "SETNAME <name>",
        "    Names this connection.",
        "HELP",
        "    These lines.",
    ])
}

pub(super) fn config(_: &[Bytes]) -> Outcome {
    lines(&[
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern> [<pattern> ...]",
        "    Settings whose names match. They are given when a node starts.",
        "RESETSTAT",
        "    Counts from zero again.",
        "HELP",
        "    These lines.",
    ])
}

pub(super) fn cluster(_: &[Bytes]) -> Outcome {
    lines(&[
        "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CANCELSLOTMIGRATIONS",
        "    Ends what MIGRATESLOTS began on this node: what is done stays, what was begun is taken back.",
        "COUNTKEYSINSLOT <slot>",
        "    How many keys a slot has, wherever it is.",
        "FAILOVER",
        "    This node leads whatever it has a copy of. FORCE and TAKEOVER are refused: who is missed is replaced anyway.",
        "GETKEYSINSLOT <slot> <count>",
        "    Some keys of a slot, wherever it is.",
        "GETSLOTMIGRATIONS",
        "    How far those slot migrations are that go from here or to here.",
        "INFO",
        "    How the cluster is.",
        "KEYSLOT <key>",
        "    The slot of a key.",
        "MIGRATESLOTS SLOTSRANGE <first> <last> [<first> <last> ...] NODE <node-id> [SLOTSRANGE ...]",
        "    Lets these nodes lead slots that this one leads now.",
        "MYID",
        "    The id of this node.",
        "NODES",
        "    All nodes, one in a line:",
        "    <id> <ip:port> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
        "REPLICAS <node-id>",
        "    None: every node is a master, and SLOTS names the replicas of each range.",
        "SHARDS",
        "    Who has which slots, and how they are.",
        "SLOTS",
        "    Who has which slots: first, last, the primary and its secondaries.",
        "HELP",
        "    These lines.",
    ])
}

pub(super) fn godwit(_: &[Bytes]) -> Outcome {
    lines(&[
        "GODWIT <subcommand>: what this node believes. Subcommands are:",
        "EPOCH",
        "    The epoch of its blueprint.",
        "LISTDB",
        "    All keyspaces.",
        "LISTPEER",
        "    Who leads which slots, and who is to get a copy of them:",
        "    <keyspace> <ip:port> <slots>",
        "    migrating <ip:port> <slots>",
        "MYID",
        "    The id of this node.",
        "WHY",
        "    What its replicas wait for, and why. More in a shell: godwit why",
        "HELP",
        "    These lines.",
    ])
}

pub(super) fn lines(lines: &[&'static str]) -> Outcome {
    Ok(Reply::Array(lines.iter().map(|line| Reply::Simple(Bytes::from_static(line.as_bytes()))).collect()))
}
