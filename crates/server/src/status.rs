//! How the cluster is, as this node sees it: for people, problems first, and for programs.

use std::collections::BTreeMap;
use std::time::Duration;

use blueprint::{Blueprint, BucketId, Intent, NodeId, OperationState};
use meta::MetaStatus;
use reactor::{BucketRow, Directory, Part};
use serde::{Deserialize, Serialize};

use crate::addresses::Addresses;
use crate::names::named;

/// Some elections long.
const UNHEARD: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    pub cluster: String,
    /// The node that says so.
    pub node: String,
    pub name: String,
    pub version: String,
    pub epoch: u64,
    /// What somebody should look at, the worst first.
    pub problems: Vec<String>,
    pub nodes: Vec<NodeStatus>,
    pub keyspaces: Vec<KeyspaceStatus>,
    pub buckets: Vec<BucketStatus>,
    pub meta: MetaView,
    pub operations: Vec<String>,
    #[serde(default)]
    pub auto_rebalance: AutoRebalanceView,
}

/// Whether the cluster rebalances by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoRebalanceView {
    pub on: bool,
    /// Who asked for it.
    pub by: String,
    /// Of those that came of it: the one under way, or else how the last one ended badly, after which it rests.
    pub operation: String,
    pub why: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    pub id: String,
    pub name: String,
    pub zone: String,
    /// `present` or `departed`.
    pub state: String,
    /// `draining` (it keeps its copies and leads nothing), `leaving` (others take them, too), or nothing.
    #[serde(default)]
    pub intent: String,
    /// Does this node hear it?
    pub reachable: bool,
    pub leads: usize,
    pub follows: usize,
    /// The newest epoch that it acts on, as far as it has told.
    pub echoed: u64,
    pub cluster: String,
    pub any: String,
    pub http: String,
    pub peers: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyspaceStatus {
    pub name: String,
    pub replicas: u8,
    pub durability: String,
    pub buckets: usize,
    pub serving: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BucketStatus {
    pub id: String,
    pub keyspace: String,
    pub slots: String,
    pub term: u64,
    pub primary: String,
    pub secondaries: Vec<String>,
    pub candidates: Vec<String>,
    pub heirs: Vec<String>,
    pub min_in_sync: u8,
    /// Does its primary say that it serves?
    pub serving: bool,
    /// What the primary has applied.
    pub applied: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MetaView {
    pub role: String,
    pub leader: Option<String>,
    pub voters: Vec<String>,
    pub term: u64,
    pub applied: u64,
}

impl AutoRebalanceView {
    pub(crate) fn of(blueprint: &Blueprint) -> Self {
        let Some(wish) = &blueprint.auto_rebalance else { return Self::default() };
        let under_way = blueprint.operations.values().find(|o| o.is_automatic() && o.is_under_way());
        let setback = blueprint.automatic_setback();
        let why = match setback.map(|operation| &operation.state) {
            Some(OperationState::Failed { why }) => format!("failed: {}", named(&why.to_string(), blueprint)),
            Some(OperationState::Cancelled { why }) => format!("cancelled: {why}"),
            _ => String::new(),
        };
        let operation = under_way.or(setback).map(|operation| operation.id.to_string()).unwrap_or_default();
        Self { on: true, by: wish.by.clone(), operation, why }
    }
}

/// What it is made of.
pub(crate) struct Facts<'a> {
    pub(crate) me: NodeId,
    pub(crate) blueprint: &'a Blueprint,
    pub(crate) directory: &'a Directory,
    /// Of this node.
    pub(crate) own: BTreeMap<BucketId, BucketRow>,
    pub(crate) meta: &'a MetaStatus,
    pub(crate) links_down: Vec<(NodeId, String, String)>,
    pub(crate) journal: Option<String>,
}

impl Facts<'_> {
    pub(crate) fn status(&self) -> Status {
        let blueprint = self.blueprint;
        let buckets: Vec<BucketStatus> = blueprint.buckets.values().filter_map(|bucket| self.bucket(bucket)).collect();
        Status {
            cluster: self.meta.cluster.to_string(),
            node: self.me.to_string(),
            name: self.name(self.me),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: blueprint.epoch.0,
            problems: self.problems(&buckets),
            nodes: blueprint.nodes.values().map(|node| self.node(node)).collect(),
            keyspaces: self.keyspaces(&buckets),
            buckets,
            meta: MetaView {
                role: format!("{:?}", self.meta.role).to_lowercase(),
                leader: self.leader().map(|node| self.name(node)),
                voters: self.meta.voters.iter().map(|node| self.name(*node)).collect(),
                term: self.meta.term,
                applied: self.meta.applied,
            },
            operations: blueprint.operations.values().filter(|o| o.is_under_way()).map(|o| o.id.to_string()).collect(),
            auto_rebalance: AutoRebalanceView::of(blueprint),
        }
    }

    /// One that has not heard most voters for a while leads nobody, and may be the last to know.
    fn leader(&self) -> Option<NodeId> {
        let is_heard = self.meta.quorum_heard.is_none_or(|ago| ago < UNHEARD);
        self.meta.leader.filter(|leader| *leader != self.me || is_heard)
    }

    fn name(&self, node: NodeId) -> String {
        self.blueprint.nodes.get(&node).map_or_else(|| node.to_string(), |node| node.name.clone())
    }

    fn row(&self, node: NodeId, bucket: BucketId) -> Option<&BucketRow> {
        if node == self.me { self.own.get(&bucket) } else { self.directory.row(node, bucket) }
    }

    fn is_reachable(&self, node: NodeId) -> bool {
        node == self.me || self.directory.is_reachable(node)
    }

    fn node(&self, node: &blueprint::Node) -> NodeStatus {
        let governments = || self.blueprint.buckets.values().filter_map(blueprint::Bucket::government);
        let addresses = Addresses::from_blueprint(&node.addresses);
        NodeStatus {
            id: node.id.to_string(),
            name: node.name.clone(),
            zone: node.zone.clone(),
            state: if self.blueprint.is_present(node.id) { "present" } else { "departed" }.to_owned(),
            intent: match node.intent {
                Intent::Stays => "",
                Intent::Drains => "draining",
                Intent::Goes => "leaving",
            }
            .to_owned(),
            reachable: self.is_reachable(node.id),
            leads: governments().filter(|g| g.primary.node == node.id).count(),
            follows: governments().filter(|g| g.secondaries.iter().any(|m| m.node == node.id)).count(),
            echoed: if node.id == self.me { self.blueprint.epoch.0 } else { self.directory.echoed(node.id).0 },
            cluster: addresses.cluster,
            any: addresses.any,
            http: addresses.http,
            peers: addresses.peers,
        }
    }

    fn bucket(&self, bucket: &blueprint::Bucket) -> Option<BucketStatus> {
        let government = bucket.government()?;
        let names = |members: &[blueprint::Member]| members.iter().map(|m| self.name(m.node)).collect();
        let row = self
            .row(government.primary.node, bucket.id)
            .filter(|row| row.incarnation == government.primary.incarnation);
        let keyspace = self.blueprint.keyspaces.get(&bucket.keyspace);
        Some(BucketStatus {
            id: bucket.id.to_string(),
            keyspace: keyspace.map(|k| k.name.clone()).unwrap_or_default(),
            slots: bucket.slots.to_string(),
            term: government.term.0,
            primary: self.name(government.primary.node),
            secondaries: names(&government.secondaries),
            candidates: names(&government.candidates),
            heirs: names(&government.heirs),
            min_in_sync: government.min_in_sync,
            serving: row.is_some_and(|row| row.part == Part::Serves) && self.is_reachable(government.primary.node),
            applied: row.map_or(0, |row| row.applied.0),
        })
    }

    fn keyspaces(&self, buckets: &[BucketStatus]) -> Vec<KeyspaceStatus> {
        let of = |name: &str| buckets.iter().filter(|b| b.keyspace == name).collect::<Vec<_>>();
        let keyspace = |keyspace: &blueprint::Keyspace| {
            let buckets = of(&keyspace.name);
            KeyspaceStatus {
                name: keyspace.name.clone(),
                replicas: keyspace.replicas,
                durability: format!("{:?}", keyspace.durability).to_lowercase(),
                buckets: buckets.len(),
                serving: buckets.iter().filter(|b| b.serving).count(),
            }
        };
        let there = self.blueprint.keyspaces.values().filter(|keyspace| !self.blueprint.is_removed(keyspace.id));
        there.map(keyspace).collect()
    }

    fn problems(&self, buckets: &[BucketStatus]) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(why) = &self.journal {
            problems.push(format!("the disk of this node: {why}"));
        }
        if self.leader().is_none() {
            problems.push(
                "the meta group has no leader: nothing about the cluster can change until most of its voters run"
                    .into(),
            );
        }
        let unserved: Vec<&BucketStatus> = buckets.iter().filter(|b| !b.serving).collect();
        if !unserved.is_empty() {
            let some: Vec<&str> = unserved.iter().take(5).map(|b| b.id.as_str()).collect();
            let and = if unserved.len() > 5 { " …" } else { "" };
            let (count, some) = (unserved.len(), some.join(" "));
            problems.push(format!(
                "{count} of {} buckets do not serve ({some}{and}): 'godwit why {}' says why",
                buckets.len(),
                unserved[0].id
            ));
        }
        // One whose name another data directory has taken over will never be back, and nobody misses it.
        let is_missed = |id| !self.blueprint.is_present(id) && !self.blueprint.is_replaced(id);
        for node in self.blueprint.nodes.values().filter(|node| is_missed(node.id)) {
            problems.push(format!("{} has departed: start it again, or its copies are made anew elsewhere", node.name));
        }
        let short = |bucket: &&BucketStatus| {
            let keyspace = self.blueprint.keyspace_named(&bucket.keyspace);
            keyspace.is_some_and(|k| 1 + bucket.secondaries.len() < usize::from(k.replicas))
        };
        let short: Vec<&BucketStatus> = buckets.iter().filter(short).collect();
        if let Some(first) = short.first() {
            problems.push(format!(
                "{} of {} buckets have fewer copies than wanted: 'godwit why {}' says what their recovery waits for",
                short.len(),
                buckets.len(),
                first.id
            ));
        }
        let present = |(node, ..): &&(NodeId, String, String)| self.blueprint.is_present(*node);
        for (node, address, why) in self.links_down.iter().filter(present) {
            problems.push(format!("{} cannot be reached from here at {address}: {why}", self.name(*node)));
        }
        if self.blueprint.keyspaces.is_empty() {
            problems
                .push("there is no keyspace yet, so nothing can be stored: 'godwit keyspace default' makes one".into());
        }
        problems
    }
}
