//! Breadth first through all worlds, so that the first trace to a violation is a shortest one.
//!
//! Of a world that was seen only its name is kept, and from where it was reached; only those still to be expanded are kept whole.
//! A trace is told by walking from the beginning once more.

use std::collections::VecDeque;
use std::hash::Hash;

use blueprint::{Change, Conduct, NodeId};

use super::action::Action;
use super::configuration::{Configuration, Prelude};
use super::explorer::Explorer;
use super::facts::Fault;
use super::hash::{Names, name_of};
use super::world::{Budget, World};
use super::{Progress, Row, Violation};

/// How many expanded worlds lie between two reports of progress.
const REPORT_EVERY: usize = 16_384;

/// From where a world was reached, and by which of the actions there.
#[derive(Clone, Copy)]
struct Step {
    from: u32,
    action: u16,
}

pub(super) struct Search<'a, C> {
    explorer: Explorer<C>,
    names: Names,
    steps: Vec<Step>,
    queue: VecDeque<(u32, World)>,
    row: Row,
    /// Numbers of the first worlds of each depth.
    next_depth: usize,
    progress: &'a mut dyn FnMut(&Progress),
}

impl<'a, C: Conduct + Hash> Search<'a, C> {
    pub(super) fn new(configuration: Configuration, progress: &'a mut dyn FnMut(&Progress)) -> Self {
        let row = Row { configuration: configuration.name.into(), ..Row::default() };
        Self {
            explorer: Explorer::new(configuration),
            names: Names::default(),
            steps: Vec::new(),
            queue: VecDeque::new(),
            row,
            next_depth: 0,
            progress,
        }
    }

    /// Until there is nothing new, or there are this many worlds.
    pub(super) fn run(mut self, states: usize) -> (Row, Option<Violation>) {
        let started = std::time::Instant::now();
        let violation = match self.prepare() {
            Ok(world) => {
                self.enter(world, Step { from: 0, action: 0 });
                self.expand_all(states)
            }
            Err(fault) => Some(self.violation(&fault, Vec::new())),
        };
        self.row.states = self.names.len();
        self.row.exhausted = violation.is_none() && self.queue.is_empty();
        self.row.violations = usize::from(violation.is_some());
        self.row.seconds = started.elapsed().as_secs_f64();
        (self.row.replicas, self.row.messages) = self.explorer.parts();
        self.report();
        (self.row, violation)
    }

    #[cfg(test)]
    pub(super) fn walk(&mut self, states: usize) {
        let world = self.prepare().unwrap_or_else(|fault| panic!("{}", fault.what));
        self.enter(world, Step { from: 0, action: 0 });
        assert!(self.expand_all(states).is_none());
    }

    #[cfg(test)]
    pub(super) fn replicas(&self) -> impl Iterator<Item = &super::replica::Replica<C>> {
        (0..self.explorer.parts().0 as u32).filter_map(|n| self.explorer.known(n)).map(|known| &known.replica)
    }

    fn expand_all(&mut self, states: usize) -> Option<Violation> {
        let mut expanded = 0;
        while let Some((number, world)) = self.queue.pop_front() {
            if number as usize >= self.next_depth {
                self.row.depth += usize::from(number > 0);
                self.next_depth = self.steps.len();
            }
            if let Err((fault, action)) = self.expand(number, &world) {
                let mut steps = self.steps_to(number);
                steps.push(action);
                return Some(self.violation(&fault, steps));
            }
            expanded += 1;
            if expanded % REPORT_EVERY == 0 {
                self.report();
            }
            if self.names.len() >= states {
                return None;
            }
        }
        None
    }

    fn expand(&mut self, number: u32, world: &World) -> Result<(), (Fault, u16)> {
        for (place, action) in self.explorer.actions(world).iter().enumerate() {
            let place = u16::try_from(place).expect("no world has that many ways out");
            let next = self.explorer.act(world, action).map_err(|fault| (fault, place))?;
            if let Some(next) = next
                && self.is_new(&next)
            {
                self.explorer.check_reads(&next).map_err(|fault| (fault, place))?;
                self.enqueue(next, Step { from: number, action: place });
            }
        }
        Ok(())
    }

    fn enter(&mut self, world: World, step: Step) {
        if self.is_new(&world) {
            self.enqueue(world, step);
        }
    }

    fn is_new(&mut self, world: &World) -> bool {
        self.names.insert(name_of(world))
    }

    fn enqueue(&mut self, world: World, step: Step) {
        self.count(&world);
        let number = u32::try_from(self.steps.len()).expect("memory ends before numbers do");
        self.steps.push(step);
        self.queue.push_back((number, world));
    }

    fn count(&mut self, world: &World) {
        let meta = self.explorer.metas.get(world.meta);
        let joint = world.replicas.iter().any(|number| self.explorer.known(*number).is_some_and(|k| k.lore.joint));
        self.row.joint += usize::from(joint);
        self.row.heirs += usize::from(meta.government(0).is_some_and(|g| !g.heirs.is_empty()));
        self.row.usurp += usize::from(meta.past.usurped);
        self.row.hand_over += usize::from(meta.past.handed_over);
        let facts = self.explorer.facts.get(world.facts);
        self.row.split += usize::from(facts.is_split());
        self.row.merge += usize::from(facts.absorbed_at().is_some());
    }

    fn report(&mut self) {
        let progress = Progress {
            configuration: self.row.configuration.clone(),
            states: self.names.len(),
            waiting: self.queue.len(),
            depth: self.row.depth,
        };
        (self.progress)(&progress);
    }

    /// The world in which exploration begins: everyone has started, the prelude has happened, nothing is under way.
    fn prepare(&mut self) -> Result<World, Fault> {
        let configuration = self.explorer.configuration.clone();
        let mut world = self.explorer.origin();
        self.explorer.configuration.duplicates = false; // or nothing would ever settle
        world = self.settle(world, true)?;
        for act in configuration.prelude {
            world = self.prelude(world, *act)?;
        }
        world.budget = configuration.budget;
        self.explorer.configuration.duplicates = configuration.duplicates;
        Ok(world)
    }

    fn prelude(&mut self, mut world: World, act: Prelude) -> Result<World, Fault> {
        world.budget = Budget {
            writes: 1,
            changes: 8,
            dismissals: 1,
            enlistments: 1,
            splits: 1,
            binds: u8::from(matches!(act, Prelude::Bind | Prelude::BindUnseen)),
            ticks: u8::from(act == Prelude::Tick),
            ..Budget::default()
        };
        let spare = NodeId(self.explorer.configuration.nodes() as u64);
        let wanted = |action: &Action| match (act, action) {
            (Prelude::Write, Action::Write { .. })
            | (Prelude::Tick, Action::Tick)
            | (Prelude::Split, Action::Split { .. })
            | (Prelude::Register, Action::Register { .. })
            | (Prelude::Bind | Prelude::BindUnseen, Action::Bind)
            | (Prelude::Merge, Action::Merge { .. }) => true,
            (Prelude::WriteChild, Action::Write { slot, .. }) => *slot == 1,
            (Prelude::EnlistChild, Action::Change { bucket: 1, change: Change::Enlist { node } }) => *node == spare,
            (Prelude::Enlist | Prelude::EnlistUnseen, Action::Change { change: Change::Enlist { node }, .. }) => {
                *node == spare
            }
            (Prelude::Dismiss, Action::Change { change: Change::Dismiss { .. }, .. }) => true,
            _ => false,
        };
        let action = self.explorer.actions(&world).into_iter().find(wanted).expect("a prelude can be played");
        let next = self.explorer.act(&world, &action)?.expect("a prelude does something");
        if matches!(act, Prelude::EnlistUnseen | Prelude::BindUnseen) {
            Ok(next)
        } else {
            self.settle(next, act == Prelude::Tick)
        }
    }

    /// Everything that is under way arrives, in order; no time passes and nobody asks for anything.
    fn settle(&mut self, mut world: World, wake: bool) -> Result<World, Fault> {
        'settling: loop {
            for action in self.explorer.actions(&world) {
                let settles = match action {
                    Action::Deliver { .. } | Action::Sync { .. } | Action::Look { .. } | Action::Tell { .. } => true,
                    Action::See { epoch, .. } => epoch == self.explorer.metas.get(world.meta).epoch(),
                    Action::Wake { .. } => wake,
                    _ => false,
                };
                if settles && let Some(next) = self.explorer.act(&world, &action)? {
                    world = next;
                    continue 'settling;
                }
            }
            return Ok(world);
        }
    }

    fn steps_to(&self, number: u32) -> Vec<u16> {
        let mut actions = Vec::new();
        let mut at = number;
        while at != 0 {
            let step = self.steps[at as usize];
            actions.push(step.action);
            at = step.from;
        }
        actions.reverse();
        actions
    }

    /// Walks the steps once more and tells what happens.
    fn violation(&mut self, fault: &Fault, steps: Vec<u16>) -> Violation {
        let mut trace = Vec::new();
        let mut world = self.prepare().ok();
        for step in steps {
            let Some(now) = world.take() else { break };
            let action = self.explorer.actions(&now).swap_remove(usize::from(step));
            let mut line = format!("{:>2}. {}", trace.len() + 1, self.explorer.describe(&now, &action));
            self.explorer.told = Some(Vec::new());
            world = self.explorer.act(&now, &action).ok().flatten();
            for told in self.explorer.told.take().unwrap_or_default() {
                line.push_str("\n      → ");
                line.push_str(&told);
            }
            trace.push(line);
        }
        trace.push(format!(" !  {}", fault.what));
        Violation { checker: fault.checker, configuration: self.row.configuration.clone(), trace }
    }
}
