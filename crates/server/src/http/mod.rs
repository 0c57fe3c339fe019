//! HTTP: for programs and for the command line.

mod auto;
mod connections;
mod facts;
mod history;
mod migrations;
mod operations;
mod rate;
mod repair;
mod wish;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use blueprint::{Command, Durability, Epoch, Kind};
use journal::Journal;
use meta::{Embedded, Meta};
use reactor::coordinator::Subject;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

pub(crate) use self::connections::Limits;
pub(crate) use self::facts::Known;
pub use self::history::PastView;
pub(crate) use self::migrations::{Migration, Move, Phase, ranges};
pub use self::operations::{OperationView, PlanView, StepView};
pub use self::repair::RepairView;
pub use self::wish::KINDS;
use crate::clock;
use crate::door::{House, resident_bytes};
use crate::names::named;
use crate::post::Post;
use crate::status::{Facts, KeyspaceStatus, Status};

/// Who makes a keyspace wants to use it at once, through any node: so long the answer waits for those that have not heard of it.
const HEARSAY: Duration = Duration::from_secs(3);
const HEARSAY_PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(crate) struct Office {
    post: Post,
    meta: Embedded,
    house: Arc<House>,
    journal: Arc<Journal>,
}

impl Office {
    pub(crate) fn new(post: Post, meta: Embedded, house: Arc<House>, journal: Arc<Journal>) -> Self {
        Self { post, meta, house, journal }
    }

    async fn status(&self) -> Option<Status> {
        let meta = self.meta.status();
        let journal = match self.journal.state() {
            journal::State::Healthy => None,
            state => Some(format!("{state:?}")),
        };
        let known = Arc::clone(&self.meta.watch().borrow());
        self.post
            .ask_desk(move |driver| {
                let desk = driver.desk.borrow();
                // What this node acts on; before there is anything, what it has read.
                let acted = desk.blueprint();
                let blueprint = if acted.epoch >= known.blueprint.epoch { acted } else { &known.blueprint };
                let facts = Facts {
                    me: driver.me,
                    blueprint,
                    directory: desk.directory(),
                    own: desk.rows().map(|(bucket, row)| (bucket, *row)).collect(),
                    meta: &meta,
                    links_down: driver.wires.links.troubles(),
                    journal,
                };
                facts.status()
            })
            .await
    }

    /// Until every node that can be reached acts on that epoch, or did not for too long.
    async fn until_acted_on(&self, epoch: Epoch) {
        self.until(move |driver| {
            let (desk, me) = (driver.desk.borrow(), driver.me);
            let (blueprint, directory) = (desk.blueprint(), desk.directory());
            let mut others = blueprint.nodes.keys().filter(|node| **node != me && directory.is_reachable(**node));
            blueprint.epoch >= epoch && others.all(|node| directory.echoed(*node) >= epoch)
        })
        .await;
    }

    /// Until this node acts on that epoch, or did not for too long.
    async fn until_known(&self, epoch: Epoch) {
        self.until(move |driver| driver.desk.borrow().blueprint().epoch >= epoch).await;
    }

    async fn until(&self, is_so: impl Fn(&crate::desk::Driver) -> bool + Copy + Send + 'static) {
        let asked = async {
            while self.post.ask_desk(is_so).await == Some(false) {
                sleep(HEARSAY_PAUSE).await;
            }
        };
        let _some_are_slow = timeout(HEARSAY, asked).await;
    }

    async fn waits(&self) -> Vec<WaitView> {
        let mut waits = Vec::new();
        for lane in 0..self.post.lanes() {
            let found = self.post.ask_lane(lane, |driver| {
                let (now, lane) = (clock::now(), driver.lane.borrow());
                let view = |standing: &reactor::Standing| WaitView {
                    node: String::new(),
                    by: "node".into(),
                    bucket: standing.wait.bucket.map(|b| b.to_string()),
                    rule: standing.wait.rule.to_owned(),
                    waits_for: standing.wait.lacks.clone(),
                    because: standing.wait.because.to_owned(),
                    seconds: now.since(standing.since).as_secs_f64(),
                };
                lane.waits().map(view).collect::<Vec<_>>()
            });
            waits.extend(found.await.unwrap_or_default());
        }
        let coordinators = self.post.ask_desk(|driver| {
            let (now, desk) = (clock::now(), driver.desk.borrow());
            let view = |wait: reactor::coordinator::Wait| WaitView {
                node: String::new(),
                by: "coordinator".into(),
                bucket: match wait.about {
                    Subject::Bucket(bucket) => Some(bucket.to_string()),
                    _ => None,
                },
                rule: "coordinator".into(),
                waits_for: wait.to_string(),
                because: String::new(),
                seconds: now.since(wait.since).as_secs_f64(),
            };
            let blueprint = desk.blueprint();
            // What this node knows to be done with nobody waits for, even if its coordinator has not read of it yet: it may be long until
            // the meta group answers.
            let is_open = |wait: &reactor::coordinator::Wait| match wait.about {
                Subject::Operation { id, step } => {
                    let known = blueprint.operations.get(&id);
                    known.is_none_or(|operation| !operation.is_over() && operation.at <= step)
                }
                Subject::Coordinator | Subject::Node(_) | Subject::Bucket(_) | Subject::Balance => true,
            };
            desk.coordinator().waits().into_iter().filter(is_open).map(view).collect::<Vec<_>>()
        });
        waits.extend(coordinators.await.unwrap_or_default());
        waits
    }
}

/// Something that waits, and for what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WaitView {
    /// Whoever asks several nodes notes here which one said it.
    #[serde(default)]
    pub node: String,
    /// `node` or `coordinator`.
    pub by: String,
    pub bucket: Option<String>,
    pub rule: String,
    pub waits_for: String,
    pub because: String,
    pub seconds: f64,
}

pub(crate) async fn serve(listener: TcpListener, office: Office) {
    let routes = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/blueprint", get(blueprint))
        .route("/v1/directory", get(directory))
        .route("/v1/why", get(why))
        .route("/v1/keyspaces", post(create_keyspace))
        .route("/v1/operations", get(operations::list).post(operations::plan))
        .route("/v1/operations/{id}", get(operations::one))
        .route("/v1/operations/{id}/{act}", post(operations::act))
        .route("/v1/auto-rebalance", get(auto::show).post(auto::set))
        .route("/v1/history", get(history::history))
        .route("/v1/repair/{bucket}", post(repair::repair))
        .route("/v1/openapi.json", get(openapi))
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(office);
    connections::serve(listener, routes, Limits::USUAL).await;
}

fn unavailable() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "this node is starting or stopping: ask again\n").into_response()
}

async fn status(State(office): State<Office>) -> Response {
    office.status().await.map_or_else(unavailable, |status| Json(status).into_response())
}

async fn blueprint(State(office): State<Office>) -> Response {
    let found = office.post.ask_desk(|driver| serde_json::to_value(&**driver.desk.borrow().blueprint())).await;
    match found {
        Some(Ok(value)) => Json(value).into_response(),
        Some(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        None => unavailable(),
    }
}

async fn directory(State(office): State<Office>) -> Response {
    let found = office.post.ask_desk(|driver| {
        let (now, desk) = (clock::now(), driver.desk.borrow());
        let rows = desk.directory().iter().map(|(node, seen)| {
            let buckets: BTreeMap<String, Value> =
                seen.buckets.iter().map(|(b, row)| (b.to_string(), json!(row))).collect();
            json!({
                "node": node.to_string(),
                "reachable": seen.reachable,
                "age_seconds": now.since(seen.heard).as_secs_f64(),
                "echoed": seen.node.echoed.0,
                "buckets": buckets,
            })
        });
        rows.collect::<Vec<_>>()
    });
    found.await.map_or_else(unavailable, |rows| Json(rows).into_response())
}

#[derive(Deserialize)]
struct About {
    bucket: Option<String>,
}

async fn why(State(office): State<Office>, Query(about): Query<About>) -> Response {
    let mut waits = office.waits().await;
    if let Some(bucket) = about.bucket {
        let bucket = format!("b{}", bucket.trim_start_matches('b'));
        waits.retain(|wait| wait.bucket.as_ref() == Some(&bucket));
    }
    Json(waits).into_response()
}

/// Ready: it acts on a blueprint, and all that it is to lead it serves.
async fn ready(State(office): State<Office>) -> Response {
    let Some(status) = office.status().await else { return unavailable() };
    let unserved = status.buckets.iter().filter(|b| b.primary == status.name && !b.serving).count();
    match (status.epoch, unserved) {
        (0, _) => (StatusCode::SERVICE_UNAVAILABLE, "no blueprint yet\n").into_response(),
        (_, 0) => "ready\n".into_response(),
        (_, n) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{n} buckets that it leads do not serve yet\n")).into_response()
        }
    }
}

#[derive(Deserialize)]
struct NewKeyspace {
    name: String,
    #[serde(default = "three")]
    replicas: u8,
    #[serde(default = "sixty_four")]
    buckets: u16,
    #[serde(default)]
    memory: bool,
}

fn three() -> u8 {
    3
}

fn sixty_four() -> u16 {
    64
}

async fn create_keyspace(State(office): State<Office>, Json(wanted): Json<NewKeyspace>) -> Response {
    let state = match office.meta.read().await {
        Ok(state) => state,
        Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    };
    let (buckets, replicas) = (usize::from(wanted.buckets), wanted.replicas);
    let placement = match planner::place(&state.blueprint, &planner::Facts::default(), buckets, replicas) {
        Ok(placement) => placement,
        Err(why) => {
            let why = operations::objections(&why);
            return (StatusCode::CONFLICT, format!("{}\n", named(&why, &state.blueprint))).into_response();
        }
    };
    let command = Command::CreateKeyspace {
        name: wanted.name,
        kind: Kind::Store,
        replicas: wanted.replicas,
        min_in_sync: None,
        durability: if wanted.memory { Durability::Memory } else { Durability::Disk },
        placement,
    };
    match office.meta.propose(command).await {
        Ok(applied) => {
            office.until_acted_on(applied.epoch).await;
            Json(json!({ "epoch": applied.epoch.0 })).into_response()
        }
        Err(error) => (StatusCode::CONFLICT, format!("{error}\n")).into_response(),
    }
}

async fn metrics(State(office): State<Office>) -> Response {
    let Some(status) = office.status().await else { return unavailable() };
    let counts = office.journal.counts();
    let house = &office.house;
    let mut text = String::new();
    let mut put = |name: &str, kind: &str, help: &str, value: f64| {
        text.push_str(&format!("# HELP godwit_{name} {help}\n# TYPE godwit_{name} {kind}\ngodwit_{name} {value}\n"));
    };
    let count = |n: usize| n as f64;
    put("epoch", "gauge", "The blueprint that this node acts on.", status.epoch as f64);
    put("problems", "gauge", "What somebody should look at.", count(status.problems.len()));
    put(
        "nodes_present",
        "gauge",
        "Nodes that count as present.",
        count(status.nodes.iter().filter(|n| n.state == "present").count()),
    );
    put("buckets", "gauge", "Buckets in the blueprint.", count(status.buckets.len()));
    put(
        "buckets_serving",
        "gauge",
        "Buckets whose primary says that it serves.",
        count(status.buckets.iter().filter(|b| b.serving).count()),
    );
    put(
        "buckets_led",
        "gauge",
        "Buckets that this node leads.",
        count(status.buckets.iter().filter(|b| b.primary == status.name).count()),
    );
    put("commands_total", "counter", "Commands of clients.", house.commands.load(Ordering::Relaxed) as f64);
    put("connections_total", "counter", "Connections of clients.", house.connections.load(Ordering::Relaxed) as f64);
    put("clients", "gauge", "Clients that are connected.", house.clients.load(Ordering::Relaxed) as f64);
    put("resident_bytes", "gauge", "Memory of this process.", resident_bytes() as f64);
    put("uptime_seconds", "counter", "Since this process began to serve.", house.started.elapsed().as_secs_f64());
    put("journal_syncs_total", "counter", "Syncs of the journal.", counts.syncs as f64);
    put("journal_batches_total", "counter", "Batches that went through the journal's writer.", counts.batches as f64);
    put(
        "journal_direct_total",
        "counter",
        "Batches that lanes wrote themselves, at level memory.",
        counts.direct as f64,
    );
    put("journal_segments_recycled_total", "counter", "Segments that became free.", counts.recycled as f64);
    text += &metrics_of_keyspaces(&status);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

fn metrics_of_keyspaces(status: &Status) -> String {
    let label = |name: &str| name.replace('\\', r"\\").replace('"', r#"\""#);
    let gauge = |name: &str, help: &str, value: fn(&KeyspaceStatus) -> usize| {
        let row = |of: &KeyspaceStatus| format!("godwit_{name}{{keyspace=\"{}\"}} {}\n", label(&of.name), value(of));
        let rows: String = status.keyspaces.iter().map(row).collect();
        format!("# HELP godwit_{name} {help}\n# TYPE godwit_{name} gauge\n{rows}")
    };
    [
        gauge("keyspace_buckets", "Buckets of a keyspace.", |of| of.buckets),
        gauge("keyspace_buckets_serving", "Those whose primary says that it serves.", |of| of.serving),
        gauge("keyspace_replicas", "Copies wanted of each of its buckets.", |of| of.replicas.into()),
    ]
    .concat()
}

async fn openapi() -> Json<Value> {
    let json_answer = |what: &str| json!({ "200": { "description": what, "content": { "application/json": {} } }, "503": { "description": "starting or stopping" } });
    let read = |what: &str| json!({ "get": { "summary": what, "responses": json_answer(what) } });
    let why = json!({ "get": { "summary": "What waits, and for what.",
        "parameters": [{ "name": "bucket", "in": "query", "required": false, "schema": { "type": "string" } }],
        "responses": json_answer("A list of waits.") } });
    let text = |what: &str| json!({ "get": { "summary": what, "responses": { "200": { "description": what }, "503": { "description": "not yet" } } } });
    let create = json!({ "post": { "summary": "Makes a keyspace.",
        "requestBody": { "required": true, "content": { "application/json": { "schema": { "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string" }, "replicas": { "type": "integer", "default": 3 },
            "buckets": { "type": "integer", "default": 64 }, "memory": { "type": "boolean", "default": false } } } } } },
        "responses": { "200": { "description": "It is there; the epoch in which." }, "409": { "description": "Refused: why." } } } });
    let operations = json!({
        "get": { "summary": "Topology changes: planned, under way, and the last that are over.", "responses": json_answer("A list of operations.") },
        "post": { "summary": "Plans a change, and shows what it would do; nothing is done before it is applied.",
            "requestBody": { "required": true, "content": { "application/json": { "schema": { "type": "object", "required": ["wish"], "properties": {
                "wish": { "type": "string", "example": "replace-node node-2 node-6" }, "by": { "type": "string" },
                "at_once": { "type": "integer", "default": 4 } } } } } },
            "responses": { "200": { "description": "The plan, and the id to apply it by." }, "400": { "description": "Not understood." }, "409": { "description": "Refused: why." } } } });
    let one = json!({ "get": { "summary": "One of them: how far it is, in steps and bytes, and what it waits for.",
        "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }],
        "responses": { "200": { "description": "The operation." }, "404": { "description": "There is none of that name, or not any more." } } } });
    let act = json!({ "post": { "summary": "Applies what was planned; pauses, resumes, throttles or cancels what is under way.",
        "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
            { "name": "act", "in": "path", "required": true, "schema": { "type": "string", "enum": ["apply", "pause", "resume", "throttle", "cancel"] } }],
        "requestBody": { "required": false, "content": { "application/json": { "schema": { "type": "object", "properties": {
            "why": { "type": "string", "description": "of a cancel" }, "rate": { "type": "string", "description": "of a throttle: 20MB/s, or off" } } } } } },
        "responses": { "200": { "description": "So it is, from this epoch on." }, "409": { "description": "Refused: why. A plan that does not fit any more is made anew, and shown." } } } });
    let history = json!({ "get": { "summary": "What became of the cluster: operations, nodes, keyspaces; the oldest first.",
        "parameters": [{ "name": "last", "in": "query", "required": false, "schema": { "type": "integer" } }],
        "responses": json_answer("A list of what happened.") } });
    let auto = json!({
        "get": { "summary": "Whether the cluster rebalances by itself, who asked for that, and what came of it last.", "responses": json_answer("On or off.") },
        "post": { "summary": "From now on it does, or no longer does.",
            "requestBody": { "required": true, "content": { "application/json": { "schema": { "type": "object", "required": ["on"], "properties": {
                "on": { "type": "boolean" }, "by": { "type": "string" } } } } } },
            "responses": { "200": { "description": "So it is." }, "409": { "description": "Refused: why." } } } });
    let repair = json!({ "post": { "summary": "Unsafe: goes on with a bucket that lost every member. Without 'accept_data_loss', says what would be lost.",
        "parameters": [{ "name": "bucket", "in": "path", "required": true, "schema": { "type": "string" } }],
        "requestBody": { "content": { "application/json": { "schema": { "type": "object", "properties": {
            "accept_data_loss": { "type": "boolean", "default": false }, "by": { "type": "string" } } } } } },
        "responses": { "200": { "description": "What is lost, and the epoch, if it was done." }, "409": { "description": "Refused: why." } } } });
    Json(json!({
        "openapi": "3.0.3",
        "info": { "title": "Godwit", "version": env!("CARGO_PKG_VERSION") },
        "paths": {
            "/v1/status": read("How the cluster is, as this node sees it."),
            "/v1/blueprint": read("What should be."),
            "/v1/directory": read("What every node says about itself."),
            "/v1/why": why,
            "/v1/keyspaces": create,
            "/v1/operations": operations,
            "/v1/operations/{id}": one,
            "/v1/repair/{bucket}": repair,
            "/v1/operations/{id}/{act}": act,
            "/v1/history": history,
            "/v1/auto-rebalance": auto,
            "/metrics": text("For Prometheus."),
            "/healthz": text("The process runs."),
            "/readyz": text("All that this node is to lead it serves."),
        },
    }))
}
