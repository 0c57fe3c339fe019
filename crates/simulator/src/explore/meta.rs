//! The meta group as the explorer sees it: every blueprint that ever was, and what is being asked of it.
//!
//! The blueprint is the real one, so what is accepted here is what the meta group accepts. Answers are slow by nature: a proposal
//! lies on the desk until it is accepted (or never is), a question is looked up at one moment and answered at a later one, and each
//! node sees each new blueprint when the explorer says so.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use blueprint::{
    Birth, Blueprint, Bond, Bucket, BucketId, Change, Command, Conduct, Durability, Epoch, Government, Instant, Kind,
    Member, MetaCommand, MetaState, NodeId, Position, Rule, SlotSet, Term,
};
use phaser::{Phaser, View};

/// Buckets that exist here: the parent, and the child that a split makes of it.
pub(super) const BUCKETS: usize = 2;
pub(super) const PARENT: BucketId = BucketId(1);
pub(super) const CHILD: BucketId = BucketId(1 + BucketId::FAMILIES);

#[derive(Clone, Debug)]
pub(super) struct Meta {
    /// One of each epoch, beginning with the first.
    blueprints: Vec<Arc<Blueprint>>,
    pub(super) past: Past,
}

/// What kinds of change there were: only counted.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Past {
    pub(super) usurped: bool,
    pub(super) handed_over: bool,
}

/// Nodes and keyspaces never change here.
impl Hash for Meta {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for blueprint in &self.blueprints {
            (&blueprint.buckets, &blueprint.reserved).hash(state);
        }
        self.past.hash(state);
    }
}

pub(super) fn id_of(bucket: usize) -> BucketId {
    [PARENT, CHILD][bucket]
}

impl Meta {
    /// The blueprint in which only the parent is, of all slots. What it took to come to that is not counted in epochs.
    pub(super) fn first(nodes: usize, government: &Government) -> Self {
        let mut blueprint = Blueprint::new();
        let apply = |blueprint: &mut Blueprint, command: Command| {
            blueprint.apply(&command).expect("a small cluster can be built");
        };
        for id in (1..=nodes as u64).map(NodeId) {
            let (name, zone, addresses) = (id.to_string(), String::new(), Vec::new());
            apply(&mut blueprint, Command::AddNode { id, name, zone, addresses });
        }
        blueprint.epoch = Epoch(0);
        let members: Vec<NodeId> = government.members().map(|m| m.node).collect();
        apply(
            &mut blueprint,
            Command::CreateKeyspace {
                name: "small".into(),
                kind: Kind::Store,
                replicas: members.len() as u8,
                min_in_sync: Some(government.min_in_sync),
                durability: Durability::Disk,
                placement: vec![members],
            },
        );
        apply(&mut blueprint, Command::ReserveBucket { parent: PARENT });
        blueprint.epoch = Epoch(1);
        assert_eq!(blueprint.government(PARENT), Some(government), "it begins as the configuration says");
        assert!(blueprint.reserved.contains_key(&CHILD), "the child has the id that was reserved for it");
        Self { blueprints: vec![Arc::new(blueprint)], past: Past::default() }
    }

    pub(super) fn epoch(&self) -> u8 {
        self.blueprints.len() as u8
    }

    pub(super) fn newest(&self) -> &Arc<Blueprint> {
        self.blueprints.last().expect("there is a first one")
    }

    pub(super) fn at(&self, epoch: u8) -> Option<&Blueprint> {
        Some(self.blueprints.get(usize::from(epoch).checked_sub(1)?)?)
    }

    /// The government of a bucket that the blueprint knows.
    pub(super) fn government(&self, bucket: usize) -> Option<&Government> {
        self.newest().government(id_of(bucket))
    }

    pub(super) fn government_at(&self, bucket: usize, epoch: u8) -> Option<&Government> {
        self.at(epoch)?.government(id_of(bucket))
    }

    pub(super) fn slots_at(&self, bucket: usize, epoch: u8) -> SlotSet {
        let bucket = self.at(epoch).and_then(|b| b.buckets.get(&id_of(bucket)));
        bucket.map_or(SlotSet::empty(), |b| b.slots.clone())
    }

    /// What the blueprint of an epoch says about a bucket, as a node reads it for the replica that it holds. Until it is registered, a child is
    /// governed by its parent's government. None when the bucket is no more.
    pub(super) fn view<C: Conduct>(&self, bucket: usize, epoch: u8, phaser: &Phaser<C>) -> Option<View> {
        let blueprint = self.at(epoch)?;
        let id = id_of(bucket);
        let awaited = blueprint.reserved.contains_key(&id);
        let government = blueprint.government(if awaited { PARENT } else { id })?.clone();
        let born = |b: &Bucket| match b.birth {
            Birth::Split { parent, at } if parent == id => Some((b.id, at)),
            Birth::Split { .. } | Birth::First => None,
        };
        let mut children: Vec<_> = blueprint.buckets.values().filter_map(born).collect();
        let mut absorbed: Vec<_> = blueprint.buckets.values().filter_map(|b| b.merged_into(id)).collect();
        // What was registered, or absorbed, and is forgotten.
        let splits = phaser.partings().into_iter().filter(|p| p.applied).map(|p| (p.child, p.at));
        children.extend(splits.filter(|(child, _)| blueprint.is_retired(*child)));
        absorbed.extend(phaser.absorbs().filter(|(from, _)| blueprint.is_retired(*from)));
        let bond = blueprint.buckets.get(&id).and_then(|b| b.bond).and_then(|bond| match bond {
            Bond::Absorbs { other, .. } => Some(phaser::Bond::Absorbs { other }),
            Bond::Fades { into, .. } => Some(phaser::Bond::Fades { into }),
            Bond::Merged { .. } => None,
        });
        Some(View { epoch: blueprint.epoch, government, children, bond, absorbed })
    }

    /// The meta group executes a command. None when it is refused, or changes nothing.
    pub(super) fn apply<C: Conduct>(&self, command: Command) -> Option<Self> {
        let mut state = MetaState { blueprint: Arc::clone(self.newest()), ..MetaState::default() };
        let mut next_past = self.past;
        if let Command::Succeed { change, .. } = &command {
            next_past.usurped |= matches!(change, Change::Usurp { .. });
            next_past.handed_over |= matches!(change, Change::HandOver { .. });
        }
        state.apply::<C>(Instant::ZERO, &MetaCommand::Change(command)).ok()?;
        if state.blueprint.epoch == self.newest().epoch {
            return None;
        }
        let mut blueprints = self.blueprints.clone();
        blueprints.push(state.blueprint);
        Some(Self { blueprints, past: next_past })
    }

    /// Accepts a change. At most one successor of each term (R7).
    pub(super) fn succeed<C: Conduct>(&self, bucket: usize, replaces: Term, change: &Change) -> Option<Self> {
        self.apply::<C>(Command::Succeed { bucket: id_of(bucket), replaces, change: change.clone() })
    }

    /// A split, told after it committed: the child begins with the parent's government as it stands. Nothing new when it is
    /// known already.
    pub(super) fn register<C: Conduct>(&self, slots: &SlotSet, at: Position) -> Option<Self> {
        let term = self.government(0)?.term;
        self.apply::<C>(Command::Register { parent: PARENT, child: CHILD, slots: slots.clone(), at, term })
    }

    /// The child is known, or was: its id is used once.
    pub(super) fn is_registered(&self) -> bool {
        !self.newest().reserved.contains_key(&CHILD)
    }

    /// The child was, and is no more.
    pub(super) fn is_over_at(&self, epoch: u8) -> bool {
        self.at(epoch).is_some_and(|b| !b.reserved.contains_key(&CHILD) && b.government(CHILD).is_none())
    }

    /// From now on what changes in the one changes in the other.
    pub(super) fn bind<C: Conduct>(&self) -> Option<Self> {
        let replaces = (self.government(1)?.term, self.government(0)?.term);
        self.apply::<C>(Command::Bind { absorbed: CHILD, into: PARENT, replaces })
    }

    /// An Absorb, told after it committed.
    pub(super) fn merge<C: Conduct>(&self, at: Position) -> Option<Self> {
        let term = self.government(0)?.term;
        self.apply::<C>(Command::Merge { absorbed: CHILD, into: PARENT, at, term })
    }

    /// The holder of a child that is over, on that node, has erased it.
    pub(super) fn strike<C: Conduct>(&self, node: NodeId) -> Option<Self> {
        let holder = self.holder_at(self.epoch(), node)?;
        self.apply::<C>(Command::Erased { bucket: CHILD, holder })
    }

    /// Who must still say that it has erased the child.
    pub(super) fn holder_at(&self, epoch: u8, node: NodeId) -> Option<Member> {
        let Rule::Removed { holders, .. } = &self.at(epoch)?.buckets.get(&CHILD)?.rule else { return None };
        holders.iter().copied().find(|holder| holder.node == node)
    }

    /// The Split that made the child.
    pub(super) fn registered_at(&self) -> Option<Position> {
        match self.newest().buckets.get(&CHILD)?.birth {
            Birth::Split { at, .. } => Some(at),
            Birth::First => None,
        }
    }

    pub(super) fn named(&self, bucket: usize, epoch: u8, node: NodeId) -> Option<Member> {
        self.government_at(bucket, epoch)?.named(node)
    }
}
/// What lies on the meta group's desk, in no order.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Desk {
    pub(super) proposals: Vec<Proposal>,
    pub(super) questions: Vec<Question>,
    pub(super) registers: Vec<(SlotSet, Position)>,
    /// Absorbs.
    pub(super) merges: Vec<Position>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Proposal {
    /// The replica that made it.
    pub(super) by: u8,
    pub(super) bucket: u8,
    pub(super) term: Term,
    pub(super) change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Question {
    pub(super) by: u8,
    pub(super) nonce: u64,
    /// The epoch that was found, once it was looked up.
    pub(super) found: Option<u8>,
}

impl Desk {
    /// A proposal that was made before is the same paper: it may still be accepted.
    pub(super) fn propose(&mut self, proposal: Proposal) {
        if !self.proposals.contains(&proposal) {
            self.proposals.push(proposal);
            self.proposals.sort_by_cached_key(super::hash::name_of);
        }
    }

    /// The same question again is the same question.
    pub(super) fn ask(&mut self, by: u8, nonce: u64) {
        if !self.questions.iter().any(|q| (q.by, q.nonce) == (by, nonce)) {
            self.questions.push(Question { by, nonce, found: None });
            self.questions.sort_unstable();
        }
    }

    pub(super) fn register(&mut self, slots: SlotSet, at: Position) {
        if !self.registers.contains(&(slots.clone(), at)) {
            self.registers.push((slots, at));
        }
    }

    pub(super) fn merge(&mut self, at: Position) {
        if !self.merges.contains(&at) {
            self.merges.push(at);
            self.merges.sort_unstable();
        }
    }
}
