//! Topology changes over HTTP: planned, applied, watched, paused, cancelled. Whatever is asked for stands in the blueprint, so any node
//! can be asked, and any coordinator carries it on.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use blueprint::{Blueprint, BucketId, Command, Epoch, NodeId, Operation, OperationId, OperationState, Refusal, Step};
use meta::{Meta, ProposeError};
use planner::{Facts, Limits, Objection, Plan};
use reactor::coordinator::Subject;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::{Office, unavailable, wish};
use crate::names::named;

/// Recovery from a death counts these copies too, and has to wait for them.
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
    pub steps: Vec<StepView>,
    /// What coordinators say that the present step waits for.
    pub waits: Vec<String>,
    /// Whoever looks after this node is to start its process anew now.
    #[serde(default)]
    pub restart: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepView {
    pub bucket: String,
    pub what: String,
    /// How much of its copy a node has that is to be seated, from 0 to 1.
    pub filled: Option<f64>,
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
    why: String,
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

fn objections(all: &[Objection]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Office {
    pub(super) async fn plan(&self, by: &str, words: &str, limits: Limits) -> Result<PlanView, Refused> {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        for _ in 0..ATTEMPTS {
            let state = self.meta.read().await.map_err(|error| {
                Refused::new(StatusCode::SERVICE_UNAVAILABLE, format!("the blueprint cannot be read: {error}"))
            })?;
            let blueprint = &state.blueprint;
            let wish = wish::parse(&words, blueprint).map_err(|why| Refused::new(StatusCode::BAD_REQUEST, why))?;
            // A large cluster takes it a while, and this thread has other things to do.
            let planned = {
                let blueprint = std::sync::Arc::clone(blueprint);
                spawn_blocking(move || planner::plan(&blueprint, &Facts::default(), limits, &wish)).await
            };
            let plan = planned
                .expect("the planner does not panic")
                .map_err(|all| Refused::conflict(named(&objections(&all), blueprint)))?;
            let Some(steps) = plan.operations().into_iter().next() else { return Ok(view(&plan, blueprint, None, 0)) };
            let (id, count) = (blueprint.next_operation, steps.len());
            let command = Command::PlanOperation { id, by: format!("{by}: {words}"), steps };
            match self.meta.propose(command).await {
                Ok(applied) => {
                    self.until_acted_on(applied.epoch).await;
                    return Ok(view(&plan, blueprint, Some(id), count));
                }
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

    pub(super) async fn act(&self, id: &str, act: &str, why: String) -> Result<Epoch, Refused> {
        let number = id.strip_prefix('o').unwrap_or(id).parse().map(OperationId);
        let id = number.map_err(|_| {
            Refused::new(StatusCode::BAD_REQUEST, format!("'{id}' is no operation: they are called o1, o2, …"))
        })?;
        let command = match act {
            "apply" => Command::ApplyOperation { id },
            "pause" => Command::PauseOperation { id },
            "resume" => Command::ResumeOperation { id },
            "cancel" => {
                let why = if why.is_empty() { "somebody asked for it".into() } else { why };
                Command::CancelOperation { id, why }
            }
            _ => return Err(Refused::new(StatusCode::NOT_FOUND, "apply, pause, resume or cancel")),
        };
        match self.meta.propose(command).await {
            Ok(applied) => {
                self.until_acted_on(applied.epoch).await;
                Ok(applied.epoch)
            }
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
        let known = self.views().await.unwrap_or_default();
        let planned = known.into_iter().find(|view| view.id == id.to_string() && view.state == "planned");
        let Some(planned) = planned else { return Refused::conflict(why) };
        match self.plan(&planned.by, &planned.asked, Limits::default()).await {
            Ok(PlanView { id: Some(new), text, .. }) => Refused::conflict(format!(
                "{id} does not fit any more: {why}. Planned again as {new}, not applied:\n\n{text}"
            )),
            Ok(PlanView { id: None, text, .. }) => {
                Refused::conflict(format!("{id} does not fit any more: {why}. By now: {text}"))
            }
            Err(refused) => refused,
        }
    }

    /// What each operation waits for, as the coordinator of this node sees it; and how much of their copies nodes have.
    pub(super) async fn views(&self) -> Option<Vec<OperationView>> {
        self.post
            .ask_desk(|driver| {
                let desk = driver.desk.borrow();
                let blueprint = desk.blueprint();
                let mut waits: BTreeMap<OperationId, Vec<String>> = BTreeMap::new();
                for wait in desk.coordinator().waits() {
                    // The coordinator may know more than this node acts on: what it says of another step would confuse.
                    if let Subject::Operation { id, step } = wait.about
                        && blueprint.operations.get(&id).is_some_and(|operation| operation.at == step)
                    {
                        waits.entry(id).or_default().push(named(&wait.to_string(), blueprint));
                    }
                }
                let own: BTreeMap<BucketId, u32> = desk.rows().map(|(bucket, row)| (bucket, row.missing)).collect();
                let filled = |node: NodeId, bucket: BucketId| {
                    let missing = match node == driver.me {
                        true => own.get(&bucket).copied(),
                        false => desk.directory().row(node, bucket).map(|row| row.missing),
                    };
                    let slots = blueprint.buckets.get(&bucket)?.slots.len();
                    Some(1.0 - f64::from(missing?) / f64::from(slots.max(1)))
                };
                let view = |operation: &Operation| {
                    let waits = waits.remove(&operation.id).unwrap_or_default();
                    operation_view(operation, blueprint, waits, &filled)
                };
                blueprint.operations.values().map(view).collect()
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

fn operation_view(
    operation: &Operation,
    blueprint: &Blueprint,
    waits: Vec<String>,
    filled: &dyn Fn(NodeId, BucketId) -> Option<f64>,
) -> OperationView {
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
        let is_begun = at >= operation.at as usize && operation.is_under_way();
        let (what, node) = match step {
            Step::Enlist { node, .. } => (format!("enlist {}", name(node)), None),
            Step::AwaitSeated { node, .. } => (format!("seat {}", name(node)), Some(*node)),
            Step::HandOver { to, .. } => (format!("hand over to {}", name(to)), None),
            Step::Dismiss { node, .. } => (format!("dismiss {}", name(node)), None),
            Step::Repair { from: None, .. } => ("repaired: its data is lost".to_owned(), None),
            Step::Repair { from: Some(node), .. } => {
                (format!("repaired from the copy of {}: what came later is lost", name(node)), None)
            }
            Step::AwaitRestart { node, .. } => (format!("restart of {}", name(node)), None),
            Step::Split { child, slots, .. } => (format!("split off {child} with slots {slots}"), None),
        };
        let bucket = step.bucket();
        let filled = node.filter(|_| is_begun).and_then(|node| filled(node, bucket));
        StepView { bucket: bucket.to_string(), what, filled }
    };
    OperationView {
        id: operation.id.to_string(),
        by: by.to_owned(),
        asked: asked.to_owned(),
        state: state.to_owned(),
        why,
        done: operation.at as usize,
        steps: operation.steps.iter().enumerate().map(step).collect(),
        waits,
        restart: to_restart(operation, blueprint),
    }
}

fn to_restart(operation: &Operation, blueprint: &Blueprint) -> Option<String> {
    let running = operation.state == OperationState::Running;
    let Some(Step::AwaitRestart { node, life, .. }) = operation.step().filter(|_| running) else { return None };
    blueprint.nodes.get(node).filter(|known| known.life <= *life).map(|known| known.name.clone())
}

pub(super) async fn list(State(office): State<Office>) -> Response {
    office.views().await.map_or_else(unavailable, |views| Json(views).into_response())
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
    let why = reason.map(|Json(reason)| reason.why).unwrap_or_default();
    let acted = office.act(&id, &act, why).await;
    acted.map(|epoch| Json(json!({ "epoch": epoch.0 }))).into_response()
}
