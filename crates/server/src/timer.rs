//! When a machine wants to be woken, on the clock that it is told by (R5).
//!
//! Waking up is most of what a node costs that has nothing to do. So a thread does all that is due whenever it is awake; its upkeep
//! waits for something else that is due soon; and the nodes of one machine, which have the same ticks, do not all wake by
//! themselves: the first one's words wake the others, who answer and say their own in one breath.
//!
//! The timer is not one of tokio's: their wheel wakes a thread once more on the way to whatever is further off than 64 ms.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use blueprint::{Instant, NodeId};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Who is woken no later than this is in time.
const IN_TIME: Duration = Duration::from_millis(20);
/// The first of the nodes wakes in time, the last so much later.
const LATEST: Duration = Duration::from_millis(2);

/// When a machine is to be woken.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: Timer,
    /// What is later than it should be, at most.
    delay: Duration,
    /// How long upkeep may wait for something else.
    patience: Duration,
    due: Cell<Instant>,
}

impl Alarm {
    /// Must be called within a runtime.
    pub(crate) fn new(node: NodeId, patience: Duration) -> io::Result<Self> {
        let delay = LATEST * (node.0 % 8) as u32 / 8;
        Ok(Self { timer: Timer::new()?, delay, patience, due: Cell::new(Instant::NEVER) })
    }

    /// The machine wants to be woken at the first of these.
    pub(crate) fn set(&self, pressing: Instant, upkeep: Instant) {
        let waits = upkeep < pressing && pressing.since(upkeep) <= self.patience;
        let due = if waits { pressing } else { pressing.min(upkeep) };
        if due != self.due.replace(due) {
            self.timer.set(due + self.delay);
        }
    }

    /// When the machine wanted to be woken, if it is to be woken now. Once: then the alarm is to be set again.
    pub(crate) fn take(&self, now: Instant) -> Option<Instant> {
        let due = self.due.get();
        if now < due {
            return None;
        }
        self.due.set(Instant::NEVER);
        Some(due)
    }

    pub(crate) async fn goes_off(&self) {
        self.timer.goes_off().await;
    }
}

/// What a machine that holds no leases is told of the time when it is woken, if it was told `told` before: that it was woken in time, if
/// that is nearly so. Otherwise what it does every so often would come a little later each time, and soon at another time than
/// everything else.
pub(crate) fn as_if_in_time(due: Instant, now: Instant, told: Instant) -> Instant {
    if now.since(due) <= IN_TIME { due.max(told) } else { now }
}

#[derive(Debug)]
pub(crate) struct Timer {
    file: AsyncFd<OwnedFd>,
}

impl Timer {
    /// Must be called within a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let file = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(deprecated, reason = "its successor is unsafe, for the sake of files that are not ours alone")]
        let file = AsyncFd::with_interest(file, Interest::READABLE)?;
        Ok(Self { file })
    }

    /// It goes off then, and at no other time that it was set to.
    pub(crate) fn set(&self, at: Instant) {
        let at = match at {
            Instant::NEVER => Timespec::default(),
            // A little later, as 0 would be never.
            Instant(micros) => {
                Timespec { tv_sec: (micros / 1_000_000) as i64, tv_nsec: (micros % 1_000_000 * 1_000) as i64 + 1 }
            }
        };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: at };
        timerfd_settime(self.file.get_ref(), TimerfdTimerFlags::ABSTIME, &once).expect("a time of this clock");
    }

    /// Returns when it has gone off since this was last asked. It may be set to another time by then.
    pub(crate) async fn goes_off(&self) {
        // Nothing is read: when it goes off again that is news to the runtime, whatever became of the last time.
        self.file.readable().await.expect("the runtime of this thread runs").clear_ready();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn it_goes_off_in_time_again_and_again() {
        let timer = Timer::new().expect("a file");
        for millis in [0, 5, 80, 0, 1] {
            let at = clock::now() + Duration::from_millis(millis);
            timer.set(at);
            timer.goes_off().await;
            assert!(clock::now() >= at);
        }
        timer.set(Instant::ZERO);
        timer.goes_off().await;
        timer.set(clock::now() + 20 * MS);
        timer.set(Instant::NEVER);
        let once_more = tokio::time::timeout(40 * MS, timer.goes_off());
        assert!(once_more.await.is_err(), "it is not set any more");
    }

    #[tokio::test]
    async fn upkeep_waits_for_what_is_due_soon_and_for_nothing_else() {
        let alarm = Alarm::new(NodeId(0), 100 * MS).expect("a file");
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        let due = |pressing, upkeep| {
            alarm.set(at(pressing), at(upkeep));
            alarm.due.get()
        };
        assert_eq!(due(1000, 1200), at(1000));
        assert_eq!(due(1000, 900), at(1000));
        assert_eq!(due(1000, 899), at(899));
        alarm.set(Instant::NEVER, at(7));
        assert_eq!(alarm.due.get(), at(7));
    }

    #[tokio::test]
    async fn an_alarm_is_taken_once() {
        let alarm = Alarm::new(NodeId(0), 100 * MS).expect("a file");
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        alarm.set(at(100), at(300));
        assert_eq!([99, 113, 114].map(|millis| alarm.take(at(millis))), [None, Some(at(100)), None]);
    }

    #[test]
    fn a_little_late_is_in_time_and_time_does_not_go_back() {
        let told = |due: u64, now: u64, told: u64| {
            let [due, now, told] = [due, now, told].map(|millis| Instant::ZERO + Duration::from_millis(millis));
            as_if_in_time(due, now, told).0 / 1_000
        };
        assert_eq!(told(100, 113, 99), 100);
        assert_eq!(told(200, 290, 104), 290, "that is late");
        assert_eq!(told(303, 305, 304), 304, "it was told that before");
    }
}
