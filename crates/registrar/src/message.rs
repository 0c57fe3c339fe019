//! What registrars say to each other. Each message carries the number of the life that sent it and of the one that it is for.

use alloc::vec::Vec;

use blueprint::NodeId;
use serde::{Deserialize, Serialize};

use crate::number::UpdateNumber;
use crate::part::Part;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Envelope {
    pub from: NodeId,
    /// Which start of the sender's process this is from; never 0.
    pub from_life: u64,
    pub to: NodeId,
    /// 0 while the sender has not heard of the receiver. Questions may be for an earlier life, answers and pushes may not.
    pub to_life: u64,
    pub message: Message,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// I have nothing to say but a digest of where I stand: do you stand there too?
    Compare {
        nonce: u64,
        digest: u64,
    },
    /// I do. If not, a `Check` is the answer.
    Same {
        nonce: u64,
    },
    /// Here is where I stand: where do you?
    Check {
        nonce: u64,
        standing: Standing,
    },
    Checked {
        nonce: u64,
        standing: Standing,
    },
    /// What do you have of `owner` after `after`? It will be built onto `onto`.
    Pull {
        nonce: u64,
        owner: NodeId,
        onto: UpdateNumber,
        after: UpdateNumber,
    },
    Pulled {
        nonce: u64,
        owner: NodeId,
        answer: Answer,
    },
    /// News of the sender's own rows.
    Push(Part),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Standing {
    pub phase: Phase,
    /// Up to where the sender has everyone's updates, its own included.
    pub claims: Vec<Claim>,
    /// The newest push of the receiver's that was refused, if what came before it is still missing.
    pub refused: Option<UpdateNumber>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// It pulls: what is pushed to it would be pushed in vain.
    Starting,
    Operating,
}

/// "I have all of this owner's updates up to that number."
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Claim {
    pub owner: NodeId,
    pub known: UpdateNumber,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    Part(Part),
    /// No more than this, which is no more than was asked after.
    Nothing {
        known: UpdateNumber,
    },
}

impl Message {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Compare { .. } => "Compare",
            Self::Same { .. } => "Same",
            Self::Check { .. } => "Check",
            Self::Checked { .. } => "Checked",
            Self::Pull { .. } => "Pull",
            Self::Pulled { .. } => "Pulled",
            Self::Push(_) => "Push",
        }
    }
}
