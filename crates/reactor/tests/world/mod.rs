//! A few nodes, one blueprint, and a driver that carries out what each reactor decides. The phasers are played by the script.

pub(crate) mod show;
pub(crate) mod verbs;

use std::collections::{BTreeMap, BTreeSet};

use blueprint::{Blueprint, BucketId, Command, Epoch, Honest, Incarnation, Instant, LaneId, Member, NodeId, Term};
use reactor::{
    Beginning, BucketRow, Deed, Directory, Growth, HandOver, Holding, Leading, Ledger, Limits, Marks, Part, Peer,
    Reaction, Read, Role, Situation, is_true, react,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) now: Instant,
    /// What the meta group holds.
    pub(crate) blueprint: Blueprint,
    pub(crate) homes: BTreeMap<NodeId, Home>,
    pub(crate) cut: BTreeSet<NodeId>,
    /// Said that they are about to end.
    pub(crate) leaving: BTreeSet<NodeId>,
    pub(crate) operated: BTreeSet<BucketId>,
    pub(crate) limits: Limits,
    pub(crate) lines: Vec<String>,
}

/// One node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Home {
    pub(crate) epoch: Epoch,
    pub(crate) blueprint: Blueprint,
    pub(crate) replicas: BTreeMap<BucketId, Holding>,
    pub(crate) gone: BTreeMap<BucketId, Incarnation>,
    /// Not used: the end of it may be missing.
    pub(crate) aside: BTreeMap<BucketId, Holding>,
    pub(crate) doubt: Epoch,
    pub(crate) marks: Marks,
    pub(crate) ledger: Ledger,
    pub(crate) read: Asked,
    /// What is written stays in the air.
    pub(crate) slow_disk: bool,
}

fn set_aside(holding: &Holding) -> BucketRow {
    BucketRow { part: Part::Aside, ..BucketRow::from(holding) }
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Asked {
    #[default]
    Nothing,
    UnderWay(Instant),
    Answered(Instant, Blueprint),
}

impl World {
    /// What that node would do now. On the way, everything that must hold for any reaction is checked.
    pub(crate) fn react(&mut self, node: NodeId) -> Reaction {
        let now = self.now;
        let home = self.homes.get_mut(&node).expect("a node that exists");
        home.marks.observe(now, node, home.epoch, &home.blueprint, &home.replicas);
        let directory = self.directory(node);
        let reaction = self.with_situation(node, &directory, |situation| {
            let reaction = react::<Honest>(situation);
            assert_eq!(reaction, react::<Honest>(situation), "the same situation, the same reaction");
            for wait in &reaction.waits {
                assert!(is_true::<Honest>(wait, situation), "{wait:?} is not so");
            }
            reaction
        });
        self.homes.get_mut(&node).expect("as above").ledger.note::<blueprint::Honest>(now, &reaction);
        reaction
    }

    pub(crate) fn with_situation<T>(
        &self,
        node: NodeId,
        directory: &Directory,
        use_it: impl FnOnce(&Situation<'_>) -> T,
    ) -> T {
        let home = &self.homes[&node];
        let aside = home.aside.iter().map(|(bucket, holding)| (*bucket, set_aside(holding))).collect();
        use_it(&Situation {
            me: node,
            lane: LaneId::ONLY,
            ahead: &BTreeMap::new(),
            doubt: home.doubt,
            now: self.now,
            epoch: home.epoch,
            blueprint: &home.blueprint,
            directory,
            replicas: &home.replicas,
            aside: &aside,
            gone: &home.gone,
            operated: &self.operated,
            marks: &home.marks,
            read: match &home.read {
                Asked::Nothing => Read::None,
                Asked::UnderWay(begun) => Read::UnderWay { begun: *begun },
                Asked::Answered(begun, blueprint) => Read::Answered { begun: *begun, blueprint },
            },
            limits: &self.limits,
        })
    }

    /// The truth about everyone else; a node that is cut off is known, and not reachable.
    pub(crate) fn directory(&self, node: NodeId) -> Directory {
        let mut directory = Directory::default();
        for (id, home) in self.homes.iter().filter(|(id, _)| **id != node) {
            let sighting = directory.sighting_mut(*id);
            sighting.reachable = !self.cut.contains(id) && !self.cut.contains(&node);
            sighting.heard = self.now;
            sighting.node.echoed = home.epoch;
            sighting.node.leaving = self.leaving.contains(id);
            let held = home.replicas.iter().map(|(bucket, holding)| (*bucket, BucketRow::from(holding)));
            sighting.buckets = held.chain(home.aside.iter().map(|(bucket, h)| (*bucket, set_aside(h)))).collect();
        }
        directory
    }

    pub(crate) fn carry_out(&mut self, node: NodeId, reaction: &Reaction) {
        for act in &reaction.acts {
            self.carry_out_one(node, &act.deed);
        }
        let home = self.homes.get_mut(&node).expect("a node that exists");
        if let Asked::Answered(..) = home.read {
            home.read = Asked::Nothing;
        }
    }

    fn carry_out_one(&mut self, node: NodeId, deed: &Deed) {
        let now = self.now;
        let home = self.homes.get_mut(&node).expect("a node that exists");
        match deed {
            Deed::Found { bucket, member, beginning } => {
                let slots = home.blueprint.buckets[bucket].slots.len();
                let missing = if *beginning == Beginning::Candidate { slots } else { 0 };
                let founded = Holding { durable: !home.slow_disk, ..Holding::founded(*member, missing, now) };
                home.replicas.entry(*bucket).or_insert(founded);
                home.gone.remove(bucket);
            }
            Deed::Resume { bucket, .. } => home.replicas.extend(home.aside.remove_entry(bucket)),
            Deed::Follow { epoch } => {
                if !home.slow_disk {
                    home.epoch = home.epoch.max(*epoch);
                }
            }
            Deed::Govern { bucket, by } => {
                let (epoch, government) = (home.blueprint.epoch, home.blueprint.government(*by).cloned());
                let (Some(holding), Some(government)) = (home.replicas.get_mut(bucket), government) else { return };
                govern(holding, epoch, &government, now);
            }
            Deed::Retire { bucket } => {
                if let Some(holding) = home.replicas.get_mut(bucket) {
                    holding.role = Role::Following;
                }
            }
            Deed::ReadMeta { .. } => home.read = Asked::UnderWay(now),
            Deed::Erase { bucket, incarnation } => {
                if home.replicas.get(bucket).is_some_and(|h| h.member.incarnation == *incarnation) {
                    home.replicas.remove(bucket);
                    home.gone.insert(*bucket, *incarnation);
                }
            }
            Deed::Propose(command) => self.propose(command),
        }
    }

    pub(crate) fn propose(&mut self, command: &Command) {
        let before = self.blueprint.epoch;
        match self.blueprint.apply(command) {
            Ok(applied) if applied.epoch == before => {}
            Ok(_) => self.show_change(command),
            Err(refusal) => self.lines.push(format!("meta refuses: {refusal}")),
        }
    }

    /// The phasers do their part: whoever is told follows, leads and serves as its government says.
    pub(crate) fn play_phasers(&mut self) {
        for home in self.homes.values_mut() {
            let blueprint = home.blueprint.clone();
            for (bucket, holding) in &mut home.replicas {
                if let Some(government) = blueprint.government(*bucket)
                    && holding.known >= blueprint.epoch
                    && government.named(holding.member.node) == Some(holding.member)
                {
                    play(holding, government, self.now);
                }
            }
        }
    }
}

/// What a phaser does with a view.
fn govern(holding: &mut Holding, epoch: Epoch, government: &blueprint::Government, now: Instant) {
    if holding.known >= epoch {
        return;
    }
    holding.known = epoch;
    if let Some(named) = government.named(holding.member.node)
        && named.incarnation > holding.member.incarnation
    {
        holding.member = named;
    }
    let before = holding.role.clone();
    holding.role = match before {
        _ if government.primary != holding.member || holding.promised > government.term => Role::Following,
        Role::Leading(leading) if government.since <= leading.term => {
            let succession = leading.term < government.term;
            Role::Leading(Leading { succession, ..leading })
        }
        Role::Following if holding.promised == government.term => Role::Restarted { term: government.term },
        _ => Role::Ascending { term: government.term, until: now },
    };
    if holding.role != Role::Following {
        holding.promised = holding.promised.max(government.term);
    }
}

fn play(holding: &mut Holding, government: &blueprint::Government, now: Instant) {
    holding.promised = holding.promised.max(government.term);
    holding.promise_safe = true;
    holding.heard = now;
    if government.primary != holding.member {
        holding.role = Role::Following;
        return;
    }
    holding.role = Role::Leading(leading(holding, government, now));
}

/// Leads, serves, and everyone keeps up.
pub(crate) fn leading(holding: &Holding, government: &blueprint::Government, now: Instant) -> Leading {
    let lease = Instant(now.0 + 400_000);
    let upto = Some(holding.last.index);
    let peer =
        |member: &Member| Peer { member: *member, upto, applied: holding.applied, missing: 0, lease, heard: now };
    let others = government.secondaries.iter().chain(&government.candidates);
    let in_sync = government.in_sync();
    Leading {
        term: government.term,
        reign: holding.commit,
        serving: in_sync || government.since < Term(government.term.0),
        succession: false,
        reads_until: lease,
        growth: Growth::None,
        hand_over: HandOver::None,
        peers: others.map(peer).collect(),
    }
}
