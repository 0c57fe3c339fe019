//! What clients ask for: registers, counters and lists, on keys that many clients share for a short while.
//!
//! A few keys at a time, so that clients meet on them; new ones every few seconds or few thousand operations, so that each key's history
//! stays short, its list too, and judging it cheap, however long the run and however fast the cluster.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blueprint::Slot;
use bytes::Bytes;
use history::Call;
use values::{Connection, slot_of};

use crate::rng::Rng;

/// Keys of one generation. Three kinds, and so a multiple of three.
const KEYS: u32 = 24;
/// A generation ends after this long, in µs …
const LIFE: u64 = 3_000_000;
/// … or after so many operations: about a hundred for each key.
const OPERATIONS: u32 = 100 * KEYS;
const READ_PERCENT: u64 = 30;
/// Of the writes, where the cluster knows series.
const SERIES_PERCENT: u64 = 50;
const DELETE_PERCENT: u64 = 15;
/// How long a connection's name stays good after the run should be over. The time that repeats may take, and more.
const AFTERLIFE: Duration = Duration::from_secs(900);

/// One thing for a client to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub key: u32,
    pub slot: Slot,
    pub call: Call,
    pub words: Vec<Bytes>,
    /// It has a number by which the cluster knows it again: safe to repeat.
    pub in_series: bool,
}

#[derive(Debug)]
pub struct Workload {
    /// Keys of two runs never meet: each must start absent.
    run: u64,
    rng: Rng,
    series: Option<Series>,
    generation: u32,
    generation_began: u64,
    drawn: u32,
    next_value: u64,
    winding_down: bool,
}

#[derive(Debug)]
struct Series {
    expires: u64,
    /// The last number of each client.
    numbers: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Register,
    Counter,
    List,
}

impl Kind {
    fn of(key: u32) -> Self {
        match key % 3 {
            0 => Self::Register,
            1 => Self::Counter,
            _ => Self::List,
        }
    }
}

impl Workload {
    #[must_use]
    pub fn new(run: u64, seed: u64) -> Self {
        Self {
            run,
            rng: Rng::new(seed),
            series: None,
            generation: 0,
            generation_began: 0,
            drawn: 0,
            next_value: 0,
            winding_down: false,
        }
    }

    /// Half of the writes become repeatable, for so many clients and about this long.
    pub fn use_series(&mut self, clients: u32, seconds: u64) {
        let numbers = vec![0; clients as usize];
        self.series = Some(Series { expires: expires_after(seconds), numbers });
    }

    /// Nothing more will be drawn.
    pub fn wind_down(&mut self) {
        self.winding_down = true;
    }

    /// What this client does next. `now` in µs of the run.
    pub fn draw(&mut self, client: u32, now: u64) -> Option<Task> {
        if self.winding_down {
            return None;
        }
        if self.drawn >= OPERATIONS || now.saturating_sub(self.generation_began) >= LIFE {
            self.generation += 1;
            self.generation_began = now;
            self.drawn = 0;
        }
        self.drawn += 1;
        let key = self.generation * KEYS + self.rng.below(KEYS.into()) as u32;
        Some(if self.rng.percent(READ_PERCENT) { self.read(key) } else { self.write(client, key) })
    }

    #[must_use]
    pub fn read(&self, key: u32) -> Task {
        let name = self.key_name(key);
        match Kind::of(key) {
            Kind::Register => self.task(key, Call::Read, &["GET", &name]),
            Kind::Counter => self.task(key, Call::Count, &["GET", &name]),
            Kind::List => self.task(key, Call::Range, &["LRANGE", &name, "0", "-1"]),
        }
    }

    fn write(&mut self, client: u32, key: u32) -> Task {
        let name = self.key_name(key);
        self.next_value += 1;
        let value = self.next_value;
        let task = match Kind::of(key) {
            Kind::Register if self.rng.percent(DELETE_PERCENT) => self.task(key, Call::Delete, &["DEL", &name]),
            Kind::Register => self.task(key, Call::Write { value, ttl: None }, &["SET", &name, &value.to_string()]),
            Kind::Counter => self.task(key, Call::Incr, &["INCR", &name]),
            Kind::List => self.task(key, Call::Push { item: value }, &["RPUSH", &name, &value.to_string()]),
        };
        if self.rng.percent(SERIES_PERCENT) { self.in_series(client, task) } else { task }
    }

    fn in_series(&mut self, client: u32, task: Task) -> Task {
        let Some(series) = &mut self.series else { return task };
        let number = &mut series.numbers[client as usize];
        *number += 1;
        let connection = Connection { id: connection_id(self.run, client), expires: series.expires };
        Task { words: series_words(connection, *number, task.words), in_series: true, ..task }
    }

    fn task(&self, key: u32, call: Call, words: &[&str]) -> Task {
        let slot = slot_of(self.key_name(key).as_bytes());
        let words = words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        Task { key, slot, call, words, in_series: false }
    }

    #[must_use]
    pub fn key_name(&self, key: u32) -> String {
        key_name(self.run, key)
    }
}

/// How a key of a run is called in the cluster.
#[must_use]
pub fn key_name(run: u64, key: u32) -> String {
    let kind = match Kind::of(key) {
        Kind::Register => "register",
        Kind::Counter => "counter",
        Kind::List => "list",
    };
    format!("prove:{run:x}:{kind}:{key}")
}

pub(crate) fn series_words(connection: Connection, number: u64, words: Vec<Bytes>) -> Vec<Bytes> {
    let Connection { id, expires } = connection;
    let head = [Bytes::from_static(b"SERIES"), format!("{id}-{expires}").into(), number.to_string().into()];
    head.into_iter().chain(words).collect()
}

/// When the name of a connection that is used for so many seconds from now may be forgotten, as servers count time.
pub(crate) fn expires_after(seconds: u64) -> u64 {
    let ends = SystemTime::now() + Duration::from_secs(seconds) + AFTERLIFE;
    ends.duration_since(UNIX_EPOCH).map_or(u64::MAX, |time| time.as_micros() as u64)
}

/// Different for each client of each run.
pub(crate) fn connection_id(run: u64, client: u32) -> u64 {
    (run << 16) ^ u64::from(client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn workload() -> Workload {
        let mut workload = Workload::new(0xabc, 1);
        workload.use_series(4, 60);
        workload
    }

    #[test]
    fn the_server_understands_everything_that_is_drawn() {
        let mut workload = workload();
        for turn in 0..2000 {
            let task = workload.draw(turn % 4, 0).expect("not winding down");
            let command = values::Command::parse(task.words.clone()).expect("words of a command");
            assert_eq!(command.slot(), Ok(task.slot));
            assert_eq!(command.series().is_some(), task.in_series);
            assert_eq!(command.is_write(), !task.call.is_read());
        }
    }

    /// What the checkers are owed.
    #[test]
    fn values_are_unique_and_a_number_is_given_once() {
        let mut workload = workload();
        let (mut values, mut numbers, mut kinds) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        for turn in 0..5000_u32 {
            let task = workload.draw(turn % 4, u64::from(turn) * 1000).expect("not winding down");
            if let Call::Write { value, .. } | Call::Push { item: value } = task.call {
                assert!(values.insert(value));
            }
            if task.in_series {
                assert!(numbers.insert((task.words[1].clone(), task.words[2].clone())));
            }
            *kinds.entry(task.words[0].clone()).or_insert(0) += 1;
        }
        for word in ["SET", "GET", "DEL", "INCR", "RPUSH", "LRANGE", "SERIES"] {
            assert!(kinds.contains_key(word.as_bytes()), "{word} was never drawn");
        }
    }

    #[test]
    fn keys_are_given_up_after_a_while_or_many_operations() {
        let mut workload = workload();
        let first = |workload: &mut Workload, now| workload.draw(0, now).expect("not winding down").key / KEYS;
        assert_eq!(first(&mut workload, 0), 0);
        assert_eq!(first(&mut workload, LIFE - 1), 0);
        assert_eq!(first(&mut workload, LIFE), 1);
        (1..OPERATIONS).for_each(|_| assert_eq!(first(&mut workload, LIFE), 1));
        assert_eq!(first(&mut workload, LIFE), 2);
        workload.wind_down();
        assert_eq!(workload.draw(0, 0), None);
    }
}
