//! Ports that nobody uses right now, and that no other test is given meanwhile, of this process or of another.

use std::net::TcpListener;

/// Below those that the system hands out by itself.
const FIRST: u16 = 20_000;
const BLOCKS: u16 = 30;
const NODES: u16 = 6;

#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) base: u16,
    /// The first of the block, which no node uses: whoever has it has them all.
    _lock: TcpListener,
}

impl Ports {
    pub(crate) fn take() -> Self {
        let first = std::process::id() as u16 % BLOCKS;
        let mut blocks = (0..BLOCKS).map(|block| FIRST + (first + block) % BLOCKS * 400);
        let found = blocks.find_map(|base| {
            let lock = TcpListener::bind(("127.0.0.1", base)).ok()?;
            let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
            let all_free = (0..4).all(|kind| (1..=NODES).all(|node| is_free(base + kind * 100 + node)));
            all_free.then_some(Self { base, _lock: lock })
        });
        found.expect("a block of ports that nobody uses")
    }
}
