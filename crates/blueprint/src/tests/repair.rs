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

fn copy(copy: Member) -> Remedy {
    Remedy::Copy { copy, other: None }
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
    assert_eq!(town.refuse(&repair(1, copy(never))), Unlawful::NotAMember(never).into());

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
    let left = town.blueprint.government(B1).and_then(|g| g.named(NodeId(4))).expect("a candidate");
    let with_another = Remedy::Copy { copy: left, other: Some(left) };
    assert_eq!(town.refuse(&repair(2, with_another)), Refusal::RepairsOne(B1));
    town.accept(&repair(2, copy(left)));
    let government = town.blueprint.government(B1).expect("it is governed");
    assert_eq!((government.term, government.since, government.primary), (Term(3), Term(3), left));
    assert_eq!(government.everyone().count(), 1);
    assert!(!government.in_sync(), "nothing commits before somebody is seated (R8)");
    let noted = &town.blueprint.operations[&OperationId(1)];
    assert_eq!(noted.steps, [Step::Repair { bucket: B1, from: Some(NodeId(4)) }]);
    // A split that nobody has any more, told by somebody who was cut off with it.
    let child = town.accept(&Command::ReserveBucket { parent: B1 }).bucket.expect("an id");
    let slots = town.blueprint.buckets[&B1].slots.split_half().1;
    let late = Command::Register { parent: B1, child, slots, at: Position::new(2, 9), term: Term(2) };
    assert_eq!(town.refuse(&late), Unlawful::StaleTerm { proposed: Term(2), current: Term(3) }.into());
}

const B257: BucketId = BucketId(257);

/// Nodes 1 and 2 have two buckets that are bound, and have departed. Node 3 is a candidate of both, for which one primary has spoken.
fn lost_while_bound() -> Town {
    let mut town = Town::of(5);
    town.accept(&create("k", 3, &[&[1, 2]]));
    town.accept(&Command::ReserveBucket { parent: B1 });
    let slots = SlotSet::range(Slot(8192), Slot::LAST);
    town.accept(&Command::Register { parent: B1, child: B257, slots, at: Position::new(1, 5), term: Term(1) });
    // The terms are different ones from here on.
    let renew = Change::Renew { primary: government(&town, B1).primary };
    town.accept(&Command::Succeed { bucket: B1, replaces: Term(1), change: renew });
    town.accept(&Command::Bind { absorbed: B257, into: B1, replaces: (Term(1), Term(2)) });
    let enlist = Change::Enlist { node: NodeId(3) };
    town.accept(&Command::Succeed { bucket: B1, replaces: Term(3), change: enlist });
    let (candidate, by) = (part(&town, B1, 3), government(&town, B1).primary);
    town.accept(&Command::Succeed { bucket: B1, replaces: Term(4), change: Change::Seat { candidate, by } });
    for node in [1, 2] {
        town.accept(&Command::Depart { node: NodeId(node) });
    }
    town
}

fn government(town: &Town, bucket: BucketId) -> &Government {
    town.blueprint.government(bucket).expect("it is governed")
}

fn part(town: &Town, bucket: BucketId, node: u64) -> Member {
    government(town, bucket).named(NodeId(node)).expect("it has a part")
}

#[test]
fn what_is_bound_is_repaired_from_copies_of_both() {
    let mut town = lost_while_bound();
    let (one, other) = (part(&town, B1, 3), part(&town, B257, 3));
    let half = Refusal::RepairsBoth { bucket: B1, other: B257 };
    assert_eq!(town.refuse(&repair(4, copy(one))), half);
    let elsewhere = Member { node: NodeId(4), ..other };
    assert_eq!(town.refuse(&repair(4, Remedy::Copy { copy: one, other: Some(elsewhere) })), half);
    let never = Member { incarnation: Incarnation(99), ..other };
    assert_eq!(
        town.refuse(&repair(4, Remedy::Copy { copy: one, other: Some(never) })),
        Unlawful::NotAMember(never).into()
    );

    town.accept(&repair(4, Remedy::Copy { copy: one, other: Some(other) }));
    for (id, term, primary) in [(B1, Term(5), one), (B257, Term(4), other)] {
        let government = government(&town, id);
        assert_eq!((government.term, government.since, government.primary), (term, term, primary));
        assert_eq!(government.everyone().count(), 1);
    }
    // Nothing is left of the seat that one of them had asked for.
    let bonds = [B1, B257].map(|id| town.blueprint.buckets[&id].bond);
    assert_eq!(bonds, [Some(Bond::Absorbs { other: B257, ready: None }), Some(Bond::Fades { into: B1, ready: None })]);
    let steps = [B1, B257].map(|bucket| Step::Repair { bucket, from: Some(NodeId(3)) });
    assert_eq!(town.blueprint.operations[&OperationId(1)].steps, steps);
    // Whoever was cut off while it led them, and is back, may have absorbed the one: that is lost with it.
    let late = Command::Merge { absorbed: B257, into: B1, at: Position::new(4, 9), term: Term(4) };
    assert_eq!(town.refuse(&late), Unlawful::StaleTerm { proposed: Term(4), current: Term(5) }.into());
    // And so they can become one.
    town.accept(&Command::Merge { absorbed: B257, into: B1, at: Position::new(5, 9), term: Term(5) });
    assert_eq!(town.blueprint.buckets[&B1].slots, SlotSet::all());
}

/// Whichever of the two is asked for.
#[test]
fn what_is_bound_begins_anew_as_two_that_are_not() {
    for (asked, term) in [(B1, Term(4)), (B257, Term(3))] {
        let mut town = lost_while_bound();
        let children = [B1, B257].map(|parent| town.accept(&Command::ReserveBucket { parent }).bucket.expect("an id"));
        let before = [B1, B257].map(|id| town.blueprint.buckets[&id].slots.clone());
        let (by, remedy) = ("ada: repair".into(), empty(&[4, 5]));
        town.accept(&Command::Repair { bucket: asked, replaces: term, by, remedy });
        let blueprint = &town.blueprint;
        assert!([B1, B257].into_iter().chain(children).all(|id| blueprint.is_retired(id)));
        let keyspace = blueprint.keyspace_named("k").expect("it is there").id;
        for slots in before {
            let new =
                blueprint.bucket_of(keyspace, slots.iter().next().expect("it has some")).expect("every slot has one");
            assert_eq!((&new.slots, new.birth, new.bond), (&slots, Birth::First, None));
            let members: Vec<u64> = government(&town, new.id).members().map(|m| m.node.0).collect();
            assert_eq!((government(&town, new.id).term, &members[..]), (Term(1), &[4, 5][..]));
        }
        assert_eq!(blueprint.buckets.len(), 2);
        let noted: Vec<_> = blueprint.operations[&OperationId(1)].steps.iter().filter_map(Step::bucket).collect();
        assert_eq!(noted, if asked == B1 { [B1, B257] } else { [B257, B1] });
    }
}

/// An operation on the other one is in the way, too: it would not find what it works on.
#[test]
fn both_that_are_bound_must_be_free() {
    let mut town = lost_while_bound();
    let steps = vec![Step::Dismiss { bucket: B257, node: NodeId(2) }];
    town.accept(&Command::StartOperation { id: OperationId(1), by: "ada".into(), steps });
    let busy = Refusal::BucketBusy { bucket: B257, by: OperationId(1) };
    assert_eq!(town.refuse(&repair(4, empty(&[4, 5]))), busy);
}
