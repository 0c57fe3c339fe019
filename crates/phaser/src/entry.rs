//! One entry of a log: by itself, and as it lies among others.

use core::fmt;
use core::hash::{Hash, Hasher};

use blueprint::{BucketId, Position, Slot, SlotSet};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// An entry by itself. In logs, records and messages they lie in [runs](crate::Run).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub at: Position,
    /// The clock of the data, in microseconds: execution knows no other (R13).
    pub clock: u64,
    /// Where execution takes its randomness from.
    pub seed: u64,
    pub payload: Payload,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Payload {
    /// Begins a rule (R4).
    Reign,
    /// Touches one slot; what it means is not known here.
    Command { slot: Slot, body: Bytes },
    /// From here on these slots are the child's.
    Split { child: BucketId, slots: SlotSet },
    /// Nothing but Reigns follows: this bucket becomes part of that one.
    Freeze { into: BucketId },
    /// From here on the slots of that bucket, as they stand at its Freeze, are this one's.
    /// The clock of their data goes on: it is `ahead` of this bucket's.
    Absorb { from: BucketId, freeze: Position, slots: SlotSet, ahead: i64 },
}

/// What sort of payload: the only thing about it that a head says. All but commands are rare; together they are called milestones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Command = 0,
    Reign = 1,
    Split = 2,
    Freeze = 3,
    Absorb = 4,
}

impl Kind {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Command),
            1 => Some(Self::Reign),
            2 => Some(Self::Split),
            3 => Some(Self::Freeze),
            4 => Some(Self::Absorb),
            _ => None,
        }
    }

    /// The blueprint, or another bucket, will count on it: at level `memory` it is not safe before it is on disk.
    fn is_counted_on(self) -> bool {
        match self {
            Self::Split | Self::Freeze | Self::Absorb => true,
            Self::Reign | Self::Command => false,
        }
    }
}

impl Payload {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Reign => Kind::Reign,
            Self::Command { .. } => Kind::Command,
            Self::Split { .. } => Kind::Split,
            Self::Freeze { .. } => Kind::Freeze,
            Self::Absorb { .. } => Kind::Absorb,
        }
    }

    /// A milestone from its body. None for what this program does not write, whatever it might mean.
    pub(crate) fn milestone(kind: Kind, body: &[u8]) -> Option<Self> {
        let (payload, rest) = postcard::take_from_bytes::<Self>(body).ok()?;
        let is_ours = rest.is_empty() && payload.kind() == kind && kind != Kind::Command;
        // There is more than one way to write a number: two bodies that mean the same are the same.
        (is_ours && payload.milestone_body() == body).then_some(payload)
    }

    pub(crate) fn milestone_body(&self) -> alloc::vec::Vec<u8> {
        postcard::to_allocvec(self).expect("every payload has an encoding")
    }

    /// Takes what only execution reads.
    fn strip_stamps(&mut self) {
        if let Self::Absorb { ahead, .. } = self {
            *ahead = 0;
        }
    }
}

/// An entry where it lies. Whoever looks at one decodes nothing, unless it is a milestone and they ask for it.
#[derive(Clone, Copy)]
pub struct EntryRef<'a> {
    pub at: Position,
    pub clock: u64,
    pub seed: u64,
    pub(crate) kind: Kind,
    /// Of a command; of all others the first one, which says nothing.
    pub(crate) slot: Slot,
    pub(crate) body: &'a [u8],
    /// The memory that the body is part of, once it is shared.
    pub(crate) block: Option<&'a Bytes>,
}

impl<'a> EntryRef<'a> {
    /// Slot and body, if it is a command.
    pub fn command(&self) -> Option<(Slot, &'a [u8])> {
        (self.kind == Kind::Command).then_some((self.slot, self.body))
    }

    /// The body of a command, kept. It keeps all of its run, so not for long.
    pub fn body(&self) -> Bytes {
        self.block.map_or_else(|| Bytes::copy_from_slice(self.body), |block| block.slice_ref(self.body))
    }

    pub fn is_reign(&self) -> bool {
        self.kind == Kind::Reign
    }

    pub(crate) fn is_milestone(&self) -> bool {
        self.kind != Kind::Command
    }

    pub fn is_counted_on(&self) -> bool {
        self.kind.is_counted_on()
    }

    pub fn payload(&self) -> Payload {
        match self.kind {
            Kind::Command => Payload::Command { slot: self.slot, body: self.body() },
            Kind::Reign => Payload::Reign,
            Kind::Split | Kind::Freeze | Kind::Absorb => {
                Payload::milestone(self.kind, self.body).expect("it was encoded here, or decoded when it came in")
            }
        }
    }

    pub fn to_entry(&self) -> Entry {
        Entry { at: self.at, clock: self.clock, seed: self.seed, payload: self.payload() }
    }

    /// Of which bucket, as of which Freeze, with which slots.
    pub(crate) fn absorb(&self) -> Option<(BucketId, Position, SlotSet)> {
        if self.kind != Kind::Absorb {
            return None;
        }
        match self.payload() {
            Payload::Absorb { from, freeze, slots, .. } => Some((from, freeze, slots)),
            Payload::Reign | Payload::Command { .. } | Payload::Split { .. } | Payload::Freeze { .. } => None,
        }
    }

    /// The child, if it is a Split.
    pub(crate) fn split(&self) -> Option<BucketId> {
        if self.kind != Kind::Split {
            return None;
        }
        match self.payload() {
            Payload::Split { child, .. } => Some(child),
            Payload::Reign | Payload::Command { .. } | Payload::Freeze { .. } | Payload::Absorb { .. } => None,
        }
    }

    pub(crate) fn is_freeze(&self) -> bool {
        self.kind == Kind::Freeze
    }

    /// What it weighs in a frame; all but commands are small.
    pub(crate) fn weight(&self) -> usize {
        if self.kind == Kind::Command { self.body.len() } else { 0 }
    }

    /// With what says where the log stands, and without what only execution reads.
    pub(crate) fn without_stamps(&self) -> Entry {
        let mut payload = self.payload();
        payload.strip_stamps();
        Entry { at: self.at, clock: 0, seed: 0, payload }
    }

    pub(crate) fn is_stamped_like(&self, other: &EntryRef<'_>) -> bool {
        (self.clock, self.seed) == (other.clock, other.seed)
    }

    fn content(&self) -> (Position, u64, u64, Kind, Slot, &[u8]) {
        (self.at, self.clock, self.seed, self.kind, self.slot, self.body)
    }
}

/// By what they say, wherever they lie.
impl PartialEq for EntryRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.content() == other.content()
    }
}

impl Eq for EntryRef<'_> {}

impl Hash for EntryRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content().hash(state);
    }
}

impl fmt::Debug for EntryRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_entry().fmt(f)
    }
}
