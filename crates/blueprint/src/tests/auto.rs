//! Rebalancing by itself: the wish, and what may come of it when.

use alloc::vec;

use super::{Town, add_node, create};
use crate::*;

const B1: BucketId = BucketId(1);
const O1: OperationId = OperationId(1);

fn set(on: bool) -> Command {
    Command::SetAutoRebalance { on, by: "ada".into() }
}

impl Town {
    /// Three nodes that have b1, one that has nothing, and the wish.
    fn automatic() -> Self {
        let mut town = Self::of(4);
        town.accept(&create("k", 3, &[&[1, 2, 3]]));
        town.accept(&set(true));
        town
    }

    fn rebalance(&self) -> Command {
        let steps = vec![Step::HandOver { bucket: B1, to: NodeId(2) }];
        Command::Rebalance { id: self.blueprint.next_operation, based_on: self.blueprint.epoch, steps }
    }

    fn end_it(&mut self, id: OperationId) {
        self.accept(&Command::CancelOperation { id, why: "another time".into() });
    }
}

#[test]
fn it_is_off_until_somebody_asks_for_it_and_stays_on() {
    let mut town = Town::of(2);
    assert_eq!(town.blueprint.auto_rebalance, None);
    town.repeat(&set(false));
    let refused = town.rebalance();
    assert_eq!(town.refuse(&refused), Refusal::NotAutomatic);
    assert_eq!(town.refuse(&Command::SetAutoRebalance { on: true, by: "".into() }), Refusal::BadWords);
    let before = town.blueprint.clone();
    town.accept(&set(true));
    town.repeat(&set(true));
    let wish = town.blueprint.auto_rebalance.clone().expect("somebody asked for it");
    assert_eq!((wish.by.as_str(), wish.from), ("ada", O1));
    assert_eq!(decode(&encode(&town.blueprint)).as_ref(), Ok(&town.blueprint));
    let mut copy = before.clone();
    copy.patch(&Delta::between(&before, &town.blueprint)).unwrap();
    assert_eq!(copy, town.blueprint);
    town.accept(&set(false));
    assert_eq!(town.blueprint.auto_rebalance, None);
}

#[test]
fn what_it_begins_is_an_operation_like_any_other() {
    let mut town = Town::automatic();
    let rebalance = town.rebalance();
    town.accept(&rebalance);
    town.repeat(&rebalance);
    let operation = &town.blueprint.operations[&O1];
    assert!(operation.is_automatic() && operation.state == OperationState::Running);
    assert_eq!(town.blueprint.unrest(), Some(Unrest::UnderWay(O1)));
    // It goes on although the wish is taken back: whoever wants that cancels it.
    town.accept(&set(false));
    assert!(town.blueprint.operations[&O1].is_under_way());
}

#[test]
fn only_by_the_blueprint_that_it_was_planned_by() {
    let mut town = Town::automatic();
    let (rebalance, based_on) = (town.rebalance(), town.blueprint.epoch);
    town.accept(&add_node(5, "e"));
    assert_eq!(town.refuse(&rebalance), Refusal::MovedOn { based_on, epoch: town.blueprint.epoch });
}

#[test]
fn nobody_else_says_that_it_was_automatic() {
    let mut town = Town::automatic();
    let (by, steps) = (AUTOMATIC.into(), vec![Step::HandOver { bucket: B1, to: NodeId(2) }]);
    assert_eq!(town.refuse(&Command::StartOperation { id: O1, by, steps: steps.clone() }), Refusal::SaysAutomatic);
    assert_eq!(town.refuse(&Command::PlanOperation { id: O1, by: AUTOMATIC.into(), steps }), Refusal::SaysAutomatic);
}

#[test]
fn not_while_anything_else_goes_on() {
    let unrest_after = |commands: &[Command]| {
        let mut town = Town::automatic();
        for command in commands {
            town.accept(command);
        }
        let (unrest, rebalance) = (town.blueprint.unrest(), town.rebalance());
        if let Some(why) = unrest {
            assert_eq!(town.refuse(&rebalance), Refusal::Unrest(why));
        } else {
            town.accept(&rebalance);
        }
        unrest
    };
    let mark = |node, intent| Command::Mark { node: NodeId(node), intent, of: None };
    let depart = |node| Command::Depart { node: NodeId(node) };
    let enlist = Command::Succeed { bucket: B1, replaces: Term(1), change: Change::Enlist { node: NodeId(4) } };
    let more = Command::SetReplicas { keyspace: KeyspaceId(1), replicas: 4 };
    let steps = vec![Step::HandOver { bucket: B1, to: NodeId(2) }];
    let start = Command::StartOperation { id: O1, by: "ada: hers".into(), steps: steps.clone() };
    let plan = Command::PlanOperation { id: O1, by: "ada: hers".into(), steps };

    assert_eq!(unrest_after(&[]), None);
    assert_eq!(unrest_after(&[plan]), None, "a plan holds nothing");
    assert_eq!(unrest_after(&[start]), Some(Unrest::UnderWay(O1)));
    assert_eq!(unrest_after(&[enlist]), Some(Unrest::Members(B1)));
    assert_eq!(unrest_after(&[more]), Some(Unrest::Members(B1)));
    assert_eq!(unrest_after(&[mark(4, Intent::Drains)]), Some(Unrest::Drains(NodeId(4))));
    assert_eq!(unrest_after(&[mark(1, Intent::Goes)]), Some(Unrest::Drains(NodeId(1))));
    assert_eq!(unrest_after(&[depart(4)]), Some(Unrest::Departed(NodeId(4))));
    // Who was removed has nothing, and is waited for by nobody, whether its process still runs or not; nor is who was replaced.
    assert_eq!(unrest_after(&[mark(4, Intent::Goes)]), None);
    assert_eq!(unrest_after(&[mark(4, Intent::Goes), depart(4)]), None);
    assert_eq!(unrest_after(&[depart(4), add_node(9, "d")]), None);
}

#[test]
fn one_that_did_not_end_well_is_remembered_until_the_next_wish() {
    let mut town = Town::automatic();
    assert_eq!(town.blueprint.automatic_setback(), None);
    let first = town.rebalance();
    town.accept(&first);
    assert_eq!(town.blueprint.automatic_setback(), None, "it is under way");
    town.end_it(O1);
    assert_eq!(town.blueprint.automatic_setback().map(|o| o.id), Some(O1));
    // What people do meanwhile changes nothing about that.
    let steps = vec![Step::HandOver { bucket: B1, to: NodeId(1) }];
    town.accept(&Command::StartOperation { id: OperationId(2), by: "ada: hers".into(), steps });
    town.end_it(OperationId(2));
    assert_eq!(town.blueprint.automatic_setback().map(|o| o.id), Some(O1));
    // Who says it anew means now.
    town.accept(&set(false));
    assert_eq!(town.blueprint.automatic_setback(), None);
    town.accept(&set(true));
    assert_eq!(town.blueprint.automatic_setback(), None);
}
