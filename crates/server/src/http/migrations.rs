//! Operations that clients ask for in the words of Redis and Valkey: the same plans, applied at once.

use blueprint::{Blueprint, NodeId, Slot, SlotSet, Step};
use planner::Limits;

use super::operations::Reason;
use super::{Office, OperationView, wish};

/// Who asked, as the blueprint keeps it; the node that was asked comes after it.
const ASKED_BY: &str = "CLUSTER MIGRATESLOTS on ";

/// Slots that a node is to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) slots: SlotSet,
    pub(crate) to: NodeId,
}

/// What became of one move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    /// Of the operation that it is part of.
    pub(crate) operation: String,
    /// Which of that operation's moves it is.
    pub(crate) number: usize,
    pub(crate) slots: SlotSet,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// `running`, `paused`, `done`, `failed` or `cancelled`.
    pub(crate) state: String,
    /// Steps that came true.
    pub(crate) done: usize,
    pub(crate) phase: Phase,
    pub(crate) message: String,
}

/// What kind of step an operation is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Splits, and somebody is to get a copy.
    Begins,
    Copies,
    HandsOver,
    CleansUp,
}

impl Migration {
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.state.as_str(), "running" | "paused")
    }
}

impl Office {
    /// Plans and applies. An error is what the client is told; then nothing was begun.
    async fn do_now(&self, by: &str, wish: &str) -> Result<Done, String> {
        let (plan, _) = self.draw_up(by, wish, Limits::default()).await.map_err(|refused| refused.text)?;
        let Some(id) = plan.id else { return Ok(Done::NothingToDo) };
        if plan.left > 0 {
            let (steps, more) = (plan.steps, plan.left);
            return Err(format!(
                "that takes {steps} steps and {more} more, which is too much for one operation: ask for a part of it, or \
                 use 'godwit plan {wish}'"
            ));
        }
        self.order_here(&id, "apply", Reason::default()).await?;
        Ok(Done::Begun)
    }

    /// Clients of Redis and Valkey ask the same node what became of it: nobody else needs to know of it by then.
    async fn order_here(&self, id: &str, act: &str, reason: Reason) -> Result<(), String> {
        let epoch = self.order(id, act, reason).await.map_err(|refused| refused.text)?;
        self.until_known(epoch).await;
        Ok(())
    }

    /// This node leads what it has a copy of in this keyspace.
    pub(crate) async fn take_lead(self, keyspace: String) -> Result<(), String> {
        let name = self.house.name.clone();
        match self.do_now(&format!("CLUSTER FAILOVER on {name}"), &format!("take-lead {name} {keyspace}")).await? {
            Done::Begun => Ok(()),
            Done::NothingToDo => Err("You should send CLUSTER FAILOVER to a replica".into()),
        }
    }

    pub(crate) async fn migrate(self, keyspace: String, moves: Vec<Move>) -> Result<(), String> {
        let known = self.post.ask_desk(|driver| driver.desk.borrow().blueprint().clone()).await;
        let known = known.ok_or("this node is starting or stopping: ask again")?;
        let mut words = "migrate-slots".to_owned();
        for Move { slots, to } in &moves {
            let node = known.nodes.get(to).ok_or("a node was removed meanwhile: ask again")?;
            words.push_str(&format!(" {slots} {}", node.name));
        }
        let by = format!("{ASKED_BY}{}", self.house.name);
        match self.do_now(&by, &format!("{words} {keyspace}")).await? {
            Done::Begun => Ok(()),
            Done::NothingToDo => Err("Slots are not served by this node.".into()),
        }
    }

    /// Those that clients asked of this node, or that bring something here.
    pub(crate) async fn migrations(self) -> Option<Vec<Migration>> {
        let views = self.views(None).await?;
        self.post
            .ask_desk(move |driver| {
                let desk = driver.desk.borrow();
                let all = views.iter().rev().flat_map(|view| moves_of(view, desk.blueprint()));
                all.filter(|migration| migration.from == driver.me || migration.to == driver.me).collect()
            })
            .await
    }

    /// Those that were asked of this node. An error is what the client is told.
    pub(crate) async fn cancel_migrations(self) -> Result<(), String> {
        let (me, all) = (self.house.me, self.clone().migrations().await.unwrap_or_default());
        let mut ids: Vec<String> =
            all.into_iter().filter(|one| one.from == me && one.is_under_way()).map(|one| one.operation).collect();
        ids.dedup();
        if ids.is_empty() {
            return Err("No migrations ongoing".into());
        }
        for id in ids {
            let why = "CLUSTER CANCELSLOTMIGRATIONS".to_owned();
            self.order_here(&id, "cancel", Reason { why, ..Reason::default() }).await?;
        }
        Ok(())
    }
}

enum Done {
    Begun,
    NothingToDo,
}

/// What an operation moves, if a client asked for it by `CLUSTER MIGRATESLOTS` and it was begun.
fn moves_of(view: &OperationView, blueprint: &Blueprint) -> Vec<Migration> {
    let Some(from) = view.by.strip_prefix(ASKED_BY).and_then(|name| node_called(blueprint, name)) else {
        return Vec::new();
    };
    let id = blueprint.operations.keys().find(|id| id.to_string() == view.id);
    let step = id.and_then(|id| blueprint.operations[id].steps.get(view.done));
    let words: Vec<&str> = view.asked.split(' ').skip(1).collect();
    let one = |(number, pair): (usize, &[&str])| {
        let [ranges, name] = pair else { return None };
        Some(Migration {
            operation: view.id.clone(),
            number,
            slots: wish::slots(ranges).ok()?,
            from,
            to: node_called(blueprint, name)?,
            state: view.state.clone(),
            done: view.done,
            phase: phase(step),
            message: message(view),
        })
    };
    if view.state == "planned" { Vec::new() } else { words.chunks(2).enumerate().filter_map(one).collect() }
}

fn phase(step: Option<&Step>) -> Phase {
    match step {
        Some(Step::Split { .. } | Step::Enlist { .. }) => Phase::Begins,
        Some(Step::AwaitSeated { .. }) => Phase::Copies,
        Some(Step::HandOver { .. }) => Phase::HandsOver,
        _ => Phase::CleansUp,
    }
}

fn message(view: &OperationView) -> String {
    match view.state.as_str() {
        "paused" => format!("{} is paused: 'godwit resume {}' goes on with it", view.id, view.id),
        "running" => view.waits.first().cloned().unwrap_or_default(),
        _ => view.why.clone(),
    }
}

/// Whoever is called so, or was last.
fn node_called(blueprint: &Blueprint, name: &str) -> Option<NodeId> {
    let last = || blueprint.nodes.values().rev().find(|node| node.name == name);
    blueprint.node_named(name).or_else(last).map(|node| node.id)
}

/// As Valkey writes them.
pub(crate) fn ranges(slots: &SlotSet) -> String {
    let one = |(first, last): (Slot, Slot)| format!("{}-{}", first.0, last.0);
    slots.ranges().map(one).collect::<Vec<_>>().join(" ")
}
