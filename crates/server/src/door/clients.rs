//! `CLIENT LIST` and `CLIENT KILL`: about connections of all lanes, each of which knows its own.

use std::rc::Rc;

use bytes::Bytes;
use resp::Protocol;
use values::{Command, Reply};

use super::Connection;
use super::talk::arguments;
use crate::clock;
use crate::lane::Driver;

pub(super) async fn list(driver: &Driver, command: &Command) -> Reply {
    let filter = match Filter::of_list(arguments(command)) {
        Ok(filter) => filter,
        Err(error) => return error,
    };
    let lines = of_all_lanes(driver, filter, |driver, connection| Some(describe(driver, connection))).await;
    Reply::Verbatim(lines.concat().into())
}

pub(super) async fn kill(driver: &Driver, command: &Command, me: u64) -> Reply {
    let words = arguments(command);
    let (filter, is_old_form) = match words {
        [address] => (Filter { address: Some(address.clone()), ..Filter::default() }, true),
        _ => match Filter::of_kill(words, me) {
            Ok(filter) => (filter, false),
            Err(error) => return error,
        },
    };
    let killed = of_all_lanes(driver, filter, move |_, connection| {
        // Whoever kills itself is told so first.
        if connection.id == me {
            connection.close_when_answered();
        } else {
            connection.close();
        }
        Some(())
    });
    match (is_old_form, killed.await.len()) {
        (true, 0) => Reply::error("ERR No such client"),
        (true, _) => Reply::Ok,
        (false, killed) => Reply::count(killed),
    }
}

/// Asks one lane after the other.
async fn of_all_lanes<T: Send + 'static>(
    driver: &Driver,
    filter: Filter,
    look: impl Fn(&Driver, &Connection) -> Option<T> + Clone + Send + 'static,
) -> Vec<T> {
    let mut found = Vec::new();
    for lane in 0..driver.post.lanes() {
        let (filter, look) = (filter.clone(), look.clone());
        let of_lane = move |driver: &Driver| -> Vec<T> {
            let all: Vec<Rc<Connection>> = driver.hall.connections.borrow().values().cloned().collect();
            all.iter()
                .filter(|connection| filter.takes(connection))
                .filter_map(|connection| look(driver, connection))
                .collect()
        };
        found.extend(driver.post.ask_lane(lane, of_lane).await.unwrap_or_default());
    }
    found
}

/// Which connections are meant.
#[derive(Clone, Debug, Default)]
struct Filter {
    ids: Vec<i64>,
    address: Option<Bytes>,
    local: Option<Bytes>,
    /// Of a kind of which there are none here.
    none: bool,
    but: Option<u64>,
}

impl Filter {
    fn of_list(words: &[Bytes]) -> Result<Self, Reply> {
        let mut filter = Self::default();
        match words {
            [] => {}
            [option, kind] if option.eq_ignore_ascii_case(b"TYPE") => filter.take_type(kind)?,
            [option, ids @ ..] if option.eq_ignore_ascii_case(b"ID") && !ids.is_empty() => {
                let number =
                    |word: &Bytes| values::parse_number(word).ok_or_else(|| Reply::error("ERR Invalid client ID"));
                filter.ids = ids.iter().map(number).collect::<Result<_, _>>()?;
            }
            _ => return Err(Reply::error("ERR syntax error")),
        }
        Ok(filter)
    }

    fn of_kill(words: &[Bytes], me: u64) -> Result<Self, Reply> {
        let mut filter = Self { but: Some(me), ..Self::default() };
        for pair in words.chunks(2) {
            let [option, value] = pair else { return Err(Reply::error("ERR syntax error")) };
            match option.to_ascii_uppercase().as_slice() {
                b"ID" => filter.ids = vec![id(value)?],
                b"ADDR" => filter.address = Some(value.clone()),
                b"LADDR" => filter.local = Some(value.clone()),
                b"TYPE" => filter.take_type(value)?,
                b"SKIPME" if value.eq_ignore_ascii_case(b"yes") => filter.but = Some(me),
                b"SKIPME" if value.eq_ignore_ascii_case(b"no") => filter.but = None,
                _ => return Err(Reply::error("ERR syntax error")),
            }
        }
        Ok(filter)
    }

    fn take_type(&mut self, kind: &Bytes) -> Result<(), Reply> {
        match kind.to_ascii_lowercase().as_slice() {
            b"normal" => {}
            b"master" | b"replica" | b"slave" | b"pubsub" => self.none = true,
            _ => {
                let kind = String::from_utf8_lossy(kind);
                return Err(Reply::error_with(format!("ERR Unknown client type '{kind}'")));
            }
        }
        Ok(())
    }

    fn takes(&self, connection: &Connection) -> bool {
        let is = |wanted: &Option<Bytes>, address: Option<std::net::SocketAddr>| {
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            wanted.as_ref().is_none_or(|wanted| *wanted == address.as_bytes())
        };
        let is_one = self.ids.is_empty() || self.ids.contains(&(connection.id as i64));
        let is_left_out = self.none || self.but == Some(connection.id);
        !is_left_out && is_one && is(&self.address, connection.peer) && is(&self.local, connection.local)
    }
}

fn id(word: &Bytes) -> Result<i64, Reply> {
    let number = values::parse_number(word).filter(|number| *number > 0);
    number.ok_or_else(|| Reply::error("ERR client-id should be greater than 0"))
}

pub(super) fn describe(driver: &Driver, connection: &Connection) -> String {
    let address = |address: Option<std::net::SocketAddr>| address.map(|a| a.to_string()).unwrap_or_default();
    let (last, at) = connection.last.get();
    let library = connection.library.borrow();
    format!(
        "id={} addr={} laddr={} name={} age={} idle={} flags=N db=0 cmd={} resp={} lib-name={} lib-ver={} keyspace={}\n",
        connection.id,
        address(connection.peer),
        address(connection.local),
        String::from_utf8_lossy(&connection.name.borrow()),
        connection.since.elapsed().as_secs(),
        clock::now().since(at).as_secs(),
        last,
        if connection.protocol.get() == Protocol::Resp3 { 3 } else { 2 },
        String::from_utf8_lossy(&library.0),
        String::from_utf8_lossy(&library.1),
        connection.keyspace.get().name(driver.lane.borrow().blueprint()).unwrap_or_default(),
    )
}
