//! What should be: the one authoritative description of a cluster, and the only function that changes it.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ahead;
mod auto;
mod blueprint;
mod bucket_map;
mod command;
mod conduct;
mod delta;
mod departure;
mod format;
mod government;
mod history;
mod ids;
mod intent;
mod merge;
mod meta_state;
mod operation;
mod refusal;
mod repair;
mod reports;
mod slot_bits;
mod slots;
mod soundness;
mod throttle;
mod time;

#[cfg(test)]
mod tests;

pub use auto::{AUTOMATIC, AutoRebalance, Unrest};
pub use blueprint::{Birth, Blueprint, Bucket, Durability, Keyspace, Kind, Node, NodeState, Rule};
pub use bucket_map::BucketMap;
pub use command::{Applied, Command};
pub use conduct::{Breach, Conduct, Honest};
pub use delta::{Delta, Misfit};
pub use departure::Succession;
pub use format::{FORMAT_VERSION, FormatError, decode, decode_meta, encode, encode_meta};
pub use government::{Change, Fate, Government, Unlawful};
pub use history::{Coming, Happening, History, MOST_PAST, Making, Past, Turn};
pub use ids::{
    BucketId, CoordinatorId, Epoch, Incarnation, Index, KeyspaceId, LaneId, Member, NodeId, OperationId, Position, Term,
};
pub use intent::Intent;
pub use merge::{Bond, Unlike};
pub use meta_state::{MetaCommand, MetaState};
pub use operation::{Hitch, MAX_STEPS, Operation, OperationState, Standing, Step};
pub use refusal::Refusal;
pub use repair::Remedy;
pub use reports::{Report, Reported, Reports};
pub use slot_bits::SlotBits;
pub use slots::{Malformed, Slot, SlotMap, SlotSet};
pub use soundness::Flaw;
pub use time::Instant;
