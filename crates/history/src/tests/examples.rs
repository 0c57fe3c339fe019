//! One history per thing that can go wrong, and beside it the one that looks like it and is right.

use super::*;

fn write(invoked: u64, at: u64, value: u64) -> Operation {
    operation(invoked, Call::Write { value, ttl: None }, answered(at, Seen::Done))
}

fn write_for(invoked: u64, at: u64, value: u64, ttl: u64) -> Operation {
    operation(invoked, Call::Write { value, ttl: Some(ttl * MS) }, answered(at, Seen::Done))
}

fn read(invoked: u64, at: u64, value: u64) -> Operation {
    operation(invoked, Call::Read, answered(at, Seen::Value(value)))
}

fn nil(invoked: u64, at: u64) -> Operation {
    operation(invoked, Call::Read, answered(at, Seen::Nil))
}

fn delete(invoked: u64, at: u64) -> Operation {
    operation(invoked, Call::Delete, answered(at, Seen::Done))
}

fn push(invoked: u64, at: u64, item: u64, length: i64) -> Operation {
    operation(invoked, Call::Push { item }, answered(at, Seen::Number(length)))
}

fn range(invoked: u64, at: u64, items: &[u64]) -> Operation {
    operation(invoked, Call::Range, answered(at, Seen::Items(items.to_vec())))
}

fn incr(invoked: u64, at: u64, value: i64) -> Operation {
    operation(invoked, Call::Incr, answered(at, Seen::Number(value)))
}

fn count(invoked: u64, at: u64, value: i64) -> Operation {
    operation(invoked, Call::Count, answered(at, Seen::Number(value)))
}

fn uncertain(of: Operation) -> Operation {
    Operation { outcome: Outcome::Uncertain { at: of.end() }, ..of }
}

fn refused(of: Operation) -> Operation {
    Operation { outcome: Outcome::Refused, ..of }
}

#[track_caller]
fn right(operations: &[Operation]) {
    if let Err(violation) = (History { operations: operations.to_vec() }).check() {
        panic!("{violation}");
    }
}

#[track_caller]
fn wrong(checker: &'static str, operations: &[Operation]) {
    assert_eq!(checker_of(operations), Some(checker));
}

#[test]
fn registers_read_what_was_written_last() {
    right(&[nil(0, 1), write(2, 3, 7), read(4, 5, 7), write(6, 7, 8), read(8, 9, 8), delete(10, 11), nil(12, 13)]);
    right(&[write(0, 10, 7), write(0, 10, 8), read(11, 12, 8)]);
    right(&[write(0, 10, 7), write(0, 10, 8), read(11, 12, 7)]);
    right(&[write(0, 1, 7), write(2, 10, 8), read(3, 4, 8), read(5, 6, 8)]);
    right(&[write(0, 1, 7), write(2, 10, 8), read(3, 4, 7), read(5, 6, 8)]);
}

#[test]
fn a_stale_read() {
    let stale = [write(0, 1, 7), write(2, 3, 8), read(4, 5, 7), read(6, 7, 8)];
    wrong("linearizable", &stale);
    wrong("linearizable", &[write(0, 1, 7), write(2, 10, 8), read(3, 4, 8), read(5, 6, 7), read(11, 12, 8)]);
    wrong("linearizable", &[write(0, 10, 7), write(0, 10, 8), read(11, 12, 8), read(13, 14, 7)]);
}

#[test]
fn values_out_of_nowhere() {
    wrong("linearizable", &[read(0, 1, 7)]);
    wrong("linearizable", &[refused(write(0, 1, 7)), read(2, 3, 7)]);
    wrong("linearizable", &[read(0, 1, 7), write(2, 3, 7)]);
    right(&[read(0, 2, 7), write(2, 3, 7)]);
}

#[test]
fn a_lost_write() {
    wrong("no_acknowledged_write_lost", &[write(0, 1, 7), write(2, 3, 8), read(4, 5, 7)]);
    wrong("no_acknowledged_write_lost", &[write(0, 1, 7), nil(4, 5)]);
    wrong("no_acknowledged_write_lost", &[delete(0, 1), write(2, 3, 7), nil(4, 5)]);
    right(&[delete(0, 2), write(2, 3, 7), nil(4, 5)]);
    right(&[uncertain(delete(0, 1)), write(2, 3, 7), nil(4, 5)]);
}

#[test]
fn an_uncertain_write_may_take_effect_late_but_not_twice() {
    let late = uncertain(write(0, 1, 7));
    right(&[late.clone(), write(2, 3, 8), read(4, 5, 8), read(6, 7, 7), read(8, 9, 7)]);
    right(&[late.clone(), write(2, 3, 8), read(4, 5, 8)]);
    wrong(
        "linearizable",
        &[late.clone(), write(2, 3, 8), read(4, 5, 7), read(6, 7, 8), read(8, 9, 7), read(10, 11, 8)],
    );
    wrong("linearizable", &[write(2, 3, 8), read(4, 5, 8), late, read(6, 7, 7), read(8, 9, 8)]);
}

#[test]
fn an_uncertain_delete_may_happen_once() {
    let late = uncertain(delete(2, 3));
    right(&[write(0, 1, 7), late.clone(), read(4, 5, 7), nil(6, 7), nil(8, 9)]);
    wrong("linearizable", &[write(0, 1, 7), late.clone(), nil(4, 5), read(6, 7, 7)]);
    let twice = [write(0, 1, 7), late.clone(), nil(4, 5), write(6, 7, 8), read(8, 9, 8), nil(10, 11)];
    assert!(checker_of(&twice).is_some());
    right(&[&twice[..], &[late]].concat());
}

#[test]
fn nil_then_value() {
    wrong("linearizable", &[write(0, 1, 7), delete(2, 3), nil(4, 5), read(6, 7, 7)]);
    wrong("linearizable", &[write(0, 1, 7), nil(4, 5), read(6, 7, 7)]);
    wrong("linearizable", &[write_for(0, 1, 7, 10), nil(11, 12), read(13, 14, 7)]);
}

#[test]
fn expiry_is_not_early_and_may_be_late() {
    right(&[write_for(0, 1, 7, 1000), nil(970, 971)]);
    right(&[write_for(0, 1, 7, 1000), nil(960, 970)]);
    right(&[write_for(0, 1, 7, 1000), read(5000, 5001, 7), nil(5002, 5003)]);
    wrong("no_acknowledged_write_lost", &[write_for(0, 1, 7, 1000), nil(960, 969)]);
    wrong("linearizable", &[write_for(0, 1, 7, 1000), nil(960, 969), write(1000, 1001, 8), read(1002, 1003, 8)]);
    wrong("linearizable", &[write_for(0, 1, 7, 10), write(2, 3, 8), nil(50, 51), write(60, 61, 9), read(62, 63, 9)]);
    // Written anew: its time counts from then.
    wrong(
        "linearizable",
        &[write_for(0, 1, 7, 10), write_for(8, 9, 8, 10), nil(12, 13), write(20, 21, 9), read(22, 23, 9)],
    );
    // Nobody saw the uncertain write, but it can have replaced 7 and expired.
    right(&[write(0, 1, 7), uncertain(write_for(2, 3, 8, 10)), nil(50, 51)]);
    assert!(checker_of(&[write(0, 1, 7), uncertain(write_for(2, 3, 8, 100)), nil(50, 51)]).is_some());
}

#[test]
fn a_delete_that_found_nothing() {
    let found = |number, invoked| operation(invoked, Call::Delete, answered(invoked + 1, Seen::Number(number)));
    right(&[write(0, 1, 7), found(1, 2), found(0, 4)]);
    assert!(checker_of(&[write(0, 1, 7), found(0, 2), read(4, 5, 7)]).is_some());
}

#[test]
fn lists_in_order() {
    right(&[range(0, 1, &[]), push(2, 3, 7, 1), push(4, 5, 8, 2), range(6, 7, &[7, 8])]);
    right(&[push(0, 9, 7, 2), push(0, 9, 8, 1), range(1, 9, &[8]), range(10, 11, &[8, 7])]);
    right(&[uncertain(push(0, 1, 7, 0)), push(2, 3, 8, 1), range(4, 5, &[8]), range(6, 7, &[8, 7])]);
    right(&[uncertain(push(0, 1, 7, 0)), push(2, 3, 8, 2)]);
    wrong("list_order", &[push(0, 1, 7, 2), push(2, 3, 8, 1), range(6, 7, &[8, 7])]);
    wrong("list_order", &[push(0, 1, 7, 2), push(2, 3, 8, 1)]);
    wrong("list_order", &[push(0, 9, 7, 1), push(0, 9, 8, 2), range(10, 11, &[8, 7])]);
    wrong("list_order", &[push(0, 9, 7, 1), push(0, 9, 8, 1)]);
    wrong("list_order", &[push(0, 1, 7, 1), range(2, 3, &[]), range(4, 5, &[7])]);
    wrong("list_order", &[push(0, 9, 7, 1), range(1, 2, &[7]), range(3, 4, &[]), range(10, 11, &[7])]);
    wrong("list_order", &[push(0, 9, 7, 1), push(0, 9, 8, 2), range(1, 3, &[8]), range(10, 11, &[7, 8])]);
}

#[test]
fn items_out_of_nowhere_twice_or_lost() {
    wrong("list_order", &[uncertain(push(0, 1, 7, 0)), range(2, 3, &[9])]);
    wrong("exactly_once", &[push(0, 1, 7, 1), range(2, 3, &[7, 7])]);
    wrong("exactly_once", &[refused(push(0, 1, 7, 0)), push(2, 3, 8, 2)]);
    wrong("list_order", &[refused(push(0, 1, 7, 0)), uncertain(push(2, 3, 8, 2)), range(4, 5, &[7])]);
    wrong("exactly_once", &[push(0, 1, 7, 2), uncertain(push(2, 3, 8, 0))]);
    wrong("list_order", &[push(0, 1, 7, 1), range(2, 3, &[7, 8]), push(4, 5, 8, 2)]);
    wrong("no_acknowledged_write_lost", &[push(0, 1, 7, 1), push(2, 3, 8, 2), range(4, 5, &[7])]);
    wrong("no_acknowledged_write_lost", &[push(0, 1, 7, 1), push(2, 9, 8, 1), range(10, 11, &[8])]);
}

#[test]
fn counters() {
    right(&[count(0, 1, 0), incr(2, 3, 1), incr(4, 9, 3), incr(4, 9, 2), count(4, 9, 2), count(10, 11, 3)]);
    right(&[uncertain(incr(0, 1, 0)), incr(2, 3, 1), count(4, 5, 1), incr(6, 7, 3), count(8, 9, 3)]);
    wrong("counter", &[incr(0, 9, 1), incr(0, 9, 1)]);
    wrong("counter", &[incr(0, 1, 2), incr(2, 3, 1), count(4, 5, 2)]);
}

#[test]
fn counted_twice_stale_or_lost() {
    wrong("exactly_once", &[incr(0, 1, 1), count(2, 3, 2)]);
    wrong("exactly_once", &[incr(0, 1, 1), refused(incr(2, 3, 0)), count(4, 5, 2)]);
    wrong("exactly_once", &[incr(0, 1, 2), uncertain(incr(2, 3, 0))]);
    // Enough had begun by the time of each answer, but to get from 1 to 3 somebody else would have had to.
    let late = uncertain(incr(10, 11, 0));
    wrong("exactly_once", &[incr(0, 9, 1), incr(2, 3, 3), incr(0, 20, 5), late.clone(), late]);
    wrong("counter", &[incr(0, 1, 1), count(2, 3, 0), count(4, 5, 1)]);
    wrong("counter", &[incr(0, 9, 1), count(1, 2, 1), count(3, 4, 0), count(10, 11, 1)]);
    wrong("no_acknowledged_write_lost", &[incr(0, 1, 1), incr(2, 3, 2), count(4, 5, 1)]);
    wrong("no_acknowledged_write_lost", &[incr(0, 9, 1), incr(0, 9, 1), count(10, 11, 1)]);
}

#[test]
fn records_that_make_no_sense() {
    wrong("history", &[write(0, 1, 7), count(2, 3, 0)]);
    wrong("history", &[write(5, 4, 7)]);
    wrong("history", &[write(0, 1, 7), write(2, 3, 7)]);
    wrong("history", &[push(0, 1, 7, 1), push(2, 3, 7, 2)]);
    wrong("history", &[operation(0, Call::Read, answered(1, Seen::Done))]);
}

#[test]
fn a_violation_shows_what_matters() {
    let noise = (0..40).flat_map(|n| [write(n * 10, n * 10 + 2, n), read(n * 10 + 3, n * 10 + 4, n)]);
    let wrong = [nil(213, 214)];
    let operations: Vec<Operation> = noise.chain(wrong).collect();
    let violation = History { operations }.check().expect_err("nothing made it nil");
    expect_test::expect![[r#"
        linearizable: key 1: no order of these explains what was seen
          [0.210000s … 0.212000s] client 0: write 21 → done
          [0.213000s … 0.214000s] client 0: read → nil"#]]
    .assert_eq(&violation.to_string());
}

/// One violation for each key that has any; `check` stops at the first.
#[test]
fn a_judgement_goes_on_after_the_first_violation() {
    let of = |key, operation: Operation| Operation { key, ..operation };
    let operations = vec![
        of(3, push(0, 1, 7, 1)),
        of(3, push(2, 3, 8, 2)),
        of(3, range(4, 5, &[])),
        of(1, write(0, 1, 5)),
        of(1, read(2, 3, 5)),
        of(2, incr(0, 1, 1)),
        of(2, count(2, 3, 2)),
    ];
    let history = History { operations };
    let judgement = history.judge();
    let found: Vec<_> = judgement.violations.iter().map(|it| (it.key, it.wrong, it.times)).collect();
    assert_eq!(found, [(2, Wrong::Twice, 1), (3, Wrong::Lost, 2)]);
    assert_eq!((judgement.stats.answered, judgement.stats.registers), (7, 1));
    assert_eq!(history.check(), Err(judgement.violations[0].clone()));
    assert_eq!(history.story(3).len(), 3);
}
