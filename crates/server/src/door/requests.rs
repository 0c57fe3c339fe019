//! What clients asked, and the requests under way in this lane, found again by their numbers.

use std::rc::Rc;

use blueprint::Instant;
use bytes::Bytes;
use node::{Door, Places};
use tokio::sync::oneshot;
use values::{Command, Reply, Spread};

use super::Connection;
use super::keyspace::Chosen;
use super::order::{Concern, Spot};

/// A request of so many bytes may hop apart from others: see `link`, which counts all of the frame.
const LARGE: usize = crate::link::LARGE_HOP / 2;

/// What a client asked, at its place in the client's queue.
pub(crate) struct Asked {
    pub(crate) place: u64,
    pub(crate) keyspace: Chosen,
    pub(crate) what: What,
    /// Some: it was asked before.
    pub(crate) until: Option<Instant>,
}

pub(crate) enum What {
    /// It concerns one slot.
    One(Command),
    /// Keys of several slots.
    Spread(Spread),
    Wide(Command),
}

impl Asked {
    pub(crate) fn concern(&self) -> Concern {
        match &self.what {
            What::One(command) => concern_of(self.keyspace, command),
            What::Spread(_) | What::Wide(_) => Concern::All,
        }
    }
}

impl What {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::One(command) | Self::Wide(command) => bytes_of(command),
            Self::Spread(spread) => spread.parts().iter().map(bytes_of).sum(),
        }
    }
}

pub(crate) fn concern_of(keyspace: Chosen, command: &Command) -> Concern {
    match command.slot().map(|slot| Spot { keyspace, slot }) {
        Ok(spot) if command.is_write() => Concern::Write { spot, large: bytes_of(command) >= LARGE },
        Ok(spot) => Concern::Read(spot),
        Err(_) => Concern::All,
    }
}

/// What its words take, here and on a link: an empty one takes something too.
fn bytes_of(command: &Command) -> usize {
    command.words().iter().map(|word| word.len() + size_of::<Bytes>()).sum()
}

pub(crate) struct Request {
    pub(crate) asker: Asker,
    pub(crate) keyspace: Chosen,
    pub(crate) command: Command,
    pub(crate) door: Door,
    /// Nobody asks for it again after that.
    pub(crate) until: Instant,
}

pub(crate) enum Asker {
    Client { connection: Rc<Connection>, place: u64 },
    Task(oneshot::Sender<Reply>),
}

/// Those under way, by their numbers.
pub(crate) type Requests = Places<Request>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_empty_words_are_a_large_request() {
        let mut words = vec![Bytes::from_static(b"RPUSH"), Bytes::from_static(b"k")];
        let parse = |words: &[Bytes]| Command::parse(words).expect("it has a key and an element");
        let concern = |words: &[Bytes]| concern_of(Chosen::Default, &parse(words));
        words.push(Bytes::new());
        assert!(matches!(concern(&words), Concern::Write { large: false, .. }));
        words.resize(LARGE, Bytes::new());
        assert!(matches!(concern(&words), Concern::Write { large: true, .. }));
    }
}
