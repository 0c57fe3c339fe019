//! How often everything really happened: a fault that never strikes tests nothing.

use std::collections::BTreeMap;

use crate::plan::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Move {
    Enlist,
    Seat,
    Dismiss,
    HandOver,
    Usurp,
    Split,
    Merge,
}

impl Move {
    pub const ALL: [Self; 7] =
        [Self::Enlist, Self::Seat, Self::Dismiss, Self::HandOver, Self::Usurp, Self::Split, Self::Merge];

    pub fn words(self) -> &'static str {
        match self {
            Self::Enlist => "enlist",
            Self::Seat => "seat",
            Self::Dismiss => "dismiss",
            Self::HandOver => "hand over",
            Self::Usurp => "usurp",
            Self::Split => "split",
            Self::Merge => "merge",
        }
    }
}

/// Who takes part in a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Participant {
    Primary,
    Secondary,
    Candidate,
    Successor,
}

impl Participant {
    pub fn words(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::Candidate => "candidate",
            Self::Successor => "successor",
        }
    }

    pub fn of(kind: Move) -> &'static [Self] {
        match kind {
            Move::Enlist | Move::Seat => &[Self::Primary, Self::Candidate],
            Move::Dismiss | Move::Split | Move::Merge => &[Self::Primary, Self::Secondary],
            Move::HandOver => &[Self::Primary, Self::Successor],
            Move::Usurp => &[Self::Successor, Self::Secondary],
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub seeds: u64,
    pub acked_writes: u64,
    /// Of those, in seeds where three or more kinds of faults struck.
    pub acked_in_trouble: u64,
    pub reads: u64,
    pub uncertain: u64,
    pub refused: u64,
    pub simulated: u64,
    pub events: u64,
    pub faults: BTreeMap<Fault, u64>,
    pub completed: BTreeMap<Move, u64>,
    pub interrupted: BTreeMap<(Move, Participant), u64>,
    pub other: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
        if let Some(what) = befalls_coordinator(fault) {
            self.note(what);
        }
    }

    pub fn note(&mut self, what: &'static str) {
        *self.other.entry(what).or_default() += 1;
    }

    pub fn count(&mut self, what: &'static str, times: u64) {
        if times > 0 {
            *self.other.entry(what).or_default() += times;
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.acked_writes += other.acked_writes;
        self.acked_in_trouble += other.acked_in_trouble;
        self.reads += other.reads;
        self.uncertain += other.uncertain;
        self.refused += other.refused;
        self.simulated += other.simulated;
        self.events += other.events;
        merge(&mut self.faults, &other.faults);
        merge(&mut self.completed, &other.completed);
        merge(&mut self.interrupted, &other.interrupted);
        merge(&mut self.other, &other.other);
    }
}

/// There is a coordinator in every node: what hits the node hits it, too.
fn befalls_coordinator(fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::Crash | Fault::PowerCut | Fault::Wipe | Fault::Damage | Fault::Reboot | Fault::Blackout => {
            Some("coordinator faults: crashed with its node")
        }
        Fault::Pause | Fault::SlowNode => Some("coordinator faults: asleep, or slow"),
        Fault::MetaCut => Some("coordinator faults: cut off from the meta group"),
        Fault::ReportLost => Some("coordinator faults: report lost"),
        _ => None,
    }
}

fn merge<K: Ord + Copy>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *into.entry(*key).or_default() += count;
    }
}
