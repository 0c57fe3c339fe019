//! Tables that are stored while other things happen: what may be said of them, and when.

use blueprint::{Honest, Index, Instant, Member, Position, Slot, SlotSet, Term};
use bytes::Bytes;
use phaser::{
    Config, Durable, Entry, Envelope, Founding, Image, Input, Message, Outbox, Output, Payload, Phaser, Record,
    StoreId, WriteId,
};

const NOW: Instant = Instant(1_000_000);
const TERM: Term = Term(4);

/// A candidate, its disk, and what its primary says.
struct Candidate {
    phaser: Phaser<Honest>,
    durable: Durable,
    /// Not safe yet.
    writes: Vec<(WriteId, Vec<Record>)>,
}

impl Candidate {
    fn new() -> Self {
        let founding = Founding {
            me: me(),
            promised: Term(0),
            base: Position::default(),
            clock: 0,
            owned: slots(),
            image: Image::default(),
            abstain_until: Instant::ZERO,
        };
        let phaser = Phaser::found(Config::default(), founding, 1, NOW);
        let (base, image) = (Position::default(), Image::default());
        let found = Record::Found { me: me(), promised: Term(0), base, clock: 0, owned: slots(), image };
        let durable = Durable::found(&found).expect("that is what it makes");
        let mut candidate = Self { phaser, durable, writes: Vec::new() };
        candidate.flush();
        candidate.sync();
        candidate
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        let mut out = Outbox::default();
        self.phaser.step(NOW, input, &mut out);
        self.phaser.check_invariants();
        out.take()
    }

    fn hear(&mut self, message: Message) -> Vec<Output> {
        self.step(Input::Message(Envelope { from: Member::new(1, 1), to: me(), message }))
    }

    fn append(&mut self, previous: Position, entries: Vec<Entry>) {
        let entries = entries.into_iter().collect();
        self.hear(Message::Prepare { term: TERM, previous, entries, commit: Index(5), sent: NOW });
        self.flush();
    }

    /// An image of all slots; what it is to be stored as.
    fn fill(&mut self) -> StoreId {
        let tables = vec![(Slot(0), Bytes::from_static(b"table"))];
        let image = Image { as_of: Index(5), covered: slots(), replaced: slots(), tables };
        let said = self.hear(Message::Fill { term: TERM, image });
        let store = said.iter().find_map(|output| if let Output::Store { id, .. } = output { Some(*id) } else { None });
        store.expect("it is taken")
    }

    fn stored(&mut self, id: StoreId) -> Vec<Output> {
        let said = self.step(Input::Stored { id, tables: vec![(Slot(0), Bytes::from_static(b"where it is"))] });
        self.flush();
        said
    }

    fn flush(&mut self) {
        for output in self.step(Input::Flush) {
            if let Output::Write { id, records } = output {
                self.writes.push((id, records));
            }
        }
    }

    /// Everything that is written so far is safe.
    fn sync(&mut self) {
        for (upto, records) in std::mem::take(&mut self.writes) {
            records.iter().for_each(|record| self.durable.absorb(record));
            self.step(Input::Written { upto });
        }
    }

    fn after_a_crash(&self) -> Phaser<Honest> {
        Phaser::recover(Config::default(), self.durable.clone(), &[], 1, NOW, &mut Outbox::default())
    }
}

fn me() -> Member {
    Member::new(3, 2)
}

fn slots() -> SlotSet {
    SlotSet::range(Slot(0), Slot(3))
}

fn entry(term: u64, index: u64, payload: Payload) -> Entry {
    Entry { at: Position::new(term, index), clock: index, seed: 0, payload }
}

fn command() -> Payload {
    Payload::Command { slot: Slot(0), body: Bytes::from_static(b"x") }
}

/// The end of the former rule; then the Reign of this one, and what came after it.
fn former() -> Vec<Entry> {
    vec![entry(3, 1, Payload::Reign), entry(3, 2, command())]
}

fn present() -> Vec<Entry> {
    vec![entry(4, 3, Payload::Reign), entry(4, 4, command()), entry(4, 5, command())]
}

/// 1. An image as of #5 is taken and written, not yet safe. 2. The Reign at #3 comes: a table of another rule could stand there, so the
///    image is void. 3. It is taken again, and being stored. 4. The first write is safe. It must not count for the second image.
#[test]
fn an_image_that_became_void_fills_nothing() {
    let mut candidate = Candidate::new();
    candidate.append(Position::default(), former());
    candidate.sync();
    let first = candidate.fill();
    candidate.stored(first);
    candidate.append(Position::new(3, 2), present());
    let second = candidate.fill();
    candidate.sync();
    assert!(!candidate.phaser.is_whole() && !candidate.after_a_crash().is_whole());
    candidate.stored(second);
    candidate.sync();
    assert!(candidate.phaser.is_whole() && candidate.after_a_crash().is_whole());
}

/// The same, when it is stored only after the Reign came: a record of it would stand behind the Reign, and count.
#[test]
fn what_became_void_while_it_was_stored_is_released() {
    let mut candidate = Candidate::new();
    candidate.append(Position::default(), former());
    let first = candidate.fill();
    candidate.append(Position::new(3, 2), present());
    let said = candidate.stored(first);
    assert!(matches!(said[..], [Output::Release { .. }]), "{said:?}");
    candidate.sync();
    assert!(!candidate.phaser.is_whole() && !candidate.after_a_crash().is_whole());
}

/// 1. A slot is split off at #1, and absorbed again at #3. 2. An image brings it as of #4. 3. The log is cut at #2, where it is another
///    bucket's. What the image brought stays; what was there before the split does not.
#[test]
fn a_cut_keeps_what_came_in_an_image_since() {
    let mut candidate = Candidate::new();
    let (slot, base) = (SlotSet::range(Slot(0), Slot(0)), Position::new(1, 2));
    let image = |as_of, tables: &'static [u8]| Image {
        as_of: Index(as_of),
        covered: slot.clone(),
        replaced: slot.clone(),
        tables: vec![(Slot(0), Bytes::from_static(tables))],
    };
    let cut = Record::Cut { base, clock: 0, owned: slots().difference(&slot) };
    let durable = &mut candidate.durable;
    durable.absorb(&Record::Take(image(0, b"before")));
    let mut early = durable.clone();
    early.absorb(&cut);
    assert!(early.tables.is_empty() && early.as_of.keys().is_empty());
    durable.absorb(&Record::Take(image(4, b"after")));
    durable.absorb(&cut);
    assert_eq!(durable.tables.get(&Slot(0)), Some(&Bytes::from_static(b"after")));
    assert_eq!(durable.as_of.keys(), slot);
}
