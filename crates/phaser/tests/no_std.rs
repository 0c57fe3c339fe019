//! The cores cannot reach a clock, a file or a hash map's order, because they cannot reach `std`.

use std::fs;
use std::path::Path;

const CORES: [&str; 5] = ["blueprint", "phaser", "planner", "reactor", "registrar"];

/// An invariant of absence: it must not depend on who looks at the diff.
#[test]
fn the_cores_have_no_std() {
    for core in CORES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(core).join("src");
        let lib = fs::read_to_string(root.join("lib.rs")).expect("a core has a lib.rs");
        assert!(lib.lines().any(|line| line == "#![no_std]"), "{core}/src/lib.rs does not say #![no_std]");
        let mut before = "";
        for line in lib.lines() {
            let allowed = line != "extern crate std;" || before == "#[cfg(test)]";
            assert!(allowed, "{core}/src/lib.rs brings std back, outside of tests");
            before = line;
        }
    }
}

/// `#![no_std]` holds for a crate, not for a module that says `extern crate std` again.
#[test]
fn no_module_brings_std_back() {
    for core in CORES {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(core).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a core has sources") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().is_some_and(|name| name != "lib.rs") {
                    let text = fs::read_to_string(&path).expect("it was listed");
                    assert!(!text.contains("extern crate std"), "{} brings std back", path.display());
                }
            }
        }
    }
}
