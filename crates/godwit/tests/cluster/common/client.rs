//! A client that asks one thing at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use resp::Replies;
use values::Reply;

use super::{Cluster, PATIENCE, until};

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    buffer: BytesMut,
    replies: Replies,
}

impl Client {
    pub(crate) fn connect(address: &str) -> Option<Self> {
        let address = address.parse().expect("host:port");
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(Self { stream, buffer: BytesMut::new(), replies: Replies::new() })
    }

    /// None: the connection broke, and what became of it is not known.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Option<Reply> {
        self.send(words)?;
        self.receive()
    }

    pub(crate) fn send(&mut self, words: &[&str]) -> Option<()> {
        let words: Vec<Bytes> = words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        let mut bytes = BytesMut::new();
        resp::encode_request(&words, &mut bytes);
        self.stream.write_all(&bytes).ok()
    }

    pub(crate) fn receive(&mut self) -> Option<Reply> {
        loop {
            if let Some(reply) = self.replies.next(&mut self.buffer).expect("a server that speaks RESP") {
                return Some(reply);
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.buffer.extend_from_slice(&chunk[..read]),
            }
        }
    }
}

/// Asks any node until somebody answers without an error.
pub(crate) fn ask(cluster: &Cluster, words: &[&str]) -> Reply {
    let mut nodes = cluster.nodes.iter().filter(|node| node.runs()).cycle();
    let mut last = None;
    until(
        &format!("{words:?} is answered"),
        || {
            let node = nodes.next()?;
            last = Client::connect(&node.any()).and_then(|mut client| client.ask(words));
            last.clone().filter(|reply| !reply.is_error())
        },
        || cluster.describe(),
    )
}

/// What a reply says, if it says something in words.
pub(crate) fn text_of(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Value(text) | Reply::Simple(text) | Reply::Verbatim(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    }
}
