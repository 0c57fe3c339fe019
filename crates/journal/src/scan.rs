//! Reads all segments, in order, without changing anything.
//!
//! The rule: the last synced mark S is the highest one that any readable frame names. Something missing above S is a torn tail, and
//! the journal ends before it, whatever can be read behind it. Something missing at or below S was there once: it is damage, and reading
//! goes on behind it, with doubt about every bucket until a later record proves that nothing of it is missing. So is what the disk
//! does not give back at all, wherever it stands: no power cut does that.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use blueprint::BucketId;

use crate::content::Content;
use crate::disk::{Disk, DiskFile};
use crate::frame::{self, HEAD, Head, HeadProblem, Kind, LEAST_ROOM, MEMORY, NODE, Newest, SEGMENT_HEAD, SegmentHead};
use crate::ledger::Recovery;
use crate::notes::Note;
use crate::{OpenError, Progress, tables};

pub(crate) const SEGMENT_SUFFIX: &str = ".segment";

/// A segment's file with a readable header.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) size: u64,
    pub(crate) head: SegmentHead,
    /// One of the two copies of the header is damaged, or that of an earlier segment in this file.
    pub(crate) lacks_copy: bool,
    /// What counts in it ends here.
    pub(crate) end: u64,
    /// The last frame that counts; one less than the first if none does.
    pub(crate) last: u64,
    pub(crate) frames: u64,
    /// Where some of its frames begin, and their numbers: at least one in `MILE` bytes, unless a frame is longer.
    pub(crate) milestones: Vec<(u64, u64)>,
    /// Blocks that the disk did not give back.
    pub(crate) unreadable: BTreeSet<u64>,
}

/// A segment's file that is not needed.
#[derive(Clone, Debug)]
pub(crate) struct Free {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// The disk gave back all of it that was looked at.
    pub(crate) is_sound: bool,
}

#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) recovery: Recovery,
    pub(crate) notes: Vec<Note>,
    /// Segments that count, oldest first.
    pub(crate) segments: Vec<Segment>,
    /// Files of segments that do not.
    pub(crate) free: Vec<Free>,
    /// Whose files these are, if they say so.
    pub(crate) journal: Option<u64>,
    /// There is nothing here, and no sign that there ever was.
    pub(crate) is_vacant: bool,
    /// Something is missing of which no census speaks yet: what proves it must not be overwritten before one does.
    pub(crate) has_news: bool,
    /// The last frame that counts; all records up to it are complete.
    pub(crate) last: u64,
    pub(crate) synced: u64,
    /// Above every number that any frame on this disk can have.
    pub(crate) next_sequence: u64,
    pub(crate) next_ordinal: u64,
}

/// A frame where it was found.
#[derive(Clone, Copy, Debug)]
struct Found {
    head: Head,
    at: usize,
    intact: bool,
}

/// A record of which only the beginning has been read.
#[derive(Debug)]
struct Pending {
    kind: Kind,
    bucket: BucketId,
    first: u64,
    last: u64,
    previous: u64,
    ordinal: u64,
    payload: Vec<u8>,
}

/// `expected` is the journal that should be here, for when nothing that can be read says which it is.
pub(crate) fn scan(
    disk: &dyn Disk,
    expected: Option<u64>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Scan, OpenError> {
    let mut reader = Reader::open(disk, expected)?;
    let total: u64 = reader.segments.iter().map(|segment| segment.size).sum();
    let mut done = Progress { segments_read: 0, segments: reader.segments.len() as u64, bytes_read: 0, bytes: total };
    progress(done);
    let mut bytes = Vec::new(); // one for all: to get so much memory again and again takes longer than to read into it
    for at in 0..reader.segments.len() {
        let goes_on = reader.read_segment(at, &mut bytes);
        done.segments_read += 1;
        done.bytes_read += reader.segments[at].size;
        progress(done);
        if !goes_on {
            break;
        }
    }
    Ok(reader.finish())
}

struct Reader {
    segments: Vec<Segment>,
    /// The last number in each of them that counts.
    limits: Vec<u64>,
    /// Files without a readable header, also those that never had one.
    headless: Vec<(String, Arc<dyn DiskFile>, u64)>,
    free: Vec<Free>,
    /// Not a single segment has a readable header.
    is_headless: bool,
    /// There are checkpoints.
    has_tables: bool,
    journal: Option<u64>,
    salt: u32,
    next_ordinal: u64,
    next_sequence: u64,
    recovery: Recovery,
    notes: Vec<Note>,
    pending: Option<Pending>,
    /// The last frame that was read.
    last: u64,
    /// The number that the next one should bear. One more, except where a start of the node left numbers out.
    next: u64,
    synced: u64,
    /// The highest mark of all, once it had to be looked for.
    highest_mark: Option<u64>,
    /// Segments below this are known to be of no use.
    oldest: u64,
    /// So many segments were read, the last of them perhaps in part.
    read: usize,
    /// What the file of that name says, if it is about this journal.
    newest: Option<Newest>,
}

impl Reader {
    fn open(disk: &dyn Disk, expected: Option<u64>) -> Result<Self, OpenError> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error| OpenError::Io { what, error }
        };
        let mut notes = Vec::new();
        let (mut segments, mut headless, mut has_tables) = (Vec::new(), Vec::new(), false);
        for name in disk.names().map_err(failed("list the files of the journal"))? {
            has_tables |= tables::bucket_of(&name).is_some();
            if !name.ends_with(SEGMENT_SUFFIX) {
                continue;
            }
            let file = disk.open(&name).map_err(failed(&format!("open {name}")))?;
            let size = file.size().map_err(failed(&format!("ask the size of {name}")))?;
            let (bytes, unreadable) = read_all(&*file, SEGMENT_HEAD.min(size));
            match SegmentHead::read(&bytes) {
                Ok((head, lacks_copy)) => {
                    if lacks_copy {
                        notes.push(Note::HeaderCopy { file: name.clone() });
                    }
                    let last = head.first.saturating_sub(1);
                    let end = SEGMENT_HEAD;
                    segments.push(Segment {
                        name,
                        file,
                        size,
                        head,
                        lacks_copy,
                        end,
                        last,
                        frames: 0,
                        milestones: Vec::new(),
                        unreadable,
                    });
                }
                Err(HeadProblem::Version(version)) => return Err(OpenError::Version { file: name, version }),
                Err(HeadProblem::None) => headless.push((name, file, size)),
            }
        }
        segments.sort_by_key(|segment| segment.head.ordinal);
        let newest = read_newest(disk);
        let journal = segments.last().map(|segment| segment.head.journal);
        if let Some(stranger) = segments.iter().find(|segment| Some(segment.head.journal) != journal) {
            return Err(OpenError::Mixed { file: stranger.name.clone() });
        }
        let is_headless = journal.is_none();
        let journal = journal.or(newest.map(|newest| newest.journal));
        let oldest = segments.iter().map(|segment| segment.head.oldest).max().unwrap_or_default();
        let next_ordinal = segments.last().map_or(1, |segment| segment.head.ordinal + 1);
        let first = segments.iter().map(|segment| segment.head.first).max().unwrap_or(1);
        let bytes: u64 = segments.iter().map(|s| s.size).chain(headless.iter().map(|h| h.2)).sum();
        let mut reader = Self {
            segments: Vec::new(),
            limits: Vec::new(),
            headless,
            free: Vec::new(),
            is_headless,
            has_tables,
            journal,
            salt: journal.or(expected).map_or(0, frame::salt),
            next_ordinal,
            next_sequence: first + bytes / HEAD as u64 + 1,
            recovery: Recovery::default(),
            notes,
            pending: None,
            last: 0,
            next: 0,
            synced: 0,
            highest_mark: None,
            oldest,
            read: 0,
            newest: newest.filter(|newest| journal == Some(newest.journal)),
        };
        reader.choose(segments);
        Ok(reader)
    }

    /// Leaves out what is no longer needed, and what a later segment says is void.
    fn choose(&mut self, segments: Vec<Segment>) {
        let mut limit = u64::MAX;
        for segment in segments.into_iter().rev() {
            let head = &segment.head;
            let (first, follows) = (head.first, head.follows);
            if head.ordinal < self.oldest || first > limit {
                self.free.push(segment.into_free());
            } else {
                self.segments.push(segment);
                self.limits.push(limit);
            }
            limit = limit.min(follows);
        }
        self.segments.reverse();
        self.limits.reverse();
    }

    /// Says whether the journal goes on behind it.
    fn read_segment(&mut self, at: usize, bytes: &mut Vec<u8>) -> bool {
        self.read = at + 1;
        let head = self.segments[at].head.clone();
        if at == 0 && head.ordinal > self.oldest && self.find_highest_mark(0, &[]) == 0 {
            // The very first segment is not there, and nothing was ever synced: the journal had not begun.
            self.notes.push(Note::TornTail { segment: self.oldest, after: 0, dropped: 0 });
            self.read = 0;
            return false;
        } else if at == 0 {
            self.last = head.follows;
        } else if self.last < head.follows {
            let before = &self.segments[at - 1];
            let is_hidden = before.unreadable.range(before.end / BLOCK as u64..).next().is_some();
            if !self.skip(at - 1, head.follows + 1, is_hidden, 0, &[]) {
                self.read = at;
                return false;
            }
        }
        self.next = head.first;
        self.recovery.ended = false;
        self.synced = self.synced.max(head.synced);
        let unreadable = read_into(&*self.segments[at].file, self.segments[at].size, bytes);
        let bytes = &bytes[..];
        if !unreadable.is_empty() {
            let blocks = unreadable.len() as u64;
            self.notes.push(Note::Unreadable { file: self.segments[at].name.clone(), blocks });
        }
        self.segments[at].unreadable.clone_from(&unreadable);
        let is_hidden =
            |from: usize, to: usize| unreadable.range((from / BLOCK) as u64..=(to / BLOCK) as u64).next().is_some();
        let (found, limit) = (parse(self.salt, bytes, &head, self.limits[at]), self.limits[at]);
        for (i, frame) in found.iter().enumerate() {
            let sequence = frame.head.sequence;
            let (rest, dropped) = (&found[i..], (found.len() - i) as u64);
            let (before, end) =
                (self.segments[at].end as usize, frame.at + frame::frame_bytes(frame.head.length as usize));
            if sequence > self.next && !self.skip(at, sequence, is_hidden(before, frame.at), dropped, rest) {
                return false;
            }
            self.next = sequence;
            if !frame.intact && !self.skip(at, sequence, is_hidden(frame.at, end - 1), dropped - 1, rest) {
                return false;
            }
            self.take(frame, bytes, head.ordinal);
            let segment = &mut self.segments[at];
            segment.pass(frame);
            segment.end = end as u64;
            (segment.last, segment.frames) = (sequence, segment.frames + 1);
        }
        let end = self.segments[at].end as usize;
        let is_end = at + 1 == self.segments.len() && self.last < limit;
        let room = bytes.len().saturating_sub(end) as u64;
        let is_torn = room >= LEAST_ROOM && bytes[end..end + HEAD].iter().any(|byte| *byte != 0);
        if is_end && room >= LEAST_ROOM && (is_hidden(end, end) || is_torn && is_hidden(end, end + HEAD - 1)) {
            // Whether it was the end nobody knows any more; or a head begins here, and ends where nothing can be read.
            self.skip(at, self.next + 1, true, 0, &[]);
        } else if is_end && (is_torn || found.is_empty()) {
            // Frames end with zeros in the place of the next head: this was the beginning of one more. A segment without any
            // was begun, and its first write did not come through.
            self.notes.push(Note::TornTail { segment: head.ordinal, after: self.last, dropped: 0 });
        }
        true
    }

    /// Something is missing after `last`, and `next` is the first number behind it. Damage is stepped over, and so is what is hidden:
    /// in a place that the disk does not give back. At a torn tail the journal ends.
    fn skip(&mut self, at: usize, next: u64, is_hidden: bool, dropped: u64, rest: &[Found]) -> bool {
        let mark = match self.highest_mark {
            Some(mark) => mark,
            None => {
                let mark = self.find_highest_mark(at + 1, rest);
                self.highest_mark = Some(mark);
                mark
            }
        };
        let segment = self.segments[at].head.ordinal;
        if self.next > mark && !is_hidden {
            self.notes.push(Note::TornTail { segment, after: self.last, dropped });
            return false;
        }
        self.notes.push(Note::Damaged { segment, after: self.last, next });
        if next > self.next {
            if let Some(pending) = self.pending.take() {
                self.recovery.on_missing(pending.bucket, pending.last);
            }
            self.recovery.on_gap();
        }
        // What is missing may begin below the mark and end above it: then the tail is torn as well, and nothing behind it counts.
        // An earlier start, before the damage, did not count it either.
        let is_torn = next - 1 > mark && !is_hidden;
        if is_torn {
            self.notes.push(Note::TornTail { segment, after: self.last, dropped });
        }
        !is_torn
    }

    fn find_highest_mark(&self, from: usize, rest: &[Found]) -> u64 {
        let known = self.newest.map_or(0, |newest| newest.synced).max(self.synced);
        let mut mark = rest.iter().map(|frame| frame.head.synced).fold(known, u64::max);
        let mut bytes = Vec::new();
        for (segment, limit) in self.segments[from..].iter().zip(&self.limits[from..]) {
            read_into(&*segment.file, segment.size, &mut bytes);
            let found = parse(self.salt, &bytes, &segment.head, *limit);
            mark = found.iter().map(|frame| frame.head.synced).fold(mark.max(segment.head.synced), u64::max);
        }
        mark
    }

    fn take(&mut self, frame: &Found, bytes: &[u8], ordinal: u64) {
        let head = &frame.head;
        let payload = &bytes[frame.at + HEAD..][..head.length as usize];
        (self.last, self.next) = (head.sequence, head.sequence + 1);
        self.synced = self.synced.max(head.synced);
        if !frame.intact {
            return self.miss(head);
        }
        if head.flags & MEMORY != 0 && head.bucket != NODE {
            self.recovery.ledger.uneasy.insert(head.bucket, ());
        }
        let pending = match (self.pending.take(), head.is_first()) {
            (pending, true) if head.bucket == NODE && head.is_last() => {
                // A census may stand between two parts of a record: a segment begins with one.
                self.complete(head.kind, NODE, payload, ordinal, head.previous, head.sequence);
                self.pending = pending;
                return;
            }
            (Some(pending), true) => {
                self.recovery.on_missing(pending.bucket, pending.last); // its rest never came
                None
            }
            (pending, _) => pending,
        };
        match (pending, head.is_first(), head.is_last()) {
            (_, true, true) => {
                self.complete(head.kind, head.bucket, payload, ordinal, head.previous, head.sequence);
            }
            (_, true, false) => {
                let (kind, bucket, first, previous) = (head.kind, head.bucket, head.sequence, head.previous);
                let payload = payload.to_vec();
                self.pending = Some(Pending { kind, bucket, first, last: first, previous, ordinal, payload });
            }
            (Some(mut pending), false, is_last) if pending.bucket == head.bucket && pending.last == head.previous => {
                pending.payload.extend_from_slice(payload);
                pending.last = head.sequence;
                if is_last {
                    let Pending { kind, bucket, previous, ordinal, payload, last, .. } = pending;
                    self.complete(kind, bucket, &payload, ordinal, previous, last);
                } else {
                    self.pending = Some(pending);
                }
            }
            (pending, false, _) => {
                if let Some(pending) = pending {
                    self.recovery.on_missing(pending.bucket, pending.last);
                }
                self.miss(head);
            }
        }
    }

    /// The head of a frame can be read, the rest is not to be had.
    fn miss(&mut self, head: &Head) {
        if let Some(pending) = self.pending.take_if(|pending| pending.bucket == head.bucket) {
            self.recovery.on_missing(pending.bucket, pending.last);
        }
        match head.kind {
            Kind::Census | Kind::Mark => {}
            Kind::Epoch => self.recovery.ledger.doubt_epochs(),
            Kind::Record | Kind::Erase | Kind::Carry => self.recovery.on_missing(head.bucket, head.sequence),
        }
    }

    fn complete(&mut self, kind: Kind, bucket: BucketId, payload: &[u8], ordinal: u64, previous: u64, sequence: u64) {
        let Some(content) = Content::decode(kind, bucket, payload) else {
            // Its checksum is right and it makes no sense: as good as damaged.
            self.notes.push(Note::Damaged { segment: ordinal, after: sequence - 1, next: sequence });
            match kind {
                Kind::Census | Kind::Epoch | Kind::Mark => self.recovery.ledger.doubt_epochs(),
                Kind::Record | Kind::Erase | Kind::Carry => self.recovery.on_missing(bucket, sequence),
            }
            return;
        };
        if !matches!(content, Content::Mark) {
            self.recovery.stopped = false;
        }
        match content {
            Content::Record(record) => self.recovery.ledger.absorb(&record, ordinal, previous, sequence),
            Content::Carry(bucket, durable) => self.recovery.ledger.carry(bucket, *durable, ordinal, sequence),
            Content::Census(census) => {
                self.oldest = self.oldest.max(census.oldest);
                self.recovery.on_census(&census);
            }
            Content::Mark => {}
        }
    }

    fn finish(mut self) -> Scan {
        let is_any_used = self.look_at_headless();
        self.look_for_newest();
        let was_begun = is_any_used || self.has_tables || self.newest.is_some_and(|newest| newest.ordinal > 0);
        if self.is_headless && was_begun {
            // There was a journal, and nothing of it can be read.
            self.recovery.ledger.doubt_epochs();
        }
        // Records whose rest did not make it are void, and so is whatever stands between their parts.
        let last = self.pending.as_ref().map_or(self.last, |pending| pending.first - 1);
        let oldest = self.oldest;
        self.notes.retain(|note| note.segment().is_none_or(|segment| segment >= oldest));
        let gone = self.recovery.settle();
        self.notes.extend(gone.iter().map(|bucket| Note::ReplicaLost { bucket: *bucket }));
        let is_in_doubt = !self.recovery.ledger.in_doubt.is_empty();
        if is_in_doubt {
            self.notes.push(Note::EpochsInDoubt);
        }
        // A segment at the end without a single frame is as good as not begun.
        let used = self.segments[..self.read].iter().rposition(|segment| segment.frames > 0).map_or(0, |at| at + 1);
        let unread = self.segments.split_off(used);
        self.free.extend(unread.into_iter().map(Segment::into_free));
        Scan {
            has_news: !gone.is_empty() || is_in_doubt && !self.recovery.is_doubt_said,
            is_vacant: self.is_headless && !was_begun && self.newest.is_none(),
            recovery: self.recovery,
            notes: self.notes,
            segments: self.segments,
            free: self.free,
            journal: self.journal,
            last,
            synced: self.synced,
            next_sequence: self.next_sequence.max(self.last + 1),
            next_ordinal: self.next_ordinal,
        }
    }

    /// Is the end of the journal gone altogether?
    fn look_for_newest(&mut self) {
        let Some(newest) = self.newest else { return };
        if self.last < newest.synced {
            self.notes.push(Note::Missing { segment: newest.ordinal, after: self.last });
            self.recovery.on_gap();
        }
        self.next_ordinal = self.next_ordinal.max(newest.ordinal + 1);
        self.next_sequence = self.next_sequence.max(newest.synced + 1);
    }

    /// Files without a readable header: was one of them the end of the journal? Says whether any of them was ever written to, apart
    /// from the beginning of a life: that is synced before anything follows it, so without a header nothing did.
    fn look_at_headless(&mut self) -> bool {
        let mut is_any_used = false;
        for (name, file, size) in std::mem::take(&mut self.headless) {
            let (bytes, unreadable) = read_all(&*file, size);
            let is_sound = unreadable.is_empty();
            if is_sound && bytes.iter().all(|byte| *byte == 0) {
                self.free.push(Free { name, size, is_sound });
                continue;
            }
            let frames = || (0..bytes.len()).step_by(8).filter_map(|at| Head::read(self.salt, &bytes[at..]));
            let is_beginning = frames().next().is_some() && frames().all(|head| head.kind == Kind::Census);
            let is_used = !is_sound || !is_beginning;
            let beyond: Vec<_> = frames().filter(|head| head.sequence > self.last).collect();
            let first = beyond.iter().map(|head| head.sequence).min();
            let mark = beyond.iter().map(|head| head.synced).max().unwrap_or_default();
            // What the disk does not give back may be the end of the journal; the file `newest` would know.
            let may_be_end = !is_sound && self.newest.is_none();
            if first.is_some_and(|first| mark >= first) || may_be_end || self.is_headless && is_used {
                self.notes.push(Note::Header { file: name.clone() });
                self.recovery.on_gap();
            } else if first.is_some() {
                let segment = self.segments.last().map_or(0, |segment| segment.head.ordinal + 1);
                self.notes.push(Note::TornTail { segment, after: self.last, dropped: beyond.len() as u64 });
            }
            let highest = beyond.iter().map(|head| head.sequence + 1).max().unwrap_or_default();
            self.next_sequence = self.next_sequence.max(highest + size / HEAD as u64);
            self.free.push(Free { name, size, is_sound });
            is_any_used |= is_used;
        }
        is_any_used
    }
}

/// Of what may not be synced, up to so much more than need be is written again.
const MILE: u64 = 64 << 10;

impl Segment {
    fn pass(&mut self, frame: &Found) {
        let at = frame.at as u64;
        if at >= self.milestones.last().map_or(SEGMENT_HEAD, |(before, _)| *before) + MILE {
            self.milestones.push((at, frame.head.sequence));
        }
    }

    /// Everything before this place is synced, if everything up to that number is: the header too, as it was written first.
    fn synced_before(&self, synced: u64) -> u64 {
        let stones = self.milestones.partition_point(|(_, sequence)| *sequence <= synced + 1);
        stones.checked_sub(1).map_or(0, |last| self.milestones[last].0)
    }

    fn into_free(self) -> Free {
        Free { name: self.name, size: self.size, is_sound: self.unreadable.is_empty() }
    }
}

/// All frames of a segment with rising numbers up to `limit`, also behind what is unreadable. Those of another life are what was left in
/// the file: even their numbers may fit, when a header was lost.
fn parse(salt: u32, bytes: &[u8], segment: &SegmentHead, limit: u64) -> Vec<Found> {
    let mut found = Vec::new();
    let first = segment.first;
    let (mut at, mut want) = (SEGMENT_HEAD as usize, first);
    while at + HEAD <= bytes.len() {
        // Numbers rise by one: a frame cannot bear one that would not have fitted in before it.
        let most = first + (at - SEGMENT_HEAD as usize) as u64 / HEAD as u64;
        let fits = |head: &Head| {
            head.life == segment.life
                && (want..=most).contains(&head.sequence)
                && at + frame::frame_bytes(head.length as usize) <= bytes.len()
        };
        let Some(head) = Head::read(salt, &bytes[at..]).filter(fits) else {
            at += 8;
            continue;
        };
        if head.sequence > limit {
            break;
        }
        let payload = &bytes[at + HEAD..][..head.length as usize];
        let intact = frame::payload_crc(salt, payload) == head.payload_crc;
        found.push(Found { head, at, intact });
        want = head.sequence + 1;
        at += frame::frame_bytes(head.length as usize);
    }
    found
}

fn read_newest(disk: &dyn Disk) -> Option<Newest> {
    let file = disk.open(Newest::FILE).ok()?;
    let mut bytes = vec![0; file.size().ok()?.min(4096) as usize];
    file.read_at(0, &mut bytes).ok()?;
    Newest::read(&bytes)
}

/// The size of what a disk loses at once.
const BLOCK: usize = 4096;

fn read_all(file: &dyn DiskFile, size: u64) -> (Vec<u8>, BTreeSet<u64>) {
    let mut bytes = Vec::new();
    let unreadable = read_into(file, size, &mut bytes);
    (bytes, unreadable)
}

/// Blocks that the disk does not give back read as zeros, and are named.
fn read_into(file: &dyn DiskFile, size: u64, bytes: &mut Vec<u8>) -> BTreeSet<u64> {
    bytes.resize(size as usize, 0);
    let mut unreadable = BTreeSet::new();
    if file.read_at(0, bytes).is_ok() {
        return unreadable;
    }
    for (i, block) in bytes.chunks_mut(BLOCK).enumerate() {
        if file.read_at((i * BLOCK) as u64, block).is_err() {
            block.fill(0);
            unreadable.insert(i as u64);
        }
    }
    unreadable
}

/// Writes the end of the journal, from the last synced mark on, once more and syncs it. What was read may be known to the operating system only; and after a
/// sync that failed, a sync alone would say yes without writing anything.
///
/// Block by block, without those that could not be read before: no record that counts is in one of them. A segment has both copies of
/// its header from then on: with the only one it would lose all of its records.
pub(crate) fn settle_on_disk(scan: &Scan) -> io::Result<()> {
    for segment in scan.segments.iter().filter(|segment| segment.last > scan.synced || segment.lacks_copy) {
        let mut head = Vec::new();
        segment.head.write(&mut head);
        let mut block = vec![0; BLOCK];
        let synced = segment.synced_before(scan.synced);
        for (i, from) in (0..segment.end).step_by(BLOCK).enumerate() {
            let lacks_copy = segment.lacks_copy && from < SEGMENT_HEAD;
            let is_synced = from + (BLOCK as u64) <= synced && !lacks_copy;
            if is_synced || segment.unreadable.contains(&(i as u64)) {
                continue;
            }
            let part = &mut block[..(segment.size - from).min(BLOCK as u64) as usize];
            segment.file.read_at(from, part)?;
            let head = head.iter().skip(from as usize);
            part.iter_mut().zip(head).for_each(|(byte, head)| *byte = *head);
            segment.file.write_at(from, part)?;
        }
        segment.file.sync()?;
    }
    Ok(())
}
