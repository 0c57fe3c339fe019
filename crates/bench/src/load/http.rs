//! Just enough of HTTP/1.1 to put keys into etcd over connections that stay: where an answer ends, and whether it was a good one.

use super::scan::Seen;

/// A head that is longer is not one of etcd's.
const MOST_HEAD: usize = 8192;
/// What is kept of the body of an answer that is not a good one.
const KEPT: usize = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what came is no answer over HTTP that is understood")]
pub(super) struct Garbled;

#[derive(Clone, Debug, Default)]
pub(super) struct HttpScanner {
    head: Vec<u8>,
    is_good: bool,
    part: Part,
    kept: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// So many bytes of the body are still to come.
    Body(usize),
    /// The line with the length of the next chunk.
    ChunkLine,
    /// Bytes of this chunk that are still to come, its line end included.
    Chunk(usize),
    /// The empty line after the last one.
    Trailer,
}

impl HttpScanner {
    pub(super) fn scan(&mut self, mut bytes: &[u8], mut on: impl FnMut(Seen<'_>)) -> Result<(), Garbled> {
        while !bytes.is_empty() {
            match self.part {
                Part::Head => {
                    self.head.push(bytes[0]);
                    bytes = &bytes[1..];
                    if self.head.ends_with(b"\r\n\r\n") {
                        self.on_head()?;
                        if self.part == Part::Body(0) {
                            self.end(&mut on);
                        }
                    } else if self.head.len() > MOST_HEAD {
                        return Err(Garbled);
                    }
                }
                Part::Body(left) => {
                    let here = left.min(bytes.len());
                    self.keep(&bytes[..here]);
                    bytes = &bytes[here..];
                    self.part = Part::Body(left - here);
                    if left == here {
                        self.end(&mut on);
                    }
                }
                Part::Chunk(left) => {
                    let here = left.min(bytes.len());
                    self.keep(&bytes[..here]);
                    bytes = &bytes[here..];
                    self.part = if left == here { Part::ChunkLine } else { Part::Chunk(left - here) };
                }
                Part::ChunkLine | Part::Trailer => {
                    self.head.push(bytes[0]);
                    bytes = &bytes[1..];
                    if self.head.len() > MOST_HEAD {
                        return Err(Garbled);
                    }
                    if self.head.ends_with(b"\r\n") {
                        self.on_chunk_line(&mut on)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn on_head(&mut self) -> Result<(), Garbled> {
        let head = std::str::from_utf8(&self.head).map_err(|_| Garbled)?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).ok_or(Garbled)?;
        self.is_good = status.starts_with('2');
        let (mut length, mut chunked) = (None, false);
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse().map_err(|_| Garbled)?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value.trim().eq_ignore_ascii_case("chunked");
            }
        }
        self.part = match (chunked, length) {
            (true, _) => Part::ChunkLine,
            (false, Some(length)) => Part::Body(length),
            (false, None) => return Err(Garbled),
        };
        self.kept.clear();
        if !self.is_good {
            self.kept.extend(status.bytes().take(KEPT));
            self.kept.extend(b": ");
        }
        self.head.clear();
        Ok(())
    }

    fn on_chunk_line(&mut self, on: &mut impl FnMut(Seen<'_>)) -> Result<(), Garbled> {
        let line = std::str::from_utf8(&self.head).map_err(|_| Garbled)?.trim_end().to_owned();
        self.head.clear();
        if self.part == Part::Trailer {
            if line.is_empty() {
                self.end(on);
            }
            return Ok(());
        }
        let length = line.split(';').next().unwrap_or_default();
        let length = usize::from_str_radix(length.trim(), 16).map_err(|_| Garbled)?;
        self.part = if length == 0 { Part::Trailer } else { Part::Chunk(length.checked_add(2).ok_or(Garbled)?) };
        Ok(())
    }

    fn keep(&mut self, body: &[u8]) {
        if !self.is_good {
            let room = KEPT.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&body[..body.len().min(room)]);
        }
    }

    fn end(&mut self, on: &mut impl FnMut(Seen<'_>)) {
        self.part = Part::Head;
        on(if self.is_good { Seen::Fine } else { Seen::Error(&self.kept) });
    }
}

/// In four letters each three bytes.
pub(crate) fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for three in bytes.chunks(3) {
        let number = three.iter().chain([0, 0].iter()).take(3).fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
        for letter in 0..4 {
            let is_there = letter <= three.len();
            out.push(if is_there { LETTERS[(number >> (18 - 6 * letter) & 63) as usize] } else { b'=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANSWERS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 5\r\n\r\n{\"a\":HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusyHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n";

    fn seen(mut sizes: impl Iterator<Item = usize>) -> Vec<String> {
        let (mut scanner, mut all, mut rest) = (HttpScanner::default(), Vec::new(), ANSWERS);
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
            rest = after;
            let on = |seen: Seen<'_>| {
                all.push(match seen {
                    Seen::Error(text) => format!("error {}", String::from_utf8_lossy(text)),
                    other => format!("{other:?}"),
                });
            };
            scanner.scan(chunk, on).expect("it is the protocol");
        }
        all
    }

    proptest! {
        #[test]
        fn however_it_is_cut(sizes in proptest::collection::vec(1usize..40, 1..300)) {
            prop_assert_eq!(seen(sizes.into_iter()), ["Fine", "error 503 Service Unavailable: busy", "Fine", "Fine"]);
        }
    }

    #[test]
    fn what_is_no_http() {
        let wrong = HttpScanner::default().scan(b"+PONG\r\n\r\n\r\n", |_| {});
        assert_eq!(wrong, Err(Garbled));
    }

    #[test]
    fn base64_as_everyone_writes_it() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            let mut out = Vec::new();
            base64(plain.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).expect("letters"), coded);
        }
    }
}
