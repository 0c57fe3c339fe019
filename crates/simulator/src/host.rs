//! One machine: its clock, its disk, and the process that runs on it, if any.

use std::collections::VecDeque;

use blueprint::{Instant, NodeId};
use node::{BatchId, Input, Node, NodeDurable, NodeRecord, Output};

/// A clock that drifts: local = offset + true × rate.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub offset: u64,
    /// Parts per million faster (or slower) than true time.
    pub drift: i64,
    /// What the wall clock shows at true time zero, in microseconds; it may be hours off, and jump.
    pub wall: u64,
}

const MILLION: i128 = 1_000_000;

impl Clock {
    pub fn local(&self, time: u64) -> Instant {
        let rate = MILLION + i128::from(self.drift);
        Instant(self.offset + (i128::from(time) * rate / MILLION) as u64)
    }

    /// The first true time at which the local clock shows at least `at`.
    pub fn true_time(&self, at: Instant) -> u64 {
        if at == Instant::NEVER {
            return u64::MAX;
        }
        let rate = MILLION + i128::from(self.drift);
        let local = i128::from(at.0.saturating_sub(self.offset));
        (local * MILLION / rate) as u64 + 1
    }

    pub fn wall(&self, time: u64) -> u64 {
        self.wall + time
    }
}

/// What is safe, and what is only on its way.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    pub settled: NodeDurable,
    pub unsynced: VecDeque<(BatchId, Vec<NodeRecord>)>,
    /// When the sync under way ends, and the one after it.
    busy_until: u64,
    next_until: u64,
}

impl Disk {
    /// Group commit: what comes while a sync is under way is covered by the next one, all of it. Says when that ends.
    pub fn sync(&mut self, time: u64, latency: u64) -> u64 {
        if time >= self.next_until.max(self.busy_until) {
            self.busy_until = time + latency;
            return self.busy_until;
        }
        if time >= self.busy_until {
            self.busy_until = self.next_until; // the next one has begun meanwhile
        }
        if self.next_until <= self.busy_until {
            self.next_until = self.busy_until + latency;
        }
        self.next_until
    }

    pub fn stop(&mut self) {
        (self.busy_until, self.next_until) = (0, 0);
    }

    pub fn settle(&mut self, upto: BatchId) {
        while self.unsynced.front().is_some_and(|(id, _)| *id <= upto) {
            let (_, records) = self.unsynced.pop_front().expect("just looked");
            records.iter().for_each(|record| self.settled.absorb(record));
        }
    }
}

#[derive(Debug)]
pub struct Host<C> {
    pub id: NodeId,
    pub name: String,
    pub clock: Clock,
    pub disk: Disk,
    pub process: Process<C>,
    /// Counts processes: what was meant for an earlier one does not reach a later one.
    pub life: u32,
    pub inbox: Vec<Input>,
    /// When the inbox is looked at, if that is due.
    pub look_at: Option<u64>,
    /// A wake-up that is under way, to avoid scheduling many.
    pub wake_at: u64,
    pub paused_until: u64,
    /// The pause that is due falls between deciding and doing.
    pub freeze_next: Option<u64>,
    pub frozen: Vec<Output>,
    pub slow_until: u64,
    pub slow_disk_until: u64,
    pub down_since: u64,
    /// Neither asks nor hears the meta group until then.
    pub meta_cut_until: u64,
}

#[derive(Debug)]
pub enum Process<C> {
    Down,
    Up(Box<Node<C>>),
}

impl<C> Host<C> {
    pub fn node(&self) -> Option<&Node<C>> {
        match &self.process {
            Process::Up(node) => Some(node),
            Process::Down => None,
        }
    }

    pub fn is_up(&self) -> bool {
        matches!(self.process, Process::Up(_))
    }

    /// Would anyone who asks get an answer at `time`?
    pub fn responds(&self, time: u64) -> bool {
        self.is_up() && self.paused_until <= time
    }
}
