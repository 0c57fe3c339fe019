//! What the cluster does by itself, if somebody has asked for that: the coordinator says when to look (`reactor`), the planner whether it
//! is worth anything, and the blueprint whether it is still so. Here they are brought together: what is known of sizes, a thread that may
//! take its time, and a proposal. Whatever goes wrong on the way, the coordinator asks again.

use std::rc::Rc;

use blueprint::{Command, Epoch};
use meta::Meta;
use planner::{Limits, rebalance_if_worth};
use tokio::task::{spawn_blocking, spawn_local};

use crate::desk::Driver;
use crate::http::Known;

impl Driver {
    /// One at a time.
    pub(crate) fn rebalance(self: &Rc<Self>, epoch: Epoch) {
        if self.weighing.replace(true) {
            return;
        }
        let driver = Rc::clone(self);
        spawn_local(async move {
            if let Some(command) = driver.weigh(epoch).await {
                match driver.meta.propose(command).await {
                    Ok(applied) => tracing::info!(epoch = %applied.epoch, "rebalances by itself"),
                    Err(error) => tracing::info!(%error, "would rebalance by itself, and does not"),
                }
            }
            driver.weighing.set(false);
        });
    }

    /// By the blueprint that this node acts on, if that is the one: whoever is behind would plan for nothing.
    async fn weigh(&self, epoch: Epoch) -> Option<Command> {
        let (blueprint, facts) = {
            let desk = self.desk.borrow();
            (desk.blueprint().clone(), Known::of(self, &desk).facts())
        };
        if blueprint.epoch != epoch {
            return None;
        }
        let id = blueprint.next_operation;
        let plan = spawn_blocking(move || rebalance_if_worth(&blueprint, &facts, Limits::default())).await;
        let plan = plan.inspect_err(|error| tracing::error!(%error, "the planner panicked")).ok()??;
        let steps = plan.operations().into_iter().next()?;
        tracing::info!(%id, summary = %plan.summary, "it is worth rebalancing");
        Some(Command::Rebalance { id, based_on: epoch, steps })
    }
}
