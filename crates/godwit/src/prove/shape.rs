//! Changing the shape of a dev cluster, one kind of change after the other. Which bucket and which node is looked up each time: the
//! cluster is another one after each of them.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use prover::{Changed, Failed, Shaper};
use server::{BucketStatus, NodeStatus, Status};

use crate::dev::{self, Running};

/// However slow the machine is.
const PATIENCE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(100);
/// What is made and removed again.
const KEYSPACE: &str = "for-a-while";

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Each of the others, in this order
    All,
    SwapPrimary,
    MoveReplica,
    MigrateSlots,
    SplitBucket,
    /// What was split last
    MergeBuckets,
    Drain,
    Undrain,
    Rebalance,
    /// A node that holds nothing; one is started if there is none
    AddNode,
    /// The last one that was added
    RemoveNode,
    ReplaceNode,
    CreateKeyspace,
    RemoveKeyspace,
    /// One copy more, and back
    SetReplicas,
    RollingRestart,
    DoubleBuckets,
}

impl Shape {
    fn name(self) -> String {
        self.to_possible_value().expect("none is skipped").get_name().to_owned()
    }

    /// It takes long, or cannot be undone.
    fn is_once(self) -> bool {
        matches!(self, Shape::SetReplicas | Shape::RollingRestart | Shape::DoubleBuckets)
    }
}

#[derive(Debug)]
pub(super) struct DevShaper {
    data: PathBuf,
    kinds: Vec<Shape>,
    /// Children of buckets that were split, and their parents.
    split: Mutex<Vec<(String, String)>>,
}

impl Shaper for DevShaper {
    fn kinds(&self, round: u32) -> Vec<String> {
        self.kinds.iter().filter(|kind| round == 0 || !kind.is_once()).map(|kind| kind.name()).collect()
    }

    fn prepare(&self, kind: &str) -> Result<(), Failed> {
        self.ready(shape(kind)).map_err(|error| failed(&error))
    }

    fn change(&self, kind: &str, round: u32) -> Result<Option<Changed>, Failed> {
        self.shape(shape(kind), round as usize).map_err(|error| failed(&error))
    }
}

impl DevShaper {
    pub(super) fn new(data: &Path, kinds: &[Shape]) -> Result<Self> {
        Running::here(data)?;
        let all = || Shape::value_variants().iter().copied().filter(|kind| *kind != Shape::All).collect();
        let kinds = if kinds.contains(&Shape::All) { all() } else { kinds.to_vec() };
        Ok(Self { data: data.to_owned(), kinds, split: Mutex::default() })
    }

    /// What the change before left to be done is done, too; and there is a node without a copy, if that is what it takes.
    fn ready(&self, shape: Shape) -> Result<()> {
        if matches!(shape, Shape::AddNode | Shape::ReplaceNode) {
            let status = self.status()?;
            match status.nodes.iter().find(|node| holds_nothing(node)) {
                None => drop(dev::add_node(&self.data)?),
                Some(spare) if !spare.intent.is_empty() => drop(self.carry_out(&format!("undrain {}", spare.name))?),
                Some(_) => {}
            }
        }
        let begun = Instant::now();
        loop {
            let status = self.status()?;
            if status.problems.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                bail!("it is not well before it: {}", status.problems.join("; "));
            }
            sleep(PAUSE);
        }
    }

    fn shape(&self, shape: Shape, round: usize) -> Result<Option<Changed>> {
        let status = self.status()?;
        let buckets: Vec<&BucketStatus> = status.buckets.iter().filter(|b| b.keyspace == "default").collect();
        // Another one each time.
        let bucket =
            *buckets.iter().cycle().nth(7 * round + shape as usize).context("the keyspace default has no buckets")?;
        match shape {
            Shape::All => unreachable!("it stands for the others"),
            Shape::SwapPrimary => {
                let to = bucket.secondaries.first().context("there is one copy only")?;
                self.carry_out(&format!("swap-primary {} {}", bucket.id, to))
            }
            Shape::MoveReplica => {
                let to = without_copy(&status, bucket)?;
                self.carry_out(&format!("move-replica {} {} {}", bucket.id, bucket.primary, to.name))
            }
            Shape::MigrateSlots => {
                let (first, last) = range(&bucket.slots)?;
                let (middle, to) = (first + (last - first) / 2, without_copy(&status, bucket)?);
                self.carry_out(&format!("migrate-slots {first}-{middle} {}", to.name))
            }
            Shape::SplitBucket => {
                let done = self.carry_out(&format!("split-bucket {}", bucket.id))?;
                let is_new = |other: &&BucketStatus| {
                    other.keyspace == bucket.keyspace && buckets.iter().all(|bucket| bucket.id != other.id)
                };
                let after = self.status()?;
                let child = after.buckets.iter().find(is_new).context("no bucket is new")?;
                self.split.lock().expect("nobody panics with it").push((child.id.clone(), bucket.id.clone()));
                Ok(done)
            }
            Shape::MergeBuckets => {
                let last = self.split.lock().expect("nobody panics with it").pop();
                let (child, parent) = last.context("nothing was split before: ask for split-bucket as well")?;
                self.carry_out(&format!("merge-buckets {child} {parent}"))
            }
            Shape::Drain => {
                let holders = holders(&status);
                let node = holders.iter().cycle().nth(round).context("nobody holds anything")?;
                self.carry_out(&format!("drain {}", node.name))
            }
            Shape::Undrain => {
                let drained = status.nodes.iter().find(|node| node.intent == "draining");
                self.carry_out(&format!("undrain {}", drained.context("nobody drains: ask for drain as well")?.name))
            }
            Shape::Rebalance => self.carry_out("rebalance default"),
            Shape::AddNode => self.carry_out(&format!("add-node {}", spare(&status)?.name)),
            Shape::RemoveNode => {
                let newest = holders(&status).into_iter().max_by_key(|node| number(node));
                self.carry_out(&format!("remove-node {}", newest.context("nobody holds anything")?.name))
            }
            Shape::ReplaceNode => {
                let holders = holders(&status);
                let old = holders.iter().cycle().nth(1 + round).context("nobody holds anything")?;
                self.carry_out(&format!("replace-node {} {}", old.name, spare(&status)?.name))
            }
            Shape::CreateKeyspace => {
                let body = serde_json::json!({ "name": KEYSPACE, "replicas": 3, "buckets": 64, "memory": false });
                self.running()?.at().post("/v1/keyspaces", &body.to_string())?;
                Ok(Some(Changed { what: format!("create keyspace {KEYSPACE}"), bytes: 0 }))
            }
            Shape::RemoveKeyspace => self.carry_out(&format!("remove-keyspace {KEYSPACE}")),
            Shape::SetReplicas => {
                let keyspace = status.keyspaces.iter().find(|keyspace| keyspace.name == "default");
                let copies = keyspace.context("there is no keyspace default")?.replicas;
                let more = self.carry_out(&format!("set-replicas default {}", copies + 1))?;
                let less = self.carry_out(&format!("set-replicas default {copies}"))?;
                Ok(more.zip(less).map(|(more, less)| Changed {
                    what: format!("{}, {}", more.what, less.what),
                    bytes: more.bytes + less.bytes,
                }))
            }
            Shape::RollingRestart => self.carry_out("rolling-restart"),
            Shape::DoubleBuckets => self.carry_out("double-buckets default"),
        }
    }

    /// All of it, if it is too much for one operation.
    fn carry_out(&self, wish: &str) -> Result<Option<Changed>> {
        let mut changed: Option<Changed> = None;
        while let Some((done, left)) = dev::carry_out(&self.data, wish, |_| {}, |_| {})? {
            let before = changed.map_or(0, |changed| changed.bytes);
            changed = Some(Changed { what: wish.to_owned(), bytes: before + done.total_bytes });
            if left == 0 {
                break;
            }
        }
        Ok(changed)
    }

    fn running(&self) -> Result<Running> {
        Running::here(&self.data)
    }

    fn status(&self) -> Result<Status> {
        self.running()?.at().get("/v1/status")
    }
}

fn shape(kind: &str) -> Shape {
    Shape::from_str(kind, false).expect("one of those that were named")
}

fn failed(error: &anyhow::Error) -> Failed {
    Failed(format!("{error:#}"))
}

fn holds_nothing(node: &NodeStatus) -> bool {
    node.state == "present" && node.leads + node.follows == 0
}

fn spare(status: &Status) -> Result<&NodeStatus> {
    status.nodes.iter().find(|node| holds_nothing(node)).context("every node holds something")
}

/// In the order of their numbers.
fn holders(status: &Status) -> Vec<&NodeStatus> {
    let mut holders: Vec<&NodeStatus> = status.nodes.iter().filter(|node| node.leads + node.follows > 0).collect();
    holders.sort_by_key(|node| number(node));
    holders
}

fn number(node: &NodeStatus) -> u16 {
    node.name.strip_prefix("node-").and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn without_copy<'a>(status: &'a Status, bucket: &BucketStatus) -> Result<&'a NodeStatus> {
    let has_copy = |node: &NodeStatus| bucket.primary == node.name || bucket.secondaries.contains(&node.name);
    let other = holders(status).into_iter().find(|node| !has_copy(node) && node.intent.is_empty());
    other.with_context(|| format!("every node has a copy of {}", bucket.id))
}

/// The first one.
fn range(slots: &str) -> Result<(u16, u16)> {
    let first = slots.split(',').next().unwrap_or_default();
    let (from, to) = first.split_once('-').unwrap_or((first, first));
    Ok((from.trim().parse().context("no slot")?, to.trim().parse().context("no slot")?))
}
