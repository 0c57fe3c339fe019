//! Worlds of a few machines under one virtual clock: what chance does to them, what a planted bug does, and what they cost.

mod breaches;
mod chance;
mod cost;
mod dice;
mod history;
mod network;
mod world;
