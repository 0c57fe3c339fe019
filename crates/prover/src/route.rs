//! Where one client asks. Any node will do when the cluster passes requests on by itself; a Redis Cluster wants to be asked at the right
//! one, and says so with `MOVED`.

use std::collections::BTreeMap;
use std::time::Duration;

use blueprint::Slot;
use bytes::Bytes;
use values::Reply;

use crate::connection::{Connection, Silence};
use crate::rng::Rng;

const SLOTS: usize = 16384;
/// How long one answer may take. Longer than a change of primaries: whoever holds the request meanwhile may still answer it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// More addresses than any cluster that this is for: `MOVED` must not fill the memory.
const MOST_ADDRESSES: usize = 1000;

#[derive(Debug)]
pub(crate) struct Route {
    addresses: Vec<String>,
    open: BTreeMap<usize, Connection>,
    rng: Rng,
    manner: Manner,
    /// The address that was asked last.
    here: usize,
}

#[derive(Debug)]
enum Manner {
    Any,
    Cluster(SlotMap),
}

#[derive(Debug)]
pub(crate) enum Attempt {
    Replied(Reply),
    /// Nobody was there to hear it.
    Unsent,
    Unknown(Silence),
}

impl Route {
    pub(crate) fn any(addresses: Vec<String>, seed: u64) -> Self {
        Self::new(addresses, seed, Manner::Any)
    }

    pub(crate) fn cluster(addresses: Vec<String>, seed: u64) -> Self {
        Self::new(addresses, seed, Manner::Cluster(SlotMap::default()))
    }

    fn new(addresses: Vec<String>, seed: u64, manner: Manner) -> Self {
        assert!(!addresses.is_empty(), "somebody must be there to be asked");
        let mut rng = Rng::new(seed);
        let here = rng.below(addresses.len() as u64) as usize;
        Self { addresses, open: BTreeMap::new(), rng, manner, here }
    }

    pub(crate) async fn ask(&mut self, slot: Slot, words: &[Bytes]) -> Attempt {
        if matches!(&self.manner, Manner::Cluster(map) if map.is_doubtful) {
            self.learn().await;
        }
        if let Manner::Cluster(map) = &self.manner
            && let Some(node) = map.node_of(slot)
        {
            self.here = node;
        }
        self.ask_here(words).await
    }

    /// Turns to another node, because the last one was of no use.
    pub(crate) fn turn(&mut self) {
        self.here = self.rng.below(self.addresses.len() as u64) as usize;
        if let Manner::Cluster(map) = &mut self.manner {
            map.is_doubtful = true;
        }
    }

    /// A node that serves is as good as another, and all should be asked: to be called between two operations.
    pub(crate) fn wander(&mut self) {
        if matches!(self.manner, Manner::Any) && self.rng.percent(10) {
            self.turn();
        }
    }

    /// Somebody said where the slot is. It is rarely the only one that moved: what is not known for sure is asked for again.
    pub(crate) fn on_moved(&mut self, slot: u16, address: &str) {
        let node = self.index_of(address);
        match &mut self.manner {
            Manner::Cluster(map) => {
                map.put(slot, node);
                (map.is_doubtful, map.moved) = (true, Some((slot, node)));
            }
            Manner::Any => self.here = node,
        }
    }

    async fn ask_here(&mut self, words: &[Bytes]) -> Attempt {
        let here = self.here;
        if let Some(connection) = self.open.get(&here)
            && connection.is_over().await
        {
            self.open.remove(&here);
        }
        if !self.open.contains_key(&here) {
            match Connection::open(&self.addresses[here]).await {
                Ok(connection) => _ = self.open.insert(here, connection),
                Err(_) => return Attempt::Unsent,
            }
        }
        let connection = self.open.get_mut(&here).expect("opened just now, or before");
        match connection.ask(words, PATIENCE).await {
            Ok(reply) => Attempt::Replied(reply),
            Err(silence) => {
                self.open.remove(&here);
                Attempt::Unknown(silence)
            }
        }
    }

    /// Asks anybody who has which slots. If nobody says, the old map has to do: whoever is asked in vain says `MOVED`.
    async fn learn(&mut self) {
        let words = [Bytes::from_static(b"CLUSTER"), Bytes::from_static(b"SLOTS")];
        let first = self.rng.below(self.addresses.len() as u64) as usize;
        for offset in 0..self.addresses.len() {
            self.here = (first + offset) % self.addresses.len();
            if let Attempt::Replied(Reply::Array(rows)) = self.ask_here(&words).await
                && !rows.is_empty()
            {
                let asked = self.addresses[self.here].clone();
                let known: Vec<(u16, u16, usize)> = rows
                    .iter()
                    .filter_map(|row| parse_row(row, &asked))
                    .map(|(first, last, address)| (first, last, self.index_of(&address)))
                    .collect();
                if let Manner::Cluster(map) = &mut self.manner {
                    known
                        .into_iter()
                        .for_each(|(first, last, node)| (first..=last).for_each(|slot| map.put(slot, node)));
                    // Whoever says `MOVED` knows better than whoever draws the map.
                    if let Some((slot, node)) = map.moved.take() {
                        map.put(slot, node);
                    }
                    map.is_doubtful = false;
                }
                return;
            }
        }
    }

    fn index_of(&mut self, address: &str) -> usize {
        let address = with_host(address, &self.addresses[self.here]);
        match self.addresses.iter().position(|known| *known == address) {
            Some(index) => index,
            None if self.addresses.len() >= MOST_ADDRESSES => self.here,
            None => {
                self.addresses.push(address);
                self.addresses.len() - 1
            }
        }
    }
}

/// Who has which slot, as far as we were told.
#[derive(Debug)]
struct SlotMap {
    nodes: Vec<Option<u16>>,
    /// To be asked for again before it is used.
    is_doubtful: bool,
    /// What was said last, since then.
    moved: Option<(u16, usize)>,
}

impl Default for SlotMap {
    fn default() -> Self {
        Self { nodes: vec![None; SLOTS], is_doubtful: true, moved: None }
    }
}

impl SlotMap {
    fn node_of(&self, slot: Slot) -> Option<usize> {
        self.nodes.get(usize::from(slot.0)).copied().flatten().map(usize::from)
    }

    /// Slots that there are none of come from outside, too.
    fn put(&mut self, slot: u16, node: usize) {
        if let (Some(place), Ok(node)) = (self.nodes.get_mut(usize::from(slot)), u16::try_from(node)) {
            *place = Some(node);
        }
    }
}

/// First slot, last slot and the primary's address of a row of `CLUSTER SLOTS`.
fn parse_row(row: &Reply, asked: &str) -> Option<(u16, u16, String)> {
    let Reply::Array(parts) = row else { return None };
    let [Reply::Number(first), Reply::Number(last), Reply::Array(primary), ..] = parts.as_slice() else { return None };
    let [host, Reply::Number(port), ..] = primary.as_slice() else { return None };
    let host = match host {
        Reply::Value(host) => std::str::from_utf8(host).ok()?,
        _ => "",
    };
    let address = with_host(&format!("{host}:{port}"), asked);
    Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok().filter(|last| usize::from(*last) < SLOTS)?, address))
}

/// No host, or `?`: that of the node that was asked.
fn with_host(address: &str, asked: &str) -> String {
    match (address.rsplit_once(':'), asked.rsplit_once(':')) {
        (Some(("" | "?", port)), Some((host, _))) => format!("{host}:{port}"),
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(first: i64, last: i64, host: Reply, port: i64) -> Reply {
        let primary = Reply::Array(vec![host, Reply::Number(port), Reply::text("id")]);
        Reply::Array(vec![Reply::Number(first), Reply::Number(last), primary])
    }

    #[test]
    fn rows_of_cluster_slots() {
        let asked = "10.0.0.1:7001";
        let parsed = |row: &Reply| parse_row(row, asked);
        assert_eq!(parsed(&row(0, 5460, Reply::text("10.0.0.2"), 7002)), Some((0, 5460, "10.0.0.2:7002".into())));
        assert_eq!(parsed(&row(0, 5460, Reply::text(""), 7002)), Some((0, 5460, "10.0.0.1:7002".into())));
        assert_eq!(parsed(&row(0, 5460, Reply::Nil, 7002)), Some((0, 5460, "10.0.0.1:7002".into())));
        assert_eq!(parsed(&row(0, 16384, Reply::text("h"), 7002)), None, "there is no such slot");
        assert_eq!(parsed(&row(-1, 5, Reply::text("h"), 7002)), None);
        assert_eq!(parsed(&Reply::Number(1)), None);
    }
}
