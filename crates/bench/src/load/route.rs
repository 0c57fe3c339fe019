//! Who leads which slot, as a client of a Redis Cluster learns it.

use std::net::SocketAddr;
use std::time::Duration;

use blueprint::Slot;
use values::Reply;

use crate::client::Client;

const SLOTS: usize = 16384;
/// Whoever is asked answers at once or is busy dying.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub(crate) struct Routes {
    nodes: Vec<SocketAddr>,
    of_slot: Vec<Option<u16>>,
}

impl Default for Routes {
    fn default() -> Self {
        Self { nodes: Vec::new(), of_slot: vec![None; SLOTS] }
    }
}

impl Routes {
    /// As the first of them says who knows anything.
    pub(crate) fn learn(from: &[SocketAddr]) -> Option<Self> {
        from.iter().find_map(|node| {
            let reply = Client::connect(*node, PATIENCE).ok()?.ask(&["CLUSTER", "SLOTS"]).ok()?;
            Self::read(&reply, *node).filter(|routes| !routes.nodes.is_empty())
        })
    }

    fn read(reply: &Reply, asked: SocketAddr) -> Option<Self> {
        let Reply::Array(rows) = reply else { return None };
        let mut routes = Self::default();
        for row in rows {
            let Reply::Array(parts) = row else { return None };
            let [Reply::Number(first), Reply::Number(last), Reply::Array(primary), ..] = parts.as_slice() else {
                return None;
            };
            let [host, Reply::Number(port), ..] = primary.as_slice() else { return None };
            let host =
                if let Reply::Value(host) = host { String::from_utf8_lossy(host).into_owned() } else { String::new() };
            let node = SocketAddr::new(host.parse().unwrap_or(asked.ip()), u16::try_from(*port).ok()?);
            let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
            (first..=last).for_each(|slot| routes.put(slot, node));
        }
        Some(routes)
    }

    /// Slots that there are none of come from outside, too.
    pub(crate) fn put(&mut self, slot: u16, node: SocketAddr) {
        let place = self.nodes.iter().position(|known| *known == node).unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        });
        if let Some(of_slot) = self.of_slot.get_mut(usize::from(slot)) {
            *of_slot = Some(place as u16);
        }
    }

    /// All who lead something.
    pub(crate) fn nodes(&self) -> &[SocketAddr] {
        &self.nodes
    }

    /// The slots that it leads, first and last of each stretch.
    pub(crate) fn ranges_of(&self, node: SocketAddr) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in (0..SLOTS as u16).filter(|slot| self.node_of(Slot(*slot)) == Some(node)) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }

    pub(crate) fn node_of(&self, slot: Slot) -> Option<SocketAddr> {
        self.of_slot.get(usize::from(slot.0)).copied().flatten().map(|place| self.nodes[usize::from(place)])
    }
}

/// `MOVED 3999 127.0.0.1:6381`, as an error says it.
pub(crate) fn moved(error: &[u8]) -> Option<(u16, SocketAddr)> {
    let text = std::str::from_utf8(error).ok()?;
    let mut words = text.strip_prefix("MOVED ")?.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_cluster_slots() {
        let row = |first, last, host: Reply, port| {
            Reply::Array(vec![
                Reply::Number(first),
                Reply::Number(last),
                Reply::Array(vec![host, Reply::Number(port), Reply::text("id")]),
            ])
        };
        let asked: SocketAddr = ([127, 0, 0, 1], 7001).into();
        let rows = vec![row(0, 99, Reply::text("127.0.0.2"), 1), row(100, 16383, Reply::text(""), 2)];
        let routes = Routes::read(&Reply::Array(rows), asked).expect("it is understood");
        assert_eq!(routes.node_of(Slot(99)), Some(([127, 0, 0, 2], 1).into()));
        assert_eq!(routes.node_of(Slot(100)), Some(([127, 0, 0, 1], 2).into()));
        assert_eq!(routes.ranges_of(([127, 0, 0, 2], 1).into()), [(0, 99)]);
        assert!(Routes::read(&Reply::Array(vec![Reply::Number(1)]), asked).is_none());
    }

    #[test]
    fn where_it_has_moved_to() {
        assert_eq!(moved(b"MOVED 3999 127.0.0.1:6381"), Some((3999, ([127, 0, 0, 1], 6381).into())));
        assert_eq!(moved(b"MOVED here"), None);
        assert_eq!(moved(b"ERR no"), None);
    }
}
