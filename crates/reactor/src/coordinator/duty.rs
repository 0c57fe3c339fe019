//! Who of many coordinators is on duty. One runs in every node, but so many watchmen would do nothing but meet each other: each
//! probes everyone. A few are enough; the others stand by, read now and then how many are alive, and step in when too few are.
//!
//! Nobody is appointed. Whoever is on duty stays so until it sees enough of those alive whose ids are lower than its own. Whoever
//! stands by steps in when fewer than wanted are alive: the lowest id first, each next one `stagger` later, if it is still needed
//! then. So it does not matter who dies, nor whether all of those on duty die at once; and when two differ about who is alive, a
//! few too many are on duty for a while, which is harmless. Whoever runs beside the leader of the meta group is on duty in any case: it
//! hears of everything first.

use blueprint::{Conduct, CoordinatorId, Instant, NodeId, NodeState};

use super::balance::Balance;
use super::push::Pushes;
use super::turns::Turns;
use super::{Coordinator, Duration};

#[derive(Clone, Debug)]
pub(crate) struct Duty {
    post: Post,
    /// What the clock of the state said in the last reading, and since when, by this coordinator's own.
    clock: (Instant, Instant),
    /// Since when fewer than wanted are alive.
    short_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Post {
    /// It has read nothing yet, and knows nobody to speak to.
    New,
    OnDuty,
    StandingBy,
}

impl Duty {
    pub(crate) fn new(now: Instant) -> Self {
        Self { post: Post::New, clock: (Instant::ZERO, now), short_since: None }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.post != Post::StandingBy
    }
}

impl<C: Conduct> Coordinator<C> {
    /// False: it stands by, and says nothing to anybody.
    pub fn is_on_duty(&self) -> bool {
        self.duty.is_on()
    }

    /// How long until the next round, or until the next look at whether it is needed.
    pub(crate) fn pace(&self) -> Duration {
        let idle = !self.duty.is_on() && self.duty.short_since.is_none();
        if idle { self.config.refresh } else { self.config.period }
    }

    /// After each reading.
    pub(crate) fn review_duty(&mut self, now: Instant) {
        let was_on = self.duty.is_on();
        self.duty.post = if self.is_needed(now) { Post::OnDuty } else { Post::StandingBy };
        match (was_on, self.duty.is_on()) {
            (false, true) => {
                self.watch.begin_anew();
                self.due = now;
            }
            (true, false) => {
                self.watch.begin_anew();
                (self.pushes, self.turns) = (Pushes::default(), Turns::default());
                self.balance = Balance::default();
                self.said.clear();
                self.waits.clear();
                self.due = now + self.pace();
            }
            (true, true) | (false, false) => {}
        }
    }

    fn is_needed(&mut self, now: Instant) -> bool {
        let (me, wanted) = (self.config.me, self.config.wanted);
        if self.duty.clock.0 != self.state.clock {
            self.duty.clock = (self.state.clock, now);
        }
        // 1. Everyone on duty dies at once. 2. Nobody says anything to the meta group any more, so its clock stands still, and their
        // reports would count for ever.
        let stands_still = now.since(self.duty.clock.1) > self.config.lifetime;
        let blueprint = &self.state.blueprint;
        // Whoever runs in a node that departed is cut off from most, and would keep on saying that these are silent. One that runs by
        // itself bears no node's number.
        let gone =
            |id: CoordinatorId| blueprint.nodes.get(&NodeId(id.0)).is_some_and(|n| n.state == NodeState::Departed);
        let alive = |id: &CoordinatorId| *id != me && !stands_still && !gone(*id);
        let mut others = self.state.reports.coordinators().filter(alive);
        let present = || blueprint.nodes.keys().copied().filter(|node| blueprint.is_present(*node));
        if gone(me) {
            self.duty.short_since = None;
            return others.next().is_none();
        }
        if present().count() <= wanted || self.leads_meta {
            return true;
        }
        if self.duty.post == Post::OnDuty {
            self.duty.short_since = None;
            return others.filter(|id| *id < me).count() < wanted;
        }
        if others.count() >= wanted {
            self.duty.short_since = None;
            return false;
        }
        let since = *self.duty.short_since.get_or_insert(now);
        let is_before = |id: CoordinatorId| id < me && (stands_still || self.state.reports.get(id).is_none());
        let before = present().filter(|node| is_before(CoordinatorId(node.0))).count() as u32;
        now.since(since) >= self.config.stagger * before
    }
}
