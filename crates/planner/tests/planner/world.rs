//! A blueprint, and a cluster that does what the steps of an operation say, one command after the other.

use std::collections::{BTreeMap, BTreeSet};

use blueprint::{
    Blueprint, BucketId, Change, Command, Durability, Fate, Government, Intent, KeyspaceId, Kind, NodeId,
    OperationState, Position, Rule, Slot, SlotSet, Standing, Step,
};
use planner::{Facts, Limits, Objection, Plan, Wish, place, plan};

pub(crate) const K1: KeyspaceId = KeyspaceId(1);

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) blueprint: Blueprint,
    pub(crate) facts: Facts,
    pub(crate) limits: Limits,
    /// Whether a candidate is seated as soon as it is enlisted, or only when somebody waits for it.
    pub(crate) seats_early: bool,
}

pub(crate) fn n(id: u64) -> NodeId {
    NodeId(id)
}

pub(crate) fn b(id: u64) -> BucketId {
    BucketId(id)
}

pub(crate) fn slots(first: u16, last: u16) -> SlotSet {
    SlotSet::range(Slot(first), Slot(last))
}

impl World {
    /// Nodes 1, 2, …, in these zones.
    pub(crate) fn in_zones(zones: &[&str]) -> Self {
        let (blueprint, facts, limits) = (Blueprint::new(), Facts::default(), Limits::default());
        let mut world = Self { blueprint, facts, limits, seats_early: false };
        for (at, zone) in zones.iter().enumerate() {
            world.add_node(at as u64 + 1, zone);
        }
        world
    }

    pub(crate) fn of(nodes: usize) -> Self {
        Self::in_zones(&vec![""; nodes])
    }

    /// With one keyspace, placed by the planner.
    pub(crate) fn with_buckets(nodes: usize, buckets: usize, replicas: u8) -> Self {
        let mut world = Self::of(nodes);
        world.create(buckets, replicas);
        world
    }

    pub(crate) fn add_node(&mut self, id: u64, zone: &str) {
        let (name, zone) = (format!("node-{id}"), zone.into());
        self.accept(&Command::AddNode { id: n(id), name, zone, addresses: vec![] });
    }

    pub(crate) fn create(&mut self, buckets: usize, replicas: u8) -> KeyspaceId {
        let rows = place(&self.blueprint, &self.facts, buckets, replicas).expect("there are nodes enough");
        self.create_rows(rows, replicas)
    }

    pub(crate) fn create_rows(&mut self, placement: Vec<Vec<NodeId>>, replicas: u8) -> KeyspaceId {
        let name = format!("keyspace-{}", self.blueprint.next_keyspace.0);
        let (kind, durability, min_in_sync) = (Kind::Store, Durability::Disk, None);
        let create = Command::CreateKeyspace { name, kind, replicas, min_in_sync, durability, placement };
        self.accept(&create).keyspace.expect("it was created")
    }

    pub(crate) fn plan(&self, wish: &Wish) -> Result<Plan, Vec<Objection>> {
        plan(&self.blueprint, &self.facts, self.limits, wish)
    }

    /// Plans, carries it out, and answers the plan.
    pub(crate) fn fulfil(&mut self, wish: &Wish) -> Plan {
        let plan = self.plan(wish).unwrap_or_else(|why| panic!("{wish:?} was refused: {why:?}"));
        self.carry_out(&plan);
        plan
    }

    pub(crate) fn objections(&self, wish: &Wish) -> Vec<Objection> {
        self.plan(wish).expect_err("it should have been refused")
    }

    pub(crate) fn government(&self, bucket: BucketId) -> &Government {
        self.blueprint.government(bucket).unwrap_or_else(|| panic!("{bucket} is not governed"))
    }

    pub(crate) fn members(&self, bucket: BucketId) -> Vec<NodeId> {
        self.government(bucket).members().map(|m| m.node).collect()
    }

    /// How many copies each node that is present has, and how many it leads.
    pub(crate) fn counts(&self) -> BTreeMap<NodeId, (usize, usize)> {
        self.counts_of(|_| true)
    }

    pub(crate) fn counts_of(&self, such: impl Fn(KeyspaceId) -> bool) -> BTreeMap<NodeId, (usize, usize)> {
        let present = self.blueprint.nodes.keys().filter(|node| self.blueprint.is_present(**node));
        let mut counts: BTreeMap<NodeId, (usize, usize)> = present.map(|node| (*node, (0, 0))).collect();
        for bucket in self.blueprint.buckets.values().filter(|bucket| such(bucket.keyspace)) {
            let government = self.government(bucket.id);
            for member in government.members().chain(government.candidates.iter().copied()) {
                counts.entry(member.node).or_default().0 += 1;
            }
            counts.entry(government.primary.node).or_default().1 += 1;
        }
        counts
    }

    pub(crate) fn copies_on(&self, node: u64) -> usize {
        self.counts().get(&n(node)).map_or(0, |counts| counts.0)
    }

    /// Does everything that the plan says, and looks at every bucket after every command.
    pub(crate) fn carry_out(&mut self, plan: &Plan) {
        assert_eq!(plan.based_on, self.blueprint.epoch);
        let mut watch = Watch::over(self);
        for steps in plan.operations() {
            let id = self.blueprint.next_operation;
            self.accept(&Command::StartOperation { id, by: "a test".into(), steps });
            while let Some((at, step)) = self.next_step(id) {
                self.bring_about(&step);
                watch.look(self, &step);
                self.accept(&Command::AdvanceOperation { id, from_step: at });
            }
            assert_eq!(self.blueprint.operations[&id].state, OperationState::Done);
        }
        let fewest: BTreeMap<KeyspaceId, usize> = plan.summary.fewest_members.clone();
        assert_eq!(fewest, watch.fewest_touched(), "at the worst moment");
    }

    fn next_step(&self, id: blueprint::OperationId) -> Option<(u32, Step)> {
        let operation = &self.blueprint.operations[&id];
        let step = operation.step()?.clone();
        match self.blueprint.standing(operation) {
            Standing::Open => {}
            Standing::True => assert!(matches!(step, Step::AwaitSeated { .. }), "{step:?} was true already"),
            Standing::Hitched(why) => panic!("{step:?}: {why}"),
        }
        Some((operation.at, step))
    }

    fn bring_about(&mut self, step: &Step) {
        let Some(bucket) = step.bucket() else { return self.bring_about_at_large(step) };
        let government = self.government(bucket);
        let by = government.primary;
        let named = |node| government.named(node).unwrap_or_else(|| panic!("{node} has no part in {bucket}"));
        match step {
            Step::Enlist { node, .. } => {
                self.succeed(bucket, Change::Enlist { node: *node });
                if self.seats_early {
                    self.seat(bucket, *node);
                }
            }
            Step::AwaitSeated { node, .. } => self.seat(bucket, *node),
            Step::HandOver { to, .. } => self.succeed(bucket, Change::HandOver { to: named(*to), by }),
            Step::Dismiss { node, .. } => {
                let (secondary, fate) = (named(*node), Fate::Leaves);
                if government.candidates.contains(&secondary) {
                    self.succeed(bucket, Change::Drop { candidate: secondary });
                } else {
                    self.succeed(bucket, Change::Dismiss { secondary, fate });
                }
            }
            Step::AwaitRestart { node, life, .. } => {
                self.accept(&Command::Begin { node: *node, life: life + 1 });
            }
            Step::Repair { .. } => panic!("nobody plans that"),
            Step::Split { child, slots, .. } => {
                let at = Position::new(government.term.0, 1);
                self.accept(&Command::Register {
                    parent: bucket,
                    child: *child,
                    slots: slots.clone(),
                    at,
                    term: at.term,
                });
            }
            Step::Merge { into, .. } => {
                let terms = (government.term, self.government(*into).term);
                self.accept(&Command::Bind { absorbed: bucket, into: *into, replaces: terms });
                let at = Position::new(self.government(*into).term.0, 1);
                self.accept(&Command::Merge { absorbed: bucket, into: *into, at, term: at.term });
                let Rule::Removed { holders, .. } = self.blueprint.buckets[&bucket].rule.clone() else {
                    panic!("{bucket} is absorbed")
                };
                for holder in holders {
                    self.accept(&Command::Erased { bucket, holder });
                }
            }
            Step::SetMinimum { min, .. } => self.succeed(bucket, Change::SetMinInSync { min: *min }),
            Step::Mark { .. } | Step::SetReplicas { .. } | Step::RemoveKeyspace { .. } | Step::AwaitErased { .. } => {
                unreachable!("they are about no bucket")
            }
        }
    }

    fn bring_about_at_large(&mut self, step: &Step) {
        let command = match *step {
            Step::Mark { node, intent, .. } => Command::Mark { node, intent, of: None },
            Step::SetReplicas { keyspace, replicas } => Command::SetReplicas { keyspace, replicas },
            Step::RemoveKeyspace { keyspace } => Command::RemoveKeyspace { keyspace },
            Step::AwaitErased { keyspace } => {
                self.erase(keyspace);
                return;
            }
            ref other => unreachable!("{other:?} is about a bucket"),
        };
        self.accept(&command);
    }

    /// Every holder does its part.
    fn erase(&mut self, keyspace: KeyspaceId) {
        let removed: Vec<blueprint::Bucket> = self.blueprint.buckets_of(keyspace).cloned().collect();
        for bucket in removed {
            let Rule::Removed { holders, .. } = bucket.rule else { panic!("{} is governed", bucket.id) };
            for holder in holders {
                self.accept(&Command::Erased { bucket: bucket.id, holder });
            }
        }
    }

    pub(crate) fn drain(&mut self, node: NodeId) {
        self.accept(&Command::Mark { node, intent: Intent::Drains, of: None });
    }

    pub(crate) fn seat(&mut self, bucket: BucketId, node: NodeId) {
        let government = self.government(bucket);
        if let Some(candidate) = government.candidates.iter().copied().find(|c| c.node == node) {
            self.succeed(bucket, Change::Seat { candidate, by: government.primary });
        }
    }

    pub(crate) fn succeed(&mut self, bucket: BucketId, change: Change) {
        let replaces = self.government(bucket).term;
        self.accept(&Command::Succeed { bucket, replaces, change });
    }

    pub(crate) fn accept(&mut self, command: &Command) -> blueprint::Applied {
        self.blueprint.apply(command).unwrap_or_else(|refusal| panic!("{command:?} refused: {refusal}"))
    }
}

/// What must hold while a plan is carried out.
struct Watch {
    limit: usize,
    began_with: BTreeMap<BucketId, usize>,
    touched: BTreeSet<BucketId>,
    fewest: BTreeMap<BucketId, (KeyspaceId, usize)>,
    /// Buckets that were begun and are not done with.
    under_way: BTreeMap<BucketId, BTreeSet<NodeId>>,
}

impl Watch {
    fn over(world: &World) -> Self {
        let size = |id: &BucketId| (*id, world.government(*id).size());
        let began_with: BTreeMap<BucketId, usize> = world.blueprint.buckets.keys().map(size).collect();
        let keyspace = |id: BucketId| world.blueprint.buckets[&id].keyspace;
        let fewest = began_with.iter().map(|(id, size)| (*id, (keyspace(*id), *size))).collect();
        let limit = world.limits.buckets_at_once;
        Self { limit, began_with, touched: BTreeSet::new(), fewest, under_way: BTreeMap::new() }
    }

    fn look(&mut self, world: &World, step: &Step) {
        world.blueprint.check_invariants();
        let Some(id) = step.bucket() else { return };
        self.touched.insert(id);
        match *step {
            Step::Enlist { node, .. } => {
                self.under_way.entry(id).or_default().insert(node);
            }
            Step::AwaitSeated { node, .. } => {
                if let Some(nodes) = self.under_way.get_mut(&id) {
                    nodes.remove(&node);
                }
                self.under_way.retain(|_, nodes| !nodes.is_empty());
            }
            Step::Split { child, .. } => {
                self.began_with.insert(child, self.began_with[&id]);
                let parents = self.fewest[&id];
                self.fewest.insert(child, parents);
            }
            Step::Merge { .. } => return,
            _ => {}
        }
        assert!(self.under_way.len() <= self.limit, "{} buckets under way", self.under_way.len());

        let bucket = &world.blueprint.buckets[&id];
        let government = world.government(id);
        let (size, wanted) = (government.size(), usize::from(world.blueprint.keyspaces[&bucket.keyspace].replicas));
        assert!(size >= wanted.min(self.began_with[&id]), "{id} is down to {size} members");
        let nodes: BTreeSet<NodeId> = government.members().map(|m| m.node).collect();
        assert_eq!(nodes.len(), size, "{id} has two members on one node");
        let fewest = self.fewest.get_mut(&id).expect("it was there, or was split off");
        fewest.1 = fewest.1.min(size);
    }

    fn fewest_touched(&self) -> BTreeMap<KeyspaceId, usize> {
        let mut fewest = BTreeMap::new();
        for id in &self.touched {
            let (keyspace, size) = self.fewest[id];
            let least = fewest.entry(keyspace).or_insert(size);
            *least = size.min(*least);
        }
        fewest
    }
}

/// The largest less the smallest.
pub(crate) fn spread(numbers: impl IntoIterator<Item = usize>) -> usize {
    let numbers: Vec<usize> = numbers.into_iter().collect();
    numbers.iter().max().unwrap_or(&0) - numbers.iter().min().unwrap_or(&0)
}
