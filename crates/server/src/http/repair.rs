//! `godwit repair`: a bucket that lost every member. What is there is looked for, what may be lost is said, and nothing is done before
//! somebody accepts that.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use blueprint::{Blueprint, Bond, Bucket, BucketId, Command, Government, Member, NodeId, Position, Remedy, Term};
use meta::{Meta, ProposeError};
use planner::Facts;
use reactor::{BucketRow, Part};
use serde::{Deserialize, Serialize};

use super::{Office, unavailable};
use crate::names::named;

/// A dry run, or what was done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RepairView {
    pub bucket: String,
    /// The node whose copy is left, if there is one.
    pub from: Option<String>,
    /// What is lost, and what is left, for people.
    pub text: String,
    /// In which it was repaired; none if nothing was done.
    pub epoch: Option<u64>,
}

#[derive(Default, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    by: String,
    #[serde(default)]
    accept_data_loss: bool,
}

/// What everyone who is present says of the bucket, and of the one that it is being merged with.
struct Rows {
    /// Of those that hold something of it.
    held: BTreeMap<BucketId, BTreeMap<NodeId, BucketRow>>,
    /// Those that cannot be asked.
    unheard: Vec<NodeId>,
    /// Those that act on an older blueprint: what they say of their copies may be said of another bucket than it is now.
    behind: Vec<NodeId>,
}

impl Rows {
    fn of(&self, bucket: BucketId) -> impl Iterator<Item = (NodeId, &BucketRow)> {
        self.held.get(&bucket).into_iter().flatten().map(|(node, row)| (*node, row))
    }

    fn row(&self, bucket: BucketId, node: NodeId) -> Option<&BucketRow> {
        self.held.get(&bucket)?.get(&node)
    }

    fn whole(&self, bucket: BucketId, node: NodeId) -> Option<&BucketRow> {
        self.row(bucket, node).filter(|row| row.missing == 0 && row.amiss == 0 && row.part != Part::Aside)
    }
}

/// A bucket whose members are lost, and the one that it is being merged with, which has the same ones.
struct Lost<'a> {
    blueprint: &'a Blueprint,
    bucket: &'a Bucket,
    government: &'a Government,
    partner: Option<&'a Bucket>,
}

/// What can be done, and what it costs.
struct Verdict {
    remedy: Remedy,
    from: Option<NodeId>,
    text: String,
}

pub(super) async fn repair(
    State(office): State<Office>,
    Path(bucket): Path<String>,
    asked: Option<Json<Asked>>,
) -> Response {
    let asked = asked.map(|Json(asked)| asked).unwrap_or_default();
    let Ok(id) = bucket.strip_prefix('b').unwrap_or(&bucket).parse().map(BucketId) else {
        let text = format!("'{bucket}' is no bucket: they are called b1, b2, … ('godwit status --buckets')\n");
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    let Ok(state) = office.meta.read().await else { return unavailable() };
    // Somebody who has just come back hears of it within moments: that is worth more than to be asked again.
    office.until_acted_on(state.blueprint.epoch).await;
    let buckets = [id].into_iter().chain(partner(&state.blueprint, id)).collect();
    let Some(rows) = office.rows_of(buckets, &state.blueprint).await else { return unavailable() };
    let conflict = |text: &str| (StatusCode::CONFLICT, format!("{}\n", named(text, &state.blueprint))).into_response();
    let (replaces, verdict) = match judge(&state.blueprint, id, &rows) {
        Ok(judged) => judged,
        Err(why) => return conflict(&why),
    };
    let name = |node: NodeId| state.blueprint.nodes.get(&node).map(|node| node.name.clone());
    let (from, text) = (verdict.from.and_then(name), named(&verdict.text, &state.blueprint));
    let mut view = RepairView { bucket: id.to_string(), from, text, epoch: None };
    if asked.accept_data_loss {
        let by = if asked.by.is_empty() { "somebody" } else { &asked.by };
        let by = format!("{}: repair {id} --accept-data-loss", by.replace(':', ""));
        tracing::warn!(bucket = %id, %by, "repaired, and data is lost: {}", view.text);
        match office.meta.propose(Command::Repair { bucket: id, replaces, by, remedy: verdict.remedy }).await {
            Ok(applied) => {
                office.until_acted_on(applied.epoch).await;
                view.epoch = Some(applied.epoch.0);
            }
            Err(ProposeError::Refused(why)) => return conflict(&why.to_string()),
            Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
        }
    }
    Json(view).into_response()
}

impl Office {
    async fn rows_of(&self, buckets: Vec<BucketId>, blueprint: &Blueprint) -> Option<Rows> {
        let present: Vec<NodeId> = blueprint.nodes.keys().copied().filter(|node| blueprint.is_present(*node)).collect();
        let epoch = blueprint.epoch;
        self.post
            .ask_desk(move |driver| {
                let desk = driver.desk.borrow();
                let directory = desk.directory();
                let own: BTreeMap<BucketId, BucketRow> = desk.rows().map(|(id, row)| (id, *row)).collect();
                let row_of = |node, bucket| match node == driver.me {
                    true => own.get(&bucket).copied(),
                    false => directory.row(node, bucket).copied(),
                };
                let held_by = |bucket| present.iter().filter_map(move |node| Some((*node, row_of(*node, bucket)?)));
                let held = buckets.iter().map(|bucket| (*bucket, held_by(*bucket).collect())).collect();
                let unheard = present.iter().copied().filter(|n| *n != driver.me && !directory.is_reachable(*n));
                let acts_on = |node| if node == driver.me { desk.blueprint().epoch } else { directory.echoed(node) };
                let behind = present.iter().copied().filter(|node| acts_on(*node) < epoch);
                Rows { held, unheard: unheard.collect(), behind: behind.collect() }
            })
            .await
    }
}

fn partner(blueprint: &Blueprint, id: BucketId) -> Option<BucketId> {
    blueprint.buckets.get(&id)?.bond?.partner()
}

fn judge(blueprint: &Blueprint, id: BucketId, rows: &Rows) -> Result<(Term, Verdict), String> {
    let Some(bucket) = blueprint.buckets.get(&id) else {
        return Err(format!(
            "there is no bucket {id}: it was never created, or is gone. Look at 'godwit status --buckets'"
        ));
    };
    let Some(government) = bucket.government() else {
        return Err(format!("{id} is being removed with its keyspace: there is nothing to repair"));
    };
    let partner = partner(blueprint, id).and_then(|partner| blueprint.buckets.get(&partner));
    require_lost(blueprint, bucket, rows)?;
    if let Some(partner) = partner {
        require_lost(blueprint, partner, rows)?;
    }
    let lost = Lost { blueprint, bucket, government, partner };
    let verdict = match lost.best_copy(rows) {
        Some(node) => lost.led_by(node, rows),
        None => lost.begun_anew(rows)?,
    };
    Ok((government.term, verdict))
}

/// Nobody who may have everything is there, or could be.
fn require_lost(blueprint: &Blueprint, bucket: &Bucket, rows: &Rows) -> Result<(), String> {
    let Some(government) = bucket.government() else { return Ok(()) };
    let id = bucket.id;
    if let Some(member) = government.members().find(|member| blueprint.is_present(member.node)) {
        return Err(blueprint::Refusal::MemberPresent { bucket: id, node: member.node }.to_string());
    }
    let holds = |heir: &&Member| {
        rows.row(id, heir.node).is_some_and(|row| row.incarnation == heir.incarnation && row.missing == 0)
    };
    if let Some(heir) = government.heirs.iter().find(holds) {
        return Err(format!(
            "{} holds all that was ever acknowledged in {id}, and will lead by itself (R9): wait",
            heir.node
        ));
    }
    if let [first, ..] = rows.unheard[..] {
        return Err(format!(
            "{first} is present and does not answer this node: it may hold a copy of {id}. Wait until it does, or has departed"
        ));
    }
    if let Some(behind) = rows.behind.iter().find(|node| rows.row(id, **node).is_some()) {
        return Err(format!(
            "{behind} holds a copy of {id}, and has not heard yet how the cluster is now: what it says of the copy may be outdated. Ask \
             again in a moment"
        ));
    }
    Ok(())
}

impl Lost<'_> {
    /// The node with the longest log. Of two that are being merged it must have both, and that of the one that absorbs counts first: it may
    /// have the other one in it.
    fn best_copy(&self, rows: &Rows) -> Option<NodeId> {
        let mut buckets: Vec<&Bucket> = [self.bucket].into_iter().chain(self.partner).collect();
        buckets.sort_by_key(|bucket| !matches!(bucket.bond, Some(Bond::Absorbs { .. })));
        let lasts = |node| buckets.iter().map(|b| Some(rows.whole(b.id, node)?.last)).collect::<Option<Vec<_>>>();
        let copies = rows.of(self.bucket.id).filter_map(|(node, _)| Some((lasts(node)?, node)));
        copies.max().map(|(_, node)| node)
    }

    fn led_by(&self, node: NodeId, rows: &Rows) -> Verdict {
        let row = |bucket: &Bucket| rows.row(bucket.id, node).expect("it has a copy");
        let copy = |bucket| Member { node, incarnation: row(bucket).incarnation };
        let last = |bucket| {
            let Position { term, index } = row(bucket).last;
            format!("{term}#{}", index.0)
        };
        let left = match self.partner {
            None => format!(
                "{node} has a copy that was no member: its log ends at {}. {node} would lead with that.",
                last(self.bucket)
            ),
            Some(partner) => format!(
                "{node} has copies of both that were no members: their logs end at {} and {}. {node} would lead both with that, and go on \
                 merging them.",
                last(self.bucket),
                last(partner)
            ),
        };
        let text = format!(
            "{}\n{left}\nMay be lost: every write to these slots that was acknowledged after it.",
            self.obituary()
        );
        let remedy = Remedy::Copy { copy: copy(self.bucket), other: self.partner.map(copy) };
        Verdict { remedy, from: Some(node), text }
    }

    fn begun_anew(&self, rows: &Rows) -> Result<Verdict, String> {
        let blueprint = self.blueprint;
        let keyspace = &blueprint.keyspaces[&self.bucket.keyspace];
        let present = blueprint.nodes.keys().filter(|node| blueprint.is_present(**node)).count();
        let copies = usize::from(keyspace.replicas).min(present) as u8;
        let placed = planner::place(blueprint, &Facts::default(), 1, copies.max(1));
        let nodes = placed.map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
        let nodes = nodes.into_iter().next().unwrap_or_default();
        let list =
            |nodes: &mut dyn Iterator<Item = NodeId>| nodes.map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let holders: BTreeSet<NodeId> = rows.held.values().flat_map(|rows| rows.keys().copied()).collect();
        let (copy, begins) = match self.partner {
            None => ("a whole copy", "A new bucket would begin with these slots"),
            Some(_) => ("whole copies of both that fit together", "Two new buckets would begin with their slots"),
        };
        let partial = match holders.is_empty() {
            true => "Nobody has a copy.".to_owned(),
            false => format!(
                "Nobody has {copy} (there are copies that lack something, are from before a split or a merge, or were being filled: {}).",
                list(&mut holders.into_iter())
            ),
        };
        let text = format!(
            "{}\n{partial} {begins}, empty, on {}.\nLost: everything in these slots.",
            self.obituary(),
            list(&mut nodes.iter().copied()),
        );
        Ok(Verdict { remedy: Remedy::Empty(nodes), from: None, text })
    }

    /// Who had it, and what is known of them.
    fn obituary(&self) -> String {
        let Self { blueprint, bucket, .. } = self;
        let keyspace = &blueprint.keyspaces[&bucket.keyspace].name;
        let mut text = format!("{} of keyspace {keyspace}, slots {}, has lost every member:", bucket.id, bucket.slots);
        for member in self.government.members() {
            let fate = match blueprint.is_replaced(member.node) {
                true => "its name was taken over by a new data directory: its data is gone",
                false => {
                    "departed. If its data is intact, start it instead: then nothing is lost. Later its copy is erased"
                }
            };
            text.push_str(&format!("\n  {} {fate}", member.node));
        }
        if let Some(partner) = self.partner {
            text.push_str(&format!(
                "\nIt is being merged with {}, slots {}, which has lost the same members: both are repaired.",
                partner.id, partner.slots
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use blueprint::{Change, Durability, Fate, Incarnation, Index, Kind, Slot, SlotSet};

    use super::*;

    const B1: BucketId = BucketId(1);
    const B257: BucketId = BucketId(257);

    /// Nodes 1 and 2 had two buckets, b257 being merged into b1, and have departed. Nodes 3 and 4 are there, and hold nothing that is named.
    fn lost() -> Blueprint {
        let mut blueprint = Blueprint::new();
        let (name, kind, durability) = ("k".to_owned(), Kind::Store, Durability::Disk);
        let placement = vec![vec![NodeId(1), NodeId(2)]];
        let slots = SlotSet::range(Slot(8192), Slot::LAST);
        let add = |id| {
            let (id, zone, addresses) = (NodeId(id), String::new(), Vec::new());
            Command::AddNode { id, name: id.to_string(), zone, addresses }
        };
        let commands = (1..=4).map(add).chain([
            Command::CreateKeyspace { name, kind, replicas: 2, min_in_sync: None, durability, placement },
            Command::ReserveBucket { parent: B1 },
            Command::Register { parent: B1, child: B257, slots, at: Position::new(1, 5), term: Term(1) },
            Command::Bind { absorbed: B257, into: B1, replaces: (Term(1), Term(1)) },
            Command::Depart { node: NodeId(1) },
            Command::Depart { node: NodeId(2) },
        ]);
        for command in commands {
            blueprint.apply(&command).expect("each follows from the one before");
        }
        blueprint
    }

    fn row(last: u64) -> BucketRow {
        BucketRow {
            incarnation: Incarnation(3),
            promised: Term(1),
            part: Part::Follows,
            applied: Index(last),
            last: Position::new(1, last),
            missing: 0,
            amiss: 0,
            bytes: 0,
        }
    }

    fn rows(said: &[(BucketId, u64, BucketRow)]) -> Rows {
        let mut rows = Rows { held: BTreeMap::new(), unheard: Vec::new(), behind: Vec::new() };
        for (bucket, node, row) in said {
            rows.held.entry(*bucket).or_default().insert(NodeId(*node), *row);
        }
        rows
    }

    fn verdict(said: &[(BucketId, u64, BucketRow)], asked: BucketId) -> Verdict {
        judge(&lost(), asked, &rows(said)).map(|(_, verdict)| verdict).expect("nobody is left")
    }

    #[test]
    fn of_two_that_are_merged_one_node_must_have_both() {
        let both = [(B1, 3, row(9)), (B257, 3, row(7)), (B1, 4, row(12))];
        for (asked, other) in [(B1, B257), (B257, B1)] {
            let verdict = verdict(&both, asked);
            let copy = Member { node: NodeId(3), incarnation: Incarnation(3) };
            assert_eq!(verdict.remedy, Remedy::Copy { copy, other: Some(copy) });
            let said = format!("It is being merged with {other}");
            assert!(verdict.text.contains(&said) && verdict.text.contains("both are repaired"), "{}", verdict.text);
        }
        // The longer log of the one that absorbs counts, whoever is asked for.
        let longer = [(B1, 3, row(9)), (B257, 3, row(7)), (B1, 4, row(10)), (B257, 4, row(6))];
        assert_eq!([B1, B257].map(|asked| verdict(&longer, asked).from), [Some(NodeId(4)); 2]);
    }

    /// It may be a copy of another bucket than this is now. Whoever holds nothing may be as far behind as it likes.
    #[test]
    fn what_is_said_of_an_older_blueprint_does_not_count() {
        let mut rows = rows(&[(B1, 3, row(9)), (B257, 3, row(7))]);
        rows.behind = vec![NodeId(4)];
        assert!(judge(&lost(), B1, &rows).is_ok());
        rows.behind = vec![NodeId(3)];
        let why = judge(&lost(), B1, &rows).err().expect("it may be outdated");
        assert!(why.starts_with("n3 holds a copy of b1, and has not heard yet"), "{why}");
    }

    #[test]
    fn what_does_not_fit_together_is_no_pair() {
        let unfit = [
            BucketRow { missing: 1, ..row(7) },
            BucketRow { amiss: 1, ..row(7) },
            BucketRow { part: Part::Aside, ..row(7) },
        ];
        for unfit in unfit {
            for said in [[(B1, 3, row(9)), (B257, 3, unfit)], [(B1, 3, unfit), (B257, 3, row(9))]] {
                let verdict = verdict(&said, B1);
                assert!(matches!(verdict.remedy, Remedy::Empty(_)), "{}", verdict.text);
                assert!(verdict.text.contains("Two new buckets would begin"), "{}", verdict.text);
            }
        }
        let apart = [(B1, 3, row(9)), (B257, 4, row(9))];
        assert!(matches!(verdict(&apart, B257).remedy, Remedy::Empty(_)), "one of each is none of both");
    }

    /// What stands in the way of the one stands in the way of the other.
    #[test]
    fn an_heir_of_either_is_waited_for() {
        let mut blueprint = lost();
        blueprint.apply(&Command::Return { node: NodeId(2) }).expect("it departed");
        let government = blueprint.government(B257).expect("it is governed");
        let change = Change::Dismiss { secondary: government.secondaries[0], fate: Fate::Leaves };
        let dismiss = Command::Succeed { bucket: B257, replaces: government.term, change };
        blueprint.apply(&dismiss).expect("it is a secondary");
        let heir = *blueprint.government(B257).and_then(|g| g.heirs.first()).expect("it is below its minimum");
        let held = BucketRow { incarnation: heir.incarnation, ..row(9) };
        let why = judge(&blueprint, B1, &rows(&[(B257, heir.node.0, held)])).err().expect("it will lead");
        assert!(why.contains("in b257, and will lead by itself"), "{why}");
    }
}
