//! What a primary waits for while its government or its slots change: fill, seat, hand over, split.

use alloc::format;
use alloc::vec::Vec;

use blueprint::{Conduct, Member, NodeId, OperationState};

use super::reign::unacknowledged;
use crate::case::Case;
use crate::holding::{Growth, HandOver, Parting, Peer};
use crate::reaction::Whom;
use crate::rule::{About, Need, Rule, Unmet};
use crate::words::list;

impl<C: Conduct> Rule<C> {
    pub(crate) const FILL: Self = Self {
        name: "fill",
        text: "A candidate is filled, then streamed to, until it is level with the primary (R6).",
        about: About::Bucket,
        when: |case| !waiting_candidates(case).is_empty(),
        needs: &[
            Need {
                condition: "every candidate answers",
                because: "who does not answer cannot be filled",
                unmet: silent,
            },
            Need { condition: "every candidate is whole", because: "a member must hold every slot", unmet: missing },
            Need {
                condition: "every candidate is level",
                because: "a member must hold everything that is committed",
                unmet: behind,
            },
            Need {
                condition: "every split is registered",
                because: "from a split's commit until then nobody is seated, or it would be a member of a child that it never held",
                unmet: untold_split,
            },
            Self::NOT_MERGING,
            Need {
                condition: "its turn has come",
                because: "one is seated at a time, and a laggard only after a delay",
                unmet: |case| {
                    Unmet::on(Whom::Clock(case.now()), format!("the turn of {}", list(waiting_candidates(case))))
                },
            },
        ],
        deed: None,
    };

    pub(crate) const SEAT: Self = Self {
        name: "seat",
        text: "A candidate that is level is seated; from before the check until a successor is seen it counts as a member (R6, R7).",
        about: About::Bucket,
        when: |case| case.leads().is_some_and(|(.., l)| l.growth != Growth::None),
        needs: &[
            Need {
                condition: "the blueprint was read afresh",
                because: "growth that starts from an old government could undo a newer one",
                unmet: growth_unread,
            },
            Need {
                condition: "the candidate has applied what is committed",
                because: "all but the last few is not all",
                unmet: unapplied,
            },
            Need {
                condition: "a successor of the term was seen",
                because: "until then either government may be the one: the acks and leases of both are needed",
                unmet: seat_undecided,
            },
        ],
        deed: None,
    };

    pub(crate) const HAND_OVER: Self = Self {
        name: "hand-over",
        text: "A planned change of primary: pause, drain, propose, and stop when the successor is seen (R7).",
        about: About::Bucket,
        when: |case| case.leads().is_some_and(|(.., l)| l.hand_over != HandOver::None),
        needs: &[
            Need {
                condition: "the blueprint was read afresh",
                because: "a hand over that starts from an old government could undo a newer one",
                unmet: hand_over_unread,
            },
            Need {
                condition: "everything is committed",
                because: "what waits in the backlog goes on at the successor, after all that came before",
                unmet: undrained,
            },
            Need {
                condition: "a successor of the term was seen",
                because: "until the outcome is known no write is accepted",
                unmet: hand_over_undecided,
            },
        ],
        deed: None,
    };

    pub(crate) const SPLIT: Self = Self {
        name: "split",
        text: "A split is committed, forked and registered; until all of that is done its log is not cut.",
        about: About::Bucket,
        when: |case| case.is_acted_on() && unfinished(case, |_| true).next().is_some(),
        needs: &[
            Need {
                condition: "the split is committed here",
                because: "ownership moves at that position of the log, on each member by itself",
                unmet: uncommitted_split,
            },
            Need {
                condition: "the child is durable here, or has no place here",
                because: "it can be made of nothing else on this node",
                unmet: unforked,
            },
            Need {
                condition: "the blueprint knows the child",
                because: "it is told after, by the primary, again and again",
                unmet: unregistered,
            },
        ],
        deed: None,
    };
}

/// Candidates of which no seat is under way.
fn waiting_candidates<C: Conduct>(case: &Case<'_, C>) -> Vec<NodeId> {
    candidates(case).map(|(m, _)| m.node).collect()
}

fn candidates<'a, C: Conduct>(case: &Case<'a, C>) -> impl Iterator<Item = (Member, Option<&'a Peer>)> {
    let led = case.leads();
    let growing = led.and_then(|(.., l)| match l.growth {
        Growth::None => None,
        Growth::Asking { candidate } | Growth::Joint { candidate, .. } | Growth::Proposed { candidate } => {
            Some(candidate)
        }
    });
    let all = led.map_or(&[][..], |(g, ..)| &g.candidates[..]).iter().copied();
    all.filter(move |c| Some(*c) != growing).map(move |c| (c, led.and_then(|(.., l)| l.peer(c))))
}

fn silent<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let silence = case.situation.limits.silence;
    let mute = |peer: Option<&Peer>| peer.is_none_or(|p| p.upto.is_none() || case.now().since(p.heard) > silence);
    let nodes = candidates(case).filter(|(_, peer)| mute(*peer)).map(|(m, _)| m.node);
    Unmet::on_nodes(nodes, |nodes| format!("an answer from {}", list(nodes)))
}

fn missing<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let lacks = || candidates(case).filter_map(|(m, peer)| Some((m.node, peer?.missing)).filter(|(_, n)| *n > 0));
    let paused = |node| {
        let operation = case.id.and_then(|bucket| case.situation.blueprint.enlisted_by(bucket, node));
        operation.filter(|operation| operation.state == OperationState::Paused)
    };
    let words = lacks().map(|(node, slots)| match paused(node) {
        Some(operation) => format!("{node} to take {slots} more slots, and {} to be resumed", operation.id),
        None => format!("{node} to take {slots} more slots"),
    });
    Unmet::on_nodes(lacks().map(|(node, _)| node), |_| list(words))
}

fn behind<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (_, holding, leading) = case.leads()?;
    let level = holding.commit.max(leading.reign);
    let lacks = || {
        let upto = |peer: Option<&Peer>| peer.and_then(|p| p.upto).map_or(0, |upto| upto.0);
        candidates(case).map(move |(m, peer)| (m.node, upto(peer))).filter(move |(_, upto)| *upto < level.0)
    };
    let words = lacks().map(|(node, upto)| format!("{node} to take {} more entries", level.0 - upto));
    Unmet::on_nodes(lacks().map(|(node, _)| node), |_| list(words))
}

fn untold_split<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    unfinished(case, |p| p.applied && !p.registered)
        .next()
        .and_then(|parting| Unmet::on(Whom::MetaGroup, format!("the registration of {}", parting.child)))
}

fn growth_unread<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let Growth::Asking { candidate } = case.leads()?.2.growth else { return None };
    Unmet::on(Whom::MetaGroup, format!("a fresh read of the blueprint, before {candidate} is seated"))
}

fn unapplied<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let Growth::Joint { candidate, level } = case.leads()?.2.growth else { return None };
    Unmet::on(Whom::Node(candidate.node), format!("{candidate} to have applied {level}"))
}

fn seat_undecided<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let Growth::Proposed { candidate } = case.leads()?.2.growth else { return None };
    Unmet::on(Whom::MetaGroup, format!("the outcome of its proposal to seat {candidate}"))
}

fn hand_over_unread<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let HandOver::Draining { to, told: false, .. } = case.leads()?.2.hand_over else { return None };
    Unmet::on(Whom::MetaGroup, format!("a fresh read of the blueprint, before it hands over to {to}"))
}

fn undrained<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (_, holding, leading) = case.leads()?;
    let HandOver::Draining { .. } = leading.hand_over else { return None };
    if holding.commit == holding.last.index {
        return None;
    }
    unacknowledged(case, holding.last.index, "the last entries")
}

fn hand_over_undecided<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (HandOver::Draining { to, .. } | HandOver::Proposed { to }) = case.leads()?.2.hand_over else { return None };
    Unmet::on(Whom::MetaGroup, format!("the outcome of its hand over to {to}"))
}

fn unfinished<'a, C: Conduct>(case: &Case<'a, C>, which: fn(&Parting) -> bool) -> impl Iterator<Item = &'a Parting> {
    let splits = case.holding.map_or(&[][..], |h| &h.splits[..]);
    // Without a government nothing commits any more (`fork_is_void`).
    let may_come = |p: &&Parting| p.applied || case.government.is_some();
    splits.iter().filter(may_come).filter(|p| !(p.applied && p.registered && p.forked)).filter(move |p| which(p))
}

fn uncommitted_split<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let parting = unfinished(case, |p| !p.applied).next()?;
    let government = case.government?;
    let (me, primary) = (case.situation.me, government.primary.node);
    let lacks = |_: &[_]| format!("the split at {} to commit, which makes {}", parting.at, parting.child);
    let members = government.members().map(|m| m.node);
    let others = members.filter(|node| *node != me && (primary == me || primary == *node));
    Unmet::on_nodes(others, lacks).or_else(|| Unmet::on(Whom::Disk, lacks(&[])))
}

fn unforked<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let child = unfinished(case, |p| p.applied && !p.forked).next()?.child;
    if case.situation.replicas.contains_key(&child) {
        return Unmet::on(Whom::Disk, format!("{child} to be on disk"));
    }
    Unmet::on(Whom::MetaGroup, format!("a blueprint that says whether {child} has a place here"))
}

fn unregistered<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let child = unfinished(case, |p| !p.registered).next()?.child;
    let lacks = format!("the registration of {child}");
    match case.government.map(|g| g.primary.node) {
        Some(primary) if primary != case.situation.me => Unmet::on(Whom::Node(primary), lacks),
        _ => Unmet::on(Whom::MetaGroup, lacks),
    }
}
