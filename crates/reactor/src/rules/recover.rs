//! Recovery: a bucket that has lost a copy gets another one, a few at a time.

use alloc::format;
use alloc::vec::Vec;
use core::cmp::Reverse;

use blueprint::{Breach, Change, Command, Conduct, Government, Instant, Intent, NodeId};

use crate::case::{Case, could_take};
use crate::holding::{Growth, HandOver};
use crate::reaction::{Deed, Whom};
use crate::rule::{About, Need, Rule, Unmet};
use crate::words::{count, list};

impl<C: Conduct> Rule<C> {
    /// Not only while it serves: a primary below the minimum serves nothing until it has seated someone (R8).
    pub(crate) const RECOVER: Self = Self {
        name: "recover",
        text: "A primary whose bucket has fewer copies than wanted enlists the best node for another one.",
        about: About::Bucket,
        when: |case| {
            let lacks =
                case.rules().is_some_and(|(g, ..)| case.copies_to_stay(g) < case.wanted() || is_quicker(case, g));
            case.bucket.is_some() && lacks && !C::breaks(Breach::CopiesNotReplaced)
        },
        needs: &[
            Need {
                condition: "the copy has been missing for a while, or has come back, or writes wait for another one (R8)",
                because: "most nodes come back by themselves, and a backfill costs",
                unmet: too_early,
            },
            Self::NOTHING_PROPOSED,
            Need {
                condition: "there is a node that is present, can be reached, does not leave or drain, and has no part in it",
                because: "a second copy on the same node is none",
                unmet: no_free_node,
            },
            Need {
                condition: "few enough recoveries are under way, or writes wait for this one (R8)",
                because: "backfills share the network and the disks with the clients",
                unmet: too_many,
            },
            Need {
                condition: "it is the turn of this bucket, or writes wait for it (R8)",
                because: "nodes decide by themselves, and would otherwise all begin at once",
                unmet: not_its_turn,
            },
        ],
        deed: Some(|case| {
            let government = case.government.expect("whoever leads is governed");
            let node = best(case).expect("it is needed that there is one");
            let change = Change::Enlist { node };
            Deed::Propose(Command::Succeed { bucket: case.bucket_id(), replaces: government.term, change })
        }),
    };

    pub(crate) const NOTHING_PROPOSED: Need<C> = Need {
        condition: "no seat and no hand over of this bucket is under way",
        because: "each term has one successor: one proposal would undo the other",
        unmet: something_proposed,
    };
}

/// Otherwise: 1. below the minimum, a new node is given the whole bucket; 2. the lost copy returns, and would be level long before;
/// 3. writes wait for the new one.
fn is_quicker<C: Conduct>(case: &Case<'_, C>, government: &Government) -> bool {
    let copied = || government.candidates.iter().any(|c| has_copy(case, c.node));
    !government.in_sync() && !copied() && preferred(case, |_| true).is_some_and(|node| has_copy(case, node))
}

fn too_early<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    Unmet::until(case.now(), earliest(case), |left| format!("{left} more, in which the lost copy may return"))
}

fn not_its_turn<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    // A tail costs little, and who has come back has all of them to catch up with.
    if is_urgent(case) || best(case).is_some_and(|node| has_copy(case, node)) {
        return None;
    }
    let limits = case.situation.limits;
    let before = case.census.place(case.bucket_id());
    let turn = earliest(case) + limits.recovery_pace * (before / limits.recoveries) as u32;
    Unmet::until(case.now(), turn, |left| {
        format!("{left} more: {} first", count(before, "bucket comes", "buckets come"))
    })
}

/// The delay is for a copy that may return: not when it has, nor while the bucket takes no writes without another one.
fn earliest<C: Conduct>(case: &Case<'_, C>) -> Instant {
    let since = case.situation.marks.short_since(case.bucket_id()).unwrap_or(case.now());
    let returned = preferred(case, |_| true).is_some_and(|node| has_copy(case, node));
    if returned || is_urgent(case) { since } else { since + case.situation.limits.recovery_delay }
}

/// It takes no writes until there is another copy (R8): nothing else is worth waiting for.
fn is_urgent<C: Conduct>(case: &Case<'_, C>) -> bool {
    case.government.is_some_and(|g| !g.in_sync())
}

fn something_proposed<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (.., leading) = case.leads()?;
    let what = match (leading.growth, leading.hand_over) {
        (Growth::Joint { candidate, .. } | Growth::Proposed { candidate }, _) => format!("the seat of {candidate}"),
        (_, HandOver::Draining { to, .. } | HandOver::Proposed { to }) => format!("the hand over to {to}"),
        (Growth::None | Growth::Asking { .. }, HandOver::None) => return None,
    };
    Unmet::on(Whom::MetaGroup, format!("{what} to be decided"))
}

fn no_free_node<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    if !free_nodes(case).is_empty() {
        return None;
    }
    let government = case.government?;
    let missing = case.wanted() - case.copies_to_stay(government);
    Unmet::on(
        Whom::Operator,
        format!(
            "a node for {} more: none is free that is present, reachable and stays",
            count(missing, "copy", "copies")
        ),
    )
}

fn too_many<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    if best(case).is_some() {
        return None;
    }
    let (limits, census) = (case.situation.limits, case.census);
    if census.candidates() >= limits.recoveries {
        return Unmet::on_nodes(census.catching_up(), |nodes| {
            format!("{} to catch up: {} under way in the cluster", list(nodes), recoveries(census.candidates()))
        });
    }
    Unmet::on_nodes(free_nodes(case), |nodes| {
        format!(
            "{} to catch up: {} under way on each node that is free",
            list(nodes),
            recoveries(limits.recoveries_per_node)
        )
    })
}

fn recoveries(number: usize) -> alloc::string::String {
    count(number, "recovery is", "recoveries are")
}

fn free_nodes<C: Conduct>(case: &Case<'_, C>) -> Vec<NodeId> {
    let Some(government) = case.government else { return Vec::new() };
    let is_free = |node: &NodeId| {
        let stays = case.is_reachable(*node) && !case.situation.directory.is_leaving(*node);
        let takes = could_take(case.situation.blueprint, government, *node) || returns(case, government, *node);
        *node != case.situation.me && stays && takes
    };
    case.situation.blueprint.nodes.keys().copied().filter(is_free).collect()
}

/// It drains, and has come back with what it had: that is what it keeps.
fn returns<C: Conduct>(case: &Case<'_, C>, government: &Government, node: NodeId) -> bool {
    let named = government.members().chain(government.candidates.iter().copied()).any(|m| m.node == node);
    case.is_present(node) && !named && is_welcome(case, node)
}

/// One that drains is given back what it has, and nothing else; one that goes is given nothing.
fn is_welcome<C: Conduct>(case: &Case<'_, C>, node: NodeId) -> bool {
    match case.situation.blueprint.intent(node) {
        Intent::Stays => true,
        Intent::Drains => has_copy(case, node),
        Intent::Goes => false,
    }
}

fn is_heir(government: &Government, node: NodeId) -> bool {
    government.heirs.iter().any(|h| h.node == node)
}

/// It says that it holds the bucket, whole: as a candidate it keeps that, under a new name, and needs only the tail.
fn has_copy<C: Conduct>(case: &Case<'_, C>, node: NodeId) -> bool {
    case.situation.directory.row(node, case.bucket_id()).is_some_and(|row| row.missing == 0)
}

/// The preferred one of those that have room.
fn best<C: Conduct>(case: &Case<'_, C>) -> Option<NodeId> {
    let limits = case.situation.limits;
    if is_urgent(case) {
        return preferred(case, |_| true);
    }
    preferred(case, |node| {
        let times = if has_copy(case, node) { TAILS } else { 1 };
        let here = case.census.candidates_on(node) < limits.recoveries_per_node * times;
        here && case.census.candidates() < limits.recoveries * times
    })
}

/// As many tails are caught up with at once in the place of one bucket that is copied: all of a usual node's buckets, as there are none
/// too many copies until the last of them is level.
const TAILS: usize = 32;

/// An heir first; then who is not to be spared; then a zone with few copies; then who has a copy; then the node with the fewest buckets;
/// then the lowest id.
fn preferred<C: Conduct>(case: &Case<'_, C>, among: impl Fn(NodeId) -> bool) -> Option<NodeId> {
    let government = case.government?;
    let rank = |node: &NodeId| {
        let (heir, copy) = (Reverse(is_heir(government, *node)), Reverse(has_copy(case, *node)));
        let spared = !is_welcome(case, *node);
        (heir, spared, copies_in_zone(case, government, *node), copy, case.census.parts(*node), *node)
    };
    free_nodes(case).into_iter().filter(|node| among(*node)).min_by_key(rank)
}

/// Copies of this bucket in the zone of that node.
pub(crate) fn copies_in_zone<C: Conduct>(case: &Case<'_, C>, government: &Government, node: NodeId) -> usize {
    let zone = case.zone(node);
    let copies = government.members().chain(government.candidates.iter().copied());
    copies.filter(|m| case.zone(m.node) == zone).count()
}
