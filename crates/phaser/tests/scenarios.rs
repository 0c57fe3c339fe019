//! Scripted conversations between the replicas of one bucket: `tests/scenarios/*.txt`, the best way into this crate.
//!
//! After a change of behaviour: `UPDATE_SCENARIOS=1 cargo test -p phaser --test scenarios`, then read the diff as you would
//! read code. `SCENARIO=r05` runs only the files whose name contains that. The verbs are described in `tests/world/verbs.rs`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

mod script;
mod world;

use script::{Script, diff};
use world::World;

/// Every rule and every move of design.md, section 3, has its story.
const STORIES: [&str; 23] = [
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
    "move_catch_up",
    "move_begin_anew",
    "move_checkpoint",
    "move_backlog",
];

#[test]
fn scenarios() {
    let rewrite = variable("UPDATE_SCENARIOS").is_some_and(|v| v != "0");
    let only = variable("SCENARIO").unwrap_or_default();
    let mut failures = String::new();
    for path in files().into_iter().filter(|path| name(path).contains(&only)) {
        let expected = fs::read_to_string(&path).expect("it was listed");
        match perform(&expected) {
            Ok(found) if found == expected => {}
            Ok(found) if rewrite => fs::write(&path, found).expect("the source tree can be written"),
            Ok(found) => failures += &format!("\n==== {}\n{}", path.display(), diff(&expected, &found)),
            Err(why) => failures += &format!("\n==== {}\n{why}\n", path.display()),
        }
    }
    assert!(
        failures.is_empty(),
        "{failures}\n(- as written, + as it happened)  If what happened is right:\n  \
         UPDATE_SCENARIOS=1 cargo test -p phaser --test scenarios"
    );
}

#[test]
fn every_rule_and_every_move_has_a_story() {
    let names: Vec<String> = files().iter().map(|path| name(path)).collect();
    for story in STORIES {
        assert!(names.iter().any(|name| name.starts_with(story)), "no file tests/scenarios/{story}*.txt tells of it");
    }
}

/// The file as it would be, had it been written by what happens now.
fn perform(text: &str) -> Result<String, String> {
    let mut script = Script::parse(text)?;
    let mut world = World::default();
    for block in &mut script.blocks {
        let mut emitted = Vec::new();
        for (line, verb) in &block.verbs {
            let done = catch_unwind(AssertUnwindSafe(|| world.perform(verb)));
            let before = world.take_lines();
            match done {
                Ok(Ok(())) => emitted.extend(before),
                Ok(Err(why)) => return Err(format!("line {line}: {verb}: {why}")),
                Err(_) => return Err(format!("line {line}: {verb}: panicked, after\n{}", before.join("\n"))),
            }
        }
        if emitted.is_empty() {
            emitted.push("(nothing)".to_owned());
        }
        block.emitted = emitted;
    }
    Ok(script.render())
}

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let entries = fs::read_dir(&directory).expect("the scenarios are beside this file");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

#[allow(clippy::disallowed_methods, reason = "the runner is no core: it is asked to rewrite its files")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
