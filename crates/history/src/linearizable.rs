//! Could one register, doing one thing at a time, have given these answers?
//!
//! Written values are unique, so whoever saw a value tells which write it came after. A write and all the reads of its value form a
//! *cluster*: nothing else can stand between them. That leaves two numbers per cluster: the end that comes first (the value was
//! there by then) and the start that comes last (it was still there). Cluster A may stand before B if and only if A's last start
//! is not after B's first end. If two clusters each forbid the other to go first, that is a violation, and (as Gibbons and Korach
//! noticed) if no two do, all clusters can be put in order. No search is needed:
//!
//! - a cycle of any length contains such a pair. Take its member X with the smallest first end, and the P that must precede X: P's
//!   last start is after the first end of *its* predecessor, hence after X's.
//!
//! Deletes and reads of nil are clusters of one. Reads of nil need more than an order, namely something that made the key absent: a
//! delete, or an expiry, which may come at any time from 97% of the time to live after the write was *invoked* (the clock of
//! the data may run up to a few percent fast), or never. [`nil_order`] searches for that, only when nil was seen.
//!
//! Uncertain calls: a write whose value was seen did happen, before the first who saw it. One whose value nobody saw may be left out,
//! unless it can have expired. That and an uncertain delete can make the key absent once, at any time from some moment on.

use std::collections::BTreeMap;

use super::nil_order::{self, Effect, Item, Verdict};
use super::{Call, Operation, Outcome, Seen, Violation, Wrong};

const NAME: &str = "linearizable";

/// Steps of one search. Right histories need about one per operation; this is a second, and some ten megabytes of places visited.
const BUDGET: u64 = 300_000;

/// Answers how many steps it took.
pub(super) fn check(operations: &[&Operation]) -> Result<u64, Violation> {
    let register = Register::of(operations)?;
    match register.judge() {
        Judgement::Possible { steps } => Ok(steps),
        Judgement::Conflict(a, b) => Err(conflict(&register.clusters[a], &register.clusters[b])),
        Judgement::Impossible => {
            let what = "no order of these explains what was seen";
            Err(Violation::new(NAME, what, &smallest_impossible(operations)))
        }
        Judgement::Undecided => {
            let what = format!("the search for an order was given up after {BUDGET} steps");
            Err(Violation::new("undecided", what, operations))
        }
    }
}

/// From when on a write may have expired, if ever.
pub(super) fn may_be_nil_from(write: &Operation) -> u64 {
    match write.call {
        Call::Write { ttl: Some(ttl), .. } => write.invoked.saturating_add((u128::from(ttl) * 97 / 100) as u64),
        _ => u64::MAX,
    }
}

/// The history of one key, in clusters.
struct Register<'a> {
    clusters: Vec<Cluster<'a>>,
    /// Moments from which on an uncertain call may make the key absent, once each. Sorted.
    absences: Vec<u64>,
}

struct Cluster<'a> {
    effect: Effect,
    /// Who ended first (the cluster had begun by then), and who began last (it was not over by then).
    first: &'a Operation,
    last: &'a Operation,
}

enum Judgement {
    Possible {
        steps: u64,
    },
    /// Neither of these two clusters can stand before the other.
    Conflict(usize, usize),
    Impossible,
    Undecided,
}

impl<'a> Register<'a> {
    fn of(operations: &[&'a Operation]) -> Result<Self, Violation> {
        let writes = writes(operations)?;
        let mut of_value: BTreeMap<u64, Cluster<'a>> = BTreeMap::new();
        let mut clusters = Vec::new();
        let mut absences = Vec::new();
        for &operation in operations {
            match (&operation.call, &operation.outcome) {
                (_, Outcome::Refused) | (Call::Read, Outcome::Uncertain { .. }) => {}
                (Call::Delete, Outcome::Uncertain { .. }) => absences.push(operation.invoked),
                (Call::Delete, Outcome::Answered { seen: Seen::Done | Seen::Number(1), .. }) => {
                    clusters.push(Cluster::new(Effect::Delete, operation));
                }
                // A delete that found nothing is a read of nil.
                (Call::Delete | Call::Read, Outcome::Answered { seen: Seen::Nil | Seen::Number(_), .. }) => {
                    clusters.push(Cluster::new(Effect::SeesNil, operation));
                }
                (Call::Read, Outcome::Answered { seen: Seen::Value(value), .. }) => {
                    let write = writer(&writes, *value, operation)?;
                    let effect = Effect::Value { nil_from: may_be_nil_from(write) };
                    of_value.entry(*value).or_insert_with(|| Cluster::new(effect, write)).extend(operation);
                }
                (Call::Write { value, .. }, Outcome::Answered { .. }) => {
                    let effect = Effect::Value { nil_from: may_be_nil_from(operation) };
                    of_value.entry(*value).or_insert_with(|| Cluster::new(effect, operation));
                }
                // Counts only if somebody saw it, who then brings it in.
                (Call::Write { .. }, Outcome::Uncertain { .. }) => {}
                _ => unreachable!("calls and answers were compared before"),
            }
        }
        for (value, write) in &writes {
            let uncertain = matches!(write.outcome, Outcome::Uncertain { .. });
            if uncertain && !of_value.contains_key(value) && may_be_nil_from(write) < u64::MAX {
                absences.push(may_be_nil_from(write));
            }
        }
        clusters.extend(of_value.into_values());
        absences.sort_unstable();
        Ok(Register { clusters, absences })
    }

    fn judge(&self) -> Judgement {
        if let Some((a, b)) = self.conflicting() {
            return Judgement::Conflict(a, b);
        }
        if !self.clusters.iter().any(|cluster| matches!(cluster.effect, Effect::SeesNil)) {
            return Judgement::Possible { steps: 0 };
        }
        let item = |cluster: &Cluster<'_>| Item {
            first_end: cluster.first.end(),
            last_start: cluster.last.invoked,
            effect: cluster.effect,
        };
        let items: Vec<Item> = self.clusters.iter().map(item).collect();
        match nil_order::search(&items, &self.absences, BUDGET) {
            Verdict::Possible { steps } => Judgement::Possible { steps },
            Verdict::Impossible => Judgement::Impossible,
            Verdict::Undecided => Judgement::Undecided,
        }
    }

    /// Two clusters of which each has surely begun before the other is over.
    ///
    /// A cluster whose first end is before its last start surely lasts from the one to the other: call that a reign. Of two
    /// that conflict at least one reigns. So it is enough that reigns do not overlap, and that no other lies within one.
    fn conflicting(&self) -> Option<(usize, usize)> {
        let zone = |&index: &usize| (self.clusters[index].first.end(), self.clusters[index].last.invoked);
        let (mut reigns, others): (Vec<usize>, Vec<usize>) = (0..self.clusters.len()).partition(|index| {
            let (begun, lasts) = zone(index);
            begun < lasts
        });
        reigns.sort_by_key(zone);
        for pair in reigns.windows(2) {
            if zone(&pair[1]).0 < zone(&pair[0]).1 {
                return Some((pair[0], pair[1]));
            }
        }
        for other in others {
            let (end, start) = zone(&other);
            let before = reigns.partition_point(|reign| zone(reign).0 < start);
            if before > 0 && end < zone(&reigns[before - 1]).1 {
                return Some((reigns[before - 1], other));
            }
        }
        None
    }
}

impl<'a> Cluster<'a> {
    fn new(effect: Effect, operation: &'a Operation) -> Self {
        Cluster { effect, first: operation, last: operation }
    }

    fn extend(&mut self, read: &'a Operation) {
        if read.end() < self.first.end() {
            self.first = read;
        }
        if read.invoked > self.last.invoked {
            self.last = read;
        }
    }
}

/// Every write, by its value; refused ones too.
fn writes<'a>(operations: &[&'a Operation]) -> Result<BTreeMap<u64, &'a Operation>, Violation> {
    let mut writes = BTreeMap::new();
    for &operation in operations {
        let Call::Write { value, .. } = operation.call else { continue };
        if let Some(other) = writes.insert(value, operation) {
            return Err(Violation::new("history", format!("value {value} was written twice"), &[other, operation]));
        }
    }
    Ok(writes)
}

/// The write that `read` saw.
fn writer<'a>(
    writes: &BTreeMap<u64, &'a Operation>,
    value: u64,
    read: &'a Operation,
) -> Result<&'a Operation, Violation> {
    match writes.get(&value) {
        None => Err(Violation::new(NAME, format!("nobody wrote {value}"), &[read]).called(Wrong::Order)),
        Some(write) if write.was_refused() => {
            Err(Violation::new(NAME, format!("{value} was refused, and seen"), &[write, read]).called(Wrong::Order))
        }
        Some(write) if write.invoked > read.end() => {
            Err(Violation::new(NAME, format!("{value} was seen before it was written"), &[write, read])
                .called(Wrong::Order))
        }
        Some(write) => Ok(write),
    }
}

fn conflict(a: &Cluster<'_>, b: &Cluster<'_>) -> Violation {
    let name = |cluster: &Cluster<'_>| match (cluster.effect, &cluster.first.call, cluster.first.seen()) {
        (Effect::Delete, ..) => "the delete".to_owned(),
        (Effect::SeesNil, ..) => "nil".to_owned(),
        (_, Call::Write { value, .. }, _) | (_, _, Some(Seen::Value(value))) => format!("value {value}"),
        _ => unreachable!("the cluster of a value is a write and reads of it"),
    };
    let what = format!("{} cannot come before {}, nor after it", name(a), name(b));
    Violation::new(NAME, what, &[a.first, a.last, b.first, b.last])
}

/// Leaves out what does not matter, to show the rest. What is left out makes the history no harder to explain: reads, and writes
/// that are not read and do not expire. So what remains is impossible by itself.
fn smallest_impossible<'a>(operations: &[&'a Operation]) -> Vec<&'a Operation> {
    let impossible = |operations: &[&Operation]| {
        Register::of(operations)
            .is_ok_and(|register| matches!(register.judge(), Judgement::Impossible | Judgement::Conflict(..)))
    };
    let removable = |operation: &Operation| match operation.call {
        Call::Write { ttl, .. } => ttl.is_none(),
        Call::Read => true,
        _ => matches!(operation.seen(), Some(Seen::Nil | Seen::Number(0))),
    };
    let mut rest: Vec<&Operation> = operations.iter().filter(|operation| !operation.was_refused()).copied().collect();
    let mut chunk = rest.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        while at < rest.len() {
            let end = rest.len().min(at + chunk);
            let kept = |(index, operation): (usize, &&'a Operation)| {
                (index < at || index >= end || !removable(operation)).then_some(*operation)
            };
            let fewer: Vec<&Operation> = rest.iter().enumerate().filter_map(kept).collect();
            if fewer.len() < rest.len() && impossible(&fewer) {
                rest = fewer;
            } else {
                at = end;
            }
        }
        chunk /= 2;
    }
    // What began after everything that was seen has nothing to do with it.
    let seen = rest.iter().filter(|operation| removable(operation) && operation.seen().is_some());
    let over = seen.map(|operation| operation.end()).max().unwrap_or(u64::MAX);
    rest.retain(|operation| operation.invoked <= over);
    rest
}
