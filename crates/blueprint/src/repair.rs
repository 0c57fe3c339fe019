//! The unsafe way out for one bucket: every member is lost.
//!
//! Succession (R3) keeps what was acknowledged, and so it ends with the last member and the last heir. From there only somebody who
//! accepts a loss leads on. Two ways:
//!
//! - a copy that was no member any more, or not yet, and is whole: its node leads, in the next term, with what it has. Whatever was
//!   acknowledged after its last entry is lost.
//! - none: the bucket's id is retired, and a new bucket begins empty with its slots. No replica of the old one is ever taken for one
//!   of the new, so nothing else in the protocol has to know of repairs (R10): whoever returns with a copy erases it.
//!
//! A member that is present is a reason to refuse. Of one that departed nobody knows whether it will return; whoever asks was shown its
//! name. The term that is replaced is named, as in every change of government (R7).

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
    /// This replica, as it is.
    Copy(Member),
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
        let lost = self.require_government(id)?;
        if replaces != lost.term {
            return Err(Unlawful::StaleTerm { proposed: replaces, current: lost.term }.into());
        }
        if let Some(present) = lost.members().find(|member| self.is_present(member.node)) {
            return Err(Refusal::MemberPresent { bucket: id, node: present.node });
        }
        if let Some(operation) = self.operation_on(id) {
            return Err(Refusal::BucketBusy { bucket: id, by: operation.id });
        }
        if !is_words(by) {
            return Err(Refusal::BadWords);
        }
        require_somebody(by)?;
        let next = self.require_remedy(id, lost, remedy)?;
        let (slots, keyspace) = (self.buckets[&id].slots.clone(), self.buckets[&id].keyspace);
        self.unbind(id);
        let from = match remedy {
            Remedy::Copy(copy) => {
                self.buckets.get_mut(&id).expect("it is governed").rule = Rule::Governed(next);
                Some(copy.node)
            }
            Remedy::Empty(_) => {
                let new = self.issue_bucket();
                self.routes.get_mut(&keyspace).expect("governed keyspaces have routes").set(&slots, new);
                let rule = Rule::Governed(next);
                self.buckets.insert(new, Bucket { id: new, keyspace, slots, birth: Birth::First, rule, bond: None });
                // What was to be split off it was never registered, and is lost with it.
                let gone: Vec<BucketId> = self.reserved.keys().copied().filter(|c| self.root_of(*c) == id).collect();
                self.reserved.retain(|child, _| !gone.contains(child));
                self.buckets.remove(&id);
                None
            }
        };
        self.note(by, Step::Repair { bucket: id, from });
        Ok(Outcome::Changed)
    }

    /// It is not what was to be merged any more. The other one goes on by itself, in a new term: whatever was proposed for both is void.
    fn unbind(&mut self, id: BucketId) {
        let bond = self.buckets.get_mut(&id).and_then(|b| b.bond.take());
        let Some(other) = bond.and_then(|b| b.partner()).and_then(|other| self.buckets.get_mut(&other)) else { return };
        other.bond = None;
        if let Rule::Governed(government) = &mut other.rule {
            government.term = government.term.next();
        }
    }

    /// The government that the bucket, or the one in its place, will have.
    fn require_remedy(&self, id: BucketId, lost: &Government, remedy: &Remedy) -> Result<Government, Refusal> {
        let fresh = Incarnation(self.epoch.next().0);
        match remedy {
            Remedy::Copy(copy) => {
                self.require_present(copy.node)?;
                if copy.incarnation.0 == 0 || copy.incarnation >= fresh {
                    return Err(Unlawful::NotAMember(*copy).into());
                }
                let term = lost.term.next();
                let nobody = Vec::new;
                let (secondaries, candidates, heirs) = (nobody(), nobody(), nobody());
                Ok(Government { term, since: term, primary: *copy, secondaries, candidates, heirs, ..lost.clone() })
            }
            Remedy::Empty(nodes) => {
                let keyspace = &self.keyspaces[&self.buckets[&id].keyspace];
                self.require_placement(keyspace, core::slice::from_ref(nodes))?;
                let mut members = nodes.iter().map(|&node| Member { node, incarnation: fresh });
                let primary = members.next().expect("a row has at least `min_in_sync` nodes");
                Ok(Government::first(primary, members.collect(), lost.min_in_sync))
            }
        }
    }
}
