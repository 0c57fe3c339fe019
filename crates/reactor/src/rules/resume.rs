//! What was set aside (R10, level `memory`): the operating system restarted, and the end of what this replica once answered may be
//! missing.
//!
//! Whoever has everything goes on; the others report themselves lost, and what they have serves them as candidates. If it happened to
//! all members at once, nobody has everything: when all are back, the one that has the most goes on, and the loss is said aloud.

use alloc::format;
use alloc::vec::Vec;
use core::cmp::Reverse;

use blueprint::{Breach, Conduct, Government, Member, Position};

use super::take_part::others;
use crate::case::Case;
use crate::reaction::{Deed, Whom};
use crate::rule::{About, Need, Rule, Unmet};
use crate::words::list;

impl<C: Conduct> Rule<C> {
    pub(crate) const RESUME: Self = Self {
        name: "resume",
        text: "A replica that may lack the end of what it answered (level `memory`, the operating system restarted) is used again when it is \
               named no longer, or when nobody has more (R10).",
        about: About::Bucket,
        when: |case| case.aside.is_some(),
        needs: &[
            Self::ACTED_ON,
            Need {
                condition: "the bucket is registered, or is no more",
                because: "until then its parent's members are its own",
                unmet: unregistered,
            },
            Need {
                condition: "it is named no longer, or nobody has everything",
                because: "what is missing here is there, and this one returns as a candidate",
                unmet: not_needed,
            },
            Need {
                condition: "it is named no longer, or every member has said what it has",
                because: "who is away may have more, or everything",
                unmet: not_all_back,
            },
            Need {
                condition: "it is named no longer, or nobody has more",
                because: "nobody has everything, and the less is lost the better",
                unmet: has_less,
            },
        ],
        deed: Some(|case| Deed::Resume { bucket: case.bucket_id(), as_member: as_member(case).is_some() }),
    };
}

/// Named, as a member or an heir, for what is set aside.
fn as_member<'a, C: Conduct>(case: &Case<'a, C>) -> Option<(&'a Government, Member)> {
    let (government, named) = (case.government?, case.named_aside()?);
    let trusted = C::breaks(Breach::DoubtIgnored);
    (government.is_member(named) && !trusted).then_some((government, named))
}

fn unregistered<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let known = case.bucket.is_some() || case.situation.blueprint.is_retired(case.bucket_id());
    if known { None } else { Unmet::on(Whom::MetaGroup, format!("the registration of {}", case.bucket_id())) }
}

fn not_needed<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let named = case.named_aside().filter(|_| !C::breaks(Breach::DoubtIgnored))?;
    let goes = || format!("a government without {named}");
    let Some((government, me)) = as_member(case) else { return Unmet::on(Whom::MetaGroup, goes()) };
    let whole: Vec<Member> = others(government, me).filter(|m| case.has_everything(*m)).collect();
    if whole.is_empty() {
        return None;
    }
    Unmet::on(Whom::MetaGroup, format!("{}: everything is on {}", goes(), list(whole.iter().map(|m| m.node))))
}

fn not_all_back<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (government, me) = as_member(case)?;
    // One whose disk was replaced will never be back.
    let may_return = |m: &Member| !case.situation.blueprint.is_replaced(m.node);
    let silent = others(government, me).filter(|m| may_return(m) && said(case, *m).is_none());
    Unmet::on_nodes(silent.map(|m| m.node), |nodes| format!("{} to be back and to say what it has", list(nodes)))
}

fn has_less<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (government, me) = as_member(case)?;
    let all = government.members().filter_map(|m| Some((said(case, m)?, Reverse(m.node), m)));
    let (last, _, best) = all.max().filter(|(.., best)| *best != me)?;
    Unmet::on(Whom::Node(best.node), format!("{best}, which has entries up to {last}, to go on"))
}

/// Up to where what a member set aside goes.
fn said<C: Conduct>(case: &Case<'_, C>, member: Member) -> Option<Position> {
    let me = member.node == case.situation.me;
    let there = case.is_present(member.node) && case.is_reachable(member.node);
    let row =
        if me { case.aside } else { case.situation.directory.aside(member.node, case.bucket_id()).filter(|_| there) };
    row.filter(|row| row.incarnation == member.incarnation).map(|row| row.last)
}
