//! Scripted stories about coordinators: `tests/scenarios-coordinator/*.txt`, the best way into that module.
//!
//! After a change of behaviour: `UPDATE_SCENARIOS=1 cargo test -p reactor --test scenarios_coordinator`, then read the diff as you
//! would read code. The verbs are described in `tests/town/verbs.rs`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

#[path = "../../phaser/tests/script/mod.rs"]
mod script;
mod town;

use script::{Script, diff};
use town::Town;

#[test]
fn scenarios() {
    let rewrite = variable("UPDATE_SCENARIOS").is_some_and(|v| v != "0");
    let only = variable("SCENARIO").unwrap_or_default();
    let mut failures = String::new();
    for path in files().into_iter().filter(|path| path.to_string_lossy().contains(&only)) {
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
         UPDATE_SCENARIOS=1 cargo test -p reactor --test scenarios_coordinator"
    );
}

/// The file as it would be, had it been written by what happens now.
fn perform(text: &str) -> Result<String, String> {
    let mut script = Script::parse(text)?;
    let mut town = Town::default();
    for block in &mut script.blocks {
        for (line, verb) in &block.verbs {
            let done = catch_unwind(AssertUnwindSafe(|| town.perform(verb)));
            match done {
                Ok(Ok(())) => {}
                Ok(Err(why)) => return Err(format!("line {line}: {verb}: {why}")),
                Err(_) => {
                    return Err(format!("line {line}: {verb}: panicked, after\n{}", town.take_lines().join("\n")));
                }
            }
        }
        block.emitted = town.take_lines();
        if block.emitted.is_empty() {
            block.emitted.push("(nothing)".to_owned());
        }
    }
    Ok(script.render())
}

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios-coordinator");
    let entries = fs::read_dir(&directory).expect("the scenarios are beside this file");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    files.sort();
    files
}

#[allow(clippy::disallowed_methods, reason = "the runner is no core: it is asked to rewrite its files")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
