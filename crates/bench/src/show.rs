//! Results for people.

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Attribute, CellAlignment, Color, Table};

use crate::peers::Peer;
use crate::results::{Bar, Cell, Measure, Results, number};
use crate::statistics::Summary;

/// What others may use of the machine before it has to be said. Kernel threads and idle servers use some of it.
const BEARABLE: f64 = 0.1;

/// A row: who did what in which cell, how ours is beside it, and what was promised.
pub fn row(results: &Results) -> String {
    let mut text = format!("{}: {}\n{}\n", results.row, results.about, table_of(results));
    text += "guaranteed:\n";
    for (who, words) in &results.guarantees {
        text += &format!("  {who:<8}{words}\n");
    }
    if results.disturbance > BEARABLE {
        let percent = 100.0 * results.disturbance;
        text += &format!(
            "  somebody else used up to {percent:.0}% of this machine during a turn: the figures mean little\n"
        );
    }
    for note in &results.notes {
        text += &format!("  note: {note}\n");
    }
    text
}

fn table_of(results: &Results) -> Table {
    let mut table = plain_table();
    let is_measured = |measure: &Measure| {
        results
            .cells
            .iter()
            .flat_map(|cell| &cell.sides)
            .flat_map(|side| &side.rounds)
            .any(|round| round.contains_key(measure))
    };
    let measures: Vec<Measure> = results.measures.iter().copied().filter(is_measured).collect();
    let has_peers = results.cells.iter().flat_map(|cell| &cell.sides).any(|side| side.who != Peer::Godwit);
    let compared: &[Measure] = if has_peers { &results.compared } else { &[] };
    let mut header = vec![String::new(), "medians".into()];
    header.extend(measures.iter().map(|measure| measure.title().to_owned()));
    header.extend(compared.iter().map(|measure| format!("godwit ÷ it: {}", measure.title())));
    table.set_header(header);
    for cell in &results.cells {
        for (place, side) in cell.sides.iter().enumerate() {
            let mut line = vec![if place == 0 { cell.name.clone() } else { String::new() }, side.who.to_string()];
            line.extend(measures.iter().map(|measure| {
                Summary::of(&side.all(*measure)).map(|summary| measure.text(summary.median)).unwrap_or_default()
            }));
            line.extend(compared.iter().map(|measure| ratio(cell, side.who, *measure)));
            table.add_row(line);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn ratio(cell: &Cell, who: Peer, measure: Measure) -> String {
    let ratio = if who == Peer::Godwit { None } else { cell.ratio(who, measure) };
    ratio.map(spread).unwrap_or_default()
}

fn spread(summary: Summary) -> String {
    let Summary { median, least, most } = summary;
    format!("{median:.2} ({least:.2}–{most:.2})")
}

/// What must show, and whether it does.
pub fn bars(all: &[Results]) -> String {
    let mut table = plain_table();
    table.set_header(["row", "what must show", "wanted", "got, and from–to", ""]);
    for results in all {
        for Bar { what, wanted, got, is_met } in &results.bars {
            let (word, colour) = if *is_met { ("met", Color::Green) } else { ("not met", Color::Red) };
            let last = comfy_table::Cell::new(word).fg(colour).add_attribute(Attribute::Bold);
            let (wanted, got) =
                (wanted.text(), format!("{} ({}–{})", number(got.median), number(got.least), number(got.most)));
            table.add_row([results.row.clone().into(), what.into(), wanted.into(), got.into(), last]);
        }
    }
    if table.is_empty() {
        "No bar could be looked at: nobody to compare with was here.".into()
    } else {
        table.to_string()
    }
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_BORDERS_ONLY);
    table
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::results::{Reading, Wanted};
    use expect_test::expect;

    /// Two rounds of two sides.
    pub(crate) fn sample() -> Results {
        let mut results =
            Results::new("single", "one copy", &Measure::OF_LOAD, &[Measure::PerSecond, Measure::Processor]);
        results.guarantee(Peer::Godwit, "survives the process");
        results.guarantee(Peer::Valkey, "survives the process");
        for (name, factor) in [("SET, pipeline 1", 1.0), ("SET, pipeline 16", 8.0)] {
            let mut cell = Cell::new(name);
            for round in 0..2 {
                let drift = 1.0 - 0.1 * f64::from(round);
                for (who, rate) in [(Peer::Godwit, 66_000.0), (Peer::Valkey, 60_000.0 + 1000.0 * f64::from(round))] {
                    let rate = rate * drift * factor;
                    let reading = [(Measure::PerSecond, rate), (Measure::Processor, 6e5 / rate), (Measure::P99, 1.25)];
                    cell.add(who, Reading::from(reading));
                }
            }
            results.cells.push(cell);
        }
        results.bar_on_ratio("SET, pipeline 1", Measure::PerSecond, Peer::Valkey, Wanted::AtLeast(1.0));
        results.bar_on_ratio("SET, pipeline 1", Measure::PerSecond, Peer::Valkey, Wanted::AtLeast(1.5));
        results.notes.push("a note".into());
        results
    }

    #[test]
    fn a_row_as_it_is_shown() {
        expect![[r#"
            single: one copy
            ┌────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┐
            │                    medians   per second   CPU each, µs   p99, ms   godwit ÷ it: per second   godwit ÷ it: CPU each, µs │
            ╞════════════════════════════════════════════════════════════════════════════════════════════════════════════════════════╡
            │ SET, pipeline 1    godwit        62,700           9.60      1.25                                                       │
            │                    valkey        57,450          10.46      1.25          1.09 (1.08–1.10)            0.92 (0.91–0.92) │
            │ SET, pipeline 16   godwit       501,600           1.20      1.25                                                       │
            │                    valkey       459,600           1.31      1.25          1.09 (1.08–1.10)            0.92 (0.91–0.92) │
            └────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
            guaranteed:
              godwit  survives the process
              valkey  survives the process
              note: a note
        "#]].assert_eq(&row(&sample()));
    }

    #[test]
    fn bars_as_they_are_shown() {
        expect![[r#"
            ┌────────────────────────────────────────────────────────────────────────────────────────┐
            │ row      what must show                           wanted   got, and from–to            │
            ╞════════════════════════════════════════════════════════════════════════════════════════╡
            │ single   SET, pipeline 1: per second ÷ valkey's   ≥ 1      1.091 (1.082–1.1)   met     │
            │ single   SET, pipeline 1: per second ÷ valkey's   ≥ 1.5    1.091 (1.082–1.1)   not met │
            └────────────────────────────────────────────────────────────────────────────────────────┘"#]]
        .assert_eq(&bars(&[sample()]));
        expect!["No bar could be looked at: nobody to compare with was here."].assert_eq(&bars(&[]));
    }
}
