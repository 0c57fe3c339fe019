//! One question, one answer: for everything that is not measured.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use resp::Replies;
use values::Reply;

#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    buffer: BytesMut,
    replies: Replies,
}

impl Client {
    pub(crate) fn connect(at: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&at, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        Ok(Self { stream, buffer: BytesMut::new(), replies: Replies::new() })
    }

    /// An error that is answered is an answer.
    pub(crate) fn ask(&mut self, words: &[&str]) -> io::Result<Reply> {
        let words: Vec<Bytes> = words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        let mut request = BytesMut::new();
        resp::encode_request(&words, &mut request);
        self.stream.write_all(&request)?;
        loop {
            match self.replies.next(&mut self.buffer) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.buffer.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

/// As a person would read it; nothing for an answer that has no text.
pub(crate) fn text_of(reply: &Reply) -> String {
    match reply {
        Reply::Ok => "OK".into(),
        Reply::Value(text) | Reply::Simple(text) | Reply::Error(text) | Reply::Verbatim(text) => {
            String::from_utf8_lossy(text).into_owned()
        }
        Reply::Number(number) => number.to_string(),
        _ => String::new(),
    }
}
