//! Everything in a line.

use std::collections::BTreeSet;

use blueprint::{Bucket, Change, Command, Fate, Member, MetaCommand, NodeId, Operation, OperationState, Step};
use reactor::coordinator::Order;

pub(super) fn silent(nodes: &BTreeSet<NodeId>) -> String {
    if nodes.is_empty() { "nobody silent".into() } else { format!("{} silent", list(nodes.iter().copied())) }
}

fn list(nodes: impl Iterator<Item = NodeId>) -> String {
    nodes.map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
}

pub(super) fn bucket(bucket: &Bucket) -> String {
    let Some(g) = bucket.government() else { return format!("{} is being removed", bucket.id) };
    let names = |members: &[Member]| list(members.iter().map(|m| m.node));
    let mut text = format!("{} {}: {} leads", bucket.id, g.term, g.primary.node);
    for (members, word) in [(&g.secondaries, ""), (&g.candidates, " candidates"), (&g.heirs, " heirs")] {
        if !members.is_empty() {
            text += &format!("{}{word} {}", if word.is_empty() { "" } else { "," }, names(members));
        }
    }
    text
}

pub(super) fn operation(operation: &Operation) -> String {
    let state = match &operation.state {
        OperationState::Planned => "planned".to_owned(),
        OperationState::Running => "running".to_owned(),
        OperationState::Paused => "paused".to_owned(),
        OperationState::Done => "done".to_owned(),
        OperationState::Failed { why } => format!("failed: {why}"),
        OperationState::Cancelled { why } => format!("cancelled: {why}"),
    };
    let next = operation.step().map(|s| format!(" ({})", step(s))).unwrap_or_default();
    format!("{} at step {} of {}{next}: {state}", operation.id, operation.at, operation.steps.len())
}

pub(super) fn step(step: &Step) -> String {
    match step {
        Step::Enlist { bucket, node } => format!("enlist {bucket} {node}"),
        Step::AwaitSeated { bucket, node } => format!("seated {bucket} {node}"),
        Step::HandOver { bucket, to } => format!("hand over {bucket} {to}"),
        Step::Dismiss { bucket, node } => format!("dismiss {bucket} {node}"),
        Step::Merge { bucket, into } => format!("merge {bucket} {into}"),
        Step::Repair { bucket, from } => format!("repair {bucket} {from:?}"),
        Step::AwaitRestart { bucket, node, life } => format!("restart {bucket} {node} {life}"),
        Step::Split { bucket, child, slots } => format!("split {bucket} {child} {slots}"),
        Step::Mark { node, intent, .. } => format!("mark {node} {intent:?}"),
        Step::SetReplicas { keyspace, replicas } => format!("{replicas} copies of {keyspace}"),
        Step::SetMinimum { bucket, min } => format!("min {bucket} {min}"),
        Step::RemoveKeyspace { keyspace } => format!("remove {keyspace}"),
        Step::AwaitErased { keyspace } => format!("erased {keyspace}"),
    }
}

pub(super) fn order(order: &Order) -> String {
    match order {
        Order::HandOver { bucket, to } => format!("hand over {bucket} to {to}"),
        Order::Split { bucket, child, slots } => format!("split {slots} off {bucket} as {child}"),
    }
}

pub(super) fn change(change: &Change) -> String {
    let fate = |f: &Fate| if *f == Fate::Lost { ", whose data is gone" } else { "" };
    match change {
        Change::Enlist { node } => format!("enlist {node}"),
        Change::Drop { candidate } => format!("drop {}", candidate.node),
        Change::Seat { candidate, .. } => format!("seat {}", candidate.node),
        Change::Dismiss { secondary, fate: f } => format!("dismiss {}{}", secondary.node, fate(f)),
        Change::HandOver { to, .. } => format!("hand over to {}", to.node),
        Change::Usurp { to, fate: f } => format!("usurp by {}{}", to.node, fate(f)),
        Change::Renew { primary } => format!("renew {}", primary.node),
        Change::Disown { heir } => format!("disown {}", heir.node),
        Change::SetMinInSync { min } => format!("minimum {min}"),
    }
}

pub(super) fn command(command: &MetaCommand) -> String {
    match command {
        MetaCommand::Report(report) => format!("report {}", silent(&report.silent)),
        MetaCommand::Change(Command::Depart { node }) => format!("depart {node}"),
        MetaCommand::Change(Command::Return { node }) => format!("return {node}"),
        MetaCommand::Change(Command::Succeed { bucket, replaces, change: c }) => {
            format!("{bucket} after {replaces}: {}", change(c))
        }
        MetaCommand::Change(Command::Relieve { parts }) => {
            let part = |p: &blueprint::Succession| format!("{} after {} {}", p.bucket, p.replaces, change(&p.change));
            format!("relief [{}]", parts.iter().map(part).collect::<Vec<_>>().join("; "))
        }
        MetaCommand::Change(Command::AdvanceOperation { id, from_step }) => format!("advance {id} from {from_step}"),
        MetaCommand::Change(other) => format!("{other:?}"),
    }
}
