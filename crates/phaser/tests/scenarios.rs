//! Scripted conversations between the replicas of one bucket: `tests/scenarios/*.txt`, the best way into this crate.
//!
//! After a change of behaviour: `UPDATE_SCENARIOS=1 cargo test -p phaser --test scenarios`, then read the diff as you would
//! read code. `SCENARIO=r05` runs only the files whose name contains that. The verbs are described in `tests/world/verbs.rs`.

mod script;
mod world;

use world::World;

/// Every rule and every move of design.md, section 3, has its story.
const STORIES: [&str; 24] = [
    "r01",
    "r02",
    "r03",
    "r04",
    "r05",
    "r06",
    "r07",
    "r08",
    "r09",
    "r10",
    "r11",
    "r12",
    "r13",
    "move_first_start",
    "move_enlist",
    "move_dismiss",
    "move_hand_over",
    "move_usurp",
    "move_split",
    "move_merge",
    "move_catch_up",
    "move_begin_anew",
    "move_checkpoint",
    "move_backlog",
];

#[test]
fn scenarios() {
    script::check::<World>("scenarios", "cargo test -p phaser --test scenarios");
}

#[test]
fn every_rule_and_every_move_has_a_story() {
    let names: Vec<String> = script::files("scenarios").iter().map(|path| script::name(path)).collect();
    for story in STORIES {
        assert!(names.iter().any(|name| name.starts_with(story)), "no file tests/scenarios/{story}*.txt tells of it");
    }
}

impl script::Stage for World {
    fn perform(&mut self, verb: &str) -> Result<(), String> {
        Self::perform(self, verb)
    }

    fn take_lines(&mut self) -> Vec<String> {
        Self::take_lines(self)
    }
}
