//! The crash matrix: every operation, struck at every step, at every moment of it, by every fault, in everyone who takes part.
//!
//! The random worlds of `run` go everywhere sooner or later; here nothing is left to luck. A cell is one world with a fixed seed: a
//! small cluster under load, one operation as the planner plans it, and one blow, which falls when the operation has come to a
//! certain point ([`drill`]). The world goes on until it is quiet, and everything that is checked in other worlds is checked in
//! this one. Besides, the operation must have ended, as done or with a reason, and nobody but the coordinators may help it.

pub mod drill;
pub mod page;
mod parts;

use std::fmt;
use std::str::FromStr;

use blueprint::{
    Blueprint, BucketId, Command as Proposal, Conduct, Honest, Index, NodeId, OperationState, Position, Slot, SlotSet,
    Step,
};
use planner::Wish;

use crate::hunt;
use crate::plan::{Fault, Faults, MILLI, Plan, SECOND};
use crate::runner;
use crate::sabotage::{Sabotage, Saboteur, plant};
use crate::trace::Trace;
use crate::world::{Failure, KEYSPACE, World};

pub use drill::{Drill, Void};
pub use parts::{Blow, Moment, Victim};

/// One operation that is struck. What is planned follows from the wish and the layout: the steps are the planner's.
#[derive(Debug)]
pub struct Asked {
    pub name: &'static str,
    /// As somebody would type it.
    pub words: &'static str,
    layout: Layout,
    /// What must be done before it makes sense; nobody is struck meanwhile.
    first: Option<fn() -> Wish>,
    wish: fn() -> Wish,
}

/// Who holds each bucket before it begins, three of six nodes, the first of which leads.
type Layout = &'static [[u64; COPIES]];

/// n6 has nothing, and everyone else little: who comes and who goes is easy to tell apart.
const SPREAD: Layout = &[[1, 2, 3], [2, 3, 4], [3, 4, 5]];
/// As many buckets as nodes, and n6 has nothing.
const ALL_BUT_ONE: Layout = &[[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 1], [5, 1, 2], [1, 2, 3]];
/// n5 has and leads what n6 should.
const UNEVEN: Layout = &[[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 1], [5, 1, 2]];

/// A new kind of operation is a row here.
pub const OPERATIONS: &[Asked] = &[
    Asked {
        name: "add-node",
        words: "add-node node-6",
        layout: ALL_BUT_ONE,
        first: None,
        wish: || Wish::AddNode { node: NodeId(6) },
    },
    Asked {
        name: "remove-node",
        words: "remove-node node-2",
        layout: SPREAD,
        first: None,
        wish: || Wish::RemoveNode { node: NodeId(2) },
    },
    Asked {
        name: "replace-node",
        words: "replace-node node-2 node-6",
        layout: SPREAD,
        first: None,
        wish: || Wish::ReplaceNode { old: NodeId(2), new: NodeId(6) },
    },
    Asked {
        name: "drain",
        words: "drain node-2",
        layout: SPREAD,
        first: None,
        wish: || Wish::Drain { node: NodeId(2) },
    },
    Asked {
        name: "swap-primary",
        words: "swap-primary b1 node-2",
        layout: SPREAD,
        first: None,
        wish: || Wish::SwapPrimary { bucket: BucketId(1), node: NodeId(2) },
    },
    Asked {
        name: "move-replica",
        words: "move-replica b1 node-2 node-6",
        layout: SPREAD,
        first: None,
        wish: || Wish::MoveReplica { bucket: BucketId(1), from: NodeId(2), to: NodeId(6) },
    },
    Asked {
        name: "move-primary",
        words: "move-replica b1 node-1 node-6",
        layout: SPREAD,
        first: None,
        wish: || Wish::MoveReplica { bucket: BucketId(1), from: NodeId(1), to: NodeId(6) },
    },
    Asked {
        name: "migrate-slots",
        words: "migrate-slots 0-1000 node-6",
        layout: SPREAD,
        first: None,
        wish: || Wish::MigrateSlots { keyspace: KEYSPACE, slots: SlotSet::range(Slot(0), Slot(1000)), to: NodeId(6) },
    },
    Asked {
        name: "split-bucket",
        words: "split-bucket b1",
        layout: SPREAD,
        first: None,
        wish: || Wish::SplitBucket { bucket: BucketId(1), slots: None },
    },
    Asked {
        name: "merge-buckets",
        words: "merge-buckets b257 b1",
        layout: SPREAD,
        first: Some(|| Wish::SplitBucket { bucket: BucketId(1), slots: None }),
        wish: || Wish::MergeBuckets { bucket: BucketId(257), into: BucketId(1) },
    },
    Asked {
        name: "double-buckets",
        words: "double-buckets",
        layout: SPREAD,
        first: None,
        wish: || Wish::DoubleBuckets { keyspace: KEYSPACE },
    },
    Asked {
        name: "rebalance",
        words: "rebalance",
        layout: UNEVEN,
        first: None,
        wish: || Wish::Rebalance { keyspace: None },
    },
];

pub(crate) const NODES: usize = 6;
const COPIES: usize = 3;
/// If the moment does not come by then, it never does.
const LONGEST: u64 = 25 * SECOND;

impl Asked {
    pub fn named(name: &str) -> Option<&'static Self> {
        OPERATIONS.iter().find(|asked| asked.name == name)
    }

    /// What the planner makes of it, in the world as it is when it is asked for.
    pub fn steps(&'static self) -> Vec<Step> {
        let mut world = World::<Honest>::drilled(Drill::new(self, None), 0, Trace::silent());
        world.begin();
        let mut blueprint = Blueprint::clone(&world.meta.blueprint);
        for step in
            self.first.into_iter().flat_map(|first| drill::planned_steps(&blueprint, &first())).collect::<Vec<_>>()
        {
            bring_about(&mut blueprint, &step);
        }
        drill::planned_steps(&blueprint, &(self.wish)())
    }
}

/// What a step that comes first makes of the blueprint, as if it had been done.
fn bring_about(blueprint: &mut Blueprint, step: &Step) {
    let Step::Split { bucket, child, slots } = step else { panic!("only splits come first") };
    let at = Position { term: blueprint.buckets[bucket].term(), index: Index(1) };
    let commands = [
        Proposal::ReserveBucket { parent: *bucket },
        Proposal::Register { parent: *bucket, child: *child, slots: slots.clone(), at, term: at.term },
    ];
    for command in commands {
        blueprint.apply(&command).expect("it was planned on this blueprint");
    }
}

/// Where and when the blow falls, and on whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// From 0.
    pub step: usize,
    pub moment: Moment,
    pub victim: Victim,
    pub blow: Blow,
}

/// One world of the matrix. Without a target nothing goes wrong: that operation must simply be done.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub asked: &'static Asked,
    pub target: Option<Target>,
}

/// What became of a cell.
#[derive(Clone, Debug)]
pub enum Ended {
    Done,
    /// The operation gave up by itself, and said why. All else is as it should be.
    GaveUp(String),
    /// There is nothing to strike.
    Void(Void),
    Failed(Failure),
}

impl Ended {
    pub fn failure(&self) -> Option<&Failure> {
        if let Self::Failed(failure) = self { Some(failure) } else { None }
    }

    /// Something was struck, or is shown to work if nothing is.
    pub fn counts(&self) -> bool {
        !matches!(self, Self::Void(_))
    }
}

#[derive(Debug)]
pub struct Outcome {
    pub ended: Ended,
    /// What happened, if it is kept.
    pub lines: Vec<String>,
    pub hash: u64,
}

impl Cell {
    /// All cells of one operation, in the order of the page.
    pub fn of(asked: &'static Asked) -> Vec<Self> {
        let mut cells = vec![Self { asked, target: None }];
        for (step, planned) in asked.steps().iter().enumerate() {
            for moment in Moment::of(planned) {
                for victim in Victim::ALL {
                    let target = |blow| Target { step, moment: *moment, victim, blow };
                    cells.extend(Blow::ALL.map(|blow| Self { asked, target: Some(target(blow)) }));
                }
            }
        }
        cells
    }

    pub fn all() -> Vec<Self> {
        OPERATIONS.iter().flat_map(Self::of).collect()
    }

    /// The product's code; other dice give the same cell other luck.
    pub fn run(&self, dice: u64, trace: Trace) -> Outcome {
        self.run_as::<Honest>(dice, trace, true)
    }

    pub fn run_sabotaged(&self, sabotage: &Sabotage, dice: u64, trace: Trace) -> Outcome {
        let _planted = plant(sabotage.breach);
        self.run_as::<Saboteur>(dice, trace, hunt::is_watched(sabotage))
    }

    fn run_as<C: Conduct>(&self, dice: u64, trace: Trace, vigil: bool) -> Outcome {
        let mut world = World::<C>::drilled(Drill::new(self.asked, self.target), dice, trace);
        world.plan.vigil = vigil;
        let (outcome, world) = runner::run_world(world);
        let drill = world.drill.as_ref().expect("it was given one");
        let ended = match (outcome.failure, drill.void()) {
            (Some(failure), _) => Ended::Failed(failure),
            (None, Some(void)) => Ended::Void(void),
            (None, None) => self.verdict(world.drilled_operation().map(|operation| &operation.state)),
        };
        Outcome { ended, lines: outcome.lines, hash: outcome.hash }
    }

    fn verdict(&self, state: Option<&OperationState>) -> Ended {
        let failed = |text: String| Ended::Failed(Failure { checker: "liveness", text });
        match state {
            Some(OperationState::Done) => Ended::Done,
            Some(OperationState::Failed { why }) if self.target.is_some() => Ended::GaveUp(why.to_string()),
            Some(state) => failed(format!("the operation ended as {state:?}, and nobody asked for that")),
            None => failed("the operation is not in the blueprint".into()),
        }
    }
}

/// `replace-node/4.filling/joiner/wipe`; at the beginning of a step just `replace-node/4/joiner/wipe`; without a blow `replace-node`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.asked.name)?;
        let Some(Target { step, moment, victim, blow }) = self.target else { return Ok(()) };
        write!(f, "/{}", step + 1)?;
        if moment != Moment::Begins {
            write!(f, ".{}", moment.name())?;
        }
        write!(f, "/{}/{}", victim.name(), blow.name())
    }
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split('/');
        let name = words.next().unwrap_or_default();
        let asked = Asked::named(name).ok_or_else(|| {
            let names: Vec<&str> = OPERATIONS.iter().map(|asked| asked.name).collect();
            format!("there is no operation '{name}'; there are {}", names.join(", "))
        })?;
        let rest: Vec<&str> = words.collect();
        let target = match rest[..] {
            [] => None,
            [at, victim, blow] => Some(parse_target(asked, at, victim, blow)?),
            _ => return Err("a cell is written like replace-node/4.filling/joiner/wipe".into()),
        };
        Ok(Self { asked, target })
    }
}

fn parse_target(asked: &'static Asked, at: &str, victim: &str, blow: &str) -> Result<Target, String> {
    let (number, moment) = at.split_once('.').unwrap_or((at, Moment::Begins.name()));
    let steps = asked.steps();
    let step = number.parse().ok().filter(|step| (1..=steps.len()).contains(step));
    let step: usize = step.ok_or_else(|| format!("{} has steps 1 to {}", asked.name, steps.len()))?;
    let moments = Moment::of(&steps[step - 1]);
    Ok(Target {
        step: step - 1,
        moment: parts::find(moments, moment, |moment| moment.name())?,
        victim: parts::find(&Victim::ALL, victim, |victim| victim.name())?,
        blow: parts::find(&Blow::ALL, blow, |blow| blow.name())?,
    })
}

/// A calm world: whatever goes wrong in it is the one blow. What is written and not yet synced is lost in a crash.
fn calm(drill: &Drill, dice: u64) -> Plan {
    let seed = drill.seed() ^ dice.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Plan {
        seed,
        nodes: NODES,
        lanes: (1, 2),
        buckets: drill.layout().len(),
        replicas: COPIES as u8,
        minimum: 2,
        second_keyspace: false,
        far: 0,
        busy: false,
        clients: 6,
        unrest: LONGEST,
        patience: 40 * SECOND,
        faults: Faults::none().with(Fault::LostWrites).with(Fault::TornRecord),
        fault_every: SECOND,
        move_every: 0,
        think: 25 * MILLI,
        keys: 4,
        latency: MILLI,
        disk_latency: MILLI,
        duplicates: 0,
        lateness: MILLI,
        upkeep: 250 * MILLI,
        memory_level: false,
        ambush: 0,
        read_percent: 40,
        quiet: false,
        small_checkpoints: true,
        forgetful: false,
        watchful: false,
        directory_rows: 1024,
        power_back: SECOND,
        steady: false,
        auto: false,
        wide: false,
        vigil: true,
    }
}

impl<C: Conduct> World<C> {
    fn drilled(drill: Drill, dice: u64, trace: Trace) -> Self {
        let mut world = Self::new(calm(&drill, dice), trace);
        // A copy takes its time, so that there is something to be struck.
        world.config.phaser.image_bytes = FILL_IMAGE;
        world.config.phaser.fill_rate = FILL_RATE;
        world.config.check().expect("these numbers fit together");
        world.drill = Some(Box::new(drill));
        world
    }
}

/// A copy is made in some dozens of pieces, within a second or so.
const FILL_IMAGE: usize = 200;
const FILL_RATE: u64 = 20_000;

#[cfg(test)]
mod tests;
