//! Scripted situations of a few nodes: `tests/scenarios/*.txt`, the best way into this crate.
//!
//! After a change of behaviour: `UPDATE_SCENARIOS=1 cargo test -p reactor --test scenarios`, then read the diff as you would
//! read code. `SCENARIO=erase` runs only the files whose name contains that. The verbs are described in `tests/world/verbs.rs`.

#[path = "../../phaser/tests/script/mod.rs"]
mod script;
mod world;

use reactor::declared;
use world::World;

/// The use cases of the notes that this design grew out of.
const USE_CASES: [&str; 7] = [
    "startup",
    "add_secondary",
    "swap_primary_and_secondary",
    "move_secondary",
    "swap_primary_and_unused_node",
    "departure_and_recovery",
    "failure_handling",
];

#[test]
fn scenarios() {
    script::check::<World>("scenarios", "cargo test -p reactor --test scenarios");
}

#[test]
fn every_use_case_has_a_story() {
    let names: Vec<String> = script::files("scenarios").iter().map(|path| script::name(path)).collect();
    for story in USE_CASES {
        assert!(names.contains(&format!("case_{story}")), "no file tests/scenarios/case_{story}.txt tells of it");
    }
}

/// Each rule has a file, and in it every one of its needs is once what stands in the way.
#[test]
fn every_rule_and_every_wait_has_a_story() {
    let mut untold = Vec::new();
    for rule in declared() {
        let file = format!("rule_{}", rule.name.replace('-', "_"));
        // One story may need several files: rule_erase.txt, rule_erase__named_again.txt.
        let tells = |path: &&std::path::PathBuf| {
            script::name(path) == file || script::name(path).starts_with(&format!("{file}__"))
        };
        let stories = script::files("scenarios");
        let texts = stories.iter().filter(tells).map(|path| std::fs::read_to_string(path).expect("it was listed"));
        let text: String = texts.collect();
        let emits = |needle: &str| text.lines().any(|line| line.starts_with('n') && line.contains(needle));
        if rule.acts && !emits(&format!("({})", rule.name)) {
            untold.push(format!("{file}: it acts"));
        }
        for (condition, because) in rule.needs {
            let waits = |line: &str| line.contains(&format!(": {} waits for ", rule.name)) && line.contains(because);
            if !text.lines().any(|line| line.starts_with('n') && waits(line)) {
                untold.push(format!("{file}: it waits until {condition}"));
            }
        }
    }
    assert!(untold.is_empty(), "nobody tells of\n{}", untold.join("\n"));
}

impl script::Stage for World {
    fn perform(&mut self, verb: &str) -> Result<(), String> {
        Self::perform(self, verb)
    }

    fn take_lines(&mut self) -> Vec<String> {
        Self::take_lines(self)
    }
}
