//! What each wish makes of the sketch.

mod give;
mod leave;
mod one_bucket;
mod replicas;
mod restart;
mod slots;
mod spread;

pub(crate) use give::give_all;
