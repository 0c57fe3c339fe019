//! Requests in plain lines, as people type them into telnet: words with blanks between them, in quotes if need be.

use bytes::Bytes;

use crate::ProtocolError;

/// The words of a line, without its end. Slices of it, unless there are quotes to take off.
pub(crate) fn words(line: &Bytes) -> Result<Vec<Bytes>, ProtocolError> {
    let end = line.iter().position(|byte| *byte == 0).unwrap_or(line.len()); // C ends there
    let line = line.slice(..end);
    if line.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
        return quoted(&line);
    }
    let words = line.split(|byte| is_blank(*byte)).filter(|word| !word.is_empty());
    Ok(words.map(|word| line.slice_ref(word)).collect())
}

fn quoted(line: &[u8]) -> Result<Vec<Bytes>, ProtocolError> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start().strip_prefix(b"\x0b").unwrap_or(rest.trim_ascii_start());
        match rest {
            [] => return Ok(words),
            [first, ..] if is_blank(*first) => continue,
            _ => {}
        }
        let mut word = Vec::new();
        loop {
            rest = match rest {
                [b'"', inside @ ..] => double(inside, &mut word)?,
                [b'\'', inside @ ..] => single(inside, &mut word)?,
                [byte, after @ ..] if !is_blank(*byte) => {
                    word.push(*byte);
                    after
                }
                _ => break,
            };
        }
        words.push(Bytes::from(word));
    }
}

/// Up to the quote that closes, which a blank or the end must follow.
fn double<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                after
            }
            [b'"', after @ ..] => return closed(after),
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return Err(ProtocolError::UnbalancedQuotes),
        }
    }
}

fn single<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                after
            }
            [b'\'', after @ ..] => return closed(after),
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return Err(ProtocolError::UnbalancedQuotes),
        }
    }
}

fn closed(after: &[u8]) -> Result<&[u8], ProtocolError> {
    match after {
        [byte, ..] if !is_blank(*byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(after),
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit.to_ascii_lowercase() - b'a' + 10,
    }
}

/// As C has it.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Result<Vec<Bytes>, ProtocolError> {
        words(&Bytes::copy_from_slice(line.as_bytes()))
    }

    #[test]
    fn words_and_quotes() {
        for (line, expected) in [
            ("", &[][..]),
            ("  \t ", &[]),
            ("PING", &["PING"]),
            ("  set  k\tv \x0b ", &["set", "k", "v"]),
            (r#"set "a b" 'c d'"#, &["set", "a b", "c d"]),
            (r#""\x41\n\"\q" '\''"#, &["A\n\"q", "'"]),
            (r#""" ''"#, &["", ""]),
            (r#"a"b c""#, &["ab c"]),
            ("\x0b\x0b \"x\" \x0b", &["x"]),
            (r#""\xZZ""#, &["xZZ"]),
            ("get k\0 more", &["get", "k"]),
        ] {
            assert_eq!(split(line).expect(line), expected, "{line:?}");
        }
        for line in [r#""a"#, "'a", r#""a"b"#, "'a'b", r#""\""#] {
            assert_eq!(split(line), Err(ProtocolError::UnbalancedQuotes), "{line:?}");
        }
    }
}
