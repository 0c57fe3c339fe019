//! Whether the cluster rebalances by itself: asked for once, and kept in the blueprint until somebody takes it back.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use blueprint::Command;
use meta::Meta;
use serde::Deserialize;

use super::operations::Refused;
use super::{Office, unavailable};
use crate::status::AutoRebalanceView;

/// What it is called, wherever it is spoken of.
pub(super) const AUTO_REBALANCE: &str = "auto-rebalance";

#[derive(Deserialize)]
pub(super) struct Asked {
    on: bool,
    #[serde(default)]
    by: String,
}

pub(super) async fn show(State(office): State<Office>) -> Response {
    let view = office.post.ask_desk(|driver| AutoRebalanceView::of(driver.desk.borrow().blueprint())).await;
    view.map_or_else(unavailable, |view| Json(view).into_response())
}

pub(super) async fn set(State(office): State<Office>, Json(asked): Json<Asked>) -> Response {
    let by = if asked.by.is_empty() { "somebody".to_owned() } else { asked.by };
    match office.meta.propose(Command::SetAutoRebalance { on: asked.on, by }).await {
        Ok(applied) => {
            office.until_acted_on(applied.epoch).await;
            show(State(office)).await
        }
        Err(error) => Refused::from(error).into_response(),
    }
}
