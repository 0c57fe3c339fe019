//! A node that starts lets no client in before it knows who leads what, and can reach them: whoever came earlier would wait here for what
//! others could answer at once. Until then its ports are taken, and refuse.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant as Moment};

use blueprint::{Blueprint, Epoch, NodeId};
use meta::{Embedded, Meta};
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::time::{sleep, timeout};

use crate::post::Post;
use crate::start::ServeError;

/// A cluster that does not answer by then has other troubles, and clients are to hear of them.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(5);
/// As Redis does.
const BACKLOG: u32 = 511;

/// A port that is ours. Nobody is let in yet.
pub(crate) struct Reserved {
    address: String,
    socket: TcpSocket,
}

impl Reserved {
    pub(crate) async fn at(address: String) -> Result<Self, ServeError> {
        let bind = async {
            let resolved = lookup_host(&address).await?.next();
            let resolved = resolved.ok_or_else(|| io::Error::other("there is no such address"))?;
            let socket = if resolved.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            socket.set_reuseaddr(true)?;
            socket.bind(resolved)?;
            Ok(socket)
        };
        match bind.await {
            Ok(socket) => Ok(Self { address, socket }),
            Err(error) => Err(refused(address, error)),
        }
    }

    pub(crate) fn listen(self) -> Result<TcpListener, ServeError> {
        let Self { address, socket } = self;
        socket.listen(BACKLOG).map_err(|error| refused(address, error))
    }
}

fn refused(address: String, error: io::Error) -> ServeError {
    match error.kind() {
        io::ErrorKind::AddrInUse => ServeError::PortInUse { address },
        _ => ServeError::Listen { address, error },
    }
}

/// Every lane follows what the meta group says now, and has a link to everyone who leads anything.
pub(crate) async fn until_oriented(me: NodeId, meta: &Embedded, post: &Post) {
    let begun = Moment::now();
    let Ok(Ok(state)) = timeout(PATIENCE, meta.read()).await else { return };
    let needed = leading(me, &state.blueprint);
    let oriented = async {
        for lane in 0..post.lanes() {
            while !is_oriented(lane, state.blueprint.epoch, &needed, post).await {
                sleep(PAUSE).await;
            }
        }
    };
    let _or_late = timeout(PATIENCE.saturating_sub(begun.elapsed()), oriented).await;
}

fn leading(me: NodeId, blueprint: &Blueprint) -> BTreeSet<NodeId> {
    let governments = blueprint.buckets.values().filter_map(|bucket| bucket.government());
    let leading = governments.map(|government| government.primary.node);
    leading.filter(|node| *node != me && blueprint.is_present(*node)).collect()
}

async fn is_oriented(lane: u16, epoch: Epoch, needed: &BTreeSet<NodeId>, post: &Post) -> bool {
    let needed = needed.clone();
    let look = move |driver: &crate::lane::Driver| {
        driver.lane.borrow().blueprint().epoch >= epoch && needed.iter().all(|node| driver.links.is_up(*node))
    };
    post.ask_lane(lane, look).await.unwrap_or(true)
}
