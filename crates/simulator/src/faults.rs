//! What goes wrong, and when. Nothing here destroys every copy, which nobody promises to survive, but for one: a blackout at level
//! `memory` takes the end of a log from every member, and what was lost is known here.

use std::sync::Arc;

use blueprint::{BucketId, Change, Command as Proposal, Conduct, Fate, NodeId};

use crate::host::Disk;
use crate::plan::{Fault, MILLI, SECOND};
use crate::world::{Event, World};

impl<C: Conduct> World<C> {
    /// How rare a fault is compared with the plan's rate; none for those that strike message by message or record by record.
    fn rarity(fault: Fault) -> Option<u64> {
        match fault {
            Fault::Crash => Some(2),
            Fault::PowerCut => Some(8),
            Fault::Wipe => Some(6),
            Fault::Reboot => Some(3),
            Fault::Blackout => Some(5),
            Fault::Damage => Some(6),
            Fault::Pause | Fault::Stall => Some(2),
            Fault::WallJump => Some(3),
            Fault::CutSymmetric | Fault::CutOneWay | Fault::CutBridge | Fault::CutLink => Some(3),
            Fault::SlowDisk | Fault::SlowNode => Some(3),
            Fault::MetaSlow | Fault::MetaDown => Some(4),
            Fault::StalePush => Some(1),
            Fault::FalseAlarm | Fault::MetaCut => Some(2),
            Fault::LostWrites
            | Fault::TornRecord
            | Fault::ClockRate
            | Fault::Loss
            | Fault::Delay
            | Fault::Duplicate
            | Fault::Reorder
            | Fault::MetaUnknown
            | Fault::ReportLost
            | Fault::DirectoryLoss => None,
        }
    }

    pub(crate) fn schedule_faults(&mut self) {
        for fault in self.plan.faults.iter() {
            self.schedule_fault(fault);
        }
    }

    fn schedule_fault(&mut self, fault: Fault) {
        if let Some(rarity) = Self::rarity(fault) {
            let delay = self.rng.around(self.plan.fault_every * rarity);
            self.after(delay, Event::Fault(fault));
        }
    }

    pub(crate) fn strike(&mut self, fault: Fault) {
        if self.healed {
            return;
        }
        let host = self.rng.range(0, self.hosts.len() as u64 - 1) as usize;
        if self.inflict(fault, host) {
            self.tally.fault(fault);
            let who = if fault.strikes_one() { host } else { usize::MAX };
            self.trace.line(self.time, who, || format!("fault: {}", fault.words()));
        }
        self.schedule_fault(fault);
    }

    fn inflict(&mut self, fault: Fault, host: usize) -> bool {
        let hosts = self.hosts.len();
        let long = self.spell();
        let until = self.time + long;
        match fault {
            Fault::Crash => self.crash_one(host, long),
            Fault::PowerCut => {
                for host in 0..hosts {
                    if self.hosts[host].is_up() {
                        self.crash(host);
                        let delay = self.rng.around(self.plan.power_back);
                        self.after(delay, Event::Restart { host });
                    }
                }
                true
            }
            Fault::Wipe => self.wipe(host, long),
            Fault::Reboot => self.reboot(host, long),
            Fault::Blackout => self.blackout(),
            Fault::Damage => self.damage(host, long),
            Fault::Pause => self.pause(host, 300 * MILLI + long),
            Fault::Stall => self.stall(host, 300 * MILLI + long),
            Fault::WallJump => {
                let hours = self.rng.range(1, 30) * 3600 * SECOND;
                let wall = &mut self.hosts[host].clock.wall;
                *wall = if self.rng.percent(50) { *wall + hours } else { *wall - hours };
                self.tell_time(host);
                true
            }
            Fault::CutSymmetric | Fault::CutOneWay => {
                let side: Vec<bool> = (0..hosts).map(|_| self.rng.percent(40)).collect();
                for a in 0..hosts {
                    for b in 0..hosts {
                        let crosses = if fault == Fault::CutOneWay { side[a] && !side[b] } else { side[a] != side[b] };
                        if crosses {
                            self.network.cut(a, b, until);
                        }
                    }
                    if side[a] && self.rng.percent(30) {
                        self.hosts[a].meta_cut_until = until;
                    }
                }
                true
            }
            Fault::CutBridge => {
                // `host` sees both sides; they do not see each other.
                let side: Vec<bool> = (0..hosts).map(|_| self.rng.percent(50)).collect();
                for a in (0..hosts).filter(|a| *a != host) {
                    for b in (0..hosts).filter(|b| *b != host && side[a] != side[*b]) {
                        self.network.cut(a, b, until);
                    }
                }
                true
            }
            Fault::CutLink => {
                let other = self.rng.range(0, hosts as u64 - 1) as usize;
                self.network.cut(host, other, until);
                if self.rng.percent(50) {
                    self.network.cut(other, host, until);
                }
                host != other
            }
            Fault::SlowDisk => {
                self.hosts[host].slow_disk_until = until;
                true
            }
            Fault::SlowNode => {
                self.hosts[host].slow_until = until;
                true
            }
            Fault::MetaSlow => {
                self.meta.slow_until = until;
                true
            }
            Fault::MetaDown => {
                self.meta.away_until = until;
                true
            }
            Fault::StalePush => {
                let Some(old) = self.rng.pick(&self.meta.past).map(Arc::clone) else { return false };
                self.after(MILLI, Event::Push { host, blueprint: old });
                true
            }
            Fault::FalseAlarm => self.false_alarm(),
            Fault::MetaCut => {
                self.hosts[host].meta_cut_until = until;
                true
            }
            Fault::LostWrites
            | Fault::TornRecord
            | Fault::ClockRate
            | Fault::Loss
            | Fault::Delay
            | Fault::Duplicate
            | Fault::Reorder
            | Fault::MetaUnknown
            | Fault::ReportLost
            | Fault::DirectoryLoss => false,
        }
    }

    /// How long something lasts: often a second or so, sometimes hardly at all (shorter than a lease).
    pub(crate) fn spell(&mut self) -> u64 {
        let mean = if self.rng.percent(35) { 60 * MILLI } else { 1200 * MILLI };
        self.rng.around(mean)
    }

    fn crash_one(&mut self, host: usize, down_for: u64) -> bool {
        let down = self.hosts.iter().filter(|h| !h.is_up()).count();
        if !self.hosts[host].is_up() || (down + 1) * 2 > self.hosts.len() {
            return false;
        }
        self.crash(host);
        self.after(down_for, Event::Restart { host });
        true
    }

    fn pause(&mut self, host: usize, span: u64) -> bool {
        let until = self.time + span;
        let target = &mut self.hosts[host];
        if !target.responds(self.time) {
            return false;
        }
        if self.rng.percent(50) {
            target.freeze_next = Some(until);
            return true;
        }
        target.paused_until = until;
        let life = target.life;
        self.at(until, Event::Resume { host, life });
        true
    }

    /// One thread is not run for a while; its process looks alive from the outside.
    fn stall(&mut self, host: usize, span: u64) -> bool {
        let until = self.time + span;
        let threads = self.hosts[host].threads.len();
        if threads == 0 {
            return false;
        }
        let thread = self.rng.range(0, threads as u64 - 1) as usize;
        let stalled = &mut self.hosts[host].threads[thread].stalled_until;
        *stalled = until.max(*stalled);
        true
    }

    /// A wiped disk is a new node (R10), under the old one's name.
    pub(crate) fn wipe(&mut self, host: usize, down_for: u64) -> bool {
        let vital: Vec<BucketId> = self.buckets_that_need(host);
        if !vital.is_empty() {
            return false;
        }
        if self.hosts[host].is_up() {
            self.crash(host);
        }
        self.hosts[host].disk = Disk::default();
        if !C::breaks(blueprint::Breach::WipedDiskRejoins) {
            let old = self.hosts[host].id;
            self.index.remove(&old);
            let id = NodeId(self.conductor.fresh_node_id(self.hosts.len()));
            self.hosts[host].id = id;
            self.index.insert(id, host);
            self.trace.line(self.time, host, || format!("wiped: {old} is gone, {id} comes"));
        }
        self.after(down_for, Event::Restart { host });
        true
    }

    /// Level memory: what the operating system had not written yet is gone (R10), and the node knows that something may be.
    fn reboot(&mut self, host: usize, down_for: u64) -> bool {
        if !self.plan.memory_level || !self.buckets_that_need(host).is_empty() {
            return false;
        }
        let percent = *self.rng.pick(&[0u64, 30, 70, 100]).expect("not empty");
        self.restart_system(host, percent, down_for);
        true
    }

    fn restart_system(&mut self, host: usize, percent: u64, down_for: u64) {
        if self.hosts[host].is_up() {
            // What is on its way comes after what is cached: if any of that is gone, all of this is.
            if percent > 0 {
                self.hosts[host].disk.unsynced.clear();
            }
            self.crash(host);
        }
        let lost = self.hosts[host].disk.reboot(percent);
        self.trace.line(self.time, host, || format!("its operating system restarts: {lost} records are gone"));
        self.after(down_for, Event::Restart { host });
    }

    /// Level memory: the operating systems of all members of a bucket restart at once. What the one that goes on has lost is lost (R10),
    /// whoever else still has it. Clients go on with other keys: those that they used may have lost a write that was acknowledged.
    fn blackout(&mut self) -> bool {
        let governed = |b: &blueprint::Bucket| Some((b.id, b.government()?.clone()));
        let governments: Vec<_> = self.meta.blueprint.buckets.values().filter_map(governed).collect();
        // Best of all where somebody else has what they lose.
        let is_witnessed =
            |(_, g): &&(BucketId, blueprint::Government)| !g.candidates.is_empty() || !g.heirs.is_empty();
        let witnessed: Vec<_> = governments.iter().filter(is_witnessed).cloned().collect();
        let among = if witnessed.is_empty() || self.rng.percent(30) { &governments } else { &witnessed };
        let Some((_, struck)) = self.rng.pick(among).cloned() else { return false };
        let is_struck = |node: NodeId| struck.members().any(|m| m.node == node);
        let mut dark = Vec::new();
        for (bucket, government) in &governments {
            let copies: Vec<_> = government.members().chain(government.heirs.iter().copied()).collect();
            if !copies.iter().any(|m| is_struck(m.node)) {
                continue;
            }
            if government.members().all(|m| is_struck(m.node)) && government.heirs.is_empty() {
                dark.push(*bucket);
            } else if !copies.iter().any(|m| !is_struck(m.node) && self.holds(*m, *bucket) && self.is_heard(m.node)) {
                return false; // others would lose more than the end of their log
            }
        }
        let hosts: Vec<usize> = struck.members().filter_map(|m| self.index.get(&m.node).copied()).collect();
        // A child that is not registered goes with its parent: what is lost of it nobody here would know.
        let mut children = self.meta.blueprint.reserved.keys();
        let is_served = children.any(|child| self.checkers.knows(*child));
        if !self.plan.memory_level || is_served || dark.is_empty() || hosts.len() < struck.size() {
            return false;
        }
        for host in hosts {
            let percent = *self.rng.pick(&[0u64, 70, 100, 100, 100]).expect("not empty");
            let down_for = self.spell();
            self.restart_system(host, percent, down_for);
        }
        dark.into_iter().for_each(|bucket| self.checkers.on_blackout(bucket));
        self.begin_era();
        true
    }

    fn damage(&mut self, host: usize, down_for: u64) -> bool {
        let vital = self.buckets_that_need(host);
        let held: Vec<BucketId> = self.hosts[host].disk.settled.replicas.keys().copied().collect();
        let spare: Vec<BucketId> = held.into_iter().filter(|b| !vital.contains(b)).collect();
        // A parent's log may be what a child is still to be made of, elsewhere too: damage only what stands alone.
        let Some(bucket) = self.rng.pick(&spare).copied() else { return false };
        let split_pending = self.meta.blueprint.reserved.iter().next().is_some();
        if split_pending {
            return false;
        }
        if self.hosts[host].is_up() {
            self.crash(host);
        }
        if let Some(member) = self.hosts[host].disk.damage(bucket) {
            self.trace.line(self.time, host, || format!("{bucket} {member} damaged"));
        }
        self.after(down_for, Event::Restart { host });
        true
    }

    /// Buckets of which this host may be the last one to hold everything.
    fn buckets_that_need(&self, host: usize) -> Vec<BucketId> {
        let me = self.hosts[host].id;
        let blueprint = &self.meta.blueprint;
        let mut vital = Vec::new();
        for bucket in blueprint.buckets.values() {
            let Some(government) = bucket.government() else { continue };
            let copies = government.members().chain(government.heirs.iter().copied());
            // Two that are bound have one fate: a copy counts beside one of the other bucket (decision 0024; seed 4308).
            let other =
                bucket.bond.and_then(|bond| bond.partner()).and_then(|id| Some((id, blueprint.government(id)?)));
            let holds_other = |node: NodeId| {
                other.is_none_or(|(id, government)| government.named(node).is_some_and(|m| self.holds(m, id)))
            };
            let held_elsewhere = copies
                .filter(|m| m.node != me)
                .any(|m| self.holds(m, bucket.id) && holds_other(m.node) && self.is_heard(m.node));
            let part = government.members().any(|m| m.node == me) || government.heirs.iter().any(|h| h.node == me);
            // Where one copy is wanted, the other is about to be sent away, by a proposal that may be under way already.
            let one_wanted = self.plan.replicas == 1 || blueprint.wanted(bucket.id) == 1;
            if part && (!held_elsewhere || one_wanted) {
                vital.push(bucket.id);
                vital.extend(self.hosts[host].disk.needed_by(bucket.id));
            }
        }
        vital
    }

    /// Whoever names a successor has heard from it, whoever dismisses a secondary has heard from the primary, and whoever makes a keyspace
    /// from those that are to hold it: the directory says who is there and holds what. Otherwise a live copy could be sent away in favour of
    /// a dead one, or the only copy be one on a disk that is gone (seed 217).
    pub(crate) fn would_orphan(&self, command: &Proposal) -> bool {
        match command {
            Proposal::Succeed { bucket, change: Change::Usurp { to, .. }, .. } => !self.holds(*to, *bucket),
            Proposal::Succeed { bucket, change: Change::Dismiss { secondary, .. }, .. } => {
                self.holds(*secondary, *bucket)
                    && !self.government(*bucket).is_some_and(|g| self.holds(g.primary, *bucket))
            }
            Proposal::CreateKeyspace { placement, .. } => {
                placement.iter().any(|row| !row.iter().any(|node| self.index.contains_key(node)))
            }
            _ => false,
        }
    }

    /// Is it there for most of the others? Who is not may be about to depart, in favour of a copy that has just been destroyed:
    /// (seed 142 once) 1. n2 is wiped; 2. n1 is paused for five seconds; 3. n3 is wiped; 4. n1 departs, and n3 is to lead, which answered a moment ago; 5. n1 is back, has
    /// no part in it any more, and erases what was the last copy. That is three failures of three copies.
    fn is_heard(&self, node: NodeId) -> bool {
        let Some(&host) = self.index.get(&node) else { return false };
        let target = &self.hosts[host];
        let passes = |other: &usize| {
            let (to, back) =
                (self.network.passes(*other, host, self.time), self.network.passes(host, *other, self.time));
            *other != host && self.hosts[*other].is_up() && to && back
        };
        let others = (0..self.hosts.len()).filter(passes).count();
        target.responds(self.time) && target.freeze_next.is_none() && 2 * others >= self.hosts.len() - 1
    }

    /// Somebody takes a live primary for dead: safe, if unfortunate.
    fn false_alarm(&mut self) -> bool {
        let buckets: Vec<BucketId> = self.meta.blueprint.buckets.keys().copied().collect();
        let Some(bucket) = self.rng.pick(&buckets).copied() else { return false };
        let Some(government) = self.government(bucket).cloned() else { return false };
        let able = if government.secondaries.is_empty() { &government.heirs } else { &government.secondaries };
        let Some(to) = self.rng.pick(able).copied() else { return false };
        // There is a reason: nobody reaches it, and often it does not hear of its end for a while.
        if let Some(&primary) = self.index.get(&government.primary.node) {
            let until = self.time + self.rng.around(600 * MILLI);
            if self.rng.percent(50) {
                for other in (0..self.hosts.len()).filter(|h| *h != primary) {
                    self.network.cut(primary, other, until);
                    self.network.cut(other, primary, until);
                }
            }
            if self.rng.percent(60) {
                self.hosts[primary].meta_cut_until = until;
            }
        }
        let change = match self.rng.range(0, 9) {
            0 => Change::Usurp { to, fate: Fate::Stalled },
            1 => Change::Renew { primary: to },
            _ => Change::Usurp { to, fate: Fate::Leaves },
        };
        self.propose(Proposal::Succeed { bucket, replaces: government.term, change });
        true
    }
}
