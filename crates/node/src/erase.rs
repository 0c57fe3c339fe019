//! Erase (R11): what nobody names is removed, but only when it is certain that nobody can still need it.

use std::collections::BTreeMap;
use std::sync::Arc;

use blueprint::{
    Birth, Blueprint, Breach, Bucket, BucketId, Command as Proposal, Conduct, Epoch, Instant, NodeId, Rule, Term,
};

use crate::io::{NodeRecord, Output};
use crate::node::{Asked, Node};

/// A replica that the blueprint names no longer.
#[derive(Clone, Debug)]
pub(crate) struct Unneeded {
    /// The government that does not name it, and the epoch at which this node acted on it.
    term: Term,
    epoch: Epoch,
    since: Instant,
    /// Only used by the planted bug that erases later than it looks.
    condemned: Option<Instant>,
}

impl<C: Conduct> Node<C> {
    pub(crate) fn look_for_unneeded(&mut self, now: Instant, out: &mut Vec<Output>) {
        let unneeded: Vec<(BucketId, Term)> = self
            .replicas
            .iter()
            // One that a coming blueprint named is not judged by the present one.
            .filter(|(_, r)| r.phaser.me().incarnation.0 <= self.blueprint.epoch.0)
            .filter_map(|(bucket, _)| Some((*bucket, Self::unnamed_in(&self.blueprint, *bucket, self.id)?)))
            .collect();
        self.unneeded.retain(|bucket, mark| {
            unneeded.contains(&(*bucket, mark.term))
                || (mark.condemned.is_some() && C::breaks(Breach::ReenlistedBeforeErase))
        });
        for (bucket, term) in unneeded {
            let epoch = self.blueprint.epoch;
            let mark = self.unneeded.entry(bucket).or_insert(Unneeded { term, epoch, since: now, condemned: None });
            if now.since(mark.since) >= self.config.grace {
                let id = self.ask(Asked::Erase { bucket });
                out.push(Output::ReadMeta { id });
            }
        }
        self.erase_condemned(now, out);
        self.report_erased(out);
    }

    /// A removed bucket waits until every holder has said that it holds nothing: said again and again, because it may get lost.
    fn report_erased(&self, out: &mut Vec<Output>) {
        for bucket in self.blueprint.buckets.values().filter(|b| !self.replicas.contains_key(&b.id)) {
            let Rule::Removed { holders, .. } = &bucket.rule else { continue };
            for holder in holders.iter().filter(|h| h.node == self.id) {
                out.push(Output::Propose(Proposal::Erased { bucket: bucket.id, holder: *holder }));
            }
        }
    }

    /// The term of the government that does not name this node, if so.
    pub(crate) fn unnamed_in(blueprint: &Blueprint, bucket: BucketId, me: NodeId) -> Option<Term> {
        match blueprint.buckets.get(&bucket).map(|b| &b.rule) {
            Some(Rule::Governed(government)) => government.named(me).is_none().then_some(government.term),
            Some(Rule::Removed { term, .. }) => Some(*term),
            None if blueprint.is_retired(bucket) => Some(Term(u64::MAX)),
            None => None, // a child that is not registered yet, of a keyspace that is there
        }
    }

    pub(crate) fn on_meta_read(
        &mut self,
        now: Instant,
        id: u64,
        blueprint: &Arc<Blueprint>,
        echoes: &BTreeMap<NodeId, Epoch>,
        out: &mut Vec<Output>,
    ) {
        match self.asked.remove(&id) {
            Some(Asked::Phaser { bucket, nonce }) => {
                if let Some(view) = self.view(blueprint, bucket) {
                    self.drive(now, bucket, phaser::Input::Told { nonce, view }, out);
                }
            }
            Some(Asked::Erase { bucket }) => self.try_erase(now, bucket, blueprint, echoes, out),
            None => {}
        }
        self.on_blueprint(now, blueprint);
    }

    fn try_erase(
        &mut self,
        now: Instant,
        bucket: BucketId,
        read: &Blueprint,
        echoes: &BTreeMap<NodeId, Epoch>,
        out: &mut Vec<Output>,
    ) {
        let Some(mark) = self.unneeded.get_mut(&bucket) else { return };
        let Some(replica) = self.replicas.get(&bucket) else { return };
        let term = mark.term;
        if now.since(mark.since) < self.config.grace || replica.phaser.me().incarnation.0 > read.epoch.0 {
            return; // an answer to an older question
        }
        if Self::unnamed_in(read, bucket, self.id) != Some(term) {
            return;
        }
        let echoed = |node: NodeId| echoes.get(&node).is_some_and(|epoch| *epoch >= mark.epoch);
        let members = read.government(bucket).into_iter().flat_map(|g| g.members());
        if !members.filter(|m| read.is_present(m.node)).all(|m| echoed(m.node)) {
            return;
        }
        let named_here = |b: &Bucket| b.government().is_some_and(|g| g.named(self.id).is_some());
        let born = |b: &Bucket| match b.birth {
            Birth::Split { parent, at } if parent == bucket => Some((b.id, at)),
            Birth::Split { .. } | Birth::First => None,
        };
        let registered_here: Vec<_> = read.buckets.values().filter(|b| named_here(b)).filter_map(born).collect();
        if replica.phaser.owes_fork(&registered_here) && !C::breaks(Breach::ParentErasedBeforeFork) {
            return;
        }
        if C::breaks(Breach::ReenlistedBeforeErase) {
            mark.condemned = mark.condemned.or(Some(now + self.config.grace));
            return;
        }
        // In the very step that erases: a re-enlisted replica has promised more by now.
        if term >= replica.phaser.promised() && Self::unnamed_in(&self.blueprint, bucket, self.id).is_some() {
            self.erase(now, bucket, out);
        }
    }

    /// The planted bug that does not ask what may still have to be made of a replica.
    pub(crate) fn erase_unnamed(&mut self, now: Instant, out: &mut Vec<Output>) {
        let unnamed = |bucket: &&BucketId| Self::unnamed_in(&self.blueprint, **bucket, self.id).is_some();
        for bucket in self.replicas.keys().filter(unnamed).copied().collect::<Vec<_>>() {
            self.erase(now, bucket, out);
        }
    }

    fn erase(&mut self, now: Instant, bucket: BucketId, out: &mut Vec<Output>) {
        self.drive(now, bucket, phaser::Input::Retire, out); // whoever still waits is answered (R12)
        let Some(replica) = self.replicas.remove(&bucket) else { return };
        self.unneeded.remove(&bucket);
        self.on_child_durable(now, bucket, out); // nothing will be made of its parent's log any more
        self.forget_writes(bucket);
        self.write(NodeRecord::Erase { bucket });
        let holder = replica.phaser.me();
        out.push(Output::Erased { bucket, incarnation: holder.incarnation });
    }

    fn erase_condemned(&mut self, now: Instant, out: &mut Vec<Output>) {
        let due = |mark: &Unneeded| mark.condemned.is_some_and(|at| now >= at);
        let condemned: Vec<BucketId> = self.unneeded.iter().filter(|(_, m)| due(m)).map(|(b, _)| *b).collect();
        for bucket in condemned {
            self.erase(now, bucket, out);
            let blueprint = Arc::clone(&self.blueprint);
            self.blueprint = Arc::new(Blueprint::new()); // the planted bug forgets, and takes part again as if new
            self.take_parts(now, &blueprint);
            self.act_on(now, &blueprint, out);
        }
    }
}
