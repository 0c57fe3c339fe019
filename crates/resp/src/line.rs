//! Lines that may not have arrived completely.

/// Looks for the end of a line, and no byte twice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seeker {
    /// Before here there is none.
    sought: usize,
}

impl Seeker {
    /// Where the next `byte` at or after `from` is. Until it has arrived, the question must stay the same.
    pub(crate) fn find(&mut self, byte: u8, bytes: &[u8], from: usize) -> Option<usize> {
        let start = self.sought.max(from);
        let found = bytes.get(start..)?.iter().position(|other| *other == byte).map(|at| start + at);
        self.sought = if found.is_some() { 0 } else { bytes.len() };
        found
    }
}
