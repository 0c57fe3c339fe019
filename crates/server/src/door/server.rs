//! Commands about the connection and the node.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use node::Door;
use resp::Protocol;
use values::{Command, Reply};

use super::connection::Replies;
use super::info::{self, REDIS_VERSION};
use super::keyspace::{self, Chosen};
use super::talk::{self, arguments};
use super::{Connection, clients, cluster};
use crate::addresses::Addresses;
use crate::clock;
use crate::lane::Driver;

/// None: it is not answered.
pub(super) fn answer(driver: &Rc<Driver>, connection: &Rc<Connection>, command: &Command) -> Option<Reply> {
    let words = arguments(command);
    Some(match command.name() {
        "ping" => match words {
            [] => Reply::Simple(Bytes::from_static(b"PONG")),
            [text] => Reply::Value(text.clone()),
            _ => Reply::error("ERR wrong number of arguments for 'ping' command"),
        },
        "hello" => hello(connection, words),
        "auth" => Reply::error(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        ),
        "select" => match values::parse_number(&words[0]) {
            Some(0) => Reply::Ok,
            Some(_) => Reply::error("ERR SELECT is not allowed in cluster mode"),
            None => Reply::error("ERR value is not an integer or out of range"),
        },
        "quit" => {
            talk::say(driver, connection, Reply::Ok);
            connection.close_when_answered();
            return None;
        }
        "reset" => {
            connection.protocol.set(Protocol::Resp2);
            connection.name.borrow_mut().clear();
            connection.replies.set(Replies::On);
            connection.keyspace.set(Chosen::Default);
            connection.transaction.take();
            Reply::Simple(Bytes::from_static(b"RESET"))
        }
        "readonly" | "readwrite" if connection.door == Door::Any => {
            Reply::error("ERR This instance has cluster support disabled")
        }
        "readonly" | "readwrite" => Reply::Ok,
        "asking" => Reply::Ok,
        "time" => time(),
        "wait" => wait(driver, connection.keyspace.get(), words),
        "info" => {
            let wanted: Vec<String> = words.iter().map(|w| String::from_utf8_lossy(w).to_lowercase()).collect();
            Reply::Verbatim(info::info(driver, connection.door, &wanted).into())
        }
        "shutdown" => match shutdown(words) {
            Ok(()) => {
                driver.hall.house.shutdown.notify_one();
                return None;
            }
            Err(error) => error,
        },
        "client|id" => Reply::Number(connection.id as i64),
        "client|getname" => match &*connection.name.borrow() {
            name if name.is_empty() => Reply::Nil,
            name => Reply::Value(name.clone()),
        },
        "client|setname" => set_name(connection, &words[0]),
        "client|setinfo" => set_info(connection, &words[0], &words[1]),
        "client|no-evict" | "client|no-touch" => match on_or_off(&words[0]) {
            Some(_) => Reply::Ok,
            None => Reply::error("ERR syntax error"),
        },
        "client|info" => Reply::Verbatim(clients::describe(driver, connection).into()),
        "client|reply" => match words[0].to_ascii_uppercase().as_slice() {
            b"ON" => {
                connection.replies.set(Replies::On);
                Reply::Ok
            }
            b"OFF" => {
                connection.replies.set(Replies::Off);
                return None;
            }
            b"SKIP" => {
                if connection.replies.get() != Replies::Off {
                    connection.replies.set(Replies::SkipNext);
                }
                return None;
            }
            _ => Reply::error("ERR syntax error"),
        },
        "client|keyspace" => keyspace(driver, connection, words),
        "config|get" => config_get(driver, connection.door, words),
        "config|set" | "config|rewrite" => Reply::error(
            "ERR settings are given when a node starts: flags, environment or its file. See 'godwit serve --help'",
        ),
        "config|resetstat" => {
            driver.hall.house.commands.store(0, Ordering::Relaxed);
            driver.hall.house.connections.store(0, Ordering::Relaxed);
            Reply::Ok
        }
        _ => talk::unknown(command),
    })
}

fn keyspace(driver: &Driver, connection: &Connection, words: &[Bytes]) -> Reply {
    let lane = driver.lane.borrow();
    match words {
        [] => connection.keyspace.get().say(lane.blueprint()),
        [name] => match Chosen::named(name, lane.blueprint()) {
            Ok(chosen) => {
                connection.keyspace.set(chosen);
                Reply::Ok
            }
            Err(error) => error,
        },
        _ => Reply::error("ERR wrong number of arguments for 'client|keyspace' command"),
    }
}

fn hello(connection: &Connection, words: &[Bytes]) -> Reply {
    if let Some(version) = words.first() {
        let Some(version) = values::parse_number(version) else {
            return Reply::error("ERR Protocol version is not an integer or out of range");
        };
        let protocol = match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Reply::error("NOPROTO unsupported protocol version"),
        };
        let mut at = 1;
        while let Some(option) = words.get(at) {
            match (option.to_ascii_uppercase().as_slice(), words.get(at + 1), words.get(at + 2)) {
                (b"AUTH", Some(_), Some(_)) => {
                    return Reply::error("WRONGPASS there are no users yet: connect without AUTH");
                }
                (b"SETNAME", Some(name), _) => {
                    if let error @ Reply::Error(_) = set_name(connection, name) {
                        return error;
                    }
                    at += 2;
                }
                _ => {
                    let option = String::from_utf8_lossy(option);
                    return Reply::error_with(format!("ERR Syntax error in HELLO option '{option}'"));
                }
            }
        }
        connection.protocol.set(protocol);
    }
    let text = |text: &str| Reply::Value(Bytes::copy_from_slice(text.as_bytes()));
    let number = if connection.protocol.get() == Protocol::Resp3 { 3 } else { 2 };
    Reply::Map(vec![
        (text("server"), text("redis")),
        (text("version"), text(REDIS_VERSION)),
        (text("proto"), Reply::Number(number)),
        (text("id"), Reply::Number(connection.id as i64)),
        (text("mode"), text(if connection.door == Door::Cluster { "cluster" } else { "standalone" })),
        (text("role"), text("master")),
        (text("modules"), Reply::Array(Vec::new())),
    ])
}

fn set_name(connection: &Connection, name: &Bytes) -> Reply {
    if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        return Reply::error("ERR Client names cannot contain spaces, newlines or special characters.");
    }
    // A copy: the words are part of all that was read with them.
    *connection.name.borrow_mut() = Bytes::copy_from_slice(name);
    Reply::Ok
}

fn set_info(connection: &Connection, what: &Bytes, value: &Bytes) -> Reply {
    if value.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        let what = String::from_utf8_lossy(what);
        return Reply::error_with(format!("ERR {what} cannot contain spaces, newlines or special characters."));
    }
    match what.to_ascii_uppercase().as_slice() {
        b"LIB-NAME" => connection.library.borrow_mut().0 = Bytes::copy_from_slice(value),
        b"LIB-VER" => connection.library.borrow_mut().1 = Bytes::copy_from_slice(value),
        _ => {
            let what = String::from_utf8_lossy(what);
            return Reply::error_with(format!("ERR Unrecognized option '{what}'"));
        }
    }
    Reply::Ok
}

/// How careful and how patient it should be is not for a client to say: everything is written, and handed over, anyway.
fn shutdown(words: &[Bytes]) -> Result<(), Reply> {
    let is = |word: &Bytes, name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let has = |name: &str| words.iter().any(|word| is(word, name));
    match words {
        [abort] if is(abort, "ABORT") => Err(Reply::error("ERR No shutdown in progress.")),
        _ if has("SAVE") && has("NOSAVE") => Err(Reply::error("ERR syntax error")),
        _ if words.iter().all(|word| ["SAVE", "NOSAVE", "NOW", "FORCE"].iter().any(|name| is(word, name))) => Ok(()),
        _ => Err(Reply::error("ERR syntax error")),
    }
}

fn on_or_off(word: &[u8]) -> Option<bool> {
    match word.to_ascii_uppercase().as_slice() {
        b"ON" => Some(true),
        b"OFF" => Some(false),
        _ => None,
    }
}

fn time() -> Reply {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Reply::values([now.as_secs().to_string().into(), now.subsec_micros().to_string().into()])
}

/// Every answered write is on all members already, so there is nothing to wait for.
fn wait(driver: &Driver, keyspace: Chosen, words: &[Bytes]) -> Reply {
    match (values::parse_number(&words[0]), values::parse_number(&words[1])) {
        (None, _) => return Reply::error("ERR value is not an integer or out of range"),
        (_, None) => return Reply::error("ERR timeout is not an integer or out of range"),
        (_, Some(..0)) => return Reply::error("ERR timeout is negative"),
        (Some(_), Some(0..)) => {}
    }
    let lane = driver.lane.borrow();
    let keyspace = match keyspace.among(lane.blueprint()) {
        Ok(keyspace) => keyspace,
        Err(error) => return error,
    };
    let governments = lane.blueprint().buckets_of(keyspace).filter_map(|bucket| bucket.government());
    let fewest = governments.map(|g| g.secondaries.len()).min().unwrap_or(0);
    Reply::count(fewest)
}

/// What clients ask for when they start.
fn config_get(driver: &Driver, door: Door, patterns: &[Bytes]) -> Reply {
    let most_clients = driver.hall.house.most_clients.to_string();
    let settings = [
        ("save", ""),
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("databases", "1"),
        ("timeout", "0"),
        ("tcp-keepalive", "300"),
        ("cluster-enabled", if door == Door::Cluster { "yes" } else { "no" }),
        ("cluster-require-full-coverage", "no"),
        ("proto-max-bulk-len", "536870912"),
        ("maxclients", &most_clients),
    ];
    let text = |text: &str| Reply::Value(Bytes::copy_from_slice(text.as_bytes()));
    let wanted =
        |name: &str| patterns.iter().any(|pattern| values::matches(&pattern.to_ascii_lowercase(), name.as_bytes()));
    let found = settings.into_iter().filter(|(name, _)| wanted(name));
    Reply::Map(found.map(|(name, value)| (text(name), text(value))).collect())
}

/// What this node believes, for whoever debugs with redis-cli (seed 004).
pub(super) fn godwit(driver: &Rc<Driver>, connection: &Rc<Connection>, command: &Command) {
    let lane = driver.lane.borrow();
    let blueprint = lane.blueprint();
    let text = |text: String| Reply::Value(text.into());
    let reply = match command.name() {
        "godwit|epoch" => Reply::Number(blueprint.epoch.0 as i64),
        "godwit|listdb" => Reply::Array(keyspace::all(blueprint).map(|name| text(name.to_owned())).collect()),
        "godwit|listpeer" => {
            let mut rows = Vec::new();
            for bucket in blueprint.buckets.values() {
                let (Some(government), Some(keyspace)) =
                    (bucket.government(), blueprint.keyspaces.get(&bucket.keyspace))
                else {
                    continue;
                };
                let ranges = &bucket.slots;
                let address = |node| Addresses::of(blueprint, node).map(|a| a.cluster).unwrap_or_default();
                rows.push(text(format!("{} {} {ranges}", keyspace.name, address(government.primary.node))));
                rows.extend(
                    government.candidates.iter().map(|c| text(format!("migrating {} {ranges}", address(c.node)))),
                );
            }
            Reply::Array(rows)
        }
        "godwit|why" => {
            let now = clock::now();
            Reply::Array(lane.why(now).into_iter().map(text).collect())
        }
        "godwit|myid" => text(cluster::id(driver.me)),
        _ => talk::unknown(command),
    };
    drop(lane);
    talk::say(driver, connection, reply);
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn a_name_holds_on_to_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (connection, _reader) = Connection::new(1, stream, Door::Any);
        let read = Bytes::from(b"first and much more".to_vec());
        assert_eq!(set_name(&connection, &read.slice(..5)), Reply::Ok);
        for what in [&b"LIB-NAME"[..], b"LIB-VER"] {
            assert_eq!(set_info(&connection, &Bytes::from_static(what), &read.slice(..5)), Reply::Ok);
        }
        assert_eq!(*connection.name.borrow(), "first");
        assert!(read.is_unique(), "what was read can be given back");
    }
}
