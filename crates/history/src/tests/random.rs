//! Histories by the thousand: those of a store that does everything right, with slow and lost answers, must pass; and small ones,
//! right or spoiled, must be judged exactly as by trying every order.

use super::*;
use proptest::prelude::*;

/// SplitMix64: enough chance for tests, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Register,
    Expiring,
    List,
    Counter,
}

const SHAPES: [Shape; 4] = [Shape::Register, Shape::Expiring, Shape::List, Shape::Counter];

/// The one key, in whichever kind.
#[derive(Clone, Default)]
struct Store {
    value: Option<u64>,
    nil_from: u64,
    items: Vec<u64>,
    count: i64,
}

impl Store {
    fn apply(&mut self, operation: &Operation) -> Seen {
        match operation.call {
            Call::Write { value, .. } => {
                self.value = Some(value);
                self.nil_from = may_be_nil_from(operation);
                Seen::Done
            }
            Call::Read => self.value.map_or(Seen::Nil, Seen::Value),
            Call::Delete => {
                self.value = None;
                Seen::Done
            }
            Call::Incr => {
                self.count += 1;
                Seen::Number(self.count)
            }
            Call::Count => Seen::Number(self.count),
            Call::Push { item } => {
                self.items.push(item);
                Seen::Number(self.items.len() as i64)
            }
            Call::Range => Seen::Items(self.items.clone()),
        }
    }
}

/// Said once more, not shared with the checker.
fn may_be_nil_from(write: &Operation) -> u64 {
    match write.call {
        Call::Write { ttl: Some(ttl), .. } => write.invoked + ttl * 97 / 100,
        _ => u64::MAX,
    }
}

/// What `clients` see of a store that does everything right. Some answers are lost, some calls refused, some happen long after
/// they were given up.
fn simulated(dice: &mut Dice, shape: Shape, clients: u64, operations: u64) -> Vec<Operation> {
    let mut free_at = vec![0; clients as usize];
    let mut all = Vec::new();
    let mut happens = Vec::new();
    for number in 0..operations {
        let client = dice.roll(clients) as usize;
        let invoked = free_at[client] + dice.roll(300);
        let point = invoked + dice.roll(200);
        let at = point + dice.roll(200);
        free_at[client] = at + 1;
        let call = match (shape, dice.roll(10)) {
            (Shape::Register, 0..4) => Call::Write { value: number, ttl: None },
            (Shape::Expiring, 0..3) => Call::Write { value: number, ttl: Some(dice.roll(1000)) },
            (Shape::Expiring, 3) => Call::Write { value: number, ttl: None },
            (Shape::Register | Shape::Expiring, 4) => Call::Delete,
            (Shape::Register | Shape::Expiring, _) => Call::Read,
            (Shape::List, 0..6) => Call::Push { item: number },
            (Shape::List, _) => Call::Range,
            (Shape::Counter, 0..6) => Call::Incr,
            (Shape::Counter, _) => Call::Count,
        };
        let (outcome, point) = match dice.roll(20) {
            0 => (Outcome::Refused, None),
            1 => (Outcome::Uncertain { at }, None),
            2 => (Outcome::Uncertain { at }, Some(point)),
            3 => (Outcome::Uncertain { at }, Some(at + dice.roll(3000))),
            _ => (answered(0, Seen::Done), Some(point)),
        };
        happens.extend(point.map(|point| (point, all.len(), at)));
        all.push(Operation { client: client as u32, key: 1, call, invoked, outcome });
    }
    happens.sort_unstable();
    let (mut store, mut lazy) = (Store::default(), 0);
    for (point, index, at) in happens {
        if store.nil_from.saturating_add(lazy) <= point {
            store.value = None;
        }
        if matches!(all[index].call, Call::Write { .. }) {
            lazy = dice.roll(100);
        }
        let seen = store.apply(&all[index]);
        if let Outcome::Answered { .. } = all[index].outcome {
            all[index].outcome = Outcome::Answered { at, seen };
        }
    }
    all
}

/// Changes an answer or two, in ways that a broken store might.
fn spoil(dice: &mut Dice, operations: &mut [Operation]) {
    let values: Vec<u64> = (0..operations.len() as u64).collect();
    for _ in 0..=dice.roll(2) {
        let index = dice.roll(operations.len() as u64) as usize;
        let Outcome::Answered { seen, .. } = &mut operations[index].outcome else { continue };
        match seen {
            Seen::Value(_) | Seen::Nil if dice.roll(3) == 0 => *seen = Seen::Nil,
            Seen::Value(_) | Seen::Nil => *seen = Seen::Value(values[dice.roll(values.len() as u64) as usize]),
            Seen::Number(number) => *number = (*number + dice.roll(4) as i64 - 2).max(1),
            Seen::Items(items) => match dice.roll(4) {
                0 => drop(items.pop()),
                1 if items.len() > 1 => items.swap(0, 1),
                2 => items.extend(items.first().copied()),
                _ => items.push(values[dice.roll(values.len() as u64) as usize]),
            },
            Seen::Done => {}
        }
    }
}

/// Tries every order.
fn explainable(operations: &[Operation]) -> bool {
    let happened = operations.iter().filter(|operation| operation.outcome != Outcome::Refused);
    continues(&Store { nil_from: u64::MAX, ..Store::default() }, &happened.collect::<Vec<_>>())
}

fn continues(store: &Store, left: &[&Operation]) -> bool {
    let Some(bound) = left.iter().filter(|it| it.seen().is_some()).map(|it| it.end()).min() else { return true };
    if store.value.is_some() && store.nil_from <= bound && continues(&Store { value: None, ..store.clone() }, left) {
        return true;
    }
    (0..left.len()).any(|next| {
        let mut after = store.clone();
        let seen = after.apply(left[next]);
        let rest: Vec<_> = left.iter().enumerate().filter(|(index, _)| *index != next).map(|(_, it)| *it).collect();
        left[next].invoked <= bound
            && left[next].seen().is_none_or(|expected| agrees(store, expected, &seen))
            && continues(&after, &rest)
    })
}

/// A delete may also say that it found nothing.
fn agrees(before: &Store, expected: &Seen, seen: &Seen) -> bool {
    expected == seen || (*seen == Seen::Done && *expected == Seen::Number(0) && before.value.is_none())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_right_store_shows_passes(seed: u64, clients in 1u64..9, operations in 1u64..300) {
        for shape in SHAPES {
            let operations = simulated(&mut Dice(seed), shape, clients, operations);
            let result = History { operations }.check();
            prop_assert!(result.is_ok(), "{shape:?}: {}", result.unwrap_err());
        }
    }

    /// A value that was replaced by a write which was over before the read began, in a history without deletes that ran late.
    #[test]
    fn a_stale_read_is_caught(seed: u64, clients in 1u64..9) {
        let mut dice = Dice(seed);
        let mut operations = simulated(&mut dice, Shape::Register, clients, 200);
        let over = |operation: &&Operation| matches!(operation.call, Call::Write { .. }) && operation.seen().is_some();
        let writes: Vec<Operation> = operations.iter().filter(over).cloned().collect();
        let reads = operations.iter_mut().filter(|it| it.call == Call::Read && it.seen().is_some());
        for read in reads.skip(dice.roll(60) as usize).take(1) {
            let newest = writes.iter().filter(|write| write.end() < read.invoked).max_by_key(|write| write.invoked);
            let old = newest.and_then(|newest| writes.iter().find(|write| write.end() < newest.invoked));
            if let Some(Operation { call: Call::Write { value, .. }, .. }) = old {
                read.outcome = Outcome::Answered { at: read.end(), seen: Seen::Value(*value) };
                prop_assert!(checker_of(&operations).is_some());
                break;
            }
        }
    }
}

/// A few registers' calls at random moments close together, with random answers: mostly wrong, in ways that no store would think of.
fn arbitrary(dice: &mut Dice, operations: u64) -> Vec<Operation> {
    // Of which 97% are a multiple of the grain below, so that expiry meets other times exactly.
    let ttl = |dice: &mut Dice| (dice.roll(8) * 10_000).div_ceil(97);
    let one = |number| {
        let invoked = dice.roll(1200);
        let at = invoked + dice.roll(600);
        let call = match dice.roll(8) {
            0 => Call::Delete,
            1..4 => Call::Write { value: number, ttl: (dice.roll(2) == 0).then(|| ttl(dice)) },
            _ => Call::Read,
        };
        let seen = match (&call, dice.roll(3)) {
            (Call::Read, 0) => Seen::Value(dice.roll(operations)),
            (Call::Read, _) => Seen::Nil,
            (Call::Delete, 0) => Seen::Number(0),
            _ => Seen::Done,
        };
        let outcome = if dice.roll(4) == 0 { Outcome::Uncertain { at } } else { Outcome::Answered { at, seen } };
        Operation { client: number as u32, key: 1, call, invoked, outcome }
    };
    (0..operations).map(one).collect()
}

/// Rounds all times, so that many are equal.
fn coarse(mut operations: Vec<Operation>) -> Vec<Operation> {
    for operation in &mut operations {
        operation.invoked -= operation.invoked % 100;
        if let Outcome::Answered { at, .. } | Outcome::Uncertain { at } = &mut operation.outcome {
            *at -= *at % 100;
        }
    }
    operations
}

/// Whether it passes, the same by both.
fn judged(operations: &[Operation]) -> bool {
    let result = History { operations: operations.to_vec() }.check();
    assert_eq!(result.is_ok(), explainable(operations), "{result:?} {operations:#?}");
    result.is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn judges_like_trying_every_order(seed: u64, clients in 1u64..6, operations in 1u64..8, spoiled: bool) {
        for shape in SHAPES {
            let mut dice = Dice(seed);
            let mut operations = simulated(&mut dice, shape, clients, operations);
            if spoiled {
                spoil(&mut dice, &mut operations);
            }
            judged(&operations);
            judged(&coarse(operations));
        }
        let operations = arbitrary(&mut Dice(seed), operations);
        judged(&operations);
        judged(&coarse(operations));
    }
}

/// The comparison above would prove little if nearly all were right, or nearly all wrong.
#[test]
fn random_histories_are_right_and_wrong_often_enough() {
    let share =
        |make: &dyn Fn(&mut Dice) -> Vec<Operation>| (0..500).filter(|&seed| judged(&make(&mut Dice(seed)))).count();
    for shape in SHAPES {
        let right = share(&|dice| {
            let mut operations = simulated(dice, shape, 4, 7);
            spoil(dice, &mut operations);
            operations
        });
        assert!((50..450).contains(&right), "{shape:?}: {right} of 500 are right");
    }
    let right = share(&|dice| arbitrary(dice, 7));
    assert!((50..450).contains(&right), "arbitrary: {right} of 500 are right");
}
