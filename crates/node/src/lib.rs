//! One node, composed of the cores: routing, hops, backlog, backfill; still without IO.

mod erase;
mod follow;
mod io;
mod node;
mod replica;
mod request;

pub use io::{Answer, BatchId, Door, Input, Lost, NodeDurable, NodeRecord, Origin, Output, PeerMessage, RequestId};
pub use node::{Config, Node};
pub use replica::Tables;
