//! The world that tries to break it.

pub mod changes;
pub mod checkers;
pub mod chronicle;
pub mod clients;
pub mod conductor;
pub mod explore;
pub mod faults;
pub mod host;
pub mod hunt;
pub mod matrix;
pub mod meta;
pub mod network;
pub mod panics;
pub mod plan;
pub mod planning;
pub mod report;
pub mod rng;
pub mod runner;
pub mod sabotage;
pub mod scale;
pub mod shrink;
pub mod tally;
pub mod trace;
pub mod traffic;
pub mod vigil;
pub mod world;
