//! `CLUSTER FAILOVER`, `MIGRATESLOTS`, `GETSLOTMIGRATIONS` and `CANCELSLOTMIGRATIONS`: operations, for those who have tools for Redis or
//! Valkey. What they ask for is planned and applied like everything else (`http`, `migrations.rs`); here are their words.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use blueprint::{Blueprint, KeyspaceId, NodeId, Slot, SlotSet};
use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use values::{Command, Reply};

use super::keyspace::Chosen;
use super::{cluster, talk};
use crate::http::{Migration, Move, Office, Phase, ranges};
use crate::lane::Driver;
use crate::post::DeskLetter;

/// What a node's id has, in letters.
const ID_LENGTH: usize = 40;

pub(super) fn is_one(name: &str) -> bool {
    let of_slots =
        matches!(name, "cluster|migrateslots" | "cluster|getslotmigrations" | "cluster|cancelslotmigrations");
    of_slots || name == "cluster|failover"
}

pub(super) async fn answer(driver: &Driver, chosen: Chosen, command: &Command) -> Reply {
    let done = match command.name() {
        "cluster|failover" => failover(driver, chosen, talk::arguments(command)).await,
        "cluster|migrateslots" => migrate(driver, chosen, talk::arguments(command)).await,
        "cluster|cancelslotmigrations" => at_the_office(driver, Office::cancel_migrations).await,
        _ => return list(driver).await,
    };
    match done {
        Ok(()) => Reply::Ok,
        Err(why) => Reply::error_with(format!("ERR {why}")),
    }
}

/// Operations are planned and applied by the desk's thread: it speaks for the whole node.
async fn ask_office<T: Send + 'static, F: Future<Output = T> + 'static>(
    driver: &Driver,
    ask: impl FnOnce(Office) -> F + Send + 'static,
) -> Option<T> {
    let (answer, answered) = oneshot::channel();
    driver.post.desk(DeskLetter::Look(Box::new(move |desk| {
        if let Some(office) = desk.office.get().cloned() {
            spawn_local(async move { drop(answer.send(ask(office).await)) });
        }
    })));
    answered.await.ok()
}

async fn at_the_office<F: Future<Output = Result<(), String>> + 'static>(
    driver: &Driver,
    ask: impl FnOnce(Office) -> F + Send + 'static,
) -> Result<(), String> {
    ask_office(driver, ask).await.unwrap_or_else(|| Err("this node is starting or stopping: ask again".into()))
}

async fn failover(driver: &Driver, chosen: Chosen, words: &[Bytes]) -> Result<(), String> {
    match words {
        [] => {}
        [how] if how.eq_ignore_ascii_case(b"FORCE") || how.eq_ignore_ascii_case(b"TAKEOVER") => {
            return Err(
                "FORCE and TAKEOVER would lose writes, and are not needed: whoever leads and is missed is replaced within seconds, \
                 by a member that has every acknowledged write. 'godwit why' says what a bucket waits for; if all its members \
                 are lost for good, see 'godwit repair'"
                    .into(),
            );
        }
        _ => return Err("syntax error".into()),
    }
    let keyspace = keyspace_name(driver, chosen)?;
    at_the_office(driver, move |office| office.take_lead(keyspace)).await
}

async fn migrate(driver: &Driver, chosen: Chosen, words: &[Bytes]) -> Result<(), String> {
    let keyspace = keyspace_name(driver, chosen)?;
    let moves = {
        let lane = driver.lane.borrow();
        let of = chosen.among(lane.blueprint()).map_err(text_of)?;
        let owners = Owners { blueprint: lane.blueprint(), keyspace: of, me: driver.me };
        owners.parse(words)?
    };
    let under_way = ask_office(driver, Office::migrations).await.flatten().unwrap_or_default();
    let busy = under_way.iter().filter(|one| one.from == driver.me && one.is_under_way());
    let busy = busy.fold(SlotSet::new(), |all, one| all.union(&one.slots));
    if let Some(slot) = moves.iter().find_map(|one| one.slots.intersection(&busy).iter().next()) {
        return Err(format!("I am already migrating slot {}.", slot.0));
    }
    at_the_office(driver, move |office| office.migrate(keyspace, moves)).await?;
    // So that it is known when they began.
    let begun = ask_office(driver, Office::migrations).await.flatten().unwrap_or_default();
    driver.hall.house.migrations.note(&begun);
    Ok(())
}

fn keyspace_name(driver: &Driver, chosen: Chosen) -> Result<String, String> {
    let lane = driver.lane.borrow();
    chosen.among(lane.blueprint()).map_err(text_of)?;
    Ok(chosen.name(lane.blueprint()).expect("it is there").to_owned())
}

/// What an error says, without its first word.
fn text_of(error: Reply) -> String {
    match error {
        Reply::Error(text) => String::from_utf8_lossy(&text).trim_start_matches("ERR ").to_owned(),
        other => format!("{other:?}"),
    }
}

/// Who leads what, for whoever says what is to be led by others.
struct Owners<'a> {
    blueprint: &'a Blueprint,
    keyspace: KeyspaceId,
    me: NodeId,
}

impl Owners<'_> {
    /// `SLOTSRANGE first last [first last …] NODE id`, several times. Errors are Valkey's, and in its order.
    fn parse(&self, mut words: &[Bytes]) -> Result<Vec<Move>, String> {
        let mut moves: Vec<Move> = Vec::new();
        while let [first, rest @ ..] = words {
            if !first.eq_ignore_ascii_case(b"SLOTSRANGE") {
                return Err("syntax error".into());
            }
            let (slots, rest) = self.slots(rest)?;
            if moves.iter().any(|other| !other.slots.intersection(&slots).is_empty()) {
                return Err("Slot ranges in migrations overlap".into());
            }
            let [node, id, rest @ ..] = rest else { return Err("syntax error".into()) };
            if !node.eq_ignore_ascii_case(b"NODE") {
                return Err("syntax error".into());
            }
            moves.push(Move { slots, to: self.target(id)? });
            words = rest;
        }
        Ok(moves)
    }

    fn slots<'w>(&self, mut words: &'w [Bytes]) -> Result<(SlotSet, &'w [Bytes]), String> {
        let (mut all, mut ranges) = (SlotSet::new(), Vec::<(Slot, Slot)>::new());
        while let [first, rest @ ..] = words {
            // What is no number is the next word.
            if values::parse_number(first).is_none() {
                break;
            }
            let first = slot(first)?;
            let [last, rest @ ..] = rest else { return Err("No end slot for final slot range".into()) };
            let last = slot(last)?;
            if first > last {
                return Err(format!("Start slot number {} is greater than end slot number {}.", first.0, last.0));
            }
            let range = SlotSet::range(first, last);
            self.require_led_here(&range)?;
            let overlap = ranges.iter().find(|(from, to)| *from <= last && first <= *to);
            if let Some((from, to)) = overlap {
                let (first, last, from, to) = (first.0, last.0, from.0, to.0);
                return Err(format!("Slot range {first}-{last} overlaps with previous range {from}-{to}."));
            }
            ranges.push((first, last));
            all = all.union(&range);
            words = rest;
        }
        if all.is_empty() { Err("No slot ranges specified".into()) } else { Ok((all, words)) }
    }

    fn require_led_here(&self, slots: &SlotSet) -> Result<(), String> {
        let leader = |slot| self.blueprint.bucket_of(self.keyspace, slot)?.government().map(|g| g.primary.node);
        for slot in slots.iter() {
            match leader(slot) {
                None => return Err(format!("Slot {} has no node served.", slot.0)),
                Some(node) if node != self.me => return Err("Slots are not served by this node.".into()),
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn target(&self, id: &Bytes) -> Result<NodeId, String> {
        let said = String::from_utf8_lossy(id);
        if id.len() != ID_LENGTH {
            return Err(format!("Invalid node name: {said}"));
        }
        let found = self.blueprint.nodes.keys().find(|node| cluster::id(**node).as_bytes() == &**id);
        match found {
            None => Err(format!("Unknown node name: {said}")),
            Some(node) if *node == self.me => Err("Target node can not be this node.".into()),
            Some(node) => Ok(*node),
        }
    }
}

fn slot(word: &Bytes) -> Result<Slot, String> {
    let found = values::parse_number(word).and_then(|number| u16::try_from(number).ok()).and_then(Slot::new);
    found.ok_or_else(|| "Invalid or out of range slot".into())
}

async fn list(driver: &Driver) -> Reply {
    let Some(Some(all)) = ask_office(driver, Office::migrations).await else {
        return Reply::error("ERR this node is starting or stopping: ask again");
    };
    let seen = driver.hall.house.migrations.note(&all);
    Reply::Array(all.iter().zip(seen).map(|(one, seen)| describe(one, seen, driver.me)).collect())
}

fn describe(one: &Migration, seen: Seen, me: NodeId) -> Reply {
    let text = |text: &str| Reply::Value(Bytes::copy_from_slice(text.as_bytes()));
    let imports = one.to == me;
    let now = seconds();
    Reply::Map(vec![
        (text("name"), text(&name(one))),
        (text("operation"), text(if imports { "IMPORT" } else { "EXPORT" })),
        (text("slot_ranges"), text(&ranges(&one.slots))),
        (text("target_node"), text(&cluster::id(one.to))),
        (text("source_node"), text(&cluster::id(one.from))),
        (text("create_time"), Reply::Number(seen.first)),
        (text("last_update_time"), Reply::Number(seen.changed)),
        (text("last_ack_time"), Reply::Number(if one.is_under_way() { now } else { seen.changed })),
        (text("state"), text(state(one, imports))),
        (text("message"), text(&one.message)),
    ])
}

/// Forty letters, as Valkey's have: the number of the operation, and which of its moves it is.
fn name(one: &Migration) -> String {
    let id: u64 = one.operation.trim_start_matches('o').parse().unwrap_or_default();
    format!("{id:032x}{:08x}", one.number)
}

/// The nearest of Valkey's states.
fn state(one: &Migration, imports: bool) -> &'static str {
    match (one.state.as_str(), one.phase, imports) {
        ("done", ..) => "success",
        ("failed", ..) => "failed",
        ("cancelled", ..) => "cancelled",
        (_, Phase::Begins, false) => "connecting",
        (_, Phase::Begins, true) => "waiting-for-ack",
        (_, Phase::Copies, false) => "snapshotting",
        (_, Phase::Copies, true) => "receiving-snapshot",
        (_, Phase::HandsOver, false) => "failover-paused",
        (_, Phase::HandsOver, true) => "failover-requested",
        (_, Phase::CleansUp, _) => "failover-granted",
    }
}

/// When this process first heard of a migration, and when it last heard something new: the blueprint has no dates.
#[derive(Debug, Default)]
pub(crate) struct Noted(Mutex<BTreeMap<Which, (Seen, How)>>);

/// An operation, and which of its moves.
type Which = (String, usize);
/// Steps that came true, and the state.
type How = (usize, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    first: i64,
    changed: i64,
}

impl Noted {
    /// Remembers those that there are, and no others.
    fn note(&self, all: &[Migration]) -> Vec<Seen> {
        let now = seconds();
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|key, _| all.iter().any(|one| (&one.operation, one.number) == (&key.0, key.1)));
        let one = |one: &Migration| {
            let how = (one.done, one.state.clone());
            let new = || (Seen { first: now, changed: now }, how.clone());
            let known = noted.entry((one.operation.clone(), one.number)).or_insert_with(new);
            if known.1 != how {
                *known = (Seen { changed: now, ..known.0 }, how);
            }
            known.0
        };
        all.iter().map(one).collect()
    }
}

fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64
}

#[cfg(test)]
mod tests {
    use blueprint::{Command as Proposal, Durability, Kind};

    use super::*;

    /// Two nodes; the first leads slots 0 to 8191.
    fn blueprint() -> Blueprint {
        let mut blueprint = Blueprint::new();
        for id in [1, 2] {
            let (id, name) = (NodeId(id), format!("node-{id}"));
            let join = Proposal::AddNode { id, name, zone: String::new(), addresses: Vec::new() };
            blueprint.apply(&join).expect("a new node");
        }
        let placement = vec![vec![NodeId(1), NodeId(2)], vec![NodeId(2), NodeId(1)]];
        let (name, kind, durability) = ("default".into(), Kind::Store, Durability::Disk);
        let create = Proposal::CreateKeyspace { name, kind, replicas: 2, min_in_sync: None, durability, placement };
        blueprint.apply(&create).expect("both are there");
        blueprint
    }

    fn parse(words: &str) -> Result<Vec<Move>, String> {
        let words = words.replace("TWO", &cluster::id(NodeId(2))).replace("ONE", &cluster::id(NodeId(1)));
        let words: Vec<Bytes> = words.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        let blueprint = blueprint();
        Owners { blueprint: &blueprint, keyspace: KeyspaceId(1), me: NodeId(1) }.parse(&words)
    }

    #[test]
    fn moves_as_valkey_writes_them() {
        let to = NodeId(2);
        let slots = |text: &str| {
            text.split(' ').map(|r| r.split_once('-').expect("a range")).fold(SlotSet::new(), |all, (first, last)| {
                let number = |word: &str| Slot(word.parse().expect("a number"));
                all.union(&SlotSet::range(number(first), number(last)))
            })
        };
        assert_eq!(parse("SLOTSRANGE 0 9 NODE TWO"), Ok(vec![Move { slots: slots("0-9"), to }]));
        let two = vec![Move { slots: slots("0-9 20-29"), to }, Move { slots: slots("10-10"), to }];
        assert_eq!(parse("slotsrange 0 9 20 29 node TWO slotsrange 10 10 node TWO"), Ok(two));
        assert_eq!(ranges(&slots("20-29 0-9 7-7")), "0-9 20-29");
    }

    #[test]
    fn errors_are_those_of_valkey() {
        for (words, error) in [
            ("RANGE 0 9 NODE TWO", "syntax error"),
            ("SLOTSRANGE 0 9", "syntax error"),
            ("SLOTSRANGE 0 9 TWO", "syntax error"),
            ("SLOTSRANGE 0 9 NODE", "syntax error"),
            ("SLOTSRANGE NODE TWO", "No slot ranges specified"),
            ("SLOTSRANGE 0", "No end slot for final slot range"),
            ("SLOTSRANGE 0 NODE TWO", "Invalid or out of range slot"),
            ("SLOTSRANGE 0 16384 NODE TWO", "Invalid or out of range slot"),
            ("SLOTSRANGE -1 5 NODE TWO", "Invalid or out of range slot"),
            ("SLOTSRANGE 9 0 NODE TWO", "Start slot number 9 is greater than end slot number 0."),
            ("SLOTSRANGE 0 9 5 20 NODE TWO", "Slot range 5-20 overlaps with previous range 0-9."),
            ("SLOTSRANGE 0 9 NODE TWO SLOTSRANGE 9 10 NODE TWO", "Slot ranges in migrations overlap"),
            ("SLOTSRANGE 8190 8192 NODE TWO", "Slots are not served by this node."),
            ("SLOTSRANGE 0 9 NODE ONE", "Target node can not be this node."),
            ("SLOTSRANGE 0 9 NODE abc", "Invalid node name: abc"),
            (
                "SLOTSRANGE 0 9 NODE 00000000000000000000000000000000000000ff",
                "Unknown node name: 00000000000000000000000000000000000000ff",
            ),
        ] {
            assert_eq!(parse(words), Err(error.into()), "{words}");
        }
    }

    #[test]
    fn it_is_noted_when_something_changed() {
        let noted = Noted::default();
        let one = Migration {
            operation: "o7".into(),
            number: 1,
            slots: SlotSet::all(),
            from: NodeId(1),
            to: NodeId(2),
            state: "running".into(),
            done: 0,
            phase: Phase::Begins,
            message: String::new(),
        };
        assert_eq!(name(&one), "0000000000000000000000000000000700000001");
        assert_eq!((state(&one, false), state(&one, true)), ("connecting", "waiting-for-ack"));
        let first = noted.note(std::slice::from_ref(&one));
        let long_ago = Seen { first: 3, changed: 4 };
        noted.0.lock().expect("nobody else").get_mut(&("o7".into(), 1)).expect("noted").0 = long_ago;
        assert_eq!(noted.note(std::slice::from_ref(&one)), [long_ago], "nothing has changed");
        let done = Migration { done: 1, ..one };
        let later = noted.note(std::slice::from_ref(&done))[0];
        assert!(later.first == 3 && later.changed >= first[0].changed, "{later:?}");
        assert!(noted.note(&[]).is_empty() && noted.0.lock().expect("nobody else").is_empty());
    }
}
