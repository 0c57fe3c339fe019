//! What the threads of a node send each other. Nothing is lost on the way, and nothing overtaken; a letter that cannot be delivered
//! is for a thread that has ended, and then the process ends, too.

use std::net::TcpStream;
use std::sync::Arc;

use blueprint::{Command as Proposal, NodeId, Report};
use bytes::{Bytes, BytesMut};
use node::{Door, Input, Station};
use tokio::sync::{mpsc, oneshot};

use crate::lane::Driver;

/// Between two threads there is no queue with a limit of its own: what travels is bounded where it comes in (requests under way in
/// a lane, links that drop what does not fit, one question per bucket).
pub(crate) type Letters = mpsc::UnboundedReceiver<Letter>;

pub(crate) enum Letter {
    Input(Input),
    /// A link that a peer dialled.
    Peer {
        from: NodeId,
        stream: TcpStream,
        rest: BytesMut,
    },
    Client {
        stream: TcpStream,
        door: Door,
    },
    /// Somebody wants to know something that only this thread knows.
    Look(Box<dyn FnOnce(&Driver) + Send>),
    /// The node is about to end: a bucket that it has no part in any more is not heard.
    Leave,
    /// Clients are told to go elsewhere; connections are closed.
    Stop,
}

pub(crate) enum DeskLetter {
    Input(Input),
    Propose {
        from: Station,
        command: Proposal,
    },
    Report(Report),
    ReadMeta {
        from: Station,
        id: u64,
    },
    /// A call of the meta group.
    Call {
        to: NodeId,
        body: Bytes,
        answer: oneshot::Sender<Bytes>,
        sent: oneshot::Sender<bool>,
    },
    Look(Box<dyn FnOnce(&crate::desk::Driver) + Send>),
}

#[derive(Clone)]
pub(crate) struct Post {
    lanes: Arc<[mpsc::UnboundedSender<Letter>]>,
    desk: mpsc::UnboundedSender<DeskLetter>,
}

impl Post {
    pub(crate) fn new(lanes: u16) -> (Self, Vec<Letters>, mpsc::UnboundedReceiver<DeskLetter>) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..lanes).map(|_| mpsc::unbounded_channel()).unzip();
        let (desk, letters) = mpsc::unbounded_channel();
        (Self { lanes: senders.into(), desk }, receivers, letters)
    }

    pub(crate) fn lanes(&self) -> u16 {
        self.lanes.len() as u16
    }

    pub(crate) fn input(&self, to: Station, input: Input) {
        match to {
            Station::Desk => self.desk(DeskLetter::Input(input)),
            Station::Lane(lane) => self.lane(lane, Letter::Input(input)),
        }
    }

    /// A peer may remember more lanes than there are now; what it says to them is for nobody.
    pub(crate) fn lane(&self, lane: u16, letter: Letter) {
        if let Some(lane) = self.lanes.get(usize::from(lane)) {
            let _ended = lane.send(letter);
        }
    }

    pub(crate) fn desk(&self, letter: DeskLetter) {
        let _ended = self.desk.send(letter);
    }

    /// Asks a lane something. None: it has ended.
    pub(crate) async fn ask_lane<T: Send + 'static>(
        &self,
        lane: u16,
        question: impl FnOnce(&Driver) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.lane(lane, Letter::Look(Box::new(move |driver| drop(answer.send(question(driver))))));
        answered.await.ok()
    }

    pub(crate) async fn ask_desk<T: Send + 'static>(
        &self,
        question: impl FnOnce(&crate::desk::Driver) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.desk(DeskLetter::Look(Box::new(move |driver| drop(answer.send(question(driver))))));
        answered.await.ok()
    }
}
