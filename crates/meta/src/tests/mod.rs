//! What cannot be seen from outside.

mod faults;
mod files;
mod storage;
