//! The ordinary life of a journal, and its ordinary troubles.

mod common;

use std::collections::BTreeSet;

use blueprint::{BucketId, Durability};
use common::disk::BadDisk;
use common::history::{absorbed, append, bucket, found, save};
use common::{BOOT, on_stored, open, options, recover, store, stored, wait_for};
use journal::{Journal, Note, OpenError, Options, Outcome, State};
use node::{BatchId, NodeRecord};
use phaser::{Image, Record};

const LANE: u16 = 0;

fn write(journal: &Journal, id: u64, level: Durability, records: &[NodeRecord]) -> Outcome {
    let records = stored(journal, LANE, records).expect("the journal is well");
    journal.write(LANE, BatchId(id), level, records).expect("it is taken")
}

#[test]
fn what_is_written_comes_back() {
    let disk = BadDisk::new();
    let records = [found(1), append(1, 1, 0, &[10, 20]), save(1, 0, &[(3, 40), (4, 0)]), found(2)];
    let (journal, recovered, reports) = open(&disk, options());
    assert_eq!(recovered.node, absorbed([]));
    assert_eq!(recovered.notes, []);
    assert_eq!(write(&journal, 1, Durability::Disk, &records), Outcome::Queued);
    journal.sync().unwrap();
    assert_eq!(reports.all(), [(LANE, BatchId(1))]);
    drop(journal);
    for disk in [disk.after_kill(), disk.after_power_cut(|| false)] {
        let recovered = recover(&disk, options());
        assert_eq!(recovered.node, absorbed(&records));
        assert_eq!(recovered.notes, []);
    }
}

#[test]
fn reopening_again_and_again_changes_nothing() {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, options());
    let mut records = vec![found(1)];
    write(&journal, 1, Durability::Disk, &records);
    journal.close().unwrap();
    for round in 0..20 {
        let before = disk.files();
        let recovered = recover(&disk, options());
        assert!(recovered.was_stopped);
        assert_eq!(recovered.node, absorbed(&records), "round {round}");
        assert_eq!(disk.files(), before, "looking changes nothing");
        let (journal, _, _) = open(&disk, options());
        let record = append(1, 1, round, &[30]);
        write(&journal, 1, Durability::Disk, std::slice::from_ref(&record));
        records.push(record);
        journal.close().unwrap();
    }
    assert!(disk.files().len() < 12, "segments of earlier starts are cleaned: {:?}", disk.files());
}

#[test]
fn many_batches_few_syncs() {
    let disk = BadDisk::new();
    let mut large = options();
    large.segment_bytes = 1 << 20;
    // Not started yet: everything is queued before the first sync.
    let (journal, _) = Journal::open_on(disk.clone(), large, &mut |_| {}).unwrap();
    write(&journal, 1, Durability::Disk, &[found(1)]);
    for id in 2..=100 {
        write(&journal, id, Durability::Disk, &[append(1, 1, id - 2, &[50])]);
    }
    let (tell, told) = std::sync::mpsc::channel();
    journal.start(move |lane, id| tell.send((lane, id)).unwrap(), on_stored);
    assert_eq!(told.recv().unwrap(), (LANE, BatchId(100)));
    let counts = journal.counts();
    assert_eq!((counts.batches, counts.syncs), (100, 2), "one more for the beginning of this life");
}

#[test]
fn level_memory_is_written_by_the_lane_and_waits_for_what_it_queued() {
    let disk = BadDisk::new();
    let (journal, _, reports) = open(&disk, options());
    write(&journal, 1, Durability::Disk, &[found(1)]);
    journal.sync().unwrap();
    // The first one is synced, so that a restart of the operating system puts the bucket in doubt.
    assert_eq!(write(&journal, 2, Durability::Memory, &[append(1, 1, 0, &[5])]), Outcome::Queued);
    journal.sync().unwrap();
    assert_eq!(reports.upto(LANE), 2);
    let syncs = journal.counts().syncs;
    assert_eq!(write(&journal, 3, Durability::Memory, &[append(1, 1, 1, &[5])]), Outcome::Written);
    // Control records are synced whatever the level.
    let promise = bucket(1, Record::Promise(blueprint::Term(2)));
    assert_eq!(write(&journal, 4, Durability::Memory, &[append(1, 1, 2, &[5]), promise]), Outcome::Queued);
    journal.sync().unwrap();
    assert_eq!(reports.upto(LANE), 4);
    assert_eq!(write(&journal, 5, Durability::Memory, &[append(1, 1, 3, &[5])]), Outcome::Written);
    assert_eq!(journal.counts().direct, 2);
    assert!(journal.counts().syncs > syncs);
}

#[test]
fn level_memory_is_synced_before_long_without_being_asked() {
    let disk = BadDisk::new();
    let soon = Options { sync_within: std::time::Duration::from_millis(5), ..options() };
    let (journal, _, _) = open(&disk, soon);
    write(&journal, 1, Durability::Disk, &[found(1)]);
    write(&journal, 2, Durability::Memory, &[append(1, 1, 0, &[5])]);
    journal.sync().unwrap();
    assert_eq!(write(&journal, 3, Durability::Memory, &[append(1, 1, 1, &[5])]), Outcome::Written);
    until(|| {
        let recovered = recover(&disk.after_power_cut(|| false), options());
        recovered.node.replicas[&BucketId(1)].log.len() == 2
    });
    // And when all is said, it is quiet.
    until(|| {
        let syncs = journal.counts().syncs;
        std::thread::sleep(std::time::Duration::from_millis(20));
        journal.counts().syncs == syncs
    });
}

fn memory_history(disk: &std::sync::Arc<BadDisk>) -> Journal {
    let (journal, _, _) = open(disk, options());
    write(&journal, 1, Durability::Disk, &[found(1), found(2)]);
    write(&journal, 2, Durability::Disk, &[append(2, 1, 0, &[5])]);
    write(&journal, 3, Durability::Memory, &[append(1, 1, 0, &[5])]);
    journal.sync().unwrap();
    assert_eq!(write(&journal, 4, Durability::Memory, &[append(1, 1, 1, &[5])]), Outcome::Written);
    journal
}

#[test]
fn a_restart_of_the_operating_system_puts_level_memory_in_doubt() {
    let disk = BadDisk::new();
    let journal = memory_history(&disk);
    drop(journal);
    let later = Options { boot_id: "second boot".into(), ..options() };
    let same = recover(&disk.after_kill(), options());
    assert!(same.doubtful.is_empty(), "the process died, the operating system did not");
    assert_eq!(same.node.replicas[&BucketId(1)].log.len(), 2);

    let cut = disk.after_power_cut(|| false);
    let doubtful = BTreeSet::from([BucketId(1)]);
    let recovered = recover(&cut, later.clone());
    assert_eq!(recovered.doubtful, doubtful, "only the one that answered before it synced");
    assert_eq!(recovered.node.replicas[&BucketId(1)].log.len(), 1, "and it is indeed shorter");
    assert!(recovered.notes.iter().any(|note| matches!(note, Note::Doubtful { .. })));

    // The doubt outlives other writes and starts, until the replica goes by another name.
    let (journal, _, _) = open(&cut, later.clone());
    write(&journal, 1, Durability::Disk, &[append(2, 1, 1, &[5])]);
    journal.close().unwrap();
    let (journal, recovered, _) = open(&cut, later.clone());
    assert_eq!(recovered.doubtful, doubtful);
    write(&journal, 1, Durability::Disk, &[bucket(1, Record::Adopt(blueprint::Incarnation(9)))]);
    journal.close().unwrap();
    assert!(recover(&cut, later).doubtful.is_empty());
}

#[test]
fn whoever_knows_better_may_trust_a_doubtful_replica() {
    let disk = BadDisk::new();
    drop(memory_history(&disk));
    let later = Options { boot_id: "second boot".into(), ..options() };
    let (journal, recovered, _) = open(&disk, later.clone());
    assert_eq!(recovered.doubtful.len(), 1);
    journal.trust(BucketId(1));
    journal.sync().unwrap();
    assert!(recover(&disk.after_power_cut(|| false), later.clone()).doubtful.is_empty());
    journal.close().unwrap();
    assert!(recover(&disk, later).doubtful.is_empty());
}

#[test]
fn a_clean_stop_leaves_no_doubt() {
    let disk = BadDisk::new();
    memory_history(&disk).close().unwrap();
    let recovered = recover(&disk, Options { boot_id: "second boot".into(), ..options() });
    assert!(recovered.was_stopped && recovered.doubtful.is_empty());
    assert_eq!(recovered.node.replicas[&BucketId(1)].log.len(), 2);
}

#[test]
fn a_quiet_bucket_does_not_keep_segments() {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, options());
    let mut records = vec![found(7), append(7, 1, 0, &[100, 100]), save(7, 1, &[(1, 80)]), found(1)];
    write(&journal, 1, Durability::Disk, &records);
    for id in 2..300 {
        let after = id - 2;
        let mut batch = vec![append(1, 1, after, &[90])];
        if id % 20 == 0 {
            let base = blueprint::Position::new(1, after + 1);
            batch.push(bucket(1, Record::Commit(base)));
            let owned = blueprint::SlotSet::range(blueprint::Slot(0), blueprint::Slot(15));
            batch.push(bucket(1, Record::Cut { base, clock: base.index.0 * 10, owned }));
        }
        write(&journal, id, Durability::Disk, &batch);
        journal.sync().unwrap();
        records.extend(batch);
    }
    let counts = journal.counts();
    assert!(counts.recycled > 3, "{counts:?}");
    assert!(counts.carried > 3, "{counts:?}");
    assert!(disk.used() < 16 * 4096, "about the wanted number of segments: {:?}", disk.files());
    drop(journal);
    assert_eq!(recover(&disk, options()).node, absorbed(&records));
}

/// It is at its lightest then: nothing is left to carry when its oldest segment has to go.
#[test]
fn a_busy_bucket_is_carried_when_its_log_was_just_cut() {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, Options { segments: 8, ..options() });
    let mut records = vec![found(1)];
    write(&journal, 1, Durability::Disk, &records);
    let mut entries = 0;
    while journal.counts().carried == 0 {
        let id = entries + 2;
        assert!(
            id < 1000 && journal.counts().recycled == 0,
            "not before a segment had to be freed: {:?}",
            journal.counts()
        );
        let mut batch = vec![append(1, 1, entries, &[90])];
        entries += 1;
        if id.is_multiple_of(20) {
            let base = blueprint::Position::new(1, entries);
            let owned = blueprint::SlotSet::range(blueprint::Slot(0), blueprint::Slot(15));
            batch.extend(
                [Record::Commit(base), Record::Cut { base, clock: base.index.0 * 10, owned }].map(|r| bucket(1, r)),
            );
        }
        write(&journal, id, Durability::Disk, &batch);
        journal.sync().unwrap();
        records.extend(batch);
    }
    drop(journal);
    assert_eq!(recover(&disk.after_power_cut(|| false), options()).node, absorbed(&records));
}

#[test]
fn checkpoints_do_not_grow_for_ever() {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, options());
    let mut records = vec![found(1)];
    write(&journal, 1, Durability::Disk, &records);
    for round in 0..50u64 {
        let record = save(1, 0, &[((round % 16) as u16, 300 + round as usize)]);
        write(&journal, 2 + round, Durability::Disk, std::slice::from_ref(&record));
        records.push(record);
    }
    journal.sync().unwrap();
    let (size, count) = size_of_tables(&disk);
    assert!(size < 3 * 16 * 350 && count <= 2, "{:?}", disk.files());
    assert_eq!(journal.counts().rewritten, 0, "every slot is written to, so every file is done with by itself");
    drop(journal);
    assert_eq!(recover(&disk, options()).node, absorbed(&records));

    let (journal, _, _) = open(&disk, options());
    write(&journal, 1, Durability::Disk, &[NodeRecord::Erase { bucket: BucketId(1) }]);
    journal.sync().unwrap();
    journal.close().unwrap();
    assert_eq!(size_of_tables(&disk), (0, 0));
}

/// Each slot is written to for a while and then no more: something in every file stays in use, and has to be copied out of it.
#[test]
fn what_is_left_of_many_checkpoints_is_gathered() {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, options());
    let mut records = vec![found(1)];
    write(&journal, 1, Durability::Disk, &records);
    for round in 0..160u64 {
        let record = save(1, 0, &[((round / 10) as u16, 300 + round as usize)]);
        write(&journal, 2 + round, Durability::Disk, std::slice::from_ref(&record));
        records.push(record);
        journal.sync().unwrap();
        let (size, count) = size_of_tables(&disk);
        assert!(count <= 10 && size < 3 * 500 * (round / 10 + 1) + 1500, "{round}: {:?}", disk.files());
    }
    assert!(journal.counts().rewritten > 0);
    drop(journal);
    assert_eq!(recover(&disk, options()).node, absorbed(&records));
}

/// Of all files with tables, and how many they are.
fn size_of_tables(disk: &BadDisk) -> (u64, usize) {
    let files = disk.files();
    let tables = || files.iter().filter(|(name, _)| name.ends_with(".tables"));
    (tables().map(|(_, size)| *size as u64).sum(), tables().count())
}

#[test]
fn a_record_may_be_larger_than_a_segment() {
    let disk = BadDisk::new();
    let (journal, _, _) = open(&disk, options());
    let records = [found(1), append(1, 1, 0, &[20_000]), append(1, 1, 1, &[3])];
    for (id, record) in records.iter().enumerate() {
        write(&journal, id as u64 + 1, Durability::Disk, std::slice::from_ref(record));
    }
    journal.sync().unwrap();
    drop(journal);
    let recovered = recover(&disk.after_power_cut(|| false), options());
    assert_eq!((recovered.node, recovered.notes), (absorbed(&records), vec![]));
}

#[test]
fn many_foundings_at_once() {
    for count in 1..18 {
        let disk = BadDisk::new();
        let (journal, _, _) = open(&disk, options());
        let records: Vec<_> = (0..count).map(found).collect();
        write(&journal, 1, Durability::Disk, &records);
        let more: Vec<_> = (0..count).map(|number| append(number, 1, 0, &[300])).collect();
        write(&journal, 2, Durability::Disk, &more);
        journal.sync().unwrap_or_else(|state| panic!("{count}: {state:?}"));
        drop(journal);
        let recovered = recover(&disk.after_power_cut(|| false), options());
        assert_eq!(recovered.node, absorbed(records.iter().chain(&more)), "{count}");
    }
}

#[test]
fn a_segment_too_small_for_so_many_buckets_says_so() {
    let (journal, _, _) = open(&BadDisk::new(), options());
    let records: Vec<_> = (0..200).map(found).collect();
    write(&journal, 1, Durability::Disk, &records);
    assert!(matches!(journal.sync(), Err(State::Failed { why }) if why.contains("segment_bytes")));
}

/// Not for luck: until something that must happen has happened.
fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_full_disk_stops_writing_until_there_is_space() {
    let disk = BadDisk::new();
    let mut small = options();
    small.queue_batches = 8;
    let (journal, _, reports) = open(&disk, small.clone());
    let mut records = vec![found(1)];
    write(&journal, 1, Durability::Disk, &records);
    journal.sync().unwrap();
    disk.set_capacity(Some(disk.used()));
    let mut id = 2;
    let refused = loop {
        let record = append(1, 1, id - 2, &[500]);
        match journal.write(LANE, BatchId(id), Durability::Disk, vec![record.clone()]) {
            Ok(_) => records.push(record),
            Err(refused) => break refused,
        }
        id += 1;
    };
    assert!(matches!(&refused.state, State::Full { why } if why.contains("goes on by itself")), "{refused}");
    assert_eq!(refused.records, [append(1, 1, id - 2, &[500])], "it comes back untouched");
    assert!(reports.upto(LANE) < id - 1);
    // A crash now loses nothing that was reported.
    let crashed = recover(&disk.after_power_cut(|| false), options());
    assert!(crashed.node.replicas[&BucketId(1)].log.len() >= reports.upto(LANE) - 1);
    disk.set_capacity(None);
    until(|| journal.state() == State::Healthy);
    write(&journal, id, Durability::Disk, &refused.records);
    records.extend(refused.records);
    journal.sync().unwrap();
    assert_eq!(reports.upto(LANE), id);
    drop(journal);
    assert_eq!(recover(&disk, options()).node, absorbed(&records));
}

#[test]
fn a_disk_without_space_for_more_is_made_do_with() {
    let disk = BadDisk::new();
    let plenty = Options { segments: 1000, ..options() };
    let (journal, _, reports) = open(&disk, plenty);
    let mut records = vec![found(1)];
    write(&journal, 1, Durability::Disk, &records);
    for id in 2..400 {
        let base = blueprint::Position::new(1, id - 1);
        let owned = blueprint::SlotSet::range(blueprint::Slot(0), blueprint::Slot(15));
        let cut = Record::Cut { base, clock: base.index.0 * 10, owned };
        let batch = [append(1, 1, id - 2, &[90]), bucket(1, Record::Commit(base)), bucket(1, cut)];
        write(&journal, id, Durability::Disk, &batch);
        journal.sync().unwrap();
        records.extend(batch);
        if disk.used() > 10 * 4096 {
            disk.set_capacity(Some(disk.used()));
        }
    }
    assert_eq!((reports.upto(LANE), journal.state()), (399, State::Healthy), "old segments were cleaned instead");
    drop(journal);
    assert_eq!(recover(&disk, options()).node, absorbed(&records));
}

#[test]
fn lanes_write_at_once_each_in_its_own_order() {
    let disk = BadDisk::new();
    let (journal, _, reports) = open(&disk, Options { queue_batches: 4, ..options() });
    std::thread::scope(|scope| {
        for lane in 0..4u16 {
            let journal = &journal;
            scope.spawn(move || {
                let number = u64::from(lane);
                let mut records = vec![found(number)];
                records.extend((0..60).map(|after| append(number, 1, after, &[20])));
                for (id, record) in records.into_iter().enumerate() {
                    let level = if id % 3 == 0 { Durability::Memory } else { Durability::Disk };
                    journal.write(lane, BatchId(id as u64 + 1), level, vec![record]).unwrap();
                }
            });
        }
    });
    journal.sync().unwrap();
    let mut before = [0; 4];
    for (lane, id) in reports.all() {
        assert!(id.0 > before[usize::from(lane)], "reports never go back");
        before[usize::from(lane)] = id.0;
    }
    drop(journal);
    let recovered = recover(&disk.after_power_cut(|| false), options());
    for number in 0..4 {
        let records = [found(number)].into_iter().chain((0..60).map(|after| append(number, 1, after, &[20])));
        let expected = absorbed(&records.collect::<Vec<_>>());
        assert_eq!(recovered.node.replicas[&BucketId(number)], expected.replicas[&BucketId(number)]);
    }
}

#[test]
fn closing_on_a_full_disk_is_no_clean_stop() {
    let disk = BadDisk::new();
    let (journal, _, reports) = open(&disk, options());
    write(&journal, 1, Durability::Disk, &[found(1)]);
    journal.sync().unwrap();
    disk.set_capacity(Some(disk.used() + 100));
    write(&journal, 2, Durability::Disk, &[append(1, 1, 0, &[20_000])]);
    until(|| matches!(journal.state(), State::Full { .. }));
    assert!(matches!(journal.close(), Err(State::Failed { .. })));
    assert_eq!(reports.upto(LANE), 1);
    drop(journal);
    let recovered = recover(&disk, options());
    assert_eq!((recovered.node, recovered.was_stopped), (absorbed(&[found(1)]), false));
}

#[test]
fn a_checkpoint_waits_for_space_too() {
    let disk = BadDisk::new();
    let (journal, _, reports) = open(&disk, options());
    write(&journal, 1, Durability::Disk, &[found(1)]);
    journal.sync().unwrap();
    disk.set_capacity(Some(disk.used() + 100));
    let (checkpoint, operations) = (save(1, 0, &[(1, 5000)]), disk.operations());
    let id = store(&journal, LANE, &checkpoint).unwrap();
    until(|| disk.operations() > operations + 2);
    assert_eq!(journal.state(), State::Healthy, "entries are safe without it");
    disk.set_capacity(None);
    let tables = wait_for(&journal, id).unwrap();
    let NodeRecord::Bucket { record: Record::Save(image), .. } = checkpoint else { unreachable!("it is one") };
    let checkpoint = bucket(1, Record::Save(Image { tables, ..image }));
    journal.write(LANE, BatchId(2), Durability::Disk, vec![checkpoint]).unwrap();
    journal.sync().unwrap();
    assert_eq!((reports.upto(LANE), journal.state()), (2, State::Healthy));
    drop(journal);
    assert_eq!(recover(&disk, options()).node, absorbed(&[found(1), save(1, 0, &[(1, 5000)])]));
}

#[test]
fn after_a_failed_sync_nothing_is_written_any_more() {
    let disk = BadDisk::new();
    let (journal, _, reports) = open(&disk, options());
    write(&journal, 1, Durability::Disk, &[found(1)]);
    journal.sync().unwrap();
    disk.fail_syncs(true);
    write(&journal, 2, Durability::Disk, &[append(1, 1, 0, &[5])]);
    assert!(matches!(journal.sync(), Err(State::Failed { .. })));
    disk.fail_syncs(false); // the disk says that it is well again; it is not believed
    let refused = journal.write(LANE, BatchId(3), Durability::Disk, vec![append(1, 1, 1, &[5])]).unwrap_err();
    assert!(matches!(&refused.state, State::Failed { why } if why.contains("Stop this process")), "{refused}");
    assert!(journal.write(LANE, BatchId(3), Durability::Memory, vec![append(1, 1, 1, &[5])]).is_err());
    assert_eq!(reports.upto(LANE), 1);
}

#[test]
fn a_bug_in_the_writer_leaves_nobody_waiting() {
    let (journal, _) = Journal::open_on(BadDisk::new(), options(), &mut |_| {}).unwrap();
    journal.start(|_, _| panic!("whoever is told has a bug"), on_stored);
    write(&journal, 1, Durability::Disk, &[found(1)]);
    assert!(matches!(journal.sync(), Err(State::Failed { .. })));
}

#[test]
fn one_process_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(directory.path(), options(), &mut |_| {}).unwrap();
    let second = Journal::open(directory.path(), options(), &mut |_| {}).unwrap_err();
    assert!(matches!(second, OpenError::InUse));
    assert!(second.to_string().contains("Stop the other process"));
    drop(journal);
    Journal::open(directory.path(), options(), &mut |_| {}).unwrap();
}

#[test]
fn on_a_real_disk_with_progress_and_inspection() {
    let directory = tempfile::tempdir().unwrap();
    let records = [found(1), append(1, 1, 0, &[10, 20]), save(1, 0, &[(3, 40)]), found(2)];
    let (journal, _) = Journal::open(directory.path(), options(), &mut |_| {}).unwrap();
    journal.start(|_, _| {}, on_stored);
    write(&journal, 1, Durability::Disk, &records);
    journal.sync().unwrap();
    let inspection = journal::inspect(directory.path()).unwrap();
    assert_eq!(inspection.buckets.len(), 2, "also while it is in use");
    assert_eq!((inspection.buckets[0].slots_saved, inspection.buckets[0].table_bytes), (16, 40));
    let text = inspection.to_string();
    assert!(text.contains("no clean stop") && text.contains("b1"), "{text}");
    assert!(serde_json::to_string(&inspection).unwrap().contains("\"slots_saved\":16"));
    journal.close().unwrap();
    let mut seen = Vec::new();
    let (_, recovered) = Journal::open(directory.path(), options(), &mut |progress| seen.push(progress)).unwrap();
    assert_eq!((recovered.node, recovered.notes), (absorbed(&records), vec![]));
    let last = seen.last().unwrap();
    assert!(seen.len() >= 2 && last.bytes_read == last.bytes && last.bytes > 0, "{seen:?}");
    assert!(journal::inspect(&directory.path().join("nowhere")).is_err());
}

#[test]
fn files_of_two_nodes_are_not_mixed() {
    let (one, other) = (BadDisk::new(), BadDisk::new());
    for disk in [&one, &other] {
        let (journal, _, _) = open(disk, options());
        write(&journal, 1, Durability::Disk, &[found(1)]);
        journal.close().unwrap();
    }
    let strange = other.bytes("00000001.segment");
    one.tamper("00000002.segment", |bytes| *bytes = strange);
    let opened = Journal::open_on(one, options(), &mut |_| {});
    assert!(matches!(opened, Err(OpenError::Mixed { .. })));
    assert_eq!(options().boot_id, BOOT);
}
