//! How nodes reach each other: not our business. Whoever has links to other nodes carries our bytes, and hands what comes in to
//! [`crate::Embedded::serve`].

use std::future::Future;
use std::pin::Pin;

use blueprint::NodeId;
use bytes::Bytes;

/// A future in a box: the traits of this crate are used behind pointers.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub trait Carrier: Send + Sync + 'static {
    /// Asks another node, and brings its answer. It need not give up by itself: whoever asks does.
    fn call(&self, to: NodeId, request: Bytes) -> Pending<'_, Result<Bytes, CarryError>>;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CarryError {
    /// Another node may safely be asked the same.
    #[error("{0} cannot be reached: nothing was sent")]
    NotSent(NodeId),
    /// It may have been heard and acted on.
    #[error("{0} was asked, and no answer came")]
    NoAnswer(NodeId),
}
