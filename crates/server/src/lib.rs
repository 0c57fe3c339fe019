//! Carries out what a node decides: threads, sockets, disks, timers. Nothing here decides anything about data.
//!
//! A node is one thread for its desk and one for each lane (`lane`, `desk`). They share nothing but what never changes (`House`), and
//! send each other letters (`post`). Peers greet each other at the `gate` and talk over `link`s in the language of `wire`. Clients
//! come in through the `door`. The journal has a thread of its own, the meta group lives on the desk's.

mod addresses;
mod arrive;
mod clock;
mod config;
mod data;
mod desk;
mod door;
mod gate;
mod http;
mod lane;
mod leave;
mod link;
mod names;
mod post;
mod rebalance;
mod start;
mod status;
mod timer;
mod wire;

pub use addresses::Addresses;
pub use config::{Config, Ports, Start};
pub use data::{Data, DataError, Identity};
pub use http::{KINDS, OperationView, PastView, PlanView, RepairView, StepView, WaitView};
pub use names::replace_words;
pub use start::{ServeError, serve};
pub use status::{AutoRebalanceView, BucketStatus, NodeStatus, Status};
pub use wire::PROTOCOL;

/// The disk failed: nothing that this process would say could be believed.
pub const EXIT_DISK: i32 = 74;
/// A thread of the node failed: a bug.
pub const EXIT_BUG: i32 = 70;
