//! More copies than wanted, and copies that will never be any: shed; and members that have departed.

use alloc::format;
use core::cmp::Reverse;

use blueprint::{Change, Command, Conduct, Fate, Member};

use super::recover::copies_in_zone;
use crate::case::{Case, copies};
use crate::reaction::{Deed, Whom};
use crate::rule::{About, Need, Rule, Unmet};
use crate::words::list;

impl<C: Conduct> Rule<C> {
    pub(crate) const SHED: Self = Self {
        name: "shed",
        text: "A primary whose bucket has more copies than wanted, or a candidate that has departed, lets one go.",
        about: About::Bucket,
        when: |case| case.bucket.is_some() && case.rules().is_some() && surplus(case).is_some(),
        needs: &[
            Need {
                condition: "no operation speaks of this bucket",
                because: "in the middle of a move there is one copy more than wanted, on purpose",
                unmet: operated,
            },
            Self::NOTHING_PROPOSED,
        ],
        deed: Some(|case| {
            let government = case.government.expect("whoever leads is governed");
            let change = surplus(case).expect("that is when it applies");
            Deed::Propose(Command::Succeed { bucket: case.bucket_id(), replaces: government.term, change })
        }),
    };

    pub(crate) const DEPARTED: Self = Self {
        name: "departed",
        text: "A member that has departed is named no longer, and if it led, another one leads.",
        about: About::Bucket,
        when: |case| case.settled().is_some_and(|(g, _)| g.members().any(|m| !case.is_present(m.node))),
        needs: &[Need {
            condition: "every member is present",
            because: "coordinators carry out a departure bucket by bucket, and this one is still to come",
            unmet: departed,
        }],
        deed: None,
    };
}

/// Whoever is let go next: a candidate that cannot catch up any more; then the copy that is missed least.
fn surplus<C: Conduct>(case: &Case<'_, C>) -> Option<Change> {
    let (government, _, leading) = case.rules()?;
    if let Some(candidate) = government.candidates.iter().copied().find(|c| !case.is_present(c.node)) {
        return Some(Change::Drop { candidate });
    }
    // Below the minimum whoever is level first is the one that is needed.
    if copies(government) <= case.wanted() || !government.in_sync() {
        return None;
    }
    // Out of reach first; then who drains; then where its zone has others; then who lacks most; then from the fullest node.
    let rank = |m: &Member| {
        let missing = leading.peer(*m).map_or(u32::MAX, |p| p.missing);
        let in_zone = copies_in_zone(case, government, m.node);
        let (reached, drains) = (case.is_reachable(m.node), case.situation.blueprint.drains(m.node));
        (Reverse(reached), drains, in_zone > 1, in_zone, missing, case.census.parts(m.node), m.node)
    };
    match government.candidates.iter().copied().max_by_key(rank) {
        Some(candidate) => Some(Change::Drop { candidate }),
        None => {
            let secondary = government.secondaries.iter().copied().max_by_key(rank)?;
            Some(Change::Dismiss { secondary, fate: Fate::Leaves })
        }
    }
}

fn operated<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let operated = case.situation.operated.contains(&case.bucket_id());
    if operated { Unmet::on(Whom::Operator, "the operation that speaks of this bucket to end") } else { None }
}

fn departed<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let members = case.government?.members().map(|m| m.node).filter(|n| !case.is_present(*n));
    Unmet::on(Whom::MetaGroup, format!("a government without {}", list(members)))
}
