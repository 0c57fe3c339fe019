//! How a replica comes to rule, goes on ruling, and stops.
//!
//! named primary → promise durable (R2, R4) → what it granted has run out (R5) → Reign appended → Reign committed → serves

use alloc::vec::Vec;

use blueprint::{Breach, Change, Conduct, Government, Instant, Term};

use crate::entries::Entries;
use crate::entry::Payload;
use crate::io::{Event, Outbox, Output, Refusal, View};
use crate::leader::Leader;
use crate::message::Message;
use crate::phaser::{Phaser, Role, Waiting};

impl<C: Conduct> Phaser<C> {
    pub(crate) fn on_view(&mut self, now: Instant, view: View, out: &mut Outbox) {
        if self.known.as_ref().is_some_and(|known| view.epoch <= known.epoch) {
            return;
        }
        let mut view = view;
        if let Some(known) = &self.known {
            if view.government.term < known.government.term {
                return; // no rightful blueprint goes back
            }
            if view.government.term == known.government.term {
                view.government = known.government.clone();
            }
        }
        let before = self.known.replace(view);
        let government = self.known.as_ref().expect("just set").government.clone();
        self.adopt_incarnation(&government);
        for parted in &mut self.splits {
            let known = self.known.as_ref().expect("just set");
            parted.registered |= known.children.iter().any(|(child, _)| *child == parted.child);
        }
        for joined in &mut self.joined {
            let known = self.known.as_ref().expect("just set");
            joined.told |= known.absorbed.contains(&(joined.bucket, joined.at));
        }
        self.take_registered(now, out);
        if before.as_ref().is_none_or(|b| government.term > b.government.term) {
            self.on_government(now, before.map(|b| b.government).as_ref(), &government, out);
        }
    }

    /// R10: named again while the data is still here. Whatever was said under the old name counts no more.
    fn adopt_incarnation(&mut self, government: &Government) {
        let Some(named) = government.named(self.me.node) else { return };
        if named.incarnation > self.me.incarnation {
            self.me = named;
            self.disk.promise = self.disk.push(&mut self.log, crate::durable::Record::Adopt(named.incarnation));
        }
    }

    fn on_government(&mut self, now: Instant, before: Option<&Government>, government: &Government, out: &mut Outbox) {
        if let Role::Leading(leader) = &mut self.role {
            if government.primary == self.me && government.since <= leader.term {
                leader.succession = Some(government.clone());
                if government.term > self.promised {
                    self.raise(government.term);
                }
                return self.try_succeed(now, out);
            }
            let led: Vec<Term> = leader.led.iter().copied().chain([leader.term]).collect();
            let heir = government.primary;
            self.step_down(now, out);
            if heir != self.me {
                led.into_iter().for_each(|term| out.send(self.me, heir, Message::Abdicate { term }));
            }
        }
        if government.primary == self.me {
            self.ascend(now, before, government, out);
        } else {
            self.role = Role::Following;
            self.forward_backlog(out);
        }
    }

    fn ascend(&mut self, now: Instant, before: Option<&Government>, government: &Government, out: &mut Outbox) {
        let term = government.term;
        if self.promised > term {
            self.role = Role::Following;
            return;
        }
        if self.promised < term {
            self.raise(term);
        } else if self.raised != Some(term) && !C::breaks(Breach::RestartedPrimaryResumes) {
            if self.has_reigned(government) || C::breaks(Breach::RestartForgetsItsWait) {
                self.grants.forget_restart();
            }
            self.role = Role::Restarted { term, ask_at: now };
            return self.on_restarted_timeout(now, out);
        }
        // A wait that has begun in this very rule goes on: the next term of it changes nothing about the former primary.
        let mut not_before = match self.role {
            Role::Ascending { term, not_before } if government.since <= term => not_before,
            _ => Instant::ZERO,
        };
        if self.may_be_heir(before, government) && !C::breaks(Breach::HeirReignsAtOnce) {
            not_before = now + self.config.abstention();
        }
        self.role = Role::Ascending { term, not_before };
        self.try_reign(now, out);
    }

    /// Did an earlier life of this replica reign in this rule, in the highest term that it promised? Then nobody holds a lease of it (R5): what
    /// it had granted before ran out before it reigned, those who led before it are refused since, and it answers nobody that leads after
    /// it without promising more. That it is named is not enough: 1. n2 answers n1's beacon; 2. n2 is named, promises, and waits; 3. it
    /// restarts, and n1 still reads. Only who leads a term makes entries of it, and it makes none before it has waited. (A child's log begins with
    /// an entry of its parent's; it has answered nobody from before that.)
    fn has_reigned(&self, government: &Government) -> bool {
        self.log.last().term >= government.since
    }

    /// Heirs are appointed only when no secondary is left (R9), and only the primary can add one. Who knows that it was a
    /// member just before was not an heir.
    fn may_be_heir(&self, before: Option<&Government>, government: &Government) -> bool {
        let was_member = before
            .is_some_and(|b| b.term >= government.since || (b.term.next() == government.since && b.is_member(self.me)));
        government.size() == 1 && government.since > Term(1) && !was_member
    }

    pub(crate) fn on_restarted_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if let Role::Restarted { term, ask_at } = &mut self.role
            && now >= *ask_at
        {
            *ask_at = now + self.config.retry;
            out.push(Output::Propose { term: *term, change: Change::Renew { primary: self.me } });
        }
    }

    pub(crate) fn try_reign(&mut self, now: Instant, out: &mut Outbox) {
        let Role::Ascending { term, not_before } = self.role else { return };
        let free_at = if C::breaks(Breach::NoWaitForLease) { Instant::ZERO } else { self.grants.free_at(term) };
        if !self.disk.is_promise_safe() || now < not_before.max(free_at) || !self.is_whole() {
            return;
        }
        let Some(view) = &self.known else { return };
        let government = view.government.clone();
        assert!(government.term == term && self.promised == term, "who ascends is named and has promised");
        if C::breaks(Breach::UsurpCarriesLastOnly) && self.log.last().index.0 > self.commit.0 + 1 {
            // The seed's "exchange a single message": only the last entry of the tail is carried over.
            self.carry_last_only(now);
        }
        if C::breaks(Breach::ClockRestartsUnderSuccessor) {
            self.clock.restart(now);
        }
        let reign = self.append_own(now, term, &Payload::Reign);
        out.event(Event::Reigned { term, at: reign });
        let parting = self.owned.difference(&self.owned_at_end());
        let mut leader = Leader::new(government, reign, parting, now, &self.config);
        leader.freezing = self.log_has_freeze();
        self.role = Role::Leading(leader);
        if C::breaks(Breach::ServesBeforeReign) {
            self.begin_serving(out);
        }
    }

    fn carry_last_only(&mut self, now: Instant) {
        self.disk.close(&mut self.log);
        let mut last = self.log.get(self.log.last().index).expect("above commit").to_entry();
        self.log.truncate(self.commit.next());
        self.disk.truncate(self.commit);
        self.proven = self.proven.min(self.commit);
        last.at.index = self.log.last().index.next();
        self.append(&Entries::from_iter([last]), now);
    }

    /// Gives the next index, stamps and journals.
    pub(crate) fn append_own(&mut self, now: Instant, term: Term, payload: &Payload) -> blueprint::Index {
        let (clock, seed) = self.stamp_own(now, term);
        if *payload == Payload::Reign {
            self.grants.accept_reign(term);
        }
        self.log.push(term, clock, seed, payload)
    }

    /// For an entry that this replica is about to append: with the next flush it is written and sent.
    pub(crate) fn stamp_own(&mut self, now: Instant, term: Term) -> (u64, u64) {
        if !self.log.is_open_to(term) {
            self.disk.close(&mut self.log);
        }
        (self.clock.stamp(now), self.draw())
    }

    /// A successor of the led term was seen and is ours too: go on in it once the promise is durable, without a new Reign (R4).
    pub(crate) fn try_succeed(&mut self, now: Instant, out: &mut Outbox) {
        let Role::Leading(leader) = &mut self.role else { return };
        if leader.succession.as_ref().is_none_or(|g| g.term > self.promised) || !self.disk.is_promise_safe() {
            return;
        }
        let government = leader.succession.take().expect("just looked");
        let ordered = leader.ordered.take();
        leader.adopt::<C>(government, self.log.last().index, now, &self.config);
        self.try_merge(now, out);
        self.serve_backlog(now, out);
        self.try_commit(now, out);
        if let Some(to) = ordered {
            self.on_hand_over(now, to, out);
        }
    }

    /// Leads no more, whatever the reason. What was appended stays unanswered here (R12), what was not goes elsewhere.
    pub(crate) fn step_down(&mut self, _now: Instant, out: &mut Outbox) {
        match core::mem::replace(&mut self.role, Role::Following) {
            Role::Following => return,
            Role::Restarted { .. } | Role::Ascending { .. } => {}
            Role::Leading(leader) => {
                out.event(Event::SteppedDown { term: leader.term });
                for (_, ticket) in leader.tickets {
                    if C::breaks(Breach::RedirectForAppended) {
                        out.push(Output::Forward { ticket });
                    } else {
                        out.push(Output::Uncertain { ticket });
                    }
                }
            }
        }
        self.forward_backlog(out);
    }

    pub(crate) fn forward_backlog(&mut self, out: &mut Outbox) {
        for waiting in self.backlog.drain(..) {
            out.push(Output::Forward { ticket: waiting.ticket });
        }
    }

    /// A request joins the backlog; beyond its bound it is refused.
    pub(crate) fn wait(&mut self, waiting: Waiting, out: &mut Outbox) {
        if self.backlog.len() >= self.config.backlog {
            out.push(Output::Refuse { ticket: waiting.ticket, why: Refusal::Busy });
        } else {
            self.backlog.push_back(waiting);
        }
    }
}
