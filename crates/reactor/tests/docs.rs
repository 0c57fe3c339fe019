//! The table of rules in docs/reactor.md is the one that decides. `UPDATE_DOCS=1 cargo test -p reactor --test docs` writes it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use reactor::declared;

const BEGIN: &str = "<!-- rules: written by crates/reactor/tests/docs.rs -->\n";
const END: &str = "<!-- end of rules -->\n";

#[test]
fn the_table_of_rules_is_the_one_that_decides() {
    let page = repository().join("docs/reactor.md");
    let text = fs::read_to_string(&page).expect("the page exists");
    let (before, rest) = text.split_once(BEGIN).expect("it says where the rules begin");
    let (_, after) = rest.split_once(END).expect("it says where they end");
    let expected = format!("{before}{BEGIN}{}{END}{after}", table());
    if text != expected && update() {
        fs::write(&page, expected).expect("the source tree can be written");
    } else {
        assert!(text == expected, "the rules have changed: UPDATE_DOCS=1 cargo test -p reactor --test docs");
    }
}

fn table() -> String {
    let mut table = String::from("| rule | what it says | what it needs first, and why |\n|---|---|---|\n");
    for rule in declared() {
        let links: Vec<String> =
            scenarios(rule.name).iter().map(|file| format!("[{file}](../{FOLDER}/{file}.txt)")).collect();
        let needs: Vec<String> =
            rule.needs.iter().map(|(condition, because)| format!("{condition}: *{because}*")).collect();
        let needs = if needs.is_empty() { "nothing".to_owned() } else { needs.join("<br>") };
        let name = if rule.acts { format!("**{}**", rule.name) } else { rule.name.to_owned() };
        writeln!(table, "| {name} | {} {} | {needs} |", rule.text, links.join(", ")).expect("memory is all it takes");
    }
    table
}

const FOLDER: &str = "crates/reactor/tests/scenarios";

fn scenarios(rule: &str) -> Vec<String> {
    let name = format!("rule_{}", rule.replace('-', "_"));
    let entries = fs::read_dir(repository().join(FOLDER)).expect("the scenarios are there");
    let stems =
        entries.map(|e| e.expect("readable").path().file_stem().expect("a file").to_string_lossy().into_owned());
    let mut stems: Vec<String> = stems.filter(|s| *s == name || s.starts_with(&format!("{name}__"))).collect();
    stems.sort();
    stems
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[allow(clippy::disallowed_methods, reason = "the runner is no core: it is asked to rewrite its page")]
fn update() -> bool {
    std::env::var("UPDATE_DOCS").is_ok_and(|v| v != "0")
}
