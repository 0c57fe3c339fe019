//! What breaks the protocol. After any of these nothing that follows on the connection can be understood: answer, and close.

use std::fmt;

use values::Reply;

/// Their texts are those of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    InvalidMultibulkLength,
    InvalidBulkLength,
    /// This came instead of a `$`.
    ExpectedDollar(u8),
    TooBigMultibulkCount,
    TooBigBulkCount,
    TooBigInline,
    UnbalancedQuotes,
    /// More than is taken from who has not said who it is.
    UnauthenticatedMultibulk,
    UnauthenticatedBulk,
    /// All of one request together. Redis closes without a word.
    TooBigRequest,
    /// Of a server: not the beginning or not the middle of a reply.
    InvalidReply,
}

impl ProtocolError {
    /// What to answer before closing.
    #[must_use]
    pub fn reply(self) -> Reply {
        let mut text = b"ERR Protocol error: ".to_vec();
        match self {
            // As it is, even if it is no letter.
            ProtocolError::ExpectedDollar(got) => text.extend([&b"expected '$', got '"[..], &[got], b"'"].concat()),
            other => text.extend(other.to_string().bytes()),
        }
        Reply::error_with(text)
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProtocolError::InvalidMultibulkLength => "invalid multibulk length",
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::ExpectedDollar(got) => return write!(f, "expected '$', got '{}'", got.escape_ascii()),
            ProtocolError::TooBigMultibulkCount => "too big mbulk count string",
            ProtocolError::TooBigBulkCount => "too big bulk count string",
            ProtocolError::TooBigInline => "too big inline request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
            ProtocolError::UnauthenticatedMultibulk => "unauthenticated multibulk length",
            ProtocolError::UnauthenticatedBulk => "unauthenticated bulk length",
            ProtocolError::TooBigRequest => "too big request",
            ProtocolError::InvalidReply => "invalid reply",
        })
    }
}

impl std::error::Error for ProtocolError {}
