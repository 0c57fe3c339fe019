//! All of it: who is here, row by row, and what is kept of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::error::Error;
use crate::peers::{Binary, Missing, Peer, find};
use crate::results::Results;
use crate::rows::{PORTS, ROWS, Row, Stage};
use crate::system::{Machine, raise_file_limit};
use crate::{chart, show};

#[derive(Clone, Debug)]
pub struct Settings {
    /// Names of rows; all of them if there are none.
    pub only: Vec<String>,
    /// Those that it is compared with.
    pub against: Vec<Peer>,
    pub rounds: usize,
    pub is_quick: bool,
    pub seconds: Option<f64>,
    pub base_port: u16,
    /// Where servers keep their data, what is fetched lies, and results are written.
    pub target: PathBuf,
    /// The repository, if results and charts are to be written into it.
    pub write_to: Option<PathBuf>,
}

/// Ports up to this one are there, or the base port is too high.
pub const HIGHEST_BASE_PORT: u16 = u16::MAX - PORTS;

#[derive(Debug, Serialize)]
pub struct Report {
    pub machine: Machine,
    pub rows: Vec<Results>,
    /// Those that could not be run, and why.
    pub failed: Vec<(String, String)>,
}

impl Report {
    pub fn is_met(&self) -> bool {
        self.rows.iter().all(Results::is_met)
    }
}

/// Rows by their names, in the order in which they are listed.
pub fn rows_named(names: &[String]) -> Result<Vec<&'static Row>, String> {
    if let Some(unknown) = names.iter().find(|name| ROWS.iter().all(|row| row.name != **name)) {
        let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        return Err(format!("there is no row '{unknown}'; there are {}", known.join(", ")));
    }
    Ok(ROWS.iter().filter(|row| names.is_empty() || names.iter().any(|name| name == row.name)).collect())
}

/// `say`: each row when it is there. What is missing is said first, on standard error.
pub fn compare(settings: &Settings, mut say: impl FnMut(&str)) -> Result<Report, Error> {
    let rows = rows_named(&settings.only).map_err(Error::Server)?;
    let needed: Vec<Peer> = Peer::ALL
        .into_iter()
        .filter(|peer| {
            *peer == Peer::Godwit
                || rows.iter().any(|row| row.against.contains(peer)) && settings.against.contains(peer)
        })
        .collect();
    let environment = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (binaries, missing) = find(&needed, &settings.target.join("bench/valkey"), environment);
    missing.iter().for_each(|missing: &Missing| eprintln!("godwit: {missing}"));
    raise_file_limit();
    let versions = binaries.iter().map(|Binary { peer, version, .. }| (peer.to_string(), version.clone())).collect();
    let mut report = Report { machine: Machine::here(versions), rows: Vec::new(), failed: Vec::new() };
    let progress = ProgressBar::new(rows.len() as u64);
    let style = ProgressStyle::with_template("{spinner} {elapsed} row {pos}/{len}  {msg}").expect("a fixed template");
    progress.set_style(style);
    progress.enable_steady_tick(Duration::from_millis(500));
    let place = settings.target.join(format!("bench/run-{}", std::process::id()));
    let stage = Stage {
        binaries: &binaries,
        rounds: settings.rounds,
        is_quick: settings.is_quick,
        seconds: settings.seconds,
        base_port: settings.base_port,
        place: &place,
        progress: &progress,
    };
    for row in rows {
        progress.inc(1);
        match row.run(&stage) {
            Ok(results) => {
                progress.suspend(|| say(&show::row(&results)));
                keep(settings, &report.machine, &results)?;
                report.rows.push(results);
            }
            Err(error) => {
                progress.suspend(|| eprintln!("godwit: {} could not be run: {error}", row.name));
                report.failed.push((row.name.to_owned(), error.to_string()));
            }
        }
    }
    progress.finish_and_clear();
    let _gone = fs::remove_dir(&place);
    Ok(report)
}

/// One row, and on what it was measured.
#[derive(Debug, Serialize)]
struct Kept<'a> {
    machine: &'a Machine,
    #[serde(flatten)]
    results: &'a Results,
}

/// Where results and charts go: into the repository if that was asked for.
fn keep(settings: &Settings, machine: &Machine, results: &Results) -> Result<(), Error> {
    let (numbers, pictures) = match &settings.write_to {
        Some(repository) => (repository.join("bench/results"), repository.join("docs/performance")),
        None => (settings.target.join("bench/results"), settings.target.join("bench/results")),
    };
    let json = serde_json::to_string_pretty(&Kept { machine, results }).expect("plain numbers and texts") + "\n";
    write(&numbers.join(format!("{}.json", results.row)), &json)?;
    write(&pictures.join(format!("{}.svg", results.row)), &chart::chart(results))
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    let made = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(file, text));
    made.map_err(Error::system(format!("{} cannot be written", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_name() {
        assert_eq!(rows_named(&[]).expect("all of them").len(), 7);
        let two = rows_named(&["memory".into(), "single".into()]).expect("they are there");
        assert_eq!(two.iter().map(|row| row.name).collect::<Vec<_>>(), ["single", "memory"]);
        let error = rows_named(&["speed".into()]).expect_err("there is no such row");
        assert_eq!(
            error,
            "there is no row 'speed'; there are single, replicated, durable, failover, move, memory, scaling"
        );
    }

    #[test]
    fn what_is_kept_can_be_read_again() {
        let target = tempfile::tempdir().expect("a temporary directory");
        let mut settings = Settings {
            only: Vec::new(),
            against: Vec::new(),
            rounds: 1,
            is_quick: true,
            seconds: None,
            base_port: 24000,
            target: target.path().to_owned(),
            write_to: None,
        };
        let machine = Machine::here(vec![("godwit".into(), "0.1.0".into())]);
        keep(&settings, &machine, &show::tests::sample()).expect("there is room");
        let text = fs::read_to_string(target.path().join("bench/results/single.json")).expect("it was written");
        let read: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(read["row"], "single");
        assert_eq!(read["cells"][0]["sides"][1]["who"], "valkey");
        assert_eq!(read["cells"][0]["sides"][0]["rounds"][0]["per-second"], 66000.0);
        settings.write_to = Some(target.path().join("repository"));
        keep(&settings, &machine, &show::tests::sample()).expect("there is room");
        assert!(target.path().join("repository/docs/performance/single.svg").exists());
    }
}
