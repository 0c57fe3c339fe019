//! What became of the cluster, and when: for people who ask later. Nothing is decided by it.
//!
//! It is kept beside the blueprint, by the same consensus: what was accepted and what is written here cannot differ, and whoever
//! leads the meta group has all of it. It is not part of the blueprint, which every node holds; so it is asked for, and raises no epoch.
//! The oldest goes when there are [`MOST_PAST`].

use alloc::collections::VecDeque;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::blueprint::Blueprint;
use crate::soundness::MAX_WORDS;
use crate::{AUTOMATIC, Command, Hitch, Instant, KeyspaceId, NodeId, Operation, OperationId, Standing};

/// Years of a quiet cluster, and some days of one whose nodes come and go all the time. A few hundred kilobytes.
pub const MOST_PAST: usize = 2048;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The oldest first.
    past: VecDeque<Past>,
    /// How many there ever were.
    count: u64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Counted from 1, without gaps.
    pub number: u64,
    /// What the clock of the state said then, which only knows how long ago something was.
    pub stamp: Instant,
    /// What the wall clock of the meta group's leader said then, in µs since 1970; 0 if it did not say. It may have been wrong.
    pub wall: u64,
    pub what: Happening,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happening {
    Operation {
        id: OperationId,
        /// Who asked for it, and what they called it; or the beginning of that.
        by: String,
        /// How many of its steps were true by then, and how many it has.
        at: u32,
        steps: u32,
        turn: Turn,
    },
    Node {
        id: NodeId,
        name: String,
        turn: Coming,
    },
    Keyspace {
        id: KeyspaceId,
        name: String,
        turn: Making,
    },
    /// From then on it rebalances by itself, or no longer does.
    AutoRebalance {
        on: bool,
        by: String,
    },
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Turn {
    Begun,
    Paused,
    Resumed,
    /// In bytes per second.
    Throttled {
        rate: Option<u64>,
    },
    Done,
    Failed {
        why: Hitch,
    },
    Cancelled {
        why: String,
    },
}

/// What became of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Coming {
    Added,
    /// Most coordinators that were alive heard nothing of it.
    Departed,
    Returned,
    Removed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Making {
    Created,
    Removed,
}

impl History {
    /// The oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Past> {
        self.past.iter()
    }

    /// Those that were forgotten.
    pub fn forgotten(&self) -> u64 {
        self.count - self.past.len() as u64
    }

    pub(crate) fn note(&mut self, stamp: Instant, wall: u64, what: Happening) {
        self.count += 1;
        self.past.push_back(Past { number: self.count, stamp, wall, what });
        if self.past.len() > MOST_PAST {
            self.past.pop_front();
        }
    }

    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        let first = self.count.checked_sub(self.past.len() as u64);
        let first = first.ok_or("more happened than was counted")?;
        let counted = self.past.iter().zip(first + 1..).all(|(past, number)| past.number == number);
        if !counted || self.past.len() > MOST_PAST {
            return Err("what happened is not counted without gaps, or is more than is kept");
        }
        Ok(())
    }
}

/// What will have happened once this command is accepted and has changed something. Asked before: afterwards an operation that is over
/// may be forgotten already.
pub(crate) fn foresee(blueprint: &Blueprint, command: &Command) -> Option<Happening> {
    let of = |id: &OperationId, turn: fn() -> Turn| blueprint.operations.get(id).map(|o| of_operation(o, turn()));
    match command {
        Command::StartOperation { id, by, steps } => {
            let steps = steps.len() as u32;
            Some(Happening::Operation { id: *id, by: in_short(by), at: 0, steps, turn: Turn::Begun })
        }
        Command::Rebalance { id, steps, .. } => {
            let steps = steps.len() as u32;
            Some(Happening::Operation { id: *id, by: AUTOMATIC.into(), at: 0, steps, turn: Turn::Begun })
        }
        Command::SetAutoRebalance { on, by } => Some(Happening::AutoRebalance { on: *on, by: by.clone() }),
        Command::ApplyOperation { id } => of(id, || Turn::Begun),
        Command::PauseOperation { id } => of(id, || Turn::Paused),
        Command::ResumeOperation { id } => of(id, || Turn::Resumed),
        Command::ThrottleOperation { id, rate } => {
            blueprint.operations.get(id).map(|operation| of_operation(operation, Turn::Throttled { rate: *rate }))
        }
        Command::CancelOperation { id, why } => {
            let operation = blueprint.operations.get(id)?;
            Some(of_operation(operation, Turn::Cancelled { why: why.clone() }))
        }
        Command::AdvanceOperation { id, .. } => advanced(blueprint, blueprint.operations.get(id)?),
        Command::AddNode { id, name, .. } if !blueprint.nodes.contains_key(id) => {
            Some(Happening::Node { id: *id, name: name.clone(), turn: Coming::Added })
        }
        Command::Depart { node } => of_node(blueprint, *node, Coming::Departed),
        Command::Return { node } => of_node(blueprint, *node, Coming::Returned),
        Command::RemoveNode { node } => of_node(blueprint, *node, Coming::Removed),
        Command::CreateKeyspace { name, .. } => {
            Some(Happening::Keyspace { id: blueprint.next_keyspace, name: name.clone(), turn: Making::Created })
        }
        Command::RemoveKeyspace { keyspace } => {
            let name = blueprint.keyspaces.get(keyspace)?.name.clone();
            Some(Happening::Keyspace { id: *keyspace, name, turn: Making::Removed })
        }
        _ => None, // governments change all the time: why they do is in what is kept
    }
}

/// Only its end is worth a note.
fn advanced(blueprint: &Blueprint, operation: &Operation) -> Option<Happening> {
    match blueprint.standing(operation) {
        Standing::True if operation.at as usize + 1 == operation.steps.len() => {
            let at = operation.at + 1;
            let Happening::Operation { id, by, steps, .. } = of_operation(operation, Turn::Done) else { return None };
            Some(Happening::Operation { id, by, at, steps, turn: Turn::Done })
        }
        Standing::True | Standing::Open => None,
        Standing::Hitched(why) => Some(of_operation(operation, Turn::Failed { why })),
    }
}

fn of_operation(operation: &Operation, turn: Turn) -> Happening {
    let Operation { id, started_by, steps, at, .. } = operation;
    Happening::Operation { id: *id, by: in_short(started_by), at: *at, steps: steps.len() as u32, turn }
}

/// Thousands of these are kept, and what an operation was asked for may name thousands of slots.
fn in_short(words: &str) -> String {
    match words.char_indices().nth(MAX_WORDS) {
        None => words.into(),
        Some((end, _)) => [&words[..end], "…"].concat(),
    }
}

fn of_node(blueprint: &Blueprint, id: NodeId, turn: Coming) -> Option<Happening> {
    let name = blueprint.nodes.get(&id)?.name.clone();
    Some(Happening::Node { id, name, turn })
}
