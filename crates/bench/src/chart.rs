//! Results as a picture: for each cell a group of horizontal bars, one for each side, with lines from the least to the most of all rounds.
//! Plain SVG, so that it can stand in a document and be compared as text.

use std::fmt::Write;

use crate::peers::Peer;
use crate::results::{Measure, Results};
use crate::statistics::Summary;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 64.0;
const BAR: f64 = 16.0;
const GAP: f64 = 14.0;

/// The first measure of the row.
pub fn chart(results: &Results) -> String {
    let measure = results.compared.first().or(results.measures.first()).copied().unwrap_or(Measure::PerSecond);
    let groups: Vec<(&str, Vec<(Peer, Summary)>)> = results
        .cells
        .iter()
        .map(|cell| {
            let sides = cell.sides.iter().filter_map(|side| Some((side.who, Summary::of(&side.all(measure))?)));
            (cell.name.as_str(), sides.collect())
        })
        .collect();
    let bars: usize = groups.iter().map(|(_, sides)| sides.len()).sum();
    let height = TOP + bars as f64 * BAR + groups.len() as f64 * GAP + 12.0;
    let most =
        groups.iter().flat_map(|(_, sides)| sides).map(|(_, summary)| summary.most).fold(0.0, f64::max).max(1e-9);
    let x = |value: f64| LEFT + value / most * (WIDTH - LEFT - RIGHT);
    let mut svg = String::new();
    let out = &mut svg;
    let _text = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">"
    );
    let _text = writeln!(out, "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>");
    let _text = writeln!(
        out,
        "<text x=\"12\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{}: {}</text>",
        escaped(&results.row),
        measure.title()
    );
    legend(out, &groups);
    let mut y = TOP;
    for (name, sides) in &groups {
        let middle = y + sides.len() as f64 * BAR / 2.0 + 4.0;
        let _text =
            writeln!(out, "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>", LEFT - 8.0, escaped(name));
        for (who, Summary { median, least, most }) in sides {
            let (line, colour) = (y + BAR / 2.0, colour(*who));
            let _text = writeln!(
                out,
                "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
                y + 1.0,
                x(*median) - LEFT,
                BAR - 2.0
            );
            let _text = writeln!(
                out,
                "<path d=\"M{:.1} {line:.1}H{:.1}\" stroke=\"#222222\" stroke-width=\"1.5\"/>",
                x(*least),
                x(*most)
            );
            let _text = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x(*most) + 6.0,
                line + 4.0,
                measure.text(*median)
            );
            y += BAR;
        }
        y += GAP;
    }
    svg + "</svg>\n"
}

fn legend(out: &mut String, groups: &[(&str, Vec<(Peer, Summary)>)]) {
    let mut x = 12.0;
    for who in
        Peer::ALL.into_iter().filter(|who| groups.iter().any(|(_, sides)| sides.iter().any(|side| side.0 == *who)))
    {
        let _text = writeln!(out, "<rect x=\"{x}\" y=\"34\" width=\"12\" height=\"12\" fill=\"{}\"/>", colour(who));
        let _text = writeln!(out, "<text x=\"{}\" y=\"44\">{who}</text>", x + 17.0);
        x += 80.0;
    }
    let _text = writeln!(
        out,
        "<text x=\"{x}\" y=\"44\" fill=\"#666666\">bars: medians; lines: least to most of all rounds</text>"
    );
}

/// Told apart by those, too, who see fewer colours.
fn colour(who: Peer) -> &'static str {
    match who {
        Peer::Godwit => "#0072b2",
        Peer::Valkey => "#e69f00",
        Peer::Redis => "#cc79a7",
        Peer::Etcd => "#009e73",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_chart() {
        expect![[r##"
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 168" font-family="sans-serif" font-size="12">
            <rect width="900" height="168" fill="#ffffff"/>
            <text x="12" y="22" font-size="15" font-weight="bold">single: per second</text>
            <rect x="12" y="34" width="12" height="12" fill="#0072b2"/>
            <text x="29" y="44">godwit</text>
            <rect x="92" y="34" width="12" height="12" fill="#e69f00"/>
            <text x="109" y="44">valkey</text>
            <text x="172" y="44" fill="#666666">bars: medians; lines: least to most of all rounds</text>
            <text x="322" y="84.0" text-anchor="end">SET, pipeline 1</text>
            <rect x="330" y="65.0" width="54.6" height="14.0" fill="#0072b2"/>
            <path d="M381.8 72.0H387.5" stroke="#222222" stroke-width="1.5"/>
            <text x="393.5" y="76.0">62,700</text>
            <rect x="330" y="81.0" width="50.1" height="14.0" fill="#e69f00"/>
            <path d="M377.8 88.0H382.3" stroke="#222222" stroke-width="1.5"/>
            <text x="388.3" y="92.0">57,450</text>
            <text x="322" y="130.0" text-anchor="end">SET, pipeline 16</text>
            <rect x="330" y="111.0" width="437.0" height="14.0" fill="#0072b2"/>
            <path d="M744.0 118.0H790.0" stroke="#222222" stroke-width="1.5"/>
            <text x="796.0" y="122.0">501,600</text>
            <rect x="330" y="127.0" width="400.4" height="14.0" fill="#e69f00"/>
            <path d="M712.6 134.0H748.2" stroke="#222222" stroke-width="1.5"/>
            <text x="754.2" y="138.0">459,600</text>
            </svg>
        "##]]
        .assert_eq(&chart(&crate::show::tests::sample()));
    }

    #[test]
    fn nothing_to_draw_is_no_reason_to_fail() {
        assert!(chart(&Results::new("a<b", "", &[], &[])).contains("a&lt;b"));
    }
}
