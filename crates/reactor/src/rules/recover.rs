//! Recovery: a bucket that has lost a copy gets another one, a few at a time.

use alloc::format;
use alloc::vec::Vec;
use core::cmp::Reverse;

use blueprint::{Breach, Change, Command, Conduct, Government, NodeId};

use crate::case::Case;
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
            let short = case.rules().is_some_and(|(g, ..)| case.copies_to_stay(g) < case.wanted());
            case.bucket.is_some() && short && !C::breaks(Breach::CopiesNotReplaced)
        },
        needs: &[
            Need {
                condition: "the copy has been missing for a while",
                because: "most nodes come back by themselves, and a backfill costs",
                unmet: too_early,
            },
            Self::NOTHING_PROPOSED,
            Need {
                condition: "there is a node that is present, can be reached and does not hold it",
                because: "a second copy on the same node is none",
                unmet: no_free_node,
            },
            Need {
                condition: "few enough recoveries are under way",
                because: "backfills share the network and the disks with the clients",
                unmet: too_many,
            },
            Need {
                condition: "it is the turn of this bucket",
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

fn too_early<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let since = case.situation.marks.short_since(case.bucket_id()).unwrap_or(case.now());
    let until = since + case.situation.limits.recovery_delay;
    Unmet::until(case.now(), until, |left| format!("{left} more, in which the lost copy may return"))
}

fn not_its_turn<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let limits = case.situation.limits;
    let since = case.situation.marks.short_since(case.bucket_id()).unwrap_or(case.now());
    let before = case.census.place(case.bucket_id());
    let turn = since + limits.recovery_delay + limits.recovery_pace * (before / limits.recoveries) as u32;
    Unmet::until(case.now(), turn, |left| {
        format!("{left} more: {} first", count(before, "bucket comes", "buckets come"))
    })
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
        format!("a node for {} more: none that is present and reachable is free", count(missing, "copy", "copies")),
    )
}

fn too_many<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (limits, census) = (case.situation.limits, case.census);
    if census.candidates() >= limits.recoveries {
        return Unmet::on_nodes(census.catching_up(), |nodes| {
            format!("{} to catch up: {} under way in the cluster", list(nodes), recoveries(census.candidates()))
        });
    }
    if best(case).is_some() {
        return None;
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
    let bucket = case.bucket_id();
    let is_free = |node: &NodeId| {
        let named = government.members().chain(government.candidates.iter().copied()).any(|m| m.node == *node);
        // What an heir holds is welcome: it needs only the tail.
        let holds = case.situation.directory.row(*node, bucket).is_some() && !is_heir(government, *node);
        *node != case.situation.me && case.is_present(*node) && case.is_reachable(*node) && !named && !holds
    };
    case.situation.blueprint.nodes.keys().copied().filter(is_free).collect()
}

fn is_heir(government: &Government, node: NodeId) -> bool {
    government.heirs.iter().any(|h| h.node == node)
}

/// An heir first; then a zone with few copies; then the node with the fewest buckets; then the lowest id.
fn best<C: Conduct>(case: &Case<'_, C>) -> Option<NodeId> {
    let government = case.government?;
    let per_node = case.situation.limits.recoveries_per_node;
    let room = |node: &NodeId| case.census.candidates_on(*node) < per_node;
    let rank = |node: &NodeId| {
        (Reverse(is_heir(government, *node)), copies_in_zone(case, government, *node), case.census.parts(*node), *node)
    };
    free_nodes(case).into_iter().filter(room).min_by_key(rank)
}

/// Copies of this bucket in the zone of that node.
pub(crate) fn copies_in_zone<C: Conduct>(case: &Case<'_, C>, government: &Government, node: NodeId) -> usize {
    let zone = case.zone(node);
    let copies = government.members().chain(government.candidates.iter().copied());
    copies.filter(|m| case.zone(m.node) == zone).count()
}
