//! What becomes of the buckets of nodes that departed: who succeeds, who is dismissed, who waits.
//!
//! One change per bucket and round, all of them in one command: the first that is needed in this order. A successor for a primary; a
//! member less; an heir that has nothing to leave; a candidate less.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use blueprint::{
    Bucket, BucketId, Change, Command, Conduct, Fate, Government, Instant, Member, MetaCommand, NodeId, Position,
    Succession,
};

use super::io::{Outbox, Output};
use super::{Coordinator, Subject, Until};
use crate::words;

/// Buckets in one command. As many as the meta group takes; the others follow in the next.
const PARTS: usize = 1024;

impl<C: Conduct> Coordinator<C> {
    pub(crate) fn relieve(&mut self, now: Instant, departing: &BTreeSet<NodeId>, out: &mut Outbox) {
        let state = self.state.clone();
        let governments = || state.blueprint.buckets.values().filter_map(Bucket::government);
        let absent = |node: NodeId| departing.contains(&node) || !state.blueprint.is_present(node);
        if !governments().any(|g| g.everyone().any(|m| absent(m.node))) {
            return;
        }
        let mut leads: BTreeMap<NodeId, usize> = BTreeMap::new();
        for government in governments() {
            *leads.entry(government.primary.node).or_default() += 1;
        }
        let mut parts = Vec::new();
        for bucket in state.blueprint.buckets.values() {
            let Some(government) = bucket.government() else { continue };
            if !government.everyone().any(|m| absent(m.node)) {
                continue; // it never notices
            }
            if let Some(change) = self.relief(now, bucket.id, government, &absent, &leads) {
                if let Change::Usurp { to, .. } = change {
                    *leads.entry(to.node).or_default() += 1;
                }
                self.wait(now, Subject::Bucket(bucket.id), Until::Accepted { what: words::change(&change) });
                parts.push(Succession { bucket: bucket.id, replaces: government.term, change });
            }
        }
        for parts in parts.chunks(PARTS) {
            let command = Command::Relieve { parts: parts.to_vec() };
            self.say(now, Output::Propose(MetaCommand::Change(command)), out);
        }
    }

    fn relief(
        &mut self,
        now: Instant,
        bucket: BucketId,
        government: &Government,
        absent: &impl Fn(NodeId) -> bool,
        leads: &BTreeMap<NodeId, usize>,
    ) -> Option<Change> {
        let blueprint = self.state.blueprint.clone();
        let fate = |m: &Member| if blueprint.is_replaced(m.node) { Fate::Lost } else { Fate::Leaves };
        let primary = government.primary;
        if absent(primary.node) {
            if let Some(to) = self.successor(now, bucket, government, absent, leads) {
                return Some(Change::Usurp { to, fate: fate(&primary) });
            }
            let among = successors(government).iter().map(|m| m.node).collect();
            self.wait(now, Subject::Bucket(bucket), Until::SuccessorAnswers { primary: primary.node, among });
        }
        for secondary in government.secondaries.iter().filter(|m| absent(m.node)) {
            // Nobody is dismissed on behalf of a primary that is silent itself, or has nothing: this may be the only copy left. Of one
            // that was replaced there is no copy; and an heir that answers has everything, too.
            let holds = |m: &Member| !absent(m.node) && self.watch.holding(*m, bucket, now).is_some();
            let led = holds(&primary) || government.heirs.iter().any(holds);
            if led || blueprint.is_replaced(secondary.node) {
                return Some(Change::Dismiss { secondary: *secondary, fate: fate(secondary) });
            }
            if !absent(primary.node) {
                let until = Until::PrimaryHolds { primary: primary.node, leaves: secondary.node };
                self.wait(now, Subject::Bucket(bucket), until);
            }
        }
        if let Some(heir) = government.heirs.iter().find(|m| blueprint.is_replaced(m.node)) {
            return Some(Change::Disown { heir: *heir });
        }
        let candidate = government.candidates.iter().find(|m| absent(m.node))?;
        Some(Change::Drop { candidate: *candidate })
    }

    /// Any secondary holds all that was acknowledged (R3), and without one any heir (R9). One that drains only if there is no other. The
    /// most advanced has the most of what was not; among equals, who leads the fewest.
    fn successor(
        &self,
        now: Instant,
        bucket: BucketId,
        government: &Government,
        absent: &impl Fn(NodeId) -> bool,
        leads: &BTreeMap<NodeId, usize>,
    ) -> Option<Member> {
        let last = |m: Member| -> Option<(Position, Member)> {
            let holding = self.watch.holding(m, bucket, now).filter(|_| !absent(m.node))?;
            // Who leads the one leads the other as well, while they are being merged.
            if let Some(partner) = self.state.blueprint.buckets.get(&bucket).and_then(|b| b.bond?.partner()) {
                let other = self.state.blueprint.government(partner).and_then(|g| g.named(m.node))?;
                self.watch.holding(other, partner, now)?;
            }
            Some((holding.last, m))
        };
        let able = successors(government).iter().filter_map(|m| last(*m));
        let rank = |(last, m): &(Position, Member)| {
            let load = leads.get(&m.node).copied().unwrap_or_default();
            (self.state.blueprint.drains(m.node), core::cmp::Reverse(*last), load, m.node)
        };
        able.min_by_key(rank).map(|(_, m)| m)
    }
}

/// Who may lead after the primary.
fn successors(government: &Government) -> &[Member] {
    if government.secondaries.is_empty() { &government.heirs } else { &government.secondaries }
}
