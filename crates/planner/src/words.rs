//! How the planner puts things into words.

use alloc::format;
use alloc::string::String;

pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// `0 B`, `999 B`, `1.5 KB`, `33.6 MB`: in steps of a thousand, as disks are sold.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let (mut unit, mut whole) = (0, 1_000);
    while bytes / whole >= 1_000 && unit + 1 < UNITS.len() {
        whole *= 1_000;
        unit += 1;
    }
    format!("{}.{} {}", bytes / whole, bytes % whole / (whole / 10), UNITS[unit])
}
