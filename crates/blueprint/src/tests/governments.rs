//! Each change of government, each way in which it is unlawful, and who inherits.

use alloc::vec;
use alloc::vec::Vec;

use crate::{Change, Fate, Government, Incarnation, Member, NodeId, Term, Unlawful};

const FRESH: Incarnation = Incarnation(99);

/// Node `node`, as it was named first.
fn m(node: u64) -> Member {
    Member::new(node, 1)
}

fn fresh(node: u64) -> Member {
    Member { node: NodeId(node), incarnation: FRESH }
}

/// Nodes 1 (primary) to `size`.
fn government(size: u64, min_in_sync: u8) -> Government {
    Government::first(m(1), (2..=size).map(m).collect(), min_in_sync)
}

fn after(mut government: Government, changes: &[Change]) -> Government {
    for change in changes {
        let term = government.term;
        government = government.succeed(change, FRESH).unwrap_or_else(|why| panic!("{change:?}: {why}"));
        assert_eq!(government.term, term.next());
    }
    government
}

fn why_not(government: &Government, change: &Change) -> Unlawful {
    government.succeed(change, FRESH).expect_err("it should be unlawful")
}

fn enlist(node: u64) -> Change {
    Change::Enlist { node: NodeId(node) }
}

fn dismiss(node: u64, fate: Fate) -> Change {
    Change::Dismiss { secondary: m(node), fate }
}

fn usurp(node: u64, fate: Fate) -> Change {
    Change::Usurp { to: m(node), fate }
}

#[test]
fn enlist_and_drop() {
    let g = after(government(2, 2), &[enlist(3)]);
    assert_eq!(g.candidates, vec![fresh(3)]);
    assert_eq!((g.size(), g.since), (2, Term(1)), "a candidate is no member, and the primary goes on");
    assert_eq!(why_not(&g, &enlist(3)), Unlawful::AlreadyNamed(NodeId(3)));
    assert_eq!(why_not(&g, &enlist(2)), Unlawful::AlreadyNamed(NodeId(2)));
    assert_eq!(why_not(&g, &enlist(1)), Unlawful::AlreadyNamed(NodeId(1)));

    assert_eq!(why_not(&g, &Change::Drop { candidate: m(3) }), Unlawful::NotACandidate(m(3)), "another incarnation");
    let g = after(g, &[Change::Drop { candidate: fresh(3) }]);
    assert!(g.candidates.is_empty());
}

#[test]
fn seat() {
    let g = after(government(2, 2), &[enlist(3)]);
    let by_another = Change::Seat { candidate: fresh(3), by: m(2) };
    assert_eq!(why_not(&g, &by_another), Unlawful::NotThePrimary(m(2)));
    let another = Change::Seat { candidate: m(3), by: m(1) };
    assert_eq!(why_not(&g, &another), Unlawful::NotACandidate(m(3)));

    let g = after(g, &[Change::Seat { candidate: fresh(3), by: m(1) }]);
    assert_eq!(g.secondaries, vec![m(2), fresh(3)]);
    assert!(g.candidates.is_empty());
    assert_eq!(g.since, Term(1));
}

#[test]
fn dismiss_by_fate() {
    let g = government(3, 2);
    for (fate, candidates) in [(Fate::Leaves, vec![]), (Fate::Stalled, vec![m(3)]), (Fate::Lost, vec![])] {
        let next = after(g.clone(), &[dismiss(3, fate)]);
        assert_eq!((next.secondaries, next.candidates), (vec![m(2)], candidates));
        assert!(next.heirs.is_empty(), "the minimum is met: commits go on without it");
    }
    assert_eq!(why_not(&g, &dismiss(1, Fate::Leaves)), Unlawful::NotASecondary(m(1)), "the primary is not dismissed");
    assert_eq!(why_not(&g, &dismiss(4, Fate::Leaves)), Unlawful::NotASecondary(m(4)));
}

#[test]
fn hand_over() {
    let g = after(government(3, 2), &[enlist(4)]);
    let to_a_candidate = Change::HandOver { to: fresh(4), by: m(1) };
    assert_eq!(why_not(&g, &to_a_candidate), Unlawful::NotASecondary(fresh(4)));
    assert_eq!(why_not(&g, &Change::HandOver { to: m(1), by: m(1) }), Unlawful::NotASecondary(m(1)));
    assert_eq!(why_not(&g, &Change::HandOver { to: m(2), by: m(3) }), Unlawful::NotThePrimary(m(3)));

    let g = after(g, &[Change::HandOver { to: m(2), by: m(1) }]);
    assert_eq!((g.primary, g.secondaries, g.candidates), (m(2), vec![m(3), m(1)], vec![fresh(4)]));
    assert_eq!(g.since, Term(3), "a new primary, a new Reign");
}

#[test]
fn usurp_by_a_secondary() {
    let g = after(government(3, 2), &[enlist(4)]);
    assert_eq!(why_not(&g, &Change::Usurp { to: fresh(4), fate: Fate::Leaves }), Unlawful::NotAMember(fresh(4)));
    assert_eq!(why_not(&g, &usurp(1, Fate::Leaves)), Unlawful::NotAMember(m(1)), "the primary cannot usurp itself");

    let next = after(g.clone(), &[usurp(3, Fate::Leaves)]);
    assert_eq!((next.primary, next.secondaries, next.since), (m(3), vec![m(2)], Term(3)));
    assert_eq!((next.candidates, next.heirs), (vec![fresh(4)], vec![]));
    let next = after(g, &[usurp(3, Fate::Stalled)]);
    assert_eq!(next.candidates, vec![fresh(4), m(1)], "it was only slow: it may catch up");
}

#[test]
fn an_heir_whose_data_is_gone_is_disowned() {
    let g = after(government(2, 2), &[usurp(2, Fate::Leaves), enlist(1)]);
    assert_eq!((g.heirs.as_slice(), g.candidates.as_slice()), ([m(1)].as_slice(), [m(1)].as_slice()));
    assert_eq!(why_not(&g, &Change::Disown { heir: m(2) }), Unlawful::NotAnHeir(m(2)));
    let g = after(g, &[Change::Disown { heir: m(1) }]);
    assert_eq!((g.heirs, g.candidates), (vec![], vec![]), "it comes back under another incarnation, or not at all");
}

#[test]
fn renew() {
    let g = government(3, 2);
    assert_eq!(why_not(&g, &Change::Renew { primary: m(4) }), Unlawful::NotAMember(m(4)));
    let same = after(g.clone(), &[Change::Renew { primary: m(1) }]);
    assert_eq!((same.primary, same.secondaries, same.since), (m(1), vec![m(2), m(3)], Term(2)));
    let other = after(g, &[Change::Renew { primary: m(2) }]);
    assert_eq!((other.primary, other.secondaries, other.since), (m(2), vec![m(3), m(1)], Term(2)));
}

#[test]
fn heirs_accumulate_below_the_minimum() {
    let g = after(government(3, 3), &[dismiss(3, Fate::Leaves)]);
    assert_eq!((g.in_sync(), &g.heirs), (false, &vec![m(3)]));
    let g = after(g, &[usurp(2, Fate::Stalled)]);
    assert_eq!((g.primary, &g.heirs), (m(2), &vec![m(3), m(1)]));
    assert_eq!(g.candidates, vec![m(1)], "an heir and a candidate at once");
}

#[test]
fn the_lost_are_never_heirs() {
    let g = after(government(3, 3), &[dismiss(3, Fate::Lost), usurp(2, Fate::Lost)]);
    assert_eq!((g.primary, g.size()), (m(2), 1));
    assert!(g.heirs.is_empty() && g.candidates.is_empty());
    assert_eq!(why_not(&g, &usurp(3, Fate::Lost)), Unlawful::NotAMember(m(3)));
}

#[test]
fn heirs_are_cleared_by_the_seat_that_meets_the_minimum() {
    let g = after(government(3, 3), &[dismiss(3, Fate::Leaves), usurp(2, Fate::Leaves)]);
    assert_eq!(g.heirs, vec![m(3), m(1)]);
    let g = after(g, &[enlist(4), Change::Seat { candidate: fresh(4), by: m(2) }]);
    assert_eq!((g.size(), &g.heirs), (2, &vec![m(3), m(1)]), "two of three: nothing commits yet");
    let g = after(g, &[enlist(5), Change::Seat { candidate: fresh(5), by: m(2) }]);
    assert!(g.in_sync() && g.heirs.is_empty());
}

#[test]
fn an_heir_keeps_its_incarnation_when_it_is_enlisted() {
    let g = after(government(2, 2), &[dismiss(2, Fate::Leaves), enlist(2)]);
    assert_eq!((&g.candidates, &g.heirs), (&vec![m(2)], &vec![m(2)]), "what it holds is still needed");
    let dropped = after(g.clone(), &[Change::Drop { candidate: m(2) }]);
    assert_eq!((dropped.candidates, dropped.heirs), (vec![], vec![m(2)]));
    let seated = after(g, &[Change::Seat { candidate: m(2), by: m(1) }]);
    assert_eq!((seated.secondaries, seated.heirs), (vec![m(2)], vec![]));
    // Once it is an heir no longer, it is named anew.
    let g = after(government(3, 2), &[dismiss(3, Fate::Leaves), enlist(3)]);
    assert_eq!(g.candidates, vec![fresh(3)]);
}

#[test]
fn a_seated_heir_is_an_heir_no_longer_even_below_the_minimum() {
    let g = after(government(3, 3), &[dismiss(3, Fate::Stalled), dismiss(2, Fate::Leaves)]);
    assert_eq!(g.heirs, vec![m(3), m(2)]);
    let g = after(g, &[Change::Seat { candidate: m(3), by: m(1) }]);
    assert_eq!((g.in_sync(), &g.secondaries, &g.heirs), (false, &vec![m(3)], &vec![m(2)]));
    let g = after(g, &[dismiss(3, Fate::Leaves)]);
    assert_eq!(g.heirs, vec![m(2), m(3)], "and again, once");
}

#[test]
fn an_heir_reigns_when_no_secondary_is_left() {
    let g = after(government(3, 3), &[dismiss(3, Fate::Stalled)]);
    assert_eq!(why_not(&g, &usurp(3, Fate::Lost)), Unlawful::SecondariesLeft(m(3)));
    let g = after(g, &[dismiss(2, Fate::Lost), usurp(3, Fate::Leaves)]);
    assert_eq!((g.primary, g.size(), g.since), (m(3), 1, g.term));
    assert_eq!((g.candidates, g.heirs), (vec![], vec![m(1)]), "it leaves both lists, and its predecessor inherits");
}

#[test]
fn the_minimum() {
    let g = after(government(3, 3), &[dismiss(3, Fate::Leaves), dismiss(2, Fate::Leaves)]);
    assert_eq!(g.heirs.len(), 2);
    assert_eq!(why_not(&g, &Change::SetMinInSync { min: 0 }), Unlawful::ZeroMinimum);
    let same = after(g.clone(), &[Change::SetMinInSync { min: 3 }]);
    assert_eq!(same.heirs.len(), 2);
    for min in [1, 2] {
        let lowered = after(g.clone(), &[Change::SetMinInSync { min }]);
        assert_eq!((lowered.min_in_sync, lowered.in_sync()), (min, min == 1));
        assert!(lowered.heirs.is_empty(), "lowered to {min}: R8 clears them even where it is still missed");
        let raised = after(lowered, &[Change::SetMinInSync { min: 3 }]);
        assert!(raised.heirs.is_empty(), "who was cleared does not come back");
    }
    assert_eq!(g.since, Term(1), "the primary goes on through all of this");
}

#[test]
fn everyone_and_named() {
    let g = after(government(3, 3), &[dismiss(3, Fate::Leaves), enlist(4), dismiss(2, Fate::Stalled)]);
    let everyone: Vec<Member> = g.everyone().collect();
    assert_eq!(everyone, vec![m(1), fresh(4), m(2), m(3), m(2)]);
    assert_eq!((g.named(NodeId(3)), g.named(NodeId(4)), g.named(NodeId(5))), (Some(m(3)), Some(fresh(4)), None));
    assert!(g.is_member(m(1)) && !g.is_member(m(3)));
}
