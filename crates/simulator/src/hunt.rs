//! Looking for the place where a planted bug is noticed: the first seed, or a small world of `explore`.
//!
//! A catch counts only if the eyes of the world saw it (an assertion inside the sabotaged code proves nothing about them, nor does a
//! search that ran out of its budget), and only if the same place is clean without the bug.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use blueprint::Honest;

use crate::explore;
use crate::panics;
use crate::plan::Plan;
use crate::runner::{self, Outcome};
use crate::sabotage::{self, Sabotage, Saboteur, plant};
use crate::trace::Trace;

/// Where a planted bug was noticed, and by whom.
#[derive(Clone, Debug)]
pub struct Caught {
    pub place: Place,
    pub checker: &'static str,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Seed(u64),
    /// A configuration of `explore`.
    Explore(String),
}

/// One world with the bug planted.
pub fn run_plan(sabotage: &Sabotage, plan: Plan, trace: Trace) -> Outcome {
    let mut plan = plan.for_a_bug();
    plan.vigil = is_watched(sabotage);
    let _planted = plant(sabotage.breach);
    runner::run_plan::<Saboteur>(plan, trace)
}

/// Does the vigil look on? Not over a bug that breaks something else (see [`Plan::vigil`]).
pub(crate) fn is_watched(sabotage: &Sabotage) -> bool {
    matches!(sabotage.rule, "waits" | "recovery" | "coordinators")
}

/// The lowest of these seeds that notices the bug.
pub fn hunt(sabotage: &Sabotage, seeds: Range<u64>, tick: impl Fn() + Sync) -> Option<Caught> {
    let mut lowest: Option<Caught> = None;
    let mut seed = u64::MAX;
    runner::on_all_cores(
        seeds,
        |seed| {
            let plan = Plan::draw(seed);
            tick();
            if sabotage.needs().is_some_and(|fault| !plan.faults.has(fault)) {
                return None;
            }
            let failure = run_plan(sabotage, plan, Trace::silent()).failure;
            let honest = || runner::run_plan::<Honest>(Plan::draw(seed).for_a_bug(), Trace::silent());
            failure.filter(|f| counts(f.checker) && honest().failure.is_none())
        },
        |at, failure| {
            if let Some(failure) = failure
                && at < seed
            {
                seed = at;
                lowest = Some(Caught { place: Place::Seed(at), checker: failure.checker, text: failure.text });
            }
            lowest.is_none()
        },
    );
    lowest
}

/// The first of these configurations of `explore` that notices the bug, looking at so many states in each.
pub fn hunt_exploring(sabotage: &Sabotage, configurations: &[explore::Configuration], states: usize) -> Option<Caught> {
    let mut first: Option<Caught> = None;
    let mut number = u64::MAX;
    runner::on_all_cores(
        0..configurations.len() as u64,
        |at| explore_one(sabotage, &configurations[at as usize], states),
        |at, caught| {
            if caught.is_some() && at < number {
                (number, first) = (at, caught);
            }
            first.is_none()
        },
    );
    first
}

/// Planted bugs belong to a thread, and one exploration does not leave the thread that it begins in.
fn explore_one(sabotage: &Sabotage, configuration: &explore::Configuration, states: usize) -> Option<Caught> {
    let _expected = panics::expect();
    let (row, violation) = {
        let _planted = plant(sabotage.breach);
        explore::explore::<Saboteur>(configuration, states, &mut |_| {})
    };
    let violation = violation.filter(|v| v.checker != explore::Checker::InvariantsHold)?;
    let (_, honest) = explore::explore::<Honest>(configuration, row.states, &mut |_| {});
    honest.is_none().then(|| Caught {
        place: Place::Explore(configuration.name.to_owned()),
        checker: violation.checker.name(),
        text: violation.to_string(),
    })
}

fn counts(checker: &str) -> bool {
    !matches!(checker, "assertion" | "undecided" | "moves_end")
}

pub fn sabotage(name: &str) -> Option<&'static Sabotage> {
    sabotage::ALL.iter().find(|s| s.name == name)
}

/// Where bugs were caught before, one line each: `NAME SEED` or `NAME explore CONFIGURATION`. A hint where to look first, no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownCatches(Vec<(String, Place)>);

impl KnownCatches {
    pub fn get(&self, name: &str) -> Option<&Place> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, place)| place)
    }

    pub fn set(&mut self, name: &str, place: Place) {
        self.forget(name);
        self.0.push((name.to_owned(), place));
    }

    pub fn forget(&mut self, name: &str) {
        self.0.retain(|(n, _)| n != name);
    }
}

impl FromStr for KnownCatches {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let place = match words[..] {
                [_, "explore", configuration] => Some(Place::Explore(configuration.to_owned())),
                [_, seed] => seed.parse().ok().map(Place::Seed),
                _ => None,
            };
            let place = place.ok_or_else(|| format!("not a known catch: {line:?}"))?;
            Ok((words[0].to_owned(), place))
        };
        text.lines().filter(|l| !l.trim().is_empty()).map(line).collect::<Result<_, String>>().map(Self)
    }
}

/// In the order of the sabotages; those that no longer exist are left out.
impl fmt::Display for KnownCatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for sabotage in sabotage::ALL {
            match self.get(sabotage.name) {
                Some(Place::Seed(seed)) => writeln!(f, "{} {seed}", sabotage.name)?,
                Some(Place::Explore(configuration)) => writeln!(f, "{} explore {configuration}", sabotage.name)?,
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_catches_are_written_as_they_are_read() {
        let text = "commit-on-a-majority 3\nas-of-ignored explore grow-cut\n";
        let mut known: KnownCatches = text.parse().expect("well formed");
        assert_eq!(known.to_string(), text);
        known.set("commit-on-a-majority", Place::Seed(9));
        known.forget("as-of-ignored");
        assert_eq!(known.to_string(), "commit-on-a-majority 9\n");
        assert!("name seed".parse::<KnownCatches>().is_err());
        assert!("name".parse::<KnownCatches>().is_err());
    }
}
