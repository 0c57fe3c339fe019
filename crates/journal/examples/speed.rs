//! How fast is this disk? `cargo run --release -p journal --example speed [directory]`
//!
//! Syncs per second with 32 entries of 120 bytes each, batches per second at level memory, and how long a start takes with 1,000,000 keys
//! of 100 bytes in checkpoints and 100,000 entries behind them. Prints; asserts nothing.
#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use blueprint::{BucketId, Durability, Index, Member, Position, Slot, SlotSet, Term};
use bytes::Bytes;
use journal::{Journal, Options};
use node::{BatchId, NodeRecord, StoreId};
use phaser::{Entry, Image, Payload, Record};

const BUCKET: BucketId = BucketId(1);
const KEYS: usize = 1_000_000;

fn main() {
    let parent = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let data = parent.join(format!("godwit-speed-{}", std::process::id()));
    std::fs::create_dir_all(&data).expect("a directory to work in");
    let (journal, _) = Journal::open(&data, Options::for_this_machine(), &mut |_| {}).expect("a new journal");
    let (tell, told) = channel();
    let (tell_stored, stored) = channel();
    let on_stored = move |_, _, _, tables| tell_stored.send(tables).expect("somebody listens");
    journal.start(move |_, id| tell.send(id).expect("somebody listens"), on_stored);
    let write = |id: u64, level, records| journal.write(0, BatchId(id), level, records).expect("a healthy disk");
    let owned = SlotSet::all();
    let (me, base, image) = (Member::new(1, 1), Position::new(1, 0), Image::default());
    write(1, Durability::Disk, vec![of(Record::Found { me, promised: Term(1), base, clock: 0, owned, image })]);
    told.recv().expect("written");

    let (mut id, mut last) = (1, 0);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        id += 1;
        write(id, Durability::Disk, vec![append(&mut last, 32)]);
        while told.recv().expect("written") < BatchId(id) {}
    }
    let counts = journal.counts();
    println!("level disk, one lane that waits: {:.0} syncs/s of 32 entries", counts.syncs as f64 / 3.0);

    id += 1;
    write(id, Durability::Memory, vec![append(&mut last, 1)]);
    while told.recv().expect("written") < BatchId(id) {}
    let (begun, first) = (Instant::now(), last);
    for _ in 0..3000 {
        id += 1;
        write(id, Durability::Memory, vec![append(&mut last, 32)]);
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("level memory: {:.0} batches/s, {:.0} entries/s", 3000.0 / seconds, (last - first) as f64 / seconds);

    let per_slot = KEYS / usize::from(Slot::COUNT) + 1;
    let table = Bytes::from(vec![7; per_slot * 110]);
    let begun = Instant::now();
    for part in 0..16u16 {
        let covered = SlotSet::range(Slot(part * 1024), Slot(part * 1024 + 1023));
        let tables = covered.iter().map(|slot| (slot, table.clone())).collect();
        id += 1;
        journal.store(0, StoreId(id), BUCKET, tables);
        let tables = stored.recv().expect("stored");
        let image = Image { as_of: Index(last), replaced: covered.clone(), covered, tables };
        write(id, Durability::Disk, vec![of(Record::Save(image))]);
    }
    journal.sync().expect("a healthy disk");
    println!("checkpoint of {KEYS} keys: {:.2} s", begun.elapsed().as_secs_f64());
    journal.close().expect("a healthy disk");

    let begun = Instant::now();
    let (journal, recovered) =
        Journal::open(&data, Options::for_this_machine(), &mut |_| {}).expect("it was closed a moment ago");
    let (segments, tables) = (recovered.bytes_read >> 20, recovered.table_bytes_read >> 20);
    println!("start: {:.2} s, {segments} MiB of segments, {tables} MiB of tables", begun.elapsed().as_secs_f64());
    println!("{} entries, notes: {:?}", recovered.node.replicas[&BUCKET].log.len(), recovered.notes);
    drop(journal);
    std::fs::remove_dir_all(&data).expect("it was ours");
}

fn of(record: Record) -> NodeRecord {
    NodeRecord::Bucket { bucket: BUCKET, record }
}

fn append(last: &mut u64, count: u64) -> NodeRecord {
    let previous = Position::new(1, *last);
    let entry = |index| {
        let payload = Payload::Command { slot: Slot((index % 16384) as u16), body: Bytes::from_static(&[1; 120]) };
        Entry { at: Position::new(1, index), clock: index, seed: index, payload }
    };
    let entries = (*last + 1..=*last + count).map(entry).collect();
    *last += count;
    of(Record::Append { previous, entries, commit: None })
}
