//! From a situation to what is done and what is waited for.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use blueprint::{BucketId, Change, Command, Conduct, Epoch, Instant, Member, NodeId};

use crate::case::{Case, Census};
use crate::rule::{About, Need, Rule, Unmet};
use crate::situation::Situation;
use crate::words::{list, span};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaction {
    pub acts: Vec<Act>,
    pub waits: Vec<Wait>,
}

/// Something to do now. To do it again and again, until its effect shows in the next situation, does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    pub rule: &'static str,
    pub bucket: Option<BucketId>,
    pub deed: Deed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Make a replica that does not exist; nothing when it does.
    Found { bucket: BucketId, member: Member, beginning: Beginning },
    /// Use what was set aside. As a member it goes on with what is here, and the operator is told that the last second may be missing.
    Resume { bucket: BucketId, as_member: bool },
    /// Write down that this epoch is acted on (R11); from then on its governments rule here.
    Follow { epoch: Epoch },
    /// Tell the replica what the blueprint says: of its own bucket or, while it is not registered, of its parent.
    Govern { bucket: BucketId, by: BucketId },
    /// Stop, and answer whoever waits: the bucket is no more.
    Retire { bucket: BucketId },
    /// Begin a linearizable read of the blueprint, and react again with the answer. One serves all buckets.
    ReadMeta { bucket: BucketId },
    /// Forget the replica, and remember under which incarnation it was here. In this very step: see R11.
    Erase { bucket: BucketId, incarnation: blueprint::Incarnation },
    /// Ask the meta group; it is compare and set, so asking twice is asking once.
    Propose(Command),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// All of its slots, empty: only at a first start (R10).
    Empty,
    /// None of its slots: they will be filled.
    Candidate,
}

/// A rule that applies and cannot act yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub rule: &'static str,
    pub bucket: Option<BucketId>,
    /// The first of its needs that is not met.
    pub condition: &'static str,
    /// What is lacking, with names and numbers.
    pub lacks: String,
    pub because: &'static str,
    pub whom: Whom,
}

/// The condition of a wait for the effect of what was done: see the ledger.
pub(crate) const EFFECT: &str = "what was done has taken effect";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Whom {
    Node(NodeId),
    Nodes(Vec<NodeId>),
    /// The meta group, or a coordinator that brings news from it.
    MetaGroup,
    /// Until then it is a matter of time.
    Clock(Instant),
    /// The disk of this node.
    Disk,
    /// Nobody in the cluster can help.
    Operator,
}

pub fn react<C: Conduct>(situation: &Situation<'_>) -> Reaction {
    let mut reaction = Reaction::default();
    walk::<C>(situation, |rule, case| {
        if let Some((need, Unmet { whom, lacks })) = rule.first_unmet(case) {
            let Need { condition, because, .. } = *need;
            reaction.waits.push(Wait { rule: rule.name, bucket: case.id, condition, lacks, because, whom });
        } else if let Some(deed) = rule.deed {
            reaction.acts.push(Act { rule: rule.name, bucket: case.id, deed: deed(case) });
        }
    });
    reaction
}

/// Is this really what is lacking in that situation? For checkers that know the truth about all nodes.
pub fn is_true<C: Conduct>(wait: &Wait, situation: &Situation<'_>) -> bool {
    are_true::<C>(&[wait], situation)[0]
}

/// The same for many at once.
pub fn are_true<C: Conduct>(waits: &[&Wait], situation: &Situation<'_>) -> Vec<bool> {
    let mut verdicts = alloc::vec![false; waits.len()];
    walk::<C>(situation, |rule, case| {
        for (wait, verdict) in waits.iter().zip(&mut verdicts) {
            if rule.name == wait.rule && case.id == wait.bucket {
                *verdict |= is_true_of(wait, rule, case);
            }
        }
    });
    verdicts
}

fn is_true_of<C: Conduct>(wait: &Wait, rule: &Rule<C>, case: &Case<'_, C>) -> bool {
    if wait.condition == EFFECT {
        // What was done has not taken effect as long as it would be done again.
        return rule.deed.is_some() && rule.first_unmet(case).is_none();
    }
    let needs = rule.needs.iter().filter(|need| need.condition == wait.condition);
    needs.filter_map(|need| (need.unmet)(case)).any(|unmet| unmet.whom.includes(&wait.whom))
}

/// Every rule that applies, bucket by bucket, in the order in which they are declared.
fn walk<C: Conduct>(situation: &Situation<'_>, mut visit: impl FnMut(&Rule<C>, &Case<'_, C>)) {
    let census = Census::take(situation);
    let mut visit_case = |about: About, case: &Case<'_, C>| {
        for rule in Rule::<C>::ALL.iter().filter(|rule| rule.about == about) {
            if (rule.when)(case) {
                visit(rule, case);
                note_plan(rule, case, &census);
            }
        }
    };
    visit_case(About::Node, &Case::of_node(situation, &census));
    if situation.blueprint.epoch < situation.newest() {
        return; // R11: old news are no news
    }
    let here = situation.replicas.keys().chain(situation.aside.keys()).copied();
    let buckets: BTreeSet<BucketId> = here.chain(situation.described()).collect();
    for bucket in buckets {
        visit_case(About::Bucket, &Case::of_bucket(situation, &census, bucket));
    }
}

/// What one bucket decided counts for the next: the limits hold within a reaction, too.
fn note_plan<C: Conduct>(rule: &Rule<C>, case: &Case<'_, C>, census: &Census) {
    if rule.name == Rule::<C>::RECOVER.name
        && rule.first_unmet(case).is_none()
        && let Some(Deed::Propose(Command::Succeed { change: Change::Enlist { node }, .. })) =
            rule.deed.map(|deed| deed(case))
    {
        census.plan(node);
    }
}

impl Whom {
    /// Whoever is named in `other` is named here, too; time passes for everyone.
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Clock(_), Self::Clock(_)) => true,
            (Self::Node(_) | Self::Nodes(_), Self::Node(_) | Self::Nodes(_)) => {
                other.nodes().iter().all(|node| self.nodes().contains(node))
            }
            _ => self == other,
        }
    }

    pub fn nodes(&self) -> &[NodeId] {
        match self {
            Self::Node(node) => core::slice::from_ref(node),
            Self::Nodes(nodes) => nodes,
            Self::MetaGroup | Self::Clock(_) | Self::Disk | Self::Operator => &[],
        }
    }
}

/// One plain sentence for an operator.
pub fn describe(wait: &Wait, waited: Option<Duration>) -> String {
    let place = wait.bucket.map_or_else(|| "node".into(), |b| format!("bucket {}", b.0));
    let since = waited.map(|waited| format!(" (since {})", span(waited))).unwrap_or_default();
    format!("{place}: {} waits for {}{since}: {}", wait.rule, wait.lacks, wait.because)
}

impl core::fmt::Display for Whom {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Node(node) => write!(f, "{node}"),
            Self::Nodes(nodes) => f.write_str(&list(nodes)),
            Self::MetaGroup => f.write_str("the meta group"),
            Self::Clock(_) => f.write_str("the clock"),
            Self::Disk => f.write_str("the disk"),
            Self::Operator => f.write_str("the operator"),
        }
    }
}
