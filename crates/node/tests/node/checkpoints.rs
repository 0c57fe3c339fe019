//! When a checkpoint is worth what it costs.

use bytes::Bytes;
use node::{Config, NodeDurable, NodeRecord, Station};
use phaser::Record;
use values::Command;

use crate::small::{ME, Small, town};

/// All in one slot, so in one bucket of four.
fn set(key: usize, bytes: usize) -> Command {
    Command::set(Bytes::from(format!("{{a}}{key}")), vec![7; bytes].into(), None)
}

fn start(checkpoint_every: u64, log_bytes: u64) -> Small {
    let phaser = phaser::Config { checkpoint_every, ..phaser::Config::default() };
    let config = Config { phaser, log_bytes, ..Config::default() };
    let mut small = Small::start_with(&config, ME, 1, NodeDurable::default());
    small.push(&town());
    small.settle();
    small
}

/// Whether a checkpoint was written down meanwhile.
fn write(small: &mut Small, number: usize, command: Command) -> bool {
    small.ask(0, number as u64, command);
    small.flush(Station::Lane(0));
    small.settle();
    let is_save = |record: &NodeRecord| matches!(record, NodeRecord::Bucket { record: Record::Save(_), .. });
    std::mem::take(&mut small.records).iter().any(is_save)
}

/// How many writes of 100 bytes there are between two checkpoints of a bucket in which that many values of 1,000 bytes lie.
fn writes_between_checkpoints(values: usize, log_bytes: u64) -> usize {
    let (mut small, mut taken) = (start(10, log_bytes), Vec::new());
    for number in 0..values + 5_000 {
        let command = if number < values { set(number, 1_000) } else { set(0, 100) };
        if write(&mut small, number, command) && number > values {
            taken.push(number);
        }
    }
    assert!(taken.len() >= 2, "a log does not grow for ever: {taken:?}");
    taken[taken.len() - 1] - taken[taken.len() - 2]
}

#[test]
fn a_small_bucket_is_written_down_every_few_entries() {
    assert_eq!(writes_between_checkpoints(0, 0), 10);
}

#[test]
fn a_large_bucket_waits_until_its_log_is_worth_it() {
    let writes = writes_between_checkpoints(200, 0);
    assert!((200..=700).contains(&writes), "a quarter of some 200,000 bytes: {writes}");
}

#[test]
fn each_log_has_its_share_of_what_all_may_take() {
    let writes = writes_between_checkpoints(0, 4 * 30_000);
    assert!((150..=300).contains(&writes), "30,000 bytes for each of four: {writes}");
}

/// Memory is bounded in bytes, not only in entries.
#[test]
fn a_few_large_entries_are_enough() {
    let mut small = start(4096, 0);
    let written = (0..).find(|number| write(&mut small, *number, set(0, 100_000)));
    assert!(written.is_some_and(|number| (8..=14).contains(&number)), "a megabyte: {written:?}");
}

/// (It was found not to be due after many small entries, and looked at again only after as many large ones.)
#[test]
fn entries_that_grow_are_noticed() {
    let mut small = start(10, 4 * 1_000_000);
    assert!((0..2_000).all(|number| !write(&mut small, number, set(0, 10))), "far from a megabyte");
    let large = (2_000..3_000).find(|number| write(&mut small, *number, set(0, 100_000)));
    assert!(large.is_some_and(|number| number <= 2_000 + 25), "ten of them, and those until it looks again: {large:?}");
}
