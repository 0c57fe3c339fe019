//! A plan as a person reads it: what it does and costs, then step by step.

use core::fmt;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use blueprint::{Intent, Step};

use crate::Plan;
use crate::plan::{PlannedStep, Summary};
use crate::words::{count, size};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan at {}: {}", self.based_on, self.why)?;
        if self.is_empty() {
            return Ok(());
        }
        if self.summary != Summary::default() {
            writeln!(f, "{}", self.summary)?;
        }
        let rows: Vec<Row> = self.steps.iter().enumerate().map(|(at, step)| Row::of(at + 1, step)).collect();
        let width = |column: usize| rows.iter().map(|row| row.cells[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; CELLS] = core::array::from_fn(width);
        for (at, row) in rows.iter().enumerate() {
            if at > 0 && self.cuts.contains(&at) {
                writeln!(f, "  -- the next operation --")?;
            }
            row.write(f, &widths)?;
        }
        Ok(())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buckets = count(self.buckets, "bucket", "buckets");
        let copies = count(self.copies, "copy to make", "copies to make");
        let hand_overs = count(self.hand_overs, "hand over", "hand overs");
        write!(f, "{buckets}, {copies}")?;
        if self.bytes > 0 {
            write!(f, " ({})", size(self.bytes))?;
        }
        write!(f, ", {hand_overs}, {}", count(self.splits, "split", "splits"))?;
        if self.merges > 0 {
            write!(f, ", {}", count(self.merges, "merge", "merges"))?;
        }
        for (keyspace, fewest) in &self.fewest_members {
            write!(f, "; {keyspace} never below {}", count(*fewest, "member", "members"))?;
        }
        Ok(())
    }
}

/// Number, verb, bucket, object, bytes, reason.
const CELLS: usize = 6;
const RIGHT: [bool; CELLS] = [true, false, false, false, true, false];

struct Row {
    cells: [String; CELLS],
}

impl Row {
    fn of(number: usize, planned: &PlannedStep) -> Self {
        let (verb, object) = match &planned.step {
            Step::Enlist { node, .. } => ("enlist", node.to_string()),
            Step::AwaitSeated { node, .. } => ("await seated", node.to_string()),
            Step::HandOver { to, .. } => ("hand over to", to.to_string()),
            Step::Dismiss { node, .. } => ("dismiss", node.to_string()),
            Step::Merge { into, .. } => ("merge into", into.to_string()),
            Step::AwaitRestart { node, .. } => ("await restart", node.to_string()),
            Step::Repair { from, .. } => ("repair", from.map_or_else(|| "empty".into(), |node| format!("from {node}"))),
            Step::Split { child, slots, .. } => ("split off", format!("{child} with {}", Brief(slots))),
            Step::Mark { node, intent: Intent::Stays, .. } => ("mark as staying", node.to_string()),
            Step::Mark { node, intent: Intent::Drains, .. } => ("mark as draining", node.to_string()),
            Step::Mark { node, intent: Intent::Goes, .. } => ("mark as leaving", node.to_string()),
            Step::SetReplicas { keyspace, replicas } => {
                ("want", format!("{} of {keyspace}", count(usize::from(*replicas), "copy", "copies")))
            }
            Step::SetMinimum { min, .. } => ("set minimum to", min.to_string()),
            Step::RemoveKeyspace { keyspace } => ("remove", keyspace.to_string()),
            Step::AwaitErased { keyspace } => ("await erased", keyspace.to_string()),
        };
        let bytes = if planned.bytes > 0 { size(planned.bytes) } else { String::new() };
        let bucket = planned.step.bucket().map(|bucket| bucket.to_string()).unwrap_or_default();
        Self { cells: [number.to_string(), bucket, verb.into(), object, bytes, planned.why.clone()] }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, widths: &[usize; CELLS]) -> fmt::Result {
        let mut line = String::new();
        for ((cell, width), right) in self.cells.iter().zip(widths).zip(RIGHT) {
            if *width > 0 {
                line += "  ";
                line += &if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            }
        }
        writeln!(f, "{}", line.trim_end())
    }
}

/// Slots in many pieces are not all named.
struct Brief<'a>(&'a blueprint::SlotSet);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.ranges().count() {
            0..=3 => write!(f, "{}", self.0),
            pieces => write!(f, "{} slots in {pieces} pieces", self.0.len()),
        }
    }
}
