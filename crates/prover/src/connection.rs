//! One connection: a request goes out, its reply comes in.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use resp::Replies;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::timeout;
use values::Reply;

/// How long it may take to be let in. Whoever listens and runs needs far less.
const ADMISSION: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
    replies: Replies,
}

/// No reply came: what was asked may have been done or not, and nothing else can be asked here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    TimedOut,
    Closed,
    /// What came is not the protocol.
    Garbled,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Silence::TimedOut => "no answer in time",
            Silence::Closed => "connection lost",
            Silence::Garbled => "answer not understood",
        })
    }
}

impl Connection {
    pub(crate) async fn open(address: &str) -> io::Result<Self> {
        let stream = timeout(ADMISSION, TcpStream::connect(address)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: BytesMut::new(), replies: Replies::new() })
    }

    /// Has the other side hung up? Whoever looks before it asks knows that what it asks was not done here.
    pub(crate) async fn is_over(&self) -> bool {
        yield_now().await; // so that what has arrived meanwhile is known
        let waiting = self.stream.try_read(&mut [0]);
        !waiting.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// After a silence the connection must go: a late reply would be taken for that of the next request.
    pub(crate) async fn ask(&mut self, words: &[Bytes], patience: Duration) -> Result<Reply, Silence> {
        let mut request = BytesMut::new();
        resp::encode_request(words, &mut request);
        timeout(patience, self.exchange(&request)).await.unwrap_or(Err(Silence::TimedOut))
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<Reply, Silence> {
        self.stream.write_all(request).await.map_err(|_| Silence::Closed)?;
        loop {
            match self.replies.next(&mut self.buffer) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(_) => return Err(Silence::Garbled),
            }
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Err(Silence::Closed),
                Ok(_) => {}
            }
        }
    }
}
