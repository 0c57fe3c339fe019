//! Whole streams: however they are cut into pieces, the frames are the same; whatever they are made of, nobody falls over.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use resp::{Limits, Protocol, ProtocolError, Replies, Requests, encode, encode_request};
use values::{Double, Reply};

type Frames<T> = (Vec<T>, Option<ProtocolError>);

/// What comes out if the stream arrives in these pieces.
fn requests(stream: &[u8], cuts: &[usize], limits: Limits) -> Frames<Vec<Bytes>> {
    let mut parser = Requests::new(limits);
    feed(stream, cuts, |buffer| Ok(parser.next(buffer)?.map(|words| words.to_vec())))
}

/// The same, a few at a time.
fn few_requests(stream: &[u8], cuts: &[usize], most: usize) -> Frames<Vec<Bytes>> {
    let mut parser = Requests::new(Limits::KNOWN);
    let mut found = Vec::new();
    let (_, error) = feed(stream, cuts, |buffer| {
        Ok(parser.next_few(buffer, most, |words| found.push(words.into_shared()))?.then_some(()))
    });
    (found.iter().map(|words| words.to_vec()).collect(), error)
}

fn replies(stream: &[u8], cuts: &[usize]) -> Frames<Reply> {
    let mut parser = Replies::new();
    feed(stream, cuts, |buffer| parser.next(buffer))
}

fn feed<T>(
    stream: &[u8],
    cuts: &[usize],
    mut next: impl FnMut(&mut BytesMut) -> Result<Option<T>, ProtocolError>,
) -> Frames<T> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
    for piece in cuts.windows(2) {
        buffer.extend_from_slice(&stream[piece[0]..piece[1]]);
        loop {
            match next(&mut buffer) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

fn one(stream: &[u8]) -> Frames<Vec<Bytes>> {
    requests(stream, &[], Limits::KNOWN)
}

fn any_words() -> impl Strategy<Value = Vec<Bytes>> {
    let word = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from),
        1 => (0usize..2000).prop_map(|length| Bytes::from(vec![b'x'; length])),
    ];
    prop::collection::vec(word, 1..14)
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..12).prop_map(Bytes::from);
    let line = || "[A-Z ]{3,12}".prop_map(Bytes::from);
    let leaf = prop_oneof![
        Just(Reply::Ok),
        Just(Reply::Nil),
        bytes().prop_map(Reply::Value),
        any::<i64>().prop_map(Reply::Number),
        line().prop_map(Reply::Error),
        line().prop_map(Reply::Simple),
        any::<f64>()
            .prop_filter("its bits", |value| !value.is_nan())
            .prop_map(|value| Reply::Double(Double::new(value))),
        any::<bool>().prop_map(Reply::Boolean),
        bytes().prop_map(Reply::Verbatim),
        "[1-9][0-9]{0,40}".prop_map(|digits| Reply::BigNumber(Bytes::from(digits))),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let many = || prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            many().prop_map(Reply::Array),
            many().prop_map(Reply::Set),
            many().prop_map(Reply::Push),
            prop::collection::vec((inner.clone(), inner.clone()), 0..3).prop_map(Reply::Map),
        ]
    })
}

/// Bytes that often mean something.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => prop::sample::select(vec![
            "*", "$", "\r\n", "\n", "\r", "1", "2", "0", "-1", "-", "*1\r\n", "*2\r\n", "$1\r\n", "$0\r\n\r\n", "x", " ", "\"", "'", "\\",
            "+", ":", "_\r\n", ",", "%1\r\n", "|1\r\n", "=", "txt:", "#t\r\n", "99999999999", "\0", "inf",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![prop::collection::vec(any::<usize>(), 0..12), Just((0..4096).collect())]
}

proptest! {
    #[test]
    fn requests_come_back_however_they_are_cut(
        all in prop::collection::vec(any_words(), 0..6),
        cuts in cuts(),
        most in 1usize..5,
    ) {
        let mut stream = BytesMut::new();
        all.iter().for_each(|words| encode_request(words, &mut stream));
        prop_assert_eq!(few_requests(&stream, &cuts, most), (all.clone(), None));
        prop_assert_eq!(requests(&stream, &cuts, Limits::KNOWN), (all, None));
    }

    #[test]
    fn replies_come_back_however_they_are_cut(all in prop::collection::vec(any_reply(), 0..6), cuts in cuts()) {
        let mut stream = BytesMut::new();
        all.iter().for_each(|reply| encode(reply, Protocol::Resp3, &mut stream));
        prop_assert_eq!(replies(&stream, &cuts), (all, None));
    }

    /// What RESP2 cannot say comes back as something else, but it comes back.
    #[test]
    fn in_resp2_nothing_is_lost_between_replies(all in prop::collection::vec(any_reply(), 0..6), cuts in cuts()) {
        let mut stream = BytesMut::new();
        all.iter().for_each(|reply| encode(reply, Protocol::Resp2, &mut stream));
        let (back, error) = replies(&stream, &cuts);
        prop_assert_eq!((back.len(), error), (all.len(), None));
        let mut again = BytesMut::new();
        back.iter().for_each(|reply| encode(reply, Protocol::Resp2, &mut again));
        prop_assert_eq!(again, stream);
    }

    #[test]
    fn garbage_is_cut_anywhere_to_the_same_effect(garbage in garbage(), cuts in cuts(), most in 1usize..5) {
        for limits in [Limits::KNOWN, Limits::STRANGER] {
            prop_assert_eq!(requests(&garbage, &cuts, limits), requests(&garbage, &[], limits));
        }
        prop_assert_eq!(few_requests(&garbage, &cuts, most), requests(&garbage, &[], Limits::KNOWN));
        prop_assert_eq!(replies(&garbage, &cuts), replies(&garbage, &[]));
    }
}

fn words(all: &[&[&'static str]]) -> Vec<Vec<Bytes>> {
    all.iter().map(|words| words.iter().map(|word| Bytes::from_static(word.as_bytes())).collect()).collect()
}

#[test]
fn lines_and_arrays_in_turn() {
    let stream = b"PING\r\n\r\n*0\r\n*-1\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nset k 'a b'\n*1\r\n$4\r\nQUIT\r\n";
    assert_eq!(one(stream), (words(&[&["PING"], &["GET", "k"], &["set", "k", "a b"], &["QUIT"]]), None));
}

#[test]
fn mistakes_are_told_as_redis_does() {
    let long = |first: &str| [first.as_bytes(), &vec![b'1'; 64 * 1024 + 1]].concat();
    for (stream, text) in [
        (b"*x\r\n".to_vec(), "invalid multibulk length"),
        (b"*1048577\r\n".to_vec(), "invalid multibulk length"),
        (b"*99999999999999999999\r\n".to_vec(), "invalid multibulk length"),
        (b"*1\r\nx1\r\n".to_vec(), "expected '$', got 'x'"),
        (b"*1\r\n\r\n".to_vec(), "expected '$', got ' '"),
        (b"*1\r\n$-1\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$536870913\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$1x\r\n".to_vec(), "invalid bulk length"),
        (long("*"), "too big mbulk count string"),
        (long("*1\r\n$"), "too big bulk count string"),
        (long("get "), "too big inline request"),
        (b"get 'k\r\n".to_vec(), "unbalanced quotes in request"),
    ] {
        let (frames, error) = one(&stream);
        assert_eq!(frames, Vec::<Vec<Bytes>>::new());
        let expected = Reply::error_with(format!("ERR Protocol error: {text}"));
        assert_eq!(error.map(ProtocolError::reply), Some(expected), "{text}");
    }
}

#[test]
fn strangers_may_say_little() {
    let of = |stream: &[u8]| requests(stream, &[], Limits::STRANGER).1.map(|error| error.to_string());
    assert_eq!(of(b"*11\r\n").as_deref(), Some("unauthenticated multibulk length"));
    assert_eq!(of(b"*2\r\n$4\r\nAUTH\r\n$16385\r\n").as_deref(), Some("unauthenticated bulk length"));
    assert_eq!(of(b"*2\r\n$4\r\nAUTH\r\n$536870913\r\n").as_deref(), Some("invalid bulk length"));
    assert_eq!(of(b"*10\r\n$16384\r\n"), None);
}

/// The whole of a request is bounded, not only its parts.
#[test]
fn a_request_that_would_be_too_big_is_refused_before_it_arrives() {
    let limits = Limits { request: 100, ..Limits::KNOWN };
    assert_eq!(requests(b"*3\r\n$50\r\n", &[], limits).1, None);
    let stream = [&b"*3\r\n$50\r\n"[..], &[b'x'; 50], b"\r\n$50\r\n"].concat();
    assert_eq!(requests(&stream, &[], limits).1, Some(ProtocolError::TooBigRequest));
}

/// No copy, and nothing set aside for what is only announced.
#[test]
fn words_are_slices_of_the_buffer() {
    let mut buffer = BytesMut::with_capacity(4096);
    buffer.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*1048576\r\n$536870912\r\nab");
    let range = buffer.as_ptr_range();
    let mut parser = Requests::default();
    let request = parser.next(&mut buffer).expect("valid").expect("whole");
    assert!(request.iter().all(|word| range.contains(&word.as_ptr())));
    assert_eq!(parser.next(&mut buffer), Ok(None));
    assert_eq!(parser.missing(&buffer), 512 * 1024 * 1024);
    assert!(buffer.capacity() <= 4096);
}

#[test]
fn replies_that_nest_too_deep_are_refused() {
    assert_eq!(
        replies(&[&b"*1\r\n".repeat(100_000)[..], b":1\r\n"].concat(), &[]).1,
        Some(ProtocolError::InvalidReply)
    );
    assert_eq!(
        replies(b"|1\r\n+a\r\n:1\r\n:7\r\n", &[3, 9]),
        (vec![Reply::Number(7)], None),
        "attributes are left out"
    );
    assert_eq!(replies(b"%9223372036854775807\r\n", &[]).1, None);
    assert_eq!(replies(b"*9223372036854775807\r\n%9223372036854775807\r\n", &[]).1, Some(ProtocolError::InvalidReply));
}
