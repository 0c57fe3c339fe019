//! What concerns more slots than one: put together of what each slot answers. Each part is as good as one command; the whole is not
//! one moment.

use std::rc::Rc;

use blueprint::{Slot, SlotSet};
use bytes::Bytes;
use node::Door;
use tokio::task::spawn_local;
use values::{Command, Cursor, Reply, Scan, Spread, failed_write};

use super::keyspace::Chosen;
use super::order::Concern;
use super::{Connection, clients, cluster, migrations, talk};
use crate::clock;
use crate::lane::Driver;

/// Slots asked at the same time by one client.
const AT_ONCE: usize = 256;
/// Empty slots that one `SCAN` passes over before it answers with nothing.
const MOST_SLOTS: usize = 2048;

pub(super) fn is_wide(name: &str) -> bool {
    let of_slots = matches!(name, "scan" | "dbsize" | "keys" | "flushall" | "flushdb" | "randomkey");
    of_slots || matches!(name, "client|list" | "client|kill" | "cluster|getkeysinslot") || migrations::is_one(name)
}

/// A command about keys of several slots.
pub(super) fn spread(driver: &Driver, connection: &Rc<Connection>, place: u64, keyspace: Chosen, spread: Spread) {
    answer_later(driver, connection, place, async move |driver| {
        let replies = Within { driver, keyspace }.ask_all(spread.parts().to_vec()).await;
        spread.join(&replies)
    });
}

pub(super) fn ask(driver: &Driver, connection: &Rc<Connection>, place: u64, keyspace: Chosen, command: Command) {
    let (me, door) = (connection.id, connection.door);
    answer_later(driver, connection, place, async move |driver| match command.name() {
        "client|list" => clients::list(&driver, &command).await,
        "client|kill" => clients::kill(&driver, &command, me).await,
        name if migrations::is_one(name) => migrations::answer(&driver, keyspace, &command).await,
        _ => {
            let within = Within { driver, keyspace };
            within.answer(door, command).await.unwrap_or_else(|error| error)
        }
    });
}

/// Whom to ask, and about what.
struct Within {
    driver: Rc<Driver>,
    keyspace: Chosen,
}

impl Within {
    async fn answer(&self, door: Door, command: Command) -> Result<Reply, Reply> {
        let slots = self.slots(door)?;
        Ok(match command.name() {
            "scan" => scan(self, &slots, &command).await,
            "dbsize" => dbsize(self, &slots).await,
            "keys" => keys(self, &slots, &command.words()[1]).await,
            "flushall" | "flushdb" => flush(self, &slots, &command).await,
            "randomkey" => random_key(self, &slots).await,
            "cluster|getkeysinslot" => {
                let (slot, count) = cluster::keys_asked(&command)?;
                keys_in_slot(self, slot, count).await
            }
            _ => self.ask(command).await,
        })
    }

    /// Which are meant by "all". Clients of Redis Cluster ask every node and put the answers together.
    fn slots(&self, door: Door) -> Result<SlotSet, Reply> {
        let lane = self.driver.lane.borrow();
        let keyspace = self.keyspace.among(lane.blueprint())?;
        Ok(match door {
            Door::Any => SlotSet::all(),
            Door::Cluster => cluster::led(lane.blueprint(), keyspace).remove(&self.driver.me).unwrap_or_default(),
        })
    }

    async fn ask(&self, command: Command) -> Reply {
        self.driver.hall.ask_for(&self.driver, self.keyspace, command).await
    }

    /// All of them, some at a time, with their answers in order.
    async fn ask_all(&self, commands: Vec<Command>) -> Vec<Reply> {
        let mut replies = Vec::with_capacity(commands.len());
        let mut commands = commands.into_iter();
        loop {
            let asked: Vec<_> = commands
                .by_ref()
                .take(AT_ONCE)
                .map(|command| {
                    let (driver, keyspace) = (Rc::clone(&self.driver), self.keyspace);
                    spawn_local(async move { driver.hall.ask_for(&driver, keyspace, command).await })
                })
                .collect();
            if asked.is_empty() {
                return replies;
            }
            for task in asked {
                replies.push(task.await.unwrap_or_else(|_| Reply::error("UNCERTAIN the node is stopping")));
            }
        }
    }
}

fn answer_later(
    driver: &Driver,
    connection: &Rc<Connection>,
    place: u64,
    answer: impl AsyncFnOnce(Rc<Driver>) -> Reply + 'static,
) {
    let (Some(driver), connection) = (driver.this(), Rc::clone(connection)) else { return };
    spawn_local(async move {
        let reply = answer(Rc::clone(&driver)).await;
        driver.hall.fill(&connection, place, reply);
        driver.hall.go_on(&driver, &connection, place, Concern::All, true);
        driver.wake();
    });
}

/// So many keys of one slot, or all if there are fewer.
async fn keys_in_slot(within: &Within, slot: Slot, count: u64) -> Reply {
    let (mut place, mut found) = (0, Vec::new());
    while (found.len() as u64) < count {
        let reply = within.ask(Command::scan_slot(slot, place, count, None, None)).await;
        if reply.is_error() {
            return reply;
        }
        let (next, keys) = scanned(reply).unwrap_or_default();
        found.extend(keys);
        place = next;
        if place == 0 {
            break;
        }
    }
    found.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    Reply::Array(found)
}

fn first_error(replies: &[Reply]) -> Option<Reply> {
    replies.iter().find(|reply| reply.is_error()).cloned()
}

async fn counts(within: &Within, slots: &SlotSet) -> Result<Vec<(Slot, i64)>, Reply> {
    let replies = within.ask_all(slots.iter().map(Command::count_slot).collect()).await;
    match first_error(&replies) {
        Some(error) => Err(error),
        None => Ok(slots
            .iter()
            .zip(replies.iter().map(|reply| if let Reply::Number(count) = reply { *count } else { 0 }))
            .collect()),
    }
}

async fn dbsize(within: &Within, slots: &SlotSet) -> Reply {
    match counts(within, slots).await {
        Ok(counts) => Reply::Number(counts.iter().map(|(_, count)| count).sum()),
        Err(error) => error,
    }
}

async fn flush(within: &Within, slots: &SlotSet, command: &Command) -> Reply {
    match talk::arguments(command) {
        [] => {}
        [how] if how.eq_ignore_ascii_case(b"SYNC") || how.eq_ignore_ascii_case(b"ASYNC") => {}
        _ => return Reply::error("ERR syntax error"),
    }
    if within.driver.hall.refusing.get() {
        return talk::disk_full();
    }
    let counts = match counts(within, slots).await {
        Ok(counts) => counts,
        Err(error) => return error,
    };
    let full = counts.into_iter().filter(|(_, count)| *count > 0).map(|(slot, _)| Command::flush_slot(slot));
    let replies = within.ask_all(full.collect()).await;
    failed_write(&replies).unwrap_or(Reply::Ok)
}

async fn keys(within: &Within, slots: &SlotSet, pattern: &Bytes) -> Reply {
    let commands = slots.iter().map(|slot| Command::keys_of_slot(slot, pattern.clone())).collect();
    let replies = within.ask_all(commands).await;
    first_error(&replies).unwrap_or_else(|| Reply::Array(replies.into_iter().flat_map(items).collect()))
}

async fn random_key(within: &Within, slots: &SlotSet) -> Reply {
    let counts = match counts(within, slots).await {
        Ok(counts) => counts,
        Err(error) => return error,
    };
    let all: i64 = counts.iter().map(|(_, count)| count).sum();
    if all == 0 {
        return Reply::Nil;
    }
    let mut chance = (clock::now().0.wrapping_mul(6_364_136_223_846_793_005) >> 33) as i64 % all;
    let chosen = counts.into_iter().find(|(_, count)| {
        let here = chance < *count;
        chance -= if here { 0 } else { *count };
        here
    });
    match chosen {
        Some((slot, _)) => within.ask(Command::random_of_slot(slot, chance as u64)).await,
        None => Reply::Nil,
    }
}

/// Slot by slot, several at a time where they are empty.
async fn scan(within: &Within, slots: &SlotSet, command: &Command) -> Reply {
    let scan = match Scan::parse(command) {
        Ok(scan) => scan,
        Err(error) => return error,
    };
    let (mut cursor, mut found) = (scan.cursor, Vec::new());
    let ahead: Vec<Slot> = slots.iter().filter(|slot| *slot >= cursor.slot).take(MOST_SLOTS).collect();
    let (mut passed, mut width) = (0, 1);
    while passed < ahead.len() {
        let asked = &ahead[passed..ahead.len().min(passed + width)];
        let place_in = |slot: Slot| if slot == scan.cursor.slot { scan.cursor.place } else { 0 };
        let commands = asked.iter().map(|slot| scan.within(*slot, place_in(*slot), scan.count)).collect();
        let replies = within.ask_all(commands).await;
        if let Some(error) = first_error(&replies) {
            return error;
        }
        for (slot, reply) in asked.iter().zip(replies) {
            let Some((place, keys)) = scanned(reply) else { continue };
            found.extend(keys);
            cursor = Cursor::next(*slot, place);
            if found.len() as u64 >= scan.count || place != 0 {
                return Reply::Array(vec![Reply::Value(cursor.to_bytes()), Reply::Array(found)]);
            }
        }
        passed += asked.len();
        width = next_width(width, passed, found.len(), scan.count);
    }
    if ahead.len() < MOST_SLOTS {
        cursor = Cursor::START;
    }
    Reply::Array(vec![Reply::Value(cursor.to_bytes()), Reply::Array(found)])
}

/// How many slots to ask next: what is found beyond `count` was found in vain.
fn next_width(width: usize, passed: usize, found: usize, count: u64) -> usize {
    let missing = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(found);
    let next = if found == 0 { 2 * width } else { missing.saturating_mul(passed).div_ceil(found) };
    next.clamp(1, AT_ONCE)
}

/// Where to go on, and the keys, of what one slot answers to a scan.
fn scanned(reply: Reply) -> Option<(u32, Vec<Reply>)> {
    let Reply::Array(mut parts) = reply else { return None };
    let keys = parts.pop().map(items).unwrap_or_default();
    let place = match parts.pop() {
        Some(Reply::Value(place)) => values::parse_unsigned(&place).unwrap_or(0),
        Some(Reply::Number(place)) => u64::try_from(place).unwrap_or(0),
        _ => 0,
    };
    Some((u32::try_from(place).unwrap_or(0), keys))
}

fn items(reply: Reply) -> Vec<Reply> {
    if let Reply::Array(items) = reply { items } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_asks_for_little_more_than_it_needs() {
        assert_eq!(next_width(1, 1, 0, 10), 2, "twice as many while all are empty");
        assert_eq!(next_width(AT_ONCE, 600, 0, 10), AT_ONCE, "never more than this");
        assert_eq!(next_width(1, 1, 60, 1000), 16, "as many as will do if they are like those before");
        assert_eq!(next_width(8, 15, 9, 10), 2);
        assert_eq!(next_width(1, 1, 1, u64::MAX), AT_ONCE);
    }
}
