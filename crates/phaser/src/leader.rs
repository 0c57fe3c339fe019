//! What a primary does: gives indexes, sends frames, counts answers, commits, serves reads under leases.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use blueprint::{Breach, Conduct, Government, Index, Instant, Member, NodeId, Position, Slot, SlotSet, Term};
use bytes::BytesMut;

use crate::config::Config;
use crate::growth::Growth;
use crate::handover::HandOver;
use crate::io::{Dropped, Event, Outbox, Output, Refusal, Served, Ticket};
use crate::lease::MOST_GRANTS;
use crate::log::Log;
use crate::message::{Message, Progress};
use crate::peer::{Part, Peer};
use crate::phaser::{Phaser, Request, Role, Waiting};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leader {
    pub(crate) term: Term,
    /// The terms before it that were led in this very rule, oldest first: whoever granted something in them may be told that nothing is read in
    /// them any more. (Otherwise: 1. n2 is a candidate of n1 in t2, and grants; 2. it is seated in t3, and leads in t4; 3. n1 abdicates of t3, and
    /// n2 waits until what it granted in t2 has run out.)
    pub(crate) led: Vec<Term>,
    pub(crate) government: Government,
    /// The entry that began this rule; nothing is served before it is committed (R4).
    pub(crate) reign: Index,
    pub(crate) serving: bool,
    pub(crate) peers: Vec<Peer>,
    pub(crate) growth: Growth,
    pub(crate) hand_over: HandOver,
    /// A successor that was seen and is ours too, while its promise becomes durable.
    pub(crate) succession: Option<Government>,
    /// Who is to lead, by an order that came meanwhile: it is about the government that comes.
    pub(crate) ordered: Option<NodeId>,
    /// Slots of a Split that is appended and not yet committed: writes to them wait.
    pub(crate) parting: SlotSet,
    /// Its log ends with a Freeze, committed or not: all writes wait, until they can go elsewhere.
    pub(crate) freezing: bool,
    pub(crate) tickets: VecDeque<(Index, Ticket)>,
    /// While there are heirs, reads are good until then (R9); and the question under way: when it was first sent, and last.
    pub(crate) confirmed: Instant,
    pub(crate) confirming: Option<(u64, Instant, Instant)>,
    /// Laggards that were dismissed: how often, and when they may be seated again.
    pub(crate) delays: BTreeMap<NodeId, (u32, Instant)>,
    /// Tell everyone the commit index with the next flush.
    pub(crate) announce: bool,
    pub(crate) tick_at: Instant,
    pub(crate) propose_at: Instant,
    /// Only read by the planted bug that checks leases before reads.
    leased_before: bool,
    /// Only read by the planted bug that lets a child count its parent's leases.
    pub(crate) borrowed: Instant,
}

impl Leader {
    pub(crate) fn new(government: Government, reign: Index, parting: SlotSet, now: Instant, config: &Config) -> Self {
        let peers = Self::seats(&government).map(|(member, part)| Peer::new(member, part, reign, now)).collect();
        Self {
            term: government.term,
            led: Vec::new(),
            government,
            reign,
            serving: false,
            peers,
            growth: Growth::None,
            hand_over: HandOver::None,
            succession: None,
            ordered: None,
            parting,
            freezing: false,
            tickets: VecDeque::new(),
            confirmed: Instant::ZERO,
            confirming: None,
            delays: BTreeMap::new(),
            announce: false,
            tick_at: config.next_tick(now),
            propose_at: now,
            leased_before: false,
            borrowed: Instant::ZERO,
        }
    }

    fn seats(government: &Government) -> impl Iterator<Item = (Member, Part)> + '_ {
        let secondaries = government.secondaries.iter().map(|m| (*m, Part::Secondary));
        secondaries.chain(government.candidates.iter().map(|m| (*m, Part::Candidate)))
    }

    /// Goes on in the next term, without a new Reign. A successor settles whatever was proposed.
    pub(crate) fn adopt<C: Conduct>(&mut self, government: Government, last: Index, now: Instant, config: &Config) {
        assert!(government.term > self.term, "governments only go forward");
        let mut before = core::mem::take(&mut self.peers);
        // Whoever comes back one day comes as somebody else.
        self.delays.retain(|node, _| government.named(*node).is_some());
        for (member, part) in Self::seats(&government) {
            let laggard = |p: &Peer| p.member == member && p.part == Part::Secondary && part == Part::Candidate;
            if before.iter().any(laggard) {
                self.delay_seat(member, now, config);
            }
            let peer = match before.iter().position(|p| p.member == member) {
                Some(at) => before.swap_remove(at).carry_over(part, C::breaks(Breach::AckFromEarlierTerm)),
                None => Peer::new(member, part, last.next(), now),
            };
            self.peers.push(peer);
        }
        if self.led.len() == MOST_GRANTS {
            self.led.remove(0);
        }
        self.led.push(self.term);
        self.term = government.term;
        self.government = government;
        self.growth = Growth::None;
        self.hand_over = HandOver::None;
        self.confirmed = Instant::ZERO;
        self.confirming = None;
        self.tick_at = config.next_tick(now);
        self.propose_at = now;
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.peers.iter().filter_map(|peer| peer.fill.wake_at).fold(self.tick_at, Instant::min)
    }

    pub(crate) fn waits_for(&self) -> Option<&'static str> {
        if self.succession.is_some() {
            Some("R2: the promise of its next term to become durable")
        } else if !self.government.in_sync() {
            Some("R8: another member, because there are fewer than the minimum")
        } else if !self.serving {
            Some("R4: its Reign to be committed by every member")
        } else if let HandOver::Proposed { .. } = self.hand_over {
            Some("R7: the outcome of its hand over")
        } else if let Growth::Proposed { .. } = self.growth {
            Some("R7: the outcome of a seat that it proposed")
        } else if self.tickets.is_empty() {
            None
        } else {
            Some("R1: every member to acknowledge what was appended")
        }
    }

    /// Somebody may lack something, or is to hear something, that goes out with a flush.
    pub(crate) fn has_to_send(&self, last: Index) -> bool {
        let lacks = |peer: &Peer| peer.begin.is_none() && (peer.probing || peer.next <= last);
        self.announce || self.peers.iter().any(lacks)
    }

    pub(crate) fn takes_writes(&self) -> bool {
        self.serving && self.government.in_sync() && self.hand_over == HandOver::None
    }

    pub(crate) fn peer(&mut self, member: Member) -> Option<&mut Peer> {
        self.peers.iter_mut().find(|p| p.member == member)
    }

    /// Whose answers and leases are needed: the secondaries, and while growth is pending the one who would join (R6).
    pub(crate) fn needed(&self) -> impl Iterator<Item = &Peer> {
        let joining = self.growth.joint();
        self.peers.iter().filter(move |p| p.part == Part::Secondary || Some(p.member) == joining)
    }

    /// Reads are good until then.
    pub(crate) fn read_until<C: Conduct>(&self) -> Instant {
        let mut until = Instant::NEVER;
        for peer in self.needed() {
            if peer.part == Part::Candidate && C::breaks(Breach::JointAcksWithoutLeases) {
                continue;
            }
            until = until.min(peer.lease);
        }
        if !self.government.heirs.is_empty() && !C::breaks(Breach::LonePrimaryReadsWithoutAsking) {
            until = until.min(self.confirmed);
        }
        if C::breaks(Breach::ChildCountsParentLeases) {
            until = until.max(self.borrowed);
        }
        until
    }

    pub(crate) fn check_invariants(&self, promised: Term, log: &Log) {
        assert!(
            self.term == promised || self.succession.is_some(),
            "a primary has promised the term that it leads (R4)"
        );
        assert!(self.reign <= log.last().index, "a rule begins with an entry");
        assert_eq!(self.government.term, self.term);
        for peer in &self.peers {
            assert!(peer.upto.is_none_or(|upto| upto <= log.last().index), "nobody is ahead of the primary");
        }
    }

    pub(crate) fn instants(&mut self) -> Vec<&mut Instant> {
        let mut all: Vec<&mut Instant> = alloc::vec![&mut self.confirmed, &mut self.tick_at, &mut self.propose_at];
        all.extend(self.confirming.iter_mut().flat_map(|(_, sent, asked)| [sent, asked]));
        all.extend(self.delays.values_mut().map(|(_, at)| at));
        all.extend(self.peers.iter_mut().flat_map(Peer::instants));
        all.extend(self.growth.instants());
        all.extend(self.hand_over.instants());
        all
    }
}

impl<C: Conduct> Phaser<C> {
    pub(crate) fn on_request(&mut self, now: Instant, waiting: Waiting, out: &mut Outbox) {
        let Role::Leading(leader) = &self.role else {
            return match self.role {
                Role::Ascending { .. } => self.wait(waiting, out),
                Role::Following | Role::Restarted { .. } | Role::Leading(_) => {
                    out.push(Output::Forward { ticket: waiting.ticket });
                }
            };
        };
        if self.given || !self.owned.contains(waiting.slot) {
            return out.push(Output::Forward { ticket: waiting.ticket });
        }
        match waiting.what {
            Request::Read => self.on_read(now, waiting, out),
            Request::Write(_) if !leader.government.in_sync() && !C::breaks(Breach::WritesAcceptedAlone) => {
                out.push(Output::Refuse { ticket: waiting.ticket, why: Refusal::NoReplicas });
            }
            Request::Write(_) if !self.accepts_writes(waiting.slot) => self.wait(waiting, out),
            Request::Write(body) => {
                let write = |entry: &mut BytesMut| entry.extend_from_slice(&body);
                self.append_write(now, waiting.ticket, waiting.slot, body.len(), write);
            }
        }
    }

    /// A write that need not wait, without an outbox: what `Input::Write` would do at once, and nothing follows from it but a flush. Most of
    /// them are such. False: it must go the ordinary way.
    pub fn takes_at_once(&self, slot: Slot) -> bool {
        let Role::Leading(leader) = &self.role else { return false };
        leader.government.in_sync() && !self.given && self.owned.contains(slot) && self.accepts_writes(slot)
    }

    /// `encode` writes its body, of at most so many bytes, where the entry will lie, behind what is there.
    pub fn take_at_once(
        &mut self,
        now: Instant,
        ticket: Ticket,
        slot: Slot,
        most: usize,
        encode: impl FnOnce(&mut BytesMut),
    ) {
        assert!(self.takes_at_once(slot), "whoever writes like this has asked");
        self.append_write(now, ticket, slot, most, encode);
        self.note_leases(now);
    }

    fn append_write(
        &mut self,
        now: Instant,
        ticket: Ticket,
        slot: Slot,
        most: usize,
        encode: impl FnOnce(&mut BytesMut),
    ) {
        let Role::Leading(Leader { term, .. }) = self.role else { unreachable!("only a primary appends") };
        let stamps = self.stamp_own(now, term);
        let index = self.log.push_command(term, stamps, slot, most, encode);
        let Role::Leading(leader) = &mut self.role else { unreachable!("it was a moment ago") };
        leader.tickets.push_back((index, ticket));
    }

    fn accepts_writes(&self, slot: Slot) -> bool {
        let Role::Leading(leader) = &self.role else { return false };
        let paused = leader.hand_over.pauses::<C>();
        let room = leader.tickets.len() < self.config.uncommitted;
        leader.serving && !paused && room && !leader.freezing && !leader.parting.contains(slot)
    }

    fn on_read(&mut self, now: Instant, waiting: Waiting, out: &mut Outbox) {
        if let Some(Served { clock, good_until }) = self.serves(now) {
            out.push(Output::Serve { ticket: waiting.ticket, clock, good_until });
        } else {
            self.wait(waiting, out);
            self.confirm(now, out);
        }
    }

    /// R5: evaluated first; then the lease is checked, by a clock reading taken after that; then the answer leaves.
    fn serves(&self, now: Instant) -> Option<Served> {
        let Role::Leading(leader) = &self.role else { return None };
        let mut good_until = leader.read_until::<C>();
        if C::breaks(Breach::LeaseCheckedBeforeRead) && leader.leased_before {
            good_until = Instant::NEVER;
        }
        (leader.serving && self.frozen.is_none() && good_until > now)
            .then(|| Served { clock: self.clock.read(now), good_until })
    }

    /// A read that need not wait, without a ticket: what `Serve` would say at once, were it an `Input::Read`. Most of them are such.
    pub fn serve(&mut self, now: Instant, slot: Slot) -> Option<Served> {
        let served = self.serves(now).filter(|_| self.owned.contains(slot));
        if served.is_some() {
            self.note_leases(now);
        }
        served
    }

    /// R9: with heirs about, a read needs a look at the blueprint. The same question is repeated until an answer to it could
    /// no longer be good: a slow meta group answers it, too.
    fn confirm(&mut self, now: Instant, out: &mut Outbox) {
        let lease = self.config.lease;
        let Role::Leading(leader) = &mut self.role else { return };
        let confirmed = leader.confirmed > now; // then it is something else that the read waits for
        if leader.government.heirs.is_empty() || confirmed || !leader.serving {
            return;
        }
        let (nonce, sent, asked) = match leader.confirming {
            Some((nonce, sent, asked)) if sent + lease > now => (nonce, sent, asked),
            _ => (self.nonce + 1, now, Instant::ZERO),
        };
        if asked == Instant::ZERO || now.since(asked) >= self.config.retry_after() {
            leader.confirming = Some((nonce, sent, now));
            self.nonce = self.nonce.max(nonce);
            out.push(Output::Ask { nonce });
        }
    }

    pub(crate) fn on_confirmed(&mut self, now: Instant, nonce: u64, out: &mut Outbox) {
        let Role::Leading(leader) = &mut self.role else { return };
        if let Some((asked, sent, _)) = leader.confirming
            && asked == nonce
        {
            leader.confirmed = sent + self.config.lease;
            leader.confirming = None;
            self.serve_backlog(now, out);
        }
    }

    /// Tries everything that waits once more, in order.
    pub(crate) fn serve_backlog(&mut self, now: Instant, out: &mut Outbox) {
        if !matches!(self.role, Role::Leading(_)) || self.backlog.is_empty() {
            return;
        }
        for waiting in core::mem::take(&mut self.backlog) {
            self.on_request(now, waiting, out);
        }
    }

    pub(crate) fn take_ticket(&mut self, index: Index) -> Option<Ticket> {
        let Role::Leading(leader) = &mut self.role else { return None };
        match leader.tickets.front() {
            Some((at, _)) if *at == index => leader.tickets.pop_front().map(|(_, ticket)| ticket),
            _ => None,
        }
    }

    pub(crate) fn on_answer(&mut self, now: Instant, from: Member, message: Message, out: &mut Outbox) {
        let last = self.log.last().index;
        let lease = self.config.lease;
        let Role::Leading(leader) = &mut self.role else { return self.drop_message(Dropped::NotLeading, out) };
        let stale = message.term() != leader.term;
        if stale && !(C::breaks(Breach::AckFromEarlierTerm) && message.term() < leader.term) {
            return self.drop_message(Dropped::LowerTerm, out);
        }
        let Some(peer) = leader.peer(from) else { return self.drop_message(Dropped::UnknownSender, out) };
        if let Message::Prepared { sent, .. } | Message::BeaconAck { sent, .. } | Message::Differs { sent, .. } =
            message
            && sent > now
        {
            return self.drop_message(Dropped::FromTheFuture, out);
        }
        peer.heard = now;
        match message {
            Message::Prepared { upto, progress, sent, .. } => {
                if upto > last {
                    return self.drop_message(Dropped::Malformed, out);
                }
                if peer.begin.is_some_and(|base| upto < base.index || sent != Instant::ZERO) {
                    return; // said before it began anew
                }
                peer.begin = None;
                if peer.upto.is_none_or(|u| upto > u) || upto == last {
                    peer.advanced = now;
                }
                peer.upto = peer.upto.max(Some(upto));
                peer.next = peer.next.max(upto.next());
                peer.probing = false;
                peer.progress = progress;
                peer.lease = peer.lease.max(Self::lease_end(sent, now, lease));
            }
            Message::BeaconAck { progress, sent, .. } => {
                // Restarted within this term it has forgotten what was proved, and takes nothing as committed until it is again.
                let forgot = sent == peer.beaconed.0 && progress.applied < peer.beaconed.1;
                peer.progress = progress;
                peer.lease = peer.lease.max(Self::lease_end(sent, now, lease));
                if let Some(upto) = peer.upto.filter(|_| forgot && !peer.probing) {
                    peer.probe(upto.next());
                }
            }
            Message::Differs { last, known, progress, sent, .. } => {
                let was_told = peer.begin.is_some();
                self.on_differs(from, last, known, progress, sent);
                if !was_told {
                    self.send_begin(from, out);
                }
            }
            Message::Filled { slots, progress, .. } => {
                peer.fill.on_filled(&slots, now);
                peer.progress = progress;
            }
            Message::Prepare { .. }
            | Message::Outranked { .. }
            | Message::Beacon { .. }
            | Message::Begin { .. }
            | Message::Fill { .. }
            | Message::Abdicate { .. } => unreachable!("only answers come here"),
        }
        self.learn_commit_from(now, from, out);
        self.try_commit(now, out);
        self.try_seat(now, out);
        self.serve_waiting_reads(now, out);
    }

    /// What another replica has applied is committed, and what it proved equal is here too. A primary that restarted may
    /// know less than that: below the minimum it would otherwise never get further, because its tables would be older
    /// than the log of the very candidate that it must fill to get there.
    fn learn_commit_from(&mut self, now: Instant, from: Member, out: &mut Outbox) {
        let Role::Leading(leader) = &mut self.role else { return };
        let Some(peer) = leader.peer(from) else { return };
        let known = peer.upto.map_or(Index(0), |upto| upto.min(peer.progress.applied));
        // Its own Reign, and what follows, only this primary can have committed.
        let known = known.min(leader.reign.prev());
        if known > self.commit {
            self.commit = known;
            self.apply(now, out);
        }
    }

    /// R5: counted from the sending of what was answered.
    fn lease_end(sent: Instant, now: Instant, lease: core::time::Duration) -> Instant {
        if C::breaks(Breach::LeaseFromReceipt) { now + lease } else { sent + lease }
    }

    fn serve_waiting_reads(&mut self, now: Instant, out: &mut Outbox) {
        let Role::Leading(leader) = &self.role else { return };
        let readable = leader.serving && leader.read_until::<C>() > now;
        if readable && self.backlog.iter().any(|w| w.what == Request::Read) {
            self.serve_backlog(now, out);
        }
    }

    /// Where do the logs meet? Its end, if we have that; else what it knows to be committed, if we have that; else our
    /// base, which every member holds. A candidate that does not hold even that begins anew; so does one whose committed entries are
    /// not here, which can only be where every member lost the end of its log (R10, level `memory`).
    fn on_differs(&mut self, from: Member, last: Position, known: Position, progress: Progress, sent: Instant) {
        let base = self.log.base();
        let commit = self.new_beginning();
        let Role::Leading(leader) = &mut self.role else { unreachable!("only a primary is answered") };
        let is_joint = leader.growth.joint() == Some(from);
        let Some(peer) = leader.peer(from) else { return };
        peer.progress = progress;
        // Only an answer to the present probe says anything new: a slow disk may answer several old ones at once.
        let old = peer.probed_from == Instant::ZERO || sent < peer.probed_from;
        let met = peer.upto.is_some_and(|upto| upto >= base.index);
        if !peer.probing {
            // A frame got lost on the way, or overtook another. Only the answer to a probe says where the logs meet.
            if let Some(upto) = peer.upto {
                peer.probe(upto.next());
            }
            return;
        }
        if peer.begin.is_some() && sent == Instant::ZERO {
            // It cannot begin anew as it was told: it has more than it once knew of.
            if self.log.holds(known) {
                peer.begin = None;
                peer.probe(known.index.next());
            } else {
                peer.refuted = Some(known);
            }
            return;
        }
        if peer.begin.is_some() || old {
            return;
        }
        // Who counts already is never told to throw anything away.
        let may_begin = peer.part == Part::Candidate && !is_joint;
        let is_lost = known.index >= base.index && !self.log.holds(known);
        if is_lost && may_begin {
            peer.begin_anew(commit, Some(known));
            return;
        }
        let probed_at = peer.next.prev();
        if known.index > probed_at && self.log.holds(known) {
            peer.probe(known.index.next()); // its base is above all that the frame brought
            return;
        }
        if met {
            return;
        }
        let meets = [last, known].into_iter().find(|at| self.log.holds(*at) && at.index < probed_at);
        if let Some(at) = meets {
            peer.probe(at.index.next());
        } else if probed_at > base.index && last.index >= base.index {
            peer.probe(base.index.next());
        } else if may_begin {
            peer.begin_anew(commit, None);
        }
    }

    /// R1, R8: when everyone needed has it under this term, it is committed, applied and answered.
    pub(crate) fn try_commit(&mut self, now: Instant, out: &mut Outbox) {
        let Role::Leading(leader) = &self.role else { return };
        let mut upto = self.disk.safe;
        if C::breaks(Breach::CommitOnMajority) {
            upto = leader.majority(upto);
        } else {
            for peer in leader.needed() {
                if peer.part == Part::Candidate && C::breaks(Breach::GrowthWithoutJointAcks) {
                    continue;
                }
                upto = upto.min(peer.upto.unwrap_or(Index(0)));
            }
        }
        if !leader.government.in_sync() && !C::breaks(Breach::WritesAcceptedAlone) {
            if !C::breaks(Breach::TailCommittedBelowMinimum) {
                return;
            }
            upto = upto.min(leader.reign);
        }
        if leader.growth.joint().is_some() && !C::breaks(Breach::SplitCommitsDuringGrowth) {
            upto = self.before_split(upto);
        }
        // The inherited tail commits together with the Reign, never before it.
        if upto < leader.reign || upto <= self.commit {
            return;
        }
        self.commit = upto;
        self.apply(now, out);
        self.after_apply(now, out);
    }

    /// What follows from whatever was just applied. An Absorb may have kept the rest waiting: then so does this.
    pub(crate) fn after_apply(&mut self, now: Instant, out: &mut Outbox) {
        let Role::Leading(leader) = &self.role else { return };
        if self.applied < leader.reign {
            return;
        }
        self.begin_serving(out);
        self.try_propose_hand_over(now, out);
        self.try_merge(now, out);
        self.serve_backlog(now, out);
    }

    /// While growth is pending the commit index does not pass a Split, nor an Absorb: who joins must have what that brings, too.
    fn before_split(&self, upto: Index) -> Index {
        if upto <= self.commit {
            return upto;
        }
        let tail = self.log.milestones_after(self.commit).take_while(|e| e.at.index <= upto);
        let mut splits = tail.filter(|e| e.split().is_some() || e.absorb().is_some());
        splits.next().map_or(upto, |e| e.at.index.prev())
    }

    pub(crate) fn begin_serving(&mut self, out: &mut Outbox) {
        let Role::Leading(leader) = &mut self.role else { return };
        if !leader.serving {
            leader.serving = true;
            out.event(Event::Serving { term: leader.term });
            self.tell_splits(out);
            self.tell_merges(out);
        }
    }

    /// One frame per peer and batch.
    pub(crate) fn send_frames(&mut self, now: Instant, out: &mut Outbox) {
        let Role::Leading(leader) = &mut self.role else { return };
        for peer in &mut leader.peers {
            if peer.begin.is_none() {
                Self::send_entries(&self.config, &self.log, self.commit, leader.term, self.me, peer, now, out);
            }
            if leader.announce {
                let commit = peer.upto.map_or(Index(0), |upto| upto.min(self.commit));
                out.send(self.me, peer.member, Message::Beacon { term: leader.term, commit, sent: now });
            }
        }
        leader.announce = false;
    }

    #[allow(clippy::too_many_arguments)]
    fn send_entries(
        config: &Config,
        log: &Log,
        commit: Index,
        term: Term,
        me: Member,
        peer: &mut Peer,
        now: Instant,
        out: &mut Outbox,
    ) {
        if peer.next <= log.base().index {
            // What it lacks was cut off meanwhile: the answer will say so. An answer to the probe before says as much.
            let (probing, sent_at, probed_from) = (peer.probing, peer.sent_at, peer.probed_from);
            peer.probe(log.base().index.next());
            if probing {
                (peer.sent_at, peer.probed_from) = (sent_at, probed_from);
            }
        }
        loop {
            let first = peer.next;
            if peer.probing {
                if peer.sent_at != Instant::ZERO && now.since(peer.sent_at) < config.retry_after() {
                    return;
                }
            } else {
                let flying = first.0 - 1 - peer.upto.unwrap_or(Index(0)).0.min(first.0 - 1);
                if first > log.last().index || flying >= config.window_entries {
                    return;
                }
            }
            let previous = log.position(first.prev()).expect("next is above the base and at most one past the end");
            let entries = log.frame(first, config.frame_entries, config.frame_bytes);
            if !peer.probing {
                peer.next = Index(first.0 + entries.len() as u64);
            }
            peer.sent_at = now;
            if peer.probing && peer.probed_from == Instant::ZERO {
                peer.probed_from = now;
            }
            out.send(me, peer.member, Message::Prepare { term, previous, entries, commit, sent: now });
            if peer.probing {
                return;
            }
        }
    }

    /// The tick: beacons, and whatever was not answered once more.
    pub(crate) fn on_tick_timeout(&mut self, now: Instant, out: &mut Outbox) {
        let last = self.log.last().index;
        let Role::Leading(leader) = &mut self.role else { return };
        if now < leader.tick_at {
            return;
        }
        leader.tick_at = self.config.next_tick(now);
        for peer in &mut leader.peers {
            let upto = peer.upto.unwrap_or(Index(0));
            if upto == last {
                peer.advanced = now;
            }
            let unanswered = !peer.probing && peer.upto.is_some() && peer.next.prev() > upto;
            let quiet = now.since(peer.sent_at) >= self.config.retry_after()
                || now.since(peer.advanced) >= self.config.retry * 4;
            if unanswered && quiet {
                peer.probe(upto.next());
            }
            let commit = upto.min(self.commit);
            peer.beaconed = (now, commit);
            out.send(self.me, peer.member, Message::Beacon { term: leader.term, commit, sent: now });
        }
        self.tell_splits(out);
        self.tell_merges(out);
        if self.applied < self.commit {
            self.apply(now, out); // what it waits for may be there by now
            self.after_apply(now, out);
        }
        self.try_merge(now, out);
        self.on_fill_tick(now, out);
        self.on_hand_over_tick(now, out);
        self.try_seat(now, out); // after what fell back, before it is ordered again
        self.dismiss_laggards(now, out);
        if self.backlog.iter().any(|w| w.what == Request::Read) {
            self.confirm(now, out);
        }
        self.serve_backlog(now, out);
    }

    pub(crate) fn note_leases(&mut self, now: Instant) {
        if C::breaks(Breach::LeaseCheckedBeforeRead)
            && let Role::Leading(leader) = &mut self.role
        {
            leader.leased_before = leader.read_until::<C>() > now;
        }
    }
}

impl Leader {
    /// The planted bug of R1: what most of the members have.
    fn majority(&self, own: Index) -> Index {
        let mut all: Vec<Index> = self.needed().map(|p| p.upto.unwrap_or(Index(0))).collect();
        all.push(own);
        all.sort_unstable();
        all[(all.len() - 1) / 2]
    }
}
