//! The book cannot fall behind: it names every scenario and every sabotage, and what it points to is there.

use std::fs;
use std::path::{Path, PathBuf};

use simulator::sabotage;

/// One screen, more or less: a decision that needs more is two decisions.
const MOST_LINES_OF_A_DECISION: usize = 80;
/// A map, not a description of every street.
const MOST_LINES_OF_THE_MAP: usize = 300;

#[test]
fn the_protocol_names_every_sabotage() {
    let book = read("docs/protocol.md");
    let named = |name: &&str| book.contains(&format!("`{name}`"));
    let missing: Vec<&str> = sabotage::ALL.iter().map(|s| s.name).filter(|name| !named(name)).collect();
    assert!(missing.is_empty(), "docs/protocol.md does not name these sabotages: {missing:?}");
}

#[test]
fn the_protocol_links_every_scenario() {
    let linked = links(&read("docs/protocol.md"));
    let scenarios = files_in("crates/phaser/tests/scenarios", "txt");
    assert!(!scenarios.is_empty(), "there are scenarios");
    for path in scenarios {
        let link = format!("../crates/phaser/tests/scenarios/{}", name(&path));
        assert!(linked.contains(&link), "docs/protocol.md has no link to {link}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    for path in pages() {
        let text = fs::read_to_string(&path).expect("it was listed");
        let folder = path.parent().expect("a file is in a folder");
        for link in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { path.clone() } else { folder.join(file) };
            assert!(target.exists(), "{}: nothing at {link}", path.display());
            if !heading.is_empty() {
                let there = fs::read_to_string(&target).expect("only pages have headings");
                assert!(headings(&there).iter().any(|h| h == heading), "{}: no heading at {link}", path.display());
            }
        }
    }
}

#[test]
fn decisions_are_short_and_numbered_without_gaps() {
    let decisions = files_in("docs/decisions", "md");
    assert!(!decisions.is_empty(), "there are decisions");
    for (path, number) in decisions.iter().zip(1..) {
        let text = fs::read_to_string(path).expect("it was listed");
        let lines = text.lines().count();
        assert!(lines <= MOST_LINES_OF_A_DECISION, "{} has {lines} lines", path.display());
        assert!(name(path).starts_with(&format!("{number:04}-")), "{} is not number {number}", path.display());
        assert!(text.starts_with(&format!("# {number:04}: ")), "{} begins with its number", path.display());
    }
}

#[test]
fn the_map_stays_a_map() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines < MOST_LINES_OF_THE_MAP, "ARCHITECTURE.md has {lines} lines");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("our files have plain names")
}

/// In order of their names.
fn files_in(folder: &str, extension: &str) -> Vec<PathBuf> {
    let listed = fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let paths = listed.map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    files
}

/// Everything that is written for people.
fn pages() -> Vec<PathBuf> {
    ["", "docs", "docs/decisions", "crates/phaser/tests/scenarios"].iter().flat_map(|f| files_in(f, "md")).collect()
}

/// Where `[text](target)` points to within the project.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).filter(|target| !target.contains("://")).collect()
}

/// As they are linked to: small letters, dashes for spaces, nothing else.
fn headings(text: &str) -> Vec<String> {
    let titles = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let letter = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    titles.map(|title| title.chars().filter_map(letter).collect()).collect()
}
