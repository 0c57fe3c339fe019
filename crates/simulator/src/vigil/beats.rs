//! `undisturbed_buckets_miss_no_beat`: the departure of a node is nothing to a bucket in which it has no part.
//!
//! Such a bucket keeps its government in the very change that makes the departure, and in those that follow from it. And from then
//! on, for as long as it is watched, its primary goes on: it leads the same term, serves, renews its leases, and commits what it
//! appended. A bucket is watched only while nothing else happens to it: no fault at anybody who has a part in it, nobody who wants
//! to move it. What ends a watch is counted apart from what passed it, so that it shows how often this was really seen.

use std::collections::{BTreeMap, BTreeSet};

use blueprint::{
    Blueprint, BucketId, Change, Command as Proposal, Conduct, Fate, Government, Index, Instant, Member, NodeId, Term,
};

use crate::plan::{Fault, MILLI, SECOND};
use crate::world::{Verdict, World, fail};

#[derive(Debug, Default)]
pub(super) struct Beats {
    watched: BTreeMap<BucketId, Watched>,
}

#[derive(Clone, Debug)]
struct Watched {
    departed: NodeId,
    primary: Member,
    term: Term,
    since: u64,
    /// When reads were last allowed.
    leased: u64,
    /// What was appended, when; until it is committed.
    owed: Option<(u64, Index)>,
}

/// Longer than a departure takes with all that follows from it: relief, new reigns, the first recoveries.
const WATCH: u64 = 2 * SECOND;
/// A bucket counts as undisturbed when nobody in it was hit for this long: leases are back, and whoever was to be dismissed for
/// having stalled (800 ms) has been.
const CALM: u64 = SECOND;
/// What was proposed while the meta group was away has arrived by then.
const AFTERMATH: u64 = 2 * SECOND;
/// A lease lasts 400 ms and is renewed every 100.
const GAP: u64 = 500 * MILLI;
/// Where messages get lost or come late: several in a row.
const GAP_IN_TROUBLE: u64 = 3 * SECOND;

impl<C: Conduct> World<C> {
    pub(super) fn beats_on_change(&mut self, command: &Proposal, asked: bool, before: &Blueprint) -> Verdict {
        self.end_watches(command, asked, before)?;
        let blueprint = std::sync::Arc::clone(&self.meta.blueprint);
        let departing = match command {
            Proposal::Depart { node } => *node,
            Proposal::Relieve { parts } => {
                let lost = |p: &blueprint::Succession| {
                    before.government(p.bucket)?.everyone().find(|m| !blueprint.is_present(m.node))
                };
                let Some(lost) = parts.iter().find_map(lost) else { return Ok(()) };
                lost.node
            }
            _ => return Ok(()),
        };
        let absent = |node: NodeId| node == departing || !blueprint.is_present(node);
        for bucket in before.buckets.values() {
            let Some(government) = bucket.government() else { continue };
            if government.everyone().any(|m| absent(m.node)) {
                continue;
            }
            if blueprint.government(bucket.id) != Some(government) {
                let after = blueprint.government(bucket.id);
                let text =
                    format!("{} has no {departing}, which departs, and was {government:?}; now {after:?}", bucket.id);
                return fail("undisturbed_buckets_miss_no_beat", text);
            }
            self.tally.note("departures that left a bucket alone");
            if self.is_undisturbed(government, self.time.saturating_sub(CALM))
                && let Some((leased, _)) = self.pulse(bucket.id, government.primary, government.term)
                && leased
            {
                let Government { primary, term, .. } = *government;
                let watched =
                    Watched { departed: departing, primary, term, since: self.time, leased: self.time, owed: None };
                self.vigil.beats.watched.entry(bucket.id).or_insert(watched);
            }
        }
        Ok(())
    }

    /// A watched bucket has another government. If somebody wanted that, the watch is over.
    fn end_watches(&mut self, command: &Proposal, asked: bool, before: &Blueprint) -> Verdict {
        let mut changed = BTreeSet::new();
        for (bucket, watched) in &self.vigil.beats.watched {
            if self.government(*bucket).is_none_or(|g| g.term != watched.term) {
                changed.insert(*bucket);
            }
        }
        for bucket in changed {
            let watched = self.vigil.beats.watched.remove(&bucket).expect("just listed");
            let unplanned = match command {
                Proposal::Succeed { change, .. } => asked && is_unplanned(change),
                Proposal::Relieve { .. } => true,
                _ => false,
            };
            let Some(government) = before.government(bucket) else { continue };
            let present = government.everyone().all(|m| self.meta.blueprint.is_present(m.node));
            if unplanned && present && !self.may_be_old(&watched) && self.is_undisturbed(government, watched.since) {
                return self.missed(bucket, &watched, &format!("it got another government: {command:?}"));
            }
            self.tally.note("departures that left a bucket alone: something else befell it");
        }
        Ok(())
    }

    /// May what was accepted just now have been proposed before the watch began? (Seed 1220: 1. a partition; the primary proposes to
    /// dismiss a secondary that stalls, and the meta group is away; 2. all of that ends; 3. somebody else departs; 4. the old
    /// proposal arrives.)
    fn may_be_old(&self, watched: &Watched) -> bool {
        let away = self.meta.away_until.max(self.meta.slow_until) + AFTERMATH > watched.since;
        let late = !self.healed && self.plan.faults.has(Fault::MetaUnknown);
        away || late
    }

    /// Right after the primary of a watched bucket looked at its inbox.
    pub(super) fn take_pulse(&mut self, host: usize) -> Verdict {
        if self.vigil.beats.watched.is_empty() {
            return Ok(());
        }
        let (id, time) = (self.hosts[host].id, self.time);
        let here = self.vigil.beats.watched.iter().filter(|(_, w)| w.primary.node == id);
        for (bucket, mut watched) in here.map(|(b, w)| (*b, w.clone())).collect::<Vec<_>>() {
            let Some(government) = self.government(bucket).cloned() else { continue };
            if !self.is_undisturbed(&government, watched.since) {
                self.vigil.beats.watched.remove(&bucket);
                self.tally.note("departures that left a bucket alone: something else befell it");
                continue;
            }
            if time - watched.since > WATCH {
                self.vigil.beats.watched.remove(&bucket);
                self.tally.note("departures that left a bucket alone: it did not miss a beat");
                continue;
            }
            let Some((leased, owed)) = self.pulse(bucket, watched.primary, watched.term) else {
                return self.missed(bucket, &watched, "its primary does not serve any more");
            };
            if leased {
                watched.leased = time;
            }
            self.tally.note("departures that left a bucket alone: beats heard");
            let commit =
                self.hosts[host].node().and_then(|n| n.phaser(bucket)).map_or(Index(0), phaser::Phaser::commit);
            watched.owed =
                watched.owed.filter(|(_, index)| commit < *index).or_else(|| owed.map(|index| (time, index)));
            if time - watched.leased > self.gap() {
                return self.missed(bucket, &watched, "its leases ran out");
            }
            if let Some((since, index)) = watched.owed.filter(|(since, _)| time - since > self.gap()) {
                return self.missed(
                    bucket,
                    &watched,
                    &format!("{index} is not committed after {} ms", (time - since) / MILLI),
                );
            }
            self.vigil.beats.watched.insert(bucket, watched);
        }
        Ok(())
    }

    fn missed(&self, bucket: BucketId, watched: &Watched, what: &str) -> Verdict {
        let Watched { departed, primary, term, since, .. } = watched;
        let ago = (self.time - since) / MILLI;
        let text = format!(
            "{bucket} ({term} under {primary}) has no part in the departure of {departed} {ago} ms ago: {what}"
        );
        fail("undisturbed_buckets_miss_no_beat", text)
    }

    /// Serving in that term: may it read, and what is it still to commit?
    fn pulse(&self, bucket: BucketId, primary: Member, term: Term) -> Option<(bool, Option<Index>)> {
        let host = &self.hosts[*self.index.get(&primary.node)?];
        let phaser = host.node()?.phaser(bucket).filter(|p| p.me() == primary && p.leads() == Some((term, true)))?;
        let now: Instant = host.clock.local(self.time);
        let owed = Some(phaser.log().last().index).filter(|last| *last > phaser.commit());
        Some((phaser.reads_until().is_some_and(|until| until > now), owed))
    }

    fn gap(&self) -> u64 {
        let trouble = [Fault::Loss, Fault::Delay, Fault::Reorder];
        if trouble.iter().any(|fault| self.plan.faults.has(*fault)) { GAP_IN_TROUBLE } else { GAP }
    }

    fn is_undisturbed(&self, government: &Government, since: u64) -> bool {
        let calm = |m: Member| self.index.get(&m.node).is_some_and(|host| self.calm_since(*host) <= since);
        // Below the minimum, and where there are heirs, the meta group is needed too.
        let settled = government.in_sync() && government.heirs.is_empty();
        settled && government.everyone().all(calm)
    }
}

/// Nobody wanted it: somebody was found missing.
fn is_unplanned(change: &Change) -> bool {
    match change {
        Change::Usurp { .. } | Change::Renew { .. } | Change::Disown { .. } => true,
        Change::Dismiss { fate, .. } => *fate != Fate::Leaves,
        Change::Enlist { .. }
        | Change::Drop { .. }
        | Change::Seat { .. }
        | Change::HandOver { .. }
        | Change::SetMinInSync { .. } => false,
    }
}
