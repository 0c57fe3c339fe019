//! What concerns more slots than one: put together of what each slot answers. Each part is as good as one command; the whole is not
//! one moment.

use std::rc::Rc;

use blueprint::Slot;
use bytes::Bytes;
use tokio::task::spawn_local;
use values::{Command, Cursor, Reply, Scan, Spread};

use super::{Connection, talk};
use crate::clock;
use crate::lane::Driver;

/// Slots asked at the same time by one client.
const AT_ONCE: usize = 256;
/// Empty slots that one `SCAN` passes over before it answers with nothing.
const MOST_SLOTS: usize = 2048;

pub(super) fn is_wide(name: &str) -> bool {
    matches!(name, "scan" | "dbsize" | "keys" | "flushall" | "flushdb" | "randomkey")
}

/// A command about keys of several slots.
pub(super) fn spread(driver: &Rc<Driver>, connection: &Rc<Connection>, spread: Spread) {
    let asker = Rc::clone(driver);
    answer_later(driver, connection, async move {
        let replies = ask_all(&asker, spread.parts().to_vec()).await;
        spread.join(&replies)
    });
}

pub(super) fn ask(driver: &Rc<Driver>, connection: &Rc<Connection>, command: Command) {
    let asker = Rc::clone(driver);
    answer_later(driver, connection, async move {
        match command.name() {
            "scan" => scan(&asker, &command).await,
            "dbsize" => dbsize(&asker).await,
            "keys" => keys(&asker, &command.words()[1]).await,
            "flushall" | "flushdb" => flush(&asker).await,
            "randomkey" => random_key(&asker).await,
            _ => asker.hall.ask_for(&asker, command).await,
        }
    });
}

pub(super) fn answer_later(
    driver: &Rc<Driver>,
    connection: &Rc<Connection>,
    answer: impl Future<Output = Reply> + 'static,
) {
    let (driver, connection, place) = (Rc::clone(driver), Rc::clone(connection), connection.wait());
    spawn_local(async move {
        let reply = answer.await;
        connection.fill(place, reply);
        driver.hall.touch(&connection);
        driver.wake();
    });
}

/// So many keys of one slot, or all if there are fewer.
pub(super) fn keys_in_slot(driver: &Rc<Driver>, connection: &Rc<Connection>, slot: Slot, count: u64) {
    let asker = Rc::clone(driver);
    answer_later(driver, connection, async move {
        let (mut place, mut found) = (0, Vec::new());
        while (found.len() as u64) < count {
            let reply = asker.hall.ask_for(&asker, Command::scan_slot(slot, place, count, None, None)).await;
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
    });
}

/// All of them, some at a time, with their answers in order.
async fn ask_all(driver: &Rc<Driver>, commands: Vec<Command>) -> Vec<Reply> {
    let mut replies = Vec::with_capacity(commands.len());
    let mut commands = commands.into_iter();
    loop {
        let asked: Vec<_> = commands
            .by_ref()
            .take(AT_ONCE)
            .map(|command| {
                let driver = Rc::clone(driver);
                spawn_local(async move { driver.hall.ask_for(&driver, command).await })
            })
            .collect();
        if asked.is_empty() {
            return replies;
        }
        for task in asked {
            replies.push(task.await.unwrap_or_else(|_| Reply::error("ERR the node is stopping")));
        }
    }
}

fn first_error(replies: &[Reply]) -> Option<Reply> {
    replies.iter().find(|reply| reply.is_error()).cloned()
}

fn slots() -> impl Iterator<Item = Slot> {
    (0..Slot::COUNT).map(Slot)
}

async fn counts(driver: &Rc<Driver>) -> Result<Vec<(Slot, i64)>, Reply> {
    let replies = ask_all(driver, slots().map(Command::count_slot).collect()).await;
    match first_error(&replies) {
        Some(error) => Err(error),
        None => Ok(slots()
            .zip(replies.iter().map(|reply| if let Reply::Number(count) = reply { *count } else { 0 }))
            .collect()),
    }
}

async fn dbsize(driver: &Rc<Driver>) -> Reply {
    match counts(driver).await {
        Ok(counts) => Reply::Number(counts.iter().map(|(_, count)| count).sum()),
        Err(error) => error,
    }
}

async fn flush(driver: &Rc<Driver>) -> Reply {
    if driver.hall.refusing.get() {
        return talk::disk_full();
    }
    let counts = match counts(driver).await {
        Ok(counts) => counts,
        Err(error) => return error,
    };
    let full = counts.into_iter().filter(|(_, count)| *count > 0).map(|(slot, _)| Command::flush_slot(slot));
    let replies = ask_all(driver, full.collect()).await;
    first_error(&replies).unwrap_or(Reply::Ok)
}

async fn keys(driver: &Rc<Driver>, pattern: &Bytes) -> Reply {
    let commands = slots().map(|slot| Command::keys_of_slot(slot, pattern.clone())).collect();
    let replies = ask_all(driver, commands).await;
    first_error(&replies).unwrap_or_else(|| Reply::Array(replies.into_iter().flat_map(items).collect()))
}

async fn random_key(driver: &Rc<Driver>) -> Reply {
    let counts = match counts(driver).await {
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
        Some((slot, _)) => driver.hall.ask_for(driver, Command::random_of_slot(slot, chance as u64)).await,
        None => Reply::Nil,
    }
}

/// Slot by slot, several at a time where they are empty.
async fn scan(driver: &Rc<Driver>, command: &Command) -> Reply {
    let scan = match Scan::parse(command) {
        Ok(scan) => scan,
        Err(error) => return error,
    };
    let (mut cursor, mut found) = (scan.cursor, Vec::new());
    for _ in 0..MOST_SLOTS / AT_ONCE {
        let last = usize::from(cursor.slot.0) + AT_ONCE;
        let range = (usize::from(cursor.slot.0)..last.min(Slot::COUNT.into())).map(|slot| Slot(slot as u16));
        let part = |slot: Slot| scan.within(slot, if slot == cursor.slot { cursor.place } else { 0 }, scan.count);
        let commands: Vec<Command> = range.clone().map(part).collect();
        let replies = ask_all(driver, commands).await;
        if let Some(error) = first_error(&replies) {
            return error;
        }
        for (slot, reply) in range.zip(replies) {
            let Some((place, keys)) = scanned(reply) else { continue };
            found.extend(keys);
            cursor = Cursor::next(slot, place);
            if found.len() as u64 >= scan.count || cursor == Cursor::START || place != 0 {
                return Reply::Array(vec![Reply::Value(cursor.to_bytes()), Reply::Array(found)]);
            }
        }
    }
    Reply::Array(vec![Reply::Value(cursor.to_bytes()), Reply::Array(found)])
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
