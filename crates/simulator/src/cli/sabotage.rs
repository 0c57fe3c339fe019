//! `simulator sabotage`: would we notice? Each planted bug must be seen by the eyes of the world, in a seed or in `explore`, where
//! the honest code passes.

use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;
use simulator::explore::{self, Configuration};
use simulator::hunt::{self, Caught, KnownCatches, Place};
use simulator::report::{self, right};
use simulator::sabotage::{ALL, Sabotage};

use super::{Ending, paint, progress, sabotage_names, say};

const KNOWN: &str = include_str!("../known_catches.txt");
const KNOWN_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/known_catches.txt");

/// Plant bugs, one at a time, and see who notices
///
/// Prints `caught NAME SEED CHECKER`, `caught NAME explore CHECKER` or `MISSED NAME` for each.
#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Hunt {
    /// Which bugs (see --list)
    #[arg(value_name = "NAME", required_unless_present_any = ["all", "list"])]
    #[arg(value_parser = sabotage_names(), hide_possible_values = true)]
    names: Vec<String>,
    /// All of them
    #[arg(long)]
    all: bool,
    /// Show their names, and the rule that each breaks
    #[arg(long)]
    list: bool,
    /// Give up after so many seeds
    #[arg(long, value_name = "N", default_value_t = 5000)]
    seeds: u64,
    /// Then give up after so many states in each configuration of explore
    #[arg(long, value_name = "N", default_value_t = explore::Options::default().states)]
    states: usize,
    /// Do not look first where it was caught before
    #[arg(long)]
    afresh: bool,
    /// Remember where they were caught, in known_catches.txt
    #[arg(long)]
    record: bool,
}

impl Hunt {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let mut known: KnownCatches = KNOWN.parse().map_err(anyhow::Error::msg).context(KNOWN_FILE)?;
        if self.list {
            self.list(&known)?;
            return Ok(Ending::Well);
        }
        let wanted = |s: &&Sabotage| self.all || self.names.iter().any(|name| name == s.name);
        let wanted: Vec<&Sabotage> = ALL.iter().filter(wanted).collect();
        let mut missed = 0;
        for sabotage in &wanted {
            let hint = known.get(sabotage.name).filter(|place| self.allows(place)).cloned();
            match self.hunt(sabotage, hint) {
                Some(caught) => {
                    let place = match &caught.place {
                        Place::Seed(seed) => seed.to_string(),
                        Place::Explore(_) => "explore".into(),
                    };
                    say(format!("caught {} {place} {}", sabotage.name, caught.checker))?;
                    known.set(sabotage.name, caught.place);
                }
                None => {
                    missed += 1;
                    say(format!("MISSED {}", sabotage.name))?;
                    known.forget(sabotage.name);
                }
            }
        }
        if self.record {
            std::fs::write(KNOWN_FILE, known.to_string()).context(KNOWN_FILE)?;
        }
        Ok(if missed == 0 { Ending::Well } else { Ending::Missed })
    }

    fn allows(&self, hint: &Place) -> bool {
        !self.afresh && !matches!(hint, Place::Seed(seed) if *seed >= self.seeds)
    }

    /// Where it was caught before, then in every seed, then in every small world.
    fn hunt(&self, sabotage: &Sabotage, hint: Option<Place>) -> Option<Caught> {
        let bar = progress(self.seeds, "{spinner} {msg}: {pos}/{len} seeds, {per_sec}").with_message(sabotage.name);
        let all = explore::configurations();
        let hinted = hint.and_then(|place| match place {
            Place::Seed(seed) => hunt::hunt(sabotage, seed..seed + 1, || ()),
            Place::Explore(name) => {
                let there: Vec<Configuration> = all.iter().filter(|c| c.name == name).cloned().collect();
                self.explore(sabotage, &there, &bar)
            }
        });
        let caught = hinted
            .or_else(|| hunt::hunt(sabotage, 0..self.seeds, || bar.inc(1)))
            .or_else(|| self.explore(sabotage, &all, &bar));
        bar.finish_and_clear();
        caught
    }

    fn explore(&self, sabotage: &Sabotage, there: &[Configuration], bar: &ProgressBar) -> Option<Caught> {
        bar.set_message(format!("{}, exploring", sabotage.name));
        hunt::hunt_exploring(sabotage, there, self.states)
    }

    fn list(&self, known: &KnownCatches) -> anyhow::Result<()> {
        let mut table = report::table(paint(), ["name", "breaks", "caught before"].map(String::from));
        for sabotage in ALL {
            let before = match known.get(sabotage.name) {
                Some(Place::Seed(seed)) => seed.to_string(),
                Some(Place::Explore(configuration)) => format!("explore {configuration}"),
                None => "".into(),
            };
            table.add_row([sabotage.name, sabotage.rule, &before]);
        }
        right(&mut table, 2..3);
        Ok(say(table)?)
    }
}
