//! What was set aside (R10, level `memory`): the operating system restarted, and the end of what this replica once answered may be
//! missing.
//!
//! Whoever has everything goes on; the others report themselves lost, and what they have serves them as candidates. If it happened to
//! all members at once, nobody has everything: when all are back, the one that has the most goes on, and the loss is said aloud. First it
//! claims a term in which no earlier life of its own has led: one that did may have proposed a seat, and that would still be lawful.

use alloc::format;
use alloc::vec::Vec;
use core::cmp::Reverse;

use blueprint::{Breach, Change, Command, Conduct, Government, Member};

use super::take_part::others;
use crate::case::Case;
use crate::directory::BucketRow;
use crate::reaction::{Deed, Whom};
use crate::rule::{About, Need, Rule, Unmet};
use crate::words::list;

impl<C: Conduct> Rule<C> {
    pub(crate) const CLAIM: Self = Self {
        name: "claim",
        text: "Of members that all may lack the end of what they answered, the one that has the most asks for a new term of the same \
               government before it goes on (R10).",
        about: About::Bucket,
        when: |case| claimant(case).is_some(),
        needs: &[Self::ACTED_ON, Self::NOBODY_CERTAIN, Self::ALL_BACK, Self::NOBODY_HAS_MORE],
        deed: Some(|case| {
            let (government, me) = claimant(case).expect("only a member claims");
            let change = Change::Renew { primary: me };
            Deed::Propose(Command::Succeed { bucket: case.bucket_id(), replaces: government.term, change })
        }),
    };

    pub(crate) const RESUME: Self = Self {
        name: "resume",
        text: "A replica that may lack the end of what it answered (level `memory`, the operating system restarted) is used again when it is \
               named no longer, or when nobody has more (R10).",
        about: About::Bucket,
        when: |case| case.aside.is_some() && claimant(case).is_none(),
        needs: &[Self::ACTED_ON, Self::REGISTERED, Self::NOBODY_CERTAIN, Self::ALL_BACK, Self::NOBODY_HAS_MORE],
        deed: Some(|case| Deed::Resume { bucket: case.bucket_id(), as_member: as_member(case).is_some() }),
    };

    const REGISTERED: Need<C> = Need {
        condition: "the bucket is registered, or is no more",
        because: "until then its parent's members are its own",
        unmet: unregistered,
    };
    const NOBODY_CERTAIN: Need<C> = Need {
        condition: "it is named no longer, or nobody has everything",
        because: "what is missing here is there, and this one returns as a candidate",
        unmet: not_needed,
    };
    const ALL_BACK: Need<C> = Need {
        condition: "it is named no longer, or every member has said what it has",
        because: "who is away may have more, or everything",
        unmet: not_all_back,
    };
    const NOBODY_HAS_MORE: Need<C> = Need {
        condition: "it is named no longer, or nobody has more",
        because: "nobody has everything, and the less is lost the better",
        unmet: has_less,
    };
}

/// Named, as a member or an heir, for what is set aside.
fn as_member<'a, C: Conduct>(case: &Case<'a, C>) -> Option<(&'a Government, Member)> {
    let (government, named) = (case.government?, case.named_aside()?);
    let trusted = C::breaks(Breach::DoubtIgnored);
    (government.is_member(named) && !trusted).then_some((government, named))
}

/// A member that does not lead, or may have led this very term before: then somebody whom it proposed to seat may be a member before
/// long, and have everything.
fn claimant<'a, C: Conduct>(case: &Case<'a, C>) -> Option<(&'a Government, Member)> {
    let may_have_led = |term| case.aside.is_some_and(|row| row.promised >= term);
    as_member(case).filter(|(government, me)| government.primary != *me || may_have_led(government.term))
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
    // Who was filled with tables that are ahead of what is left of its log lacks what lies between.
    let rank = |row: &BucketRow| (row.missing == 0, row.last);
    let all = government.members().filter_map(|m| Some((rank(said(case, m)?), Reverse(m.node), m)));
    let ((_, last), _, best) = all.max().filter(|(.., best)| *best != me)?;
    Unmet::on(Whom::Node(best.node), format!("{best}, which has entries up to {last}, to go on"))
}

/// What a member has set aside.
fn said<'a, C: Conduct>(case: &Case<'a, C>, member: Member) -> Option<&'a BucketRow> {
    let me = member.node == case.situation.me;
    let there = case.is_present(member.node) && case.is_reachable(member.node);
    let row =
        if me { case.aside } else { case.situation.directory.aside(member.node, case.bucket_id()).filter(|_| there) };
    row.filter(|row| row.incarnation == member.incarnation)
}
