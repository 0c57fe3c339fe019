//! That the watch would notice.

use blueprint::Honest;

use super::*;
use crate::plan::Plan;
use crate::trace::Trace;

fn world(seed: u64) -> World<Honest> {
    World::new(Plan::draw(seed), Trace::silent())
}

/// With nobody listened to, the first thing that is out of order for longer than news take is a failure.
#[test]
fn silence_is_noticed() {
    let mut world = world(1);
    world.vigil.causes.deaf = true;
    let failure = world.run().expect_err("in half a minute of unrest something waits");
    assert_eq!(failure.checker, "no_wait_without_cause", "{}", failure.text);
}
