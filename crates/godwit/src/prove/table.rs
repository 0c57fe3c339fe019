//! A report, for people.

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Cell, CellAlignment, Table};
use indicatif::DecimalBytes;
use prover::{Report, Settings};

/// Violations that are told with all that happened to their key.
const STORIES: usize = 3;

pub(super) fn show(report: &Report, settings: &Settings) {
    say!("{}", operations(report));
    say!(
        "{} clients, {:.0} s, seed {}: {} writes acknowledged, {:.0} per second{}",
        settings.clients,
        report.seconds,
        settings.seed,
        report.acknowledged_writes,
        report.acknowledged_writes_per_second,
        if report.series { "" } else { " (no SERIES here: nothing was safe to repeat)" }
    );
    if !report.errors.is_empty() {
        let errors: Vec<String> = report.errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        say!("attempts that were not answered as hoped: {}", errors.join(", "));
    }
    say!();
    say!("{}", gaps(report));
    if !report.by_kind.is_empty() {
        say!("{}", by_kind(report));
    }
    if !report.by_change.is_empty() {
        say!("{}", by_change(report));
    }
    verdict(report);
}

fn verdict(report: &Report) {
    for told in report.violations.iter().take(STORIES) {
        say!("\n{} ({}): {}", told.key, told.checker, told.text);
        say!("  its whole story:");
        told.story.iter().for_each(|line| say!("    {line}"));
    }
    if report.violations.len() > STORIES {
        say!("\n… and {} more keys; --json tells of them", report.violations.len() - STORIES);
    }
    report.strange_answers.iter().for_each(|text| say!("  ! {text}"));
    report.problems.iter().for_each(|problem| say!("  ! {problem}"));
    let checked = &report.checked;
    say!(
        "\n{}: {} lost, {} duplicated, {} stale reads, {} other violations; {} registers, {} counters and {} lists checked",
        if report.is_clean() { "Nothing is violated" } else { "VIOLATED" },
        report.lost,
        report.duplicated,
        report.stale_reads,
        report.other_violations,
        checked.registers,
        checked.counters,
        checked.lists
    );
}

fn operations(report: &Report) -> Table {
    let mut table = table(&["command", "answered", "uncertain", "refused", "in a series"]);
    for (command, outcomes) in &report.operations {
        let numbers = [outcomes.answered, outcomes.uncertain, outcomes.refused, outcomes.in_series];
        table.add_row([Cell::new(command)].into_iter().chain(numbers.map(right)));
    }
    table
}

fn gaps(report: &Report) -> Table {
    let mut table = table(&[
        "stretch",
        "at",
        "no write for",
        "slowest write",
        "writes per second",
        "as before after",
        "recovered after",
        "note",
    ]);
    let ms = |ms: f64| right(format!("{ms:.0} ms"));
    let s = |s: f64| right(format!("{s:.1} s"));
    let calm = (!report.faults.is_empty()).then_some(("calm, before any fault", &report.calm));
    for (name, stretch) in [("whole run", &report.whole)].into_iter().chain(calm) {
        let rate = right(format!("{:.0}", stretch.writes_per_second));
        table.add_row([
            Cell::new(name),
            Cell::new(""),
            ms(stretch.longest_gap_ms),
            ms(stretch.slowest_write_ms),
            rate,
            Cell::new(""),
            Cell::new(""),
            Cell::new(""),
        ]);
    }
    for fault in &report.faults {
        table.add_row([
            Cell::new(format!("{} node {}", fault.kind, fault.node)),
            s(fault.at_s),
            right(format!("{:.0} ms, {:.1} s in", fault.longest_gap_ms, fault.gap_began_after_s.max(0.0))),
            ms(fault.slowest_write_ms),
            right(format!("{} before", fault.writes_per_second_before)),
            fault.flowing_after_s.map_or_else(|| Cell::new("not"), s),
            fault.recovered_after_s.map_or_else(|| Cell::new("not"), s),
            Cell::new(fault.note.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

fn by_kind(report: &Report) -> Table {
    let mut table = table(&[
        "fault",
        "times",
        "median without a write",
        "longest",
        "median of the slowest write",
        "the same two, before it was taken back",
        "least writes per second before",
    ]);
    for kind in &report.by_kind {
        table.add_row([
            Cell::new(kind.kind),
            right(kind.faults),
            right(format!("{:.0} ms", kind.median_gap_ms)),
            right(format!("{:.0} ms", kind.longest_gap_ms)),
            right(format!("{:.0} ms", kind.median_slowest_write_ms)),
            right(format!("{:.0} ms, {:.0} ms", kind.median_gap_away_ms, kind.median_slowest_write_away_ms)),
            right(kind.least_writes_per_second_before),
        ]);
    }
    table
}

/// Medians, each beside the calm before.
fn by_change(report: &Report) -> Table {
    let mut table = table(&[
        "change",
        "times",
        "took",
        "moved",
        "slowest write",
        "in the calm before",
        "more",
        "no write for",
        "in the calm before",
        "writes per second",
        "of the calm before",
    ]);
    let ms = |ms: f64| right(format!("{ms:.0} ms"));
    for change in &report.by_change {
        let (during, calm) = (change.median_writes_per_second, change.median_writes_per_second_calm);
        table.add_row([
            Cell::new(&change.kind),
            right(change.times),
            right(format!("{:.1} s", change.median_seconds)),
            right(DecimalBytes(change.median_bytes)),
            ms(change.median_slowest_write_ms),
            ms(change.median_slowest_write_calm_ms),
            ms(change.median_slowest_write_ms - change.median_slowest_write_calm_ms),
            ms(change.median_gap_ms),
            ms(change.median_gap_calm_ms),
            right(format!("{during:.0}")),
            right(format!("{:.0}%", if calm > 0.0 { 100.0 * during / calm } else { 0.0 })),
        ]);
    }
    table
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_BORDERS_ONLY).set_header(header);
    table
}

fn right(text: impl std::fmt::Display) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
