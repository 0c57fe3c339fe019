//! Plans, carried out on a real blueprint.

mod bounds;
mod by_bytes;
mod by_itself;
mod least_movement;
mod objections;
mod placement;
mod properties;
mod texts;
mod wishes;
mod world;
mod zones;
