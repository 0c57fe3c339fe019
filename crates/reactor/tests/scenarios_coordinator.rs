//! Scripted stories about coordinators: `tests/scenarios-coordinator/*.txt`, the best way into that module.
//!
//! After a change of behaviour: `UPDATE_SCENARIOS=1 cargo test -p reactor --test scenarios_coordinator`, then read the diff as you
//! would read code. The verbs are described in `tests/town/verbs.rs`.

#[path = "../../phaser/tests/script/mod.rs"]
mod script;
mod town;

use std::time::Duration;

use blueprint::{BucketId, Epoch, KeyspaceId, NodeId, OperationId, Unlike, Unrest};
use reactor::coordinator::{Comes, Until};
use town::Town;

#[test]
fn scenarios() {
    script::check::<Town>("scenarios-coordinator", "cargo test -p reactor --test scenarios_coordinator");
}

/// Each kind of wait is once what stands in the way.
#[test]
fn every_wait_has_a_story() {
    let told = |path: &std::path::PathBuf| std::fs::read_to_string(path).expect("it was listed");
    let stories: String = script::files("scenarios-coordinator").iter().map(told).collect();
    let waits: Vec<&str> = stories.lines().filter_map(|line| line.split_once(": waits until ")).map(|l| l.1).collect();
    for until in one_of_each() {
        let mark = known_by(&until);
        assert!(until.to_string().contains(mark), "{until:?} is not known by {mark:?}: {until}");
        assert!(waits.iter().any(|wait| wait.contains(mark)), "nobody tells of a wait until \"{until}\"");
    }
}

/// What the words of a wait are known by. Whoever adds a kind of wait is led here, and adds one to the list below.
fn known_by(until: &Until) -> &'static str {
    match until {
        Until::EveryoneWasAsked { .. } => "everyone was asked afresh",
        Until::MetaAnswers => "the meta group answers",
        Until::SilentToMost { .. } => "is silent to most coordinators",
        Until::ReportsSettled => "had run out at once",
        Until::HeardByMost { .. } => "is heard by most coordinators",
        Until::NameIsFree { .. } => "is free (",
        Until::SuccessorAnswers { among, .. } if among.is_empty() => "nobody else has it all",
        Until::SuccessorAnswers { .. } => "is present, answers and holds it: its primary",
        Until::PrimaryHolds { .. } => "answers and holds it: until then",
        Until::Answers(_) => "answers, or has departed",
        Until::Seated { .. } => "has filled and seated",
        Until::Leads { .. } => "has handed over to",
        Until::EnoughMembers { comes: Comes::Candidates(_), .. } => "now; on its way: ",
        Until::EnoughMembers { comes: Comes::ByRecovery, .. } => "now; the primary is to enlist another node",
        Until::EnoughMembers { comes: Comes::FromNowhere, .. } => "now; no node is free for another copy",
        Until::Registered { .. } => "has split off",
        Until::Alike { .. } => "can be bound: ",
        Until::Merged { .. } => "has merged ",
        Until::MembersForMinimum { .. } => "below which nothing would be written",
        Until::Erased { there, .. } if there.is_empty() => "or is removed for good: it has departed",
        Until::Erased { .. } => "erased what is left of",
        Until::Accepted { .. } => "the meta group has accepted",
        Until::ActsOn { .. } => "which it was sent",
        Until::Resumed => "somebody resumes it",
        Until::Restarted { leads: 0, .. } => "leads nothing now: restart it",
        Until::Restarted { .. } => "and hands over when it is told to end",
        Until::Calm(Unrest::UnderWay(_)) => "is over",
        Until::Calm(Unrest::Departed(_)) => "which has departed, is back or removed",
        Until::Calm(Unrest::Drains(_)) => "which drains or leaves, stays or has gone",
        Until::Calm(Unrest::Members(_)) => "has as many members as wanted, and no candidates",
        Until::Calm(Unrest::Merging(_)) => "is merged",
        Until::Unchanged { .. } => "nothing about the cluster has changed for",
        Until::Rested { .. } => "failed or was cancelled",
    }
}

fn one_of_each() -> [Until; 33] {
    let (node, primary) = (NodeId(1), NodeId(2));
    let enough = |comes| Until::EnoughMembers { leaves: node, others: 1, wanted: 2, comes };
    [
        Until::EveryoneWasAsked { open: vec![node] },
        Until::MetaAnswers,
        Until::SilentToMost { node, reporting: 1, alive: 2 },
        Until::ReportsSettled,
        Until::HeardByMost { node, reporting: 1, alive: 2 },
        Until::NameIsFree { node, by: primary },
        Until::SuccessorAnswers { primary, among: vec![] },
        Until::SuccessorAnswers { primary, among: vec![node] },
        Until::PrimaryHolds { primary, leaves: node },
        Until::Answers(node),
        Until::Seated { node, primary },
        Until::Leads { node, primary },
        enough(Comes::Candidates(vec![node])),
        enough(Comes::ByRecovery),
        enough(Comes::FromNowhere),
        Until::Registered { child: BucketId(2), primary },
        Until::Alike { bucket: BucketId(2), into: BucketId(1), why: Unlike::Members },
        Until::Merged { bucket: BucketId(2), into: BucketId(1), primary },
        Until::MembersForMinimum { members: 1, min: 2 },
        Until::Erased { keyspace: KeyspaceId(1), there: vec![node], away: vec![] },
        Until::Erased { keyspace: KeyspaceId(1), there: vec![], away: vec![node] },
        Until::Accepted { what: "it".into() },
        Until::ActsOn { node, epoch: Epoch(2) },
        Until::Resumed,
        Until::Restarted { node, leads: 0 },
        Until::Restarted { node, leads: 2 },
        Until::Calm(Unrest::UnderWay(OperationId(1))),
        Until::Calm(Unrest::Departed(node)),
        Until::Calm(Unrest::Drains(node)),
        Until::Calm(Unrest::Members(BucketId(1))),
        Until::Calm(Unrest::Merging(BucketId(1))),
        Until::Unchanged { for_long: Duration::from_secs(1) },
        Until::Rested { after: OperationId(1), for_long: Duration::from_secs(1) },
    ]
}

impl script::Stage for Town {
    fn perform(&mut self, verb: &str) -> Result<(), String> {
        Self::perform(self, verb)
    }

    fn take_lines(&mut self) -> Vec<String> {
        Self::take_lines(self)
    }
}
