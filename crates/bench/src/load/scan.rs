//! Replies as they go by: where each ends, and the little that the load generator wants to know of it. Nothing is kept and nothing is
//! allocated, because whoever measures shares its processors with those that are measured.
//!
//! RESP2 only: nobody here says `HELLO 3`. What comes may be cut anywhere.

/// The first line of a reply, or of a part of it, is kept up to here: enough for `MOVED` with any address.
const LINE: usize = 120;

/// One whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen<'a> {
    Fine,
    Nil,
    Number(i64),
    /// The first two numbers in it, or zeros.
    Array([i64; 2]),
    /// Its text without the dash, as far as it was kept.
    Error(&'a [u8]),
}

/// What came is not the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what came is no reply of a Redis")]
pub(super) struct Garbled;

#[derive(Clone, Debug)]
pub(super) struct Scanner {
    /// Bytes of a string that are still to come, its line end included.
    skip: usize,
    line: [u8; LINE],
    kept: usize,
    /// How much of the present reply is still to come.
    parts: u64,
    /// None outside of an array.
    array: Option<Numbers>,
    /// What the reply is whose string is being skipped.
    is_string: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    first: [i64; 2],
    count: usize,
}

impl Default for Scanner {
    fn default() -> Self {
        Self { skip: 0, line: [0; LINE], kept: 0, parts: 1, array: None, is_string: false }
    }
}

impl Scanner {
    pub(super) fn scan(&mut self, mut bytes: &[u8], mut on: impl FnMut(Seen<'_>)) -> Result<(), Garbled> {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let here = self.skip.min(bytes.len());
                self.skip -= here;
                bytes = &bytes[here..];
                if self.skip == 0 && self.is_string {
                    self.is_string = false;
                    self.on_part(Seen::Fine, &mut on);
                }
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                self.keep(bytes);
                return Ok(());
            };
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if self.kept == 0 {
                self.on_line(line, &mut on)?;
            } else {
                self.keep(line);
                let whole = self.line;
                let kept = std::mem::take(&mut self.kept);
                self.on_line(&whole[..kept], &mut on)?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) {
        let here = bytes.len().min(LINE - self.kept);
        self.line[self.kept..self.kept + here].copy_from_slice(&bytes[..here]);
        self.kept += here;
    }

    fn on_line(&mut self, line: &[u8], on: &mut impl FnMut(Seen<'_>)) -> Result<(), Garbled> {
        let (kind, rest) = line.split_first().ok_or(Garbled)?;
        let rest = rest.strip_suffix(b"\r\n").unwrap_or(rest);
        match kind {
            b'+' => self.on_part(Seen::Fine, on),
            b'-' => self.on_part(Seen::Error(&rest[..rest.len().min(LINE)]), on),
            b':' => self.on_part(Seen::Number(number(rest)?), on),
            b'$' => match number(rest)? {
                -1 => self.on_part(Seen::Nil, on),
                length => {
                    self.skip = usize::try_from(length).map_err(|_| Garbled)? + 2;
                    self.is_string = true;
                }
            },
            b'*' => match number(rest)? {
                -1 => self.on_part(Seen::Nil, on),
                parts => {
                    self.array.get_or_insert_default();
                    let parts = u64::try_from(parts).map_err(|_| Garbled)?;
                    self.parts = self.parts.checked_add(parts).ok_or(Garbled)?;
                    self.on_part(Seen::Fine, on);
                }
            },
            _ => return Err(Garbled),
        }
        Ok(())
    }

    /// A part has ended; if nothing of it is left, so has the reply.
    fn on_part(&mut self, seen: Seen<'_>, on: &mut impl FnMut(Seen<'_>)) {
        self.parts -= 1;
        let whole = match &mut self.array {
            None => seen,
            Some(numbers) => {
                if let Seen::Number(number) = seen {
                    if let Some(place) = numbers.first.get_mut(numbers.count) {
                        *place = number;
                    }
                    numbers.count += 1;
                }
                Seen::Array(numbers.first)
            }
        };
        if self.parts == 0 {
            on(whole);
            (self.parts, self.array) = (1, None);
        }
    }
}

fn number(text: &[u8]) -> Result<i64, Garbled> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 19 {
        return Err(Garbled);
    }
    let mut number = 0i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(Garbled);
        }
        number = number.checked_mul(10).and_then(|n| n.checked_add(i64::from(digit - b'0'))).ok_or(Garbled)?;
    }
    Ok(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What was seen, as text, when it comes in chunks of so many bytes.
    fn seen(bytes: &[u8], mut sizes: impl Iterator<Item = usize>) -> Result<Vec<String>, Garbled> {
        let (mut scanner, mut all, mut rest) = (Scanner::default(), Vec::new(), bytes);
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
            rest = after;
            scanner.scan(chunk, |seen| {
                all.push(match seen {
                    Seen::Error(text) => format!("error {}", String::from_utf8_lossy(text)),
                    other => format!("{other:?}"),
                });
            })?;
        }
        Ok(all)
    }

    const EVERYTHING: &[u8] = b"+OK\r\n:42\r\n$5\r\na\r\nb\n\r\n$-1\r\n*2\r\n:1\r\n:2\r\n-MOVED 3 h:1\r\n$0\r\n\r\n*-1\r\n*0\r\n*2\r\n*2\r\n$1\r\nx\r\n:7\r\n-no\r\n:-1\r\n";

    #[test]
    fn each_kind_of_reply() {
        let expected = [
            "Fine",
            "Number(42)",
            "Fine",
            "Nil",
            "Array([1, 2])",
            "error MOVED 3 h:1",
            "Fine",
            "Nil",
            "Array([0, 0])",
            "Array([7, 0])",
            "Number(-1)",
        ];
        assert_eq!(seen(EVERYTHING, std::iter::repeat(1000)).expect("it is the protocol"), expected);
    }

    proptest! {
        #[test]
        fn however_it_is_cut(sizes in proptest::collection::vec(1usize..9, 1..200)) {
            let whole = seen(EVERYTHING, std::iter::repeat(1000));
            prop_assert_eq!(seen(EVERYTHING, sizes.into_iter()), whole);
        }

        #[test]
        fn garbage_does_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300), sizes in proptest::collection::vec(1usize..9, 1..50)) {
            let _whatever = seen(&bytes, sizes.into_iter());
        }
    }

    #[test]
    fn long_errors_are_cut() {
        let long = [b"-".as_slice(), &[b'e'; 500], b"\r\n:1\r\n"].concat();
        for size in [1, 50, 1000] {
            let seen = seen(&long, std::iter::repeat(size)).expect("it is the protocol");
            assert_eq!(seen.len(), 2);
            assert!(seen[0].starts_with("error eeee") && seen[1] == "Number(1)", "{seen:?}");
        }
    }

    #[test]
    fn what_is_no_protocol() {
        for wrong in ["HTTP/1.1 200 OK\r\n", ":x\r\n", "$-2\r\n", ":\r\n", ":99999999999999999999\r\n"] {
            assert_eq!(seen(wrong.as_bytes(), std::iter::repeat(1000)), Err(Garbled), "{wrong}");
        }
    }
}
