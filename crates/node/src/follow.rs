//! Following the blueprint: which replicas exist here, and who governs them.

use std::collections::BTreeSet;
use std::sync::Arc;

use blueprint::{Birth, Blueprint, Breach, Bucket, BucketId, Conduct, Epoch, Instant, Position};
use phaser::{Bond, Fork, Founding, Image, Phaser, View};

use crate::io::{BatchId, Mail, NodeRecord, Output, Station};
use crate::lane::{Coming, Deferred, FollowUp, Lane};
use crate::replica::{Replica, Tables};

impl<C: Conduct> Lane<C> {
    /// R11: a blueprint older than the newest acted on is ignored. A newer one is acted on in three steps, each durable before
    /// the next: the replicas that it names and that never were here come to be; its epoch is written down; its governments
    /// rule. So an epoch below a replica's incarnation proves that this replica never was.
    pub(crate) fn on_blueprint(&mut self, now: Instant, blueprint: &Arc<Blueprint>, out: &mut Vec<Output>) {
        if self.waits_for_read(blueprint) {
            return;
        }
        let older = blueprint.epoch < self.newest() && !C::breaks(Breach::OlderBlueprintAccepted);
        if older || blueprint.epoch == self.blueprint.epoch || blueprint.epoch < self.blueprint.epoch {
            return;
        }
        if let Some(coming) = &mut self.coming {
            // The one that is on its way arrives first, however many come behind it; only the newest of those counts.
            let orders = match coming.behind.take() {
                Some((newer, orders)) if newer.epoch >= blueprint.epoch => {
                    coming.behind = Some((newer, orders));
                    return;
                }
                older => older.map_or_else(Vec::new, |(_, orders)| orders),
            };
            coming.behind = Some((Arc::clone(blueprint), orders));
            return;
        }
        if blueprint.epoch <= self.epoch {
            return self.act_on(now, blueprint, out); // written down by an earlier life
        }
        let (blueprint, after) = (Arc::clone(blueprint), self.open_batch());
        self.coming = Some(Coming { blueprint, after, recorded: false, orders: Vec::new(), behind: None });
        self.react(now, out);
    }

    pub(crate) fn record_epoch(&mut self) {
        let Some(coming) = self.coming.take_if(|coming| !coming.recorded) else { return };
        let after = self.write(NodeRecord::Epoch { lane: self.lane, epoch: coming.blueprint.epoch });
        self.coming = Some(Coming { after, recorded: true, ..coming });
    }

    pub(crate) fn on_coming_written(&mut self, now: Instant, upto: BatchId, out: &mut Vec<Output>) {
        let Some(coming) = &self.coming else { return };
        if !coming.recorded {
            return self.react(now, out); // what it brought about may be durable now
        }
        if let Some(coming) = self.coming.take_if(|coming| coming.after <= upto) {
            self.act_on(now, &coming.blueprint, out);
            coming.orders.into_iter().for_each(|order| self.obey(now, order, out));
            if let Some((behind, orders)) = coming.behind {
                self.on_blueprint(now, &behind, out);
                orders.into_iter().for_each(|order| self.on_order(now, order, out));
            }
        }
    }

    pub(crate) fn act_on(&mut self, now: Instant, blueprint: &Arc<Blueprint>, out: &mut Vec<Output>) {
        if blueprint.epoch <= self.blueprint.epoch {
            return;
        }
        self.epoch = self.epoch.max(blueprint.epoch);
        self.ahead.clear();
        self.blueprint = Arc::clone(blueprint);
        self.forget_glances();
        if C::breaks(Breach::ParentErasedBeforeFork) {
            self.erase_unnamed(now, out);
        }
        self.decide_deferred(now, out);
        self.react(now, out);
        self.tell_throttles(now, out);
        self.tell_rows(out);
        out.push(Output::Mail { to: Station::Desk, mail: Mail::Acted(Arc::clone(&self.blueprint)) });
    }

    pub(crate) fn found(&mut self, now: Instant, bucket: BucketId, founding: Founding, tables: Tables) {
        let seed = self.draw();
        let phaser = Phaser::found(self.config.phaser.clone(), founding, seed, now);
        self.lost.remove(&bucket);
        self.take_in(bucket, Replica::new(phaser, tables, Some(self.open_batch()), now));
        if let Some((micros, at)) = self.wall {
            let micros = micros + now.since(at).as_micros() as u64;
            self.drive(now, bucket, phaser::Input::Wall { micros }, &mut Vec::new());
        }
    }

    /// Tells a phaser what the blueprint says about its bucket.
    pub(crate) fn govern(&mut self, now: Instant, bucket: BucketId, out: &mut Vec<Output>) {
        let blueprint = Arc::clone(&self.blueprint);
        if let Some(view) = self.view(&blueprint, bucket) {
            self.drive(now, bucket, phaser::Input::View(view), out);
        } else if Self::unnamed_in(&blueprint, bucket, self.node).is_some() {
            self.drive(now, bucket, phaser::Input::Retire, out); // removed: it serves nobody any more
        }
    }

    /// How fast an operation wants its candidates to be filled concerns whoever leads now, and whoever may lead next.
    fn tell_throttles(&mut self, now: Instant, out: &mut Vec<Output>) {
        let throttles = self.blueprint.throttles();
        let named = throttles.keys().chain(self.throttled.keys()).copied();
        let concerned: BTreeSet<BucketId> = named.filter(|bucket| self.replicas.contains_key(bucket)).collect();
        for bucket in concerned {
            let rates = throttles.get(&bucket).cloned().unwrap_or_default();
            if self.throttled.get(&bucket) != Some(&rates) {
                self.throttled.insert(bucket, rates.clone());
                self.drive(now, bucket, phaser::Input::Throttle { rates }, out);
            }
        }
        self.throttled.retain(|bucket, rates| !rates.is_empty() && self.replicas.contains_key(bucket));
    }

    /// Until it is registered, a child is governed by its parent's government.
    pub(crate) fn view(&self, blueprint: &Blueprint, bucket: BucketId) -> Option<View> {
        let mut ruled = bucket;
        while !blueprint.buckets.contains_key(&ruled) {
            if blueprint.is_retired(ruled) {
                return None;
            }
            ruled = *self.replicas.iter().find(|(_, r)| r.phaser.holds_split(ruled))?.0;
        }
        let government = blueprint.government(ruled)?.clone();
        let children = |b: &Bucket| match b.birth {
            Birth::Split { parent, at } if parent == bucket => Some((b.id, at)),
            Birth::Split { .. } | Birth::First => None,
        };
        let mut children: Vec<_> = blueprint.buckets.values().filter_map(children).collect();
        let mut absorbed: Vec<_> = blueprint.buckets.values().filter_map(|b| b.merged_into(bucket)).collect();
        // What was registered, or absorbed, and is forgotten: an id that was given up before that is in no log.
        if let Some(replica) = self.replicas.get(&bucket) {
            let splits = replica.phaser.partings().into_iter().filter(|p| p.applied).map(|p| (p.child, p.at));
            children.extend(splits.filter(|(child, _)| blueprint.is_retired(*child)));
            absorbed.extend(replica.phaser.absorbs().filter(|(from, _)| blueprint.is_retired(*from)));
        }
        let bond = blueprint.buckets.get(&bucket).and_then(|b| b.bond);
        let bond = bond.and_then(|bond| match bond {
            blueprint::Bond::Absorbs { other, .. } => Some(Bond::Absorbs { other }),
            blueprint::Bond::Fades { into, .. } => Some(Bond::Fades { into }),
            blueprint::Bond::Merged { .. } => None,
        });
        Some(View { epoch: blueprint.epoch, government, children, bond, absorbed })
    }

    /// A Split was applied: the tables change hands, and the child's replica comes into being unless there is one.
    pub(crate) fn on_fork(
        &mut self,
        now: Instant,
        parent: BucketId,
        fork: Fork,
        later: &mut Vec<FollowUp>,
        out: &mut Vec<Output>,
    ) {
        let Some(replica) = self.replicas.get_mut(&parent) else { return };
        let tables = replica.tables.fork::<C>(&fork.slots);
        let replica_epoch = replica.phaser.known_epoch();
        let child = fork.child;
        if self.holds_child(now, &fork, out) && !C::breaks(Breach::ForkOverwritesReplica) {
            return later.push(FollowUp::Phaser(phaser::Input::Forked { child })); // a fork never replaces a replica
        }
        // Whether the child has a place here, and under which name, must be judged by a blueprint that is at least as new
        // as what the parent's phaser knows, and as what this node once acted on: it may have had its time already.
        let needs = self.newest().max(replica_epoch).max(Epoch(1));
        if self.blueprint.epoch < needs {
            return self.deferred.push(Deferred { parent, fork, tables, needs });
        }
        if self.make_child(now, parent, fork, tables) {
            later.push(FollowUp::Govern(child));
        } else {
            later.push(FollowUp::Phaser(phaser::Input::Forked { child }));
        }
    }

    /// Is there a replica of the child already? One that was made of another Split is not: every member lost that one (R10, level
    /// `memory`), and ordered it again. It goes.
    fn holds_child(&mut self, now: Instant, fork: &Fork, out: &mut Vec<Output>) -> bool {
        let child = fork.child;
        let live = self.replicas.get(&child).map(|replica| replica.phaser.origin());
        let Some(origin) = live.or_else(|| self.aside.get(&child).map(|durable| durable.origin)) else { return false };
        if origin == fork.at || origin == Position::default() {
            return true; // forked here; or founded as a candidate, or begun anew as one
        }
        self.forking.remove(&child);
        self.erase(now, child, out);
        if self.aside.remove(&child).is_some() {
            self.write(NodeRecord::Erase { bucket: child });
        }
        false
    }

    fn decide_deferred(&mut self, now: Instant, out: &mut Vec<Output>) {
        let epoch = self.blueprint.epoch;
        let (ready, later) = std::mem::take(&mut self.deferred).into_iter().partition(|d| d.needs <= epoch);
        self.deferred = later;
        for Deferred { parent, fork, tables, .. } in ready {
            let child = fork.child;
            if self.holds_child(now, &fork, out) || !self.make_child(now, parent, fork, tables) {
                self.drive(now, parent, phaser::Input::Forked { child }, out);
            }
        }
    }

    fn make_child(&mut self, now: Instant, parent: BucketId, fork: Fork, tables: Tables) -> bool {
        let Some(replica) = self.replicas.get(&parent) else { return false };
        let mut me = replica.phaser.me();
        if self.blueprint.is_retired(fork.child) || self.lost.contains_key(&fork.child) {
            return false; // ids are used once; and what was lost here does not come back under its old name (R10)
        }
        if let Some(registered) = self.blueprint.buckets.get(&fork.child) {
            if registered.birth != (Birth::Split { parent, at: fork.at }) {
                return false; // of the same name, and another
            }
            match registered.government().and_then(|g| g.named(self.node)) {
                Some(named) if named.incarnation.0 <= self.doubted_upto.0 => return false, // it may be lost, too
                Some(named) => me = named,
                None => return false, // its place is elsewhere by now
            }
        }
        if !fork.whole {
            return false;
        }
        let Fork { child, slots, at, clock, abstain_until, .. } = fork;
        let image = Image {
            as_of: at.index,
            covered: slots.clone(),
            replaced: slots.clone(),
            tables: tables.encode(&slots, Vec::new()),
        };
        let founding = Founding { me, promised: at.term, base: at, clock, owned: slots, image, abstain_until };
        self.found(now, child, founding, tables);
        self.forking.insert(child, parent);
        true
    }

    pub(crate) fn on_child_durable(&mut self, now: Instant, bucket: BucketId, out: &mut Vec<Output>) {
        if let Some(parent) = self.forking.remove(&bucket) {
            self.drive(now, parent, phaser::Input::Forked { child: bucket }, out);
        }
    }
}
