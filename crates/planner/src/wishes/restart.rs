//! Every node is started anew, one after the other, and nobody who writes should notice.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use blueprint::{MAX_STEPS, NodeId, Step};

use crate::draft::Draft;
use crate::objection::Objection;
use crate::plan::{Plan, PlannedStep, Summary};
use crate::sketch::{BucketAt, NodeAt, SiteState};
use crate::words::count;

impl Draft<'_> {
    /// Of each node: others lead what it leads; it is started anew; it has its parts again; it leads again what it led. Before the next
    /// one's turn every bucket is as it was.
    pub(crate) fn rolling_restart(&mut self, nodes: &[NodeId]) -> Option<Plan> {
        let nodes = self.in_turn(nodes)?;
        let (mut steps, mut cuts, mut summary) = (Vec::new(), Vec::new(), Summary::default());
        let mut leads = self.leads();
        for node in nodes.iter().copied() {
            let all = self.restart_of(node, &mut leads);
            if all.len() > MAX_STEPS {
                let (node, steps) = (self.sketch.nodes[node].id, all.len());
                self.object(Objection::TooManySteps { node, steps });
                return None;
            }
            if steps.len() - cuts.last().copied().unwrap_or(0) + all.len() > MAX_STEPS {
                cuts.push(steps.len());
            }
            steps.extend(all);
        }
        let held =
            self.buckets_where(|sketch, bucket| nodes.iter().any(|n| sketch.buckets[bucket].members.contains(n)));
        summary.buckets = held.len();
        summary.hand_overs = steps.iter().filter(|s: &&PlannedStep| matches!(s.step, Step::HandOver { .. })).count();
        for piece in held.iter().map(|at| &self.sketch.buckets[*at]) {
            let fewest = summary.fewest_members.entry(piece.keyspace).or_insert(usize::MAX);
            *fewest = piece.members.len().min(*fewest);
        }
        if !steps.is_empty() {
            cuts.push(steps.len());
        }
        let why = match steps.is_empty() {
            true => "they hold nothing: restart them whenever you like".into(),
            false => format!("{} started anew, one after the other", count(nodes.len(), "node is", "nodes are")),
        };
        Some(Plan { based_on: self.blueprint.epoch, why, steps, summary, cuts })
    }

    /// Those that are named, or all that are present, in the order of their names.
    fn in_turn(&mut self, named: &[NodeId]) -> Option<Vec<NodeAt>> {
        let mut nodes = Vec::new();
        if named.is_empty() {
            nodes.extend((0..self.sketch.nodes.len()).filter(|at| self.sketch.nodes[*at].state != SiteState::Departed));
        }
        for id in named {
            let node = self.known_node(*id)?;
            if self.sketch.nodes[node].state == SiteState::Departed {
                self.object(Objection::DepartedNode(*id));
                return None;
            }
            nodes.push(node);
        }
        let name = |node: &NodeAt| -> (usize, String) {
            let name = &self.blueprint.nodes[&self.sketch.nodes[*node].id].name;
            (name.len(), name.clone()) // node-2 comes before node-10
        };
        nodes.sort_by_key(name);
        nodes.dedup();
        Some(nodes)
    }

    fn leads(&self) -> BTreeMap<NodeAt, usize> {
        let mut leads = BTreeMap::new();
        for piece in &self.sketch.buckets {
            *leads.entry(piece.leader).or_default() += 1;
        }
        leads
    }

    fn restart_of(&mut self, node: NodeAt, leads: &mut BTreeMap<NodeAt, usize>) -> Vec<PlannedStep> {
        let id = self.sketch.nodes[node].id;
        let life = self.blueprint.nodes[&id].life;
        let held = self.buckets_where(|sketch, bucket| sketch.buckets[bucket].members.contains(&node));
        let held: Vec<BucketAt> = held.into_iter().filter(|bucket| self.is_free(*bucket)).collect();
        let (mut away, mut back) = (Vec::new(), Vec::new());
        let led: Vec<BucketAt> = held.iter().copied().filter(|at| self.sketch.buckets[*at].leader == node).collect();
        for at in led {
            let bucket = self.sketch.buckets[at].id;
            let Some(to) = self.stand_in(at, node, leads) else {
                self.object(Objection::NobodyToLead { node: id, buckets: bucket.into() });
                continue;
            };
            *leads.entry(to).or_default() += 1;
            let step = Step::HandOver { bucket, to: self.sketch.nodes[to].id };
            away.push(PlannedStep { step, why: format!("{id} leads and is to be restarted"), bytes: 0 });
            let step = Step::HandOver { bucket, to: id };
            back.push((to, PlannedStep { step, why: format!("{id} led it before"), bytes: 0 }));
        }
        let restart = |at: &BucketAt| PlannedStep {
            step: Step::AwaitRestart { bucket: self.sketch.buckets[*at].id, node: id, life },
            why: "then the next".into(),
            bytes: 0,
        };
        let mut steps = away;
        steps.extend(held.iter().map(restart));
        for (to, step) in back {
            *leads.entry(to).or_default() -= 1;
            steps.push(step);
        }
        steps
    }

    /// Another member that may lead: who leads least.
    fn stand_in(&self, bucket: BucketAt, node: NodeAt, leads: &BTreeMap<NodeAt, usize>) -> Option<NodeAt> {
        let others = self.sketch.buckets[bucket].members.iter().copied();
        let able = others.filter(|other| *other != node && self.sketch.nodes[*other].state == SiteState::Open);
        able.min_by_key(|other| (leads.get(other).copied().unwrap_or_default(), *other))
    }
}
