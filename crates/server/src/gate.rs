//! Where peers come in: who they are is settled here, before anything that they say is looked at.

use std::io;
use std::time::Duration;

use blueprint::NodeId;
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::link;
use crate::wire::{self, End, Hello, LONGEST_GREETING, MAGIC, PROTOCOL, Welcome};

/// Whoever has not said who it is by then is nobody.
const PATIENCE: Duration = Duration::from_secs(3);

/// Who we are, for whoever asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) node: NodeId,
    /// 0: none yet.
    pub(crate) cluster: u128,
}

/// A peer that belongs here, and what it has already said after its greeting.
pub(crate) struct Visitor {
    pub(crate) hello: Hello,
    pub(crate) stream: TcpStream,
    pub(crate) rest: BytesMut,
}

/// Reads the greeting, and answers it. Who dials for a lane is answered when that runs: what it says before would lie there unread, and
/// whoever hopped here would not know.
pub(crate) async fn receive(
    mut stream: TcpStream,
    host: Host,
    mut lanes_run: watch::Receiver<bool>,
) -> io::Result<Visitor> {
    stream.set_nodelay(true)?;
    link::watch(&stream)?;
    let greeted = timeout(PATIENCE, read_greeting(&mut stream)).await;
    let (hello, rest) = greeted.map_err(|_| io::Error::other("no greeting within three seconds"))??;
    let answer = judge(&hello, host);
    if matches!(answer, Welcome::Come { .. }) && hello.end != End::Desk {
        let running = timeout(PATIENCE, lanes_run.wait_for(|run| *run)).await;
        running.map_err(|_| io::Error::other("the lanes do not run yet"))?.map_err(io::Error::other)?;
    }
    let mut bytes = Vec::new();
    wire::put(&mut bytes, &answer);
    stream.write_all(&bytes).await?;
    match answer {
        Welcome::Come { .. } => Ok(Visitor { hello, stream, rest }),
        Welcome::Stay { why } => Err(io::Error::other(why)),
    }
}

fn judge(hello: &Hello, host: Host) -> Welcome {
    let why = if hello.protocol != PROTOCOL {
        format!(
            "this node speaks protocol {PROTOCOL}, the one that dials speaks {}: run the same version of godwit on both",
            hello.protocol
        )
    } else if host.cluster == 0 {
        "this node belongs to no cluster yet: start it with --init, or let it join one".to_owned()
    } else if hello.cluster == 0 && hello.end != End::Desk {
        "the one that dials belongs to no cluster: it may ask to join this one, and nothing else".to_owned()
    } else if hello.cluster != 0 && hello.cluster != host.cluster {
        format!(
            "this node belongs to cluster {:032x}, the one that dials to {:032x}: one of them has the wrong address, or the wrong \
             data directory",
            host.cluster, hello.cluster
        )
    } else if hello.to.is_none() && hello.end != End::Desk {
        // R10: what lanes say of buckets names no nodes; the greeting has to.
        "the one that dials does not say whom it means: only who asks to join may leave that out".to_owned()
    } else if hello.to.is_some_and(|to| to != host.node) {
        let to = hello.to.unwrap_or(host.node);
        format!("{to} was dialled, and this is {}: the address in the blueprint is another node's now", host.node)
    } else if hello.from == host.node {
        format!("{} dials itself: two nodes have the same data directory or a copy of it", host.node)
    } else {
        return Welcome::Come { node: host.node, cluster: host.cluster };
    };
    Welcome::Stay { why }
}

async fn read_greeting(stream: &mut TcpStream) -> io::Result<(Hello, BytesMut)> {
    let mut buffer = BytesMut::with_capacity(256);
    loop {
        if stream.read_buf(&mut buffer).await? == 0 {
            return Err(io::Error::other("it hung up before it greeted"));
        }
        let seen = buffer.len().min(MAGIC.len());
        if buffer[..seen] != MAGIC[..seen] {
            return Err(io::Error::other("it does not speak the language of peers"));
        }
        if buffer.len() <= MAGIC.len() {
            continue;
        }
        let mut rest = buffer.clone();
        rest.advance(MAGIC.len());
        if let Some(hello) = wire::take(&mut rest, LONGEST_GREETING).map_err(io::Error::other)? {
            return Ok((hello, rest));
        }
        if buffer.len() > LONGEST_GREETING {
            return Err(io::Error::other("a greeting longer than any"));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::link::{Caller, dial};

    /// What is said to a lane before that runs would lie there unread: its greeting is not answered until then. A desk's is.
    #[tokio::test]
    async fn who_dials_for_a_lane_is_welcome_when_that_runs() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let (run_lanes, lanes_run) = watch::channel(false);
        let host = Host { node: NodeId(1), cluster: 7 };
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("it listens");
                tokio::spawn(receive(stream, host, lanes_run.clone()));
            }
        });
        let call = async |end| {
            let caller = Caller { node: NodeId(2), cluster: 7, end };
            dial(caller, Some(NodeId(1)), &address).await.map(|(_, welcome)| welcome)
        };
        let welcome = Welcome::Come { node: NodeId(1), cluster: 7 };
        let mut lane = std::pin::pin!(call(End::Lane(0)));
        for _ in 0..10 {
            tokio::select! {
                biased;
                answer = &mut lane => panic!("nobody is there yet: {answer:?}"),
                answer = call(End::Desk) => assert_eq!(answer.expect("a desk is always there"), welcome),
            }
        }
        run_lanes.send_replace(true);
        assert_eq!(lane.await.expect("it runs"), welcome);
        assert_eq!(call(End::Bulk(0)).await.expect("it runs"), welcome);
    }
}
