//! `no_wait_without_cause`: whatever is not as the blueprint wants it, and stays so, has a name: some node or coordinator that is
//! awake says what it waits for, by which rule, and on whom.

use std::collections::BTreeMap;
use std::fmt;

use blueprint::{BucketId, Conduct, Government, NodeId, OperationId};
use reactor::coordinator::{Subject, Until};
use reactor::{Wait, Whom};

use crate::plan::SECOND;
use crate::world::{Verdict, World, fail};

#[derive(Debug, Default)]
pub(super) struct Causes {
    /// What is out of order while nobody says why, and since when.
    unnamed: BTreeMap<Disorder, u64>,
    /// For the test that it would be noticed: nobody is listened to.
    #[cfg(test)]
    pub(super) deaf: bool,
}

#[derive(Default)]
struct Said<'a> {
    nodes: Vec<(NodeId, &'a Wait)>,
    coordinators: Vec<(Subject, Until)>,
    /// Some coordinator on duty does not wait for the meta group: it could tell others what is new.
    informed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Disorder {
    Unserved(BucketId),
    /// Fewer members than wanted.
    Short(BucketId),
    Unfinished(OperationId),
    /// Held, and named by nobody.
    Unneeded(NodeId, BucketId),
    /// Awake, and acting on an old blueprint.
    Behind(NodeId),
}

impl<C: Conduct> World<C> {
    pub(super) fn look_for_causes(&mut self) -> Verdict {
        let mut unnamed = BTreeMap::new();
        let (mut seen, mut named) = (0, 0);
        let disorders = self.disorders();
        let said = if disorders.is_empty() { Said::default() } else { self.said() };
        for disorder in disorders {
            seen += 1;
            if self.has_cause(disorder, &said) {
                named += 1;
                continue;
            }
            let since = self.vigil.causes.unnamed.get(&disorder).copied().unwrap_or(self.time);
            unnamed.insert(disorder, since);
            if self.time - since > self.patience() {
                let seconds = (self.time - since) / SECOND;
                let said = self.why(None).join("\n");
                let text = format!("{disorder}, and for {seconds} s nobody has said why; what is said:\n{said}");
                return fail("no_wait_without_cause", text);
            }
        }
        self.vigil.causes.unnamed = unnamed;
        self.tally.count("things out of order", seen);
        self.tally.count("things out of order: somebody says why", named);
        Ok(())
    }

    fn disorders(&self) -> Vec<Disorder> {
        let blueprint = &self.meta.blueprint;
        let awake = || self.hosts.iter().filter(|h| h.responds(self.time));
        if awake().next().is_none() {
            return Vec::new(); // nobody is there to say anything
        }
        let mut all = Vec::new();
        for (bucket, government) in blueprint.buckets.values().filter_map(|b| Some((b, b.government()?))) {
            if !self.serves(bucket.id, government) {
                all.push(Disorder::Unserved(bucket.id));
            }
            let wanted = blueprint.keyspaces.get(&bucket.keyspace).map_or(0, |k| usize::from(k.replicas));
            if government.size() < wanted {
                all.push(Disorder::Short(bucket.id));
            }
        }
        // One that was only planned waits for nothing but somebody who applies it.
        let unfinished = blueprint.operations.values().filter(|o| o.is_under_way());
        all.extend(unfinished.map(|o| Disorder::Unfinished(o.id)));
        for host in awake() {
            let Some(node) = host.node() else { continue };
            let named = |bucket: BucketId| match blueprint.buckets.get(&bucket) {
                Some(known) => known.government().is_some_and(|g| g.named(host.id).is_some()),
                None => !blueprint.is_retired(bucket), // a child that is not registered yet
            };
            let unneeded = node.phasers().map(|(bucket, _)| bucket).filter(|bucket| !named(*bucket));
            all.extend(unneeded.map(|bucket| Disorder::Unneeded(host.id, bucket)));
            if blueprint.is_present(host.id) && self.vigil.superseded(node.blueprint().epoch).is_some() {
                all.push(Disorder::Behind(host.id));
            }
        }
        all
    }

    fn serves(&self, bucket: BucketId, government: &Government) -> bool {
        let primary = self.index.get(&government.primary.node).map(|i| &self.hosts[*i]);
        let phaser = primary.filter(|h| h.responds(self.time)).and_then(|h| h.node()).and_then(|n| n.phaser(bucket));
        phaser.is_some_and(|p| p.me() == government.primary && p.leads() == Some((government.term, true)))
    }

    /// What is said by whoever is awake.
    fn said(&self) -> Said<'_> {
        let mut said = Said::default();
        #[cfg(test)]
        if self.vigil.causes.deaf {
            return said;
        }
        for host in self.hosts.iter().filter(|h| h.responds(self.time)) {
            let Some(node) = host.node() else { continue };
            said.nodes.extend(node.waits().map(|s| (host.id, &s.wait)).filter(|(_, wait)| is_specific(wait)));
            let waits = node.coordinator().waits();
            let cut_off = waits.iter().any(|w| w.until == Until::MetaAnswers);
            said.informed |= node.coordinator().is_on_duty() && !cut_off;
            said.coordinators.extend(waits.into_iter().map(|w| (w.about, w.until)));
        }
        said
    }

    fn has_cause(&self, disorder: Disorder, said: &Said<'_>) -> bool {
        // Nobody knows what is newest.
        let uninformed = matches!(disorder, Disorder::Behind(_)) && !said.informed && !said.coordinators.is_empty();
        uninformed
            || said.nodes.iter().any(|(by, wait)| self.explains(disorder, *by, wait))
            || said.coordinators.iter().any(|(about, until)| self.explains_too(disorder, *about, until))
    }

    fn explains(&self, disorder: Disorder, by: NodeId, wait: &Wait) -> bool {
        match disorder {
            // Those who have a part in it; by the rules that could help.
            Disorder::Unserved(bucket) | Disorder::Short(bucket) => {
                let Some(government) = self.government(bucket) else { return false };
                let copies = matches!(disorder, Disorder::Short(_)) && self.serves(bucket, government);
                let helps = if copies { is_about_copies(wait.rule) } else { is_about_rule(wait.rule) };
                let about_it = wait.bucket == Some(bucket) && helps;
                let about_primary = wait.bucket.is_none() && government.primary.node == by && !copies;
                government.named(by).is_some() && (about_it || about_primary)
            }
            Disorder::Unneeded(node, bucket) => by == node && wait.bucket.is_none_or(|b| b == bucket),
            Disorder::Behind(node) => by == node && wait.bucket.is_none(),
            Disorder::Unfinished(_) => false, // a coordinator's
        }
    }

    fn explains_too(&self, disorder: Disorder, about: Subject, until: &Until) -> bool {
        let silent = |node: NodeId| match until {
            Until::EveryoneWasAsked { open } => open.contains(&node),
            // That somebody is a step behind explains only that.
            Until::ActsOn { .. } => false,
            _ => about == Subject::Node(node),
        };
        match disorder {
            Disorder::Unserved(bucket) | Disorder::Short(bucket) => {
                let named = self.government(bucket).into_iter().flat_map(|g| g.everyone());
                let operation = self.meta.blueprint.operation_on(bucket).map(|o| o.id);
                let operated = matches!(about, Subject::Operation { id, .. } if Some(id) == operation);
                about == Subject::Bucket(bucket) || operated || named.into_iter().any(|m| silent(m.node))
            }
            // Who has not read anything since it started knows of no operation.
            Disorder::Unfinished(operation) => {
                *until == Until::MetaAnswers || matches!(about, Subject::Operation { id, .. } if id == operation)
            }
            Disorder::Unneeded(node, _) | Disorder::Behind(node) => about == Subject::Node(node) || silent(node),
        }
    }
}

/// A bucket that is served and has too few members lacks nothing else.
fn is_about_copies(rule: &str) -> bool {
    matches!(rule, "recover" | "fill" | "seat" | "catch-up" | "minimum" | "departed" | "lost" | "take-part")
}

/// Not what it means for writes and reads, nor what becomes of copies that are too many.
fn is_about_rule(rule: &str) -> bool {
    !matches!(
        rule,
        "acknowledge" | "read" | "fill" | "seat" | "split" | "shed" | "erase" | "ask-before-erase" | "recover"
    )
}

/// A condition, what is lacking, a reason, and somebody or something on whom it depends.
fn is_specific(wait: &Wait) -> bool {
    let words = [wait.condition, &wait.lacks, wait.because].iter().all(|text| !text.trim().is_empty());
    words && !matches!(&wait.whom, Whom::Nodes(nodes) if nodes.is_empty())
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unserved(bucket) => write!(f, "{bucket} is not served"),
            Self::Short(bucket) => write!(f, "{bucket} has fewer members than wanted"),
            Self::Unfinished(operation) => write!(f, "{operation} has not ended"),
            Self::Unneeded(node, bucket) => write!(f, "{node} holds {bucket}, and nobody names it there"),
            Self::Behind(node) => write!(f, "{node} does not act on the newest blueprint"),
        }
    }
}
