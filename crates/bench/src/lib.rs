//! Side by side: the same work for Godwit and for what people use today, on one machine, in turns.
//!
//! It is a client and a starter of processes, and knows of no server more than its command line and its protocol. Every server is started here
//! with the settings that a row asks for (`peers/`), all are asked by the same load generator (`load/`), one after the other and over again,
//! and compared round by round (`statistics.rs`). A row (`rows/`) is a question, what each side promises with its answer, and the
//! bars that Godwit must reach. It ends what it started, and nothing else.

mod chart;
mod client;
mod compare;
mod error;
pub mod load;
mod peers;
mod results;
mod rows;
mod show;
mod statistics;
mod system;

pub use chart::chart;
pub use compare::{HIGHEST_BASE_PORT, Report, Settings, compare, rows_named};
pub use error::Error;
pub use peers::{Binary, Missing, Peer, end_everything, find};
pub use results::{Bar, Cell, Measure, Reading, Results, Side, Wanted};
pub use rows::{ROWS, Row};
pub use show::{bars as show_bars, row as show_row};
pub use statistics::Summary;
pub use system::{Machine, raise_file_limit};
