//! Scripted stories about coordinators: `tests/scenarios-coordinator/*.txt`, the best way into that module.
//!
//! After a change of behaviour: `UPDATE_SCENARIOS=1 cargo test -p reactor --test scenarios_coordinator`, then read the diff as you
//! would read code. The verbs are described in `tests/town/verbs.rs`.

#[path = "../../phaser/tests/script/mod.rs"]
mod script;
mod town;

use town::Town;

#[test]
fn scenarios() {
    script::check::<Town>("scenarios-coordinator", "cargo test -p reactor --test scenarios_coordinator");
}

impl script::Stage for Town {
    fn perform(&mut self, verb: &str) -> Result<(), String> {
        Self::perform(self, verb)
    }

    fn take_lines(&mut self) -> Vec<String> {
        Self::take_lines(self)
    }
}
