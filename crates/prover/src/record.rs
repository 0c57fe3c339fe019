//! What a run has brought: every operation, every fault, every error. Filled by many clients, read by whoever watches.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use history::{Call, History, Operation, Outcome};
use serde::Serialize;

use crate::changes::Change;
use crate::faults::Strike;
use crate::workload::key_name;

/// Answers that no store should give are kept, with their text, up to so many.
const MOST_STRANGE: usize = 20;

#[derive(Clone, Debug, Default)]
pub struct Record {
    pub run: u64,
    pub history: History,
    /// By command, with reads that were never answered (of which the history says nothing).
    pub tally: BTreeMap<&'static str, Outcomes>,
    /// By kind, each attempt.
    pub errors: BTreeMap<String, u64>,
    pub strange: Vec<String>,
    pub strikes: Vec<Strike>,
    pub changes: Vec<Change>,
    /// Writes that took long, from the first attempt to the answer: when they were answered, and how long it took. In µs.
    pub slow: Vec<(u64, u64)>,
    /// When clients began, and when they were told to stop; in µs of the run.
    pub began: u64,
    pub ended: u64,
    /// Keys that could not be read in the end.
    pub unread: BTreeSet<u32>,
    /// What did not go as it should, and is nobody's answer.
    pub problems: Vec<String>,
    pub series: bool,
}

/// Writes that took at least this are remembered one by one, in µs.
const SLOW: u64 = 2_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    pub answered: u64,
    /// It may have happened.
    pub uncertain: u64,
    /// It did not happen.
    pub refused: u64,
    /// Of all these, those that were safe to repeat.
    pub in_series: u64,
}

/// A record that is being made.
#[derive(Debug)]
pub struct Live {
    run: u64,
    began: Instant,
    acknowledged: AtomicU64,
    reads: AtomicU64,
    record: Mutex<Record>,
    phase: Mutex<String>,
}

impl Live {
    #[must_use]
    pub fn new(run: u64) -> Self {
        let record = Record { run, ..Record::default() };
        Self {
            run,
            began: Instant::now(),
            acknowledged: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            record: Mutex::new(record),
            phase: Mutex::default(),
        }
    }

    /// Its number, which is part of every key.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Time of the run, in µs. Monotonic.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Writes, so far.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Attempts that were not answered as hoped.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.record.lock().expect("nobody panics with it").errors.values().sum()
    }

    /// What is going on, for people.
    #[must_use]
    pub fn phase(&self) -> String {
        self.phase.lock().expect("nobody panics with it").clone()
    }

    pub(crate) fn enter(&self, phase: impl Into<String>) {
        *self.phase.lock().expect("nobody panics with it") = phase.into();
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Record)) {
        change(&mut self.record.lock().expect("nobody panics with it"));
    }

    /// Everything, and leaves nothing.
    pub(crate) fn take(&self) -> Record {
        std::mem::take(&mut *self.record.lock().expect("nobody panics with it"))
    }

    pub(crate) fn error(&self, kind: impl Into<String>) {
        self.change(|record| *record.errors.entry(kind.into()).or_insert(0) += 1);
    }

    pub(crate) fn strange(&self, text: String) {
        self.change(|record| {
            if record.strange.len() < MOST_STRANGE {
                record.strange.push(text);
            }
        });
    }

    /// `first`: when it was first asked for; the operation itself may begin later, if everything before was refused.
    pub(crate) fn add(&self, operation: Operation, first: u64, in_series: bool) {
        let is_read = operation.call.is_read();
        if let Outcome::Answered { .. } = operation.outcome {
            let counter = if is_read { &self.reads } else { &self.acknowledged };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.change(|record| record.add(operation, first, in_series));
    }
}

impl Record {
    pub(crate) fn add(&mut self, operation: Operation, first: u64, in_series: bool) {
        let outcomes = self.tally.entry(command_of(&operation.call)).or_default();
        outcomes.in_series += u64::from(in_series);
        match operation.outcome {
            Outcome::Answered { at, .. } => {
                outcomes.answered += 1;
                if !operation.call.is_read() && at.saturating_sub(first) >= SLOW {
                    self.slow.push((at, at - first));
                }
            }
            Outcome::Uncertain { .. } => outcomes.uncertain += 1,
            Outcome::Refused => outcomes.refused += 1,
        }
        // A read that was never answered says nothing.
        if !operation.call.is_read() || matches!(operation.outcome, Outcome::Answered { .. }) {
            self.history.operations.push(operation);
        }
    }

    /// One line of JSON for each operation, in the order in which they ended, and one for each fault.
    pub fn write_lines(&self, mut to: impl Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Line<'a> {
            name: String,
            #[serde(flatten)]
            operation: &'a Operation,
        }
        for operation in &self.history.operations {
            serde_json::to_writer(&mut to, &Line { name: key_name(self.run, operation.key), operation })?;
            to.write_all(b"\n")?;
        }
        for strike in &self.strikes {
            serde_json::to_writer(&mut to, &serde_json::json!({ "fault": strike }))?;
            to.write_all(b"\n")?;
        }
        to.flush()
    }
}

fn command_of(call: &Call) -> &'static str {
    match call {
        Call::Write { .. } => "SET",
        Call::Read => "GET",
        Call::Delete => "DEL",
        Call::Incr => "INCR",
        Call::Count => "GET of a counter",
        Call::Push { .. } => "RPUSH",
        Call::Range => "LRANGE",
    }
}
