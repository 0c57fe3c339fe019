//! What is to be done so that a wish about the cluster comes true: the least possible, step by step, and why.
//!
//! A plan is a function of a blueprint, of what is known about sizes, and of a wish. It is made in three strokes: the cluster is drawn
//! as it is (`sketch`); the sketch is changed until it is as wished (`wishes`, with the help of `even_out` and `leaders`); and from the
//! difference between the two follow the steps and their order (`schedule`).
//!
//! What holds for every plan:
//!
//! - No bucket ever has fewer members than wanted, unless it began with fewer: who comes is seated before anybody goes.
//! - No bucket has two copies on one node; nor in one zone, as far as there are zones enough.
//! - Nothing moves that could stay. Adding a node moves its share and no more; removing one moves what it held.
//! - At most [`Limits::buckets_at_once`] buckets are under way at any time.
//! - The same input gives the same plan.
#![no_std]

extern crate alloc;

mod draft;
mod even_out;
mod leaders;
mod loads;
mod objection;
mod place;
mod plan;
mod schedule;
mod show;
mod sketch;
mod wish;
mod wishes;
mod words;
mod worth;
mod zones;

pub use draft::plan;
pub use objection::{Buckets, Objection};
pub use place::place;
pub use plan::{Plan, PlannedStep, Summary};
pub use wish::{Facts, Limits, Wish};
pub use worth::rebalance_if_worth;
