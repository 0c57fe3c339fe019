//! The form of a scenario file: comments, then verbs, `----`, and everything that was emitted, up to an empty line.
//!
//! ```text
//! # who does what, and what would go wrong without the rule
//!
//! write n1 a
//! deliver n1->n2
//! ----
//! n1->n2 Prepare …
//! ```

use std::fmt::Write;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// A file, taken apart so that it can be put together again with other output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) blocks: Vec<Block>,
    /// Comments after the last block.
    rest: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Comments and empty lines before the verbs.
    lead: Vec<String>,
    /// The verbs, each with its line number.
    pub(crate) verbs: Vec<(usize, String)>,
    pub(crate) emitted: Vec<String>,
}

impl Script {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut blocks = Vec::new();
        let (mut lead, mut verbs) = (Vec::new(), Vec::new());
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            if line == "----" {
                if verbs.is_empty() {
                    return Err(format!("line {}: nothing stands before ----", number + 1));
                }
                let emitted = lines.by_ref().map(|(_, l)| l.to_owned()).take_while(|l| !l.is_empty()).collect();
                blocks.push(Block { lead: std::mem::take(&mut lead), verbs: std::mem::take(&mut verbs), emitted });
            } else if line.is_empty() || line.starts_with('#') {
                if let Some((at, verb)) = verbs.first() {
                    return Err(format!("line {at}: {verb:?} is not followed by ----"));
                }
                lead.push(line.to_owned());
            } else {
                verbs.push((number + 1, line.to_owned()));
            }
        }
        match verbs.first() {
            Some((at, verb)) => Err(format!("line {at}: {verb:?} is not followed by ----")),
            None => Ok(Self { blocks, rest: lead }),
        }
    }

    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        for block in &self.blocks {
            let verbs = block.verbs.iter().map(|(_, verb)| verb);
            for line in block.lead.iter().chain(verbs) {
                writeln!(text, "{line}").expect("memory is all it takes");
            }
            text.push_str("----\n");
            for line in &block.emitted {
                writeln!(text, "{line}").expect("memory is all it takes");
            }
            text.push('\n');
        }
        for line in &self.rest {
            writeln!(text, "{line}").expect("memory is all it takes");
        }
        format!("{}\n", text.trim_end())
    }
}

/// What is gone and what is new, with the lines around it.
pub(crate) fn diff(expected: &str, found: &str) -> String {
    const AROUND: usize = 3;
    let lines = compare(&expected.lines().collect::<Vec<_>>(), &found.lines().collect::<Vec<_>>());
    let near = |at: usize| {
        let around = at.saturating_sub(AROUND)..(at + AROUND + 1).min(lines.len());
        lines[around].iter().any(|(sign, _)| *sign != ' ')
    };
    let mut text = String::new();
    let mut skipped = false;
    for (at, (sign, line)) in lines.iter().enumerate() {
        if near(at) {
            writeln!(text, "{sign} {line}").expect("memory is all it takes");
        } else if !skipped {
            text.push_str("  …\n");
        }
        skipped = !near(at);
    }
    text
}

/// Longest common subsequence, by the table.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let mut common = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] =
                if old[i] == new[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(('-', old[i]));
            i += 1;
        } else {
            lines.push(('+', new[j]));
            j += 1;
        }
    }
    lines
}

/// What verbs are performed on.
pub(crate) trait Stage: Default {
    fn perform(&mut self, verb: &str) -> Result<(), String>;

    /// Everything that was emitted since the last time.
    fn take_lines(&mut self) -> Vec<String>;
}

/// Performs every file of a folder of this crate, and compares; or rewrites them, when asked to. `command` is how to ask.
pub(crate) fn check<S: Stage>(folder: &str, command: &str) {
    let rewrite = variable("UPDATE_SCENARIOS").is_some_and(|v| v != "0");
    let only = variable("SCENARIO").unwrap_or_default();
    let mut failures = String::new();
    for path in files(folder).into_iter().filter(|path| name(path).contains(&only)) {
        let expected = fs::read_to_string(&path).expect("it was listed");
        match perform::<S>(&expected) {
            Ok(found) if found == expected => {}
            Ok(found) if rewrite => fs::write(&path, found).expect("the source tree can be written"),
            Ok(found) => failures += &format!("\n==== {}\n{}", path.display(), diff(&expected, &found)),
            Err(why) => failures += &format!("\n==== {}\n{why}\n", path.display()),
        }
    }
    assert!(
        failures.is_empty(),
        "{failures}\n(- as written, + as it happened)  If what happened is right:\n  UPDATE_SCENARIOS=1 {command}"
    );
}

/// The file as it would be, had it been written by what happens now.
fn perform<S: Stage>(text: &str) -> Result<String, String> {
    let mut script = Script::parse(text)?;
    let mut stage = S::default();
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

pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let entries = fs::read_dir(&directory).expect("the scenarios are beside this file");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    files.sort();
    files
}

pub(crate) fn name(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

#[allow(clippy::disallowed_methods, reason = "the runner is no core: it is asked to rewrite its files")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
