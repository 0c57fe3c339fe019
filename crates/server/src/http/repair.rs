//! `godwit repair`: a bucket that lost every member. What is there is looked for, what may be lost is said, and nothing is done before
//! somebody accepts that.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use blueprint::{Blueprint, Bucket, BucketId, Command, Government, Member, NodeId, Position, Remedy};
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

/// What everyone who is present says of the bucket.
struct Rows {
    /// Of those that hold something of it.
    held: BTreeMap<NodeId, BucketRow>,
    /// Those that cannot be asked.
    unheard: Vec<NodeId>,
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
    let Some(rows) = office.rows_of(id, &state.blueprint).await else { return unavailable() };
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
    async fn rows_of(&self, bucket: BucketId, blueprint: &Blueprint) -> Option<Rows> {
        let present: Vec<NodeId> = blueprint.nodes.keys().copied().filter(|node| blueprint.is_present(*node)).collect();
        self.post
            .ask_desk(move |driver| {
                let desk = driver.desk.borrow();
                let directory = desk.directory();
                let own = desk.rows().find(|(id, _)| *id == bucket).map(|(_, row)| *row);
                let mut rows = Rows { held: BTreeMap::new(), unheard: Vec::new() };
                for node in present {
                    if node != driver.me && !directory.is_reachable(node) {
                        rows.unheard.push(node);
                    }
                    let row = if node == driver.me { own } else { directory.row(node, bucket).copied() };
                    rows.held.extend(row.map(|row| (node, row)));
                }
                rows
            })
            .await
    }
}

fn judge(blueprint: &Blueprint, id: BucketId, rows: &Rows) -> Result<(blueprint::Term, Verdict), String> {
    let Some(bucket) = blueprint.buckets.get(&id) else {
        return Err(format!(
            "there is no bucket {id}: it was never created, or is gone. Look at 'godwit status --buckets'"
        ));
    };
    let Some(government) = bucket.government() else {
        return Err(format!("{id} is being removed with its keyspace: there is nothing to repair"));
    };
    require_lost(blueprint, id, government, rows)?;
    let whole = |row: &BucketRow| row.missing == 0 && row.part != Part::Aside;
    let copy = rows.held.iter().filter(|(_, row)| whole(row)).max_by_key(|(_, row)| row.last);
    let verdict = match copy {
        Some((node, row)) => from_copy(blueprint, bucket, government, *node, row),
        None => empty(blueprint, bucket, government, rows)?,
    };
    Ok((government.term, verdict))
}

/// Nobody who may have everything is there, or could be.
fn require_lost(blueprint: &Blueprint, id: BucketId, government: &Government, rows: &Rows) -> Result<(), String> {
    if let Some(member) = government.members().find(|member| blueprint.is_present(member.node)) {
        return Err(blueprint::Refusal::MemberPresent { bucket: id, node: member.node }.to_string());
    }
    let holds = |heir: &&Member| {
        rows.held.get(&heir.node).is_some_and(|row| row.incarnation == heir.incarnation && row.missing == 0)
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
    Ok(())
}

fn from_copy(
    blueprint: &Blueprint,
    bucket: &Bucket,
    government: &Government,
    node: NodeId,
    row: &BucketRow,
) -> Verdict {
    let Position { term, index } = row.last;
    let text = format!(
        "{}\n{node} has a copy that was no member: its log ends at {term}#{}. {node} would lead with that.\nMay be lost: every \
         write to these slots that was acknowledged after it.",
        obituary(blueprint, bucket, government),
        index.0,
    );
    let copy = Member { node, incarnation: row.incarnation };
    Verdict { remedy: Remedy::Copy(copy), from: Some(node), text }
}

fn empty(blueprint: &Blueprint, bucket: &Bucket, government: &Government, rows: &Rows) -> Result<Verdict, String> {
    let keyspace = &blueprint.keyspaces[&bucket.keyspace];
    let present = blueprint.nodes.keys().filter(|node| blueprint.is_present(**node)).count();
    let copies = usize::from(keyspace.replicas).min(present) as u8;
    let placed = planner::place(blueprint, &Facts::default(), 1, copies.max(1));
    let nodes = placed.map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let nodes = nodes.into_iter().next().unwrap_or_default();
    let list = |nodes: &mut dyn Iterator<Item = NodeId>| nodes.map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let partial = match rows.held.is_empty() {
        true => "Nobody has a copy.".to_owned(),
        false => format!("Nobody has a whole copy (parts: {}).", list(&mut rows.held.keys().copied())),
    };
    let text = format!(
        "{}\n{partial} A new bucket would begin with these slots, empty, on {}.\nLost: everything in these slots.",
        obituary(blueprint, bucket, government),
        list(&mut nodes.iter().copied()),
    );
    Ok(Verdict { remedy: Remedy::Empty(nodes), from: None, text })
}

/// Who had it, and what is known of them.
fn obituary(blueprint: &Blueprint, bucket: &Bucket, government: &Government) -> String {
    let keyspace = &blueprint.keyspaces[&bucket.keyspace].name;
    let mut text = format!("{} of keyspace {keyspace}, slots {}, has lost every member:", bucket.id, bucket.slots);
    for member in government.members() {
        let fate = match blueprint.is_replaced(member.node) {
            true => "its name was taken over by a new data directory: its data is gone",
            false => {
                "departed. If its data is intact, start it instead: then nothing is lost. Later its copy is erased"
            }
        };
        text.push_str(&format!("\n  {} {fate}", member.node));
    }
    text
}
