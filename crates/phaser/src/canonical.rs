//! States that differ only in when they are: for whoever explores them.

use blueprint::{Conduct, Instant};

use crate::clock::DataClock;
use crate::durable::Record;
use crate::message::Message;
use crate::phaser::{Phaser, Role};

impl<C: Conduct> Phaser<C> {
    /// The same state with times as differences from `now` (what has passed is simply past), without the stamps that only
    /// execution reads, and with write ids and nonces that tell no history.
    pub fn canonical(&self, now: Instant) -> Self {
        let mut same = self.clone();
        for instant in same.instants() {
            *instant = shifted(*instant, now);
        }
        same.log = same.log.without_stamps();
        same.clock = DataClock::new(0, Instant::ZERO);
        same.forget_draws();
        same.absorptions = 0;
        same.disk.rename_writes();
        same.disk.records().for_each(strip_record);
        same
    }

    fn instants(&mut self) -> impl Iterator<Item = &mut Instant> {
        let role: alloc::vec::Vec<&mut Instant> = match &mut self.role {
            Role::Following => alloc::vec![],
            Role::Restarted { ask_at, .. } => alloc::vec![ask_at],
            Role::Ascending { not_before, .. } => alloc::vec![not_before],
            Role::Leading(leader) => leader.instants(),
        };
        let backlog = self.backlog.iter_mut().map(|w| &mut w.since);
        role.into_iter().chain(backlog).chain(self.grants.instants()).chain(self.disk.instants())
    }
}

impl Message {
    /// The same message, with times as differences from `now` and without stamps.
    pub fn canonical(mut self, now: Instant) -> Self {
        match &mut self {
            Self::Prepare { sent, entries, .. } => {
                *sent = shifted(*sent, now);
                *entries = entries.without_stamps();
            }
            Self::Prepared { sent, .. }
            | Self::Differs { sent, .. }
            | Self::Beacon { sent, .. }
            | Self::BeaconAck { sent, .. } => {
                *sent = shifted(*sent, now);
            }
            Self::Begin { clock, .. } => *clock = 0,
            Self::Outranked { .. } | Self::Fill { .. } | Self::Filled { .. } | Self::Abdicate { .. } => {}
        }
        self
    }
}

/// Far enough from zero that the past keeps its order; what lies further back than that is all the same.
const HORIZON: u64 = 10_000_000;

fn shifted(instant: Instant, now: Instant) -> Instant {
    if instant == Instant::ZERO || instant == Instant::NEVER {
        return instant;
    }
    Instant((instant.0 + HORIZON).saturating_sub(now.0))
}

pub(crate) fn strip_record(record: &mut Record) {
    match record {
        Record::Append { entries, .. } => *entries = entries.without_stamps(),
        Record::Found { clock, .. } | Record::StartOver { clock, .. } | Record::Cut { clock, .. } => *clock = 0,
        Record::Adopt(_) | Record::Promise(_) | Record::Commit(_) | Record::Save(_) | Record::Take(_) => {}
    }
}

impl Record {
    /// The same record without stamps.
    pub fn canonical(mut self) -> Self {
        strip_record(&mut self);
        self
    }
}
