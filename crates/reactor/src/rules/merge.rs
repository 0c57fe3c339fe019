//! Two buckets become one: what their replicas wait for until they are.

use alloc::format;
use alloc::string::String;

use blueprint::{Bond, BucketId, Conduct, Government};

use crate::case::Case;
use crate::reaction::Whom;
use crate::rule::{About, Need, Rule, Unmet};

impl<C: Conduct> Rule<C> {
    pub(crate) const MERGE: Self = Self {
        name: "merge",
        text: "Of two buckets that are bound, the one is frozen, and the other absorbs it; until then every change is made to both.",
        about: About::Bucket,
        when: |case| case.is_acted_on() && case.holding.is_some() && (bond(case).is_some() || awaited(case).is_some()),
        needs: &[
            Need {
                condition: "the one to be absorbed has come to its end here",
                because: "each member absorbs what is beside it, and nothing is to be added to that afterwards",
                unmet: not_ended,
            },
            Need {
                condition: "its end is committed",
                because: "until then it is as it was, and the other one cannot take its slots",
                unmet: unfrozen,
            },
            Need {
                condition: "the blueprint knows that they are one",
                because: "it is told after, by the primary, again and again",
                unmet: untold,
            },
        ],
        deed: None,
    };

    pub(crate) const NOT_MERGING: Need<C> = Need {
        condition: "it is not being merged",
        because: "that takes a moment, and a seat would have to wait for the other bucket",
        unmet: |case| {
            let other = bond(case)
                .and_then(|bond| bond.partner())
                .filter(|_| case.government.is_some_and(Government::in_sync))?;
            Unmet::on(Whom::Node(case.government?.primary.node), format!("it and {other} to be one"))
        },
    };
}

fn bond<C: Conduct>(case: &Case<'_, C>) -> Option<Bond> {
    case.bucket?.bond.filter(|bond| bond.partner().is_some())
}

fn awaited<C: Conduct>(case: &Case<'_, C>) -> Option<BucketId> {
    case.holding?.awaits
}

fn not_ended<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let other = awaited(case)?;
    let lacks = format!("{other} to come to its end here");
    match case.situation.blueprint.government(other).map(|g| g.primary.node) {
        Some(primary) if primary != case.situation.me => Unmet::on(Whom::Node(primary), lacks),
        _ => Unmet::on(Whom::Disk, lacks),
    }
}

fn unfrozen<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let Some(Bond::Fades { into, .. }) = bond(case) else { return None };
    if case.holding?.frozen {
        return None;
    }
    on_members(case, format!("its last entry to be committed, so that {into} can absorb it"))
}

fn untold<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let words = match bond(case)? {
        Bond::Absorbs { other, .. } => format!("{other} to be absorbed, and the blueprint to know"),
        Bond::Fades { into, .. } => format!("{into} to absorb it, and the blueprint to know"),
        Bond::Merged { .. } => return None,
    };
    on_members(case, words)
}

/// For a primary on those that it leads, for the others on the primary.
fn on_members<C: Conduct>(case: &Case<'_, C>, lacks: String) -> Option<Unmet> {
    let me = case.situation.me;
    let government = case.government?;
    let primary = government.primary.node;
    let others = government.members().map(|m| m.node).filter(|node| *node != me && (primary == me || primary == *node));
    Unmet::on_nodes(others, |_| lacks.clone()).or_else(|| Unmet::on(Whom::MetaGroup, lacks))
}
