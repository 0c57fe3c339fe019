//! How the scenarios speak.

use blueprint::{BucketId, Change, Command, Government, NodeId, Rule};
use reactor::{Act, Beginning, Deed, Wait, describe};

use super::World;

pub(crate) fn act(node: NodeId, act: &Act) -> String {
    let deed = match &act.deed {
        Deed::Found { bucket, member, beginning: Beginning::Empty } => format!("founds {bucket} as {member}, empty"),
        Deed::Found { bucket, member, beginning: Beginning::Candidate } => {
            format!("founds {bucket} as candidate {member}")
        }
        Deed::Resume { bucket, as_member: true } => format!("resumes {bucket}, and the last second may be missing"),
        Deed::Resume { bucket, as_member: false } => format!("resumes {bucket}, in which it has no part"),
        Deed::Follow { epoch } => format!("follows {epoch}"),
        Deed::Govern { bucket, by } if bucket == by => format!("governs {bucket}"),
        Deed::Govern { bucket, by } => format!("governs {bucket} by the government of {by}"),
        Deed::Retire { bucket } => format!("retires {bucket}"),
        Deed::ReadMeta { bucket } => format!("reads the blueprint, because of {bucket}"),
        Deed::Erase { bucket, incarnation } => format!("erases {bucket}, incarnation {}", incarnation.0),
        Deed::Propose(command) => format!("proposes {}", self::command(command)),
    };
    format!("{node} {deed} ({})", act.rule)
}

pub(crate) fn wait(node: NodeId, wait: &Wait) -> String {
    format!("{node} {} [on {}]", describe(wait, None), wait.whom)
}

pub(crate) fn command(command: &Command) -> String {
    match command {
        Command::Succeed { bucket, replaces, change } => format!("{bucket} after {replaces}: {}", self::change(change)),
        Command::Erased { bucket, holder } => format!("{bucket} erased by {holder}"),
        other => format!("{other:?}"),
    }
}

fn change(change: &Change) -> String {
    match change {
        Change::Enlist { node } => format!("enlist {node}"),
        Change::Drop { candidate } => format!("drop {candidate}"),
        Change::Seat { candidate, by } => format!("{by} seats {candidate}"),
        Change::Dismiss { secondary, fate } => format!("dismiss {secondary} ({fate:?})"),
        Change::HandOver { to, by } => format!("{by} hands over to {to}"),
        Change::Usurp { to, fate } => format!("{to} usurps ({fate:?})"),
        Change::Renew { primary } => format!("renew under {primary}"),
        Change::Disown { heir } => format!("disown {heir}"),
        Change::SetMinInSync { min } => format!("minimum {min}"),
    }
}

impl World {
    pub(crate) fn show_change(&mut self, command: &Command) {
        let line = match command {
            Command::Succeed { bucket, .. } | Command::Register { child: bucket, .. } => self.show_bucket(*bucket),
            Command::CreateKeyspace { .. } => {
                let epoch = self.blueprint.epoch.0;
                let made = |b: &&blueprint::Bucket| b.government().is_some_and(|g| g.primary.incarnation.0 == epoch);
                let made: Vec<BucketId> = self.blueprint.buckets.values().filter(made).map(|b| b.id).collect();
                made.iter().map(|b| self.show_bucket(*b)).collect::<Vec<_>>().join("\n")
            }
            Command::RemoveKeyspace { keyspace } => format!("{keyspace} is removed"),
            Command::Erased { bucket, .. } if self.blueprint.is_retired(*bucket) => format!("{bucket} is retired"),
            Command::Erased { bucket, .. } => self.show_bucket(*bucket),
            Command::Depart { node } => format!("{node} has departed"),
            Command::Return { node } => format!("{node} is back"),
            other => format!("{other:?}"),
        };
        let epoch = self.blueprint.epoch;
        self.lines.extend(line.lines().map(|line| format!("meta {epoch}: {line}")));
    }

    fn show_bucket(&self, bucket: BucketId) -> String {
        match self.blueprint.buckets.get(&bucket).map(|b| &b.rule) {
            Some(Rule::Governed(government)) => format!("{bucket} {}", show_government(government)),
            Some(Rule::Removed { holders, .. }) => format!("{bucket} removed, held by {holders:?}"),
            None => format!("{bucket} is gone"),
        }
    }
}

fn show_government(government: &Government) -> String {
    let mut text = format!("{}: {} leads", government.term, government.primary);
    for secondary in &government.secondaries {
        text += &format!(" {secondary}");
    }
    for (word, members) in [("candidates", &government.candidates), ("heirs", &government.heirs)] {
        if !members.is_empty() {
            text += &format!(", {word} {members:?}");
        }
    }
    text + &format!(", min {}", government.min_in_sync)
}
