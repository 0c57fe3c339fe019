//! Lives of a journal that end badly in one particular way: what went wrong once, or could.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use blueprint::{BucketId, Durability, Epoch, LaneId};
use common::disk::BadDisk;
use common::history::{absorbed, append, found};
use common::{open, options, recover};
use journal::{Journal, Note, OpenError, Options, Outcome, State};
use node::{BatchId, NodeRecord};

fn write(journal: &Journal, id: u64, records: &[NodeRecord]) {
    journal.write(0, BatchId(id), Durability::Disk, records.to_vec()).expect("it is taken");
}

/// Large enough for all that a test writes.
fn roomy() -> Options {
    Options { segment_bytes: 16 << 10, census_every: 1 << 20, ..options() }
}

fn log_length(disk: &Arc<BadDisk>, bucket: u64) -> u64 {
    recover(disk, roomy()).node.replicas[&BucketId(bucket)].log.len()
}

/// 1. A life writes its first segment; power is lost during the first sync, and of all its sectors only those with the header are
///    gone. 2. The next life begins the same segment in the same file, and what it writes is shorter. 3. What is left of the first life
///    behind it must not pass for its continuation.
#[test]
fn what_a_life_without_a_header_left_is_void() {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, roomy());
    let mut records = vec![found(5), found(6), append(5, 1, 0, &[9; 7])];
    write(&journal, 1, &records);
    journal.sync().unwrap();
    drop(journal);

    let (journal, _) = Journal::open_on(disk.clone(), roomy(), &mut |_| {}).unwrap();
    write(&journal, 1, &[append(5, 1, 7, &[9]), append(6, 1, 0, &[1200]), append(5, 1, 8, &[9])]);
    disk.fail_syncs(true);
    journal.start(|_, _| {}, common::on_stored);
    assert!(matches!(journal.sync(), Err(State::Failed { .. })), "nothing was acknowledged");
    drop(journal);
    let disk = disk.after_power_cut_of(|sector| !sector.starts_with(b"godwit\0J"));

    let (journal, recovered, reports) = open(&disk, roomy());
    assert_eq!(recovered.node, absorbed(&records));
    let acknowledged = [append(5, 1, 7, &[9, 9, 9]), append(6, 1, 0, &[9])];
    write(&journal, 1, &acknowledged);
    journal.sync().unwrap();
    assert_eq!(reports.upto(0), 1);
    drop(journal);
    records.extend(acknowledged);
    assert_eq!(log_length(&disk.after_kill(), 5), 10, "what was acknowledged is there");
    assert_eq!(recover(&disk.after_kill(), roomy()).node, absorbed(&records));
}

/// A block of the newest segment cannot be read. Whatever that costs, it does not keep the node from starting.
#[test]
fn a_block_that_cannot_be_read_is_no_reason_not_to_start() {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, roomy());
    let mut records = vec![found(1), found(2)];
    records.extend((0..10).map(|after| append(1 + after % 2, 1, after / 2, &[900])));
    for (id, record) in records.iter().enumerate() {
        write(&journal, id as u64 + 1, std::slice::from_ref(record));
        journal.sync().unwrap();
    }
    drop(journal);
    let disk = disk.after_kill();
    for block in 0..3 {
        let disk = disk.after_kill();
        disk.make_unreadable("00000001.segment", block);
        let recovered = recover(&disk, roomy());
        assert!(recovered.notes.iter().any(|note| matches!(note, Note::Unreadable { .. })), "block {block}");
        let expected = absorbed(&records);
        for bucket in [BucketId(1), BucketId(2)] {
            let held = recovered.node.replicas.get(&bucket);
            assert!(held.is_none_or(|held| *held == expected.replicas[&bucket]), "block {block}");
            assert!(held.is_some() != recovered.node.lost.contains_key(&bucket), "block {block}");
        }
        // It goes on, and nothing changes any more.
        let (journal, _, _) = open(&disk, roomy());
        write(&journal, 1, &[found(9)]);
        journal.sync().unwrap();
        drop(journal);
        let mut expected = recovered.node;
        expected.absorb(&found(9));
        let again = recover(&disk.after_kill(), roomy()).node;
        assert_eq!((again.replicas, again.lost), (expected.replicas, expected.lost), "block {block}");
    }
}

/// After a sync that failed, the operating system may forget what it could not write, and say nothing. Whoever answered before it
/// synced is in doubt then, as after a restart of the operating system.
#[test]
fn a_failed_sync_puts_level_memory_in_doubt() {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, roomy());
    write(&journal, 1, &[found(1), found(2), append(2, 1, 0, &[5])]);
    let memory = |id, after| journal.write(0, BatchId(id), Durability::Memory, vec![append(1, 1, after, &[5])]);
    memory(2, 0).unwrap();
    journal.sync().unwrap();
    assert_eq!(memory(3, 1).unwrap(), Outcome::Written);
    disk.fail_syncs(true);
    assert!(matches!(journal.sync(), Err(State::Failed { .. })));
    drop(journal);
    // Names are there, what was written is not.
    let disk = disk.after_power_cut_of(<[u8]>::is_empty);
    let doubtful = BTreeSet::from([BucketId(1)]);
    for _ in 0..2 {
        let recovered = recover(&disk, roomy());
        assert_eq!(recovered.node.replicas[&BucketId(1)].log.len(), 1, "it is shorter");
        assert_eq!(recovered.doubtful, doubtful, "in the same run of the operating system");
    }
    // Once that stands in the journal, the note of the failure goes.
    let (journal, _, _) = open(&disk, roomy());
    write(&journal, 1, &[append(2, 1, 1, &[5])]);
    journal.sync().unwrap();
    drop(journal);
    assert!(!disk.files().iter().any(|(name, _)| name == "failed"), "{:?}", disk.files());
    assert_eq!(recover(&disk.after_kill(), roomy()).doubtful, doubtful);
}

fn epoch(number: u16, of: u16, epoch: u64) -> NodeRecord {
    NodeRecord::Epoch { lane: LaneId { number, of }, epoch: Epoch(epoch) }
}

/// Both headers of the only segment are gone, and everything with them. What is left must not look like a node that never was: it
/// would begin its replicas empty (R10). That is so until every lane has acted on an epoch again, however many lives it takes.
#[test]
fn a_journal_that_cannot_be_read_does_not_pass_for_a_new_one() {
    let disk = BadDisk::new();
    let (journal, recovered, _) = open(&disk, roomy());
    assert!(!recovered.node.epochs_in_doubt, "nothing ever was");
    let number = journal.number();
    let records = [found(1), epoch(0, 1, 5)];
    write(&journal, 1, &records);
    journal.sync().unwrap();
    drop(journal);
    let options = Options { number: Some(number), ..roomy() };
    let segment = "00000001.segment";

    let one_block = disk.after_kill();
    one_block.make_unreadable(segment, 0);
    assert_eq!(recover(&one_block, options.clone()).node, absorbed(&records), "the other header is elsewhere");

    for is_newest_damaged in [false, true] {
        let disk = disk.after_kill();
        disk.make_unreadable(segment, 0);
        disk.make_unreadable(segment, 1);
        if is_newest_damaged {
            disk.tamper("newest", |bytes| bytes[9] ^= 1);
        }
        for _ in 0..2 {
            let recovered = recover(&disk, options.clone());
            assert!(recovered.node.epochs_in_doubt && recovered.node.replicas.is_empty());
            assert!(recovered.notes.contains(&Note::EpochsInDoubt), "{:?}", recovered.notes);
        }
        let unresolved = [vec![found(7)], vec![epoch(0, 2, 9)]];
        for records in unresolved {
            let (journal, _, _) = open(&disk, options.clone());
            assert_eq!(journal.number(), number);
            write(&journal, 1, &records);
            journal.sync().unwrap();
            drop(journal);
            assert!(recover(&disk.after_power_cut(|| false), options.clone()).node.epochs_in_doubt);
        }
        let (journal, _, _) = open(&disk, options.clone());
        write(&journal, 1, &[epoch(0, 2, 9)]);
        write(&journal, 2, &[epoch(1, 2, 8)]);
        journal.sync().unwrap();
        drop(journal);
        for _ in 0..2 {
            let (journal, recovered, _) = open(&disk, options.clone());
            assert!(!recovered.node.epochs_in_doubt);
            assert_eq!(recovered.node.doubted_upto, Epoch(9), "what was named before may have been here");
            journal.close().unwrap();
        }
    }
}

/// The same where something is missing in the middle: a founding, and the census that lists it.
#[test]
fn what_was_founded_where_something_is_missing_may_have_been_here() {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, roomy());
    let batches = [vec![found(1)], vec![append(1, 1, 0, &[3000])], vec![found(2)], vec![append(1, 1, 1, &[10])]];
    for (id, batch) in batches.iter().enumerate() {
        write(&journal, id as u64 + 1, batch);
        journal.sync().unwrap();
    }
    drop(journal);
    // Only the bucket that was there before can be told to be whole.
    disk.tamper("00000001.segment", |bytes| {
        let is_frame = |at: &usize| bytes[*at..].starts_with(&[0x47, 0x6A]);
        let frames: Vec<_> = (0..bytes.len()).step_by(8).filter(is_frame).collect();
        assert_eq!(frames.len(), 7, "a census at first and after each founding: {frames:?}");
        bytes[frames[4]..frames[6]].fill(0);
    });
    let recovered = recover(&disk, roomy());
    assert!(recovered.node.epochs_in_doubt, "{:?}", recovered.notes);
    assert_eq!(recovered.node.replicas.keys().collect::<Vec<_>>(), [&BucketId(1)]);
    assert_eq!(recovered.node.replicas[&BucketId(1)].log.len(), 2, "its records prove it whole");
}

#[test]
fn a_journal_is_known_by_its_number() {
    let disk = BadDisk::new();
    let (journal, _) = Journal::open_on(disk.clone(), roomy(), &mut |_| {}).unwrap();
    let number = journal.number();
    drop(journal);
    // Also if nothing was ever written.
    let disk = disk.after_power_cut(|| false);
    let bound = |number| Options { number: Some(number), ..roomy() };
    let (journal, recovered, _) = open(&disk, bound(number));
    assert_eq!((journal.number(), recovered.node.epochs_in_doubt), (number, false));
    write(&journal, 1, &[found(1)]);
    journal.close().unwrap();
    let another = Journal::open_on(disk, bound(number + 1), &mut |_| {}).unwrap_err();
    assert!(matches!(another, OpenError::Another { .. }), "{another}");
    let gone = Journal::open_on(BadDisk::new(), bound(number), &mut |_| {}).unwrap_err();
    assert!(matches!(gone, OpenError::Gone), "{gone}");
    assert!(gone.to_string().contains("restore"), "{gone}");
}
