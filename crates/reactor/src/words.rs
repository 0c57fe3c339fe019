//! How the reactor puts things into words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::time::Duration;

/// `n1`, `n1 and n2`, `n1, n2 and n3`.
pub(crate) fn list<T: Display>(things: impl IntoIterator<Item = T>) -> String {
    let mut words: Vec<String> = things.into_iter().map(|t| t.to_string()).collect();
    match words.pop() {
        None => "nobody".into(),
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} and {last}", words.join(", ")),
    }
}

pub(crate) fn span(span: Duration) -> String {
    match span.as_millis() {
        ms @ 0..1_000 => format!("{ms} ms"),
        ms @ 1_000..120_000 => format!("{} s", ms / 1_000),
        ms => format!("{} min", ms / 60_000),
    }
}

pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}
