//! Scripted conversations between registrars: `tests/scenarios/*.txt`, the best way into this crate.
//!
//! After a change of behaviour: `UPDATE_SCENARIOS=1 cargo test -p registrar --test scenarios`, then read the diff as you would
//! read code. `SCENARIO=pull` runs only the files whose name contains that. The verbs are described in `tests/stage/verbs.rs`.

#[path = "../../phaser/tests/script/mod.rs"]
mod script;
mod stage;

use stage::Stage;

/// Every rule of design.md, section 5, has its story.
const STORIES: [&str; 21] = [
    "check_brings_back",
    "check_finds_what_a_dead_owner_left",
    "durable_before_pushed",
    "identity_earlier_life",
    "number_resumes_above",
    "number_above_what_peers_hold",
    "number_other_in_each_life",
    "number_whole_updates",
    "pull_on_start",
    "pull_only_the_contiguous",
    "pull_served_while_starting",
    "pull_next_sibling",
    "pull_late_part",
    "pull_lost_part",
    "push_gap_refused",
    "push_one_message",
    "succession",
    "time_expired",
    "time_left",
    "tombstone_away_for_less",
    "tombstone_away_for_longer",
];

#[test]
fn scenarios() {
    script::check::<Stage>("scenarios", "cargo test -p registrar --test scenarios");
}

#[test]
fn every_rule_has_a_story() {
    let names: Vec<String> = script::files("scenarios").iter().map(|path| script::name(path)).collect();
    for story in STORIES {
        assert!(names.iter().any(|name| name.starts_with(story)), "no file tests/scenarios/{story}*.txt tells of it");
    }
}

impl script::Stage for Stage {
    fn perform(&mut self, verb: &str) -> Result<(), String> {
        Self::perform(self, verb)
    }

    fn take_lines(&mut self) -> Vec<String> {
        Self::take_lines(self)
    }
}
