//! Requests on their way: to a phaser of this node, to the primary's node, or back to whoever asked.

use blueprint::{Breach, BucketId, Conduct, Instant, KeyspaceId, NodeId, Slot};
use bytes::Bytes;
use phaser::{Refusal, Ticket};
use values::{Command, Read, Reply};

use crate::io::{Answer, Door, Origin, Output, PeerMessage, RequestId};
use crate::node::{FollowUp, Node};
use crate::replica::Replica;

/// The keyspace that every connection works in so far.
const DEFAULT_KEYSPACE: KeyspaceId = KeyspaceId(1);

#[derive(Clone, Debug)]
pub(crate) struct Pending {
    origin: Option<Origin>,
    command: Command,
    hops: u8,
    door: Door,
    /// A read that waits for this reap to commit (R13).
    then: Option<Box<Pending>>,
}

/// A request that was passed on and not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Hopping {
    origin: Origin,
    writes: bool,
    until: Instant,
}

impl Pending {
    pub(crate) fn new(origin: Origin, command: Command, hops: u8) -> Self {
        Self { origin: Some(origin), command, hops, door: Door::Any, then: None }
    }

    fn reap(key: Bytes, then: Option<Box<Self>>) -> Self {
        Self { origin: None, command: Command::Reap { key }, hops: 0, door: Door::Any, then }
    }
}

impl<C: Conduct> Node<C> {
    pub(crate) fn on_client(
        &mut self,
        now: Instant,
        request: RequestId,
        command: Command,
        door: Door,
        out: &mut Vec<Output>,
    ) {
        let origin = Origin::Client(request);
        if self.requests.len() + self.hops.len() >= self.config.most_requests {
            return out.push(Output::Answer { origin, answer: Answer::TryAgain });
        }
        self.route(now, Pending { door, ..Pending::new(origin, command, 0) }, out);
    }

    /// To whoever leads the slot, as far as this node knows.
    pub(crate) fn route(&mut self, now: Instant, mut pending: Pending, out: &mut Vec<Output>) {
        let slot = pending.command.slot();
        let bucket = self.leading(slot).or_else(|| self.named_primary_here(slot));
        if let Some(bucket) = bucket {
            return self.submit(now, bucket, slot, pending, out);
        }
        let Some(origin) = pending.origin else { return };
        let primary = self.primary_of(slot).filter(|node| *node != self.id);
        let answer = match (primary, pending.door) {
            (Some(node), Door::Cluster) => Answer::Moved(node),
            (Some(node), Door::Any) if pending.hops < self.config.most_hops => {
                pending.hops += 1;
                return self.hop(now, node, origin, pending, out);
            }
            (Some(_) | None, _) => Answer::TryAgain,
        };
        out.push(Output::Answer { origin, answer });
    }

    fn leading(&self, slot: Slot) -> Option<BucketId> {
        let leads = |r: &Replica<C>| r.phaser.leads().is_some() && r.phaser.owned().contains(slot);
        let mut leading = self.replicas.iter().filter(|(_, r)| leads(r)).map(|(bucket, _)| *bucket);
        leading.find(|bucket| self.keyspace_of(*bucket) == Some(DEFAULT_KEYSPACE))
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
    fn named_primary_here(&self, slot: Slot) -> Option<BucketId> {
        let bucket = self.blueprint.bucket_of(DEFAULT_KEYSPACE, slot)?;
        let here = bucket.government()?.primary.node == self.id;
        let ascends = self.replicas.get(&bucket.id)?.phaser.waits_for().is_some();
        (here && ascends && self.replicas[&bucket.id].phaser.owned().contains(slot)).then_some(bucket.id)
    }

    fn primary_of(&self, slot: Slot) -> Option<NodeId> {
        Some(self.blueprint.bucket_of(DEFAULT_KEYSPACE, slot)?.government()?.primary.node)
    }

    fn submit(&mut self, now: Instant, bucket: BucketId, slot: Slot, pending: Pending, out: &mut Vec<Output>) {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        let input = if pending.command.is_write() {
            phaser::Input::Write { ticket, slot, body: pending.command.encode() }
        } else {
            phaser::Input::Read { ticket, slot }
        };
        self.requests.insert(ticket, pending);
        if C::breaks(Breach::ChildCountsParentLeases) {
            self.borrow_leases(bucket);
        }
        self.drive(now, bucket, input, out);
    }

    fn borrow_leases(&mut self, child: BucketId) {
        let Some(mut replica) = self.replicas.remove(&child) else { return };
        if let Some(parent) = self.replicas.values().find(|r| r.phaser.holds_split(child)) {
            replica.phaser.borrow_leases(&parent.phaser);
        }
        self.replicas.insert(child, replica);
    }

    fn hop(&mut self, now: Instant, node: NodeId, origin: Origin, pending: Pending, out: &mut Vec<Output>) {
        self.next_ticket += 1;
        let id = self.next_ticket;
        let until = now + self.config.hop_patience;
        self.hops.insert(id, Hopping { origin, writes: pending.command.is_write(), until });
        let message = PeerMessage::Hop { id, hops: pending.hops, command: pending.command };
        out.push(Output::Send { to: node, message });
    }

    pub(crate) fn on_hop_answer(&mut self, _now: Instant, id: u64, answer: Answer, out: &mut Vec<Output>) {
        if let Some(hopping) = self.hops.remove(&id) {
            out.push(Output::Answer { origin: hopping.origin, answer });
        }
    }

    /// R12: a write that was passed on and not answered may have happened.
    pub(crate) fn expire_hops(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.hops.retain(|_, hopping| {
            if now >= hopping.until {
                let answer = if hopping.writes { Answer::Uncertain } else { Answer::TryAgain };
                out.push(Output::Answer { origin: hopping.origin, answer });
            }
            now < hopping.until
        });
    }

    pub(crate) fn on_applied(
        &mut self,
        ticket: Ticket,
        reply: Option<Reply>,
        later: &mut Vec<FollowUp>,
        out: &mut Vec<Output>,
    ) {
        let Some(pending) = self.requests.remove(&ticket) else { return };
        if let Some(read) = pending.then {
            later.push(FollowUp::Route(*read));
        }
        if let (Some(origin), Some(reply)) = (pending.origin, reply) {
            out.push(Output::Answer { origin, answer: Answer::Reply(reply) });
        }
    }

    pub(crate) fn on_serve(
        &mut self,
        bucket: BucketId,
        ticket: Ticket,
        clock: u64,
        good_until: Instant,
        later: &mut Vec<FollowUp>,
        out: &mut Vec<Output>,
    ) {
        let Some(pending) = self.requests.remove(&ticket) else { return };
        let Some(origin) = pending.origin else { return };
        let Some(replica) = self.replicas.get(&bucket) else { return };
        let slot = pending.command.slot();
        let read = match replica.tables.get(slot) {
            Some(table) => table.read(clock, &pending.command),
            None => values::Table::new().read(clock, &pending.command),
        };
        match read {
            Read::Expired(key) if !C::breaks(Breach::ExpiredAnsweredBeforeReap) => {
                later.push(FollowUp::Route(Pending::reap(key, Some(Box::new(pending)))));
            }
            Read::Expired(_) => {
                let answer = Answer::Reply(Reply::Nil);
                out.push(Output::Read { origin, command: pending.command, answer, good_until });
            }
            Read::Reply(reply) => {
                let answer = Answer::Reply(reply);
                out.push(Output::Read { origin, command: pending.command, answer, good_until });
            }
        }
    }

    pub(crate) fn on_refused(&mut self, ticket: Ticket, why: Refusal, out: &mut Vec<Output>) {
        let Some(pending) = self.requests.remove(&ticket) else { return };
        let origin = pending.origin.or_else(|| pending.then.and_then(|read| read.origin));
        if let Some(origin) = origin {
            out.push(Output::Answer { origin, answer: why.into() });
        }
    }

    pub(crate) fn on_forward(&mut self, ticket: Ticket, later: &mut Vec<FollowUp>, out: &mut Vec<Output>) {
        let Some(mut pending) = self.requests.remove(&ticket) else { return };
        pending.hops = pending.hops.saturating_add(1); // also bounds how often two replicas of this node can send it to and fro
        if let Some(read) = pending.then {
            later.push(FollowUp::Route(*read));
        } else if pending.hops <= self.config.most_hops {
            later.push(FollowUp::Route(pending));
        } else if let Some(origin) = pending.origin {
            out.push(Output::Answer { origin, answer: Answer::TryAgain });
        }
    }

    pub(crate) fn on_uncertain(&mut self, ticket: Ticket, later: &mut Vec<FollowUp>, out: &mut Vec<Output>) {
        let Some(pending) = self.requests.remove(&ticket) else { return };
        if let Some(read) = pending.then {
            later.push(FollowUp::Route(*read));
        } else if let Some(origin) = pending.origin {
            out.push(Output::Answer { origin, answer: Answer::Uncertain });
        }
    }

    /// The primary proposes reaping.
    pub(crate) fn reap(&mut self, now: Instant, out: &mut Vec<Output>) {
        let mut expired = Vec::new();
        for (bucket, replica) in &self.replicas {
            if replica.phaser.leads().is_some_and(|(_, serving)| serving) {
                let clock = replica.phaser.data_clock(now);
                let keys = replica.tables.iter().flat_map(|(_, table)| table.expired(clock, self.config.reap_batch));
                expired.extend(keys.take(self.config.reap_batch).map(|key| (*bucket, key)));
            }
        }
        for (bucket, key) in expired {
            let pending = Pending::reap(key, None);
            self.submit(now, bucket, pending.command.slot(), pending, out);
        }
    }
}
