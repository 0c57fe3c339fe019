//! What is different from the plan that a seed draws. A failure is understood by taking away what it does not need; the same words
//! on the command line bring the smaller world back.

use std::fmt;

use crate::plan::{Fault, Plan, SECOND};

#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Changes to the plan")]
pub struct Changes {
    /// Faults that stay away
    #[arg(long, value_name = "FAULT,FAULT", value_delimiter = ',', value_parser = parse_fault)]
    pub without: Vec<Fault>,
    /// No topology changes are started
    #[arg(long)]
    pub no_moves: bool,
    /// No move is ambushed by the crash of somebody who takes part
    #[arg(long)]
    pub no_ambush: bool,
    /// So many clients
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub clients: Option<usize>,
    /// So many buckets
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub buckets: Option<usize>,
    /// So many nodes; from 10 on with at least as many buckets, and shorter unrest
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub nodes: Option<usize>,
    /// How long until the world heals
    #[arg(long, value_name = "SECONDS")]
    pub unrest: Option<u64>,
    /// Another run of chance through the same plan
    #[arg(long, value_name = "N")]
    pub dice: Option<u64>,
}

impl Changes {
    pub fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::draw(seed);
        for fault in &self.without {
            plan.faults = plan.faults.without(*fault);
        }
        if self.no_moves {
            plan.move_every = 0;
        }
        if self.no_ambush || !plan.faults.has(Fault::Crash) {
            plan.ambush = 0;
        }
        if let Some(nodes) = self.nodes {
            plan.resize(nodes);
        }
        plan.clients = self.clients.unwrap_or(plan.clients);
        plan.buckets = self.buckets.unwrap_or(plan.buckets);
        plan.unrest = self.unrest.map_or(plan.unrest, |seconds| seconds * SECOND);
        if let Some(dice) = self.dice {
            plan.seed = seed ^ dice.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        plan
    }
}

/// As it is typed, with a space before each.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.without.is_empty() {
            let names: Vec<String> = self.without.iter().map(|fault| fault_name(*fault)).collect();
            write!(f, " --without {}", names.join(","))?;
        }
        if self.no_moves {
            f.write_str(" --no-moves")?;
        }
        if self.no_ambush {
            f.write_str(" --no-ambush")?;
        }
        let numbers = [("clients", self.clients), ("buckets", self.buckets), ("nodes", self.nodes)];
        for (name, number) in numbers {
            number.map_or(Ok(()), |n| write!(f, " --{name} {n}"))?;
        }
        self.unrest.map_or(Ok(()), |n| write!(f, " --unrest {n}"))?;
        self.dice.map_or(Ok(()), |n| write!(f, " --dice {n}"))
    }
}

/// `CutOneWay` is `cut-one-way`.
pub fn fault_name(fault: Fault) -> String {
    let mut name = String::new();
    for letter in format!("{fault:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

pub fn parse_fault(name: &str) -> Result<Fault, String> {
    Fault::ALL.into_iter().find(|fault| fault_name(*fault) == name).ok_or_else(|| {
        let names: Vec<String> = Fault::ALL.into_iter().map(fault_name).collect();
        format!("there is no such fault; there are {}", names.join(", "))
    })
}

/// A world with nobody in it proves nothing, and one with more than this does not end.
pub fn parse_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (1..=64).contains(n)).ok_or_else(|| "a number from 1 to 64".into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        changes: Changes,
    }

    #[test]
    fn what_is_printed_can_be_typed() {
        let changes = Changes {
            without: vec![Fault::CutOneWay, Fault::Crash],
            no_moves: true,
            no_ambush: true,
            clients: Some(2),
            buckets: Some(1),
            nodes: Some(3),
            unrest: Some(7),
            dice: Some(4),
        };
        let text = format!("simulator{changes}");
        assert_eq!(
            text,
            "simulator --without cut-one-way,crash --no-moves --no-ambush --clients 2 --buckets 1 --nodes 3 --unrest 7 --dice 4"
        );
        assert_eq!(Line::try_parse_from(text.split(' ')).expect("it parses").changes, changes);
        assert_eq!(Changes::default().to_string(), "");
    }

    #[test]
    fn every_fault_has_a_name_of_its_own() {
        for fault in Fault::ALL {
            assert_eq!(parse_fault(&fault_name(fault)), Ok(fault));
        }
        assert!(parse_fault("earthquake").is_err());
    }

    #[test]
    fn a_changed_plan_fits_together() {
        let plan = Changes { nodes: Some(1), without: Fault::ALL.to_vec(), ..Changes::default() }.plan(3);
        assert_eq!((plan.nodes, plan.replicas, plan.ambush), (1, 1, 0));
        assert!(plan.faults.is_empty());
        assert_eq!(Changes::default().plan(3).seed, 3);
        assert_ne!(Changes { dice: Some(1), ..Changes::default() }.plan(3).seed, 3);
    }
}
