//! What is remembered of what happened.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::{add_node, create};
use crate::*;

const B1: BucketId = BucketId(1);

struct Times {
    state: MetaState,
}

impl Times {
    /// Two nodes, one bucket on the first.
    fn begin() -> Self {
        let mut times = Self { state: MetaState::default() };
        times.accept(&add_node(1, "a"));
        times.accept(&add_node(2, "b"));
        times.accept(&create("k", 1, &[&[1]]));
        times
    }

    /// Each a second after the one before, by both clocks.
    fn apply(&mut self, change: &Command) -> Result<Applied, Refusal> {
        let stamp = Instant(self.state.clock.0 + 1_000_000);
        self.state.tell_wall(1_700_000_000_000_000 + stamp.0);
        let applied = self.state.apply::<Honest>(stamp, &MetaCommand::Change(change.clone()));
        self.state.check_invariants();
        assert_eq!(decode_meta(&encode_meta(&self.state)).as_ref(), Ok(&self.state));
        applied
    }

    fn accept(&mut self, change: &Command) {
        self.apply(change).unwrap_or_else(|why| panic!("{change:?}: {why}"));
    }

    /// The last ones, in short.
    fn last(&self, count: usize) -> Vec<String> {
        let skipped = self.state.history.iter().count().saturating_sub(count);
        let short = |past: &Past| match &past.what {
            Happening::Operation { id, at, steps, turn, .. } => format!("{id} {turn:?} {at}/{steps}"),
            Happening::Node { id, turn, .. } => format!("{id} {turn:?}"),
            Happening::Keyspace { name, turn, .. } => format!("{name} {turn:?}"),
            Happening::AutoRebalance { on, by } => format!("auto-rebalance {on} by {by}"),
        };
        self.state.history.iter().skip(skipped).map(short).collect()
    }

    fn succeed(&mut self, change: Change) {
        let replaces = self.state.blueprint.government(B1).unwrap().term;
        self.accept(&Command::Succeed { bucket: B1, replaces, change });
    }
}

fn start(id: u64) -> Command {
    let step = |node| Step::Enlist { bucket: B1, node: NodeId(node) };
    Command::StartOperation { id: OperationId(id), by: "ada: another copy".into(), steps: vec![step(2)] }
}

#[test]
fn what_was_accepted_is_remembered_once_and_nothing_else() {
    let mut times = Times::begin();
    assert_eq!(times.last(9), ["n1 Added", "n2 Added", "k Created"]);
    let o1 = OperationId(1);
    times.accept(&start(1));
    times.accept(&start(1)); // true already
    for command in [
        Command::ThrottleOperation { id: o1, rate: Some(5) },
        Command::PauseOperation { id: o1 },
        Command::PauseOperation { id: o1 },
        Command::ResumeOperation { id: o1 },
    ] {
        times.accept(&command);
    }
    let advance = Command::AdvanceOperation { id: o1, from_step: 0 };
    assert!(times.apply(&advance).is_err(), "it is not enlisted yet");
    times.succeed(Change::Enlist { node: NodeId(2) });
    times.accept(&advance);
    times.accept(&advance);
    assert!(times.apply(&Command::CancelOperation { id: o1, why: "late".into() }).is_err());
    let throttled = "o1 Throttled { rate: Some(5) } 0/1";
    assert_eq!(times.last(5), ["o1 Begun 0/1", throttled, "o1 Paused 0/1", "o1 Resumed 0/1", "o1 Done 1/1"]);
    let last = times.state.history.iter().next_back().expect("there are some");
    assert_eq!(
        (last.stamp, last.wall - last.stamp.0),
        (Instant(times.state.clock.0 - 2_000_000), 1_700_000_000_000_000)
    );
}

#[test]
fn of_a_long_wish_the_beginning_is_remembered() {
    let mut times = Times::begin();
    let by = format!("ada: migrate-slots {}", "1,".repeat(9000));
    let Command::StartOperation { id, steps, .. } = start(1) else { unreachable!() };
    times.accept(&Command::StartOperation { id, by: by.clone(), steps });
    assert_eq!(times.state.blueprint.operations[&id].started_by, by);
    let last = times.state.history.iter().next_back().expect("there are some");
    let Happening::Operation { by: kept, .. } = &last.what else { panic!("{last:?}") };
    assert_eq!(*kept, format!("{}…", &by[..256]));
}

#[test]
fn how_an_operation_ended_and_why() {
    let mut times = Times::begin();
    times.accept(&start(1));
    times.accept(&Command::CancelOperation { id: OperationId(1), why: "not today".into() });
    assert_eq!(times.last(1), ["o1 Cancelled { why: \"not today\" } 0/1"]);
    times.accept(&start(2));
    times.accept(&Command::RemoveKeyspace { keyspace: KeyspaceId(1) });
    times.accept(&Command::AdvanceOperation { id: OperationId(2), from_step: 0 });
    assert_eq!(times.last(2), ["k Removed", "o2 Failed { why: BucketGone(b1) } 0/1"]);
}

#[test]
fn who_asked_it_to_rebalance_by_itself_and_what_came_of_it() {
    let mut times = Times::begin();
    let set = |on| Command::SetAutoRebalance { on, by: "ada".into() };
    times.accept(&set(false)); // it was off already
    times.accept(&set(true));
    let steps = vec![Step::HandOver { bucket: B1, to: NodeId(1) }];
    let (id, based_on) = (OperationId(1), times.state.blueprint.epoch);
    times.accept(&Command::Rebalance { id, based_on, steps });
    times.accept(&set(false));
    assert_eq!(
        times.last(4),
        ["k Created", "auto-rebalance true by ada", "o1 Begun 0/1", "auto-rebalance false by ada"]
    );
}

/// Also those that the blueprint has forgotten; and not for ever.
#[test]
fn it_remembers_longer_than_the_blueprint_and_is_bounded() {
    let mut times = Times::begin();
    for id in 1..=(MOST_PAST as u64 / 2 + 10) {
        for change in [start(id), Command::CancelOperation { id: OperationId(id), why: "x".into() }] {
            assert!(times.state.apply::<Honest>(Instant(id), &MetaCommand::Change(change)).is_ok());
        }
    }
    times.state.check_invariants();
    let history = &times.state.history;
    assert_eq!((history.iter().count(), history.forgotten()), (MOST_PAST, 23));
    assert_eq!(history.iter().next().map(|past| past.number), Some(24));
    let is_first = |past: &Past| matches!(past.what, Happening::Operation { id: OperationId(100), .. });
    assert!(!times.state.blueprint.operations.contains_key(&OperationId(100)) && history.iter().any(is_first));
}
