//! The smallest world that still fails in the same way: less is taken away only while the same checker complains.
//!
//! Taking something away moves all chance that follows, so a smaller world may pass by luck alone. Therefore each is tried with a
//! few throws of the dice before it is given up.

use std::ops::Range;

use crate::changes::Changes;
use crate::plan::{Fault, Plan, SECOND};
use crate::runner::{Outcome, on_all_cores};
use crate::world::Failure;

/// Throws for each smaller world.
const THROWS: u64 = 8;
/// Worlds in all: some failures can be made smaller in too many ways.
const MOST_RUNS: u64 = 4000;

/// How far it is.
#[derive(Clone, Debug)]
pub struct Shrunk {
    pub changes: Changes,
    pub failure: Failure,
    /// When it failed, in microseconds of true time.
    pub failed_at: u64,
    pub runs: u64,
}

/// Starts from what is given; none if that does not fail.
pub fn shrink(
    seed: u64,
    changes: Changes,
    run: impl Fn(Plan) -> Outcome + Sync,
    tell: impl FnMut(&Shrunk),
) -> Option<Shrunk> {
    let first = run(changes.plan(seed));
    let now = Shrunk { changes, failure: first.failure?, failed_at: first.tally.simulated, runs: 1 };
    let mut shrinker = Shrinker { seed, run, tell, now };
    while shrinker.pass() {}
    Some(shrinker.now)
}

struct Shrinker<R, T> {
    seed: u64,
    run: R,
    tell: T,
    now: Shrunk,
}

impl<R: Fn(Plan) -> Outcome + Sync, T: FnMut(&Shrunk)> Shrinker<R, T> {
    /// Everything once; was any of it of use?
    fn pass(&mut self) -> bool {
        let plan = self.plan();
        // What comes after the failure is not needed, and until then not a byte changes.
        let mut smaller = false;
        let upto = self.now.failed_at / SECOND + 1;
        if upto < plan.unrest / SECOND {
            smaller |= self.attempt(|c| c.unrest = Some(upto));
        }
        smaller |= self.drop_faults();
        if plan.move_every > 0 {
            smaller |= self.attempt(|c| c.no_moves = true);
        }
        if self.plan().ambush > 0 {
            smaller |= self.attempt(|c| c.no_ambush = true);
        }
        smaller |= self.lower(1..plan.clients, |c, n| c.clients = Some(n));
        smaller |= self.lower(1..plan.buckets, |c, n| c.buckets = Some(n));
        smaller |= self.lower(usize::from(plan.replicas)..plan.nodes, |c, n| c.nodes = Some(n));
        let unrest = (self.plan().unrest / SECOND) as usize;
        smaller | self.lower(1..unrest, |c, n| c.unrest = Some(n as u64))
    }

    /// All at once if that is possible, else one after the other.
    fn drop_faults(&mut self) -> bool {
        let faults: Vec<Fault> = self.plan().faults.iter().collect();
        if faults.len() > 1 && self.attempt(|c| c.without.extend(&faults)) {
            return true;
        }
        faults.iter().fold(false, |smaller, fault| self.attempt(|c| c.without.push(*fault)) | smaller)
    }

    /// The least number that still fails, or at least a lower one: first the least of all, then half way, then one less.
    fn lower(&mut self, mut range: Range<usize>, set: impl Fn(&mut Changes, usize)) -> bool {
        let before = range.end;
        while let Some(number) = [range.start, range.start + range.len() / 2, range.end.saturating_sub(1)]
            .into_iter()
            .find(|number| range.contains(number) && self.attempt(|c| set(c, *number)))
        {
            range.end = number;
        }
        range.end < before
    }

    /// Makes the world smaller if it then still fails.
    fn attempt(&mut self, change: impl FnOnce(&mut Changes)) -> bool {
        if self.now.runs >= MOST_RUNS {
            return false;
        }
        let mut smaller = self.now.changes.clone();
        change(&mut smaller);
        let others = std::iter::once(None).chain((1..THROWS).map(Some)).filter(|dice| *dice != smaller.dice);
        let throws: Vec<Option<u64>> = std::iter::once(smaller.dice).chain(others).collect();
        let checker = self.now.failure.checker;
        let (run, seed) = (&self.run, self.seed);
        let mut runs = 0;
        let mut found: Option<(u64, Shrunk)> = None;
        on_all_cores(
            0..throws.len() as u64,
            |n| {
                let changes = Changes { dice: throws[n as usize], ..smaller.clone() };
                let outcome = run(changes.plan(seed));
                let failure = outcome.failure.filter(|f| f.checker == checker);
                failure.map(|failure| Shrunk { changes, failure, failed_at: outcome.tally.simulated, runs: 0 })
            },
            |n, shrunk| {
                runs += 1;
                if let Some(shrunk) = shrunk
                    && found.as_ref().is_none_or(|(lowest, _)| n < *lowest)
                {
                    found = Some((n, shrunk));
                }
                found.is_none()
            },
        );
        self.now.runs += runs;
        let succeeded = found.is_some();
        if let Some((_, shrunk)) = found {
            self.now = Shrunk { runs: self.now.runs, ..shrunk };
        }
        (self.tell)(&self.now);
        succeeded
    }

    fn plan(&self) -> Plan {
        self.now.changes.plan(self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    /// A world that fails if a crash is possible and there are two clients, whatever else there is.
    #[allow(clippy::needless_pass_by_value, reason = "as worlds are run")]
    fn run(plan: Plan) -> Outcome {
        let fails = plan.faults.has(Fault::Crash) && plan.clients >= 2;
        let failure = fails.then(|| Failure { checker: "linearizable", text: String::new() });
        let tally = Tally { simulated: 3 * SECOND / 2, ..Tally::default() };
        Outcome { seed: plan.seed, tally, hash: 0, failure, lines: Vec::new(), chronicle: None }
    }

    #[test]
    fn only_what_is_needed_is_left() {
        let seed = (0..).find(|s| Plan::draw(*s).faults.has(Fault::Crash)).expect("some seed crashes");
        let shrunk = shrink(seed, Changes::default(), run, |_| ()).expect("it fails");
        let plan = shrunk.changes.plan(seed);
        assert_eq!(plan.faults.iter().collect::<Vec<_>>(), [Fault::Crash]);
        assert_eq!((plan.clients, plan.buckets, plan.move_every, plan.unrest), (2, 1, 0, SECOND));
        assert_eq!(plan.nodes, usize::from(plan.replicas));
        assert_eq!(shrunk.changes.dice, None);
    }

    #[test]
    fn what_passes_cannot_be_shrunk() {
        let without = Changes { without: vec![Fault::Crash], ..Changes::default() };
        assert!(shrink(0, without, run, |_| ()).is_none());
    }
}
