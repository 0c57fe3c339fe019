//! What a registrar waits for, on whom, and since when: nothing waits without saying so.

use alloc::vec::Vec;

use blueprint::{Conduct, Instant, NodeId};

use crate::number::UpdateNumber;
use crate::peer::Reach;
use crate::registrar::{Registrar, Stage};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    pub what: Waiting,
    /// Nobody in particular, or this node's own disk or driver, when it is None.
    pub on: Option<NodeId>,
    pub since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waiting {
    /// To be told who the peers are.
    Peers,
    /// Where the peer stands.
    Check,
    /// The peer was away when last asked.
    Return,
    /// This owner's rows, part by part.
    Pull { owner: NodeId },
    /// A sibling has more of this owner: a push may be under way, or other pulls go first.
    Turn { owner: NodeId },
    /// What the peer misses of my updates is too much for one message: it has to pull.
    PeerPulls,
    /// The start: so many updates wait to be numbered.
    Numbers { updates: usize },
    /// The disk: so many updates are not safe yet.
    Disk { updates: usize },
    /// To have everything, before the rows of this predecessor are taken over.
    TakeOver { owner: NodeId },
}

impl<C: Conduct> Registrar<C> {
    pub fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        let mut add = |what, on, since| waits.push(Wait { what, on, since });
        if self.stage == Stage::Unaware {
            add(Waiting::Peers, None, self.begun);
        }
        for (node, peer) in &self.peers {
            let node = Some(*node);
            match (&peer.asked, &peer.reach) {
                (Some(asked), _) => add(Waiting::Check, node, asked.since),
                (None, Reach::Away { since }) => add(Waiting::Return, node, *since),
                (None, Reach::Live(live)) => {
                    live.too_far_behind.into_iter().for_each(|since| add(Waiting::PeerPulls, node, since));
                }
                (None, Reach::Starting) => {}
            }
        }
        for (owner, behind) in &self.behind {
            match self.pulls.get(owner) {
                Some(pull) => add(Waiting::Pull { owner: *owner }, Some(pull.from), pull.since),
                None => add(Waiting::Turn { owner: *owner }, None, behind.since),
            }
        }
        if let Some(first) = self.own.waits.front() {
            add(Waiting::Numbers { updates: self.own.waits.len() }, None, first.since);
        }
        if let Some(first) = self.own.unwritten.front() {
            add(Waiting::Disk { updates: self.own.unwritten.len() }, None, first.since);
        }
        for (old, _) in
            self.own.predecessors.iter().filter(|(_, taken)| !self.is_complete && taken.upto == UpdateNumber::ZERO)
        {
            add(Waiting::TakeOver { owner: *old }, None, self.begun);
        }
        waits
    }
}
