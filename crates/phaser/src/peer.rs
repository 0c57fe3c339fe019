//! What a primary knows about one of the others, in this term.

use alloc::vec::Vec;

use blueprint::{Index, Instant, Member, Position, SlotSet};

use crate::message::Progress;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    pub(crate) member: Member,
    pub(crate) part: Part,
    /// Proved equal and safe, under the term that is led now (R1). Answers of earlier terms do not count.
    pub(crate) upto: Option<Index>,
    /// The next entry to send.
    pub(crate) next: Index,
    /// Not known where the logs meet, or something got lost: one frame at a time until it answers.
    pub(crate) probing: bool,
    pub(crate) sent_at: Instant,
    /// When `next` was first probed: only answers to that probe, or to its repetitions, say anything new.
    pub(crate) probed_from: Instant,
    /// It grants until then, counted from the sending of what it answered (R5).
    pub(crate) lease: Instant,
    pub(crate) heard: Instant,
    /// When the last beacon left, and the commit index that it told.
    pub(crate) beaconed: (Instant, Index),
    /// When it last had everything, or got further.
    pub(crate) advanced: Instant,
    pub(crate) progress: Progress,
    /// It was told to begin anew after this base and has not answered.
    pub(crate) begin: Option<Position>,
    /// What it then took for committed, and is not in the log here.
    pub(crate) refuted: Option<Position>,
    pub(crate) fill: Fill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Secondary,
    Candidate,
}

/// A backfill under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Fill {
    /// Images that were sent, with those of their slots that are not yet said to be safe.
    pub(crate) in_flight: Vec<SlotSet>,
    /// Not before then: the throttle.
    pub(crate) not_before: Instant,
    /// Something waits for that moment.
    pub(crate) wake_at: Option<Instant>,
    /// When the last image left, or was said to be safe.
    pub(crate) moved_at: Instant,
}

impl Fill {
    /// Those of `missing` that are not under way.
    pub(crate) fn unsent(&self, missing: &SlotSet) -> SlotSet {
        self.in_flight.iter().fold(missing.clone(), |left, image| left.difference(image))
    }

    pub(crate) fn on_filled(&mut self, slots: &SlotSet, now: Instant) {
        self.in_flight.iter_mut().for_each(|image| *image = image.difference(slots));
        self.in_flight.retain(|image| !image.is_empty());
        self.moved_at = now;
    }
}

impl Peer {
    pub(crate) fn new(member: Member, part: Part, next: Index, now: Instant) -> Self {
        Self {
            member,
            part,
            upto: None,
            next,
            probing: true,
            sent_at: Instant::ZERO,
            probed_from: Instant::ZERO,
            lease: Instant::ZERO,
            heard: now,
            beaconed: (Instant::ZERO, Index(0)),
            advanced: now,
            progress: Progress::default(),
            begin: None,
            refuted: None,
            fill: Fill::default(),
        }
    }

    /// The same peer under a new term: what it holds must be proved again, what it promised not to do still holds.
    pub(crate) fn carry_over(mut self, part: Part, keep_acks: bool) -> Self {
        self.part = part;
        if !keep_acks {
            let next = self.upto.take().map_or(self.next, Index::next);
            self.probe(next);
        }
        self.begin = None;
        self
    }

    /// Probe from here on, at once.
    pub(crate) fn probe(&mut self, next: Index) {
        self.next = next;
        self.probing = true;
        self.probed_from = Instant::ZERO;
        self.sent_at = Instant::ZERO;
    }

    /// After this base, whatever it has.
    pub(crate) fn begin_anew(&mut self, base: Position, refuted: Option<Position>) {
        (self.begin, self.refuted) = (Some(base), refuted);
        self.upto = None;
        self.next = base.index.next();
        self.fill.in_flight.clear();
        self.fill.wake_at = None;
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.upto.is_some() && self.begin.is_none() && self.progress.missing.is_empty()
    }

    pub(crate) fn instants(&mut self) -> impl Iterator<Item = &mut Instant> {
        [
            &mut self.probed_from,
            &mut self.sent_at,
            &mut self.lease,
            &mut self.heard,
            &mut self.beaconed.0,
            &mut self.advanced,
            &mut self.fill.not_before,
            &mut self.fill.moved_at,
        ]
        .into_iter()
        .chain(&mut self.fill.wake_at)
    }
}
