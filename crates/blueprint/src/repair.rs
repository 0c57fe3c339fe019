//! The unsafe way out for a bucket: every member is lost.
//!
//! Succession (R3) keeps what was acknowledged, and so it ends with the last member and the last heir. From there only somebody who
//! accepts a loss leads on. Two ways:
//!
//! - a copy that was no member any more, or not yet, and is whole: its node leads, in the next term, with what it has. Whatever was
//!   acknowledged after its last entry is lost. It has the slots that the blueprint says: one from before a split would serve what is the
//!   child's. Whoever asks makes sure of that; nobody can see it here.
//! - none: the bucket's id is retired, and a new bucket begins empty with its slots. No replica of the old one is ever taken for one
//!   of the new, so nothing else in the protocol has to know of repairs (R10): whoever returns with a copy erases it.
//!
//! Two buckets that are bound have one fate here, too: they have the same members, and both are repaired at once. Only a node with copies
//! of both will do, and it leads both: the bond stays, and the merge goes on there. Otherwise both ids are retired, and two new buckets
//! begin that have nothing to do with each other. A bond never ends with the one alive: nobody could thaw it, or take back what it absorbed.
//!
//! A member that is present is a reason to refuse. Of one that departed nobody knows whether it will return; whoever asks was shown its
//! name. The term that is replaced is named, as in every change of government (R7); of two that are bound, that of the one that is asked
//! for, because they change together.

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::auto::require_somebody;
use crate::blueprint::{Birth, Blueprint, Bucket, Rule};
use crate::command::Outcome;
use crate::soundness::is_words;
use crate::{BucketId, Government, Incarnation, Member, NodeId, Refusal, Step, Term, Unlawful};

/// What a bucket goes on with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Remedy {
    /// This replica, as it is; and, only if the bucket is bound to another one, the replica of that on the same node.
    Copy { copy: Member, other: Option<Member> },
    /// Nothing, on these nodes, of which the first leads.
    Empty(Vec<NodeId>),
}

impl Blueprint {
    pub(crate) fn repair(
        &mut self,
        id: BucketId,
        replaces: Term,
        by: &str,
        remedy: &Remedy,
    ) -> Result<Outcome, Refusal> {
        let current = self.require_government(id)?.term;
        if replaces != current {
            return Err(Unlawful::StaleTerm { proposed: replaces, current }.into());
        }
        let partner = self.buckets[&id].bond.and_then(|bond| bond.partner());
        let lost: Vec<BucketId> = [id].into_iter().chain(partner).collect();
        for id in &lost {
            self.require_lost(*id)?;
        }
        if !is_words(by) {
            return Err(Refusal::BadWords);
        }
        require_somebody(by)?;
        let from = match remedy {
            Remedy::Copy { copy, other } => {
                let made = self.require_copies(id, partner, *copy, *other)?;
                self.install(made);
                Some(copy.node)
            }
            Remedy::Empty(nodes) => {
                self.require_placement(&self.keyspaces[&self.buckets[&id].keyspace], core::slice::from_ref(nodes))?;
                for id in &lost {
                    self.begin_anew(*id, nodes);
                }
                None
            }
        };
        self.note(by, lost.into_iter().map(|bucket| Step::Repair { bucket, from }).collect());
        Ok(Outcome::Changed)
    }

    fn require_lost(&self, id: BucketId) -> Result<(), Refusal> {
        let government = self.require_government(id)?;
        if let Some(present) = government.members().find(|member| self.is_present(member.node)) {
            return Err(Refusal::MemberPresent { bucket: id, node: present.node });
        }
        match self.operation_on(id) {
            Some(operation) => Err(Refusal::BucketBusy { bucket: id, by: operation.id }),
            None => Ok(()),
        }
    }

    /// The governments that the bucket, and the one that it is bound to, will have: one node leads both, alone.
    fn require_copies(
        &self,
        id: BucketId,
        partner: Option<BucketId>,
        copy: Member,
        other: Option<Member>,
    ) -> Result<Vec<(BucketId, Government)>, Refusal> {
        let copies = match (partner, other) {
            (None, None) => vec![(id, copy)],
            (Some(partner), Some(other)) if other.node == copy.node => vec![(id, copy), (partner, other)],
            (Some(partner), _) => return Err(Refusal::RepairsBoth { bucket: id, other: partner }),
            (None, Some(_)) => return Err(Refusal::RepairsOne(id)),
        };
        self.require_present(copy.node)?;
        copies.into_iter().map(|(id, copy)| Ok((id, self.led_by(id, copy)?))).collect()
    }

    fn led_by(&self, id: BucketId, primary: Member) -> Result<Government, Refusal> {
        if primary.incarnation.0 == 0 || primary.incarnation > Incarnation(self.epoch.0) {
            return Err(Unlawful::NotAMember(primary).into());
        }
        let lost = self.require_government(id)?;
        let term = lost.term.next();
        let nobody = Vec::new;
        let (secondaries, candidates, heirs) = (nobody(), nobody(), nobody());
        Ok(Government { term, since: term, primary, secondaries, candidates, heirs, ..lost.clone() })
    }

    /// Another bucket begins in its place, empty.
    fn begin_anew(&mut self, id: BucketId, nodes: &[NodeId]) {
        // What was to be split off it was never registered, and is lost with it.
        let gone: Vec<BucketId> = self.reserved.keys().copied().filter(|c| self.root_of(*c) == id).collect();
        self.reserved.retain(|child, _| !gone.contains(child));
        let Bucket { keyspace, slots, rule, .. } = self.buckets.remove(&id).expect("it is governed");
        let Rule::Governed(lost) = rule else { unreachable!("only what is governed is repaired") };
        let incarnation = Incarnation(self.epoch.next().0);
        let mut members = nodes.iter().map(|&node| Member { node, incarnation });
        let primary = members.next().expect("a row has at least `min_in_sync` nodes");
        let rule = Rule::Governed(Government::first(primary, members.collect(), lost.min_in_sync));
        let id = self.issue_bucket();
        self.routes.get_mut(&keyspace).expect("governed keyspaces have routes").set(&slots, id);
        self.buckets.insert(id, Bucket { id, keyspace, slots, birth: Birth::First, rule, bond: None });
    }
}
