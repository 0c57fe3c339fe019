//! The directory: what this node says about itself, and what it hears of the others. The registrar carries it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use blueprint::{Breach, BucketId, Conduct, Instant, NodeId};
use bytes::Bytes;
use reactor::{BucketRow, NodeRow};
use registrar::{Edit, Phase, Ticket};

use crate::desk::{Desk, ROW_LIFE};
use crate::io::{Output, PeerMessage};

/// So often everything is said again, and positions and sizes that changed are told.
const REFRESH: Duration = Duration::from_secs(10);
const POSITIONS: Duration = Duration::from_secs(1);

/// What was last said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    node: Option<NodeRow>,
    buckets: BTreeMap<BucketId, BucketRow>,
    refreshed: Instant,
    positions: Instant,
    ticket: u64,
}

impl<C: Conduct> Desk<C> {
    pub(crate) fn step_registrar(&mut self, now: Instant, input: registrar::Input, out: &mut Vec<Output>) {
        let mut outbox = registrar::Outbox::default();
        self.registrar.step(now, input, &mut outbox);
        let mut has_resumed = false;
        for output in outbox.drain() {
            match output {
                registrar::Output::Send(envelope) => {
                    out.push(Output::Send { to: envelope.to, message: PeerMessage::Directory(envelope) });
                }
                registrar::Output::Changed { owner, key } => self.on_row_changed(now, owner, &key),
                registrar::Output::Event(registrar::Event::Away { peer }) => {
                    self.directory_changed = true;
                    self.unheed(peer);
                }
                registrar::Output::Event(registrar::Event::Live { .. }) => self.directory_changed = true,
                registrar::Output::Event(registrar::Event::Resumed { .. }) => has_resumed = true,
                registrar::Output::Write { .. }
                | registrar::Output::Updated { .. }
                | registrar::Output::Refused { .. }
                | registrar::Output::Event(_) => {}
            }
        }
        self.flush_directory = true;
        self.directory_steps += 1;
        if std::mem::take(&mut self.leaver_heard) {
            self.share_directory(now, out); // or it would be given another part before the next upkeep
        }
        if has_resumed && !C::breaks(Breach::EarlierLifeSaidAgain) {
            // What an earlier life said came back with the pulls. Nobody hears it before this is taken back with the same flush.
            self.publish(now, out);
        }
    }

    /// Says what is new about this node. What is said at once is heard at once: nothing is sent before the flush.
    pub(crate) fn publish(&mut self, now: Instant, out: &mut Vec<Output>) {
        let refresh = now.since(self.published.refreshed) >= REFRESH;
        let positions = refresh || now.since(self.published.positions) >= POSITIONS;
        let buckets: BTreeMap<BucketId, BucketRow> = self.rows().map(|(bucket, row)| (bucket, *row)).collect();
        let mut node = self.node_row();
        if let Some(said) = self.published.node.filter(|_| !positions) {
            (node.bytes, node.free) = (said.bytes, said.free);
        }
        let mut edits = Vec::new();
        if refresh || self.published.node != Some(node) {
            edits.push(put(node_key(), &node));
        }
        for (bucket, row) in &buckets {
            let same = self.published.buckets.get(bucket).is_some_and(|old| match positions {
                true => old == row,
                false => old == &BucketRow { applied: old.applied, last: old.last, bytes: old.bytes, ..*row },
            });
            if refresh || !same {
                edits.push(put(bucket_key(*bucket), row));
            }
        }
        // Also what an earlier life of this node said, and what came back from those who remember it.
        let said = self.registrar.rows(now, self.id).filter_map(|row| bucket_of(&row.key));
        let gone: BTreeSet<BucketId> = said.filter(|b| !buckets.contains_key(b)).collect();
        edits.extend(gone.into_iter().map(|b| Edit::Remove { key: bucket_key(b) }));
        if refresh {
            self.published.refreshed = now;
        }
        if positions {
            self.published.positions = now;
        }
        if edits.is_empty() {
            return;
        }
        self.published.node = Some(node);
        if positions {
            self.published.buckets = buckets;
        } else {
            // A position that was not told is still to be told.
            self.published.buckets.retain(|b, _| buckets.contains_key(b));
            for (bucket, row) in buckets {
                let said = self.published.buckets.entry(bucket).or_insert(row);
                *said = BucketRow { applied: said.applied, last: said.last, bytes: said.bytes, ..row };
            }
        }
        // An update that does not fit in a message is refused: more rows are more updates.
        for edits in edits.chunks(self.config.directory.part_rows) {
            self.published.ticket += 1;
            let (ticket, edits) = (Ticket(self.published.ticket), edits.to_vec());
            self.step_registrar(now, registrar::Input::Update { ticket, edits }, out);
        }
    }

    /// What there is to say of this node as a whole.
    pub fn node_row(&self) -> NodeRow {
        let bytes = crate::facts::roughly(self.rows().map(|(_, row)| row.bytes).sum());
        NodeRow { echoed: self.blueprint.epoch, bytes, leaving: self.leaving, free: self.free }
    }

    /// A bucket of which this node says what only an earlier life of it said. Whoever hears that it has started believes its rows.
    pub(crate) fn said_by_an_earlier_life(&self) -> Option<BucketId> {
        let said = self.registrar.rows(Instant::default(), self.id).filter_map(|row| bucket_of(&row.key));
        let mut of_earlier = said.filter(|bucket| !self.published.buckets.contains_key(bucket));
        if self.registrar.phase() == Phase::Starting { None } else { of_earlier.next() }
    }

    fn on_row_changed(&mut self, now: Instant, owner: NodeId, key: &Bytes) {
        if owner == self.id {
            return;
        }
        let found = self.registrar.row(now, owner, key);
        self.directory_changed = true;
        let sighting = Arc::make_mut(&mut self.directory).sighting_mut(owner);
        sighting.heard = now;
        match (key.first(), found) {
            (Some(b'n'), Some(found)) => {
                if let Ok(row) = postcard::from_bytes::<NodeRow>(&found.value) {
                    self.leaver_heard |= row.leaving && !sighting.node.leaving;
                    sighting.node = row;
                }
            }
            (Some(b'b'), found) if self.heeded.contains(&owner) => {
                let Some(bucket) = bucket_of(key) else { return };
                let row = found.and_then(|found| postcard::from_bytes(&found.value).ok());
                match row {
                    Some(row) => sighting.buckets.insert(bucket, row),
                    None => sighting.buckets.remove(&bucket),
                };
            }
            _ => {}
        }
    }

    /// Who can be reached is known by the registrar's exchange of numbers alone.
    pub(crate) fn look_around(&mut self, now: Instant) {
        let known = |node: &NodeId| self.blueprint.nodes.contains_key(node);
        let removed: Vec<NodeId> = self.directory.iter().map(|(node, _)| node).filter(|node| !known(node)).collect();
        for node in removed {
            Arc::make_mut(&mut self.directory).forget(node);
        }
        let peers: BTreeMap<NodeId, bool> = self.registrar.peers().collect();
        // Who departed is nobody's peer, and what its rows say of its replicas may not be true of its next life.
        let away = self
            .directory
            .iter()
            .filter(|(node, s)| !peers.contains_key(node) && (s.reachable || !s.buckets.is_empty()));
        for node in away.map(|(node, _)| node).collect::<Vec<_>>() {
            self.directory_changed = true;
            Arc::make_mut(&mut self.directory).sighting_mut(node).reachable = false;
            self.unheed(node);
        }
        self.heed(now);
        for (peer, reachable) in peers {
            if self.directory.is_reachable(peer) != reachable {
                self.directory_changed = true;
                Arc::make_mut(&mut self.directory).sighting_mut(peer).reachable = reachable;
            }
        }
    }

    /// What a node says of its replicas counts from when it has started and all that it said is here, until it is away. (Otherwise: 1. n2
    /// restarts, and its replica is lost; 2. it pulls what it said in its earlier life back from others, as everyone does; 3. n1 sees
    /// it, believes the row, and gives up what is the last copy.)
    fn heed(&mut self, now: Instant) {
        let peers: Vec<NodeId> = self.registrar.peers().map(|(peer, _)| peer).collect();
        for node in peers {
            if self.registrar.is_level(node) && self.heeded.insert(node) {
                let keys: Vec<Bytes> = self.registrar.rows(now, node).map(|row| row.key).collect();
                keys.iter().for_each(|key| self.on_row_changed(now, node, key));
            }
        }
    }

    /// It is away, or its process is another one.
    fn unheed(&mut self, node: NodeId) {
        self.heeded.remove(&node);
        if self.directory.sighting(node).is_some_and(|sighting| !sighting.buckets.is_empty()) {
            self.directory_changed = true;
            Arc::make_mut(&mut self.directory).sighting_mut(node).buckets.clear();
        }
    }
}

fn put<T: serde::Serialize>(key: Bytes, row: &T) -> Edit {
    let value = postcard::to_allocvec(row).expect("a row of numbers");
    Edit::Put { key, value: value.into(), life: ROW_LIFE }
}

fn node_key() -> Bytes {
    Bytes::from_static(b"n")
}

fn bucket_of(key: &Bytes) -> Option<BucketId> {
    let id = key.strip_prefix(b"b")?.try_into().ok()?;
    Some(BucketId(u64::from_be_bytes(id)))
}

fn bucket_key(bucket: BucketId) -> Bytes {
    let mut key = vec![b'b'];
    key.extend(bucket.0.to_be_bytes());
    key.into()
}
