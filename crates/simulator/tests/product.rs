//! No planted bug can exist in the product, not even by name: a program around the honest node is built as the product is
//! built, run, and searched.

use std::path::{Path, PathBuf};
use std::process::Command;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// The variants of `Breach`, as they stand in the source.
fn breaches() -> Vec<String> {
    let source =
        std::fs::read_to_string(workspace().join("crates/blueprint/src/conduct.rs")).expect("conduct.rs is there");
    let body =
        source.split("pub enum Breach {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("there is a Breach");
    let variant = |line: &str| line.split(',').next().map(|name| name.trim().to_owned());
    body.lines().filter_map(variant).filter(|name| name.starts_with(char::is_uppercase)).collect()
}

#[test]
fn no_sabotage_name_occurs_in_the_product() {
    let target = workspace().join("target/product");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "-p", "node", "--example", "alone", "--target-dir"])
        .arg(&target)
        .current_dir(workspace())
        .status()
        .expect("cargo runs");
    assert!(built.success(), "the example around the honest node builds");
    let program = target.join("release/examples/alone");
    let ran = Command::new(&program).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("Reply(Ok)") && said.contains("hello"), "it serves a write and a read: {said}");

    let binary = std::fs::read(&program).expect("it was just built");
    assert!(contains(&binary, "greeting"), "the search finds what is there");
    let names = breaches();
    assert_eq!(names.len(), simulator::sabotage::ALL.len(), "every breach has a sabotage");
    for name in names.iter().map(String::as_str).chain(simulator::sabotage::ALL.iter().map(|s| s.name)) {
        assert!(!contains(&binary, name), "{name} occurs in the product");
    }
}
