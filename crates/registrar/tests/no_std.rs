//! The core cannot reach a clock, a file or a hash map's order, because it cannot reach `std`.

use std::fs;
use std::path::Path;

/// An invariant of absence: it must not depend on who looks at the diff.
#[test]
fn the_core_has_no_std() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in fs::read_dir(&root).expect("a core has sources") {
        let path = entry.expect("readable").path();
        let text = fs::read_to_string(&path).expect("it was listed");
        let is_root = path.file_name().is_some_and(|name| name == "lib.rs");
        assert!(!is_root || text.lines().any(|line| line == "#![no_std]"), "lib.rs does not say #![no_std]");
        let mut before = "";
        for line in text.lines() {
            let is_allowed = !line.contains("extern crate std") || (is_root && before == "#[cfg(test)]");
            assert!(is_allowed, "{} brings std back, outside of tests", path.display());
            before = line;
        }
    }
}
