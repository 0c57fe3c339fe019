//! The memory that makes a repeat harmless (R12). A client that got no answer sends the same (connection, number) again; here, at
//! execution, the slot knows whether it has done that already, and what it answered then.
//!
//! Per connection: the exact set of executed numbers above a floor, each with its answer. Exact, because numbers may arrive in any
//! order: "everything up to the highest number seen" would answer for writes that never happened. At most [`REMEMBERED`]
//! are kept; when the smallest is dropped the floor rises to it, and from then on nothing at or below can be told apart, so it is
//! refused rather than guessed.
//!
//! A connection's name includes its expiry. It is remembered until then and refused after, so forgetting it is never a
//! chance to execute twice.

use std::collections::BTreeMap;

use blueprint::{Breach, Conduct};
use serde::{Deserialize, Serialize};

use crate::{Connection, Reply, errors};

/// Answers kept per connection and slot: more than a client reasonably has under way in one slot at a time.
pub const REMEMBERED: usize = 128;

/// Expired connections forgotten per command. Each command brings at most one new connection, so two at a time always catch up,
/// and no command pays for a crowd that expires at once.
const FORGOTTEN_AT_ONCE: usize = 2;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sessions {
    /// By (expires, id): the next to expire comes first.
    connections: BTreeMap<(u64, u64), Session>,
    /// About what the answers take, encoded. Not encoded itself: see [`Sessions::weigh`].
    #[serde(skip)]
    bytes: u64,
}

/// What an answer takes besides its text, about: its number, its kind, its length.
const PER_ANSWER: u64 = 6;

/// Holds: at least one answer, at most `REMEMBERED`, none below `lowest`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Session {
    /// One above the floor: the lowest number that can still be told apart.
    lowest: u64,
    answers: BTreeMap<u64, Reply>,
}

impl Sessions {
    pub(crate) const fn new() -> Self {
        Sessions { connections: BTreeMap::new(), bytes: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// The answer, if this number must not be executed.
    pub(crate) fn answer<C: Conduct>(&self, clock: u64, connection: Connection, number: u64) -> Option<Reply> {
        if clock >= connection.expires {
            return Some(errors::expired_connection());
        }
        let session = self.connections.get(&(connection.expires, connection.id))?;
        if C::breaks(Breach::SessionsByHighestNumber) {
            let (highest, newest) = session.answers.last_key_value()?;
            return (number <= *highest).then(|| session.answers.get(&number).unwrap_or(newest).clone());
        }
        if number < session.lowest {
            return Some(errors::stale_series());
        }
        session.answers.get(&number).cloned()
    }

    pub(crate) fn remember(&mut self, connection: Connection, number: u64, reply: Reply) {
        let session = self.connections.entry((connection.expires, connection.id)).or_default();
        self.bytes += weight(&reply);
        if let Some(before) = session.answers.insert(number, reply) {
            self.bytes -= weight(&before);
        }
        if session.answers.len() > REMEMBERED {
            let (smallest, oldest) = session.answers.pop_first().expect("more than one is held");
            session.lowest = smallest + 1; // cannot overflow: larger numbers are held
            self.bytes -= weight(&oldest);
        }
    }

    /// About as many bytes as their encoding takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// For what was decoded.
    pub(crate) fn weighed(mut self) -> Self {
        self.bytes = self.connections.values().map(Session::weight).sum();
        self
    }

    pub(crate) fn forget_expired(&mut self, clock: u64) {
        for _ in 0..FORGOTTEN_AT_ONCE {
            match self.connections.first_entry() {
                Some(first) if first.key().0 <= clock => self.bytes -= first.remove().weight(),
                _ => return,
            }
        }
    }

    /// For what came from outside: do the bounds of each session hold?
    pub(crate) fn is_sound(&self) -> bool {
        self.connections.values().all(|session| {
            session.answers.len() <= REMEMBERED
                && session.answers.first_key_value().is_some_and(|(&number, _)| number >= session.lowest)
        })
    }
}

impl Session {
    fn weight(&self) -> u64 {
        self.answers.values().map(weight).sum()
    }
}

/// Without a look into arrays: a write that answers a large one is rare.
fn weight(reply: &Reply) -> u64 {
    let text = match reply {
        Reply::Value(text)
        | Reply::Error(text)
        | Reply::Simple(text)
        | Reply::Verbatim(text)
        | Reply::BigNumber(text) => text.len(),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => 8 * items.len(),
        Reply::Map(pairs) => 16 * pairs.len(),
        Reply::Ok | Reply::Nil | Reply::Number(_) | Reply::NilArray | Reply::Double(_) | Reply::Boolean(_) => 0,
    };
    text as u64 + PER_ANSWER
}

#[cfg(test)]
mod tests {
    use super::*;
    use blueprint::Honest;

    const CONNECTION: Connection = Connection { id: 7, expires: 1000 };

    fn executed(sessions: &mut Sessions, number: u64) {
        assert_eq!(sessions.answer::<Honest>(0, CONNECTION, number), None);
        sessions.remember(CONNECTION, number, Reply::Number(number as i64));
        assert!(sessions.is_sound());
    }

    #[test]
    fn a_repeat_gets_the_first_answer_and_a_gap_is_executed() {
        let mut sessions = Sessions::default();
        executed(&mut sessions, 1);
        executed(&mut sessions, 3);
        assert_eq!(sessions.answer::<Honest>(0, CONNECTION, 1), Some(Reply::Number(1)));
        assert_eq!(sessions.answer::<Honest>(0, CONNECTION, 3), Some(Reply::Number(3)));
        executed(&mut sessions, 2);
        executed(&mut sessions, 0);
        executed(&mut sessions, u64::MAX);
    }

    #[test]
    fn the_floor_rises_with_what_is_dropped() {
        let mut sessions = Sessions::default();
        for number in 1..=REMEMBERED as u64 {
            executed(&mut sessions, number * 10);
        }
        executed(&mut sessions, 11); // between the smallest and the next: 10 is dropped
        for stale in [0, 9, 10] {
            assert_eq!(sessions.answer::<Honest>(0, CONNECTION, stale), Some(errors::stale_series()));
        }
        assert_eq!(sessions.answer::<Honest>(0, CONNECTION, 11), Some(Reply::Number(11)));
        executed(&mut sessions, 12); // 11 is dropped
        assert_eq!(sessions.answer::<Honest>(0, CONNECTION, 11), Some(errors::stale_series()));
    }

    /// A late number may be the very one that is dropped: it was executed once, and never is again.
    #[test]
    fn the_smallest_may_be_the_newcomer() {
        let mut sessions = Sessions::default();
        for number in 1..=REMEMBERED as u64 {
            executed(&mut sessions, number * 10);
        }
        executed(&mut sessions, 5);
        assert_eq!(sessions.answer::<Honest>(0, CONNECTION, 5), Some(errors::stale_series()));
        assert_eq!(sessions.answer::<Honest>(0, CONNECTION, 10), Some(Reply::Number(10)));
        executed(&mut sessions, 6);
    }

    #[test]
    fn an_expired_connection_is_refused_then_forgotten() {
        let mut sessions = Sessions::default();
        for id in 0..3 {
            sessions.remember(Connection { id, expires: 1000 }, 1, Reply::Ok);
        }
        sessions.forget_expired(999);
        assert_eq!(sessions.connections.len(), 3);
        let repeat =
            |sessions: &Sessions, clock| sessions.answer::<Honest>(clock, Connection { id: 0, expires: 1000 }, 1);
        assert_eq!(repeat(&sessions, 999), Some(Reply::Ok));
        assert_eq!(repeat(&sessions, 1000), Some(errors::expired_connection()));
        sessions.forget_expired(1000);
        assert_eq!(sessions.connections.len(), 1, "two at a time");
        sessions.forget_expired(1000);
        assert!(sessions.is_empty());
        assert_eq!(repeat(&sessions, 1000), Some(errors::expired_connection()), "not executed again");
    }

    #[derive(Clone, Copy, Default)]
    struct ByHighest;

    impl Conduct for ByHighest {
        fn breaks(breach: Breach) -> bool {
            breach == Breach::SessionsByHighestNumber
        }
    }

    #[test]
    fn planted_bug_answers_for_what_never_happened() {
        let mut sessions = Sessions::default();
        sessions.remember(CONNECTION, 5, Reply::Number(5));
        assert_eq!(sessions.answer::<ByHighest>(0, CONNECTION, 4), Some(Reply::Number(5)));
        assert_eq!(sessions.answer::<ByHighest>(0, CONNECTION, 6), None);
    }
}
