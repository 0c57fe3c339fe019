//! Operations: what they are made of, when a step is true, and how they end.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::{Town, add_node, create};
use crate::soundness::MAX_WISH;
use crate::*;

const B1: BucketId = BucketId(1);

fn start(id: u64, steps: Vec<Step>) -> Command {
    Command::StartOperation { id: OperationId(id), by: "ada: a new disk".into(), steps }
}

fn advance(id: u64, from_step: u32) -> Command {
    Command::AdvanceOperation { id: OperationId(id), from_step }
}

fn cancel(id: u64) -> Command {
    Command::CancelOperation { id: OperationId(id), why: "not today".into() }
}

fn enlist(node: u64) -> Step {
    Step::Enlist { bucket: B1, node: NodeId(node) }
}

fn seated(node: u64) -> Step {
    Step::AwaitSeated { bucket: B1, node: NodeId(node) }
}

fn dismiss(node: u64) -> Step {
    Step::Dismiss { bucket: B1, node: NodeId(node) }
}

fn hand_over(to: u64) -> Step {
    Step::HandOver { bucket: B1, to: NodeId(to) }
}

fn split(child: u64, first: u16, last: u16) -> Step {
    Step::Split { bucket: B1, child: BucketId(child), slots: SlotSet::range(Slot(first), Slot(last)) }
}

impl Town {
    /// Four nodes, one bucket on the first two.
    fn of_one_bucket() -> Self {
        let mut town = Self::of(4);
        town.accept(&create("k", 2, &[&[1, 2]]));
        town
    }

    fn succeed(&mut self, change: Change) {
        let replaces = self.government().term;
        self.accept(&Command::Succeed { bucket: B1, replaces, change });
    }

    fn government(&self) -> &Government {
        self.blueprint.government(B1).unwrap()
    }

    fn seat(&mut self, node: u64) {
        let candidate = self.government().named(NodeId(node)).unwrap();
        let by = self.government().primary;
        self.succeed(Change::Seat { candidate, by });
    }

    fn state(&self, id: u64) -> &OperationState {
        &self.blueprint.operations[&OperationId(id)].state
    }

    fn hitch(&self, id: u64) -> Hitch {
        match self.state(id) {
            OperationState::Failed { why } => *why,
            other => panic!("it did not fail: {other:?}"),
        }
    }
}

#[test]
fn step_by_step() {
    let mut town = Town::of_one_bucket();
    let moving = start(1, vec![enlist(3), seated(3), dismiss(2)]);
    town.accept(&moving);
    town.repeat(&moving);
    assert_eq!(town.refuse(&advance(1, 0)), Refusal::StepOpen { id: OperationId(1), step: 0 });
    town.succeed(Change::Enlist { node: NodeId(3) });
    town.accept(&advance(1, 0));
    town.repeat(&advance(1, 0));
    assert_eq!(town.refuse(&advance(1, 1)), Refusal::StepOpen { id: OperationId(1), step: 1 });
    assert_eq!(town.refuse(&advance(1, 2)), Refusal::StepNotReached { id: OperationId(1), step: 2, at: 1 });
    town.seat(3);
    town.accept(&advance(1, 1));
    let secondary = town.government().named(NodeId(2)).unwrap();
    town.succeed(Change::Dismiss { secondary, fate: Fate::Leaves });
    town.accept(&advance(1, 2));
    assert_eq!(town.state(1), &OperationState::Done);
    for command in [advance(1, 2), advance(1, 3), moving] {
        town.repeat(&command);
    }
    for command in [cancel(1), Command::PauseOperation { id: OperationId(1) }] {
        assert_eq!(town.refuse(&command), Refusal::OperationOver(OperationId(1)));
    }
}

fn plan(id: u64, steps: Vec<Step>) -> Command {
    Command::PlanOperation { id: OperationId(id), by: "ada: a new disk".into(), steps }
}

fn apply(id: u64) -> Command {
    Command::ApplyOperation { id: OperationId(id) }
}

#[test]
fn a_plan_holds_nothing_until_it_is_applied() {
    let mut town = Town::of_one_bucket();
    let moving = plan(1, vec![split(257, 0, 9), enlist(3), seated(3), dismiss(2)]);
    town.accept(&moving);
    town.repeat(&moving);
    assert!(town.blueprint.operation_on(B1).is_none() && town.blueprint.reserved.is_empty());
    for command in [advance(1, 0), Command::PauseOperation { id: OperationId(1) }] {
        assert_eq!(town.refuse(&command), Refusal::OperationNotBegun(OperationId(1)));
    }
    let begun = match moving {
        Command::PlanOperation { id, by, steps } => Command::StartOperation { id, by, steps },
        other => other,
    };
    assert_eq!(
        town.refuse(&begun),
        Refusal::OperationTaken(OperationId(1)),
        "it is not begun by being asked for again"
    );
    town.accept(&apply(1));
    town.repeat(&apply(1));
    town.repeat(&begun);
    assert!(town.blueprint.operation_on(B1).is_some() && town.blueprint.reserved.contains_key(&BucketId(257)));
    town.accept(&cancel(1));
    assert_eq!(town.refuse(&apply(1)), Refusal::OperationOver(OperationId(1)));
}

#[test]
fn a_plan_that_makes_no_sense_any_more_is_not_begun() {
    let mut town = Town::of_one_bucket();
    town.accept(&plan(1, vec![split(257, 0, 9)]));
    town.accept(&plan(2, vec![enlist(3), seated(3)]));
    town.accept(&start(3, vec![split(257, 10, 19)]));
    assert_eq!(town.refuse(&apply(2)), Refusal::BucketBusy { bucket: B1, by: OperationId(3) });
    town.accept(&cancel(1)); // and what the third one reserved is still its own
    assert!(town.blueprint.reserved.contains_key(&BucketId(257)));
    town.accept(&cancel(3));
    town.accept(&apply(2));
}

#[test]
fn plans_that_nobody_applies_are_forgotten() {
    let mut town = Town::of_one_bucket();
    for id in 1..=40 {
        town.accept(&plan(id, vec![enlist(3)]));
    }
    assert_eq!(town.blueprint.operations.len(), 32);
    assert_eq!(town.refuse(&apply(8)), Refusal::UnknownOperation(OperationId(8)));
    town.accept(&apply(9));
}

/// Several are filled at once: they are enlisted before the first of them is waited for.
#[test]
fn whoever_was_enlisted_and_not_seated_is_dropped_with_its_operation() {
    let mut town = Town::of(4);
    town.accept(&create("k", 2, &[&[1, 2], &[1, 2]]));
    let second = |step: Step| match step {
        Step::Enlist { node, .. } => Step::Enlist { bucket: BucketId(2), node },
        _ => Step::AwaitSeated { bucket: BucketId(2), node: NodeId(3) },
    };
    town.accept(&start(1, vec![enlist(3), second(enlist(3)), seated(3), second(seated(3))]));
    town.succeed(Change::Enlist { node: NodeId(3) });
    town.accept(&advance(1, 0));
    let replaces = town.blueprint.government(BucketId(2)).unwrap().term;
    let change = Change::Enlist { node: NodeId(3) };
    town.accept(&Command::Succeed { bucket: BucketId(2), replaces, change });
    town.accept(&advance(1, 1));
    town.accept(&cancel(1));
    for bucket in [B1, BucketId(2)] {
        assert_eq!(town.blueprint.government(bucket).unwrap().named(NodeId(3)), None);
    }
}

/// It is past its commit point: what became of it later is not the operation's.
#[test]
fn whoever_was_seated_and_became_a_candidate_again_stays_one() {
    let mut town = Town::of_one_bucket();
    town.accept(&start(1, vec![enlist(3), seated(3), dismiss(2)]));
    town.succeed(Change::Enlist { node: NodeId(3) });
    town.accept(&advance(1, 0));
    town.seat(3);
    town.accept(&advance(1, 1));
    let secondary = town.government().named(NodeId(3)).unwrap();
    town.succeed(Change::Dismiss { secondary, fate: Fate::Stalled });
    town.accept(&cancel(1));
    assert!(town.government().candidates.iter().any(|candidate| candidate.node == NodeId(3)));
}

#[test]
fn operations_that_cannot_be_started() {
    let mut town = Town::of_one_bucket();
    town.accept(&Command::Depart { node: NodeId(4) });
    let next = |next| OperationId(next);
    let whole = SlotSet::all();
    let cases = [
        (start(2, vec![enlist(3)]), Refusal::OperationNotNext { id: next(2), next: next(1) }),
        (start(1, vec![]), Refusal::BadStepCount { steps: 0 }),
        (start(1, vec![enlist(3); 1025]), Refusal::BadStepCount { steps: 1025 }),
        (start(1, vec![enlist(4)]), Refusal::NodeDeparted(NodeId(4))),
        (start(1, vec![hand_over(9)]), Refusal::UnknownNode(NodeId(9))),
        (start(1, vec![dismiss(9)]), Refusal::UnknownNode(NodeId(9))),
        (start(1, vec![enlist(2)]), Unlawful::AlreadyNamed(NodeId(2)).into()),
        (start(1, vec![split(3, 0, 9)]), Refusal::ChildNotNext { child: BucketId(3), next: BucketId(257) }),
        (
            start(1, vec![split(257, 0, 9), split(257, 10, 19)]),
            Refusal::ChildNotNext { child: BucketId(257), next: BucketId(513) },
        ),
        (start(1, vec![split(257, 0, 16383)]), Refusal::NotOfParent { parent: B1, slots: whole }),
        (
            start(1, vec![Step::Enlist { bucket: BucketId(257), node: NodeId(3) }, split(257, 0, 9)]),
            Refusal::UnknownBucket(BucketId(257)),
        ),
        (Command::StartOperation { id: next(1), by: "\n".into(), steps: vec![enlist(3)] }, Refusal::BadWords),
        (
            Command::StartOperation { id: next(1), by: "x".repeat(MAX_WISH + 1), steps: vec![enlist(3)] },
            Refusal::LongWish { bytes: MAX_WISH + 1, most: MAX_WISH },
        ),
    ];
    for (command, refusal) in cases {
        assert_eq!(town.refuse(&command), refusal);
    }
    town.accept(&start(1, vec![enlist(3)]));
    assert_eq!(town.refuse(&start(1, vec![dismiss(2)])), Refusal::OperationTaken(next(1)));
    assert_eq!(town.refuse(&start(2, vec![dismiss(2)])), Refusal::BucketBusy { bucket: B1, by: next(1) });
    town.accept(&cancel(1));
    town.accept(&start(2, vec![dismiss(2)]));
}

#[test]
fn a_cancel_takes_back_what_is_not_seated() {
    let mut town = Town::of_one_bucket();
    town.accept(&start(1, vec![enlist(3), seated(3), dismiss(2)]));
    town.succeed(Change::Enlist { node: NodeId(3) });
    town.accept(&advance(1, 0));
    let term = town.government().term;
    town.accept(&cancel(1));
    town.repeat(&cancel(1));
    assert!(town.government().candidates.is_empty(), "it fell back");
    assert_eq!(town.government().term, term.next(), "a seat under way loses to this, or has won before");

    // The same, cancelled when the candidate is seated but nobody said so yet: past its commit point it stays.
    town.accept(&start(2, vec![enlist(3), seated(3), dismiss(2)]));
    town.succeed(Change::Enlist { node: NodeId(3) });
    town.accept(&advance(2, 0));
    town.seat(3);
    town.accept(&cancel(2));
    assert_eq!(town.government().size(), 3);
}

/// The candidate is half filled when a member dies, and the operation is cancelled: to drop it would be to begin anew elsewhere.
#[test]
fn a_cancel_leaves_a_candidate_where_a_member_is_missing() {
    let mut town = Town::of_one_bucket();
    town.accept(&start(1, vec![enlist(3), seated(3), dismiss(2)]));
    town.succeed(Change::Enlist { node: NodeId(3) });
    town.accept(&advance(1, 0));
    let secondary = town.government().secondaries[0];
    town.succeed(Change::Dismiss { secondary, fate: Fate::Leaves });
    town.accept(&cancel(1));
    let candidates: Vec<NodeId> = town.government().candidates.iter().map(|m| m.node).collect();
    assert_eq!(candidates, [NodeId(3)], "it is needed");
    town.seat(3);
    assert_eq!(town.government().size(), 2);
}

#[test]
fn a_target_that_departs() {
    // Before it is seated: back to how it was.
    let mut town = Town::of_one_bucket();
    town.accept(&start(1, vec![enlist(3), seated(3), dismiss(2)]));
    town.succeed(Change::Enlist { node: NodeId(3) });
    town.accept(&advance(1, 0));
    town.accept(&Command::Depart { node: NodeId(3) });
    town.accept(&advance(1, 1));
    assert_eq!(town.hitch(1), Hitch::NodeGone(NodeId(3)));
    assert!(town.government().candidates.is_empty());
    town.repeat(&advance(1, 1));

    // After it is seated: whom it was to replace stays.
    town.accept(&Command::Return { node: NodeId(3) });
    town.accept(&start(2, vec![enlist(3), seated(3), dismiss(2)]));
    town.succeed(Change::Enlist { node: NodeId(3) });
    town.seat(3);
    town.accept(&advance(2, 0));
    town.accept(&advance(2, 1));
    town.accept(&Command::Depart { node: NodeId(3) });
    town.accept(&advance(2, 2));
    let instead = Hitch::ReplacementLost { bucket: B1, node: NodeId(2), instead: NodeId(3) };
    assert_eq!(town.hitch(2), instead);
    assert_eq!(instead.to_string(), "n3, which was to take the place of n2 in b1, has lost its own: n2 keeps its part");
    assert_eq!(town.government().size(), 3, "what departed is dismissed by the departure, not by the operation");
}

#[test]
fn a_source_that_departs_is_dismissed_already() {
    let mut town = Town::of_one_bucket();
    town.accept(&start(1, vec![dismiss(2)]));
    town.accept(&Command::Depart { node: NodeId(2) });
    let secondary = town.government().secondaries[0];
    town.succeed(Change::Dismiss { secondary, fate: Fate::Leaves });
    town.accept(&advance(1, 0));
    assert_eq!(town.state(1), &OperationState::Done);
}

#[test]
fn whoever_leads_is_not_dismissed() {
    let mut town = Town::of_one_bucket();
    town.accept(&start(1, vec![hand_over(2), dismiss(1)]));
    let (to, by) = (town.government().secondaries[0], town.government().primary);
    town.succeed(Change::HandOver { to, by });
    town.accept(&advance(1, 0));
    town.succeed(Change::HandOver { to: by, by: to });
    town.accept(&advance(1, 1));
    assert_eq!(town.hitch(1), Hitch::Leads { bucket: B1, node: NodeId(1) });
}

#[test]
fn splits_and_their_children() {
    let mut town = Town::of_one_bucket();
    let child = BucketId(257);
    town.accept(&start(
        1,
        vec![
            split(257, 0, 99),
            Step::Enlist { bucket: child, node: NodeId(3) },
            split(513, 100, 199),
            split(769, 200, 299),
        ],
    ));
    assert_eq!(town.blueprint.reserved.len(), 3);
    let at = Position::new(1, 7);
    let slots = SlotSet::range(Slot(0), Slot(99));
    town.accept(&Command::Register { parent: B1, child, slots, at, term: at.term });
    town.accept(&advance(1, 0));
    assert_eq!(
        town.refuse(&start(2, vec![Step::Dismiss { bucket: child, node: NodeId(2) }])),
        Refusal::BucketBusy { bucket: child, by: OperationId(1) }
    );
    town.accept(&Command::Succeed { bucket: child, replaces: Term(1), change: Change::Enlist { node: NodeId(3) } });
    town.accept(&advance(1, 1));
    // Somebody may have been told to make b513; nobody was told of b769.
    town.accept(&cancel(1));
    assert!(town.blueprint.reserved.contains_key(&BucketId(513)) && town.blueprint.is_retired(BucketId(769)));
}

#[test]
fn paused_and_resumed() {
    let mut town = Town::of_one_bucket();
    let (pause, resume) =
        (Command::PauseOperation { id: OperationId(1) }, Command::ResumeOperation { id: OperationId(1) });
    assert_eq!(town.refuse(&pause), Refusal::UnknownOperation(OperationId(1)));
    town.accept(&start(1, vec![enlist(3)]));
    town.repeat(&resume);
    town.accept(&pause);
    town.repeat(&pause);
    town.succeed(Change::Enlist { node: NodeId(3) });
    assert_eq!(town.refuse(&advance(1, 0)), Refusal::OperationPaused(OperationId(1)));
    town.accept(&resume);
    town.accept(&advance(1, 0));
    assert_eq!(town.state(1), &OperationState::Done);
}

#[test]
fn a_removed_keyspace_ends_its_operations() {
    let mut town = Town::of_one_bucket();
    town.accept(&start(1, vec![enlist(3)]));
    town.accept(&Command::RemoveKeyspace { keyspace: KeyspaceId(1) });
    town.accept(&advance(1, 0));
    assert_eq!(town.hitch(1), Hitch::BucketGone(B1));
}

#[test]
fn the_oldest_that_are_over_are_forgotten() {
    let mut town = Town::of_one_bucket();
    for id in 1..=70 {
        town.accept(&start(id, vec![enlist(3)]));
        town.accept(&cancel(id));
    }
    assert_eq!(town.blueprint.operations.len(), 64);
    let (one, next) = (OperationId(1), OperationId(71));
    assert_eq!(town.refuse(&start(1, vec![enlist(3)])), Refusal::OperationNotNext { id: one, next });
    assert_eq!(town.refuse(&advance(1, 0)), Refusal::UnknownOperation(one));
}

#[test]
fn relief_is_bucket_by_bucket() {
    let mut town = Town::of(4);
    town.accept(&create("k", 3, &[&[1, 2, 3], &[2, 1, 3], &[1, 2, 3], &[2, 3]]));
    let m = |node| Member::new(node, 5);
    let usurp = |bucket, to| Succession {
        bucket: BucketId(bucket),
        replaces: Term(1),
        change: Change::Usurp { to: m(to), fate: Fate::Leaves },
    };
    let dismissed = Succession {
        bucket: BucketId(2),
        replaces: Term(1),
        change: Change::Dismiss { secondary: m(1), fate: Fate::Leaves },
    };
    let parts = vec![usurp(1, 2), dismissed, usurp(3, 2), usurp(4, 3), usurp(9, 2)];
    let relieve = Command::Relieve { parts };
    town.repeat(&relieve); // nobody has departed

    town.accept(&Command::Depart { node: NodeId(1) });
    let change = Change::HandOver { to: m(3), by: m(1) };
    town.accept(&Command::Succeed { bucket: BucketId(3), replaces: Term(1), change });
    town.accept(&relieve);
    town.repeat(&relieve);
    let leads = |bucket| {
        let g = town.blueprint.government(BucketId(bucket)).unwrap();
        (g.primary.node.0, g.term.0, g.size())
    };
    assert_eq!(leads(1), (2, 2, 2));
    assert_eq!(leads(2), (2, 2, 2));
    assert_eq!(leads(3), (3, 2, 3), "it moved on: skipped");
    assert_eq!(leads(4), (2, 1, 2), "its primary is here: it never notices");

    // Nobody inherits who has departed itself, and nothing but relief is done this way.
    town.accept(&Command::Depart { node: NodeId(3) });
    town.accept(&Command::Depart { node: NodeId(2) });
    let dead =
        Succession { bucket: BucketId(4), replaces: Term(1), change: Change::Usurp { to: m(3), fate: Fate::Leaves } };
    let foreign = Succession { bucket: BucketId(1), replaces: Term(2), change: Change::Enlist { node: NodeId(4) } };
    town.repeat(&Command::Relieve { parts: vec![dead.clone(), foreign] });
    assert_eq!(town.refuse(&Command::Relieve { parts: vec![dead; 1025] }), Refusal::TooManyParts(1025));
    town.accept(&add_node(5, "e"));
}

fn throttle(id: u64, rate: Option<u64>) -> Command {
    Command::ThrottleOperation { id: OperationId(id), rate }
}

#[test]
fn a_throttle_is_kept_and_refused() {
    let mut town = Town::of_one_bucket();
    let o1 = OperationId(1);
    assert_eq!(town.refuse(&throttle(1, Some(5))), Refusal::UnknownOperation(o1));
    town.accept(&plan(1, vec![enlist(3), seated(3)]));
    town.accept(&throttle(1, Some(1000)));
    town.repeat(&throttle(1, Some(1000)));
    assert_eq!(town.refuse(&throttle(1, Some(0))), Refusal::BadThrottle(o1));
    town.accept(&apply(1));
    assert_eq!(town.blueprint.operations[&o1].throttle, Some(1000), "what was said of a plan holds when it is applied");
    town.accept(&throttle(1, None));
    town.accept(&throttle(1, Some(7)));
    town.accept(&cancel(1));
    assert_eq!(town.refuse(&throttle(1, None)), Refusal::OperationOver(o1));
}

/// Whoever fills finds its share in the blueprint: of those that the operation enlisted and that are candidates now.
#[test]
fn a_throttle_is_shared_by_the_candidates_of_the_operation() {
    let mut town = Town::of(6);
    town.accept(&create("k", 2, &[&[1, 2], &[2, 3], &[3, 4]]));
    let on = |bucket, node| Step::Enlist { bucket: BucketId(bucket), node: NodeId(node) };
    let await_on = |bucket, node| Step::AwaitSeated { bucket: BucketId(bucket), node: NodeId(node) };
    let change = |town: &mut Town, bucket, change| {
        let replaces = town.blueprint.government(BucketId(bucket)).unwrap().term;
        town.accept(&Command::Succeed { bucket: BucketId(bucket), replaces, change });
    };
    let throttles = |town: &Town| -> Vec<(u64, u64, u64)> {
        let found = town.blueprint.throttles();
        let each = |(bucket, rates): (&BucketId, &Vec<(NodeId, u64)>)| {
            rates.iter().map(|(node, rate)| (bucket.0, node.0, *rate)).collect::<Vec<_>>()
        };
        found.iter().flat_map(each).collect()
    };
    town.accept(&start(1, vec![on(1, 5), on(2, 5), await_on(1, 5), await_on(2, 5)]));
    change(&mut town, 1, Change::Enlist { node: NodeId(5) });
    town.accept(&advance(1, 0));
    // Recovery needs no operation, and no throttle of one holds for it.
    change(&mut town, 1, Change::Enlist { node: NodeId(6) });
    change(&mut town, 3, Change::Enlist { node: NodeId(6) });
    assert_eq!(throttles(&town), []);
    town.accept(&throttle(1, Some(1001)));
    assert_eq!(throttles(&town), [(1, 5, 1001)], "the second is not enlisted yet");
    change(&mut town, 2, Change::Enlist { node: NodeId(5) });
    assert_eq!(throttles(&town), [(1, 5, 500), (2, 5, 500)], "before anybody says that the step is true");
    assert_eq!(town.blueprint.enlisted_by(BucketId(2), NodeId(5)).map(|o| o.id), Some(OperationId(1)));
    assert!(town.blueprint.enlisted_by(BucketId(1), NodeId(6)).is_none());
    town.accept(&Command::PauseOperation { id: OperationId(1) });
    assert_eq!(throttles(&town), [(1, 5, 0), (2, 5, 0)]);
    town.accept(&Command::ResumeOperation { id: OperationId(1) });
    let government = town.blueprint.government(B1).unwrap();
    let seat = Change::Seat { candidate: government.named(NodeId(5)).unwrap(), by: government.primary };
    change(&mut town, 1, seat);
    assert_eq!(throttles(&town), [(2, 5, 1001)], "who is seated needs no share");
    town.accept(&throttle(1, Some(1)));
    let secondary = town.blueprint.government(B1).unwrap().named(NodeId(2)).unwrap();
    change(&mut town, 1, Change::Dismiss { secondary, fate: Fate::Stalled });
    assert_eq!(throttles(&town), [(2, 5, 1)], "nor who is a candidate for another reason");
    town.accept(&cancel(1));
    assert_eq!(throttles(&town), []);
}

/// A process that is a later one, of a node that is there and has its part again; who was replaced will never be back.
#[test]
fn a_restart_is_over_when_the_node_has_its_part_again() {
    let mut town = Town::of_one_bucket();
    let begin = |life| Command::Begin { node: NodeId(2), life };
    let restart = Step::AwaitRestart { bucket: B1, node: NodeId(2), life: 4 };
    town.accept(&begin(4));
    town.accept(&start(1, vec![restart.clone()]));
    assert_eq!(town.refuse(&advance(1, 0)), Refusal::StepOpen { id: OperationId(1), step: 0 });
    town.accept(&begin(5));
    let epoch = town.blueprint.epoch;
    town.blueprint.apply(&begin(3)).expect("it is true already, and more");
    assert_eq!((town.blueprint.epoch, town.blueprint.nodes[&NodeId(2)].life), (epoch, 5), "said late");
    town.accept(&Command::Depart { node: NodeId(2) });
    assert_eq!(town.refuse(&advance(1, 0)), Refusal::StepOpen { id: OperationId(1), step: 0 });
    town.accept(&Command::Return { node: NodeId(2) });
    town.accept(&advance(1, 0));
    assert_eq!(town.blueprint.operations[&OperationId(1)].state, OperationState::Done);

    // Dismissed meanwhile: not before it is seated again, or another one in its place.
    let later = Step::AwaitRestart { bucket: B1, node: NodeId(2), life: 5 };
    town.accept(&start(2, vec![later]));
    town.accept(&begin(6));
    let government = town.blueprint.government(B1).expect("it is governed").clone();
    let secondary = *government.secondaries.iter().find(|m| m.node == NodeId(2)).expect("it is a secondary");
    let dismiss = Change::Dismiss { secondary, fate: Fate::Leaves };
    town.accept(&Command::Succeed { bucket: B1, replaces: government.term, change: dismiss });
    assert_eq!(town.refuse(&advance(2, 0)), Refusal::StepOpen { id: OperationId(2), step: 0 });
    town.accept(&Command::Depart { node: NodeId(2) });
    let name = town.blueprint.nodes[&NodeId(2)].name.clone();
    town.accept(&add_node(9, &name));
    town.accept(&advance(2, 0));
    let failed = OperationState::Failed { why: Hitch::NodeGone(NodeId(2)) };
    assert_eq!(town.blueprint.operations[&OperationId(2)].state, failed);
    assert_eq!(town.refuse(&Command::Begin { node: NodeId(77), life: 1 }), Refusal::UnknownNode(NodeId(77)));
    assert_eq!(town.refuse(&begin(u64::MAX)), Refusal::BadLife(u64::MAX));
}
