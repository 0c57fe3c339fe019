//! Requests on their way: to a phaser of this node, to the primary's node, or back to whoever asked.

use blueprint::{Breach, BucketId, Conduct, Instant, KeyspaceId, LaneId, NodeId, Slot};
use bytes::{Bytes, BytesMut};
use phaser::{Refusal, Served, Ticket};
use values::{Command, NoSlot, Read, Reply, Table, slot_of};

use crate::glance::Leads;
use crate::io::{Answer, Door, HopId, Origin, Output, Passed, PeerMessage, RequestId};
use crate::lane::{FollowUp, Lane};
use crate::replica::Replica;

#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) origin: Option<Origin>,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) command: Command,
    pub(crate) hops: u8,
    pub(crate) door: Door,
    /// The lane that its answer leaves from.
    pub(crate) home: u16,
    /// A read that waits for this reap to commit (R13).
    pub(crate) then: Option<Box<Pending>>,
}

/// A request that was passed on and not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Hopping {
    to: NodeId,
    origin: Origin,
    home: u16,
    writes: bool,
    until: Instant,
}

impl Pending {
    pub(crate) fn new(home: u16, origin: Origin, keyspace: KeyspaceId, command: Command) -> Self {
        Self { origin: Some(origin), keyspace, command, hops: 0, door: Door::Any, home, then: None }
    }

    fn reap(home: u16, keyspace: KeyspaceId, key: Bytes, then: Option<Box<Self>>) -> Self {
        Self { origin: None, keyspace, command: Command::reap(key), hops: 0, door: Door::Any, home, then }
    }
}

impl<C: Conduct> Lane<C> {
    pub(crate) fn on_client(
        &mut self,
        now: Instant,
        request: RequestId,
        keyspace: KeyspaceId,
        command: Command,
        door: Door,
        out: &mut Vec<Output>,
    ) {
        let origin = Origin::Client(request);
        if self.is_full() {
            return out.push(Output::Answer { origin, answer: Answer::TryAgain });
        }
        self.route(now, Pending { door, ..self.pending(origin, keyspace, command) }, out);
    }

    /// From another node, which believes that this one leads its slot.
    pub(crate) fn on_hop(&mut self, now: Instant, pending: Pending, out: &mut Vec<Output>) {
        match pending.origin {
            Some(origin) if self.is_full() => out.push(Output::Answer { origin, answer: Answer::TryAgain }),
            _ => self.route(now, pending, out),
        }
    }

    /// It has as many requests, here and with others, as it can look after.
    fn is_full(&self) -> bool {
        self.requests.len() + self.hops.len() + self.passed >= self.config.most_requests
    }

    /// To whoever leads the slot in its keyspace, as far as this node knows.
    pub(crate) fn route(&mut self, now: Instant, mut pending: Pending, out: &mut Vec<Output>) {
        let slot = match pending.command.slot() {
            Ok(slot) => slot,
            Err(why) => return self.refuse(&pending, why, out),
        };
        let keyspace = pending.keyspace;
        let bucket = self.leading(keyspace, slot).or_else(|| self.named_primary_here(keyspace, slot));
        if let Some(bucket) = bucket {
            return self.submit(now, bucket, slot, pending, out);
        }
        let Some(origin) = pending.origin else { return };
        let named = self.blueprint.bucket_of(keyspace, slot);
        let named = named.and_then(|bucket| Some((bucket.id, bucket.government()?.primary.node)));
        let may_go_on = pending.hops < self.config.most_hops;
        pending.hops = pending.hops.saturating_add(1);
        let answer = match (named, pending.door) {
            (Some((bucket, node)), _) if node == self.node && !self.lane.holds(bucket) && may_go_on => {
                let lane = LaneId::of_bucket(bucket, self.lane.of).number;
                let Pending { command, hops, door, home, .. } = pending;
                return self.pass(lane, Passed { origin, home, keyspace, command, door, hops });
            }
            (Some((_, node)), Door::Cluster) if node != self.node => Answer::Moved(node),
            (Some((bucket, node)), Door::Any) if node != self.node && may_go_on => {
                return self.hop(now, node, bucket, origin, pending, out);
            }
            (None, _) if self.was_removed(keyspace) => Answer::NoKeyspace,
            (Some(_) | None, _) => Answer::TryAgain,
        };
        self.answer(pending.home, origin, answer, out);
    }

    /// What a read finds that need not wait for anything, and until when that is good (R5): whoever asks looks at the clock after it, and asks
    /// in the ordinary way if it is late. None: also in the ordinary way.
    pub fn glimpse(&mut self, now: Instant, keyspace: KeyspaceId, command: &Command) -> Option<(Reply, Instant)> {
        let slot = command.slot().ok().filter(|_| !command.is_write())?;
        let replica = self.replicas.get_mut(&self.leads.get(keyspace, slot)??)?;
        let Served { clock, good_until } = replica.phaser.serve(now, slot)?;
        match replica.tables.read(slot, clock, command) {
            Read::Reply(reply) => Some((reply, good_until)),
            Read::Expired(_) => None,
        }
    }

    /// These commands are about to be carried out here: what they need of their tables should be at hand.
    pub fn touch<'a>(&self, commands: impl Iterator<Item = (KeyspaceId, &'a Command)>) {
        let wanted = |(keyspace, command): (KeyspaceId, &'a Command)| {
            let slot = command.slot().ok()?;
            let replica = self.replicas.get(&self.leads.get(keyspace, slot)??)?;
            replica.tables.wanted_by(command)
        };
        Table::touch(&commands.filter_map(wanted).collect::<Vec<_>>());
    }

    /// It belongs to no bucket: nothing that a node can do for it.
    fn refuse(&mut self, pending: &Pending, why: NoSlot, out: &mut Vec<Output>) {
        if let Some(origin) = pending.origin {
            self.answer(pending.home, origin, Answer::Reply(why.into()), out);
        }
    }

    /// One that is not known at all may be so new that this node has yet to hear of it.
    fn was_removed(&self, keyspace: KeyspaceId) -> bool {
        let was_issued = keyspace != KeyspaceId::default() && keyspace < self.blueprint.next_keyspace;
        was_issued && self.blueprint.routes(keyspace).is_none()
    }

    fn leading(&mut self, keyspace: KeyspaceId, slot: Slot) -> Option<BucketId> {
        if matches!(self.leads, Leads::Unknown) {
            self.leads = Leads::of(self.replicas.iter(), &self.blueprint);
        }
        self.leads.get(keyspace, slot).unwrap_or_else(|| self.look_for_leading(keyspace, slot))
    }

    fn look_for_leading(&self, keyspace: KeyspaceId, slot: Slot) -> Option<BucketId> {
        let leads = |r: &Replica<C>| r.glance.leads.is_some() && r.phaser.owned().contains(slot);
        let mut leading = self.replicas.iter().filter(|(_, r)| leads(r)).map(|(bucket, _)| *bucket);
        leading.find(|bucket| self.keyspace_of(*bucket) == Some(keyspace))
    }

    /// That of the bucket, or of the one that it was split from if it is not registered yet.
    fn keyspace_of(&self, bucket: BucketId) -> Option<KeyspaceId> {
        let mut known = bucket;
        loop {
            if let Some(bucket) = self.blueprint.buckets.get(&known) {
                return Some(bucket.keyspace);
            }
            known = *self.replicas.iter().find(|(_, r)| r.phaser.holds_split(known))?.0;
        }
    }

    /// Named primary and not leading yet: its phaser may keep the request waiting.
    fn named_primary_here(&self, keyspace: KeyspaceId, slot: Slot) -> Option<BucketId> {
        let bucket = self.blueprint.bucket_of(keyspace, slot)?;
        let here = bucket.government()?.primary.node == self.node;
        let given = self.replicas.get(&bucket.id)?.phaser.is_given();
        // What another bucket has taken over is to be had there, whether the blueprint knows or not.
        let id = bucket.bond.and_then(|bond| bond.partner()).filter(|_| given).unwrap_or(bucket.id);
        let phaser = &self.replicas.get(&id)?.phaser;
        (here && phaser.waits_for().is_some() && phaser.owned().contains(slot)).then_some(id)
    }

    fn submit(&mut self, now: Instant, bucket: BucketId, slot: Slot, pending: Pending, out: &mut Vec<Output>) {
        if C::breaks(Breach::ChildCountsParentLeases) {
            self.borrow_leases(bucket);
        }
        if !pending.command.is_write()
            && let Some(served) = self.replicas.get_mut(&bucket).and_then(|replica| replica.phaser.serve(now, slot))
        {
            let mut later = Vec::new();
            self.on_serve(bucket, pending, served, &mut later, out);
            return self.follow_up(now, bucket, later, out);
        }
        if pending.command.is_write()
            && let Some(replica) = self.replicas.get_mut(&bucket)
            && replica.phaser.takes_at_once(slot)
        {
            let number = self.requests.put(pending);
            let command = &self.requests.get(number).expect("just put there").command;
            let encode = |entry: &mut BytesMut| command.encode_into(entry);
            replica.phaser.take_at_once(now, Ticket(number), slot, command.most_bytes(), encode);
            if !std::mem::replace(&mut replica.touched, true) {
                self.touched.push(bucket);
            }
            return;
        }
        let body = pending.command.is_write().then(|| pending.command.encode());
        let ticket = Ticket(self.requests.put(pending));
        let input = match body {
            Some(body) => phaser::Input::Write { ticket, slot, body },
            None => phaser::Input::Read { ticket, slot },
        };
        self.drive(now, bucket, input, out);
    }

    fn borrow_leases(&mut self, child: BucketId) {
        let Some(mut replica) = self.replicas.remove(&child) else { return };
        if let Some(parent) = self.replicas.values().find(|r| r.phaser.holds_split(child)) {
            replica.phaser.borrow_leases(&parent.phaser);
        }
        self.replicas.insert(child, replica);
    }

    fn hop(
        &mut self,
        now: Instant,
        node: NodeId,
        bucket: BucketId,
        origin: Origin,
        pending: Pending,
        out: &mut Vec<Output>,
    ) {
        self.next_hop += 1;
        let id = HopId { lane: self.lane.number, number: self.next_hop };
        let Pending { keyspace, command, hops, home, .. } = pending;
        let until = now + self.config.hop_patience;
        self.hops.insert(id.number, Hopping { to: node, origin, home, writes: command.is_write(), until });
        let message = PeerMessage::Hop { id, keyspace, bucket, hops, command };
        out.push(Output::Send { to: node, message });
    }

    pub(crate) fn on_hop_answer(&mut self, id: HopId, answer: Answer, out: &mut Vec<Output>) {
        if let Some(Hopping { origin, home, .. }) = self.hops.remove(&id.number) {
            self.answer(home, origin, answer, out);
        }
    }

    /// Whoever got these is gone, or will answer over a link of its own, which is as good as here. Were they left to their patience,
    /// every client of a node that dies would wait that long.
    pub(crate) fn on_link_ended(&mut self, now: Instant, to: NodeId) {
        let due = now + self.config.last_answers;
        let mut stranded = false;
        for hopping in self.hops.values_mut().filter(|hopping| hopping.to == to) {
            hopping.until = hopping.until.min(due);
            stranded = true;
        }
        if stranded {
            self.stranded.push_back(due);
        }
    }

    /// R12: a write that was passed on and not answered may have happened.
    pub(crate) fn expire_hops(&mut self, now: Instant, out: &mut Vec<Output>) {
        let late: Vec<u64> = self.hops.iter().filter(|(_, h)| now >= h.until).map(|(id, _)| *id).collect();
        for id in late {
            let Some(Hopping { origin, home, writes, .. }) = self.hops.remove(&id) else { continue };
            let answer = if writes { Answer::Uncertain } else { Answer::TryAgain };
            self.answer(home, origin, answer, out);
        }
    }

    pub(crate) fn on_applied(
        &mut self,
        pending: Pending,
        reply: Reply,
        later: &mut Vec<FollowUp>,
        out: &mut Vec<Output>,
    ) {
        if let Some(read) = pending.then {
            later.push(FollowUp::Route(*read));
        }
        if let Some(origin) = pending.origin {
            self.answer(pending.home, origin, Answer::Reply(reply), out);
        }
    }

    pub(crate) fn on_serve(
        &mut self,
        bucket: BucketId,
        pending: Pending,
        Served { clock, good_until }: Served,
        later: &mut Vec<FollowUp>,
        out: &mut Vec<Output>,
    ) {
        let Some(replica) = self.replicas.get(&bucket) else { return };
        let Ok(slot) = pending.command.slot() else { return }; // it came here by its slot
        let reply = match replica.tables.read(slot, clock, &pending.command) {
            Read::Expired(key) if !C::breaks(Breach::ExpiredAnsweredBeforeReap) => {
                let reap = Pending::reap(pending.home, pending.keyspace, key, Some(Box::new(pending)));
                return later.push(FollowUp::Route(reap));
            }
            Read::Expired(_) => Reply::Nil,
            Read::Reply(reply) => reply,
        };
        let Pending { origin: Some(origin), keyspace, command, home, .. } = pending else { return };
        out.push(Output::Read { origin, home, keyspace, command, answer: Answer::Reply(reply), good_until });
    }

    pub(crate) fn on_refused(&mut self, ticket: Ticket, why: Refusal, out: &mut Vec<Output>) {
        let Some(pending) = self.requests.take(ticket.0) else { return };
        let origin = pending.origin.or_else(|| pending.then.and_then(|read| read.origin));
        if let Some(origin) = origin {
            self.answer(pending.home, origin, why.into(), out);
        }
    }

    pub(crate) fn on_forward(&mut self, ticket: Ticket, later: &mut Vec<FollowUp>, out: &mut Vec<Output>) {
        let Some(mut pending) = self.requests.take(ticket.0) else { return };
        pending.hops = pending.hops.saturating_add(1); // also bounds how often two replicas of this node can send it to and fro
        if let Some(read) = pending.then {
            later.push(FollowUp::Route(*read));
        } else if pending.hops <= self.config.most_hops {
            later.push(FollowUp::Route(pending));
        } else if let Some(origin) = pending.origin {
            self.answer(pending.home, origin, Answer::TryAgain, out);
        }
    }

    pub(crate) fn on_uncertain(&mut self, ticket: Ticket, later: &mut Vec<FollowUp>, out: &mut Vec<Output>) {
        let Some(pending) = self.requests.take(ticket.0) else { return };
        if let Some(read) = pending.then {
            later.push(FollowUp::Route(*read));
        } else if let Some(origin) = pending.origin {
            self.answer(pending.home, origin, Answer::Uncertain, out);
        }
    }

    /// The primary proposes reaping.
    pub(crate) fn reap(&mut self, now: Instant, out: &mut Vec<Output>) {
        let mut expired = Vec::new();
        for (bucket, replica) in &self.replicas {
            if replica.phaser.leads().is_some_and(|(_, serving)| serving) {
                let clock = replica.phaser.data_clock(now);
                let keys = replica.tables.iter().flat_map(|(_, table)| table.expired(clock, self.config.reap_batch));
                expired.extend(keys.take(self.config.reap_batch).map(|key| (*bucket, slot_of(&key), key)));
            }
        }
        for (bucket, slot, key) in expired {
            let keyspace = self.keyspace_of(bucket).unwrap_or_default(); // none: then nobody else leads it either
            let pending = Pending::reap(self.lane.number, keyspace, key, None);
            self.submit(now, bucket, slot, pending, out);
        }
    }
}
