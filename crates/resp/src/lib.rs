//! The protocol of Redis, both versions and both ways: bytes to frames.
//!
//! [`Requests`] makes words of what clients send, [`encode()`] bytes of what they are answered; [`encode_request`] and [`Replies`] are
//! the other side, for our own clients and tests. All work on a buffer that grows as bytes arrive, wherever those are cut, and look at
//! no byte twice. What they give back are slices of it.
//!
//! Knows no socket, and no command: what the words mean is the business of `values`.

mod encode;
mod error;
mod inline;
mod line;
mod replies;
mod requests;

pub use encode::{Protocol, encode, encode_request};
pub use error::ProtocolError;
pub use replies::Replies;
pub use requests::{Limits, Requests, Words};
