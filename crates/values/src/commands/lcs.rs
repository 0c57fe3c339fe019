//! The longest common subsequence of two values.

use bytes::Bytes;

use super::options::{LONGEST, is, number};
use super::rows;
use crate::item::{ItemRef, Seen};
use crate::keys::View;
use crate::row::Handler::Read;
use crate::row::flag::READONLY;
use crate::row::{Group::String, Outcome, Positions, Row};
use crate::{Reply, errors};

pub(crate) const ROWS: &[Row] = rows! {
    (40, "lcs", -3, READONLY, Positions::TWO, String, "7.0.0", Read(lcs), "The longest common subsequence of two values."),
};

/// `LCS key key [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]`
fn lcs(view: &View<'_>, words: &[Bytes]) -> Outcome {
    let text = |key: &Bytes| match view.keys.get(key).map(ItemRef::seen) {
        None => Ok(&[][..]),
        Some(Seen::Text(text)) => Ok(text.bytes()),
        Some(Seen::List(_)) => Err(Reply::error("ERR The specified keys must contain string values")),
    };
    let (a, b) = (text(&words[1])?, text(&words[2])?);
    let (mut length, mut places, mut lengths, mut least) = (false, false, false, 0);
    let mut rest = words[3..].iter();
    while let Some(word) = rest.next() {
        if is(word, "IDX") {
            places = true;
        } else if is(word, "LEN") {
            length = true;
        } else if is(word, "WITHMATCHLEN") {
            lengths = true;
        } else if is(word, "MINMATCHLEN") && !rest.as_slice().is_empty() {
            least = rest.next().map_or(Ok(0), number)?.max(0) as usize;
        } else {
            return Err(errors::syntax());
        }
    }
    if length && places {
        return Err(Reply::error("ERR If you want both the length and indexes, please just use IDX."));
    }
    let cells = (a.len() + 1).checked_mul(b.len() + 1).filter(|cells| *cells <= LONGEST / 4);
    if cells.is_none() {
        let text = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
        return Err(Reply::error(text));
    }
    let grid = Grid::of(a, b);
    let total = grid.at(a.len(), b.len());
    if length {
        return Ok(Reply::Number(i64::from(total)));
    }
    let runs = grid.runs(a, b);
    if !places {
        let common: Vec<u8> = runs.iter().rev().flat_map(|run| &a[run.a..run.a + run.length]).copied().collect();
        return Ok(Reply::Value(common.into()));
    }
    let matches = runs.iter().filter(|run| run.length >= least).map(|run| run.reply(lengths)).collect();
    Ok(Reply::Map(vec![
        (Reply::text("matches"), Reply::Array(matches)),
        (Reply::text("len"), Reply::Number(i64::from(total))),
    ]))
}

/// For each beginning of the one and of the other, how long their longest common subsequence is.
struct Grid {
    cells: Vec<u32>,
    width: usize,
}

/// Equal bytes without a gap on either side.
struct Run {
    a: usize,
    b: usize,
    length: usize,
}

impl Grid {
    fn of(a: &[u8], b: &[u8]) -> Grid {
        let width = b.len() + 1;
        let mut grid = Grid { cells: vec![0; (a.len() + 1) * width], width };
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                let longest = if x == y { grid.at(i, j) + 1 } else { grid.at(i, j + 1).max(grid.at(i + 1, j)) };
                grid.cells[(i + 1) * width + j + 1] = longest;
            }
        }
        grid
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * self.width + j]
    }

    /// From the end to the beginning, as Redis lists them; where there is a choice, the one that Redis takes.
    fn runs(&self, a: &[u8], b: &[u8]) -> Vec<Run> {
        let (mut i, mut j) = (a.len(), b.len());
        let mut runs: Vec<Run> = Vec::new();
        while i > 0 && j > 0 {
            if a[i - 1] != b[j - 1] {
                if self.at(i - 1, j) > self.at(i, j - 1) {
                    i -= 1;
                } else {
                    j -= 1;
                }
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.a == i && run.b == j => {
                    *run = Run { a: i - 1, b: j - 1, length: run.length + 1 };
                }
                _ => runs.push(Run { a: i - 1, b: j - 1, length: 1 }),
            }
            (i, j) = (i - 1, j - 1);
        }
        runs
    }
}

impl Run {
    fn reply(&self, with_length: bool) -> Reply {
        let range = |from: usize| Reply::Array(vec![Reply::count(from), Reply::count(from + self.length - 1)]);
        let mut parts = vec![range(self.a), range(self.b)];
        if with_length {
            parts.push(Reply::count(self.length));
        }
        Reply::Array(parts)
    }
}
