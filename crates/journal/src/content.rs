//! What a record says: the payloads of frames, and their encoding (postcard).

use std::collections::{BTreeMap, BTreeSet};

use blueprint::{BucketId, Epoch, Index, LaneId, Member, Position, Slot, SlotMap, SlotSet, Term};
use bytes::Bytes;
use node::{Lost, NodeRecord, encode_onto};
use phaser::{Durable, Entries, Log, Record};
use serde::{Deserialize, Serialize};

use crate::frame::{Kind, NODE};

/// Payloads of a batch, one after the other in one buffer, before they have sequence numbers.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) items: Vec<Item>,
    /// By so many bytes at most a census may be longer afterwards.
    pub(crate) growth: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) bucket: BucketId,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// More than what many clients write in one batch.
const MOST_KEPT: usize = 4 << 20;

impl Encoded {
    /// With about the room that these take: to grow step by step would copy everything about twice.
    pub(crate) fn with_room_for(records: &[NodeRecord]) -> Self {
        let bytes = records.iter().map(about_bytes).sum();
        Self { bytes: Vec::with_capacity(bytes), items: Vec::with_capacity(records.len()), growth: 0 }
    }

    /// As new, with the room that it has, unless that was for something unusual.
    pub(crate) fn clear(&mut self) {
        if self.bytes.capacity() > MOST_KEPT {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.items.clear();
        self.growth = 0;
    }

    pub(crate) fn push(&mut self, record: &NodeRecord) {
        let start = self.bytes.len();
        let (kind, bucket) = match record {
            NodeRecord::Epoch { lane, epoch } => {
                self.encode(&(lane, epoch));
                self.growth += Census::EPOCH * lane.families().count() as u64;
                (Kind::Epoch, NODE)
            }
            NodeRecord::Erase { bucket } => (Kind::Erase, *bucket),
            NodeRecord::Bucket { bucket, record } => {
                self.encode(record);
                self.growth += Census::MENTION;
                if matches!(record, Record::Found { .. }) {
                    self.growth += Census::RESIDENT;
                }
                (Kind::Record, *bucket)
            }
        };
        self.items.push(Item { kind, bucket, start, end: self.bytes.len() });
    }

    pub(crate) fn push_carry(&mut self, bucket: BucketId, durable: &Durable) {
        let start = self.bytes.len();
        self.encode(&Carry::of(durable));
        self.items.push(Item { kind: Kind::Carry, bucket, start, end: self.bytes.len() });
    }

    fn encode<T: Serialize>(&mut self, value: &T) {
        encode_onto(value, &mut self.bytes);
    }
}

/// A record as it is read back.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Record(NodeRecord),
    Carry(BucketId, Box<Durable>),
    Census(Census),
    Mark,
}

impl Content {
    /// `None` for what this program cannot have written, whatever its checksum says.
    pub(crate) fn decode(kind: Kind, bucket: BucketId, payload: &[u8]) -> Option<Self> {
        match kind {
            Kind::Record => {
                let record: Record = all_of(payload)?;
                let sound = match &record {
                    Record::Append { previous, entries, .. } => entries.follow(*previous, Term(u64::MAX)),
                    _ => true,
                };
                sound.then_some(Self::Record(NodeRecord::Bucket { bucket, record }))
            }
            Kind::Erase => payload.is_empty().then_some(Self::Record(NodeRecord::Erase { bucket })),
            Kind::Epoch => {
                let (lane, epoch): (LaneId, Epoch) = all_of(payload)?;
                (lane.of > 0).then_some(Self::Record(NodeRecord::Epoch { lane, epoch }))
            }
            Kind::Carry => Some(Self::Carry(bucket, Box::new(all_of::<Carry>(payload)?.into_durable()?))),
            Kind::Census => Some(Self::Census(all_of(payload)?)),
            Kind::Mark => payload.is_empty().then_some(Self::Mark),
        }
    }
}

fn all_of<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

/// Who is here, and up to where: proves that nothing between two damaged places concerned anybody else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Census {
    /// Segments below this ordinal are not needed any more.
    pub(crate) oldest: u64,
    pub(crate) epochs: BTreeMap<u64, Epoch>,
    /// Later epochs may have been acted on, and replicas may have been here that nobody can name: something is damaged.
    pub(crate) in_doubt: bool,
    /// The same, of what was named up to here, since an earlier damage.
    pub(crate) doubted_upto: Epoch,
    pub(crate) buckets: Vec<Resident>,
    pub(crate) lost: BTreeMap<BucketId, Lost>,
    /// Buckets of which something may have been reported as written and not be synced.
    pub(crate) uneasy: BTreeSet<BucketId>,
    /// Buckets of which something that was reported as written may be missing, because the operating system restarted (R10).
    pub(crate) doubtful: BTreeSet<BucketId>,
    /// Everything is synced, and nothing comes after.
    pub(crate) stopped: bool,
}

impl Census {
    /// The most that each of these takes: ten bytes for a number, two for a family.
    pub(crate) const RESIDENT: u64 = 50;
    pub(crate) const EPOCH: u64 = 12;
    pub(crate) const MENTION: u64 = 10;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resident {
    pub(crate) bucket: BucketId,
    /// Its last record.
    pub(crate) last: u64,
    /// What it is called, should it turn out to be lost.
    pub(crate) identity: Lost,
}

/// A whole replica, tables by reference. A struct of our own: what is kept on disk must not change by accident.
#[derive(Debug, Serialize, Deserialize)]
struct Carry {
    me: Member,
    origin: Position,
    promised: Term,
    base: Position,
    clock: u64,
    entries: Entries,
    commit: Index,
    owned: SlotSet,
    as_of: SlotMap<Index>,
    tables: Vec<(Slot, Bytes)>,
}

impl Carry {
    fn of(durable: &Durable) -> Self {
        Self {
            me: durable.me,
            origin: durable.origin,
            promised: durable.promised,
            base: durable.log.base(),
            clock: durable.log.base_clock(),
            entries: durable.log.entries(),
            commit: durable.commit,
            owned: durable.owned.clone(),
            as_of: durable.as_of.clone(),
            tables: durable.tables.iter().map(|(slot, table)| (*slot, table.clone())).collect(),
        }
    }

    fn into_durable(self) -> Option<Durable> {
        let log = Log::with(self.base, self.clock, &self.entries)?;
        Some(Durable {
            me: self.me,
            origin: self.origin,
            promised: self.promised,
            log,
            commit: self.commit,
            owned: self.owned,
            as_of: self.as_of,
            tables: self.tables.into_iter().collect(),
        })
    }
}

/// Where a table lies. Stands in the place of its bytes in everything that the journal itself keeps, so that what a record means
/// for tables is said in one place only, `Durable::absorb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableRef {
    /// Names the file, together with the bucket.
    pub(crate) generation: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) crc: u32,
}

impl TableRef {
    pub(crate) fn to_bytes(self) -> Bytes {
        let mut bytes = Vec::with_capacity(28);
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.extend_from_slice(&self.crc.to_le_bytes());
        bytes.into()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 28] = bytes.try_into().ok()?;
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let crc = u32::from_le_bytes(bytes[24..].try_into().expect("four bytes"));
        Some(Self { generation: number(0), offset: number(8), length: number(16), crc })
    }
}

/// The tables that a record brings. (Those of a `Save` or `Take` were stored before: it refers to them.)
pub(crate) fn tables_of(record: &mut NodeRecord) -> Option<(BucketId, &mut Vec<(Slot, Bytes)>)> {
    match record {
        NodeRecord::Bucket { bucket, record: Record::Found { image, .. } } => Some((*bucket, &mut image.tables)),
        NodeRecord::Bucket { .. } | NodeRecord::Epoch { .. } | NodeRecord::Erase { .. } => None,
    }
}

/// What comes after it need not wait for it.
pub(crate) fn is_note(record: &NodeRecord) -> bool {
    matches!(record, NodeRecord::Bucket { record, .. } if record.is_note())
}

/// May it be reported as written when only the operating system has it? Log entries may; what others build on may not, nor may what the blueprint
/// will count on.
pub(crate) fn may_stay_in_memory(record: &NodeRecord) -> bool {
    match record {
        NodeRecord::Bucket { record: Record::Append { entries, .. }, .. } => !entries.are_counted_on(),
        NodeRecord::Bucket { record: Record::Commit(_), .. } => true,
        NodeRecord::Bucket {
            record:
                Record::Found { .. }
                | Record::Adopt(_)
                | Record::Promise(_)
                | Record::StartOver { .. }
                | Record::Save(_)
                | Record::Take(_)
                | Record::Cut { .. },
            ..
        }
        | NodeRecord::Epoch { .. }
        | NodeRecord::Erase { .. } => false,
    }
}

/// At level memory nothing of the log waits for it.
pub(crate) fn may_go_ahead(record: &NodeRecord) -> bool {
    may_stay_in_memory(record) || is_note(record)
}

pub(crate) fn bucket_of(record: &NodeRecord) -> Option<BucketId> {
    match record {
        NodeRecord::Bucket { bucket, .. } | NodeRecord::Erase { bucket } => Some(*bucket),
        NodeRecord::Epoch { .. } => None,
    }
}

fn about_bytes(record: &NodeRecord) -> usize {
    match record {
        NodeRecord::Bucket { record: Record::Save(image) | Record::Take(image), .. } => 128 + image.tables.len() * 32,
        NodeRecord::Bucket { record: Record::Append { entries, .. }, .. } => 32 + entries.bytes(),
        NodeRecord::Bucket { .. } | NodeRecord::Epoch { .. } | NodeRecord::Erase { .. } => 64,
    }
}

/// Does it bring tables that are to be stored first?
pub(crate) fn has_tables(record: &NodeRecord) -> bool {
    table_bytes(record) > 0
}

pub(crate) fn table_bytes(record: &NodeRecord) -> usize {
    match record {
        NodeRecord::Bucket { record: Record::Found { image, .. }, .. } => {
            image.tables.iter().map(|(_, table)| table.len().max(1)).sum()
        }
        NodeRecord::Bucket { .. } | NodeRecord::Epoch { .. } | NodeRecord::Erase { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use node::NodeDurable;
    use phaser::{Entry, Image, Payload};
    use proptest::prelude::*;

    use super::*;

    const KINDS: [Kind; 6] = [Kind::Record, Kind::Erase, Kind::Epoch, Kind::Carry, Kind::Census, Kind::Mark];

    fn found() -> Record {
        let owned = SlotSet::range(Slot(0), Slot(9));
        let tables = vec![(Slot(3), Bytes::from_static(b"a table"))];
        let image = Image { as_of: Index(4), covered: owned.clone(), replaced: owned.clone(), tables };
        let base = Position { term: Term(1), index: Index(4) };
        Record::Found { me: Member::new(1, 1), promised: Term(2), base, clock: 7, owned, image }
    }

    fn append() -> Record {
        let at = |index| Position { term: Term(2), index: Index(index) };
        let entry = |index, payload| Entry { at: at(index), clock: index, seed: 3, payload };
        let command = Payload::Command { slot: Slot(3), body: Bytes::from_static(b"SET a b") };
        let split = Payload::Split { child: BucketId(257), slots: SlotSet::range(Slot(1), Slot(2)) };
        let entries = [entry(5, Payload::Reign), entry(6, command), entry(7, split)].into_iter().collect();
        let previous = Position { term: Term(1), index: Index(4) };
        Record::Append { previous, entries, commit: Some(previous) }
    }

    /// One payload of every kind, as this program writes them.
    fn payloads() -> Vec<(Kind, Vec<u8>)> {
        let bucket = BucketId(1);
        let of = |record| NodeRecord::Bucket { bucket, record };
        let at = Position { term: Term(2), index: Index(6) };
        let cut = Record::Cut { base: at, clock: 6, owned: SlotSet::range(Slot(0), Slot(4)) };
        let save = Image { as_of: Index(6), covered: SlotSet::range(Slot(0), Slot(9)), ..Image::default() };
        let begin = Record::StartOver { base: at, clock: 9, owned: SlotSet::range(Slot(3), Slot(5)) };
        let mut encoded = Encoded::default();
        let mut durable = Durable::found(&found()).expect("that is what a Found record makes");
        durable.absorb(&append());
        for record in [found(), append(), Record::Commit(at), Record::Promise(Term(3)), cut, Record::Save(save), begin]
        {
            encoded.push(&of(record));
        }
        encoded.push(&NodeRecord::Epoch { lane: LaneId { number: 1, of: 2 }, epoch: Epoch(5) });
        encoded.push(&NodeRecord::Erase { bucket });
        encoded.push_carry(bucket, &durable);
        let lost = Lost { incarnation: blueprint::Incarnation(1), origin: at };
        let census = Census {
            oldest: 1,
            epochs: BTreeMap::from([(1, Epoch(5))]),
            buckets: vec![Resident { bucket, last: 9, identity: lost }],
            lost: BTreeMap::from([(BucketId(2), lost)]),
            uneasy: BTreeSet::from([bucket]),
            ..Census::default()
        };
        let written = encoded.items.iter().map(|item| (item.kind, encoded.bytes[item.start..item.end].to_vec()));
        written
            .chain([(Kind::Census, postcard::to_allocvec(&census).expect("an encoding")), (Kind::Mark, vec![])])
            .collect()
    }

    /// What is read counts for something, and can be gone on from.
    fn take_in(content: Content) {
        let mut node = NodeDurable::default();
        node.absorb(&NodeRecord::Bucket { bucket: BucketId(1), record: found() });
        match content {
            Content::Record(record) => node.absorb(&record),
            Content::Carry(bucket, durable) => drop(node.replicas.insert(bucket, *durable)),
            Content::Census(_) | Content::Mark => {}
        }
        node.absorb(&NodeRecord::Bucket { bucket: BucketId(1), record: append() });
    }

    #[test]
    fn what_is_written_is_read() {
        for (kind, payload) in payloads() {
            take_in(Content::decode(kind, BucketId(1), &payload).unwrap_or_else(|| panic!("a {kind:?}")));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// A checksum says that these are the bytes that were written, not that whoever wrote them was right.
        #[test]
        fn any_payload_is_read_or_refused(kind in 0..KINDS.len(), payload in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(content) = Content::decode(KINDS[kind], BucketId(1), &payload) {
                take_in(content);
            }
        }

        #[test]
        fn any_payload_that_is_nearly_right_is_read_or_refused(
            which in any::<prop::sample::Index>(),
            kind in prop::option::weighted(0.1, 0..KINDS.len()),
            wounds in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        ) {
            let all = payloads();
            let (was, mut payload) = all[which.index(all.len())].clone();
            for (at, value) in wounds.into_iter().filter(|_| !payload.is_empty()).collect::<Vec<_>>() {
                let at = at.index(payload.len());
                payload[at] = value;
            }
            if let Some(cut) = cut {
                payload.truncate(cut.index(payload.len() + 1));
            }
            if let Some(content) = Content::decode(kind.map_or(was, |kind| KINDS[kind]), BucketId(1), &payload) {
                take_in(content);
            }
        }
    }
}
