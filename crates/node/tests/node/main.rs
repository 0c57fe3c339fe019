//! One node, machine by machine and without a cluster around it.

mod checkpoints;
mod hops;
mod keyspaces;
mod lanes;
mod repairs;
mod small;
mod splits;
mod words;
