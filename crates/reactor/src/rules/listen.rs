//! What those wait for who do not lead: secondaries listen, candidates catch up, heirs stand by.

use alloc::format;

use blueprint::Conduct;

use crate::case::Case;
use crate::directory::Part;
use crate::reaction::Whom;
use crate::rule::{About, Need, Rule, Unmet};
use crate::words::span;

impl<C: Conduct> Rule<C> {
    pub(crate) const LISTEN: Self = Self {
        name: "listen",
        text: "A secondary hears from its primary, all the time.",
        about: About::Bucket,
        when: |case| case.settled().is_some_and(|(g, h)| g.secondaries.contains(&h.member)),
        needs: &[
            Self::PRESENT,
            Self::REACHABLE,
            Self::WORD,
            Need {
                condition: "its primary serves",
                because: "a primary serves only once every member has followed it",
                unmet: not_serving,
            },
            Self::WHOLE,
        ],
        deed: None,
    };

    pub(crate) const CATCH_UP: Self = Self {
        name: "catch-up",
        text: "A candidate takes what it misses from the primary, and is seated.",
        about: About::Bucket,
        when: |case| case.settled().is_some_and(|(g, h)| g.candidates.contains(&h.member)),
        needs: &[
            Self::PRESENT,
            Self::REACHABLE,
            Self::WORD,
            Self::WHOLE,
            Need {
                condition: "the primary has seated it",
                because: "growth belongs to the primary (R6)",
                unmet: |case| {
                    let primary = case.government?.primary.node;
                    Unmet::on(Whom::Node(primary), format!("{primary} to seat it"))
                },
            },
        ],
        deed: None,
    };

    pub(crate) const INHERIT: Self = Self {
        name: "inherit",
        text: "An heir keeps what it holds until the government is back at its minimum (R9).",
        about: About::Bucket,
        when: |case| {
            let only = |(g, h): (&blueprint::Government, &crate::Holding)| {
                g.heirs.contains(&h.member) && !g.candidates.contains(&h.member)
            };
            case.settled().is_some_and(only)
        },
        needs: &[Need {
            condition: "the government is back at its minimum",
            because: "if the last member is lost, an heir may reign",
            unmet: |case| {
                let government = case.government?;
                let (primary, min) = (government.primary.node, government.min_in_sync);
                Unmet::on(Whom::Node(primary), format!("{primary} to have seated {min} members"))
            },
        }],
        deed: None,
    };

    const PRESENT: Need<C> = Need {
        condition: "the primary is present",
        because: "a departed primary leads nobody, and the meta group names another one",
        unmet: primary_departed,
    };

    const REACHABLE: Need<C> = Need {
        condition: "the primary can be reached",
        because: "the directory has lost sight of it",
        unmet: primary_unreachable,
    };

    const WORD: Need<C> = Need {
        condition: "the primary has said something lately",
        because: "there is a beacon when there is nothing else to say",
        unmet: no_word,
    };

    const WHOLE: Need<C> =
        Need { condition: "it is whole", because: "it cannot take over with slots missing", unmet: missing };
}

fn primary_departed<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let primary = case.government?.primary.node;
    if case.is_present(primary) {
        None
    } else {
        Unmet::on(Whom::MetaGroup, format!("a successor of {primary}, which has departed"))
    }
}

fn primary_unreachable<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let primary = case.government?.primary.node;
    if case.is_reachable(primary) {
        None
    } else {
        Unmet::on(Whom::Node(primary), format!("{primary} to be reachable again"))
    }
}

fn no_word<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let primary = case.government?.primary.node;
    let silent = case.now().since(case.holding?.heard);
    if silent <= case.situation.limits.silence {
        return None;
    }
    Unmet::on(Whom::Node(primary), format!("a word from {primary}, which has said nothing for {}", span(silent)))
}

/// As far as the primary has told about itself.
fn not_serving<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let primary = case.government?.primary;
    let row = case.situation.directory.row(primary.node, case.bucket_id())?;
    match row.part {
        Part::Serves => None,
        Part::Rises | Part::Follows | Part::Aside => Unmet::on(Whom::Node(primary.node), format!("{primary} to serve")),
    }
}

fn missing<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (missing, primary) = (case.holding?.missing, case.government?.primary.node);
    if missing == 0 { None } else { Unmet::on(Whom::Node(primary), format!("{missing} slots from {primary}")) }
}
