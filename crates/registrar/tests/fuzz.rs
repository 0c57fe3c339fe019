//! Nothing from outside may reach an assert: whatever a registrar is told, in whatever order, it neither panics nor overflows, keeps its
//! invariants and its limits, and says so when it drops a message.
//!
//! Half of the messages are arbitrary: other lives, strangers, numbers at the end of the world. The other half answer what the registrar
//! just asked, so that it gets past its start before it meets the first half.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use blueprint::{Honest, Instant, NodeId};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use registrar::{
    Answer, Claim, Config, Content, Durable, Edit, Envelope, Event, Input, Key, Level, Life, Message, Outbox, Output,
    Part, Phase, Record, Registrar, Row, Standing, Ticket, UpdateNumber, WriteId,
};

const ME: NodeId = NodeId(1);

#[derive(Clone, Debug)]
enum Happening {
    Input(Input),
    /// A message that gets past the door.
    Aimed {
        from: u64,
        message: Message,
    },
    /// An honest answer to the newest question of the registrar's to this peer; a pull is answered with that part, made to fit.
    Answer {
        peer: u64,
        standing: Standing,
        part: Part,
    },
    /// What was written is safe.
    Sync,
    Pass(Duration),
    /// Which of the records under way survive.
    Crash {
        survive: u64,
        wall: Duration,
    },
}

fn node() -> impl Strategy<Value = NodeId> {
    (1..=5u64).prop_map(NodeId)
}

fn number() -> impl Strategy<Value = UpdateNumber> {
    let seconds = prop_oneof![20 => 0..6u32, 2 => Just(UpdateNumber::FURTHEST), 1 => Just(u32::MAX)];
    let count = prop_oneof![20 => 0..6u64, 1 => Just(u64::MAX), 1 => Just(u64::MAX - 1)];
    prop_oneof![1 => Just(UpdateNumber::ZERO), 8 => (seconds, count).prop_map(|(s, c)| UpdateNumber::new(s, c))]
}

fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![10 => (0..30_000u64).prop_map(Duration::from_millis), 1 => Just(Duration::MAX), 1 => Just(Duration::ZERO)]
}

fn bytes() -> impl Strategy<Value = Bytes> {
    "[a-c]{0,2}".prop_map(Bytes::from)
}

fn row() -> impl Strategy<Value = Row> {
    let key = prop_oneof![5 => bytes().prop_map(Key::Name), 1 => node().prop_map(Key::Predecessor)];
    let content = prop_oneof![
        4 => (bytes(), span()).prop_map(|(bytes, left)| Content::Value { bytes, left }),
        2 => Just(Content::Gone),
        1 => number().prop_map(|upto| Content::TakenOver { upto }),
    ];
    (key, number(), span(), content).prop_map(|(key, number, age, content)| Row { key, number, age, content })
}

/// Mostly as they should be: numbers in order, rows between them.
fn part() -> impl Strategy<Value = Part> {
    (vec(number(), 5), vec(row(), 0..5), any::<bool>(), 0..4u8).prop_map(|(mut numbers, mut rows, is_last, mess)| {
        if mess > 0 {
            numbers.sort();
        }
        let [floor, onto, after, upto, as_of] = numbers[..] else { unreachable!("there are five") };
        let as_of = if is_last { upto } else { as_of };
        if mess > 0 {
            rows.iter_mut().for_each(|row| row.number = row.number.clamp(after.next(), upto.max(after.next())));
        }
        Part { onto, after: if mess > 1 { onto } else { after }, upto, as_of, floor, rows }
    })
}

fn standing() -> impl Strategy<Value = Standing> {
    let phase = prop_oneof![1 => Just(Phase::Starting), 3 => Just(Phase::Operating)];
    let claims = vec((node(), number()).prop_map(|(owner, known)| Claim { owner, known }), 0..7);
    (phase, claims, option::of(number())).prop_map(|(phase, claims, refused)| Standing { phase, claims, refused })
}

fn message() -> impl Strategy<Value = Message> {
    let nonce = || 0..12u64;
    let answer = prop_oneof![
        3 => part().prop_map(Answer::Part),
        1 => number().prop_map(|known| Answer::Nothing { known }),
    ];
    prop_oneof![
        3 => (nonce(), standing()).prop_map(|(nonce, standing)| Message::Check { nonce, standing }),
        2 => (nonce(), standing()).prop_map(|(nonce, standing)| Message::Checked { nonce, standing }),
        1 => (nonce(), any::<u64>()).prop_map(|(nonce, digest)| Message::Compare { nonce, digest }),
        1 => nonce().prop_map(|nonce| Message::Same { nonce }),
        2 => (nonce(), node(), number(), number())
            .prop_map(|(nonce, owner, onto, after)| Message::Pull { nonce, owner, onto, after }),
        3 => (nonce(), node(), answer).prop_map(|(nonce, owner, answer)| Message::Pulled { nonce, owner, answer }),
        5 => part().prop_map(Message::Push),
    ]
}

fn envelope() -> impl Strategy<Value = Envelope> {
    let life = || prop_oneof![6 => Just(1u64), 1 => 0..4u64, 1 => Just(u64::MAX)];
    let to = prop_oneof![9 => Just(ME), 1 => node()];
    (node(), life(), to, life(), message()).prop_map(|(from, from_life, to, to_life, message)| Envelope {
        from,
        from_life,
        to,
        to_life,
        message,
    })
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => (bytes(), bytes(), span()).prop_map(|(key, value, life)| Edit::Put { key, value, life }),
        1 => bytes().prop_map(|key| Edit::Remove { key }),
    ]
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        8 => envelope().prop_map(Input::Message),
        2 => vec(node(), 0..5).prop_map(|nodes| Input::Peers(nodes.into_iter().collect())),
        1 => node().prop_map(Input::Succeeds),
        3 => (0..9u64, vec(edit(), 0..4)).prop_map(|(ticket, edits)| Input::Update { ticket: Ticket(ticket), edits }),
        1 => node().prop_map(Input::LinkLost),
        1 => prop_oneof![0..9u64, Just(u64::MAX)].prop_map(|id| Input::Written { upto: WriteId(id) }),
        1 => Just(Input::Flush),
        1 => Just(Input::Wake),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        10 => input().prop_map(Happening::Input),
        8 => (2..=4u64, message()).prop_map(|(from, message)| Happening::Aimed { from, message }),
        8 => (2..=5u64, standing(), part())
            .prop_map(|(peer, standing, part)| Happening::Answer { peer, standing, part }),
        2 => Just(Happening::Sync),
        3 => span().prop_map(|span| Happening::Pass(span.min(Duration::from_secs(60)))),
        1 => (any::<u64>(), span()).prop_map(|(survive, wall)| Happening::Crash { survive, wall }),
    ]
}

struct Bench {
    registrar: Registrar<Honest>,
    config: Config,
    now: Instant,
    life: u64,
    durable: Durable,
    under_way: Vec<(WriteId, Vec<Record>)>,
    /// The newest life of each peer that it has heard of.
    peer_lives: BTreeMap<NodeId, u64>,
    /// What it asked, newest last.
    asked: Vec<Envelope>,
    dropped: u64,
}

impl Bench {
    fn new(level: Level) -> Self {
        let config = Config {
            level,
            longest_life: Duration::from_secs(20),
            margin: Duration::from_secs(2),
            pulls: 2,
            part_rows: 3,
            owners: 4,
            owner_rows: 6,
            waiting_updates: 3,
            ..Config::default()
        };
        let life = Life { node: ME, number: 1, wall: Duration::from_secs(3) };
        let now = Instant(5_000_000);
        let registrar = Registrar::recover(config.clone(), life, &Durable::default(), now);
        let (durable, under_way, asked) = (Durable::default(), Vec::new(), Vec::new());
        let peer_lives = (1..=5).map(|id| (NodeId(id), 1)).collect();
        let mut bench = Self { registrar, config, now, life: 1, durable, under_way, peer_lives, asked, dropped: 0 };
        bench.step(Input::Peers((1..=4).map(NodeId).collect()));
        bench
    }

    fn step(&mut self, input: Input) {
        let mut out = Outbox::default();
        self.registrar.step(self.now, input, &mut out);
        self.registrar.step(self.now, Input::Flush, &mut out);
        self.registrar.check_invariants();
        for output in out.take() {
            match output {
                Output::Send(envelope) => self.on_sent(envelope),
                Output::Write { id, records } => self.under_way.push((id, records)),
                Output::Event(Event::Dropped { .. }) => self.dropped += 1,
                Output::Event(_) | Output::Updated { .. } | Output::Refused { .. } | Output::Changed { .. } => {}
            }
        }
        assert_eq!(self.registrar.dropped().values().sum::<u64>(), self.dropped, "every drop is counted, and said");
        assert!(self.registrar.owners().count() <= self.config.owners + 1, "no more owners than the limit, and itself");
    }

    fn on_sent(&mut self, envelope: Envelope) {
        assert_eq!(envelope.from, ME);
        self.peer_lives.insert(envelope.to, envelope.to_life.max(1));
        let bytes = postcard::to_allocvec(&envelope).expect("it can be serialised");
        assert_eq!(postcard::from_bytes::<Envelope>(&bytes).expect("and back"), envelope);
        if let Message::Pulled { answer: Answer::Part(part), .. } | Message::Push(part) = &envelope.message {
            let rows = part.rows.iter().all(|row| part.after < row.number && row.number <= part.upto);
            assert!(rows && part.upto <= part.as_of, "what it sends makes sense: {part:?}");
        }
        if matches!(envelope.message, Message::Check { .. } | Message::Compare { .. } | Message::Pull { .. }) {
            self.asked.push(envelope);
        }
    }

    fn answer(&mut self, peer: u64, standing: Standing, part: Part) {
        let Some(at) = self.asked.iter().rposition(|envelope| envelope.to == NodeId(peer)) else { return };
        let asked = self.asked.remove(at);
        let message = match asked.message {
            Message::Check { nonce, .. } => Message::Checked { nonce, standing },
            Message::Pull { nonce, owner, onto, after } => {
                let part = Part { onto, after, upto: part.upto.max(after), as_of: part.as_of.max(after), ..part };
                Message::Pulled { nonce, owner, answer: Answer::Part(part) }
            }
            Message::Compare { nonce, .. } if standing.refused.is_none() => Message::Same { nonce },
            Message::Compare { nonce, .. } => Message::Check { nonce, standing },
            Message::Checked { .. } | Message::Same { .. } | Message::Pulled { .. } | Message::Push(_) => {
                unreachable!("only questions are kept")
            }
        };
        let (from, to, to_life) = (asked.to, ME, asked.from_life);
        self.step(Input::Message(Envelope { from, from_life: asked.to_life.max(1), to, to_life, message }));
    }

    fn sync(&mut self) {
        let Some((upto, _)) = self.under_way.last() else { return };
        let upto = *upto;
        for record in self.under_way.drain(..).flat_map(|(_, records)| records) {
            self.durable.absorb(&record);
        }
        self.step(Input::Written { upto });
    }

    fn crash(&mut self, survive: u64, wall: Duration) {
        let records = self.under_way.drain(..).flat_map(|(_, records)| records);
        for (at, record) in records.enumerate() {
            if survive >> (at % 64) & 1 == 1 {
                self.durable.absorb(&record);
            }
        }
        self.life += 1;
        self.asked.clear();
        self.dropped = 0;
        let life = Life { node: ME, number: self.life, wall };
        self.registrar = Registrar::recover(self.config.clone(), life, &self.durable, self.now);
        self.step(Input::Peers(BTreeSet::from([NodeId(2), NodeId(3), NodeId(4)])));
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Input(input) => self.step(input),
            Happening::Aimed { from, message } => {
                let (from, from_life, to_life) = (NodeId(from), self.peer_lives[&NodeId(from)], self.life);
                self.step(Input::Message(Envelope { from, from_life, to: ME, to_life, message }));
            }
            Happening::Answer { peer, standing, part } => self.answer(peer, standing, part),
            Happening::Sync => self.sync(),
            Happening::Pass(span) => {
                self.now = self.now + span;
                self.step(Input::Wake);
                let deadline = self.registrar.deadline();
                assert!(deadline.is_none_or(|at| at > self.now), "after a Wake nothing is due any more");
            }
            Happening::Crash { survive, wall } => self.crash(survive, wall),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_ephemeral_registrar_takes_anything(happenings in vec(happening(), 1..120)) {
        let mut bench = Bench::new(Level::Ephemeral);
        happenings.into_iter().for_each(|happening| bench.happen(happening));
    }

    #[test]
    fn a_durable_registrar_takes_anything(happenings in vec(happening(), 1..120)) {
        let mut bench = Bench::new(Level::Durable);
        happenings.into_iter().for_each(|happening| bench.happen(happening));
    }

    /// A new journal that begins with what is held says the same as the old one.
    #[test]
    fn records_of_everything_held_restore_it(happenings in vec(happening(), 1..80)) {
        let mut bench = Bench::new(Level::Durable);
        happenings.into_iter().for_each(|happening| bench.happen(happening));
        let mut anew = Durable::default();
        bench.registrar.records(bench.now).iter().for_each(|record| anew.absorb(record));
        for owner in bench.registrar.owners() {
            let known = bench.registrar.known(owner).unwrap_or_default();
            let stored = anew.owners.get(&owner).map(|stored| stored.known).unwrap_or_default();
            // My own may be further: what is on its way to the disk is in it.
            prop_assert!(known == stored || (owner == ME && known < stored));
        }
    }
}
