//! What a primary waits for: to rule at all, and to serve while it does. The replica does the rest by itself.

use alloc::format;

use blueprint::{Conduct, Index, Member, NodeId, Term};

use crate::case::Case;
use crate::holding::{Peer, Role};
use crate::reaction::Whom;
use crate::rule::{About, Need, Rule, Unmet};
use crate::words::list;

impl<C: Conduct> Rule<C> {
    pub(crate) const MANDATE: Self = Self {
        name: "mandate",
        text: "A replica that is named primary leads, unless it has promised a later term (R2).",
        about: About::Bucket,
        when: |case| is_primary_and(case, |role| *role == Role::Following),
        needs: &[
            Need {
                condition: "it has promised no later term",
                because: "that promise was made to another primary, of whom this node has not heard",
                unmet: outranked,
            },
            Need {
                condition: "it has taken notice",
                because: "it was told, and has not begun to ascend",
                unmet: |_| Unmet::on(Whom::Disk, "the replica to take up its rule"),
            },
        ],
        deed: None,
    };

    pub(crate) const RENEW: Self = Self {
        name: "renew",
        text: "A primary that restarted asks for another term (R4).",
        about: About::Bucket,
        when: |case| is_primary_and(case, |role| matches!(role, Role::Restarted { .. })),
        needs: &[Need {
            condition: "the meta group has given it another term",
            because: "an earlier life of this process may have led this one, and lost what it sent",
            unmet: no_new_term,
        }],
        deed: None,
    };

    pub(crate) const ASCEND: Self = Self {
        name: "ascend",
        text: "A new primary reigns once its promise is safe and what was granted to the former one has run out (R2, R5, R9).",
        about: About::Bucket,
        when: |case| is_primary_and(case, |role| matches!(role, Role::Ascending { .. })),
        needs: &[
            Need {
                condition: "its promise is durable",
                because: "only the term that this very process promised may it lead",
                unmet: unsafe_promise,
            },
            Need {
                condition: "it is whole",
                because: "without the slots that it misses it cannot reign",
                unmet: not_whole,
            },
            Need {
                condition: "no lease that it granted is running, and as an heir it has waited as long",
                because: "the former primary may still be reading",
                unmet: lease_granted,
            },
            Need {
                condition: "its Reign is appended",
                because: "nothing stands in the way any more, and that is its own next step",
                unmet: |_| Unmet::on(Whom::Disk, "its Reign to be written"),
            },
        ],
        deed: None,
    };

    pub(crate) const SUCCEED: Self = Self {
        name: "succeed",
        text: "A primary goes on in the next term of its rule once it has promised it (R2, R4).",
        about: About::Bucket,
        when: |case| case.leads().is_some_and(|(g, _, l)| l.succession || l.term < g.term),
        needs: &[Need {
            condition: "the promise of its next term is durable",
            because: "others may be told of that term only then",
            unmet: |case| {
                let term = case.government.map_or(Term(0), |g| g.term);
                Unmet::on(Whom::Disk, format!("its promise of {term} to be on disk"))
            },
        }],
        deed: None,
    };

    pub(crate) const REIGN: Self = Self {
        name: "reign",
        text: "A new primary serves once every member has acknowledged its Reign (R4).",
        about: About::Bucket,
        when: |case| case.rules().is_some_and(|(g, _, l)| !l.serving && g.in_sync()),
        needs: &[Need {
            condition: "every member has the Reign safe",
            because: "only then is it certain what was committed before",
            unmet: |case| case.rules().and_then(|(.., l)| unacknowledged(case, l.reign, "its Reign")),
        }],
        deed: None,
    };

    pub(crate) const MINIMUM: Self = Self {
        name: "minimum",
        text: "Below the minimum of members nothing is committed (R8).",
        about: About::Bucket,
        when: |case| case.rules().is_some_and(|(g, ..)| !g.in_sync()),
        needs: &[
            Need {
                condition: "a candidate has been named",
                because: "a write that too few hold could be lost with one of them",
                unmet: no_candidate,
            },
            Need {
                condition: "candidates have been seated until the minimum is met",
                because: "a candidate counts only once it is a member",
                unmet: unseated,
            },
        ],
        deed: None,
    };

    pub(crate) const ACKNOWLEDGE: Self = Self {
        name: "acknowledge",
        text: "A write is answered once every member has it safe (R1).",
        about: About::Bucket,
        when: |case| case.rules().is_some_and(|(g, h, l)| l.serving && g.in_sync() && h.commit < h.last.index),
        needs: &[Need {
            condition: "every member has what was appended",
            because: "any member may have to take over",
            unmet: |case| case.rules().and_then(|(_, h, _)| unacknowledged(case, h.last.index, "the last entries")),
        }],
        deed: None,
    };

    pub(crate) const READ: Self = Self {
        name: "read",
        text: "A primary reads alone only while every member grants it that (R5, R9).",
        about: About::Bucket,
        when: |case| case.rules().is_some_and(|(_, _, l)| l.serving && l.reads_until <= case.now()),
        needs: &[
            Need {
                condition: "it holds a lease from every member",
                because: "one that grants nothing may have followed another primary",
                unmet: unleased,
            },
            Need {
                condition: "it has read its own term in the blueprint a moment ago",
                because: "there are heirs, and one of them may have been appointed",
                unmet: |_| Unmet::on(Whom::MetaGroup, "a read of the blueprint that shows its own term"),
            },
        ],
        deed: None,
    };
}

fn is_primary_and<C: Conduct>(case: &Case<'_, C>, role: fn(&Role) -> bool) -> bool {
    case.settled().is_some_and(|(g, h)| g.primary == h.member && role(&h.role))
}

fn outranked<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (promised, term) = (case.holding?.promised, case.government?.term);
    if promised <= term {
        return None;
    }
    Unmet::on(Whom::MetaGroup, format!("a blueprint at or past {promised} of this bucket; here it is {term}"))
}

fn no_new_term<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    Unmet::on(Whom::MetaGroup, format!("another term than {}, for which it has asked", case.government?.term))
}

fn unsafe_promise<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let holding = case.holding?;
    if holding.promise_safe {
        None
    } else {
        Unmet::on(Whom::Disk, format!("its promise of {} to be on disk", holding.promised))
    }
}

fn not_whole<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let missing = case.holding?.missing;
    if missing == 0 {
        return None;
    }
    Unmet::on(Whom::Operator, format!("{missing} slots that it misses, and that nobody may give to a primary"))
}

fn lease_granted<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let Role::Ascending { until, .. } = case.holding?.role else { return None };
    let lacks = |left| format!("leases that it granted to end, {left}");
    Unmet::until(case.now(), until, lacks)
}

/// Secondaries, and while growth is pending the one who would join (R6).
pub(crate) fn needed<'a, C: Conduct>(case: &Case<'a, C>) -> impl Iterator<Item = (Member, Option<&'a Peer>)> {
    let (secondaries, leading) = match case.leads() {
        Some((government, _, leading)) => (&government.secondaries[..], Some(leading)),
        None => (&[][..], None),
    };
    let joint = leading.and_then(|l| l.joint());
    secondaries.iter().copied().chain(joint).map(move |m| (m, leading.and_then(|l| l.peer(m))))
}

/// Who has not acknowledged that index; if all others have, it is our own disk.
pub(crate) fn unacknowledged<C: Conduct>(case: &Case<'_, C>, index: Index, what: &str) -> Option<Unmet> {
    let lags = |peer: Option<&Peer>| peer.and_then(|p| p.upto).is_none_or(|upto| upto < index);
    let laggards = needed(case).filter(|(_, peer)| lags(*peer)).map(|(m, _)| m.node);
    Unmet::on_nodes(laggards, |nodes| format!("{} to acknowledge {what}, up to {index}", list(nodes)))
        .or_else(|| Unmet::on(Whom::Disk, format!("{what}, up to {index}, to be on disk")))
}

fn no_candidate<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let government = case.government?;
    if !government.candidates.is_empty() {
        return None;
    }
    let (size, min) = (government.size(), government.min_in_sync);
    Unmet::on(Whom::MetaGroup, format!("a candidate to be named: members {size}, minimum {min}"))
}

fn unseated<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let government = case.government?;
    let (size, min) = (government.size(), government.min_in_sync);
    let candidates = government.candidates.iter().map(|c| c.node);
    Unmet::on_nodes(candidates, |nodes| format!("{} to be seated: members {size}, minimum {min}", list(nodes)))
}

fn unleased<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let expired = |peer: Option<&Peer>| peer.is_none_or(|p| p.lease <= case.now());
    let nodes = needed(case).filter(|(_, peer)| expired(*peer)).map(|(m, _)| m.node);
    Unmet::on_nodes(nodes, |nodes: &[NodeId]| format!("a lease from {}", list(nodes)))
}
