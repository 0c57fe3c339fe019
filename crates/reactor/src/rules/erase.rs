//! What nobody names is removed, but only when it is certain that nobody can still need it (R11).

use alloc::format;

use blueprint::{Birth, Blueprint, Breach, Bucket, Command, Conduct, Government, NodeId, Rule as Standing};

use crate::case::{Case, fork_is_void};
use crate::holding::Holding;
use crate::marks::unnamed_in;
use crate::reaction::{Deed, Whom};
use crate::rule::{About, Need, Rule, Unmet};
use crate::situation::Read;
use crate::words::{count, list};

impl<C: Conduct> Rule<C> {
    pub(crate) const ASK_BEFORE_ERASE: Self = Self {
        name: "ask-before-erase",
        text: "When nothing else stands in the way of an erase, the blueprint is read afresh.",
        about: About::Bucket,
        when: |case| {
            let ready = is_unneeded(case) && Self::BEFORE_THE_READ.iter().all(|need| (need.unmet)(case).is_none());
            ready && case.fresh_read().is_none() && !is_asked(case)
        },
        needs: &[],
        deed: Some(|case| Deed::ReadMeta { bucket: case.bucket_id() }),
    };

    pub(crate) const ERASE: Self = Self {
        name: "erase",
        text: "A replica that the blueprint names neither member, candidate nor heir is erased.",
        about: About::Bucket,
        when: is_unneeded,
        needs: &[
            Self::BEFORE_THE_READ[0],
            Self::BEFORE_THE_READ[1],
            Self::BEFORE_THE_READ[2],
            Self::BEFORE_THE_READ[3],
            Self::BEFORE_THE_READ[4],
            Self::BEFORE_THE_READ[5],
            Self::BEFORE_THE_READ[6],
            Need {
                condition: "a linearizable read shows the same government",
                because: "this node may be named again by a blueprint that it has not seen",
                unmet: unread,
            },
        ],
        deed: Some(|case| Deed::Erase {
            bucket: case.bucket_id(),
            incarnation: case.holding.expect("only what is here is erased").member.incarnation,
        }),
    };

    const BEFORE_THE_READ: [Need<C>; 7] = [
        Need {
            condition: "the grace time has passed",
            because: "what is erased forgets what it granted, and a plan may yet be undone",
            unmet: in_grace,
        },
        Need {
            condition: "every present member has echoed an epoch at or past the one that dropped it",
            because: "a member that has not seen the government that dropped us might still need our copy",
            unmet: unechoed,
        },
        Need {
            condition: "a present member holds it",
            because: "if all of them are lost, ours is the last copy",
            unmet: unheld,
        },
        Need {
            condition: "no child that is registered here must still be made of it",
            because: "the child's data is nowhere else on this node",
            unmet: fork_owed,
        },
        Need {
            condition: "it has promised no more than the term that dropped it",
            because: "who has promised more was named again meanwhile",
            unmet: promised_more,
        },
        Need {
            condition: "the bucket has as many members as wanted",
            because: "while one is missing, ours is the copy that needs only the tail",
            unmet: wanted_back,
        },
        Need {
            condition: "what has absorbed it is saved",
            because: "after a restart that is made of it once more",
            unmet: owed,
        },
    ];

    pub(crate) const ERASED: Self = Self {
        name: "erased",
        text: "A holder of a removed bucket that holds nothing of it says so, until the blueprint has struck it off.",
        about: About::Bucket,
        when: |case| case.holding.is_none() && case.aside.is_none() && holder(case).is_some(),
        needs: &[Self::ACTED_ON],
        deed: Some(|case| {
            let holder = holder(case).expect("that is when it applies");
            Deed::Propose(Command::Erased { bucket: case.bucket_id(), holder })
        }),
    };
}

fn is_unneeded<C: Conduct>(case: &Case<'_, C>) -> bool {
    case.is_acted_on() && case.unnamed().is_some()
}

fn in_grace<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let since = case.mark().map_or(case.now(), |mark| mark.since);
    Unmet::until(case.now(), since + case.situation.limits.grace, |left| format!("the rest of its grace time, {left}"))
}

fn unechoed<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    if C::breaks(Breach::EraseBeforeEcho) {
        return None;
    }
    let epoch = case.mark().map_or(case.situation.epoch, |mark| mark.epoch);
    let bucket = case.bucket_id();
    // A member is one in whichever of the two; one that has departed does not hold us up.
    let silent = |blueprint: &Blueprint| -> alloc::vec::Vec<NodeId> {
        let members = blueprint.government(bucket).into_iter().flat_map(Government::members).map(|m| m.node);
        let waits_for = |node: &NodeId| blueprint.is_present(*node) && case.situation.directory.echoed(*node) < epoch;
        members.filter(waits_for).collect()
    };
    let read = case.fresh_read().map(silent).unwrap_or_default();
    let nodes = silent(case.situation.blueprint).into_iter().chain(read);
    Unmet::on_nodes(nodes, |nodes| format!("the echo of epoch {} from {}", epoch.0, list(nodes)))
}

/// Departed members hold nobody up, so the echo alone would be no proof: 1. n3 is dropped, n1 and n2 are the members; 2. both depart;
/// 3. n3 sees that nobody is left who must echo, and erases what may be all that is left when n1 and n2 never return.
fn unheld<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let bucket = case.bucket_id();
    let directory = case.situation.directory;
    let members: alloc::vec::Vec<_> = case.government?.members().collect();
    let holds = |member: &blueprint::Member| {
        let row = directory.row(member.node, bucket);
        let read = case.fresh_read();
        case.is_present(member.node)
            && read.is_none_or(|read| read.is_present(member.node))
            && directory.is_reachable(member.node)
            && row.is_some_and(|row| row.incarnation == member.incarnation)
    };
    if members.iter().any(holds) {
        return None;
    }
    let nodes = members.iter().map(|m| m.node);
    Unmet::on_nodes(nodes, |nodes| {
        let one = if nodes.len() > 1 { "one of " } else { "" };
        format!("{one}{} to be present and to say that it holds the bucket", list(nodes))
    })
}

/// Otherwise: 1. n3 departs and is dismissed; 2. it returns, with all but the last entries; 3. it erases that, and has to take
/// everything anew, and the bucket has one copy less for as long.
fn wanted_back<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let government = case.government?;
    let may_return = case.situation.blueprint.nodes.contains_key(&case.situation.me);
    if !may_return || government.size() >= case.wanted() {
        return None;
    }
    let lacks = count(case.wanted() - government.size(), "more copy", "more copies");
    Unmet::on(Whom::Node(government.primary.node), format!("{lacks} of the bucket, for which ours may be taken back"))
}

/// Not by a replica that has not come to the split, if the child is here already, under the name that it is to have: then others filled it,
/// and what is made of a Split replaces nothing. (Otherwise: 1. n4 leaves b1 before its log comes to the split; 2. b1 is merged into its
/// child; 3. n4 is to have a copy of the child, for which no fork comes; 4. it is filled and seated before what it has of b1 is erased. As
/// a member it would wait for that fork for ever.)
fn fork_owed<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    if C::breaks(Breach::ParentErasedBeforeFork) {
        return None;
    }
    let owed = |blueprint: &Blueprint| {
        let owes = |b: &&Bucket| match b.birth {
            Birth::Split { parent, at } if parent == case.bucket_id() => {
                let Some(named) = b.government().and_then(|g| g.named(case.situation.me)) else { return false };
                let is_here = case.situation.replicas.get(&b.id).is_some_and(|child| child.member == named);
                let owes = |h: &&Holding| {
                    let is_void = fork_is_void(blueprint, case.situation.me, parent, h, b.id);
                    h.owes_fork(b.id, at) && !is_void && (!is_here || h.comes_to(b.id))
                };
                case.holding.as_ref().is_some_and(owes)
            }
            Birth::Split { .. } | Birth::First => false,
        };
        blueprint.buckets.values().find(owes).map(|b| b.id)
    };
    let child = owed(case.situation.blueprint).or_else(|| case.fresh_read().and_then(owed))?;
    Unmet::on(Whom::Disk, format!("its split to be applied and {child}, which is made of it, to be on disk"))
}

fn owed<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let into = case.holding?.owed_to?;
    Unmet::on(Whom::Disk, format!("{into}, which absorbs it, to be saved here without it"))
}

fn promised_more<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (promised, term) = (case.holding?.promised, case.unnamed()?);
    if promised <= term {
        return None;
    }
    Unmet::on(Whom::MetaGroup, format!("a blueprint at or past {promised} of this bucket, which it has promised"))
}

fn is_asked<C: Conduct>(case: &Case<'_, C>) -> bool {
    let Read::UnderWay { begun } = case.situation.read else { return false };
    let recent = case.now().since(begun) <= case.situation.limits.read_patience;
    recent && case.mark().is_some_and(|mark| begun >= mark.since)
}

fn unread<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let Some(read) = case.fresh_read() else {
        return Unmet::on(Whom::MetaGroup, "a linearizable read of the blueprint");
    };
    let (term, incarnation) = (case.unnamed()?, case.holding?.member.incarnation);
    let same = unnamed_in(read, case.bucket_id(), case.situation.me) == Some(term) && incarnation.0 <= read.epoch.0;
    if same {
        return None;
    }
    Unmet::on(Whom::MetaGroup, format!("the blueprint {}, which it has read and which says otherwise", read.epoch))
}

/// This node's name among those who must still erase.
fn holder<C: Conduct>(case: &Case<'_, C>) -> Option<blueprint::Member> {
    let Standing::Removed { holders, .. } = &case.bucket?.rule else { return None };
    holders.iter().copied().find(|h| h.node == case.situation.me)
}
