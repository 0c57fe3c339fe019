//! Nothing from outside may reach an assert: whatever a phaser is told, in whatever order, it neither panics nor overflows,
//! keeps its invariants, and says so when it drops a message.
//!
//! Half of the inputs are arbitrary: other terms, other incarnations, strangers, indexes at the end of the world. The other half
//! answer what the phaser just said, so that it gets deep into each role before it meets the first half there. Every now and then
//! it crashes, and comes back from any subset of what it had not yet heard to be safe.

use std::time::Duration;

use blueprint::{
    BucketId, Change, Epoch, Fate, Government, Honest, Incarnation, Index, Instant, Member, NodeId, Position, Slot,
    SlotSet, Term,
};
use bytes::Bytes;
use phaser::{
    Bond, Config, Durable, Entry, Envelope, Event, Founding, Frozen, Image, Input, Message, Outbox, Output, Payload,
    Phaser, Progress, Record, StoreId, Ticket, View, WriteId,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::Union;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    Input(Input),
    /// A message that gets past the door: addressed to who it meets there, in its term or a few later, and what it says about the log
    /// is true as far as `previous` goes.
    Aimed {
        from: Member,
        message: Message,
        later: u64,
    },
    /// Answers the newest thing that the phaser said to this peer, as an honest one would.
    Answer {
        peer: u64,
        applied: u64,
    },
    /// As above, of everybody, once everything is written.
    Answers {
        applied: u64,
    },
    /// The blueprint goes on from where it is, by one lawful change: what the phaser proposed, or another.
    Accept,
    Succeed {
        kind: u8,
        node: u64,
        fate: u8,
    },
    /// What was written is safe.
    Sync,
    /// The newest question is answered, by the newest view.
    Tell,
    Pass(Duration),
    /// Which of the records under way survive.
    Crash {
        survive: u64,
    },
}

#[derive(Clone, Copy, Debug)]
enum Start {
    Member,
    Candidate,
    Child,
}

// ---- what can be said

fn node() -> impl Strategy<Value = u64> {
    1..=4u64
}

fn member() -> impl Strategy<Value = Member> {
    (node(), prop_oneof![6 => Just(1u64), 1 => 2..=4u64]).prop_map(|(node, incarnation)| Member::new(node, incarnation))
}

/// Mostly small, so that they meet; sometimes as large as they can be.
fn number(small: u64) -> impl Strategy<Value = u64> {
    let edges = [u64::MAX, u64::MAX - 1, u64::MAX / 2, 1 << 63, 1 << 41, 1 << 40];
    prop_oneof![20 => 0..=small, 1 => proptest::sample::select(edges.to_vec())]
}

fn term() -> impl Strategy<Value = Term> {
    number(6).prop_map(Term)
}

fn index() -> impl Strategy<Value = Index> {
    number(14).prop_map(Index)
}

fn position() -> impl Strategy<Value = Position> {
    (term(), index()).prop_map(|(term, index)| Position { term, index })
}

fn instant() -> impl Strategy<Value = Instant> {
    number(3_000_000).prop_map(Instant)
}

fn slot() -> impl Strategy<Value = Slot> {
    prop_oneof![8 => 0..4u16, 1 => 0..Slot::COUNT].prop_map(Slot)
}

fn slots() -> impl Strategy<Value = SlotSet> {
    prop_oneof![
        1 => Just(SlotSet::empty()),
        1 => Just(SlotSet::all()),
        4 => (0..4u16, 0..4u16).prop_map(|(a, b)| SlotSet::range(Slot(a), Slot(b))),
        1 => vec(slot(), 0..6).prop_map(|all| all.into_iter().collect()),
    ]
}

fn body() -> impl Strategy<Value = Bytes> {
    "[a-z]{0,3}".prop_map(Bytes::from)
}

fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        2 => Just(Payload::Reign),
        6 => (slot(), body()).prop_map(|(slot, body)| Payload::Command { slot, body }),
        2 => (2..5u64, slots()).prop_map(|(child, slots)| Payload::Split { child: BucketId(child), slots }),
        1 => (2..5u64).prop_map(|into| Payload::Freeze { into: BucketId(into) }),
        1 => (2..5u64, position(), slots(), any::<i64>())
            .prop_map(|(from, freeze, slots, ahead)| Payload::Absorb { from: BucketId(from), freeze, slots, ahead }),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    (position(), number(5_000_000), any::<u64>(), payload()).prop_map(|(at, clock, seed, payload)| Entry {
        at,
        clock,
        seed,
        payload,
    })
}

/// Mostly as they should be: one after the other, terms not falling.
fn entries() -> impl Strategy<Value = (Position, Vec<Entry>)> {
    let steps = vec((entry(), prop_oneof![3 => Just(0u64), 1 => 0..2u64]), 0..6);
    let orderly = (position(), steps).prop_map(|(previous, steps)| {
        let mut at = previous;
        let entries = steps.into_iter().map(|(entry, step)| {
            at = Position { term: Term(at.term.0.saturating_add(step)), index: Index(at.index.0.wrapping_add(1)) };
            Entry { at, ..entry }
        });
        (previous, entries.collect())
    });
    prop_oneof![8 => orderly, 1 => (position(), vec(entry(), 0..4))]
}

fn image() -> impl Strategy<Value = Image> {
    (index(), slots(), option::of(slots()), vec((slot(), body()), 0..3)).prop_map(
        |(as_of, covered, replaced, tables)| {
            let tables = if replaced.is_none() { Vec::new() } else { tables };
            Image { as_of, replaced: replaced.unwrap_or_else(|| covered.clone()), covered, tables }
        },
    )
}

fn progress() -> impl Strategy<Value = Progress> {
    (index(), slots()).prop_map(|(applied, missing)| Progress { applied, missing })
}

fn message() -> impl Strategy<Value = Message> {
    let prepare = (term(), entries(), index(), instant()).prop_map(|(term, (previous, entries), commit, sent)| {
        Message::Prepare { term, previous, entries: entries.into_iter().collect(), commit, sent }
    });
    let differs = (term(), position(), position(), progress(), instant())
        .prop_map(|(term, last, known, progress, sent)| Message::Differs { term, last, known, progress, sent });
    prop_oneof![
        6 => prepare,
        3 => (term(), index(), progress(), instant())
            .prop_map(|(term, upto, progress, sent)| Message::Prepared { term, upto, progress, sent }),
        2 => differs,
        1 => term().prop_map(|promised| Message::Outranked { promised }),
        2 => (term(), index(), instant()).prop_map(|(term, commit, sent)| Message::Beacon { term, commit, sent }),
        2 => (term(), progress(), instant()).prop_map(|(term, progress, sent)| Message::BeaconAck { term, progress, sent }),
        2 => (term(), position(), prop::option::of(position()), number(5_000_000), slots())
            .prop_map(|(term, base, refuted, clock, owned)| Message::Begin { term, base, refuted, clock, owned }),
        2 => (term(), image()).prop_map(|(term, image)| Message::Fill { term, image }),
        1 => (term(), slots(), progress()).prop_map(|(term, slots, progress)| Message::Filled { term, slots, progress }),
        1 => term().prop_map(|term| Message::Abdicate { term }),
    ]
}

fn envelope() -> impl Strategy<Value = Envelope> {
    (member(), member(), message()).prop_map(|(from, to, message)| Envelope { from, to, message })
}

fn change() -> impl Strategy<Value = (u8, u64, u8)> {
    (0..9u8, node(), 0..3u8)
}

/// Any way that governments can go. A change that is unlawful is passed over.
fn government() -> impl Strategy<Value = Government> {
    (1..=3u64, 1..=3u64, 1..=3u8, vec(change(), 0..8)).prop_map(|(primary, size, min, changes)| {
        let secondaries =
            (1..=4).filter(|n| *n != primary).take(size as usize - 1).map(|n| Member::new(n, 1)).collect();
        let mut government = Government::first(Member::new(primary, 1), secondaries, min);
        for (number, (kind, node, fate)) in changes.into_iter().enumerate() {
            let change = change_of(&government, kind, node, fate);
            government = government.succeed(&change, Incarnation(2 + number as u64)).unwrap_or(government);
        }
        government
    })
}

fn change_of(government: &Government, kind: u8, node: u64, fate: u8) -> Change {
    let who = government.named(NodeId(node)).unwrap_or(Member::new(node, 1));
    let by = government.primary;
    let fate = [Fate::Leaves, Fate::Stalled, Fate::Lost][usize::from(fate)];
    match kind {
        0 => Change::Enlist { node: NodeId(node) },
        1 => Change::Drop { candidate: who },
        2 => Change::Seat { candidate: who, by },
        3 => Change::Dismiss { secondary: who, fate },
        4 => Change::HandOver { to: who, by },
        5 => Change::Usurp { to: who, fate },
        6 => Change::Renew { primary: who },
        7 => Change::Disown { heir: who },
        _ => Change::SetMinInSync { min: 1 + node as u8 % 3 },
    }
}

fn view() -> impl Strategy<Value = View> {
    let known = || vec((2..5u64, position()), 0..2);
    let named = |all: Vec<(u64, Position)>| all.into_iter().map(|(bucket, at)| (BucketId(bucket), at)).collect();
    (number(20), government(), known(), bond(), known()).prop_map(
        move |(epoch, government, children, bond, absorbed)| View {
            epoch: Epoch(epoch),
            government,
            children: named(children),
            bond,
            absorbed: named(absorbed),
        },
    )
}

fn bond() -> impl Strategy<Value = Option<Bond>> {
    prop_oneof![
        4 => Just(None),
        1 => (2..5u64).prop_map(|into| Some(Bond::Fades { into: BucketId(into) })),
        1 => (2..5u64).prop_map(|other| Some(Bond::Absorbs { other: BucketId(other) })),
    ]
}

fn met() -> impl Strategy<Value = Input> {
    (2..5u64, prop_oneof![1 => Just(false), 3 => Just(true)], position(), slots(), number(1 << 50)).prop_map(
        |(bucket, ended, at, slots, clock)| {
            let bucket = BucketId(bucket);
            Input::Met { bucket, frozen: ended.then_some(Frozen { bucket, at, slots, clock }) }
        },
    )
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        12 => envelope().prop_map(Input::Message),
        4 => view().prop_map(Input::View),
        1 => (number(6), view()).prop_map(|(nonce, view)| Input::Told { nonce, view }),
        1 => term().prop_map(|term| Input::Rejected { term }),
        4 => (any::<u64>(), slot(), body()).prop_map(|(ticket, slot, body)| Input::Write { ticket: Ticket(ticket), slot, body }),
        2 => (any::<u64>(), slot()).prop_map(|(ticket, slot)| Input::Read { ticket: Ticket(ticket), slot }),
        1 => node().prop_map(|to| Input::HandOver { to: NodeId(to) }),
        1 => (2..5u64, slots()).prop_map(|(child, slots)| Input::Split { child: BucketId(child), slots }),
        1 => (2..5u64).prop_map(|child| Input::Forked { child: BucketId(child) }),
        2 => met(),
        1 => position().prop_map(|at| Input::Named { at }),
        1 => Just(Input::Given),
        1 => (member(), slots(), number(100_000))
            .prop_map(|(to, slots, bytes)| Input::ImageSent { to, slots, bytes: bytes as usize }),
        1 => number(20).prop_map(|upto| Input::Written { upto: WriteId(upto) }),
        1 => number(20).prop_map(|id| Input::Stored { id: StoreId(id), tables: Vec::new() }),
        1 => number(1 << 50).prop_map(|micros| Input::Wall { micros }),
        3 => Just(Input::Flush),
        2 => Just(Input::Checkpoint),
        2 => node().prop_map(|to| Input::Fill { to: NodeId(to) }),
        2 => Just(Input::Wake),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    Union::new_weighted(vec![
        (10, input().prop_map(Happening::Input).boxed()),
        (
            10,
            (member(), message(), prop_oneof![5 => Just(0u64), 1 => 1..3u64])
                .prop_map(|(from, message, later)| Happening::Aimed { from, message, later })
                .boxed(),
        ),
        (6, (node(), 0..20u64).prop_map(|(peer, applied)| Happening::Answer { peer, applied }).boxed()),
        (6, (0..20u64).prop_map(|applied| Happening::Answers { applied }).boxed()),
        (3, Just(Happening::Accept).boxed()),
        (3, change().prop_map(|(kind, node, fate)| Happening::Succeed { kind, node, fate }).boxed()),
        (6, Just(Happening::Sync).boxed()),
        (2, Just(Happening::Tell).boxed()),
        (
            4,
            prop_oneof![9 => 0..900_000u64, 1 => 0..1u64 << 40]
                .prop_map(|micros| Happening::Pass(Duration::from_micros(micros)))
                .boxed(),
        ),
        (1, any::<u64>().prop_map(|survive| Happening::Crash { survive }).boxed()),
    ])
}

// ---- the phaser, and what is remembered of what it said

struct Driven {
    config: Config,
    phaser: Phaser<Honest>,
    now: Instant,
    safe: Vec<Record>,
    under_way: Vec<(WriteId, Record)>,
    storing: Vec<StoreId>,
    said: Vec<Envelope>,
    asked: Option<u64>,
    proposed: Option<Change>,
    view: Option<View>,
}

impl Driven {
    fn new(start: Start, me: Member) -> Self {
        let config = Config {
            checkpoint_every: 4,
            keep_entries: 2,
            backlog: 3,
            frame_entries: 3,
            window_entries: 5,
            ..Config::default()
        };
        let owned = SlotSet::range(Slot(0), Slot(3));
        let (base, covered) = match start {
            Start::Member => (Position::default(), owned.clone()),
            Start::Candidate => (Position::default(), SlotSet::empty()),
            Start::Child => (Position::new(2, 5), owned.clone()),
        };
        let image = Image { as_of: base.index, covered, ..Image::default() };
        let founding = Founding { me, promised: base.term, base, clock: 0, owned, image, abstain_until: Instant::ZERO };
        let now = Instant(1_000_000);
        let phaser = Phaser::found(config.clone(), founding, 7, now);
        let mut driven = Self {
            config,
            phaser,
            now,
            safe: Vec::new(),
            under_way: Vec::new(),
            storing: Vec::new(),
            said: Vec::new(),
            asked: None,
            proposed: None,
            view: None,
        };
        driven.step(Input::Flush);
        driven
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Input(input) => self.step(input),
            Happening::Aimed { from, message, later } => {
                let envelope = Envelope { from, to: self.phaser.me(), message: self.aim(message, later) };
                self.step(Input::Message(envelope));
            }
            Happening::Answer { peer, applied } => self.answer(NodeId(peer), Index(applied)),
            Happening::Answers { applied } => {
                self.sync();
                (1..=4).for_each(|peer| self.answer(NodeId(peer), Index(applied)));
                self.sync();
            }
            Happening::Accept => {
                if let Some(change) = self.proposed.take() {
                    self.succeed(&change);
                }
            }
            Happening::Succeed { kind, node, fate } => {
                if let Some(view) = &self.view {
                    let change = change_of(&view.government, kind, node, fate);
                    self.succeed(&change);
                }
            }
            Happening::Sync => self.sync(),
            Happening::Tell => {
                if let (Some(nonce), Some(view)) = (self.asked, self.view.clone()) {
                    self.step(Input::Told { nonce, view });
                }
            }
            Happening::Pass(span) => {
                self.now = self.now + span;
                self.step(Input::Wake);
                self.step(Input::Flush);
            }
            Happening::Crash { survive } => self.crash(survive),
        }
    }

    fn step(&mut self, input: Input) {
        if let Input::View(view) | Input::Told { view, .. } = &input {
            self.view = Some(view.clone());
        }
        let is_wake = input == Input::Wake;
        let is_void = matches!(&input, Input::Message(envelope) if self.is_void(envelope));
        let before = self.standing();
        let mut out = Outbox::default();
        self.phaser.step(self.now, input, &mut out);
        self.phaser.check_invariants();
        let outputs = out.take();
        if is_void {
            let told = outputs.iter().any(|output| matches!(output, Output::Event(Event::Dropped(_))));
            assert!(told, "a message was dropped, and nobody was told: {outputs:?}");
            assert_eq!(before, self.standing(), "a message that was dropped changed something");
        }
        if is_wake {
            let due = self.phaser.deadline();
            assert!(due.is_none_or(|due| due > self.now), "woken in time, it wants to be woken at once again: {due:?}");
        }
        for output in outputs {
            self.note(output);
        }
    }

    fn standing(&self) -> (Term, Index, Position, Option<(Term, bool)>) {
        (self.phaser.promised(), self.phaser.commit(), self.phaser.log().last(), self.phaser.leads())
    }

    /// It must not have any effect: it is for or from somebody else, or of a term that is over or not yet begun (R2, R10).
    fn is_void(&self, envelope: &Envelope) -> bool {
        let Envelope { from, to, message } = envelope;
        let (me, promised, leads) = (self.phaser.me(), self.phaser.promised(), self.phaser.leads());
        let led = leads.map(|(term, _)| term);
        let astray = *to != me || from.node == me.node;
        astray
            || match message {
                Message::Prepare { term, .. }
                | Message::Beacon { term, .. }
                | Message::Begin { term, .. }
                | Message::Fill { term, .. } => *term < promised || Some(*term) == led,
                Message::Prepared { term, .. }
                | Message::Differs { term, .. }
                | Message::BeaconAck { term, .. }
                | Message::Filled { term, .. } => Some(*term) != led,
                Message::Outranked { promised: higher } => *higher > promised,
                Message::Abdicate { .. } => false,
            }
    }

    fn note(&mut self, output: Output) {
        match output {
            Output::Send(envelope) => self.said.push(envelope),
            Output::Write { id, records } => self.under_way.extend(records.into_iter().map(|record| (id, record))),
            Output::Store { id, .. } => self.storing.push(id),
            Output::Ask { nonce } => self.asked = Some(nonce),
            Output::Propose { change, .. } => self.proposed = Some(change),
            Output::Apply { .. }
            | Output::Serve { .. }
            | Output::Refuse { .. }
            | Output::Forward { .. }
            | Output::Uncertain { .. }
            | Output::Fork(_)
            | Output::Release { .. }
            | Output::Discard { .. }
            | Output::Install { .. }
            | Output::SendImage { .. }
            | Output::Register { .. }
            | Output::Frozen { .. }
            | Output::SeekFrozen { .. }
            | Output::Absorb { .. }
            | Output::Merge { .. }
            | Output::Event(_) => {}
        }
    }

    fn aim(&self, mut message: Message, later: u64) -> Message {
        let orders = Term(self.phaser.promised().0.saturating_add(later));
        let answers = self.phaser.leads().map_or(orders, |(term, _)| term);
        match &mut message {
            Message::Prepare { term, previous, entries, .. } => {
                *term = orders;
                let log = self.phaser.log();
                let length = log.last().index.0 - log.base().index.0 + 1;
                let meant = *previous;
                *previous =
                    log.position(Index(log.base().index.0 + previous.index.0 % length)).expect("it is in the log");
                let aimed = entries.iter().map(|entry| entry.to_entry()).map(|mut entry| {
                    entry.at.index = Index(entry.at.index.0.wrapping_sub(meant.index.0).wrapping_add(previous.index.0));
                    entry.at.term =
                        Term(previous.term.0 + entry.at.term.0.saturating_sub(meant.term.0) % 4).min(orders);
                    entry
                });
                *entries = aimed.collect();
            }
            Message::Beacon { term, .. } | Message::Begin { term, .. } | Message::Fill { term, .. } => *term = orders,
            Message::Prepared { term, .. }
            | Message::Differs { term, .. }
            | Message::BeaconAck { term, .. }
            | Message::Filled { term, .. }
            | Message::Abdicate { term } => *term = answers,
            Message::Outranked { .. } => {}
        }
        message
    }

    fn sync(&mut self) {
        self.step(Input::Checkpoint);
        self.step(Input::Flush);
        for id in std::mem::take(&mut self.storing) {
            self.step(Input::Stored { id, tables: Vec::new() });
        }
        self.step(Input::Flush);
        if let Some((upto, _)) = self.under_way.last() {
            let upto = *upto;
            self.safe.extend(self.under_way.drain(..).map(|(_, record)| record));
            self.step(Input::Written { upto });
        }
    }

    fn succeed(&mut self, change: &Change) {
        let Some(View { epoch, government, children, bond, absorbed }) = self.view.clone() else { return };
        let epoch = Epoch(epoch.0.saturating_add(1));
        if let Ok(government) = government.succeed(change, Incarnation(epoch.0)) {
            self.step(Input::View(View { epoch, government, children, bond, absorbed }));
        }
    }

    fn answer(&mut self, peer: NodeId, applied: Index) {
        self.step(Input::Flush);
        let Some(Envelope { from, to, message }) = self.said.iter().rev().find(|e| e.to.node == peer).cloned() else {
            return;
        };
        // Nobody honest has applied what it was not told to be committed.
        let progress = |told: Index| Progress { applied: applied.min(told), missing: SlotSet::empty() };
        let message = match message {
            Message::Prepare { term, previous, entries, commit, sent } => {
                let upto = entries.last().map_or(previous.index, |e| e.at.index);
                Message::Prepared { term, upto, progress: progress(commit), sent }
            }
            Message::Beacon { term, commit, sent } => Message::BeaconAck { term, progress: progress(commit), sent },
            Message::Begin { term, base, owned, .. } => {
                let progress = Progress { applied: base.index, missing: owned };
                Message::Prepared { term, upto: base.index, progress, sent: Instant::ZERO }
            }
            Message::Fill { term, image } => {
                Message::Filled { term, slots: image.covered, progress: progress(Index(0)) }
            }
            Message::Prepared { .. }
            | Message::Differs { .. }
            | Message::Outranked { .. }
            | Message::BeaconAck { .. }
            | Message::Filled { .. }
            | Message::Abdicate { .. } => return,
        };
        self.step(Input::Message(Envelope { from: to, to: from, message }));
    }

    fn crash(&mut self, survive: u64) {
        for (place, (_, record)) in std::mem::take(&mut self.under_way).into_iter().enumerate() {
            if survive >> (place % 64) & 1 == 1 {
                self.safe.push(record);
            }
        }
        let Some(mut durable) = self.safe.first().and_then(Durable::found) else {
            // It never came to be: the rest of this history goes on without the crash.
            return;
        };
        self.safe.iter().skip(1).for_each(|record| durable.absorb(record));
        let mut out = Outbox::default();
        self.phaser = Phaser::recover(self.config.clone(), durable, &[], 11, self.now, &mut out);
        self.phaser.check_invariants();
        self.said.clear();
        (self.asked, self.proposed, self.view) = (None, None, None);
        for output in out.take() {
            self.note(output);
        }
    }
}

/// `PROPTEST_CASES=100000` for a longer walk.
fn cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(2000), failure_persistence: None, max_shrink_iters: 20_000, ..default }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_member_survives_anything(me in 1..=2u64, all in vec(happening(), 1..80)) {
        let mut driven = Driven::new(Start::Member, Member::new(me, 1));
        all.into_iter().for_each(|happening| driven.happen(happening));
    }

    #[test]
    fn a_primary_survives_anything(size in 1..=3u64, min in 1..=2u8, all in vec(happening(), 1..80)) {
        let mut driven = Driven::new(Start::Member, Member::new(1, 1));
        let government = Government::first(Member::new(1, 1), (2..=size).map(|n| Member::new(n, 1)).collect(), min);
        driven.step(Input::View(View { epoch: Epoch(1), government, children: Vec::new(), bond: None, absorbed: Vec::new() }));
        driven.sync();
        driven.happen(Happening::Answers { applied: 1 });
        prop_assert_eq!(driven.phaser.leads(), Some((Term(1), size >= u64::from(min))));
        all.into_iter().for_each(|happening| driven.happen(happening));
    }

    #[test]
    fn a_candidate_survives_anything(all in vec(happening(), 1..80)) {
        let mut driven = Driven::new(Start::Candidate, Member::new(1, 1));
        all.into_iter().for_each(|happening| driven.happen(happening));
    }

    #[test]
    fn a_child_survives_anything(all in vec(happening(), 1..80)) {
        let mut driven = Driven::new(Start::Child, Member::new(1, 1));
        all.into_iter().for_each(|happening| driven.happen(happening));
    }
}
