//! The names of things: every number of the design has a type of its own, so that a term cannot be compared with an epoch.

use core::fmt;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number!(
    /// One running process with its data directory: a wiped disk is a new node (R10).
    NodeId, u64, "n"
);
number!(
    /// A named, isolated body of data.
    KeyspaceId, u32, "k"
);
number!(
    /// A set of slots that share one replicated log. Used once, never again.
    BucketId, u64, "b"
);
number!(
    /// Version of the blueprint. Every change raises it by one; 0 means "nothing known yet".
    Epoch, u64, "e"
);
number!(
    /// Number of a bucket's government.
    Term, u64, "t"
);
number!(
    /// Position in a bucket's log, counted from 1; 0 is before the first entry.
    Index, u64, "#"
);
number!(
    /// The epoch of the blueprint that named a replica where it is: issued, never counted up locally (R10).
    Incarnation, u64, "i"
);

number!(
    /// A topology change as a durable object. Issued in order, used once.
    OperationId, u64, "o"
);
number!(
    /// Whoever probes and reports. The one that runs in a node bears its node's number.
    CoordinatorId, u64, "c"
);

impl BucketId {
    /// A bucket and all that is ever split from it bear numbers of one family, so that they share a lane wherever they are.
    pub const FAMILIES: u64 = 256;

    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub fn family(self) -> u64 {
        self.0 % Self::FAMILIES
    }

    /// The first number from this one on that a child of `parent` may bear.
    pub fn next_child_of(self, parent: Self) -> Self {
        Self(self.0 + (parent.family() + Self::FAMILIES - self.family()) % Self::FAMILIES)
    }
}

/// One thread of a node, of so many. The families of buckets are dealt out to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LaneId {
    pub number: u16,
    pub of: u16,
}

impl LaneId {
    pub const ONLY: Self = Self { number: 0, of: 1 };

    pub fn all(of: u16) -> impl Iterator<Item = Self> {
        (0..of).map(move |number| Self { number, of })
    }

    /// The lane of a bucket, of so many.
    pub fn of_bucket(bucket: BucketId, of: u16) -> Self {
        Self { number: (bucket.family() % u64::from(of)) as u16, of }
    }

    /// The families that are dealt out to it.
    pub fn families(self) -> impl Iterator<Item = u64> {
        (u64::from(self.number)..BucketId::FAMILIES).step_by(usize::from(self.of))
    }

    pub fn holds(self, bucket: BucketId) -> bool {
        Self::of_bucket(bucket, self.of) == self
    }
}

impl Term {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Index {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub fn prev(self) -> Self {
        Self(self.0.checked_sub(1).expect("there is nothing before index 0"))
    }
}

impl Epoch {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl OperationId {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The name of one entry: what it is called, and by which government it was written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Position {
    pub term: Term,
    pub index: Index,
}

impl Position {
    pub fn new(term: u64, index: u64) -> Self {
        Self { term: Term(term), index: Index(index) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.term, self.index)
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One node's part in a bucket, in one of its lives (R10).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    pub node: NodeId,
    pub incarnation: Incarnation,
}

impl Member {
    pub fn new(node: u64, incarnation: u64) -> Self {
        Self { node: NodeId(node), incarnation: Incarnation(incarnation) }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.node, self.incarnation.0)
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
