//! The disk changes what was written. Whatever comes back is either exactly what was there, or said to be lost.

mod common;

use std::sync::Arc;

use blueprint::{BucketId, Durability};
use common::disk::BadDisk;
use common::history::{Author, Wish, absorbed, append, found, save};
use common::{open, options, stored};
use journal::{Journal, Note, Recovered};
use node::{BatchId, NodeDurable, NodeRecord};
use proptest::prelude::*;

#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Clean,
    Kill,
}

/// A history over several segments, with checkpoints, a quiet bucket, one that is erased, and epochs.
fn history(ending: Ending) -> (Arc<BadDisk>, Vec<NodeRecord>) {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, options());
    let mut author = Author::default();
    let mut records = vec![found(9), append(9, 1, 0, &[60, 60]), save(9, 1, &[(2, 70)])];
    records.iter().for_each(|record| author.node.absorb(record));
    journal.write(0, BatchId(1), Durability::Disk, stored(&journal, 0, &records).unwrap()).unwrap();
    for round in 0u64..60 {
        let bucket = 1 + round % 4;
        let wish = match round % 13 {
            5 => Wish::Commit,
            7 => Wish::Save { slots: vec![((round % 16) as u16, 120), (3, 50)] },
            9 => Wish::Cut,
            11 => Wish::Epoch,
            12 => Wish::Promise,
            _ => Wish::Append { entries: vec![100, 40], back: 0 },
        };
        let wish = if round == 50 { Wish::Erase } else { wish };
        let record = author.write(bucket, &wish);
        let given = stored(&journal, 0, std::slice::from_ref(&record)).unwrap();
        journal.write(0, BatchId(2 + round), Durability::Disk, given).unwrap();
        journal.sync().unwrap();
        records.push(record);
    }
    match ending {
        Ending::Clean => journal.close().unwrap(),
        Ending::Kill => drop(journal),
    }
    (disk.after_kill(), records)
}

fn recover(disk: &Arc<BadDisk>) -> Recovered {
    Journal::open_on(disk.clone(), options(), &mut |_| {}).expect("damage is no reason not to start").1
}

/// Each replica is what it was, or lost; nothing is invented; epochs are right, or it is said that they may not be.
fn check_said(expected: &NodeDurable, after: &Recovered, what: &str) {
    for (bucket, durable) in &expected.replicas {
        match (after.node.replicas.get(bucket), after.node.lost.get(bucket)) {
            (Some(held), None) => assert!(held == durable, "{what}: {bucket} is not what was written"),
            (None, Some(lost)) => {
                assert_eq!(lost.origin, durable.origin, "{what}: {bucket}");
                assert!(lost.incarnation >= durable.me.incarnation, "{what}: {bucket} was here under a later name");
                assert!(after.notes.contains(&Note::ReplicaLost { bucket: *bucket }), "{what}: not said");
            }
            other => panic!("{what}: {bucket} is {other:?}"),
        }
    }
    for bucket in after.node.replicas.keys() {
        assert!(expected.replicas.contains_key(bucket), "{what}: {bucket} came back from the dead");
    }
    assert!(after.node.epochs == expected.epochs || after.node.epochs_in_doubt, "{what}: epochs went back in silence");
}

/// The end of the journal is missing, and that is noted.
fn is_noted_prefix(records: &[NodeRecord], after: &Recovered) -> bool {
    let mut node = NodeDurable::default();
    let is_prefix = node == after.node
        || records.iter().any(|record| {
            node.absorb(record);
            node == after.node
        });
    is_prefix && after.notes.iter().any(|note| matches!(note, Note::TornTail { .. }))
}

#[test]
fn a_flipped_bit_after_a_clean_stop() {
    let (disk, records) = history(Ending::Clean);
    let expected = absorbed(&records);
    assert_eq!(recover(&disk).node, expected);
    let (mut lost, mut tried) = (0, 0);
    for (name, length) in disk.files() {
        for bit in (0..length * 8).step_by(97) {
            let damaged = disk.after_kill();
            damaged.tamper(&name, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let after = recover(&damaged);
            check_said(&expected, &after, &format!("bit {bit} of {name}"));
            lost += after.node.lost.len();
            tried += 1;
            assert!(after.node.lost.len() <= 1, "one bit of {name} costs one replica: {bit} {:?}", after.notes);
        }
    }
    assert!(tried > 1000 && lost > 100, "{lost} of {tried}");
}

#[test]
fn a_flipped_bit_after_a_kill() {
    let (disk, records) = history(Ending::Kill);
    let expected = absorbed(&records);
    for (name, length) in disk.files() {
        for bit in (0..length * 8).step_by(101) {
            let damaged = disk.after_kill();
            damaged.tamper(&name, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let after = recover(&damaged);
            if !is_noted_prefix(&records, &after) {
                check_said(&expected, &after, &format!("bit {bit} of {name}"));
            }
        }
    }
}

#[test]
fn sectors_and_files_that_are_gone() {
    let (disk, records) = history(Ending::Clean);
    let expected = absorbed(&records);
    for (name, length) in disk.files() {
        for from in (0..length).step_by(512) {
            for until in [from + 512, length] {
                let damaged = disk.after_kill();
                damaged.tamper(&name, |bytes| {
                    let until = until.min(bytes.len());
                    bytes[from..until].fill(0);
                });
                let after = recover(&damaged);
                if !is_noted_prefix(&records, &after) {
                    check_unless_unknown(&expected, &after, &format!("{name} from {from} until {until}"));
                }
            }
        }
    }
}

/// A whole file of records is gone: buckets that were only in there cannot be named, but something must be said.
fn check_unless_unknown(expected: &NodeDurable, after: &Recovered, what: &str) {
    if after.notes.is_empty() {
        assert_eq!(&after.node, expected, "{what}");
    }
    for (bucket, held) in &after.node.replicas {
        assert_eq!(expected.replicas.get(bucket), Some(held), "{what}: {bucket}");
    }
}

#[test]
fn the_tail_cut_at_every_byte() {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, options());
    let records = [found(1), append(1, 1, 0, &[10]), append(1, 1, 1, &[20]), append(1, 1, 2, &[30])];
    for (id, record) in records.iter().enumerate() {
        journal.write(0, BatchId(id as u64 + 1), Durability::Disk, vec![record.clone()]).unwrap();
        journal.sync().unwrap();
    }
    drop(journal);
    let disk = disk.after_kill();
    let name = "00000001.segment";
    let used = disk.bytes(name).iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let (mut lengths, mut missing) = (std::collections::BTreeSet::new(), 0);
    for cut in 4608..=used {
        let damaged = disk.after_kill();
        damaged.tamper(name, |bytes| bytes[cut..].fill(0));
        let after = recover(&damaged);
        if after.notes.iter().any(|note| matches!(note, Note::Missing { .. } | Note::Damaged { .. })) {
            // The first batch, a founding and a census, is known to have been synced.
            assert!(after.node.replicas.is_empty() || after.node == absorbed(&records[..1]), "cut at {cut}");
            missing += 1;
            continue;
        }
        assert!(after.node.lost.is_empty(), "what is missing is the end: {cut} {:?}", after.notes);
        let is_prefix = (0..=records.len()).any(|n| absorbed(&records[..n]) == after.node);
        assert!(is_prefix, "cut at {cut}");
        lengths.insert(after.node.replicas.get(&BucketId(1)).map(|durable| durable.log.len()));
        // And it can be gone on with.
        let (journal, _, _) = open(&damaged, options());
        journal.write(0, BatchId(1), Durability::Disk, vec![found(5)]).unwrap();
        journal.sync().unwrap();
        drop(journal);
        let mut expected = after.node.clone();
        expected.absorb(&found(5));
        assert_eq!(recover(&damaged).node, expected, "cut at {cut}");
    }
    assert!(missing > 100 && missing < 400, "{missing} of {used}");
    assert_eq!(lengths.len(), 4, "from 0 to 3 entries: {lengths:?}");
}

#[test]
fn a_lost_replica_stays_lost_until_it_is_founded_again() {
    let (disk, _) = history(Ending::Clean);
    let tables = disk.files().into_iter().find(|(name, _)| name.starts_with("bucket-9-")).unwrap().0;
    disk.tamper(&tables, |bytes| bytes[3] ^= 1);
    for _ in 0..2 {
        let (journal, recovered, _) = open(&disk, options());
        assert_eq!(recovered.node.lost.keys().collect::<Vec<_>>(), [&BucketId(9)]);
        // Other records come, also for the lost one, which they do not bring back.
        let stray = append(9, 1, 2, &[5]);
        journal.write(0, BatchId(1), Durability::Disk, vec![found(20), stray]).unwrap();
        journal.close().unwrap();
    }
    let (journal, _, _) = open(&disk, options());
    journal.write(0, BatchId(1), Durability::Disk, vec![found(9)]).unwrap();
    journal.close().unwrap();
    let after = recover(&disk);
    assert!(after.node.lost.is_empty() && after.node.replicas.contains_key(&BucketId(9)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn garbage_is_no_reason_to_panic(
        files in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6000), 0..4),
        tables in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let disk = BadDisk::new();
        for (i, bytes) in files.iter().enumerate() {
            let name = format!("{i:08}.segment");
            journal::Disk::create(&*disk, &name).unwrap();
            disk.tamper(&name, |file| *file = bytes.clone());
        }
        journal::Disk::create(&*disk, "bucket-1-1.tables").unwrap();
        disk.tamper("bucket-1-1.tables", |file| *file = tables);
        let recovered = recover(&disk);
        prop_assert!(recovered.node.replicas.is_empty());
        journal::inspect_on(&*disk).unwrap();
    }

    #[test]
    fn heavy_damage_is_never_passed_over_in_silence(
        wounds in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1usize..40, any::<u8>()), 1..12)
    ) {
        let (disk, records) = history(Ending::Clean);
        let expected = absorbed(&records);
        let files = disk.files();
        for (file, at, length, value) in wounds {
            let (name, size) = &files[file.index(files.len())];
            let at = at.index(*size);
            disk.tamper(name, |bytes| {
                let end = (at + length).min(bytes.len());
                bytes[at..end].fill(value);
            });
        }
        let after = recover(&disk);
        if !is_noted_prefix(&records, &after) {
            check_unless_unknown(&expected, &after, "wounds");
        }
    }
}
