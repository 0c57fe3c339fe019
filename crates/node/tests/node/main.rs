//! One node, machine by machine and without a cluster around it.

mod hops;
mod keyspaces;
mod lanes;
mod repairs;
mod small;
mod splits;
mod words;
