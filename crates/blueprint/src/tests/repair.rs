//! Every member is lost: what is refused, and what comes of it.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::{Town, create};
use crate::*;

const B1: BucketId = BucketId(1);

fn repair(replaces: u64, remedy: Remedy) -> Command {
    Command::Repair { bucket: B1, replaces: Term(replaces), by: "ada: repair b1".into(), remedy }
}

fn empty(nodes: &[u64]) -> Remedy {
    Remedy::Empty(nodes.iter().map(|node| NodeId(*node)).collect())
}

/// Five nodes; two buckets on the first three and the last three. Those of the first have departed, but not yet been missed there.
fn lost() -> Town {
    let mut town = Town::of(5);
    town.accept(&create("k", 3, &[&[1, 2], &[4, 5]]));
    for node in [1, 2] {
        town.accept(&Command::Depart { node: NodeId(node) });
    }
    town
}

#[test]
fn nobody_repairs_what_may_be_alive() {
    let mut town = lost();
    town.accept(&Command::Return { node: NodeId(2) });
    let refused = town.refuse(&repair(1, empty(&[4, 5])));
    assert_eq!(refused, Refusal::MemberPresent { bucket: B1, node: NodeId(2) });
    assert!(refused.to_string().contains("would throw that away"));
    town.accept(&Command::Depart { node: NodeId(2) });

    let stale = Unlawful::StaleTerm { proposed: Term(2), current: Term(1) };
    assert_eq!(town.refuse(&repair(2, empty(&[4, 5]))), stale.into());
    assert_eq!(town.refuse(&repair(1, empty(&[1, 4]))), Refusal::NodeDeparted(NodeId(1)));
    let few = Refusal::BadPlacement { row: 0, nodes: 1, min: 2, replicas: 3 };
    assert_eq!(town.refuse(&repair(1, empty(&[4]))), few);
    let never = Member::new(4, 99);
    assert_eq!(town.refuse(&repair(1, Remedy::Copy(never))), Unlawful::NotAMember(never).into());

    let steps = vec![Step::Enlist { bucket: B1, node: NodeId(4) }];
    town.accept(&Command::StartOperation { id: OperationId(1), by: "ada".into(), steps });
    let busy = Refusal::BucketBusy { bucket: B1, by: OperationId(1) };
    assert_eq!(town.refuse(&repair(1, empty(&[4, 5]))), busy);
    let steps = vec![Step::Repair { bucket: B1, from: None }];
    let planned = Command::StartOperation { id: OperationId(2), by: "ada".into(), steps };
    assert_eq!(town.refuse(&planned), Refusal::BucketBusy { bucket: B1, by: OperationId(1) });
    town.accept(&Command::CancelOperation { id: OperationId(1), why: "it is lost".into() });
    assert_eq!(town.refuse(&planned), Refusal::RepairPlanned(B1));
}

/// The id is gone for good, so that no copy of it can ever be taken for one of the bucket that begins.
#[test]
fn an_empty_one_begins_under_another_id() {
    let mut town = lost();
    let child = town.accept(&Command::ReserveBucket { parent: B1 }).bucket.expect("an id");
    let slots = town.blueprint.buckets[&B1].slots.clone();
    town.accept(&repair(1, empty(&[4, 5, 3])));
    let blueprint = &town.blueprint;
    assert!(blueprint.is_retired(B1) && blueprint.is_retired(child));
    let slot = slots.iter().next().expect("it has some");
    let keyspace = blueprint.keyspace_named("k").expect("it is there").id;
    let new = blueprint.bucket_of(keyspace, slot).expect("every slot has a bucket");
    assert_eq!((&new.slots, new.birth), (&slots, Birth::First));
    let government = new.government().expect("it is governed");
    assert_eq!((government.term, government.since), (Term(1), Term(1)));
    let members: Vec<u64> = government.members().map(|m| m.node.0).collect();
    assert_eq!(members, [4, 5, 3]);
    assert!(government.members().all(|m| m.incarnation.0 == blueprint.epoch.0));
    let noted = &blueprint.operations[&OperationId(1)];
    assert_eq!(
        (&noted.steps[..], &noted.state),
        (&[Step::Repair { bucket: B1, from: None }][..], &OperationState::Done)
    );
    assert_eq!(noted.started_by, "ada: repair b1");
    assert_eq!(town.refuse(&repair(1, empty(&[4, 5, 3]))), Refusal::BucketRetired(B1), "done once");
}

#[test]
fn a_copy_that_is_left_leads_with_what_it_has() {
    let mut town = lost();
    let enlist = Change::Enlist { node: NodeId(4) };
    town.accept(&Command::Succeed { bucket: B1, replaces: Term(1), change: enlist });
    let copy = town.blueprint.government(B1).and_then(|g| g.named(NodeId(4))).expect("a candidate");
    town.accept(&repair(2, Remedy::Copy(copy)));
    let government = town.blueprint.government(B1).expect("it is governed");
    assert_eq!((government.term, government.since, government.primary), (Term(3), Term(3), copy));
    assert_eq!(government.everyone().count(), 1);
    assert!(!government.in_sync(), "nothing commits before somebody is seated (R8)");
    let noted = &town.blueprint.operations[&OperationId(1)];
    assert_eq!(noted.steps, [Step::Repair { bucket: B1, from: Some(NodeId(4)) }]);
}
