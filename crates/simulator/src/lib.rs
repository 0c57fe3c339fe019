//! The world that tries to break it.
pub mod history;
