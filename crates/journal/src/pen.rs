//! Where the journal is written: the end of the newest segment.
//!
//! Encodes frames into one buffer and writes that with one call. Knows which segments are needed, and which files are ready to be the
//! next. Never waits and never makes a file: whoever uses it asks for room first.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use blueprint::BucketId;
use node::NodeRecord;
use phaser::{Durable, Record};

use crate::Options;
use crate::content::{Census, Encoded, Item};
use crate::disk::DiskFile;
use crate::frame::{self, FIRST, HEAD, Head, Kind, LAST, LEAST_ROOM, MEMORY, NODE, Newest, SEGMENT_HEAD, SegmentHead};
use crate::ledger::Ledger;

/// A file of the right size that may be overwritten.
#[derive(Clone, Debug)]
pub(crate) struct Blank {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn DiskFile>,
}

/// A segment with records that are needed.
#[derive(Clone, Debug)]
pub(crate) struct InUse {
    pub(crate) ordinal: u64,
    pub(crate) size: u64,
    /// The disk gave back all of it: it may be overwritten one day.
    pub(crate) is_sound: bool,
    pub(crate) blank: Blank,
}

#[derive(Debug)]
pub(crate) struct Pen {
    pub(crate) ledger: Ledger,
    /// Oldest first; the last one is written to, once `is_begun`.
    pub(crate) segments: VecDeque<InUse>,
    pub(crate) blanks: VecDeque<Blank>,
    is_begun: bool,
    segment_bytes: u64,
    census_every: u64,
    journal: u64,
    salt: u32,
    life: u64,
    boot: frame::Boot,
    next_ordinal: u64,
    next_sequence: u64,
    /// The last frame that counts.
    pub(crate) last: u64,
    pub(crate) synced: u64,
    /// The last frame that is not a mark.
    last_record: u64,
    /// The highest mark that a frame names.
    marked: u64,
    /// No segment below this is needed, and that is synced.
    oldest: u64,
    /// Where the buffer goes in the newest segment.
    at: u64,
    last_census: u64,
    owes_census: bool,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    /// Files written to since they were last handed out for a sync.
    touched: Vec<Arc<dyn DiskFile>>,
    /// Replicas that are no more: to give back their memory takes a while, and lanes are not to wait for it.
    pub(crate) erased: Vec<Durable>,
}

pub(crate) struct Beginning {
    pub(crate) ledger: Ledger,
    pub(crate) segments: VecDeque<InUse>,
    pub(crate) blanks: VecDeque<Blank>,
    pub(crate) journal: u64,
    pub(crate) life: u64,
    pub(crate) next_ordinal: u64,
    pub(crate) next_sequence: u64,
    pub(crate) last: u64,
}

impl Pen {
    pub(crate) fn new(options: &Options, beginning: Beginning) -> Self {
        let Beginning { ledger, segments, blanks, journal, life, next_ordinal, next_sequence, last } = beginning;
        let oldest = segments.front().map_or(next_ordinal, |segment| segment.ordinal);
        Self {
            ledger,
            segments,
            blanks,
            is_begun: false,
            segment_bytes: options.segment_bytes,
            census_every: options.census_every,
            journal,
            salt: frame::salt(journal),
            life,
            boot: frame::boot(&options.boot_id),
            next_ordinal,
            next_sequence,
            last,
            synced: last,
            last_record: last,
            marked: last,
            oldest,
            at: 0,
            last_census: 0,
            owes_census: false,
            buffer: Vec::new(),
            scratch: Vec::new(),
            touched: Vec::new(),
            erased: Vec::new(),
        }
    }

    /// Are all of these buckets known to answer before they sync? That must be on disk first, or a restart of the operating system
    /// would not put them in doubt (R10).
    pub(crate) fn writes_from_memory(&self, encoded: &Encoded) -> bool {
        let mut known = NODE; // several records of one bucket follow each other
        encoded.items.iter().all(|item| {
            let is_known = item.bucket == known && known != NODE;
            known = item.bucket;
            is_known || self.ledger.uneasy.contains_key(&item.bucket)
        })
    }

    /// The same of records.
    pub(crate) fn is_uneasy_about(&self, records: &[NodeRecord]) -> bool {
        records.iter().all(|record| match record {
            NodeRecord::Bucket { bucket, .. } => self.ledger.uneasy.contains_key(bucket),
            NodeRecord::Epoch { .. } | NodeRecord::Erase { .. } => false,
        })
    }

    /// Is there room for all of this, without a file having to be made?
    pub(crate) fn has_room_for(&self, encoded: &Encoded) -> bool {
        let bytes: usize = encoded.items.iter().map(|item| frame::frame_bytes(item.end - item.start)).sum();
        self.has_room(bytes as u64 + self.census_bytes() + encoded.growth, encoded.growth)
    }

    fn has_room(&self, bytes: u64, growth: u64) -> bool {
        let room = self.room();
        if bytes + LEAST_ROOM <= room {
            return true;
        }
        let usable = self.usable(growth);
        usable > 0 && (bytes + LEAST_ROOM).saturating_sub(room).div_ceil(usable) <= self.blanks.len() as u64
    }

    /// What a new segment has to offer at least: it begins with a census, another one may not fit into its end, and each part of a
    /// record needs a head.
    fn usable(&self, growth: u64) -> u64 {
        let census = self.census_bytes() + growth;
        self.segment_bytes.saturating_sub(SEGMENT_HEAD + 2 * census + 2 * LEAST_ROOM)
    }

    /// So many buckets that a segment would be full of their census?
    pub(crate) fn is_cramped(&self, growth: u64) -> bool {
        self.usable(growth) < self.segment_bytes / 16
    }

    /// At most.
    fn census_bytes(&self) -> u64 {
        let Ledger { node, trails, uneasy, doubtful, in_doubt: _ } = &self.ledger;
        let residents = (trails.len() + node.lost.len()) as u64 * Census::RESIDENT;
        let mentions = (uneasy.len() + doubtful.len()) as u64 * Census::MENTION;
        residents + mentions + node.epochs.len() as u64 * Census::EPOCH + HEAD as u64 + 64
    }

    pub(crate) fn room(&self) -> u64 {
        match self.segments.back() {
            Some(segment) if self.is_begun => segment.size - self.position(),
            _ => 0,
        }
    }

    fn position(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    /// The first segment of this life, with its header and census and nothing else. Once that is synced, records may follow. If they
    /// came along with it, a power cut could leave them without the header: 1. nobody could tell an end that was never synced from
    /// damage; 2. the next life would give their numbers again.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.roll()?;
        self.flush()
    }

    /// Takes these records, for which there must be room. They are written with the next [`Pen::flush`].
    pub(crate) fn append(&mut self, encoded: &Encoded, records: &[NodeRecord], is_memory: bool) -> io::Result<()> {
        assert_eq!(encoded.items.len(), records.len(), "each record has its payload");
        // The bucket of the record before, which is here, and its last frame: mostly several records of one follow each other.
        let mut before: Option<(BucketId, u64)> = None;
        for (item, record) in encoded.items.iter().zip(records) {
            let same = before.filter(|(bucket, _)| *bucket == item.bucket).map(|(_, last)| last);
            if same.is_none() && !self.ledger.heeds(record) {
                continue; // says nothing without a replica
            }
            let previous = same.unwrap_or_else(|| self.previous(item.bucket));
            let flags = if is_memory { MEMORY } else { 0 };
            let (ordinal, sequence) = self.emit(item, previous, &encoded.bytes[item.start..item.end], flags)?;
            if is_memory && same.is_none() && item.bucket != NODE && !self.ledger.uneasy.contains_key(&item.bucket) {
                self.ledger.uneasy.insert(item.bucket, ()); // first, as when it is read: an erase ends it
            }
            // When the last of the epochs is certain again, a census says so: those that say otherwise speak of all of them.
            let was_in_doubt = !self.ledger.in_doubt.is_empty();
            if let NodeRecord::Erase { bucket } = record {
                self.erased.extend(self.ledger.node.replicas.remove(bucket));
            }
            self.ledger.absorb(record, ordinal, previous, sequence);
            let is_entries = |record: &Record| matches!(record, Record::Append { .. } | Record::Commit(_));
            let stays = matches!(record, NodeRecord::Bucket { record, .. } if is_entries(record));
            before = stays.then_some((item.bucket, sequence));
            self.owes_census |= was_in_doubt && self.ledger.in_doubt.is_empty();
        }
        // Who was founded is listed at once: or damage to that one record would make it unknown rather than lost.
        let is_founding =
            |record: &NodeRecord| matches!(record, NodeRecord::Bucket { record: Record::Found { .. }, .. });
        let is_due = self.position().saturating_sub(self.last_census) > self.census_every;
        if records.iter().any(is_founding) || is_due && self.room() > self.census_bytes() + LEAST_ROOM {
            self.census(self.oldest, false)?;
        }
        Ok(())
    }

    /// Everything about these buckets, written anew; no older segment is needed for them.
    pub(crate) fn carry(&mut self, encoded: &Encoded) -> io::Result<()> {
        for item in &encoded.items {
            let previous = self.previous(item.bucket);
            let (ordinal, sequence) = self.emit(item, previous, &encoded.bytes[item.start..item.end], 0)?;
            self.ledger.base(item.bucket, ordinal, sequence);
        }
        Ok(())
    }

    /// Says that segments below the oldest that is needed are not, and which that is. They are free once this is synced, and not
    /// before: the header of a new segment must not send away what only unsynced records replace.
    pub(crate) fn let_go(&mut self) -> io::Result<u64> {
        let newest = self.segments.back().map_or(self.next_ordinal, |segment| segment.ordinal);
        let oldest = self.ledger.oldest().unwrap_or(newest).min(newest).max(self.oldest);
        self.census(oldest, false)?;
        self.flush()?;
        Ok(oldest)
    }

    /// The files of segments below this, which is synced.
    pub(crate) fn take_free(&mut self, oldest: u64) -> Vec<InUse> {
        self.oldest = self.oldest.max(oldest);
        let mut free = Vec::new();
        while self.segments.len() > 1 && self.segments.front().is_some_and(|segment| segment.ordinal < oldest) {
            free.extend(self.segments.pop_front());
        }
        free
    }

    /// A mark, so that what was synced last is known to be. Only when there is news and room.
    pub(crate) fn mark(&mut self) -> io::Result<bool> {
        if self.marked >= self.last_record || self.synced < self.last_record || self.room() < 2 * LEAST_ROOM {
            return Ok(false);
        }
        self.emit_node(Kind::Mark, &[])?;
        self.flush()?;
        Ok(true)
    }

    /// Everything is synced; after this nothing comes. Twice, so that damage to one of them leaves the other's proof.
    pub(crate) fn stop(&mut self) -> io::Result<()> {
        self.ledger.uneasy.clear();
        if self.room() < 2 * self.census_bytes() + 2 * LEAST_ROOM {
            self.roll()?; // both in one segment
        }
        self.census(self.oldest, true)?;
        self.census(self.oldest, true)?;
        self.flush()
    }

    /// A census that says so follows with the next sync.
    pub(crate) fn trust(&mut self, bucket: BucketId) {
        self.owes_census |= self.ledger.doubtful.remove(&bucket);
    }

    /// Nobody may write by itself any more: what was reported as written then could not even be put in doubt.
    pub(crate) fn close_to_lanes(&mut self) {
        self.ledger.uneasy.clear();
    }

    /// Is something to be said that no record says?
    pub(crate) fn owes_census(&self) -> bool {
        self.owes_census
    }

    pub(crate) fn room_for_census(&self, count: u64) -> bool {
        self.has_room(count * self.census_bytes() + 2 * LEAST_ROOM, 0)
    }

    pub(crate) fn number(&self) -> u64 {
        self.journal
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// The segment that is written to, if one has been begun.
    pub(crate) fn newest(&self) -> Option<Newest> {
        let segment = self.segments.back().filter(|_| self.is_begun)?;
        Some(Newest { journal: self.journal, ordinal: segment.ordinal, synced: self.synced })
    }

    /// A number for a file of tables. It is another one only after something was written: see [`crate::tables::TableFiles::is_wasteful`].
    pub(crate) fn generation(&self) -> u64 {
        self.next_sequence
    }

    /// What to sync, and up to where everything is safe when that has been done.
    pub(crate) fn take_touched(&mut self) -> (Vec<Arc<dyn DiskFile>>, u64) {
        (std::mem::take(&mut self.touched), self.last)
    }

    pub(crate) fn has_unsynced(&self) -> bool {
        self.synced < self.last_record
    }

    pub(crate) fn on_synced(&mut self, upto: u64) {
        self.synced = self.synced.max(upto);
    }

    fn previous(&self, bucket: BucketId) -> u64 {
        if bucket == NODE { 0 } else { self.ledger.last_of(bucket) }
    }

    fn census(&mut self, oldest: u64, stopped: bool) -> io::Result<()> {
        let census = Census { stopped, ..self.ledger.census(oldest) };
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let bytes = postcard::to_extend(&census, bytes).expect("every census has an encoding");
        let written = self.emit_node(Kind::Census, &bytes);
        self.scratch = bytes;
        self.last_census = self.position();
        self.owes_census = false;
        written
    }

    fn emit_node(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        self.emit(&Item { kind, bucket: NODE, start: 0, end: 0 }, 0, payload, 0).map(drop)
    }

    /// One record, in as many frames as it takes. Says in which segment it begins and with which frame it ends.
    fn emit(&mut self, item: &Item, mut previous: u64, payload: &[u8], flags: u8) -> io::Result<(u64, u64)> {
        let (mut rest, mut flags, mut began) = (payload, flags | FIRST, None);
        // Records of the node are short, and never divided: a segment may begin with one in the middle of another record.
        let whole = if item.bucket == NODE { frame::frame_bytes(payload.len()) as u64 } else { 0 };
        loop {
            if self.room() < LEAST_ROOM.max(whole) {
                self.roll()?;
            }
            let space = (self.room() as usize - HEAD) & !7;
            let (part, remaining) = rest.split_at(rest.len().min(space));
            rest = remaining;
            if rest.is_empty() {
                flags |= LAST;
            }
            let sequence = self.frame(item.kind, item.bucket, flags, previous, part);
            let ordinal = *began.get_or_insert(self.segments.back().expect("it was begun").ordinal);
            if rest.is_empty() {
                return Ok((ordinal, sequence));
            }
            previous = sequence;
            flags &= !FIRST;
        }
    }

    fn frame(&mut self, kind: Kind, bucket: BucketId, flags: u8, previous: u64, payload: &[u8]) -> u64 {
        let sequence = self.next_sequence;
        let head = Head {
            kind,
            flags,
            length: u32::try_from(payload.len()).expect("a segment is smaller than that"),
            sequence,
            life: self.life,
            synced: self.synced,
            bucket,
            previous,
            payload_crc: frame::payload_crc(self.salt, payload),
        };
        head.write(self.salt, &mut self.buffer);
        self.buffer.extend_from_slice(payload);
        let padded = self.buffer.len().next_multiple_of(8);
        self.buffer.resize(padded, 0);
        (self.next_sequence, self.last, self.marked) = (sequence + 1, sequence, self.synced);
        if kind != Kind::Mark {
            self.last_record = sequence;
        }
        sequence
    }

    fn roll(&mut self) -> io::Result<()> {
        self.flush()?;
        let blank = self.blanks.pop_front().expect("whoever writes has asked for room");
        let head = SegmentHead {
            journal: self.journal,
            ordinal: self.next_ordinal,
            first: self.next_sequence,
            follows: self.last,
            synced: self.synced,
            oldest: self.oldest,
            life: self.life,
            boot: self.boot,
        };
        self.segments.push_back(InUse { ordinal: self.next_ordinal, size: self.segment_bytes, is_sound: true, blank });
        self.next_ordinal += 1;
        self.is_begun = true;
        self.at = 0;
        head.write(&mut self.buffer);
        self.census(self.oldest, false)
    }

    /// One write. It ends with zeros in the place of the next head, so that an end can be told from damage.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(segment) = self.segments.back().filter(|_| !self.buffer.is_empty()) else { return Ok(()) };
        let length = self.buffer.len();
        let end = (segment.size - self.at).min((length + HEAD) as u64) as usize;
        self.buffer.resize(end, 0);
        let file = &segment.blank.file;
        file.write_at(self.at, &self.buffer)?;
        if !self.touched.last().is_some_and(|touched| Arc::ptr_eq(touched, file)) {
            self.touched.push(file.clone());
        }
        self.at += length as u64;
        self.buffer.clear();
        Ok(())
    }
}
