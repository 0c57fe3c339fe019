//! A few nodes in one process, with a network that can be cut and loses things, and their files in a directory of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use blueprint::{Blueprint, Command, CoordinatorId, Durability, Kind, NodeId, Report};
use bytes::Bytes;
use meta::{Carrier, CarryError, ClusterId, Embedded, Identity, Meta, NewNode, Pending, ProposeError, Role, Settings};

pub(crate) const CLUSTER: ClusterId = ClusterId(0x60d317);
/// Nothing takes that long unless it never comes.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) net: Arc<Net>,
    pub(crate) settings: Settings,
    dir: tempfile::TempDir,
}

#[derive(Default)]
pub(crate) struct Net {
    nodes: Mutex<BTreeMap<NodeId, Embedded>>,
    /// Who hears nothing of whom: what is sent there is gone.
    cut: Mutex<BTreeSet<(NodeId, NodeId)>>,
    /// Of a hundred requests, so many are lost on the way there, and as many answers on the way back.
    pub(crate) loss: AtomicU64,
    /// What gets through takes up to so many milliseconds each way.
    pub(crate) delay: AtomicU64,
    dice: AtomicU64,
}

struct Link {
    net: Arc<Net>,
    from: NodeId,
}

impl Carrier for Link {
    fn call(&self, to: NodeId, request: Bytes) -> Pending<'_, Result<Bytes, CarryError>> {
        let (net, from) = (Arc::clone(&self.net), self.from);
        Box::pin(async move {
            net.pass(from, to).await?;
            let Some(node) = net.node(to) else { return Err(CarryError::NotSent(to)) };
            // It goes on even if nobody waits for it any more.
            let served = tokio::spawn(async move { node.serve(from, request).await }).await;
            let answer = served.map_err(|_| CarryError::NoAnswer(to))?;
            net.pass(to, from).await?;
            Ok(answer)
        })
    }
}

impl Net {
    async fn pass(&self, from: NodeId, to: NodeId) -> Result<(), CarryError> {
        if self.cut.lock().unwrap().contains(&(from, to)) {
            std::future::pending::<()>().await;
        }
        if self.roll(100) < self.loss.load(Ordering::Relaxed) {
            return Err(CarryError::NoAnswer(to));
        }
        let delay = self.delay.load(Ordering::Relaxed);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(self.roll(delay + 1))).await;
        }
        Ok(())
    }

    fn roll(&self, sides: u64) -> u64 {
        let next = |dice: u64| Some(dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        let dice = self.dice.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap();
        (dice >> 33) % sides
    }

    fn node(&self, id: NodeId) -> Option<Embedded> {
        self.nodes.lock().unwrap().get(&id).cloned()
    }

    /// Nobody of the one side hears anyone of the other.
    pub(crate) fn part(&self, one: &[u64], other: &[u64]) {
        let mut cut = self.cut.lock().unwrap();
        for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (NodeId(*a), NodeId(*b)))) {
            cut.insert((a, b));
            cut.insert((b, a));
        }
    }

    pub(crate) fn heal(&self) {
        self.cut.lock().unwrap().clear();
    }
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { net: Arc::default(), settings, dir: tempfile::tempdir().expect("a directory for a test") }
    }

    pub(crate) fn path(&self, id: u64) -> PathBuf {
        self.dir.path().join(format!("n{id}.redb"))
    }

    pub(crate) fn link(&self, id: u64) -> Arc<dyn Carrier> {
        Arc::new(Link { net: Arc::clone(&self.net), from: NodeId(id) })
    }

    /// Node 1 starts it, the others join in their order.
    pub(crate) async fn with_nodes(settings: Settings, nodes: u64) -> Self {
        let world = Self::new(settings);
        let identity = Identity { cluster: CLUSTER, me: NodeId(1) };
        let first = vec![new_node(1).command(NodeId(1))];
        let node = Embedded::init(&world.path(1), identity, first, world.link(1), world.settings.clone()).await;
        world.enter(1, node.expect("a new cluster"));
        for id in 2..=nodes {
            world.join(id, &[1]).await;
        }
        if nodes >= 3 {
            world.until("three voters", || world.voters().len() == world.settings.voters.min(nodes as usize)).await;
        }
        world
    }

    pub(crate) async fn join(&self, id: u64, seeds: &[u64]) {
        let seeds = seeds.iter().map(|s| NodeId(*s)).collect();
        let (path, link) = (self.path(id), self.link(id));
        let node = Embedded::join(&path, NodeId(id), &new_node(id), seeds, link, self.settings.clone()).await;
        self.enter(id, node.expect("it may join"));
    }

    pub(crate) async fn reopen(&self, id: u64) {
        let (path, link) = (self.path(id), self.link(id));
        let node = Embedded::open(&path, NodeId(id), Some(CLUSTER), Vec::new(), link, self.settings.clone()).await;
        self.enter(id, node.expect("it was here before"));
    }

    fn enter(&self, id: u64, node: Embedded) {
        let (beating, heartbeat) = (node.clone(), self.settings.heartbeat);
        tokio::spawn(async move {
            while beating.beat() {
                tokio::time::sleep(heartbeat).await;
            }
        });
        self.net.nodes.lock().unwrap().insert(NodeId(id), node);
    }

    /// Not a word leaves it any more, from this moment on.
    pub(crate) async fn kill(&self, id: u64) {
        let node = self.net.nodes.lock().unwrap().remove(&NodeId(id)).expect("it runs");
        node.shutdown().await;
    }

    pub(crate) fn node(&self, id: u64) -> Embedded {
        self.net.node(NodeId(id)).expect("it runs")
    }

    pub(crate) fn running(&self) -> Vec<u64> {
        self.net.nodes.lock().unwrap().keys().map(|id| id.0).collect()
    }

    /// Whoever leads, if only one says so.
    pub(crate) fn leader(&self) -> Option<u64> {
        let leads = |id: &u64| self.node(*id).status().role == Role::Leader;
        let leaders: Vec<u64> = self.running().into_iter().filter(leads).collect();
        if leaders.len() == 1 { Some(leaders[0]) } else { None }
    }

    /// As the leader sees them and those of them who run, when no change is under way; else none.
    pub(crate) fn voters(&self) -> BTreeSet<u64> {
        let Some(leader) = self.leader() else { return BTreeSet::new() };
        let said = self.node(leader).status();
        let settled = |id: &u64| {
            let status = self.node(*id).status();
            status.voters == said.voters && status.learners.is_empty() && !status.changing
        };
        let voters: BTreeSet<u64> = said.voters.iter().map(|v| v.0).collect();
        if self.running().iter().filter(|id| voters.contains(id)).all(settled) { voters } else { BTreeSet::new() }
    }

    pub(crate) async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let end = tokio::time::Instant::now() + LIMIT;
        while !holds() {
            if tokio::time::Instant::now() > end {
                let states: Vec<_> = self.running().into_iter().map(|id| self.node(id).status()).collect();
                panic!("it never came to this: {what}\n{states:#?}");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn any_leader(&self) -> u64 {
        self.until("somebody leads", || self.leader().is_some()).await;
        self.leader().expect("just now")
    }

    /// Asks again until it is done. One that is refused after an unknown outcome was done by then.
    pub(crate) async fn insist(&self, at: u64, command: Command) {
        let end = tokio::time::Instant::now() + LIMIT;
        let mut unknown = false;
        while let Err(error) = self.node(at).propose(command.clone()).await {
            match error {
                ProposeError::Refused(_) if unknown => return,
                ProposeError::Refused(refusal) => panic!("{refusal}"),
                ProposeError::Unknown => unknown = true,
                ProposeError::Unavailable(_) => {}
            }
            assert!(tokio::time::Instant::now() < end, "{command:?} is never done");
        }
    }

    pub(crate) async fn blueprint(&self, at: u64) -> Arc<Blueprint> {
        let end = tokio::time::Instant::now() + LIMIT;
        loop {
            match self.node(at).read().await {
                Ok(state) => return Arc::clone(&state.blueprint),
                Err(error) => assert!(tokio::time::Instant::now() < end, "{error}"),
            }
        }
    }

    /// Everyone who was asked says that this node is silent, and it departs.
    pub(crate) async fn depart(&self, at: u64, node: u64) {
        let read_at = self.node(at).read().await.expect("a quorum").clock;
        let report = Report {
            by: CoordinatorId(at),
            read_at,
            number: 1,
            lifetime: Duration::from_secs(60),
            silent: BTreeSet::from([NodeId(node)]),
            echoes: BTreeMap::new(),
        };
        self.node(at).report(report).await.expect("a report in time");
        self.insist(at, Command::Depart { node: NodeId(node) }).await;
    }

    pub(crate) async fn end(self) {
        for id in self.running() {
            self.kill(id).await;
        }
    }
}

/// Two zones, so that they matter.
pub(crate) fn new_node(id: u64) -> NewNode {
    NewNode { name: format!("node-{id}"), zone: format!("zone-{}", id % 2), addresses: vec![format!("host-{id}:7000")] }
}

/// Something that leaves a trace under a name of its own.
pub(crate) fn create(name: &str) -> Command {
    Command::CreateKeyspace {
        name: name.to_owned(),
        kind: Kind::Store,
        replicas: 1,
        min_in_sync: None,
        durability: Durability::Disk,
        placement: vec![vec![NodeId(1)]],
    }
}

pub(crate) fn has(blueprint: &Blueprint, name: &str) -> bool {
    blueprint.keyspace_named(name).is_some()
}

/// Everything ends.
pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work).await.expect("it should have ended long ago")
}
