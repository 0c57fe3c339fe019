//! Replies and requests as bytes.

use bytes::{BufMut, Bytes, BytesMut};
use values::{Decimal, Double, Reply};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// Appends a reply. What RESP2 has no form for takes the one that Redis gives it there.
pub fn encode(reply: &Reply, protocol: Protocol, out: &mut BytesMut) {
    let new = protocol == Protocol::Resp3;
    match reply {
        Reply::Ok => out.put_slice(b"+OK\r\n"),
        Reply::Nil | Reply::NilArray if new => out.put_slice(b"_\r\n"),
        Reply::Nil => out.put_slice(b"$-1\r\n"),
        Reply::NilArray => out.put_slice(b"*-1\r\n"),
        Reply::Value(value) => bulk(b'$', value, out),
        Reply::Number(number) => head(b':', *number, out),
        Reply::Error(text) => line(b'-', text, out),
        Reply::Simple(text) => line(b'+', text, out),
        Reply::Double(double) if new => line(b',', &double_text(*double), out),
        Reply::Double(double) => bulk(b'$', &double_text(*double), out),
        Reply::Boolean(yes) if new => out.put_slice(if *yes { b"#t\r\n" } else { b"#f\r\n" }),
        Reply::Boolean(yes) => head(b':', i64::from(*yes), out),
        Reply::BigNumber(digits) if new => line(b'(', digits, out),
        Reply::BigNumber(digits) => bulk(b'$', digits, out),
        Reply::Verbatim(text) if new => {
            head(b'=', text.len() as i64 + 4, out);
            out.put_slice(b"txt:");
            out.put_slice(text);
            out.put_slice(b"\r\n");
        }
        Reply::Verbatim(text) => bulk(b'$', text, out),
        Reply::Array(items) => many(b'*', items, protocol, out),
        Reply::Set(items) => many(if new { b'~' } else { b'*' }, items, protocol, out),
        Reply::Push(items) => many(if new { b'>' } else { b'*' }, items, protocol, out),
        Reply::Map(pairs) => {
            let (mark, count) = if new { (b'%', pairs.len()) } else { (b'*', pairs.len() * 2) };
            head(mark, count as i64, out);
            for (key, value) in pairs {
                encode(key, protocol, out);
                encode(value, protocol, out);
            }
        }
    }
}

/// Appends a request, as clients send it.
pub fn encode_request(words: &[Bytes], out: &mut BytesMut) {
    head(b'*', words.len() as i64, out);
    words.iter().for_each(|word| bulk(b'$', word, out));
}

fn many(mark: u8, items: &[Reply], protocol: Protocol, out: &mut BytesMut) {
    head(mark, items.len() as i64, out);
    items.iter().for_each(|item| encode(item, protocol, out));
}

fn head(mark: u8, number: i64, out: &mut BytesMut) {
    let digits = Decimal::new(number);
    out.reserve(digits.as_bytes().len() + 3);
    out.put_u8(mark);
    out.put_slice(digits.as_bytes());
    out.put_slice(b"\r\n");
}

fn bulk(mark: u8, bytes: &[u8], out: &mut BytesMut) {
    out.reserve(bytes.len() + 16);
    head(mark, bytes.len() as i64, out);
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

/// A line end within would be read as the beginning of another reply: it becomes a blank.
fn line(mark: u8, text: &[u8], out: &mut BytesMut) {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    out.reserve(text.len() + 3);
    out.put_u8(mark);
    let from = out.len();
    out.put_slice(text);
    if text.iter().any(is_end) {
        out[from..].iter_mut().filter(|byte| is_end(byte)).for_each(|byte| *byte = b' ');
    }
    out.put_slice(b"\r\n");
}

/// As C prints it with `%.17g`, which is what Redis 7.0 does.
fn double_text(double: Double) -> Vec<u8> {
    let value = double.get();
    if value.is_nan() {
        return b"nan".to_vec();
    }
    if value.is_infinite() {
        return if value > 0.0 { b"inf".to_vec() } else { b"-inf".to_vec() };
    }
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let power: i32 = exponent.parse().expect("a whole number");
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..17).contains(&power) {
        let places = usize::try_from(16 - power).expect("at most 20");
        return trimmed(&format!("{value:.places$}")).into_bytes();
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), power.abs()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(reply: &Reply, protocol: Protocol) -> String {
        let mut out = BytesMut::new();
        encode(reply, protocol, &mut out);
        String::from_utf8(out.to_vec()).expect("text")
    }

    #[test]
    fn each_kind_in_both_versions() {
        let double = |value| Reply::Double(Double::new(value));
        let text = Reply::text;
        for (reply, old, new) in [
            (Reply::Ok, "+OK\r\n", "+OK\r\n"),
            (Reply::Nil, "$-1\r\n", "_\r\n"),
            (Reply::NilArray, "*-1\r\n", "_\r\n"),
            (text("hi"), "$2\r\nhi\r\n", "$2\r\nhi\r\n"),
            (text(""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (Reply::Number(-7), ":-7\r\n", ":-7\r\n"),
            (Reply::error("ERR no"), "-ERR no\r\n", "-ERR no\r\n"),
            (Reply::Error(Bytes::from_static(b"ERR a\r\nb")), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (Reply::Simple(Bytes::from_static(b"list")), "+list\r\n", "+list\r\n"),
            (double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
            (Reply::Boolean(true), ":1\r\n", "#t\r\n"),
            (Reply::BigNumber(Bytes::from_static(b"12")), "$2\r\n12\r\n", "(12\r\n"),
            (Reply::Verbatim(Bytes::from_static(b"hi")), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (Reply::Array(vec![Reply::Ok, Reply::Nil]), "*2\r\n+OK\r\n$-1\r\n", "*2\r\n+OK\r\n_\r\n"),
            (Reply::Set(vec![Reply::Number(1)]), "*1\r\n:1\r\n", "~1\r\n:1\r\n"),
            (Reply::Push(vec![Reply::Number(1)]), "*1\r\n:1\r\n", ">1\r\n:1\r\n"),
            (Reply::Map(vec![(text("a"), Reply::Number(1))]), "*2\r\n$1\r\na\r\n:1\r\n", "%1\r\n$1\r\na\r\n:1\r\n"),
        ] {
            assert_eq!(encoded(&reply, Protocol::Resp2), old, "{reply:?}");
            assert_eq!(encoded(&reply, Protocol::Resp3), new, "{reply:?}");
        }
    }

    /// What C prints.
    #[test]
    fn doubles() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.10000000000000001"),
            (100.0, "100"),
            (3.5e16, "35000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (-2.5, "-2.5"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(double_text(Double::new(value)), expected.as_bytes(), "{value}");
        }
    }
}
