//! What became of the cluster, as the meta group remembers it.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use blueprint::{Blueprint, Coming, Happening, Making, Past, Turn};
use meta::Meta;
use serde::{Deserialize, Serialize};

use super::Office;
use super::auto::AUTO_REBALANCE;
use crate::names::named;

/// Something that happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PastView {
    /// Counted from 1, without gaps: if the first one is a later one, those before were forgotten.
    pub number: u64,
    /// By the wall clock of whoever led the meta group then; empty if that is not known.
    pub when: String,
    /// An operation, a node or a keyspace; or `auto-rebalance`.
    pub about: String,
    /// `begun`, `paused`, `resumed`, `throttled`, `done`, `failed` or `cancelled`; `added`, `departed`, `returned` or `removed`; `created`;
    /// `on` or `off`.
    pub what: String,
    /// Who asked for it, and in which words.
    pub by: String,
    pub asked: String,
    /// How far it came, and why.
    pub outcome: String,
}

#[derive(Deserialize)]
pub(super) struct Wanted {
    last: Option<usize>,
}

pub(super) async fn history(State(office): State<Office>, Query(wanted): Query<Wanted>) -> Response {
    match office.meta.history().await {
        Ok(history) => {
            let known = std::sync::Arc::clone(&office.meta.watch().borrow().blueprint);
            let last = wanted.last.unwrap_or(usize::MAX);
            let mut views: Vec<PastView> = history.iter().rev().take(last).map(|past| view(past, &known)).collect();
            views.reverse();
            Json(views).into_response()
        }
        Err(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the history cannot be read: {error}\n")).into_response()
        }
    }
}

fn view(past: &Past, blueprint: &Blueprint) -> PastView {
    let (about, what, by, asked, outcome) = match &past.what {
        Happening::Operation { id, by, at, steps, turn } => {
            let (by, asked) = by.split_once(": ").unwrap_or(("", by));
            let (what, outcome) = of_operation(*at, *steps, turn, blueprint);
            (id.to_string(), what, by, asked, outcome)
        }
        Happening::Node { name, turn, .. } => {
            let (what, outcome) = match turn {
                Coming::Added => ("added", ""),
                Coming::Departed => ("departed", "most coordinators heard nothing of it"),
                Coming::Returned => ("returned", "most coordinators hear it again"),
                Coming::Removed => ("removed", ""),
            };
            (name.clone(), what, "", "", outcome.to_owned())
        }
        Happening::AutoRebalance { on, by } => {
            let what = if *on { "on" } else { "off" };
            (AUTO_REBALANCE.to_owned(), what, by.as_str(), "", String::new())
        }
        Happening::Keyspace { name, turn, .. } => {
            let what = match turn {
                Making::Created => "created",
                Making::Removed => "removed",
            };
            (name.clone(), what, "", "", String::new())
        }
    };
    PastView {
        number: past.number,
        when: if past.wall == 0 { String::new() } else { moment(past.wall) },
        about,
        what: what.to_owned(),
        by: by.to_owned(),
        asked: asked.to_owned(),
        outcome,
    }
}

fn of_operation(at: u32, steps: u32, turn: &Turn, blueprint: &Blueprint) -> (&'static str, String) {
    let reached = format!("{at} of {steps} steps");
    match turn {
        Turn::Begun => ("begun", String::new()),
        Turn::Paused => ("paused", reached),
        Turn::Resumed => ("resumed", reached),
        Turn::Throttled { rate: Some(rate) } => ("throttled", format!("{rate} bytes per second")),
        Turn::Throttled { rate: None } => ("throttled", "no more".to_owned()),
        Turn::Done => ("done", reached),
        Turn::Failed { why } => ("failed", format!("{reached}: {}", named(&why.to_string(), blueprint))),
        Turn::Cancelled { why } => ("cancelled", format!("{reached}: {why}")),
    }
}

/// Of microseconds since 1970, as people and programs write it: `2026-11-17T12:13:32Z`.
fn moment(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Year, month and day, of days since 1970. Counted from 1 March of the year 0, so that leap days are the last of their years, in eras of
/// 400 years, which are all of the same length.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let since_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * since_march + 2) / 5 + 1;
    let month = if since_march < 10 { since_march + 3 } else { since_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_as_people_write_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(moment(seconds * 1_000_000), text);
        }
    }
}
