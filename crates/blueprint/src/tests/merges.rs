//! Two buckets become one: what may be bound, what changes together, and what is left.

use alloc::vec;
use alloc::vec::Vec;

use super::{Town, create};
use crate::*;

const PARENT: BucketId = BucketId(1);
const CHILD: BucketId = BucketId(257);

/// One bucket on nodes 1, 2 and 3, split in half; and a fourth node.
fn split_town() -> Town {
    let mut town = Town::of(4);
    town.accept(&create("k", 3, &[&[1, 2, 3]]));
    town.accept(&Command::ReserveBucket { parent: PARENT });
    let slots = SlotSet::range(Slot(8192), Slot(16383));
    town.accept(&Command::Register { parent: PARENT, child: CHILD, slots, at: Position::new(1, 5), term: Term(1) });
    town
}

fn bound_town() -> Town {
    let mut town = split_town();
    town.accept(&bind(&town));
    town
}

fn bind(town: &Town) -> Command {
    let term = |id| town.blueprint.buckets[&id].term();
    Command::Bind { absorbed: CHILD, into: PARENT, replaces: (term(CHILD), term(PARENT)) }
}

fn succeed(town: &Town, bucket: BucketId, change: Change) -> Command {
    Command::Succeed { bucket, replaces: town.blueprint.buckets[&bucket].term(), change }
}

fn government(town: &Town, bucket: BucketId) -> Government {
    town.blueprint.government(bucket).expect("it is governed").clone()
}

fn secondary(town: &Town, bucket: BucketId, node: u64) -> Member {
    government(town, bucket).named(NodeId(node)).expect("it has a part")
}

#[test]
fn bind_is_one_more_term_in_both_and_drops_candidates() {
    let mut town = split_town();
    town.accept(&succeed(&town, CHILD, Change::Enlist { node: NodeId(4) }));
    let seat = {
        let (candidate, by) = (secondary(&town, CHILD, 4), government(&town, CHILD).primary);
        succeed(&town, CHILD, Change::Seat { candidate, by })
    };
    let before = (government(&town, PARENT).term, government(&town, CHILD).term);
    town.accept(&bind(&town));
    let after = (government(&town, PARENT), government(&town, CHILD));
    assert_eq!((after.0.term, after.1.term), (before.0.next(), before.1.next()));
    assert!(after.0.candidates.is_empty() && after.1.candidates.is_empty());
    town.repeat(&bind(&town));
    // A seat that was proposed before is void.
    assert!(matches!(town.refuse(&seat), Refusal::Unlawful(Unlawful::StaleTerm { .. })));
}

#[test]
fn only_what_is_alike_is_bound() {
    let mut town = split_town();
    let stale = Command::Bind { absorbed: CHILD, into: PARENT, replaces: (Term(9), Term(1)) };
    assert!(matches!(town.refuse(&stale), Refusal::Unlawful(Unlawful::StaleTerm { .. })));
    let why = |refusal| match refusal {
        Refusal::CannotMerge { why, .. } => why,
        other => panic!("{other}"),
    };
    let to = secondary(&town, CHILD, 2);
    let by = government(&town, CHILD).primary;
    town.accept(&succeed(&town, CHILD, Change::HandOver { to, by }));
    assert_eq!(why(town.refuse(&bind(&town))), Unlike::Primaries);
    let (to, by) = (by, to);
    town.accept(&succeed(&town, CHILD, Change::HandOver { to, by }));
    let leaves = secondary(&town, CHILD, 3);
    town.accept(&succeed(&town, CHILD, Change::Dismiss { secondary: leaves, fate: Fate::Leaves }));
    assert_eq!(why(town.refuse(&bind(&town))), Unlike::Members);
    let same = Command::Bind { absorbed: PARENT, into: PARENT, replaces: (Term(1), Term(1)) };
    assert_eq!(why(town.refuse(&same)), Unlike::Same);
}

#[test]
fn every_change_is_made_to_both() {
    let mut town = bound_town();
    let leaves = secondary(&town, PARENT, 3);
    town.accept(&succeed(&town, PARENT, Change::Dismiss { secondary: leaves, fate: Fate::Leaves }));
    assert_eq!(government(&town, CHILD).size(), 2);
    town.accept(&succeed(&town, CHILD, Change::Enlist { node: NodeId(4) }));
    assert_eq!(government(&town, PARENT).candidates.len(), 1);
    // Below the minimum: the same heirs.
    let to = secondary(&town, CHILD, 2);
    town.accept(&succeed(&town, CHILD, Change::Usurp { to, fate: Fate::Leaves }));
    assert_eq!(government(&town, PARENT).primary.node, NodeId(2));
    assert_eq!(government(&town, PARENT).heirs.len(), 1);
    // Several parts of one departure: the first counts for both, the other has moved on.
    town.accept(&Command::Depart { node: NodeId(4) });
    let part = |bucket| {
        let candidate = secondary(&town, bucket, 4);
        let replaces = government(&town, bucket).term;
        Succession { bucket, replaces, change: Change::Drop { candidate } }
    };
    let parts = vec![part(PARENT), part(CHILD)];
    let term = government(&town, CHILD).term;
    town.accept(&Command::Relieve { parts });
    assert_eq!(government(&town, CHILD).term, term.next());
    assert!(government(&town, PARENT).candidates.is_empty());
}

#[test]
fn who_leads_both_stays() {
    let mut town = bound_town();
    let (to, by) = (secondary(&town, CHILD, 2), government(&town, CHILD).primary);
    let refusal = town.refuse(&succeed(&town, CHILD, Change::HandOver { to, by }));
    assert_eq!(refusal, Unlawful::Merging(PARENT).into());
}

#[test]
fn a_seat_needs_both_primaries() {
    let mut town = bound_town();
    town.accept(&succeed(&town, CHILD, Change::Enlist { node: NodeId(4) }));
    let seat = |town: &Town, bucket| {
        let (candidate, by) = (secondary(town, bucket, 4), government(town, bucket).primary);
        succeed(town, bucket, Change::Seat { candidate, by })
    };
    let terms = (government(&town, PARENT).term, government(&town, CHILD).term);
    town.accept(&seat(&town, CHILD));
    town.repeat(&seat(&town, CHILD));
    assert_eq!((government(&town, PARENT).term, government(&town, CHILD).term), terms, "nothing is settled yet");
    // Another change of either: the seat must be proposed anew, in both.
    let leaves = secondary(&town, PARENT, 3);
    town.accept(&succeed(&town, PARENT, Change::Dismiss { secondary: leaves, fate: Fate::Leaves }));
    town.accept(&seat(&town, PARENT));
    assert_eq!(government(&town, CHILD).size(), 2);
    town.accept(&seat(&town, CHILD));
    assert_eq!((government(&town, PARENT).size(), government(&town, CHILD).size()), (3, 3));
}

#[test]
fn one_bucket_is_left() {
    let mut town = bound_town();
    town.accept(&Command::ReserveBucket { parent: CHILD });
    let at = Position::new(2, 9);
    let merge = Command::Merge { absorbed: CHILD, into: PARENT, at, term: at.term };
    let early = Command::Merge { absorbed: CHILD, into: PARENT, at: Position::new(9, 9), term: Term(9) };
    assert!(matches!(town.refuse(&early), Refusal::NotMerging { .. }));
    town.accept(&merge);
    town.repeat(&merge);
    let left = &town.blueprint.buckets[&PARENT];
    assert_eq!((&left.slots, left.bond), (&SlotSet::all(), None));
    let keyspace = left.keyspace;
    assert_eq!(town.blueprint.bucket_of(keyspace, Slot(9000)).map(|b| b.id), Some(PARENT));
    assert!(town.blueprint.reserved.is_empty(), "nothing will be split from it any more");
    let Rule::Removed { holders, .. } = town.blueprint.buckets[&CHILD].rule.clone() else { panic!("it is gone") };
    assert_eq!(holders.len(), 3);
    for holder in holders {
        town.accept(&Command::Erased { bucket: CHILD, holder });
    }
    assert!(town.blueprint.is_retired(CHILD));
    town.repeat(&merge);
    // The split that made it is told once more: it is not made again.
    let slots = SlotSet::range(Slot(8192), Slot(16383));
    let again = Command::Register { parent: PARENT, child: CHILD, slots, at: Position::new(1, 5), term: Term(1) };
    assert_eq!(town.refuse(&again), Refusal::BucketRetired(CHILD));
}

#[test]
fn a_merge_is_a_step() {
    let mut town = split_town();
    let steps = vec![Step::Merge { bucket: CHILD, into: PARENT }];
    let id = OperationId(1);
    town.accept(&Command::StartOperation { id, by: "x".into(), steps: steps.clone() });
    let busy = Command::StartOperation { id: OperationId(2), by: "x".into(), steps: split_of_parent(&town) };
    assert_eq!(town.refuse(&busy), Refusal::BucketBusy { bucket: PARENT, by: id });
    let advance = Command::AdvanceOperation { id, from_step: 0 };
    assert!(matches!(town.refuse(&advance), Refusal::StepOpen { .. }));
    town.accept(&bind(&town));
    assert!(matches!(town.refuse(&advance), Refusal::StepOpen { .. }));
    town.accept(&Command::Merge { absorbed: CHILD, into: PARENT, at: Position::new(2, 9), term: Term(2) });
    town.accept(&advance);
    assert_eq!(town.blueprint.operations[&id].state, OperationState::Done);
}

fn split_of_parent(town: &Town) -> Vec<Step> {
    let child = town.blueprint.next_bucket.next_child_of(PARENT);
    vec![Step::Split { bucket: PARENT, child, slots: SlotSet::range(Slot(0), Slot(9)) }]
}

/// Nobody brings the copies together any more: the plan is over, and says why.
#[test]
fn what_cannot_be_bound_ends_its_operation() {
    let mut town = split_town();
    let id = OperationId(1);
    let steps = vec![Step::Merge { bucket: CHILD, into: PARENT }];
    town.accept(&Command::StartOperation { id, by: "x".into(), steps });
    let (to, by) = (secondary(&town, CHILD, 2), government(&town, CHILD).primary);
    town.accept(&succeed(&town, CHILD, Change::HandOver { to, by }));
    town.accept(&Command::AdvanceOperation { id, from_step: 0 });
    let why = Hitch::Unlike { bucket: CHILD, into: PARENT, why: Unlike::Primaries };
    assert_eq!(town.blueprint.operations[&id].state, OperationState::Failed { why });
}
