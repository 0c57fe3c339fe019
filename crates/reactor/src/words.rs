//! How the reactor puts things into words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::time::Duration;

use blueprint::{Change, Command, Intent};

/// `n1`, `n1 and n2`, `n1, n2 and n3`.
pub(crate) fn list<T: Display>(things: impl IntoIterator<Item = T>) -> String {
    let mut words: Vec<String> = things.into_iter().map(|t| t.to_string()).collect();
    match words.pop() {
        None => "nobody".into(),
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} and {last}", words.join(", ")),
    }
}

pub(crate) fn span(span: Duration) -> String {
    match span.as_millis() {
        ms @ 0..1_000 => format!("{ms} ms"),
        ms @ 1_000..120_000 => format!("{} s", ms / 1_000),
        ms => format!("{} min", ms / 60_000),
    }
}

pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// What a proposal would change, so that "waits for the meta group to accept …" is a sentence.
pub(crate) fn proposal(command: &Command) -> String {
    match command {
        Command::Succeed { bucket, replaces, change } => {
            format!("{} in {bucket} (after {replaces})", self::change(change))
        }
        Command::Erased { bucket, holder } => format!("{bucket} erased by {holder}"),
        Command::Register { parent, child, at, .. } => format!("{child}, split off {parent} at {at}"),
        Command::Depart { node } => format!("the departure of {node}"),
        Command::Return { node } => format!("the return of {node}"),
        Command::Relieve { parts } => {
            list(parts.iter().map(|p| format!("{} in {}", self::change(&p.change), p.bucket)))
        }
        Command::AdvanceOperation { id, from_step } => format!("step {} of {id} as done with", from_step + 1),
        Command::Bind { absorbed, into, .. } => format!("{absorbed} and {into} as bound"),
        Command::Merge { absorbed, into, at, .. } => format!("{absorbed}, absorbed by {into} at {at}"),
        Command::Mark { node, intent, .. } => format!("{node} {}", self::intent(*intent)),
        Command::SetReplicas { keyspace, replicas } => {
            format!("{} of everything in {keyspace}", count((*replicas).into(), "copy", "copies"))
        }
        Command::RemoveKeyspace { keyspace } => format!("the removal of {keyspace}"),
        Command::AddNode { .. }
        | Command::Begin { .. }
        | Command::Repair { .. }
        | Command::RemoveNode { .. }
        | Command::CreateKeyspace { .. }
        | Command::ReserveBucket { .. }
        | Command::StartOperation { .. }
        | Command::PlanOperation { .. }
        | Command::ApplyOperation { .. }
        | Command::PauseOperation { .. }
        | Command::ResumeOperation { .. }
        | Command::CancelOperation { .. }
        | Command::SetAutoRebalance { .. }
        | Command::Rebalance { .. }
        | Command::ThrottleOperation { .. } => format!("{command:?}"),
    }
}

fn intent(intent: Intent) -> &'static str {
    match intent {
        Intent::Stays => "as one that stays",
        Intent::Drains => "as one that drains",
        Intent::Goes => "as one that goes",
    }
}

pub(crate) fn change(change: &Change) -> String {
    match change {
        Change::Enlist { node } => format!("{node} as candidate"),
        Change::Drop { candidate } => format!("{candidate} as candidate no longer"),
        Change::Seat { candidate, .. } => format!("{candidate} as member"),
        Change::Dismiss { secondary, .. } => format!("{secondary} as member no longer"),
        Change::HandOver { to, .. } | Change::Usurp { to, .. } => format!("{to} as primary"),
        Change::Renew { primary } => format!("{primary} as primary anew"),
        Change::Disown { heir } => format!("{heir} as heir no longer"),
        Change::SetMinInSync { min } => format!("a minimum of {min}"),
    }
}
