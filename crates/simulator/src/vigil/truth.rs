//! `waits_are_true`: whatever a node or a coordinator says that it waits for is really lacking.
//!
//! Each wait is judged right after the reaction that listed it, in the situation that an all-knowing node would be in: its own
//! replicas, the directory as every node would fill it in at this instant, and the blueprint of the meta group. A node cannot know
//! that much, so one look proves nothing: 1. n2 begins to serve; 2. n3 reacts, and says that it waits for n2 to serve; 3. n2's row
//! arrives. What is forbidden is to *go on* saying it: a wait that was shown and false at every reaction for longer than news
//! take, while nothing kept news from that node. The clock of that begins anew whenever the wait was true for once, or was not
//! shown, or a fault hit the node. (Waiting for quiet everywhere would be simpler, and would hardly ever look.)
//!
//! A blueprint that was the newest a moment ago counts as the truth, or a node would look wrong in everything that it says while
//! one change follows the other.

use std::collections::BTreeMap;

use blueprint::{Blueprint, BucketId, Conduct, Epoch, Member, NodeId, OperationState};
use reactor::coordinator::{self, Comes, Subject, Until};
use reactor::{BucketRow, Directory, NodeRow, Part, Sighting, Standing, Wait};

use super::NEWS;
use crate::host::Host;
use crate::plan::SECOND;
use crate::world::{Verdict, World, fail};

#[derive(Debug, Default)]
pub(super) struct Truth {
    /// Per host and lane: when it was judged last, and since when it says what is not true.
    lanes: BTreeMap<(usize, u16), Judged>,
}

#[derive(Debug, Default)]
struct Judged {
    at: u64,
    life: u32,
    false_since: BTreeMap<Claim, u64>,
}

/// What is claimed, apart from the words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Node { rule: &'static str, bucket: Option<BucketId>, condition: &'static str, whom: Vec<NodeId> },
    Coordinator(Subject, Until),
}

/// A coordinator asks everybody in each round, four times a second, and misses whoever is silent for six.
const ROUNDS: u64 = 3 * SECOND;
/// No node is judged more often than this: a wait that is over sooner is nobody's concern.
const PAUSE: u64 = SECOND;

impl<C: Conduct> World<C> {
    pub(super) fn judge_waits(&mut self, host: usize, lane: u16) -> Verdict {
        let (time, life) = (self.time, self.hosts[host].life);
        let Some(node) = self.hosts[host].node() else { return Ok(()) };
        let reacting = &node.lanes()[usize::from(lane)];
        let now = self.hosts[host].clock.local(time);
        let last = self.vigil.truth.lanes.get(&(host, lane)).filter(|judged| judged.life == life);
        if reacting.reacted_at() != now || last.is_some_and(|last| time - last.at < PAUSE) {
            return Ok(());
        }
        let standing: Vec<Standing> = reacting.waits().cloned().collect();
        // The desk has no lane of its own: its coordinator is heard with the first.
        let coordinating = if lane == 0 { node.coordinator().waits() } else { Vec::new() };
        let directory = if standing.is_empty() { Directory::default() } else { self.true_directory(host) };
        let waits: Vec<&Wait> = standing.iter().map(|s| &s.wait).collect();
        let verdicts = reacting.are_true(now, &waits, &directory, self.newest_for(reacting.blueprint().epoch));
        let informed = self.informed_since(host);
        let mut judged = Judged { at: time, life, false_since: BTreeMap::new() };
        let mut check = |claim: Claim, holds: bool, patience: u64, text: &dyn Fn() -> String| {
            if holds {
                return Ok(());
            }
            let before = last.and_then(|last| last.false_since.get(&claim)).copied().unwrap_or(time);
            let since = before.max(informed);
            judged.false_since.insert(claim, since);
            if time - since <= patience {
                return Ok(());
            }
            let seconds = (time - since) / SECOND;
            fail("waits_are_true", format!("{}: {} (untrue for {seconds} s)", self.hosts[host].id, text()))
        };
        for (standing, holds) in standing.iter().zip(verdicts) {
            let Wait { rule, bucket, condition, whom, .. } = &standing.wait;
            let claim = Claim::Node { rule, bucket: *bucket, condition, whom: whom.nodes().to_vec() };
            check(claim, holds, self.patience(), &|| reactor::describe(&standing.wait, Some(standing.waited(now))))?;
        }
        for wait in &coordinating {
            let holds = self.is_lacking(host, wait);
            let claim = Claim::Coordinator(wait.about, wait.until.clone());
            check(claim, holds, ROUNDS, &|| format!("coordinator: {wait}"))?;
        }
        let untrue = judged.false_since.len() as u64;
        self.tally.count("waits judged: of nodes", standing.len() as u64);
        self.tally.count("waits judged: of coordinators", coordinating.len() as u64);
        self.tally.count("waits judged: behind the truth, but not for long", untrue);
        self.vigil.truth.lanes.insert((host, lane), judged);
        Ok(())
    }

    /// None while its own is the newest, or was a moment ago.
    fn newest_for(&self, epoch: Epoch) -> Option<&Blueprint> {
        let old = self.vigil.superseded(epoch).is_some_and(|at| self.time - at > NEWS);
        old.then_some(&*self.meta.blueprint)
    }

    /// What this host would know if everybody told it everything at once.
    fn true_directory(&self, host: usize) -> Directory {
        let mut directory = Directory::default();
        for (other, h) in self.hosts.iter().enumerate().filter(|(other, _)| *other != host) {
            let mut sighting = h.node().map_or_else(|| asleep(h), node::Node::sighting);
            sighting.reachable = self.in_touch(host, other);
            sighting.heard = self.hosts[host].clock.local(self.time);
            *directory.sighting_mut(h.id) = sighting;
        }
        directory
    }

    /// Is this really what stands in the coordinator's way? By the newest blueprint, and by who could answer it.
    fn is_lacking(&self, host: usize, wait: &coordinator::Wait) -> bool {
        let (blueprint, reports) = (&self.meta.blueprint, &self.meta.state.reports);
        let answers = |node: NodeId| self.reaches(host, node);
        let government = |bucket| blueprint.government(bucket);
        let (operation, at) = match wait.about {
            Subject::Operation { id, step } => {
                let Some(operation) = blueprint.operations.get(&id) else { return false };
                if operation.is_over() || operation.at > step {
                    return false;
                }
                (Some(operation), step)
            }
            Subject::Coordinator | Subject::Node(_) | Subject::Bucket(_) | Subject::Balance => (None, 0),
        };
        let bucket = match wait.about {
            Subject::Bucket(bucket) => Some(bucket),
            _ => operation.and_then(|o| o.steps.get(at as usize)).and_then(blueprint::Step::bucket),
        };
        let governed = bucket.and_then(government);
        let is_member = |node: NodeId| governed.is_some_and(|g| g.members().any(|m| m.node == node));
        let holds_of = |m: Member| answers(m.node) && bucket.is_some_and(|b| self.has_whole(m, b));
        match &wait.until {
            // A matter of a few rounds: whoever does not answer is missed after that.
            Until::EveryoneWasAsked { .. } => false,
            Until::MetaAnswers => self.meta.away_until > self.time || self.hosts[host].meta_cut_until > self.time,
            Until::SilentToMost { node, .. } => {
                blueprint.is_present(*node) && !answers(*node) && !reports.is_silent_to_most(*node)
            }
            Until::ReportsSettled => !reports.is_settled(self.meta.state.clock),
            Until::HeardByMost { node, .. } => !blueprint.is_present(*node) && !reports.is_heard_by_most(*node),
            Until::NameIsFree { node, by } => {
                let name = blueprint.nodes.get(node).map(|n| &n.name);
                name.is_some_and(|name| blueprint.node_named(name).is_some_and(|n| n.id == *by))
            }
            Until::SuccessorAnswers { primary, among } => governed.is_some_and(|g| {
                // Who answers here may have departed all the same: most coordinators do not hear it.
                let is_able = |m: &&Member| among.contains(&m.node) && blueprint.is_present(m.node);
                let able = g.secondaries.iter().chain(&g.heirs).filter(is_able);
                g.primary.node == *primary && !blueprint.is_present(*primary) && !able.copied().any(holds_of)
            }),
            Until::PrimaryHolds { primary, .. } => {
                governed.is_some_and(|g| g.primary.node == *primary && !holds_of(g.primary))
            }
            Until::Answers(node) => !answers(*node),
            Until::Seated { node, .. } => !is_member(*node),
            Until::Leads { node, .. } => governed.is_some_and(|g| g.primary.node != *node),
            Until::Alike { bucket, into, .. } => blueprint.unlike(*bucket, *into).is_some(),
            Until::Merged { bucket, .. } => government(*bucket).is_some(),
            Until::EnoughMembers { leaves, comes, .. } => governed.is_some_and(|g| {
                let others = g.members().filter(|m| m.node != *leaves).count();
                let has_part = |node: NodeId| g.members().chain(g.candidates.iter().copied()).any(|m| m.node == node);
                let may = |node: &NodeId| !blueprint.drains(*node) || !g.in_sync();
                let is_free = |node: &NodeId| blueprint.is_present(*node) && !has_part(*node) && may(node);
                let is_from_there = match comes {
                    Comes::Candidates(nodes) => nodes.iter().any(|n| g.candidates.iter().any(|m| m.node == *n)),
                    Comes::ByRecovery => blueprint.nodes.keys().any(is_free),
                    Comes::FromNowhere => !blueprint.nodes.keys().any(is_free),
                };
                let lacks = bucket.is_some_and(|bucket| others < blueprint.wanted(bucket));
                has_part(*leaves) && lacks && is_from_there
            }),
            Until::MembersForMinimum { min, .. } => governed.is_some_and(|g| g.size() < usize::from(*min)),
            Until::Erased { keyspace, .. } => blueprint.keyspaces.contains_key(keyspace),
            Until::Registered { child, .. } => !blueprint.buckets.contains_key(child),
            Until::ActsOn { node, epoch } => {
                let acts_on = self.index.get(node).and_then(|i| self.hosts[*i].node()).map(|n| n.blueprint().epoch);
                acts_on.is_none_or(|acts_on| acts_on < *epoch)
            }
            // Proposed again and again; when it was accepted the step, the node's state or the bucket's term has moved on.
            Until::Accepted { .. } => match wait.about {
                Subject::Operation { .. } => true,
                Subject::Node(node) => {
                    blueprint.nodes.contains_key(&node) && blueprint.is_present(node) != answers(node)
                }
                Subject::Bucket(_) => {
                    governed.is_some_and(|g| g.everyone().any(|m| !blueprint.is_present(m.node) || !answers(m.node)))
                }
                Subject::Coordinator | Subject::Balance => false,
            },
            Until::Calm(unrest) => blueprint.unrest() == Some(*unrest),
            Until::Unchanged { for_long } => {
                let changed = self.vigil.epochs.get(&blueprint.epoch).copied().unwrap_or_default();
                self.time - changed < 2 * for_long.as_micros() as u64
            }
            Until::Rested { after, .. } => blueprint.automatic_setback().is_some_and(|o| o.id == *after),
            Until::Resumed => operation.is_some_and(|o| o.state == OperationState::Paused),
            Until::Restarted { node, .. } => {
                let lives = blueprint.nodes.get(node).map_or(0, |n| n.life);
                let step = operation.and_then(|o| o.step());
                matches!(step, Some(blueprint::Step::AwaitRestart { life, .. }) if lives <= *life)
            }
        }
    }

    fn has_whole(&self, member: Member, bucket: BucketId) -> bool {
        let node = self.index.get(&member.node).and_then(|i| self.hosts[*i].node());
        node.and_then(|n| n.phaser(bucket)).is_some_and(|p| p.me() == member && p.is_whole())
    }
}

/// A node that is down serves nothing, and has what is on its disk.
fn asleep<C>(host: &Host<C>) -> Sighting {
    let settled = &host.disk.settled;
    let row = |bucket: &BucketId, d: &phaser::Durable| BucketRow {
        incarnation: d.me.incarnation,
        promised: d.promised,
        part: if settled.doubtful.contains(bucket) { Part::Aside } else { Part::Follows },
        applied: d.log.base().index,
        last: d.log.last(),
        missing: 0,
        amiss: 0,
        bytes: 0,
    };
    Sighting {
        node: NodeRow { echoed: settled.epochs.values().copied().min().unwrap_or_default(), ..NodeRow::default() },
        buckets: settled.replicas.iter().map(|(bucket, durable)| (*bucket, row(bucket, durable))).collect(),
        ..Sighting::default()
    }
}
