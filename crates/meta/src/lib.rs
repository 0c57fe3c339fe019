//! The meta group: a few nodes that keep the blueprint by consensus, and every other node's way to ask them.
//!
//! [`Meta`] is what the rest of a node sees. [`Embedded`] keeps the blueprint inside the nodes themselves. It knows no sockets and
//! no addresses: bytes come and go through a [`Carrier`].

mod api;
mod ask;
mod beat;
mod carrier;
mod clock;
mod embedded;
mod gather;
mod log;
mod machine;
mod network;
mod patient;
mod raft;
mod recent;
mod reform;
mod settings;
mod store;
mod tend;
mod voters;
mod wire;

#[cfg(test)]
mod tests;

pub use api::{ClusterId, Meta, MetaStatus, ProposeError, ReadError, Role, Unavailable};
pub use carrier::{Carrier, CarryError, Pending};
pub use embedded::{Embedded, JoinError, NewNode};
pub use reform::{ReformError, Survey, reform, survey};
pub use settings::{Clock, Settings};
pub use store::{Identity, OpenError};
pub use voters::{Absences, choose_voters};
