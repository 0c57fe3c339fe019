//! The black-box judge of a live cluster.
//!
//! Clients set, read, delete, count and append on keys that they share, over RESP and nothing else, while nodes are killed and paused. Each
//! call is recorded with the times at which it began and ended and what was answered. In the end every key is read once more, and
//! `history` says whether one well-behaved store could have given all these answers.
//!
//! An answer is one of three things (`heard.rs`): it was done, it was certainly not done, or nobody knows. What was not done is tried
//! again. What nobody knows is sent again only if the cluster knows it again by its number (`SERIES`); otherwise it stays
//! unknown, and the checkers allow for both.

mod changes;
mod client;
mod connection;
mod faults;
mod heard;
mod record;
mod report;
mod rng;
mod route;
mod run;
mod workload;

pub use changes::{Change, Changed, Changes, Shaper};
pub use faults::{Failed, FaultKind, Faults, Hands, Health, Next, Strike};
pub use record::{Live, Outcomes, Record};
pub use report::{ByChange, ByKind, Fault, Report, Stretch, Told};
pub use run::{Disturbance, Error, Settings, prove, tidy, who_answers};
pub use workload::{Task, Workload, key_name};

#[cfg(test)]
mod tests;
