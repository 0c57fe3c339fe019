//! `docs/crash-matrix.md`: every cell with its mark.

use std::collections::BTreeMap;
use std::fmt::Write;

use blueprint::Step;

use super::{Asked, Blow, Cell, Ended, Moment, OPERATIONS, Target, Victim, Void};

/// What became of cells, by their names.
pub type Results = BTreeMap<String, Ended>;

/// How many ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub done: usize,
    pub gave_up: usize,
    pub failed: usize,
    pub void: usize,
}

impl Counts {
    pub fn of<'a>(ended: impl IntoIterator<Item = &'a Ended>) -> Self {
        let mut counts = Self::default();
        for ended in ended {
            *match ended {
                Ended::Done => &mut counts.done,
                Ended::GaveUp(_) => &mut counts.gave_up,
                Ended::Failed(_) => &mut counts.failed,
                Ended::Void(_) => &mut counts.void,
            } += 1;
        }
        counts
    }

    pub fn struck(self) -> usize {
        self.done + self.gave_up + self.failed
    }
}

fn mark(ended: Option<&Ended>) -> char {
    match ended {
        Some(Ended::Done) => '✓',
        Some(Ended::GaveUp(_)) => '↩',
        Some(Ended::Failed(_)) => '✗',
        Some(Ended::Void(Void::Nobody)) => '·',
        Some(Ended::Void(Void::SameAs(_))) => '=',
        Some(Ended::Void(Void::Vital)) => '!',
        Some(Ended::Void(Void::NeverCame)) => '-',
        None => '?',
    }
}

const HEAD: &str = "\
# The crash matrix

Every kind of operation, struck at every step, at every moment of it, in everyone who takes part. Written by `simulator matrix`, which
runs each cell as a world of its own ([matrix/](../crates/simulator/src/matrix/mod.rs)): six nodes, three buckets of three copies,
clients that read and write all the time, and the operation as the planner plans it. When the blueprint and the nodes show that the
moment has come, the blow falls; some seconds later the victim is back, and the world goes on until it is quiet.

A cell passes if

- no acknowledged write is lost, no read is stale, and what clients saw is linearizable; all checkers of
  [protocol.md](protocol.md#what-is-checked) agree, at every step of every node
- the operation has ended: as done, or by itself with a reason, everything that it had begun taken back. Nobody but the coordinators
  helps it
- in the end every bucket serves, with the wanted number of copies, and nothing waits
- meanwhile whatever stood still had somebody who said why, and what was said was true

| victim | who that is |
|---|---|
| old primary | who led the bucket of the step when the operation began |
| new primary | who is to lead it, if that is not the joiner |
| secondary | another member: the one that is to leave, if any is |
| joiner | who gets a copy (and leads afterwards, where the old primary leaves) |
| voter | a node without a part in the bucket, as the leader of the meta group: what is on its way to the group may be lost, and it is away for 1.5 s. Consensus itself is simulated; real voters are killed in `crates/meta/tests` and `crates/godwit/tests` |
| coordinator | the node of the coordinator that carries the operation on |

Each cell of a table has five marks, for five blows: **restart** (the process dies, and is back after 0.2 s), **crash** (after 8 s, long after it
departed), **wipe** (the disk is lost as well: after 8 s another node comes under its name), **pause** (it stands still for 8 s, then goes on as if
nothing had happened), **cut** (for 8 s it reaches nobody but clients). In a crash whatever was not synced is lost.

| mark | means |
|---|---|
| ✓ | passed: the operation was done |
| ↩ | passed: the operation ended by itself, with a reason, and took back what it had begun |
| ✗ | failed |
| · | nobody has that part in this step |
| = | that node has another part too, and is struck there |
| - | the operation ended before that moment came |
| ! | not struck: it would have been the last copy |
";

/// The whole page. The same cells give the same bytes.
pub fn page(results: &Results) -> String {
    let mut text = String::from(HEAD);
    let counts = Counts::of(results.values());
    let _ = write!(
        text,
        "\n**{} cells: {} done, {} ended with a reason, {} failed.** {} more are not struck.\n\nTo see one: \
         `simulator matrix --cell replace-node/4.filling/joiner/wipe`. Other luck: `simulator matrix --dice 1`.\n",
        counts.struck(),
        counts.done,
        counts.gave_up,
        counts.failed,
        counts.void
    );
    text += &reasons(results);
    for asked in OPERATIONS {
        text += &section(asked, results);
    }
    text
}

/// Why operations gave up, and how often.
fn reasons(results: &Results) -> String {
    let mut reasons: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (name, ended) in results {
        if let Ended::GaveUp(why) = ended {
            reasons.entry(why).or_insert((0, name)).0 += 1;
        }
    }
    let mut text =
        String::from("\n| why operations ended before they were done | cells | one of them |\n|---|---|---|\n");
    for (why, (cells, example)) in reasons {
        let _ = writeln!(text, "| {why} | {cells} | `{example}` |");
    }
    text
}

fn section(asked: &'static Asked, results: &Results) -> String {
    let own = |(name, _): &(&String, &Ended)| name.split('/').next() == Some(asked.name);
    let counts = Counts::of(results.iter().filter(own).map(|(_, ended)| ended));
    let calm = mark(results.get(asked.name));
    let mut text = format!(
        "\n## {}\n\n`godwit plan {}`: {} cells, {} done, {} ended with a reason, {} failed. Without a blow: {calm}\n\n| step | moment |",
        asked.name,
        asked.words,
        counts.struck(),
        counts.done,
        counts.gave_up,
        counts.failed
    );
    for victim in Victim::ALL {
        let _ = write!(text, " {} |", victim.name().replace('-', " "));
    }
    text += "\n|---|---|---|---|---|---|---|---|\n";
    for (step, planned) in asked.steps().iter().enumerate() {
        for moment in Moment::of(planned) {
            let first = *moment == Moment::Begins;
            let what = if first { format!("{} {}", step + 1, describe(planned)) } else { String::new() };
            let _ = write!(text, "| {what} | {} |", moment.name());
            for victim in Victim::ALL {
                let cell = |blow| Cell { asked, target: Some(Target { step, moment: *moment, victim, blow }) };
                let marks: String = Blow::ALL.map(|blow| mark(results.get(&cell(blow).to_string()))).iter().collect();
                let _ = write!(text, " {marks} |");
            }
            text.push('\n');
        }
    }
    text
}

fn describe(step: &Step) -> String {
    let bucket = step.bucket().map(|bucket| bucket.to_string()).unwrap_or_default();
    match step {
        Step::Enlist { node, .. } => format!("{bucket}: enlist {node}"),
        Step::AwaitSeated { node, .. } => format!("{bucket}: await {node} seated"),
        Step::HandOver { to, .. } => format!("{bucket}: hand over to {to}"),
        Step::Dismiss { node, .. } => format!("{bucket}: dismiss {node}"),
        Step::Split { child, .. } => format!("{bucket}: split off {child}"),
        Step::Merge { into, .. } => format!("{bucket}: merge into {into}"),
        Step::SetMinimum { min, .. } => format!("{bucket}: set the minimum to {min}"),
        Step::Mark { node, intent, .. } => format!("mark {node}: {intent:?}"),
        Step::SetReplicas { replicas, .. } => format!("want {replicas} copies"),
        Step::RemoveKeyspace { keyspace } => format!("remove {keyspace}"),
        Step::AwaitErased { keyspace } => format!("await {keyspace} erased"),
        Step::AwaitRestart { node, .. } => format!("{bucket}: await the restart of {node}"),
        Step::Repair { .. } => format!("{bucket}: repair"),
    }
}
