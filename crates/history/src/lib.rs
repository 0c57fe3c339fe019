//! What clients saw, and whether it could have happened.
//!
//! A history is every call that clients made, with the true times at which they began and ended, and what was answered. The
//! checkers know nothing of the cluster: they ask only whether one well-behaved store, doing one thing at a time, could have given these
//! answers. Each key is judged alone (a store is linearizable if each of its keys is) and is of one kind:
//!
//! | kind | calls | checkers |
//! |---|---|---|
//! | register | `Write`, `Read`, `Delete` | `no_acknowledged_write_lost`, `linearizable` |
//! | list | `Push`, `Range` | `exactly_once`, `no_acknowledged_write_lost`, `list_order` (and within it `exactly_once`) |
//! | counter | `Incr`, `Count` | `no_acknowledged_write_lost`, `counter` (and within it `exactly_once`) |
//!
//! The last checker of each kind is exact: it passes a history if and only if some order explains it. Those before it find nothing
//! that it would not find, but give the failure its right name. Two more names can appear as a checker: `history` for a record that
//! makes no sense in itself (a bug of the workload), and `undecided` when a search ran out of its budget, which is no pass.
//!
//! Pure: knows no cluster, no node and no clock. The simulator brings histories of its world, the prover those of a live cluster.
//!
//! The workload owes: a key starts absent, written values and pushed items are unique per key, and the world is healed before the
//! final reads.

mod counter;
mod exactly_once;
mod linearizable;
mod list_order;
mod nil_order;
mod no_acknowledged_write_lost;
mod positions;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    pub operations: Vec<Operation>,
}

/// One call of one client. Times are true times in µs, not those of any node's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub client: u32,
    pub key: u32,
    pub call: Call,
    pub invoked: u64,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// `ttl` in µs.
    Write {
        value: u64,
        ttl: Option<u64>,
    },
    Read,
    /// Answers `Done`; or a `Number`, of which 0 (like `Nil`) says that there was nothing to delete. That it did find
    /// something (1) is not used.
    Delete,
    /// Adds one and answers the new value.
    Incr,
    /// Reads a counter; `Nil` counts as 0.
    Count,
    /// Answers the new length.
    Push {
        item: u64,
    },
    /// The whole list; `Nil` counts as empty.
    Range,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Answered {
        at: u64,
        seen: Seen,
    },
    /// Given up at that time: it may never have happened, or have happened, or happen at any later time.
    Uncertain {
        at: u64,
    },
    /// It certainly did not happen and never will.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    Done,
    Nil,
    Value(u64),
    Number(i64),
    Items(Vec<u64>),
}

/// How much was looked at: a pass over nothing is no proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    pub registers: usize,
    pub lists: usize,
    pub counters: usize,
    pub answered: usize,
    pub uncertain: usize,
    pub refused: usize,
    /// Steps of the searches for an order.
    pub steps: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub checker: &'static str,
    pub wrong: Wrong,
    /// How many writes were lost or items stand twice, as far as this shows it. At least one.
    pub times: u64,
    pub key: u32,
    /// What is wrong, and the few operations that show it.
    pub text: String,
}

/// What a violation is called by who counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// Acknowledged, and gone.
    Lost,
    /// It happened more often than it was asked for.
    Twice,
    /// A read that shows something older than what was over before it began. A write that was lost and then replaced looks the
    /// same.
    StaleRead,
    /// No order explains it, in another way.
    Order,
    /// The record makes no sense in itself.
    Record,
    /// Nobody knows: a search ran out of its budget.
    Undecided,
}

/// All that is wrong with a history, one violation for each key that has any, in order of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    pub stats: Stats,
    pub violations: Vec<Violation>,
}

impl History {
    /// The first violation in order of keys, or how much was checked.
    pub fn check(&self) -> Result<Stats, Violation> {
        let mut stats = self.outcomes();
        self.keys().values().try_for_each(|operations| check_key(operations, &mut stats))?;
        Ok(stats)
    }

    /// Goes on after a violation, with the next key.
    #[must_use]
    pub fn judge(&self) -> Judgement {
        let mut stats = self.outcomes();
        let keys = self.keys();
        let violations = keys.values().filter_map(|operations| check_key(operations, &mut stats).err()).collect();
        Judgement { stats, violations }
    }

    /// Everything that was done with a key, in the order in which it began.
    #[must_use]
    pub fn story(&self, key: u32) -> Vec<&Operation> {
        let mut story: Vec<&Operation> = self.operations.iter().filter(|operation| operation.key == key).collect();
        story.sort_by_key(|operation| operation.invoked);
        story
    }

    fn outcomes(&self) -> Stats {
        let mut stats = Stats::default();
        for operation in &self.operations {
            match operation.outcome {
                Outcome::Answered { .. } => stats.answered += 1,
                Outcome::Uncertain { .. } => stats.uncertain += 1,
                Outcome::Refused => stats.refused += 1,
            }
        }
        stats
    }

    fn keys(&self) -> BTreeMap<u32, Vec<&Operation>> {
        let mut keys: BTreeMap<u32, Vec<&Operation>> = BTreeMap::new();
        for operation in &self.operations {
            keys.entry(operation.key).or_default().push(operation);
        }
        keys
    }
}

fn check_key(operations: &[&Operation], stats: &mut Stats) -> Result<(), Violation> {
    match kind_of(operations)? {
        Kind::Register => {
            stats.registers += 1;
            no_acknowledged_write_lost::register(operations)?;
            stats.steps += linearizable::check(operations)?;
        }
        Kind::List => {
            stats.lists += 1;
            exactly_once::list(operations)?;
            no_acknowledged_write_lost::list(operations)?;
            list_order::check(operations)?;
        }
        Kind::Counter => {
            stats.counters += 1;
            no_acknowledged_write_lost::counter(operations)?;
            counter::check(operations)?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Register,
    List,
    Counter,
}

/// Also makes sure that every record makes sense in itself, so that the checkers need not.
fn kind_of(operations: &[&Operation]) -> Result<Kind, Violation> {
    let kind = operations[0].call.kind();
    for &operation in operations {
        if operation.call.kind() != kind {
            return Err(Violation::new("history", "calls of different kinds on one key", &[operations[0], operation]));
        }
        if operation.given_up().is_some_and(|at| at < operation.invoked) {
            return Err(Violation::new("history", "it ended before it began", &[operation]));
        }
        if operation.seen().is_some_and(|seen| !operation.call.fits(seen)) {
            return Err(Violation::new("history", "the answer does not fit the call", &[operation]));
        }
    }
    Ok(kind)
}

impl Call {
    /// Does it change nothing?
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self, Call::Read | Call::Count | Call::Range)
    }

    fn kind(&self) -> Kind {
        match self {
            Call::Write { .. } | Call::Read | Call::Delete => Kind::Register,
            Call::Push { .. } | Call::Range => Kind::List,
            Call::Incr | Call::Count => Kind::Counter,
        }
    }

    /// Can a store have answered that?
    #[must_use]
    pub fn fits(&self, seen: &Seen) -> bool {
        match self {
            Call::Write { .. } => matches!(seen, Seen::Done),
            Call::Read => matches!(seen, Seen::Nil | Seen::Value(_)),
            Call::Delete => matches!(seen, Seen::Done | Seen::Nil | Seen::Number(0 | 1)),
            Call::Incr | Call::Push { .. } => matches!(seen, Seen::Number(1..)),
            Call::Count => matches!(seen, Seen::Nil | Seen::Number(0..)),
            Call::Range => matches!(seen, Seen::Nil | Seen::Items(_)),
        }
    }
}

impl Operation {
    fn seen(&self) -> Option<&Seen> {
        match &self.outcome {
            Outcome::Answered { seen, .. } => Some(seen),
            Outcome::Uncertain { .. } | Outcome::Refused => None,
        }
    }

    fn given_up(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Answered { at, .. } | Outcome::Uncertain { at } => Some(at),
            Outcome::Refused => None,
        }
    }

    /// The last moment at which it can have happened: for an uncertain one there is none.
    fn end(&self) -> u64 {
        match self.outcome {
            Outcome::Answered { at, .. } => at,
            Outcome::Uncertain { .. } | Outcome::Refused => u64::MAX,
        }
    }

    fn was_refused(&self) -> bool {
        self.outcome == Outcome::Refused
    }

    /// The number answered, `Nil` being 0. (Length of a list, value of a counter.)
    fn number(&self) -> Option<u64> {
        match self.seen()? {
            Seen::Nil => Some(0),
            Seen::Number(number) => u64::try_from(*number).ok(),
            Seen::Items(items) => Some(items.len() as u64),
            Seen::Done | Seen::Value(_) => None,
        }
    }
}

/// Operations shown in a violation; more would hide the point.
const SHOWN: usize = 14;

impl Violation {
    fn new(checker: &'static str, what: impl fmt::Display, involved: &[&Operation]) -> Self {
        let mut shown: Vec<&Operation> = Vec::new();
        for &operation in involved {
            if !shown.iter().any(|other| std::ptr::eq(*other, operation)) {
                shown.push(operation);
            }
        }
        shown.sort_by_key(|operation| operation.invoked);
        let key = shown[0].key;
        let mut text = format!("key {key}: {what}");
        for operation in shown.iter().take(SHOWN) {
            text += &format!("\n  {operation}");
        }
        if shown.len() > SHOWN {
            text += &format!("\n  … and {} more", shown.len() - SHOWN);
        }
        let wrong = match checker {
            "no_acknowledged_write_lost" => Wrong::Lost,
            "exactly_once" => Wrong::Twice,
            "linearizable" => Wrong::StaleRead,
            "history" => Wrong::Record,
            "undecided" => Wrong::Undecided,
            _ => Wrong::Order,
        };
        Violation { checker, wrong, times: 1, key, text }
    }

    fn called(self, wrong: Wrong) -> Self {
        Violation { wrong, ..self }
    }

    fn times(self, times: u64) -> Self {
        Violation { times, ..self }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.text)
    }
}

impl std::error::Error for Violation {}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} … ", Seconds(self.invoked))?;
        match &self.outcome {
            Outcome::Answered { at, seen } => {
                write!(f, "{}] client {}: {} → {seen}", Seconds(*at), self.client, self.call)
            }
            Outcome::Uncertain { at } => {
                write!(f, "{}] client {}: {} → uncertain", Seconds(*at), self.client, self.call)
            }
            Outcome::Refused => write!(f, "] client {}: {} → refused", self.client, self.call),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Write { value, ttl: None } => write!(f, "write {value}"),
            Call::Write { value, ttl: Some(ttl) } => write!(f, "write {value} for {}", Seconds(*ttl)),
            Call::Read => f.write_str("read"),
            Call::Delete => f.write_str("delete"),
            Call::Incr => f.write_str("incr"),
            Call::Count => f.write_str("count"),
            Call::Push { item } => write!(f, "push {item}"),
            Call::Range => f.write_str("range"),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Done => f.write_str("done"),
            Seen::Nil => f.write_str("nil"),
            Seen::Value(value) => write!(f, "{value}"),
            Seen::Number(number) => write!(f, "{number}"),
            Seen::Items(items) if items.len() <= 12 => write!(f, "{items:?}"),
            Seen::Items(items) => write!(f, "{} items, the last {:?}", items.len(), &items[items.len() - 8..]),
        }
    }
}

/// µs, shown as seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
