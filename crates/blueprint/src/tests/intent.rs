//! What is in mind with nodes and keyspaces: marks, how many copies, and keyspaces that go.

use alloc::vec;

use super::{Town, add_node, create};
use crate::*;

const K1: KeyspaceId = KeyspaceId(1);
const B1: BucketId = BucketId(1);
const O1: OperationId = OperationId(1);

fn mark(node: u64, intent: Intent) -> Command {
    Command::Mark { node: NodeId(node), intent, of: None }
}

/// What a coordinator says that carries the first step of O1 out.
fn mark_first(node: u64, intent: Intent) -> Command {
    Command::Mark { node: NodeId(node), intent, of: Some((O1, 0)) }
}

fn replicas(replicas: u8) -> Command {
    Command::SetReplicas { keyspace: K1, replicas }
}

fn start(id: u64, steps: &[Step]) -> Command {
    Command::StartOperation { id: OperationId(id), by: "ada: winter".into(), steps: steps.to_vec() }
}

impl Town {
    fn set_minimum(&mut self, min: u8) {
        let replaces = self.blueprint.government(B1).unwrap().term;
        self.accept(&Command::Succeed { bucket: B1, replaces, change: Change::SetMinInSync { min } });
    }

    /// Until its step is open, or it is over.
    fn advance(&mut self, id: OperationId) {
        while self.blueprint.operations[&id].is_under_way()
            && self.blueprint.standing(&self.blueprint.operations[&id]) != Standing::Open
        {
            let from_step = self.blueprint.operations[&id].at;
            self.accept(&Command::AdvanceOperation { id, from_step });
        }
    }
}

#[test]
fn a_mark_stays_until_somebody_changes_it() {
    let mut town = Town::of(3);
    town.accept(&mark(2, Intent::Drains));
    town.repeat(&mark(2, Intent::Drains));
    town.accept(&Command::Depart { node: NodeId(2) });
    town.accept(&add_node(2, "elsewhere"));
    town.accept(&Command::Return { node: NodeId(2) });
    assert!(town.blueprint.drains(NodeId(2)), "whatever becomes of the node");
    let copy = decode(&encode(&town.blueprint)).unwrap();
    assert_eq!(copy.intent(NodeId(2)), Intent::Drains);
    town.accept(&mark(2, Intent::Goes));
    town.accept(&mark(2, Intent::Stays));
    assert!(!town.blueprint.drains(NodeId(2)));
    assert_eq!(town.refuse(&mark(9, Intent::Drains)), Refusal::UnknownNode(NodeId(9)));
}

#[test]
fn who_drains_is_no_target() {
    let mut town = Town::of(4);
    town.accept(&create("k", 3, &[&[1, 2, 3]]));
    for (node, intent) in [(3, Intent::Drains), (4, Intent::Goes)] {
        town.accept(&mark(node, intent));
        let node = NodeId(node);
        for step in [Step::Enlist { bucket: B1, node }, Step::HandOver { bucket: B1, to: node }] {
            let refused = town.refuse(&start(1, core::slice::from_ref(&step)));
            let named = matches!(step, Step::Enlist { .. }) && node == NodeId(3);
            let expected = if named { Unlawful::AlreadyNamed(node).into() } else { Refusal::NodeDrains(node) };
            assert_eq!(refused, expected);
        }
    }
}

#[test]
fn the_minimum_that_a_keyspace_begins_with_follows_its_copies() {
    let mut town = Town::of(4);
    town.accept(&create("k", 1, &[&[1]]));
    let minimum = |town: &Town| town.blueprint.keyspaces[&K1].min_in_sync;
    town.accept(&replicas(3));
    assert_eq!(minimum(&town), 2);
    assert_eq!(town.blueprint.government(B1).unwrap().min_in_sync, 1, "that is for its government to say (R8)");
    town.repeat(&replicas(3));
    town.set_minimum(2);
    assert_eq!(town.refuse(&replicas(1)), Refusal::BadMinimum { min: 2, replicas: 1 });
    assert_eq!(town.refuse(&replicas(0)), Refusal::BadReplicas(0));
    town.accept(&replicas(2));
    town.set_minimum(1);
    town.accept(&replicas(1));
    assert_eq!(minimum(&town), 1);
    town.accept(&Command::RemoveKeyspace { keyspace: K1 });
    assert_eq!(town.refuse(&replicas(2)), Refusal::UnknownKeyspace(K1));
}

/// What somebody chose is kept as far as it can be.
#[test]
fn a_minimum_of_ones_own() {
    let mut town = Town::of(4);
    let placement = vec![vec![NodeId(1), NodeId(2), NodeId(3)]];
    let (name, kind, durability) = ("k".into(), Kind::Store, Durability::Disk);
    let min_in_sync = Some(3);
    town.accept(&Command::CreateKeyspace { name, kind, replicas: 3, min_in_sync, durability, placement });
    town.accept(&replicas(4));
    assert_eq!(town.blueprint.keyspaces[&K1].min_in_sync, 3);
    town.set_minimum(2);
    town.accept(&replicas(2));
    assert_eq!(town.blueprint.keyspaces[&K1].min_in_sync, 2);
}

#[test]
fn steps_about_a_keyspace_or_a_node() {
    let mut town = Town::of(3);
    town.accept(&create("k", 2, &[&[1, 2]]));
    let steps = [
        Step::Mark { node: NodeId(3), intent: Intent::Goes, was: None },
        Step::SetReplicas { keyspace: K1, replicas: 3 },
        Step::RemoveKeyspace { keyspace: K1 },
        Step::AwaitErased { keyspace: K1 },
    ];
    town.accept(&start(1, &steps));
    for command in [mark(3, Intent::Goes), replicas(3), Command::RemoveKeyspace { keyspace: K1 }] {
        assert_eq!(town.blueprint.standing(&town.blueprint.operations[&O1]), Standing::Open, "before {command:?}");
        town.accept(&command);
        town.advance(O1);
    }
    assert_eq!(town.blueprint.operations[&O1].at, 3);
    let Rule::Removed { holders, .. } = town.blueprint.buckets[&B1].rule.clone() else { panic!("it is removed") };
    for holder in holders {
        town.accept(&Command::Erased { bucket: B1, holder });
    }
    town.advance(O1);
    assert_eq!(town.blueprint.operations[&O1].state, OperationState::Done);
}

#[test]
fn what_can_never_come_true() {
    let mut town = Town::of(3);
    town.accept(&create("k", 2, &[&[1, 2]]));
    town.accept(&start(1, &[Step::SetReplicas { keyspace: K1, replicas: 3 }]));
    town.accept(&start(2, &[Step::Mark { node: NodeId(3), intent: Intent::Goes, was: None }]));
    town.accept(&Command::RemoveKeyspace { keyspace: K1 });
    town.accept(&Command::RemoveNode { node: NodeId(3) });
    for (id, why) in [(1, Hitch::KeyspaceGone(K1)), (2, Hitch::NodeGone(NodeId(3)))] {
        town.advance(OperationId(id));
        assert_eq!(town.blueprint.operations[&OperationId(id)].state, OperationState::Failed { why });
    }
    for step in [Step::SetReplicas { keyspace: K1, replicas: 2 }, Step::RemoveKeyspace { keyspace: K1 }] {
        assert_eq!(town.refuse(&start(3, &[step])), Refusal::UnknownKeyspace(K1));
    }
}

/// It would be refused for ever: whoever raised the minimum after the plan was made knows why.
#[test]
fn a_minimum_that_was_raised_after_the_plan() {
    let mut town = Town::of(3);
    town.accept(&create("k", 3, &[&[1, 2, 3]]));
    let down = Step::SetReplicas { keyspace: K1, replicas: 2 };
    town.accept(&start(1, &[down]));
    town.set_minimum(3);
    town.advance(O1);
    let why = Hitch::MinimumAbove { keyspace: K1, replicas: 2, min: 3 };
    assert_eq!(town.blueprint.operations[&O1].state, OperationState::Failed { why });
}

#[test]
fn a_keyspace_that_is_worked_on_is_not_removed_by_another_operation() {
    let mut town = Town::of(3);
    town.accept(&create("k", 2, &[&[1, 2]]));
    town.accept(&start(1, &[Step::Enlist { bucket: B1, node: NodeId(3) }]));
    let remove = start(2, &[Step::RemoveKeyspace { keyspace: K1 }, Step::AwaitErased { keyspace: K1 }]);
    assert_eq!(town.refuse(&remove), Refusal::BucketBusy { bucket: B1, by: O1 });
    town.accept(&Command::CancelOperation { id: O1, why: "it goes".into() });
    town.accept(&remove);
}

/// A node that is to go, and somebody who is to take its place.
fn leaving(was: Intent) -> Town {
    let mut town = Town::of(3);
    town.accept(&create("k", 2, &[&[1, 2]]));
    let (goes, node) = (Step::Mark { node: NodeId(1), intent: Intent::Goes, was: None }, NodeId(3));
    town.accept(&start(1, &[goes, Step::Enlist { bucket: B1, node }, Step::AwaitSeated { bucket: B1, node }]));
    // Planned before that, and begun after it.
    if was != Intent::Stays {
        town.accept(&mark(1, was));
    }
    town.accept(&mark_first(1, Intent::Goes));
    town
}

fn cancel() -> Command {
    Command::CancelOperation { id: O1, why: "another plan".into() }
}

/// To roll back is to leave nothing half done: what is in mind with a node is what it was before.
#[test]
fn an_operation_that_does_not_come_to_its_end_takes_its_marks_back() {
    for was in [Intent::Stays, Intent::Drains] {
        for steps in [0, 1] {
            let mut cancelled = leaving(was);
            (0..steps).for_each(|_| cancelled.advance(O1));
            cancelled.accept(&cancel());
            assert_eq!(cancelled.blueprint.intent(NodeId(1)), was, "cancelled after {steps} steps");
        }
        let mut failed = leaving(was);
        failed.advance(O1);
        failed.accept(&Command::Depart { node: NodeId(3) });
        failed.advance(O1);
        assert_eq!(failed.blueprint.intent(NodeId(1)), was, "failed");
    }
    // Somebody has changed their mind since.
    let mut changed = leaving(Intent::Stays);
    changed.advance(O1);
    changed.accept(&mark(1, Intent::Drains));
    changed.accept(&cancel());
    assert_eq!(changed.blueprint.intent(NodeId(1)), Intent::Drains);
    // One that is done leaves them.
    let mut done = Town::of(3);
    done.accept(&start(1, &[Step::Mark { node: NodeId(1), intent: Intent::Goes, was: None }]));
    done.accept(&mark_first(1, Intent::Goes));
    done.advance(O1);
    assert_eq!(done.blueprint.intent(NodeId(1)), Intent::Goes);
}

/// Only what an operation changed is its to take back, and nothing that it says is heard after its end.
#[test]
fn a_mark_belongs_to_whoever_set_it() {
    let mut town = Town::of(3);
    town.accept(&start(1, &[Step::Mark { node: NodeId(1), intent: Intent::Goes, was: None }]));
    town.accept(&mark(1, Intent::Goes));
    town.accept(&cancel());
    assert_eq!(town.blueprint.intent(NodeId(1)), Intent::Goes, "somebody else had said so");

    let mut again = leaving(Intent::Stays);
    let same = again.blueprint.operations[&O1].steps.clone();
    assert!(matches!(same[0], Step::Mark { was: Some(Intent::Stays), .. }));
    let goes = Step::Mark { node: NodeId(1), intent: Intent::Goes, was: None };
    again.repeat(&start(1, &[&[goes], &same[1..]].concat()));

    let mut late = leaving(Intent::Stays);
    late.accept(&cancel());
    late.repeat(&mark_first(1, Intent::Goes));
    assert_eq!(late.blueprint.intent(NodeId(1)), Intent::Stays);
}
