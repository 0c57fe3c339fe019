//! Clusters for tests: real processes that belong to the test, with ports and data of their own, gone when the test is over.

mod client;
mod cluster;
mod load;
mod ports;
mod witness;

use std::process::Output;
use std::time::{Duration, Instant};

pub(crate) use client::{Client, ask, text_of};
pub(crate) use cluster::{Cluster, Node, SETTINGS, Shape, godwit, http};
pub(crate) use load::{Load, Manner};
pub(crate) use ports::Ports;
pub(crate) use witness::Witness;

/// Generous: this machine may be doing anything else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// For whoever looks at a test that fails: how things were so often.
const SLOW: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until there is something. `otherwise` says how things are when it has waited too long.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>, otherwise: impl Fn() -> String) -> T {
    let begun = Instant::now();
    let mut told = SLOW;
    loop {
        if let Some(found) = look() {
            eprintln!("{what}: after {:?}", begun.elapsed()); // for whoever looks at a test that fails
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it is not so that {what}: {}", otherwise());
        if begun.elapsed() > told {
            eprintln!("{what}: not after {told:?}: {}", otherwise());
            told += SLOW;
        }
        std::thread::sleep(PAUSE);
    }
}

pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
