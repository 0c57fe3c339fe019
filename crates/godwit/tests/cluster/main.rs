//! The real binary: clusters of real processes, killed, paused, cut off, filled up and shouted at. Nothing that was acknowledged may be
//! lost, whatever happens, and whoever comes with nonsense is told so.
//!
//! One program for all of it, so that they run beside each other: they mostly wait.

mod common;

mod bench;
mod by_itself;
mod clients;
mod dev;
mod faults;
mod full_disk;
mod garbage;
mod keyspaces;
mod migrations;
mod namespaces;
mod newcomers;
mod operations;
mod pipelines;
mod progress;
mod repair;
mod replacing;
mod settings;
mod starting;
mod voters;
