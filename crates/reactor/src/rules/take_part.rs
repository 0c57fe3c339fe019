//! Named, and nothing here: first start, take part, lost (R10).

use alloc::format;

use blueprint::{Birth, Breach, Change, Command, Conduct, Fate, Government, Member};

use crate::case::Case;
use crate::reaction::{Beginning, Deed, Whom};
use crate::rule::{About, Need, Rule, Unmet};
use crate::words::list;

impl<C: Conduct> Rule<C> {
    pub(crate) const FIRST_START: Self = Self {
        name: "first-start",
        text: "A member of a bucket's first government that never was here begins whole and empty.",
        about: About::Bucket,
        when: may_begin_empty,
        needs: &[],
        deed: Some(|case| found(case, Beginning::Empty)),
    };

    pub(crate) const TAKE_PART: Self = Self {
        name: "take-part",
        text: "A candidate of which nothing is here begins with nothing, and will be filled.",
        about: About::Bucket,
        when: may_begin_as_candidate,
        needs: &[Self::NO_FORK],
        deed: Some(|case| found(case, Beginning::Candidate)),
    };

    pub(crate) const LOST: Self = Self {
        name: "lost",
        text: "A node that is named for data that it does not have says so, and returns under a new incarnation (R10).",
        about: About::Bucket,
        when: is_lost,
        needs: &[
            Self::ACTED_ON,
            Self::NO_FORK,
            Need {
                condition: "another member, or an heir, can take over",
                because: "a bucket is never begun anew over data that somebody may still have",
                unmet: nobody_left,
            },
        ],
        deed: Some(report_lost),
    };

    const NO_FORK: Need<C> = Need {
        condition: "no split that is held here will make it",
        because: "a fork brings the data along, and never replaces a replica",
        unmet: fork_comes,
    };
}

/// Governed, named, and no replica.
fn vacancy<'a, C: Conduct>(case: &Case<'a, C>) -> Option<(&'a Government, Member)> {
    let government = case.bucket?.government()?;
    if case.holding.is_some() || case.aside.is_some() { None } else { Some((government, case.named?)) }
}

/// It was here under this incarnation, or may have been: what it promised then must not be forgotten. Under a later one it returns.
fn was_here<C: Conduct>(case: &Case<'_, C>, named: Member) -> bool {
    let gone = case.situation.gone.get(&case.bucket_id());
    gone.is_some_and(|gone| named.incarnation <= *gone) || named.incarnation.0 <= case.situation.doubt.0
}

fn may_begin_empty<C: Conduct>(case: &Case<'_, C>) -> bool {
    let Some((government, named)) = vacancy(case) else { return false };
    // An heir that never was holds all that was ever acknowledged, too: nothing.
    if !government.is_member(named) && !government.heirs.contains(&named) {
        return false;
    }
    if C::breaks(Breach::MemberCreatesItselfEmpty) || C::breaks(Breach::ErasedKeepsIncarnation) {
        return true;
    }
    let birth = case.bucket.map(|b| b.birth);
    // Whoever is seated has been here under this name or an earlier one. If a replica is gone, that was it, whatever name is known.
    let is_gone = case.situation.gone.contains_key(&case.bucket_id());
    let never_was = case.situation.epoch_of(case.bucket_id()).0 < named.incarnation.0 && !is_gone;
    let first = birth == Some(Birth::First) && never_was;
    let child = birth != Some(Birth::First) && C::breaks(Breach::ChildStartsEmpty);
    !was_here(case, named) && (first || child || C::breaks(Breach::WipedDiskRejoins))
}

fn may_begin_as_candidate<C: Conduct>(case: &Case<'_, C>) -> bool {
    let Some((government, named)) = vacancy(case) else { return false };
    let kept = C::breaks(Breach::ErasedKeepsIncarnation);
    government.candidates.contains(&named) && !may_begin_empty(case) && (kept || !was_here(case, named))
}

fn is_lost<C: Conduct>(case: &Case<'_, C>) -> bool {
    let governed = case.bucket.is_some_and(|b| b.government().is_some());
    if case.aside.is_some() {
        // Of a last copy nothing is lost to anybody: it goes on.
        let others = |named: Member| case.government.is_some_and(|g| others(g, named).next().is_some());
        return governed && case.named_aside().is_some_and(others);
    }
    // A replica that a newer blueprint named is not lost because this one does not know of it.
    let newer = case.holding.is_some_and(|h| h.member.incarnation.0 > case.situation.blueprint.epoch.0);
    let begins = may_begin_empty(case) || may_begin_as_candidate(case);
    let has_it = case.holds_what_it_is_named_for() && !is_starved(case);
    governed && case.named.is_some() && !newer && !begins && !has_it
}

/// It is to absorb a bucket that is no more, and of which there is nothing here: a member can neither go on nor say that it is whole.
fn is_starved<C: Conduct>(case: &Case<'_, C>) -> bool {
    let Some(other) = case.holding.and_then(|h| h.awaits) else { return false };
    let situation = case.situation;
    let counts = |m: Member| case.government.is_some_and(|g| g.is_member(m) || g.heirs.contains(&m));
    let beside = situation.replicas.get(&other).is_some_and(|h| h.frozen) || situation.aside.contains_key(&other);
    case.named.is_some_and(counts) && situation.blueprint.government(other).is_none() && !beside
}

fn fork_comes<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    if case.holding.is_some() {
        return None;
    }
    let (parent, holding) = case.parent_here()?;
    let child = case.bucket_id();
    let applied = holding.splits.iter().any(|p| p.child == child && p.applied);
    if applied {
        return Unmet::on(
            Whom::MetaGroup,
            format!("a blueprint that says whether {child}, split off {parent}, has a place here"),
        );
    }
    let me = case.situation.me;
    let government = case.situation.blueprint.government(parent);
    let others = government.into_iter().flat_map(Government::members).map(|m| m.node).filter(|n| *n != me);
    let primary = government.map(|g| g.primary.node).filter(|n| *n != me);
    let lacks = |_: &[_]| format!("the split of {parent} to commit here, which makes {child}");
    match primary {
        Some(primary) => Unmet::on_nodes([primary], lacks),
        None => Unmet::on_nodes(others, lacks),
    }
    .or_else(|| {
        Unmet::on(Whom::MetaGroup, format!("the split of {parent}, which makes {child}, to be shown registered"))
    })
}

fn nobody_left<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (government, named) = (case.government?, case.named?);
    if case.aside.is_some() {
        return nobody_certain(case, government, named);
    }
    if government.primary != named || successor(case, government).is_some() {
        return None;
    }
    Unmet::on(Whom::Operator, "somebody to decide: the data of its last member is gone, and there is no heir")
}

/// What is set aside may be all that is left: it is given up only for a member that has everything, or an heir. A candidate is no loss.
fn nobody_certain<C: Conduct>(case: &Case<'_, C>, government: &Government, named: Member) -> Option<Unmet> {
    if !government.is_member(named) && !government.heirs.contains(&named) {
        return None;
    }
    let relieved = if government.primary == named {
        successor(case, government).is_some_and(|m| case.has_everything(m))
    } else {
        // An heir that is certain reigns when no secondary is left.
        others(government, named).any(|m| case.has_everything(m))
    };
    if relieved {
        return None;
    }
    Unmet::on_nodes(others(government, named).map(|m| m.node), |nodes| {
        let one = if nodes.len() > 1 { "one of " } else { "" };
        format!("{one}{} to say that it has everything: the last second of what is here may be missing", list(nodes))
    })
}

/// Members and heirs besides that one.
pub(crate) fn others(government: &Government, one: Member) -> impl Iterator<Item = Member> + '_ {
    government.members().chain(government.heirs.iter().copied()).filter(move |m| *m != one)
}

/// Any secondary holds everything acknowledged; an heir does when there is none. Best one that can be reached, with the most.
fn successor<C: Conduct>(case: &Case<'_, C>, government: &Government) -> Option<Member> {
    let rank = |m: &Member| {
        let row = case.situation.directory.row(m.node, case.bucket_id()).filter(|r| r.incarnation == m.incarnation);
        (case.is_present(m.node), case.is_reachable(m.node), row.map(|r| r.last), core::cmp::Reverse(m.node))
    };
    let best = |of: &[Member]| of.iter().copied().max_by_key(rank);
    best(&government.secondaries).or_else(|| best(&government.heirs))
}

fn report_lost<C: Conduct>(case: &Case<'_, C>) -> Deed {
    let government = case.government.expect("a bucket without a government names nobody");
    let named = case.named.expect("only what is named is lost");
    let fate = Fate::Lost;
    let change = if government.secondaries.contains(&named) {
        Change::Dismiss { secondary: named, fate }
    } else if government.primary == named {
        let to = successor(case, government).expect("it is needed that somebody can take over");
        Change::Usurp { to, fate }
    } else if government.heirs.contains(&named) {
        Change::Disown { heir: named }
    } else {
        Change::Drop { candidate: named }
    };
    Deed::Propose(Command::Succeed { bucket: case.bucket_id(), replaces: government.term, change })
}

fn found<C: Conduct>(case: &Case<'_, C>, beginning: Beginning) -> Deed {
    let member = case.named.expect("only what is named is founded");
    Deed::Found { bucket: case.bucket_id(), member, beginning }
}
