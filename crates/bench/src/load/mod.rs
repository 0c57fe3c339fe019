//! The load generator: a closed loop over many connections in one thread, as cheap as it can be, because it shares its processors with the
//! servers that it measures.
//!
//! Each connection sends a batch of requests, waits for all of their replies, and sends the next one. What goes out is built once
//! (`request.rs`), what comes in is only looked at (`scan.rs`, `http.rs`), and the clock is read once for each time that something comes in.
//! A reply that is an error is counted as one and never as an operation.
//!
//! `steadfast.rs` is for what is asked of a cluster that changes: clients that try again until it is done, and remember how long that took.

mod engine;
mod histogram;
mod http;
mod keys;
mod request;
mod route;
mod scan;
pub(crate) mod steadfast;

use std::net::SocketAddr;
use std::time::Duration;

use crate::system;

pub use engine::run;
pub use histogram::Histogram;
pub use keys::Keys;
pub use request::Mix;
pub(crate) use route::Routes;

/// What is to be done, and where.
#[derive(Clone, Debug)]
pub struct Work {
    pub mix: Mix,
    pub value_bytes: usize,
    pub keys: Keys,
    pub connections: usize,
    /// Requests that go out in one write, before any of their replies is waited for.
    pub pipeline: usize,
    pub length: Length,
    pub at: At,
    /// Processes whose processor time is counted meanwhile.
    pub servers: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// So long, after as long as `warm_up` that does not count.
    For { warm_up: Duration, measured: Duration },
    /// Until every key was sent once.
    EachKey,
}

/// Who is asked.
#[derive(Clone, Debug)]
pub enum At {
    /// Connections are dealt out to all of these, and any of them takes any key.
    Any(Vec<SocketAddr>),
    /// Nodes of a Redis Cluster, of which each is asked for the keys that it leads.
    Cluster(Vec<SocketAddr>),
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Done, and answered without an error.
    pub operations: u64,
    pub elapsed: Duration,
    pub latency: Histogram,
    /// Of all `servers` together.
    pub processor: Duration,
    /// Of this process.
    pub own_processor: Duration,
    /// Of everyone else on this machine.
    pub others_processor: Duration,
    pub errors: u64,
    /// The first that was answered.
    pub error: Option<String>,
    /// Reads that found nothing.
    pub missing: u64,
    /// Times that another node was named.
    pub moved: u64,
}

impl Outcome {
    pub fn per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// How much of this machine somebody took meanwhile who has no part in it, 0 to 1: above a few percent the figures mean little.
    pub fn disturbance(&self) -> f64 {
        self.others_processor.as_secs_f64() / (self.elapsed.as_secs_f64().max(1e-9) * system::cores() as f64)
    }

    /// Of the servers, for each operation, in µs.
    pub fn processor_each(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.operations.max(1) as f64
    }
}
