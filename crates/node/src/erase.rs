//! Erase (R11): what nobody names is removed, but only when it is certain that nobody can still need it.

use std::sync::Arc;

use blueprint::{Blueprint, BucketId, Conduct, Instant, NodeId, Rule, Term};

use crate::io::{NodeRecord, Output};
use crate::lane::{Asked, Lane};

impl<C: Conduct> Lane<C> {
    /// The term of the government that does not name this node, if so.
    pub(crate) fn unnamed_in(blueprint: &Blueprint, bucket: BucketId, me: NodeId) -> Option<Term> {
        match blueprint.buckets.get(&bucket).map(|b| &b.rule) {
            Some(Rule::Governed(government)) => government.named(me).is_none().then_some(government.term),
            Some(Rule::Removed { term, .. }) => Some(*term),
            None if blueprint.is_retired(bucket) => Some(Term(u64::MAX)),
            None => None, // a child that is not registered yet, of a keyspace that is there
        }
    }

    pub(crate) fn on_meta_read(&mut self, now: Instant, id: u64, blueprint: &Arc<Blueprint>, out: &mut Vec<Output>) {
        let asked = self.asked.remove(&id);
        if asked.is_some() {
            self.end_asking(now, blueprint, out);
        }
        match asked {
            Some(Asked::Phaser { bucket, nonce }) => {
                if let Some(view) = self.view(blueprint, bucket) {
                    self.drive(now, bucket, phaser::Input::Told { nonce, view }, out);
                }
            }
            Some(Asked::Erase) => {
                if let Some(reading) = self.reading.as_mut().filter(|r| r.id == id) {
                    reading.answer = Some(Arc::clone(blueprint));
                    self.react(now, out); // whatever may be erased is erased in this very step (R11)
                }
                self.reading.take_if(|r| r.answer.is_some());
            }
            Some(Asked::Doubt) | None => {}
        }
        self.on_blueprint(now, blueprint, out);
    }

    /// The planted bug that does not ask what may still have to be made of a replica.
    pub(crate) fn erase_unnamed(&mut self, now: Instant, out: &mut Vec<Output>) {
        let unnamed = |bucket: &&BucketId| Self::unnamed_in(&self.blueprint, **bucket, self.node).is_some();
        for bucket in self.replicas.keys().filter(unnamed).copied().collect::<Vec<_>>() {
            self.erase(now, bucket, out);
        }
    }

    pub(crate) fn erase(&mut self, now: Instant, bucket: BucketId, out: &mut Vec<Output>) {
        self.drive(now, bucket, phaser::Input::Retire, out); // whoever still waits is answered (R12)
        let Some(replica) = self.replicas.remove(&bucket) else { return };
        self.forget_glances();
        self.on_child_durable(now, bucket, out); // nothing will be made of its parent's log any more
        self.forget_writes(bucket);
        self.write(NodeRecord::Erase { bucket });
        let holder = replica.phaser.me();
        out.push(Output::Erased { bucket, incarnation: holder.incarnation });
    }

    pub(crate) fn erase_condemned(&mut self, now: Instant, out: &mut Vec<Output>) {
        let due = |(_, at): &(&BucketId, &Instant)| now >= **at;
        let condemned: Vec<BucketId> = self.condemned.iter().filter(due).map(|(bucket, _)| *bucket).collect();
        for bucket in condemned {
            self.condemned.remove(&bucket);
            self.erase(now, bucket, out);
            self.react(now, out); // the planted bug takes part again as if new
        }
    }
}
