//! The coordinator: a loop without memory that watches the nodes and moves things forward.
//!
//! Any number of them run at once and never talk to each other. Each round one probes every node and reads what the meta group
//! keeps; from the two it decides everything anew: whom to report, who departs and who returns, which bucket of a departed node
//! passes to whom, which step of which operation is due, whether it is time to rebalance, and who has to be sent the blueprint. All that it writes is compared and
//! set where it is applied, so a coordinator that is late, cut off or wrong is refused, and two that do the same do it once.
//!
//! One runs in every node; a few of them are on duty (`duty.rs`).
//!
//! What it keeps besides answers to probes is only *when* it did something, so as not to repeat itself too soon. Losing all of it
//! costs a round.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::time::Duration;

use blueprint::{Breach, Conduct, Honest, Instant, MetaCommand, MetaState, NodeId, Refusal};

mod balance;
mod carry;
mod config;
mod departure;
mod duty;
mod io;
mod push;
mod report;
mod turns;
mod wait;
mod watch;

pub use config::{Config, Leisure};
pub use io::{Answer, Holding, Input, Order, Outbox, Output};
pub use wait::{Comes, Subject, Until, Wait};

use balance::Balance;
use duty::Duty;
use push::Pushes;
use turns::{Place, Turns};
use watch::Watch;

#[derive(Clone, Debug)]
pub struct Coordinator<C = Honest> {
    config: Config,
    /// The newest reading, and when it came.
    state: Arc<MetaState>,
    read_at: Instant,
    place: Place,
    /// What must not wait is its business, too, whoever's turn it is.
    leads_meta: bool,
    duty: Duty,
    round: u64,
    /// When the next round is to begin.
    due: Instant,
    watch: Watch,
    /// When it last said who is silent.
    reported_at: Option<Instant>,
    pushes: Pushes,
    turns: Turns,
    balance: Balance,
    /// What left lately: nothing is said twice within a period.
    said: Vec<(Output, Instant)>,
    /// Something was proposed that may lead to more: what came of it should be read soon.
    proposed: bool,
    /// How often this round may still read again.
    readings_left: u32,
    waits: BTreeMap<(Subject, Until), Instant>,
    waited: BTreeMap<(Subject, Until), Instant>,
    conduct: PhantomData<C>,
}

/// Steps of operations follow each other as fast as the meta group answers, but a round has an end.
const READINGS_PER_ROUND: u32 = 8;

impl<C: Conduct> Coordinator<C> {
    /// There is nothing durable to recover from. `seed` spreads the first rounds of several that start together.
    pub fn recover(config: Config, seed: u64, now: Instant) -> Self {
        config.check().expect("the configuration was checked");
        let spread = seed % (config.period.as_micros() as u64).max(1);
        let state = Arc::<MetaState>::default();
        Self {
            place: Place::of(config.me, &state),
            state,
            read_at: now,
            leads_meta: false,
            duty: Duty::new(now),
            round: 0,
            due: now + Duration::from_micros(spread),
            watch: Watch::new(config.patience),
            reported_at: None,
            pushes: Pushes::default(),
            turns: Turns::default(),
            balance: Balance::default(),
            said: Vec::new(),
            proposed: false,
            readings_left: READINGS_PER_ROUND,
            waits: BTreeMap::new(),
            waited: BTreeMap::new(),
            conduct: PhantomData,
            config,
        }
    }

    pub fn step(&mut self, now: Instant, input: Input, out: &mut Outbox) {
        self.notice_sleep(now);
        match input {
            Input::Wake => self.on_wake(now, out),
            Input::Probed { node, round, answer } => {
                let is_waited_for = !answer.holds.is_empty() && self.waits_for_holdings();
                self.watch.on_answer(node, round, answer);
                self.push_after_echo(now, node, out);
                self.wait_no_longer_for(now, node);
                if is_waited_for {
                    self.read_again(out);
                }
            }
            Input::Echoed { node, epoch } => {
                if self.state.blueprint.nodes.contains_key(&node) {
                    self.pushes.on_echo(node, epoch);
                    self.push_after_echo(now, node, out);
                    self.wait_no_longer_for(now, node);
                }
            }
            Input::MetaRead { state } => self.on_meta_read(now, state, out),
            Input::LeadsMeta(leads) => self.leads_meta = leads,
            Input::Rejected { why } => self.on_rejected(&why, out),
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        Some(self.pushes.next_release().map_or(self.due, |at| at.min(self.due)))
    }

    /// What is not done, and why not, as of the last reading.
    pub fn waits(&self) -> Vec<Wait> {
        let wait = |((about, until), since): (&(Subject, Until), &Instant)| Wait {
            about: *about,
            until: until.clone(),
            since: *since,
        };
        self.waits.iter().map(wait).collect()
    }

    pub fn check_invariants(&self) {
        self.watch.check_invariants();
        assert!(self.readings_left <= READINGS_PER_ROUND, "a round has an end");
    }

    /// Whoever was not there when its round was due has not listened either: what looks like silence may be its own. It must be
    /// noticed whatever comes first: 1. the round begins in time; 2. the process sleeps for ten seconds; 3. it wakes to an answer of
    /// the meta group that came in between, and by its notes everybody has been silent for long.
    fn notice_sleep(&mut self, now: Instant) {
        if now.since(self.due) > self.config.late && !C::breaks(Breach::StaleCoordinatorDeparts) {
            self.watch.begin_anew();
            self.due = now;
        }
    }

    fn on_wake(&mut self, now: Instant, out: &mut Outbox) {
        if now < self.due {
            return self.push_blueprint(now, out);
        }
        self.due = now + self.pace();
        self.readings_left = READINGS_PER_ROUND;
        if self.duty.is_on() {
            let questions = self.questions();
            self.round += 1;
            self.watch.begin_round(self.round, now);
            self.probe(now, questions, out);
        }
        out.push(Output::ReadMeta);
        if now.since(self.read_at) > 2 * self.pace() {
            self.waits.insert((Subject::Coordinator, Until::MetaAnswers), self.read_at);
        }
    }

    fn on_meta_read(&mut self, now: Instant, state: Arc<MetaState>, out: &mut Outbox) {
        let older = state.blueprint.epoch < self.state.blueprint.epoch || state.clock < self.state.clock;
        if older {
            return;
        }
        self.read_at = now;
        let before = core::mem::replace(&mut self.state, state);
        self.place = Place::of(self.config.me, &self.state);
        let blueprint = self.state.blueprint.clone();
        let known = |node| blueprint.nodes.contains_key(&node);
        self.watch.keep_only(known);
        self.pushes.keep_only(known);
        self.review_duty(now);
        if !self.duty.is_on() {
            self.waits.clear(); // the meta group has answered, and it waits for nothing else
            return;
        }
        if before.blueprint.epoch < blueprint.epoch {
            self.pushes.on_change(&before.blueprint, &blueprint, now + self.config.head_start);
        }
        self.probe_newcomers(now, out);
        self.decide(now, out);
    }

    /// What it decided on is no longer so. The next round would find out anyway; this is only faster.
    fn on_rejected(&mut self, why: &Refusal, out: &mut Outbox) {
        if let Refusal::ReportExpired { .. } = why {
            // Made from an old reading: nobody had said anything for long. It may say the same again.
            self.said.retain(|(output, _)| !matches!(output, Output::Propose(MetaCommand::Report(_))));
        }
        self.read_again(out);
    }

    fn decide(&mut self, now: Instant, out: &mut Outbox) {
        self.said.retain(|(_, at)| now.since(*at) < self.config.period);
        self.waited = core::mem::take(&mut self.waits);
        self.report(now, out);
        let departing = self.depart(now, out);
        self.welcome_back(now, out);
        self.relieve(now, &departing, out);
        // Before orders: 1. a candidate is seated; 2. its primary is told to hand over to it, and knows of no such secondary yet. It would
        // be told again only a period later.
        self.push_blueprint(now, out);
        self.carry_operations(now, out);
        self.rebalance(now, out);
        self.wait_for_echoes(now);
        self.turns.settle();
        self.waited.clear();
        if core::mem::take(&mut self.proposed) {
            self.read_again(out);
        }
    }

    /// Says something, unless it was said within this period.
    fn say(&mut self, now: Instant, output: Output, out: &mut Outbox) {
        if self.said.iter().any(|(said, _)| *said == output) {
            return;
        }
        self.said.push((output.clone(), now));
        self.proposed |= matches!(output, Output::Propose(MetaCommand::Change(_)));
        out.push(output);
    }

    fn read_again(&mut self, out: &mut Outbox) {
        if self.readings_left > 0 && self.duty.is_on() {
            self.readings_left -= 1;
            out.push(Output::ReadMeta);
        }
    }

    fn waits_for_holdings(&self) -> bool {
        self.waits.keys().any(|(_, until)| matches!(until, Until::PrimaryHolds { .. }))
    }

    /// A node has said something that was waited for. It may be a while until the next reading: 1. a node is sent the blueprint; 2. the
    /// meta group has no leader; 3. the node acts on it, and says so. Whoever asks why nothing changes must not be sent to that node.
    fn wait_no_longer_for(&mut self, now: Instant, node: NodeId) {
        let (acts_on, hears) = (self.acts_on(node), self.watch.hears(node, now));
        let unmet = |until: Until| match until {
            Until::ActsOn { node: of, epoch } if of == node && epoch <= acts_on => None,
            Until::EveryoneWasAsked { mut open } if hears => {
                open.retain(|other| *other != node);
                (!open.is_empty()).then_some(Until::EveryoneWasAsked { open })
            }
            until => Some(until),
        };
        let waits = core::mem::take(&mut self.waits).into_iter();
        self.waits = waits.filter_map(|((about, until), since)| Some(((about, unmet(until)?), since))).collect();
    }

    fn wait(&mut self, now: Instant, about: Subject, until: Until) {
        let key = (about, until);
        let since = self.waited.get(&key).copied().unwrap_or(now);
        self.waits.insert(key, since);
    }
}
