//! What a command answers. The wire form of Redis is made of this by `resp`; here it is a value that sessions can remember.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reply {
    Ok,
    Nil,
    Value(Bytes),
    Number(i64),
    Items(Vec<Bytes>),
    /// The key holds another type.
    WrongType,
    /// The value is not an integer of 64 bits.
    NotANumber,
    /// The sum would not fit.
    Overflow,
    /// The number is at or below the floor of its connection: whether it was executed is no longer known (R12).
    StaleSeries,
    /// The connection has expired on the clock of the data (R12).
    ExpiredConnection,
}
