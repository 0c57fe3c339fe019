//! Topology changes over HTTP: planned, applied, watched, paused, cancelled. Whatever is asked for stands in the blueprint, so any node
//! can be asked, and any coordinator carries it on.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use blueprint::{
    Blueprint, BucketId, Command, Epoch, Intent, NodeId, Operation, OperationId, OperationState, Refusal, Step,
};
use meta::{Meta, ProposeError};
use planner::{Limits, Objection, Plan};
use reactor::coordinator::Subject;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::facts::Known;
use super::{Office, rate, unavailable, wish};
use crate::names::named;

/// All of them share network and disks with the clients, and with recovery, which does not count them.
const MOST_AT_ONCE: usize = 8;
/// Somebody else may plan at the same time, and take the id.
const ATTEMPTS: usize = 8;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperationView {
    pub id: String,
    /// Who asked for it.
    pub by: String,
    /// What they asked for, in words.
    pub asked: String,
    /// `planned`, `running`, `paused`, `done`, `failed` or `cancelled`.
    pub state: String,
    /// Why it failed or was cancelled.
    pub why: String,
    /// Steps that came true.
    pub done: usize,
    /// Of the copies that it makes: bytes that are there, and bytes that it takes, as far as that is known. Copies that are there whole
    /// count whole.
    pub bytes: u64,
    pub total_bytes: u64,
    /// Bytes per second that its copies take at most, all together.
    pub throttle: Option<u64>,
    pub steps: Vec<StepView>,
    /// What coordinators say that the present step waits for.
    pub waits: Vec<String>,
    /// Whoever looks after this node is to start its process anew now.
    #[serde(default)]
    pub restart: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepView {
    /// Empty if it is about a node, or about a whole keyspace.
    pub bucket: String,
    pub what: String,
    /// How much of its copy a node has that is to be seated, from 0 to 1.
    pub filled: Option<f64>,
    /// The same in bytes, and in how many.
    pub bytes: Option<u64>,
    pub total_bytes: Option<u64>,
    /// How many members its bucket has now.
    pub copies: usize,
}

/// A dry run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanView {
    /// To be applied; none if there is nothing to do.
    pub id: Option<String>,
    pub epoch: u64,
    pub steps: usize,
    /// Copies that are made, and what they take, as far as that is known.
    pub copies: usize,
    pub bytes: u64,
    pub hand_overs: usize,
    pub splits: usize,
    /// Steps that are left for another plan, when these are done.
    pub left: usize,
    /// All of it, step by step, for people.
    pub text: String,
}

#[derive(Deserialize)]
pub(super) struct Asked {
    wish: String,
    #[serde(default)]
    by: String,
    /// Buckets that are under way at the same time.
    at_once: Option<usize>,
}

#[derive(Default, Deserialize)]
pub(super) struct Reason {
    #[serde(default)]
    pub(super) why: String,
    /// Of a throttle.
    #[serde(default)]
    pub(super) rate: String,
}

/// Why not.
pub(super) struct Refused {
    code: StatusCode,
    pub(super) text: String,
}

impl Refused {
    fn new(code: StatusCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, text)
    }
}

impl From<ProposeError> for Refused {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::Refused(why) => Self::conflict(why.to_string()),
            ProposeError::Unknown | ProposeError::Unavailable(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.code, format!("{}\n", self.text)).into_response()
    }
}

const AT_ONCE: &str = " --at-once ";

/// What was asked for, with all that is needed to plan it again.
fn with_limits(words: &str, limits: Limits) -> String {
    if limits == Limits::default() { words.into() } else { format!("{words}{AT_ONCE}{}", limits.buckets_at_once) }
}

fn without_limits(asked: &str) -> (&str, Limits) {
    let limits = |at_once: &str| at_once.parse().ok().map(|buckets_at_once| Limits { buckets_at_once });
    let found = asked.rsplit_once(AT_ONCE).and_then(|(words, at_once)| Some((words, limits(at_once)?)));
    found.unwrap_or((asked, Limits::default()))
}

pub(super) fn objections(all: &[Objection]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Office {
    pub(super) async fn plan(&self, by: &str, words: &str, limits: Limits) -> Result<PlanView, Refused> {
        let (plan, written) = self.draw_up(by, words, limits).await?;
        if let Some(epoch) = written {
            self.until_acted_on(epoch).await;
        }
        Ok(plan)
    }

    /// A plan, and the epoch that it was written down with. This node may not know of it yet: whoever applies it at once need not wait for
    /// that, which takes as long as a round of coordinators.
    pub(super) async fn draw_up(
        &self,
        by: &str,
        words: &str,
        limits: Limits,
    ) -> Result<(PlanView, Option<Epoch>), Refused> {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        for _ in 0..ATTEMPTS {
            let state = self.meta.read().await.map_err(|error| {
                Refused::new(StatusCode::SERVICE_UNAVAILABLE, format!("the blueprint cannot be read: {error}"))
            })?;
            let blueprint = &state.blueprint;
            let wish = wish::parse(&words, blueprint).map_err(|why| Refused::new(StatusCode::BAD_REQUEST, why))?;
            let facts = self.post.ask_desk(|driver| Known::of(driver, &driver.desk.borrow()).facts()).await;
            let facts = facts.ok_or_else(|| {
                Refused::new(StatusCode::SERVICE_UNAVAILABLE, "this node is starting or stopping: ask again")
            })?;
            // A large cluster takes it a while, and this thread has other things to do.
            let planned = {
                let blueprint = std::sync::Arc::clone(blueprint);
                spawn_blocking(move || planner::plan(&blueprint, &facts, limits, &wish)).await
            };
            let plan = planned
                .expect("the planner does not panic")
                .map_err(|all| Refused::conflict(named(&objections(&all), blueprint)))?;
            let Some(steps) = plan.operations().into_iter().next() else {
                return Ok((view(&plan, blueprint, None, 0), None));
            };
            let (id, count) = (blueprint.next_operation, steps.len());
            let command = Command::PlanOperation { id, by: format!("{by}: {}", with_limits(&words, limits)), steps };
            match self.meta.propose(command).await {
                Ok(applied) => return Ok((view(&plan, blueprint, Some(id), count), Some(applied.epoch))),
                // Somebody else was first.
                Err(ProposeError::Refused(
                    Refusal::OperationTaken(_) | Refusal::OperationNotNext { .. } | Refusal::ChildNotNext { .. },
                )) => {}
                Err(ProposeError::Refused(why)) => {
                    return Err(Refused::conflict(named(&why.to_string(), blueprint)));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Refused::conflict("the blueprint changes all the time: ask again"))
    }

    /// What every node that can be reached acts on when it is answered.
    pub(super) async fn act(&self, id: &str, act: &str, reason: Reason) -> Result<Epoch, Refused> {
        let epoch = self.order(id, act, reason).await?;
        self.until_acted_on(epoch).await;
        Ok(epoch)
    }

    /// The epoch that it is part of, which this node may not know yet.
    pub(super) async fn order(&self, id: &str, act: &str, Reason { why, rate }: Reason) -> Result<Epoch, Refused> {
        let id = number_of(id)?;
        let command = match act {
            "apply" => Command::ApplyOperation { id },
            "pause" => Command::PauseOperation { id },
            "resume" => Command::ResumeOperation { id },
            "cancel" => {
                let why = if why.is_empty() { "somebody asked for it".into() } else { why };
                Command::CancelOperation { id, why }
            }
            "throttle" => {
                let rate = rate::parse(&rate).map_err(|why| Refused::new(StatusCode::BAD_REQUEST, why))?;
                Command::ThrottleOperation { id, rate }
            }
            _ => return Err(Refused::new(StatusCode::NOT_FOUND, "apply, pause, resume, throttle or cancel")),
        };
        match self.meta.propose(command).await {
            Ok(applied) => Ok(applied.epoch),
            Err(ProposeError::Refused(why)) => {
                let known = std::sync::Arc::clone(&self.meta.watch().borrow().blueprint);
                let why = named(&why.to_string(), &known);
                Err(if act == "apply" { self.plan_again(id, &why).await } else { Refused::conflict(why) })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The blueprint has moved on since it was planned: what was asked for is planned anew, and shown rather than done.
    async fn plan_again(&self, id: OperationId, why: &str) -> Refused {
        let known = self.views(Some(id)).await.unwrap_or_default();
        let planned = known.into_iter().find(|view| view.state == "planned");
        let Some(planned) = planned else { return Refused::conflict(why) };
        let (words, limits) = without_limits(&planned.asked);
        match self.plan(&planned.by, words, limits).await {
            Ok(PlanView { id: Some(new), text, .. }) => Refused::conflict(format!(
                "{id} does not fit any more: {why}. Planned again as {new}, not applied:\n\n{text}"
            )),
            Ok(PlanView { id: None, text, .. }) => {
                Refused::conflict(format!("{id} does not fit any more: {why}. By now: {text}"))
            }
            Err(refused) => refused,
        }
    }

    /// What each operation, or only that one, waits for, as the coordinator of this node sees it; and how much of their copies nodes
    /// have.
    pub(super) async fn views(&self, only: Option<OperationId>) -> Option<Vec<OperationView>> {
        self.post
            .ask_desk(move |driver| {
                let desk = driver.desk.borrow();
                let blueprint = desk.blueprint();
                let mut waits: BTreeMap<OperationId, Vec<String>> = BTreeMap::new();
                for wait in desk.coordinator().waits() {
                    // The coordinator may know less than this node acts on: what it says of a step that is true would confuse.
                    if let Subject::Operation { id, step } = wait.about
                        && blueprint.operations.get(&id).is_some_and(|operation| operation.at <= step)
                    {
                        waits.entry(id).or_default().push(named(&wait.to_string(), blueprint));
                    }
                }
                let known = Known::of(driver, &desk);
                let wanted = |operation: &&Operation| only.is_none_or(|only| operation.id == only);
                let view = |operation: &Operation| {
                    let waits = waits.remove(&operation.id).unwrap_or_default();
                    operation_view(operation, &known, waits)
                };
                blueprint.operations.values().filter(wanted).map(view).collect()
            })
            .await
    }
}

fn view(plan: &Plan, blueprint: &Blueprint, id: Option<OperationId>, steps: usize) -> PlanView {
    PlanView {
        id: id.map(|id| id.to_string()),
        epoch: plan.based_on.0,
        steps,
        copies: plan.summary.copies,
        bytes: plan.summary.bytes,
        hand_overs: plan.summary.hand_overs,
        splits: plan.summary.splits,
        left: plan.steps.len() - steps,
        text: named(&plan.to_string(), blueprint),
    }
}

fn number_of(id: &str) -> Result<OperationId, Refused> {
    id.strip_prefix('o').unwrap_or(id).parse().map(OperationId).map_err(|_| {
        Refused::new(StatusCode::BAD_REQUEST, format!("'{id}' is no operation: they are called o1, o2, …"))
    })
}

fn operation_view(operation: &Operation, known: &Known<'_>, waits: Vec<String>) -> OperationView {
    let blueprint = known.blueprint;
    let (state, why) = match &operation.state {
        OperationState::Planned => ("planned", String::new()),
        OperationState::Running => ("running", String::new()),
        OperationState::Paused => ("paused", String::new()),
        OperationState::Done => ("done", String::new()),
        OperationState::Failed { why } => ("failed", named(&why.to_string(), blueprint)),
        OperationState::Cancelled { why } => ("cancelled", why.clone()),
    };
    let (by, asked) = operation.started_by.split_once(": ").unwrap_or(("", &operation.started_by));
    let name = |node: &NodeId| blueprint.nodes.get(node).map_or_else(|| node.to_string(), |node| node.name.clone());
    let step = |(at, step): (usize, &Step)| {
        let (what, node) = match step {
            Step::Enlist { node, .. } => (format!("enlist {}", name(node)), None),
            Step::AwaitSeated { node, .. } => (format!("seat {}", name(node)), Some(*node)),
            Step::HandOver { to, .. } => (format!("hand over to {}", name(to)), None),
            Step::Dismiss { node, .. } => (format!("dismiss {}", name(node)), None),
            Step::Merge { into, .. } => (format!("merge into {into}"), None),
            Step::Repair { from: None, .. } => ("repaired: its data is lost".to_owned(), None),
            Step::Repair { from: Some(node), .. } => {
                (format!("repaired from the copy of {}: what came later is lost", name(node)), None)
            }
            Step::AwaitRestart { node, .. } => (format!("restart of {}", name(node)), None),
            Step::Split { child, slots, .. } => (format!("split off {child} with slots {slots}"), None),
            Step::Mark { node, intent, .. } => (format!("mark {} as {}", name(node), intent_words(*intent)), None),
            Step::SetReplicas { keyspace, replicas } => {
                (named(&format!("want {replicas} copies of {keyspace}"), blueprint), None)
            }
            Step::SetMinimum { min, .. } => (format!("set the minimum to {min}"), None),
            Step::RemoveKeyspace { keyspace } => (named(&format!("remove {keyspace}"), blueprint), None),
            Step::AwaitErased { keyspace } => (named(&format!("erase {keyspace}"), blueprint), None),
        };
        let is_true = at < operation.at as usize;
        let bucket = step.bucket();
        let copy = node.zip(bucket).and_then(|(node, bucket)| copy_of(known, node, bucket, is_true));
        let government = bucket.and_then(|bucket| blueprint.government(bucket));
        StepView {
            bucket: bucket.map(|bucket| bucket.to_string()).unwrap_or_default(),
            what,
            filled: copy.filter(|_| !is_true && operation.is_under_way()).map(|copy| copy.filled),
            bytes: copy.map(|copy| copy.bytes),
            total_bytes: copy.map(|copy| copy.total),
            copies: government.map_or(0, blueprint::Government::size),
        }
    };
    let steps: Vec<StepView> = operation.steps.iter().enumerate().map(step).collect();
    OperationView {
        id: operation.id.to_string(),
        by: by.to_owned(),
        asked: asked.to_owned(),
        state: state.to_owned(),
        why,
        done: operation.at as usize,
        bytes: steps.iter().filter_map(|step| step.bytes).sum(),
        total_bytes: steps.iter().filter_map(|step| step.total_bytes).sum(),
        throttle: operation.throttle,
        steps,
        waits,
        restart: to_restart(operation, blueprint),
    }
}

fn intent_words(intent: Intent) -> &'static str {
    match intent {
        Intent::Stays => "staying",
        Intent::Drains => "draining",
        Intent::Goes => "leaving",
    }
}

/// How much of a copy is there.
#[derive(Clone, Copy)]
struct Copied {
    filled: f64,
    bytes: u64,
    total: u64,
}

/// None if the bucket is not there yet, or not any more.
fn copy_of(known: &Known<'_>, node: NodeId, bucket: BucketId, is_true: bool) -> Option<Copied> {
    let found = known.blueprint.buckets.get(&bucket)?;
    let (slots, total) = (f64::from(found.slots.len().max(1)), known.bytes(found).unwrap_or(0));
    let is_named = found.government().is_some_and(|government| government.named(node).is_some());
    let row = known.row(node, bucket).filter(|_| is_named);
    let whole = is_true || row.is_some_and(|row| row.missing == 0);
    let filled = row.map_or(0.0, |row| 1.0 - f64::from(row.missing) / slots);
    // What it has and what it takes are told at different moments.
    let bytes = if whole { total } else { row.map_or(0, |row| row.bytes.min(total)) };
    Some(Copied { filled: if whole { 1.0 } else { filled }, bytes, total })
}

fn to_restart(operation: &Operation, blueprint: &Blueprint) -> Option<String> {
    let running = operation.state == OperationState::Running;
    let Some(Step::AwaitRestart { node, life, .. }) = operation.step().filter(|_| running) else { return None };
    blueprint.nodes.get(node).filter(|known| known.life <= *life).map(|known| known.name.clone())
}

pub(super) async fn list(State(office): State<Office>) -> Response {
    office.views(None).await.map_or_else(unavailable, |views| Json(views).into_response())
}

pub(super) async fn one(State(office): State<Office>, Path(id): Path<String>) -> Response {
    let number = match number_of(&id) {
        Ok(number) => number,
        Err(refused) => return refused.into_response(),
    };
    let Some(found) = office.views(Some(number)).await else { return unavailable() };
    match found.into_iter().next() {
        Some(view) => Json(view).into_response(),
        None => {
            let why = format!(
                "there is no operation {number}: it was never planned, or is long over. 'godwit operations' lists them, 'godwit history' \
                 says what became of those before"
            );
            Refused::new(StatusCode::NOT_FOUND, why).into_response()
        }
    }
}

pub(super) async fn plan(State(office): State<Office>, Json(asked): Json<Asked>) -> Response {
    let by = if asked.by.is_empty() { "somebody" } else { &asked.by };
    let at_once = asked.at_once.map_or(Limits::default().buckets_at_once, |wanted| wanted.clamp(1, MOST_AT_ONCE));
    let plan = office.plan(&by.replace(':', ""), &asked.wish, Limits { buckets_at_once: at_once }).await;
    plan.map(Json).into_response()
}

pub(super) async fn act(
    State(office): State<Office>,
    Path((id, act)): Path<(String, String)>,
    reason: Option<Json<Reason>>,
) -> Response {
    let reason = reason.map(|Json(reason)| reason).unwrap_or_default();
    let acted = office.act(&id, &act, reason).await;
    acted.map(|epoch| Json(json!({ "epoch": epoch.0 }))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_again_keeps_its_limits() {
        let limits = Limits { buckets_at_once: 2 };
        assert_eq!(without_limits(&with_limits("drain node-2", limits)), ("drain node-2", limits));
        assert_eq!(with_limits("drain node-2", Limits::default()), "drain node-2");
        assert_eq!(without_limits("drain node-2"), ("drain node-2", Limits::default()));
    }
}
