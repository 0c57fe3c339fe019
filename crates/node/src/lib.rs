//! One node, composed of the cores: routing, hops, backlog, backfill; still without IO.

mod coordinate;
mod copying;
mod desk;
mod directory;
mod doubt;
mod erase;
mod facts;
mod follow;
mod glance;
mod io;
mod lane;
mod merge;
mod node;
mod pass;
mod places;
mod react;
mod replica;
mod request;
mod sink;

pub use desk::Desk;
pub use io::{
    Answer, Answered, BatchId, Door, HopId, Input, LaneDurable, Lost, Mail, NodeDurable, NodeRecord, Origin, Output,
    Passed, PeerMessage, RequestId, Station, StoreId,
};
pub use lane::Lane;
pub use node::{Config, Life, Node};
pub use places::Places;
pub use replica::Tables;
pub use sink::encode_onto;
