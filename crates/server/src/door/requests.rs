//! What clients asked, and the requests under way in this lane, found again by their numbers.

use std::rc::Rc;

use blueprint::Instant;
use bytes::Bytes;
use node::{Door, RequestId};
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

/// A number is a place in the list and how often that place was used before: an answer that comes twice finds nothing.
#[derive(Default)]
pub(crate) struct Requests {
    places: Vec<(u32, Option<Request>)>,
    free: Vec<u32>,
}

impl Requests {
    pub(crate) fn put(&mut self, request: Request) -> RequestId {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[at as usize];
        place.1 = Some(request);
        RequestId(u64::from(place.0) << 32 | u64::from(at))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// Takes those that nobody was to ask for again after this time.
    pub(crate) fn take_older_than(&mut self, limit: Instant) -> Vec<Request> {
        let mut taken = Vec::new();
        for (at, place) in self.places.iter_mut().enumerate() {
            if let Some(request) = place.1.take_if(|request| request.until < limit) {
                place.0 = place.0.wrapping_add(1);
                self.free.push(at as u32);
                taken.push(request);
            }
        }
        taken
    }

    pub(crate) fn take(&mut self, id: RequestId) -> Option<Request> {
        let (use_number, at) = ((id.0 >> 32) as u32, id.0 as u32);
        let place = self.places.get_mut(at as usize).filter(|place| place.0 == use_number)?;
        let request = place.1.take()?;
        place.0 = place.0.wrapping_add(1);
        self.free.push(at);
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn request() -> Request {
        let (answer, _) = oneshot::channel();
        let command = Command::get(Bytes::from_static(b"k"));
        Request {
            asker: Asker::Task(answer),
            keyspace: Chosen::Default,
            command,
            door: Door::Any,
            until: Instant::ZERO,
        }
    }

    #[test]
    fn a_number_is_answered_once() {
        let mut requests = Requests::default();
        let (first, second) = (requests.put(request()), requests.put(request()));
        assert!(first != second && requests.take(first).is_some() && requests.take(first).is_none());
        let third = requests.put(request());
        assert!(third != first, "the same place, another number");
        assert!(requests.take(first).is_none() && requests.take(third).is_some() && requests.take(second).is_some());
    }

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

    #[test]
    fn who_waited_too_long_is_not_answered_later() {
        let mut requests = Requests::default();
        let until = |millis| Instant::ZERO + Duration::from_millis(millis);
        let old = requests.put(Request { until: until(1), ..request() });
        let young = requests.put(Request { until: until(3), ..request() });
        assert_eq!(requests.take_older_than(until(2)).len(), 1);
        assert!(requests.take(old).is_none() && !requests.is_empty());
        assert!(requests.take(young).is_some() && requests.is_empty());
    }
}
