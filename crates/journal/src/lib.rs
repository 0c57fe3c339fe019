//! The durable log of a node, shared by its buckets, and their checkpoints: the hot path's only disk access.
//!
//! Preallocated, zero-filled, recycled segments are overwritten in place, so that a sync writes data and no metadata. One thread gathers
//! what all lanes want and syncs once; at level `memory` a lane writes by itself and nobody waits for a sync. What each byte on disk
//! means, and why, is in `docs/storage-format.md`.
//!
//! Contract: what was reported as written is there after any crash (at level `memory`: of the process); what comes back is what
//! absorbing the records in order gives, up to some point at or after the last one that was reported; and damage is never passed over in
//! silence: a replica is either exactly what was written, or `lost` (R10).

mod content;
mod disk;
mod frame;
mod inspect;
mod journal;
mod keeper;
mod ledger;
mod notes;
mod open;
mod pen;
mod queue;
mod scan;
mod tables;
mod writer;

pub use disk::{Directory, Disk, DiskFile, Lock};
pub use inspect::{BucketReport, Inspection, SegmentReport, TableReport, inspect, inspect_on};
pub use journal::{Counts, Journal, Outcome, Refused};
pub use notes::Note;
pub use open::{OpenError, Options, Progress, Recovered};
pub use queue::State;
