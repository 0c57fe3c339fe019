//! A node and its blueprint (R11): newest, join, follow; and what each replica is told: settle, govern, ahead, register,
//! retire.

use alloc::format;

use blueprint::{Blueprint, BucketId, Conduct, Epoch, Rule as Standing};

use crate::case::Case;
use crate::holding::Role;
use crate::reaction::{Deed, Whom};
use crate::rule::{About, Need, Rule, Unmet};
use crate::words::list;

impl<C: Conduct> Rule<C> {
    pub(crate) const NEWEST: Self = Self {
        name: "newest",
        text: "A blueprint older than the newest acted on is ignored (R11).",
        about: About::Node,
        when: |case| case.situation.blueprint.epoch < case.situation.newest().max(Epoch(1)),
        needs: &[Need {
            condition: "the blueprint is at or past the epoch acted on",
            because: "what was decided since must not be undone by old news",
            unmet: old_news,
        }],
        deed: None,
    };

    pub(crate) const JOIN: Self = Self {
        name: "join",
        text: "A node that runs is known and counts as present.",
        about: About::Node,
        when: |case| case.situation.blueprint.epoch.0 > 0 && !case.is_present(case.situation.me),
        needs: &[
            Need {
                condition: "the blueprint knows this node",
                because: "nobody gives a part to a node that was not added, or was removed",
                unmet: unknown,
            },
            Need {
                condition: "the blueprint does not count it as departed",
                because: "a departed node is enlisted nowhere",
                unmet: departed,
            },
        ],
        deed: None,
    };

    pub(crate) const FOLLOW: Self = Self {
        name: "follow",
        text: "A newer blueprint is acted on in three steps, each durable before the next: the replicas that it names and that \
               never were here come to be; its epoch is written down; its governments rule.",
        about: About::Node,
        when: |case| case.situation.blueprint.epoch > case.situation.epoch,
        needs: &[Need {
            condition: "every replica that it brings about is durable",
            because: "an epoch below a replica's incarnation must prove that this replica never was",
            unmet: unborn::<C>,
        }],
        deed: Some(|case| Deed::Follow { epoch: case.situation.blueprint.epoch }),
    };

    pub(crate) const SETTLE: Self = Self {
        name: "settle",
        text: "A new replica says nothing before it is durable.",
        about: About::Bucket,
        when: |case| case.holding.is_some_and(|h| !h.durable),
        needs: &[Need {
            condition: "the replica is durable",
            because: "it would promise what a crash could undo",
            unmet: |_| Unmet::on(Whom::Disk, "the new replica to be on disk"),
        }],
        deed: None,
    };

    pub(crate) const GOVERN: Self = Self {
        name: "govern",
        text: "A replica is told who governs its bucket once the blueprint that says so is acted on.",
        about: About::Bucket,
        when: |case| {
            let epoch = case.situation.blueprint.epoch;
            let no_more = is_no_more(case.situation.blueprint, case.bucket_id());
            case.holding.is_some_and(|h| h.member.incarnation.0 > epoch.0 || (h.known < epoch && !no_more))
        },
        needs: &[
            Self::ACTED_ON,
            Need {
                condition: "the blueprint is at or past the epoch that named the replica",
                because: "an older one does not know of it",
                unmet: unnamed_yet,
            },
            Need {
                condition: "the bucket is registered, or its parent is here",
                because: "until it is registered a child is governed by its parent's government",
                unmet: ungoverned,
            },
        ],
        deed: Some(|case| Deed::Govern {
            bucket: case.bucket_id(),
            by: case.ruled_by.expect("it is needed that somebody governs it"),
        }),
    };

    pub(crate) const AHEAD: Self = Self {
        name: "ahead",
        text: "A replica that has read of a newer government than its node follows it alone.",
        about: About::Bucket,
        when: |case| case.holding.is_some_and(|h| h.known > case.situation.blueprint.epoch),
        needs: &[Need {
            condition: "the blueprint is at or past what the replica knows",
            because: "what it does is not judged by an older one",
            unmet: behind_its_replica,
        }],
        deed: None,
    };

    pub(crate) const REGISTER: Self = Self {
        name: "register",
        text: "A child that the blueprint does not know yet is kept, and governed by its parent's government.",
        about: About::Bucket,
        when: |case| {
            let known = case.bucket.is_some() || is_no_more(case.situation.blueprint, case.bucket_id());
            case.is_acted_on() && case.holding.is_some() && !known
        },
        needs: &[Need {
            condition: "the blueprint knows the bucket",
            because: "ownership moved when the split committed, and the blueprint is told after",
            unmet: unregistered,
        }],
        deed: None,
    };

    pub(crate) const RETIRE: Self = Self {
        name: "retire",
        text: "A replica of a bucket that was removed serves nobody.",
        about: About::Bucket,
        when: |case| {
            let rules = case.holding.is_some_and(|h| h.role != Role::Following);
            rules && is_no_more(case.situation.blueprint, case.bucket_id())
        },
        needs: &[Self::ACTED_ON],
        deed: Some(|case| Deed::Retire { bucket: case.bucket_id() }),
    };

    pub(crate) const ACTED_ON: Need<C> = Need {
        condition: "the blueprint's epoch is durable here",
        because: "after a restart this node must not believe an older one",
        unmet: not_acted_on,
    };
}

fn old_news<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let (here, epoch) = (case.situation.blueprint.epoch, case.situation.newest());
    let lacks = match (here, epoch) {
        (Epoch(0), Epoch(0)) => "its first blueprint".into(),
        (Epoch(0), _) => format!("a blueprint at or past {epoch}: there is none yet"),
        _ => format!("a blueprint at or past {epoch}: the one here is {here}"),
    };
    Unmet::on(Whom::MetaGroup, lacks)
}

fn unknown<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let known = case.situation.blueprint.nodes.contains_key(&case.situation.me);
    if known { None } else { Unmet::on(Whom::Operator, format!("{} to be added to the cluster", case.situation.me)) }
}

fn departed<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    Unmet::on(Whom::MetaGroup, format!("{} to be welcomed back", case.situation.me))
}

/// Named by this blueprint, never here before, and not durable yet.
fn unborn<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let situation = case.situation;
    let is_unborn = |id: &BucketId| {
        let case = Case::<C>::of_bucket(situation, case.census, *id);
        match case.holding {
            Some(holding) => !holding.durable && holding.member.incarnation.0 > situation.epoch_of(*id).0,
            None => [Rule::FIRST_START, Rule::TAKE_PART]
                .iter()
                .any(|rule| (rule.when)(&case) && rule.first_unmet(&case).is_none()),
        }
    };
    let unborn = || situation.described().filter(is_unborn);
    unborn().next()?;
    Unmet::on(Whom::Disk, format!("new replicas of {} to be on disk", list(unborn())))
}

fn not_acted_on<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    if case.is_acted_on() {
        return None;
    }
    Unmet::on(Whom::Disk, format!("{} to be written down", case.situation.blueprint.epoch))
}

fn unnamed_yet<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let incarnation = case.holding?.member.incarnation;
    if incarnation.0 <= case.situation.blueprint.epoch.0 {
        return None;
    }
    Unmet::on(Whom::MetaGroup, format!("a blueprint at or past e{}, which named it", incarnation.0))
}

fn ungoverned<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    if case.government.is_some() {
        return None;
    }
    Unmet::on(Whom::MetaGroup, "its registration: its parent is not here any more")
}

fn behind_its_replica<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    Unmet::on(Whom::MetaGroup, format!("a blueprint at or past {}, which the replica knows", case.holding?.known))
}

fn unregistered<C: Conduct>(case: &Case<'_, C>) -> Option<Unmet> {
    let lacks = format!("the registration of {}", case.bucket_id());
    match case.government.map(|g| g.primary.node) {
        Some(primary) if primary != case.situation.me => Unmet::on(Whom::Node(primary), lacks),
        _ => Unmet::on(Whom::MetaGroup, lacks),
    }
}

/// Removed, or gone for good.
fn is_no_more(blueprint: &Blueprint, bucket: BucketId) -> bool {
    match blueprint.buckets.get(&bucket) {
        Some(bucket) => matches!(bucket.rule, Standing::Removed { .. }),
        None => blueprint.is_retired(bucket),
    }
}
