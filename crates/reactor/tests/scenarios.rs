//! Scripted situations of a few nodes: `tests/scenarios/*.txt`, the best way into this crate.
//!
//! After a change of behaviour: `UPDATE_SCENARIOS=1 cargo test -p reactor --test scenarios`, then read the diff as you would
//! read code. `SCENARIO=erase` runs only the files whose name contains that. The verbs are described in `tests/world/verbs.rs`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

#[path = "../../phaser/tests/script/mod.rs"]
mod script;
mod world;

use reactor::declared;
use script::{Script, diff};
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
         UPDATE_SCENARIOS=1 cargo test -p reactor --test scenarios"
    );
}

#[test]
fn every_use_case_has_a_story() {
    let names: Vec<String> = files().iter().map(|path| name(path)).collect();
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
        let tells = |path: &&PathBuf| name(path) == file || name(path).starts_with(&format!("{file}__"));
        let stories = files();
        let texts = stories.iter().filter(tells).map(|path| fs::read_to_string(path).expect("it was listed"));
        let text: String = texts.collect();
        let emits = |needle: &str| text.lines().any(|line| line.starts_with('n') && line.contains(needle));
        if rule.acts && !emits(&format!("({})", rule.name)) {
            untold.push(format!("{file}: it acts"));
        }
        for (condition, because) in rule.needs {
            if !emits(&format!(": {} waits for ", rule.name)) || !emits(because) {
                untold.push(format!("{file}: it waits until {condition}"));
            }
        }
    }
    assert!(untold.is_empty(), "nobody tells of\n{}", untold.join("\n"));
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
    let entries = fs::read_dir(folder()).expect("the scenarios are beside this file");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    files.sort();
    files
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

fn name(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

#[allow(clippy::disallowed_methods, reason = "the runner is no core: it is asked to rewrite its files")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
