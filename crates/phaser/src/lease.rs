//! What this replica promised to whom (R5): the granting half of leases. The primary's half lives with its peers.

use alloc::vec::Vec;

use blueprint::{Breach, Conduct, Instant, Term};

/// Terms in which an unexpired lease may be remembered at once. Beyond it the two oldest become one, which only waits longer.
pub(crate) const MOST_GRANTS: usize = 8;

/// An abstention: this replica will not reign in any higher term before its time has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Grants {
    /// By term, oldest first.
    granted: Vec<(Term, Instant)>,
    /// After a restart: as if it had granted a lease at the very end, of a term that nobody can release.
    since_restart: Instant,
}

impl Grants {
    pub(crate) fn after_restart(until: Instant) -> Self {
        Self { granted: Vec::new(), since_restart: until }
    }

    /// It is known that an earlier life left nothing behind that it would have to wait for.
    pub(crate) fn forget_restart(&mut self) {
        self.since_restart = Instant::ZERO;
    }

    /// This replica answered the primary of `term`.
    pub(crate) fn grant(&mut self, term: Term, until: Instant) {
        match self.granted.iter_mut().find(|(t, _)| *t == term) {
            Some((_, u)) => *u = until.max(*u),
            None => self.granted.push((term, until)),
        }
        self.granted.sort_unstable();
        if self.granted.len() > MOST_GRANTS {
            let (_, until) = self.granted.remove(0);
            self.since_restart = self.since_restart.max(until);
        }
    }

    /// The primary of `term` reads no more in it.
    pub(crate) fn release<C: Conduct>(&mut self, term: Term) {
        if C::breaks(Breach::AbdicateWithoutTerm) {
            self.granted.clear();
        }
        self.granted.retain(|(t, _)| *t != term);
    }

    /// Accepting `Reign(term)` ends what was granted in lower terms: whoever reigns has waited for it.
    pub(crate) fn accept_reign(&mut self, term: Term) {
        self.granted.retain(|(t, _)| *t >= term);
    }

    /// From when on this replica may reign in `term`.
    pub(crate) fn free_at(&self, term: Term) -> Instant {
        let granted = self.granted.iter().filter(|(t, _)| *t < term).map(|(_, until)| *until);
        granted.fold(self.since_restart, Instant::max)
    }

    pub(crate) fn since_restart(&self) -> Instant {
        self.since_restart
    }

    pub(crate) fn instants(&mut self) -> impl Iterator<Item = &mut Instant> {
        self.granted.iter_mut().map(|(_, until)| until).chain(core::iter::once(&mut self.since_restart))
    }
}
