//! One node, machine by machine and without a cluster around it.

mod lanes;
mod small;
mod splits;
