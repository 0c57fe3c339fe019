//! What the threads of a node send each other. Nothing is overtaken on the way; a letter that cannot be delivered is for a thread that
//! has ended, and then the process ends, too.
//!
//! Nobody waits for a thread that is slow, so what lies before one must be bounded in another way. Most of it is bounded where it comes
//! from, and is never lost:
//!
//! - requests of other lanes and their answers: a lane has at most `most_requests` of them with others (`node`, `pass.rs`)
//! - `Written`: at most two for each batch that the lane gave to the journal, and one that is stuck gives none
//! - `MetaRead`, `Rejected`: answers to what it asked (`desk.rs` has at most so many proposals and questions under way)
//! - the directory: a lane that has not said a word since the last one gets no other (`node`, `desk.rs`)
//! - clients: as many as are let in
//!
//! The rest comes from elsewhere for as long as it likes: what peers say, links that they dial, blueprints and orders that coordinators
//! repeat, and what is asked of a desk. All of that is said again by whoever means it. So beyond `MOST_WAITING` it is refused: a thread that
//! does not come round to it in time could as well not have heard it. Who hopped here is told so.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use blueprint::{Command as Proposal, NodeId, Report};
use bytes::{Bytes, BytesMut};
use node::{Door, Input, Mail, PeerMessage, Station};
use tokio::sync::{mpsc, oneshot};

use crate::EXIT_BUG;
use crate::lane::Driver;

/// Letters that lie before one thread; what a peer said counts once more for each KiB. Several seconds of a busy node, and for peers' words as
/// much as their links hold.
const MOST_WAITING: usize = 256 << 10;
/// A thread that has left so much lying, of what cannot be refused, does not run any more: it would take the desk an hour of silence to
/// get there.
const HANGS: usize = 2 * MOST_WAITING;

pub(crate) enum Letter {
    Input(Input),
    /// What a peer said to another thread, and how long that was.
    Heard {
        from: NodeId,
        message: PeerMessage,
        bytes: usize,
    },
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
    Heard {
        from: NodeId,
        message: PeerMessage,
        bytes: usize,
    },
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

pub(crate) trait Weigh {
    fn weight(&self) -> usize;
    /// Whoever means it says it again, if need be.
    fn is_said_again(&self) -> bool;
}

impl Weigh for Letter {
    fn weight(&self) -> usize {
        if let Self::Heard { bytes, .. } = self { 1 + bytes / 1024 } else { 1 }
    }

    fn is_said_again(&self) -> bool {
        match self {
            Self::Input(Input::Mail { mail: Mail::Blueprint(_) | Mail::Order(_), .. }) => true,
            // Whoever looks is told that nobody answers.
            Self::Heard { .. } | Self::Peer { .. } | Self::Look(_) => true,
            Self::Input(_) | Self::Client { .. } | Self::Leave | Self::Stop => false,
        }
    }
}

impl Weigh for DeskLetter {
    fn weight(&self) -> usize {
        if let Self::Heard { bytes, .. } = self { 1 + bytes / 1024 } else { 1 }
    }

    fn is_said_again(&self) -> bool {
        match self {
            // What a lane says of its replicas, and what it acts on, it says once.
            Self::Input(Input::Mail { mail, .. }) => matches!(mail, Mail::Beat),
            Self::Input(_) => false,
            Self::Heard { .. }
            | Self::Propose { .. }
            | Self::Report(_)
            | Self::ReadMeta { .. }
            | Self::Call { .. }
            | Self::Look(_) => true,
        }
    }
}

/// Where letters for one thread are put.
struct Slit<T> {
    letters: mpsc::UnboundedSender<T>,
    waiting: Arc<AtomicUsize>,
}

/// And where it finds them.
pub(crate) struct Letters<T> {
    letters: mpsc::UnboundedReceiver<T>,
    waiting: Arc<AtomicUsize>,
}

fn slit<T>() -> (Slit<T>, Letters<T>) {
    let (waiting, (put, take)) = (Arc::default(), mpsc::unbounded_channel());
    (Slit { letters: put, waiting: Arc::clone(&waiting) }, Letters { letters: take, waiting })
}

impl<T: Weigh> Slit<T> {
    /// False: it was refused.
    fn put(&self, letter: T) -> bool {
        let weight = letter.weight();
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting >= MOST_WAITING && letter.is_said_again() {
            return false;
        }
        if waiting >= HANGS {
            tracing::error!("a thread of this node hangs, and the process ends, so that others take over");
            std::process::exit(EXIT_BUG);
        }
        self.waiting.fetch_add(weight, Ordering::Relaxed);
        let _ended = self.letters.send(letter);
        true
    }
}

impl<T: Weigh> Letters<T> {
    pub(crate) async fn recv(&mut self) -> Option<T> {
        let letter = self.letters.recv().await?;
        self.waiting.fetch_sub(letter.weight(), Ordering::Relaxed);
        Some(letter)
    }

    #[cfg(test)]
    pub(crate) fn try_recv(&mut self) -> Option<T> {
        let letter = self.letters.try_recv().ok()?;
        self.waiting.fetch_sub(letter.weight(), Ordering::Relaxed);
        Some(letter)
    }
}

#[derive(Clone)]
pub(crate) struct Post {
    lanes: Arc<[Slit<Letter>]>,
    desk: Arc<Slit<DeskLetter>>,
    /// Which lanes have said that they run, since the desk last looked.
    beats: Arc<[AtomicBool]>,
}

impl Post {
    pub(crate) fn new(lanes: u16) -> (Self, Vec<Letters<Letter>>, Letters<DeskLetter>) {
        let (slits, letters): (Vec<_>, Vec<_>) = (0..lanes).map(|_| slit()).unzip();
        let (desk, desk_letters) = slit();
        let beats = (0..lanes).map(|_| AtomicBool::new(false)).collect();
        (Self { lanes: slits.into(), desk: Arc::new(desk), beats }, letters, desk_letters)
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

    /// What a peer said, to whom it concerns. If that has too much to do already: what to answer, if anything.
    #[must_use]
    pub(crate) fn pass_on(&self, from: NodeId, message: PeerMessage, bytes: usize) -> Option<PeerMessage> {
        let (to, refusal) = (message.station(self.lanes()), refusal_of(&message));
        let taken = match to {
            Station::Desk => self.desk.put(DeskLetter::Heard { from, message, bytes }),
            // A peer may remember more lanes than there are now; what it says to them is for nobody.
            Station::Lane(lane) => match self.lanes.get(usize::from(lane)) {
                Some(lane) => lane.put(Letter::Heard { from, message, bytes }),
                None => return None,
            },
        };
        refusal.filter(|_| !taken)
    }

    pub(crate) fn lane(&self, lane: u16, letter: Letter) {
        if let Some(lane) = self.lanes.get(usize::from(lane)) {
            let _or_said_again = lane.put(letter);
        }
    }

    pub(crate) fn desk(&self, letter: DeskLetter) {
        let _or_said_again = self.desk.put(letter);
    }

    /// That lane runs. The desk sees it when it is awake for something else, which is often enough.
    pub(crate) fn beat(&self, lane: u16) {
        if let Some(beat) = self.beats.get(usize::from(lane)) {
            beat.store(true, Ordering::Relaxed);
        }
    }

    /// Lanes that have said so since this was last asked.
    pub(crate) fn take_beats(&self) -> impl Iterator<Item = u16> {
        let has_beaten = |beat: &AtomicBool| beat.load(Ordering::Relaxed) && beat.swap(false, Ordering::Relaxed);
        (0..self.lanes()).zip(&*self.beats).filter(move |(_, beat)| has_beaten(beat)).map(|(lane, _)| lane)
    }

    /// Asks a lane something. None: it has ended, or does not come round to it.
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

/// What is not heard is not done (R12): nobody need wait for it.
fn refusal_of(message: &PeerMessage) -> Option<PeerMessage> {
    match message {
        PeerMessage::Hop { id, .. } => Some(PeerMessage::HopAnswer { id: *id, answer: node::Answer::TryAgain }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use blueprint::{BucketId, Epoch};
    use node::{Answer, BatchId, HopId};
    use values::Command;

    use super::*;

    const HUNDRED_MIB: usize = 100 << 20;
    const PEER: NodeId = NodeId(2);

    fn hop(number: u64) -> PeerMessage {
        let (id, command) = (HopId { lane: 0, number }, Command::get(Bytes::from_static(b"k")));
        PeerMessage::Hop { id, keyspace: blueprint::KeyspaceId(1), bucket: BucketId(2), hops: 1, command }
    }

    /// A lane that hangs.
    fn stuck() -> (Post, Vec<Letters<Letter>>, Letters<DeskLetter>) {
        let (post, letters, desk) = Post::new(2);
        for number in 0..3 {
            assert_eq!(post.pass_on(PEER, hop(number), HUNDRED_MIB), None, "there is room");
        }
        (post, letters, desk)
    }

    #[test]
    fn what_peers_say_to_a_lane_that_hangs_does_not_pile_up() {
        let (post, mut letters, _desk) = stuck();
        let refused = PeerMessage::HopAnswer { id: HopId { lane: 0, number: 9 }, answer: Answer::TryAgain };
        for _ in 0..10_000 {
            assert_eq!(post.pass_on(PEER, hop(9), 100), Some(refused.clone()), "who hopped is told at once");
        }
        let answer = PeerMessage::HopAnswer { id: HopId { lane: 1, number: 9 }, answer: Answer::TryAgain };
        assert_eq!(post.pass_on(PEER, answer, 100), None, "the other lane has room");
        assert!(matches!(letters[1].try_recv(), Some(Letter::Heard { .. })));
        // It goes on, and hears what was said before, and then others.
        for _ in 0..3 {
            assert!(matches!(letters[0].try_recv(), Some(Letter::Heard { from: PEER, .. })));
        }
        assert!(letters[0].try_recv().is_none());
        assert_eq!(post.pass_on(PEER, hop(10), 100), None);
        assert!(matches!(letters[0].try_recv(), Some(Letter::Heard { .. })));
    }

    #[test]
    fn what_nobody_says_again_is_never_refused() {
        let (post, mut letters, mut desk) = stuck();
        let (from, lane) = (Station::Desk, Station::Lane(0));
        let blueprint = Arc::default();
        post.input(lane, Input::Mail { from, mail: Mail::Blueprint(Arc::clone(&blueprint)) });
        post.input(lane, Input::Written { upto: BatchId(7) });
        post.input(lane, Input::Mail { from: Station::Lane(1), mail: Mail::Answers(Vec::new()) });
        post.lane(0, Letter::Stop);
        (0..3).for_each(|_| drop(letters[0].try_recv()));
        assert!(matches!(letters[0].try_recv(), Some(Letter::Input(Input::Written { upto: BatchId(7) }))));
        assert!(matches!(letters[0].try_recv(), Some(Letter::Input(Input::Mail { mail: Mail::Answers(_), .. }))));
        assert!(matches!(letters[0].try_recv(), Some(Letter::Stop)));
        assert!(letters[0].try_recv().is_none(), "a blueprint is pushed again by whoever does not hear the echo");

        for _ in 0..3 {
            assert_eq!(post.pass_on(PEER, PeerMessage::Echoed(Epoch(1)), HUNDRED_MIB), None);
        }
        let from = Station::Lane(0);
        post.input(Station::Desk, Input::Mail { from, mail: Mail::Beat });
        post.input(Station::Desk, Input::Mail { from, mail: Mail::Acted(blueprint) });
        post.desk(DeskLetter::ReadMeta { from, id: 1 });
        (0..3).for_each(|_| drop(desk.try_recv()));
        assert!(matches!(desk.try_recv(), Some(DeskLetter::Input(Input::Mail { mail: Mail::Acted(_), .. }))));
        assert!(desk.try_recv().is_none());
    }

    #[tokio::test]
    async fn who_asks_a_thread_that_hangs_is_not_kept_waiting() {
        let (post, mut letters, mut desk) = stuck();
        assert_eq!(post.ask_lane(0, |_| ()).await, None);
        for _ in 0..3 {
            assert_eq!(post.pass_on(PEER, PeerMessage::Echoed(Epoch(1)), HUNDRED_MIB), None);
        }
        assert_eq!(post.ask_desk(|_| ()).await, None);
        let carried = meta::Carrier::call(&crate::desk::Porter(post), PEER, Bytes::new()).await;
        assert_eq!(carried, Err(meta::CarryError::NotSent(PEER)), "the meta group hears that nobody heard");
        assert!(letters[0].recv().await.is_some() && desk.recv().await.is_some());
    }
}
