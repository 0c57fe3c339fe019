//! `replay --why`: what an operator reads about a bucket that stood still.

use std::process::{Command, Output};

fn simulator(line: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_simulator");
    Command::new(program).args(line.split_whitespace()).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Crashes and moves for a few seconds: enough for somebody to wait.
const WORLD: &str = "replay 7 --unrest 6";

#[test]
fn the_longest_wait_comes_first() {
    let text = said(&simulator(&format!("{WORLD} --why 1")));
    let first = text.find("The longest wait of b1: n").expect("somebody who holds it waited");
    let moment = text.find("\nAt ").expect("the moment is shown");
    let life = text.find("\nAll of its life").expect("and all the rest");
    assert!(first < moment && moment < life, "{text}");
    for word in [" leads ", " waits for ", "[on ", "Around that moment", "the world heals", "shorter waits", "passed: "]
    {
        assert!(text.contains(word), "nothing about {word:?} in\n{text}");
    }
    assert_eq!(text, said(&simulator(&format!("{WORLD} --why 1"))), "the same every time");
}

#[test]
fn a_moment_of_ones_own() {
    let text = said(&simulator(&format!("{WORLD} --why 1 --at 3")));
    assert!(text.contains("\nAt 3.000 s\n  b1 "), "{text}");
    assert!(!text.contains("All of its life"), "{text}");
}

#[test]
fn a_bucket_that_is_not_there() {
    let output = simulator(&format!("{WORLD} --why 77"));
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint.contains("there is no bucket 77 in this world; there are 1"), "{complaint}");
}
