//! Scripted conversations between registrars: `tests/scenarios/*.txt`, the best way into this crate.
//!
//! After a change of behaviour: `UPDATE_SCENARIOS=1 cargo test -p registrar --test scenarios`, then read the diff as you would
//! read code. `SCENARIO=pull` runs only the files whose name contains that. The verbs are described in `tests/stage/verbs.rs`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

mod script;
mod stage;

use script::{Script, diff};
use stage::Stage;

/// Every rule of design.md, section 5, has its story.
const STORIES: [&str; 18] = [
    "check_brings_back",
    "check_finds_what_a_dead_owner_left",
    "durable_before_pushed",
    "identity_earlier_life",
    "number_resumes_above",
    "number_above_what_peers_hold",
    "number_whole_updates",
    "pull_on_start",
    "pull_only_the_contiguous",
    "pull_served_while_starting",
    "pull_next_sibling",
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
         UPDATE_SCENARIOS=1 cargo test -p registrar --test scenarios"
    );
}

#[test]
fn every_rule_has_a_story() {
    let names: Vec<String> = files().iter().map(|path| name(path)).collect();
    for story in STORIES {
        assert!(names.iter().any(|name| name.starts_with(story)), "no file tests/scenarios/{story}*.txt tells of it");
    }
}

/// The file as it would be, had it been written by what happens now.
fn perform(text: &str) -> Result<String, String> {
    let mut script = Script::parse(text)?;
    let mut stage = Stage::default();
    for block in &mut script.blocks {
        let mut emitted = Vec::new();
        for (line, verb) in &block.verbs {
            let done = catch_unwind(AssertUnwindSafe(|| stage.perform(verb)));
            let before = stage.take_lines();
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
