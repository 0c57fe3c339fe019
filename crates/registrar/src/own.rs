//! What an owner does: it gives each of its updates a number, above everything that it, or anyone, ever knew of it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use blueprint::{Breach, Conduct, Instant, NodeId};

use crate::config::{Level, ROW_OVERHEAD};
use crate::durable::Record;
use crate::holding::{Held, State, row_bytes};
use crate::io::{Edit, Event, Outbox, Output, Refusal, Ticket, WriteId};
use crate::number::UpdateNumber;
use crate::part::{Key, Part};
use crate::registrar::{Registrar, Stage, tell};
use crate::succession::Taken;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Own {
    /// The newest number given out. At level `Durable` what can be seen and pushed may be behind it.
    pub(crate) last: UpdateNumber,
    /// What the disk brought back: an owner's disk is never behind what it pushed.
    stored: UpdateNumber,
    /// Updates that wait for the end of the start.
    pub(crate) waits: VecDeque<Unnumbered>,
    /// Updates that wait for the disk, in the order of their numbers.
    pub(crate) unwritten: VecDeque<Unwritten>,
    /// Whose rows this node takes over, and how far it is.
    pub(crate) predecessors: BTreeMap<NodeId, Taken>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Unnumbered {
    ticket: Ticket,
    pub(crate) since: Instant,
    rows: Vec<(Key, State)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Unwritten {
    write: WriteId,
    pub(crate) since: Instant,
    update: Update,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Update {
    pub(crate) number: UpdateNumber,
    /// None when it is the machine's own.
    pub(crate) ticket: Option<Ticket>,
    /// Whether nothing from before it can be built on.
    pub(crate) is_reset: bool,
    pub(crate) rows: Vec<(Key, Held)>,
}

impl<C: Conduct> Registrar<C> {
    pub(crate) fn recover_own(&mut self) {
        let me = self.life.node;
        self.own.last = self.known(me).unwrap_or_default();
        self.own.stored = self.own.last;
        let Some(holding) = self.holdings.get(&me) else { return };
        let taken = holding.predecessors().map(|(old, upto)| {
            let by = holding.get(&Key::Predecessor(old)).map(|mark| (mark.number, mark.number));
            (old, Taken { upto, by: by.into_iter().collect() })
        });
        self.own.predecessors = taken.collect();
    }

    pub(crate) fn on_update(&mut self, now: Instant, ticket: Ticket, edits: &[Edit], out: &mut Outbox) {
        if let Err(why) = self.admit(edits) {
            return out.push(Output::Refused { ticket, why });
        }
        let rows = edits.iter().map(|edit| match edit {
            Edit::Put { key, value, life } => {
                (Key::Name(key.clone()), State::Value { bytes: value.clone(), expires: now + *life })
            }
            Edit::Remove { key } => (Key::Name(key.clone()), State::Gone),
        });
        // A key that is edited twice is as it was left.
        let rows: BTreeMap<Key, State> = rows.collect();
        self.own.waits.push_back(Unnumbered { ticket, since: now, rows: rows.into_iter().collect() });
        self.issue_waiting(now, out);
    }

    fn admit(&self, edits: &[Edit]) -> Result<(), Refusal> {
        let config = &self.config;
        let bytes = edits.iter().map(|edit| match edit {
            Edit::Put { key, value, .. } => key.len() + value.len() + ROW_OVERHEAD,
            Edit::Remove { key } => key.len() + ROW_OVERHEAD,
        });
        let is_too_long = |edit: &Edit| matches!(edit, Edit::Put { life, .. } if *life > config.longest_life);
        let held = self.holdings.get(&self.life.node).map_or(0, |holding| holding.len());
        if edits.is_empty() {
            Err(Refusal::Empty)
        } else if edits.len() > config.part_rows || bytes.sum::<usize>() > config.part_bytes {
            Err(Refusal::TooLarge)
        } else if edits.iter().any(is_too_long) {
            Err(Refusal::LivesTooLong)
        } else if held + edits.len() > config.owner_rows {
            Err(Refusal::TooManyRows)
        } else if self.own.waits.len() + self.own.unwritten.len() >= config.waiting_updates {
            Err(Refusal::Busy)
        } else {
            Ok(())
        }
    }

    fn issue_waiting(&mut self, now: Instant, out: &mut Outbox) {
        while self.stage >= Stage::Numbering
            && let Some(Unnumbered { ticket, since, rows }) = self.own.waits.pop_front()
        {
            let kept_until = since + self.config.keep();
            let number = self.own.last.next();
            let rows = rows.into_iter().map(|(key, state)| (key, Held { number, state, kept_until })).collect();
            self.issue(now, Update { number, ticket: Some(ticket), is_reset: false, rows }, out);
        }
    }

    /// At level `Durable` nobody, not even here, sees an update that is not safe: a number is pushed only once it is.
    pub(crate) fn issue(&mut self, now: Instant, update: Update, out: &mut Outbox) {
        let onto = core::mem::replace(&mut self.own.last, update.number);
        match self.config.level {
            Level::Ephemeral => self.apply_own(update, out),
            Level::Durable => {
                let record = self.record_of(now, onto, &update);
                let write = self.disk.push(record);
                self.own.unwritten.push_back(Unwritten { write, since: now, update });
            }
        }
    }

    fn record_of(&self, now: Instant, onto: UpdateNumber, update: &Update) -> Record {
        let rows = update.rows.iter().map(|(key, held)| held.row(key, &self.config, now)).collect();
        let upto = update.number;
        let before = self.holdings.get(&self.life.node).map(|holding| holding.floor).unwrap_or_default();
        let floor = if update.is_reset { upto } else { before };
        let part = Part { onto, after: onto, upto, as_of: upto, floor, rows };
        Record { owner: self.life.node, part, wall: self.wall(now) }
    }

    /// Updates on their way to the disk, as records that follow what is held.
    pub(crate) fn unwritten_records(&self, now: Instant) -> Vec<Record> {
        let mut onto = self.known(self.life.node).unwrap_or_default();
        let record = |unwritten: &Unwritten| {
            let before = core::mem::replace(&mut onto, unwritten.update.number);
            self.record_of(now, before, &unwritten.update)
        };
        self.own.unwritten.iter().map(record).collect()
    }

    pub(crate) fn on_written(&mut self, upto: WriteId, out: &mut Outbox) {
        if !self.disk.has_issued(upto) {
            return;
        }
        while let Some(unwritten) = self.own.unwritten.pop_front_if(|unwritten| unwritten.write <= upto) {
            self.apply_own(unwritten.update, out);
        }
    }

    fn apply_own(&mut self, update: Update, out: &mut Outbox) {
        let Update { number, ticket, is_reset, rows } = update;
        let me = self.life.node;
        let taken: Vec<(NodeId, UpdateNumber)> = rows.iter().filter_map(|(key, held)| held.taken_over(key)).collect();
        let holding = self.holdings.entry(me).or_default();
        let changed = holding.merge::<C>(rows, number);
        if is_reset {
            holding.floor = number.min(holding.known);
        }
        changed.into_iter().for_each(|key| tell(me, key, out));
        for (old, upto) in taken {
            self.forget_taken_over(old, upto).into_iter().for_each(|key| tell(old, key, out));
        }
        if let Some(ticket) = ticket {
            out.push(Output::Updated { ticket, number });
        }
    }

    /// My row of that key, be it on its way to the disk.
    pub(crate) fn newest_own(&self, key: &Key) -> Option<&Held> {
        let unwritten = self.own.unwritten.iter().rev().flat_map(|unwritten| &unwritten.update.rows);
        let unwritten = unwritten.filter(|(k, _)| k == key).map(|(_, held)| held).next();
        unwritten.or_else(|| self.holdings.get(&self.life.node)?.get(key))
    }

    // ---- numbers

    /// Whatever others hold of my own updates, and could be had, is here.
    pub(crate) fn resume(&mut self, now: Instant, out: &mut Outbox) {
        self.stage = Stage::Numbering;
        let highest = self.peers.values().map(|peer| peer.claim(self.life.node)).fold(self.own.last, UpdateNumber::max);
        // Who kept its disk, and finds nobody with more, goes on where it was: what others have can be built on. Anyone else may
        // yet meet a peer that was out of reach, and has something of an earlier life.
        let is_continuous = self.config.level == Level::Durable && highest == self.own.stored;
        self.reset(now, highest, !is_continuous, out);
        out.event(Event::Resumed { above: self.own.last });
        self.issue_waiting(now, out);
    }

    /// Whatever else could be had is here, too: from now on others may push.
    pub(crate) fn become_operating(&mut self, now: Instant, out: &mut Outbox) {
        self.stage = Stage::Operating;
        out.event(Event::Operating);
        let heard: Vec<NodeId> = self.peers.iter().filter(|(_, p)| !p.is_away()).map(|(node, _)| *node).collect();
        heard.into_iter().for_each(|node| self.announce(now, node, out));
    }

    /// A peer holds more of my updates than I gave out: it is of an earlier life, and the clock went back since.
    pub(crate) fn renumber(&mut self, now: Instant, theirs: UpdateNumber, out: &mut Outbox) {
        self.reset(now, theirs, true, out);
        out.event(Event::Renumbered { above: self.own.last });
    }

    /// The counter begins anew, above the clock and above everything that is known of this owner.
    fn reset(&mut self, now: Instant, highest: UpdateNumber, is_reset: bool, out: &mut Outbox) {
        let life = self.life.number;
        let clock = UpdateNumber::reset_at(self.wall(now), life);
        let number =
            if clock > highest || C::breaks(Breach::OwnerResumesBelow) { clock } else { highest.reset_above(life) };
        self.issue(now, Update { number, ticket: None, is_reset, rows: Vec::new() }, out);
    }

    /// Rows in as many updates as it takes, each of which fits in a message.
    pub(crate) fn issue_rows(&mut self, now: Instant, rows: Vec<(Key, Held)>, out: &mut Outbox) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for (key, held) in rows {
            let size = row_bytes(&key, &held);
            if !batch.is_empty() && (batch.len() == self.config.part_rows || bytes + size > self.config.part_bytes) {
                self.issue_batch(now, core::mem::take(&mut batch), out);
                bytes = 0;
            }
            bytes += size;
            batch.push((key, held));
        }
        self.issue_batch(now, batch, out);
    }

    fn issue_batch(&mut self, now: Instant, rows: Vec<(Key, Held)>, out: &mut Outbox) {
        let number = self.own.last.next();
        let rows = rows.into_iter().map(|(key, held)| (key, Held { number, ..held })).collect();
        self.issue(now, Update { number, ticket: None, is_reset: false, rows }, out);
    }
}
