//! What of one client's pipeline may be under way at the same time.
//!
//! Clients rely on it: the effects of a connection's requests come in the order in which it sent them. The machine promises that for
//! two writes to one slot that go the same way, and for nothing else: a read is answered from what is committed, and what hops may
//! be overtaken. So requests for different slots are under way together, and for one slot
//!
//! - a read waits for the writes before it, and a write for the reads before it;
//! - a write follows the writes before it, for the log keeps their order, unless the way has changed since (who leads, or which links
//!   are up), or one of them is so large that it travels apart;
//! - a write that came back, certainly not done, is asked again together with all that came back behind it. If one behind it was done
//!   meanwhile, it is too late for that, and the client hears that it was not done;
//! - what concerns more slots than one is alone.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use blueprint::{Epoch, Slot};

use super::keyspace::Chosen;

/// A pipeline that was once this wide keeps its memory.
const KEPT: usize = 1024;

/// A slot of one keyspace: what requests wait for each other at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) keyspace: Chosen,
    pub(crate) slot: Slot,
}

impl Spot {
    fn number(self) -> u64 {
        u64::from(self.keyspace.number()) << 16 | u64::from(self.slot.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concern {
    Read(Spot),
    Write {
        spot: Spot,
        /// Large enough that it might hop apart from the others.
        large: bool,
    },
    /// More slots than one, of whichever keyspace.
    All,
}

/// Two requests for one slot that find the same way go to the same place, by the same link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) epoch: Epoch,
    /// How often a link came up or went down.
    pub(crate) turns: u64,
}

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<T> {
    Begin(T),
    /// All of them, in this order, after a pause; then `asked_again`.
    Again(Spot, Vec<T>),
    /// It came back, and what came after it was done: it cannot be asked again.
    GiveUp(T),
}

pub(crate) struct Order<T> {
    /// Those with something under way.
    lines: HashMap<u64, Line<T>, BuildHasherDefault<SpotHasher>>,
    /// Requests in all lines.
    count: usize,
    /// What concerns all slots is under way.
    alone: bool,
    /// The first of them waits to be alone, or for one that is; the others behind it.
    behind: VecDeque<Kept<T>>,
}

/// The requests for one slot.
struct Line<T> {
    /// Under way.
    reads: u32,
    /// Under way, or about to be asked again.
    writes: u32,
    /// One of the writes is large.
    large: bool,
    /// That of the writes.
    way: Way,
    /// The newest place of a write that was done, or may have been.
    done: u64,
    waiting: Option<Box<Waiting<T>>>,
}

/// What most lines do not have.
struct Waiting<T> {
    /// Not begun yet.
    held: VecDeque<Kept<T>>,
    /// Writes that came back, while others are still under way.
    back: Vec<(u64, T)>,
    /// The writes are about to be asked again.
    asleep: bool,
}

struct Kept<T> {
    place: u64,
    concern: Concern,
    what: T,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self { lines: HashMap::default(), count: 0, alone: false, behind: VecDeque::new() }
    }
}

impl<T> Order<T> {
    /// Nothing is under way, and nothing waits, that a read there would have to follow.
    pub(crate) fn is_clear(&self, spot: Spot) -> bool {
        !self.alone && self.behind.is_empty() && (self.count == 0 || !self.lines.contains_key(&spot.number()))
    }

    /// A new request. It comes back if it may begin at once.
    pub(crate) fn admit(&mut self, place: u64, concern: Concern, what: T, way: Way) -> Option<T> {
        if self.alone || !self.behind.is_empty() || (concern == Concern::All && self.count > 0) {
            self.behind.push_back(Kept { place, concern, what });
            return None;
        }
        let (Concern::Read(spot) | Concern::Write { spot, .. }) = concern else {
            self.alone = true;
            return Some(what);
        };
        self.count += 1;
        let line = self.lines.entry(spot.number()).or_default();
        if line.admits(concern, way) {
            line.begin(concern, way);
            return Some(what);
        }
        line.waiting.get_or_insert_default().held.push_back(Kept { place, concern, what });
        None
    }

    /// It was answered; `happened` unless it certainly had no effect. True: something may have waited for that, see `follow`.
    pub(crate) fn answered(&mut self, place: u64, concern: Concern, happened: bool) -> bool {
        let (Concern::Read(spot) | Concern::Write { spot, .. }) = concern else {
            self.alone = false;
            return !self.behind.is_empty();
        };
        let Entry::Occupied(mut entry) = self.lines.entry(spot.number()) else { return false };
        let line = entry.get_mut();
        self.count -= 1;
        match concern {
            Concern::Write { .. } => {
                line.end_write();
                line.done = if happened { line.done.max(place) } else { line.done };
            }
            Concern::Read(_) | Concern::All => line.reads -= 1,
        }
        let waits = line.waiting.is_some();
        if line.is_idle() {
            entry.remove();
            self.shrink();
        }
        waits || (self.count == 0 && !self.behind.is_empty())
    }

    /// A write that was certainly not done, and that somebody may yet do. Goes on with `follow`.
    pub(crate) fn came_back(&mut self, place: u64, spot: Spot, what: T) {
        let Some(line) = self.lines.get_mut(&spot.number()) else { return };
        line.end_write();
        line.waiting.get_or_insert_default().back.push((place, what));
    }

    /// Those of `Step::Again` are under way.
    pub(crate) fn asked_again(&mut self, spot: Spot, way: Way) {
        let Some(line) = self.lines.get_mut(&spot.number()) else { return };
        line.way = way;
        if let Some(waiting) = &mut line.waiting {
            waiting.asleep = false;
        }
    }

    /// What may be done now that something of that slot, or of all, was answered or came back or was asked again.
    pub(crate) fn follow(&mut self, concern: Concern, way: Way, steps: &mut Vec<Step<T>>) {
        if let Concern::Read(spot) | Concern::Write { spot, .. } = concern
            && let Some(line) = self.lines.get_mut(&spot.number())
        {
            self.count -= line.follow(spot, way, steps);
            if line.is_idle() {
                self.lines.remove(&spot.number());
                self.shrink();
            }
        }
        while let Some(first) = self.behind.front() {
            if self.alone || (first.concern == Concern::All && self.count > 0) {
                break;
            }
            let Kept { place, concern, what } = self.behind.pop_front().expect("just seen");
            let behind = std::mem::take(&mut self.behind);
            steps.extend(self.admit(place, concern, what, way).map(Step::Begin));
            self.behind = behind;
        }
    }

    fn shrink(&mut self) {
        if self.lines.is_empty() && self.lines.capacity() > KEPT {
            self.lines = HashMap::default();
        }
    }
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { reads: 0, writes: 0, large: false, way: Way::default(), done: 0, waiting: None }
    }
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { held: VecDeque::new(), back: Vec::new(), asleep: false }
    }
}

impl<T> Line<T> {
    fn admits(&self, concern: Concern, way: Way) -> bool {
        self.waiting.as_ref().is_none_or(|waiting| waiting.held.is_empty()) && self.lets_through(concern, way)
    }

    /// Whatever is held.
    fn lets_through(&self, concern: Concern, way: Way) -> bool {
        let settled = self.waiting.as_ref().is_none_or(|waiting| waiting.back.is_empty() && !waiting.asleep);
        match concern {
            Concern::Read(_) | Concern::All => settled && self.writes == 0,
            Concern::Write { large, .. } => {
                let joins = !large && !self.large && self.way == way;
                settled && self.reads == 0 && (self.writes == 0 || joins)
            }
        }
    }

    fn begin(&mut self, concern: Concern, way: Way) {
        match concern {
            Concern::Write { large, .. } => {
                self.writes += 1;
                self.large |= large;
                self.way = way;
            }
            Concern::Read(_) | Concern::All => self.reads += 1,
        }
    }

    fn end_write(&mut self) {
        self.writes -= 1;
        self.large &= self.writes > 0;
    }

    fn is_idle(&self) -> bool {
        self.reads == 0 && self.writes == 0 && self.waiting.is_none()
    }

    /// How many have left the line.
    fn follow(&mut self, spot: Spot, way: Way, steps: &mut Vec<Step<T>>) -> usize {
        let Some(waiting) = &mut self.waiting else { return 0 };
        let mut left = 0;
        if self.writes == 0 && !waiting.back.is_empty() {
            waiting.back.sort_by_key(|(place, _)| *place);
            let overtaken = waiting.back.partition_point(|(place, _)| *place < self.done);
            let again: Vec<T> = waiting.back.drain(overtaken..).map(|(_, what)| what).collect();
            left = overtaken;
            steps.extend(waiting.back.drain(..).map(|(_, what)| Step::GiveUp(what)));
            if !again.is_empty() {
                self.writes = again.len() as u32;
                waiting.asleep = true;
                steps.push(Step::Again(spot, again));
            }
        }
        while let Some(first) = self.waiting.as_ref().and_then(|waiting| waiting.held.front()) {
            if !self.lets_through(first.concern, way) {
                break;
            }
            let first = self.waiting.as_mut().and_then(|waiting| waiting.held.pop_front()).expect("just seen");
            self.begin(first.concern, way);
            steps.push(Step::Begin(first.what));
        }
        self.waiting.take_if(|waiting| waiting.held.is_empty() && waiting.back.is_empty() && !waiting.asleep);
        left
    }
}

/// A spot is a number already; only its bits must be where the map looks.
#[derive(Default)]
pub(crate) struct SpotHasher(u64);

impl Hasher for SpotHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use blueprint::KeyspaceId;

    use super::*;

    const HERE: Way = Way { epoch: Epoch(1), turns: 0 };
    const ELSEWHERE: Way = Way { epoch: Epoch(2), turns: 0 };
    const A: Spot = Spot { keyspace: Chosen::Default, slot: Slot(1) };
    const B: Spot = Spot { keyspace: Chosen::Default, slot: Slot(2) };
    const ELSEWHERE_A: Spot = Spot { keyspace: Chosen::One(KeyspaceId(1)), slot: Slot(1) };

    fn read(spot: Spot) -> Concern {
        Concern::Read(spot)
    }

    fn write(spot: Spot) -> Concern {
        Concern::Write { spot, large: false }
    }

    /// A pipeline whose requests are called by their places.
    #[derive(Default)]
    struct Pipeline {
        order: Order<u64>,
        asked: Vec<Concern>,
    }

    impl Pipeline {
        /// True: it began.
        fn ask(&mut self, concern: Concern, way: Way) -> bool {
            let place = self.asked.len() as u64;
            self.asked.push(concern);
            self.order.admit(place, concern, place, way).is_some()
        }

        fn answer(&mut self, place: u64, happened: bool, way: Way) -> Vec<Step<u64>> {
            let (concern, mut steps) = (self.asked[place as usize], Vec::new());
            if self.order.answered(place, concern, happened) {
                self.order.follow(concern, way, &mut steps);
            }
            steps
        }

        fn done(&mut self, place: u64) -> Vec<Step<u64>> {
            self.answer(place, true, HERE)
        }

        fn come_back(&mut self, place: u64, spot: Spot) -> Vec<Step<u64>> {
            let mut steps = Vec::new();
            self.order.came_back(place, spot, place);
            self.order.follow(write(spot), HERE, &mut steps);
            steps
        }

        fn wake(&mut self, spot: Spot) -> Vec<Step<u64>> {
            let mut steps = Vec::new();
            self.order.asked_again(spot, HERE);
            self.order.follow(write(spot), HERE, &mut steps);
            steps
        }

        fn is_empty(&self) -> bool {
            self.order.lines.is_empty() && self.order.count == 0 && self.order.behind.is_empty() && !self.order.alone
        }
    }

    use Step::{Again, Begin, GiveUp};

    #[test]
    fn different_slots_and_keyspaces_do_not_wait_for_each_other() {
        let mut pipeline = Pipeline::default();
        assert!(pipeline.ask(write(A), HERE) && pipeline.ask(read(B), HERE) && pipeline.ask(write(ELSEWHERE_A), HERE));
        for place in [2, 0, 1] {
            assert_eq!(pipeline.done(place), []);
        }
        assert!(pipeline.is_empty());
    }

    #[test]
    fn a_read_waits_for_the_writes_before_it_and_a_write_for_the_reads() {
        let mut pipeline = Pipeline::default();
        assert!(pipeline.ask(write(A), HERE) && pipeline.ask(write(A), HERE), "writes are under way together");
        assert!(!pipeline.ask(read(A), HERE) && !pipeline.ask(read(A), HERE) && !pipeline.ask(write(A), HERE));
        assert!(pipeline.ask(read(B), HERE));
        assert_eq!(pipeline.done(0), []);
        assert_eq!(pipeline.done(1), [Begin(2), Begin(3)]);
        assert_eq!(pipeline.done(3), []);
        assert!(!pipeline.ask(read(A), HERE), "a read does not overtake a write that waits");
        assert_eq!(pipeline.done(2), [Begin(4)]);
        assert_eq!(pipeline.done(4), [Begin(6)]);
        assert_eq!((pipeline.done(6), pipeline.done(5)), (vec![], vec![]));
        assert!(pipeline.is_empty());
    }

    /// Reads that are answered at once have no place here: they ask whether they would overtake anything.
    #[test]
    fn a_spot_is_clear_when_nothing_there_is_under_way() {
        let mut pipeline = Pipeline::default();
        let clear = |pipeline: &Pipeline| [A, B].map(|spot| pipeline.order.is_clear(spot));
        assert_eq!(clear(&pipeline), [true, true]);
        assert!(pipeline.ask(write(A), HERE));
        assert_eq!(clear(&pipeline), [false, true]);
        assert!(!pipeline.ask(Concern::All, HERE));
        assert_eq!(clear(&pipeline), [false, false], "what concerns all waits, and is not overtaken");
        assert_eq!(pipeline.done(0), [Begin(1)]);
        assert_eq!(clear(&pipeline), [false, false], "it is alone");
        assert_eq!(pipeline.done(1), []);
        assert_eq!(clear(&pipeline), [true, true]);
    }

    #[test]
    fn writes_follow_each_other_only_on_the_same_way() {
        let mut pipeline = Pipeline::default();
        assert!(pipeline.ask(write(A), HERE) && !pipeline.ask(write(A), ELSEWHERE));
        assert_eq!(pipeline.answer(0, true, ELSEWHERE), [Begin(1)]);
        assert!(pipeline.ask(write(A), ELSEWHERE));
        assert!(!pipeline.ask(Concern::Write { spot: A, large: true }, ELSEWHERE), "a large one travels apart");
        assert_eq!(
            (pipeline.answer(1, true, ELSEWHERE), pipeline.answer(2, true, ELSEWHERE)),
            (vec![], vec![Begin(3)])
        );
        assert!(!pipeline.ask(write(A), ELSEWHERE));
        assert_eq!(pipeline.answer(3, true, ELSEWHERE), [Begin(4)]);
        assert_eq!(pipeline.answer(4, true, ELSEWHERE), []);
        assert!(pipeline.is_empty());
    }

    /// Nobody leads for a moment: all come back, in whatever order, and are asked again in theirs.
    #[test]
    fn what_comes_back_is_asked_again_in_order() {
        let mut pipeline = Pipeline::default();
        assert!(pipeline.ask(write(A), HERE) && pipeline.ask(write(A), HERE));
        assert_eq!(pipeline.come_back(1, A), []);
        assert!(!pipeline.ask(write(A), HERE) && !pipeline.ask(read(A), HERE), "nothing new overtakes them");
        assert_eq!(pipeline.come_back(0, A), [Again(A, vec![0, 1])]);
        assert!(!pipeline.ask(write(A), HERE), "asleep");
        assert_eq!(pipeline.wake(A), [Begin(2)]);
        assert_eq!((pipeline.done(0), pipeline.done(1)), (vec![], vec![]));
        assert_eq!(pipeline.done(2), [Begin(3)]);
        assert_eq!(pipeline.done(3), [Begin(4)]);
        assert_eq!(pipeline.done(4), []);
        assert!(pipeline.is_empty());
    }

    /// 1. SET k 1 comes back; 2. SET k 2, which was under way, is done. To ask for the first again would leave 1.
    #[test]
    fn what_was_overtaken_is_not_asked_again() {
        let mut pipeline = Pipeline::default();
        assert!(pipeline.ask(write(A), HERE) && pipeline.ask(write(A), HERE) && pipeline.ask(write(A), HERE));
        assert_eq!((pipeline.come_back(2, A), pipeline.come_back(0, A)), (vec![], vec![]));
        assert_eq!(pipeline.done(1), [GiveUp(0), Again(A, vec![2])]);
        assert_eq!((pipeline.wake(A), pipeline.done(2)), (vec![], vec![]));
        assert!(pipeline.is_empty());

        assert!(pipeline.ask(write(A), HERE) && pipeline.ask(write(A), HERE));
        assert_eq!(pipeline.answer(4, false, HERE), [], "refused: it did nothing");
        assert_eq!(pipeline.come_back(3, A), [Again(A, vec![3])]);
        assert_eq!((pipeline.wake(A), pipeline.done(3)), (vec![], vec![]));
        assert!(pipeline.is_empty());
    }

    /// The same slot twice: what is done in one keyspace overtakes nothing of the other.
    #[test]
    fn what_comes_back_in_one_keyspace_is_no_matter_to_another() {
        let mut pipeline = Pipeline::default();
        assert!(pipeline.ask(write(A), HERE) && pipeline.ask(write(ELSEWHERE_A), HERE));
        assert!(!pipeline.ask(read(A), HERE) && !pipeline.ask(read(ELSEWHERE_A), HERE));
        assert_eq!(pipeline.done(1), [Begin(3)]);
        assert_eq!(pipeline.come_back(0, A), [Again(A, vec![0])]);
        assert!(pipeline.ask(read(ELSEWHERE_A), HERE));
        assert_eq!((pipeline.done(3), pipeline.done(4), pipeline.wake(A)), (vec![], vec![], vec![]));
        assert_eq!((pipeline.done(0), pipeline.done(2)), (vec![Begin(2)], vec![]));
        assert!(pipeline.is_empty());
    }

    #[test]
    fn what_concerns_more_slots_than_one_is_alone() {
        let mut pipeline = Pipeline::default();
        assert!(pipeline.ask(write(A), HERE) && pipeline.ask(write(B), HERE));
        assert!(!pipeline.ask(Concern::All, HERE) && !pipeline.ask(write(B), HERE) && !pipeline.ask(read(B), HERE));
        assert!(!pipeline.ask(Concern::All, HERE) && !pipeline.ask(write(A), HERE));
        assert_eq!((pipeline.done(0), pipeline.done(1)), (vec![], vec![Begin(2)]));
        assert!(!pipeline.ask(read(A), HERE));
        assert_eq!(pipeline.done(2), [Begin(3)]);
        assert_eq!(pipeline.done(3), [Begin(4)]);
        assert_eq!(pipeline.done(4), [Begin(5)]);
        assert_eq!(pipeline.done(5), [Begin(6)]);
        assert_eq!(pipeline.done(6), [Begin(7)]);
        assert_eq!(pipeline.done(7), []);
        assert!(pipeline.is_empty() && pipeline.ask(Concern::All, HERE));
        assert_eq!(pipeline.done(8), []);
        assert!(pipeline.is_empty());
    }
}
