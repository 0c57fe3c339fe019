//! Bytes of a segment: a header, then frames, each at a multiple of eight.
//!
//! A record is one frame, or several when it does not fit into what is left of a segment. The head of a frame has a checksum of
//! its own: when only the payload is damaged, it is still known whose it was. Both are mixed with the journal's id, so that bytes
//! which a client stored, or files of another node, never pass for frames.

use std::io;

use blueprint::BucketId;
use crc32c::{crc32c, crc32c_append};

use crate::disk::{Disk, DiskFile};

pub(crate) const FORMAT: u16 = 4;

const SECTOR: usize = 512;
/// The second copy of a segment's header. In another block than the first: a disk loses whole blocks.
const SECOND_COPY: usize = 4096;
/// Two copies of the segment's header, a sector each: damage to one of them is damage to nothing.
pub(crate) const SEGMENT_HEAD: u64 = (SECOND_COPY + SECTOR) as u64;
const SEGMENT_MAGIC: [u8; 8] = *b"godwit\x00J";

pub(crate) const HEAD: usize = 56;
const MAGIC: u16 = 0x6A47;
/// With less room than this, the next segment is begun: a fragment should carry something.
pub(crate) const LEAST_ROOM: u64 = HEAD as u64 + 64;

/// Records of the node itself bear this in place of a bucket.
pub(crate) const NODE: BucketId = BucketId(u64::MAX);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A record of a bucket.
    Record = 1,
    Erase = 2,
    Epoch = 3,
    /// All that an older segment proved about a bucket, carried forward.
    Carry = 4,
    /// Who is here, and up to where.
    Census = 5,
    /// Nothing but the synced mark in its head.
    Mark = 6,
}

impl Kind {
    fn from(byte: u8) -> Option<Self> {
        [Self::Record, Self::Erase, Self::Epoch, Self::Carry, Self::Census, Self::Mark]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

pub(crate) const FIRST: u8 = 1;
pub(crate) const LAST: u8 = 2;
/// Reported as written before it was synced.
pub(crate) const MEMORY: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) length: u32,
    pub(crate) sequence: u64,
    /// The start of the node that wrote it, as in the header of its segment: what another one left behind in the file is void,
    /// whatever its number is.
    pub(crate) life: u64,
    /// Everything up to here was synced when this was written.
    pub(crate) synced: u64,
    pub(crate) bucket: BucketId,
    /// The frame before this one of the same bucket.
    pub(crate) previous: u64,
    pub(crate) payload_crc: u32,
}

impl Head {
    pub(crate) fn write(&self, salt: u32, out: &mut Vec<u8>) {
        let mut head = [0; HEAD];
        head[..2].copy_from_slice(&MAGIC.to_le_bytes());
        head[2..4].copy_from_slice(&[self.kind as u8, self.flags]);
        head[4..8].copy_from_slice(&self.length.to_le_bytes());
        head[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        head[16..24].copy_from_slice(&self.synced.to_le_bytes());
        head[24..32].copy_from_slice(&self.bucket.0.to_le_bytes());
        head[32..40].copy_from_slice(&self.previous.to_le_bytes());
        head[40..48].copy_from_slice(&self.life.to_le_bytes());
        head[48..52].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c_append(salt, &head[..52]);
        head[52..].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&head);
    }

    pub(crate) fn read(salt: u32, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEAD)?;
        if u16_at(bytes, 0) != MAGIC || u32_at(bytes, 52) != crc32c_append(salt, &bytes[..52]) {
            return None;
        }
        Some(Self {
            kind: Kind::from(bytes[2])?,
            flags: bytes[3],
            length: u32_at(bytes, 4),
            sequence: u64_at(bytes, 8),
            synced: u64_at(bytes, 16),
            bucket: BucketId(u64_at(bytes, 24)),
            previous: u64_at(bytes, 32),
            life: u64_at(bytes, 40),
            payload_crc: u32_at(bytes, 48),
        })
    }

    pub(crate) fn is_first(&self) -> bool {
        self.flags & FIRST != 0
    }

    pub(crate) fn is_last(&self) -> bool {
        self.flags & LAST != 0
    }
}

/// The whole frame, payload and padding included.
pub(crate) fn frame_bytes(payload: usize) -> usize {
    HEAD + payload.next_multiple_of(8)
}

pub(crate) fn payload_crc(salt: u32, payload: &[u8]) -> u32 {
    crc32c_append(salt, payload)
}

pub(crate) fn salt(journal: u64) -> u32 {
    crc32c(&journal.to_le_bytes())
}

/// The boot id, cut or filled up with zeros: those of Linux have 36 characters.
pub(crate) type Boot = [u8; 40];

pub(crate) fn boot(id: &str) -> Boot {
    let mut boot = [0; 40];
    let length = id.len().min(boot.len());
    boot[..length].copy_from_slice(&id.as_bytes()[..length]);
    boot
}

/// What stands at the beginning of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    /// The journal that it belongs to.
    pub(crate) journal: u64,
    /// Counts segments, also through recycling.
    pub(crate) ordinal: u64,
    /// The sequence number of its first frame.
    pub(crate) first: u64,
    /// The last sequence number before it that counts: what follows that one elsewhere is void.
    pub(crate) follows: u64,
    pub(crate) synced: u64,
    /// Segments below this ordinal are not needed any more.
    pub(crate) oldest: u64,
    /// A random number, made at each start of the node: its frames bear it too.
    pub(crate) life: u64,
    /// The run of the operating system that it was begun in.
    pub(crate) boot: Boot,
}

/// So many bytes of a header its checksum is about.
const CHECKED: usize = 112;

impl SegmentHead {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut copy = Vec::with_capacity(SECOND_COPY);
        copy.extend_from_slice(&SEGMENT_MAGIC);
        copy.extend_from_slice(&FORMAT.to_le_bytes());
        copy.extend_from_slice(&[0; 6]);
        for number in [self.journal, self.ordinal, self.first, self.follows, self.synced, self.oldest, self.life] {
            copy.extend_from_slice(&number.to_le_bytes());
        }
        copy.extend_from_slice(&self.boot);
        let crc = crc32c(&copy);
        copy.extend_from_slice(&crc.to_le_bytes());
        copy.resize(SECOND_COPY, 0);
        out.extend_from_slice(&copy);
        out.extend_from_slice(&copy[..SECTOR]);
    }

    /// The newer of the two copies, and whether one of them is damaged.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, bool), HeadProblem> {
        let copies = [Self::read_copy(bytes, 0), Self::read_copy(bytes, SECOND_COPY)];
        let damaged = copies[0] != copies[1];
        match copies {
            [Ok(a), Ok(b)] => Ok((if a.ordinal >= b.ordinal { a } else { b }, damaged)),
            [Ok(head), Err(_)] | [Err(_), Ok(head)] => Ok((head, damaged)),
            // Also if the other copy is damaged: what another release wrote is not ours to overwrite.
            [Err(problem @ HeadProblem::Version(_)), Err(_)] | [Err(_), Err(problem)] => Err(problem),
        }
    }

    fn read_copy(bytes: &[u8], at: usize) -> Result<Self, HeadProblem> {
        let copy = bytes.get(at..at + SECTOR).ok_or(HeadProblem::None)?;
        if copy[..8] != SEGMENT_MAGIC || u32_at(copy, CHECKED) != crc32c(&copy[..CHECKED]) {
            return Err(HeadProblem::None);
        }
        let version = u16_at(copy, 8);
        if version != FORMAT {
            return Err(HeadProblem::Version(version));
        }
        let number = |i: usize| u64_at(copy, 16 + 8 * i);
        let boot = copy[72..CHECKED].try_into().expect("forty bytes");
        Ok(Self {
            journal: number(0),
            ordinal: number(1),
            first: number(2),
            follows: number(3),
            synced: number(4),
            oldest: number(5),
            life: number(6),
            boot,
        })
    }
}

/// A file beside the segments, written when the journal is made, for each new segment and at a clean stop: without it, the disappearance of a synced end would look
/// like an earlier end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) journal: u64,
    /// This segment was begun, and synced; 0 if none was.
    pub(crate) ordinal: u64,
    /// Everything up to here was synced.
    pub(crate) synced: u64,
}

impl Newest {
    pub(crate) const FILE: &str = "newest";
    const BYTES: usize = 36;

    pub(crate) fn write(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        for (i, number) in [self.journal, self.ordinal, self.synced].into_iter().enumerate() {
            bytes[8 + 8 * i..16 + 8 * i].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c(&bytes[..32]);
        bytes[32..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn store(&self, disk: &dyn Disk) -> io::Result<()> {
        let write = |file: &dyn DiskFile| file.write_at(0, &self.write()).and_then(|()| file.sync());
        if disk.open(Self::FILE).is_ok_and(|file| write(&*file).is_ok()) {
            return Ok(());
        }
        // It is not there, or lies where the disk does not take it any more: then in another place.
        write(&*disk.create(Self::FILE)?)?;
        disk.sync_names()
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let is_sound =
            bytes.len() == Self::BYTES && bytes[..8] == SEGMENT_MAGIC && u32_at(bytes, 32) == crc32c(&bytes[..32]);
        let number = |i: usize| u64_at(bytes, 8 + 8 * i);
        is_sound.then(|| Self { journal: number(0), ordinal: number(1), synced: number(2) })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadProblem {
    /// Nothing that looks like one.
    None,
    /// Written by another release.
    Version(u16),
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            kind: Kind::Carry,
            flags: FIRST | MEMORY,
            length: 77,
            sequence: 1 << 40,
            life: 7,
            synced: 12,
            bucket: BucketId(9),
            previous: 11,
            payload_crc: 0xABCD,
        }
    }

    fn segment() -> SegmentHead {
        let boot = boot("4e2b6f3c-0d9f-4c55-9c2e-0a3f6d1b7a10");
        SegmentHead { journal: 5, ordinal: 6, first: 100, follows: 90, synced: 80, oldest: 2, life: 7, boot }
    }

    #[test]
    fn a_head_comes_back_and_no_flipped_bit_passes() {
        let mut bytes = Vec::new();
        head().write(3, &mut bytes);
        assert_eq!(bytes.len(), HEAD);
        assert_eq!(Head::read(3, &bytes), Some(head()));
        assert_eq!(Head::read(4, &bytes), None, "of another journal");
        for bit in 0..HEAD * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::read(3, &flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn a_segment_has_its_header_twice() {
        let mut bytes = Vec::new();
        segment().write(&mut bytes);
        assert_eq!(bytes.len() as u64, SEGMENT_HEAD);
        assert_eq!(SegmentHead::read(&bytes), Ok((segment(), false)));
        for at in [20, SECOND_COPY + 28] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(SegmentHead::read(&damaged), Ok((segment(), true)));
        }
        bytes[20] ^= 1;
        bytes[SECOND_COPY + 28] ^= 1;
        assert_eq!(SegmentHead::read(&bytes), Err(HeadProblem::None));
    }

    #[test]
    fn another_format_is_named() {
        let mut bytes = Vec::new();
        segment().write(&mut bytes);
        for copy in [0, SECOND_COPY] {
            bytes[copy + 8] = 9;
            let crc = crc32c(&bytes[copy..copy + CHECKED]);
            bytes[copy + CHECKED..copy + CHECKED + 4].copy_from_slice(&crc.to_le_bytes());
        }
        assert_eq!(SegmentHead::read(&bytes), Err(HeadProblem::Version(9)));
        // One copy is damaged: the other one still says that the file is not ours to overwrite.
        for copy in [0, SECOND_COPY] {
            let mut damaged = bytes.clone();
            damaged[copy + 20] ^= 1;
            assert_eq!(SegmentHead::read(&damaged), Err(HeadProblem::Version(9)));
        }
    }

    #[test]
    fn the_newest_segment_is_named() {
        let newest = Newest { journal: 1, ordinal: 2, synced: 3 };
        let mut bytes = newest.write();
        assert_eq!(Newest::read(&bytes), Some(newest));
        bytes[17] ^= 4;
        assert_eq!(Newest::read(&bytes), None);
    }
}
