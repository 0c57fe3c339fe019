//! Records gather in an open batch; `Flush` seals it into one write.

use alloc::vec::Vec;

use crate::durable::Record;
use crate::io::{Outbox, Output, WriteId};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Disk {
    open: WriteId,
    batch: Vec<Record>,
}

impl Disk {
    pub(crate) fn new() -> Self {
        Self { open: WriteId(1), batch: Vec::new() }
    }

    /// The write after which it is safe.
    pub(crate) fn push(&mut self, record: Record) -> WriteId {
        self.batch.push(record);
        self.open
    }

    /// Whether this write was ever issued: a driver may say nonsense, too.
    pub(crate) fn has_issued(&self, id: WriteId) -> bool {
        id < self.open
    }

    pub(crate) fn seal(&mut self, out: &mut Outbox) {
        if !self.batch.is_empty() {
            out.push(Output::Write { id: self.open, records: core::mem::take(&mut self.batch) });
            self.open.0 += 1;
        }
    }
}
